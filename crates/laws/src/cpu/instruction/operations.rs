//! The operations: the architectures that have it, what it needs there, which measures are defined,
//! and which presets measure it.

use super::Measure;
use bench::experiment::Preset;
use bench::rows;
use host::Arch;

/// What is known of an operation.
pub struct Row {
    /// The feature that it needs on x86-64 as `/proc/cpuinfo` spells it, empty for none; `None`: no
    /// such instruction.
    x86_64: Option<&'static str>,
    aarch64: Option<&'static str>,
    pub defined: &'static [Measure],
    /// Presets that measure it, the shorter ones even where it does not exist.
    presets: &'static [Preset],
}

const BOTH: &[Measure] = &[Measure::Latency, Measure::Throughput];
/// The time lost to one wrong guess ends before the next.
const LATENCY: &[Measure] = &[Measure::Latency];
/// It has no result that another could wait for.
const THROUGHPUT: &[Measure] = &[Measure::Throughput];

const QUICK_ON: &[Preset] = &[Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];
const QUICK: &[Preset] = &[Preset::Rehearsal, Preset::Quick, Preset::Thorough];
const STANDARD: &[Preset] = &[Preset::Standard, Preset::Thorough];
const THOROUGH: &[Preset] = &[Preset::Thorough];

const fn anywhere(defined: &'static [Measure], presets: &'static [Preset]) -> Row {
    needs("", "", defined, presets)
}

const fn needs(
    x86_64: &'static str,
    aarch64: &'static str,
    defined: &'static [Measure],
    presets: &'static [Preset],
) -> Row {
    Row { x86_64: Some(x86_64), aarch64: Some(aarch64), defined, presets }
}

const fn x86_64(
    feature: &'static str,
    defined: &'static [Measure],
    presets: &'static [Preset],
) -> Row {
    Row { x86_64: Some(feature), aarch64: None, defined, presets }
}

const fn aarch64(
    feature: &'static str,
    defined: &'static [Measure],
    presets: &'static [Preset],
) -> Row {
    Row { x86_64: None, aarch64: Some(feature), defined, presets }
}

