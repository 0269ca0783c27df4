//! Candidate causes of a missed prediction, read from the environment: a table of conditions.
//! They are candidates, not proofs; a text says what the condition does to a figure.

use super::facts::Fact::{self, ClockAboveCounter, ClockMoved, Host, Part, RunDelay, Share, Sum};
use super::facts::Test::{Contains, Is, IsNot, MoreThan, Present};
use super::figure::{Condition, Figure};
use super::held;
use super::index::series_label;
use super::misses::Miss;
use super::verdict::Verdict;
use record::event::{Condition as Counted, PredictionKind, Round, RoundStatus};
use record::metric::Better;
use record::run::Run;
use stats::width::{PROBED, SHARED};

/// A condition with what it does.
struct Cause {
    /// Prefixes of the ids of experiments that it can touch; empty means all.
    touches: &'static [&'static str],
    /// Verdicts that it can explain.
    explains: &'static [Verdict],
    /// What predictions call the condition where they counted it in: it is then no cause of a miss.
    counted_as: Option<Counted>,
    /// The condition.
    fact: Fact,
    /// The cause, as a clause.
    text: &'static str,
    /// Which figures of these experiments it can touch.
    scope: Scope,
}

/// Which figures a cause can touch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All.
    All,
    /// What a device takes: not CPU time.
    Device,
    /// What misses the first level's TLB.
    BeyondTlb,
    /// What may rest on samples of a core that others used.
    SharedCore,
}

impl Scope {
    fn has(self, figure: &Figure) -> bool {
        match self {
            Scope::All => true,
            Scope::Device => !figure.metric_name().starts_with("cpu"),
            Scope::BeyondTlb => {
                let footprint = figure.case.int("footprint");
                footprint.is_none_or(|bytes| bytes > TLB_REACH)
                    && !matches!(figure.case.text("level"), Some("L1" | "L2"))
            }
            Scope::SharedCore => figure.condition != Some(Condition::Alone),
        }
    }
}

/// A row of the table, of all figures, which no prediction counts in.
const fn cause(
    touches: &'static [&'static str],
    explains: &'static [Verdict],
    fact: Fact,
    text: &'static str,
) -> Cause {
    Cause { touches, explains, counted_as: None, fact, text, scope: Scope::All }
}

impl Cause {
    const fn counted_as(self, condition: Counted) -> Cause {
        Cause { counted_as: Some(condition), ..self }
    }

    const fn of(self, scope: Scope) -> Cause {
        Cause { scope, ..self }
    }
}

const GUEST: Fact = Host("/kernel/virtualisation/is_guest", Is("true"));

/// Bytes that every first-level TLB covers with base pages: 64 entries.
const TLB_REACH: u64 = 64 * 4096;

const SLOWER: &[Verdict] = &[Verdict::Slower];
const FASTER: &[Verdict] = &[Verdict::Faster];
const EITHER: &[Verdict] = &[Verdict::Slower, Verdict::Faster, Verdict::Above, Verdict::Below];
const NOISE: &[Verdict] = &[Verdict::Slower, Verdict::Above];

/// System calls, faults and switches: what crosses into the kernel.
const KERNEL: &[&str] = &["os.", "memory.fault", "fs.", "net.", "clock.read"];
/// What misses caches or TLBs.
const MEMORY: &[&str] = &["memory.", "os.process", "os.switch", "fs."];

/// What has its CPU to itself: a thread that waits for one there waits for other programs, and not
/// for a party of its own experiment.
const ALONE: &[&str] = &["clock.", "cpu.", "memory.", "noise.", "os.syscall", "os.signal", "fs."];

/// What a device answers.
const FILES: &[&str] = &["fs.", "memory.fault"];

