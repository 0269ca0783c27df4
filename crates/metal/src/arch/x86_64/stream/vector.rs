//! Loops of vectors, of every byte.
//!
//! Eight lines a turn, 16 where they are only read. What is read is loaded and
//! no more: an addition to each load takes longer than the loads where the
//! first level delivers two 64-byte words a cycle. 16 registers hold the last
//! words that were loaded, and the sum of their quadwords is returned.
//!
//! The loops that look ahead prefetch 512 bytes before they load, and with the intent to write 512
//! bytes before they store. For stores past the caches, or without stores, it is 1 KiB, into the
//! second level.

use crate::stream::{Code, Op};

/// What is done to a word, by the form of the instructions (`legacy` ones overwrite an operand) and
/// the names of the register, the constant and the instruction that stores.
macro_rules! step {
    ($form:ident Write $word:literal $constant:literal $store:literal) => {
        concat!($store, " [rdi + \\unit + \\word], ", $constant)
    };
    ($form:ident $op:ident $word:literal $constant:literal $store:literal) => {
        concat!(
            step!($form $op $word $constant), "\n",
            $store, " [rdi + \\unit + \\word], ", $word
        )
    };
    (legacy Modify $word:literal $constant:literal) => {
        concat!(
            "movaps ", $word, ", [rdi + \\unit + \\word]\n",
            "paddq ", $word, ", ", $constant
        )
    };
    (legacy Copy $word:literal $constant:literal) => {
        concat!("movaps ", $word, ", [rsi + \\unit + \\word]")
    };
    (legacy Scale $word:literal $constant:literal) => {
        concat!(
            "movaps ", $word, ", [rsi + \\unit + \\word]\n",
            "mulpd ", $word, ", ", $constant
        )
    };
    (legacy Add $word:literal $constant:literal) => {
        concat!(
            "movaps ", $word, ", [rsi + \\unit + \\word]\n",
            "addpd ", $word, ", [rdx + \\unit + \\word]"
        )
    };
    (legacy Triad $word:literal $constant:literal) => {
        concat!(
            "movaps ", $word, ", [rdx + \\unit + \\word]\n",
            "mulpd ", $word, ", ", $constant, "\n",
            "addpd ", $word, ", [rsi + \\unit + \\word]"
        )
    };
    (vex Modify $word:literal $constant:literal) => {
        concat!("vpaddq ", $word, ", ", $constant, ", [rdi + \\unit + \\word]")
    };
    (vex Copy $word:literal $constant:literal) => {
        concat!("vmovaps ", $word, ", [rsi + \\unit + \\word]")
    };
    (vex Scale $word:literal $constant:literal) => {
        concat!("vmulpd ", $word, ", ", $constant, ", [rsi + \\unit + \\word]")
    };
    (vex Add $word:literal $constant:literal) => {
        concat!(
            "vmovaps ", $word, ", [rsi + \\unit + \\word]\n",
            "vaddpd ", $word, ", ", $word, ", [rdx + \\unit + \\word]"
        )
    };
    (vex Triad $word:literal $constant:literal) => {
        concat!(
            "vmovaps ", $word, ", [rdx + \\unit + \\word]\n",
            "vfmadd213pd ", $word, ", ", $constant, ", [rsi + \\unit + \\word]"
        )
    };
}

/// The function that finds the loops over lines whose words are at `$words`, which look ahead as
/// said; `$first` are rows of its own.
macro_rules! lines {
    ($name:ident, $words:literal $form:ident $word:literal $constant:literal $store:literal, $begin:literal $end:literal,
     [$($first:pat => $found:expr),*], $($op:ident $arrays:tt $ahead:pat, [$($prefetch:literal),*];)*) => {
        pub(super) fn $name(op: Op, ahead: bool) -> Option<Code> {
            match (op, ahead) {
                $($first => $found,)*
                $((Op::$op, $ahead) => {
                    passes!(run, $arrays, 6 64, 512: "0, 64, 128, 192, 256, 320, 384, 448" $words, $words,
                        begin [concat!($begin, " ", $constant, ", [r9]")],
                        ahead [$(concat!($prefetch, " + \\unit]")),*],
                        step [step!($form $op $word $constant $store)],
                        alone [step!($form $op $word $constant $store)],
                        end [$end]);
                    Some(run)
                })*
            }
        }
    };
}

/// A width with regular stores.
macro_rules! regular {
    ($name:ident $read:ident $read_ahead:ident, $($how:tt)*) => {
        lines!($name, $($how)*,
            [(Op::Read, false) => Some($read), (Op::Read, true) => Some($read_ahead)],
            Write 1 false, [];
            Write 1 true, ["prefetchw [rdi + 512"];
            Modify 1 false, [];
            Modify 1 true, ["prefetchw [rdi + 1024"];
            Copy 2 false, [];
            Copy 2 true, ["prefetcht0 [rsi + 512", "prefetchw [rdi + 512"];
            Scale 2 false, [];
            Scale 2 true, ["prefetcht0 [rsi + 512", "prefetchw [rdi + 512"];
            Add 3 false, [];
            Add 3 true, ["prefetcht0 [rsi + 512", "prefetcht0 [rdx + 512", "prefetchw [rdi + 512"];
            Triad 3 false, [];
            Triad 3 true, ["prefetcht0 [rsi + 512", "prefetcht0 [rdx + 512", "prefetchw [rdi + 512"];
        );
    };
}

