//! Laws of requests by a schedule: how many a second two ends manage, and how long one takes beside others.
//!
//! Queues are those of one server: nothing waits while requests come one by one, and waiting grows with
//! u / (1 - u) as the server's share u of busy time grows, by how much depends on how unevenly they come and
//! are served (R. Jain, "The Art of Computer Systems Performance Analysis", M/G/1), which is not known
//! beforehand: the interval opens.

use super::{Transport, Waking, Way, far_stack_cost, goodput, round_trip, stack_cost};
use crate::os::measured_call;
use crate::{Law, inverse, range, scaled, sum};
use bench::experiment::{Known, Site};
use record::event::Range;

/// Requests of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requests {
    /// What carries them.
    pub transport: Transport,
    /// Bytes of a request and of its reply.
    pub bytes: u64,
    /// Connections.
    pub connections: u64,
    /// How many come.
    pub load: Load,
    /// For how long they are sent, in ns.
    pub window_ns: f64,
}

/// How many requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// The next when the last has its reply.
    Closed,
    /// This share of what the closed loop reached.
    Share(f64),
    /// So many a second.
    Rate(f64),
}

/// Share of the closed loop's rate from which on a queue may grow without end.
const FULL: f64 = 0.97;

/// The measured round trip that stands for a request's.
fn trip(known: &Known, site: &Site, of: Requests) -> Option<f64> {
    let ends = ["other_cpu", "two_hosts"];
    measured_trip(known, site.far(), of.transport, of.bytes, &ends)
}

/// Whether earlier figures say more than the machines' descriptions.
pub fn adds(site: &Site, known: &Known, of: Requests) -> bool {
    measured_call(known, "getpid").is_some() || trip(known, site, of).is_some()
}

/// A request with nothing else on the way, in ns: this end awake, the far end woken.
fn alone(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    if let Some(ns) = known.and_then(|known| trip(known, site, of)) {
        return Law::of(
            range(0.35 * ns, 0.85 * ns, 1.6 * ns),
            format!(
                "base hardware and software: a round trip of {:.1} µs (net.rtt), of which this end does \
                 not sleep",
                ns / 1e3
            ),
        );
    }
    let awake = stack_cost(site, known, of.transport, Waking::Nobody);
    if site.peer.is_none() {
        let woken = stack_cost(site, known, of.transport, Waking::Other);
        return Law::of(
            sum(awake.range, woken.range),
            format!(
                "base hardware: loopback: memory copies, no link; software: this end awake, the far end \
                 woken: {}",
                woken.because()
            ),
        );
    }
    let far = far_stack_cost(site, of.transport, Waking::Interrupt);
    let between = round_trip(&Way::of(site), of.transport, of.bytes, of.bytes);
    Law::of(
        sum(between.range, sum(awake.range, far.range)),
        format!("{}; {}", between.because(), far.because()),
    )
}

/// Requests a second that one end's CPU manages, or the link between them.
fn capacity(site: &Site, known: Option<&Known>, of: Requests) -> Range {
    let near = stack_cost(site, known, of.transport, Waking::Nobody).range;
    let far = far_stack_cost(site, of.transport, Waking::Nobody).range;
    // A look at several connections takes calls of its own; many requests by one wake-up save some.
    let slower = range(
        0.6 * near.low.max(far.low),
        1.3 * near.likely.max(far.likely),
        3.0 * near.high.max(far.high),
    );
    let by_cpu = inverse(1e9, slower);
    match site.peer.is_some() {
        true => {
            let link = scaled(
                goodput(&Way::of(site).both(), of.transport).range,
                1.0 / of.bytes.max(1) as f64,
            );
            lesser(by_cpu, link)
        }
        false => by_cpu,
    }
}

fn lesser(a: Range, b: Range) -> Range {
    range(a.low.min(b.low), a.likely.min(b.likely), a.high.min(b.high))
}

/// A request while others keep both ends awake, in ns.
fn awake(site: &Site, known: Option<&Known>, of: Requests) -> Range {
    let near = stack_cost(site, known, of.transport, Waking::Nobody).range;
    if site.peer.is_none() {
        return scaled(near, 2.0);
    }
    let far = far_stack_cost(site, of.transport, Waking::Nobody).range;
    let between = round_trip(&Way::of(site), of.transport, of.bytes, of.bytes);
    sum(between.range, sum(near, far))
}

/// Requests a second of the closed loop: one on its way by each connection, as many as the slower end's CPU
/// manages. With several on their way an end that answers one finds the next, and does not sleep in between.
pub fn closed_rate(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let alone = alone(site, known, of);
    let by_trips = |trip| inverse(1e9 * of.connections as f64, trip);
    let most = capacity(site, known, of);
    let mut all = lesser(by_trips(alone.range), most);
    if of.connections > 1 {
        let awake = lesser(by_trips(awake(site, known, of)), most);
        all.likely = (all.likely * awake.likely.max(all.likely)).sqrt();
        all.high = all.high.max(awake.high);
    }
    Law::of(
        all,
        format!(
            "{}; {} on their way at a time, between which the far end may not sleep, no more than the slower \
             end's CPU or the link manages",
            alone.because(),
            of.connections
        ),
    )
}

