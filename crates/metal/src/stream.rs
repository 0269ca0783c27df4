//! Bandwidth: arrays that a loop of one kind passes over, in assembly, so that
//! no compiler turns it into something else.
//!
//! What a kernel moves is counted as STREAM counts it: each line that it loads from and each that
//! it stores to, 64 bytes to a line, however many words of it are touched (R1 counts so too).
//! [`Kernel::word_bytes`] and [`Kernel::bus_bytes`] turn that into the bytes of the words and into
//! what memory moves.

use std::io;

use crate::answer::invalid;
use crate::arch;
use crate::memory::Mapping;

/// What is done with an element; arrays are a, b and c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    Write,
    /// a = a + constant, on integers.
    Modify,
    Copy,
    /// a = constant x b.
    Scale,
    /// a = b + c.
    Add,
    /// a = b + constant x c.
    Triad,
}

impl Op {
    pub const ALL: [Op; 7] =
        [Op::Read, Op::Write, Op::Modify, Op::Copy, Op::Scale, Op::Add, Op::Triad];

    pub fn arrays(self) -> usize {
        match self {
            Op::Read | Op::Write | Op::Modify => 1,
            Op::Copy | Op::Scale => 2,
            Op::Add | Op::Triad => 3,
        }
    }

    /// How many lines it moves for one line of each array: what is modified is loaded and stored.
    pub fn moves(self) -> usize {
        match self {
            Op::Read | Op::Write => 1,
            Op::Modify | Op::Copy | Op::Scale => 2,
            Op::Add | Op::Triad => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stores {
    /// Into the caches, which read a line before a store changes it.
    Regular,
    /// Past the caches (movnt of x86-64; on aarch64 stnp, a hint).
    NonTemporal,
}

impl Stores {
    pub const ALL: [Stores; 2] = [Stores::Regular, Stores::NonTemporal];
}

/// Which words of the arrays are touched, and in what order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Every,
    /// The first word of each line, ascending, 32 of them a turn: R1's loop.
    First,
    /// The first word of each line, every eighth line at a time: R0's stride of
    /// 512 bytes. Eight sweeps, each a line further, make a pass.
    Strided,
}

impl Access {
    pub const ALL: [Access; 3] = [Access::Every, Access::First, Access::Strided];
}

/// How many bytes an instruction moves. Doubles are scaled and added, at 4 bytes single precision;
/// reading and modifying add 64-bit integers, at 4 bytes 32-bit ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    Word4,
    Word8,
    Sse2,
    /// 32, x86-64; needs FMA.
    Avx2,
    Avx512,
    /// 16, aarch64, in pairs of registers.
    Neon,
}

impl Width {
    /// All of them, the widest vectors last.
    pub const ALL: [Width; 6] =
        [Width::Word4, Width::Word8, Width::Neon, Width::Sse2, Width::Avx2, Width::Avx512];

    /// Whether it is one of several elements.
    pub fn is_vector(self) -> bool {
        !matches!(self, Width::Word4 | Width::Word8)
    }

    /// The unit is bytes.
    pub fn bytes(self) -> usize {
        match self {
            Width::Word4 => 4,
            Width::Word8 => 8,
            Width::Sse2 | Width::Neon => 16,
            Width::Avx2 => 32,
            Width::Avx512 => 64,
        }
    }
}

/// Whether a loop prefetches what it comes to later. On Redwood Cove loops that do gain 15 to 35 %
/// in DRAM and nothing in the third level; one that reads would lose near a half in the second.
/// Prefetching for a store asks for the line's bytes, so that no processor can save reading a line
/// that is to be overwritten whole: where stores of all cores saturate memory, it may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ahead {
    /// It does, where there is such a loop ([`Kernel::has_ahead`]).
    Yes,
    No,
}

/// What loop does a kernel's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// How many bytes an instruction moves.
    pub width: Width,
    pub ahead: Ahead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    pub op: Op,
    /// How it stores; regular where it does not, and in
    /// [`Op::Modify`], whose line is in the cache already.
    pub stores: Stores,
    /// Which words; vectors and non-temporal stores touch every byte.
    pub access: Access,
    /// How many bytes at a time.
    pub width: Width,
}

/// a, b, c, units, passes, 64 bytes of the constant. [`Op::Read`] returns the sum of all scalar
/// words, or that of the quadwords which 16 registers hold: those of the last turn of whole lines;
/// a single line takes the first.
pub(crate) type Code =
    unsafe extern "C" fn(*mut u8, *const u8, *const u8, usize, usize, *const u8) -> u64;

impl Kernel {
    /// Whether the combination exists and this processor has its instructions.
    pub fn is_supported(self) -> bool {
        arch::stream_code(self, Ahead::No).is_some()
    }

    /// Whether it has two loops, one with prefetching: on x86-64 those of vectors, but for the one
    /// that only stores past the caches.
    pub fn has_ahead(self) -> bool {
        arch::stream_has_ahead(self) && self.is_supported()
    }

