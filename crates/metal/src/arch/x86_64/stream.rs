//! Bandwidth: loops that do nothing but move an array's words.
//!
//! Each takes three pointers (what is written or else read, and the two
//! sources), the units of an array, how often to pass over it, and 64 bytes of
//! the constant. A unit is a line, or where the stride is R0's the 512 bytes of
//! which one word is touched. A turn moves several units; a second loop moves
//! one at a time what is left of them. All pointers advance alike, without an
//! index register: stores with one keep Haswell to Skylake from using their
//! third address unit. Non-temporal stores are in order when a loop returns.

use core::arch::naked_asm;

use crate::stream::{Access, Code, Kernel, Op, Stores, Width};

/// Moves the pointers of so many arrays.
macro_rules! all {
    (1 $what:literal $by:expr) => {
        concat!($what, " rdi, ", $by)
    };
    (2 $what:literal $by:expr) => {
        concat!($what, " rdi, ", $by, "\n", $what, " rsi, ", $by)
    };
    (3 $what:literal $by:expr) => {
        concat!(
            $what, " rdi, ", $by, "\n", $what, " rsi, ", $by, "\n", $what, " rdx, ", $by
        )
    };
}

/// Units of 2^`$shift` bytes over so many arrays. The step is done for all
/// `\unit` of `$units` and `\word` of `$words`, which make a turn of `$turn`
/// bytes, and for all `\word` of `$single`, which make a unit.
macro_rules! passes {
    ($name:ident, $arrays:tt, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal,
     [$($begin:expr),*], [$($step:expr),*], [$($end:expr),*]) => {
        passes!($name, $arrays, $shift $unit, $turn: $units $words, $single, [$($begin),*], [$($step),*], [$($step),*], [$($end),*]);
    };
    ($name:ident, $arrays:tt, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal,
     [$($begin:expr),*], [$($step:expr),*], [$($alone:expr),*], [$($end:expr),*]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(
            a: *mut u8,
            b: *const u8,
            c: *const u8,
            units: usize,
            passes: usize,
            constant: *const u8,
        ) -> u64 {
            naked_asm!(
                $($begin,)*
                concat!("shl rcx, ", $shift),
                "mov r10, rcx",
                "mov r9, rcx",
                concat!("and r9, -", $turn),
                "add r9, rdi",
                "add rcx, rdi",
                "5:",
                "cmp rdi, r9",
                "je 3f",
                ".p2align 6",
                "2:",
                concat!(".irp unit, ", $units),
                concat!(".irp word, ", $words),
                $($step,)*
                ".endr",
                ".endr",
                all!($arrays "add" $turn),
                "cmp rdi, r9",
                "jne 2b",
                "3:",
                "cmp rdi, rcx",
                "je 4f",
                "6:",
                ".irp unit, 0",
                concat!(".irp word, ", $single),
                $($alone,)*
                ".endr",
                ".endr",
                all!($arrays "add" $unit),
                "cmp rdi, rcx",
                "jne 6b",
                "4:",
                all!($arrays "sub" "r10"),
                "dec r8",
                "jnz 5b",
                $($end,)*
                "ret",
            )
        }
    };
}

/// Eight lines a turn, of words that fill a line.
macro_rules! lines {
    (16: $($rest:tt)*) => {
        line_words!("0, 16, 32, 48", $($rest)*);
    };
    (32: $($rest:tt)*) => {
        line_words!("0, 32", $($rest)*);
    };
    (64: $($rest:tt)*) => {
        line_words!("0", $($rest)*);
    };
}

macro_rules! line_words {
    ($words:literal, $name:ident, $arrays:tt, $($rest:tt)*) => {
        passes!($name, $arrays, 6 64, 512: "0, 64, 128, 192, 256, 320, 384, 448" $words, $words, $($rest)*);
    };
}

