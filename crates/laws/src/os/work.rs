//! Kernel work as terms: instructions over what the core runs of them per cycle, and what the
//! mitigations in force take at every return and every indirect call.
//!
//! Services are stated in cycles of a reference core without mitigations ([`Work::from`]), which
//! makes [`REFERENCE_IPC`] instructions of each, a return among [`PER_RETURN`] instructions and an
//! indirect call among [`PER_INDIRECT_CALL`]. These densities are usual for compiled code of small
//! functions, not counted: the kernel at hand refuses its function tracer. The coefficients of
//! `bench::fitted` correct them, and so does each machine's own os.syscall once it is measured.

use super::{Words, guarded, mitigations};
use crate::{Law, designs, product, range, scaled, sum};
use bench::experiment::Site;
use host::cpu::NO_IDLE_DRIVER;
use host::{Arch, Core};
use record::event::{Condition, Range};

/// Instructions per cycle of the kernel's code on the core that the services were stated for.
const REFERENCE_IPC: f64 = 1.9;
const PER_RETURN: f64 = 35.0;
const PER_INDIRECT_CALL: f64 = 400.0;
/// How many times as many instructions it has for each of both where it goes over pages.
const FEWER_RETURNS: f64 = 3.0;
/// Doubt of a core's instructions per cycle, either way.
const IPC_DOUBT: f64 = 1.15;

/// The coefficient of the kernel's instructions.
pub const INSTRUCTIONS: &str = "kernel instructions";
/// The coefficient of the way into the kernel and back.
pub const ENTRY: &str = "kernel entry";
/// The coefficients of safe returns, which are mitigations by these names.
pub const SAFE_RETURNS: &str = "safe returns";
/// The same of those whose thunks lie at aliasing addresses.
pub const ALIASED_SAFE_RETURNS: &str = "aliased safe returns";
/// The coefficient of memory management where page tables are nested.
pub const NESTED: &str = "memory management of a guest";
/// The coefficient of kernel work in a guest, where each miss of a TLB walks two tables.
pub const GUEST_WORK: &str = "kernel work of a guest";
/// The coefficient of waking an idle CPU that the hypervisor must take up again.
pub const GUEST_WAKE: &str = "wake-up of a guest's idle CPU";

/// So long KVM polls for work before a halted CPU's thread sleeps (`halt_poll_ns`).
const HOST_POLLS_NS: f64 = 200_000.0;
/// The share of a wake-up that is left where it does. (A local round trip between two CPUs takes 39 µs
/// in a Granite Rapids guest whose idle driver is `haltpoll`, 12 µs in an Emerald Rapids guest with
/// none.)
const POLLED: f64 = 0.25;

/// What a service runs in the kernel, beyond entry and exit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    pub instructions: Range,
    /// Returns of the likely number of instructions.
    pub returns: f64,
    pub indirect_calls: f64,
}

/// Code of usual density that takes so many cycles on the reference core.
impl From<Range> for Work {
    fn from(cycles: Range) -> Work {
        let instructions = scaled(cycles, REFERENCE_IPC);
        let likely = instructions.likely;
        Work {
            instructions,
            returns: likely / PER_RETURN,
            indirect_calls: likely / PER_INDIRECT_CALL,
        }
    }
}

impl Work {
    /// Work of a call, which is one instruction at least.
    pub fn of_call(cycles: Range) -> Work {
        let work = Work::from(cycles);
        let Range { low, likely, high } = work.instructions;
        Work { instructions: range(low.max(1.0), likely.max(1.0), high.max(1.0)), ..work }
    }

    /// Work on address spaces, in cycles of the reference core: loops over page tables and pages, and
    /// waits for memory, with a return among [`FEWER_RETURNS`] times as many instructions.
    pub fn on_pages(cycles: Range) -> Work {
        let work = Work::from(cycles);
        Work {
            returns: work.returns / FEWER_RETURNS,
            indirect_calls: work.indirect_calls / FEWER_RETURNS,
            ..work
        }
    }

