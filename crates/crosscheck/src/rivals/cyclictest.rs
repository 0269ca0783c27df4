//! `cyclictest` (rt-tests): how late a sleeper wakes, as real-time people measure it.
//!
//! Both sides sleep by clock_nanosleep to the points of a grid of the same spacing, on the same
//! clock and CPU, under the same policy and timer slack, idle states as they are
//! (`--default-system`) or held off (cyclictest's own default), beside the same load, and read the
//! clock just after. cyclictest's main thread, which wakes every 10 ms, is sent to another CPU
//! where there is one.

mod theirs;

use crate::{Conditions, Goal, Ours, Pairing, Rival, Row, Statistic, Theirs};
use anyhow::{Result, bail, ensure};
use bench::experiment::{Preset, Skip};
use record::key::CaseId;
use record::run::Run;
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "cyclictest",
    about: "how late a sleeper wakes",
    package: Some("rt-tests"),
    programs: &["cyclictest"],
    version_args: &["--help"],
    version: theirs::version,
    // The first with --json and --default-system.
    oldest: Some("2.0"),
    pairings,
    parse: theirs::parse,
};

const EXPERIMENT: &str = "noise.wakeup";
/// plumb's priority under SCHED_FIFO (hold.rs of the experiment).
const PRIORITY: u64 = 80;
/// A run of plumb's side has so many rounds.
const ROUNDS: u64 = 6;
/// The least number of sleeps of which a median is taken.
const LEAST: u64 = 12;
/// The file in which cyclictest puts its answer.
const ANSWER: &str = "cyclictest.json";
/// Its histogram ends here, in µs; it takes no longer one.
const HISTOGRAM_US: u64 = 1_000_000;
/// A spinner lives no longer than this, in s, whatever becomes of who started it.
const SPINNER_S: u64 = 60;

/// What both sleep like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sleep {
    spacing_us: u64,
    load: Load,
    clock: &'static str,
    policy: &'static str,
    idle_states: &'static str,
}

/// What else runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Idle,
    Same,
    Others,
}

/// Sleeps of standard, the most telling first: as any program sleeps, as cyclictest is run by those
/// who tune a machine, and beside a process that wants the CPU.
const STANDARD: [Sleep; 3] = [
    Sleep::PLAIN,
    Sleep { policy: "fifo", idle_states: "held_off", ..Sleep::PLAIN },
    Sleep { load: Load::Same, ..Sleep::PLAIN },
];
/// What thorough has beside them.
const THOROUGH: [Sleep; 6] = [
    Sleep { clock: "realtime", ..Sleep::PLAIN },
    Sleep { idle_states: "held_off", ..Sleep::PLAIN },
    Sleep { policy: "fifo", ..Sleep::PLAIN },
    Sleep { load: Load::Same, policy: "fifo", ..Sleep::PLAIN },
    Sleep { load: Load::Others, ..Sleep::PLAIN },
    Sleep { spacing_us: 100_000, ..Sleep::PLAIN },
];

impl Sleep {
    const PLAIN: Sleep = Sleep {
        spacing_us: 1000,
        load: Load::Idle,
        clock: "monotonic",
        policy: "other",
        idle_states: "allowed",
    };

    fn load(self) -> &'static str {
        match self.load {
            Load::Idle => "idle",
            Load::Same => "same",
            Load::Others => "others",
        }
    }

    /// The pairing's name.
    fn name(self) -> String {
        let spacing = format!("{}ms", self.spacing_us / 1000);
        let words = [self.load(), self.clock, self.policy, self.idle_states];
        format!("{spacing}-{}", words.join("-")).replace('_', "-")
    }

    fn case(self) -> CaseId {
        let case = CaseId::new()
            .with("spacing", 1000 * self.spacing_us)
            .with("load", self.load())
            .with("clock", self.clock)
            .with("policy", self.policy);
        let case = match self.policy {
            "fifo" => case,
            _ => case.with("slack", "default"),
        };
        case.with("idle_states", self.idle_states)
    }
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let sleeps: Vec<Sleep> = match conditions.preset {
        Preset::Rehearsal | Preset::Quick => STANDARD[..1].to_vec(),
        Preset::Standard => STANDARD.to_vec(),
        Preset::Thorough => STANDARD.into_iter().chain(THOROUGH).collect(),
    };
    let one = |sleep: &Sleep| pairing(conditions, *sleep);
    sleeps.iter().map(one).collect()
}

