//! `perf bench` (linux-perf): the kernel's own small measurements. Each is one window between two
//! readings of the clock, so a mean over everything that happened in it: beside it stands plumb's
//! mean over all rounds, disturbed or not. Round trips are counted whole.

use crate::sides::{case, case_of};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic};
use bench::experiment::{Preset, Skip};
use bench::pair::Class;
use host::format_cpus;
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("perf", &["perf"], pairings, parse)
    .about("perf bench: system calls, hand-overs by pipe, messages, copies of memory")
    .package("linux-perf")
    .version(&["--version"], |said| {
        Some(said.stdout.trim().strip_prefix("perf version ")?.to_owned())
    })
    // The first with `syscall basic`, whose outputs were read.
    .oldest("5.10");

/// Operations that take about a second where a system call takes 100 ns and a switch 1 µs.
const CALLS_PER_S: f64 = 5e6;
const ROUND_TRIPS_PER_S: f64 = 300_000.0;
/// The same where both CPUs have to be woken.
const FAR_ROUND_TRIPS_PER_S: f64 = 30_000.0;
/// One group of `sched messaging`: 20 senders; each sends this many rounds of messages of 100 bytes
/// to 20 receivers.
const SENDERS: f64 = 20.0;
const RECEIVERS: f64 = 20.0;
const MESSAGE_BYTES: u64 = 100;
const MESSAGE_ROUNDS_PER_S: f64 = 1500.0;
/// Copied bytes a second that a loop of `mem memcpy` is planned with, and how many functions it has
/// at most.
const COPIED_BYTES_PER_S: f64 = 20e9;
const COPY_FUNCTIONS: f64 = 4.0;
/// perf's KB, MB and GB.
const K: f64 = 1024.0;

/// `perf bench sched pipe` whose child is moved to another CPU as soon as it is there: perf itself
/// cannot pin its two parties apart. Arguments: loops, CPU. What is played before the move is a few
/// ms.
const MOVED: &str = "perf bench sched pipe -l \"$1\" & perf=$!
for i in $(seq 5000); do
  read -r child rest < /proc/$perf/task/$perf/children
  [ -n \"$child\" ] && break
done
taskset -pc \"$2\" \"$child\" > /dev/null || exit 1
wait $perf";

const CALL: &str = "perf calls getppid through the C library in a counted loop and takes the mean \
                    of one window, interrupts included. plumb executes the system call instruction \
                    directly, n times against 2n, and takes the mean of all rounds, interrupts \
                    included, without the batches in which it lost its CPU.";
const PIPE: &str = "perf's figure is the mean of one window, including the creation of its \
                    processes and other programs that ran meanwhile. plumb's is twice the mean of \
                    the hand-overs of all rounds, made in short batches, without those in which \
                    other programs ran.";
const PIPE_FAR: &str = "perf starts both processes on one CPU, and the scheduler moves its child \
                        while it runs. A hypervisor or an idle governor adapts to CPUs that are \
                        halted most of the time, so plumb makes 512 round trips in a row; perf \
                        runs for a second without pause.";
const MESSAGES: &str = "In perf 20 senders and 20 receivers take turns on the CPU, and each sender \
                        writes to every receiver's UNIX socket, so hundreds of messages pass \
                        between two switches, 40 processes share the caches, and the time ends \
                        when all have exited. plumb has one sender, one receiver and one socket \
                        pair, with messages of the same size, and the value of a round is its \
                        median batch.";
const COPY: &str = "perf calls memcpy per array, in base pages, for a quarter of a second or more. \
                    plumb copies with the widest loads and stores, in huge pages if available, and \
                    takes the mean of six windows of some ms, so a disturbance of one second can \
                    affect its whole figure. On some processors a copy runs at half the rate if \
                    the destination is 1 to 63 B past the source's offset in a page: perf's \
                    library call has both at the same offset, its other functions do not, plumb's \
                    are 1344 B apart. Both count bytes read and bytes written.";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let mut all = vec![syscall(conditions), pipe(conditions, "processes")];
    if conditions.is_whole() {
        all.push(pipe(conditions, "threads"));
        all.push(messaging(conditions));
        all.push(memcpy(conditions));
    }
    if conditions.preset == Preset::Thorough {
        all.push(pipe_far(conditions));
    }
    all
}

