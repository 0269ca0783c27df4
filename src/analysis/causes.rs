//! Candidate causes of a missed prediction, read from the environment: a table of conditions.
//! They are candidates, not proofs; a text says what the condition does to a figure.

use super::facts::{Fact, Test};
use super::figure::Figure;
use super::index::series_label;
use super::misses::Miss;
use super::verdict::Verdict;
use record::event::{Round, RoundStatus};
use record::run::Run;

/// A condition with what it does.
struct Cause {
    /// Prefixes of the ids of experiments that it can touch; empty means all.
    touches: &'static [&'static str],
    /// Verdicts that it can explain.
    explains: &'static [Verdict],
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
const EITHER: &[Verdict] = &[
    Verdict::Slower,
    Verdict::Faster,
    Verdict::Above,
    Verdict::Below,
];
const NOISE: &[Verdict] = &[Verdict::Slower, Verdict::Above];

/// System calls, faults and switches: what crosses into the kernel.
const KERNEL: &[&str] = &["os.", "memory.fault", "fs.", "net.", "clock.read"];
/// What misses caches or TLBs.
const MEMORY: &[&str] = &["memory.", "os.process", "os.switch", "fs."];

/// What a device answers.
const FILES: &[&str] = &["fs.", "memory.fault"];

const CAUSES: &[Cause] = &[
    Cause {
        touches: &[],
        explains: NOISE,
        fact: Fact::Share("steal_ns", 0.005),
        text: "the hypervisor gave time to others during its rounds (steal)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        fact: Fact::Share("throttled_ns", 0.005),
        text: "the control group's CPU quota throttled its rounds",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        fact: Fact::Share("minded_run_delay_ns", 0.05),
        text: "other programs had its CPUs when its device had answered (run delay)",
    },
    Cause {
        touches: &["os.schedule"],
        explains: EITHER,
        fact: Fact::Sum("foreign_switches", 0.0),
        text: "others ran on the CPU between its processes, by the kernel's count of switches",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        fact: Fact::ClockMoved(0.02),
        text: "the core clock moved during a round (turbo, power or heat limit)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        fact: Fact::Sum("migrations", 0.0),
        text: "the measuring thread was migrated",
    },
    Cause {
        touches: &["memory.", "fs.", "os."],
        explains: NOISE,
        fact: Fact::Sum("major_faults", 0.0),
        text: "pages had to be read from a device during its rounds",
    },
    Cause {
        touches: KERNEL,
        explains: SLOWER,
        fact: Fact::Host("/kernel/mitigations", Test::Contains("PTI")),
        text: "page-table isolation is on (every entry and exit switches page tables)",
    },
    Cause {
        touches: KERNEL,
        explains: SLOWER,
        fact: Fact::Host("/kernel/mitigations", Test::Contains("Mitigation")),
        text: "speculation mitigations are on (kernel entry, exit and indirect calls cost more)",
    },
    Cause {
        touches: KERNEL,
        explains: SLOWER,
        fact: Fact::Host("/kernel/seccomp", Test::MoreThan(0.0)),
        text: "a seccomp filter looks at every system call",
    },
    Cause {
        touches: &[
            "os.switch",
            "os.process",
            "os.thread",
            "net.",
            "noise.",
            "clock.read",
        ],
        explains: NOISE,
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: "interrupts, idle and timer accesses of a virtual machine may exit to the hypervisor",
    },
    Cause {
        touches: MEMORY,
        explains: SLOWER,
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: NESTED_PAGING,
    },
    Cause {
        touches: FILES,
        explains: FASTER,
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: DISK_IN_MEMORY,
    },
    Cause {
        touches: FILES,
        explains: SLOWER,
        fact: Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true")),
        text: DISK_SHARED,
    },
    Cause {
        touches: &["fs.sync"],
        explains: FASTER,
        fact: Fact::Host("/block/disks", Test::Present),
        text: "the device's write cache may outlive a loss of power (capacitors, a battery), or flushes of it \
               are not heeded",
    },
    Cause {
        touches: &["fs.sync", "fs.metadata"],
        explains: SLOWER,
        fact: Fact::Host("/block/disks", Test::Present),
        text: "a sync waits for others' changes in the same journal, and where CPUs are taken for the turn \
               of the kernel's own threads",
    },
    Cause {
        touches: &["cpu.", "clock.", "memory.", "os."],
        explains: FASTER,
        fact: Fact::ClockAboveCounter(0.1),
        text: "the core runs well above the counter's nominal rate (turbo)",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        fact: Fact::Host("/cpu/cpus/0/frequency/governor", Test::Is("powersave")),
        text: "the frequency governor is powersave",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        fact: Fact::Host("/cpu/cpus/0/frequency/governor", Test::Is("ondemand")),
        text: "the frequency governor raises the clock only after some load (ondemand)",
    },
    Cause {
        touches: &[],
        explains: SLOWER,
        fact: Fact::Host("/cpu/turbo/enabled", Test::Is("false")),
        text: "turbo is switched off",
    },
    Cause {
        touches: &["memory."],
        explains: SLOWER,
        fact: Fact::Host("/memory/thp/enabled", Test::Is("never")),
        text: "transparent huge pages are off (large footprints miss the TLB)",
    },
    Cause {
        touches: &["memory.", "os.process"],
        explains: EITHER,
        fact: Fact::Host("/memory/thp/enabled", Test::Is("always")),
        text: "transparent huge pages are always on and khugepaged may change pages meanwhile",
    },
    Cause {
        touches: &["memory."],
        explains: SLOWER,
        fact: Fact::Host("/memory/numa_balancing", Test::Is("true")),
        text: "automatic NUMA balancing unmaps pages to see who uses them",
    },
    Cause {
        touches: &["memory."],
        explains: SLOWER,
        fact: Fact::Host("/memory/ksm/running", Test::Is("true")),
        text: "same-page merging (KSM) scans memory",
    },
    Cause {
        touches: &["memory.", "fs."],
        explains: SLOWER,
        fact: Fact::Host("/memory/swap_used_bytes", Test::MoreThan(0.0)),
        text: "swap is in use",
    },
    Cause {
        touches: &["cpu.", "memory.", "os.", "noise."],
        explains: NOISE,
        fact: Fact::Host("/cpu/smt_active", Test::Is("true")),
        text: "SMT is active (whatever runs on the sibling shares the core)",
    },
    Cause {
        touches: &[],
        explains: NOISE,
        fact: Fact::Host("/limits/cpu_quota", Test::Present),
        text: "a CPU quota is set for this control group",
    },
    Cause {
        touches: &["clock.", "os.syscall", "noise."],
        explains: SLOWER,
        fact: Fact::Host("/kernel/clock_source/current", Test::IsNot("tsc")),
        text: "the kernel's clock source is not the TSC",
    },
    Cause {
        touches: &["noise.", "os.schedule", "os.switch"],
        explains: EITHER,
        fact: Fact::Host("/kernel/container/runtime", Test::Present),
        text: "it ran inside a container, beside others under one kernel",
    },
];

