//! How many instructions of a kind a core design starts per cycle.
//!
//! Intel's rows are the ports of Intel's optimisation manual (248966, a chapter on each
//! microarchitecture) and A. Abel's uops.info; AMD's those of its optimisation guides (families
//! 17h, 19h, 1Ah); Arm's those of its guides per core. Written from memory of these, not looked up
//! row by row; the row of Golden and Redwood Cove is what one machine of Redwood Cove was found to
//! do, to 2 % (vector multiplications of integers: to 7 %).

use super::{Arithmetic, Element, Op, Width};
use crate::range;
use host::Core;
use record::event::Range;

/// Instructions that start per cycle, at one vector width: floating additions, multiplications and
/// fused ones; integer additions; multiplications of i32 and of i64.
type Starts = [f64; 6];

/// What a core design starts per cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// Integer multiplications in general registers.
    mul: f64,
    /// Floating scalars: additions and multiplications together, by the units that do either.
    both: f64,
    /// Cycles of a floating multiplication.
    product_cycles: f64,
    /// At 16 bytes, and floating scalars.
    narrow: Starts,
    /// At 32 bytes.
    middle: Starts,
    /// At 64 bytes.
    wide: Starts,
    /// Products differ in how many units they have at 64 bytes: half of `wide` may be all.
    halved: bool,
    /// Nothing of the design starts more.
    firm: bool,
}

const NONE: Starts = [0.0; 6];

const HASWELL: Units = Units {
    mul: 1.0,
    both: 2.0,
    product_cycles: 5.0,
    narrow: [1.0, 2.0, 2.0, 2.0, 0.5, 0.0],
    middle: [1.0, 2.0, 2.0, 2.0, 0.5, 0.0],
    wide: NONE,
    halved: false,
    firm: true,
};

const SKYLAKE: Units = Units {
    product_cycles: 4.0,
    narrow: [2.0, 2.0, 2.0, 3.0, 1.0, 0.0],
    middle: [2.0, 2.0, 2.0, 3.0, 1.0, 0.0],
    wide: [2.0, 2.0, 2.0, 2.0, 1.0, 2.0 / 3.0],
    halved: true,
    ..HASWELL
};

const ZEN: Units = Units {
    both: 4.0,
    product_cycles: 3.0,
    narrow: [2.0, 2.0, 2.0, 3.0, 1.0, 0.0],
    middle: [1.0, 1.0, 1.0, 1.5, 0.5, 0.0],
    firm: false,
    ..HASWELL
};

const ARM_TWO_PIPES: Units = Units {
    mul: 1.0,
    both: 2.0,
    product_cycles: 3.0,
    narrow: [2.0, 2.0, 2.0, 2.0, 1.0, 0.0],
    middle: NONE,
    wide: NONE,
    halved: false,
    firm: false,
};

const ARM_FOUR_PIPES: Units =
    Units { mul: 2.0, both: 4.0, narrow: [4.0, 4.0, 4.0, 4.0, 2.0, 0.0], ..ARM_TWO_PIPES };

