//! The table: name, feature, chain for the latency, independent bodies for the throughput.

use super::{Body, Instruction};

instructions! {
    nop "" { none } { many integer "nop" }
    move_i64 "" { two integer "mov rbx, rax\nmov rax, rbx", "mov rbx, rax" } { each integer "mov \\r, rdx" }
    add_i64 "" { one integer "add rax, rdx" } { each integer "add \\r, rdx" }
    sub_i64 "" { one integer "sub rax, rdx" } { each integer "sub \\r, rdx" }
    and_i64 "" { one integer "and rax, rdx" } { each integer "and \\r, rdx" }
    add_shifted_i64 "" { one integer "lea rax, [rdx+rax*4]" } { each integer "lea \\r, [rdx+\\r*4]" }
    add_three_i64 "" { one integer "lea rax, [rdx+rax+8]" } { each integer "lea \\r, [rdx+\\r+8]" }
    mul_i64 "" { one integer "imul rax, rdx" } { each integer "imul \\r, rdx" }
    mul_wide_u64 "" { one integer "mul rcx" } { each integer "mov rax, \\r\nmul rcx" }
    div_u32 "" { one divide32 "div ecx" } { one divide32 "mov eax, r8d\nmov edx, r9d\ndiv ecx" }
    div_u64 "" { one divide64 "div rcx" } { one divide64 "mov rax, r8\nmov rdx, r9\ndiv rcx" }
    shift_fixed_i64 "" { one integer "shl rax, 3" } { each integer "shl \\r, 3" }
    shift_counted_i64 "" { one integer "shl rax, cl" } { each integer "shl \\r, cl" }
    shift_flagless_i64 "bmi2" { one integer "shlx rax, rax, rdx" } { each integer "shlx \\r, \\r, rdx" }
    rotate_i64 "" { one integer "ror rax, 7" } { each integer "ror \\r, 7" }
    popcount_i64 "popcnt" { one integer "popcnt rax, rax" } { each integer "popcnt \\r, \\r" }
    leading_zeros_i64 "abm" { one integer "lzcnt rax, rax" } { each integer "lzcnt \\r, \\r" }
    trailing_zeros_i64 "bmi1" { one integer "tzcnt rax, rax" } { each integer "tzcnt \\r, \\r" }
    byte_swap_i64 "" { one integer "bswap rax" } { each integer "bswap \\r" }
    crc32_i64 "sse4_2" { one integer "crc32 rax, rdx" } { each integer "crc32 \\r, rdx" }
    select_i64 "" { one integer "cmovb rax, rdx" } { each integer "cmovb \\r, rdx" }

    add_f64 "" { one f64x2 "addsd xmm0, xmm12" } { vectors f64x2 "addsd xmm\\r, xmm12" }
    add_f32x4 "" { one f32x4 "addps xmm0, xmm12" } { vectors f32x4 "addps xmm\\r, xmm12" }
    add_f32x8 "avx" { one f32x8 "vaddps ymm0, ymm12, ymm0" } { vectors f32x8 "vaddps ymm\\r, ymm12, ymm\\r" }
    add_f32x16 "avx512f" { one f32x16 "vaddps zmm0, zmm0, zmm12" } { vectors f32x16 "vaddps zmm\\r, zmm\\r, zmm12" }
    add_f64x2 "" { one f64x2 "addpd xmm0, xmm12" } { vectors f64x2 "addpd xmm\\r, xmm12" }
    add_f64x4 "avx" { one f64x4 "vaddpd ymm0, ymm12, ymm0" } { vectors f64x4 "vaddpd ymm\\r, ymm12, ymm\\r" }
    add_f64x8 "avx512f" { one f64x8 "vaddpd zmm0, zmm0, zmm12" } { vectors f64x8 "vaddpd zmm\\r, zmm\\r, zmm12" }
    mul_f64 "" { one f64x2 "mulsd xmm0, xmm12" } { vectors f64x2 "mulsd xmm\\r, xmm12" }
    mul_f32x4 "" { one f32x4 "mulps xmm0, xmm12" } { vectors f32x4 "mulps xmm\\r, xmm12" }
    mul_f32x8 "avx" { one f32x8 "vmulps ymm0, ymm12, ymm0" } { vectors f32x8 "vmulps ymm\\r, ymm12, ymm\\r" }
    mul_f32x16 "avx512f" { one f32x16 "vmulps zmm0, zmm0, zmm12" } { vectors f32x16 "vmulps zmm\\r, zmm\\r, zmm12" }
    mul_f64x2 "" { one f64x2 "mulpd xmm0, xmm12" } { vectors f64x2 "mulpd xmm\\r, xmm12" }
    mul_f64x4 "avx" { one f64x4 "vmulpd ymm0, ymm12, ymm0" } { vectors f64x4 "vmulpd ymm\\r, ymm12, ymm\\r" }
    mul_f64x8 "avx512f" { one f64x8 "vmulpd zmm0, zmm0, zmm12" } { vectors f64x8 "vmulpd zmm\\r, zmm\\r, zmm12" }
    fma_f64 "fma" { one f64x4 "vfmadd213sd xmm0, xmm12, xmm13" } { vectors f64x4 "vfmadd213sd xmm\\r, xmm12, xmm13" }
    fma_f32x4 "fma" { one f32x8 "vfmadd213ps xmm0, xmm12, xmm13" } { vectors f32x8 "vfmadd213ps xmm\\r, xmm12, xmm13" }
    fma_f32x8 "fma" { one f32x8 "vfmadd213ps ymm0, ymm12, ymm13" } { vectors f32x8 "vfmadd213ps ymm\\r, ymm12, ymm13" }
    fma_f32x16 "avx512f" { one f32x16 "vfmadd213ps zmm0, zmm12, zmm13" } { vectors f32x16 "vfmadd213ps zmm\\r, zmm12, zmm13" }
    fma_f64x2 "fma" { one f64x4 "vfmadd213pd xmm0, xmm12, xmm13" } { vectors f64x4 "vfmadd213pd xmm\\r, xmm12, xmm13" }
    fma_f64x4 "fma" { one f64x4 "vfmadd213pd ymm0, ymm12, ymm13" } { vectors f64x4 "vfmadd213pd ymm\\r, ymm12, ymm13" }
    fma_f64x8 "avx512f" { one f64x8 "vfmadd213pd zmm0, zmm12, zmm13" } { vectors f64x8 "vfmadd213pd zmm\\r, zmm12, zmm13" }
    div_f64 "" { one f64x2 "divsd xmm0, xmm12" } { vectors f64x2 "divsd xmm\\r, xmm12" }
    div_f64x4 "avx" { one f64x4 "vdivpd ymm0, ymm0, ymm12" } { vectors f64x4 "vdivpd ymm\\r, ymm\\r, ymm12" }
    div_f64x8 "avx512f" { one f64x8 "vdivpd zmm0, zmm0, zmm12" } { vectors f64x8 "vdivpd zmm\\r, zmm\\r, zmm12" }
    sqrt_f64 "" { one root "sqrtsd xmm0, xmm0" } { vectors root "sqrtsd xmm\\r, xmm\\r" }

    add_i32x4 "" { one f32x4 "paddd xmm0, xmm12" } { vectors f32x4 "paddd xmm\\r, xmm12" }
    add_i32x8 "avx2" { one f32x8 "vpaddd ymm0, ymm12, ymm0" } { vectors f32x8 "vpaddd ymm\\r, ymm12, ymm\\r" }
    add_i32x16 "avx512f" { one f32x16 "vpaddd zmm0, zmm0, zmm12" } { vectors f32x16 "vpaddd zmm\\r, zmm\\r, zmm12" }
    mul_i32x4 "sse4_1" { one f32x4 "pmulld xmm0, xmm12" } { vectors f32x4 "pmulld xmm\\r, xmm12" }
    mul_i32x8 "avx2" { one f32x8 "vpmulld ymm0, ymm12, ymm0" } { vectors f32x8 "vpmulld ymm\\r, ymm12, ymm\\r" }
    mul_i32x16 "avx512f" { one f32x16 "vpmulld zmm0, zmm0, zmm12" } { vectors f32x16 "vpmulld zmm\\r, zmm\\r, zmm12" }
    shuffle_i8x16 "ssse3" { one f32x4 "pshufb xmm0, xmm12" } { vectors f32x4 "pshufb xmm\\r, xmm12" }
    shuffle_i8x32 "avx2" { one f32x8 "vpshufb ymm0, ymm0, ymm12" } { vectors f32x8 "vpshufb ymm\\r, ymm\\r, ymm12" }
    permute_i32x8 "avx2" { one f32x8 "vpermd ymm0, ymm12, ymm0" } { vectors f32x8 "vpermd ymm\\r, ymm12, ymm\\r" }
    permute_i32x16 "avx512f" { one f32x16 "vpermd zmm0, zmm12, zmm0" } { vectors f32x16 "vpermd zmm\\r, zmm12, zmm\\r" }
    gather_i32x8 "avx2" { one indices "vpcmpeqd ymm1, ymm1, ymm1\nvpgatherdd ymm2, [rsi+ymm0*4+640], ymm1\nvmovdqa ymm0, ymm2" } { gathers "vpcmpeqd ymm1, ymm1, ymm1\nvpgatherdd ymm\\r, [rsi+ymm0*4+640], ymm1" }
    aes_round "aes" { one f32x4 "aesenc xmm0, xmm12" } { vectors f32x4 "aesenc xmm\\r, xmm12" }
    carryless_mul_u64 "pclmulqdq" { one f32x4 "pclmulqdq xmm0, xmm12, 0" } { vectors f32x4 "pclmulqdq xmm\\r, xmm12, 0" }
    to_vector_and_back "" { one integer "movq xmm0, rax\nmovq rax, xmm0" } { each integer "movq xmm0, \\r\nmovq \\r, xmm0" }

    load_i64 "" { one pointer "mov rax, [rax]" } { numbered integer "mov r\\r, [rsi+\\r*8]" }
    store_i64 "" { none } { each integer "mov [rsi+128], \\r" }
    store_and_load_i64 "" { one integer "mov [rsi+128], rax\nmov rax, [rsi+128]" } { each integer "mov [rsi+128], rdx\nmov \\r, [rsi+128]" }
    push_and_pop_i64 "" { one integer "push rax\npop rax" } { each integer "push rdx\npop \\r" }
    exchange_i64 "" { one integer "xchg [rsi+64], rax" } { each integer "xchg [rsi+64], \\r" }
    fetch_add_i64 "" { one integer "lock xadd [rsi+64], rax" } { each integer "lock xadd [rsi+64], \\r" }
    compare_exchange_i64 "" { one equal "lock cmpxchg [rsi+64], rdx" } { one equal "mov rax, r8\nlock cmpxchg [rsi+64], rdx" }
    fence_full "" { none } { one integer "mfence" }
    fence_load "" { none } { one integer "lfence" }
    fence_store "" { none } { one integer "sfence" }
    spin_hint "" { none } { one integer "pause" }
    branch_taken "" { none } { one integer "jmp 9f\n.p2align 5\n9:" }
    branch_not_taken "" { none } { one integer "jb 9f\n9: nop word ptr [rax+rax]" }
    call_and_return "" { none } { one integer "call 8f" }
}
