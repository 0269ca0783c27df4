//! Load-to-use latencies of core designs in core cycles, for a pointer in a general register.
//!
//! Written from memory of the usual published values, not looked up row by row; the intervals are
//! meant to cover that, and where such values disagree. They stand in Intel's optimisation
//! reference manual, AMD's optimisation guides, Arm's optimisation guides and reference manuals, A.
//! Fog, "The microarchitecture of Intel, AMD and VIA CPUs", and ladders measured by
//! chipsandcheese.com and 7-cpu.com. The row of Redwood Cove was adjusted on one virtual machine. A
//! shared cache has two figures: beside few cores on a ring or in one complex, and behind the mesh
//! of a many-core part.

use crate::range;
use host::Core;
use record::event::Range;

/// What a design takes, in core cycles; main memory in ns beyond the last cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadCosts {
    pub(super) l1: Range,
    pub(super) l2: Range,
    /// Last-level cache of few cores.
    pub(super) near: Range,
    /// Last-level cache behind a mesh.
    pub(super) mesh: Range,
    /// What main memory adds to the last cache, in ns.
    pub(super) memory_ns: Range,
    /// Kind of memory that the designs are sold with.
    pub(super) memory: &'static str,
}

/// The costs of a design; for an unknown design, an interval over all, marked `false`.
pub(super) fn costs(core: Core) -> (LoadCosts, bool) {
    row(TABLE, core).map_or((ANY, false), |costs| (costs, true))
}

/// What memory of this kind adds to the last cache, in ns: row activation, column access, transfer,
/// controller and fabric.
pub(super) fn memory_ns(kind: &str) -> Option<Range> {
    MEMORY.iter().find(|(name, _)| kind.starts_with(name)).map(|(_, range)| *range)
}

/// KiB of the first three caches of a core, where the machine does not describe them: Arm kernels
/// without the firmware's tables do not, nor do many guests on Arm. Written from memory of the
/// designs' reference manuals, not looked up; implementers choose among sizes.
pub(super) fn usual_sizes(core: Core) -> [Range; 3] {
    use Core::*;
    let third = range(4096.0, 16384.0, 65536.0);
    let of = |first: f64, low: f64, likely: f64, high: f64| {
        [range(first, first, first), range(low, likely, high), third]
    };
    match core {
        CortexA53 | CortexA55 | CortexA510 => of(32.0, 128.0, 512.0, 1024.0),
        CortexA57 | CortexA72 | CortexA73 | CortexA75 => of(32.0, 256.0, 1024.0, 2048.0),
        CortexA76 | CortexA77 | CortexA78 | CortexA710 | CortexA715 => {
            of(64.0, 256.0, 512.0, 512.0)
        }
        CortexX1 | CortexX2 | CortexX3 | NeoverseN1 | NeoverseN2 | NeoverseN3 | NeoverseV1 => {
            of(64.0, 512.0, 1024.0, 1024.0)
        }
        NeoverseV2 | NeoverseV3 | AmpereOne | Ampere1A => of(64.0, 1024.0, 2048.0, 2048.0),
        Tsv110 => of(64.0, 512.0, 512.0, 512.0),
        AppleFirestorm | AppleAvalanche => of(128.0, 8192.0, 12288.0, 16384.0),
        AppleIcestorm | AppleBlizzard => of(64.0, 4096.0, 4096.0, 8192.0),
        _ => [range(32.0, 32.0, 64.0), range(256.0, 1024.0, 2048.0), third],
    }
}

// Controllers of small systems on a chip take twice as long as those of servers: the sheets of such
// machines (`data/sheets`) show 100 to 160 ns, those of older Atoms up to 200 ns.
const DDR2: Range = range(45.0, 65.0, 110.0);
const DDR3: Range = range(38.0, 55.0, 110.0);
const DDR4: Range = range(40.0, 60.0, 120.0);
const DDR5: Range = range(48.0, 70.0, 120.0);
const LPDDR: Range = range(60.0, 110.0, 180.0);
const ATOM: Range = range(75.0, 135.0, 210.0);

static MEMORY: &[(&str, Range)] =
    &[("LPDDR", LPDDR), ("DDR5", DDR5), ("DDR4", DDR4), ("DDR3", DDR3), ("DDR2", DDR2)];

/// Beyond the last cache of AMD's servers: Rome takes 113 to 134 ns, of which its last cache is 10
/// (AnandTech, "AMD Rome Second Generation EPYC Review", 2019); later ones are written from memory.
pub(super) const BEHIND_IO_DIE: Range = range(75.0, 100.0, 135.0);

/// Whether a design's memory adds what its modules take, and not what its own controllers do.
pub(super) fn is_of_modules(memory_ns: Range) -> bool {
    MEMORY.iter().any(|(_, of_kind)| *of_kind == memory_ns)
}