/// What a design starts; `None` for an unknown design.
pub(super) fn units(core: Core) -> Option<Units> {
    use Core::*;
    Some(match core {
        Core2 | Nehalem | Westmere | SandyBridge | IvyBridge => Units {
            narrow: [1.0, 1.0, 0.0, 2.0, 1.0, 0.0],
            middle: NONE,
            firm: matches!(core, SandyBridge | IvyBridge),
            ..HASWELL
        },
        Haswell => HASWELL,
        Broadwell => Units { product_cycles: 3.0, ..HASWELL },
        SkylakeClient => Units { wide: NONE, ..SKYLAKE },
        SkylakeServer | PalmCove | SunnyCove | WillowCove | CypressCove => SKYLAKE,
        GoldenCove | RaptorCove | RedwoodCove => Units { both: 3.0, halved: false, ..SKYLAKE },
        LionCove => Units {
            mul: 3.0,
            both: 4.0,
            narrow: [2.0, 2.0, 2.0, 4.0, 2.0, 0.0],
            middle: [2.0, 2.0, 2.0, 4.0, 2.0, 0.0],
            wide: NONE,
            firm: false,
            ..SKYLAKE
        },
        Gracemont | Crestmont => Units {
            product_cycles: 4.0,
            narrow: [2.0, 2.0, 2.0, 3.0, 1.0, 0.0],
            middle: [1.0, 1.0, 1.0, 1.5, 0.5, 0.0],
            firm: false,
            ..HASWELL
        },
        Zen => ZEN,
        Zen2 => Units { middle: [2.0, 2.0, 2.0, 3.0, 1.0, 0.0], ..ZEN },
        Zen3 | Zen4 => Units {
            narrow: [2.0, 2.0, 2.0, 4.0, 2.0, 0.0],
            middle: [2.0, 2.0, 2.0, 4.0, 2.0, 0.0],
            wide: match core {
                Zen4 => [1.0, 1.0, 1.0, 2.0, 1.0, 1.0],
                _ => NONE,
            },
            firm: true,
            ..ZEN
        },
        Zen5 => Units {
            mul: 3.0,
            narrow: [2.0, 2.0, 2.0, 4.0, 2.0, 0.0],
            middle: [2.0, 2.0, 2.0, 4.0, 2.0, 0.0],
            wide: [2.0, 2.0, 2.0, 4.0, 2.0, 2.0],
            halved: true,
            ..ZEN
        },
        CortexA76 | CortexA77 | CortexA78 | CortexA710 | CortexA715 | NeoverseN1 | NeoverseN2
        | NeoverseN3 => ARM_TWO_PIPES,
        CortexX1 | CortexX2 | CortexX3 | NeoverseV1 | NeoverseV2 | NeoverseV3 | AppleFirestorm
        | AppleAvalanche => ARM_FOUR_PIPES,
        _ => return None,
    })
}

/// A row of the mix: of 11 chains 6 add and 5 multiply.
struct Mix {
    /// A cycle: additions, multiplications, and of both together.
    adds: f64,
    muls: f64,
    both: f64,
    /// Of a multiplication, by which a chain takes its step.
    cycles: f64,
}

impl Mix {
    /// Operations per cycle: the slowest of the units and of a chain's step fills the row.
    fn starts(&self) -> Range {
        let at = |cycles: f64| {
            let of_units = (6.0 / self.adds).max(5.0 / self.muls).max(11.0 / self.both);
            11.0 / of_units.max(cycles)
        };
        // What the table has from memory may be a cycle more or less.
        range(at(self.cycles + 1.0), at(self.cycles), at(self.cycles - 1.0))
    }
}

/// Instructions per cycle of one core, and whether no core of the design does more.
pub(super) fn starts(core: Core, arithmetic: Arithmetic) -> Option<(Range, bool)> {
    let units = units(core)?;
    if arithmetic.op == Op::Mix {
        let adds = core.additions()?;
        let mix = match arithmetic.is_floating() {
            true => Mix {
                adds: units.narrow[0],
                muls: units.narrow[1],
                both: units.both,
                cycles: units.product_cycles,
            },
            false => Mix { adds, muls: units.mul, both: adds, cycles: 3.0 },
        };
        return Some((mix.starts(), false));
    }
    let at = match (arithmetic.is_floating(), arithmetic.op) {
        (true, op) => op as usize,
        (false, Op::Add) => 3,
        (false, _) if arithmetic.element == Element::I32 => 4,
        (false, _) => 5,
    };
    let likely = match (arithmetic.width, arithmetic.is_floating()) {
        (Width::Scalar, false) if arithmetic.op == Op::Add => core.additions()?,
        (Width::Scalar, false) => units.mul,
        (Width::Avx2, _) => units.middle[at],
        (Width::Avx512, _) => units.wide[at],
        _ => units.narrow[at],
    };
    let halved = arithmetic.width == Width::Avx512 && units.halved;
    let low = if halved { 0.5 * likely } else { likely };
    (likely > 0.0).then_some((range(low, likely, likely), units.firm))
}
