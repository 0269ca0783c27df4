//! Known answers: every timed body of this processor, run briefly, beside what software computes.

use std::io;

use crate::chains::Chains;
use crate::instruction;
use crate::kernel::{self, ArgumentType, CallKind, ClockRead, Frame, MAX_ARGUMENTS};
use crate::line::Lines;
use crate::memory::{Mapping, Pages};
use crate::peak::{self, Peak};
use crate::stream::{self, Ahead, Stream};

/// Counts around the unrolling of loops.
const COUNTS: [u64; 6] = [0, 1, 7, 33, 128, 1003];
/// Lines of each array of a stream, and bytes of a step that stops within them.
const STREAM_LINES: usize = 8 * 37;
const STREAM_STEP: usize = 5000;
/// Slots of a cycle of loads.
const SLOTS: usize = 5040;

/// A timed body, and whether it did what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub kernel: String,
    pub is_right: bool,
}

/// Runs every body that this processor has. Errors: those of mmap(2).
pub fn every() -> io::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    let mut add = |kernel: String, is_right: bool| answers.push(Answer { kernel, is_right });
    for (name, run, answer) in chains_and_loops() {
        add(name.to_owned(), COUNTS.iter().all(|n| run(*n) == answer(*n)));
    }
    for kind in CallKind::every() {
        let is_right = |n: &u64| kernel::call(kind, *n) == Some(kernel::call_sum(kind, *n));
        add(format!("call {kind:?}"), COUNTS.iter().all(is_right));
    }
    for kind in ClockRead::available() {
        let readings = [9, 9].map(|n| kernel::clock_read(*kind, n));
        // Each call of this clock counts from its own beginning.
        let goes_on = readings.is_sorted() || *kind == ClockRead::Instant;
        add(format!("clock {kind:?}"), goes_on && readings[0].is_some());
    }
    let mut bench = instruction::Bench::new();
    for of in instruction::all().iter().filter(|of| of.is_present()) {
        let is_right = COUNTS.iter().all(|n| bench.is_right(of, *n));
        add(format!("instruction {}", of.name), is_right);
    }
    let pattern = [5, 0xaaaa_aaaa_aaaa_aaaa, u64::MAX];
    let taken = pattern.iter().map(|word| u64::from(word.count_ones())).sum();
    add("branches".to_owned(), instruction::Bench::branches(&pattern) == taken);
    for of in peak::Kernel::every() {
        for (what, peak) in [("peak", Peak::new(of, 1)), ("chain", Peak::chain(of, 1))] {
            if let Some(peak) = peak {
                add(format!("{what} {of:?}"), peak.is_right() && peak.run());
            }
        }
    }
    for of in stream::Kernel::every().filter(|of| of.is_supported()) {
        let bytes = STREAM_LINES * 64 * of.op.arrays();
        let mapping = Mapping::new(Stream::mapping_bytes(of, bytes), Pages::Base)?;
        let mut stream = Stream::new(of, Ahead::No, mapping, bytes)?;
        stream.step(STREAM_STEP);
        let in_between = stream.is_right();
        stream.pass();
        add(format!("stream {of:?}"), in_between && stream.is_right());
    }
    let mut mapping = Mapping::new(SLOTS * 64, Pages::Base)?;
    mapping.touch();
    let mut chains = Chains::new(mapping, SLOTS * 64, 64, 7)?;
    for count in 1..=crate::chains::MOST_CHAINS {
        chains.enter(count)?;
        chains.chase(SLOTS as u64 / count as u64);
        add(format!("loads in {count} chains"), chains.is_right());
    }
    let lines = Lines::new(1)?;
    lines.home(0);
    add("cache line".to_owned(), lines.play(0, 0, 1, 10) == 1 && lines.value(0) == 1);
    Ok(answers)
}

type Count = fn(u64) -> u64;

/// Bodies of `n` operations that leave one word, each with what that must be.
fn chains_and_loops() -> [(&'static str, Count, Count); 6] {
    [
        ("chain of multiplications", kernel::chain_multiply, kernel::multiplied),
        ("chain of rotations", kernel::chain_rotate, kernel::rotated),
        ("chain of additions", kernel::chain_add, |n| n),
        ("empty loop", kernel::loop_empty, |n| n),
        ("loop with a variable in memory", kernel::loop_volatile, |n| n),
        ("unrolled loop", kernel::loop_unrolled, |n| n),
    ]
}

impl CallKind {
    pub(crate) fn every() -> impl Iterator<Item = CallKind> {
        use ArgumentType::{F32, F64, I32, I64};
        let of = |arguments| {
            [I32, I64, F32, F64].into_iter().flat_map(move |argument| {
                [Frame::Registers, Frame::Spilled].map(|frame| CallKind::Direct {
                    arguments,
                    argument,
                    frame,
                })
            })
        };
        let others = [CallKind::Indirect, CallKind::Plt, CallKind::Struct];
        (0..=MAX_ARGUMENTS).flat_map(of).chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::every;

    #[test]
    fn every_body_leaves_its_known_answer() {
        let answers = every().unwrap();
        let wrong: Vec<_> = answers.iter().filter(|answer| !answer.is_right).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(answers.len() > 200, "{}", answers.len());
    }
}
