//! Laws of round trips beside traffic: how many bytes wait before them, and at what rate these go on.
//!
//! A queue is as long as its owner lets it be: the device's ring and queueing discipline, a shaper's bucket, a
//! router's memory; and never longer than what the traffic's sockets have on their way. Few of these tell
//! their size, so the interval reaches from none to what the socket buffers allow.

use super::request::measured_trip;
use super::{
    Kind, Transport, Waking, Way, core_rate, far_stack_cost, goodput, round_trip, stack_cost,
};
use crate::os::measured_call;
use crate::{Law, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use record::event::Range;

/// Which way the traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// From this end.
    Up,
    /// To this end.
    Down,
    /// Both at once.
    Both,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// What carries the round trips.
    pub transport: Transport,
    /// Bytes there and back.
    pub bytes: u64,
    /// Both ends are on one CPU.
    pub same_cpu: bool,
    /// The traffic's threads have CPUs of their own.
    pub has_own_cpus: bool,
    /// Where the traffic goes.
    pub traffic: Traffic,
    /// Streams each way.
    pub streams: u64,
    /// What takes longer never ended, in ns.
    pub timeout_ns: f64,
}

/// Largest receive buffer that TCP grows to where nobody says another, in bytes (Linux: 6 MiB).
const USUAL_BUFFER: f64 = 6_291_456.0;
/// A queue that is kept short by time (fq_codel, cake: 5 ms), in ns.
const SHORT: Range = range(0.0, 1.5e6, 1.5e7);
/// A scheduler's slice, and somewhat more than one of them, in ns.
const SLICES: Range = range(0.0, 1.5e5, 9e6);
/// What bytes of a stream wait for on loopback, beside CPUs: packets of 64 KiB before one's own in a CPU's
/// backlog, in ns.
const BACKLOG: Range = range(0.0, 2e4, 1.5e6);

impl Beside {
    /// The way of the traffic.
    fn way(self, site: &Site) -> Way<'_> {
        let way = Way::of(site);
        match self.traffic {
            Traffic::Both => way.both(),
            traffic => way.toward(traffic == Traffic::Up),
        }
    }
}

/// Whether earlier figures say more than the machines' descriptions.
pub fn adds(site: &Site, known: &Known, of: Beside) -> bool {
    measured_call(known, "getpid").is_some() || trip(known, site, of).is_some()
}

/// The measured round trip from where this end is.
fn trip(known: &Known, site: &Site, of: Beside) -> Option<f64> {
    let ends: &[&str] = match of.same_cpu {
        true => &["same_cpu"],
        false => &["other_cpu", "two_hosts"],
    };
    measured_trip(known, site.far(), of.transport, of.bytes, ends)
}

/// The round trip with nothing beside it, in ns.
pub fn idle(site: &Site, known: Option<&Known>, of: Beside) -> Law {
    if let Some(ns) = known.and_then(|known| trip(known, site, of)) {
        return Law::of(
            range(0.6 * ns, ns, 1.7 * ns),
            format!("base hardware and software: a round trip of {:.1} µs (net.rtt)", ns / 1e3),
        );
    }
    if site.peer.is_none() {
        let waking = match of.same_cpu {
            true => Waking::Same,
            false => Waking::Other,
        };
        let hop = stack_cost(site, known, of.transport, waking);
        return Law::of(
            scaled(hop.range, 2.0),
            format!("base hardware: loopback: memory copies, no link; twice: {}", hop.because()),
        );
    }
    let between = round_trip(&Way::of(site), of.transport, of.bytes, of.bytes);
    let near = stack_cost(site, known, of.transport, Waking::Interrupt);
    let far = far_stack_cost(site, of.transport, Waking::Interrupt);
    Law::of(
        sum(between.range, sum(near.range, far.range)),
        format!("{}; {}", between.because(), near.because()),
    )
}

