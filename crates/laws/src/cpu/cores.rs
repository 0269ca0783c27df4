//! What core designs take for the things that the basic experiments time, from the published
//! tables; how far what these experiments measure may be from the published is written here.

use super::published::{Measure, Published, published};
use crate::{range, sum};
use bench::experiment::Site;
use host::Arch;
use record::event::Range;

/// What a core design takes.
#[derive(Clone, Debug)]
pub struct CoreCosts {
    /// Instructions that enter the back end per cycle.
    pub width: f64,
    pub stores: f64,
    pub loads: f64,
    /// Cycles of a turn of a loop that fits every buffer: a taken branch.
    pub turn: Published,
    /// Cycles from a store to the load of the same word to the next store, an addition between.
    pub forward: Published,
    /// Cycles of a call and its return that do nothing else.
    pub call: Published,
    /// Cycles of an unordered read of the counter.
    pub counter: Published,
    /// Cycles of an ordered read: `rdtscp`; `isb` and the read on Arm.
    pub ordered: Published,
    /// Cycles that a fence (`lfence`) adds in front of a counter read.
    pub fence: Published,
}

/// Published figures and the slack below and above of the method that measured them.
const TURN: (&str, f64, f64) = ("loop_turn", 1.05, 1.25);
const FORWARD: (&str, f64, f64) = ("loop_memory", 1.06, 1.15);
const COUNTER: (&str, f64, f64) = ("counter_read", 1.25, 1.3);
const ORDERED: (&str, f64, f64) = ("counter_ordered", 1.25, 1.3);
const FENCE: (&str, f64, f64) = ("fence_load", 1.8, 1.8);
/// A call and its return, which code placement moves.
const CALL: (&str, f64, f64) = ("call_and_return", 1.3, 1.3);
const ISB: (&str, f64, f64) = ("fence_instruction", 1.8, 1.8);

/// Cycles through memory where a design that can rename it away does not: on Zen 3 8.04
/// [instlatx64] against 1.0 [uarch-bench].
const FORWARDED_CYCLES: f64 = 8.04;
/// Cycles that an ordered read adds at most: 69.7 against 36.3 on Zen 3 [uarch-bench].
const ORDER_CYCLES: f64 = 33.4;

pub(super) fn core_costs(site: &Site) -> CoreCosts {
    let (arch, core) = (site.host.cpu.arch, super::core(site));
    let look_up = |name: &str, measure| published(arch, core, name, measure);
    let rate = |name, usual| {
        let cycles = look_up(name, Measure::Throughput).map(|found| found.cycles.likely);
        cycles.map_or(usual, |cycles| 1.0 / cycles)
    };
    let cost = |(name, below, above): (&str, f64, f64)| {
        let either = look_up(name, Measure::Throughput).or_else(|| look_up(name, Measure::Latency));
        let mut found = either.expect("every row of the tables has a figure");
        let Range { low, likely, high } = found.cycles;
        found.cycles = range(low / below, likely, high * above);
        found
    };
    let (turn, counter, mut ordered) = (cost(TURN), cost(COUNTER), cost(ORDERED));
    if arch == Arch::Aarch64 {
        ordered = cost(ISB);
        ordered.cycles = sum(ordered.cycles, counter.cycles);
    } else if !ordered.is_own {
        let Range { low, likely, high } = counter.cycles;
        ordered.cycles = range(low, likely + 0.4 * ORDER_CYCLES, high + ORDER_CYCLES);
        ordered.source = format!(
            "{}, and up to {ORDER_CYCLES} cycles of waiting, as on Zen 3 [uarch-bench]",
            counter.source
        );
    }
    let mut forward = cost(FORWARD);
    if forward.cycles.low < 1.0 {
        forward.cycles.high = forward.cycles.high.max(FORWARDED_CYCLES);
        forward.source += ", renamed away for some addresses only";
    }
    let mut call = cost(CALL);
    let least = 2.0 * turn.cycles.low;
    call.cycles.low = call.cycles.low.max(least).min(call.cycles.likely);
    CoreCosts {
        width: rate("nop", 4.0),
        stores: rate("store_i64", 1.5),
        loads: rate("load_i64", 2.0),
        forward,
        fence: cost(FENCE),
        turn,
        call,
        counter,
        ordered,
    }
}

#[cfg(test)]
mod tests {
    use super::{Published, core_costs};
    use bench::experiment::fixtures::bare_site;
    use host::{Arch, Core};
    use record::event::Range;

    #[test]
    fn every_design_has_positive_costs_and_says_where_they_are_from() {
        for (core, arch) in
            Core::ALL.iter().flat_map(|core| [(core, Arch::X86_64), (core, Arch::Aarch64)])
        {
            let mut site = bare_site();
            site.host.cpu.arch = arch;
            site.host.cpu.microarchitecture.core = *core;
            let costs = core_costs(&site);
            for Published { cycles, source, .. } in [
                &costs.turn,
                &costs.forward,
                &costs.call,
                &costs.counter,
                &costs.ordered,
                &costs.fence,
            ] {
                let Range { low, likely, high } = *cycles;
                let is_ordered = 0.0 < low && low <= likely && likely <= high;
                assert!(is_ordered && !source.is_empty(), "{} {cycles:?}", core.name());
            }
        }
    }

    #[test]
    fn width_and_ports_are_those_of_the_tables() {
        for (core, arch, width, loads) in [
            (Core::Silvermont, Arch::X86_64, 2.0, 1.0),
            (Core::Skymont, Arch::X86_64, 8.0, 3.0),
            (Core::Bulldozer, Arch::X86_64, 4.0, 1.0),
            (Core::Zen5, Arch::X86_64, 8.0, 4.0),
            (Core::ThunderX2, Arch::Aarch64, 4.0, 2.0),
            (Core::CortexA57, Arch::Aarch64, 3.0, 1.0),
            (Core::AppleFirestorm, Arch::Aarch64, 8.0, 3.0),
        ] {
            let mut site = bare_site();
            site.host.cpu.arch = arch;
            site.host.cpu.microarchitecture.core = core;
            let costs = core_costs(&site);
            assert!((costs.width - width).abs() < 0.02, "{}: {}", core.name(), costs.width);
            assert!((costs.loads - loads).abs() < 0.02, "{}: {}", core.name(), costs.loads);
        }
    }
}
