//! Laws of ICMP echoes: one end's calls and waiting, the way twice, and a kernel at the other end
//! that answers in the interrupt that brought the echo, without a process.
//!
//! R0, R1 and R2 printed 23, 37 and 83 µs for echoes a second apart.

use super::rtt::{self, Arrivals};
use super::{Ends, Kind, Protocol, Transport, Waking, Way, round_trip, stack};
use crate::{Facts, Law, cpu, range};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};
use record::event::Range;

symbols! {
    /// A version of IP.
    pub enum Ip { V4 = "v4", V6 = "v6" }
}
case! {
    /// Echoes.
    pub struct Echoes {
        /// IP version: both on loopback; for a peer the one it is reached over
        ip: Ip,
        /// bytes of payload
        message: u64 = Domain::bytes(16, 65_507),
        /// back to back, or at `interval`
        arrivals: Arrivals,
    }
}

impl Echoes {
    pub fn way<'site>(&self, site: &'site Site) -> Way<'site> {
        Way { is_v6: self.ip == Ip::V6, ..Way::for_site(site) }
    }
}

/// After a pause code and data have left the near caches and the TLB, and on bare metal the core may
/// have slept, which empties its caches, and its clock may have fallen: R0's 23 µs by ping, a second
/// apart, are 80,000 cycles, where echoes without pauses take about 14,000 on such cores.
const COLD: Range = range(1.5, 5.0, 14.0);
/// An idle guest CPU halts to its host, and the host's core may poll or do other work: 1.3 to 3.2
/// times on the guests of `data/sheets` [plumb].
const COLD_GUEST: Range = range(1.0, 2.0, 7.0);

/// What an echo's time is made of, in ns.
#[derive(Clone, Debug)]
pub struct Parts {
    /// From before the call that sends until the kernel took the answer up.
    pub kernel: Law,
    /// From there until the waiting thread has it.
    pub wake_up: Law,
}

impl Parts {
    /// Both together: what a program sees.
    pub fn whole(self) -> Law {
        self.kernel + self.wake_up
    }
}

/// Whether earlier figures say more than the machine's description.
pub fn adds(facts: Facts) -> bool {
    facts.known.is_none() || stack::knows_call(facts)
}

pub fn parts(facts: Facts, of: &Echoes) -> Parts {
    let way = of.way(facts.site);
    let is_remote = way.kind() != Kind::Loopback;
    let is_guest = cpu::is_guest(facts.site);
    let cold_by = if is_guest { COLD_GUEST } else { COLD };
    let cold = |law: Law| match of.arrivals {
        Arrivals::Saturated => law,
        Arrivals::Sparse => law.by(cold_by).and("more after a pause, with cold caches"),
    };
    let work = |term: &str| cold(stack::work(facts, &[term]));
    let call = || cold(stack::call(facts));
    let copied = || cold(stack::counted(facts, &["summed"], 2.0 * of.message as f64));
    let sent = call() + work("ECHO") + copied();
    let kernel = match is_remote {
        false => sent + work("ANSWER") + copied(),
        true => sent + beyond(facts.site, &way, of),
    };
    let taken = call() + work("TAKE");
    // On loopback the answer lies there before the call that sent the echo is over.
    let waking = if is_remote { waking(of.arrivals) } else { Waking::Nobody };
    let wake_up = match stack::woken_by_kernel(facts, &way, waking) {
        Some(woken) => taken + woken,
        // The rest of the software interrupt and of the call that sent lies between.
        None => taken + work("REST"),
    };
    Parts { kernel, wake_up }
}

fn waking(arrivals: Arrivals) -> Waking {
    match arrivals {
        Arrivals::Saturated => Waking::Interrupt,
        Arrivals::Sparse => Waking::Sparse,
    }
}

/// The way there and back, and the peer's interrupt that answers.
fn beyond(site: &Site, way: &Way<'_>, of: &Echoes) -> Law {
    let there = stack::far_site(site);
    let there = there.as_ref().unwrap_or(site);
    let mut answer = stack::work(Facts::prior(there), &["ANSWER"]).range;
    // Its CPU slept, or not.
    let woken = stack::woken_by_kernel(Facts::prior(there), way, waking(of.arrivals));
    if let Some(woken) = woken {
        answer.likely += 0.3 * woken.range.likely;
        answer.high += woken.range.high;
    }
    round_trip(way, Transport::Icmp, of.message, of.message)
        + Law::software(answer, "the peer's kernel replies in its interrupt")
}