const ANY: LoadCosts = LoadCosts {
    l1: range(3.0, 3.5, 5.0),
    l2: range(9.0, 15.0, 24.0),
    near: range(28.0, 45.0, 75.0),
    mesh: range(45.0, 85.0, 180.0),
    memory_ns: range(38.0, 85.0, 170.0),
    memory: "memory of an unknown kind",
};

const fn exactly(cycles: f64) -> Range {
    range(0.985 * cycles, cycles, 1.03 * cycles)
}

const fn load_costs(
    l1: Range,
    l2: Range,
    near: Range,
    mesh: Range,
    memory_ns: Range,
    memory: &'static str,
) -> LoadCosts {
    LoadCosts { l1, l2, near, mesh, memory_ns, memory }
}

/// Rows of a table of designs: the cores, and the arguments of `$make`.
macro_rules! designs {
    ($make:path; $([$($core:ident)+] => $($value:expr),+;)+) => {
        &[$((&[$(Core::$core),+], $make($($value),+)),)+]
    };
}
pub(super) use designs;

/// A core's row of such a table; `None` for an unknown design.
pub(super) fn row<T: Copy>(table: &[(&[Core], T)], core: Core) -> Option<T> {
    table.iter().find(|(cores, _)| cores.contains(&core)).map(|(_, row)| *row)
}

// A row is of a design, its shrinks and its compact variants, which have the same execution units (one
// guide of the maker's is for all); a design without a row has the interval over all. The first cache
// of Skylake takes 4 cycles through a base register alone, 5 otherwise; Apple's
// takes 3 where a load feeds the next one's address, 4 otherwise.
#[rustfmt::skip]
static TABLE: &[(&[Core], LoadCosts)] = designs! { load_costs;
    // First cache, second, the last of few cores, behind a mesh; what memory adds in ns, and its
    // kind.
    [Core2 Penryn] =>
        exactly(3.0), range(13.5, 14.5, 16.0), range(28.0, 45.0, 75.0),
        range(45.0, 85.0, 180.0), DDR2, "DDR2 behind a front-side bus";
    [Nehalem Westmere] =>
        exactly(4.0), range(9.8, 10.0, 11.5), range(34.0, 40.0, 50.0),
        range(36.0, 48.0, 70.0), DDR3, "DDR3";
    [SandyBridge IvyBridge] =>
        exactly(4.0), range(11.0, 12.0, 13.0), range(26.0, 31.0, 42.0),
        range(30.0, 45.0, 65.0), DDR3, "DDR3";
    [Haswell Broadwell] =>
        exactly(4.0), range(11.0, 12.0, 13.0), range(32.0, 37.0, 52.0),
        range(40.0, 55.0, 75.0), range(38.0, 55.0, 88.0), "DDR3 or DDR4";
    [SkylakeClient PalmCove] =>
        range(3.94, 4.0, 5.15), range(11.5, 12.0, 14.5), range(34.0, 40.0, 55.0),
        range(50.0, 70.0, 95.0), DDR4, "DDR4";
    [SkylakeServer] =>
        range(3.94, 4.0, 5.15), range(13.0, 14.0, 16.0), range(34.0, 40.0, 55.0),
        range(50.0, 70.0, 95.0), DDR4, "DDR4";
    [SunnyCove WillowCove CypressCove] =>
        exactly(5.0), range(12.5, 13.5, 15.0), range(36.0, 45.0, 60.0),
        range(55.0, 75.0, 110.0), DDR4, "DDR4";
    [GoldenCove RaptorCove RedwoodCove] =>
        exactly(5.0), range(13.8, 15.3, 17.0), range(55.0, 68.0, 90.0),
        range(75.0, 125.0, 185.0), DDR5, "DDR5";
    [LionCove] =>
        exactly(4.0), range(9.0, 17.0, 19.0), range(60.0, 83.0, 100.0),
        range(75.0, 125.0, 185.0), DDR5, "DDR5";
    [Silvermont Airmont] =>
        exactly(3.0), range(13.0, 17.0, 23.0), range(45.0, 65.0, 95.0),
        range(60.0, 95.0, 160.0), ATOM, "DDR3 of a system on a chip";
    [Goldmont GoldmontPlus] =>
        exactly(3.0), range(17.0, 20.0, 27.0), range(45.0, 65.0, 95.0),
        range(60.0, 95.0, 160.0), ATOM, "LPDDR4 of a system on a chip";
    [Tremont] =>
        range(2.95, 3.0, 4.12), range(17.0, 20.0, 27.0), range(45.0, 65.0, 95.0),
        range(60.0, 95.0, 160.0), range(55.0, 85.0, 130.0), "DDR4 of a system on a chip";
    [Gracemont Crestmont Skymont] =>
        range(2.95, 3.0, 4.12), range(15.0, 19.0, 23.0), range(45.0, 65.0, 95.0),
        range(60.0, 95.0, 160.0), range(50.0, 75.0, 125.0), "DDR4 or DDR5";
    [Bulldozer Piledriver Steamroller Excavator] =>
        exactly(4.0), range(18.0, 20.5, 24.0), range(45.0, 58.0, 75.0),
        range(45.0, 85.0, 180.0), DDR3, "DDR3";
    [Zen ZenPlus Zen2] =>
        exactly(4.0), range(11.5, 12.5, 17.5), range(34.0, 39.0, 50.0),
        range(34.0, 40.0, 55.0), range(45.0, 68.0, 105.0), "DDR4 behind an I/O die";
    [Zen3] =>
        exactly(4.0), range(11.5, 12.5, 17.5), range(40.0, 47.0, 56.0),
        range(40.0, 48.0, 60.0), range(45.0, 68.0, 105.0), "DDR4 behind an I/O die";
    [Zen4 Zen4c Zen5 Zen5c] =>
        exactly(4.0), range(13.5, 14.2, 16.0), range(42.0, 49.0, 60.0),
        range(42.0, 51.0, 66.0), range(52.0, 76.0, 115.0), "DDR5 behind an I/O die";
    [CortexA53 CortexA55 CortexA510] =>
        range(1.97, 3.0, 4.1), range(7.0, 12.0, 20.0), range(25.0, 40.0, 70.0),
        range(40.0, 70.0, 120.0), LPDDR, "LPDDR4";
    [CortexA57 CortexA72 CortexA73 CortexA75] =>
        range(2.95, 4.0, 5.1), range(12.0, 18.0, 26.0), range(28.0, 40.0, 70.0),
        range(50.0, 80.0, 130.0), LPDDR, "LPDDR4 or DDR4";
    [CortexA76 CortexA77 CortexA78 CortexA710 CortexA715 CortexX1 CortexX2 CortexX3] =>
        exactly(4.0), range(9.0, 11.5, 15.0), range(28.0, 40.0, 70.0),
        range(50.0, 80.0, 130.0), LPDDR, "LPDDR4 or LPDDR5";
    [NeoverseN1 NeoverseN2 NeoverseN3 NeoverseV1 NeoverseV2 NeoverseV3 AmpereOne Ampere1A ThunderX2 Tsv110] =>
        exactly(4.0), range(9.0, 11.5, 15.0), range(28.0, 40.0, 70.0),
        range(50.0, 80.0, 130.0), range(45.0, 65.0, 105.0), "DDR4 or DDR5";
    [A64fx] =>
        range(4.9, 5.0, 8.3), range(36.0, 43.0, 60.0), range(28.0, 45.0, 75.0),
        range(45.0, 85.0, 180.0), range(80.0, 110.0, 160.0), "HBM2";
    [AppleFirestorm AppleAvalanche AppleIcestorm AppleBlizzard] =>
        range(2.95, 3.0, 4.12), range(14.0, 16.5, 20.0), range(40.0, 70.0, 130.0),
        range(40.0, 70.0, 130.0), range(60.0, 85.0, 115.0), "LPDDR4X or LPDDR5";
};