/// The loops of a vector width from AVX on, whose instructions name the
/// destination apart. Doubles, and for read and modify 64-bit integers.
macro_rules! avx {
    ($bytes:tt, $word:literal, $constant:literal, $store:literal, $fence:literal:
     $write:ident $copy:ident $scale:ident $add:ident $triad:ident) => {
        lines!($bytes: $write, 1, [avx!(begin $constant)],
            [concat!($store, " [rdi + \\unit + \\word], ", $constant)], [$fence, "vzeroupper"]);
        lines!($bytes: $copy, 2, [], [
            concat!("vmovaps ", $word, ", [rsi + \\unit + \\word]"),
            concat!($store, " [rdi + \\unit + \\word], ", $word)
        ], [$fence, "vzeroupper"]);
        lines!($bytes: $scale, 2, [avx!(begin $constant)], [
            concat!("vmulpd ", $word, ", ", $constant, ", [rsi + \\unit + \\word]"),
            concat!($store, " [rdi + \\unit + \\word], ", $word)
        ], [$fence, "vzeroupper"]);
        lines!($bytes: $add, 3, [], [
            concat!("vmovaps ", $word, ", [rsi + \\unit + \\word]"),
            concat!("vaddpd ", $word, ", ", $word, ", [rdx + \\unit + \\word]"),
            concat!($store, " [rdi + \\unit + \\word], ", $word)
        ], [$fence, "vzeroupper"]);
        lines!($bytes: $triad, 3, [avx!(begin $constant)], [
            concat!("vmovaps ", $word, ", [rdx + \\unit + \\word]"),
            concat!("vfmadd213pd ", $word, ", ", $constant, ", [rsi + \\unit + \\word]"),
            concat!($store, " [rdi + \\unit + \\word], ", $word)
        ], [$fence, "vzeroupper"]);
    };
    (begin $constant:literal) => {
        concat!("vmovups ", $constant, ", [r9]")
    };
}

avx!(32, "ymm0", "ymm15", "vmovaps", "": write_avx2 copy_avx2 scale_avx2 add_avx2 triad_avx2);
avx!(32, "ymm0", "ymm15", "vmovntps", "sfence": write_avx2_nt copy_avx2_nt scale_avx2_nt add_avx2_nt triad_avx2_nt);
avx!(64, "zmm0", "zmm15", "vmovaps", "": write_avx512 copy_avx512 scale_avx512 add_avx512 triad_avx512);
avx!(64, "zmm0", "zmm15", "vmovntps", "sfence": write_avx512_nt copy_avx512_nt scale_avx512_nt add_avx512_nt triad_avx512_nt);

lines!(32: modify_avx2, 1, ["vmovups ymm15, [r9]"], [
    "vpaddq ymm0, ymm15, [rdi + \\unit + \\word]",
    "vmovaps [rdi + \\unit + \\word], ymm0"
], ["vzeroupper"]);
lines!(64: modify_avx512, 1, ["vmovups zmm15, [r9]"], [
    "vpaddq zmm0, zmm15, [rdi + \\unit + \\word]",
    "vmovaps [rdi + \\unit + \\word], zmm0"
], ["vzeroupper"]);

/// The loops of SSE2, whose instructions overwrite an operand.
macro_rules! sse2 {
    ($store:literal, $fence:literal: $write:ident $copy:ident $scale:ident $add:ident $triad:ident) => {
        lines!(16: $write, 1, ["movups xmm15, [r9]"],
            [concat!($store, " [rdi + \\unit + \\word], xmm15")], [$fence]);
        lines!(16: $copy, 2, [], [
            "movaps xmm0, [rsi + \\unit + \\word]",
            concat!($store, " [rdi + \\unit + \\word], xmm0")
        ], [$fence]);
        lines!(16: $scale, 2, ["movups xmm15, [r9]"], [
            "movaps xmm0, [rsi + \\unit + \\word]",
            "mulpd xmm0, xmm15",
            concat!($store, " [rdi + \\unit + \\word], xmm0")
        ], [$fence]);
        lines!(16: $add, 3, [], [
            "movaps xmm0, [rsi + \\unit + \\word]",
            "addpd xmm0, [rdx + \\unit + \\word]",
            concat!($store, " [rdi + \\unit + \\word], xmm0")
        ], [$fence]);
        lines!(16: $triad, 3, ["movups xmm15, [r9]"], [
            "movaps xmm0, [rdx + \\unit + \\word]",
            "mulpd xmm0, xmm15",
            "addpd xmm0, [rsi + \\unit + \\word]",
            concat!($store, " [rdi + \\unit + \\word], xmm0")
        ], [$fence]);
    };
}

