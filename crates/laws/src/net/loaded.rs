//! Laws of round trips beside traffic: how many bytes wait before them, and at what rate these go
//! on.
//!
//! A queue is as long as its owner lets it be: the device's ring and queueing discipline, a
//! shaper's bucket, a router's memory; and never longer than what the traffic's sockets have on
//! their way. Few of these report their size, so the interval reaches from none to what the socket
//! buffers allow.

use super::request::measured_trip;
use super::{
    Ends, Kind, Protocol, Transport, Waking, Way, core_rate, far_stack_cost, goodput, round_trip,
    rtt, stack, stack_cost,
};
use crate::{Facts, Law, inverse, product, range};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};
use record::event::Range;

symbols! {
    /// Which way the traffic goes.
    pub enum Direction {
        /// From this end.
        Up = "up",
        /// To this end.
        Down = "down",
        /// Both at once.
        Both = "both",
    }
}
case! {
    /// Round trips beside traffic.
    pub struct Beside {
        /// protocol of the round trips
        protocol: Protocol,
        /// bytes per direction of a round trip
        message: u64 = Domain::bytes(1, 65_507),
        /// where both ends run: same_cpu, other_cpu (two processes), two_hosts
        ends: Ends,
        /// traffic streams per direction
        streams: u64 = Domain::count(1, 128),
        /// direction of the traffic
        direction: Direction,
    }
}

/// Default maximum of TCP's receive buffer, in bytes (Linux: 6 MiB).
const USUAL_BUFFER: f64 = 6_291_456.0;
/// A queue that is kept short by time (fq_codel, cake: 5 ms), in ns.
const SHORT: Range = range(0.0, 1.5e6, 1.5e7);
/// A scheduler's slice, and somewhat more than one of them, in ns.
const SLICES: Range = range(0.0, 1.5e5, 9e6);
/// What bytes of a stream wait for on loopback, beside CPUs: packets of 64 KiB before one's own in
/// a CPU's backlog, in ns.
const BACKLOG: Range = range(0.0, 2e4, 1.5e6);

impl Beside {
    /// CPUs of the traffic's threads at both ends: such as nothing else of the case is on, where
    /// there are any; none where the site does not allow the ends.
    pub fn traffic_cpus(&self, site: &Site) -> Option<[usize; 2]> {
        let [near, far] = self.ends.cpus(site)?;
        let here = |at: usize, or: usize| site.cpus.get(at).copied().unwrap_or(or);
        Some(match (self.ends, &site.peer) {
            (Ends::OtherCpu, _) => [here(2, near), here(3, far)],
            (Ends::TwoHosts, Some(peer)) => {
                [here(1, near), peer.cpus.get(1).copied().unwrap_or(far)]
            }
            _ => [near, far],
        })
    }

    /// The traffic's threads have CPUs of their own.
    fn has_own_cpus(&self, site: &Site) -> bool {
        let both = self.ends.cpus(site).zip(self.traffic_cpus(site));
        both.is_some_and(|(cpus, traffic)| cpus[0] != traffic[0] && cpus[1] != traffic[1])
    }

    fn transport(&self) -> Transport {
        self.protocol.transport()
    }
}

/// Whether earlier figures say more than the machines' descriptions.
pub fn adds(facts: Facts, of: &Beside) -> bool {
    stack::knows_call(facts) || trip(facts, of).is_some()
}

/// The measured round trip from where this end is.
fn trip(facts: Facts, of: &Beside) -> Option<f64> {
    let ends: &[Ends] = match of.ends {
        Ends::SameCpu => &[Ends::SameCpu],
        _ => &[Ends::OtherCpu, Ends::TwoHosts],
    };
    measured_trip(facts, of.protocol, of.message, ends, rtt::TRIP)
}

/// The round trip with nothing beside it, in ns.
pub fn idle(facts: Facts, of: &Beside) -> Law {
    if let Some(ns) = trip(facts, of) {
        return Law::new(0.6 * ns, ns, 1.7 * ns, rtt::measured_in(ns));
    }
    if facts.site.peer.is_none() {
        let waking = if of.ends == Ends::SameCpu { Waking::Same } else { Waking::Other };
        let stack = stack_cost(facts, of.transport(), waking);
        return stack.times(2.0).and("once per direction, no link");
    }
    round_trip(&Way::for_site(facts.site), of.transport(), of.message, of.message)
        + stack_cost(facts, of.transport(), Waking::Interrupt)
        + far_stack_cost(facts.site, of.transport(), Waking::Interrupt)
}