    /// The loops that do the same and leave the same, its own first: that of its
    /// width and, of vectors, those of the narrower; of each the one that does not
    /// prefetch before the one that does.
    pub fn loops(self) -> Vec<Loop> {
        let narrower = |width: &Width| {
            self.width.is_vector() && width.is_vector() && width.bytes() < self.width.bytes()
        };
        let others = Width::ALL.into_iter().rev().filter(narrower);
        let mut loops = Vec::new();
        for width in std::iter::once(self.width).chain(others) {
            let kernel = Kernel { width, ..self };
            let aheads = match kernel.has_ahead() {
                true => [Ahead::No, Ahead::Yes].as_slice(),
                false => &[Ahead::No],
            };
            let written = aheads.iter().map(|ahead| Loop { width, ahead: *ahead });
            loops.extend(written.filter(|_| kernel.is_supported()));
        }
        loops
    }

    /// Every byte, by the widest vectors that this processor has.
    pub fn widest(op: Op, stores: Stores) -> Kernel {
        let of = |width| Kernel { op, stores, access: Access::Every, width };
        let mut written = Width::ALL.into_iter().map(of);
        let widest = written.rfind(|kernel| kernel.is_supported());
        // Read and modify have no non-temporal form.
        widest.unwrap_or_else(|| Kernel::widest(op, Stores::Regular))
    }

    /// Bytes of the words that are touched when `moved` bytes of lines are.
    pub fn word_bytes(self, moved: u64) -> u64 {
        match self.access {
            Access::Every => moved,
            Access::First | Access::Strided => moved / LINE as u64 * self.width.bytes() as u64,
        }
    }

    /// Bytes that memory moves where no cache holds the arrays, when `moved` bytes are: a line is
    /// read before a regular store changes it, unless the loop has loaded it.
    pub fn bus_bytes(self, moved: u64) -> u64 {
        let moves = self.op.moves() as u64;
        let allocated = match (self.op, self.stores) {
            (Op::Read | Op::Modify, _) | (_, Stores::NonTemporal) => 0,
            (_, Stores::Regular) => 1,
        };
        moved / moves * (moves + allocated)
    }
}

impl Kernel {
    pub(crate) fn every() -> impl Iterator<Item = Kernel> {
        let shapes = |op| {
            let stored = move |stores| Access::ALL.map(|access| (op, stores, access));
            Stores::ALL.map(stored).into_iter().flatten()
        };
        let of =
            |(op, stores, access)| Width::ALL.map(|width| Kernel { op, stores, access, width });
        Op::ALL.into_iter().flat_map(shapes).flat_map(of)
    }
}

const LINE: usize = 64;
/// Lines between two that a strided sweep touches.
const STRIDE_LINES: usize = 8;
/// Lines of a turn of a loop that reads vectors.
const READ_TURN_LINES: usize = 16;
const READ_REGISTERS: usize = 16;
/// Lines that the shortest step touches of each array.
const STEP_LINES: usize = 32;
/// An array begins so much later in its page than the one before, so that no load waits for an
/// unfinished store to the same place of another page: a third of a page, whole lines.
const APART: usize = 1344;
/// Where an array's place in its page counts.
const PAGE: usize = 4096;

/// Arrays, and how far a kernel has come over them.
#[derive(Debug)]
pub struct Stream {
    kernel: Kernel,
    code: Code,
    /// Of the loop under way.
    width: Width,
    mapping: Mapping,
    lines: usize,
    /// Where a, b and c begin in the mapping.
    starts: [usize; 3],
    constant: Constant,
    passes: u64,
    /// Sweeps of the pass under way that are complete.
    sweep: usize,
    /// Units of the sweep under way that are complete.
    position: usize,
    /// Of what was read: scalar words all together, or the last vectors.
    sum: u64,
    /// Where the last run began, its units, and their width.
    last: (usize, usize, Width),
}

/// As large as registers come.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Constant([u8; 64]);

impl Stream {
    /// Bytes that a mapping needs for arrays of `footprint_bytes` together.
    pub fn mapping_bytes(kernel: Kernel, footprint_bytes: usize) -> usize {
        let arrays = kernel.op.arrays();
        let lines = footprint_bytes / arrays / LINE;
        arrays * (lines * LINE).next_multiple_of(PAGE) + (arrays - 1) * APART
    }