#[cfg(test)]
mod tests {
    use super::{MEMORY, TABLE, costs, is_of_modules, memory_ns};
    use host::Core;

    #[test]
    fn a_design_has_one_row_in_order_or_the_interval_over_all() {
        for core in Core::ALL {
            let rows = TABLE.iter().filter(|(cores, _)| cores.contains(core)).count();
            let (row, known) = costs(*core);
            assert_eq!(rows, usize::from(known), "{}", core.name());
            for range in [row.l1, row.l2, row.near, row.mesh, row.memory_ns] {
                assert!(range.low <= range.likely && range.likely <= range.high);
            }
            assert!(row.l1.high < row.l2.low && row.l2.likely < row.near.likely);
            assert!(row.near.likely <= row.mesh.likely, "{}", core.name());
        }
        for core in [Core::Unknown, Core::CortexX925, Core::KnightsLanding, Core::Zen6] {
            assert!(!costs(core).1, "{}", core.name());
        }
    }

    #[test]
    fn kinds_of_memory_are_found_by_their_beginning() {
        assert_eq!(memory_ns("DDR5"), Some(MEMORY[1].1));
        assert_eq!(memory_ns("LPDDR4X"), Some(MEMORY[0].1));
        assert_eq!(memory_ns("FLASH"), None);
        let is_of_modules = |core| is_of_modules(costs(core).0.memory_ns);
        assert!(is_of_modules(Core::SkylakeClient) && !is_of_modules(Core::Silvermont));
    }
}
