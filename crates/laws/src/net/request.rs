//! Laws of requests by a schedule: how many a second two ends manage, and how long one takes beside
//! others.
//!
//! Queues are those of one server: nothing waits while requests come one by one, and waiting grows
//! with u / (1 - u) as the server's share u of busy time grows, by how much depends on how unevenly
//! they come and are served (R. Jain, "The Art of Computer Systems Performance Analysis", M/G/1),
//! which is not known beforehand: the interval opens.

use super::rtt::{self, Arrivals, TRIP};
use super::{
    Ends, Protocol, Transport, Waking, Way, far_stack_cost, goodput, least, round_trip, stack,
    stack_cost,
};
use crate::cpu::{self, CounterRead};
use crate::{Facts, Law, end_by_end, inverse, product, range, scaled};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};
use record::event::Range;

symbols! {
    /// Distribution of due times.
    pub enum Schedule {
        /// One period apart.
        Fixed = "fixed",
        /// Exponential gaps: the requests of many independent users.
        Poisson = "poisson",
    }
}
symbols! {
    /// The request rate.
    pub enum Load {
        /// The next when the last has its reply.
        Closed = "closed";
        /// In percent of what the closed loop reached.
        Share(1, 1000, Count)
    }
}
case! {
    /// Requests.
    pub struct Requests {
        /// transport protocol
        protocol: Protocol,
        /// bytes of a request and of its reply
        message: u64 = Domain::bytes(MESSAGE_BYTES_MIN, 65_507),
        /// where both ends run: other_cpu (two processes), two_hosts
        ends: Ends,
        /// number of connections, used in turn
        connections: u64 = Domain::count(1, 256),
        /// due times: one period apart, or exponential gaps
        schedule: Option<Schedule>,
        /// percent of the rate of the round's closed loop, or that loop itself; none if `rate` is
        /// set
        load: Option<Load>,
        /// requests per second, instead of a percentage
        rate: Option<u64> = Domain::count(1, 10_000_000),
    }
}

/// Bytes of the shortest request: its number, twice.
pub const MESSAGE_BYTES_MIN: u64 = 16;
/// Share of the closed loop's rate up to which most requests come while no other is on its way.
const RARE: f64 = 0.3;
/// Share of the closed loop's rate from which on a queue may grow without end.
const FULL: f64 = 0.97;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// The next when the last has its reply.
    Closed,
    /// This share of what the closed loop reached.
    Share(f64),
    Rate(f64),
}

impl Requests {
    pub fn asked(&self) -> Asked {
        match (self.load, self.rate) {
            (_, Some(rate)) => Asked::Rate(rate as f64),
            (Some(Load::Share(percent)), None) => Asked::Share(percent as f64 / 100.0),
            (Some(Load::Closed) | None, None) => Asked::Closed,
        }
    }

    fn transport(&self) -> Transport {
        self.protocol.transport()
    }
}

/// The measured round trip that stands for a request's.
fn trip(facts: Facts, of: &Requests) -> Option<f64> {
    measured_trip(facts, of.protocol, of.message, &[Ends::OtherCpu, Ends::TwoHosts], TRIP)
}

/// Whether earlier figures say more than the machines' descriptions.
pub fn adds(facts: Facts, of: &Requests) -> bool {
    stack::knows_call(facts) || trip(facts, of).is_some()
}

/// A request with nothing else on the way, in ns: this end awake, the far end woken.
fn alone(facts: Facts, of: &Requests) -> Law {
    if let Some(ns) = trip(facts, of) {
        let law = Law::new(0.35 * ns, 0.85 * ns, 1.6 * ns, rtt::measured_in(ns));
        return law.and("the near end does not sleep");
    }
    let awake = stack_cost(facts, of.transport(), Waking::Nobody).and("the near end is awake");
    if facts.site.peer.is_none() {
        return awake + stack_cost(facts, of.transport(), Waking::Other).and("no link");
    }
    round_trip(&Way::for_site(facts.site), of.transport(), of.message, of.message)
        + awake
        + far_stack_cost(facts.site, of.transport(), Waking::Interrupt)
}

