//! Candidate causes of a missed prediction, read from the environment: a table of conditions.
//! They are candidates, not proofs; a text says what the condition does to a figure.

use super::facts::{Fact, Test};
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
}

const DISK_IN_MEMORY: &str = "a virtual machine's disk may lie in its host's memory";
const DISK_SHARED: &str =
    "a virtual machine's disk is shared with others, and often limited in rate";
const NESTED_PAGING: &str = "nested paging (a TLB miss walks two page tables)";

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

const CAUSES: &[Cause] = &[
    Cause {
        touches: &[],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Part(SHARED, PROBED, 0.05),
        text: "another tenant used its core beside it (width probe)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Share("steal_ns", 0.005),
        text: "the hypervisor gave time to others during its rounds (steal)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Share("throttled_ns", 0.005),
        text: "the control group's CPU quota throttled its rounds",
    },
    Cause {
        touches: ALONE,
        explains: NOISE,
        counted_as: None,
        fact: Fact::RunDelay(0.05),
        text: "other programs had its CPU (run delay)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Share("minded_run_delay_ns", 0.05),
        text: "other programs had its CPUs when its device had answered (run delay)",
    },
    Cause {
        touches: &["os.schedule"],
        explains: EITHER,
        counted_as: None,
        fact: Fact::Sum("foreign_switches", 0.0),
        text: "others ran on the CPU between its processes, by the kernel's count of switches",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        counted_as: None,
        fact: Fact::ClockMoved(0.02),
        text: "the core clock moved during a round (turbo, power or heat limit)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Sum("migrations", 0.0),
        text: "the measuring thread was migrated",
    },
    Cause {
        touches: &["memory.", "fs.", "os."],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Sum("major_faults", 0.0),
        text: "pages had to be read from a device during its rounds",
    },
    Cause {
        touches: KERNEL,
        explains: SLOWER,
        counted_as: Some(Counted::PageTableIsolation),
        fact: Fact::Host("/kernel/mitigations", Test::Contains("PTI")),
        text: "page-table isolation is on (every entry and exit switches page tables)",
    },
    Cause {
        touches: KERNEL,
        explains: SLOWER,
        counted_as: Some(Counted::Seccomp),
        fact: Fact::Host("/kernel/seccomp", Test::MoreThan(0.0)),
        text: "a seccomp filter looks at every system call",
    },
    Cause {
        touches: &["os.switch", "os.process", "os.thread", "net.", "noise.", "clock.read"],
        explains: NOISE,
        counted_as: Some(Counted::Hypervisor),
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: "interrupts, idle and timer accesses of a virtual machine may exit to the hypervisor",
    },
    Cause {
        touches: MEMORY,
        explains: SLOWER,
        counted_as: Some(Counted::NestedPaging),
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: NESTED_PAGING,
    },
    Cause {
        touches: FILES,
        explains: FASTER,
        counted_as: Some(Counted::VirtualDisk),
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: DISK_IN_MEMORY,
    },
    Cause {
        touches: FILES,
        explains: SLOWER,
        counted_as: Some(Counted::VirtualDisk),
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: DISK_SHARED,
    },
    Cause {
        touches: &["fs.sync"],
        explains: FASTER,
        counted_as: Some(Counted::WriteCache),
        fact: Fact::Host("/block/disks", Test::Present),
        text: "the device's write cache may outlive a loss of power (capacitors, a battery), or flushes of it \
               are not heeded",
    },
    Cause {
        touches: &["fs.sync", "fs.metadata"],
        explains: SLOWER,
        counted_as: Some(Counted::Journal),
        fact: Fact::Host("/block/disks", Test::Present),
        text: "a sync waits for others' changes in the same journal, and where CPUs are taken for the turn \
               of the kernel's own threads",
    },
    Cause {
        touches: &["cpu.", "clock.", "memory.", "os."],
        explains: FASTER,
        counted_as: Some(Counted::CoreClock),
        fact: Fact::ClockAboveCounter(0.1),
        text: "the core runs well above the counter's nominal rate (turbo)",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        counted_as: Some(Counted::CoreClock),
        fact: Fact::Host("/cpu/cpus/0/frequency/governor", Test::Is("powersave")),
        text: "the frequency governor is powersave",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        counted_as: Some(Counted::CoreClock),
        fact: Fact::Host("/cpu/cpus/0/frequency/governor", Test::Is("ondemand")),
        text: "the frequency governor raises the clock only after some load (ondemand)",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        counted_as: Some(Counted::CoreClock),
        fact: Fact::Host("/cpu/turbo/enabled", Test::Is("false")),
        text: "turbo is switched off",
    },
    Cause {
        touches: &["memory."],
        explains: SLOWER,
        counted_as: None,
        fact: Fact::Host("/memory/thp/enabled", Test::Is("never")),
        text: "transparent huge pages are off (large footprints miss the TLB)",
    },
    Cause {
        touches: &["memory.", "os.process"],
        explains: EITHER,
        counted_as: None,
        fact: Fact::Host("/memory/thp/enabled", Test::Is("always")),
        text: "transparent huge pages are always on and khugepaged may change pages meanwhile",
    },
    Cause {
        touches: &["memory."],
        explains: SLOWER,
        counted_as: None,
        fact: Fact::Host("/memory/numa_balancing", Test::Is("true")),
        text: "automatic NUMA balancing unmaps pages to see who uses them",
    },
    Cause {
        touches: &["memory."],
        explains: SLOWER,
        counted_as: None,
        fact: Fact::Host("/memory/ksm/running", Test::Is("true")),
        text: "same-page merging (KSM) scans memory",
    },
    Cause {
        touches: &["memory.", "fs."],
        explains: SLOWER,
        counted_as: None,
        fact: Fact::Host("/memory/swap_used_bytes", Test::MoreThan(0.0)),
        text: "swap is in use",
    },
    Cause {
        touches: &["cpu.", "memory.", "os.", "noise."],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Host("/cpu/smt_active", Test::Is("true")),
        text: "SMT is active (whatever runs on the sibling shares the core)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        counted_as: None,
        fact: Fact::Host("/limits/cpu_quota", Test::Present),
        text: "a CPU quota is set for this control group",
    },
    Cause {
        touches: FILES,
        explains: SLOWER,
        counted_as: None,
        fact: Fact::Host("/limits/io/0", Test::Present),
        text: "a control group limits reads and writes of a disk",
    },
    Cause {
        touches: &["clock.", "os.syscall", "noise."],
        explains: SLOWER,
        counted_as: Some(Counted::ClockSource),
        fact: Fact::Host("/kernel/clock_source/current", Test::IsNot("tsc")),
        text: "the kernel's clock source is not the TSC",
    },
];

