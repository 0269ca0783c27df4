//! The kernels that bandwidth, loaded memory and nodes share: what is done with each element, by
//! which instructions, in which level, and by how many threads.

use super::Level;
use crate::cpu::peak::{self, Arithmetic, Element, thread_cpus};
use bench::experiment::Site;
use bench::{case, rows, symbols};
use host::Arch;
use metal::stream::{self, Kernel};

/// Loads and stores of vectors are as light as additions of integers.
const LIGHT: (peak::Op, Element) = (peak::Op::Add, Element::I64);

rows! {
    /// What is done with each element: the instrument's name, and the arithmetic in vectors.
    pub enum Op: (stream::Op, (peak::Op, Element)) {
        Read = "read" => (stream::Op::Read, LIGHT),
        Write = "write" => (stream::Op::Write, LIGHT),
        Modify = "modify" => (stream::Op::Modify, LIGHT),
        Copy = "copy" => (stream::Op::Copy, LIGHT),
        Scale = "scale" => (stream::Op::Scale, (peak::Op::Mul, Element::F64)),
        Add = "add" => (stream::Op::Add, (peak::Op::Add, Element::F64)),
        Triad = "triad" => (stream::Op::Triad, (peak::Op::Fma, Element::F64)),
    }
}
rows! {
    /// Into the caches or past them.
    pub enum Stores: stream::Stores {
        Regular = "regular" => stream::Stores::Regular,
        NonTemporal = "nontemporal" => stream::Stores::NonTemporal,
    }
}
rows! {
    /// Every byte, or one word of each line in two orders.
    pub enum Access: stream::Access {
        Every = "every" => stream::Access::Every,
        First = "first" => stream::Access::First,
        Strided = "strided" => stream::Access::Strided,
    }
}
symbols! {
    /// Bytes of a memory instruction; `vector`: the widest, in main memory the fastest.
    pub enum Width {
        Vector = "vector", Sse2 = "sse2", Avx2 = "avx2", Avx512 = "avx512", Neon = "neon"
        ; Word(4, 8, B)
    }
}
impl Width {
    /// What the instrument calls it; none for the widest.
    fn instruments(self) -> Option<stream::Width> {
        Some(match self {
            Width::Vector => return None,
            Width::Word(..8) => stream::Width::Word4,
            Width::Word(_) => stream::Width::Word8,
            Width::Sse2 => stream::Width::Sse2,
            Width::Avx2 => stream::Width::Avx2,
            Width::Avx512 => stream::Width::Avx512,
            Width::Neon => stream::Width::Neon,
        })
    }

    pub fn is_vector(self) -> bool {
        !matches!(self, Width::Word(_))
    }
}
symbols! {
    /// A number, one per CPU to measure on, or those of one core.
    pub enum Threads { All = "all", Smt = "smt"; Number(1, 8192, Count) }
}
case! {
    /// A kernel, the level that its arrays lie in, and how many threads run it.
    pub struct Transfer {
        /// operation on each element
        op: Op,
        /// stores through the caches (regular) or past them (nontemporal)
        stores: Stores,
        /// every byte, or one word of 4 or 8 bytes of each line: in order, 32 per iteration (first,
        /// R1), or every 512 bytes in eight sweeps (strided, R0)
        access: Access,
        /// width of a memory instruction; vector: the widest, or in main memory the fastest
        width: Width,
        /// level of the hierarchy that holds the arrays
        level: Level,
        /// number of threads, all (one per CPU) or smt (those of one core)
        threads: Threads,
    }
}

/// STREAM's kernels, whose mean R4 took.
pub const STREAM: [Op; 4] = [Op::Copy, Op::Scale, Op::Add, Op::Triad];

impl Transfer {
    /// A kernel that touches every byte in the widest vectors.
    pub fn widest(op: Op, stores: Stores, level: Level, threads: Threads) -> Transfer {
        Transfer { op, stores, access: Access::Every, width: Width::Vector, level, threads }
    }

