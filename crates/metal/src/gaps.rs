//! The unbroken reading of the counter: when was a program that does nothing but run not there?
//!
//! A turn reads the counter once and compares once. A read that lies a threshold or more after the
//! one before is a gap, and both are stored: the last moment at which the loop ran before it and
//! the first at which it ran again. The number of turns of a call is bounded instead of its time,
//! so that no turn compares with a deadline; the last read is kept between calls, so that a gap
//! between two of them is found like any other. No system call, no procedure call and no fault is
//! inside: the room for gaps is shared memory whose pages are there before the first turn, and the
//! parent of a process reads what its child has traced.
//!
//! The read has a fence before it (`lfence; rdtsc`, `isb; mrs cntvct_el0`), as that of oslat, and
//! none after it. Without it the processor may take several reads ahead of what it retires, in an
//! order that no manual promises: a difference may come out negative, which as an unsigned one is a
//! gap, and an interrupt throws reads away that were taken before it, so that the gap seems to
//! begin earlier. With it a read is not taken before the one before has its value: differences are
//! those of the clock, and the last read before a gap is at most a turn old. It costs about as much
//! as the read itself, tens of cycles where the shortest interruption is a thousand.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::answer::invalid;
use crate::arch::{self, Reading};
use crate::clock;
use crate::memory::SharedWords;

/// Turns of the first call of [`Tracer::until`] and of its last ones: some tens of microseconds.
const TURNS_MIN: u64 = 1 << 10;
/// Turns of its longest calls: some milliseconds.
const TURNS_MAX: u64 = 1 << 18;
/// Words before the gaps: first read, last read, gaps, turns, and a line's rest.
const HEADER: usize = 8;
const PAGE_WORDS: usize = 4096 / size_of::<u64>();
const FIRST: usize = 0;
const LAST: usize = 1;
const COUNT: usize = 2;
const TURNS: usize = 3;

/// A stretch in which the loop did not run, in ticks of the counter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The last read before it.
    pub start: u64,
    /// The first read after it.
    pub end: u64,
}

impl Gap {
    /// Its length in ticks; 0 if the counter went back.
    pub fn ticks(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Reads the counter without pause and keeps the gaps. What a forked child traces, its parent
/// reads, once the child has returned from its last call.
#[derive(Debug)]
pub struct Tracer {
    words: SharedWords,
    room: usize,
}

impl Tracer {
    /// Room for so many gaps, all touched; nothing traced yet. Errors: `gaps` is 0 or too much.
    pub fn with_room(gaps: usize) -> io::Result<Tracer> {
        let words = gaps
            .checked_mul(size_of::<Gap>() / size_of::<u64>())
            .and_then(|words| words.checked_add(HEADER))
            .filter(|_| gaps > 0)
            .ok_or_else(|| {
                let reason = format!("no room for {gaps} gaps");
                invalid(reason)
            })?;
        let words = SharedWords::new(words)?;
        Ok(Tracer { words, room: gaps })
    }

    /// Empties it, touches every page of the room (a forked child inherits the pages, but no
    /// entries of its tables for them), and takes the first read.
    pub fn begin(&mut self) {
        // One word of each page is enough, and the smallest page has so many.
        for word in self.words.iter().step_by(PAGE_WORDS) {
            word.store(0, Ordering::Relaxed);
        }
        self.words[COUNT].store(0, Ordering::Relaxed);
        self.words[TURNS].store(0, Ordering::Relaxed);
        let now = clock::ticks_fenced();
        self.words[FIRST].store(now, Ordering::Relaxed);
        self.words[LAST].store(now, Ordering::Relaxed);
    }

    /// Goes on for `turns` turns from the last read, be it of this call's thread or of an earlier
    /// one's; a difference of `threshold_ticks` or more is a gap. False: the room is full, and
    /// turns may be left; the turns that were made and all gaps until the last read are there.
    pub fn run(&mut self, threshold_ticks: u64, turns: u64) -> bool {
        let count = self.count();
        if count == self.room {
            return false;
        }
        if turns == 0 {
            return true;
        }
        let gaps = self.words[HEADER..].as_ptr().cast::<u64>().cast_mut();
        let mut reading = Reading {
            last: self.last(),
            // In bounds: pairs after the header.
            next: gaps.wrapping_add(2 * count),
            end: gaps.wrapping_add(2 * self.room),
        };
        // SAFETY: at least one pair lies between `next` and `end`, inside the words, which are
        // atomic, so that they may be written behind a shared reference; `&mut self` keeps all
        // others of this process away, and other processes read after the call only.
        let left = unsafe { arch::gaps_turns(turns, threshold_ticks, &raw mut reading) };
        let stored = (reading.next.addr() - gaps.addr()) / size_of::<Gap>();
        self.words[LAST].store(reading.last, Ordering::Relaxed);
        let made = self.turns() + turns - left;
        self.words[TURNS].store(made, Ordering::Relaxed);
        // Last, so that a reader of the count also sees its gaps.
        self.words[COUNT].store(stored as u64, Ordering::Release);
        stored < self.room
    }

    /// Goes on until the last read is `end_tick` or later, some tens of microseconds at most unless
    /// the loop slows down. False: the room is full.
    pub fn until(&mut self, threshold_ticks: u64, end_tick: u64) -> bool {
        while self.last() < end_tick {
            if !self.run(threshold_ticks, self.turns_before(end_tick)) {
                return false;
            }
        }
        true
    }

    /// Turns that end before `end_tick`, at the pace so far: the fewer calls, the fewer turns are
    /// longer for what lies between two of them.
    fn turns_before(&self, end_tick: u64) -> u64 {
        let (turns, ticks) = (self.turns(), self.last() - self.first());
        let left = u128::from(end_tick - self.last());
        // Seven eighths, so that a pace that was too quick by a little does no harm.
        let fitting = left * u128::from(turns) * 7 / (8 * u128::from(ticks.max(1)));
        (fitting.min(u128::from(TURNS_MAX)) as u64).max(TURNS_MIN)
    }

    /// The gaps since [`Tracer::begin`], ascending and disjoint.
    pub fn gaps(&self) -> &[Gap] {
        let gaps = NonNull::from(&self.words[HEADER..]).cast::<Gap>();
        // SAFETY: so many pairs of words were written; the words are never written while `self` is
        // borrowed here, nor by a child that has returned from its last call.
        unsafe { std::slice::from_raw_parts(gaps.as_ptr(), self.count()) }
    }

    /// The first read, in ticks; 0 before [`Tracer::begin`].
    pub fn first(&self) -> u64 {
        self.words[FIRST].load(Ordering::Relaxed)
    }

    /// The last read, in ticks; 0 before [`Tracer::begin`].
    pub fn last(&self) -> u64 {
        self.words[LAST].load(Ordering::Relaxed)
    }

    /// Turns since [`Tracer::begin`]: reads after the first.
    pub fn turns(&self) -> u64 {
        self.words[TURNS].load(Ordering::Relaxed)
    }

    fn count(&self) -> usize {
        self.words[COUNT].load(Ordering::Acquire) as usize
    }
}

#[cfg(test)]
mod tests;
