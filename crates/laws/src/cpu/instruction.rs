//! Laws of single instructions: published cycles of the core's design ([`super::published`]), at
//! the core clock.

mod operations;

pub use super::published::Measure;
use super::published::{published, whole_latency};
use super::{clocked, core, core_costs, crowded, least_cycles, taken_branches_bound};
use crate::{Facts, Law, range};
use bench::experiment::Site;
use host::{Arch, Core};
pub use operations::Operation;
use record::event::{Bound, Range};

/// Most cycles of store-to-load forwarding.
const FORWARDED_CYCLES: f64 = 6.0;

/// How far a published figure may be from what this method measures, as factors below and above,
/// and why.
type Slack = (f64, f64, &'static str);

/// Instructions whose cost is more than that of an execution unit.
fn slack(site: &Site, operation: Operation, measure: Measure, published: f64) -> Slack {
    use Operation::*;
    match operation {
        ExchangeI64 | FetchAddI64 | CompareExchangeI64 | LoadStoreExclusiveI64 => {
            (1.35, 1.35, "a locked operation waits for earlier memory accesses")
        }
        FenceFull | FenceLoad | FenceStore | FenceInstruction => {
            (1.8, 1.8, "a fence waits for earlier instructions, and its cost depends on microcode")
        }
        SpinHint => (8.0, 1.8, "the length of the pause differs by CPU model"),
        GatherI32x8 => gather_slack(site),
        DivU32 | DivU64 | DivF64 | DivF64x4 | DivF64x8 | SqrtF64 => {
            (1.35, 1.3, "a divider takes longer for some operands")
        }
        BranchMispredicted => (1.35, 1.35, "the front end refills from either cache"),
        BranchTaken => (2.2, 2.2, "depends on how dense the branches are"),
        BranchNotTaken => (1.6, 2.2, "depends on how dense the branches are"),
        Nop => (1.3, 1.4, "the front end rarely reaches its nominal width"),
        // Not renamed away, it takes a cycle.
        MoveI64 => (1.3, 1.35_f64.max(1.1 / published), "moves eliminated, unless disabled"),
        // Not renamed away, the value takes the way through the store buffer.
        StoreAndLoadI64 | PushAndPopI64 => (
            1.7,
            1.35_f64.max(FORWARDED_CYCLES / published),
            "some designs eliminate the store and the load for some addresses",
        ),
        ToVectorAndBack => (1.3, 1.4, "published figures for the two directions differ"),
        _ if operation.is_wide() => (1.4, 1.35, "512-bit code has a slower unit, a lower clock"),
        _ if measure == Measure::Throughput => (1.25, 1.3, "a loop comes close to it"),
        _ => (1.06, 1.1, "whole cycles"),
    }
}

/// Microcode against gather data sampling makes gathers of the designs it concerns several times
/// slower (Intel's INTEL-SA-00828); the kernel says whether it is on.
fn gather_slack(site: &Site) -> Slack {
    let state = site.host.kernel.mitigations.get("gather_data_sampling");
    let (above, because) = match state.map(String::as_str) {
        Some("Not affected" | "Vulnerable") => (1.5, "no mitigation of gather data sampling"),
        Some(_) => (8.0, "the microcode mitigation for gather data sampling may slow gathers"),
        None => (8.0, "microcode may mitigate gather data sampling, which slows gathers"),
    };
    (1.25, above, because)
}

/// An instruction's latency or reciprocal throughput, in ns. Errors: no design of the architecture
/// has a figure.
pub fn instruction(facts: Facts, operation: Operation, measure: Measure) -> Result<Law, String> {
    let cycles = cycles(facts.site, operation, measure)?;
    let share = 1.0 / (cycles.range.likely * core_costs(facts.site).width);
    let is_wide = measure == Measure::Throughput;
    Ok(clocked(facts, cycles).when(is_wide, |law| crowded(facts, law, share.min(1.0))))
}

/// What no correct figure of an operation passes.
pub fn instruction_bound(operation: Operation, measure: Measure) -> Option<Bound> {
    match operation {
        Operation::BranchTaken => Some(taken_branches_bound(1.0, "a taken branch")),
        Operation::CallAndReturn => Some(taken_branches_bound(2.0, "a call and its return")),
        _ => (measure == Measure::Latency && !operation.is_renamed_away()).then(|| {
            // A chain cannot be faster than a cycle for each instruction that the core executes.
            least_cycles(1.0, "dependent instructions, at least one cycle each".to_owned())
        }),
    }
}

/// An operation that takes what another one does, where no source names its own figure: the other,
/// and how many times as long it took, at least and at most, on designs that have both.
fn alike(operation: Operation) -> Option<(Operation, f64, f64)> {
    match operation {
        // 18 against 18 cycles on Gracemont, 19 against 18 on Golden Cove, 27.9 against 22.5 on
        // Zen+ [uops].
        Operation::CompareExchangeI64 => Some((Operation::FetchAddI64, 1.0, 1.24)),
        // Both go through the store buffer, or are renamed away.
        Operation::StoreAndLoadI64 => Some((Operation::PushAndPopI64, 1.0, 1.0)),
        _ => None,
    }
}

fn cycles(site: &Site, operation: Operation, measure: Measure) -> Result<Law, String> {
    if operation == Operation::CallAndReturn {
        let law = core_costs(site).call.law(operation.text());
        return Ok(law.and("code placement"));
    }
    let (arch, core) = (site.host.cpu.arch, core(site));
    let look_up = |operation: Operation| published(arch, core, operation.text(), measure);
    let own = look_up(operation).filter(|own| own.is_own);
    let found = own.or_else(|| {
        let (other, least, most) = alike(operation)?;
        let mut found = look_up(other).filter(|other| other.is_own)?;
        let Range { low, likely, high } = found.cycles;
        found.cycles = range(least * low, (least * most).sqrt() * likely, most * high);
        found.source = format!("as {}, {}", other.text(), found.source);
        Some(found)
    });
    let is_there = operation.feature(arch).is_some();
    let mut found = found.or_else(|| look_up(operation).filter(|_| is_there)).ok_or_else(|| {
        format!("unknown: no source was found for {} on any design", operation.text())
    })?;
    let Range { low, likely, high } = found.cycles;
    let (below, above, because) = slack(site, operation, measure, high);
    found.cycles = range(low / below, likely, high * above);
    Ok(found.law(operation.text()).and(because))
}

/// Published latency of an instruction on a core of this design, where it is a whole number of
/// cycles. None on aarch64: fused operations there forward their accumulator.
pub fn published_latency(arch: Arch, core: Core, name: &str) -> Option<u64> {
    (arch == Arch::X86_64).then(|| whole_latency(core, name))?
}

#[cfg(test)]
mod tests {
    use super::{Measure, Operation, cycles, published_latency};
    use bench::experiment::fixtures::bare_site;
    use host::{Arch, Core};

    fn site(arch: Arch, core: Core) -> bench::experiment::Site {
        let mut site = bare_site();
        site.host.cpu.arch = arch;
        site.host.cpu.microarchitecture.core = core;
        site
    }

    #[test]
    fn an_unknown_design_gets_all_of_its_architecture_and_a_known_one_its_own() {
        let of = |core, operation| {
            cycles(&site(Arch::X86_64, core), operation, Measure::Latency).map(|law| law.range)
        };
        let any = of(Core::Unknown, Operation::MulI64).expect("it is in the table");
        assert!(any.low < 3.0 && any.high > 5.0, "{any:?}");
        let own = of(Core::GoldenCove, Operation::MulI64).expect("it is in the table");
        assert!(own.low > 2.7 && own.high < 3.5, "{own:?}");
        assert!(of(Core::GoldenCove, Operation::MulAddI64).is_err(), "of Arm");
    }

    #[test]
    fn a_prediction_names_its_source_or_says_that_none_was_found() {
        let of = |arch, core, operation| {
            let law = cycles(&site(arch, core), operation, Measure::Latency).expect("a law");
            let prediction = law.prediction();
            assert!(!prediction.unsourced);
            prediction.because
        };
        let golden = |operation| of(Arch::X86_64, Core::GoldenCove, operation);
        assert!(golden(Operation::MulI64).contains("[instlatx64]"));
        assert!(golden(Operation::CompareExchangeI64).contains("[uops]"));
        // Zen 3's own is not published: as a locked addition, times what the others' ratio is.
        let zen3 = site(Arch::X86_64, Core::Zen3);
        let law = cycles(&zen3, Operation::CompareExchangeI64, Measure::Latency).expect("a law");
        assert!(law.range.low < 7.5 && law.range.high > 9.0 && law.range.high < 14.0, "{law:?}");
        let any = of(Arch::Aarch64, Core::NeoverseV1, Operation::CompareExchangeI64);
        assert!(any.contains("no source"), "{any}");
    }

    #[test]
    fn no_latency_of_an_arm_design_gives_a_clock() {
        let arm = published_latency(Arch::Aarch64, Core::NeoverseV1, "add_i32x4");
        assert_eq!(arm, None);
        assert_eq!(published_latency(Arch::X86_64, Core::Haswell, "fma_f64x4"), Some(5));
    }

    #[test]
    fn a_value_through_memory_may_or_may_not_be_renamed() {
        for operation in [Operation::StoreAndLoadI64, Operation::PushAndPopI64] {
            let site = site(Arch::X86_64, Core::RedwoodCove);
            let cycles = cycles(&site, operation, Measure::Latency).expect("it is in the table");
            let cycles = cycles.range;
            assert!(cycles.low < 0.5 && cycles.high > 5.5, "{operation:?}: {cycles:?}");
        }
    }
}
