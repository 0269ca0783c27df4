//! How many bytes per second go from one end to the other?
//!
//! ## Question
//! What bandwidth does a receiver get over TCP and over UDP, by message size, number of streams,
//! direction and placement of both ends? What limits it, what is lost and where, and what does it
//! cost the CPUs of both ends?
//!
//! ## Method
//! The far end is a second worker on this host, or one at the agent of `--peer`. Every case makes
//! fresh connections (for UDP, sockets connected both ways), one per stream, each with one pinned
//! thread at each end. On loopback the CPUs to measure on are dealt out in turn: a stream's two
//! ends get neighbouring CPUs (`other_cpu`) or the same one (`same_cpu`). Each thread has one
//! buffer of changing bytes, touched beforehand and reused. The calls are blocking `send` and
//! `recv` with TCP_NODELAY. The kernel chooses and grows the socket buffers (recorded with the
//! figure). The threads of both ends are ready before the first byte is sent.
//!
//! - `steady`: the sender sends messages for as long as the receiver wants. The receiver logs the
//!   arriving bytes over time, and only its bytes over its window count. Once 32 blocks (of at
//!   least two round trips) are over, everything before the rate's change point is discarded, and
//!   so are leading blocks outside the scatter of the second half (a shaper's bucket). If the rate
//!   has not settled, the window is extended, up to four times as long and 200 round trips, at most
//!   10 s. The mean of the rest is `bandwidth`. Its window is half a second or more between hosts,
//!   where a device limits the rate, and for TCP in messages of 128 KiB on loopback, where
//!   congestion control does (one stream in quick; both directions, both placements and all stream
//!   counts in standard). Other streams have 30 ms (thorough: 63), which measures a burst. A case's
//!   facts say which: `window=rate` or `window=burst`.
//!   `peak` is the best block of the window. The discarded part is recorded with its duration and
//!   rate. Over TCP both ends must count the same bytes. A receiver of a stream asks for a whole
//!   message with each call (MSG_WAITALL; on a slow path for the available bytes, so that the log
//!   has points), and for at least 4 KiB, so that small messages show what sending them costs.
//! - UDP: each datagram carries a number. After the sender has stopped, the receiver reads until
//!   all datagrams have arrived or were dropped at its socket, or until none has arrived for 4 ms,
//!   three round trips and eight times the longest silence before. Duplicates count once. `loss` is
//!   the share of all datagrams that the sender tried to send. It is the sum of `loss_sender`
//!   (refused by the sender's host: no room in the socket's buffer or the device's queue, as
//!   IP_RECVERR reports), `loss_receiver` (dropped at the receiving socket because its buffer was
//!   full: the count behind SO_RXQ_OVFL, read with SO_MEMINFO after the drain) and `loss_path` (all
//!   others). `interval` paces the sender, by spinning.
//! - `fixed_16M` (R1: 16 MiB by writes and reads of 4 KiB) and `fixed_1M` (R2: 1 MiB as one
//!   message), repeatedly on one connection. `up`: from before the first byte is sent until one
//!   byte comes back, which the far end sends after receiving the last one. `down`: from before
//!   that byte is sent as a request until the last byte has arrived. So the time includes one small
//!   message. Transfers before the change point of their times belong to the start of the
//!   connection and are left out.
//! - `there_and_back` (R3): a message there and, once it is complete, back; `bandwidth` counts the
//!   bytes of both directions. The loop is net.rtt's, after its warm-up, and so are the CPU times: they
//!   are of the threads. A datagram that is not back after 100 ms is lost: it counts as at least that
//!   in `transfer_time`, its wait is part of `bandwidth`'s time and extends the window (by at most
//!   three windows and 200 ms). R3's blocks: `--set net.bandwidth.transfer=there_and_back --set
//!   net.bandwidth.message=1KiB,32KiB,64KiB --set net.bandwidth.streams=1,2`.
//! - `already_there` (R0): a message is sent, this end waits until the whole message is in the
//!   receive buffer, and times the one call that reads it. That is a copy rate, called `copy_rate`,
//!   and not a bandwidth.
//!
//! `cpu_near` and `cpu_far` are the CPU time of each end's process (all threads, user and kernel)
//! divided by all delivered bytes, from the first to the last; `message_cpu_…` is the same per
//! message of that end. The kernel's softirq time outside the processes is recorded separately
//! (`softirq_ns`, in steps of 10 ms) and never added. TCP_INFO of the senders before and after
//! gives `busy`, the share of the time with data to send; within that, `receive_window_limited` and
//! `send_buffer_limited`; and `retransmitted`, a share of segments. The kernel counts those times
//! in ticks of 1 to 10 ms, so short windows give coarse steps; the whole time is measured in the
//! same ticks. The CPUs on which the kernel last handled packets of the sockets (SO_INCOMING_CPU)
//! are recorded for both ends.
//!
//! **Derived.** `efficiency` of steady transfers. Between hosts it is relative to the payload rate
//! that the link allows at the MTU; it is missing if no rate is known. On loopback it is relative
//! to copying: each byte is copied in and out, each by one thread at the rate at which one thread
//! copies in the last-level cache (measured by memory.bandwidth, half of its bytes). The two ends
//! copy in parallel if they have two CPUs.
//!
//! ## Prediction
//! Loopback: base hardware, two copies of each byte; software, the calls, and the TCP or UDP work
//! per message and per 64 KiB, mostly the sender's (its call carries packets to the receiver's
//! socket). On two CPUs the slower end limits; on one CPU both add up. Derived: calls from
//! os.syscall, copies from memory.bandwidth. Between hosts: rate x (MTU - heads) / (MTU + frame),
//! one core's rate per stream, and a sender's calls for small messages; never from loopback's
//! figures. Bound: the link's nominal payload rate, which only warns. plumb does not look for
//! traffic shapers: where `tc qdisc show` lists one on the way (tbf, htb),
//! `--set host.net.shaped_rate=200Mbit/s` gives its rate, which counts whole frames without
//! preamble, check sum and gap, and the predictions of all of `net` follow from it.
//!
//! ## Reading the result
//! Loopback is not a network: it shows the cost of sockets with unsegmented 64 KiB packets. The rate
//! grows with the message size until copies dominate; for small messages `message_cpu_…` is the
//! figure to read. One stream uses one core at each end: if `streams` raise the rate, that core was
//! the limit. A `receive_window_limited` near 1 means that the receiver does not keep up, or that
//! its buffer is too small for the round trip; `send_buffer_limited` means the same for the sender.
//! UDP's `bandwidth` with a high `loss_receiver` shows a sender that is faster than its receiver. A
//! `peak` above a link's rate is one block of a burst.
//!
//! ## Pitfalls
//! A sender counts bytes that are still in buffers, so tools report more than a link can carry.
//! Buffers set by hand stop growing. UDP's buffers never grow by themselves: two or three 64 KiB
//! datagrams fill the default, and `loss_receiver` is then due to that default. With small messages
//! the rate depends on how often the receiver sleeps. A blocking receiver catches up with its
//! sender, which must then wake it. A receiver that does more per message, as iperf3's up to 3.15
//! (select before each read), hardly ever sleeps and gets more over TCP. A receiver that stops
//! before the drain reports loss that did not occur. R0's figure, a read of data that is already
//! there, was reported as bandwidth and equals memory bandwidth. R3's 18 Gbit/s were 128 KiB in a
//! socket buffer. A window within slow start reads too low (with BBR over a veth pair a tenth of a
//! second reaches 0.8 of half a second's rate), one with a shaper's bucket too high. On one CPU the
//! scheduler alternates the ends, and blocks differ by the bytes in the buffer. An end that dies,
//! stops reading or is cut off fails its case within 3 s of silence (10 s on the control line),
//! with the reason. If the far end can no longer be reached, the round's other cases fail at once
//! for that reason.
//!
//! ## Sources
//!
//! [iperf3] (FAQ on drains and omitted starts); [netperf] (service demand); [R0] to [R3]; [man]
//! tcp(7), udp(7), socket(7); [linux] net/ipv4/tcp.c (tcp_get_info), net/ipv4/udp.c (udp_send_skb,
//! SNDBUFERRORS), include/uapi/linux/sock_diag.h (SK_MEMINFO_DROPS); [haynes] (change points).
//! Cycles of the stack are starting values without a source.

