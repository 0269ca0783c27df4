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
    use Op::{Add, Copy, Modify, Read, Scale, Triad, Write};
    use Stores::{NonTemporal, Regular};
    use Width::{Word4, Word8};
    let code: Code = match (kernel.width, kernel.access, kernel.stores, kernel.op) {
        (Word4, Every, Regular, Read) => read_4,
        (Word4, Every, Regular, Write) => write_4,
        (Word4, Every, Regular, Modify) => modify_4,
        (Word4, Every, Regular, Copy) => copy_4,
        (Word4, Every, Regular, Scale) => scale_4,
        (Word4, Every, Regular, Add) => add_4,
        (Word4, Every, Regular, Triad) => triad_4,
        (Word4, Every, NonTemporal, Write) => write_4_nt,
        (Word4, Every, NonTemporal, Copy) => copy_4_nt,
        (Word4, Every, NonTemporal, Scale) => scale_4_nt,
        (Word4, Every, NonTemporal, Add) => add_4_nt,
        (Word4, Every, NonTemporal, Triad) => triad_4_nt,
        (Word4, First, Regular, Read) => read_4_first,
        (Word4, First, Regular, Write) => write_4_first,
        (Word4, First, Regular, Modify) => modify_4_first,
        (Word4, First, Regular, Copy) => copy_4_first,
        (Word4, First, Regular, Scale) => scale_4_first,
        (Word4, First, Regular, Add) => add_4_first,
        (Word4, First, Regular, Triad) => triad_4_first,
        (Word4, Strided, Regular, Read) => read_4_strided,
        (Word4, Strided, Regular, Write) => write_4_strided,
        (Word4, Strided, Regular, Modify) => modify_4_strided,
        (Word4, Strided, Regular, Copy) => copy_4_strided,
        (Word4, Strided, Regular, Scale) => scale_4_strided,
        (Word4, Strided, Regular, Add) => add_4_strided,
        (Word4, Strided, Regular, Triad) => triad_4_strided,
        (Word8, Every, Regular, Read) => read_8,
        (Word8, Every, Regular, Write) => write_8,
        (Word8, Every, Regular, Modify) => modify_8,
        (Word8, Every, Regular, Copy) => copy_8,
        (Word8, Every, Regular, Scale) => scale_8,
        (Word8, Every, Regular, Add) => add_8,
        (Word8, Every, Regular, Triad) => triad_8,
        (Word8, Every, NonTemporal, Write) => write_8_nt,
        (Word8, Every, NonTemporal, Copy) => copy_8_nt,
        (Word8, Every, NonTemporal, Scale) => scale_8_nt,
        (Word8, Every, NonTemporal, Add) => add_8_nt,
        (Word8, Every, NonTemporal, Triad) => triad_8_nt,
        (Word8, First, Regular, Read) => read_8_first,
        (Word8, First, Regular, Write) => write_8_first,
        (Word8, First, Regular, Modify) => modify_8_first,
        (Word8, First, Regular, Copy) => copy_8_first,
        (Word8, First, Regular, Scale) => scale_8_first,
        (Word8, First, Regular, Add) => add_8_first,
        (Word8, First, Regular, Triad) => triad_8_first,
        (Word8, Strided, Regular, Read) => read_8_strided,
        (Word8, Strided, Regular, Write) => write_8_strided,
        (Word8, Strided, Regular, Modify) => modify_8_strided,
        (Word8, Strided, Regular, Copy) => copy_8_strided,
        (Word8, Strided, Regular, Scale) => scale_8_strided,
        (Word8, Strided, Regular, Add) => add_8_strided,
        (Word8, Strided, Regular, Triad) => triad_8_strided,
        _ => return None,
    };
    Some(code)
}
