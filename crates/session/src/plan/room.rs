//! What each chosen experiment may write in the directory for files.

use bench::device::share;
use bench::experiment::{DirFacts, Site};

/// The site where what may be written is divided among the chosen experiments by their shares. (By
/// need, what one leaves would go to files of the memory's size; a longer preset then has less room
/// for some case than a shorter one.)
pub(super) fn shared(site: &Site, ids: &[&'static str]) -> Site {
    let Some(dir) = &site.dir else { return site.clone() };
    let writers = || ids.iter().copied().filter(|id| share(id) > 0);
    let shares: u64 = writers().map(share).sum();
    let portion = |id| (id, dir.allowance_bytes / shares.max(1) * share(id));
    let portions = writers().map(portion).collect();
    Site { dir: Some(DirFacts { portions, ..dir.clone() }), ..site.clone() }
}
