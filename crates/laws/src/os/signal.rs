//! Laws of signals: sending, delivering and coming back are system calls or exceptions around kernel
//! work, and a frame that carries the processor's state to the user's stack and back.
//!
//! Cycles of kernel work are written from memory of usual figures (lmbench's `lat_sig` prints about
//! 0.1 to 0.3 µs for `install`, 0.5 to 1.5 µs for `catch` and 0.3 to 1 µs for `prot` on machines of
//! the last fifteen years), not looked up kernel by kernel. The size of the frame follows from the
//! features: XSAVE's areas of x87 and SSE (576 bytes), AVX (256), AVX-512 (1600), protection keys (8);
//! AMX's tiles (8 KiB) only where a process asked for them. Arm's frame reserves 4 KiB, of which 528
//! bytes are the vector registers; SVE adds its own.

use super::{entry, measured_call, service_ns};
use crate::{Law, around, product, range, sum};
use bench::experiment::{Known, Site};
use host::Arch;
use record::event::Range;

/// An exception's way in and out, over a system call's: it saves all registers and leaves by `iret`.
pub const EXCEPTION: Range = range(0.6, 1.3, 3.5);
/// A signal looked up and queued, or found to be ignored.
const SEND: Range = range(250.0, 560.0, 1300.0);
const DROP: Range = range(120.0, 330.0, 800.0);
/// A process looked up by its number besides, and a thread chosen.
const CHOOSE: Range = range(20.0, 120.0, 500.0);
/// A signal taken from the queue and a frame built, the state's copy left out; the slow way back to
/// the handler included.
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

/// What is done with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalWork {
    /// `rt_sigaction`.
    Install,
    /// `rt_sigprocmask`.
    Mask,
    /// `tgkill` of a signal that is ignored.
    Ignored,
    /// `tgkill` to the own thread, the handler, `rt_sigreturn`.
    Catch,
    /// `kill` of the own process, the handler, `rt_sigreturn`.
    SelfKill,
    /// A store to a page that may only be read, the handler, `rt_sigreturn`.
    Fault,
}

impl SignalWork {
    /// System calls, whether an exception comes before them, the kernel's work, what it is, and
    /// whether a frame is built.
    fn cost(self) -> (f64, bool, Vec<Range>, &'static str, bool) {
        match self {
            SignalWork::Install => (1.0, false, vec![DISPOSE], "a disposition exchanged", false),
            SignalWork::Mask => (1.0, false, vec![MASK], "a mask changed", false),
            SignalWork::Ignored => (
                1.0,
                false,
                vec![DROP],
                "a thread looked up, the signal found to be ignored",
                false,
            ),
            SignalWork::Catch => (
                2.0,
                false,
                vec![SEND, FRAME, RETURN],
                "a signal queued and taken, a frame built and read back",
                true,
            ),
            SignalWork::SelfKill => (
                2.0,
                false,
                vec![SEND, CHOOSE, FRAME, RETURN],
                "a process looked up, a signal queued and taken, a frame built and read back",
                true,
            ),
            SignalWork::Fault => (
                1.0,
                true,
                vec![FORBIDDEN, SEND, FRAME, RETURN],
                "a page fault refused, a signal forced, a frame built and read back",
                true,
            ),
        }
    }
}

