//! Stores that fault, and the way past them.

use core::arch::naked_asm;

/// Register with the address of the store, and the one with the address behind it.
const STORE: usize = 9;
const BEHIND: usize = 10;

/// Stores to `address`, which must not be writable, `n` times. x9 is the address of the store and
/// x10 the one behind it, which [`step_over`] uses. Returns `n`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn fault_stores(n: u64, address: *mut u8) -> u64 {
    naked_asm!(
        "mov x8, #0",
        "adr x9, 3f",
        "adr x10, 4f",
        "cbz x0, 5f",
        ".p2align 6",
        "2:",
        "3:",
        "strb w8, [x1]",
        "4:",
        "add x8, x8, #1",
        "cmp x8, x0",
        "b.ne 2b",
        "5:",
        "mov x0, x8",
        "ret",
    )
}

/// Moves an interrupted context that stands at the store of [`fault_stores`] behind it; `false` if
/// it stands elsewhere.
pub(crate) fn step_over(context: &mut libc::ucontext_t) -> bool {
    let machine = &mut context.uc_mcontext;
    let at_store = machine.pc == machine.regs[STORE];
    if at_store {
        machine.pc = machine.regs[BEHIND];
    }
    at_store
}
