//! Clocks: the processor's counter in ticks, the kernel's clocks in ns.
//!
//! A timed window starts with [`ticks_start`] and ends with [`ticks_end`]: nothing before the
//! window runs inside it, nothing of the window runs after it. Ticks are not core cycles.

use std::sync::OnceLock;
use std::time::Duration;

use crate::arch;
use crate::raw;

/// A clock of the kernel, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock(libc::clockid_t);

impl Clock {
    /// Wall time; may be set.
    pub const REALTIME: Clock = Clock(libc::CLOCK_REALTIME);
    /// Time since boot, its rate corrected by NTP.
    pub const MONOTONIC: Clock = Clock(libc::CLOCK_MONOTONIC);
    /// Time since boot at the hardware's rate.
    pub const MONOTONIC_RAW: Clock = Clock(libc::CLOCK_MONOTONIC_RAW);
    /// Monotonic time of the last timer tick.
    pub const MONOTONIC_COARSE: Clock = Clock(libc::CLOCK_MONOTONIC_COARSE);
    /// Monotonic time, suspension included.
    pub const BOOTTIME: Clock = Clock(libc::CLOCK_BOOTTIME);
    pub const PROCESS_CPU: Clock = Clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    pub const THREAD_CPU: Clock = Clock(libc::CLOCK_THREAD_CPUTIME_ID);

    pub fn id(self) -> i32 {
        self.0
    }
}

/// Ticks at the start of a window: waits for all before it, and lets nothing after it start early
/// (`lfence; rdtsc; lfence`; aarch64 `isb; mrs cntvct_el0; isb`).
#[inline(always)]
pub fn ticks_start() -> u64 {
    arch::ticks_start()
}

/// Whether [`ticks_end`] and [`ticks_rdtscp`] may be called: processors before 2007 and some
/// emulators have no `rdtscp`, and the instruction ends the process there. Always so on aarch64.
pub fn has_ticks_end() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    // Asked once: a virtual machine traps each `cpuid`.
    *HAS.get_or_init(arch::has_rdtscp)
}

/// Ticks at the end of a window (`rdtscp; lfence`; aarch64 `isb; mrs
/// cntvct_el0; isb`). Only where [`has_ticks_end`] says so; elsewhere
/// [`ticks_start`] ends a window too, with one fence more inside.
#[inline(always)]
pub fn ticks_end() -> u64 {
    arch::ticks_end()
}

/// Ticks, unordered against anything around it (`rdtsc`; `mrs cntvct_el0`).
#[inline(always)]
pub fn ticks_raw() -> u64 {
    arch::ticks_raw()
}

/// Ticks after all before it (`lfence; rdtsc`; `isb; mrs cntvct_el0`).
#[inline(always)]
pub fn ticks_fenced() -> u64 {
    arch::ticks_fenced()
}

/// Ticks after all before it, by `rdtscp` (aarch64: as [`ticks_fenced`]). Only
/// where [`has_ticks_end`] says so.
#[inline(always)]
pub fn ticks_rdtscp() -> u64 {
    arch::ticks_rdtscp()
}

/// Ticks after a full serialisation by `cpuid`, R1's pipeline flush; `None`
/// on aarch64. A virtual machine traps the `cpuid`.
#[inline(always)]
pub fn ticks_cpuid() -> Option<u64> {
    arch::ticks_cpuid()
}

/// The counter's rate in Hz as hypervisor, processor (CPUID) or `cntfrq_el0`
/// state it; `None` where they are silent. It is a hint: calibrate.
pub fn counter_hz_hint() -> Option<u64> {
    arch::counter_hz_hint()
}

/// Reads `CLOCK_MONOTONIC_RAW` in ns.
#[inline]
pub fn monotonic_raw_ns() -> u64 {
    vdso_clock_gettime(Clock::MONOTONIC_RAW)
}

/// Reads `CLOCK_MONOTONIC` in ns.
#[inline]
pub fn monotonic_ns() -> u64 {
    vdso_clock_gettime(Clock::MONOTONIC)
}

/// A clock in ns through the C library, which calls the vDSO; that falls back
/// to the system call where the clock source demands it.
#[inline]
pub fn vdso_clock_gettime(clock: Clock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec of ours. The clocks that `Clock` can name
    // exist since Linux 2.6.39, so the call cannot fail.
    unsafe { libc::clock_gettime(clock.0, &mut time) };
    nanoseconds(time)
}

/// A clock in ns by the system call, never the vDSO; 0 where a sandbox forbids it.
#[inline]
pub fn syscall_clock_gettime(clock: Clock) -> u64 {
    raw::clock_gettime(clock).map_or(0, nanoseconds)
}

/// Wall time in s through the C library, which takes it from the vDSO.
#[inline]
pub fn time_vdso() -> u64 {
    // SAFETY: a null pointer asks for the returned value only.
    (unsafe { libc::time(std::ptr::null_mut()) }) as u64
}

/// Wall time in s by the system call; `None` on aarch64, which has none.
#[inline]
pub fn time_syscall() -> Option<u64> {
    raw::time()
}

/// The resolution in ns that the kernel states for a clock.
pub fn getres_ns(clock: Clock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `vdso_clock_gettime`.
    unsafe { libc::clock_getres(clock.0, &mut time) };
    nanoseconds(time)
}

pub(crate) fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[inline(always)]
pub(crate) fn nanoseconds(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_moves_forward_by_every_way_to_read_it() {
        let mut before = ticks_start();
        for read in [ticks_start, ticks_end, ticks_fenced, ticks_rdtscp, ticks_raw] {
            let now = read();
            let after = ticks_end();
            assert!(before <= now && now <= after, "{before} {now} {after}");
            before = ticks_start();
        }
        if let Some(now) = ticks_cpuid() {
            assert!(before <= now && now <= ticks_end());
        }
    }

    #[test]
    fn both_ways_read_the_same_clock() {
        for clock in [Clock::MONOTONIC, Clock::MONOTONIC_RAW, Clock::REALTIME] {
            let before = vdso_clock_gettime(clock);
            let between = syscall_clock_gettime(clock);
            let after = vdso_clock_gettime(clock);
            assert!(before <= between && between <= after, "{clock:?}");
            assert!(before > 0);
        }
        let before = time_vdso();
        if let Some(between) = time_syscall() {
            assert!(before <= between && between <= time_vdso());
        }
        assert_eq!(time_syscall().is_some(), cfg!(target_arch = "x86_64"));
    }

    #[test]
    fn fine_clocks_state_a_nanosecond_and_coarse_ones_a_tick() {
        assert!((1..1_000_000).contains(&getres_ns(Clock::MONOTONIC)));
        assert!(getres_ns(Clock::MONOTONIC_COARSE) >= 1_000_000);
    }

    #[test]
    fn a_stated_rate_is_a_plausible_one() {
        if let Some(rate_hz) = counter_hz_hint() {
            assert!((1_000_000..10_000_000_000).contains(&rate_hz), "{rate_hz}");
        }
    }
}