/// One operation, in ns.
pub fn signal(site: &Site, known: Option<&Known>, work: SignalWork) -> Law {
    let way = known
        .and_then(|known| measured_call(known, "getpid"))
        .map_or_else(|| entry(site, known), from_call);
    let (calls, is_exception, services, what, has_frame) = work.cost();
    let mut cycles = services.into_iter().reduce(sum).unwrap_or_else(|| range(0.0, 0.0, 0.0));
    let mut software = what.to_owned();
    if has_frame {
        let (bytes, from) = state_bytes(site);
        let copied = product(range(bytes, bytes, bytes), inverse(STATE_BYTES_PER_CYCLE));
        cycles = sum(cycles, copied);
        software = format!("{software} with {bytes:.0} bytes of state ({from})");
    }
    let scaled = |factor: f64| {
        let Range { low, likely, high } = way.range;
        range(factor * low, factor * likely, factor * high)
    };
    let mut ways = scaled(calls);
    if is_exception {
        ways = sum(ways, product(way.range, EXCEPTION));
    }
    let ways_told = match is_exception {
        true => "an exception's way in and out and a system call's".to_owned(),
        false if calls > 1.0 => "two ways into the kernel and back".to_owned(),
        false => "one way into the kernel and back".to_owned(),
    };
    Law::of(
        sum(ways, service_ns(site, known, cycles)),
        format!(
            "{ways_told}; {}; software: {software}, {:.0} to {:.0} cycles",
            way.because(),
            cycles.low,
            cycles.high
        ),
    )
}

fn from_call(ns: f64) -> Law {
    Law::of(
        around(ns, 0.06),
        format!("base hardware: getpid took {ns:.0} ns (measured by os.syscall)"),
    )
}

/// Bytes of the processor's state in a signal frame, and from what.
fn state_bytes(site: &Site) -> (f64, String) {
    let cpu = &site.host.cpu;
    let has = |name: &str| cpu.flags.iter().any(|flag| flag == name);
    let mut bytes = match cpu.arch {
        Arch::Aarch64 => 528.0,
        Arch::X86_64 => 576.0,
    };
    let mut parts = vec![match cpu.arch {
        Arch::Aarch64 => "Arm's vector registers",
        Arch::X86_64 => "x87 and SSE",
    }];
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

/// `1 / a`, for positive `a`.
fn inverse(a: Range) -> Range {
    crate::inverse(1.0, a)
}

#[cfg(test)]
mod tests {
    use super::{SignalWork, signal, state_bytes};
    use bench::experiment::Known;
    use bench::experiment::fixtures::{recorded, sites};
    use record::key::{CaseId, Key};

    const WORKS: [SignalWork; 6] = [
        SignalWork::Install,
        SignalWork::Mask,
        SignalWork::Ignored,
        SignalWork::Catch,
        SignalWork::SelfKill,
        SignalWork::Fault,
    ];

    #[test]
    fn every_work_has_an_ordered_interval_and_a_frame_costs_more_than_none() {
        for site in sites() {
            let likely = WORKS.map(|work| {
                let range = signal(&site, None, work).range;
                let ordered = range.low <= range.likely && range.likely <= range.high;
                assert!(0.0 < range.low && ordered, "{work:?}: {range:?}");
                range.likely
            });
            let most_without = likely[..3].iter().copied().fold(0.0, f64::max);
            assert!(likely[3..].iter().all(|ns| *ns > 1.5 * most_without));
        }
    }

    #[test]
    fn the_state_grows_with_the_registers() {
        let mut site = recorded("epyc-7763-2s");
        let (milan, _) = state_bytes(&site);
        assert!((832.0..=840.0).contains(&milan), "{milan}");
        site.host.cpu.flags.push("avx512f".to_owned());
        let (wide, told) = state_bytes(&site);
        assert!(wide == milan + 1600.0 && told.contains("AVX-512"));
    }

    #[test]
    fn a_measured_call_narrows_and_moves_every_work() {
        let site = recorded("epyc-7763-2s");
        let known = |ns: f64| {
            let mut known = Known::default();
            let getpid = CaseId::new().with("call", "getpid");
            known.insert(Key::new("os.syscall", &getpid, "latency"), ns);
            known
        };
        for work in WORKS {
            let fast = signal(&site, Some(&known(60.0)), work);
            let slow = signal(&site, Some(&known(600.0)), work);
            assert!(fast.because().contains("os.syscall"), "{}", fast.because());
            assert!(slow.range.likely > fast.range.likely + 500.0, "{work:?}");
        }
        let install = |known: Option<&Known>| {
            let range = signal(&site, known, SignalWork::Install).range;
            range.high - range.low
        };
        assert!(install(Some(&known(60.0))) < install(None));
    }
}
