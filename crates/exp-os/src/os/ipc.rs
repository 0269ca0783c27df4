//! What does a message from one process to another cost?
//!
//! ## Question
//!
//! How long is a message on its way there and back, and how many bytes a second go one way, by each
//! mechanism that the kernel has for it, over the size of a message and the distance of the two
//! parties' CPUs?
//!
//! ## Method
//!
//! The second party is a child made by fork. Each party is pinned to the CPU that the case says,
//! which is read back (the child's at its end too). Both sides use raw system calls and block where
//! there is nothing to do; nobody spins.
//!
//! - `round_trip`: a message of `size` bytes goes there and one of the same size comes back. It is
//!   not halved. n against 2n in ABBA quartets. Up to 64 KiB: more does not fit into a pipe.
//! - `bandwidth`: one direction. Only bytes that the receiver has read count: it keeps the count in
//!   memory that both see, and writes a byte to a pipe of its own when the batch is complete. A
//!   batch lasts from before the first message is sent until the sender has read that byte and seen
//!   the count; the sender blocks where the way is full. Batches are n, 2n, 2n and n messages
//!   in one quartet, so that the start and the answer at the end fall out of the
//!   difference. A round's value is the bytes of 2n messages over the median of its quartets'
//!   differences: all that the messages cost both parties, not only the time in which they are read.
//!   On two CPUs a quartet in which the kernel counts a switch of either party against its will is
//!   left out. Half of a case's time.
//!
//! Each message is written whole by one party and read whole by the other, with as many calls as
//! that takes. It holds changing data, none of it 0; its first and last byte change with every
//! message, and the receiver checks both, inside the timed window, and looks at no others. So what
//! is measured is one copy in and one copy out by the kernel, out of and into buffers that stay the
//! same. By `shm_futex` the parties themselves copy (the C library's `memcpy`) into and out of a
//! ring of 64 KiB that both map, a quarter of it at most before the other is told; the kernel is
//! asked only to wait and to wake one who waits.
//!
//! Pipes and sockets have the buffers that the system gives them (a pipe 64 KiB, a socket
//! net.core.wmem_default); queues hold 10 messages.
//!
//! ## Prediction
//!
//! A way by one CPU is two system calls with the mechanism's service, one switch from process to
//! process, and two copies; on two CPUs the switch is the waking of an idle CPU, in a virtual
//! machine by the hypervisor. A round trip is two such ways. Bandwidth is the bytes over calls,
//! service, copies, and the part of a switch that falls on a message: how many messages go between
//! two switches is the scheduler's choice, from one to a whole buffer. On two CPUs the parties
//! overlap. The derived prediction takes the calls from os.syscall and the switch from os.switch,
//! where those ran.
//!
//! ## Parameters
//!
//! - `via`: `pipe` (two, one each way), `unix_stream` and `unix_datagram` (sockets connected by
//!   name), `socketpair` (UNIX stream sockets made in pairs), `eventfd` (a counter each way, 8 bytes,
//!   no payload), `mqueue` (POSIX message queues), `shm_futex` (rings in shared memory, futexes).
//! - `pair`: where the two parties run.
//! - `size`: bytes of a message; `eventfd` always 8.
//!
//! ## Reading the result
//!
//! `round_trip` at 1 byte is calls and switches; what it grows by with `size` is copying. `same`
//! against `llc` is a switch against waking another CPU: on one CPU the whole round trip is work, on
//! two it is mostly waiting, and longer where CPUs go to sleep deeply. `socketpair` beside
//! `unix_stream` shows that a name costs nothing once connected. `bandwidth` at small sizes is a
//! rate of messages (bytes a second over `size`) that do not fill the buffer within a batch, so that
//! the sender never waits; from 1 KiB on a batch fills it eight times and more, and at large sizes
//! it is a rate of copying.
//!
//! ## Pitfalls
//!
//! Unpinned, the scheduler decides between `same` and `llc`, and figures differ by factors: older
//! tools report whichever happened. A single clock pair around both directions halved hides that the
//! two differ. Counting what the sender wrote counts what lies in buffers. lmbench's `bw_pipe` and
//! `bw_unix` move 64 KiB a call, `lat_pipe` and `lat_unix` 1 byte, unpinned. Bandwidth of messages
//! larger than the second-level cache depends on what else is cached. A wake-up may preempt the
//! sender or not, at the scheduler's choice, which changes bandwidth at small sizes. Bandwidth on two
//! CPUs needs both at once: beside other work, which a high priority does not keep away where the
//! kernel schedules by session (sched_autogroup), its differences lose their meaning and may even be
//! negative; such values stand as they are.
//!
//! ## Sources
//!
//! L. McVoy, C. Staelin: lmbench (1996), `lat_pipe`, `lat_unix`, `bw_pipe`, `bw_unix`; man pages
//! pipe(7), unix(7), eventfd(2), mq_overview(7), futex(2); Linux `fs/pipe.c`, `net/unix/af_unix.c`,
//! `ipc/mqueue.c`. The futex protocol follows U. Drepper, "Futexes are tricky" (2011). Cycles of the
//! services are written from memory of such figures, not looked up one by one.

