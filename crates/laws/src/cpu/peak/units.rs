//! How many instructions of a kind a core design starts per cycle: the inverse of the published
//! tables' cycles per instruction ([`super::super::published`]).

use super::{Arithmetic, Element, Op, Width};
use crate::cpu::published::{Measure, design_range};
use crate::{inverse, range};
use host::Core;
use record::event::Range;

/// Designs whose published throughputs no core of the design passes: their ports are documented.
fn is_firm(core: Core) -> bool {
    use Core::*;
    let intels = [SandyBridge, IvyBridge, Haswell, Broadwell, SkylakeClient, SkylakeServer];
    let coves = [PalmCove, SunnyCove, WillowCove, CypressCove, GoldenCove, RaptorCove, RedwoodCove];
    intels.contains(&core) || coves.contains(&core) || matches!(core, Zen3 | Zen4 | Zen4c)
}

/// Floating scalar additions and multiplications together a cycle, by the units that do either: on
/// these both have units of their own, elsewhere they share what either has. A third
/// unit of Golden Cove's adds only (LLVM's X86SchedSapphireRapids.td, X86ScheduleZnver3.td and
/// X86ScheduleZnver4.td).
fn either(core: Core, adds: f64, muls: f64) -> f64 {
    use Core::*;
    match core {
        Zen | ZenPlus | Zen2 | Zen3 | Zen4 | Zen4c | Zen5 | Zen5c | LionCove => adds + muls,
        GoldenCove | RaptorCove | RedwoodCove => 3.0,
        _ => adds.max(muls),
    }
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
    fn for_core(core: Core, is_floating: bool) -> Option<Mix> {
        let row = |name, measure| Some(design_range(core, name, measure)?.low);
        let rate = |name| Some(1.0 / row(name, Measure::Throughput)?);
        let (add, mul) = if is_floating { ("add_f64", "mul_f64") } else { ("add_i64", "mul_i64") };
        let (adds, muls) = (rate(add)?, rate(mul)?);
        let both = if is_floating { either(core, adds, muls) } else { adds };
        Some(Mix { adds, muls, both, cycles: row(mul, Measure::Latency)? })
    }

    /// Operations per cycle: the slowest of the units and of a chain's step fills the row.
    fn starts(&self) -> Range {
        let at = |cycles: f64| {
            let of_units = (6.0 / self.adds).max(5.0 / self.muls).max(11.0 / self.both);
            11.0 / of_units.max(cycles)
        };
        // A published latency may be a cycle more or less than the chain's.
        range(at(self.cycles + 1.0), at(self.cycles), at(self.cycles - 1.0))
    }
}

/// The row of an instruction. Additions of i64 start as those of i32 do, floating scalars of either
/// precision alike.
fn row(Arithmetic { op, element, width }: Arithmetic, lanes: f64) -> String {
    let op_text = op.text();
    match (width, element) {
        (Width::Scalar, Element::F64 | Element::F32) => format!("{op_text}_f64"),
        (Width::Scalar, _) => format!("{op_text}_i64"),
        (_, Element::I64) if op == Op::Add => format!("add_i32x{}", 2.0 * lanes),
        _ => format!("{op_text}_{}x{lanes}", element.text()),
    }
}

/// Instructions per cycle of one core, and whether no core of the design does more.
pub(super) fn starts(core: Core, arithmetic: Arithmetic) -> Option<(Range, bool)> {
    if arithmetic.op == Op::Mix {
        return Some((Mix::for_core(core, arithmetic.is_floating())?.starts(), false));
    }
    let name = row(arithmetic, arithmetic.lanes());
    let Range { low, high, .. } = inverse(1.0, design_range(core, &name, Measure::Throughput)?);
    // Some products have one unit at 64 bytes; published are those with two.
    let is_one = arithmetic.width == Width::Avx512 && !arithmetic.is_light();
    let range = match core {
        Core::SkylakeServer if is_one => range(0.5 * high, high, high),
        Core::PalmCove if is_one => range(0.5 * high, 0.5 * high, high),
        // The table has a server's two and a client's one, which all of these are.
        Core::WillowCove | Core::CypressCove if is_one => range(low, low, high),
        _ => range(low, high, high),
    };
    Some((range, is_firm(core)))
}
