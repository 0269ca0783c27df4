//! The words by which the parties of a circle tell each other what to do and what the scheduler
//! counted.

use super::token::STRIDE;
use metal::memory::SharedWords;
use metal::place;
use metal::process::rusage_thread;
use std::sync::atomic::Ordering;

/// What whoever gets the token does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Command {
    /// Sum and hand on.
    Run,
    /// Leave its counts and hand on.
    Report,
    /// Hand on and block until roused.
    Rest,
    /// Hand on and end.
    End,
}

/// What the scheduler counted, all parties together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Switches {
    /// A party waited.
    pub(super) voluntary: u64,
    /// A party was preempted, or yielded.
    pub(super) involuntary: u64,
    /// Those of the involuntary that are this process's.
    pub(super) involuntary_here: u64,
    /// Hand-overs since the circle was made.
    pub(super) handovers: u64,
}

/// The words that parties tell each other by: the command, then a place for each.
pub(super) struct Board(pub(super) SharedWords);

/// Words of a party's place.
pub(super) const STATE: usize = 0;
pub(super) const CPU: usize = 1;
pub(super) const VOLUNTARY: usize = 2;
pub(super) const INVOLUNTARY: usize = 3;
/// Values of its state: not yet there, ready, or this and an error number.
pub(super) const READY: u64 = 1;
pub(super) const REFUSED: u64 = 1 << 32;

impl Board {
    #[inline]
    pub(super) fn command(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    /// Gives the command for all who get the token from now on. The end is the last one.
    pub(super) fn order(&self, command: Command) {
        let _ = self.0[0].fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| {
            (before != Command::End as u64).then_some(command as u64)
        });
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.command() == Command::End as u64
    }

    pub(super) fn set(&self, party: usize, word: usize, value: u64) {
        self.0[STRIDE * (party + 1) + word].store(value, Ordering::Release);
    }

    pub(super) fn get(&self, party: usize, word: usize) -> u64 {
        self.0[STRIDE * (party + 1) + word].load(Ordering::Acquire)
    }

    /// The calling party's counts and CPU.
    pub(super) fn report(&self, party: usize) {
        let usage = rusage_thread();
        self.set(party, VOLUNTARY, usage.nvcsw);
        self.set(party, INVOLUNTARY, usage.nivcsw);
        self.set(party, CPU, place::current_cpu() as u64);
    }
}
