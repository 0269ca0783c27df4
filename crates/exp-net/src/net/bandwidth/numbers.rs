//! Which datagrams came: once, twice, late.

use super::shape::Datagrams;

/// Numbers that are remembered below the highest.
const WINDOW: u64 = 1 << 16;
const WORD_BITS: u64 = u64::BITS as u64;

/// Counts datagrams by their numbers, from 0 on.
pub(super) struct Numbers {
    /// One above the highest that came.
    next: u64,
    /// A bit for each number of the window below `next`, by the number's rest.
    came: Vec<u64>,
    pub(super) counts: Datagrams,
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers {
            next: 0,
            came: vec![0; (WINDOW / WORD_BITS) as usize],
            counts: Datagrams::default(),
        }
    }

    /// One came; whether it is the first with its number. One so late that nothing is remembered of
    /// its number counts as repeated: a number that cannot be distinguished does not count as a delivery.
    pub(super) fn count(&mut self, number: u64) -> bool {
        if number >= self.next {
            let jump = number - self.next + 1;
            if jump >= WINDOW {
                self.came.fill(0);
            } else {
                (self.next..=number).for_each(|passed| self.set(passed, false));
            }
            self.next = number + 1;
        } else {
            self.counts.reordered += 1;
            if self.next - number > WINDOW || self.has(number) {
                self.counts.repeated += 1;
                return false;
            }
        }
        self.set(number, true);
        self.counts.unique += 1;
        true
    }

    /// One too short for a number: it cannot be distinguished from another.
    pub(super) fn count_bare(&mut self) {
        self.counts.unique += 1;
    }

    fn has(&self, number: u64) -> bool {
        let at = number % WINDOW;
        self.came[(at / WORD_BITS) as usize] & (1 << (at % WORD_BITS)) != 0
    }

    fn set(&mut self, number: u64, is: bool) {
        let at = number % WINDOW;
        let (word, bit) = ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS));
        match is {
            true => self.came[word] |= bit,
            false => self.came[word] &= !bit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Numbers, WINDOW};
    use crate::net::bandwidth::shape::Datagrams;

    fn counted(numbers: impl IntoIterator<Item = u64>) -> Datagrams {
        let mut all = Numbers::new();
        for number in numbers {
            all.count(number);
        }
        all.counts
    }

    #[test]
    fn in_order_all_count_once() {
        let counts = counted(0..3 * WINDOW);
        assert_eq!(counts.unique, 3 * WINDOW);
        assert_eq!((counts.repeated, counts.reordered), (0, 0));
    }

    #[test]
    fn late_and_repeated_ones_are_told_apart() {
        let counts = counted([0, 1, 4, 2, 3, 3, 5, 4]);
        assert_eq!(counts.unique, 6);
        assert_eq!((counts.repeated, counts.reordered), (2, 4));
    }

    #[test]
    fn what_is_lost_leaves_no_trace_of_the_numbers_before() {
        // The places of 0 … are taken by numbers of the next window, and some of those did not
        // arrive.
        let late = WINDOW + 3;
        let counts = counted((0..10).chain([late + 5, late]));
        assert_eq!((counts.unique, counts.repeated), (12, 0));
        // All of the window passed at once.
        let counts = counted((0..10).chain([9 * WINDOW, 9 * WINDOW - 5]));
        assert_eq!((counts.unique, counts.repeated), (12, 0));
    }

    #[test]
    fn one_older_than_what_is_remembered_is_no_delivery() {
        let counts = counted((1..=WINDOW + 1).chain([0]));
        assert_eq!((counts.unique, counts.repeated), (WINDOW + 1, 1));
    }
}
