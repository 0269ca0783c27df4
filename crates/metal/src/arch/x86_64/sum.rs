//! The sum of an array, by loads that nothing may leave out.

use core::arch::asm;

/// Sum of `lines` lines of 64 bytes from `start` on: eight additions from
/// memory to a line, in four chains.
///
/// # Safety
/// So many lines must be readable.
pub(crate) unsafe fn sum_lines(start: *const u64, lines: usize) -> u64 {
    let sum: u64;
    // SAFETY: the caller's promise; writes registers only.
    unsafe {
        asm!(
            "test {lines}, {lines}",
            "jz 3f",
            "2:",
            "add {a}, [{at}]",
            "add {b}, [{at} + 8]",
            "add {c}, [{at} + 16]",
            "add {d}, [{at} + 24]",
            "add {a}, [{at} + 32]",
            "add {b}, [{at} + 40]",
            "add {c}, [{at} + 48]",
            "add {d}, [{at} + 56]",
            "add {at}, 64",
            "dec {lines}",
            "jnz 2b",
            "3:",
            "add {a}, {b}",
            "add {c}, {d}",
            "add {a}, {c}",
            at = inout(reg) start => _,
            lines = inout(reg) lines => _,
            a = inout(reg) 0u64 => sum,
            b = inout(reg) 0u64 => _,
            c = inout(reg) 0u64 => _,
            d = inout(reg) 0u64 => _,
            options(nostack, readonly),
        );
    }
    sum
}
