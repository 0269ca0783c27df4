//! Laws of single instructions: published cycles of the core's design, at the core clock.
//!
//! The figures stand in `instruction/x86_64.txt` and `instruction/aarch64.txt`, each with its
//! sources; figures from memory have a star. A design that neither has gets an interval over all
//! designs of its architecture.

mod operations;

use super::{
    clocked, core, core_costs, cycles_of, least_cycles, table_cycles, taken_branches_bound,
};
use crate::{Facts, Law, range};
use bench::experiment::Site;
use host::{Arch, Core};
pub use operations::Operation;
use record::event::Bound;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What of an instruction is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// From its operands to its result.
    Latency,
    /// From one to the next that does not need its result.
    Throughput,
}

/// Published cycles of one instruction on one design.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    latency: Option<Cycles>,
    throughput: Option<Cycles>,
}

/// A figure of a table, and whether it was read from its source.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cycles {
    count: f64,
    sourced: bool,
}

impl Cell {
    fn of(self, measure: Measure) -> Option<Cycles> {
        match measure {
            Measure::Latency => self.latency,
            Measure::Throughput => self.throughput,
        }
    }
}

impl Cycles {
    fn read(text: &str) -> Option<Cycles> {
        let count = text.trim_end_matches('*').parse().ok()?;
        Some(Cycles { count, sourced: !text.ends_with('*') })
    }
}

/// A table: designs, and cells by instruction in their order.
struct Table {
    designs: Vec<&'static str>,
    rows: BTreeMap<&'static str, Vec<Cell>>,
}

static X86_64: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("instruction/x86_64.txt")));
static AARCH64: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("instruction/aarch64.txt")));

impl Table {
    /// Reads a table of the repository; what is no number is no figure.
    fn read(text: &'static str) -> Table {
        let mut lines =
            text.lines().filter(|line| !line.starts_with('#')).map(str::split_whitespace);
        let designs = lines.next().map_or(Vec::new(), |head| head.skip(1).collect());
        let cell = |text: &str| {
            let (latency, throughput) = text.split_once('/').unwrap_or((text, ""));
            Cell { latency: Cycles::read(latency), throughput: Cycles::read(throughput) }
        };
        let rows = lines.filter_map(|mut line| Some((line.next()?, line.map(cell).collect())));
        Table { designs, rows: rows.collect() }
    }

    fn of(arch: Arch) -> &'static Table {
        match arch {
            Arch::X86_64 => &X86_64,
            Arch::Aarch64 => &AARCH64,
        }
    }

    /// What is published for a design.
    fn published(&self, name: &str, design: &str, measure: Measure) -> Option<Cycles> {
        let column = self.designs.iter().position(|one| *one == design)?;
        self.rows.get(name)?.get(column)?.of(measure)
    }

    /// What is published for all designs, ascending.
    fn all(&self, name: &str, measure: Measure) -> Vec<Cycles> {
        let row = self.rows.get(name).map_or(&[][..], Vec::as_slice);
        let mut all: Vec<Cycles> = row.iter().filter_map(|cell| cell.of(measure)).collect();
        all.sort_by(|a, b| a.count.total_cmp(&b.count));
        all
    }
}

/// The column of a design: its own, or that of one with the same execution units.
fn design(core: Core) -> Option<&'static str> {
    Some(match core {
        Core::SandyBridge | Core::IvyBridge => "IvyBridge",
        Core::Haswell => "Haswell",
        Core::Broadwell => "Broadwell",
        Core::SkylakeClient | Core::SkylakeServer | Core::PalmCove => "Skylake",
        Core::SunnyCove | Core::WillowCove | Core::CypressCove => "SunnyCove",
        Core::GoldenCove | Core::RaptorCove => "GoldenCove",
        Core::RedwoodCove => "RedwoodCove",
        Core::LionCove => "LionCove",
        Core::Gracemont | Core::Crestmont => "Gracemont",
        Core::Skymont => "Skymont",
        Core::Zen => "Zen",
        Core::Zen2 => "Zen2",
        Core::Zen3 => "Zen3",
        Core::Zen4 => "Zen4",
        Core::Zen5 => "Zen5",
        Core::CortexA76 | Core::CortexA77 | Core::CortexA78 | Core::NeoverseN1 => "NeoverseN1",
        Core::CortexX1 | Core::NeoverseV1 => "NeoverseV1",
        Core::CortexX2 | Core::CortexX3 | Core::NeoverseV2 => "NeoverseV2",
        _ => return None,
    })
}

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
        BranchMispredicted => {
            (1.35, 1.35, "the front end refills from the µop cache or from the instruction cache")
        }
        BranchTaken => (2.2, 2.2, "depends on how dense the branches are"),
        BranchNotTaken => (1.6, 2.2, "depends on how dense the branches are"),
        Nop => (1.3, 1.4, "the front end rarely reaches its nominal width"),
        // Not renamed away, it takes a cycle.
        MoveI64 => {
            (1.3, 1.35_f64.max(1.1 / published), "move elimination, unless microcode disabled it")
        }
        // Not renamed away, the value takes the way through the store buffer.
        StoreAndLoadI64 | PushAndPopI64 => (
            1.7,
            1.35_f64.max(FORWARDED_CYCLES / published),
            "some designs eliminate the store and the load for some addresses",
        ),
        ToVectorAndBack => (1.3, 1.4, "published figures for the two directions differ"),
        _ if operation.is_wide() => (
            1.4,
            1.35,
            "the second 512-bit unit is slower or disabled, and 512-bit code lowers the clock",
        ),
        _ if measure == Measure::Throughput => {
            (1.25, 1.3, "a loop comes close to the published throughput")
        }
        _ => (1.06, 1.1, "whole cycles"),
    }
}