mod mechanisms;
mod party;
mod peer;

use anyhow::{Context, Result, ensure};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, unknown,
};
use bench::measure::{Bench, Timer, Turns, abba};
use bench::pair;
use laws::Estimate;
use laws::os::ipc::{self, Via, Way};
use mechanisms::{shape, untold};
use metal::place;
use party::{Descriptors, Party, Queues, Rings};
use peer::Peer;
use record::case::{Case, Series};
use record::event::Prediction;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use stats::quantile::median;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Ipc = Ipc;

/// `os.ipc`.
pub struct Ipc;

/// Bytes of a ring: those of a pipe.
const RING_BYTES: usize = 64 << 10;
/// Bandwidth takes this share of a case's time …
const SHARE: u64 = 2;
/// … and aims at so many quartets in it, 6 n messages each: few and long ones, because waking the
/// other party at a batch's start and end takes tens of microseconds in a virtual machine, and never
/// the same.
const QUARTETS: usize = 4;
/// Bytes that a pipe, a ring and, about so many, a socket hold.
const BUFFER_BYTES: u64 = 64 << 10;
/// A batch of messages of so many bytes and more fills that so many times at least.
const FILLING_FROM: u64 = 1 << 10;
const FILLS: u64 = 8;
/// For the cost of a round: making the other party, the reference chains and the core clock of a
/// case, and a rate of copying that large messages reach.
const PEER_OVERHEAD: Duration = Duration::from_millis(1);
const METRIC_OVERHEAD: Duration = Duration::from_millis(3);
const WORKER_OVERHEAD: Duration = Duration::from_millis(30);
const COPIED_BYTES_PER_S: f64 = 1e9;

