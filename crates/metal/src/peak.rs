//! Arithmetic at full rate: enough independent chains of one instruction to
//! fill every unit that executes it, on registers only; and a mix of two.

use crate::arch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Add,
    Mul,
    /// A product added to the accumulator without rounding between: two operations.
    Fma,
    /// Additions in some chains, multiplications in the others, in turns of 22 operations on
    /// integers and of 77 on floating-point numbers.
    Mix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    F32,
    F64,
    I32,
    I64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    Scalar,
    /// 16 bytes, x86-64; multiplication of i32 needs SSE4.1.
    Sse2,
    /// 32 bytes, x86-64; fused operations need FMA.
    Avx2,
    /// 64 bytes, x86-64; multiplication of i64 needs AVX-512DQ.
    Avx512,
    /// Of 16 bytes, aarch64.
    Neon,
}

impl Op {
    pub const ALL: [Op; 4] = [Op::Add, Op::Mul, Op::Fma, Op::Mix];
}

impl Type {
    pub const ALL: [Type; 4] = [Type::F32, Type::F64, Type::I32, Type::I64];

    /// Its size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Type::F32 | Type::I32 => 4,
            Type::F64 | Type::I64 => 8,
        }
    }
}

impl Width {
    pub const ALL: [Width; 5] =
        [Width::Scalar, Width::Sse2, Width::Avx2, Width::Avx512, Width::Neon];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    pub op: Op,
    pub element: Type,
    pub width: Width,
}

pub(crate) const MIX_CHAINS: (usize, usize) = (11, 6);

impl Kernel {
    pub(crate) fn in_chain(self, chain: usize) -> Kernel {
        let op = match self.op {
            Op::Mix if chain < MIX_CHAINS.1 => Op::Add,
            Op::Mix => Op::Mul,
            op => op,
        };
        Kernel { op, ..self }
    }
}

impl Kernel {
    pub(crate) fn every() -> impl Iterator<Item = Kernel> {
        let shapes =
            |width| Op::ALL.map(|op| Type::ALL.map(|element| Kernel { op, element, width }));
        Width::ALL.into_iter().flat_map(shapes).flatten()
    }
}

/// A kernel's loop: turns, operands (multiplier, and 64 bytes on the addend),
/// accumulators 64 bytes apart.
pub(crate) type Code = unsafe extern "C" fn(u64, *const u8, *mut u8);

/// A loop and what a turn of it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) run: Code,
    pub(crate) lanes: u64,
    pub(crate) chains: usize,
    /// Instructions per accumulator and turn.
    pub(crate) rounds: u64,
}

/// The most chains of any kernel.
const CHAINS_MAX: usize = 24;

/// One register, as large as they come.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
struct Block([u8; 64]);

/// Turns of the check against arithmetic in software.
const CHECKED_TURNS: u64 = 3;

/// A kernel ready to run `turns` turns at a time. Every run starts from the same accumulators, so
/// it must end with the same: a run that does not was computed wrong.
#[derive(Clone, Debug)]
pub struct Peak {
    kernel: Kernel,
    body: Body,
    turns: u64,
    operands: [Block; 2],
    start: [Block; CHAINS_MAX],
    end: [Block; CHAINS_MAX],
}

impl Peak {
    /// Prepares runs of about `instructions`, at least one turn, and does the
    /// first. `None` if this processor does not have the instruction.
    pub fn new(kernel: Kernel, instructions: u64) -> Option<Peak> {
        Some(Peak::from_kernel(kernel, arch::peak_body(kernel)?, instructions))
    }

    /// One chain of dependent steps at a vector width; each takes the instruction's latency: fused
    /// f64 (multiplied at SSE2) or additions of i64. `None` for others, and where this processor
    /// does not have it.
    pub fn chain(kernel: Kernel, instructions: u64) -> Option<Peak> {
        Some(Peak::from_kernel(kernel, arch::peak_chain(kernel)?, instructions))
    }

    fn from_kernel(kernel: Kernel, body: Body, instructions: u64) -> Peak {
        let mut peak = Peak {
            kernel,
            body,
            turns: (instructions / (body.chains as u64 * body.rounds)).max(1),
            operands: operands(kernel.element),
            start: start(kernel.element),
            end: start(kernel.element),
        };
        peak.end = peak.accumulate(peak.turns);
        peak
    }

