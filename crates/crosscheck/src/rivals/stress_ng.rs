//! `stress-ng`: stressors of the kernel; some of their rates are quoted as costs. A rate is
//! operations over the whole real time, whatever they hold beside what their name says.

use crate::ours::is_of;
use crate::read::{line, version_behind};
use crate::table::{Entry, Reading, TIME, entry};
use crate::{Conditions, Pairing, Rival, Row, Statistic};
use anyhow::{Context, Result};
use bench::experiment::Preset::{Rehearsal, Standard};
use bench::experiment::Skip;
use record::event::Samples;

pub static RIVAL: Rival = Rival::new("stress-ng", &["stress-ng"], pairings, line)
    .about("processes, threads, page faults and contexts, as its stressors make them")
    .package("stress-ng")
    .version(&["--version"], |said| version_behind(said, "stress-ng, version "))
    // The oldest whose outputs were read.
    .oldest("0.12");

/// Threads alive together: the default of `--pthread-max`.
const ALIVE: u64 = 1024;
/// Areas of memory of its processes, which link dozens of libraries, and what they clear before
/// each child: two arrays of 16,000 words (`stress-fork.c`).
const AREAS: &str = "170";
const WRITTEN: &str = "125KiB";
/// How long plumb plays before a round's window and in it, so that what the kernel frees later is
/// freed in the window.
const STEADY: &str = "250ms";
/// What a child of its fork does differs before and after: versions at least this, and below that.
const TEN_CALLS_SINCE: &str = "0.12.07";
const FEWER_CALLS_SINCE: &str = "0.17.06";
/// Since then a thread replaces the head of its robust list by a copy, round which the kernel goes
/// 2048 times.
const COPIED_LIST_SINCE: &str = "0.15.05";
/// The first versions that report the time of one fault and one swap.
const TIMES_SINCE: &str = "0.15";

const FORK: &str = "Both create a child that makes the same ten system calls and exits, from a \
                    parent with the same number of memory areas that clears 125 KiB before each. \
                    stress-ng takes the mean over a second without pause; plumb takes the mean of \
                    six windows of 12 ms, each too short to include the kernel's deferred \
                    freeing.";
const OTHER_FORK: &str = "plumb's child makes the ten system calls of stress-ng 0.12.07 to \
                          0.17.05. This version's child makes others: older versions do not yield; \
                          newer ones have no session, no hang-up, no yield and no name.";
const VFORK: &str = "Both create a child that shares the memory and exits at once, from a parent \
                     that clears 125 KiB before each. stress-ng takes the mean over a second, \
                     including its start; plumb takes the mean of six periods of a quarter of a \
                     second, each after a lead-in of the same length. stress-ng's program has the \
                     larger working set.";
const PTHREAD: &str = "CPU time per thread on both sides, because each of stress-ng's threads \
                       sleeps a millisecond. plumb's threads make the same 45 system calls as \
                       version 0.15.06; later versions search for unused process numbers less \
                       often.";
const OTHER_PTHREAD: &str = "CPU time per thread on both sides. plumb's threads match those of \
                             stress-ng 0.15.05 and later. Threads of this version make fewer \
                             system calls and leave their robust lists in order, which saves the \
                             kernel 2048 iterations at the exit of each.";
const FAULT: &str = "Both create and map a file of one page, time the four touches of each turn \
                     separately, including the clock reads, and take the mean of all. stress-ng \
                     stores times as seconds since 1970 in doubles (steps of 238 ns) and reads its \
                     signal mask twice a turn.";
const CONTEXT: &str = "stress-ng swaps three contexts within one thread with the C library's \
                       swapcontext: a system call that changes the signal mask, saving and loading \
                       registers, and here a clock read. plumb does not swap contexts: its figure \
                       is the system call alone. Neither is a context switch of the kernel, which \
                       os.switch measures.";

/// A stressor by itself; `{steady}` is how long plumb plays before, nothing in a rehearsal.
const STRESSOR: Entry = Entry { budget_s: 8, ..entry("stress-ng", "") };

/// `--fork` beside a child of ten calls.
const PROCESS: Entry =
    Entry { experiment: "os.process", ..STRESSOR }.named("fork", Rehearsal).asked(
        "--fork 1 --timeout {seconds}s --metrics",
        "call=fork_calls resident=1MiB pages=base areas={areas} written={written}",
    );

const REAL: Reading = TIME.metric("in_sequence").taken(Statistic::MeanOfRounds);

const FORKED: Reading = REAL.in_case(
    "call=fork_calls resident=1048576 pages=base",
    "stress-ng: {..} fork {n} {n} {n} {n} {1e9/x} {n} {..}",
);

