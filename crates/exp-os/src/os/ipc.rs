//! What does a message from one process to another cost?
//!
//! ## Question
//!
//! How long does a round trip of a message take, and how many bytes per second go one way, for each
//! of the kernel's mechanisms, by message size and by the distance of the two CPUs?
//!
//! ## Method
//!
//! The second party is a child made by fork. Each party is pinned, and its CPU is read back. Both
//! sides use raw system calls and block when there is nothing to do; neither spins.
//!
//! - `round_trip`: a message of `size` bytes goes there and one of the same size comes back. It is
//!   not halved. n against 2n in ABBA quartets. Up to 64 KiB: more does not fit into a pipe.
//! - `bandwidth`: one direction. Only bytes that the receiver has read count: it keeps the count in
//!   shared memory and writes a byte to a separate pipe when the batch is complete. A batch lasts
//!   from before the first message until the sender has read that byte and checked the count.
//!   Batches are n, 2n, 2n and n messages in one quartet, so that the start and the final answer
//!   cancel. A round's value is the bytes of 2n messages over the median of its quartets'
//!   differences. On two CPUs, quartets with an involuntary switch of either process are left out.
//!   It takes half of a case's time.
//!
//! Each message is written whole by one party and read whole by the other. It holds changing data;
//! its first and last byte change with every message, and the receiver checks both inside the timed
//! window. So the figure covers one copy in and one copy out by the kernel, with constant buffers.
//! With `shm_futex` the processes themselves copy (the C library's `memcpy`) into and out of a ring
//! of 64 KiB that both map; after at most 16 KiB one wakes the other.
//!
//! Pipes and sockets have the buffers that the system gives them (a pipe 64 KiB, a socket
//! net.core.wmem_default); queues hold 10 messages.
//!
//! ## Prediction
//!
//! One direction on one CPU is two calls with the mechanism's service, two copies and a switch; on
//! two CPUs an idle CPU is woken instead, in a virtual machine by the hypervisor. A round trip is two
//! of these. Bandwidth is the bytes over calls, service, copies and a message's share of a switch:
//! the scheduler decides how many messages pass between two switches. Calls, switch and copies are
//! those of os.syscall, os.switch and memory.bandwidth where these ran.
//!
//! ## Reading the result
//!
//! `round_trip` at 1 byte is calls and switches; its growth with `size` is copying. `same` against
//! `llc` is a switch against waking another CPU: on two CPUs the round trip is mostly waiting, and
//! longer with deep idle states. `socketpair` compared with `unix_stream` shows that a name costs
//! nothing once connected. `bandwidth` at small sizes is a rate of messages that do not fill the
//! buffer within a batch, so that the sender never waits; from 1 KiB on a batch fills it eight
//! times and more, and at large sizes it is a rate of copying.
//!
//! ## Pitfalls
//!
//! Unpinned, the scheduler decides between `same` and `llc`, and figures differ by factors. Halving
//! the time of both directions hides that they differ. Counting the bytes that the sender wrote
//! includes bytes in buffers. lmbench's `bw_pipe` and `bw_unix` move 64 KiB a call, `lat_pipe` and
//! `lat_unix` 1 byte, unpinned. Bandwidth of messages larger than the second-level cache depends on
//! what else is cached. A wake-up may preempt the sender or not, which changes bandwidth at small
//! sizes. Bandwidth on two CPUs needs both at once: with other load its differences become
//! meaningless and may even be negative; such values are reported unchanged.
//!
//! ## Sources
//!
//! [lmbench] `lat_pipe`, `lat_unix`, `bw_pipe`, `bw_unix`; [man] pipe(7), unix(7), eventfd(2),
//! mq_overview(7), futex(2); [linux] fs/pipe.c, net/unix/af_unix.c, ipc/mqueue.c; [drepper] (the
//! futex protocol). Cycles of the services were not looked up one by one.

mod timed;

