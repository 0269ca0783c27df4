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
use crate::table::{Entry, Reading, TIME, entry};
use crate::{Conditions, Pairing, Rival, Row, Statistic};
use anyhow::{Result, bail, ensure};
use bench::experiment::{Preset, Skip};
use record::order::InOrder;
use record::run::Run;

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
/// A spinner lives no longer than this, in s, whatever happens to its parent.
const SPINNER_S: u64 = 60;

/// What both sleep like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sleep {
    from: Preset,
    spacing_us: u64,
    /// What else runs: nothing (`idle`), a spinner on the `same` CPU, or on all `others`.
    load: &'static str,
    clock: &'static str,
    policy: &'static str,
    idle_states: &'static str,
}

const fn sleep(
    from: Preset,
    load: &'static str,
    policy: &'static str,
    idle_states: &'static str,
) -> Sleep {
    Sleep { from, spacing_us: 1000, load, clock: "monotonic", policy, idle_states }
}

const PLAIN: Sleep = sleep(Preset::Rehearsal, "idle", "other", "allowed");

/// The most telling first: as any program sleeps, as in cyclictest for tuning a machine, and with a
/// process that competes for the CPU.
const SLEEPS: [Sleep; 9] = [
    PLAIN,
    sleep(Preset::Standard, "idle", "fifo", "held_off"),
    sleep(Preset::Standard, "same", "other", "allowed"),
    Sleep { clock: "realtime", from: Preset::Thorough, ..PLAIN },
    sleep(Preset::Thorough, "idle", "other", "held_off"),
    sleep(Preset::Thorough, "idle", "fifo", "allowed"),
    sleep(Preset::Thorough, "same", "fifo", "allowed"),
    sleep(Preset::Thorough, "others", "other", "allowed"),
    Sleep { spacing_us: 100_000, from: Preset::Thorough, ..PLAIN },
];

/// The row of every sleep: `{slack}` is nothing under a real-time policy, which has none.
const ENTRY: Entry = Entry {
    limit_s: 30,
    budget_s: 10,
    behind: &["cyclictest", "timeout", "taskset"],
    ..entry("cyclictest", EXPERIMENT)
}
.asked(
    // Its histogram's million lines are in the answer as well, there without the empty ones.
    "--quiet --threads=1 --affinity={cpu} --mainaffinity={other} --interval={us} --loops={count} \
     --histogram=1000000 --histfile=/dev/null --json=cyclictest.json --clock={realtime} \
     --policy={policy} {priority} {default-system}",
    "spacing={us}us load={load} clock={clock} policy={policy} {slack} idle_states={idle_states} \
     sleeps={sleeps}",
)
.beside(&[
    LATENESS
        .named("median")
        .read("median")
        .taken(Statistic::Own("median of sleeps", |run, row| ranked(run, row, 0.50)))
        .differs(MEDIAN),
    LATENESS
        .named("p99")
        .read("p99")
        .taken(Statistic::Own("99th percentile of sleeps", |run, row| ranked(run, row, 0.99)))
        .explained(P99),
]);

const LATENESS: Reading = TIME.in_case(
    "spacing={ns} load={load} clock={clock} policy={policy} {slack} idle_states={idle_states}",
    "",
);

const MEDIAN: &str = "cyclictest counts whole µs, so its median is interpolated. It reads the \
    clock through the C library, whose pages and lines are cold after the sleep (some hundred ns \
    more), in a process whose main thread wakes every 10 ms on another CPU. Both leave out \
    wake-ups whose time had already passed";
const P99: &str = "a percentile of about ten values, which depends on other events in that second; \
                   the two tools measure different seconds";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let offered = SLEEPS.iter().filter(|sleep| sleep.from <= conditions.preset);
    offered.map(|sleep| pairing(conditions, *sleep)).collect()
}

fn pairing(conditions: &Conditions, sleep: Sleep) -> Pairing {
    let wanted = (conditions.seconds * 1e6) as u64 / sleep.spacing_us;
    let count = wanted.max(LEAST);
    let cpu = conditions.cpus[0];
    let other = conditions.cpus.get(1).copied().unwrap_or(cpu);
    let is_fifo = sleep.policy == "fifo";
    let option = |is_given, option: &str| if is_given { option.to_owned() } else { String::new() };
    let places = vec![
        ("cpu", cpu.to_string()),
        ("other", other.to_string()),
        ("us", sleep.spacing_us.to_string()),
        ("ns", (1000 * sleep.spacing_us).to_string()),
        ("count", count.to_string()),
        ("sleeps", count.div_ceil(ROUNDS).to_string()),
        ("load", sleep.load.to_owned()),
        ("clock", sleep.clock.to_owned()),
        ("realtime", u8::from(sleep.clock == "realtime").to_string()),
        ("policy", sleep.policy.to_owned()),
        ("priority", option(is_fifo, &format!("--priority={PRIORITY}"))),
        ("slack", option(!is_fifo, "slack=default")),
        ("idle_states", sleep.idle_states.to_owned()),
        ("default-system", option(sleep.idle_states == "allowed", "--default-system")),
    ];
    let spun_on = spun_on(conditions, sleep);
    let mut pairing = ENTRY.pairing(conditions, &places).unless(refused(conditions, sleep));
    pairing.name = name(sleep);
    if sleep.load == "others" {
        pairing.ours.cpus.clone_from(&conditions.cpus);
    }
    let theirs = &mut pairing.theirs;
    theirs.answer = Some("cyclictest.json");
    theirs.cpus = [&[cpu, other], spun_on].concat();
    theirs.cpus.sort_unstable();
    theirs.cpus.dedup();
    if !spun_on.is_empty() {
        theirs.program = "sh";
        theirs.args = vec!["-c".to_owned(), beside(spun_on, &theirs.args)];
    }
    pairing
}

fn name(sleep: Sleep) -> String {
    let words = [sleep.load, sleep.clock, sleep.policy, sleep.idle_states];
    format!("{}ms-{}", sleep.spacing_us / 1000, words.join("-")).replace('_', "-")
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
