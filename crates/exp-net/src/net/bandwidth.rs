//! How many bytes a second go from one end to the other?
//!
//! ## Question
//! What does a receiver get by TCP and by UDP, over the size of a message, the number of streams,
//! the direction and the place of both ends; what limits it, what is lost and where, and what does
//! it cost both ends' CPUs?
//!
//! ## Method
//! The far end is a second worker on this host, or one at the agent of `--peer`. For every case
//! fresh connections are made (of UDP, sockets connected both ways), one for each stream, each with
//! one thread at each end, pinned: on loopback the CPUs to measure on are dealt out in turn, a
//! stream's two ends to neighbours (`other_cpu`) or to one (`same_cpu`). Each thread has one buffer
//! of changing bytes, touched beforehand and used again and again; calls are `send` and `recv` that
//! block, with TCP_NODELAY, and with socket buffers as the kernel chooses and grows them (recorded
//! beside the figure). Both ends' threads are ready before the first byte is sent.
//!
//! - `steady`: the sender sends messages for as long as the receiver wants. The receiver logs what
//!   came when, and only its bytes over its window count. Once 32 blocks (of two round trips at
//!   least) are over, what comes before the rate's change point is discarded, and so are leading
//!   blocks that are no part of the second half's scatter (a shaper's bucket); it goes on where it
//!   has not settled, up to four times as long and 200 round trips, at most 10 s. The mean of the
//!   rest is `bandwidth` where the window is half a second or more: between hosts, where a device
//!   stands behind it, and by TCP in messages of 128 KiB on loopback, where congestion control does
//!   (of one stream in quick, of both directions, both places and all streams in standard). Of
//!   other streams it is `burst`: their windows are 30 ms (thorough: 63). `peak` is its best block.
//!   What was discarded stands beside it with its time and its rate. By TCP both ends' counts of
//!   all bytes must be the same. A receiver of a stream asks by each call for a whole message
//!   (MSG_WAITALL; on a slow way for what is there, so that the log has its points), and for 4 KiB
//!   at least, so that small messages tell what sending them costs.
//! - UDP: each datagram carries a number. After the sender has stopped, the receiver reads until
//!   all have come or were dropped at its socket, or none has come for 4 ms, three round trips and
//!   eight times the longest silence before; what came twice counts once. `loss` is the share of
//!   all datagrams that were tried; it is the sum of `loss_sender` (the sender's host refused: no
//!   room in the socket's buffer or the device's queue, which IP_RECVERR makes it tell),
//!   `loss_receiver` (dropped at the receiving socket because its buffer was full: the count behind
//!   SO_RXQ_OVFL, read by SO_MEMINFO after the drain) and `loss_path` (all others). `interval`
//!   paces the sender, by spinning.
//! - `fixed_16M` (R1: 16 MiB by writes and reads of 4 KiB) and `fixed_1M` (R2: 1 MiB as one
//!   message), again and again on one connection. `up`: from before the first byte is sent until
//!   one byte comes back that the far end sends when it has the last. `down`: from before that byte
//!   is sent as a wish until the last byte is here. So one small message's way is in it. Transfers
//!   before the change point of their times are the connection's beginning and are left out.
//! - `there_and_back` (R3): a message there and, once it is whole, back; `bandwidth` counts both
//!   ways' bytes. A datagram that is not back after 100 ms is lost: in `transfer_time` it is at
//!   least that, its wait is in `bandwidth`'s time and prolongs the window (by 1 s at most). R3's
//!   blocks: `--set net.bandwidth.transfer=there_and_back --set
//!   net.bandwidth.message=1KiB,32KiB,64KiB --set net.bandwidth.streams=1,2`.
//! - `already_there` (R0): a message is sent, this end waits until all of it lies in the receive
//!   buffer, and times the one call that reads it. That is a rate of copying, called `copy_rate`,
//!   and no bandwidth.
//!
//! `cpu_near` and `cpu_far` are CPU time of each end's process (all threads, user and kernel) over
//! all bytes that were delivered, from the first to the last; `message_cpu_…` the same by message
//! that this end had. What the kernel does in softirqs outside of the processes stands beside it
//! (`softirq_ns`, in its steps of 10 ms), never added. TCP_INFO of the senders before and after:
//! `busy`, the share of the time with something to send; of that `receive_window_limited` and
//! `send_buffer_limited`; `retransmitted`, the share of segments. The kernel counts those times in
//! ticks of 1 to 10 ms, so that short windows give them in coarse steps; the whole time is
//! taken by the same ticks. CPUs on which the kernel last handled what came to
//! the sockets (SO_INCOMING_CPU) are recorded for both ends.
//!
//! **Derived.** `efficiency` of steady transfers. Between hosts it is over the payload that the
//! link's rate leaves at the MTU; where no rate is known there is none. On loopback it is over
//! copying: each byte is copied in and out, each by one thread at the rate at which one thread
//! copies in the last cache (which memory.bandwidth found, half of its program bytes), the ends at
//! the same time where they have two CPUs.
//!
//! ## Prediction
//! Loopback: base hardware, two copies of each byte; software, the calls, and TCP's or UDP's work
//! for each message and each 64 KiB, mostly the sender's (its call carries packets to the
//! receiver's socket). On two CPUs the slower end decides, on one both add up. Derived: calls from
//! os.syscall, copies from memory.bandwidth. Between hosts: rate x (MTU - heads) / (MTU + frame),
//! one core's rate per stream, and a sender's calls for small messages; never from loopback's
//! figures. Bound: the link's nominal payload, which only warns.
//!
//! ## Reading the result
//! Loopback is no network: it tells what sockets cost, as segments of 64 KiB that nobody cuts. Over
//! the size of a message the rate grows until copies dominate; at small ones `message_cpu_…` is the
//! figure. One stream has one core at each end: where `streams` raise the rate, that core was the
//! limit. A share near 1 of `receive_window_limited` says that the receiver does not keep up or its
//! buffer is too small for the round trip; of `send_buffer_limited` the same of the sender. UDP's
//! `bandwidth` beside its `loss_receiver` shows a sender that outruns its receiver. `peak` above a
//! link's rate is one block of a burst.
//!
//! ## Pitfalls
//! What a sender counts lies in buffers, so tools print more than a link can carry. Buffers that
//! are set stop growing. UDP's do not grow by themselves: 64 KiB datagrams fill the default by two
//! or three, and `loss_receiver` is that default's. Of small messages the rate depends on how often
//! the receiver sleeps: one that blocks catches up with its sender and has to be woken by it; one
//! that does more for each message, as iperf3's up to 3.15 (select before each read), hardly ever
//! sleeps and gets more by TCP. One that stops before the drain sees loss where there is none. R0's
//! figure, a read of what is there, was printed as bandwidth and matched memory. R3's 18 Gbit/s
//! were 128 KiB in a socket buffer. A window within slow start reads too little (by BBR over a veth
//! pair a tenth of a second 0.8 of what half a second does), one with a shaper's bucket too much.
//! On one CPU both ends take turns as the scheduler likes, and blocks differ by what lay in the
//! buffer. An end that dies, stops reading or is cut off fails its case within 3 s of silence (10 s
//! at the line), with its reason; when the far end cannot be called again, the round's other cases
//! fail for that reason at once.
//!
//! ## Sources
//! iperf3 (esnet/iperf; FAQ on drains and omitted starts), netperf (service demand), R0 to R3; man
//! pages tcp(7), udp(7), socket(7); Linux `net/ipv4/tcp.c` (tcp_get_info), `net/ipv4/udp.c`
//! (udp_send_skb, SNDBUFERRORS), `include/uapi/linux/sock_diag.h` (SK_MEMINFO_DROPS); K. Haynes et
//! al. (2017) for change points. Cycles of the stack are starting values.

