//! What the arrays hold before, and must hold after: known answers.
//!
//! Values repeat after a prime number of elements, so that what is found in the wrong place is
//! wrong, and filling and comparing go by blocks. All are small multiples of a power of two:
//! products and sums are exact, fused or not, in single precision as in double.

use super::{
    Access, Ahead, Constant, Kernel, LINE, Op, READ_REGISTERS, READ_TURN_LINES, Stores, Stream,
    Width, sweeps,
};
use crate::arch;

/// Elements after which an array's values repeat: a prime.
const PERIOD: usize = 251;
/// What is written, and what the others multiply by: STREAM's.
const SCALAR: f64 = 3.0;
/// What is added to integers: odd, so that it takes 2^64 passes to come back.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
#[derive(Clone, Copy, PartialEq)]
enum Array {
    A,
    B,
    C,
}

const ARRAYS: [Array; 3] = [Array::A, Array::B, Array::C];

fn size(kernel: Kernel) -> usize {
    match kernel.width {
        Width::Word4 => 4,
        _ => 8,
    }
}

fn bits(kernel: Kernel, number: f64) -> u64 {
    match size(kernel) {
        4 => u64::from((number as f32).to_bits()),
        _ => number.to_bits(),
    }
}

/// What an element of an array holds before: 1 to 2, and in `a`, which most
/// kernels overwrite, negative.
fn before(array: Array, index: usize) -> f64 {
    let (sign, salt) = match array {
        Array::A => (-1.0, 0x51),
        Array::B => (1.0, 0xa7),
        Array::C => (1.0, 0x1d3),
    };
    let mixed = ((index % PERIOD + salt) as u64).wrapping_mul(INCREMENT);
    sign * (1.0 + (mixed >> 54) as f64 / 1024.0)
}

/// The bits of an element of `a` that was touched so often.
fn after(kernel: Kernel, index: usize, times: u64) -> u64 {
    let [a, b, c] = ARRAYS.map(|array| before(array, index));
    let number = match kernel.op {
        Op::Modify => return bits(kernel, a).wrapping_add(times.wrapping_mul(INCREMENT)),
        Op::Read => a,
        _ if times == 0 => a,
        Op::Write => SCALAR,
        Op::Copy => b,
        Op::Scale => SCALAR * b,
        Op::Add => b + c,
        Op::Triad => b + SCALAR * c,
    };
    bits(kernel, number)
}

/// Elements of a line and a period, as they lie in memory: any line of the array is in it whole.
fn block(kernel: Kernel, element: impl Fn(usize) -> u64) -> Vec<u8> {
    let size = size(kernel);
    (0..PERIOD + LINE / size)
        .flat_map(|index| element(index).to_le_bytes().into_iter().take(size))
        .collect()
}