/// What each end does for a request where it need not sleep, in ns: this one, and the far one.
fn ends_awake(facts: Facts, of: &Requests) -> [Law; 2] {
    let near = stack_cost(facts, of.transport(), Waking::Nobody);
    [near, far_stack_cost(facts.site, of.transport(), Waking::Nobody)]
}

/// The same of an end on loopback, by net.rtt.
fn measured_end(facts: Facts, of: &Requests) -> Option<Law> {
    let end = rtt::measured_end(facts, of.protocol.into(), of.message)?;
    facts.site.peer.is_none().then_some(end)
}

/// Requests a second that one end's CPU manages, or the link between them.
fn capacity(facts: Facts, of: &Requests) -> Range {
    // A look at several connections takes calls of its own; many requests by one wake-up save some.
    let slower = match measured_end(facts, of) {
        Some(end) => scaled(product(end.range, range(0.7, 1.0, 1.5)), 1.3),
        None => {
            let [near, far] = ends_awake(facts, of).map(|end| end.range);
            let slower = end_by_end(near, far, f64::max);
            range(0.6 * slower.low, 1.3 * slower.likely, 3.0 * slower.high)
        }
    };
    let by_cpu = inverse(1e9, slower);
    if facts.site.peer.is_none() {
        return by_cpu;
    }
    let link = goodput(&Way::for_site(facts.site), of.transport());
    least(by_cpu, link.times(1.0 / of.message.max(1) as f64).range)
}

/// A request while others keep both ends awake, in ns.
fn awake(facts: Facts, of: &Requests) -> Range {
    let [near, far] = ends_awake(facts, of);
    if facts.site.peer.is_none() {
        return measured_end(facts, of).unwrap_or(near).times(2.0).range;
    }
    let way = Way::for_site(facts.site);
    (round_trip(&way, of.transport(), of.message, of.message) + near + far).range
}

/// Requests a second of the closed loop: one on its way by each connection, as many as the slower
/// end's CPU manages. With several on their way an end that answers one finds the next, and does
/// not sleep in between.
pub fn closed_rate(facts: Facts, of: &Requests) -> Law {
    let alone = alone(facts, of);
    let by_trips = |trip| inverse(1e9 * of.connections as f64, trip);
    let most = capacity(facts, of);
    let mut all = least(by_trips(alone.range), most);
    if of.connections > 1 {
        let awake = least(by_trips(awake(facts, of)), most);
        all.likely = (all.likely * awake.likely.max(all.likely)).sqrt();
        all.high = all.high.max(awake.high);
    }
    let count = of.connections;
    alone
        .with_range(all)
        .and(format!("{count} requests in flight, limited by an end's CPU or the link"))
}

/// Requests a second that are asked for; of the closed loop those that it reaches.
fn asked(facts: Facts, of: &Requests) -> Law {
    match of.asked() {
        Asked::Closed => closed_rate(facts, of),
        Asked::Share(share) => {
            let why = format!("{:.0} % of the closed loop's rate", 100.0 * share);
            closed_rate(facts, of).times(share).and(why)
        }
        Asked::Rate(rate) => {
            let exactly = range(rate, rate, rate);
            Law::software(exactly, format!("--set asks for {rate:.0} requests per second"))
        }
    }
}

/// Share of the ends' capacity, as far as it can be predicted.
fn utilisation(facts: Facts, of: &Requests) -> f64 {
    match of.asked() {
        Asked::Closed => 1.0,
        Asked::Share(share) => share,
        Asked::Rate(rate) => rate / closed_rate(facts, of).range.likely,
    }
}

pub fn rate(facts: Facts, of: &Requests) -> Law {
    let asked = asked(facts, of);
    // The closed loop's is what the ends manage already.
    if of.asked() == Asked::Closed || utilisation(facts, of) < FULL {
        return asked;
    }
    let most = scaled(capacity(facts, of), 1.2);
    let reached =
        |of: Range| range(0.3 * of.low.min(most.low), of.likely.min(most.likely), of.high);
    asked.reshaped(reached).and("at most the capacity of the two ends")
}