/// Microcode against gather data sampling makes gathers of the designs it concerns several times
/// slower (Intel's INTEL-SA-00828); the kernel says whether it is on.
fn gather_slack(site: &Site) -> Slack {
    let state = site.host.kernel.mitigations.get("gather_data_sampling");
    let (above, because) = match state.map(String::as_str) {
        Some("Not affected" | "Vulnerable") => {
            (1.5, "no microcode mitigation for gather data sampling")
        }
        Some(_) => (8.0, "the microcode mitigation for gather data sampling may slow gathers"),
        None => (
            8.0,
            "unknown whether the microcode mitigates gather data sampling, which slows gathers",
        ),
    };
    (1.25, above, because)
}

/// An instruction's latency or reciprocal throughput, in ns. Errors: no design of the architecture
/// has a figure.
pub fn instruction(facts: Facts, operation: Operation, measure: Measure) -> Result<Law, String> {
    Ok(clocked(facts, cycles(facts.site, operation, measure)?))
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

fn cycles(site: &Site, operation: Operation, measure: Measure) -> Result<Law, String> {
    if operation == Operation::CallAndReturn {
        let (costs, source) = core_costs(site);
        let law = table_cycles(costs.call, operation.text(), &source);
        return Ok(law.and("code placement"));
    }
    let name = operation.text();
    let table = Table::of(site.host.cpu.arch);
    let core = core(site);
    let own = design(core).and_then(|design| {
        let cycles = table.published(name, design, measure)?;
        let said = if cycles.sourced { "published" } else { "usual" };
        let source = format!("{said} for {design}, applied to {}", core.name());
        let count = cycles.count;
        Some((range(count, count, count), source, cycles.sourced))
    });
    let (cycles, source, sourced) = match own {
        Some(own) => own,
        None => {
            let all = table.all(name, measure);
            let (Some(least), Some(most)) = (all.first(), all.last()) else {
                return Err(format!("unknown: {name} is in no table"));
            };
            let source = format!(
                "no published figure for {}: the range of {} designs",
                core.name(),
                all.len()
            );
            let sourced = all.iter().all(|cycles| cycles.sourced);
            (range(least.count, all[all.len() / 2].count, most.count), source, sourced)
        }
    };
    let (mut below, mut above, because) = slack(site, operation, measure, cycles.high);
    let is_arm = site.host.cpu.arch == Arch::Aarch64;
    if is_arm {
        // The table is from memory.
        (below, above) = (below * 1.3, above * 1.4);
    }
    let cycles = range(cycles.low / below, cycles.likely, cycles.high * above);
    let law = cycles_of(cycles, operation.text(), &source).and(because);
    Ok(law.unsourced_if(is_arm || !sourced))
}

/// Published latency of an instruction on a core of this design, where it is a whole number of
/// cycles. None on aarch64: its table is from memory, and fused operations there forward their
/// accumulator.
pub fn published_latency(arch: Arch, core: Core, name: &str) -> Option<u64> {
    if arch != Arch::X86_64 {
        return None;
    }
    let cycles = X86_64.published(name, design(core)?, Measure::Latency)?.count;
    (cycles >= 1.0 && cycles.fract() == 0.0).then_some(cycles as u64)
}

#[cfg(test)]
mod tests {
    use super::{AARCH64, Measure, Operation, X86_64, cycles, design, published_latency};
    use bench::experiment::fixtures::bare_site;
    use host::{Arch, Core};

    #[test]
    fn every_cell_of_the_tables_is_a_figure_or_none() {
        for (table, designs) in [(&X86_64, 15), (&AARCH64, 3)] {
            assert_eq!(table.designs.len(), designs);
            assert!(table.rows.len() > 40);
            for (name, row) in &table.rows {
                assert_eq!(row.len(), designs, "{name}");
                for cell in row {
                    let [latency, throughput] =
                        [cell.latency, cell.throughput].map(|cycles| Some(cycles?.count));
                    for figure in [latency, throughput].into_iter().flatten() {
                        assert!(figure > 0.0 && figure < 1000.0, "{name}: {figure}");
                    }
                    // A chain is no faster than independent operations.
                    if let (Some(latency), Some(throughput)) = (latency, throughput) {
                        assert!(latency >= 0.9 * throughput, "{name}: {cell:?}");
                    }
                }
                assert!(
                    row.iter().any(|cell| cell.latency.or(cell.throughput).is_some()),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn every_design_has_a_column_of_its_architecture() {
        for core in Core::ALL {
            if let Some(design) = design(*core) {
                let columns = X86_64.designs.iter().chain(&AARCH64.designs);
                assert_eq!(columns.filter(|one| **one == design).count(), 1, "{design}");
            }
        }
    }

    #[test]
    fn an_unknown_design_gets_all_of_its_architecture_and_a_known_one_its_own() {
        let mut site = bare_site();
        site.host.cpu.arch = Arch::X86_64;
        let any = cycles(&site, Operation::MulI64, Measure::Latency).expect("it is in the table");
        let any = any.range;
        assert!(any.low < 3.0 && any.likely == 3.0 && any.high > 5.0, "{any:?}");
        site.host.cpu.microarchitecture.core = Core::GoldenCove;
        let own = cycles(&site, Operation::MulI64, Measure::Latency).expect("it is in the table");
        let own = own.range;
        assert!(own.low > 2.7 && own.high < 3.5, "{own:?}");
        assert!(cycles(&site, Operation::MulAddI64, Measure::Latency).is_err(), "of Arm");
    }

    #[test]
    fn a_prediction_says_where_its_figure_was_not_looked_up() {
        let mut site = bare_site();
        site.host.cpu.arch = Arch::X86_64;
        site.host.cpu.microarchitecture.core = Core::GoldenCove;
        let unsourced = |site: &bench::experiment::Site, operation| {
            let law = cycles(site, operation, Measure::Latency).expect("it is in the table");
            law.prediction().unsourced
        };
        assert!(!unsourced(&site, Operation::MulI64));
        assert!(unsourced(&site, Operation::CompareExchangeI64));
        site.host.cpu.arch = Arch::Aarch64;
        site.host.cpu.microarchitecture.core = Core::NeoverseV1;
        assert!(unsourced(&site, Operation::MulI64));
    }

    #[test]
    fn latencies_in_whole_cycles_are_told_for_designs_that_the_table_has() {
        let told = |core, name| published_latency(Arch::X86_64, core, name);
        assert_eq!(told(Core::SkylakeServer, "fma_f64x8"), Some(4));
        assert_eq!(told(Core::Haswell, "fma_f64x4"), Some(5));
        assert_eq!(told(Core::SkylakeServer, "add_i32x16"), Some(1));
        // Not whole, no such instruction, no such design, from memory.
        assert_eq!(told(Core::Gracemont, "add_i32x8"), None);
        assert_eq!(told(Core::Haswell, "fma_f64x8"), None);
        assert_eq!(told(Core::Unknown, "fma_f64x4"), None);
        let arm = published_latency(Arch::Aarch64, Core::NeoverseV1, "fma_f64x2");
        assert_eq!(arm, None);
    }

    #[test]
    fn a_value_through_memory_may_or_may_not_be_renamed() {
        let mut site = bare_site();
        site.host.cpu.arch = Arch::X86_64;
        site.host.cpu.microarchitecture.core = Core::RedwoodCove;
        for operation in [Operation::StoreAndLoadI64, Operation::PushAndPopI64] {
            let cycles = cycles(&site, operation, Measure::Latency).expect("it is in the table");
            let cycles = cycles.range;
            assert!(cycles.low < 0.5 && cycles.high > 5.5, "{operation:?}: {cycles:?}");
        }
    }
}