/// Bytes a second of the traffic in one direction, as received.
pub fn rate(site: &Site, of: Beside) -> Law {
    let core = core_rate();
    let (mut bytes, mut because) = if site.peer.is_none() {
        let cpus = match (of.has_own_cpus, of.same_cpu) {
            (true, _) => range(0.5, 1.0, 2.0),
            (false, false) => range(0.2, 0.6, 1.2),
            (false, true) => range(0.1, 0.35, 0.8),
        };
        let all = product(core.range, cpus);
        let because = format!(
            "base hardware: loopback: memory copies, no link; {}; its threads {}",
            core.because(),
            match of.has_own_cpus {
                true => "have CPUs of their own",
                false => "share CPUs with each other and the round trips",
            }
        );
        (all, because)
    } else {
        let link = goodput(&of.way(site), Transport::Tcp);
        let streams = of.streams as f64;
        let all = range(
            // A stream that starts, shares or waits: less than the link for a while.
            0.6 * link.range.low.min(core.range.low),
            link.range.likely.min(core.range.likely * streams),
            link.range.high.min(core.range.high * streams),
        );
        (all, link.because())
    };
    if of.traffic == Traffic::Both {
        bytes.low *= 0.15;
        bytes.likely *= if site.peer.is_none() { 0.55 } else { 0.85 };
        because.push_str(
            "; the other direction takes CPU time, and holds acknowledgements back in its queue",
        );
    }
    Law::of(bytes, because)
}

/// What the traffic adds to a round trip, in ns.
fn added(site: &Site, of: Beside) -> Law {
    if site.peer.is_none() {
        return match of.has_own_cpus {
            true => Law::of(BACKLOG, "software: on loopback nothing queues but a CPU's backlog of packets"
                    .to_owned()),
            false => Law::of(sum(BACKLOG, SLICES), "software: CPU contention: who is woken waits for a thread of the traffic, at once \
                          or for a slice, at each end"
                    .to_owned()),
        };
    }
    let way = of.way(site);
    let rate = rate(site, of).range;
    let ns = |bytes: f64, rate: f64| bytes * 1e9 / rate;
    let net = &site.host.net;
    let buffer = net
        .tcp_receive_buffer_max_bytes
        .map_or(USUAL_BUFFER, |bytes| bytes as f64)
        .max(USUAL_BUFFER)
        * of.streams as f64;
    let by_packets = way.near.and_then(|end| end.queue_packets);
    let queue = by_packets.map(|packets| packets as f64 * way.mtu_bytes() as f64);
    let (likely_ns, mut because) = match (way.kind(), net.default_queueing.as_deref()) {
        _ if way.is_shaped() => {
            (ns(buffer / 8.0, rate.likely), "a shaper whose queue is not told".to_owned())
        }
        (Kind::Wireless, _) => (3e7, "a radio's queues, which are long".to_owned()),
        (_, Some(kind @ ("fq_codel" | "fq" | "cake"))) => (
            SHORT.likely,
            format!("queues here are {kind}'s unless somebody set others (net.core.default_qdisc)"),
        ),
        _ => (
            ns(queue.unwrap_or(1.5e6) / 4.0, rate.likely),
            "how the device queues is not told".to_owned(),
        ),
    };
    let ways = if of.traffic == Traffic::Both { 2.0 } else { 1.0 };
    let all = range(0.0, ways * likely_ns, ways * ns(buffer, rate.low));
    if let (Some(packets), Some(bytes)) = (by_packets, queue) {
        because.push_str(&format!("; txqueuelen {packets} packets, {:.1} MB", bytes / 1e6));
    }
    Law::of(
        sum(all, SLICES),
        format!(
            "{because}; no more than the {:.1} MB that the traffic's sockets have on their way, at its rate; \
             queues further on tell nothing of themselves",
            buffer / 1e6
        ),
    )
}

/// The round trip beside the traffic, in ns.
pub fn beside(site: &Site, known: Option<&Known>, of: Beside) -> Law {
    let idle = idle(site, known, of);
    let added = added(site, of);
    let mut all = sum(idle.range, added.range);
    // Who is kept awake by traffic answers sooner than who sleeps between two messages.
    all.low = 0.25 * idle.range.low;
    all.likely = all.likely.min(0.5 * of.timeout_ns).max(all.low);
    all.high = all.high.min(of.timeout_ns).max(all.likely);
    Law::of(all, format!("{}; added: {}", idle.because(), added.because()))
}

