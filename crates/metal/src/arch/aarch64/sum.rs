//! The sum of an array, by loads that nothing may leave out.

use core::arch::asm;

/// Sum of `lines` lines of 64 bytes from `start` on: four loads of two words to
/// a line, added in four chains.
///
/// # Safety
/// So many lines must be readable.
pub(crate) unsafe fn sum_lines(start: *const u64, lines: usize) -> u64 {
    let sum: u64;
    // SAFETY: the caller's promise; writes registers only.
    unsafe {
        asm!(
            "cbz {lines}, 3f",
            "2:",
            "ldp {t}, {u}, [{at}]",
            "ldp {v}, {w}, [{at}, #16]",
            "add {a}, {a}, {t}",
            "add {b}, {b}, {u}",
            "add {c}, {c}, {v}",
            "add {d}, {d}, {w}",
            "ldp {t}, {u}, [{at}, #32]",
            "ldp {v}, {w}, [{at}, #48]",
            "add {a}, {a}, {t}",
            "add {b}, {b}, {u}",
            "add {c}, {c}, {v}",
            "add {d}, {d}, {w}",
            "add {at}, {at}, #64",
            "subs {lines}, {lines}, #1",
            "b.ne 2b",
            "3:",
            "add {a}, {a}, {b}",
            "add {c}, {c}, {d}",
            "add {a}, {a}, {c}",
            at = inout(reg) start => _,
            lines = inout(reg) lines => _,
            a = inout(reg) 0u64 => sum,
            b = inout(reg) 0u64 => _,
            c = inout(reg) 0u64 => _,
            d = inout(reg) 0u64 => _,
            t = out(reg) _,
            u = out(reg) _,
            v = out(reg) _,
            w = out(reg) _,
            options(nostack, readonly),
        );
    }
    sum
}
