//! aarch64: counter reads, system calls, and the timed bodies in `timed` and `call`.

mod call;
mod chains;
mod fault;
mod gaps;
mod instruction;
mod line;
mod peak;
mod stream;
mod sum;
#[cfg(test)]
mod tests;
mod timed;

use core::arch::{asm, naked_asm};

// Each has what `arch` lists, and no more for others.
pub(crate) use {
    call::*, chains::*, fault::*, gaps::*, instruction::*, line::*, peak::*, stream::*, sum::*,
    timed::*,
};

/// `isb; mrs cntvct_el0; isb`.
#[inline(always)]
pub(crate) fn ticks_start() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register and waits; no `nomem`, so that the compiler
    // moves no access to memory across it.
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

/// Always: the reads that x86-64 makes by `rdtscp` are made without it here.
pub(crate) fn has_rdtscp() -> bool {
    true
}

/// `isb; mrs cntvct_el0; isb`.
#[inline(always)]
pub(crate) fn ticks_end() -> u64 {
    ticks_start()
}

/// The instructions are `mrs cntvct_el0`.
#[inline(always)]
pub(crate) fn ticks_raw() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// The instructions are `isb; mrs cntvct_el0`.
#[inline(always)]
pub(crate) fn ticks_fenced() -> u64 {
    let ticks: u64;
    // SAFETY: as in `ticks_start`.
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

/// As `ticks_fenced`: there is one counter instruction.
#[inline(always)]
pub(crate) fn ticks_rdtscp() -> u64 {
    ticks_fenced()
}

/// There is no such instruction.
#[inline(always)]
pub(crate) fn ticks_cpuid() -> Option<u64> {
    None
}

/// `cntfrq_el0`, which firmware sets.
pub(crate) fn counter_hz_hint() -> Option<u64> {
    let rate_hz: u64;
    // SAFETY: reads a register that Linux lets users read.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) rate_hz, options(nostack, preserves_flags)) };
    (rate_hz != 0).then_some(rate_hz)
}

/// A system call as programs make it, by a function that returns: the instructions of the C
/// library's `syscall`, without what that makes of errors. Returns the kernel's value, negative
/// error numbers included.
///
/// # Safety
/// The arguments must be right for the call `number`; it ignores those that it does not have.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn system_call(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    naked_asm!(
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "ret",
    )
}