mod ends;
mod offered;
mod receive;
mod reports;
mod send;
mod shape;

use crate::net::wire::{Acceptor, Dialer};
use crate::net::{foretold, place};
use bench::experiment::{CaseId, FAR, FAR_PARAM};
use bench::measure::FarEnd;
use bench::prelude::*;
use ends::is_burst;
use laws::Law;
use laws::net::Protocol;
use laws::net::bandwidth::{self as law, Bytes, Direction, Flow, Streams, Transfer};
use stats::steady::BLOCKS;

bench::experiment!(Bandwidth);

static CARD: Card = Card {
    id: "net.bandwidth",
    title: "Bandwidth between two ends",
    metrics: metrics! {
        "bandwidth", was "burst" => BPerS Higher Os:
            "bytes received per time of the receiver's window, over all streams";
        "peak" => BPerS Higher Os: "the best block of the window, or the best single transfer";
        "transfer_time" => Ns Lower Os: "one transfer of fixed size, or one message and its reply";
        "copy_rate" => BPerS Higher Os:
            "copy rate of one receive call when the data is already there; not a bandwidth";
        "cpu_near" => NsPerB Lower Os:
            "CPU time of the near end's process per delivered byte";
        "cpu_far" => NsPerB Lower Os: "the same at the far end";
        "message_cpu_near" => Ns Lower Os:
            "CPU time of the near end's process per message";
        "message_cpu_far" => Ns Lower Os: "the same at the far end";
        "busy" => Ratio None Os: "share of the time in which the sender had data to send";
        "receive_window_limited" => Ratio None Os:
            "share of the busy time in which the receiver's window was full";
        "send_buffer_limited" => Ratio None Os:
            "share of the busy time in which the send buffer was too small";
        "retransmitted" => Ratio Lower Os: "share of segments that were retransmitted";
        "loss" => Ratio Lower Os: "share of the sender's datagrams that were not delivered";
        "loss_sender" => Ratio Lower Os: "share refused by the sender's host";
        "loss_path" => Ratio Lower Os: "share lost on the path";
        "loss_receiver" => Ratio Lower Os: "share dropped at the full receive buffer";
        "efficiency" => derived Ratio Higher Os:
            "bandwidth divided by the link's payload rate; on loopback, divided by the memory copy \
             rate";
    },
    params: params![
        &[FAR_PARAM],
        Bytes::PARAMS,
        settings! {
            "interval": Domain::ns(0, 1_000_000_000), ["0"; 3] =>
                "time between two datagrams of a stream; 0: as fast as possible";
            "time": Domain::Either(&["auto"], 1_000_000, 5_000_000_000, Unit::Ns), ["auto"; 3] =>
                "minimum duration of a stream; auto: half a second for a rate, two and a half case \
                 times for a burst and for transfers, ten between hosts";
        },
    ],
    after: &["clock.rate", "clock.read", "os.syscall", "os.switch", "memory.bandwidth"],
    views: &[
        ViewCard::line("message", "bandwidth")
            .only(&[("transfer", &["steady"])])
            .log()
            .each(&["far", "ends"]),
        ViewCard::line("streams", "bandwidth")
            .only(&[("transfer", &["steady"])])
            .each(&["far", "ends", "message"]),
    ],
    keys: &[KeyFigure::new(
        "TCP bandwidth",
        "",
        "bandwidth",
        "protocol=tcp,message=131072,ends=other_cpu|two_hosts,streams=1,\
             direction=up,transfer=steady",
    )],
    ..Card::PLAIN
};

