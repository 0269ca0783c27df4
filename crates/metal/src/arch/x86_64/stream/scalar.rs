//! Loops of scalar words of 4 and 8 bytes, of every word, of the first of each line, and of one in
//! 512 bytes. They do not prefetch: what a plain program gets.

use crate::stream::{Access, Code, Kernel, Op, Stores, Width};

/// Stores a scalar. There is a non-temporal store of general registers, none of
/// scalars in vector registers.
macro_rules! stored {
    ("movnti" $move:literal $single:literal $integer:literal) => {
        concat!($move, " ", $integer, ", xmm0\nmovnti [rdi + \\unit + \\word], ", $integer)
    };
    ("mov" $move:literal $single:literal $integer:literal) => {
        concat!($single, " [rdi + \\unit + \\word], xmm0")
    };
}

/// The function that finds the loops of a scalar width over words at the displacements that
/// `$shape` stands for, which are in it, by the names of the general register and of the
/// instructions.
macro_rules! scalar {
    ($name:ident, $shape:ident $size:tt, $word:literal, $integer:literal, $single:literal, $multiply:literal, $sum:literal, $store:tt $move:literal, $fence:literal) => {
        fn $name(op: Op) -> Option<Code> {
            $shape!($size: write, 1, [concat!("mov ", $integer, ", [r9]")],
                [concat!($store, " [rdi + \\unit + \\word], ", $integer)], [$fence]);
            $shape!($size: copy, 2, [], [
                concat!("mov ", $integer, ", [rsi + \\unit + \\word]"),
                concat!($store, " [rdi + \\unit + \\word], ", $integer)
            ], [$fence]);
            $shape!($size: scale, 2, [concat!($single, " xmm15, [r9]")], [
                concat!($single, " xmm0, [rsi + \\unit + \\word]"),
                concat!($multiply, " xmm0, xmm15"),
                stored!($store $move $single $integer)
            ], [$fence]);
            $shape!($size: add, 3, [], [
                concat!($single, " xmm0, [rsi + \\unit + \\word]"),
                concat!($sum, " xmm0, ", $word, " ptr [rdx + \\unit + \\word]"),
                stored!($store $move $single $integer)
            ], [$fence]);
            $shape!($size: triad, 3, [concat!($single, " xmm15, [r9]")], [
                concat!($single, " xmm0, [rdx + \\unit + \\word]"),
                concat!($multiply, " xmm0, xmm15"),
                concat!($sum, " xmm0, ", $word, " ptr [rsi + \\unit + \\word]"),
                stored!($store $move $single $integer)
            ], [$fence]);
            Some(match op {
                Op::Read | Op::Modify => return None,
                Op::Write => write,
                Op::Copy => copy,
                Op::Scale => scale,
                Op::Add => add,
                Op::Triad => triad,
            })
        }
    };
}

/// Every word of four lines a turn.
macro_rules! every {
    (4: $name:ident, $arrays:tt, $begin:tt, $step:tt, $end:tt) => {
        passes!($name, $arrays, 6 64, 256: "0, 64, 128, 192"
            "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60",
            "0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60", begin $begin, ahead [], step $step, alone $step, end $end);
    };
    (8: $name:ident, $arrays:tt, $begin:tt, $step:tt, $end:tt) => {
        passes!($name, $arrays, 6 64, 256: "0, 64, 128, 192"
            "0, 8, 16, 24, 32, 40, 48, 56", "0, 8, 16, 24, 32, 40, 48, 56", begin $begin, ahead [], step $step, alone $step, end $end);
    };
}

/// The first word of each of 32 lines a turn, as R1.
macro_rules! first {
    ($size:tt: $name:ident, $arrays:tt, $begin:tt, $step:tt, $end:tt) => {
        passes!($name, $arrays, 6 64, 2048: "0, 512, 1024, 1536"
            "0, 64, 128, 192, 256, 320, 384, 448", "0", begin $begin, ahead [], step $step, alone $step, end $end);
    };
}