/// A pairing of one command of perf on the first CPU.
fn beside<const ROWS: usize>(
    conditions: &Conditions,
    name: &str,
    (experiment, set): (&'static str, &str),
    args: &[&str],
    rows: [Row; ROWS],
) -> Pairing {
    let theirs = conditions.theirs("perf", &[&["bench"], args].concat());
    Pairing::new(name, conditions.ours(experiment, set), theirs, rows)
}

fn count(conditions: &Conditions, per_s: f64) -> String {
    ((conditions.seconds * per_s) as u64).max(1).to_string()
}

/// `syscall basic` calls getppid.
fn syscall(conditions: &Conditions) -> Pairing {
    let set = "call=getppid";
    let row = Row {
        case: case(set),
        statistic: Statistic::MeanOfAll,
        ..Row::new("latency", Unit::Ns, "usecs/op", CALL)
    };
    let loops = count(conditions, CALLS_PER_S);
    let args = ["syscall", "basic", "-l", &loops];
    beside(conditions, "syscall-basic", ("os.syscall", set), &args, [row])
}

/// A round trip by pipe, which is two hand-overs.
fn round_trip(set: &str, difference: &'static str) -> Row {
    Row {
        case: case(set),
        statistic: Statistic::MeanOfAll,
        times: 2.0,
        ..Row::new("handover", Unit::Ns, "usecs/op", difference)
    }
}

/// `sched pipe`, both parties on one CPU.
fn pipe(conditions: &Conditions, parties: &'static str) -> Pairing {
    let loops = count(conditions, ROUND_TRIPS_PER_S);
    let mut args = vec!["sched", "pipe", "-l", &loops];
    if parties == "threads" {
        args.push("-T");
    }
    let set = format!("via=pipe parties={parties} pair=same");
    let row = round_trip(&set, PIPE);
    beside(conditions, &format!("sched-pipe-{parties}"), ("os.switch", &set), &args, [row])
}

/// `sched pipe` between two CPUs.
fn pipe_far(conditions: &Conditions) -> Pairing {
    let other = conditions.cpus.get(1).copied();
    let cpu = &conditions.host.cpu;
    // Without a second CPU the class is one that every pair of several would have.
    let class =
        other.map_or("other", |other| Class::from(cpu.distance(conditions.cpus[0], other)).text());
    let set = format!("via=pipe parties=processes pair={class} row=512");
    let rows = [Row { case: case_of(&set, 3), ..round_trip(&set, PIPE_FAR) }];
    let ours = ("os.switch", set.as_str());
    let mut pairing = beside(conditions, "sched-pipe-processes-far", ours, &[], rows);
    let Some(other) = other else {
        let why = "a hand-over to another CPU needs two CPUs";
        let skip = Skip::because(why).needs("a second CPU, allowed and named by --cpu");
        return pairing.unless(Some(skip));
    };
    pairing.ours.cpus.push(other);
    let loops = count(conditions, FAR_ROUND_TRIPS_PER_S);
    let args = ["-c", MOVED, "sh", &loops, &format_cpus(&[other])];
    pairing.theirs = conditions.theirs("sh", &args);
    pairing.theirs.behind = vec!["perf", "taskset", "seq"];
    pairing
}

/// `sched messaging`: a group of senders and receivers.
fn messaging(conditions: &Conditions) -> Pairing {
    let rounds = count(conditions, MESSAGE_ROUNDS_PER_S);
    let size = MESSAGE_BYTES.to_string();
    let set = format!("via=socketpair pair=same size={size}");
    let row = Row {
        case: case(&set),
        statistic: Statistic::MeanOfRounds,
        goal: Goal::Explained,
        ..Row::new("bandwidth", Unit::BPerS, format!("rounds {rounds}"), MESSAGES)
    };
    let args = ["sched", "messaging", "-g", "1", "-l", &rounds];
    beside(conditions, "sched-messaging", ("os.ipc", &set), &args, [row])
}

/// `mem memcpy` in the second cache: plumb's arrays there are half of it together, where the first
/// is small enough.
fn memcpy(conditions: &Conditions) -> Pairing {
    let bytes_of = |level| {
        let cache = conditions.host.cache.data(level, conditions.cpus[0]);
        cache.map(|cache| cache.size_bytes).filter(|bytes| *bytes > 0)
    };
    let array_bytes = match (bytes_of(1), bytes_of(2)) {
        (Some(first), Some(second)) if second / 4 >= first => Some(second / 4),
        _ => None,
    };
    let set = "op=copy stores=regular level=L2 threads=1 access=every width=vector";
    let row = |name: &str, what: &str| Row {
        name: name.to_owned(),
        case: case_of(set, 4),
        statistic: Statistic::MeanOfRounds,
        goal: Goal::AtLeast,
        ..Row::new("bandwidth", Unit::BPerS, what, COPY)
    };
    let size = array_bytes.unwrap_or(0);
    let per_s = COPIED_BYTES_PER_S / COPY_FUNCTIONS / size.max(1) as f64;
    let (size, loops) = (format!("{size}B"), count(conditions, per_s));
    let args = ["mem", "memcpy", "-s", &size, "-l", &loops];
    let rows = [row("library", "memcpy default"), row("best", "memcpy best")];
    let why = "the description of this CPU has no second cache of at least four times the first";
    beside(conditions, "mem-memcpy", ("memory.bandwidth", set), &args, rows)
        .unless(array_bytes.is_none().then(|| Skip::because(why)))
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    match what.split_once(' ') {
        None if what == "usecs/op" => Ok(1e3 * us_per_operation(&said.stdout)?),
        Some(("rounds", rounds)) => {
            let rounds: f64 = rounds.parse().map_err(|_| format!("`{rounds}` rounds"))?;
            let seconds = total_time(&said.stdout)?;
            Ok(rounds * SENDERS * RECEIVERS * MESSAGE_BYTES as f64 / seconds)
        }
        Some(("memcpy", function)) => copied(&said.stdout, function),
        _ => Err(format!("perf bench reports no `{what}`")),
    }
}

/// The number at the head of the line that ends in this unit.
fn before(text: &str, unit: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim_end().strip_suffix(unit))?;
    line.trim().parse().ok()
}