/// What a message of its own size there and back takes over a socket, as net.rtt measured it in the
/// same run with the same far end, in ns, and where the ends were: the figure of 56 or 64 bytes
/// that a process answers after a blocking wait.
pub fn measured_rtt(
    facts: Facts,
    far: &str,
    protocol: Protocol,
    arrivals: Arrivals,
) -> Option<(f64, Ends)> {
    // An answer from another thread on the same CPU, or of the other host, is nearest to an echo.
    const ENDS: [Ends; 4] = [Ends::TwoHosts, Ends::SameCpu, Ends::OtherCpu, Ends::OneThread];
    let trips = rtt::measured(facts.known?, far, protocol.into(), arrivals, rtt::TRIP);
    let usual = trips.filter(|(of, _)| matches!(of.message, 56 | 64));
    let rank = |of: &rtt::Exchange| (ENDS.iter().position(|ends| *ends == of.ends), of.message);
    let nearest = usual.min_by_key(|(of, _)| rank(of));
    nearest.map(|(of, ns)| (ns, of.ends))
}

/// An echo from what net.rtt measured with its ends there: that less what the process at the far
/// end took for its part, in ns. None of loopback's two CPUs: nearly all of that is waking, which
/// an echo there does not need.
pub fn less_socket(
    site: &Site,
    (rtt_ns, ends): (f64, Ends),
    protocol: Protocol,
    way: &Way<'_>,
) -> Option<Law> {
    let is_here = way.kind() == Kind::Loopback;
    if is_here && ends == Ends::OtherCpu {
        return None;
    }
    let socket = super::far_stack_cost(site, protocol.transport(), ends.waking());
    // On loopback this end is woken as well, which an echo does not need.
    let shares = if is_here { range(0.7, 1.3, 2.2) } else { range(0.2, 0.6, 1.1) };
    let left = measured(rtt_ns, protocol) - socket.by(shares).and("less the socket at the far end");
    // An echo still goes all the way: its time is some of the socket's, whatever the stacks take.
    let range = range(
        left.range.low.max(0.1 * rtt_ns),
        left.range.likely.max(0.2 * rtt_ns),
        left.range.high.max(0.5 * rtt_ns),
    );
    Some(left.with_range(range))
}

fn measured(rtt_ns: f64, protocol: Protocol) -> Law {
    let (us, protocol) = (rtt_ns / 1e3, protocol.transport());
    Law::measured(
        rtt_ns,
        0.05,
        format!("a {protocol} round trip takes {us:.1} µs (measured by net.rtt)"),
    )
}

/// A socket's round trip less an echo's, in ns, from both ends' stacks. On loopback net.rtt's ends
/// may be on one CPU or on two.
pub fn socket_cost(site: &Site, protocol: Protocol, way: &Way<'_>) -> Law {
    let is_here = way.kind() == Kind::Loopback;
    let (likely, most) = match is_here {
        true => (Waking::Same, Waking::Other),
        false => (Waking::Interrupt, Waking::Sparse),
    };
    let far = |waking| super::far_stack_cost(site, protocol.transport(), waking);
    let near = |waking| super::stack_cost(Facts::prior(site), protocol.transport(), waking).range;
    let cost = far(likely);
    let range = range(
        0.2 * cost.range.low - 0.5 * near(likely).likely,
        cost.range.likely * if is_here { 1.3 } else { 0.8 },
        far(most).range.high + near(most).high,
    );
    cost.with_range(range).and("at the far end a process replies instead of an interrupt handler")
}

/// Echoes that are never answered, as a share of those sent.
pub fn loss(way: &Way<'_>) -> Law {
    let name = way.name();
    let (high, why) = match way.kind() {
        Kind::Loopback => (0.0, "loopback loses nothing"),
        _ if way.has_gateway => (0.2, "routers and policers drop ICMP echoes first"),
        Kind::Wireless => (0.05, "a radio retransmits lost frames a few times, then drops them"),
        Kind::Wired | Kind::Virtual | Kind::Paravirtual => {
            (0.002, "an idle wire or switch loses almost nothing")
        }
        Kind::Unknown => (0.2, "the path is unknown"),
    };
    Law::hardware(range(0.0, 0.0, high), name).and(why)
}

/// What a measured round trip over a socket leaves when an echo's expected time is taken away, in
/// ns.
pub fn left_of(rtt_ns: f64, protocol: Protocol, ping: Law) -> Law {
    measured(rtt_ns, protocol) - ping.and("less the time of an echo")
}
