//! Bandwidth: loops that do nothing but move an array's words.
//!
//! Each takes three pointers (what is written or else read, and the two sources), the units of an
//! array, how often to pass over it, and 64 bytes of the constant. A unit is a line, or with R0's
//! stride the 512 bytes in which one word is touched. A turn moves several units; a second loop
//! moves one at a time what is left of them. Vectors go in pairs of registers, and so do stores
//! past the caches, which exist only in pairs. No loop prefetches: x86-64's distances say nothing
//! here.

use core::arch::naked_asm;

use crate::stream::{Access, Ahead, Code, Kernel, Op, Stores, Width};

/// Moves the pointers of so many arrays.
macro_rules! all {
    (1 $what:literal $by:expr) => {
        concat!($what, " x0, x0, ", $by)
    };
    (2 $what:literal $by:expr) => {
        concat!($what, " x0, x0, ", $by, "\n", $what, " x1, x1, ", $by)
    };
    (3 $what:literal $by:expr) => {
        concat!(all!(2 $what $by), "\n", $what, " x2, x2, ", $by)
    };
}

/// Units of 2^`$shift` bytes over so many arrays. `$step` is done for all
/// `\unit` of `$units` and `\word` of `$words`, which make a turn of `$turn`
/// bytes; `$alone` is done for all `\word` of `$single`, which make a unit.
macro_rules! passes {
    ($name:ident, $arrays:tt, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal,
     begin [$($begin:expr),*], step [$($step:expr),*], alone [$($alone:expr),*], end [$($end:expr),*]) => {
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
                concat!("lsl x6, x3, #", $shift),
                concat!("and x7, x6, #-", $turn),
                "add x7, x7, x0",
                "add x8, x6, x0",
                "5:",
                "cmp x0, x7",
                "b.eq 3f",
                ".p2align 6",
                "2:",
                concat!(".irp unit, ", $units),
                concat!(".irp word, ", $words),
                $($step,)*
                ".endr",
                ".endr",
                all!($arrays "add" concat!("#", $turn)),
                "cmp x0, x7",
                "b.ne 2b",
                "3:",
                "cmp x0, x8",
                "b.eq 4f",
                "6:",
                ".irp unit, 0",
                concat!(".irp word, ", $single),
                $($alone,)*
                ".endr",
                ".endr",
                all!($arrays "add" concat!("#", $unit)),
                "cmp x0, x8",
                "b.ne 6b",
                "4:",
                all!($arrays "sub" "x6"),
                "subs x4, x4, #1",
                "b.ne 5b",
                $($end,)*
                "ret",
            )
        }
    };
}

/// The function that finds the loops of `$shape`, which are in it: rows of an operation, the arrays
/// that it names, what is done before, and for each word; `$own` are rows of their own.
macro_rules! loops {
    ($find:ident, $shape:ident $size:tt, [$($own:pat => $found:expr),*]: $($op:ident $arrays:tt $begin:tt $step:tt;)*) => {
        fn $find(op: Op) -> Option<Code> {
            match op {
                $($own => $found,)*
                $(Op::$op => {
                    $shape!($size: run, $arrays, $begin, $step);
                    Some(run)
                })*
            }
        }
    };
}

/// Every byte of eight lines a turn, in pairs of vectors.
macro_rules! pairs {
    (16: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        passes!($name, $arrays, 6 64, 512: "0, 64, 128, 192, 256, 320, 384, 448" "0, 32", "0, 32",
            begin $begin, step $step, alone $step, end []);
    };
}

/// Every word of four lines a turn; `pair`: two at a time.
macro_rules! every {
    (4: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        every!(of "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60",
            $name, $arrays, $begin, $step);
    };
    (8: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        every!(of "0, 8, 16, 24, 32, 40, 48, 56", $name, $arrays, $begin, $step);
    };
    (4 pair: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        every!(of "0, 8, 16, 24, 32, 40, 48, 56", $name, $arrays, $begin, $step);
    };
    (8 pair: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        every!(of "0, 16, 32, 48", $name, $arrays, $begin, $step);
    };
    (of $words:literal, $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        passes!($name, $arrays, 6 64, 256: "0, 64, 128, 192" $words, $words,
            begin $begin, step $step, alone $step, end []);
    };
}

macro_rules! every_pair {
    ($size:tt: $($rest:tt)*) => {
        every!($size pair: $($rest)*);
    };
}