/// One word in 512 bytes, eight a turn.
macro_rules! strided {
    ($size:tt: $name:ident, $arrays:tt, $begin:tt, $step:tt, $end:tt) => {
        passes!($name, $arrays, 9 512, 4096: "0, 2048"
            "0, 512, 1024, 1536", "0", begin $begin, ahead [], step $step, alone $step, end $end);
    };
}

macro_rules! scalar4 {
    ($name:ident, $shape:ident, $store:tt, $fence:literal) => {
        scalar!($name, $shape 4, "dword", "eax", "movss", "mulss", "addss", $store "movd", $fence);
    };
}

macro_rules! scalar8 {
    ($name:ident, $shape:ident, $store:tt, $fence:literal) => {
        scalar!($name, $shape 8, "qword", "rax", "movsd", "mulsd", "addsd", $store "movq", $fence);
    };
}

scalar4!(every_4, every, "mov", "");
scalar8!(every_8, every, "mov", "");
scalar4!(past_4, every, "movnti", "sfence");
scalar8!(past_8, every, "movnti", "sfence");
scalar4!(first_4, first, "mov", "");
scalar8!(first_8, first, "mov", "");
scalar4!(strided_4, strided, "mov", "");
scalar8!(strided_8, strided, "mov", "");

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

/// The sum in four chains of words `$apart` bytes apart; a unit that is one word goes to the first.
macro_rules! read {
    ($name:ident $apart:literal, $a:literal $b:literal $c:literal $d:literal, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal) => {
        passes!($name, 1, $shift $unit, $turn: $units $words, $single,
            begin ["xor eax, eax", "xor esi, esi", "xor edx, edx", "xor r11d, r11d"], ahead [], step [
            concat!("add ", $a, ", [rdi + \\unit + \\word]"),
            concat!("add ", $b, ", [rdi + \\unit + \\word + ", $apart, "]"),
            concat!("add ", $c, ", [rdi + \\unit + \\word + 2 * ", $apart, "]"),
            concat!("add ", $d, ", [rdi + \\unit + \\word + 3 * ", $apart, "]")
        ], alone [
            concat!("add ", $a, ", [rdi + \\unit + \\word]")
        ], end [
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

/// The loop of a kernel whose words are scalar.
pub(super) fn code(kernel: Kernel) -> Option<Code> {
    use Access::{Every, First, Strided};
    use Stores::{NonTemporal, Regular};
    use Width::{Word4, Word8};
    let Kernel { op, stores, access, width } = kernel;
    let code: Code = match (op, stores, access, width) {
        (Op::Read, Regular, Every, Word4) => read_4,
        (Op::Read, Regular, Every, Word8) => read_8,
        (Op::Read, Regular, First, Word4) => read_4_first,
        (Op::Read, Regular, First, Word8) => read_8_first,
        (Op::Read, Regular, Strided, Word4) => read_4_strided,
        (Op::Read, Regular, Strided, Word8) => read_8_strided,
        (Op::Modify, Regular, Every, Word4) => modify_4,
        (Op::Modify, Regular, Every, Word8) => modify_8,
        (Op::Modify, Regular, First, Word4) => modify_4_first,
        (Op::Modify, Regular, First, Word8) => modify_8_first,
        (Op::Modify, Regular, Strided, Word4) => modify_4_strided,
        (Op::Modify, Regular, Strided, Word8) => modify_8_strided,
        (_, Regular, Every, Word4) => return every_4(op),
        (_, Regular, Every, Word8) => return every_8(op),
        (_, Regular, First, Word4) => return first_4(op),
        (_, Regular, First, Word8) => return first_8(op),
        (_, Regular, Strided, Word4) => return strided_4(op),
        (_, Regular, Strided, Word8) => return strided_8(op),
        (_, NonTemporal, Every, Word4) => return past_4(op),
        (_, NonTemporal, Every, Word8) => return past_8(op),
        _ => return None,
    };
    Some(code)
}