/// Replies over requests asked for.
pub fn rate_ratio(facts: Facts, of: &Requests) -> Law {
    let (range, why) = match utilisation(facts, of) {
        u if u < 0.9 => (range(0.96, 0.999, 1.0), "below the closed loop's rate it keeps time"),
        u if u < FULL => (range(0.75, 0.995, 1.0), "a queue may grow until the last request"),
        u => (range(0.25 / u, (1.1 / u).min(0.99), 1.0), "ends that wake less often serve more"),
    };
    Law::software(range, why)
}

/// Share of the requests that find the far end asleep. While it wakes for one, further ones arrive,
/// so it falls faster than the share of the time without work. Set after a look at the figures of two
/// machines that it predicts (a Zen 3 and a Zen 5 guest), so these are no evidence for it.
fn asleep(facts: Facts, of: &Requests) -> f64 {
    if facts.site.peer.is_some() {
        // The way between hosts takes more than a sleep, and stays.
        return 1.0;
    }
    (1.0 - utilisation(facts, of).min(1.0)).powi(2)
}

/// From sending to reply, in ns: the median. `window_ns` is how long requests are sent.
pub fn service(facts: Facts, of: &Requests, window_ns: f64) -> Law {
    if of.asked() == Asked::Closed {
        let rate = closed_rate(facts, of);
        let range = inverse(1e9 * of.connections as f64, rate.range);
        return rate
            .with_range(range)
            .and("requests in flight divided by their rate (Little's law)");
    }
    let (alone, awake) = (alone(facts, of), awake(facts, of));
    let (u, asleep) = (utilisation(facts, of), asleep(facts, of));
    // Regular requests queue half as long as irregular ones (Kingman's formula).
    let uneven = if of.schedule == Some(Schedule::Fixed) { 0.5 } else { 1.0 };
    let queue = uneven * u / (1.0 - u.min(FULL));
    let mix = |alone: f64, awake: f64| asleep * alone + (1.0 - asleep) * awake;
    let Range { low, likely, high } = alone.range;
    let mut time = range(
        mix(0.6 * low, awake.low.min(0.6 * low)),
        mix(likely, awake.likely) * (1.0 + 0.2 * queue),
        mix(high, awake.high.min(high)) * (1.0 + queue),
    );
    let mut why = "a queue at the server";
    if u < RARE {
        time.high *= 2.5;
        why = "at a low rate the far CPU sleeps more deeply";
    }
    if u >= FULL {
        time.high = time.high.max(window_ns);
        why = "a queue at the server that may grow for the whole window";
    }
    alone.with_range(time).and(format!("{why}, at {:.0} % of the closed loop's rate", 100.0 * u))
}

/// From due time to sending, in ns: the median. The sender never sleeps, so a request waits for
/// half a turn of its loop: a read of the clock, and while a request is on its way also a receive
/// call. Written after a look at the figures of three guests that it predicts, so these are no
/// evidence.
pub fn lateness(facts: Facts, of: &Requests, window_ns: f64) -> Law {
    let idle = cpu::counter_read(facts.site, CounterRead::Fenced).times(0.5);
    let looks = stack::call(facts) + stack::work(facts, &["LOOK"]);
    let (looks, u) = (looks.times(0.5), utilisation(facts, of));
    if u < RARE {
        let why = "half a turn of the sender's loop, which waits by the clock";
        return idle.reaching(looks.range.high).and(why);
    }
    // A request may also come while another is sent or received, and those wait for each other.
    let pair = stack_cost(facts, of.transport(), Waking::Nobody).range;
    let mut high = 0.5 * pair.high / (1.0 - u.min(FULL));
    if u >= FULL {
        high = high.max(window_ns);
    }
    let range = range(idle.range.low.min(looks.range.low), looks.range.likely, high);
    looks
        .with_range(range)
        .and(format!("half a turn of the sender's loop, at {:.0} % load", 100.0 * u))
}