/// Requests a second that are asked for; of the closed loop those that it reaches.
fn asked(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let closed = closed_rate(site, known, of);
    match of.load {
        Load::Closed => closed,
        Load::Share(share) => Law::of(
            scaled(closed.range, share),
            format!(
                "{:.0} % of the closed loop's rate in the same round: {}",
                100.0 * share,
                closed.because()
            ),
        ),
        Load::Rate(rate) => {
            Law::new(rate, rate, rate, format!("software: asked for: {rate:.0} a second"))
        }
    }
}

/// Share of what the ends manage, as far as it can be told beforehand.
fn utilisation(site: &Site, known: Option<&Known>, of: Requests) -> f64 {
    match of.load {
        Load::Closed => 1.0,
        Load::Share(share) => share,
        Load::Rate(rate) => rate / closed_rate(site, known, of).range.likely,
    }
}

/// Replies a second.
pub fn rate(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let asked = asked(site, known, of);
    // The closed loop's is what the ends manage already.
    if of.load == Load::Closed || utilisation(site, known, of) < FULL {
        return asked;
    }
    let most = scaled(capacity(site, known, of), 1.2);
    let reached = range(
        0.3 * asked.range.low.min(most.low),
        asked.range.likely.min(most.likely),
        asked.range.high,
    );
    Law::of(reached, format!("{}; at most what the ends manage", asked.because()))
}

/// Replies over requests asked for.
pub fn rate_ratio(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    match utilisation(site, known, of) {
        u if u < 0.9 => Law::new(
            0.96,
            0.999,
            1.0,
            "software: the schedule is kept below the rate of the closed loop",
        ),
        u if u < FULL => Law::new(
            0.75,
            0.995,
            1.0,
            "software: near the closed loop's rate a queue may grow until the last was sent",
        ),
        u => Law::new(
            0.25 / u,
            (1.1 / u).min(0.99),
            1.0,
            "software: what is asked for beyond the closed loop's rate may be more than the ends manage, or \
             not: with several on the way by a connection they are woken less often",
        ),
    }
}

/// From sending to reply, in ns: the median.
pub fn service(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    if of.load == Load::Closed {
        let rate = closed_rate(site, known, of);
        return Law::of(
            inverse(1e9 * of.connections as f64, rate.range),
            format!("requests on their way over their rate (Little): {}", rate.because()),
        );
    }
    let alone = alone(site, known, of);
    let u = utilisation(site, known, of);
    let free = 1.0 - u.min(FULL);
    let queue = u / free;
    let mut time = range(
        0.6 * alone.range.low,
        alone.range.likely * (1.0 + 0.1 * queue),
        alone.range.high * (1.0 + queue),
    );
    let mut because = format!(
        "{}; a queue before the server at {:.0} % of the closed loop's rate",
        alone.because(),
        100.0 * u
    );
    if u < 0.3 {
        time.high *= 2.5;
        because.push_str("; between few requests the far CPU sleeps deeper");
    }
    if u >= FULL {
        time.high = time.high.max(of.window_ns);
        because.push_str(", which may grow for as long as they are sent");
    }
    Law::of(time, because)
}

/// From due time to sending, in ns: the median.
pub fn lateness(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let pair = stack_cost(site, known, of.transport, Waking::Nobody).range;
    let u = utilisation(site, known, of);
    let mut time = range(15.0, 0.25 * pair.likely, 1.5 * pair.high);
    let mut because =
        "software: the sender is awake: half a turn of its loop, which looks at the clock and \
                       takes in what is there by one call"
            .to_owned();
    if u >= 0.85 {
        time.high *= 20.0;
        because.push_str("; near what it manages, requests that are due wait for each other");
    }
    if u >= FULL {
        time.high = time.high.max(of.window_ns);
        because.push_str(" for as long as they are sent");
    }
    Law::of(time, because)
}

/// From due time to reply, in ns: the median.
pub fn response(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let service = service(site, known, of);
    Law::of(
        sum(service.range, lateness(site, known, of).range),
        format!("{}; and the sender's lateness", service.because()),
    )
}

/// Share of the requests without a reply in time.
pub fn lost(site: &Site, of: Requests) -> Law {
    let high = match (of.transport, site.peer.is_some()) {
        (Transport::Udp, true) => 0.1,
        (Transport::Udp, false) => 0.02,
        _ => 0.0,
    };
    let because = match of.transport {
        Transport::Udp => {
            "software: datagrams are dropped where a queue or a socket's buffer is full"
        }
        _ => "software: TCP loses nothing, and no queue here grows longer than the time-out",
    };
    Law::new(0.0, 0.0, high, because)
}

/// CPU time of the near end per request, in ns: awake from one to the next.
pub fn cpu_near(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let rate = rate(site, known, of);
    Law::of(
        inverse(1e9, rate.range),
        format!(
            "software: this end never sleeps, so a request takes all the time between two: {}",
            rate.because()
        ),
    )
}