/// The round trip beside the traffic over the one without.
pub fn ratio(site: &Site, of: Beside) -> Law {
    let (idle, beside) = (idle(site, None, of), beside(site, None, of));
    let (idle_ns, beside_ns) = (idle.range, beside.range);
    Law::of(
        range(
            0.25,
            (beside_ns.likely / idle_ns.likely).max(0.25),
            beside_ns.high / idle_ns.low.max(1.0),
        ),
        format!(
            "{}; below 1 where traffic keeps CPUs awake that else sleep between two messages",
            beside.because()
        ),
    )
}

/// Bytes that wait before a round trip: rate times added time.
pub fn queue(site: &Site, of: Beside) -> Law {
    let (rate, added) = (rate(site, of), added(site, of));
    let idle = idle(site, None, of).range;
    let added_ns = range(
        -idle.high,
        added.range.likely.min(0.5 * of.timeout_ns),
        added.range.high.min(of.timeout_ns),
    );
    Law::of(
        range(
            added_ns.low * rate.range.high / 1e9,
            added_ns.likely * rate.range.likely / 1e9,
            added_ns.high * rate.range.high / 1e9,
        ),
        format!(
            "rate times added time: {}; {}; below 0 where the traffic shortens round trips",
            rate.because(),
            added.because()
        ),
    )
}

/// CPU time of one end per byte of the traffic, in ns/B.
pub fn cpu_per_byte(site: &Site, of: Beside) -> Law {
    let core = core_rate();
    let rate = rate(site, of).range;
    let by_core = product(inverse(1e9, core.range), range(0.4, 0.8, 2.0));
    // The round trips take the CPU as well, however slow the traffic is.
    let trips = 1e9 / rate.low.max(1.0);
    Law::of(
        range(by_core.low, by_core.likely, by_core.high + trips),
        format!("{}; and the round trips' own time, at most all of a CPU", core.because()),
    )
}

#[cfg(test)]
mod tests {
    use super::{Beside, Traffic, beside, idle, queue, rate, ratio};
    use crate::net::Transport;
    use bench::experiment::fixtures::joined::{GIGABIT, joined};
    use bench::experiment::fixtures::sites;

    fn of(traffic: Traffic) -> Beside {
        Beside {
            transport: Transport::Tcp,
            bytes: 64,
            same_cpu: false,
            has_own_cpus: false,
            traffic,
            streams: 1,
            timeout_ns: 1e9,
        }
    }

    #[test]
    fn traffic_lengthens_round_trips_and_shares_its_rate() {
        let mut all = sites();
        all.push(joined("", ""));
        for site in all {
            let [up, both] = [Traffic::Up, Traffic::Both].map(of);
            assert!(rate(&site, both).range.likely < rate(&site, up).range.likely);
            for case in [up, of(Traffic::Down), both] {
                let (without, with) =
                    (idle(&site, None, case).range, beside(&site, None, case).range);
                assert!(with.low < without.low && with.high >= without.high.min(1e9));
                assert!(with.low <= with.likely && with.likely <= with.high && with.high <= 1e9);
                for told in [ratio(&site, case).range, queue(&site, case).range] {
                    assert!(told.low <= told.likely && told.likely <= told.high, "{told:?}");
                    assert!(told.high.is_finite());
                }
                assert!(queue(&site, case).range.low <= 0.0);
            }
        }
    }

    #[test]
    fn a_queue_in_packets_is_told_and_loopback_has_none() {
        let near = format!("{GIGABIT}== sys/class/net/e0/tx_queue_len\n1000\n");
        let mut site = joined(&near, GIGABIT);
        let told = beside(&site, None, of(Traffic::Up)).because();
        assert!(told.contains("txqueuelen 1000 packets, 1.5 MB"), "{told}");
        site.peer = None;
        let told = beside(&site, None, of(Traffic::Up)).because();
        assert!(told.contains("CPU contention") && !told.contains("txqueuelen"), "{told}");
    }
}
