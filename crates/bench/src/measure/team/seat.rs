//! What a member has of its team: its place and words, the gates, and how it says what became of
//! it.

use super::{ENDED, FAILED, GATES, OPENED, READY, START, Team};
use crate::measure::Clock;
use anyhow::{Context, Result};
use metal::place;
use metal::process::{Ending, Usage, rusage_thread};
use std::cell::Cell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A member's words that are the team's: behind those that are free.
const STATE: usize = super::FREE_WORDS;
const FAULT: usize = STATE + 1;
const CPU: usize = STATE + 2;
const CPU_NS: usize = STATE + 3;
const VOLUNTARY: usize = STATE + 4;
const INVOLUNTARY: usize = STATE + 5;
const FAULTS: usize = STATE + 6;

/// Spins between yields while waiting awake.
const SPINS: u32 = 1000;

/// A member's place in its team. Only the member itself has it while it works.
pub struct Seat<'team> {
    pub team: &'team Team,
    pub number: usize,
    gates: Cell<u64>,
}

/// A gate that a member has passed, by its number from 1.
#[derive(Clone, Copy, Debug)]
pub struct Gate(u64);

impl<'team> Seat<'team> {
    pub(super) fn new(team: &'team Team, number: usize) -> Seat<'team> {
        Seat { team, number, gates: Cell::new(0) }
    }

    #[inline]
    pub fn word(&self, word: usize) -> &'team AtomicU64 {
        self.team.word(self.number, word)
    }

    /// Writes a word of its own for another to read.
    pub fn set(&self, word: usize, value: u64) {
        self.team.set(self.number, word, value);
    }

    /// Pins the calling member.
    pub(super) fn place(&self) -> Result<()> {
        let Some(cpu) = self.team.places[self.number] else { return Ok(()) };
        place::pin(cpu).map(drop).with_context(|| format!("pinning to CPU {cpu}"))
    }

    pub fn ready(&self) {
        if self.word(STATE).swap(1, Ordering::AcqRel) == 0 {
            self.team.words[READY].fetch_add(1, Ordering::AcqRel);
            self.team.wake(READY);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.word(STATE).load(Ordering::Acquire) != 0
    }

    /// A member from its placing to its end.
    pub(super) fn live(&self, body: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        let placed = self.team.places[self.number].map_or(Ok(()), |cpu| {
            place::pin(cpu).map(drop).map_err(|error| Fault::Unplaced(number_of(&error)))
        });
        let outcome = placed.and_then(|()| body());
        if let Err(fault) = outcome {
            self.set(FAULT, fault.encoded());
            self.team.fail();
        }
        self.ready();
        self.team.words[ENDED].fetch_add(1, Ordering::AcqRel);
        outcome
    }

    /// Why it ended early.
    pub fn fault(&self) -> Option<Fault> {
        Fault::decoded(self.word(FAULT).load(Ordering::Acquire))
    }

    /// The member is past a gate, and goes on.
    pub fn arrive(&self) -> Gate {
        self.arrive_then(|| ())
    }

    /// As [`Seat::arrive`]; the last to come does something before any finds the gate open.
    pub fn arrive_then(&self, last: impl FnOnce()) -> Gate {
        let (before, size) = (self.gates.get(), self.team.size() as u64);
        let gate = before + 1;
        self.gates.set(gate);
        let (turn, word) = (before / GATES as u64, before as usize % GATES);
        let came = self.team.words[word].fetch_add(1, Ordering::AcqRel) + 1;
        if came == (turn + 1) * size {
            last();
            self.team.words[OPENED].store(gate, Ordering::Release);
            if !self.team.is_awake {
                self.team.wake(OPENED);
            }
        }
        Gate(gate)
    }

    /// Whether all have passed a gate, or one failed.
    pub fn is_over(&self, gate: Gate) -> bool {
        self.team.words[OPENED].load(Ordering::Acquire) >= gate.0 || self.team.has_failed()
    }

    /// Waits until all have come to the next gate.
    /// Errors: [`Fault::OtherFailed`], or [`Fault::Lost`] after the team's patience.
    pub fn meet(&self) -> Result<(), Fault> {
        self.meet_then(|| ())
    }

    /// As [`Seat::meet`]; the last to come does something before any goes on.
    /// Errors: those of [`Seat::meet`].
    pub fn meet_then(&self, last: impl FnOnce()) -> Result<(), Fault> {
        let gate = self.arrive_then(last);
        let mut spins = 0;
        while self.team.is_awake && !self.is_over(gate) {
            spins += 1;
            if spins % SPINS == 0 {
                // Members that share a CPU wait for each other.
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        if !self.team.wait_asleep(OPENED, |_| self.is_over(gate)) {
            return Err(Fault::Lost);
        }
        if self.team.words[FAILED].load(Ordering::Acquire) != 0 {
            return Err(Fault::OtherFailed);
        }
        Ok(())
    }

    /// Meets the others, and waits awake until the tick at which all start, which it returns: so
    /// long after the last has come, in ns.
    /// Errors: those of [`Seat::meet`].
    pub fn start(&self, clock: Clock, lead_ns: f64) -> Result<u64, Fault> {
        let words = &self.team.words;
        self.meet_then(|| {
            words[START].store(clock.end() + clock.ticks(lead_ns), Ordering::Release);
        })?;
        let start = words[START].load(Ordering::Acquire);
        while clock.end() < start {
            std::hint::spin_loop();
        }
        Ok(start)
    }

    /// Does the work, and writes down what the kernel counted of the member meanwhile.
    pub fn counted<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = rusage_thread();
        let done = work();
        Report::since(before).write(self);
        done
    }

    /// Writes down what the kernel counted of the member so far.
    pub fn count(&self) {
        Report::since(Usage::default()).write(self);
    }
}

/// What the kernel counted of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub cpu: usize,
    /// CPU time, in ns.
    pub cpu_ns: u64,
    /// Switches at which it waited, and at which it was preempted.
    pub voluntary: u64,
    pub involuntary: u64,
    /// Page faults that no device served.
    pub faults: u64,
}

impl Report {
    fn since(before: Usage) -> Report {
        let after = rusage_thread();
        Report {
            cpu: place::current_cpu(),
            cpu_ns: after.utime_ns + after.stime_ns - before.utime_ns - before.stime_ns,
            voluntary: after.nvcsw - before.nvcsw,
            involuntary: after.nivcsw - before.nivcsw,
            faults: after.minflt - before.minflt,
        }
    }