/// CPU time of the far end per request, in ns.
pub fn cpu_far(site: &Site, known: Option<&Known>, of: Requests) -> Law {
    let pair = match site.peer.is_some() {
        true => far_stack_cost(site, of.transport, Waking::Nobody),
        false => stack_cost(site, known, of.transport, Waking::Nobody),
    };
    Law::of(
        // Going to sleep and coming back is the far end's as well, where it does so for each.
        range(0.5 * pair.range.low, 1.6 * pair.range.likely, 4.0 * pair.range.high),
        format!(
            "{}; poll(2), and sleeping and waking for each request or for several",
            pair.because()
        ),
    )
}

/// What net.rtt measured of blocking ends for the message nearest in size, to the same far end by the same
/// protocol from where this end is (one of `ends`).
pub(super) fn measured_trip(
    known: &Known,
    far: &str,
    transport: Transport,
    bytes: u64,
    ends: &[&str],
) -> Option<f64> {
    let protocol = match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
        Transport::Icmp => "icmp",
    };
    let trips = known.of("net.rtt", "round_trip").filter(|(case, _)| {
        let is = |name: &str, wanted: &str| case.text(name).is_none_or(|told| told == wanted);
        case.text("far") == Some(far)
            && is("protocol", protocol)
            && is("exchange", "echo")
            && is("receiver", "blocking")
            && is("arrivals", "saturated")
            && ends.iter().any(|ends| is("ends", ends))
            && case.int("connections").is_none_or(|count| count == 1)
    });
    let apart = |message: u64| (message.max(1) as f64 / bytes.max(1) as f64).ln().abs();
    let nearest = trips.map(|(case, ns)| (apart(case.int("message").unwrap_or(bytes)), ns));
    nearest.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, ns)| ns)
}

#[cfg(test)]
mod tests {
    use super::{Load, Requests, closed_rate, lateness, rate_ratio, response, service};
    use crate::net::Transport;
    use bench::experiment::Known;
    use bench::experiment::fixtures::joined::joined;
    use bench::experiment::fixtures::{recorded, sites};
    use record::key::{CaseId, Key};

    fn of(load: Load) -> Requests {
        Requests { transport: Transport::Tcp, bytes: 64, connections: 4, load, window_ns: 5e7 }
    }

    #[test]
    fn with_several_on_their_way_nobody_sleeps_for_each() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        let case = CaseId::new()
            .with("far", "loopback")
            .with("protocol", "tcp")
            .with("message", 64)
            .with("ends", "other_cpu");
        // A round trip that is nearly all waking.
        known.insert(Key::new("net.rtt", &case, "round_trip"), 80_000.0);
        let rate = |connections| {
            let of = Requests { connections, ..of(Load::Closed) };
            closed_rate(&site, Some(&known), of).range
        };
        let (alone, four) = (rate(1), rate(4));
        assert!(alone.high < 40_000.0, "{alone:?}");
        assert!(four.high > 5.0 * alone.high, "{alone:?} {four:?}");
        assert!(four.low <= 4.0 * alone.low, "{alone:?} {four:?}");
    }

    #[test]
    fn every_site_has_rates_that_connections_raise_and_times_that_load_raises() {
        let loads = [0.1, 0.5, 0.95, 1.2].map(|share| of(Load::Share(share)));
        let mut all = sites();
        all.push(joined("", ""));
        for site in all {
            let one = Requests { connections: 1, ..of(Load::Closed) };
            let few = closed_rate(&site, None, one).range;
            let many = closed_rate(&site, None, of(Load::Closed)).range;
            assert!(few.low > 0.0 && few.likely <= many.likely && few.high <= many.high);
            let times = loads.map(|of| service(&site, None, of).range);
            assert!(times.is_sorted_by(|a, b| a.likely <= b.likely));
            assert!(times[3].high >= 5e7 && times[1].high <= times[2].high);
            for load in loads {
                let late = lateness(&site, None, load).range;
                let all = response(&site, None, load).range;
                assert!(all.likely >= service(&site, None, load).range.likely);
                assert!(late.low <= late.likely && late.likely <= late.high);
                assert!(rate_ratio(&site, None, load).range.high <= 1.0);
            }
        }
    }

    #[test]
    fn a_measured_round_trip_to_the_same_far_end_is_what_counts() {
        let site = recorded("vm-granite-rapids");
        let mut known = Known::default();
        let mut trip = |far: &str, message: u64, ns| {
            let case = CaseId::new()
                .with("far", far)
                .with("protocol", "tcp")
                .with("message", message)
                .with("ends", "other_cpu");
            known.insert(Key::new("net.rtt", &case, "round_trip"), ns);
        };
        trip("loopback", 56, 30e3);
        trip("loopback", 4096, 90e3);
        trip("peer", 64, 500e3);
        let half = of(Load::Share(0.5));
        let told = service(&site, Some(&known), half);
        assert!(told.range.likely > 25e3 && told.range.likely < 30e3);
        // Another host's time is never loopback's.
        let away = service(&joined("", ""), Some(&known), half);
        assert!(away.range.likely > 400e3, "{away:?}");
    }
}