    /// Whether a few turns leave in every lane what arithmetic in software leaves there.
    pub fn is_right(&self) -> bool {
        self.accumulate(CHECKED_TURNS) == self.known_answer(CHECKED_TURNS)
    }

    /// Whether this processor has the instruction.
    pub fn is_supported(kernel: Kernel) -> bool {
        arch::peak_body(kernel).is_some()
    }

    pub fn instructions(&self) -> u64 {
        self.turns * self.instructions_per_turn()
    }

    pub fn lanes(&self) -> u64 {
        self.body.lanes
    }

    /// Arithmetic operations of a run: one per lane, two where fused.
    pub fn operations(&self) -> u64 {
        let fused = if self.kernel.op == Op::Fma { 2 } else { 1 };
        self.instructions() * self.body.lanes * fused
    }

    /// Does [`Peak::operations`] operations; whether their results are those of the first run.
    pub fn run(&self) -> bool {
        self.accumulate(self.turns) == self.end
    }

    fn instructions_per_turn(&self) -> u64 {
        self.body.chains as u64 * self.body.rounds
    }

    fn accumulate(&self, turns: u64) -> [Block; CHAINS_MAX] {
        let mut accumulators = self.start;
        // SAFETY: the processor has the instructions (`peak_body`); the loop reads two blocks of
        // operands, and reads and writes one block for each of its at most `CHAINS_MAX` chains.
        unsafe {
            (self.body.run)(turns, self.operands.as_ptr().cast(), accumulators.as_mut_ptr().cast());
        }
        accumulators
    }

    /// What the accumulators must be after the turns, by software.
    fn known_answer(&self, turns: u64) -> [Block; CHAINS_MAX] {
        let mut blocks = self.start;
        let steps = turns * self.body.rounds;
        let lanes = self.body.lanes as usize;
        for (chain, block) in blocks.iter_mut().take(self.body.chains).enumerate() {
            let kernel = self.kernel.in_chain(chain);
            let [multiplier, addend] = &self.operands;
            // A scalar floating kernel loads and stores its one element; the rest stays.
            for lane in 0..lanes {
                let value = |of: &Block| element(self.kernel.element, of, lane);
                let (m, c) = (value(multiplier), value(addend));
                let mut bits = value(block);
                for _ in 0..steps {
                    bits = step(kernel, bits, m, c);
                }
                set_element(self.kernel.element, block, lane, bits);
            }
        }
        blocks
    }
}

fn step(kernel: Kernel, bits: u64, m: u64, c: u64) -> u64 {
    let single = |bits: u64| f32::from_bits(bits as u32);
    let double = f64::from_bits;
    match (kernel.element, kernel.op) {
        (Type::F32, Op::Add) => u64::from((single(bits) + single(c)).to_bits()),
        (Type::F32, Op::Mul) => u64::from((single(bits) * single(m)).to_bits()),
        (Type::F32, Op::Fma) => u64::from(single(m).mul_add(single(c), single(bits)).to_bits()),
        (Type::F64, Op::Add) => (double(bits) + double(c)).to_bits(),
        (Type::F64, Op::Mul) => (double(bits) * double(m)).to_bits(),
        (Type::F64, Op::Fma) => double(m).mul_add(double(c), double(bits)).to_bits(),
        (Type::I32, Op::Add) => u64::from((bits as u32).wrapping_add(c as u32)),
        (Type::I32, Op::Mul) => u64::from((bits as u32).wrapping_mul(m as u32)),
        (Type::I64, Op::Add) => bits.wrapping_add(c),
        (Type::I64, Op::Mul) => bits.wrapping_mul(m),
        // No kernel multiplies and adds integers, and each chain of a mix does one of the two.
        (Type::I32 | Type::I64, Op::Fma) => m.wrapping_mul(c).wrapping_add(bits),
        (_, Op::Mix) => bits,
    }
}

fn element(of: Type, block: &Block, lane: usize) -> u64 {
    let size = of.bytes() as usize;
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&block.0[lane * size..][..size]);
    u64::from_le_bytes(bytes)
}

