//! What core designs take for the things that the basic experiments time.
//!
//! Written from memory of the usual published values, not looked up row by row; the intervals are
//! meant to cover that, and where such values are silent or disagree. Widths, store and load ports,
//! forwarding and the counter instructions stand in A. Fog, "Instruction tables" and "The
//! microarchitecture of Intel, AMD and VIA CPUs" (agner.org), A. Abel's uops.info, and the software
//! optimisation guides of Intel, AMD and Arm. The row of Redwood Cove was adjusted on one virtual
//! machine. Looked up: width, store and load ports of ThunderX2 and the width of Cortex-A57 (LLVM's
//! AArch64SchedThunderX2T99.td and AArch64SchedA57.td). Cycles are core cycles.

use crate::range;
use host::Core;
use record::event::Range;

/// What a core design takes.
#[derive(Clone, Copy, Debug)]
pub struct CoreCosts {
    /// Instructions that enter the back end per cycle.
    pub width: f64,
    /// Stores per cycle.
    pub stores: f64,
    /// Loads per cycle.
    pub loads: f64,
    /// Cycles of a turn of a loop that fits every buffer: a taken branch.
    pub turn: Range,
    /// Cycles from a store to the load of the same word to the next store, an addition between.
    pub forward: Range,
    /// Cycles of a call and its return that do nothing else.
    pub call: Range,
    /// Cycles of an unordered read of the counter.
    pub counter: Range,
    /// Cycles of an ordered read: `rdtscp`; `isb` and the read on Arm.
    pub ordered: Range,
    /// Cycles that a fence (`lfence`) adds in front of a counter read.
    pub fence: Range,
}

/// The design's costs; for an unknown design, an interval over all, marked `false`.
pub fn costs(core: Core) -> (CoreCosts, bool) {
    TABLE
        .iter()
        .find(|(cores, _)| cores.contains(&core))
        .map_or((ANY, false), |(_, costs)| (*costs, true))
}

const ANY: CoreCosts = CoreCosts {
    width: 4.0,
    stores: 1.5,
    loads: 2.0,
    turn: range(0.5, 1.0, 1.6),
    forward: range(0.9, 4.5, 7.0),
    call: range(1.8, 3.2, 5.5),
    counter: range(15.0, 28.0, 50.0),
    ordered: range(24.0, 42.0, 80.0),
    fence: range(4.0, 10.0, 25.0),
};

/// An in-order or narrow design: everything that the wide ones hide shows.
const SMALL: CoreCosts = CoreCosts {
    width: 2.0,
    stores: 1.0,
    loads: 1.0,
    turn: range(0.9, 1.2, 2.2),
    forward: range(3.0, 5.0, 8.0),
    call: range(2.0, 4.0, 8.0),
    ..ANY
};

/// One store a cycle, no renaming of memory: Intel before Ice Lake.
const BEFORE_ICE_LAKE: CoreCosts = CoreCosts {
    width: 4.0,
    stores: 1.0,
    loads: 2.0,
    turn: range(0.95, 1.0, 1.25),
    forward: range(4.0, 5.5, 6.8),
    call: range(1.9, 2.8, 4.6),
    counter: range(20.0, 26.0, 34.0),
    ordered: range(28.0, 34.0, 46.0),
    fence: range(4.0, 8.0, 16.0),
};

const ZEN: CoreCosts = CoreCosts {
    width: 5.0,
    stores: 1.0,
    loads: 2.0,
    turn: range(0.95, 1.0, 1.4),
    forward: range(4.0, 6.0, 8.5),
    call: range(1.9, 2.8, 4.6),
    counter: range(33.0, 37.0, 48.0),
    ordered: range(35.0, 44.0, 75.0),
    fence: range(3.0, 9.0, 25.0),
};