/// For the cost of a round: connections, threads, the drain, counts and the core clock of a case.
const CASE_OVERHEAD: Duration = Duration::from_millis(8);
const STREAM_OVERHEAD: Duration = Duration::from_micros(300);
/// Datagrams drain, and meet first.
const DRAIN: Duration = Duration::from_millis(9);
const WORKERS_OVERHEAD: Duration = Duration::from_millis(60);

impl Experiment for Bandwidth {
    type Case = Bytes;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("bandwidth.rs");
    const SHARES: &'static [&'static str] = &[
        "busy",
        "receive_window_limited",
        "send_buffer_limited",
        "retransmitted",
        "loss",
        "loss_sender",
        "loss_path",
        "loss_receiver",
    ];
    /// Kernels that do not report it, or a window shorter than a tick.
    const MAY_LACK: &'static [&'static str] =
        &["busy", "receive_window_limited", "send_buffer_limited", "retransmitted"];
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> =
        Some(|_, far| Acceptor::open(far)?.serve(far, ends::serve));
    const PORTS: fn(&Site, &Bytes) -> u64 = |site, case| case.streams.count_at(site);
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let round_trip = law::round_trip(site);
        let of_case = |case: &Case| {
            let of = Bytes::from_id(&case.id)?;
            let run = Duration::from_nanos(ends::run_ns(&of, case, site.case_ns));
            let drain = match of.protocol {
                Protocol::Udp => DRAIN + 8 * round_trip,
                Protocol::Tcp => Duration::ZERO,
            };
            // Blocks of two round trips; to connect and to count, a few more.
            let settling = run.max(BLOCKS as u32 * round_trip) + 6 * round_trip;
            let streams = STREAM_OVERHEAD * of.streams.count_at(site) as u32;
            Some(settling + drain + CASE_OVERHEAD + streams)
        };
        series.cases.iter().filter_map(of_case).sum::<Duration>() + WORKERS_OVERHEAD
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Bytes> {
        offered::cases(site, preset)
    }

    fn complete(case: Bytes) -> Option<Bytes> {
        offered::complete(case)
    }

    fn absent(site: &Site, case: &Bytes, _: &Params) -> Option<Skip> {
        offered::absent(site, case)
    }

    fn series(site: &Site, cases: Vec<Bytes>, params: &Params) -> Result<Offer, Skip> {
        offered::offer(site, cases, params)
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        let mut series = place::place_all(site, series, |case: &Bytes| case.ends);
        let is_of_all = |case: &&mut Case| case.id.text("streams").is_some();
        for case in series.cases.iter_mut().filter(is_of_all) {
            case.at.put("streams", Streams::All.count_at(site));
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Bytes, at: &Case, metric: &Metric) -> Option<Prediction> {
        let (site, flow) = (facts.site, flow(facts.site, of, at));
        let near_sends = of.direction == Direction::Up;
        let share = law::share(site, &flow, &metric.name);
        let adds = share.is_none() && law::adds(facts);
        let whole = || match &*metric.name {
            "bandwidth" if is_burst(of, at) => law::bandwidth(facts, &flow),
            "bandwidth" => law::bandwidth(facts, &flow).bounded(law::bound(site, &flow)),
            "peak" => law::peak(facts, &flow),
            "transfer_time" => law::transfer_time(facts, &flow),
            "copy_rate" => law::copies(facts, &flow),
            "cpu_near" => law::byte_cpu(facts, &flow, near_sends),
            "cpu_far" => law::byte_cpu(facts, &flow, !near_sends),
            "message_cpu_near" => law::message_cpu(facts, &flow, near_sends),
            _ => law::message_cpu(facts, &flow, !near_sends),
        };
        let law = check_metric(of, &metric.name).map(|()| share.unwrap_or_else(whole));
        foretold(facts, || adds, law)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dialer = Dialer::new(bench)?;
        let interval_ns = series.setting("interval").unwrap_or(0);
        let mut lost: Option<String> = None;
        bench.each_of::<Bytes>(series, |bench, case, of| {
            if let Some(why) = &lost {
                bail!("{why}");
            }
            let outcome = ends::measure(bench, &mut dialer, case, of, interval_ns);
            if let Err(error) = &outcome
                && error.is::<ends::Unreachable>()
            {
                lost = Some(format!("{error:#}"));
            }
            outcome
        });
        Ok(())
    }

    fn derivable(site: &Site, series: &[Series]) -> Vec<CaseId> {
        let ids = series.iter().flat_map(|series| &series.cases).map(|case| &case.id);
        ids.filter(|id| efficiency(Facts::prior(site), id).is_some()).cloned().collect()
    }

    fn derived_law(facts: Facts, id: &CaseId, _: &Metric) -> Option<Prediction> {
        efficiency(facts, id)
    }

    fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        let of_case = |(id, rate): (&CaseId, f64)| {
            let there = site.toward(id.text(FAR)?);
            let of = Bytes::from_id(id).filter(|of| of.transfer == Transfer::Steady)?;
            let flow = flow(&there, &of, &Case::new(id.clone()));
            let (over, what) = law::measure_of(&there, known, &flow)?;
            let mut value = DerivedValue::new(id.clone(), "efficiency", rate / over);
            value.notes.push(what);
            Some(value)
        };
        values.figures(CARD.id, "bandwidth").filter_map(of_case).collect()
    }
}

