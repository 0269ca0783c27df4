//! What each end does for a message: system calls, protocols, and who must be woken.
//!
//! Cycles are starting values for Linux 6.x: R0's round trip of 56 B between two TCP sockets of one thread,
//! 14,191 cycles, is two pairs of send and receive on a core of 2012; `perf` of such loops shows about half
//! of it on newer ones. The upper end of TCP's holds R1's of 2011, 51,248 cycles for a round trip between two
//! processes on one CPU. They were adjusted to no other machine.

use crate::os;
use crate::os::switch::{self, Mechanism};
use crate::{Facts, Law, around, cpu, product, range, sum};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use record::event::Range;

use super::{Kind, Transport, Way};

/// Of a sleeping CPU's waking the part that who wakes it takes part in: an interrupt sent. In a virtual machine
/// the hypervisor sends it, and the caller waits for that.
const ASKING: Range = range(0.05, 0.2, 0.5);
const ASKING_GUEST: Range = range(0.05, 0.6, 0.9);

/// Cycles of going to sleep and being taken up again beyond what the sleeper waits.
pub(super) const SLEEP: Range = range(500.0, 2_000.0, 8_000.0);

/// Who waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// Nobody: one thread holds both ends, or the receiver polls.
    Nobody,
    /// A thread on the sender's CPU.
    Same,
    /// A thread on another CPU of the host, which went to sleep a moment ago.
    Other,
    /// A thread whose CPU an interrupt wakes: what a packet from a wire does, soon after the last.
    Interrupt,
    /// The same after a long pause: the CPU sleeps as deeply as it may.
    Sparse,
}

/// One send and one receive of a small message at one end, with the protocols' work both ways and the waking
/// of the receiver, in ns. Measured system calls and switches are used where they are known.
pub fn stack_cost(site: &Site, known: Option<&Known>, transport: Transport, waking: Waking) -> Law {
    let calls = os::call(Facts { site, known }, 0.06).times(2.0);
    let (calls, calls_from) = (calls.range, format!("2 system calls ({})", calls.because()));
    let cycles = services(transport);
    let clock = cpu::best_core_clock(Facts { site, known }).range;
    let mut work = product(cycles, super::super::inverse(1e9, clock));
    if cpu::is_guest(site) {
        work.high *= 1.3;
    }
    let mut all = Law::of(
        sum(calls, work),
        format!(
            "software: {calls_from}; {transport} out and in, {:.0} to {:.0} cycles",
            cycles.low, cycles.high
        ),
    );
    if let Some(woken) = woken(site, known, waking) {
        all =
            Law::of(sum(all.range, woken.range), format!("{}; {}", all.because(), woken.because()));
    }
    if site.host.kernel.container.runtime.as_deref() == Some("gvisor") {
        all = all.widened(1.0, 20.0, "gVisor has a network stack of its own");
    }
    all
}

/// The same at the far end, by its own host's description, of which no figure was measured, in ns; of
/// loopback's, this host's.
pub fn far_stack_cost(site: &Site, transport: Transport, waking: Waking) -> Law {
    match far_site(site) {
        None => stack_cost(site, None, transport, waking),
        Some(there) => stack_cost(&there, None, transport, waking),
    }
}

/// The peer's host as a site of its own; none of loopback.
pub(super) fn far_site(site: &Site) -> Option<Site> {
    let peer = site.peer.as_ref()?;
    Some(Site {
        host: peer.host.clone(),
        peer: None,
        peers: Vec::new(),
        dir: None,
        cpus: peer.cpus.clone(),
        memory_bytes: site.memory_bytes,
        case_ns: site.case_ns,
    })
}

/// Cycles of a message sent and received beyond entry and exit: socket buffers, IP, filters, the queue
/// between the CPUs, the socket found.
fn services(transport: Transport) -> Range {
    match transport {
        Transport::Tcp => range(2_200.0, 5_500.0, 19_500.0),
        Transport::Udp => range(1_500.0, 3_800.0, 11_000.0),
        Transport::Icmp => range(1_500.0, 4_000.0, 12_000.0),
    }
}