/// Candidate causes of some missed predictions, each once, the likeliest first: what was counted in
/// the figures' own rounds before what is true of the machine anyway, then what holds for more of
/// them. Empty where no recorded condition held, and of a published machine, of which none was recorded
/// with any figure.
///
/// A miss whose interval reaches into what was predicted needs no cause. What is true of the machine
/// explains no miss of a prediction from earlier figures, which it touched as well, nor of a
/// prediction that counted it in.
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
    // Samples of a core alone exclude its neighbours.
    let is_past =
        matches!(cause.fact, Fact::Part(SHARED, ..)) && figure.condition == Some(Condition::Alone);
    is_of_experiment
        && !is_past
        && match cause.text {
            // CPU time is none of the device's.
            DISK_IN_MEMORY | DISK_SHARED => !metric(figure).starts_with("cpu"),
            NESTED_PAGING => {
                let footprint = figure.case.int("footprint");
                footprint.is_none_or(|bytes| bytes > TLB_REACH)
                    && !matches!(figure.case.text("level"), Some("L1" | "L2"))
            }
            _ => true,
        }
}

fn metric(figure: &Figure) -> &str {
    let metric = figure.metric.as_ref();
    metric.map_or("", |metric| metric.name.as_ref())
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
    use super::{CAUSES, Cause, Condition, Counted, EITHER, Fact, NESTED_PAGING, SHARED, touches};
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
    fn others_between_processes_explain_only_time_slices() {
        let others = CAUSES
            .iter()
            .find(|cause| cause.text.contains("between its processes"))
            .expect("is in the table");
        assert_eq!(others.explains, EITHER);
        let figure = |id: &str| Figure::absent(id, Ending::Measured, String::new());
        assert!(touches(others, &figure("os.schedule")));
        assert!(!touches(others, &figure("os.switch")));
    }

    #[test]
    fn a_figure_of_a_core_alone_is_not_explained_by_who_shared_it() {
        let shared = |cause: &&Cause| matches!(cause.fact, Fact::Part(SHARED, ..));
        let shared = CAUSES.iter().find(shared).expect("is in the table");
        let mut figure = Figure::absent("os.syscall", Ending::Measured, String::new());
        assert!(touches(shared, &figure));
        figure.condition = Some(Condition::AsFound);
        assert!(touches(shared, &figure));
        figure.condition = Some(Condition::Alone);
        assert!(!touches(shared, &figure));
    }

    #[test]
    fn what_misses_no_tlb_walks_no_page_tables() {
        let nested = CAUSES.iter().find(|cause| cause.text == NESTED_PAGING);
        let nested = nested.expect("is in the table");
        let mut figure = Figure::absent("memory.latency", Ending::Measured, String::new());
        figure.case = CaseId::new().with("footprint", 55_104);
        assert!(!touches(nested, &figure));
        figure.case = CaseId::new().with("footprint", 64 << 20);
        assert!(touches(nested, &figure));
        for (level, is_touched) in [("L1", false), ("L2", false), ("DRAM", true)] {
            figure.case = CaseId::new().with("level", level);
            assert_eq!(touches(nested, &figure), is_touched, "{level}");
        }
    }

    /// A read of the sample that takes 171 ns where 60 to 120 were predicted before the run and 70 to
    /// 140 from earlier figures, without steal, with some of the window waited for the CPU.
    fn run_of(run_delay: f64, counted: &[Counted]) -> Run {
        let mut run = Run::new(sample::header());
        for mut event in sample::events() {
            match &mut event {
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
            }
            run.push(event);
        }
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
