//! Processes that work beside the measuring thread: made, placed and gathered in one way. What they
//! do, and how that is timed, is their body's.

use anyhow::{Context, Result, bail, ensure};
use host::refused;
use metal::memory::{SharedWords, WORDS_PER_LINE};
use metal::place;
use metal::process::Child;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Words that two members write lie so far apart: two lines, which some processors fetch together.
pub const STRIDE: usize = 2 * WORDS_PER_LINE;
/// A member's last word is its state: not yet there, ready, or this and the number of an error.
const STATE: usize = STRIDE - 1;
const READY: u64 = 1;
const REFUSED: u64 = 1 << 32;
/// Stands for a failure that the kernel gave no number.
const EINVAL: i32 = 22;
/// How long the CPU is left to the members between two looks.
const LOOK: Duration = Duration::from_micros(50);

/// Makes the members with these numbers as children, which end with the calling thread. Where one
/// cannot be made, those before it are killed.
///
/// # Errors
/// The limit on processes or memory that was met.
pub fn processes(numbers: Range<usize>, mut body: impl FnMut(usize) -> i32) -> Result<Vec<Child>> {
    let last = numbers.end;
    let make = |number| {
        let made = Child::fork(|| body(number)).map_err(refused::explained);
        made.with_context(|| format!("making process {} of {last}", number + 1))
    };
    numbers.map(make).collect()
}

/// Words that all members share: a place for all together, then one for each.
pub struct Board(SharedWords);

impl Board {
    /// For so many members.
    ///
    /// # Errors
    /// Memory is short.
    pub fn new(members: usize) -> Result<Board> {
        let words = SharedWords::new(STRIDE * (members + 1));
        Ok(Board(words.context("memory that processes share")?))
    }

    /// A word of all.
    #[inline]
    pub fn common(&self, word: usize) -> &AtomicU64 {
        &self.0[word]
    }

    /// Its lower half, for a futex.
    #[inline]
    pub fn common_half(&self, word: usize) -> &AtomicU32 {
        self.0.low_half(word)
    }

    /// A word of a member's.
    #[inline]
    pub fn word(&self, member: usize, word: usize) -> &AtomicU64 {
        &self.0[STRIDE * (member + 1) + word]
    }

    /// Reads a word of a member's that another may have written.
    pub fn get(&self, member: usize, word: usize) -> u64 {
        self.word(member, word).load(Ordering::Acquire)
    }

    /// Writes a word of a member's for another to read.
    pub fn set(&self, member: usize, word: usize, value: u64) {
        self.word(member, word).store(value, Ordering::Release);
    }

    /// Pins the calling member, which says so where it may not be there.
    ///
    /// # Errors
    /// It may not.
    pub fn place(&self, member: usize, cpu: usize) -> io::Result<()> {
        place::pin(cpu).map(drop).inspect_err(|error| {
            let number = error.raw_os_error().unwrap_or(EINVAL);
            self.set(member, STATE, REFUSED + number as u64);
        })
    }

    /// The calling member has all that it needs.
    pub fn ready(&self, member: usize) {
        self.set(member, STATE, READY);
    }

    /// Waits until all `members` (number, CPU) are ready.
    ///
    /// # Errors
    /// One could not be placed, or is not ready in time.
    pub fn gather(
        &self,
        members: impl IntoIterator<Item = (usize, usize)>,
        within: Duration,
    ) -> Result<()> {
        let until = Instant::now() + within;
        for (member, cpu) in members {
            while self.get(member, STATE) != READY {
                if let Some(number) = self.get(member, STATE).checked_sub(REFUSED) {
                    let error = io::Error::from_raw_os_error(number as i32);
                    bail!("process {} could not be pinned to CPU {cpu}: {error}", member + 1);
                }
                ensure!(
                    Instant::now() < until,
                    "process {} for CPU {cpu} is not ready after {within:?}",
                    member + 1
                );
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Board, processes};
    use metal::place;
    use std::time::Duration;

    #[test]
    fn members_are_placed_gathered_and_refused_by_number() {
        let cpu = place::allowed().expect("CPUs")[0];
        let gathered = |board: &Board, cpus: [usize; 2], within| -> anyhow::Result<()> {
            let children = processes(0..2, |number| match board.place(number, cpus[number]) {
                Ok(()) => {
                    board.set(number, 0, number as u64 + 7);
                    board.ready(number);
                    0
                }
                Err(_) => 1,
            })?;
            board.gather(cpus.into_iter().enumerate(), within)?;
            children.into_iter().try_for_each(|child| Ok(child.succeed()?))
        };
        let patience = Duration::from_secs(10);
        let board = Board::new(2).expect("memory");
        gathered(&board, [cpu; 2], patience).expect("all come");
        assert_eq!([board.get(0, 0), board.get(1, 0)], [7, 8]);
        // Another board: on the first one both are ready from the start.
        let board = Board::new(2).expect("memory");
        let refused = gathered(&board, [cpu, 100_000], patience).expect_err("there is no such CPU");
        assert!(refused.to_string().contains("process 2"), "{refused}");
        let empty = Board::new(1).expect("memory");
        empty.gather([(0, cpu)], Duration::from_millis(1)).expect_err("nobody comes");
    }
}
