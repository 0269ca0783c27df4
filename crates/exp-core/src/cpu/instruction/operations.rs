//! The operations by name: on which architecture they exist, what they need there, and which of
//! the two metrics they have.

use host::Arch;

/// An operation that one instruction does, or a few.
pub(super) struct Operation {
    /// Name: what is done, and to what; the same on every architecture.
    pub(super) name: &'static str,
    /// Feature on x86-64 as `/proc/cpuinfo` spells it, empty for none; `None`: no such instruction.
    x86_64: Option<&'static str>,
    /// The same on aarch64.
    aarch64: Option<&'static str>,
    /// Which metrics are defined.
    pub(super) defined: Defined,
}

/// Which of latency and reciprocal throughput an operation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defined {
    /// Both.
    Both,
    /// A latency only: the time lost to a wrong guess does not overlap with another's.
    Latency,
    /// A reciprocal throughput only: it has no result that another could wait for.
    Throughput,
}

use Defined::{Both as BOTH, Latency as LATENCY, Throughput as THROUGHPUT};

impl Operation {
    const fn new(
        name: &'static str,
        x86_64: Option<&'static str>,
        aarch64: Option<&'static str>,
        defined: Defined,
    ) -> Self {
        Operation { name, x86_64, aarch64, defined }
    }