#[rustfmt::skip]
const CAUSES: &[Cause] = &[
    cause(&[], NOISE, Part(SHARED, PROBED, 0.05),
        "another tenant used its core beside it (width probe)").of(Scope::SharedCore),
    cause(&[], NOISE, Share("steal_ns", 0.005),
        "the hypervisor gave time to others during its rounds (steal)"),
    cause(&[], NOISE, Share("throttled_ns", 0.005),
        "the control group's CPU quota throttled its rounds"),
    cause(ALONE, NOISE, RunDelay(0.05), "other programs had its CPU (run delay)"),
    cause(&[], NOISE, Share("minded_run_delay_ns", 0.05),
        "other programs had its CPUs when its device had answered (run delay)"),
    cause(&["os.schedule"], EITHER, Sum("foreign_switches", 0.0),
        "others ran on the CPU between its processes, by the kernel's count of switches"),
    cause(&[], SLOWER, ClockMoved(0.02),
        "the core clock moved during a round (turbo, power or heat limit)"),
    cause(&[], NOISE, Sum("migrations", 0.0), "the measuring thread was migrated"),
    cause(&["memory.", "fs.", "os."], NOISE, Sum("major_faults", 0.0),
        "pages had to be read from a device during its rounds"),
    cause(KERNEL, SLOWER, Host("/kernel/mitigations", Contains("PTI")),
        "page-table isolation is on (every entry and exit switches page tables)")
            .counted_as(Counted::PageTableIsolation),
    cause(KERNEL, SLOWER, Host("/kernel/seccomp", MoreThan(0.0)),
        "a seccomp filter looks at every system call").counted_as(Counted::Seccomp),
    cause(&["os.switch", "os.process", "os.thread", "net.", "noise.", "clock.read"], NOISE, GUEST,
        "interrupts, idle and timer accesses of a virtual machine may exit to the hypervisor")
            .counted_as(Counted::Hypervisor),
    cause(MEMORY, SLOWER, GUEST,
        "nested paging (a TLB miss walks two page tables)")
            .counted_as(Counted::NestedPaging).of(Scope::BeyondTlb),
    cause(FILES, FASTER, GUEST,
        "a virtual machine's disk may lie in its host's memory")
            .counted_as(Counted::VirtualDisk).of(Scope::Device),
    cause(FILES, SLOWER, GUEST,
        "a virtual machine's disk is shared with others, and often limited in rate")
            .counted_as(Counted::VirtualDisk).of(Scope::Device),
    cause(&["fs.sync"], FASTER, Host("/block/disks", Present),
        "the device's write cache may outlive a loss of power (capacitors, a battery), or \
         flushes of it are not heeded").counted_as(Counted::WriteCache),
    cause(&["fs.sync", "fs.metadata"], SLOWER, Host("/block/disks", Present),
        "a sync waits for others' changes in the same journal, and where CPUs are taken for the \
         turn of the kernel's own threads").counted_as(Counted::Journal),
    cause(&["cpu.", "clock.", "memory.", "os."], FASTER, ClockAboveCounter(0.1),
        "the core runs well above the counter's nominal rate (turbo)")
            .counted_as(Counted::CoreClock),
    cause(&[], SLOWER, Host("/cpu/cpus/0/frequency/governor", Is("powersave")),
        "the frequency governor is powersave").counted_as(Counted::CoreClock),
    cause(&[], SLOWER, Host("/cpu/cpus/0/frequency/governor", Is("ondemand")),
        "the frequency governor raises the clock only after some load (ondemand)")
            .counted_as(Counted::CoreClock),
    cause(&[], SLOWER, Host("/cpu/turbo/enabled", Is("false")),
        "turbo is switched off").counted_as(Counted::CoreClock),
    cause(&["memory."], SLOWER, Host("/memory/thp/enabled", Is("never")),
        "transparent huge pages are off (large footprints miss the TLB)"),
    cause(&["memory.", "os.process"], EITHER, Host("/memory/thp/enabled", Is("always")),
        "transparent huge pages are always on and khugepaged may change pages meanwhile"),
    cause(&["memory."], SLOWER, Host("/memory/numa_balancing", Is("true")),
        "automatic NUMA balancing unmaps pages to see who uses them"),
    cause(&["memory."], SLOWER, Host("/memory/ksm/running", Is("true")),
        "same-page merging (KSM) scans memory"),
    cause(&["memory.", "fs."], SLOWER, Host("/memory/swap_used_bytes", MoreThan(0.0)),
        "swap is in use"),
    cause(&["cpu.", "memory.", "os.", "noise."], NOISE, Host("/cpu/smt_active", Is("true")),
        "SMT is active (whatever runs on the sibling shares the core)"),
    cause(&[], NOISE, Host("/limits/cpu_quota", Present),
        "a CPU quota is set for this control group"),
    cause(FILES, SLOWER, Host("/limits/io/0", Present),
        "a control group limits reads and writes of a disk"),
    cause(&["clock.", "os.syscall", "noise."], SLOWER, Host("/kernel/clock_source/current", IsNot("tsc")),
        "the kernel's clock source is not the TSC").counted_as(Counted::ClockSource),
];

