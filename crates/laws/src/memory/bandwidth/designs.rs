//! What core designs can move: memory instructions per cycle, the path to the second cache, lines in
//! flight, and the memory that sockets of that time have.
//!
//! Written from memory of published values, not looked up row by row; the intervals are meant to cover
//! that. Instructions per cycle stand in Intel's optimisation manual (248966), AMD's optimisation
//! guides (families 17h, 19h, 1Ah), Arm's guides per core and at uops.info; lines in flight are the
//! first cache's miss buffers (10 to 16, 22 to 24 on Zen), stretched by what prefetchers into the second
//! cache add, as one-thread bandwidths times latencies of such machines suggest.

use crate::range;
use host::Core;
use record::event::Range;

/// What a design does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    /// Loads per cycle, of at most 16, of 32 and of 64 bytes.
    pub(super) loads: [f64; 3],
    /// Stores per cycle.
    pub(super) stores: [f64; 3],
    /// Loads and stores together per cycle.
    pub(super) both: [f64; 3],
    /// Nothing of the design starts more, so that the product is a bound.
    pub(super) firm: bool,
    /// Share of that which a stream in the first cache reaches; above 1 where the row may be short.
    pub(super) reached: Range,
    /// Bytes per cycle that a stream of loads gets from the second cache.
    pub(super) second: Range,
    /// Lines of one core on their way from beyond the second cache, prefetched ones too.
    pub(super) lines: Range,
    /// Peak of the memory of a socket, in B/s: of few cores, and of many.
    pub(super) client: Range,
    pub(super) server: Range,
}

/// The design of a core; for one that nobody described an interval over all, marked `false`.
pub(super) fn design(core: Core) -> (Design, bool) {
    TABLE
        .iter()
        .find(|(cores, _)| cores.contains(&core))
        .map_or((ANY, false), |(_, design)| (*design, true))
}

const fn gb(low: f64, likely: f64, high: f64) -> Range {
    range(low * 1e9, likely * 1e9, high * 1e9)
}

const ANY: Design = Design {
    loads: [2.0, 2.0, 2.0],
    stores: [1.0, 1.0, 1.0],
    both: [3.0, 3.0, 3.0],
    firm: false,
    reached: range(0.2, 0.8, 1.6),
    second: range(4.0, 20.0, 64.0),
    lines: range(3.0, 16.0, 70.0),
    client: gb(6.0, 35.0, 140.0),
    server: gb(25.0, 150.0, 850.0),
};

const NEHALEM: Design = Design {
    loads: [1.0, 0.5, 0.25],
    stores: [1.0, 0.5, 0.25],
    both: [2.0, 1.0, 0.5],
    firm: true,
    reached: range(0.58, 0.93, 1.02),
    second: range(9.0, 14.0, 24.0),
    lines: range(6.0, 10.0, 18.0),
    client: gb(8.5, 21.3, 32.0),
    server: gb(17.0, 32.0, 43.0),
};

const SANDY_BRIDGE: Design = Design {
    loads: [2.0, 1.0, 0.5],
    both: [2.0, 1.5, 0.75],
    second: range(14.0, 20.0, 30.0),
    lines: range(9.5, 13.0, 18.0),
    client: gb(10.6, 21.3, 25.6),
    server: gb(25.0, 51.2, 60.0),
    ..NEHALEM
};

const HASWELL: Design = Design {
    loads: [2.0, 2.0, 1.0],
    stores: [1.0, 1.0, 0.5],
    both: [3.0, 3.0, 1.5],
    second: range(22.0, 32.0, 50.0),
    client: gb(12.8, 25.6, 34.1),
    server: gb(34.0, 68.0, 77.0),
    ..SANDY_BRIDGE
};

const SKYLAKE: Design =
    Design { lines: range(12.0, 18.0, 26.0), client: gb(17.0, 38.4, 51.2), ..HASWELL };

const SKYLAKE_SERVER: Design = Design {
    loads: [2.0, 2.0, 2.0],
    stores: [1.0, 1.0, 1.0],
    both: [3.0, 3.0, 3.0],
    second: range(30.0, 43.0, 62.0),
    lines: range(10.0, 15.0, 24.0),
    server: gb(42.0, 128.0, 141.0),
    ..SKYLAKE
};

const SUNNY_COVE: Design = Design {
    // Two stores a cycle where both are of one line, as a stream's are.
    stores: [2.0, 2.0, 1.0],
    both: [4.0, 4.0, 3.0],
    lines: range(13.0, 21.0, 34.0),
    client: gb(17.0, 51.2, 68.0),
    server: gb(51.0, 205.0, 205.0),
    ..SKYLAKE_SERVER
};

const GOLDEN_COVE: Design = Design {
    loads: [3.0, 3.0, 2.0],
    both: [5.0, 5.0, 3.0],
    lines: range(18.0, 32.0, 52.0),
    client: gb(25.0, 77.0, 140.0),
    server: gb(100.0, 307.0, 850.0),
    ..SUNNY_COVE
};

const ATOM: Design = Design {
    loads: [2.0, 1.0, 0.5],
    stores: [2.0, 1.0, 0.5],
    both: [4.0, 2.0, 1.0],
    firm: false,
    reached: range(0.2, 0.8, 1.6),
    second: range(7.0, 16.0, 40.0),
    lines: range(5.0, 12.0, 28.0),
    client: gb(10.0, 40.0, 100.0),
    server: gb(25.0, 100.0, 700.0),
};