/// Candidate causes of some missed predictions, each once, the likeliest first: what was counted in
/// the figures' own rounds before what is true of the machine anyway, then what holds for more of
/// them. Empty where no recorded condition held.
pub(crate) fn of(run: &Run, misses: &[Miss]) -> Vec<&'static str> {
    let rounds: Vec<Vec<&Round>> = misses
        .iter()
        .map(|miss| rounds_of(run, miss.figure))
        .collect();
    let mut held: Vec<(&Cause, usize)> = CAUSES
        .iter()
        .map(|cause| {
            let explained = misses.iter().zip(&rounds).filter(|(miss, rounds)| {
                cause.explains.contains(&miss.verdict)
                    && touches(cause, miss.figure)
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
    held.into_iter().map(|(cause, _)| cause.text).collect()
}

fn touches(cause: &Cause, figure: &Figure) -> bool {
    let is_of_experiment = cause.touches.is_empty()
        || cause
            .touches
            .iter()
            .any(|prefix| figure.experiment.starts_with(prefix));
    is_of_experiment
        && match cause.text {
            // CPU time is none of the device's.
            DISK_IN_MEMORY | DISK_SHARED => !metric(figure).starts_with("cpu"),
            NESTED_PAGING => figure
                .case
                .int("footprint")
                .is_none_or(|bytes| bytes > TLB_REACH),
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
    let series = plan
        .filter(|planned| planned.id == figure.experiment)
        .flat_map(|planned| &planned.series);
    let labels: Vec<String> = series
        .clone()
        .filter(|series| series.cases.contains(&figure.case))
        .map(|series| series_label(&figure.experiment, series))
        .collect();
    let labels = match labels.is_empty() {
        true => series
            .map(|series| series_label(&figure.experiment, series))
            .collect(),
        false => labels,
    };
    let uses_disturbed = figure
        .stats
        .as_ref()
        .is_none_or(|stats| stats.used_disturbed);
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
    use super::{CAUSES, EITHER, NESTED_PAGING, touches};
    use crate::analysis::figure::Figure;
    use record::event::Ending;
    use record::key::CaseId;

    /// Causes are told in this order, the measured ones before what is true of the machine anyway.
    #[test]
    fn others_between_processes_are_named_before_the_container_around_them() {
        let at = |part: &str| {
            let found = CAUSES.iter().position(|cause| cause.text.contains(part));
            found.expect("is in the table")
        };
        let others = at("others ran on the CPU between its processes");
        assert!(others < at("inside a container"));
        assert_eq!(CAUSES[others].explains, EITHER);
        let figure = |id: &str| Figure::absent(id, Ending::Measured, String::new());
        assert!(touches(&CAUSES[others], &figure("os.schedule")));
        assert!(!touches(&CAUSES[others], &figure("os.switch")));
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
    }
}
