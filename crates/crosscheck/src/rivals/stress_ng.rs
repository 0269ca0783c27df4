//! `stress-ng`: stressors of the kernel; some of their rates are quoted as costs. A rate is
//! operations over the whole real time, whatever they hold beside what their name says.

use crate::ours::is_of;
use crate::read::ZERO;
use crate::sides::{case, case_of};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic};
use anyhow::{Context, Result};
use bench::experiment::{Preset, Skip};
use record::event::Samples;
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("stress-ng", &["stress-ng"], pairings, parse)
    .about("processes, threads, page faults and contexts, as its stressors make them")
    .package("stress-ng")
    .version(&["--version"], |said| {
        let rest = said.stdout.trim().strip_prefix("stress-ng, version ")?;
        Some(rest.split_whitespace().next()?.to_owned())
    })
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

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let mut all = vec![process(conditions, "fork"), fault(conditions)];
    if conditions.is_whole() {
        all.insert(1, process(conditions, "vfork"));
        all.insert(2, pthread(conditions));
        all.push(context(conditions));
    }
    all
}

/// A stressor by itself on the first CPU; a rehearsal leaves out how long plumb plays before.
fn beside(
    conditions: &Conditions,
    stressor: &str,
    experiment: &'static str,
    set: &str,
    row: Row,
) -> Pairing {
    let mut ours = conditions.ours(experiment, set).within(8);
    if conditions.preset == Preset::Rehearsal {
        ours.set = set.replace(&format!(" steady={STEADY}"), "");
    }
    let time = format!("{}s", conditions.whole_seconds());
    let words = [&format!("--{stressor}"), "1", "--timeout", &time, "--metrics"];
    Pairing::new(stressor, ours, conditions.theirs("stress-ng", &words), [row])
}

/// `--fork` and `--vfork`.
fn process(conditions: &Conditions, stressor: &str) -> Pairing {
    let is_fork = stressor == "fork";
    let makes_ten_calls =
        conditions.has_version(TEN_CALLS_SINCE) && !conditions.has_version(FEWER_CALLS_SINCE);
    let (call, goal, difference) = match (is_fork, makes_ten_calls) {
        (false, _) => ("vfork", Goal::Agree, VFORK),
        (true, true) => ("fork_calls", Goal::Agree, FORK),
        (true, false) => ("fork_calls", Goal::Explained, OTHER_FORK),
    };
    let row = Row {
        case: case(&format!("call={call} resident=1048576 pages=base")),
        statistic: Statistic::MeanOfRounds,
        goal,
        ..Row::new("in_sequence", Unit::Ns, format!("{stressor} real"), difference)
    };
    let mut set = format!("call={call} resident=1MiB pages=base areas={AREAS} written={WRITTEN}");
    if !is_fork {
        set += &format!(" steady={STEADY}");
    }
    beside(conditions, stressor, "os.process", &set, row)
}

