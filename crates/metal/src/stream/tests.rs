use super::{Access, Ahead, Kernel, Loop, Op, PAGE, STEP_LINES, Stores, Stream, Width};
use crate::memory::{Mapping, Pages};
use std::collections::HashSet;

fn supported() -> impl Iterator<Item = Kernel> {
    Kernel::every().filter(|kernel| kernel.is_supported())
}

fn stream(kernel: Kernel, lines: usize, ahead: Ahead) -> Stream {
    let bytes = lines * 64 * kernel.op.arrays();
    let mapping = Mapping::new(Stream::mapping_bytes(kernel, bytes), Pages::Base).unwrap();
    Stream::new(kernel, ahead, mapping, bytes).unwrap()
}

/// Sizes below, at and beside whole turns of every loop, and of several pages.
const LINES: [usize; 4] = [8, 8 * 3, 8 * 13, 8 * 37];

#[test]
fn every_kernel_leaves_the_known_answer_wherever_it_stops() {
    let mut kernels = 0;
    for kernel in supported() {
        kernels += 1;
        for ahead in [Ahead::No, Ahead::Yes] {
            for lines in LINES {
                let mut stream = stream(kernel, lines, ahead);
                let what = format!("{kernel:?}, {lines} lines, ahead {ahead:?}");
                assert!(stream.is_right(), "{what}, at first");
                for bytes in [1, 5000, 64, 90_000] {
                    stream.step(bytes);
                    assert!(stream.is_right(), "{what}, after a step of {bytes}");
                }
                stream.pass();
                assert_eq!((stream.position, stream.sweep), (0, 0));
                assert_eq!(stream.pass(), stream.pass_bytes());
                assert!(stream.is_right(), "{what}, after a pass");
            }
        }
    }
    // Scalars of two sizes: seven operations thrice and five past the caches;
    // a vector: seven and five.
    assert!(kernels >= 2 * (7 * 3 + 5) + 12, "{kernels}");
}

/// Any bit of any array that is not as it must be is seen.
#[test]
fn a_wrong_word_is_seen() {
    for kernel in supported() {
        let lines = 8 * 37;
        let mut stream = stream(kernel, lines, Ahead::No);
        stream.step(64 * 50 * kernel.op.moves());
        assert!(stream.is_right(), "{kernel:?}");
        for array in 0..kernel.op.arrays() {
            for word in [0, 49 * 8, 50 * 8, lines * 8 - 8, lines * 8 - 1] {
                let at = stream.starts[array] / 8 + word;
                // What is read is judged by the sum; what it leaves, by the words.
                stream.mapping.words_mut()[at] ^= 1 << 40;
                assert!(!stream.is_right(), "{kernel:?}: word {word} of {array}");
                stream.mapping.words_mut()[at] ^= 1 << 40;
            }
        }
        stream.sum ^= 1;
        assert_eq!(stream.is_right(), kernel.op != Op::Read, "{kernel:?}");
    }
}

/// A step that did less than it says would leave what the check refuses.
#[test]
fn work_left_out_is_seen() {
    for kernel in supported() {
        let mut stream = stream(kernel, 8 * 37, Ahead::No);
        stream.step(64 * 50 * kernel.op.moves());
        // A line more is claimed than was done. Vectors that are read are told by the last of them.
        stream.position += 1;
        stream.last.1 += 1;
        assert!(!stream.is_right(), "{kernel:?}");
    }
}

#[test]
fn a_step_returns_what_it_moved_and_goes_on() {
    for kernel in supported() {
        let (lines, moves) = (8 * 64, kernel.op.moves());
        let mut stream = stream(kernel, lines, Ahead::No);
        assert_eq!(stream.pass_bytes(), (lines * 64 * moves) as u64);
        assert_eq!(stream.footprint_bytes(), lines * 64 * kernel.op.arrays());
        // Whole steps, which need not divide the arrays, add up.
        let step = 3 * STEP_LINES;
        let mut total = 0;
        for _ in 0..20 {
            let moved = stream.step(step * 64 * moves - 1) as usize;
            assert_eq!(moved, step * 64 * moves, "{kernel:?}");
            total += moved / 64 / moves;
            let sweeps = super::sweeps(kernel.access);
            let place =
                stream.passes as usize * lines + stream.sweep * (lines / sweeps) + stream.position;
            assert_eq!(place, total, "{kernel:?}");
        }
    }
}

#[test]
fn small_arrays_are_passed_over_whole() {
    for access in [Access::Every, Access::First] {
        let kernel = Kernel { op: Op::Copy, stores: Stores::Regular, access, width: Width::Word8 };
        let mut stream = stream(kernel, 8, Ahead::No);
        let pass = 8 * 64 * 2;
        for (bytes, passes) in [(pass, 1), (10 * pass, 10), (10 * pass + 100, 10)] {
            let before = stream.passes;
            assert_eq!(stream.step(bytes), (passes * pass) as u64);
            assert_eq!(stream.passes - before, passes as u64);
        }
    }
}

