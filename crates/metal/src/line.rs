//! Cache lines that two threads hand to each other: what coherence costs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch;
use crate::memory::{Mapping, Pages, base_page_bytes};

/// Lines lie this far apart at least: processors fetch lines of 64 bytes in pairs.
const LINE_PAIR_BYTES: usize = 128;
/// Step from a line's place in its page to the next one's, in line pairs; odd, so that the places
/// of all lines differ until every place of a page had its turn.
const STEP_PAIRS: usize = 7;

/// Words on cache lines of their own, each on its own page that is untouched before
/// [`Lines::home`], so that each has a physical address of its own. All pages are held at once: one
/// that was given back would be the next that the kernel gives.
#[derive(Debug)]
pub struct Lines {
    pages: Mapping,
    count: usize,
}

impl Lines {
    /// Maps `count` lines, which no CPU has touched. Errors: those of mmap(2); `count` is 0.
    pub fn new(count: usize) -> io::Result<Lines> {
        let bytes = count.saturating_mul(base_page_bytes());
        Ok(Lines { pages: Mapping::new(bytes, Pages::Base)?, count })
    }

    /// Touches a line for the first time, on the calling thread's CPU and in its node's memory; its
    /// value becomes 0. Panics: there is no line `index`.
    pub fn home(&self, index: usize) {
        self.word(index).store(0, Ordering::SeqCst);
    }

    /// A line's value: how often it was handed over. Panics: there is no line `index`.
    pub fn value(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::SeqCst)
    }

    /// Takes part in `turns` turns of a game of two: waits awake until the value is `expected`,
    /// makes it `expected + 1`, and goes on with `expected + 2`. Each look at the line is a compare
    /// and swap ([`method`]), as in the tools that print this figure, so that every look takes the
    /// line away from the other party. Gives up after `spins` (at least 1) failed looks at one
    /// turn. Returns the turns that were made. Panics: there is no line `index`.
    pub fn play(&self, index: usize, expected: u64, turns: u64, spins: u64) -> u64 {
        let word = self.word(index).as_ptr();
        // SAFETY: an aligned word of memory that is ours and that all access atomically.
        unsafe { arch::line_turns(word, expected, turns, spins.max(1)) }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.count, "line {index} of {}", self.count);
        let places = base_page_bytes() / LINE_PAIR_BYTES;
        let place = index * STEP_PAIRS % places * LINE_PAIR_BYTES;
        let word = self.pages.as_ptr().cast_mut();
        // SAFETY: inside the mapping, which has a page for each line.
        let word = unsafe { word.add(index * base_page_bytes() + place) };
        // SAFETY: aligned to a line, and no reference to the mapping's bytes is ever made.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

pub fn method() -> &'static str {
    arch::line_method()
}

#[cfg(test)]
mod tests {
    use super::{LINE_PAIR_BYTES, Lines, method};
    use std::collections::BTreeSet;

    #[test]
    fn a_turn_adds_one_and_a_turn_in_vain_ends() {
        let lines = Lines::new(1).expect("maps");
        lines.home(0);
        assert_eq!(lines.play(0, 0, 0, 10), 0);
        assert_eq!(lines.play(0, 0, 1, 10), 1);
        // It is the other party's turn now.
        assert_eq!((lines.play(0, 2, 5, 10), lines.value(0)), (0, 1));
        assert_eq!((lines.play(0, 1, 5, 10), lines.value(0)), (1, 2));
        assert_eq!(lines.play(0, 2, 1, 0), 1);
        assert!(!method().is_empty());
    }

    #[test]
    fn two_threads_hand_a_line_over_exactly_as_often_as_asked() {
        const TURNS: u64 = 500;
        let lines = Lines::new(2).expect("maps");
        lines.home(1);
        let play = |first: u64| {
            let mut done = 0;
            while done < TURNS {
                // Few looks at a time: with one CPU the other thread must run in between.
                done += lines.play(1, first + 2 * done, TURNS - done, 1000);
                std::thread::yield_now();
            }
            done
        };
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| play(1));
            (play(0), other.join().expect("does not panic"))
        });
        assert_eq!((one, other, lines.value(1)), (TURNS, TURNS, 2 * TURNS));
    }

    #[test]
    fn every_line_is_in_a_page_and_at_a_place_of_its_own() {
        let lines = Lines::new(20).expect("maps");
        let page = super::base_page_bytes();
        let addresses = (0..20).map(|index| lines.word(index).as_ptr().addr());
        let (pages, places): (BTreeSet<_>, BTreeSet<_>) =
            addresses.map(|at| (at / page, at % page)).unzip();
        assert_eq!((pages.len(), places.len()), (20, 20));
        assert!(places.iter().all(|place| place % LINE_PAIR_BYTES == 0));
    }

    #[test]
    #[should_panic(expected = "line 3 of 3")]
    fn there_is_no_line_beyond_the_last() {
        Lines::new(3).expect("maps").value(3);
    }
}