mod counts;
mod derive;
mod ends;
mod numbers;
mod offered;
mod receive;
mod reports;
mod send;
mod shape;
mod socket;

use crate::net::ends::{Dial, Door};
use crate::net::place;
use anyhow::{Result, bail};
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, CaseId, DerivedValue, Domain, FAR_PARAM, Fields, Known, Offer, Params, Preset, Site,
    Skip, ViewCard,
};
use bench::measure::{Bench, FarEnd};
use bench::{metrics, params, settings};
use laws::net::Protocol;
use laws::net::bandwidth::{self as law, Bytes, Streams};
use record::case::{Case, Series};
use record::event::Prediction;
use record::key::Value;
use record::key_figure::KeyFigure;
use record::metric::Metric;
use record::unit::Unit;
use stats::steady::BLOCKS;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Bandwidth = Bandwidth;

/// `net.bandwidth`.
pub struct Bandwidth;

static CARD: Card = Card {
    id: "net.bandwidth",
    title: "Bandwidth between two ends",
    metrics: metrics! {
        "bandwidth" => BPerS Higher Os:
            "bytes received per time of the receiver's window, over all streams";
        "burst", was "bandwidth" => BPerS Higher Os:
            "the same in a window too short to call it a rate";
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
        "loss_sender" => Ratio Lower Os: "the part refused by the sender's host";
        "loss_path" => Ratio Lower Os: "the part lost on the path";
        "loss_receiver" => Ratio Lower Os: "the part dropped at the full receive buffer";
        "efficiency" => derived Ratio Higher Os:
            "bandwidth divided by the link's payload rate; on loopback, divided by the memory copy \
             rate";
    },
    params: params![
        &[FAR_PARAM],
        Bytes::PARAMS,
        &[PLACEMENT_PARAM],
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
        ViewCard::line("message", "burst").log().each(&["ends"]),
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
/// Both workers.
const WORKERS_OVERHEAD: Duration = Duration::from_millis(60);

impl Experiment for Bandwidth {
    type Case = Bytes;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("bandwidth.rs");
    /// Kernels that tell nothing of it, or a window of less than a tick.
    const MAY_LACK: &'static [&'static str] =
        &["busy", "receive_window_limited", "send_buffer_limited", "retransmitted"];
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> =
        Some(|_, far| Door::open(far)?.serve(far, ends::serve));
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let round_trip = law::round_trip(site);
        let of_case = |case: &Case| {
            let of = Bytes::of(&case.id)?;
            let run = Duration::from_nanos(ends::run_ns(&of, case, site.case_ns));
            let drain = match of.protocol {
                Protocol::Udp => DRAIN + 8 * round_trip,
                Protocol::Tcp => Duration::ZERO,
            };
            // Blocks of two round trips; to connect and to count, a few more.
            let settling = run.max(BLOCKS as u32 * round_trip) + 6 * round_trip;
            let streams = STREAM_OVERHEAD * of.streams.at(site) as u32;
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

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        place::place_all(site, &mut series, |case: &Bytes| case.ends);
        let is_of_all = |case: &&mut Case| case.id.text("streams").is_some();
        for case in series.cases.iter_mut().filter(is_of_all) {
            let all = Value::Int(Streams::All.at(site));
            case.at.insert("streams".to_owned(), all);
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Bytes, at: &Case, metric: &Metric) -> Option<Prediction> {
        derive::law(facts, case, at, &metric.name)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dial = Dial::new(bench)?;
        let interval_ns = series.setting("interval").unwrap_or(0);
        let mut lost: Option<String> = None;
        bench.each_of::<Bytes>(series, |bench, case, of| {
            if let Some(why) = &lost {
                bail!("{why}");
            }
            let outcome = ends::measure(bench, &mut dial, case, of, interval_ns);
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
        derive::derivable(site, series)
    }

    fn derived_law(facts: Facts, id: &CaseId, _: &Metric) -> Option<Prediction> {
        derive::efficiency(facts, id)
    }

    fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        derive::derive(site, known, values)
    }
}

#[cfg(test)]
mod tests;