fn set_element(of: Type, block: &mut Block, lane: usize, bits: u64) {
    let size = of.bytes() as usize;
    block.0[lane * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
}

/// A block whose lanes are what `bits` says.
fn block(of: Type, bits: impl Fn(usize) -> u64) -> Block {
    let mut block = Block([0; 64]);
    for lane in 0..64 / of.bytes() as usize {
        set_element(of, &mut block, lane, bits(lane));
    }
    block
}

/// Multiplier and addend. Floating ones keep every accumulator finite and normal for billions of
/// steps: the multiplier is just below 1 (a product halves in 700,000 steps, and runs are far
/// shorter), and what is added is less than a millionth. Bits are many, so that units switch as
/// with real data.
fn operands(of: Type) -> [Block; 2] {
    let below_one = 1.0 - 1.0 / f64::from(1_u32 << 20);
    let addend = 0.75 / f64::from(1_u32 << 20);
    let (m, c) = match of {
        Type::F32 => {
            (u64::from((below_one as f32).to_bits()), u64::from((addend as f32).to_bits()))
        }
        Type::F64 => (below_one.to_bits(), addend.to_bits()),
        // Odd, so that no product becomes zero.
        Type::I32 => (0x2545_f491, 0x9e37_79b9),
        Type::I64 => (0xd134_2543_de82_ef95, 0x9e37_79b9_7f4a_7c15),
    };
    [block(of, |_| m), block(of, |_| c)]
}

/// Accumulators that are all different, floating ones from 1 to 1.4.
fn start(of: Type) -> [Block; CHAINS_MAX] {
    std::array::from_fn(|chain| {
        block(of, |lane| {
            let place = (16 * chain + lane) as u64;
            match of {
                Type::F32 => u64::from((1.0 + place as f32 * 0.001_031).to_bits()),
                Type::F64 => (1.0 + place as f64 * 0.001_031).to_bits(),
                Type::I32 => ((2 * place + 1) * 0x0101_6b3d) & 0xffff_ffff,
                Type::I64 => (2 * place + 1).wrapping_mul(0x0101_6b3d_9e21_7f4b),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{CHAINS_MAX, Kernel, Op, Peak, Type, element};

    /// Every lane of every chain, after whole turns, is what software computes.
    #[test]
    fn every_lane_computes_what_software_computes() {
        let mut tried = 0;
        for kernel in Kernel::every().filter(|kernel| Peak::is_supported(*kernel)) {
            let peak = Peak::new(kernel, 1).expect("the processor has it");
            assert!(peak.is_right(), "{kernel:?}");
            for turns in [0, 1, 2, 41] {
                assert_eq!(
                    peak.accumulate(turns),
                    peak.known_answer(turns),
                    "{kernel:?}, {turns} turns"
                );
            }
            if let Some(chain) = Peak::chain(kernel, 1) {
                assert!(chain.is_right() && chain.instructions() == 32, "{kernel:?}");
            }
            tried += 1;
        }
        assert!(tried >= 14, "scalar kernels and those of the least vector set");
    }

    #[test]
    fn a_run_is_about_as_long_as_asked_and_always_the_same() {
        for kernel in Kernel::every() {
            let Some(peak) = Peak::new(kernel, 10_000) else {
                assert!(!Peak::is_supported(kernel));
                continue;
            };
            let fused = if kernel.op == Op::Fma { 2 } else { 1 };
            let operations = peak.instructions() * peak.lanes() * fused;
            assert_eq!(peak.operations(), operations, "{kernel:?}");
            assert!((9_800..=10_000).contains(&peak.instructions()), "{kernel:?}");
            assert!(peak.run() && peak.run(), "{kernel:?}");
            let mut wrong = peak.clone();
            wrong.end[0].0[0] ^= 1;
            assert!(!wrong.run(), "{kernel:?}: a wrong result is seen");
        }
    }

    /// Floating accumulators stay finite and normal, and no chain repeats another.
    #[test]
    fn values_stay_normal_and_apart() {
        for kernel in Kernel::every() {
            let Some(peak) = Peak::new(kernel, 1_000_000) else { continue };
            let mut seen = std::collections::HashSet::new();
            for chain in 0..peak.body.chains {
                assert!(chain < CHAINS_MAX);
                for lane in 0..peak.lanes() as usize {
                    let bits = element(kernel.element, &peak.end[chain], lane);
                    assert!(seen.insert(bits), "{kernel:?}: {chain}, {lane}");
                    match kernel.element {
                        Type::F32 => assert!(f32::from_bits(bits as u32).is_normal()),
                        Type::F64 => assert!(f64::from_bits(bits).is_normal()),
                        Type::I32 | Type::I64 => {}
                    }
                }
            }
        }
    }
}