    /// The same with another operation.
    #[must_use]
    pub fn with_op(&self, op: Op) -> Transfer {
        Transfer { op, ..self.clone() }
    }

    pub fn kernel(&self) -> Kernel {
        let (op, stores, access) = (self.op.row().0, *self.stores.row(), *self.access.row());
        match self.width.instruments() {
            Some(width) => Kernel { op, stores, access, width },
            None => Kernel::widest(op, stores),
        }
    }

    /// Lines that the program loads, and that it stores to, for one line of each array.
    pub(super) fn moves(&self) -> (f64, f64) {
        let stores = f64::from(self.op != Op::Read);
        (self.op.row().0.moves() as f64 - stores, stores)
    }

    /// Bytes on the bus for each of the program: a line that is stored regularly is read before,
    /// unless the program loads it anyway.
    pub fn bus_ratio(&self) -> f64 {
        let is_loaded = matches!(self.op, Op::Read | Op::Modify);
        let allocated = f64::from(!is_loaded && self.stores == Stores::Regular);
        let moves = self.op.row().0.moves() as f64;
        (moves + allocated) / moves
    }

    /// The same where it is a figure of its own: other bytes, and not in the first cache, in which
    /// stores read no further lines.
    pub fn own_bus_ratio(&self) -> Option<f64> {
        let ratio = self.bus_ratio();
        (ratio != 1.0 && self.level != Level::L1).then_some(ratio)
    }

    pub fn bytes(&self, site: &Site) -> f64 {
        let cpu = &site.host.cpu;
        match self.width.instruments() {
            Some(width) => width.bytes() as f64,
            None if cpu.arch == Arch::Aarch64 => 16.0,
            None if cpu.has("avx512f") => 64.0,
            None if cpu.has("avx2") && cpu.has("fma") => 32.0,
            None => 16.0,
        }
    }

    /// The arithmetic under which the core's clock is that of this kernel by instructions of so
    /// many bytes; none where they are too narrow to lower it.
    pub fn at_width(&self, instruction_bytes: u64) -> Option<Arithmetic> {
        let width = match instruction_bytes {
            32 => peak::Width::Avx2,
            64 => peak::Width::Avx512,
            _ => return None,
        };
        let (op, element) = self.op.row().1;
        Some(Arithmetic { op, element, width })
    }
}

/// The CPUs of a case's threads, one entry for each, fewer than asked for where there are no more;
/// for `smt` the threads of the first core that shows several here.
pub fn cpus_of(site: &Site, threads: Threads) -> Vec<usize> {
    match threads {
        Threads::Number(1) => site.cpus.first().copied().into_iter().collect(),
        Threads::Number(count) => thread_cpus(site, count.max(1) as usize),
        Threads::All => thread_cpus(site, site.cpus.len().max(1)),
        Threads::Smt => {
            let siblings = |cpu: &usize| -> Vec<usize> {
                let of = site.host.cpu.cpu(*cpu).map(|cpu| &cpu.smt_siblings);
                let here = of.into_iter().flatten().filter(|cpu| site.cpus.contains(cpu));
                here.copied().collect()
            };
            let mut cores = site.cpus.iter().map(siblings);
            cores.find(|cpus| cpus.len() > 1).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Op, Stores, Threads, Transfer};

    #[test]
    fn bus_ratios_are_the_instruments() {
        for (op, stores) in Op::ALL.iter().flat_map(|op| Stores::ALL.iter().map(|of| (*op, *of))) {
            let of = Transfer::widest(op, stores, Level::Memory, Threads::Number(1));
            if stores == Stores::Regular || !matches!(op, Op::Read | Op::Modify) {
                let ratio = of.kernel().bus_bytes(600) as f64 / 600.0;
                assert!((ratio - of.bus_ratio()).abs() < 1e-12, "{of:?}");
            }
        }
    }
}
