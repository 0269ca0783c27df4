//! `perf bench` (linux-perf): the kernel's own small measurements. Each is one window between two
//! readings of the clock, so a mean over everything that happened in it: beside it stands plumb's
//! mean over all rounds, disturbed or not. Round trips are counted whole.

use crate::read::{line, version_behind};
use crate::table::{Entry, RATE, Reading, TIME, entry};
use crate::{Conditions, Output, Pairing, Rival, Statistic};
use bench::experiment::Preset::{Rehearsal, Standard, Thorough};
use bench::experiment::Skip;
use bench::pair::Class;

pub static RIVAL: Rival = Rival::new("perf", &["perf"], pairings, parse)
    .about("perf bench: system calls, hand-overs by pipe, messages, copies of memory")
    .package("linux-perf")
    .version(&["--version"], |said| version_behind(said, "perf version "))
    // The first with `syscall basic`, whose outputs were read.
    .oldest("5.10");

/// Operations that take about a second where a system call takes 100 ns and a switch 1 µs.
const CALLS_PER_S: f64 = 5e6;
const ROUND_TRIPS_PER_S: f64 = 300_000.0;
/// The same where both CPUs have to be woken.
const FAR_ROUND_TRIPS_PER_S: f64 = 30_000.0;
/// One round of one group of `sched messaging`: each of 20 senders sends a message of 100 bytes to
/// each of 20 receivers.
const MESSAGE_BYTES_A_ROUND: u64 = 20 * 20 * 100;
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

/// A mean over everything that happened, interruptions included.
const MEAN: Reading = TIME.taken(Statistic::MeanOfAll).read("{x*1e3} usecs/op");

/// A round trip by pipe, which is two hand-overs.
const ROUND_TRIP: Reading = MEAN.metric("handover").times(2.0).keyed(3);

const SWITCH: Entry = entry("perf", "os.switch");

/// The part of a copy in the second cache: plumb's arrays there are half of it together.
const COPIED: Reading = RATE.keyed(4).taken(Statistic::MeanOfRounds).differs(COPY);

const TABLE: [Entry; 6] = [
    entry("perf", "os.syscall")
        .named("syscall-basic", Rehearsal)
        .asked("bench syscall basic -l {calls}", "call=getppid")
        .beside(&[MEAN.keyed(1).differs(CALL)]),
    SWITCH
        .named("sched-pipe-processes", Rehearsal)
        .asked("bench sched pipe -l {trips}", "via=pipe parties=processes pair=same")
        .beside(&[ROUND_TRIP.differs(PIPE)]),
    SWITCH
        .named("sched-pipe-threads", Standard)
        .asked("bench sched pipe -l {trips} -T", "via=pipe parties=threads pair=same")
        .beside(&[ROUND_TRIP.differs(PIPE)]),
    entry("perf", "os.ipc")
        .named("sched-messaging", Standard)
        .asked("bench sched messaging -g 1 -l {rounds}", "via=socketpair pair=same size=100")
        .beside(&[RATE
            .keyed(3)
            .read("# 1 groups == 40 processes run\nTotal time: {{message_bytes}/x} [sec]")
            .taken(Statistic::MeanOfRounds)
            .explained(MESSAGES)]),
    entry("perf", "memory.bandwidth")
        .named("mem-memcpy", Standard)
        .asked(
            "bench mem memcpy -s {array}B -l {copies}",
            "op=copy stores=regular level=L2 threads=1 access=every width=vector",
        )
        .beside(&[
            COPIED.named("library").read("memcpy default"),
            COPIED.named("best").read("memcpy best"),
        ]),
    Entry { program: "sh", behind: &["perf", "taskset", "seq"], ..SWITCH }
        .named(FAR, Thorough)
        .asked(
            "-c {moved} sh {far_trips} {other}",
            "via=pipe parties=processes pair={class} row=512",
        )
        .beside(&[ROUND_TRIP.differs(PIPE_FAR)]),
];

/// The row whose parties are on two CPUs.
const FAR: &str = "sched-pipe-processes-far";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let array_bytes = array_bytes(conditions);
    let other = conditions.cpus.get(1).copied();
    let cpu = &conditions.host.cpu;
    // Without a second CPU the class is one that every pair of several would have.
    let class =
        other.map_or("other", |other| Class::from(cpu.distance(conditions.cpus[0], other)).text());
    let count = |per_s: f64| ((conditions.seconds * per_s) as u64).max(1);
    let rounds = count(MESSAGE_ROUNDS_PER_S);
    let size = array_bytes.unwrap_or(0);
    let copies = COPIED_BYTES_PER_S / COPY_FUNCTIONS / size.max(1) as f64;
    let places = vec![
        ("calls", count(CALLS_PER_S).to_string()),
        ("trips", count(ROUND_TRIPS_PER_S).to_string()),
        ("far_trips", count(FAR_ROUND_TRIPS_PER_S).to_string()),
        ("rounds", rounds.to_string()),
        ("message_bytes", (rounds * MESSAGE_BYTES_A_ROUND).to_string()),
        ("array", size.to_string()),
        ("copies", count(copies).to_string()),
        ("moved", MOVED.to_owned()),
        ("other", other.unwrap_or_default().to_string()),
        ("class", class.to_owned()),
    ];
    let pairing = |entry: &Entry| {
        let mut pairing = entry.pairing(conditions, &places);
        if entry.name == FAR {
            pairing.ours.cpus.extend(other);
            pairing.skip = conditions.alone("a hand-over to another CPU needs two CPUs");
        }
        let why =
            "the description of this CPU has no second cache of at least four times the first";
        let lacks_cache = entry.experiment == "memory.bandwidth" && array_bytes.is_none();
        pairing.unless(lacks_cache.then(|| Skip::because(why)))
    };
    TABLE.iter().filter(|entry| entry.is_offered(conditions)).map(pairing).collect()
}

/// Bytes of an array that is copied: a quarter of the second cache, where the first is small enough.
fn array_bytes(conditions: &Conditions) -> Option<u64> {
    let bytes_of = |level| {
        let cache = conditions.host.cache.data(level, conditions.cpus[0])?;
        Some(cache.size_bytes).filter(|bytes| *bytes > 0)
    };
    let (first, second) = (bytes_of(1)?, bytes_of(2)?);
    Some(second / 4).filter(|bytes| *bytes >= first)
}

/// The rate of a function of `mem memcpy`, or the value in a line.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    match what.strip_prefix("memcpy ") {
        Some(function) => copied(&said.stdout, function),
        None => line(said, what),
    }
}

/// The number at the head of the line that ends in this unit.
fn before(text: &str, unit: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim_end().strip_suffix(unit))?;
    line.trim().parse().ok()
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
