//! A cache line that two threads hand to each other.

use core::arch::naked_asm;

/// `turns` turns: waits until the word is `expected`, makes it one more, expects two more. Each
/// look is a `lock cmpxchg`; there is no pause between looks, which would be part of the answer.
/// Ends early after `spins` failed looks at one turn. Returns the turns made.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn line_turns(
    word: *mut u64,
    expected: u64,
    turns: u64,
    spins: u64,
) -> u64 {
    naked_asm!(
        "xor r9d, r9d",
        "test rdx, rdx",
        "jz 5f",
        ".p2align 6",
        "2:",
        "mov r10, rcx",
        "lea r11, [rsi + 1]",
        "3:",
        "mov rax, rsi",
        "lock cmpxchg qword ptr [rdi], r11",
        "je 4f",
        "dec r10",
        "jnz 3b",
        "jmp 5f",
        "4:",
        "add rsi, 2",
        "inc r9",
        "cmp r9, rdx",
        "jne 2b",
        "5:",
        "mov rax, r9",
        "ret",
    )
}

/// What a look at the line is.
pub(crate) fn line_method() -> &'static str {
    "lock cmpxchg"
}