use bench::measure::{Timer, Turns, abba};
use bench::pair::{self, Class};
use bench::prelude::*;
use laws::os::ipc::{self, Via, Way};
use laws::os::says_more;
use metal::place;
use party::{Descriptors, Party, Queues, Rings};
use peer::Peer;
use stats::quantile::median;
use timed::{party, peer};

bench::experiment!(Ipc);

const RING_BYTES: usize = 64 << 10;
/// Bandwidth takes this share of a case's time …
const SHARE: u64 = 2;
/// … and aims at so many quartets in it, 6 n messages each: few and long ones, because waking the
/// other party at a batch's start and end takes tens of microseconds in a virtual machine, and
/// never the same.
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

/// Bytes of a message of an event counter: its number.
const COUNTER_BYTES: u64 = 8;
/// A longer message does not fit into a pipe: its round trip is bandwidth.
const ROUND_TRIP_BYTES_MAX: u64 = 64 << 10;
/// Linux' defaults: the largest message of a queue, and the send buffer of a socket.
const QUEUE_BYTES_USUAL: u64 = 8192;
const BUFFER_BYTES_USUAL: u64 = 212_992;
/// Bytes of the send buffer that a datagram leaves to the kernel (`unix_dgram_sendmsg`).
const BUFFER_OWN_BYTES: u64 = 32;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    Same,
    /// Another CPU: under the same last-level cache, else the nearest.
    Near,
    Both,
    /// Every class of distance that the machine has.
    Every,
}

