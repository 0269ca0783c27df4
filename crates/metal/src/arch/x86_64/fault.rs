//! Stores that fault, and the way past them.

use core::arch::naked_asm;

/// Stores to `address`, which must not be writable, `n` times. rcx is the address of the store and
/// rdx the one behind it, which [`step_over`] uses. Returns `n`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn fault_stores(n: u64, address: *mut u8) -> u64 {
    naked_asm!(
        "xor eax, eax",
        "lea rcx, [rip + 3f]",
        "lea rdx, [rip + 4f]",
        "test rdi, rdi",
        "jz 5f",
        ".p2align 6",
        "2:",
        "3:",
        "mov byte ptr [rsi], al",
        "4:",
        "inc rax",
        "cmp rax, rdi",
        "jne 2b",
        "5:",
        "ret",
    )
}

/// Moves an interrupted context that stands at the store of [`fault_stores`] behind it; `false` if
/// it stands elsewhere.
pub(crate) fn step_over(context: &mut libc::ucontext_t) -> bool {
    let registers = &mut context.uc_mcontext.gregs;
    let at_store = registers[libc::REG_RIP as usize] == registers[libc::REG_RCX as usize];
    if at_store {
        registers[libc::REG_RIP as usize] = registers[libc::REG_RDX as usize];
    }
    at_store
}
