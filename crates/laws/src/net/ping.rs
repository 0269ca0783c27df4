//! Laws of ICMP echoes: one end's calls and waiting, the way twice, and a kernel at the other end that answers
//! in the interrupt that brought the echo, without a process.
//!
//! Cycles are starting values for Linux 6.x, from memory of `perf` of `ping -f` over loopback (5 to 12 µs an
//! echo on cores of 3 GHz); R0, R1 and R2 printed 23, 37 and 83 µs for echoes a second apart.

use super::{Kind, Transport, Waking, Way, round_trip, stack};
use crate::os::{self, measured_call};
use crate::{Facts, Law, around, cpu, difference, inverse, product, range, sum};
use bench::experiment::{Known, Site};
use record::event::Range;
use record::key::CaseId;

/// Sends an echo: a packet made, routed, and given to the driver or to the software interrupt.
const SEND: Range = range(800.0, 2_400.0, 8_000.0);
/// A kernel takes an echo up and sends its answer, in an interrupt.
const ANSWER: Range = range(800.0, 2_800.0, 11_000.0);
/// Takes a packet out of its queue: locks, a copy, the stamp and the hop limit written.
const TAKE: Range = range(350.0, 900.0, 3_000.0);
/// Cycles for each byte that is copied and summed, of the four times that an echo is.
const PER_BYTE: Range = range(0.05, 0.25, 1.2);
/// After a pause code and data have left the near caches and the TLB, and the clock may have fallen: R0's 23 µs
/// by ping, a second apart, are 80,000 cycles, where echoes without pauses take about 14,000 on such cores; a
/// pause of a millisecond on an idle host with large caches may cost next to nothing.
const COLD: Range = range(1.0, 3.2, 14.0);

/// How echoes follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Each as soon as the one before was answered.
    Saturated,
    /// With a pause of a millisecond and more.
    Sparse,
}

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
    pub fn whole(&self) -> Law {
        Law::of(
            sum(self.kernel.range, self.wake_up.range),
            format!("{}; then {}", self.kernel.because(), self.wake_up.because()),
        )
    }
}

/// Whether earlier figures say more than the machine's description.
pub fn adds(known: &Known) -> bool {
    measured_call(known, "getpid").is_some()
}

/// The time of an echo with so many bytes of payload.
pub fn parts(
    site: &Site,
    known: Option<&Known>,
    way: &Way<'_>,
    bytes: u64,
    arrivals: Arrivals,
) -> Parts {
    let call = os::call(Facts { site, known }, 0.06);
    let (call, call_from) = (call.range, format!("a system call ({})", call.because()));
    let ns = |cycles: Range| {
        let clock = cpu::best_core_clock(Facts { site, known }).range;
        let mut time = product(cycles, inverse(1e9, clock));
        if cpu::is_guest(site) {
            time.high *= 1.3;
        }
        match arrivals {
            Arrivals::Saturated => time,
            Arrivals::Sparse => product(time, COLD),
        }
    };
    let call = match arrivals {
        Arrivals::Saturated => call,
        Arrivals::Sparse => product(call, COLD),
    };
    let copied = ns(crate::scaled(PER_BYTE, 2.0 * bytes as f64));
    let send = sum(sum(call, ns(SEND)), copied);
    let cold = match arrivals {
        Arrivals::Saturated => "",
        Arrivals::Sparse => ", up to 14 times with caches gone cold",
    };
    let remote = way.kind() != Kind::Loopback;
    let (answered, how) = match remote {
        false => (
            sum(ns(ANSWER), copied),
            "the answer made in the same call's software interrupt".to_owned(),
        ),
        true => beyond(site, way, bytes, arrivals),
    };
    let kernel = Law::of(
        sum(send, answered),
        format!(
            "software: {call_from}, a packet made and sent, {:.0} to {:.0} cycles{cold}; {how}",
            SEND.low, SEND.high
        ),
    );
    let taken = sum(call, ns(TAKE));
    // On loopback the answer lies there before the call that sent the echo is over.
    let waking = match (remote, arrivals) {
        (false, _) => Waking::Nobody,
        (true, Arrivals::Saturated) => Waking::Interrupt,
        (true, Arrivals::Sparse) => Waking::Sparse,
    };
    let wake_up = match stack::woken_by_kernel(site, known, way, waking) {
        Some(woken) => Law::of(
            sum(taken, woken.range),
            format!("the interrupt to the waiting thread: {}; a packet taken", woken.because()),
        ),
        None => Law::of(
            // The rest of the software interrupt and of the call that sent lies between.
            sum(taken, ns(range(100.0, 500.0, 3_000.0))),
            "nobody is woken: the call's end, and a packet taken".to_owned(),
        ),
    };
    Parts { kernel, wake_up }
}

/// The way there and back, and the peer's interrupt that answers.
fn beyond(site: &Site, way: &Way<'_>, bytes: u64, arrivals: Arrivals) -> (Range, String) {
    let trip = round_trip(way, Transport::Icmp, bytes, bytes);
    let there = stack::far_site(site);
    let there = there.as_ref().unwrap_or(site);
    let clock = cpu::best_core_clock(Facts::prior(there)).range;
    let mut answer = product(ANSWER, inverse(1e9, clock));
    // Its CPU slept, or not.
    let waking = match arrivals {
        Arrivals::Saturated => Waking::Interrupt,
        Arrivals::Sparse => Waking::Sparse,
    };
    if let Some(woken) = stack::woken_by_kernel(there, None, way, waking) {
        answer.likely += 0.3 * woken.range.likely;
        answer.high += woken.range.high;
    }
    (
        sum(trip.range, answer),
        format!(
            "{}; the peer's kernel answers in its interrupt, {:.1} to {:.0} µs",
            trip.because(),
            answer.low / 1e3,
            answer.high / 1e3
        ),
    )
}