/// A mechanism at distances, with the bytes of its messages.
type Row = (Via, Distance, &'static [u64]);

const QUICK: &[Row] = &[
    (Via::Pipe, Distance::Same, &[1, 64 * KIB]),
    (Via::Pipe, Distance::Near, &[1]),
    (Via::UnixStream, Distance::Same, &[1]),
    (Via::ShmFutex, Distance::Same, &[1]),
];

const STANDARD: &[Row] = &[
    (Via::Pipe, Distance::Both, &[1, 64, KIB, 4 * KIB, 64 * KIB, MIB]),
    (Via::Pipe, Distance::Every, &[1]),
    (Via::UnixStream, Distance::Both, &[1, 4 * KIB, 64 * KIB, MIB]),
    (Via::UnixDatagram, Distance::Both, &[1, 64 * KIB]),
    (Via::Socketpair, Distance::Same, &[1, 64 * KIB]),
    (Via::Eventfd, Distance::Both, &[COUNTER_BYTES]),
    (Via::Mqueue, Distance::Both, &[1]),
    (Via::ShmFutex, Distance::Both, &[1, 64 * KIB, MIB]),
];

/// Powers of four up to 4 MiB.
const EVERY_SIZE: &[u64] =
    &[1, 4, 16, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB];

static CARD: Card = Card {
    id: "os.ipc",
    title: "Messages between processes",
    metrics: metrics! {
        "round_trip" => Ns Lower Os: "a message and an answer of the same size, not halved";
        "bandwidth" => BPerS Higher Os: "bytes read by the receiver, one direction";
    },
    params: Way::PARAMS,
    after: &["clock.rate", "clock.read", "os.syscall", "os.switch"],
    views: &[
        ViewCard::line("size", "round_trip").log().each(&["pair"]),
        ViewCard::line("size", "bandwidth").log().each(&["pair"]),
    ],
    keys: &[
        KeyFigure::new("pipe,", "same CPU", "round_trip", "via=pipe,pair=same,size=1"),
        KeyFigure::new("pipe,", "other CPU", "round_trip", "via=pipe,pair=llc|socket|other,size=1"),
    ],
    ..Card::PLAIN
};

impl Experiment for Ipc {
    type Case = Way;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("ipc.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let of_way = |way: Way| {
            let case_time = Duration::from_nanos(site.case_ns);
            let batch = (way.size * whole_buffers(1, way.size)) as f64;
            let least = 6.0 * (QUARTETS + 1) as f64 * batch / COPIED_BYTES_PER_S;
            let mut cost = PEER_OVERHEAD;
            if no_figure(&way, "round_trip").is_none() {
                cost += case_time + METRIC_OVERHEAD;
            }
            if no_figure(&way, "bandwidth").is_none() {
                let share = case_time / SHARE as u32;
                cost += share.max(Duration::from_secs_f64(least)) + METRIC_OVERHEAD;
            }
            cost
        };
        let ways = series.cases.iter().filter_map(|case| Way::from_id(&case.id));
        ways.map(of_way).sum::<Duration>() + WORKER_OVERHEAD
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Way> {
        let every = Via::ALL.iter().map(|via| (*via, Distance::Every, EVERY_SIZE));
        let rows: Vec<Row> = match preset {
            Preset::Rehearsal | Preset::Quick => QUICK.to_vec(),
            Preset::Standard => STANDARD.to_vec(),
            Preset::Thorough => every.collect(),
        };
        let mut cases = Vec::new();
        for (via, at, sizes) in rows {
            for pair in distances(site, at) {
                cases.extend(sizes.iter().map(|&size| Way { via, pair, size }));
            }
        }
        cases
    }

    /// A counter's message is its number.
    fn complete(way: Way) -> Option<Way> {
        Some(match way.via {
            Via::Eventfd => Way { size: COUNTER_BYTES, ..way },
            _ => way,
        })
    }

    /// Facts that the machine does not report default to Linux's settings.
    fn absent(site: &Site, way: &Way, _: &Params) -> Option<Skip> {
        if let Err(skip) = pair::in_class(site, way.pair) {
            return Some(skip);
        }
        let told = |told: Option<u64>, usual: u64| match told {
            Some(limit) => (limit, ""),
            None => (usual, " (Linux' default; the machine does not report it)"),
        };
        let size = way.size;
        let (is_less, reason, setting) = match way.via {
            Via::UnixDatagram => {
                let host = site.host.net.send_buffer_default_bytes;
                let (buffer, from) = told(host, BUFFER_BYTES_USUAL);
                let reason = format!(
                    "a datagram of {size} B does not fit into a socket's send buffer of {buffer} B{from}"
                );
                let setting = format!("net.core.wmem_default={}", 2 * size);
                (size + BUFFER_OWN_BYTES > buffer, reason, setting)
            }
            Via::Mqueue => {
                let (most, from) = told(site.host.limits.message_bytes, QUEUE_BYTES_USUAL);
                let reason = format!("a queue takes messages of at most {most} B{from}");
                (size > most, reason, format!("fs.mqueue.msgsize_max={size}"))
            }
            _ => return None,
        };
        is_less.then(|| Skip::because(reason).needs(format!("sysctl {setting}")))
    }

    fn series(site: &Site, cases: Vec<Way>, params: &Params) -> Result<Offer, Skip> {
        Ok(Offer::sorted::<Self>(site, cases, params, |way, _| {
            (way.via.text().to_owned(), BTreeMap::new())
        }))
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        pair::resolve(site, series)
    }

    fn law(facts: Facts, way: &Way, _: &Case, metric: &Metric) -> Option<Prediction> {
        if let Some(why) = no_figure(way, &metric.name) {
            return facts.known.is_none().then(|| unknown(format!("unknown: {why}")));
        }
        if !says_more(facts) {
            return None;
        }
        let law = match &*metric.name {
            "round_trip" => ipc::round_trip(facts, way),
            _ => ipc::bandwidth(facts, way),
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Way>(series, |bench, case, way| {
            let bytes = usize::try_from(way.size)?;
            match way.via {
                Via::Mqueue => exchange(bench, case, &way, Queues::pair(bytes)?),
                Via::ShmFutex => exchange(bench, case, &way, Rings::pair(RING_BYTES)?),
                via => exchange(bench, case, &way, Descriptors::pair(via)?),
            }
        });
        Ok(())
    }
}

/// Distances of a row; without a second CPU the near one, whose absence has a reason.
fn distances(site: &Site, at: Distance) -> Vec<Class> {
    let present = pair::classes(site);
    let mut others = present.iter().copied().filter(|pair| *pair != Class::Same);
    let near = match present.contains(&Class::Llc) {
        true => Class::Llc,
        false => others.next().unwrap_or(Class::Llc),
    };
    match at {
        Distance::Same => vec![Class::Same],
        Distance::Near => vec![near],
        Distance::Every if present.len() > 1 => present,
        Distance::Both | Distance::Every => vec![Class::Same, near],
    }
}

fn no_figure(way: &Way, metric: &str) -> Option<&'static str> {
    match metric {
        "bandwidth" if way.via == Via::Eventfd => {
            Some("none: an eventfd carries a number, not a payload")
        }
        "round_trip" if way.size > ROUND_TRIP_BYTES_MAX => Some(
            "not measured: above 64 KiB a message is split, and its round trip measures bandwidth",
        ),
        _ => None,
    }
}

fn exchange<P: Party>(bench: &mut Bench, case: &Case, way: &Way, ends: [P; 2]) -> Result<()> {
    let size = way.size;
    let [mine, theirs] = pair::enter(case, bench)?;
    let mut peer = Peer::start(ends, usize::try_from(size)?, theirs)?;
    let mut messages = 0;
    if no_figure(way, "round_trip").is_none() {
        bench.time(case, "round_trip", |count| {
            messages += count;
            peer.round_trips(count)
        })?;
    }
    if no_figure(way, "bandwidth").is_none() {
        messages += bandwidth(bench, case, &mut peer, size, mine == theirs)?;
    }
    // On one CPU the receiver that a message wakes may preempt the sender: planned. On two, no
    // party has to yield.
    if mine == theirs {
        bench.declare(Declared::Switches(messages));
    }
    let found = place::current_cpu();
    ensure!(found == mine, "moved from CPU {mine} to {found}");
    peer.stop()
}

/// The bandwidth, and the messages that it took. `share`: the parties share a CPU.
fn bandwidth<P: Party>(
    bench: &mut Bench,
    case: &Case,
    peer: &mut Peer<P>,
    size: u64,
    share: bool,
) -> Result<u64> {
    let clock = bench.order().clock();
    let mut sent = 0;
    // Length of a delivery, and unplanned switches up to its end.
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
    ensure!(middle_ns != 0.0, "{count} messages and twice as many took the same time");
    let bytes = (2 * count * size) as f64;
    let all = quartets.kept.len();
    let covered = 2 * count * all as u64;
    let rate = vec![1e9 * bytes / middle_ns];
    let samples = bench.record(case, "bandwidth", Values::batches(covered, rate))?;
    samples.set_quantities([
        ("quartets", all as f64),
        ("voids", f64::from(quartets.refused)),
        ("batch_messages", count as f64),
    ]);
    samples.notes.extend(notes.into_iter().flatten());
    Ok(sent)
}

/// So many messages or more, of so many bytes, that a batch fills what lies on the way several
/// whole times: else a batch would be two or three fills, and which of both would be chance. Small
/// messages do not fill it in the time of a case; the manual says so.
fn whole_buffers(count: u64, size: u64) -> u64 {
    if size < FILLING_FROM {
        return count;
    }
    let of_buffer = (BUFFER_BYTES / size).max(1);
    count.max(FILLS * BUFFER_BYTES / size).max(2).next_multiple_of(of_buffer)
}

/// Few and long quartets in bandwidth's share of the time.
fn timer(bench: &Bench) -> Timer {
    let mut timer = bench.timer();
    timer.goal.case_ns /= SHARE as f64;
    timer.goal.quartets_min = timer.goal.quartets_min.min(QUARTETS);
    timer.goal = timer.goal.with_batches(timer.goal.case_ns / (6 * QUARTETS) as f64);
    timer
}

/// Long batches less short ones, in ns. An unplanned switch voids a quartet.
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
