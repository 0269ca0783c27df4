//! Connections that wait to be let in: never more than so many, and none longer than its time.

use std::collections::VecDeque;
use std::time::Instant;

pub struct Waiting<T> {
    most: usize,
    all: VecDeque<(Instant, T)>,
}

/// Why one waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    Late,
    /// It was the oldest of too many.
    Crowded,
}

impl<T> Waiting<T> {
    pub fn new(most: usize) -> Waiting<T> {
        Waiting { most, all: VecDeque::new() }
    }

    /// Has one wait until then. Who waits no longer for that: itself where its time is over, the
    /// oldest where there are too many.
    pub fn keep(&mut self, until: Instant, one: T) -> Option<(Gone, T)> {
        if Instant::now() >= until {
            return Some((Gone::Late, one));
        }
        let oldest = if self.all.len() == self.most { self.all.pop_front() } else { None };
        self.all.push_back((until, one));
        oldest.map(|(_, oldest)| (Gone::Crowded, oldest))
    }

    /// Takes out all, each with its deadline, to be looked at and kept again.
    pub fn take(&mut self) -> VecDeque<(Instant, T)> {
        std::mem::take(&mut self.all)
    }

    /// Lets the time of all pass.
    #[cfg(feature = "fixtures")]
    pub fn expire(&mut self) {
        let now = Instant::now();
        self.all.iter_mut().for_each(|(until, _)| *until = now);
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|(_, one)| one)
    }

    /// When the next one has had its time.
    pub fn deadline(&self) -> Option<Instant> {
        self.all.iter().map(|(until, _)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{Gone, Waiting};
    use std::time::{Duration, Instant};

    #[test]
    fn the_oldest_goes_for_one_more_and_who_is_late_goes_itself() {
        let mut waiting = Waiting::new(2);
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(waiting.keep(later(70), 'a'), None);
        assert_eq!(waiting.keep(later(60), 'b'), None);
        assert_eq!(waiting.keep(now, 'c'), Some((Gone::Late, 'c')));
        assert_eq!(waiting.deadline(), Some(later(60)));
        assert_eq!(waiting.keep(later(90), 'd'), Some((Gone::Crowded, 'a')));
        assert_eq!(waiting.iter().collect::<String>(), "bd");
        assert_eq!(Vec::from(waiting.take()), [(later(60), 'b'), (later(90), 'd')]);
        assert_eq!(waiting.deadline(), None);
    }
}