const ARM: CoreCosts = CoreCosts {
    width: 4.0,
    stores: 1.5,
    loads: 2.0,
    turn: range(0.9, 1.0, 1.5),
    forward: range(3.8, 5.0, 7.0),
    call: range(1.8, 2.4, 4.4),
    counter: range(6.0, 18.0, 45.0),
    ordered: range(20.0, 45.0, 110.0),
    fence: range(10.0, 25.0, 60.0),
};

static TABLE: &[(&[Core], CoreCosts)] = &[
    (
        &[Core::Core2],
        CoreCosts {
            loads: 1.0,
            // A taken branch every other cycle where the loop buffer does not help.
            turn: range(0.95, 1.1, 2.1),
            // 65 nm and 45 nm parts differ by a factor of two.
            counter: range(28.0, 55.0, 80.0),
            ordered: range(32.0, 62.0, 100.0),
            ..BEFORE_ICE_LAKE
        },
    ),
    (
        &[Core::Nehalem, Core::Westmere],
        CoreCosts { loads: 1.0, turn: range(0.95, 1.1, 2.1), ..BEFORE_ICE_LAKE },
    ),
    (
        &[
            Core::SandyBridge,
            Core::IvyBridge,
            Core::Haswell,
            Core::Broadwell,
            Core::SkylakeClient,
            Core::SkylakeServer,
            Core::PalmCove,
        ],
        BEFORE_ICE_LAKE,
    ),
    (
        &[Core::SunnyCove, Core::WillowCove, Core::CypressCove],
        CoreCosts {
            width: 5.0,
            stores: 2.0,
            turn: range(0.5, 1.0, 1.25),
            forward: range(0.95, 2.0, 6.0),
            call: range(1.9, 3.0, 4.8),
            counter: range(20.0, 27.0, 38.0),
            ordered: range(30.0, 40.0, 56.0),
            ..BEFORE_ICE_LAKE
        },
    ),
    (
        // Two turns of a small loop a cycle: seen on one virtual machine of Redwood Cove.
        &[Core::GoldenCove, Core::RaptorCove, Core::RedwoodCove],
        CoreCosts {
            width: 6.0,
            stores: 2.0,
            loads: 3.0,
            turn: range(0.48, 0.55, 1.1),
            forward: range(0.95, 1.05, 2.2),
            call: range(2.2, 3.5, 5.0),
            counter: range(20.0, 28.0, 38.0),
            ordered: range(32.0, 43.0, 60.0),
            fence: range(8.0, 15.0, 24.0),
        },
    ),
    (
        &[Core::LionCove],
        CoreCosts {
            width: 8.0,
            stores: 2.0,
            loads: 3.0,
            turn: range(0.48, 0.6, 1.1),
            forward: range(0.5, 1.05, 2.4),
            call: range(1.5, 3.0, 5.0),
            ..ANY
        },
    ),
    (&[Core::Silvermont, Core::CortexA53, Core::CortexA55, Core::CortexA510], SMALL),
    (&[Core::Goldmont], CoreCosts { width: 3.0, ..SMALL }),
    (&[Core::Tremont], CoreCosts { stores: 2.0, ..ANY }),
    (&[Core::Gracemont], CoreCosts { width: 5.0, stores: 2.0, ..ANY }),
    (&[Core::Crestmont], CoreCosts { width: 6.0, stores: 2.0, ..ANY }),
    (&[Core::Skymont], CoreCosts { width: 8.0, stores: 2.0, loads: 3.0, ..ANY }),
    (
        &[Core::Bulldozer],
        CoreCosts {
            width: 4.0,
            stores: 1.0,
            turn: range(0.95, 1.5, 2.2),
            forward: range(6.0, 8.0, 11.0),
            counter: range(38.0, 50.0, 85.0),
            ordered: range(38.0, 55.0, 100.0),
            ..ZEN
        },
    ),
    (&[Core::Zen], ZEN),
    (&[Core::Zen2], CoreCosts { loads: 2.0, forward: range(0.95, 2.2, 7.5), ..ZEN }),
    (
        &[Core::Zen3, Core::Zen4],
        CoreCosts { width: 6.0, stores: 2.0, loads: 3.0, forward: range(0.95, 2.0, 7.5), ..ZEN },
    ),
    (
        &[Core::Zen5],
        CoreCosts {
            width: 8.0,
            stores: 2.0,
            loads: 4.0,
            turn: range(0.48, 0.8, 1.2),
            forward: range(0.5, 1.5, 7.5),
            ..ZEN
        },
    ),
    (&[Core::CortexA57, Core::CortexA72], CoreCosts { width: 3.0, stores: 1.0, loads: 1.0, ..ARM }),
    (&[Core::CortexA73, Core::CortexA75], CoreCosts { width: 3.0, stores: 1.0, ..ARM }),
    (&[Core::ThunderX2, Core::Tsv110, Core::A64fx], CoreCosts { stores: 1.0, ..ARM }),
    (&[Core::CortexA76, Core::CortexA77, Core::CortexA78, Core::NeoverseN1, Core::AmpereOne], ARM),
    (
        &[
            Core::CortexA710,
            Core::CortexA715,
            Core::CortexX1,
            Core::CortexX2,
            Core::CortexX3,
            Core::NeoverseN2,
            Core::NeoverseN3,
            Core::NeoverseV1,
            Core::NeoverseV2,
            Core::NeoverseV3,
        ],
        CoreCosts { width: 5.0, stores: 2.0, loads: 3.0, turn: range(0.48, 1.0, 1.4), ..ARM },
    ),
    (
        &[Core::AppleFirestorm, Core::AppleAvalanche],
        CoreCosts { width: 8.0, stores: 2.0, loads: 3.0, ..ARM },
    ),
    (&[Core::AppleIcestorm, Core::AppleBlizzard], CoreCosts { width: 4.0, stores: 1.0, ..ARM }),
];