/// Bytes a second of the traffic in one direction, as received.
pub fn rate(site: &Site, of: &Beside) -> Law {
    let core = core_rate();
    let law = if site.peer.is_none() {
        let (cpus, whose) = match (of.has_own_cpus(site), of.ends) {
            (true, _) => (range(0.5, 1.0, 2.0), "the traffic threads have separate CPUs"),
            (false, Ends::SameCpu) => (range(0.1, 0.35, 0.8), "the traffic threads share one CPU"),
            (false, _) => (range(0.2, 0.6, 1.2), "the threads share CPUs with the trips"),
        };
        core.by(cpus).and(whose).and("loopback: memory copies, no link")
    } else {
        let link = goodput(&Way::for_site(site), Transport::Tcp);
        let streams = of.streams as f64;
        let all = range(
            // A stream that starts, shares or waits: less than the link for a while.
            0.6 * link.range.low.min(core.range.low),
            link.range.likely.min(core.range.likely * streams),
            link.range.high.min(core.range.high * streams),
        );
        link.with_range(all)
    };
    let share = if site.peer.is_none() { 0.55 } else { 0.85 };
    law.when(of.direction == Direction::Both, |law| {
        law.ends(0.15, share, 1.0)
            .and("the other direction takes CPU time, and its queue delays acknowledgements")
    })
}

/// What the traffic adds to a round trip, in ns.
fn added(site: &Site, of: &Beside) -> Law {
    if site.peer.is_none() {
        let slices = "CPU contention: a woken thread waits up to one slice of a traffic thread";
        let contended = (!of.has_own_cpus(site)).then(|| Law::software(SLICES, slices));
        return Law::software(BACKLOG, "packets wait in a CPU's backlog") + contended;
    }
    let way = Way::for_site(site);
    let rate = rate(site, of).range;
    let ns = |bytes: f64, rate: f64| bytes * 1e9 / rate;
    let net = &site.host.net;
    let told = net.tcp_receive_buffer_max_bytes.map_or(USUAL_BUFFER, |bytes| bytes as f64);
    let buffer = told.max(USUAL_BUFFER) * of.streams as f64;
    let by_packets = way.near.and_then(|end| end.queue_packets);
    let queue = by_packets.map(|packets| packets as f64 * way.mtu_bytes() as f64);
    let (likely_ns, why) = match (way.kind(), net.default_queueing.as_deref()) {
        _ if way.is_shaped() => (ns(buffer / 8.0, rate.likely), "a shaper's queue".to_owned()),
        (Kind::Wireless, _) => (3e7, "radio links have long queues".to_owned()),
        (_, Some(kind @ ("fq_codel" | "fq" | "cake"))) => {
            (SHORT.likely, format!("{kind} keeps queues short"))
        }
        _ => {
            let packets = by_packets.map_or("unknown".to_owned(), |count| count.to_string());
            let why = format!("the device queues up to txqueuelen: {packets} packets");
            (ns(queue.unwrap_or(1.5e6) / 4.0, rate.likely), why)
        }
    };
    let ways = if of.direction == Direction::Both { 2.0 } else { 1.0 };
    let all = range(0.0, ways * likely_ns, ways * ns(buffer, rate.low));
    let most = format!("at most the {:.1} MB in the traffic's socket buffers", buffer / 1e6);
    Law::software(all, why).and(most) + Law::software(SLICES, "one time slice of the scheduler")
}

/// The round trip beside the traffic, in ns; what takes longer than the time-out never ended.
pub fn beside(facts: Facts, of: &Beside, timeout_ns: f64) -> Law {
    let idle = idle(facts, of);
    // An end that traffic keeps awake answers sooner than one that sleeps between messages.
    let low = 0.25 * idle.range.low;
    let all = idle + added(facts.site, of);
    let likely = all.range.likely.min(0.5 * timeout_ns).max(low);
    let high = all.range.high.min(timeout_ns).max(likely);
    all.with_range(range(low, likely, high))
}