rows! {
    /// An operation that one instruction does, or a few: what is done, and to what; its name is the
    /// same on every architecture.
    pub enum Operation: Row {
        Nop = "nop" => anywhere(THROUGHPUT, THOROUGH),
        MoveI64 = "move_i64" => anywhere(BOTH, STANDARD),
        AddI64 = "add_i64" => anywhere(BOTH, QUICK_ON),
        SubI64 = "sub_i64" => anywhere(BOTH, THOROUGH),
        AndI64 = "and_i64" => anywhere(BOTH, THOROUGH),
        AddShiftedI64 = "add_shifted_i64" => anywhere(BOTH, STANDARD),
        AddThreeI64 = "add_three_i64" => x86_64("", BOTH, THOROUGH),
        MulI64 = "mul_i64" => anywhere(BOTH, QUICK_ON),
        MulAddI64 = "mul_add_i64" => aarch64("", BOTH, THOROUGH),
        MulWideU64 = "mul_wide_u64" => anywhere(BOTH, STANDARD),
        DivU32 = "div_u32" => anywhere(BOTH, STANDARD),
        DivU64 = "div_u64" => anywhere(BOTH, QUICK_ON),
        ShiftFixedI64 = "shift_fixed_i64" => anywhere(BOTH, STANDARD),
        ShiftCountedI64 = "shift_counted_i64" => anywhere(BOTH, STANDARD),
        ShiftFlaglessI64 = "shift_flagless_i64" => x86_64("bmi2", BOTH, THOROUGH),
        RotateI64 = "rotate_i64" => anywhere(BOTH, STANDARD),
        PopcountI64 = "popcount_i64" => x86_64("popcnt", BOTH, STANDARD),
        LeadingZerosI64 = "leading_zeros_i64" => needs("abm", "", BOTH, STANDARD),
        TrailingZerosI64 = "trailing_zeros_i64" => x86_64("bmi1", BOTH, STANDARD),
        ByteSwapI64 = "byte_swap_i64" => anywhere(BOTH, STANDARD),
        Crc32I64 = "crc32_i64" => needs("sse4_2", "crc32", BOTH, STANDARD),
        SelectI64 = "select_i64" => anywhere(BOTH, STANDARD),
        AddF64 = "add_f64" => anywhere(BOTH, THOROUGH),
        AddF32x4 = "add_f32x4" => anywhere(BOTH, THOROUGH),
        AddF32x8 = "add_f32x8" => x86_64("avx", BOTH, THOROUGH),
        AddF32x16 = "add_f32x16" => x86_64("avx512f", BOTH, THOROUGH),
        AddF64x2 = "add_f64x2" => anywhere(BOTH, STANDARD),
        AddF64x4 = "add_f64x4" => x86_64("avx", BOTH, STANDARD),
        AddF64x8 = "add_f64x8" => x86_64("avx512f", BOTH, THOROUGH),
        MulF64 = "mul_f64" => anywhere(BOTH, THOROUGH),
        MulF32x4 = "mul_f32x4" => anywhere(BOTH, THOROUGH),
        MulF32x8 = "mul_f32x8" => x86_64("avx", BOTH, THOROUGH),
        MulF32x16 = "mul_f32x16" => x86_64("avx512f", BOTH, THOROUGH),
        MulF64x2 = "mul_f64x2" => anywhere(BOTH, THOROUGH),
        MulF64x4 = "mul_f64x4" => x86_64("avx", BOTH, STANDARD),
        MulF64x8 = "mul_f64x8" => x86_64("avx512f", BOTH, THOROUGH),
        FmaF64 = "fma_f64" => needs("fma", "", BOTH, THOROUGH),
        FmaF32x4 = "fma_f32x4" => needs("fma", "", BOTH, STANDARD),
        FmaF32x8 = "fma_f32x8" => x86_64("fma", BOTH, THOROUGH),
        FmaF32x16 = "fma_f32x16" => x86_64("avx512f", BOTH, THOROUGH),
        FmaF64x2 = "fma_f64x2" => needs("fma", "", BOTH, QUICK),
        FmaF64x4 = "fma_f64x4" => x86_64("fma", BOTH, STANDARD),
        FmaF64x8 = "fma_f64x8" => x86_64("avx512f", BOTH, STANDARD),
        DivF64 = "div_f64" => anywhere(BOTH, STANDARD),
        DivF64x4 = "div_f64x4" => x86_64("avx", BOTH, THOROUGH),
        DivF64x8 = "div_f64x8" => x86_64("avx512f", BOTH, THOROUGH),
        SqrtF64 = "sqrt_f64" => anywhere(BOTH, STANDARD),
        AddI32x4 = "add_i32x4" => anywhere(BOTH, THOROUGH),
        AddI32x8 = "add_i32x8" => x86_64("avx2", BOTH, STANDARD),
        AddI32x16 = "add_i32x16" => x86_64("avx512f", BOTH, THOROUGH),
        MulI32x4 = "mul_i32x4" => needs("sse4_1", "", BOTH, THOROUGH),
        MulI32x8 = "mul_i32x8" => x86_64("avx2", BOTH, STANDARD),
        MulI32x16 = "mul_i32x16" => x86_64("avx512f", BOTH, THOROUGH),
        ShuffleI8x16 = "shuffle_i8x16" => x86_64("ssse3", BOTH, THOROUGH),
        ShuffleI8x32 = "shuffle_i8x32" => x86_64("avx2", BOTH, THOROUGH),
        PermuteI32x8 = "permute_i32x8" => x86_64("avx2", BOTH, STANDARD),
        PermuteI32x16 = "permute_i32x16" => x86_64("avx512f", BOTH, THOROUGH),
        GatherI32x8 = "gather_i32x8" => x86_64("avx2", BOTH, STANDARD),
        AesRound = "aes_round" => needs("aes", "aes", BOTH, STANDARD),
        CarrylessMulU64 = "carryless_mul_u64" => needs("pclmulqdq", "pmull", BOTH, THOROUGH),
        ToVectorAndBack = "to_vector_and_back" => anywhere(BOTH, STANDARD),
        LoadI64 = "load_i64" => anywhere(BOTH, QUICK_ON),
        StoreI64 = "store_i64" => anywhere(THROUGHPUT, STANDARD),
        StoreAndLoadI64 = "store_and_load_i64" => anywhere(BOTH, STANDARD),
        PushAndPopI64 = "push_and_pop_i64" => x86_64("", BOTH, THOROUGH),
        ExchangeI64 = "exchange_i64" => needs("", "atomics", BOTH, STANDARD),
        FetchAddI64 = "fetch_add_i64" => needs("", "atomics", BOTH, STANDARD),
        CompareExchangeI64 = "compare_exchange_i64" => needs("", "atomics", BOTH, QUICK_ON),
        LoadStoreExclusiveI64 = "load_store_exclusive_i64" => aarch64("", BOTH, THOROUGH),
        FenceFull = "fence_full" => anywhere(THROUGHPUT, QUICK_ON),
        FenceLoad = "fence_load" => anywhere(THROUGHPUT, STANDARD),
        FenceStore = "fence_store" => anywhere(THROUGHPUT, STANDARD),
        FenceInstruction = "fence_instruction" => aarch64("", THROUGHPUT, THOROUGH),
        SpinHint = "spin_hint" => anywhere(THROUGHPUT, STANDARD),
        BranchTaken = "branch_taken" => anywhere(THROUGHPUT, STANDARD),
        BranchNotTaken = "branch_not_taken" => anywhere(THROUGHPUT, STANDARD),
        BranchMispredicted = "branch_mispredicted" => anywhere(LATENCY, QUICK_ON),
        CallAndReturn = "call_and_return" => anywhere(THROUGHPUT, STANDARD),
    }
}

impl Operation {
    /// The feature that it needs on an architecture; empty for none, `None` where it does not
    /// exist.
    pub fn feature(self, arch: Arch) -> Option<&'static str> {
        match arch {
            Arch::X86_64 => self.row().x86_64,
            Arch::Aarch64 => self.row().aarch64,
        }
    }

    pub fn is_in(self, preset: Preset, arch: Arch) -> bool {
        self.row().presets.contains(&preset)
            && (preset < Preset::Thorough || self.feature(arch).is_some())
    }

    pub fn is_wide(self) -> bool {
        let name = self.text();
        name.ends_with("x16") && !name.contains("i8") || name.ends_with("f64x8")
    }

    /// Whether a core may do it at rename, in no cycle at all.
    pub fn is_renamed_away(self) -> bool {
        matches!(self, Operation::MoveI64 | Operation::StoreAndLoadI64 | Operation::PushAndPopI64)
    }
}
