//! What core designs can move: memory instructions per cycle, the path to the second cache, lines
//! in flight, and the memory that sockets of that time have.
//!
//! Written from memory of published values, not looked up row by row; the intervals are meant to
//! cover that. Instructions per cycle stand in Intel's optimisation manual (248966), AMD's
//! optimisation guides (families 17h, 19h, 1Ah), Arm's guides per core and at uops.info; lines in
//! flight are the first cache's miss buffers (10 to 16, 22 to 24 on Zen), stretched by what
//! prefetchers into the second cache add, as one-thread bandwidths times latencies of such machines
//! suggest. Bytes per cycle from the third cache: Intel's manual names about 18 for Skylake; the
//! other likely values, and lines of Silvermont, Gracemont, TSV110, A64FX, Cortex-A53 to A75, Zen 4
//! and Zen 5, are set by the runs that the sheets hold.

use super::cores::{designs, row};
use crate::cpu::peak;
use crate::range;
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
    row(TABLE, core).map_or_else(|| (unknown(site), false), |design| (design, true))
}

/// Whatever the host's architecture leaves open.
fn unknown(site: &Site) -> Design {
    match site.host.cpu.arch {
        Arch::Aarch64 => ANY_ARM,
        _ if is_old(site) => OLD,
        _ => ANY,
    }
}