/// The round trip beside the traffic over the one without.
pub fn ratio(site: &Site, of: &Beside, timeout_ns: f64) -> Law {
    let facts = Facts::prior(site);
    let idle = idle(facts, of).range;
    let ratio =
        |of: Range| range(0.25, (of.likely / idle.likely).max(0.25), of.high / idle.low.max(1.0));
    let why = "below 1 if the traffic keeps CPUs awake between messages";
    beside(facts, of, timeout_ns).reshaped(ratio).and(why)
}

/// Bytes that wait before a round trip: rate times added time.
pub fn queue(site: &Site, of: &Beside, timeout_ns: f64) -> Law {
    let (rate, added) = (rate(site, of), added(site, of));
    let idle = idle(Facts::prior(site), of).range;
    let bytes = range(
        -idle.high * rate.range.high / 1e9,
        added.range.likely.min(0.5 * timeout_ns) * rate.range.likely / 1e9,
        added.range.high.min(timeout_ns) * rate.range.high / 1e9,
    );
    rate.with(&added).with_range(bytes).and("below 0 if the traffic shortens round trips")
}

/// CPU time of one end per byte of the traffic, in ns/B.
pub fn cpu_per_byte(site: &Site, of: &Beside) -> Law {
    let core = core_rate();
    let by_core = product(inverse(1e9, core.range), range(0.4, 0.8, 2.0));
    // The round trips take the CPU as well, however slow the traffic is.
    let trips = 1e9 / rate(site, of).range.low.max(1.0);
    core.with_range(range(by_core.low, by_core.likely, by_core.high + trips))
        .and("plus the time of the round trips, at most one CPU")
}

#[cfg(test)]
mod tests {
    use super::{Beside, Direction, beside, idle, queue, rate, ratio};
    use crate::Facts;
    use crate::net::{Ends, Protocol};
    use bench::experiment::fixtures::joined::{GIGABIT, joined};
    use bench::experiment::fixtures::sites;

    const TIMEOUT_NS: f64 = 1e9;

    fn in_direction(direction: Direction, ends: Ends) -> Beside {
        Beside { protocol: Protocol::Tcp, message: 64, ends, streams: 1, direction }
    }

    #[test]
    fn traffic_lengthens_round_trips_and_shares_its_rate() {
        let mut all = sites();
        all.push(joined("", ""));
        for site in all {
            let facts = Facts::prior(&site);
            let ends = if site.peer.is_some() { Ends::TwoHosts } else { Ends::SameCpu };
            let [up, down, both] = [Direction::Up, Direction::Down, Direction::Both]
                .map(|way| in_direction(way, ends));
            assert!(rate(&site, &both).range.likely < rate(&site, &up).range.likely);
            for case in [up, down, both] {
                let without = idle(facts, &case).range;
                let with = beside(facts, &case, TIMEOUT_NS).range;
                assert!(with.low < without.low && with.high >= without.high.min(TIMEOUT_NS));
                assert!(with.low <= with.likely && with.likely <= with.high);
                assert!(with.high <= TIMEOUT_NS);
                let of_both = [ratio(&site, &case, TIMEOUT_NS), queue(&site, &case, TIMEOUT_NS)];
                for told in of_both.map(|law| law.range) {
                    assert!(told.low <= told.likely && told.likely <= told.high, "{told:?}");
                    assert!(told.high.is_finite());
                }
                assert!(queue(&site, &case, TIMEOUT_NS).range.low <= 0.0);
            }
        }
    }

    #[test]
    fn a_longer_queue_in_packets_holds_a_message_longer_and_loopback_has_none() {
        let likely = |packets: u32, has_peer: bool| {
            let near = format!("{GIGABIT}== sys/class/net/e0/tx_queue_len\n{packets}\n");
            let mut site = joined(&near, GIGABIT);
            let peer = site.peer.take();
            let ends = if has_peer { Ends::TwoHosts } else { Ends::SameCpu };
            site.peer = peer.filter(|_| has_peer);
            let case = in_direction(Direction::Up, ends);
            beside(Facts::prior(&site), &case, TIMEOUT_NS).range.likely
        };
        assert!(likely(1000, true) > likely(100, true) + 1e6);
        assert_eq!(likely(1000, false), likely(100, false));
    }
}