fn pairing(conditions: &Conditions, sleep: Sleep) -> Pairing {
    let wanted = (conditions.seconds * 1e6) as u64 / sleep.spacing_us;
    let count = wanted.max(LEAST);
    let cpus: Vec<usize> = match sleep.load {
        Load::Others => conditions.cpus.clone(),
        _ => conditions.cpus[..1].to_vec(),
    };
    let set = [
        ("spacing", format!("{}us", sleep.spacing_us)),
        ("load", sleep.load().to_owned()),
        ("clock", sleep.clock.to_owned()),
        ("policy", sleep.policy.to_owned()),
        ("slack", "default".to_owned()),
        ("idle_states", sleep.idle_states.to_owned()),
        ("sleeps", count.div_ceil(ROUNDS).to_string()),
    ];
    Pairing {
        name: sleep.name(),
        ours: Ours {
            experiment: EXPERIMENT,
            // A real-time policy has no slack.
            set: set
                .into_iter()
                .filter(|(name, _)| *name != "slack" || sleep.policy != "fifo")
                .collect(),
            cpus,
            dir: None,
            budget: Duration::from_secs(10),
            preset: conditions.lengths(),
        },
        theirs: asked(conditions, sleep, count),
        rows: rows(sleep),
        skip: refused(conditions, sleep),
        is_once: false,
    }
}

fn rows(sleep: Sleep) -> Vec<Row> {
    let row = |name: &str, statistic, goal, difference| Row {
        name: name.to_owned(),
        case: sleep.case(),
        metric: "latency",
        statistic,
        times: 1.0,
        unit: Unit::Ns,
        what: name.to_owned(),
        goal,
        difference,
    };
    vec![
        row(
            "median",
            Statistic::Own("median of sleeps", |run, row| ranked(run, row, 0.50)),
            Goal::Agree,
            "cyclictest counts whole µs, within which its median is interpolated; its clock is read by way of \
             the C library, whose pages and lines the sleep has cooled (some hundred ns more), in a process \
             whose main thread wakes every 10 ms on another CPU. Points that had passed when the sleeper came \
             are left out of both",
        ),
        row(
            "p99",
            Statistic::Own("99th percentile of sleeps", |run, row| ranked(run, row, 0.99)),
            Goal::Explained,
            "a percentile of about ten values: what else happened in this second, which the two do not share",
        ),
    ]
}

/// A percentile of the latenesses of all points of all rounds that had not passed when the sleeper
/// was back from the one before, in ns.
fn ranked(run: &Run, row: &Row, share: f64) -> Result<f64> {
    let is_meant =
        |case: &CaseId| row.case.0.iter().all(|(name, value)| case.get(name) == Some(value));
    let mut late_ns = Vec::new();
    for trace in &run.traces {
        let is_own = trace.series.split('/').next() == Some(EXPERIMENT);
        if !is_own || trace.kind != "wakeups" || !is_meant(&trace.case) {
            continue;
        }
        ensure!(trace.dropped == 0, "the record has not all sleeps");
        let mut back_ns = f64::NEG_INFINITY;
        for row in &trace.rows {
            let [intended_ns, actual_ns] = row[..] else {
                bail!("a sleep of {} values", row.len());
            };
            if back_ns < intended_ns {
                late_ns.push(actual_ns - intended_ns);
            }
            back_ns = actual_ns;
        }
    }
    late_ns.sort_by(f64::total_cmp);
    let at = (share * late_ns.len() as f64) as usize;
    match late_ns.get(at) {
        Some(value) => Ok(*value),
        None => bail!("no sleep was measured"),
    }
}

