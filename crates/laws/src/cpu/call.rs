//! Laws of the procedure call.

use super::{best_core_clock, clocked, core_costs, crowded, scaled};
use crate::line::Line;
use crate::{Facts, Law, range, sum};
use host::Core;

/// What a call has to do, counted from what a C compiler emits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallWork {
    /// Instructions beside the call and the return.
    pub instructions: f64,
    /// Stores, the return address included.
    pub stores: f64,
    pub float_stores: f64,
    /// Loads, the return address included.
    pub loads: f64,
    /// Saves and restores the frame pointer, so that calls depend on each other through memory.
    pub frame: bool,
    /// Branches beside the call and the return.
    pub jumps: f64,
}

/// Stores per cycle that do not follow each other in a line. Zen 3 takes 0.58 cycles for one in a
/// row and 1.0 from line to line [uarch-bench]; on Zen 4 the stores of these calls take 1.0 [plumb].
const SCATTERED_STORES: f64 = 1.0;

/// Stores per cycle of floating point: Zen 3 and 4 store two general registers a cycle and one
/// vector register, of any width (Stack Overflow, answer 45108395), and Zen 5 [plumb].
fn float_stores(core: Core) -> f64 {
    match core {
        Core::Zen3 | Core::Zen4 | Core::Zen4c | Core::Zen5 | Core::Zen5c => 1.0,
        _ => f64::INFINITY,
    }
}

/// One call, in ns: the slowest of the call itself, the width of the core, its ports, and the
/// frame pointer's way through memory.
pub fn call(facts: Facts, work: CallWork) -> Law {
    let mut costs = core_costs(facts.site);
    // A jump is one more taken branch, through memory more often a slow one.
    let jump = sum(costs.turn.cycles, range(0.2, 1.0, 2.5));
    let base = sum(costs.call.cycles, scaled(jump, work.jumps));
    let issue = (work.instructions + 4.0) / costs.width;
    let floats = float_stores(super::core(facts.site));
    let at = |stores: f64| {
        let stored = (work.stores - work.float_stores) / stores;
        let stored = stored + work.float_stores / stores.min(floats);
        issue.max(stored).max(work.loads / costs.loads)
    };
    let (least, most) = (at(costs.stores), at(costs.stores.min(SCATTERED_STORES)));
    let busy = range(least, (least * most).sqrt(), most);
    let chain = if work.frame { costs.forward.cycles } else { range(0.0, 0.0, 0.0) };
    let slowest = |base: f64, busy: f64, chain: f64| base.max(busy).max(chain);
    costs.call.cycles = range(
        slowest(base.low, 0.85 * busy.low, chain.low),
        // A call neither overlaps its own arguments fully nor waits for all of them.
        slowest(base.likely, 1.15 * busy.likely, chain.likely).hypot(busy.likely / 2.0),
        slowest(base.high, 1.45 * busy.high, chain.high).hypot(busy.high / 1.4),
    );
    let CallWork { instructions, stores, loads, .. } = work;
    let what =
        format!("{instructions} instructions, {stores} stores and {loads} loads around a call");
    crowded(facts, clocked(facts, costs.call.law(what).unsourced_if(work.jumps > 0.0)), 1.0)
}

/// Slope in ns per argument and linearity (R²) of a straight line through calls of 0, 1, 2 …
/// arguments, given the work of each; in place of the linearity the reason where placement decides
/// it.
pub fn call_line(facts: Facts, works: &[CallWork]) -> (Law, Result<Law, String>) {
    let point =
        |(arguments, work): (usize, &CallWork)| (arguments as f64, call(facts, *work).range.likely);
    let points: Vec<(f64, f64)> = works.iter().enumerate().map(point).collect();
    let slope = line(&points).map_or(0.0, |line| line.slope);
    // Placement moves single points by part of the call's own interval, and so the line.
    let costs = core_costs(facts.site);
    let clock = best_core_clock(facts);
    let cycle_ns = 1e9 / clock.range.likely;
    let last = points.len().saturating_sub(1).max(1) as f64;
    let placement = 0.5 * (costs.call.cycles.high - costs.call.cycles.low) * cycle_ns / last;
    let slopes = Law::hardware(
        range(0.4 * slope - placement, slope, 1.8 * slope + placement),
        format!("instructions per argument, at {:.2} per cycle", costs.width),
    );
    let fits = "the arguments cost more than the call, and each costs the same";
    let hidden = "unknown: the arguments overlap with the call, so code placement decides the fit";
    let linearity = match slope > 1.5 * placement {
        true => Ok(Law::hardware(range(0.3, 0.85, 1.0), fits)),
        false => Err(hidden.to_owned()),
    };
    (slopes.with(&clock).and("code placement shifts single points"), linearity)
}

/// The line through calls of so many arguments; `None` for fewer than three or all above one
/// another.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    crate::line::line(points).filter(|_| points.len() > 2)
}