    /// Cycles that it takes here, with what the mitigations take.
    pub fn cycles(self, site: &Site) -> Range {
        let Work { instructions, returns, indirect_calls } = self;
        let guards = Guards::for_machine(site);
        let fitted = site.fitted.coefficient(INSTRUCTIONS) * in_guest(site, GUEST_WORK);
        let ipc = ipc(crate::cpu::core(site));
        let mut each = scaled(range(1.0 / IPC_DOUBT, 1.0, IPC_DOUBT), 1.0 / ipc);
        let density = |count: f64| if count == 0.0 { 0.0 } else { count / instructions.likely };
        for (cost, count) in
            [(guards.at_return, returns), (guards.at_indirect_call, indirect_calls)]
        {
            each = sum(each, scaled(cost, density(count)));
        }
        let each = scaled(each, fitted);
        match instructions.low > 0.0 {
            true => product(instructions, each),
            false => scaled(instructions, each.likely),
        }
    }

    /// The same as a law, in cycles.
    pub fn law(self, site: &Site, what: impl std::fmt::Display) -> Law {
        stated(self.cycles(site), what)
    }
}

pub fn stated(cycles: Range, what: impl std::fmt::Display) -> Law {
    Law::software(cycles, format!("{what}, {:.0} to {:.0} cycles", cycles.low, cycles.high))
}

/// How many times as long as the reference core this one takes for the way in and out, which on Arm is
/// code: it saves and restores 31 registers. That of x86-64 is mostly two instructions of microcode.
pub fn way_in(site: &Site) -> f64 {
    match site.host.cpu.arch {
        Arch::X86_64 => 1.0,
        Arch::Aarch64 => REFERENCE_IPC / ipc(crate::cpu::core(site)),
    }
}

/// How much longer memory management takes in a guest, whose page tables are nested.
pub fn nested(site: &Site) -> f64 {
    in_guest(site, NESTED)
}

/// Whether the host polls for a halted CPU of this guest. The guest's idle driver `haltpoll` asks it
/// not to, in favour of its own polling, which the guest's command line may turn off
/// (`haltpoll.guest_halt_poll_ns=0`).
fn host_polls(site: &Site) -> Option<bool> {
    let host = &site.host;
    let driver = host.cpu.idle_driver.as_deref()?;
    let is_kvm = host.kernel.virtualisation.hypervisor.as_deref() == Some("KVM");
    is_kvm.then_some(driver == NO_IDLE_DRIVER)
}

/// The share of a wake-up of a guest's CPU that is left after a gap, where the host polls.
pub fn polled(site: &Site, gap_ns: f64) -> f64 {
    if host_polls(site) == Some(true) && gap_ns < HOST_POLLS_NS { POLLED } else { 1.0 }
}

/// A wake-up of a guest's idle CPU after a gap, in ns, with the share that a polling host leaves of
/// it.
pub fn after_halt(site: &Site, gap_ns: f64, halt: Law) -> Law {
    let polling = match host_polls(site) {
        Some(true) => "the host polls 200 µs for a halted CPU",
        Some(false) => "the guest's idle driver asks the host not to poll for a halted CPU",
        None => "the hypervisor may or may not poll for a halted CPU",
    };
    halt.times(polled(site, gap_ns)).and(polling).counting(Condition::Hypervisor)
}

/// The same soon after the halt, with the coefficient that the recorded guests gave.
pub fn guest_wake(site: &Site, halt: Law) -> Law {
    after_halt(site, 0.0, halt.times(site.fitted.coefficient(GUEST_WAKE)))
}

/// A coefficient that only guests have.
fn in_guest(site: &Site, name: &str) -> f64 {
    if crate::cpu::is_guest(site) { site.fitted.coefficient(name) } else { 1.0 }
}

/// Cycles that the mitigations in force take within the kernel.
#[derive(Clone, Copy)]
struct Guards {
    at_return: Range,
    at_indirect_call: Range,
}

impl Guards {
    fn for_machine(site: &Site) -> Guards {
        let words = Words(&site.host);
        let free = Guards { at_return: FREE, at_indirect_call: FREE };
        mitigations(&words).fold(free, |all, name| {
            let fitted = site.fitted.coefficient(name);
            Guards {
                at_return: sum(all.at_return, guarded(name, [0.0, fitted, 0.0])),
                at_indirect_call: sum(all.at_indirect_call, guarded(name, [0.0, 0.0, fitted])),
            }
        })
    }
}

const FREE: Range = range(0.0, 0.0, 0.0);

/// Instructions of kernel code per cycle.
fn ipc(core: Core) -> f64 {
    designs::cell("kernel.ipc", core).likely
}