#[test]
fn arrays_lie_apart_in_their_pages_and_inside_the_mapping() {
    for kernel in supported() {
        for lines in LINES {
            let stream = stream(kernel, lines, Ahead::No);
            let starts = &stream.starts[..kernel.op.arrays()];
            let end = starts[starts.len() - 1] + lines * 64;
            assert!(end <= stream.mapping.bytes());
            for (number, start) in starts.iter().enumerate() {
                assert_eq!(start % 64, 0);
                for other in &starts[..number] {
                    assert!(start - other >= lines * 64);
                    let apart = (start - other) % PAGE;
                    assert!((1024..=PAGE - 1024).contains(&apart), "{apart}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_laid_out_is_refused() {
    let kernel = Kernel::widest(Op::Triad, Stores::Regular);
    let of = |bytes: usize, footprint| {
        let mapping = Mapping::new(bytes, Pages::Base).unwrap();
        Stream::new(kernel, Ahead::Yes, mapping, footprint).map(|stream| stream.footprint_bytes())
    };
    assert!(of(PAGE, 191).is_err(), "less than a line of each");
    assert!(of(16 * PAGE, 32 * PAGE).is_err(), "a mapping too small");
    assert_eq!(of(16 * PAGE, 3 * 64 * 5 + 10).unwrap(), 3 * 64 * 5);
    let impossible = Kernel { access: Access::First, ..kernel };
    assert!(!impossible.is_supported());
    let mapping = Mapping::new(PAGE, Pages::Base).unwrap();
    assert!(Stream::new(impossible, Ahead::No, mapping, PAGE / 4).is_err());
}

#[test]
fn the_loops_of_a_kernel_take_turns_over_the_same_arrays() {
    for kernel in supported() {
        let mut stream = stream(kernel, 8 * 37, Ahead::No);
        let loops = kernel.loops();
        assert_eq!(loops[0], Loop { width: kernel.width, ahead: Ahead::No });
        let mut codes = HashSet::new();
        for by in loops.iter().chain(loops.iter().rev()) {
            stream.set_loop(*by);
            codes.insert(stream.code as usize);
            stream.step(64 * 50 * kernel.op.moves());
            assert!(stream.is_right(), "{kernel:?} by {by:?}");
            // What the last run left is told by its own width, not by the next one's.
            stream.set_loop(loops[0]);
            assert!(stream.is_right(), "{kernel:?} after {by:?}");
        }
        assert_eq!(codes.len(), loops.len(), "{kernel:?}");
        let is_own = |by: &&Loop| by.width == kernel.width;
        let own = 1 + usize::from(kernel.has_ahead());
        assert_eq!(loops.iter().filter(is_own).count(), own, "{kernel:?}");
        // Scalars, the narrowest vector and aarch64's one have no narrower beside them.
        let narrower = loops.len() - own;
        let widths = match kernel.width {
            Width::Avx512 => 2,
            Width::Avx2 => 1,
            _ => 0,
        };
        assert_eq!(narrower, widths * own, "{kernel:?}");
    }
}

#[test]
#[should_panic(expected = "is another's")]
fn a_loop_of_other_elements_is_refused() {
    let kernel = Kernel::widest(Op::Read, Stores::Regular);
    let by = Loop { width: Width::Word8, ahead: Ahead::No };
    stream(kernel, 8, Ahead::No).set_loop(by);
}

#[test]
fn what_exists_is_what_is_documented() {
    for kernel in Kernel::every() {
        let Kernel { op, stores, access, width } = kernel;
        let stored = !matches!(op, Op::Read | Op::Modify);
        let exists = match (stores, access) {
            (Stores::Regular, Access::Every) => true,
            (Stores::NonTemporal, Access::Every) => stored,
            (Stores::Regular, _) => !width.is_vector(),
            (Stores::NonTemporal, _) => false,
        };
        assert!(exists || !kernel.is_supported(), "{kernel:?}");
        let scalar = matches!(width, Width::Word4 | Width::Word8);
        assert!(!exists || !scalar || kernel.is_supported(), "{kernel:?}");
    }
    for op in Op::ALL {
        let widest = Kernel::widest(op, Stores::NonTemporal);
        assert!(widest.is_supported() && widest.width.is_vector());
        let stored = !matches!(op, Op::Read | Op::Modify);
        assert_eq!(widest.stores == Stores::NonTemporal, stored, "{op:?}");
    }
}

#[test]
fn bytes_are_counted_as_stream_counts_and_as_the_bus_does() {
    use Op::{Add, Copy, Modify, Read, Scale, Triad, Write};
    for (op, regular, past) in [
        (Read, 1, 1),
        (Write, 2, 1),
        (Modify, 2, 2),
        (Copy, 3, 2),
        (Scale, 3, 2),
        (Add, 4, 3),
        (Triad, 4, 3),
    ] {
        for (stores, lines) in [(Stores::Regular, regular), (Stores::NonTemporal, past)] {
            let kernel = Kernel { op, stores, access: Access::Every, width: Width::Word8 };
            let moved = 64 * 1000 * op.moves() as u64;
            assert_eq!(kernel.bus_bytes(moved), lines * 64 * 1000, "{kernel:?}");
            assert_eq!(kernel.word_bytes(moved), moved);
            let first = Kernel { access: Access::First, ..kernel };
            assert_eq!(first.word_bytes(moved), moved / 8);
        }
    }
}
