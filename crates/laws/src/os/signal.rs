//! Laws of signals: sending, delivering and coming back are system calls or exceptions around
//! kernel work, and a frame that carries the processor's state to the user's stack and back.
//!
//! The frame follows from the features: XSAVE's areas of x87 and SSE (576 bytes), AVX (256), AVX-512
//! (1600), keys (8); Arm's vector registers (528), SVE's own.

use super::call;
use crate::rows::Section;
use crate::{Facts, Law, range};
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

/// One operation, in ns.
pub fn signal(facts: Facts, operation: Operation) -> Law {
    let time = |name: &str| match name {
        "exception" => call(facts, 0.06).by(EXCEPTION).and("entry and exit by exception included"),
        _ => call(facts, 0.06),
    };
    let count = |_: &str| state_bytes(facts.site);
    Section { facts, name: "os.signal", count: &count, time: &time }.law(&[operation.text()])
}

/// Bytes of the processor's state in a signal frame.
fn state_bytes(site: &Site) -> f64 {
    let cpu = &site.host.cpu;
    let first = match cpu.arch {
        Arch::Aarch64 => 528.0,
        Arch::X86_64 => 576.0,
    };
    let more = [("avx", 256.0), ("avx512f", 1600.0), ("pku", 8.0), ("sve", 600.0)];
    first + more.iter().filter(|(name, _)| cpu.has(name)).map(|(_, bytes)| bytes).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::state_bytes;
    use bench::experiment::fixtures::recorded;

    #[test]
    fn the_state_grows_with_the_registers() {
        let mut site = recorded("epyc-7763-2s");
        let milan = state_bytes(&site);
        assert!((832.0..=840.0).contains(&milan), "{milan}");
        site.host.cpu.flags.push("avx512f".to_owned());
        assert_eq!(state_bytes(&site), milan + 1600.0);
    }
}
