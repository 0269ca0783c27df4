//! What each end does for a message: system calls, protocols, and wake-ups.

use super::{Kind, Transport, Way};
use crate::os;
use crate::os::switch::{self, Handover};
use crate::rows::Section;
use crate::{Facts, Law, cpu, end_by_end, range, sum};
use bench::experiment::Site;
use bench::pair::Class;
use record::event::{Condition, Range};

/// The waker's part in waking a sleeping CPU: an interrupt sent. In a virtual machine the
/// hypervisor sends it, and the caller waits for that.
const ASKING: Range = range(0.05, 0.2, 0.5);
const ASKING_GUEST: Range = range(0.05, 0.6, 0.9);

/// How the receiver waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// No wake-up: one thread holds both ends, or the receiver polls.
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

/// A system call, in ns.
pub(super) fn call(facts: Facts) -> Law {
    os::call(facts, 0.06)
}

/// Whether os.syscall measured what a system call takes.
pub(super) fn knows_call(facts: Facts) -> bool {
    facts.known.is_some_and(|known| os::measured_call(known, "getpid").is_some())
}

/// Sums of `net.rows` as one, in ns.
pub(super) fn work(facts: Facts, sums: &[&str]) -> Law {
    counted(facts, sums, 1.0)
}

/// The same of so many bytes or segments.
pub(super) fn counted(facts: Facts, sums: &[&str], count: f64) -> Law {
    Section { facts, name: "net", count: &|_| count, time: &|_| call(facts) }.law(sums)
}

/// What the network stack takes, which a sandbox may have of its own.
pub(super) fn in_sandbox(site: &Site, law: Law) -> Law {
    law.when(os::is_gvisor(site), |law| law.widened(1.0, 20.0, "gVisor has its own network stack"))
}

/// One send and one receive of a small message at one end, with the protocols' work both ways and
/// the waking of the receiver, in ns. Measured system calls and switches are used where they are
/// known.
pub fn stack_cost(facts: Facts, transport: Transport, waking: Waking) -> Law {
    let both = match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
        Transport::Icmp => "icmp",
    };
    in_sandbox(facts.site, work(facts, &[both]) + woken(facts, waking))
}

/// The same at the far end, from the description of its host, without measured figures, in ns; of
/// loopback's, this host's.
pub fn far_stack_cost(site: &Site, transport: Transport, waking: Waking) -> Law {
    stack_cost(Facts::prior(far_site(site).as_ref().unwrap_or(site)), transport, waking)
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
        fitted: site.fitted,
    })
}

/// From the packet in the socket's queue to the receiver's first instruction, in ns.
pub fn woken(facts: Facts, waking: Waking) -> Option<Law> {
    let by_pipe = |facts: Facts, pair: Class| {
        let of = Handover { pair: Some(pair), ..Handover::plain(switch::Via::Pipe) };
        switch::switch(facts, &of)
    };
    let measured = |pair: Class| os::ipc::measured_switch(facts.known?, pair);
    Some(match waking {
        Waking::Nobody => return None,
        Waking::Same => match measured(Class::Same) {
            Some(ns) => {
                let why = format!("a context switch takes {ns:.0} ns (measured by os.switch)");
                Law::measured(ns, 0.3, why)
            }
            None => by_pipe(facts, Class::Same),
        },
        Waking::Other => {
            // Another pair's hand-over says nothing: a sibling's may be a tenth of another
            // socket's.
            let pair = other_pair(facts.site);
            match measured(pair) {
                Some(ns) => {
                    let whose = pair.text();
                    let why =
                        format!("a CPU ({whose}) wakes in {ns:.0} ns (measured by os.switch)");
                    Law::new(0.6 * ns, ns, 2.0 * ns, why)
                }
                None => by_pipe(facts, pair),
            }
        }
        Waking::Interrupt => by_pipe(facts.as_prior(), Class::Llc),
        Waking::Sparse => by_pipe(facts.as_prior(), Class::Llc).widened(
            1.0,
            4.0,
            "after a pause the CPU sleeps more deeply",
        ),
    })
}

/// The waking of a thread whose message a kernel answers by itself (an echo, a SYN), in ns. Between
/// namespaces of one kernel the answer may arrive before the requesting call returns, without a
/// wake-up.
pub(super) fn woken_by_kernel(facts: Facts, way: &Way<'_>, waking: Waking) -> Option<Law> {
    Some(woken(facts, waking)?.when(way.kind() == Kind::Virtual, |woken| {
        woken.ends(0.0, 0.1, 1.0).and("no sleep if the reply is already there")
    }))
}

/// CPU time that the frames of a message after the first cost an end that sleeps between them, in
/// ns: it takes from none to all of them by themselves, and between namespaces its acknowledgement
/// asks the sender's CPU to wake up.
pub fn sleeps(facts: Facts, transport: Transport, bytes: u64) -> Law {
    let way = Way::for_site(facts.site);
    let frames = way.frames(transport, bytes).count.max(1) as f64 - 1.0;
    let mut each = work(facts, &["SLEEP"]).range;
    if let Some(asked) = asked(facts).filter(|_| way.kind() == Kind::Virtual) {
        each = sum(each, asked.range);
    }
    let why = if frames > 0.0 { "an end may sleep between a message's frames" } else { "" };
    Law::software(range(0.0, 0.2 * frames * each.likely, frames * each.high), why)
}

/// Time to make another, sleeping CPU wake up, in ns.
pub(super) fn asked(facts: Facts) -> Option<Law> {
    let woken = woken(facts, Waking::Other)?.range;
    let is_guest = cpu::is_guest(facts.site);
    let part = if is_guest { ASKING_GUEST } else { ASKING };
    let ns = end_by_end(part, woken, |part, woken| part * woken);
    let law = Law::software(ns, "an inter-processor interrupt wakes another CPU");
    Some(law.counting_if(is_guest, Condition::Hypervisor))
}

/// The distance of the CPUs that both ends run on where they run on two, as cases name it: the
/// site's first two. `llc` where it has but one.
pub(super) fn other_pair(site: &Site) -> Class {
    match site.cpus.as_slice() {
        [near, far, ..] => site.host.cpu.distance(*near, *far).into(),
        _ => Class::Llc,
    }
}