/// `--pthread`: threads of many calls, a thousand at once.
fn pthread(conditions: &Conditions) -> Pairing {
    let (goal, difference) = match conditions.has_version(COPIED_LIST_SINCE) {
        true => (Goal::Agree, PTHREAD),
        false => (Goal::Explained, OTHER_PTHREAD),
    };
    let alive = ALIVE.to_string();
    let set = format!("pair=same alive={alive} work=stress stack=bare count=none");
    let row = Row {
        case: case_of(&set, 3),
        statistic: Statistic::Own("mean CPU time", |run, row| mean_cpu_time(&run.samples, row)),
        goal,
        ..Row::new("create_join", Unit::Ns, "pthread cpu", difference)
    };
    let mut pairing = beside(conditions, "pthread", "os.thread", &set, row);
    pairing.theirs.args.extend(["--pthread-max", alive.as_str()].map(str::to_owned));
    pairing
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

/// `--fault`, its files in memory, so that no journal is measured.
fn fault(conditions: &Conditions) -> Pairing {
    let set = format!("fault=stress steady={STEADY}");
    let row = Row {
        case: case_of(&set, 1),
        statistic: Statistic::MeanOfAll,
        ..Row::new("latency", Unit::Ns, "fault ns", FAULT)
    };
    let mut pairing = beside(conditions, "fault", "memory.fault", &set, row);
    match conditions.in_memory.as_ref().or(conditions.files.as_ref()) {
        Some(dir) => {
            let words = ["--temp-path".to_owned(), dir.display().to_string()];
            pairing.theirs.args.extend(words);
            pairing.ours.dir = Some(dir.clone());
        }
        None => {
            let skip = Skip::because("its files need a directory, and none is writable");
            pairing.skip = Some(skip.needs("--dir with a directory that can be written"));
        }
    }
    since(conditions, &mut pairing);
    pairing
}

/// `--context`: contexts of the C library.
fn context(conditions: &Conditions) -> Pairing {
    let set = "operation=mask";
    let row = Row {
        case: case(set),
        statistic: Statistic::MeanOfAll,
        goal: Goal::Explained,
        ..Row::new("latency", Unit::Ns, "context each", CONTEXT)
    };
    let mut pairing = beside(conditions, "context", "os.signal", set, row);
    since(conditions, &mut pairing);
    pairing
}

/// Skips a pairing if this version reports no time of its operation.
fn since(conditions: &Conditions, pairing: &mut Pairing) {
    if !conditions.has_version(TIMES_SINCE) {
        let reason = format!(
            "stress-ng {} reports how many turns its {} stressor made, but not how long one takes",
            conditions.version, pairing.name
        );
        let needed = format!("stress-ng {TIMES_SINCE} or later");
        pairing.skip = Some(Skip::because(reason).needs(needed));
    }
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    match what.split_once(' ') {
        Some((stressor, "real")) => Ok(1e9 / rates(said, stressor)?.real),
        Some((stressor, "cpu")) => Ok(1e9 / rates(said, stressor)?.cpu),
        Some(("fault", "ns")) => told(said, "fault", "nanosecs per page fault"),
        Some(("context", "each")) => Ok(1e9 / told(said, "context", "swapcontext calls per sec")?),
        _ => Err(format!("stress-ng reports no `{what}`")),
    }
}

/// Operations of a stressor a second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Of real time.
    real: f64,
    /// Of user and system time together.
    cpu: f64,
}

/// Lines about a stressor, behind their head `stress-ng: metrc: [123] fork`, which some versions
/// write to standard output and others to standard error.
fn lines<'said>(said: &'said Output, stressor: &'said str) -> impl Iterator<Item = &'said str> {
    let all = said.stdout.lines().chain(said.stderr.lines());
    all.filter_map(move |line| {
        let (head, rest) = line.strip_prefix("stress-ng: ")?.split_once(']')?;
        let is_metric = head.starts_with("metrc") || head.starts_with("info");
        let rest = rest.trim_start().strip_prefix(stressor)?;
        (is_metric && rest.starts_with(char::is_whitespace)).then_some(rest)
    })
}

/// The line of counts: operations, real, user and system time in s, and the two rates, which have
/// more digits than the times.
fn rates(said: &Output, stressor: &str) -> Result<Rates, String> {
    let numbers = lines(said, stressor).find_map(|line| {
        let words = line.split_whitespace().take(6);
        let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
        numbers.filter(|numbers| numbers.len() == 6)
    });
    let numbers = numbers.ok_or_else(|| format!("no line of counts of `{stressor}`"))?;
    let [operations, .., real, cpu] = numbers.as_slice() else {
        return Err(format!("the line of counts of `{stressor}` is too short"));
    };
    match *operations > 0.0 && *real > 0.0 && *cpu > 0.0 {
        true => Ok(Rates { real: *real, cpu: *cpu }),
        false => Err(ZERO.to_owned()),
    }
}

/// A figure of a stressor's own, by what is written behind it.
fn told(said: &Output, stressor: &str, name: &str) -> Result<f64, String> {
    let found = lines(said, stressor).find_map(|line| {
        let (number, rest) = line.trim_start().split_once(' ')?;
        let is_named = rest == name || rest.starts_with(&format!("{name} ("));
        is_named.then(|| number.parse::<f64>().ok()).flatten()
    });
    match found {
        Some(0.0) => Err(ZERO.to_owned()),
        Some(value) if value > 0.0 => Ok(value),
        _ => Err(format!("no result for `{name}`")),
    }
}

#[cfg(test)]
mod tests;