sse2!("movaps", "": write_sse2 copy_sse2 scale_sse2 add_sse2 triad_sse2);
sse2!("movntps", "sfence": write_sse2_nt copy_sse2_nt scale_sse2_nt add_sse2_nt triad_sse2_nt);
lines!(16: modify_sse2, 1, ["movups xmm15, [r9]"], [
    "movaps xmm0, [rdi + \\unit + \\word]",
    "paddq xmm0, xmm15",
    "movaps [rdi + \\unit + \\word], xmm0"
], []);

// Sums in eight chains, of which each word's register is one.
passes!(read_sse2, 1, 6 64, 512: "0, 128, 256, 384" "0, 1, 2, 3, 4, 5, 6, 7", "0, 1, 2, 3",
    [".irp chain, 0, 1, 2, 3, 4, 5, 6, 7", "pxor xmm\\chain, xmm\\chain", ".endr"],
    ["paddq xmm\\word, [rdi + \\unit + 16 * \\word]"], [
    ".irp chain, 1, 2, 3, 4, 5, 6, 7", "paddq xmm0, xmm\\chain", ".endr",
    "movhlps xmm1, xmm0",
    "paddq xmm0, xmm1",
    "movq rax, xmm0"
]);
passes!(read_avx2, 1, 6 64, 512: "0, 256" "0, 1, 2, 3, 4, 5, 6, 7", "0, 1",
    [".irp chain, 0, 1, 2, 3, 4, 5, 6, 7", "vpxor xmm\\chain, xmm\\chain, xmm\\chain", ".endr"],
    ["vpaddq ymm\\word, ymm\\word, [rdi + \\unit + 32 * \\word]"], [
    ".irp chain, 1, 2, 3, 4, 5, 6, 7", "vpaddq ymm0, ymm0, ymm\\chain", ".endr",
    "vextracti128 xmm1, ymm0, 1",
    "vpaddq xmm0, xmm0, xmm1",
    "vmovhlps xmm1, xmm0, xmm0",
    "vpaddq xmm0, xmm0, xmm1",
    "vmovq rax, xmm0",
    "vzeroupper"
]);
passes!(read_avx512, 1, 6 64, 512: "0" "0, 1, 2, 3, 4, 5, 6, 7", "0",
    [".irp chain, 0, 1, 2, 3, 4, 5, 6, 7", "vpxor xmm\\chain, xmm\\chain, xmm\\chain", ".endr"],
    ["vpaddq zmm\\word, zmm\\word, [rdi + \\unit + 64 * \\word]"], [
    ".irp chain, 1, 2, 3, 4, 5, 6, 7", "vpaddq zmm0, zmm0, zmm\\chain", ".endr",
    "vextracti64x4 ymm1, zmm0, 1",
    "vpaddq ymm0, ymm0, ymm1",
    "vextracti128 xmm1, ymm0, 1",
    "vpaddq xmm0, xmm0, xmm1",
    "vmovhlps xmm1, xmm0, xmm0",
    "vpaddq xmm0, xmm0, xmm1",
    "vmovq rax, xmm0",
    "vzeroupper"
]);

/// Stores a scalar. There is a non-temporal store of general registers, none of
/// scalars in vector registers.
macro_rules! stored {
    ("movnti" $move:literal $single:literal $integer:literal) => {
        concat!(
            $move,
            " ",
            $integer,
            ", xmm0\nmovnti [rdi + \\unit + \\word], ",
            $integer
        )
    };
    ("mov" $move:literal $single:literal $integer:literal) => {
        concat!($single, " [rdi + \\unit + \\word], xmm0")
    };
}

/// The loops of a scalar width over words at the displacements that `$shape`
/// stands for, by the names of the general register and of the instructions.
macro_rules! scalar {
    ($shape:ident $size:tt, $word:literal, $integer:literal, $single:literal, $multiply:literal, $sum:literal, $store:tt $move:literal, $fence:literal:
     $write:ident $copy:ident $scale:ident $add:ident $triad:ident) => {
        $shape!($size: $write, 1, [concat!("mov ", $integer, ", [r9]")],
            [concat!($store, " [rdi + \\unit + \\word], ", $integer)], [$fence]);
        $shape!($size: $copy, 2, [], [
            concat!("mov ", $integer, ", [rsi + \\unit + \\word]"),
            concat!($store, " [rdi + \\unit + \\word], ", $integer)
        ], [$fence]);
        $shape!($size: $scale, 2, [concat!($single, " xmm15, [r9]")], [
            concat!($single, " xmm0, [rsi + \\unit + \\word]"),
            concat!($multiply, " xmm0, xmm15"),
            stored!($store $move $single $integer)
        ], [$fence]);
        $shape!($size: $add, 3, [], [
            concat!($single, " xmm0, [rsi + \\unit + \\word]"),
            concat!($sum, " xmm0, ", $word, " ptr [rdx + \\unit + \\word]"),
            stored!($store $move $single $integer)
        ], [$fence]);
        $shape!($size: $triad, 3, [concat!($single, " xmm15, [r9]")], [
            concat!($single, " xmm0, [rdx + \\unit + \\word]"),
            concat!($multiply, " xmm0, xmm15"),
            concat!($sum, " xmm0, ", $word, " ptr [rsi + \\unit + \\word]"),
            stored!($store $move $single $integer)
        ], [$fence]);
    };
}