/// So many lines as a period has elements: whole periods, of any size of element.
fn lines(kernel: Kernel, element: impl Fn(usize) -> u64) -> Vec<Constant> {
    let size = size(kernel);
    let line = |number: usize| {
        let mut line = Constant([0; LINE]);
        for (lane, word) in line.0.chunks_exact_mut(size).enumerate() {
            let bits = element(number * (LINE / size) + lane);
            word.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        line
    };
    (0..PERIOD).map(line).collect()
}

/// Fills whole lines of memory with copies of `lines`, by stores past the caches.
fn copy_past(lines: &[Constant], memory: &mut [u8]) {
    let kernel = Kernel::widest(Op::Copy, Stores::NonTemporal);
    let code = arch::stream_code(kernel, Ahead::No).expect("the widest is supported");
    assert!(memory.as_ptr().addr().is_multiple_of(LINE) && memory.len().is_multiple_of(LINE));
    for part in memory.chunks_mut(lines.len() * LINE) {
        let (to, from) = (part.as_mut_ptr(), lines.as_ptr().cast());
        // SAFETY: the processor has the instructions; the loop copies the lines
        // of `part`, at most as many as `lines` has, and both begin with a line.
        unsafe { code(to, from, from, part.len() / LINE, 1, from) };
    }
}

pub(super) fn constant(kernel: Kernel) -> Constant {
    let bits = match kernel.op {
        Op::Modify => INCREMENT,
        _ => bits(kernel, SCALAR),
    };
    let size = size(kernel);
    let mut constant = Constant([0; LINE]);
    for lane in constant.0.chunks_exact_mut(size) {
        lane.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    constant
}

impl Stream {
    /// Writes the values before, past the caches.
    pub(super) fn prepare(&mut self) {
        let kernel = self.kernel;
        for (array, start) in ARRAYS.into_iter().zip(self.starts).take(kernel.op.arrays()) {
            let lines = lines(kernel, |index| bits(kernel, before(array, index)));
            let bytes = self.lines * LINE;
            copy_past(&lines, &mut self.mapping.as_mut_slice()[start..][..bytes]);
        }
    }

    /// Whether the arrays hold exactly what the steps so far must have left,
    /// and what was read is what they held.
    pub fn is_right(&self) -> bool {
        let kernel = self.kernel;
        let sources = ARRAYS.into_iter().zip(self.starts);
        let mut sources = sources.take(kernel.op.arrays()).skip(1);
        let kept = |(array, start)| {
            let block = block(kernel, |index| bits(kernel, before(array, index)));
            self.holds(start, 0..self.lines, &block)
        };
        sources.all(kept) && self.is_written() && self.is_read()
    }

    /// Whether lines of the array at `start` are those of a block.
    fn holds(&self, start: usize, lines: std::ops::Range<usize>, block: &[u8]) -> bool {
        let period = PERIOD * size(self.kernel);
        let bytes = &self.mapping.as_slice()[start..][lines.start * LINE..lines.end * LINE];
        let (head, rest) = bytes.split_at(bytes.len().min(period - lines.start * LINE % period));
        let phase = lines.start * LINE % period;
        let mut chunks = rest.chunks(period);
        head == &block[phase..][..head.len()] && chunks.all(|chunk| chunk == &block[..chunk.len()])
    }

    /// Whether `a` holds what it must.
    fn is_written(&self) -> bool {
        let kernel = self.kernel;
        let [untouched, older, newer] = [0, self.passes, self.passes + 1]
            .map(|times| block(kernel, |index| after(kernel, index, times)));
        if kernel.access == Access::Every {
            return self.holds(0, 0..self.position, &newer)
                && self.holds(0, self.position..self.lines, &older);
        }
        let period = PERIOD * size(kernel);
        let lines = self.mapping.as_slice().chunks_exact(LINE).take(self.lines);
        lines.enumerate().all(|(number, line)| {
            let phase = number * LINE % period;
            let first = if self.is_touched(number) { &newer } else { &older };
            let (word, rest) = line.split_at(size(kernel));
            word == &first[phase..][..size(kernel)]
                && rest == &untouched[phase..][size(kernel)..LINE]
        })
    }

    /// Whether the pass under way has touched a line.
    fn is_touched(&self, line: usize) -> bool {
        let sweeps = sweeps(self.kernel.access);
        (line % sweeps, line / sweeps) < (self.sweep, self.position)
    }

    fn is_read(&self) -> bool {
        let kernel = self.kernel;
        if kernel.op != Op::Read {
            return true;
        }
        let value = |index| bits(kernel, before(Array::A, index));
        let values: Vec<u64> = (0..PERIOD).map(value).collect();
        let sum = match (kernel.width.is_vector(), kernel.access) {
            (true, _) => self.last_vectors(&values),
            (false, Access::Every) => {
                let [all, part] = [self.lines, self.position].map(|lines| {
                    let elements = lines * LINE / size(kernel);
                    let whole = sum(&values).wrapping_mul((elements / PERIOD) as u64);
                    whole.wrapping_add(sum(&values[..elements % PERIOD]))
                });
                all.wrapping_mul(self.passes).wrapping_add(part)
            }
            (false, Access::First | Access::Strided) => (0..self.lines)
                .map(|line| {
                    let times = self.passes + u64::from(self.is_touched(line));
                    values[line * LINE / size(kernel) % PERIOD].wrapping_mul(times)
                })
                .fold(0, u64::wrapping_add),
        };
        match size(kernel) {
            4 => sum as u32 == self.sum as u32,
            _ => sum == self.sum,
        }
    }

    /// The sum of what the registers hold after the last run.
    fn last_vectors(&self, values: &[u64]) -> u64 {
        let (at, lines, width) = self.last;
        let in_turns = lines / READ_TURN_LINES * READ_TURN_LINES;
        let held = READ_REGISTERS * width.bytes() / LINE;
        let mut last: Vec<usize> = (at + in_turns.saturating_sub(held)..at + in_turns).collect();
        if in_turns < lines {
            last.drain(..last.len().min(1));
            last.push(at + lines - 1);
        }
        last.into_iter()
            .flat_map(|line| line * LINE / 8..(line + 1) * LINE / 8)
            .map(|word| values[word % PERIOD])
            .fold(0, u64::wrapping_add)
    }
}

fn sum(values: &[u64]) -> u64 {
    values.iter().copied().fold(0, u64::wrapping_add)
}
