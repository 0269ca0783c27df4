//! Arrays that a thread passes over, in memory of its own node: what bandwidth, loaded memory and
//! nodes share.

use super::unlocked;
use bench::measure::Team;
use bench::measure::placed::{Placed, place_near, verify_node};
use bench::prelude::*;
use metal::clock::monotonic_ns;
use metal::stream::{Ahead, Kernel, Loop, Stream};
use stats::quantile::median;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Bytes that each loop moves in a trial at most: of several 0.1 ms.
const TRIAL_BYTES: usize = 4 << 20;
/// Trials of each loop, in turn; the median counts.
const TRIALS: usize = 5;
/// Bytes of the first step, from which its length in time is found.
const FIRST_STEP: usize = 64 << 10;
/// Memory comes in pieces of this, where it comes in huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// A kernel's arrays, and what is known of their memory.
pub(super) struct Arrays {
    pub(super) stream: Stream,
    pub(super) huge_share: f64,
    pub(super) notes: Vec<String>,
    pub(super) node: usize,
}

impl Arrays {
    /// Lays out a kernel's arrays, whose values are written anew.
    pub(super) fn new(kernel: Kernel, placed: Placed, footprint: usize) -> Result<Arrays> {
        let Placed { mapping, huge_share, node, notes } = placed;
        let stream = Stream::new(kernel, Ahead::No, mapping, footprint)?;
        Ok(Arrays { stream, huge_share, notes, node })
    }

    /// Demands that they hold what the passes so far must have left. Errors: they hold other values
    /// ([`WrongResult`]).
    pub(super) fn demand_right(&self) -> Result<()> {
        let kernel = self.stream.kernel();
        let wrong = || WrongResult(format!("{kernel:?} left wrong values in memory"));
        ensure!(self.stream.is_right(), wrong());
        Ok(())
    }

    /// As [`Arrays::demand_right`], on the node that they were placed on. If the kernel does not
    /// report it now, it did not when they were placed: noted then.
    pub(super) fn verify(&self) -> Result<()> {
        self.demand_right()?;
        verify_node(self.stream.mapping(), self.node, &mut Vec::new())
    }

    pub(super) fn into_placed(self) -> Placed {
        let Arrays { stream, huge_share, notes, node } = self;
        Placed { mapping: stream.into_mapping(), huge_share, node, notes }
    }
}

/// The memory of a round's threads by their CPUs: taken when a case first needs so much of it.
pub(super) struct Arena {
    held: BTreeMap<usize, Placed>,
    /// Most bytes of all together.
    most_bytes: u64,
}

impl Arena {
    /// For a round that may hold so many bytes; nothing is taken yet.
    pub(super) fn new(most_bytes: u64) -> Arena {
        Arena { held: BTreeMap::new(), most_bytes }
    }

    /// Gives back what is held for these CPUs where it is less than `bytes`, and what others hold
    /// where the new would be too much beside it. Whether there is memory to be taken.
    pub(super) fn make_room(&mut self, cpus: &[usize], bytes: usize) -> bool {
        self.held.retain(|cpu, held| held.mapping.bytes() >= bytes || !cpus.contains(cpu));
        let missing = cpus.iter().filter(|cpu| !self.held.contains_key(cpu)).count() as u64;
        let new = missing.saturating_mul(bytes.next_multiple_of(HUGE_PAGE) as u64);
        let held: u64 = self.held.values().map(|held| held.mapping.bytes() as u64).sum();
        if new > 0 && held.saturating_add(new) > self.most_bytes {
            self.held.retain(|cpu, _| cpus.contains(cpu));
        }
        new > 0
    }

    /// A kernel's arrays for each CPU, made by a thread there.
    pub(super) fn lay_out(
        &mut self,
        cpus: &[usize],
        kernel: Kernel,
        footprint: usize,
    ) -> Result<Vec<Mutex<Arrays>>> {
        let bytes = Stream::mapping_bytes(kernel, footprint) as u64;
        let held = cpus.iter().map(|cpu| self.held.remove(cpu)).collect();
        let arrays = Team::each(cpus, held, |held: Option<Placed>| {
            let placed = held.map_or_else(|| place_near(bytes), Ok)?;
            Arrays::new(kernel, placed, footprint)
        })?;
        Ok(arrays.into_iter().map(Mutex::new).collect())
    }

    /// Verifies the CPUs' arrays, and holds their memory again.
    pub(super) fn take_back(&mut self, cpus: &[usize], arrays: Vec<Mutex<Arrays>>) -> Result<()> {
        let things = cpus.iter().copied().zip(arrays.into_iter().map(unlocked)).collect();
        self.held.extend(Team::each(cpus, things, |(cpu, arrays)| {
            arrays.verify().with_context(|| format!("memory of the thread on CPU {cpu}"))?;
            Ok((cpu, arrays.into_placed()))
        })?);
        Ok(())
    }