/// The first word of each of 32 lines a turn, as R1.
macro_rules! first {
    ($size:tt: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        passes!($name, $arrays, 6 64, 2048: "0, 512, 1024, 1536"
            "0, 64, 128, 192, 256, 320, 384, 448", "0",
            begin $begin, step $step, alone $step, end []);
    };
}

/// One word in 512 bytes, eight a turn.
macro_rules! strided {
    ($size:tt: $name:ident, $arrays:tt, $begin:tt, $step:tt) => {
        passes!($name, $arrays, 9 512, 4096: "0, 2048" "0, 512, 1024, 1536", "0",
            begin $begin, step $step, alone $step, end []);
    };
}

macro_rules! neon {
    ($find:ident $store:literal: $($own:pat => $found:expr),*) => {
        loops!($find, pairs 16, [$($own => $found),*]:
            Write 1 ["ldr q31, [x5]"] [
                concat!($store, " q31, q31, [x0, #\\unit + \\word]")
            ];
            Copy 2 [] [
                "ldp q0, q1, [x1, #\\unit + \\word]",
                concat!($store, " q0, q1, [x0, #\\unit + \\word]")
            ];
            Scale 2 ["ldr q31, [x5]"] [
                "ldp q0, q1, [x1, #\\unit + \\word]",
                "fmul v0.2d, v0.2d, v31.2d",
                "fmul v1.2d, v1.2d, v31.2d",
                concat!($store, " q0, q1, [x0, #\\unit + \\word]")
            ];
            Add 3 [] [
                "ldp q0, q1, [x1, #\\unit + \\word]",
                "ldp q2, q3, [x2, #\\unit + \\word]",
                "fadd v0.2d, v0.2d, v2.2d",
                "fadd v1.2d, v1.2d, v3.2d",
                concat!($store, " q0, q1, [x0, #\\unit + \\word]")
            ];
            Triad 3 ["ldr q31, [x5]"] [
                "ldp q0, q1, [x1, #\\unit + \\word]",
                "ldp q2, q3, [x2, #\\unit + \\word]",
                "fmla v0.2d, v2.2d, v31.2d",
                "fmla v1.2d, v3.2d, v31.2d",
                concat!($store, " q0, q1, [x0, #\\unit + \\word]")
            ];
        );
    };
}

neon!(neon "stp": Op::Read => Some(read_neon), Op::Modify => Some(modify_neon));
neon!(neon_past "stnp": Op::Read | Op::Modify => None);
pairs!(16: modify_neon, 1, ["ldr q31, [x5]"], [
    "ldp q0, q1, [x0, #\\unit + \\word]",
    "add v0.2d, v0.2d, v31.2d",
    "add v1.2d, v1.2d, v31.2d",
    "stp q0, q1, [x0, #\\unit + \\word]"
]);

// What is read is only loaded; 16 registers hold the last words, and the sum of their
// doublewords is returned. The low halves of v8 to v15 are the caller's.
passes!(read_neon, 1, 6 64, 1024: "0, 256, 512, 768" "0", "0",
begin [
    ".irp word, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
    "movi v\\word\\().2d, #0",
    ".endr"
],
step [
    "ldp q0, q1, [x0, #\\unit]",
    "ldp q2, q3, [x0, #\\unit + 32]",
    "ldp q4, q5, [x0, #\\unit + 64]",
    "ldp q6, q7, [x0, #\\unit + 96]",
    "ldp q16, q17, [x0, #\\unit + 128]",
    "ldp q18, q19, [x0, #\\unit + 160]",
    "ldp q20, q21, [x0, #\\unit + 192]",
    "ldp q22, q23, [x0, #\\unit + 224]"
],
alone ["ldp q0, q1, [x0]", "ldp q2, q3, [x0, #32]"],
end [
    ".irp word, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
    "add v0.2d, v0.2d, v\\word\\().2d",
    ".endr",
    "addp d0, v0.2d",
    "fmov x0, d0"
]);