const ZEN: Design = Design {
    loads: [2.0, 1.0, 0.5],
    stores: [1.0, 0.5, 0.25],
    both: [2.0, 1.0, 0.5],
    firm: false,
    reached: range(0.45, 0.9, 1.1),
    second: range(14.0, 25.0, 33.0),
    lines: range(17.0, 27.0, 42.0),
    client: gb(17.0, 43.0, 52.0),
    server: gb(42.0, 171.0, 171.0),
};

const ZEN2: Design = Design {
    loads: [2.0, 2.0, 1.0],
    stores: [1.0, 1.0, 0.5],
    both: [3.0, 3.0, 1.5],
    client: gb(20.0, 51.2, 68.0),
    server: gb(51.0, 205.0, 205.0),
    ..ZEN
};

const ZEN3: Design = Design {
    // Of general registers three loads and two stores.
    loads: [3.0, 2.0, 1.0],
    stores: [2.0, 1.0, 0.5],
    lines: range(20.0, 32.0, 48.0),
    ..ZEN2
};

const ZEN4: Design = Design {
    lines: range(24.0, 38.0, 60.0),
    client: gb(38.0, 83.0, 102.0),
    server: gb(150.0, 461.0, 461.0),
    ..ZEN3
};

const ZEN5: Design = Design {
    loads: [4.0, 2.0, 2.0],
    stores: [2.0, 2.0, 1.0],
    both: [4.0, 4.0, 3.0],
    second: range(26.0, 42.0, 65.0),
    server: gb(190.0, 576.0, 615.0),
    ..ZEN4
};

const NEOVERSE: Design = Design {
    loads: [2.0, 1.0, 0.5],
    stores: [2.0, 1.0, 0.5],
    both: [2.0, 1.0, 0.5],
    firm: false,
    reached: range(0.2, 0.8, 1.6),
    second: range(10.0, 24.0, 50.0),
    lines: range(12.0, 26.0, 48.0),
    client: gb(12.0, 34.0, 100.0),
    server: gb(60.0, 205.0, 410.0),
};

const NEOVERSE_V: Design = Design {
    loads: [3.0, 1.5, 0.75],
    stores: [2.0, 1.0, 0.5],
    both: [3.0, 1.5, 0.75],
    second: range(14.0, 32.0, 64.0),
    lines: range(16.0, 38.0, 80.0),
    server: gb(100.0, 307.0, 600.0),
    ..NEOVERSE
};

const LITTLE: Design = Design {
    loads: [1.0, 0.5, 0.25],
    stores: [1.0, 0.5, 0.25],
    both: [1.5, 0.75, 0.4],
    firm: false,
    reached: range(0.2, 0.8, 1.6),
    second: range(2.0, 6.0, 16.0),
    lines: range(1.5, 5.0, 14.0),
    client: gb(2.0, 10.0, 40.0),
    server: gb(4.0, 20.0, 100.0),
};

static TABLE: &[(&[Core], Design)] = &[
    (&[Core::Nehalem, Core::Westmere], NEHALEM),
    (&[Core::SandyBridge, Core::IvyBridge], SANDY_BRIDGE),
    (&[Core::Haswell, Core::Broadwell], HASWELL),
    (&[Core::SkylakeClient], SKYLAKE),
    (&[Core::SkylakeServer, Core::PalmCove], SKYLAKE_SERVER),
    (&[Core::SunnyCove, Core::WillowCove, Core::CypressCove], SUNNY_COVE),
    (&[Core::GoldenCove, Core::RaptorCove, Core::RedwoodCove], GOLDEN_COVE),
    (&[Core::Goldmont, Core::Tremont, Core::Gracemont, Core::Crestmont, Core::Skymont], ATOM),
    (&[Core::Zen], ZEN),
    (&[Core::Zen2], ZEN2),
    (&[Core::Zen3], ZEN3),
    (&[Core::Zen4], ZEN4),
    (&[Core::Zen5], ZEN5),
    (
        &[
            Core::CortexA76,
            Core::CortexA77,
            Core::CortexA78,
            Core::NeoverseN1,
            Core::NeoverseN2,
            Core::NeoverseN3,
            Core::AmpereOne,
            Core::ThunderX2,
            Core::Tsv110,
        ],
        NEOVERSE,
    ),
    (
        &[
            Core::CortexX1,
            Core::CortexX2,
            Core::CortexX3,
            Core::NeoverseV1,
            Core::NeoverseV2,
            Core::NeoverseV3,
        ],
        NEOVERSE_V,
    ),
    (&[Core::CortexA53, Core::CortexA55, Core::CortexA510], LITTLE),
];

#[cfg(test)]
mod tests {
    use super::{TABLE, design};
    use host::Core;

    #[test]
    fn rows_are_ordered_and_every_design_has_at_most_one() {
        for core in Core::ALL {
            let rows = TABLE.iter().filter(|(cores, _)| cores.contains(core));
            assert!(rows.count() <= 1, "{}", core.name());
            let (row, _) = design(*core);
            for range in [row.reached, row.second, row.lines, row.client, row.server] {
                assert!(range.low <= range.likely && range.likely <= range.high);
            }
            for width in 0..3 {
                let (loads, stores) = (row.loads[width], row.stores[width]);
                assert!(row.both[width] <= loads + stores, "{}", core.name());
                assert!(row.both[width] >= loads.max(stores), "{}", core.name());
            }
        }
        assert!(!design(Core::Unknown).1);
    }
}
