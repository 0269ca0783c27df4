//! What core designs can move: memory instructions per cycle, the path to the second cache, lines
//! in flight, and the memory that sockets of that time have.

use crate::cpu::peak;
use crate::{designs, scaled};
use bench::experiment::Site;
use host::{Arch, Core};
use record::event::Range;

#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    /// Loads per cycle, of at most 16, of 32 and of 64 bytes.
    pub(super) loads: [f64; 3],
    pub(super) stores: [f64; 3],
    /// Loads and stores together per cycle.
    pub(super) both: [f64; 3],
    /// Whether nothing of the design starts more, so that the product is a bound, and the share
    /// that a stream in the first cache reaches; above 1 where the row may be short.
    pub(super) reached: (bool, Range),
    /// Bytes per cycle that a stream of loads gets from the second cache.
    pub(super) second: Range,
    /// The same from the third cache, whatever the lines in flight.
    pub(super) third: Range,
    /// Lines of one core on their way from beyond the second cache, prefetched ones too.
    pub(super) lines: Range,
    /// Peak of the memory of a socket, in B/s: of few cores, and of many.
    pub(super) client: Range,
    pub(super) server: Range,
}

/// The design of a core; for an unknown design an interval over all that it can be, marked `false`.
pub(super) fn design(site: &Site, core: Core) -> (Design, bool) {
    let (row, is_known) = designs::row("memory.move", core, unknown(site));
    let [reached, _, _, _, second, third, lines, client, server] = row.ranges();
    let [_, loads, stores, both, ..] = row.cells[..] else { panic!("[memory.move] has 9 columns") };
    let is_firm = designs::table("memory.reached")[0].range(0) == reached;
    let reached = (is_firm, reached);
    let [client, server] = [client, server].map(|peak| scaled(peak, 1e9));
    (Design { loads, stores, both, reached, second, third, lines, client, server }, is_known)
}

/// The row of what the host's architecture leaves open.
pub(super) fn unknown(site: &Site) -> &'static str {
    match site.host.cpu.arch {
        Arch::Aarch64 => "any_arm",
        _ if is_old(site) => "old",
        _ => "any",
    }
}

/// Whether the cores are from before 2011 or small ones of the years after: x86 without AVX.
fn is_old(site: &Site) -> bool {
    site.host.cpu.has("sse2") && !site.host.cpu.has("avx")
}

/// The design of the cores under some CPUs where they are of one and it is known.
pub(super) fn design_of(site: &Site, cpus: &[usize]) -> Option<(Design, Core)> {
    let core = peak::design_of(site, cpus)?;
    let (row, is_known) = design(site, core);
    is_known.then_some((row, core))
}

/// Whether cores store whole lines without reading them first. Arm's reference manuals call it
/// write streaming mode, in Cortex-A53 read allocate mode; unknown cores are taken to have it, as
/// published figures of eMAG and Carmel suggest. The figures of ThunderX2 and A64FX show the reads;
/// those of the other makers' cores decide nothing.
pub(super) fn streams_stores(site: &Site, core: Core) -> bool {
    use Core::*;
    let apples = [AppleIcestorm, AppleFirestorm, AppleBlizzard, AppleAvalanche];
    let reads =
        matches!(core, ThunderX2 | Tsv110 | A64fx | AmpereOne | Ampere1A) || apples.contains(&core);
    site.host.cpu.arch == Arch::Aarch64 && !reads
}

#[cfg(test)]
mod tests {
    use super::{Design, design};
    use bench::experiment::fixtures::bare_site;
    use host::Core;

    #[test]
    fn rows_are_ordered() {
        for core in Core::ALL {
            let (row, _) = design(&bare_site(), *core);
            let Design { second, third, lines, client, server, .. } = row;
            for range in [row.reached.1, second, third, lines, client, server] {
                assert!(range.low <= range.likely && range.likely <= range.high);
            }
            for ((loads, stores), both) in row.loads.iter().zip(row.stores).zip(row.both) {
                assert!((loads.max(stores)..=loads + stores).contains(&both), "{}", core.name());
            }
        }
        assert!(!design(&bare_site(), Core::Unknown).1);
    }
}
