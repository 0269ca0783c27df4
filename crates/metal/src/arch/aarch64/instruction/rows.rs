//! The table: name, feature, chain for the latency, independent bodies for the throughput.

use super::{Body, Instruction};

instructions! {
    nop "" { none } { many integer "nop" }
    move_i64 "" { two integer "mov x7, x2\nmov x2, x7", "mov x7, x2" } { each integer "mov x\\r, x3" }
    add_i64 "" { one integer "add x2, x2, x3" } { each integer "add x\\r, x\\r, x3" }
    sub_i64 "" { one integer "sub x2, x2, x3" } { each integer "sub x\\r, x\\r, x3" }
    and_i64 "" { one integer "and x2, x2, x3" } { each integer "and x\\r, x\\r, x3" }
    add_shifted_i64 "" { one integer "add x2, x3, x2, lsl #2" } { each integer "add x\\r, x3, x\\r, lsl #2" }
    mul_i64 "" { one integer "mul x2, x2, x3" } { each integer "mul x\\r, x\\r, x3" }
    mul_add_i64 "" { one integer "madd x2, x2, x3, x4" } { each integer "madd x\\r, x\\r, x3, x4" }
    mul_wide_u64 "" { one integer "umulh x2, x2, x3" } { each integer "umulh x\\r, x\\r, x3" }
    div_u32 "" { one divide32 "udiv w2, w3, w2" } { each divide32 "udiv w\\r, w3, w\\r" }
    div_u64 "" { one divide "udiv x2, x3, x2" } { each divide "udiv x\\r, x3, x\\r" }
    shift_fixed_i64 "" { one integer "lsl x2, x2, #3" } { each integer "lsl x\\r, x\\r, #3" }
    shift_counted_i64 "" { one integer "lsl x2, x2, x4" } { each integer "lsl x\\r, x\\r, x4" }
    rotate_i64 "" { one integer "ror x2, x2, #7" } { each integer "ror x\\r, x\\r, #7" }
    leading_zeros_i64 "" { one integer "clz x2, x2" } { each integer "clz x\\r, x\\r" }
    byte_swap_i64 "" { one integer "rev x2, x2" } { each integer "rev x\\r, x\\r" }
    crc32_i64 "crc32" { one integer "crc32cx w2, w2, x3" } { each integer "crc32cx w\\r, w\\r, x3" }
    select_i64 "" { one integer "csel x2, x3, x2, lo" } { each integer "csel x\\r, x3, x\\r, lo" }

    add_f64 "" { one f64x2 "fadd d0, d0, d28" } { vectors f64x2 "fadd d\\r, d\\r, d28" }
    add_f32x4 "" { one f32x4 "fadd v0.4s, v0.4s, v28.4s" } { singles f32x4 "fadd \\r, \\r, v28.4s" }
    add_f64x2 "" { one f64x2 "fadd v0.2d, v0.2d, v28.2d" } { doubles f64x2 "fadd \\r, \\r, v28.2d" }
    mul_f64 "" { one f64x2 "fmul d0, d0, d28" } { vectors f64x2 "fmul d\\r, d\\r, d28" }
    mul_f32x4 "" { one f32x4 "fmul v0.4s, v0.4s, v28.4s" } { singles f32x4 "fmul \\r, \\r, v28.4s" }
    mul_f64x2 "" { one f64x2 "fmul v0.2d, v0.2d, v28.2d" } { doubles f64x2 "fmul \\r, \\r, v28.2d" }
    fma_f64 "" { one f64x2 "fmadd d0, d0, d28, d29" } { vectors f64x2 "fmadd d\\r, d\\r, d28, d29" }
    fma_f32x4 "" { one f32x4 "fmla v0.4s, v28.4s, v29.4s" } { singles f32x4 "fmla \\r, v28.4s, v29.4s" }
    fma_f64x2 "" { one f64x2 "fmla v0.2d, v28.2d, v29.2d" } { doubles f64x2 "fmla \\r, v28.2d, v29.2d" }
    div_f64 "" { one f64x2 "fdiv d0, d0, d28" } { vectors f64x2 "fdiv d\\r, d\\r, d28" }
    sqrt_f64 "" { one root "fsqrt d0, d0" } { vectors root "fsqrt d\\r, d\\r" }

    add_i32x4 "" { one f32x4 "add v0.4s, v0.4s, v28.4s" } { singles f32x4 "add \\r, \\r, v28.4s" }
    mul_i32x4 "" { one f32x4 "mul v0.4s, v0.4s, v28.4s" } { singles f32x4 "mul \\r, \\r, v28.4s" }
    aes_round "aes" { one f32x4 "aese v0.16b, v28.16b" } { bytes f32x4 "aese \\r, v28.16b" }
    carryless_mul_u64 "pmull" { one f32x4 "pmull v0.1q, v0.1d, v28.1d" } { quads f32x4 "pmull \\r, v28.1d, v29.1d" }
    to_vector_and_back "" { one integer "fmov d0, x2\nfmov x2, d0" } { each integer "fmov d0, x\\r\nfmov x\\r, d0" }

    load_i64 "" { one pointer "ldr x2, [x2]" } { each integer "ldr x\\r, [x1, #8*\\r]" }
    store_i64 "" { none } { each integer "str x\\r, [x1, #128]" }
    store_and_load_i64 "" { one integer "str x2, [x1, #128]\nldr x2, [x1, #128]" } { each integer "str x3, [x1, #128]\nldr x\\r, [x1, #128]" }
    exchange_i64 "atomics" { one integer "swpal x2, x2, [x6]" } { each integer "swpal x\\r, x\\r, [x6]" }
    fetch_add_i64 "atomics" { one integer "ldaddal x2, x2, [x6]" } { each integer "ldaddal x\\r, x\\r, [x6]" }
    compare_exchange_i64 "atomics" { one equal "casal x2, x3, [x6]" } { each equal "casal x\\r, x3, [x6]" }
    load_store_exclusive_i64 "" { one integer "ldaxr x2, [x6]\nstlxr w7, x2, [x6]" } { each integer "ldaxr x\\r, [x6]\nstlxr w7, x\\r, [x6]" }
    fence_full "" { none } { one integer "dmb ish" }
    fence_load "" { none } { one integer "dmb ishld" }
    fence_store "" { none } { one integer "dmb ishst" }
    fence_instruction "" { none } { one integer "isb" }
    spin_hint "" { none } { one integer "yield" }
    branch_taken "" { none } { one integer "b 9f\n.p2align 5\n9:" }
    branch_not_taken "" { none } { one integer "b.lo 9f\n9: nop" }
    call_and_return "" { none } { one integer "bl 8f" }
}