/// Single words, by the names of a general and of a vector register.
macro_rules! scalar {
    ($find:ident, $shape:ident $size:tt $x:literal $d:literal, $read:ident) => {
        loops!($find, $shape $size, [Op::Read => Some($read)]:
            Write 1 [concat!("ldr ", $x, "9, [x5]")] [
                concat!("str ", $x, "9, [x0, #\\unit + \\word]")
            ];
            Modify 1 [concat!("ldr ", $x, "10, [x5]")] [
                concat!("ldr ", $x, "9, [x0, #\\unit + \\word]"),
                concat!("add ", $x, "9, ", $x, "9, ", $x, "10"),
                concat!("str ", $x, "9, [x0, #\\unit + \\word]")
            ];
            Copy 2 [] [
                concat!("ldr ", $x, "9, [x1, #\\unit + \\word]"),
                concat!("str ", $x, "9, [x0, #\\unit + \\word]")
            ];
            Scale 2 [concat!("ldr ", $d, "31, [x5]")] [
                concat!("ldr ", $d, "0, [x1, #\\unit + \\word]"),
                concat!("fmul ", $d, "0, ", $d, "0, ", $d, "31"),
                concat!("str ", $d, "0, [x0, #\\unit + \\word]")
            ];
            Add 3 [] [
                concat!("ldr ", $d, "0, [x1, #\\unit + \\word]"),
                concat!("ldr ", $d, "1, [x2, #\\unit + \\word]"),
                concat!("fadd ", $d, "0, ", $d, "0, ", $d, "1"),
                concat!("str ", $d, "0, [x0, #\\unit + \\word]")
            ];
            Triad 3 [concat!("ldr ", $d, "31, [x5]")] [
                concat!("ldr ", $d, "0, [x1, #\\unit + \\word]"),
                concat!("ldr ", $d, "1, [x2, #\\unit + \\word]"),
                concat!("fmadd ", $d, "0, ", $d, "1, ", $d, "31, ", $d, "0"),
                concat!("str ", $d, "0, [x0, #\\unit + \\word]")
            ];
        );
    };
}

scalar!(every_4, every 4 "w" "s", read_4);
scalar!(every_8, every 8 "x" "d", read_8);
scalar!(first_4, first 4 "w" "s", read_4_first);
scalar!(first_8, first 8 "x" "d", read_8_first);
scalar!(strided_4, strided 4 "w" "s", read_4_strided);
scalar!(strided_8, strided 8 "x" "d", read_8_strided);

/// Words past the caches, two at a time, `$bytes` each.
macro_rules! scalar_past {
    ($find:ident, $size:tt $x:literal $d:literal) => {
        loops!($find, every_pair $size, [Op::Read | Op::Modify => None]:
            Write 1 [concat!("ldr ", $x, "9, [x5]")] [
                concat!("stnp ", $x, "9, ", $x, "9, [x0, #\\unit + \\word]")
            ];
            Copy 2 [] [
                concat!("ldr ", $x, "9, [x1, #\\unit + \\word]"),
                concat!("ldr ", $x, "10, [x1, #\\unit + \\word + ", $size, "]"),
                concat!("stnp ", $x, "9, ", $x, "10, [x0, #\\unit + \\word]")
            ];
            Scale 2 [concat!("ldr ", $d, "31, [x5]")] [
                concat!("ldr ", $d, "0, [x1, #\\unit + \\word]"),
                concat!("ldr ", $d, "1, [x1, #\\unit + \\word + ", $size, "]"),
                concat!("fmul ", $d, "0, ", $d, "0, ", $d, "31"),
                concat!("fmul ", $d, "1, ", $d, "1, ", $d, "31"),
                concat!("stnp ", $d, "0, ", $d, "1, [x0, #\\unit + \\word]")
            ];
            Add 3 [] [
                concat!("ldr ", $d, "0, [x1, #\\unit + \\word]"),
                concat!("ldr ", $d, "1, [x1, #\\unit + \\word + ", $size, "]"),
                concat!("ldr ", $d, "2, [x2, #\\unit + \\word]"),
                concat!("ldr ", $d, "3, [x2, #\\unit + \\word + ", $size, "]"),
                concat!("fadd ", $d, "0, ", $d, "0, ", $d, "2"),
                concat!("fadd ", $d, "1, ", $d, "1, ", $d, "3"),
                concat!("stnp ", $d, "0, ", $d, "1, [x0, #\\unit + \\word]")
            ];
            Triad 3 [concat!("ldr ", $d, "31, [x5]")] [
                concat!("ldr ", $d, "0, [x1, #\\unit + \\word]"),
                concat!("ldr ", $d, "1, [x1, #\\unit + \\word + ", $size, "]"),
                concat!("ldr ", $d, "2, [x2, #\\unit + \\word]"),
                concat!("ldr ", $d, "3, [x2, #\\unit + \\word + ", $size, "]"),
                concat!("fmadd ", $d, "0, ", $d, "2, ", $d, "31, ", $d, "0"),
                concat!("fmadd ", $d, "1, ", $d, "3, ", $d, "31, ", $d, "1"),
                concat!("stnp ", $d, "0, ", $d, "1, [x0, #\\unit + \\word]")
            ];
        );
    };
}