/// What the law sees of a case, resolved or not.
fn flow(site: &Site, of: &Bytes, at: &Case) -> Flow {
    let interval_ns = at.int("interval_ns").unwrap_or(0);
    Flow { streams: of.streams.count_at(site), interval_ns, bytes: of.clone() }
}

/// Whether a case has such a figure. Errors: why it has none.
fn check_metric(of: &Bytes, metric: &str) -> Result<(), &'static str> {
    use Transfer::{AlreadyThere, Steady};
    let is_udp = of.protocol == Protocol::Udp;
    let why = match (metric, of.transfer) {
        ("copy_rate", AlreadyThere) => return Ok(()),
        ("copy_rate", _) => "only for transfer=already_there",
        (_, AlreadyThere) => "transfer=already_there only has a copy rate",
        ("transfer_time", Steady) => "a steady stream has no transfer time",
        ("efficiency", Steady) => return Ok(()),
        ("transfer_time" | "bandwidth" | "peak", _) => return Ok(()),
        (name, _) if name.contains("cpu") => return Ok(()),
        (name, Steady) if is_udp == name.starts_with("loss") => return Ok(()),
        (name, _) if name.starts_with("loss") => "only for steady streams of datagrams",
        _ => "only for steady streams",
    };
    Err(why)
}

/// The efficiency of a steady transfer, if there is a reference.
fn efficiency(facts: Facts, id: &CaseId) -> Option<Prediction> {
    let of = Bytes::from_id(id).filter(|of| of.transfer == Transfer::Steady)?;
    if facts.known.is_some() {
        return None;
    }
    let flow = flow(facts.site, &of, &Case::new(id.clone()));
    law::efficiency(facts.site, &flow).map(Law::prediction)
}

#[cfg(test)]
mod tests;