    /// The feature that it needs on an architecture; empty for none, `None` where it does not exist.
    pub(super) fn feature(&self, arch: Arch) -> Option<&'static str> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

/// The operation of a name.
pub(super) fn find(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

/// All names, in the order of the table, for the card.
pub(super) const NAMES: [&str; OPERATIONS.len()] = {
    let mut names = [""; OPERATIONS.len()];
    let mut at = 0;
    while at < OPERATIONS.len() {
        names[at] = OPERATIONS[at].name;
        at += 1;
    }
    names
};

/// Every operation.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new("nop", Some(""), Some(""), THROUGHPUT),
    Operation::new("move_i64", Some(""), Some(""), BOTH),
    Operation::new("add_i64", Some(""), Some(""), BOTH),
    Operation::new("sub_i64", Some(""), Some(""), BOTH),
    Operation::new("and_i64", Some(""), Some(""), BOTH),
    Operation::new("add_shifted_i64", Some(""), Some(""), BOTH),
    Operation::new("add_three_i64", Some(""), None, BOTH),
    Operation::new("mul_i64", Some(""), Some(""), BOTH),
    Operation::new("mul_add_i64", None, Some(""), BOTH),
    Operation::new("mul_wide_u64", Some(""), Some(""), BOTH),
    Operation::new("div_u32", Some(""), Some(""), BOTH),
    Operation::new("div_u64", Some(""), Some(""), BOTH),
    Operation::new("shift_fixed_i64", Some(""), Some(""), BOTH),
    Operation::new("shift_counted_i64", Some(""), Some(""), BOTH),
    Operation::new("shift_flagless_i64", Some("bmi2"), None, BOTH),
    Operation::new("rotate_i64", Some(""), Some(""), BOTH),
    Operation::new("popcount_i64", Some("popcnt"), None, BOTH),
    Operation::new("leading_zeros_i64", Some("abm"), Some(""), BOTH),
    Operation::new("trailing_zeros_i64", Some("bmi1"), None, BOTH),
    Operation::new("byte_swap_i64", Some(""), Some(""), BOTH),
    Operation::new("crc32_i64", Some("sse4_2"), Some("crc32"), BOTH),
    Operation::new("select_i64", Some(""), Some(""), BOTH),
    Operation::new("add_f64", Some(""), Some(""), BOTH),
    Operation::new("add_f32x4", Some(""), Some(""), BOTH),
    Operation::new("add_f32x8", Some("avx"), None, BOTH),
    Operation::new("add_f32x16", Some("avx512f"), None, BOTH),
    Operation::new("add_f64x2", Some(""), Some(""), BOTH),
    Operation::new("add_f64x4", Some("avx"), None, BOTH),
    Operation::new("add_f64x8", Some("avx512f"), None, BOTH),
    Operation::new("mul_f64", Some(""), Some(""), BOTH),
    Operation::new("mul_f32x4", Some(""), Some(""), BOTH),
    Operation::new("mul_f32x8", Some("avx"), None, BOTH),
    Operation::new("mul_f32x16", Some("avx512f"), None, BOTH),
    Operation::new("mul_f64x2", Some(""), Some(""), BOTH),
    Operation::new("mul_f64x4", Some("avx"), None, BOTH),
    Operation::new("mul_f64x8", Some("avx512f"), None, BOTH),
    Operation::new("fma_f64", Some("fma"), Some(""), BOTH),
    Operation::new("fma_f32x4", Some("fma"), Some(""), BOTH),
    Operation::new("fma_f32x8", Some("fma"), None, BOTH),
    Operation::new("fma_f32x16", Some("avx512f"), None, BOTH),
    Operation::new("fma_f64x2", Some("fma"), Some(""), BOTH),
    Operation::new("fma_f64x4", Some("fma"), None, BOTH),
    Operation::new("fma_f64x8", Some("avx512f"), None, BOTH),
    Operation::new("div_f64", Some(""), Some(""), BOTH),
    Operation::new("div_f64x4", Some("avx"), None, BOTH),
    Operation::new("div_f64x8", Some("avx512f"), None, BOTH),
    Operation::new("sqrt_f64", Some(""), Some(""), BOTH),
    Operation::new("add_i32x4", Some(""), Some(""), BOTH),
    Operation::new("add_i32x8", Some("avx2"), None, BOTH),
    Operation::new("add_i32x16", Some("avx512f"), None, BOTH),
    Operation::new("mul_i32x4", Some("sse4_1"), Some(""), BOTH),
    Operation::new("mul_i32x8", Some("avx2"), None, BOTH),
    Operation::new("mul_i32x16", Some("avx512f"), None, BOTH),
    Operation::new("shuffle_i8x16", Some("ssse3"), None, BOTH),
    Operation::new("shuffle_i8x32", Some("avx2"), None, BOTH),
    Operation::new("permute_i32x8", Some("avx2"), None, BOTH),
    Operation::new("permute_i32x16", Some("avx512f"), None, BOTH),
    Operation::new("gather_i32x8", Some("avx2"), None, BOTH),
    Operation::new("aes_round", Some("aes"), Some("aes"), BOTH),
    Operation::new("carryless_mul_u64", Some("pclmulqdq"), Some("pmull"), BOTH),
    Operation::new("to_vector_and_back", Some(""), Some(""), BOTH),
    Operation::new("load_i64", Some(""), Some(""), BOTH),
    Operation::new("store_i64", Some(""), Some(""), THROUGHPUT),
    Operation::new("store_and_load_i64", Some(""), Some(""), BOTH),
    Operation::new("push_and_pop_i64", Some(""), None, BOTH),
    Operation::new("exchange_i64", Some(""), Some("atomics"), BOTH),
    Operation::new("fetch_add_i64", Some(""), Some("atomics"), BOTH),
    Operation::new("compare_exchange_i64", Some(""), Some("atomics"), BOTH),
    Operation::new("load_store_exclusive_i64", None, Some(""), BOTH),
    Operation::new("fence_full", Some(""), Some(""), THROUGHPUT),
    Operation::new("fence_load", Some(""), Some(""), THROUGHPUT),
    Operation::new("fence_store", Some(""), Some(""), THROUGHPUT),
    Operation::new("fence_instruction", None, Some(""), THROUGHPUT),
    Operation::new("spin_hint", Some(""), Some(""), THROUGHPUT),
    Operation::new("branch_taken", Some(""), Some(""), THROUGHPUT),
    Operation::new("branch_not_taken", Some(""), Some(""), THROUGHPUT),
    Operation::new("branch_mispredicted", Some(""), Some(""), LATENCY),
    Operation::new("call_and_return", Some(""), Some(""), THROUGHPUT),
];