#[cfg(test)]
mod tests {
    use super::{TABLE, costs};
    use host::Core;

    #[test]
    fn every_design_but_the_unknown_has_one_row() {
        for core in Core::ALL {
            let rows = TABLE.iter().filter(|(cores, _)| cores.contains(core));
            let expected = usize::from(*core != Core::Unknown);
            assert_eq!(rows.count(), expected, "{}", core.name());
        }
    }

    #[test]
    fn narrow_and_wide_designs_have_rows_of_their_own() {
        for (core, width) in [
            (Core::Silvermont, 2.0),
            (Core::Goldmont, 3.0),
            (Core::Tremont, 4.0),
            (Core::Gracemont, 5.0),
            (Core::Crestmont, 6.0),
            (Core::Skymont, 8.0),
            (Core::Bulldozer, 4.0),
            (Core::CortexA73, 3.0),
            (Core::ThunderX2, 4.0),
            (Core::Tsv110, 4.0),
            (Core::A64fx, 4.0),
            (Core::AppleFirestorm, 8.0),
            (Core::AppleIcestorm, 4.0),
        ] {
            assert_eq!(costs(core).0.width, width, "{}", core.name());
        }
        for core in [Core::CortexA57, Core::CortexA72] {
            assert_eq!(costs(core).0.loads, 1.0, "{}", core.name());
        }
        for core in [Core::Core2, Core::Nehalem, Core::Westmere] {
            assert!(costs(core).0.turn.high >= 2.1, "{}", core.name());
        }
        let counter = costs(Core::Core2).0.counter;
        assert!(counter.low <= 28.0 && counter.high >= 80.0);
    }

    #[test]
    fn intervals_are_ordered_and_positive() {
        for core in Core::ALL {
            let (cost, _) = costs(*core);
            for part in [cost.turn, cost.forward, cost.call, cost.counter, cost.ordered, cost.fence]
            {
                let ordered = 0.0 < part.low && part.low <= part.likely && part.likely <= part.high;
                assert!(ordered, "{} {part:?}", core.name());
            }
        }
    }
}