/// Whether the cores are from before 2011 or small ones of the years after: x86 without AVX.
pub(super) fn is_old(site: &Site) -> bool {
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

const FIRM: (bool, Range) = (true, range(0.58, 0.93, 1.02));
const SOFT: (bool, Range) = (false, range(0.45, 0.9, 1.1));
const LOOSE: (bool, Range) = (false, range(0.2, 0.8, 1.6));

type Ends = (f64, f64, f64);

#[expect(clippy::too_many_arguments, reason = "the columns of a table")]
const fn moves(
    reached: (bool, Range),
    loads: [f64; 3],
    stores: [f64; 3],
    both: [f64; 3],
    second: Ends,
    third: Ends,
    lines: Ends,
    client: Ends,
    server: Ends,
) -> Design {
    const fn from_ends(ends: Ends, unit: f64) -> Range {
        range(ends.0 * unit, ends.1 * unit, ends.2 * unit)
    }
    let (second, third, lines) =
        (from_ends(second, 1.0), from_ends(third, 1.0), from_ends(lines, 1.0));
    let (client, server) = (from_ends(client, 1e9), from_ends(server, 1e9));
    Design { loads, stores, both, reached, second, third, lines, client, server }
}

// Of these and the table: loads, stores and both per cycle of 16, 32 and 64 bytes; bytes per cycle
// from the second cache and the third, lines in flight, memory of a client and of a server in GB/s.
#[rustfmt::skip]
const ANY: Design = moves(LOOSE, [2.0, 2.0, 2.0], [1.0, 1.0, 1.0], [3.0, 3.0, 3.0],
    (4.0, 20.0, 64.0), (3.0, 14.0, 50.0), (3.0, 16.0, 70.0), (6.0, 35.0, 140.0), (25.0, 150.0, 850.0));
/// Most Arm cores that the table lacks are newer or larger than those that it has.
#[rustfmt::skip]
const ANY_ARM: Design = moves(LOOSE, [2.0, 1.0, 0.5], [2.0, 1.0, 0.5], [3.0, 1.5, 0.75],
    (4.0, 24.0, 64.0), (3.0, 16.0, 50.0), (2.0, 26.0, 100.0), (6.0, 60.0, 400.0), (25.0, 170.0, 850.0));
#[rustfmt::skip]
const OLD: Design = moves(LOOSE, [1.0, 0.5, 0.25], [1.0, 0.5, 0.25], [1.5, 0.75, 0.4],
    (2.0, 8.0, 20.0), (2.0, 6.0, 14.0), (2.0, 5.0, 12.0), (3.0, 10.6, 25.6), (6.4, 21.3, 43.0));

// Sunny Cove stores twice a cycle where both stores are of one line, as a stream's are; Zen 3 has
// three loads and two stores of general registers.
#[rustfmt::skip]
static TABLE: &[(&[Core], Design)] = designs! { moves;
    [Nehalem Westmere] => FIRM, [1.0, 0.5, 0.25], [1.0, 0.5, 0.25], [2.0, 1.0, 0.5],
        (9.0, 14.0, 24.0), (4.0, 8.0, 14.0), (6.0, 10.0, 18.0), (8.5, 21.3, 32.0), (17.0, 32.0, 43.0);
    [SandyBridge IvyBridge] => FIRM, [2.0, 1.0, 0.5], [1.0, 0.5, 0.25], [2.0, 1.5, 0.75],
        (14.0, 20.0, 30.0), (6.0, 9.5, 16.0), (9.5, 13.0, 18.0), (10.6, 21.3, 25.6), (25.0, 51.2, 60.0);
    [Haswell Broadwell] => FIRM, [2.0, 2.0, 1.0], [1.0, 1.0, 0.5], [3.0, 3.0, 1.5],
        (22.0, 32.0, 50.0), (6.5, 12.0, 20.0), (9.5, 13.0, 18.0), (12.8, 25.6, 34.1), (34.0, 68.0, 77.0);
    [SkylakeClient] => FIRM, [2.0, 2.0, 1.0], [1.0, 1.0, 0.5], [3.0, 3.0, 1.5],
        (22.0, 32.0, 50.0), (9.0, 16.0, 26.0), (12.0, 18.0, 26.0), (17.0, 38.4, 51.2), (34.0, 68.0, 77.0);
    [SkylakeServer PalmCove] => FIRM, [2.0, 2.0, 2.0], [1.0, 1.0, 1.0], [3.0, 3.0, 3.0],
        (30.0, 43.0, 62.0), (6.0, 11.5, 18.0), (11.0, 19.0, 30.0), (17.0, 38.4, 51.2), (42.0, 128.0, 141.0);
    [SunnyCove WillowCove CypressCove] => FIRM, [2.0, 2.0, 2.0], [2.0, 2.0, 1.0], [4.0, 4.0, 3.0],
        (30.0, 43.0, 62.0), (7.0, 13.0, 24.0), (13.0, 21.0, 34.0), (17.0, 51.2, 68.0), (51.0, 205.0, 205.0);
    [GoldenCove RaptorCove RedwoodCove] => FIRM, [3.0, 3.0, 2.0], [2.0, 2.0, 1.0], [5.0, 5.0, 3.0],
        (30.0, 43.0, 62.0), (6.0, 16.0, 30.0), (18.0, 32.0, 52.0), (25.0, 77.0, 140.0), (100.0, 307.0, 850.0);
    [Core2 Penryn] => SOFT, [1.0, 0.5, 0.25], [1.0, 0.5, 0.25], [2.0, 1.0, 0.5],
        (4.0, 10.0, 20.0), (2.0, 8.0, 14.0), (3.0, 7.0, 12.0), (4.2, 8.5, 12.8), (6.4, 12.8, 25.6);
    [Silvermont Airmont] => LOOSE, [1.0, 0.5, 0.25], [1.0, 0.5, 0.25], [1.0, 0.5, 0.25],
        (4.0, 10.0, 20.0), (3.0, 8.0, 16.0), (4.0, 7.0, 12.0), (8.5, 17.1, 34.1), (10.6, 25.6, 115.0);
    [Goldmont GoldmontPlus] => LOOSE, [2.0, 1.0, 0.5], [2.0, 1.0, 0.5], [4.0, 2.0, 1.0],
        (7.0, 16.0, 40.0), (4.0, 10.0, 25.0), (5.0, 12.0, 28.0), (10.0, 40.0, 100.0), (25.0, 100.0, 700.0);
    [Tremont Gracemont Crestmont Skymont] => LOOSE, [2.0, 1.0, 0.5], [2.0, 1.0, 0.5], [4.0, 2.0, 1.0],
        (7.0, 16.0, 40.0), (4.0, 10.0, 25.0), (8.0, 18.0, 36.0), (10.0, 40.0, 100.0), (25.0, 100.0, 700.0);
    [Zen ZenPlus] => SOFT, [2.0, 1.0, 0.5], [1.0, 0.5, 0.25], [2.0, 1.0, 0.5],
        (14.0, 25.0, 33.0), (14.0, 25.0, 33.0), (17.0, 27.0, 42.0), (17.0, 43.0, 52.0), (42.0, 171.0, 171.0);
    [Zen2] => SOFT, [2.0, 2.0, 1.0], [1.0, 1.0, 0.5], [3.0, 3.0, 1.5],
        (14.0, 25.0, 33.0), (14.0, 25.0, 33.0), (17.0, 27.0, 42.0), (20.0, 51.2, 68.0), (51.0, 205.0, 205.0);
    [Zen3] => SOFT, [3.0, 2.0, 1.0], [2.0, 1.0, 0.5], [3.0, 3.0, 1.5],
        (14.0, 25.0, 33.0), (12.0, 24.0, 33.0), (20.0, 32.0, 48.0), (20.0, 51.2, 68.0), (51.0, 205.0, 205.0);
    [Zen4 Zen4c] => SOFT, [3.0, 2.0, 1.0], [2.0, 1.0, 0.5], [3.0, 3.0, 1.5],
        (14.0, 25.0, 33.0), (14.0, 25.0, 33.0), (30.0, 50.0, 80.0), (38.0, 83.0, 102.0), (150.0, 461.0, 461.0);
    [Zen5 Zen5c] => SOFT, [4.0, 2.0, 2.0], [2.0, 2.0, 1.0], [4.0, 4.0, 3.0],
        (26.0, 42.0, 65.0), (18.0, 36.0, 60.0), (38.0, 64.0, 105.0), (38.0, 83.0, 102.0), (190.0, 576.0, 615.0);
    [CortexA76 CortexA77 CortexA78 CortexA710 CortexA715 NeoverseN1 NeoverseN2 NeoverseN3 AmpereOne Ampere1A ThunderX2] => LOOSE, [2.0, 1.0, 0.5], [2.0, 1.0, 0.5], [2.0, 1.0, 0.5],
        (10.0, 24.0, 50.0), (6.0, 18.0, 45.0), (12.0, 26.0, 48.0), (12.0, 34.0, 100.0), (60.0, 205.0, 410.0);
    [Tsv110] => LOOSE, [2.0, 1.0, 0.5], [2.0, 1.0, 0.5], [2.0, 1.0, 0.5],
        (10.0, 24.0, 50.0), (6.0, 18.0, 45.0), (7.0, 14.0, 30.0), (12.0, 34.0, 100.0), (60.0, 205.0, 410.0);
    [CortexA57 CortexA72 CortexA73 CortexA75] => LOOSE, [1.0, 0.5, 0.25], [1.0, 0.5, 0.25], [2.0, 1.0, 0.5],
        (5.0, 12.0, 30.0), (4.0, 10.0, 24.0), (3.0, 9.0, 24.0), (3.0, 17.0, 34.0), (13.0, 43.0, 77.0);
    // 256-byte lines, four of the others; a socket is four stacks of HBM2.
    [A64fx] => LOOSE, [2.0, 2.0, 2.0], [1.0, 1.0, 1.0], [2.0, 2.0, 2.0],
        (24.0, 48.0, 64.0), (24.0, 48.0, 64.0), (36.0, 72.0, 120.0), (1024.0, 1024.0, 1024.0), (1024.0, 1024.0, 1024.0);
    [CortexX1 CortexX2 CortexX3 NeoverseV1 NeoverseV2 NeoverseV3] => LOOSE, [3.0, 1.5, 0.75], [2.0, 1.0, 0.5], [3.0, 1.5, 0.75],
        (14.0, 32.0, 64.0), (8.0, 22.0, 55.0), (16.0, 38.0, 80.0), (12.0, 34.0, 100.0), (100.0, 307.0, 600.0);
    [CortexA53 CortexA55 CortexA510] => LOOSE, [1.0, 0.5, 0.25], [1.0, 0.5, 0.25], [1.5, 0.75, 0.4],
        (2.0, 6.0, 16.0), (1.5, 5.0, 16.0), (1.0, 3.5, 12.0), (2.0, 10.0, 40.0), (4.0, 20.0, 100.0);
};

#[cfg(test)]
mod tests {
    use super::{Design, TABLE, design};
    use bench::experiment::fixtures::bare_site;
    use host::Core;

    #[test]
    fn rows_are_ordered_and_every_design_has_at_most_one() {
        for core in Core::ALL {
            let rows = TABLE.iter().filter(|(cores, _)| cores.contains(core));
            assert!(rows.count() <= 1, "{}", core.name());
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