/// Every word of four lines a turn.
macro_rules! every {
    (4: $name:ident, $arrays:tt, $($rest:tt)*) => {
        passes!($name, $arrays, 6 64, 256: "0, 64, 128, 192"
            "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60",
            "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60", $($rest)*);
    };
    (8: $name:ident, $arrays:tt, $($rest:tt)*) => {
        passes!($name, $arrays, 6 64, 256: "0, 64, 128, 192"
            "0, 8, 16, 24, 32, 40, 48, 56", "0, 8, 16, 24, 32, 40, 48, 56", $($rest)*);
    };
}

/// The first word of each of 32 lines a turn, as R1.
macro_rules! first {
    ($size:tt: $name:ident, $arrays:tt, $($rest:tt)*) => {
        passes!($name, $arrays, 6 64, 2048: "0, 512, 1024, 1536"
            "0, 64, 128, 192, 256, 320, 384, 448", "0", $($rest)*);
    };
}

/// One word in 512 bytes, eight a turn.
macro_rules! strided {
    ($size:tt: $name:ident, $arrays:tt, $($rest:tt)*) => {
        passes!($name, $arrays, 9 512, 4096: "0, 2048"
            "0, 512, 1024, 1536", "0", $($rest)*);
    };
}

macro_rules! scalar4 {
    ($shape:ident, $store:tt, $fence:literal: $($names:ident)*) => {
        scalar!($shape 4, "dword", "eax", "movss", "mulss", "addss", $store "movd", $fence: $($names)*);
    };
}

macro_rules! scalar8 {
    ($shape:ident, $store:tt, $fence:literal: $($names:ident)*) => {
        scalar!($shape 8, "qword", "rax", "movsd", "mulsd", "addsd", $store "movq", $fence: $($names)*);
    };
}

scalar4!(every, "mov", "": write_4 copy_4 scale_4 add_4 triad_4);
scalar8!(every, "mov", "": write_8 copy_8 scale_8 add_8 triad_8);
scalar4!(every, "movnti", "sfence": write_4_nt copy_4_nt scale_4_nt add_4_nt triad_4_nt);
scalar8!(every, "movnti", "sfence": write_8_nt copy_8_nt scale_8_nt add_8_nt triad_8_nt);
scalar4!(first, "mov", "": write_4_first copy_4_first scale_4_first add_4_first triad_4_first);
scalar8!(first, "mov", "": write_8_first copy_8_first scale_8_first add_8_first triad_8_first);
scalar4!(strided, "mov", "": write_4_strided copy_4_strided scale_4_strided add_4_strided triad_4_strided);
scalar8!(strided, "mov", "": write_8_strided copy_8_strided scale_8_strided add_8_strided triad_8_strided);

/// Addition to every word in memory.
macro_rules! modify {
    ($shape:ident $size:tt $integer:literal: $name:ident) => {
        $shape!($size: $name, 1, [concat!("mov ", $integer, ", [r9]")],
            [concat!("add [rdi + \\unit + \\word], ", $integer)], []);
    };
}

modify!(every 4 "eax": modify_4);
modify!(every 8 "rax": modify_8);
modify!(first 4 "eax": modify_4_first);
modify!(first 8 "rax": modify_8_first);
modify!(strided 4 "eax": modify_4_strided);
modify!(strided 8 "rax": modify_8_strided);