/// A width with stores past the caches, of the operations that store what they have not loaded from
/// there.
macro_rules! non_temporal {
    ($name:ident, $($how:tt)*) => {
        lines!($name, $($how)*,
            [(Op::Read | Op::Modify, _) => None],
            Write 1 _, [];
            Copy 2 false, [];
            Copy 2 true, ["prefetcht1 [rsi + 1024"];
            Scale 2 false, [];
            Scale 2 true, ["prefetcht1 [rsi + 1024"];
            Add 3 false, [];
            Add 3 true, ["prefetcht1 [rsi + 1024", "prefetcht1 [rdx + 1024"];
            Triad 3 false, [];
            Triad 3 true, ["prefetcht1 [rsi + 1024", "prefetcht1 [rdx + 1024"];
        );
    };
}

regular!(sse2 read_sse2 read_sse2_ahead, "0, 16, 32, 48" legacy "xmm0" "xmm15" "movaps", "movups" "");
regular!(avx2 read_avx2 read_avx2_ahead, "0, 32" vex "ymm0" "ymm15" "vmovaps", "vmovups" "vzeroupper");
regular!(avx512 read_avx512 read_avx512_ahead, "0" vex "zmm0" "zmm15" "vmovaps", "vmovups" "vzeroupper");
non_temporal!(sse2_past, "0, 16, 32, 48" legacy "xmm0" "xmm15" "movntps", "movups" "sfence");
non_temporal!(avx2_past, "0, 32" vex "ymm0" "ymm15" "vmovntps", "vmovups" "sfence\nvzeroupper");
non_temporal!(avx512_past, "0" vex "zmm0" "zmm15" "vmovntps", "vmovups" "sfence\nvzeroupper");

/// The loops that read: 16 registers in turn, by their size. `$single` are the registers of a line.
macro_rules! read {
    ($name:ident [$($ahead:literal),*], $units:literal, $single:literal, $clear:expr, $load:expr, [$($sum:expr),*]) => {
        passes!($name, 1, 6 64, 1024: $units "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15", $single,
            begin [".irp word, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15", $clear, ".endr"],
            ahead [$($ahead),*], step [$load], alone [$load],
            end [$($sum),*]);
    };
    (sse2 $name:ident $ahead:tt) => {
        read!($name $ahead, "0, 256, 512, 768", "0, 1, 2, 3",
            "pxor xmm\\word, xmm\\word",
            "movaps xmm\\word, [rdi + \\unit + 16 * \\word]", [
            ".irp word, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "paddq xmm0, xmm\\word",
            ".endr",
            "movhlps xmm1, xmm0",
            "paddq xmm0, xmm1",
            "movq rax, xmm0"
        ]);
    };
    (avx2 $name:ident $ahead:tt) => {
        read!($name $ahead, "0, 512", "0, 1",
            "vpxor xmm\\word, xmm\\word, xmm\\word",
            "vmovaps ymm\\word, [rdi + \\unit + 32 * \\word]", [
            ".irp word, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "vpaddq ymm0, ymm0, ymm\\word",
            ".endr",
            "vextracti128 xmm1, ymm0, 1",
            "vpaddq xmm0, xmm0, xmm1",
            "vpsrldq xmm1, xmm0, 8",
            "vpaddq xmm0, xmm0, xmm1",
            "vmovq rax, xmm0",
            "vzeroupper"
        ]);
    };
    (avx512 $name:ident $ahead:tt) => {
        read!($name $ahead, "0", "0",
            "vpxor xmm\\word, xmm\\word, xmm\\word",
            "vmovaps zmm\\word, [rdi + \\unit + 64 * \\word]", [
            ".irp word, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "vpaddq zmm0, zmm0, zmm\\word",
            ".endr",
            "vextracti64x4 ymm1, zmm0, 1",
            "vpaddq ymm0, ymm0, ymm1",
            "vextracti128 xmm1, ymm0, 1",
            "vpaddq xmm0, xmm0, xmm1",
            "vpsrldq xmm1, xmm0, 8",
            "vpaddq xmm0, xmm0, xmm1",
            "vmovq rax, xmm0",
            "vzeroupper"
        ]);
    };
}

read!(sse2 read_sse2 []);
read!(sse2 read_sse2_ahead [".irp line, 0, 64, 128, 192\nprefetcht1 [rdi + \\unit + \\line + 1024]\n.endr"]);
read!(avx2 read_avx2 []);
read!(avx2 read_avx2_ahead [".irp line, 0, 64, 128, 192, 256, 320, 384, 448\nprefetcht1 [rdi + \\unit + \\line + 1024]\n.endr"]);
read!(avx512 read_avx512 []);
read!(avx512 read_avx512_ahead [".irp line, 0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960\nprefetcht1 [rdi + \\line + 1024]\n.endr"]);