/// What a message of its own size there and back takes over a socket, as net.rtt measured it in the same run
/// with the same far end, in ns, and where the ends were: the figure of 56 or 64 bytes that a process answers
/// after a blocking wait.
pub fn measured_rtt<'known>(
    known: &'known Known,
    far: &str,
    transport: &str,
    arrivals: &str,
) -> Option<(f64, &'known str)> {
    // An answer from another thread on the same CPU, or of the other host, is nearest to an echo.
    const ENDS: [&str; 4] = ["two_hosts", "same_cpu", "other_cpu", "one_thread"];
    let is = |case: &CaseId, name: &str, value: &str| case.text(name).is_none_or(|of| of == value);
    let fits = |case: &CaseId| {
        case.text("far") == Some(far)
            && case.text("protocol") == Some(transport)
            && matches!(case.int("message"), Some(56 | 64))
            && matches!(case.int("connections"), None | Some(1))
            && is(case, "receiver", "blocking")
            && is(case, "arrivals", arrivals)
            && is(case, "exchange", "echo")
    };
    let found = known.of("net.rtt", "round_trip");
    let found = found.filter(|(case, _)| fits(case));
    let ranked = found.filter_map(|(case, ns)| {
        let ends = case.text("ends")?;
        let rank = ENDS.iter().position(|name| *name == ends)?;
        Some(((rank, case.int("message")), (ns, ends)))
    });
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, told)| told)
}

/// An echo from what net.rtt measured with its ends there: that less what the process at the far end took for
/// its part, in ns. None of loopback's two CPUs: nearly all of that is waking, which an echo there does not need.
pub fn less_socket(
    site: &Site,
    (rtt_ns, ends): (f64, &str),
    transport: Transport,
    way: &Way<'_>,
) -> Option<Law> {
    if way.kind() == Kind::Loopback && ends == "other_cpu" {
        return None;
    }
    let waking = match ends {
        "one_thread" => Waking::Nobody,
        "same_cpu" => Waking::Same,
        "other_cpu" => Waking::Other,
        _ => Waking::Interrupt,
    };
    let socket = super::far_stack_cost(site, transport, waking).range;
    // On loopback this end is woken as well, which an echo does not need.
    let shares = match way.kind() {
        Kind::Loopback => range(0.7, 1.3, 2.2),
        _ => range(0.2, 0.6, 1.1),
    };
    let left = difference(around(rtt_ns, 0.05), product(socket, shares));
    Some(Law::of(
        range(
            // An echo still goes all the way: its time is some of the socket's, whatever the stacks take.
            left.low.max(0.1 * rtt_ns),
            left.likely.max(0.2 * rtt_ns),
            left.high.max(0.5 * rtt_ns),
        ),
        format!(
            "net.rtt's round trip of {:.1} µs by {transport} ({ends}) less the socket cost at the far end, \
             {:.1} to {:.1} µs",
            rtt_ns / 1e3,
            socket.low * shares.low / 1e3,
            socket.high * shares.high / 1e3
        ),
    ))
}

/// A socket's round trip less an echo's, in ns, from both ends' stacks. On loopback net.rtt's ends may be on
/// one CPU or on two.
pub fn socket_cost(site: &Site, transport: Transport, way: &Way<'_>) -> Law {
    let (likely, most) = match way.kind() {
        Kind::Loopback => (Waking::Same, Waking::Other),
        _ => (Waking::Interrupt, Waking::Sparse),
    };
    let far = super::far_stack_cost(site, transport, likely);
    let near = super::stack_cost(site, None, transport, likely);
    let far_most = super::far_stack_cost(site, transport, most).range.high;
    let near_most = super::stack_cost(site, None, transport, most).range.high;
    let share = if way.kind() == Kind::Loopback { 1.3 } else { 0.8 };
    Law::of(
        range(
            0.2 * far.range.low - 0.5 * near.range.likely,
            far.range.likely * share,
            far_most + near_most,
        ),
        format!(
            "a process is woken and answers at the far end instead of an interrupt: {}; at this end the \
             protocols differ",
            far.because()
        ),
    )
}

/// Echoes that are never answered, as a share of those sent.
pub fn loss(way: &Way<'_>) -> Law {
    let name = way.name();
    let (high, why) = match way.kind() {
        Kind::Loopback => (0.0, "loopback loses nothing"),
        _ if way.has_gateway => (0.2, "routers and policers drop echoes first"),
        Kind::Wireless => (0.05, "a radio sends again what was not heard, and at last drops it"),
        Kind::Wired | Kind::Virtual | Kind::Paravirtual => {
            (0.002, "an idle wire or switch loses next to nothing")
        }
        Kind::Unknown => (0.2, "nothing is known of the way"),
    };
    Law::new(0.0, 0.0, high, format!("base hardware: {name}; {why}"))
}

/// What a measured round trip over a socket leaves when an echo's expected time is taken away, in ns.
pub fn left_of(rtt_ns: f64, transport: &str, ping: &Law) -> Law {
    Law::of(
        difference(around(rtt_ns, 0.05), ping.range),
        format!(
            "net.rtt's round trip of {:.1} µs by {transport} less an echo: {}",
            rtt_ns / 1e3,
            ping.because()
        ),
    )
}