/// The sum in four chains of words `$apart` bytes apart; a unit that is one
/// word goes to the first.
macro_rules! read {
    ($name:ident $apart:literal, $a:literal $b:literal $c:literal $d:literal, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal) => {
        passes!($name, 1, $shift $unit, $turn: $units $words, $single,
            ["xor eax, eax", "xor esi, esi", "xor edx, edx", "xor r11d, r11d"], [
            concat!("add ", $a, ", [rdi + \\unit + \\word]"),
            concat!("add ", $b, ", [rdi + \\unit + \\word + ", $apart, "]"),
            concat!("add ", $c, ", [rdi + \\unit + \\word + 2 * ", $apart, "]"),
            concat!("add ", $d, ", [rdi + \\unit + \\word + 3 * ", $apart, "]")
        ], [
            concat!("add ", $a, ", [rdi + \\unit + \\word]")
        ], [
            concat!("add ", $a, ", ", $b),
            concat!("add ", $c, ", ", $d),
            concat!("add ", $a, ", ", $c)
        ]);
    };
}

/// All shapes of reading at a scalar width, with every word of a line.
macro_rules! reads {
    ($apart:literal, $a:literal $b:literal $c:literal $d:literal, $fours:literal, $line:literal: $every:ident $first:ident $strided:ident) => {
        read!($every $apart, $a $b $c $d, 6 64, 256: "0, 64, 128, 192" $fours, $line);
        read!($first 64, $a $b $c $d, 6 64, 2048: "0, 1024" "0, 256, 512, 768", "0");
        read!($strided 512, $a $b $c $d, 9 512, 4096: "0" "0, 2048", "0");
    };
}

reads!(4, "eax" "esi" "edx" "r11d", "0, 16, 32, 48",
    "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60":
    read_4 read_4_first read_4_strided);
reads!(8, "rax" "rsi" "rdx" "r11", "0, 32", "0, 8, 16, 24, 32, 40, 48, 56":
    read_8 read_8_first read_8_strided);

/// A kernel's loop; none where this architecture has none or this processor
/// (or its operating system, which keeps the registers) lacks its instructions.
pub(crate) fn stream_code(kernel: Kernel) -> Option<Code> {
    let has = match kernel.width {
        Width::Word4 | Width::Word8 | Width::Sse2 => true,
        Width::Avx2 => {
            std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma")
        }
        Width::Avx512 => std::is_x86_feature_detected!("avx512f"),
        Width::Neon => false,
    };
    written(kernel).filter(|_| has)
}

/// A kernel's code, whether or not this processor can run it.
pub(super) fn written(kernel: Kernel) -> Option<Code> {
    match (kernel.access, kernel.stores) {
        (Access::Every, Stores::Regular) => every(kernel.op, kernel.width),
        (Access::Every, Stores::NonTemporal) => non_temporal(kernel.op, kernel.width),
        (Access::First, Stores::Regular) => first(kernel.op, kernel.width),
        (Access::Strided, Stores::Regular) => strided(kernel.op, kernel.width),
        (Access::First | Access::Strided, Stores::NonTemporal) => None,
    }
}

fn every(op: Op, width: Width) -> Option<Code> {
    use Op::{Add, Copy, Modify, Read, Scale, Triad, Write};
    Some(match (width, op) {
        (Width::Word4, Read) => read_4,
        (Width::Word4, Write) => write_4,
        (Width::Word4, Modify) => modify_4,
        (Width::Word4, Copy) => copy_4,
        (Width::Word4, Scale) => scale_4,
        (Width::Word4, Add) => add_4,
        (Width::Word4, Triad) => triad_4,
        (Width::Word8, Read) => read_8,
        (Width::Word8, Write) => write_8,
        (Width::Word8, Modify) => modify_8,
        (Width::Word8, Copy) => copy_8,
        (Width::Word8, Scale) => scale_8,
        (Width::Word8, Add) => add_8,
        (Width::Word8, Triad) => triad_8,
        (Width::Sse2, Read) => read_sse2,
        (Width::Sse2, Write) => write_sse2,
        (Width::Sse2, Modify) => modify_sse2,
        (Width::Sse2, Copy) => copy_sse2,
        (Width::Sse2, Scale) => scale_sse2,
        (Width::Sse2, Add) => add_sse2,
        (Width::Sse2, Triad) => triad_sse2,
        (Width::Avx2, Read) => read_avx2,
        (Width::Avx2, Write) => write_avx2,
        (Width::Avx2, Modify) => modify_avx2,
        (Width::Avx2, Copy) => copy_avx2,
        (Width::Avx2, Scale) => scale_avx2,
        (Width::Avx2, Add) => add_avx2,
        (Width::Avx2, Triad) => triad_avx2,
        (Width::Avx512, Read) => read_avx512,
        (Width::Avx512, Write) => write_avx512,
        (Width::Avx512, Modify) => modify_avx512,
        (Width::Avx512, Copy) => copy_avx512,
        (Width::Avx512, Scale) => scale_avx512,
        (Width::Avx512, Add) => add_avx512,
        (Width::Avx512, Triad) => triad_avx512,
        _ => return None,
    })
}