    /// Lays out the kernel's arrays, `footprint_bytes` together (whole lines of each array, of
    /// eight where strided), and writes their values past the caches, so that none has to be
    /// written back while the kernel runs (on aarch64 such stores are a hint). The memory is to be
    /// touched before by the thread that is to use it. Errors: the kernel is not supported; the
    /// mapping has less than [`Stream::mapping_bytes`]; or the footprint is less than a unit of
    /// each array.
    pub fn new(
        kernel: Kernel,
        ahead: Ahead,
        mapping: Mapping,
        footprint_bytes: usize,
    ) -> io::Result<Stream> {
        let Some(code) = arch::stream_code(kernel, ahead) else {
            return Err(invalid(format!("{kernel:?} is not available here")));
        };
        let needed = Stream::mapping_bytes(kernel, footprint_bytes);
        if mapping.bytes() < needed {
            return Err(invalid(format!(
                "arrays of {footprint_bytes} bytes need a mapping of {needed}, not {}",
                mapping.bytes()
            )));
        }
        let together = footprint_bytes / kernel.op.arrays() / LINE;
        let sweeps = sweeps(kernel.access);
        let lines = together / sweeps * sweeps;
        if lines == 0 {
            return Err(invalid(format!("{footprint_bytes} bytes hold no arrays")));
        }
        let distance = (together * LINE).next_multiple_of(PAGE) + APART;
        let mut stream = Stream {
            kernel,
            code,
            width: kernel.width,
            mapping,
            lines,
            starts: [0, distance, 2 * distance],
            constant: value::constant(kernel),
            passes: 0,
            sweep: 0,
            position: 0,
            sum: 0,
            last: (0, 0, kernel.width),
        };
        stream.prepare();
        Ok(stream)
    }

    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Bytes of all arrays together.
    pub fn footprint_bytes(&self) -> usize {
        self.kernel.op.arrays() * self.lines * LINE
    }

    /// Bytes that a pass over the arrays moves.
    pub fn pass_bytes(&self) -> u64 {
        self.moved(self.lines)
    }

    /// Goes on where the last step ended, and from the start again after the end. Moves about
    /// `bytes`: whole passes where that is more than one (and the last step ended with a pass),
    /// else 32 lines of each array or a multiple. Returns exactly what was moved.
    pub fn step(&mut self, bytes: usize) -> u64 {
        let units = self.units();
        let wanted = (bytes / (LINE * self.kernel.op.moves())).max(1);
        if wanted >= units && self.position == 0 && sweeps(self.kernel.access) == 1 {
            let passes = (wanted + units / 2) / units;
            self.run(units, passes);
            self.passes += passes as u64;
            return self.moved(units * passes);
        }
        let wanted = wanted.next_multiple_of(STEP_LINES);
        let mut left = wanted;
        while left > 0 {
            left -= self.advance(left);
        }
        self.moved(wanted)
    }

    /// Moves what is left of the pass under way: once over the arrays after
    /// another pass. Returns the bytes moved.
    pub fn pass(&mut self) -> u64 {
        let end = self.passes + 1;
        let mut units = 0;
        while self.passes < end {
            units += self.advance(self.lines);
        }
        self.moved(units)
    }

    /// Goes on by one of the kernel's [`loops`](Kernel::loops). Panics: it is none of them.
    pub fn set_loop(&mut self, by: Loop) {
        let alike = |width: Width| width == by.width || (width.is_vector() && by.width.is_vector());
        assert!(alike(self.kernel.width), "{by:?} is another's");
        let kernel = Kernel { width: by.width, ..self.kernel };
        if let Some(code) = arch::stream_code(kernel, by.ahead) {
            self.code = code;
            self.width = by.width;
        }
    }

    pub fn into_mapping(self) -> Mapping {
        self.mapping
    }

    /// The memory, to ask about its pages.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Units of a sweep, each a line that is touched.
    fn units(&self) -> usize {
        self.lines / sweeps(self.kernel.access)
    }

    fn moved(&self, lines: usize) -> u64 {
        (lines * LINE * self.kernel.op.moves()) as u64
    }

    /// Moves at most so many units, of one sweep; how many.
    fn advance(&mut self, most: usize) -> usize {
        let units = most.min(self.units() - self.position);
        self.run(units, 1);
        self.position += units;
        if self.position == self.units() {
            self.position = 0;
            self.sweep += 1;
        }
        if self.sweep == sweeps(self.kernel.access) {
            self.sweep = 0;
            self.passes += 1;
        }
        units
    }

    /// Passes over so many units from the present place on.
    fn run(&mut self, units: usize, passes: usize) {
        assert!(self.position + units <= self.units() && units > 0 && passes > 0);
        let line = self.sweep + self.position * sweeps(self.kernel.access);
        let base = self.mapping.as_mut_slice().as_mut_ptr();
        // Arrays that the kernel does not name are not accessed.
        let [a, b, c] = self.starts.map(|start| base.wrapping_add(start + line * LINE));
        // SAFETY: the processor has the instructions (`new`); the loop accesses
        // the units from these addresses on in the arrays that the operation
        // names, and they lie within the mapping: `lines` is a multiple of the
        // sweeps, and `new` has compared the arrays' ends with the mapping's.
        let sum = unsafe { (self.code)(a, b, c, units, passes, self.constant.0.as_ptr()) };
        self.sum = if self.kernel.width.is_vector() { sum } else { self.sum.wrapping_add(sum) };
        self.last = (self.position, units, self.width);
    }
}

/// Sweeps that make a pass.
fn sweeps(access: Access) -> usize {
    match access {
        Access::Every | Access::First => 1,
        Access::Strided => STRIDE_LINES,
    }
}

mod value;

#[cfg(test)]
mod tests;
