//! Arrays that a thread passes over, in memory of its own node: what bandwidth, loaded memory and
//! nodes share.

use anyhow::{Result, ensure};
use bench::measure::WrongResult;
use bench::measure::placed::{Placed, verify_node};
use metal::clock::monotonic_ns;
use metal::stream::{Ahead, Kernel, Loop, Stream};
use stats::quantile::median;

/// Bytes that each loop moves in a trial at most: of several 0.1 ms.
const TRIAL_BYTES: usize = 4 << 20;
/// Trials of each loop, in turn; the median counts.
const TRIALS: usize = 5;

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

    /// The memory, for other arrays.
    pub(super) fn into_placed(self) -> Placed {
        let Arrays { stream, huge_share, notes, node } = self;
        Placed { mapping: stream.into_mapping(), huge_share, node, notes }
    }
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

#[cfg(test)]
mod tests {
    use super::{Arrays, take_quickest};
    use bench::measure::WrongResult;
    use bench::measure::placed::place;
    use metal::memory::Pages;
    use metal::stream::{Kernel, Op, Stores, Stream};
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
}