fn non_temporal(op: Op, width: Width) -> Option<Code> {
    use Op::{Add, Copy, Scale, Triad, Write};
    Some(match (width, op) {
        (Width::Word4, Write) => write_4_nt,
        (Width::Word4, Copy) => copy_4_nt,
        (Width::Word4, Scale) => scale_4_nt,
        (Width::Word4, Add) => add_4_nt,
        (Width::Word4, Triad) => triad_4_nt,
        (Width::Word8, Write) => write_8_nt,
        (Width::Word8, Copy) => copy_8_nt,
        (Width::Word8, Scale) => scale_8_nt,
        (Width::Word8, Add) => add_8_nt,
        (Width::Word8, Triad) => triad_8_nt,
        (Width::Sse2, Write) => write_sse2_nt,
        (Width::Sse2, Copy) => copy_sse2_nt,
        (Width::Sse2, Scale) => scale_sse2_nt,
        (Width::Sse2, Add) => add_sse2_nt,
        (Width::Sse2, Triad) => triad_sse2_nt,
        (Width::Avx2, Write) => write_avx2_nt,
        (Width::Avx2, Copy) => copy_avx2_nt,
        (Width::Avx2, Scale) => scale_avx2_nt,
        (Width::Avx2, Add) => add_avx2_nt,
        (Width::Avx2, Triad) => triad_avx2_nt,
        (Width::Avx512, Write) => write_avx512_nt,
        (Width::Avx512, Copy) => copy_avx512_nt,
        (Width::Avx512, Scale) => scale_avx512_nt,
        (Width::Avx512, Add) => add_avx512_nt,
        (Width::Avx512, Triad) => triad_avx512_nt,
        _ => return None,
    })
}

fn first(op: Op, width: Width) -> Option<Code> {
    use Op::{Add, Copy, Modify, Read, Scale, Triad, Write};
    Some(match (width, op) {
        (Width::Word4, Read) => read_4_first,
        (Width::Word4, Write) => write_4_first,
        (Width::Word4, Modify) => modify_4_first,
        (Width::Word4, Copy) => copy_4_first,
        (Width::Word4, Scale) => scale_4_first,
        (Width::Word4, Add) => add_4_first,
        (Width::Word4, Triad) => triad_4_first,
        (Width::Word8, Read) => read_8_first,
        (Width::Word8, Write) => write_8_first,
        (Width::Word8, Modify) => modify_8_first,
        (Width::Word8, Copy) => copy_8_first,
        (Width::Word8, Scale) => scale_8_first,
        (Width::Word8, Add) => add_8_first,
        (Width::Word8, Triad) => triad_8_first,
        _ => return None,
    })
}

fn strided(op: Op, width: Width) -> Option<Code> {
    use Op::{Add, Copy, Modify, Read, Scale, Triad, Write};
    Some(match (width, op) {
        (Width::Word4, Read) => read_4_strided,
        (Width::Word4, Write) => write_4_strided,
        (Width::Word4, Modify) => modify_4_strided,
        (Width::Word4, Copy) => copy_4_strided,
        (Width::Word4, Scale) => scale_4_strided,
        (Width::Word4, Add) => add_4_strided,
        (Width::Word4, Triad) => triad_4_strided,
        (Width::Word8, Read) => read_8_strided,
        (Width::Word8, Write) => write_8_strided,
        (Width::Word8, Modify) => modify_8_strided,
        (Width::Word8, Copy) => copy_8_strided,
        (Width::Word8, Scale) => scale_8_strided,
        (Width::Word8, Add) => add_8_strided,
        (Width::Word8, Triad) => triad_8_strided,
        _ => return None,
    })
}