/// From due time to reply, in ns: the median.
pub fn response(facts: Facts, of: &Requests, window_ns: f64) -> Law {
    service(facts, of, window_ns) + lateness(facts, of, window_ns)
}

/// Share of the requests without a reply in time.
pub fn lost(site: &Site, of: &Requests) -> Law {
    let (high, why) = match (of.protocol, site.peer.is_some()) {
        (Protocol::Udp, true) => (0.1, "full queues and socket buffers drop datagrams"),
        (Protocol::Udp, false) => (0.02, "a full socket buffer drops datagrams"),
        (Protocol::Tcp, _) => (0.0, "TCP loses nothing, and no queue lasts until the time-out"),
    };
    Law::software(range(0.0, 0.0, high), why)
}

/// CPU time of the near end per request, in ns: awake from one to the next.
pub fn cpu_near(facts: Facts, of: &Requests) -> Law {
    rate(facts, of)
        .inverse(1e9)
        .and("the near end never sleeps, so its CPU time is the whole interval between requests")
}

/// CPU time of the far end per request, in ns.
pub fn cpu_far(facts: Facts, of: &Requests) -> Law {
    let far = measured_trip(facts, of.protocol, of.message, &[Ends::OtherCpu], "cpu_far");
    if let (Some(end), Some(sleeping)) = (measured_end(facts, of), far) {
        let asleep = asleep(facts, of);
        let ns = asleep * sleeping + 1.3 * (1.0 - asleep) * end.range.likely;
        let told = format!("with a sleep for each {:.1} µs (measured by net.rtt)", sleeping / 1e3);
        return end.with_range(range(0.5 * ns, ns, 2.0 * ns)).and(told);
    }
    let [near, far] = ends_awake(facts, of);
    let pair = if facts.site.peer.is_some() { far } else { near };
    // Going to sleep and coming back is the far end's as well, where it does so for each.
    pair.ends(0.5, 1.6, 4.0).and("poll(2), and one sleep per request or per several requests")
}

/// What net.rtt measured of blocking ends for the message nearest in size, to the same far end by
/// the same protocol from where this end is (one of `ends`).
pub(super) fn measured_trip(
    facts: Facts,
    protocol: Protocol,
    bytes: u64,
    ends: &[Ends],
    metric: &'static str,
) -> Option<f64> {
    let (far, saturated) = (facts.site.far(), Arrivals::Saturated);
    let trips = rtt::measured(facts.known?, far, protocol.into(), saturated, metric);
    let apart = |message: u64| (message.max(1) as f64 / bytes.max(1) as f64).ln().abs();
    trips
        .filter(|(of, _)| ends.contains(&of.ends))
        .map(|(of, ns)| (apart(of.message), ns))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, ns)| ns)
}

#[cfg(test)]
mod tests {
    use super::{
        Load, Requests, Schedule, closed_rate, cpu_far, lateness, rate_ratio, response, service,
    };
    use crate::Facts;
    use crate::net::rtt::tests::trip_key;
    use crate::net::{Ends, Protocol};
    use bench::experiment::Known;
    use bench::experiment::fixtures::joined::joined;
    use bench::experiment::fixtures::{recorded, sites};
    use record::key::Key;

    const WINDOW_NS: f64 = 5e7;

    fn requests(load: Load) -> Requests {
        Requests {
            protocol: Protocol::Tcp,
            message: 64,
            ends: Ends::OtherCpu,
            connections: 4,
            schedule: (load != Load::Closed).then_some(Schedule::Fixed),
            load: Some(load),
            rate: None,
        }
    }

    fn trip(far: &str, message: u64) -> Key {
        trip_key(far, message, Ends::OtherCpu)
    }

