//! Bodies of single instructions: dependent chains for their latency, independent ones for their
//! reciprocal throughput.
//!
//! Each body is written once, as the text that the assembler gets and that is stored with the
//! figure, in the tables under `arch/`. A body runs its instruction exactly `n` times.

mod answer;

use crate::arch;

/// A loop of one instruction. `n`: how often; `words`: what it works on.
pub(crate) type Kernel = unsafe extern "C" fn(n: u64, words: *mut u64) -> u64;

#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// What is executed for one operation, as the assembler reads it; lines are instructions.
    /// `\r` stands for each of `registers` in turn.
    pub text: &'static str,
    /// The registers (or their numbers) that `\r` stands for, separated by `, `; empty where the
    /// text names all it uses.
    pub registers: &'static str,
    /// Operations that the text alone is: 1, but for a text that alternates between registers.
    pub operations: u64,
    pub(crate) kernel: Kernel,
}

impl Body {
    /// The text in one line, with what `\r` stands for.
    pub fn shown(&self) -> String {
        let text = self.text.replace('\n', "; ");
        let ends = self.registers.split_once(", ");
        match ends.and_then(|(first, rest)| Some((first, rest.rsplit(", ").next()?))) {
            Some((first, last)) => format!("{text} (\\r: {first} to {last})"),
            None => text,
        }
    }
}

/// An instruction, or the few that make one operation, of this architecture.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Name of the operation; the same for the same operation of another architecture.
    pub name: &'static str,
    /// Feature that it needs, as `/proc/cpuinfo` spells it; empty where every processor has it.
    pub feature: &'static str,
    /// Chain in which each operation needs the result of the one before.
    pub latency: Option<Body>,
    /// Operations that do not need each other's results.
    pub throughput: Option<Body>,
}

impl Instruction {
    /// Whether this processor has it. The answer is the processor's and the system's, not
    /// `/proc/cpuinfo`'s.
    pub fn is_present(&self) -> bool {
        arch::has_feature(self.feature)
    }
}

/// The instructions of this architecture. Branches that are mispredicted are not among them: see
/// [`Bench::branches`].
pub fn all() -> &'static [Instruction] {
    arch::INSTRUCTIONS
}

pub fn find(name: &str) -> Option<&'static Instruction> {
    all().iter().find(|instruction| instruction.name == name)
}

/// Words of memory that bodies work on: a page.
const WORDS: usize = 512;
/// Start of integer chains: odd, with bits in both halves.
const START: u64 = 0x9e37_79b9_7f4a_7c15;
/// Operand of integer instructions: odd, with bits in both halves.
const OPERAND: u64 = 0xd134_2543_de82_ef95;
/// Entries of the table of indices that gathers walk through.
const INDICES: usize = 64;
/// Branches that one word of a pattern decides.
pub const BRANCHES_PER_WORD: u64 = 64;

/// Where the bodies find their operands, in words: offsets that the tables under `arch/` know.
mod place {
    /// The address of this word itself: a chain of pointers of length one.
    pub(super) const POINTER: usize = 0;
    pub(super) const START: usize = 1;
    pub(super) const OPERAND: usize = 2;
    /// A line of its own for atomic operations (byte 64).
    pub(super) const ATOMIC: usize = 8;
    /// Lines of vector operands from byte 192: f32 value, factor, addend, then f64.
    pub(super) const VECTORS: usize = 24;
    /// First index of each lane of a gather (byte 576).
    pub(super) const LANES: usize = 72;
    /// The table of indices (byte 640).
    pub(super) const TABLE: usize = 80;
}

/// The memory that bodies work on, on a page of its own.
#[repr(align(4096))]
struct Page([u64; WORDS]);

pub struct Bench {
    page: Box<Page>,
}

impl Bench {
    /// Lays out the operands.
    #[expect(
        clippy::new_without_default,
        reason = "an apparatus that is made, not a value with a default"
    )]
    pub fn new() -> Self {
        let mut page = Box::new(Page([0; WORDS]));
        let address = &raw const page.0[place::POINTER] as u64;
        let words = &mut page.0;
        words[place::POINTER] = address;
        words[place::START] = START;
        words[place::OPERAND] = OPERAND;
        words[place::ATOMIC] = START;
        // Full mantissas, and a factor just below 1: values stay normal numbers for any n, and no
        // divider or multiplier has a short way.
        let single = |value: f32| u64::from(value.to_bits()) << 32 | u64::from(value.to_bits());
        let vectors = [
            single(1.732_050_8),
            single(1.0 - f32::EPSILON / 2.0),
            single(1.0),
            1.732_050_807_568_877_2_f64.to_bits(),
            (1.0 - f64::EPSILON / 2.0).to_bits(),
            1.0_f64.to_bits(),
        ];
        for (at, value) in vectors.into_iter().enumerate() {
            let line = place::VECTORS + 8 * at;
            words[line..line + 8].fill(value);
        }
        let pairs = |of: &dyn Fn(usize) -> usize, at: usize| {
            of(2 * at) as u64 | (of(2 * at + 1) as u64) << 32
        };
        for at in 0..4 {
            words[place::LANES + at] = pairs(&|lane| 8 * lane, at);
        }
        for at in 0..INDICES / 2 {
            words[place::TABLE + at] = pairs(&|index| (index + 25) % INDICES, at);
        }
        Bench { page }
    }

    /// Runs a body `n` times and returns what its kernel leaves: for integer bodies the sum of the
    /// registers it works on, for vector bodies the low word of the first. Panics: the processor
    /// lacks the instruction.
    pub fn run(&mut self, instruction: &Instruction, body: &Body, n: u64) -> u64 {
        assert!(instruction.is_present(), "this processor lacks {}", instruction.name);
        // SAFETY: the processor has the instruction; the kernel works on registers that it saves
        // or may clobber, its stack and the page, which lives as long as the bench.
        unsafe { (body.kernel)(n, self.page.0.as_mut_ptr()) }
    }

    /// [`BRANCHES_PER_WORD`] conditional branches for each word, one after another in memory; a
    /// branch is taken where its bit is set. Returns the bits that were set.
    pub fn branches(words: &[u64]) -> u64 {
        // SAFETY: the kernel reads so many words and works on registers only.
        unsafe { arch::branches(words.len() as u64, words.as_ptr()) }
    }
}

/// The text of [`Bench::branches`] for one branch.
pub const BRANCH_TEXT: &str = arch::BRANCH_TEXT;

#[cfg(test)]
mod tests;