static CARD: Card = Card {
    id: "os.ipc",
    title: "Messages between processes",
    metrics: &[
        Metric::time(
            "round_trip",
            "a message there and one of the same size back, not halved",
            Kind::Os,
        ),
        Metric::new(
            "bandwidth",
            "bytes that the receiver has read, one direction",
            Unit::BPerS,
            Better::Higher,
            Kind::Os,
        ),
    ],
    params: &[
        Param {
            name: "via",
            doc: "the mechanism; auto: those that the preset lists",
            domain: Domain::Symbols(&[
                "auto",
                "pipe",
                "unix_stream",
                "unix_datagram",
                "socketpair",
                "eventfd",
                "mqueue",
                "shm_futex",
            ]),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        pair::PARAM,
        Param {
            name: "size",
            doc: "bytes of a message; auto: those that the preset lists for the mechanism",
            domain: Domain::Either(&["auto"], 1, 64 << 20, Unit::B),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
    ],
    after: &["clock.rate", "clock.read", "os.syscall", "os.switch"],
    views: &[
        ViewCard::line("size", "round_trip").log().each(&["pair"]),
        ViewCard::line("size", "bandwidth").log().each(&["pair"]),
    ],
    ..Card::PLAIN
};

impl Experiment for Ipc {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("ipc.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        mechanisms::offer(site, params)
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let of_case = |case: &Case| {
            let Some((via, size)) = shape(case) else {
                return Duration::ZERO;
            };
            let case_time = Duration::from_nanos(site.case_ns);
            let batch = (size * whole_buffers(1, size)) as f64;
            let least = 6.0 * (QUARTETS + 1) as f64 * batch / COPIED_BYTES_PER_S;
            let mut cost = PEER_OVERHEAD;
            if untold(via, size, "round_trip").is_none() {
                cost += case_time + METRIC_OVERHEAD;
            }
            if untold(via, size, "bandwidth").is_none() {
                let share = case_time / SHARE as u32;
                cost += share.max(Duration::from_secs_f64(least)) + METRIC_OVERHEAD;
            }
            cost
        };
        series.cases.iter().map(of_case).sum::<Duration>() + WORKER_OVERHEAD
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let symbol = case.text("pair").unwrap_or_default().to_owned();
            pair::place(case, pair::of(site, &symbol)?);
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let told = |why: &str| known.is_none().then(|| unknown(format!("unknown: {why}")));
        let Some((name, size)) = shape(case) else {
            return told("no such case");
        };
        if let Some(why) = untold(name, size, &metric.name) {
            return told(why);
        }
        let Some(via) = Via::of(name) else {
            return told("no such mechanism");
        };
        if known.is_some_and(|known| !ipc::adds(known)) {
            return None;
        }
        let way = Way {
            via,
            pair: case.text("pair").unwrap_or("other"),
            bytes: size,
        };
        let estimate: Estimate = match &*metric.name {
            "round_trip" => ipc::round_trip(site, known, way),
            _ => ipc::bandwidth(site, known, way),
        };
        Some(estimate.prediction())
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each(series, |bench, case| {
            let (via, size) = shape(case).context("a case has a mechanism and a size")?;
            let bytes = usize::try_from(size)?;
            match via {
                "mqueue" => exchange(bench, case, Queues::pair(bytes)?),
                "shm_futex" => exchange(bench, case, Rings::pair(RING_BYTES)?),
                _ => exchange(bench, case, Descriptors::pair(via)?),
            }
        });
        Ok(())
    }
}

/// Both figures of a case, with a party of its own.
fn exchange<P: Party>(bench: &mut Bench, case: &Case, ends: [P; 2]) -> Result<()> {
    let (via, size) = shape(case).context("a case has a mechanism and a size")?;
    let [mine, theirs] = pair::cpus(case).context("the case was not resolved")?;
    ensure!(
        bench.cpu() == mine,
        "the round is on CPU {}, the case on {mine}",
        bench.cpu()
    );
    bench.use_cpus(&[mine, theirs]);
    let mut peer = Peer::start(ends, usize::try_from(size)?, theirs)?;
    let mut messages = 0;
    if untold(via, size, "round_trip").is_none() {
        bench.try_time(case, "round_trip", |count| {
            messages += count;
            peer.round_trips(count)
        })?;
    }
    if untold(via, size, "bandwidth").is_none() {
        messages += bandwidth(bench, case, &mut peer, size, mine == theirs)?;
    }
    // On one CPU the receiver that a message wakes may preempt the sender: planned. On two nobody
    // has to give way.
    if mine == theirs {
        bench.planned_switches(messages);
    }
    let found = place::current_cpu();
    ensure!(found == mine, "moved from CPU {mine} to {found}");
    peer.stop()
}

/// Measures and records the bandwidth; the messages that it took. `share` says that the parties
/// share a CPU.
fn bandwidth<P: Party>(
    bench: &mut Bench,
    case: &Case,
    peer: &mut Peer<P>,
    size: u64,
    share: bool,
) -> Result<u64> {
    let clock = bench.clock();
    let mut sent = 0;
    // Length of a delivery, and switches that nobody planned up to its end.
    let mut deliver = |count: u64| {
        sent += count;
        let took_ns = peer.deliver(count, clock)?;
        Ok((took_ns, if share { 0 } else { peer.switched() }))
    };
    let timer = timer(bench);
    let batch = timer.search(&mut |count| Ok(deliver(count)?.0))?;
    let count = whole_buffers(batch.operations, size);
    let quartets = quartets(&timer, count, &mut deliver)?.or_fail()?;
    let notes = [batch.note(), quartets.note()];
    // In the domain of time, where a batch that something held up errs to either side alike: as
    // rates, differences below zero would count as the slowest ones instead of the fastest.
    let middle_ns = median(&quartets.kept).context("no quartet")?;
    ensure!(
        middle_ns != 0.0,
        "{count} messages and twice as many took the same time"
    );
    let bytes = (2 * count * size) as f64;
    let all = quartets.kept.len();
    let covered = 2 * count * all as u64;
    let rate = vec![1e9 * bytes / middle_ns];
    let samples = bench.record_batches(case, "bandwidth", covered, rate)?;
    for (name, value) in [
        ("quartets", all as f64),
        ("voids", f64::from(quartets.refused)),
        ("batch_messages", count as f64),
    ] {
        samples.quantities.insert(name.to_owned(), value);
    }
    samples.notes.extend(notes.into_iter().flatten());
    Ok(sent)
}

/// So many messages or more, of so many bytes, that a batch fills what lies on the way several whole
/// times: else a batch would be two or three fills, and which of both would be chance. Small messages
/// do not fill it in the time of a case; the manual says so.
fn whole_buffers(count: u64, size: u64) -> u64 {
    if size < FILLING_FROM {
        return count;
    }
    let of_buffer = (BUFFER_BYTES / size).max(1);
    count
        .max(FILLS * BUFFER_BYTES / size)
        .max(2)
        .next_multiple_of(of_buffer)
}

/// Few and long quartets in bandwidth's share of the time.
fn timer(bench: &Bench) -> Timer {
    let mut timer = bench.timer();
    timer.goal.case_ns /= SHARE as f64;
    timer.goal.quartets_min = timer.goal.quartets_min.min(QUARTETS);
    timer.goal = timer
        .goal
        .with_batches(timer.goal.case_ns / (6 * QUARTETS) as f64);
    timer
}

/// Quartets of messages: the long batches less the short ones, in ns. A switch that nobody planned
/// voids a quartet, as the core clock does.
fn quartets(
    timer: &Timer,
    count: u64,
    deliver: &mut impl FnMut(u64) -> Result<(f64, u64)>,
) -> Result<Turns<f64>> {
    let (_, mut switched) = deliver(count)?;
    timer.repeat(&mut |watch| {
        let before = switched;
        let mut timed = |count| {
            let (took_ns, switched_until) = deliver(count)?;
            switched = switched_until;
            Ok(took_ns)
        };
        let (short_ns, long_ns) = abba(count, watch, &mut timed)?;
        Ok((switched == before).then_some(long_ns - short_ns))
    })
}

#[cfg(test)]
mod tests;