/// cyclictest's command.
fn asked(conditions: &Conditions, sleep: Sleep, count: u64) -> Theirs {
    let cpu = conditions.cpus[0];
    let other = conditions.cpus.get(1).copied().unwrap_or(cpu);
    let mut args = vec![
        "--quiet".to_owned(),
        "--threads=1".to_owned(),
        format!("--affinity={cpu}"),
        format!("--mainaffinity={other}"),
        format!("--interval={}", sleep.spacing_us),
        format!("--loops={count}"),
        format!("--histogram={HISTOGRAM_US}"),
        // Its million lines are in the answer as well, there without the empty ones.
        "--histfile=/dev/null".to_owned(),
        format!("--json={ANSWER}"),
        format!("--clock={}", u8::from(sleep.clock == "realtime")),
        format!("--policy={}", sleep.policy),
    ];
    if sleep.policy == "fifo" {
        args.push(format!("--priority={PRIORITY}"));
    }
    if sleep.idle_states == "allowed" {
        args.push("--default-system".to_owned());
    }
    let spun_on: &[usize] = match sleep.load {
        Load::Idle => &[],
        Load::Same => &conditions.cpus[..1],
        Load::Others => &conditions.cpus[1..],
    };
    let mut cpus = vec![cpu, other];
    cpus.extend(spun_on);
    cpus.sort_unstable();
    cpus.dedup();
    let (program, args) = match spun_on {
        [] => ("cyclictest", args),
        spun_on => ("sh", vec!["-c".to_owned(), beside(spun_on, &args)]),
    };
    Theirs {
        program,
        args,
        behind: vec!["cyclictest", "timeout", "taskset"],
        cpus,
        answer: Some(ANSWER),
        limit: Duration::from_secs(30),
        ..Theirs::default()
    }
}

/// A script that runs cyclictest beside one process on each of these CPUs, which spins at its
/// priority.
fn beside(spun_on: &[usize], args: &[String]) -> String {
    let list: Vec<String> = spun_on.iter().map(usize::to_string).collect();
    format!(
        "for on in {}; do timeout {SPINNER_S} taskset -c $on sh -c 'while :; do :; done' & \
         spinners=\"$spinners $!\"; done; cyclictest {}; ended=$?; kill $spinners; exit $ended",
        list.join(" "),
        args.join(" ")
    )
}

/// Why it cannot be run here.
fn refused(conditions: &Conditions, sleep: Sleep) -> Option<Skip> {
    let host = &conditions.host;
    if host.kernel.rt_runtime_us == Some(0) {
        return Some(
            Skip::because("kernel.sched_rt_runtime_us is 0: real-time processes never run")
                .needs("sysctl kernel.sched_rt_runtime_us=950000"),
        );
    }
    // Whatever policy it is asked for, it tries a real-time one first and ends where it may not.
    let least = match sleep.policy {
        "fifo" => PRIORITY,
        _ => 1,
    };
    let highest = host.limits.realtime_priority.map_or(Some(0), |limit| limit.soft);
    if !conditions.is_root && highest.is_some_and(|highest| highest < least) {
        return Some(
            Skip::because("cyclictest ends where it may not have a real-time priority")
                .needs(format!("root, CAP_SYS_NICE or `ulimit -r {least}`")),
        );
    }
    if sleep.idle_states == "held_off" {
        let states = &host.cpu.idle_states;
        if !states.iter().any(|state| state.name != "POLL" && !state.disabled) {
            return Some(Skip::because("the kernel tells no idle states that could be held off"));
        }
        if !conditions.is_root {
            return Some(
                Skip::because("/dev/cpu_dma_latency can be written by root alone").needs("root"),
            );
        }
    }
    let spinning = match sleep.load {
        Load::Idle => 0,
        Load::Same => 1,
        Load::Others => conditions.cpus.len() - 1,
    };
    if sleep.load == Load::Others && spinning == 0 {
        return Some(
            Skip::because("there is one CPU to measure on, and no other that could be loaded")
                .needs("a second CPU, allowed and named by --cpu"),
        );
    }
    let quota = host.limits.cpu_quota.map(|quota| quota.cpus());
    quota.filter(|cpus| *cpus < spinning as f64).map(|cpus| {
        Skip::because(format!(
            "{spinning} spinning processes would use up the control group's quota of {cpus:.2} CPUs"
        ))
        .needs("a higher cpu.max, or fewer CPUs by --cpu")
    })
}

#[cfg(test)]
mod tests;