    fn write(self, seat: &Seat<'_>) {
        seat.set(CPU_NS, self.cpu_ns);
        seat.set(VOLUNTARY, self.voluntary);
        seat.set(INVOLUNTARY, self.involuntary);
        seat.set(FAULTS, self.faults);
        seat.set(CPU, self.cpu as u64);
    }

    pub(super) fn read(team: &Team, member: usize) -> Report {
        Report {
            cpu: team.get(member, CPU) as usize,
            cpu_ns: team.get(member, CPU_NS),
            voluntary: team.get(member, VOLUNTARY),
            involuntary: team.get(member, INVOLUNTARY),
            faults: team.get(member, FAULTS),
        }
    }
}

/// Why a member ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It could not be pinned: the number of the system's error.
    Unplaced(i32),
    /// An error of the system, by its number; 0 for an end of what it read.
    System(i32),
    Body(u32),
    /// It ended without a word of its own.
    Died(Ending),
    Lost,
    OtherFailed,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = |number: i32| match number {
            0 => io::Error::from(ErrorKind::UnexpectedEof),
            number => io::Error::from_raw_os_error(number),
        };
        match self {
            Fault::Unplaced(number) => write!(out, "could not be pinned: {}", error(*number)),
            Fault::System(number) => write!(out, "failed: {}", error(*number)),
            Fault::Body(number) => write!(out, "failed for reason {number}"),
            Fault::Died(ending) => write!(out, "ended {ending}"),
            Fault::Lost => write!(out, "the others did not come in time"),
            Fault::OtherFailed => write!(out, "ended because another member failed"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::System(number_of(&error))
    }
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

impl Fault {
    /// What explains the others' comes first.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Fault::Unplaced(_) | Fault::Died(_) => 0,
            Fault::System(_) | Fault::Body(_) => 1,
            Fault::Lost => 2,
            Fault::OtherFailed => 3,
        }
    }

    /// As a word: the kind in its upper half; 0 is none.
    fn encoded(self) -> u64 {
        let (kind, number) = match self {
            Fault::Unplaced(number) => (1, number as u32),
            Fault::System(number) => (2, number as u32),
            Fault::Body(number) => (3, number),
            Fault::Died(_) | Fault::Lost => (4, 0),
            Fault::OtherFailed => (5, 0),
        };
        kind << 32 | u64::from(number)
    }

    fn decoded(word: u64) -> Option<Fault> {
        let number = word as u32;
        Some(match word >> 32 {
            0 => return None,
            1 => Fault::Unplaced(number as i32),
            2 => Fault::System(number as i32),
            3 => Fault::Body(number),
            4 => Fault::Lost,
            _ => Fault::OtherFailed,
        })
    }
}

/// A member that ended with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    pub number: usize,
    pub size: usize,
    pub cpu: Option<usize>,
    pub fault: Fault,
}

impl std::error::Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "member {} of {}", self.number + 1, self.size)?;
        self.cpu.map_or(Ok(()), |cpu| write!(out, ", for CPU {cpu},"))?;
        write!(out, " {}", self.fault)
    }
}