const THREAD: Reading = TIME
    .metric("create_join")
    .keyed(3)
    .read("stress-ng: {..} pthread {n} {n} {n} {n} {n} {1e9/x} {..}")
    .taken(Statistic::Own("mean CPU time", |run, row| mean_cpu_time(&run.samples, row)));

const PTHREADS: Entry =
    Entry { experiment: "os.thread", ..STRESSOR }.named("pthread", Standard).asked(
        "--pthread 1 --timeout {seconds}s --metrics --pthread-max {alive}",
        "pair=same alive={alive} work=stress stack=bare count=none",
    );

const TABLE: [Entry; 8] = [
    PROCESS.versions("", TEN_CALLS_SINCE).beside(&[FORKED.explained(OTHER_FORK)]),
    PROCESS.versions(TEN_CALLS_SINCE, FEWER_CALLS_SINCE).beside(&[FORKED.differs(FORK)]),
    PROCESS.versions(FEWER_CALLS_SINCE, "").beside(&[FORKED.explained(OTHER_FORK)]),
    PROCESS
        .named("vfork", Standard)
        .asked(
            "--vfork 1 --timeout {seconds}s --metrics",
            "call=vfork resident=1MiB pages=base areas={areas} written={written} {steady}",
        )
        .beside(&[REAL
            .in_case(
                "call=vfork resident=1048576 pages=base",
                "stress-ng: {..} vfork {n} {n} {n} {n} {1e9/x} {n} {..}",
            )
            .differs(VFORK)]),
    PTHREADS.versions("", COPIED_LIST_SINCE).beside(&[THREAD.explained(OTHER_PTHREAD)]),
    PTHREADS.versions(COPIED_LIST_SINCE, "").beside(&[THREAD.differs(PTHREAD)]),
    // Its files are in memory, so that no journal is measured.
    Entry { experiment: "memory.fault", ..STRESSOR }
        .named("fault", Rehearsal)
        .asked(
            "--fault 1 --timeout {seconds}s --metrics --temp-path {dir}",
            "fault=stress {steady}",
        )
        .beside(&[TIME
            .keyed(1)
            .read("stress-ng: {..} fault {x} nanosecs per page fault {..}")
            .taken(Statistic::MeanOfAll)
            .differs(FAULT)]),
    // Contexts of the C library.
    Entry { experiment: "os.signal", ..STRESSOR }
        .named("context", Standard)
        .asked("--context 1 --timeout {seconds}s --metrics", "operation=mask")
        .beside(&[TIME
            .keyed(1)
            .read("stress-ng: {..} context {1e9/x} swapcontext calls per sec {..}")
            .taken(Statistic::MeanOfAll)
            .explained(CONTEXT)]),
];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let dir = conditions.in_memory.as_ref().or(conditions.files.as_ref());
    let steady = conditions.rehearsed(String::new(), format!("steady={STEADY}"));
    let places = vec![
        ("seconds", conditions.whole_seconds().to_string()),
        ("steady", steady),
        ("areas", AREAS.to_owned()),
        ("written", WRITTEN.to_owned()),
        ("alive", ALIVE.to_string()),
        ("dir", dir.map(|dir| dir.display().to_string()).unwrap_or_default()),
    ];
    let pairing = |entry: &Entry| {
        let mut pairing = entry.pairing(conditions, &places);
        if entry.name == "fault" {
            pairing.ours.dir = dir.cloned();
        }
        let lacks_dir = (entry.name == "fault" && dir.is_none()).then(|| {
            Skip::because("its files need a directory, and none is writable")
                .needs("--dir with a directory that can be written")
        });
        pairing.unless(without_times(conditions, entry).or(lacks_dir))
    };
    TABLE.iter().filter(|entry| entry.is_offered(conditions)).map(pairing).collect()
}

/// Why there is no comparison if this version reports no time of the operation.
fn without_times(conditions: &Conditions, entry: &Entry) -> Option<Skip> {
    let has_times_since = ["fault", "context"].contains(&entry.name);
    (has_times_since && !conditions.has_version(TIMES_SINCE)).then(|| {
        Skip::because(format!(
            "stress-ng {} reports how many turns its {} stressor made, but not how long one takes",
            conditions.version, entry.name
        ))
        .needs(format!("stress-ng {TIMES_SINCE} or later"))
    })
}

/// The mean over rounds of the CPU time that a crowd took for each of its threads.
fn mean_cpu_time(samples: &[Samples], row: &Row) -> Result<f64> {
    let of_row = samples
        .iter()
        .filter(|samples| samples.metric == row.metric && is_of(&samples.case, &row.case));
    let times: Option<Vec<f64>> =
        of_row.map(|samples| samples.quantities.get("cpu_time_per_thread_ns").copied()).collect();
    let times = times.filter(|times| !times.is_empty()).context("no CPU time was recorded")?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

#[cfg(test)]
mod tests;