/// Candidate causes of some missed predictions, each once, the likeliest first: what was counted in
/// the figures' own rounds before what is true of the machine anyway, then what holds for more of
/// them. Empty where no recorded condition held, and of a published machine, of which none was
/// recorded with any figure.
///
/// A miss whose interval reaches into what was predicted needs no cause. What is true of the
/// machine explains no miss of a prediction from earlier figures, which it touched as well, nor of
/// a prediction that counted it in.
pub fn of(run: &Run, misses: &[Miss]) -> Vec<String> {
    if run.header.is_published() {
        return Vec::new();
    }
    let misses: Vec<&Miss> = misses.iter().filter(|miss| miss.is_certain).collect();
    let rounds: Vec<Vec<&Round>> = misses.iter().map(|miss| rounds_of(run, miss.figure)).collect();
    let mut held: Vec<(&Cause, usize)> = CAUSES
        .iter()
        .map(|cause| {
            let explained = misses.iter().zip(&rounds).filter(|(miss, rounds)| {
                explains(cause, miss)
                    && touches(cause, miss.figure)
                    && !is_counted_in(cause, miss)
                    && cause.fact.holds(run, rounds)
            });
            (cause, explained.count())
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    held.sort_by_key(|(cause, count)| {
        let is_of_the_machine = !cause.fact.is_of_rounds();
        (is_of_the_machine, std::cmp::Reverse(*count))
    });
    let mut texts = by_limits(run, &misses);
    texts.extend(held.into_iter().map(|(cause, _)| cause.text.to_owned()));
    texts
}

/// Limits that somebody set, near which figures lie that are worse than predicted: each once.
fn by_limits(run: &Run, misses: &[&Miss]) -> Vec<String> {
    let worse = misses.iter().filter(|miss| is_explained(SLOWER, miss));
    let mut texts: Vec<String> = worse
        .filter_map(|miss| held::by(run, miss.figure))
        .map(|limit| format!("it is limited by {limit}"))
        .collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Of quantities that are better when higher, what makes things worse lets them lie below.
fn explains(cause: &Cause, miss: &Miss) -> bool {
    is_explained(cause.explains, miss)
}

fn is_explained(by: &[Verdict], miss: &Miss) -> bool {
    let better = miss.figure.metric.as_ref().map(|metric| metric.better);
    let verdict = match (miss.verdict, better) {
        (Verdict::Above, Some(Better::Higher)) => Verdict::Below,
        (Verdict::Below, Some(Better::Higher)) => Verdict::Above,
        (verdict, _) => verdict,
    };
    by.contains(&verdict)
}

fn is_counted_in(cause: &Cause, miss: &Miss) -> bool {
    if cause.fact.is_of_rounds() {
        return false;
    }
    let counted = miss.figure.prior.iter().flat_map(|judged| &judged.prediction.conditions);
    miss.of == PredictionKind::Derived
        || counted.into_iter().any(|of| cause.counted_as == Some(*of))
}

fn touches(cause: &Cause, figure: &Figure) -> bool {
    let is_of_experiment = cause.touches.is_empty()
        || cause.touches.iter().any(|prefix| figure.experiment.starts_with(prefix));
    is_of_experiment && cause.scope.has(figure)
}

/// The rounds on which the figure rests: of the series that its case is in (of all of its
/// experiment where it has none), and not those that it left out as disturbed.
fn rounds_of<'run>(run: &'run Run, figure: &Figure) -> Vec<&'run Round> {
    let plan = run.plan.iter().flat_map(|plan| &plan.experiments);
    let series =
        plan.filter(|planned| planned.id == figure.experiment).flat_map(|planned| &planned.series);
    let labels: Vec<String> = series
        .clone()
        .filter(|series| series.cases.contains(&figure.case))
        .map(|series| series_label(&figure.experiment, series))
        .collect();
    let labels = match labels.is_empty() {
        true => series.map(|series| series_label(&figure.experiment, series)).collect(),
        false => labels,
    };
    let uses_disturbed = figure.stats.as_ref().is_none_or(|stats| stats.used_disturbed);
    let counts = |round: &Round| {
        figure.rounds.is_empty()
            || figure.rounds.iter().any(|point| {
                (point.n, point.segment) == (round.n, round.segment)
                    && (uses_disturbed || !point.disturbed)
            })
    };
    run.rounds
        .iter()
        .filter(|round| round.status == RoundStatus::Ok && labels.contains(&round.series))
        .filter(|round| counts(round))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{CAUSES, Condition, Counted, EITHER, Scope, Sum, touches};
    use crate::figure::Figure;
    use crate::held::tests::{figure, limited};
    use crate::misses::Miss;
    use crate::verdict::Verdict;
    use crate::{figures, misses, sample};
    use record::event::{Ending, Event, PUBLISHED, PredictionKind, Range};
    use record::key::CaseId;
    use record::run::Run;
    use record::unit::Unit;

    #[test]
    fn a_cause_touches_the_figures_of_its_scope() {
        let figure = |id: &str, case: CaseId, condition| Figure {
            case,
            condition,
            ..Figure::absent(id, Ending::Measured, String::new())
        };
        let others = CAUSES.iter().find(|cause| matches!(cause.fact, Sum("foreign_switches", _)));
        let of = |scope: Scope| CAUSES.iter().find(|cause| cause.scope == scope);
        let footprint = |bytes: u64| CaseId::new().with("footprint", bytes);
        let level = |level: &str| CaseId::new().with("level", level);
        for (cause, id, case, condition, is_touched) in [
            (others, "os.schedule", CaseId::new(), None, true),
            (others, "os.switch", CaseId::new(), None, false),
            (of(Scope::SharedCore), "os.syscall", CaseId::new(), None, true),
            (of(Scope::SharedCore), "os.syscall", CaseId::new(), Some(Condition::AsFound), true),
            (of(Scope::SharedCore), "os.syscall", CaseId::new(), Some(Condition::Alone), false),
            (of(Scope::BeyondTlb), "memory.latency", footprint(55_104), None, false),
            (of(Scope::BeyondTlb), "memory.latency", footprint(64 << 20), None, true),
            (of(Scope::BeyondTlb), "memory.latency", level("L1"), None, false),
            (of(Scope::BeyondTlb), "memory.latency", level("L2"), None, false),
            (of(Scope::BeyondTlb), "memory.latency", level("DRAM"), None, true),
        ] {
            let cause = cause.expect("is in the table");
            let figure = figure(id, case, condition);
            assert_eq!(touches(cause, &figure), is_touched, "{}: {}", cause.text, figure.label());
        }
        assert!(others.is_some_and(|cause| cause.explains == EITHER));
    }

    /// A read of the sample that takes 171 ns where 60 to 120 were predicted before the run and 70
    /// to 140 from earlier figures, without steal, with some of the window waited for the CPU.
    fn run_of(run_delay: f64, counted: &[Counted]) -> Run {
        let mut run = sample::changed(|event| match event {
            Event::Round(round) if round.series == "os.syscall" => {
                round.disturbed.clear();
                round.environment.insert("steal_ns".to_owned(), 0.0);
                let delay = round.window_ns * run_delay;
                round.environment.insert("run_delay_ns".to_owned(), delay);
            }
            Event::Prediction(predicted) if predicted.experiment == "os.syscall" => {
                predicted.prediction.conditions = counted.to_vec();
            }
            _ => {}
        });
        // True of the machine: a cause of whatever is slow and counts it not in.
        run.header.host["kernel"]["seccomp"] = serde_json::json!(2);
        run
    }

    fn causes(run: &Run, kind: PredictionKind) -> Vec<String> {
        let all = figures(run);
        let read = all.iter().find(|figure| {
            figure.experiment == "os.syscall" && figure.case.text("call") == Some("read")
        });
        let miss = misses::of(read.expect("is in the sample"), kind);
        super::of(run, &[miss.expect("is a miss")])
    }

    #[test]
    fn what_is_true_of_the_machine_explains_no_miss_of_earlier_figures() {
        let run = run_of(0.0, &[]);
        let of_machine = causes(&run, PredictionKind::Prior);
        assert_eq!(of_machine.len(), 1, "{of_machine:?}");
        assert!(of_machine[0].contains("seccomp"));
        assert!(causes(&run, PredictionKind::Derived).is_empty());
    }

    #[test]
    fn what_a_prediction_counts_in_explains_no_miss_of_it() {
        let run = run_of(0.0, &[Counted::Seccomp]);
        assert!(causes(&run, PredictionKind::Prior).is_empty());
    }

    #[test]
    fn a_cpu_that_others_had_comes_first_and_explains_both_kinds() {
        const DELAY: &str = "other programs had its CPU (run delay)";
        let run = run_of(0.06, &[]);
        let told = causes(&run, PredictionKind::Prior);
        assert_eq!((told[0].as_str(), told.len()), (DELAY, 2), "{told:?}");
        assert_eq!(causes(&run, PredictionKind::Derived), [DELAY]);
        let little = run_of(0.04, &[]);
        assert!(causes(&little, PredictionKind::Derived).is_empty());
    }

    #[test]
    fn a_limit_near_which_a_slow_figure_lies_comes_first_and_is_named() {
        let run = limited();
        let case = [("op", "read"), ("mode", "direct"), ("block", "4096")];
        let figure = figure("fs.io", &case, ("iops", Unit::OpPerS), 301.0);
        let range = |low: f64| Range { low, likely: low, high: 2.0 * low };
        let miss = |verdict, low| Miss {
            figure: &figure,
            of: PredictionKind::Prior,
            verdict,
            range: range(low),
            value: 301.0,
            factor: None,
            is_certain: true,
        };
        let told = super::of(&run, &[miss(Verdict::Slower, 4000.0)]);
        assert!(told[0].contains("300 requests/s on 254:0"), "{told:?}");
        let told = super::of(&run, &[miss(Verdict::Faster, 10.0)]);
        assert!(told.iter().all(|text| !text.contains("254:0")), "{told:?}");
    }

    #[test]
    fn an_uncertain_miss_and_a_published_one_have_no_cause() {
        let run = run_of(0.5, &[]);
        let all = figures(&run);
        let mut missed = misses::worst(&all, 10);
        assert!(!super::of(&run, &missed).is_empty());
        for miss in &mut missed {
            miss.is_certain = false;
        }
        assert!(super::of(&run, &missed).is_empty());
        let mut published = run.clone();
        published.header.options.preset = PUBLISHED.to_owned();
        assert!(super::of(&published, &misses::worst(&all, 10)).is_empty());
    }
}
