//! `cyclictest` (rt-tests): how late a sleeper wakes, as real-time people measure it.
//!
//! Both sides sleep by clock_nanosleep to the points of a grid of the same spacing, on the same
//! clock and CPU, under the same policy and timer slack, idle states as they are
//! (`--default-system`) or held off (cyclictest's own default), beside the same load, and read the
//! clock just after. cyclictest's main thread, which wakes every 10 ms, is sent to another CPU
//! where there is one.

mod theirs;

use crate::ours::is_of;
use crate::read::version_behind;
use crate::sides::case;
use crate::{Conditions, Goal, Pairing, Rival, Row, Statistic, Theirs};
use anyhow::{Result, bail, ensure};
use bench::experiment::{Preset, Skip};
use record::key::CaseId;
use record::order::InOrder;
use record::run::Run;
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("cyclictest", &["cyclictest"], pairings, theirs::parse)
    .about("how late a sleeper wakes")
    .package("rt-tests")
    // `cyclictest V 2.40` is 2.4.
    .version(&["--help"], |said| version_behind(said, "cyclictest V "))
    // The first with --json and --default-system.
    .oldest("2.0");

const EXPERIMENT: &str = "noise.wakeup";
/// plumb's priority under SCHED_FIFO (hold.rs of the experiment).
const PRIORITY: u64 = 80;
/// A run of plumb's side has so many rounds.
const ROUNDS: u64 = 6;
/// The least number of sleeps for a median.
const LEAST: u64 = 12;
/// The file in which cyclictest puts its answer.
const ANSWER: &str = "cyclictest.json";
/// Its histogram ends here, in µs; it takes no longer one.
const HISTOGRAM_US: u64 = 1_000_000;
/// A spinner lives no longer than this, in s, whatever happens to its parent.
const SPINNER_S: u64 = 60;

/// What both sleep like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sleep {
    spacing_us: u64,
    /// What else runs: nothing (`idle`), a spinner on the `same` CPU, or on all `others`.
    load: &'static str,
    clock: &'static str,
    policy: &'static str,
    idle_states: &'static str,
}

/// Sleeps of standard, the most telling first: as any program sleeps, as in cyclictest for tuning a
/// machine, and with a process that competes for the CPU.
const STANDARD: [Sleep; 3] = [
    Sleep::PLAIN,
    Sleep { policy: "fifo", idle_states: "held_off", ..Sleep::PLAIN },
    Sleep { load: "same", ..Sleep::PLAIN },
];
/// What thorough has beside them.
const THOROUGH: [Sleep; 6] = [
    Sleep { clock: "realtime", ..Sleep::PLAIN },
    Sleep { idle_states: "held_off", ..Sleep::PLAIN },
    Sleep { policy: "fifo", ..Sleep::PLAIN },
    Sleep { load: "same", policy: "fifo", ..Sleep::PLAIN },
    Sleep { load: "others", ..Sleep::PLAIN },
    Sleep { spacing_us: 100_000, ..Sleep::PLAIN },
];

impl Sleep {
    const PLAIN: Sleep = Sleep {
        spacing_us: 1000,
        load: "idle",
        clock: "monotonic",
        policy: "other",
        idle_states: "allowed",
    };

    /// The pairing's name.
    fn name(self) -> String {
        let spacing = format!("{}ms", self.spacing_us / 1000);
        let words = [self.load, self.clock, self.policy, self.idle_states];
        format!("{spacing}-{}", words.join("-")).replace('_', "-")
    }

    /// Parameters of plumb's case: a real-time policy has no slack.
    fn set(self, spacing: &str) -> String {
        let Sleep { load, clock, policy, idle_states, .. } = self;
        let slack = if policy == "fifo" { "" } else { "slack=default " };
        format!(
            "spacing={spacing} load={load} clock={clock} policy={policy} {slack}idle_states={idle_states}"
        )
    }

    fn case(self) -> CaseId {
        case(&self.set(&(1000 * self.spacing_us).to_string()))
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
    let cpus = match sleep.load {
        "others" => &conditions.cpus[..],
        _ => &conditions.cpus[..1],
    };
    let set = sleep.set(&format!("{}us", sleep.spacing_us));
    let set = format!("{set} sleeps={}", count.div_ceil(ROUNDS));
    let ours = conditions.ours(EXPERIMENT, &set).on(cpus).within(10);
    let theirs = asked(conditions, sleep, count);
    Pairing::new(sleep.name(), ours, theirs, rows(sleep)).unless(refused(conditions, sleep))
}

const MEDIAN: &str = "cyclictest counts whole µs, so its median is interpolated. It reads the \
    clock through the C library, whose pages and lines are cold after the sleep (some hundred ns \
    more), in a process whose main thread wakes every 10 ms on another CPU. Both leave out \
    wake-ups whose time had already passed";
const P99: &str = "a percentile of about ten values, which depends on other events in that second; \
                   the two tools measure different seconds";

fn rows(sleep: Sleep) -> [Row; 2] {
    let row = |name: &str, statistic, goal, difference| Row {
        name: name.to_owned(),
        case: sleep.case(),
        statistic,
        goal,
        ..Row::new("latency", Unit::Ns, name, difference)
    };
    let median = Statistic::Own("median of sleeps", |run, row| ranked(run, row, 0.50));
    let p99 = Statistic::Own("99th percentile of sleeps", |run, row| ranked(run, row, 0.99));
    [row("median", median, Goal::Agree, MEDIAN), row("p99", p99, Goal::Explained, P99)]
}

/// A percentile of the latenesses of all points of all rounds that had not passed when the sleeper
/// was back from the one before, in ns.
fn ranked(run: &Run, row: &Row, share: f64) -> Result<f64> {
    let mut late_ns = Vec::new();
    for trace in &run.traces {
        let is_own = trace.series.split('/').next() == Some(EXPERIMENT);
        if !is_own || trace.kind != "wakeups" || !is_of(&trace.case, &row.case) {
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
    late_ns.order_by(f64::total_cmp);
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
    let spun_on = spun_on(conditions, sleep);
    let mut cpus = vec![cpu, other];
    cpus.extend(spun_on);
    cpus.sort_unstable();
    cpus.dedup();
    let (program, args) = match spun_on {
        [] => ("cyclictest", args),
        spun_on => ("sh", vec!["-c".to_owned(), beside(spun_on, &args)]),
    };
    Theirs {
        args,
        behind: vec!["cyclictest", "timeout", "taskset"],
        answer: Some(ANSWER),
        ..conditions.theirs(program, &[]).on(&cpus).within(30)
    }
}

/// CPUs with a spinner.
fn spun_on(conditions: &Conditions, sleep: Sleep) -> &[usize] {
    match sleep.load {
        "idle" => &[],
        "same" => &conditions.cpus[..1],
        _ => &conditions.cpus[1..],
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
            Skip::because("cyclictest exits if it may not use a real-time priority")
                .needs(format!("root, CAP_SYS_NICE or `ulimit -r {least}`")),
        );
    }
    if sleep.idle_states == "held_off" {
        let states = &host.cpu.idle_states;
        if !states.iter().any(|state| state.name != "POLL" && !state.disabled) {
            return Some(Skip::because("the kernel lists no idle states that could be disabled"));
        }
        if !conditions.is_root {
            return Some(Skip::because("only root can write /dev/cpu_dma_latency").needs("root"));
        }
    }
    let spinning = spun_on(conditions, sleep).len();
    if sleep.load == "others" && spinning == 0 {
        return Some(
            Skip::because("only one CPU to measure on, so no other can be loaded")
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