    /// What is known of the memory that is held for these CPUs.
    pub(super) fn memory_of(&self, cpus: &[usize]) -> MemoryOf {
        let placed = || cpus.iter().filter_map(|cpu| self.held.get(cpu));
        let nodes: BTreeSet<usize> = placed().map(|placed| placed.node).collect();
        let mut notes = Vec::new();
        for note in placed().flat_map(|placed| &placed.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        MemoryOf {
            huge_share: placed().map(|placed| placed.huge_share).fold(1.0, f64::min),
            nodes: nodes.into_iter().collect(),
            notes,
        }
    }
}

/// What is known of some threads' memory.
pub(super) struct MemoryOf {
    /// Least share of a thread's in huge pages.
    pub(super) huge_share: f64,
    pub(super) nodes: Vec<usize>,
    pub(super) notes: Vec<String>,
}

/// Continues with the fastest loop of the kernel, and returns it: on Zen 4 those that prefetch for
/// stores copy a third less, on Redwood Cove a third more.
pub(super) fn take_quickest(stream: &mut Stream) -> Loop {
    let loops = stream.kernel().loops();
    let bytes = TRIAL_BYTES.min(stream.pass_bytes() as usize);
    let mut took: Vec<Vec<f64>> = vec![Vec::with_capacity(TRIALS); loops.len()];
    for _ in 0..TRIALS {
        for (by, took) in loops.iter().zip(&mut took) {
            stream.set_loop(*by);
            let begin = monotonic_ns();
            let moved = stream.step(bytes);
            took.push((monotonic_ns() - begin) as f64 / moved as f64);
        }
    }
    let medians = took.iter().map(|took| median(took).unwrap_or(f64::MAX));
    let fastest = medians.enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other));
    let by = loops[fastest.map_or(0, |(at, _)| at)];
    stream.set_loop(by);
    by
}

/// Bytes of a step that takes about so long.
pub(super) fn step_bytes(stream: &mut Stream, clock: Clock, step_ns: f64) -> usize {
    let mut bytes = FIRST_STEP;
    for _ in 0..3 {
        let start = clock.start();
        let moved = stream.step(bytes);
        let took_ns = clock.between_ns(start, clock.end()).max(1.0);
        bytes = ((moved as f64 * step_ns / took_ns) as usize).clamp(4096, 1 << 28);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::measure::placed::place;
    use metal::memory::Pages;
    use metal::stream::{Op, Stores};
    use std::os::unix::fs::FileExt;

    fn arrays(op: Op) -> Arrays {
        let (kernel, bytes) = (Kernel::widest(op, Stores::Regular), 1 << 18);
        let placed = place(Stream::mapping_bytes(kernel, bytes) as u64, Pages::Base);
        Arrays::new(kernel, placed.expect("memory"), bytes).expect("there is such a kernel")
    }

    #[test]
    fn whichever_loop_is_taken_the_arrays_stay_right() {
        for op in Op::ALL {
            let mut arrays = arrays(op);
            let by = take_quickest(&mut arrays.stream);
            assert!(arrays.stream.kernel().loops().contains(&by), "{by:?} of {op:?}");
            arrays.stream.step(1 << 16);
            arrays.verify().expect("what the kernel must leave");
        }
    }

    #[test]
    fn memory_that_holds_other_values_is_a_wrong_result() {
        let mut arrays = arrays(Op::Copy);
        arrays.stream.step(1 << 18);
        // What no kernel of this process does: a byte changes behind its back.
        let memory = std::fs::File::options().write(true).open("/proc/self/mem");
        let at = arrays.stream.mapping().as_ptr() as u64 + 8192;
        let changed = arrays.stream.mapping().as_slice()[8192] ^ 1;
        memory.and_then(|memory| memory.write_all_at(&[changed], at)).expect("it is mapped");
        assert!(arrays.verify().expect_err("one byte differs").is::<WrongResult>());
    }

    #[test]
    fn memory_is_taken_as_cases_need_it_and_given_back_where_it_would_be_too_much() {
        const MIB: usize = 1 << 20;
        let kernel = Kernel::widest(Op::Read, Stores::Regular);
        let mut arena = Arena::new(6 << 20);
        let cpus = metal::place::allowed().expect("CPUs");
        let (first, second) = (cpus[0], cpus[cpus.len() - 1]);
        let mut take = |cpu: usize, bytes: usize| {
            let is_short = arena.make_room(&[cpu], bytes);
            let arrays = arena.lay_out(&[cpu], kernel, bytes).expect("a few pages");
            arena.take_back(&[cpu], arrays).expect("they are right");
            (is_short, arena.held.len())
        };
        assert_eq!(take(first, 2 * MIB), (true, 1));
        assert_eq!(take(first, 2 * MIB), (false, 1));
        assert_eq!(take(first, 4096), (false, 1), "it is held");
        if first != second {
            assert_eq!(take(second, 3 * MIB), (true, 2));
            // More for the first than there may be beside the second.
            assert_eq!(take(first, 4 * MIB), (true, 1));
        }
    }
}
