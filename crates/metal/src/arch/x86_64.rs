//! x86-64: counter reads, system calls, and the timed bodies in `timed` and `call`.

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

use core::arch::x86_64::__cpuid;
use core::arch::{asm, naked_asm};

// Each has what `arch` lists, and no more for others.
pub(crate) use {
    call::*, chains::*, fault::*, gaps::*, instruction::*, line::*, peak::*, stream::*, sum::*,
    timed::*,
};

/// Keeps the caller's registers on the stack.
macro_rules! saved {
    () => {
        "push rbx\npush rbp\npush r12\npush r13\npush r14\npush r15"
    };
}
pub(crate) use saved;

macro_rules! restored {
    () => {
        "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx"
    };
}
pub(crate) use restored;

/// A read of the counter between other instructions, in the order given.
macro_rules! ticks {
    ($(#[$doc:meta])* $name:ident: $($step:literal),*; $($clobbers:tt)*) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name() -> u64 {
            let (high, low): (u32, u32);
            // SAFETY: reads a register pair and waits; no `nomem`, so that the compiler moves no
            // access to memory across it. rdtscp also writes the CPU's number to ecx.
            unsafe {
                asm!(
                    $($step,)* out("edx") high, out("eax") low, $($clobbers)*
                    options(nostack, preserves_flags)
                );
            }
            join(high, low)
        }
    };
}

ticks! { ticks_start: "lfence", "rdtsc", "lfence"; }
ticks! { ticks_end: "rdtscp", "lfence"; out("ecx") _, }
ticks! {
    /// Not ordered with others.
    ticks_raw: "rdtsc";
}
ticks! { ticks_fenced: "lfence", "rdtsc"; }
ticks! { ticks_rdtscp: "rdtscp"; out("ecx") _, }

/// Joins the two halves that the counter instructions leave in edx and eax.
#[inline(always)]
fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Whether the processor has `rdtscp`: bit 27 of edx of leaf 0x80000001.
pub(crate) fn has_rdtscp() -> bool {
    const IDENTITY: u32 = 0x8000_0001;
    __cpuid(0x8000_0000).eax >= IDENTITY && __cpuid(IDENTITY).edx >> 27 & 1 == 1
}

/// The instructions are `cpuid; rdtsc`.
#[inline(always)]
pub(crate) fn ticks_cpuid() -> Option<u64> {
    let (high, low): (u32, u32);
    // SAFETY: leaf 0 exists on every x86-64 processor; rbx, reserved, is put back.
    unsafe {
        asm!(
            "mov {kept}, rbx",
            "xor eax, eax",
            "cpuid",
            "mov rbx, {kept}",
            "rdtsc",
            kept = out(reg) _,
            out("edx") high,
            out("eax") low,
            out("ecx") _,
            options(nostack),
        );
    }
    Some(join(high, low))
}

/// The rate of the counter as the hypervisor (leaf 0x40000010, kHz; VMware's convention, which KVM,
/// Xen and others follow) or the processor (leaf 0x15) states it.
pub(crate) fn counter_hz_hint() -> Option<u64> {
    const HYPERVISOR_BIT: u32 = 1 << 31;
    if __cpuid(1).ecx & HYPERVISOR_BIT != 0 && __cpuid(0x4000_0000).eax >= 0x4000_0010 {
        let khz = __cpuid(0x4000_0010).eax;
        if khz != 0 {
            return Some(u64::from(khz) * 1000);
        }
    }
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let ratio = __cpuid(0x15);
    if ratio.eax == 0 || ratio.ebx == 0 || ratio.ecx == 0 {
        return None;
    }
    Some(u64::from(ratio.ecx) * u64::from(ratio.ebx) / u64::from(ratio.eax))
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
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "ret",
    )
}
