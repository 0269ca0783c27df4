//! The loop that moves a thread's arrays fastest.

use metal::clock::monotonic_ns;
use metal::stream::{Loop, Stream};
use stats::quantile::median;

/// Bytes that each loop moves in a trial at most: of several 0.1 ms.
const TRIAL_BYTES: usize = 4 << 20;
/// Trials of each loop, in turn; the median counts.
const TRIALS: usize = 5;

/// Goes on by the kernel's loop that is the fastest here and now, and tells it: on Zen 4 those that
/// prefetch for stores copy a third less, on Redwood Cove a third more.
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
    use super::take_quickest;
    use metal::memory::{Mapping, Pages};
    use metal::stream::{Ahead, Kernel, Op, Stores, Stream};

    #[test]
    fn whichever_loop_is_taken_the_arrays_stay_right() {
        for op in Op::ALL {
            let kernel = Kernel::widest(op, Stores::Regular);
            let bytes = 1 << 18;
            let mapping = Mapping::new(Stream::mapping_bytes(kernel, bytes), Pages::Base);
            let mapping = mapping.expect("there is memory");
            let stream = Stream::new(kernel, Ahead::No, mapping, bytes);
            let mut stream = stream.expect("there is such a kernel");
            let by = take_quickest(&mut stream);
            assert!(kernel.loops().contains(&by), "{by:?} of {kernel:?}");
            stream.step(bytes / 3);
            assert!(stream.is_right(), "{kernel:?} by {by:?}");
        }
    }
}