/// From the packet in the socket's queue to the receiver's first instruction, in ns.
pub fn woken(site: &Site, known: Option<&Known>, waking: Waking) -> Option<Law> {
    let by_pipe = |pair: Class| Mechanism {
        via: switch::Via::Pipe,
        processes: true,
        pair,
        size: 2,
        working_set: 0,
    };
    let measured = |pair: Class| known.and_then(|known| os::ipc::measured_switch(known, pair));
    match waking {
        Waking::Nobody => None,
        Waking::Same => Some(match measured(Class::Same) {
            Some(ns) => {
                Law::of(around(ns, 0.3), format!("a switch of {ns:.0} ns (measured by os.switch)"))
            }
            None => switch::switch(Facts { site, known }, &by_pipe(Class::Same)),
        }),
        Waking::Other => {
            // Another pair's hand-over says nothing: a sibling's may be a tenth of another socket's.
            let pair = other_pair(site);
            Some(match measured(pair) {
                Some(ns) => Law::of(
                    range(0.6 * ns, ns, 2.0 * ns),
                    format!(
                        "another CPU woken ({}), {ns:.0} ns of a hand-over (measured by os.switch)",
                        pair.text()
                    ),
                ),
                None => switch::switch(Facts { site, known }, &by_pipe(pair)),
            })
        }
        Waking::Interrupt => Some(switch::switch(Facts::prior(site), &by_pipe(Class::Llc))),
        Waking::Sparse => Some(switch::switch(Facts::prior(site), &by_pipe(Class::Llc)).widened(
            1.0,
            4.0,
            "after a pause the CPU sleeps deeper",
        )),
    }
}

/// The waking of a thread whose message a kernel answers by itself (an echo, a SYN), in ns. Between namespaces
/// of one kernel the answer may be there before the call that asked is over, and nobody is woken.
pub(super) fn woken_by_kernel(
    site: &Site,
    known: Option<&Known>,
    way: &Way<'_>,
    waking: Waking,
) -> Option<Law> {
    let woken = woken(site, known, waking)?;
    Some(match way.kind() {
        Kind::Virtual => Law::of(
            range(0.0, 0.1 * woken.range.likely, woken.range.high),
            format!("{}, or nobody: the answer is there", woken.because()),
        ),
        _ => woken,
    })
}

/// CPU time that the frames of a message after the first cost an end that sleeps between them, in ns: it takes
/// from none to all of them by themselves, and between namespaces its acknowledgement asks the sender's CPU to
/// wake up.
pub fn sleeps(site: &Site, known: Option<&Known>, transport: Transport, bytes: u64) -> Range {
    let way = Way::of(site);
    let frames = way.frames(transport, bytes).count.max(1) as f64 - 1.0;
    let clock = cpu::best_core_clock(Facts { site, known }).range;
    let mut each = product(SLEEP, super::super::inverse(1e9, clock));
    if let Some(asked) = asked(site, known).filter(|_| way.kind() == Kind::Virtual) {
        each = sum(each, asked);
    }
    range(0.0, 0.2 * frames * each.likely, frames * each.high)
}

/// What it takes to ask another CPU, on which somebody sleeps, to wake up, in ns.
pub(super) fn asked(site: &Site, known: Option<&Known>) -> Option<Range> {
    let woken = woken(site, known, Waking::Other)?.range;
    let part = match cpu::is_guest(site) {
        true => ASKING_GUEST,
        false => ASKING,
    };
    Some(range(part.low * woken.low, part.likely * woken.likely, part.high * woken.high))
}

/// The distance of the CPUs that both ends run on where they run on two, as cases name it: the site's first
/// two. `llc` where it has but one.
pub(super) fn other_pair(site: &Site) -> Class {
    match site.cpus.as_slice() {
        [near, far, ..] => site.host.cpu.distance(*near, *far).into(),
        _ => Class::Llc,
    }
}