    #[test]
    fn with_several_on_their_way_nobody_sleeps_for_each() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        // A round trip that is nearly all waking.
        known.insert(trip("loopback", 64), 80_000.0);
        let rate = |connections| {
            let of = Requests { connections, ..requests(Load::Closed) };
            closed_rate(Facts { site: &site, known: Some(&known) }, &of).range
        };
        let (alone, four) = (rate(1), rate(4));
        assert!(alone.high < 40_000.0, "{alone:?}");
        assert!(four.high > 5.0 * alone.high, "{alone:?} {four:?}");
        assert!(four.low <= 4.0 * alone.low, "{alone:?} {four:?}");
    }

    #[test]
    fn every_site_has_rates_that_connections_raise_and_times_that_load_raises() {
        let loads = [10, 50, 95, 120].map(|percent| requests(Load::Share(percent)));
        let mut all = sites();
        all.push(joined("", ""));
        for site in all {
            let facts = Facts::prior(&site);
            let one = Requests { connections: 1, ..requests(Load::Closed) };
            let few = closed_rate(facts, &one).range;
            let many = closed_rate(facts, &requests(Load::Closed)).range;
            assert!(few.low > 0.0 && few.likely <= many.likely && few.high <= many.high);
            let times = loads.each_ref().map(|of| service(facts, of, WINDOW_NS).range);
            // Between hosts load only adds queues; on one, ends that it keeps awake answer sooner.
            match site.peer {
                Some(_) => assert!(times.is_sorted_by(|a, b| a.likely <= b.likely)),
                None => assert!(times[1].likely <= times[0].likely),
            }
            assert!(times[3].high >= 5e7 && times[1].high <= times[2].high);
            for (load, service) in loads.iter().zip(times) {
                let late = lateness(facts, load, WINDOW_NS).range;
                let all = response(facts, load, WINDOW_NS).range;
                assert!(all.likely >= service.likely);
                assert!(late.low <= late.likely && late.likely <= late.high);
                assert!(rate_ratio(facts, load).range.high <= 1.0);
            }
        }
    }

    /// A poller's round trip is the work of both ends, a blocking one's CPU time has a sleep in it.
    #[test]
    fn ends_that_load_keeps_awake_are_known_by_a_poller() {
        let site = recorded("vm-granite-rapids");
        let mut known = Known::default();
        known.insert(trip("loopback", 64), 60e3);
        let told = |known: &Known, percent| {
            let facts = Facts { site: &site, known: Some(known) };
            let of = requests(Load::Share(percent));
            (service(facts, &of, WINDOW_NS).range, cpu_far(facts, &of).range)
        };
        let before = told(&known, 90);
        let mut key = trip("loopback", 64);
        let receiver = key.case.0.iter_mut().find(|(name, _)| name == "receiver");
        receiver.unwrap().1 = "polling".into();
        known.insert(key, 6e3);
        let mut key = trip("loopback", 64);
        "cpu_far".clone_into(&mut key.metric);
        known.insert(key, 25e3);
        let [(slow, sleeping), (fast, awake)] = [10, 90].map(|percent| told(&known, percent));
        let width = |range: record::event::Range| range.high / range.low;
        assert!(width(fast) < width(before.0) && width(awake) < width(before.1));
        assert!(fast.likely > 6e3 && fast.likely < 0.5 * slow.likely, "{fast:?} {slow:?}");
        assert!(sleeping.likely > 0.7 * 25e3 && awake.likely < 5e3, "{sleeping:?} {awake:?}");
    }

    #[test]
    fn a_measured_round_trip_to_the_same_far_end_is_what_counts() {
        let mut known = Known::default();
        for (far, message, ns) in
            [("loopback", 56, 30e3), ("loopback", 4096, 90e3), ("peer", 64, 500e3)]
        {
            known.insert(trip(far, message), ns);
        }
        let half = requests(Load::Share(50));
        let few = requests(Load::Share(10));
        let site = recorded("vm-granite-rapids");
        let told = service(Facts { site: &site, known: Some(&known) }, &few, WINDOW_NS);
        assert!(told.range.likely > 20e3 && told.range.likely < 30e3);
        // Another host's time is never loopback's.
        let there = joined("", "");
        let away = service(Facts { site: &there, known: Some(&known) }, &half, WINDOW_NS);
        assert!(away.range.likely > 400e3, "{away:?}");
    }
}
