//! Laws of signals: sending, delivering and coming back are system calls or exceptions around
//! kernel work, and a frame that carries the processor's state to the user's stack and back.
//!
//! Cycles of kernel work are written from memory of usual figures (lmbench's `lat_sig`: 0.1 to 0.3
//! µs for `install`, 0.5 to 1.5 µs for `catch`, 0.3 to 1 µs for `prot`), not looked up kernel by
//! kernel. The frame follows from the features: XSAVE's areas of x87 and SSE (576 bytes), AVX
//! (256), AVX-512 (1600), keys (8); Arm's vector registers (528), SVE's own.

use super::{Work, call};
use crate::cpu::in_kernel;
use crate::{Facts, Law, inverse, range, sum};
use bench::experiment::Site;
use bench::symbols;
use host::Arch;
use record::event::Range;

symbols! {
    /// What is done with a signal.
    pub enum Operation {
        Install = "install",
        Mask = "mask",
        /// `tgkill` of a signal that is ignored.
        Ignored = "ignored",
        /// `tgkill` to the own thread, the handler, `rt_sigreturn`.
        Catch = "catch",
        /// `kill` of the own process, the handler, `rt_sigreturn`.
        SelfKill = "self_kill",
        /// A store to a page that may only be read, the handler, `rt_sigreturn`.
        Fault = "fault",
    }
}

/// An exception's way over a system call's: it saves all registers, leaves by `iret`.
pub const EXCEPTION: Range = range(0.6, 1.3, 3.5);
/// A signal looked up and queued, or found to be ignored.
const SEND: Range = range(250.0, 560.0, 1300.0);
const DROP: Range = range(120.0, 330.0, 800.0);
/// A process looked up by its number besides, and a thread chosen.
const CHOOSE: Range = range(20.0, 120.0, 500.0);
/// A signal taken and a frame built without the state's copy; the way to the handler.
const FRAME: Range = range(500.0, 1000.0, 2400.0);
/// The return from the handler: the frame read back and checked.
const RETURN: Range = range(250.0, 600.0, 1500.0);
/// Bytes of processor state that are written and read back, per cycle.
const STATE_BYTES_PER_CYCLE: Range = range(2.0, 5.0, 14.0);
/// A page fault that finds its area and the access forbidden.
const FORBIDDEN: Range = range(250.0, 600.0, 1600.0);
/// A disposition exchanged under a lock; a mask changed.
const DISPOSE: Range = range(35.0, 110.0, 320.0);
const MASK: Range = range(30.0, 95.0, 300.0);

/// What the kernel does for an operation, and what that is.
fn services(operation: Operation) -> (&'static [Range], &'static str) {
    match operation {
        Operation::Install => (&[DISPOSE], "exchange a disposition"),
        Operation::Mask => (&[MASK], "change the signal mask"),
        Operation::Ignored => (&[DROP], "look up the thread, find the signal ignored"),
        Operation::Catch => (&[SEND, FRAME, RETURN], "deliver, build and restore a frame"),
        Operation::SelfKill => {
            (&[SEND, CHOOSE, FRAME, RETURN], "find the process, build and restore a frame")
        }
        Operation::Fault => (&[FORBIDDEN, SEND, FRAME, RETURN], "refuse the fault, build a frame"),
    }
}

/// One operation, in ns.
pub fn signal(facts: Facts, operation: Operation) -> Law {
    let (services, what) = services(operation);
    let all = services.iter().copied().reduce(sum).unwrap_or(range(0.0, 0.0, 0.0));
    let mut cycles = Work::from(all).law(facts.site, what).unsourced();
    if services.contains(&FRAME) {
        let (bytes, from) = state_bytes(facts.site);
        let state = format!("{bytes:.0} bytes of register state ({from})");
        cycles = cycles + Law::hardware(inverse(bytes, STATE_BYTES_PER_CYCLE), state);
    }
    let way = call(facts, 0.06);
    let ways = match operation {
        Operation::Fault => way.clone() + way.by(EXCEPTION).and("exception entry and exit"),
        Operation::Catch | Operation::SelfKill => way.times(2.0).and("two kernel entries"),
        _ => way,
    };
    ways + in_kernel(facts, cycles)
}

/// Bytes of the processor's state in a signal frame, and from what.
fn state_bytes(site: &Site) -> (f64, String) {
    let cpu = &site.host.cpu;
    let has = |name: &str| cpu.flags.iter().any(|flag| flag == name);
    let (mut bytes, first) = match cpu.arch {
        Arch::Aarch64 => (528.0, "Arm's vector registers"),
        Arch::X86_64 => (576.0, "x87 and SSE"),
    };
    let mut parts = vec![first];
    for (flag, size, name) in [
        ("avx", 256.0, "AVX"),
        ("avx512f", 1600.0, "AVX-512"),
        ("pku", 8.0, "keys"),
        ("sve", 600.0, "SVE"),
    ] {
        if has(flag) {
            bytes += size;
            parts.push(name);
        }
    }
    (bytes, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::state_bytes;
    use bench::experiment::fixtures::recorded;

    #[test]
    fn the_state_grows_with_the_registers() {
        let mut site = recorded("epyc-7763-2s");
        let (milan, _) = state_bytes(&site);
        assert!((832.0..=840.0).contains(&milan), "{milan}");
        site.host.cpu.flags.push("avx512f".to_owned());
        let (wide, told) = state_bytes(&site);
        assert!(wide == milan + 1600.0 && told.contains("AVX-512"));
    }
}
