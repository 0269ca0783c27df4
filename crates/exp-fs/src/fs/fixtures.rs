//! A directory for tests: on a disk of some kind, or a real one that is measured in.

use bench::experiment::fixtures::{self, with_dir};
use bench::experiment::{AnyExperiment, Preset, Site};
use session::fixtures::{Rehearsed, here_with, is_plain, rehearse_in};
use tempfile::TempDir;

/// A disk's name, whether it spins, and what a run may write there.
pub(super) fn on_disk(name: &str, spins: bool, allowance_bytes: u64) -> Site {
    with_dir(fixtures::on_disk(name, spins, "write back", "rw"), "/x", allowance_bytes)
}

/// A directory of a test's own, and this machine with it.
pub(super) fn place() -> (TempDir, Site) {
    let dir = tempfile::tempdir().expect("a directory");
    let site = here_with(dir.path());
    (dir, site)
}

pub(super) fn rehearsed(
    experiment: &dyn AnyExperiment,
    set: &[(&str, &str)],
) -> (TempDir, Rehearsed) {
    let (dir, site) = place();
    let rehearsed = rehearse_in(experiment, &site, Preset::Rehearsal, set);
    (dir, rehearsed)
}

/// Whether cases failed as they may on file systems that keep their files in memory, or lack direct
/// reads; that part of the test is then skipped.
pub(super) fn is_without_direct(dir: &TempDir, rehearsed: &Rehearsed) -> bool {
    let failed = &rehearsed.failed;
    let may = failed.iter().all(|(_, reason)| reason.contains("cache:"));
    assert!(failed.is_empty() || may && !is_plain(dir.path()), "{failed:?}");
    if !failed.is_empty() {
        skips::part("file-system", format!("{failed:?}"));
    }
    !failed.is_empty()
}