fn us_per_operation(text: &str) -> Result<f64, String> {
    before(text, " usecs/op").ok_or_else(|| "no line ends in usecs/op".to_owned())
}

/// `Total time: 1.234 [sec]` of a group of 40 processes.
fn total_time(text: &str) -> Result<f64, String> {
    if !text.contains("# 1 groups == 40 processes run") {
        return Err("one group of 40 processes was not run".to_owned());
    }
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Total time:"));
    line.and_then(|line| line.strip_suffix("[sec]")?.trim().parse().ok())
        .ok_or_else(|| "no line with the total time".to_owned())
}

/// Bytes read and written a second by a function of `mem memcpy`, or by the best of them.
fn copied(text: &str, function: &str) -> Result<f64, String> {
    let mut best: Option<f64> = None;
    for part in text.split("# function '").skip(1) {
        let (name, rest) = part.split_once('\'').ok_or("a function has no name")?;
        if function != "best" && function != name {
            continue;
        }
        let units = [(" GB/sec", K * K * K), (" MB/sec", K * K)];
        let found = units.iter().find_map(|(unit, factor)| Some(before(rest, unit)? * factor));
        let rate = found.ok_or_else(|| format!("no line with the rate of `{name}`"))?;
        best = Some(best.map_or(rate, |best| best.max(rate)));
    }
    // perf counts each byte once.
    best.map(|rate| 2.0 * rate).ok_or_else(|| format!("no function `{function}` was run"))
}

#[cfg(test)]
mod tests;
