//! The processor's own cycle counter, where the kernel lets one be used.

use std::fs::File;
use std::io::Read;

use crate::kernel;
use crate::perf::{Attributes, EXCLUDE_HV, EXCLUDE_KERNEL};

/// Counts core cycles of the calling thread in user mode.
#[derive(Debug)]
pub struct CycleCounter {
    file: File,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const PERF_FORMAT_TOTAL_TIME_RUNNING: u64 = 2;
/// A bit of `flags`.
const PINNED: u64 = 1 << 2;

const CHECK_STEPS: u64 = 100_000;
/// Cycles that one multiplication of that chain can take. The cores of the
/// last fifteen years take 3 to 5; the margin is for the loop and interrupts.
const PLAUSIBLE_CYCLES: std::ops::RangeInclusive<f64> = 2.9..=6.5;

impl CycleCounter {
    /// Opens the counter and checks it on a chain of multiplications. `None` if it does not exist
    /// (most virtual machines), where it is forbidden (`perf_event_paranoid`, seccomp), or where it
    /// counts nonsense.
    pub fn open() -> Option<CycleCounter> {
        let attributes = Attributes {
            kind: PERF_TYPE_HARDWARE,
            config: PERF_COUNT_HW_CPU_CYCLES,
            read_format: PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
            flags: PINNED | EXCLUDE_KERNEL | EXCLUDE_HV,
            ..Attributes::default()
        };
        // The calling thread on any CPU, no group.
        let counter = CycleCounter { file: attributes.open(0, -1, None).ok()? };
        counter.counts_a_known_chain().then_some(counter)
    }

    /// Core cycles of this thread in user mode since the counter was opened; `None` if it was not
    /// on the hardware all the time, because a value scaled up from a share is a guess.
    pub fn read(&self) -> Option<u64> {
        let mut bytes = [0u8; 24];
        (&self.file).read_exact(&mut bytes).ok()?;
        counted(bytes)
    }

    fn counts_a_known_chain(&self) -> bool {
        let (Some(before), sum, Some(after)) =
            (self.read(), kernel::chain_multiply(CHECK_STEPS), self.read())
        else {
            return false;
        };
        sum == kernel::multiplied(CHECK_STEPS) && plausible(before, after)
    }
}

/// Value, time enabled and time running, as the kernel writes them.
fn counted(bytes: [u8; 24]) -> Option<u64> {
    let word = |index: usize| {
        let bytes = &bytes[index * 8..index * 8 + 8];
        u64::from_ne_bytes(bytes.try_into().expect("the slice has eight bytes"))
    };
    let (value, enabled, running) = (word(0), word(1), word(2));
    (value > 0 && running > 0 && running == enabled).then_some(value)
}

/// Whether the counter moved by what the chain must take.
fn plausible(before: u64, after: u64) -> bool {
    let Some(cycles) = after.checked_sub(before) else { return false };
    PLAUSIBLE_CYCLES.contains(&(cycles as f64 / CHECK_STEPS as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: u64, enabled: u64, running: u64) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (index, word) in [value, enabled, running].into_iter().enumerate() {
            bytes[index * 8..index * 8 + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn zeros_and_shares_are_not_counts() {
        assert_eq!(counted(record(7, 5, 5)), Some(7));
        assert_eq!(counted(record(0, 5, 5)), None);
        assert_eq!(counted(record(7, 5, 4)), None);
        assert_eq!(counted(record(7, 0, 0)), None);
    }

    #[test]
    fn only_what_a_multiplication_can_take_is_plausible() {
        for cycles in [3, 4, 5, 6] {
            assert!(plausible(1000, 1000 + cycles * CHECK_STEPS));
        }
        for cycles in [0, 1, 2, 7, 100] {
            assert!(!plausible(1000, 1000 + cycles * CHECK_STEPS));
        }
        assert!(!plausible(1000, 999));
    }

    #[test]
    fn an_open_counter_counts_and_a_missing_one_is_none() {
        let Some(counter) = CycleCounter::open() else { return skips::test("cycle-counter") };
        let before = counter.read().unwrap();
        kernel::chain_multiply(CHECK_STEPS);
        assert!(counter.read().unwrap() >= before + 2 * CHECK_STEPS);
    }
}
