//! Reads of clocks, many in a row.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use crate::arch::{self, Loop};
use crate::clock::{self, Clock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockRead {
    /// The instructions are `rdtsc` (x86-64).
    Rdtsc,
    /// The instructions are `lfence; rdtsc` (x86-64).
    LfenceRdtsc,
    /// The instructions are `rdtscp` (x86-64).
    Rdtscp,
    /// A start and an end of a timed window, [`clock::ticks_start`] and
    /// [`clock::ticks_end`]: two reads, counted as one.
    FencedPair,
    /// `cpuid; rdtsc` and `rdtscp; cpuid` (x86-64): two reads, counted as one.
    /// A virtual machine traps each `cpuid`.
    CpuidPair,
    /// `clock_gettime(CLOCK_MONOTONIC)` of the C library, which the kernel
    /// serves from the vDSO where the clock source allows it.
    ClockGettimeVdso,
    /// The same by the system call.
    ClockGettimeSyscall,
    /// `time()` of the C library, which takes it from the vDSO.
    Time,
    /// It is [`Instant::now`] itself.
    Instant,
    /// The instructions are `mrs cntvct_el0` (aarch64).
    Cntvct,
    /// `isb; mrs cntvct_el0` (aarch64).
    CntvctIsb,
}

impl ClockRead {
    pub fn available() -> &'static [ClockRead] {
        static HERE: OnceLock<Vec<ClockRead>> = OnceLock::new();
        HERE.get_or_init(|| usable(clock::has_ticks_end()).collect())
    }

    /// Whether the read executes `rdtscp`, which not every x86-64 processor has.
    pub fn needs_rdtscp(self) -> bool {
        cfg!(target_arch = "x86_64")
            && matches!(self, ClockRead::Rdtscp | ClockRead::FencedPair | ClockRead::CpuidPair)
    }

    /// Where the code that [`clock_read`] runs lies: code that times the same read runs it.
    pub fn body(self) -> Option<usize> {
        body_of(self).map(|body| body as usize)
    }
}

/// The reads of this architecture on a processor with or without `rdtscp`.
fn usable(has_rdtscp: bool) -> impl Iterator<Item = ClockRead> {
    let reads = arch::CLOCK_READS.iter().copied();
    reads.filter(move |read| has_rdtscp || !read.needs_rdtscp())
}

/// Reads a clock `n` times in a row and returns the last reading: ticks of the
/// counter, ns of `CLOCK_MONOTONIC`, s of `time`, ns of `Instant` since the
/// call; 0 if `n` is 0. `None` if this processor has no such read.
///
/// Reads that are instructions stand eight to a turn in a loop in assembly;
/// for the others the loop is small beside a call.
pub fn clock_read(kind: ClockRead, n: u64) -> Option<u64> {
    let reads = body_of(kind)?;
    // SAFETY: the loop reads a clock by instructions that the processor has; keeps the calling
    // convention.
    Some(unsafe { reads(n) })
}

/// The loop of a read; `None` if this processor has no such read.
fn body_of(kind: ClockRead) -> Option<Loop> {
    if kind.needs_rdtscp() && !clock::has_ticks_end() {
        return None;
    }
    arch::clock_loop(kind).or(match kind {
        ClockRead::ClockGettimeVdso => Some(reads_vdso),
        ClockRead::ClockGettimeSyscall => Some(reads_syscall),
        ClockRead::Time => Some(reads_time),
        ClockRead::Instant => Some(reads_instant),
        _ => None,
    })
}

extern "C" fn reads_vdso(n: u64) -> u64 {
    repeat(n, || clock::vdso_clock_gettime(Clock::MONOTONIC))
}

extern "C" fn reads_syscall(n: u64) -> u64 {
    repeat(n, || clock::syscall_clock_gettime(Clock::MONOTONIC))
}

extern "C" fn reads_time(n: u64) -> u64 {
    repeat(n, clock::time_vdso)
}

extern "C" fn reads_instant(n: u64) -> u64 {
    let start = Instant::now();
    let mut last = start;
    for _ in 0..n {
        last = black_box(Instant::now());
    }
    (last - start).as_nanos() as u64
}

#[inline(always)]
fn repeat(n: u64, read: impl Fn() -> u64) -> u64 {
    let mut last = 0;
    for _ in 0..n {
        last = black_box(read());
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_TICKS: [ClockRead; 7] = [
        ClockRead::Rdtsc,
        ClockRead::LfenceRdtsc,
        ClockRead::Rdtscp,
        ClockRead::FencedPair,
        ClockRead::CpuidPair,
        ClockRead::Cntvct,
        ClockRead::CntvctIsb,
    ];

    #[test]
    fn the_last_reading_lies_between_a_reading_before_and_one_after() {
        for &kind in ClockRead::available() {
            for n in [1, 7, 8, 9, 20] {
                let instant = Instant::now();
                let now = || match kind {
                    _ if IN_TICKS.contains(&kind) => clock::ticks_start(),
                    ClockRead::Time => clock::time_vdso(),
                    ClockRead::Instant => instant.elapsed().as_nanos() as u64,
                    _ => clock::monotonic_ns(),
                };
                let before = if kind == ClockRead::Instant { 0 } else { now() };
                let last = clock_read(kind, n).unwrap();
                let after = now();
                assert!(before <= last && last <= after, "{kind:?}: {before} {last} {after}");
            }
            assert_eq!(clock_read(kind, 0), Some(0), "{kind:?}");
        }
    }

    #[test]
    fn without_rdtscp_its_reads_are_left_out_and_no_others() {
        let with: Vec<ClockRead> = usable(true).collect();
        assert_eq!(with, arch::CLOCK_READS);
        let without: Vec<ClockRead> = usable(false).collect();
        let gone = with.iter().filter(|read| !without.contains(read));
        let expected: &[ClockRead] = if cfg!(target_arch = "x86_64") {
            &[ClockRead::Rdtscp, ClockRead::FencedPair, ClockRead::CpuidPair]
        } else {
            &[]
        };
        assert!(gone.eq(expected));
    }

    #[test]
    fn reads_of_another_architecture_are_refused() {
        for kind in IN_TICKS {
            let here = ClockRead::available().contains(&kind);
            assert_eq!(clock_read(kind, 1).is_some(), here, "{kind:?}");
        }
    }
}
