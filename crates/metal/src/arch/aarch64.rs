//! aarch64: counter reads, system calls, and the timed bodies in `timed` and
//! `call`.

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

use core::arch::asm;

pub(crate) use call::{
    calls_f32, calls_f64, calls_i32, calls_i64, calls_indirect, calls_linkage, calls_structure,
};
pub(crate) use chains::CHAINS;
pub(crate) use fault::{fault_stores, step_over};
pub(crate) use gaps::gaps_turns;
pub(crate) use instruction::{BRANCH_TEXT, INSTRUCTIONS, branches, has_feature};
pub(crate) use line::{line_method, line_turns};
pub(crate) use peak::{peak_body, peak_chain};
pub(crate) use stream::{stream_code, stream_has_ahead};
pub(crate) use sum::sum_lines;
pub(crate) use timed::{
    CLOCK_READS, additions, chain_add, chain_multiply, chain_rotate, chase_index, chase_pointer,
    clock_loop, loop_empty, loop_unrolled, loop_volatile,
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

/// `mrs cntvct_el0`.
#[inline(always)]
pub(crate) fn ticks_raw() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// `isb; mrs cntvct_el0`.
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

macro_rules! system_call {
    ($name:ident, $($argument:ident in $register:tt),*) => {
        /// The system call instruction; returns the kernel's value, negative
        /// error numbers included.
        ///
        /// # Safety
        /// The arguments must be right for the call `number`.
        #[inline(always)]
        pub(crate) unsafe fn $name(number: i64, $($argument: usize),*) -> isize {
            system_call!(@body number, $($argument in $register),*)
        }
    };
    (@body $number:ident,) => {{
        let result: isize;
        // SAFETY: the caller answers for the arguments. The kernel keeps all
        // registers but x0; it may write memory.
        unsafe {
            asm!("svc 0", in("x8") $number, lateout("x0") result, options(nostack));
        }
        result
    }};
    (@body $number:ident, $first:ident in "x0" $(, $argument:ident in $register:tt)*) => {{
        let result: isize;
        // SAFETY: as above.
        unsafe {
            asm!(
                "svc 0",
                in("x8") $number,
                inlateout("x0") $first as isize => result,
                $(in($register) $argument,)*
                options(nostack),
            );
        }
        result
    }};
}

system_call!(syscall0,);
system_call!(syscall1, a in "x0");
system_call!(syscall2, a in "x0", b in "x1");
system_call!(syscall3, a in "x0", b in "x1", c in "x2");
system_call!(syscall4, a in "x0", b in "x1", c in "x2", d in "x3");
system_call!(syscall6, a in "x0", b in "x1", c in "x2", d in "x3", e in "x4", f in "x5");