scalar_past!(past_4, 4 "w" "s");
scalar_past!(past_8, 8 "x" "d");

/// The sum of single words in four chains, `$apart` bytes apart; a unit that is
/// one word goes to the first.
macro_rules! read {
    ($name:ident $apart:literal $x:literal, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal) => {
        passes!($name, 1, $shift $unit, $turn: $units $words, $single,
            begin ["mov x13, #0", "mov x14, #0", "mov x15, #0", "mov x16, #0"],
            step [
                concat!("ldr ", $x, "9, [x0, #\\unit + \\word]"),
                concat!("ldr ", $x, "10, [x0, #\\unit + \\word + ", $apart, "]"),
                concat!("ldr ", $x, "11, [x0, #\\unit + \\word + 2 * ", $apart, "]"),
                concat!("ldr ", $x, "12, [x0, #\\unit + \\word + 3 * ", $apart, "]"),
                concat!("add ", $x, "13, ", $x, "13, ", $x, "9"),
                concat!("add ", $x, "14, ", $x, "14, ", $x, "10"),
                concat!("add ", $x, "15, ", $x, "15, ", $x, "11"),
                concat!("add ", $x, "16, ", $x, "16, ", $x, "12")
            ],
            alone [
                concat!("ldr ", $x, "9, [x0, #\\unit + \\word]"),
                concat!("add ", $x, "13, ", $x, "13, ", $x, "9")
            ],
            end [
                concat!("add ", $x, "13, ", $x, "13, ", $x, "14"),
                concat!("add ", $x, "15, ", $x, "15, ", $x, "16"),
                concat!("add ", $x, "0, ", $x, "13, ", $x, "15")
            ]);
    };
}

read!(read_4 4 "w", 6 64, 256: "0, 64, 128, 192" "0, 16, 32, 48",
    "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60");
read!(read_8 8 "x", 6 64, 256: "0, 64, 128, 192" "0, 32", "0, 8, 16, 24, 32, 40, 48, 56");
read!(read_4_first 64 "w", 6 64, 2048: "0, 1024" "0, 256, 512, 768", "0");
read!(read_8_first 64 "x", 6 64, 2048: "0, 1024" "0, 256, 512, 768", "0");
read!(read_4_strided 512 "w", 9 512, 4096: "0" "0, 2048", "0");
read!(read_8_strided 512 "x", 9 512, 4096: "0" "0, 2048", "0");

/// A kernel's loop; none where this architecture has none. Every 64-bit Arm of
/// Linux has all of these. None prefetches.
pub(crate) fn stream_code(kernel: Kernel, _ahead: Ahead) -> Option<Code> {
    use Access::{Every, First, Strided};
    use Stores::{NonTemporal, Regular};
    match (kernel.stores, kernel.access, kernel.width) {
        (Regular, Every, Width::Word4) => every_4(kernel.op),
        (Regular, Every, Width::Word8) => every_8(kernel.op),
        (Regular, Every, Width::Neon) => neon(kernel.op),
        (NonTemporal, Every, Width::Word4) => past_4(kernel.op),
        (NonTemporal, Every, Width::Word8) => past_8(kernel.op),
        (NonTemporal, Every, Width::Neon) => neon_past(kernel.op),
        (Regular, First, Width::Word4) => first_4(kernel.op),
        (Regular, First, Width::Word8) => first_8(kernel.op),
        (Regular, Strided, Width::Word4) => strided_4(kernel.op),
        (Regular, Strided, Width::Word8) => strided_8(kernel.op),
        _ => None,
    }
}

/// Whether a kernel has a loop of its own that prefetches: none here.
pub(crate) fn stream_has_ahead(_kernel: Kernel) -> bool {
    false
}
