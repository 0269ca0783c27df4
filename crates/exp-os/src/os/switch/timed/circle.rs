//! Parties in a circle that hand a token on: two of them, or a ring.

use super::super::Parties;
use super::token::{self, Ends};
use bench::measure::{Finally, party};
use bench::prelude::*;
use host::refused;
use laws::os::switch::Via;
use metal::deadline::Deadline;
use metal::handover::{Line, sum};
use metal::place;
use metal::process::{Child, rusage_thread};
use metal::raw::Scope;
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A party that is not ready by then will not be.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// A batch that takes longer has lost a party.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a thread has to end after the command.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Status of a party's process or thread that lost the token.
const LOST: i32 = 1;
/// Status of one that could not be pinned.
const NOT_PINNED: i32 = 2;

#[derive(Clone, Debug)]
pub(in crate::os::switch) struct Plan {
    pub(in crate::os::switch) via: Via,
    pub(in crate::os::switch) kind: Parties,
    /// CPU of each party, the measuring one's first.
    pub(in crate::os::switch) cpus: Vec<usize>,
    /// Under SCHED_BATCH: a party that is woken does not take the CPU from the one that woke it.
    pub(in crate::os::switch) patient: bool,
    /// Bytes that each party sums when it gets the token, in whole lines of 64.
    pub(in crate::os::switch) working_set: u64,
}

/// Waits until a party's thread has ended, no longer than [`END_WITHIN`], and checks how.
fn join(thread: JoinHandle<i32>) -> Result<()> {
    let until = Instant::now() + END_WITHIN;
    while !thread.is_finished() {
        ensure!(Instant::now() < until, "a party's thread did not end within {END_WITHIN:?}");
        thread::sleep(Duration::from_micros(50));
    }
    match thread.join() {
        Ok(0) => Ok(()),
        Ok(status) => bail!("a party's thread ended with status {status}"),
        Err(_) => bail!("a party's thread panicked"),
    }
}

/// The circle, as the measuring party sees it. It ends all others when it is dropped.
pub(in crate::os::switch) struct Circle {
    plan: Plan,
    board: Arc<Board>,
    ends: Ends,
    /// The same way back to oneself.
    self_ends: Ends,
    array: Vec<Line>,
    /// The others: processes, which are killed and reaped when dropped, or one thread, which needs
    /// a command to end.
    processes: Vec<Child>,
    thread: Option<JoinHandle<i32>>,
    handovers: u64,
    deadline: Deadline,
    /// When the deadline is, which also falls to signals of others.
    until: Instant,
    /// The calling thread is under SCHED_BATCH until this is dropped.
    _patience: Option<Finally<fn()>>,
}

impl Circle {
    /// Makes the others, each pinned to its CPU, and waits until all are ready. The calling thread
    /// is the first party and must be on the plan's first CPU.
    pub(in crate::os::switch) fn form(plan: &Plan) -> Result<Circle> {
        let size = plan.cpus.len();
        let is_whole = size == 2 || size > 2 && plan.kind == Parties::Processes;
        ensure!(is_whole, "a circle of {size} {:?}", plan.kind);
        ensure!(
            place::current_cpu() == plan.cpus[0],
            "the measuring party is on CPU {}, not {}",
            place::current_cpu(),
            plan.cpus[0]
        );
        let scope = match plan.kind {
            Parties::Processes => Scope::Machine,
            Parties::Threads => Scope::Process,
        };
        // The others inherit it.
        let mut patience = None;
        if plan.patient {
            place::batch().context("SCHED_BATCH")?;
            // The way back needs no right, and a round that could not go back ends with its worker.
            patience = Some(Finally((|| _ = place::normal()) as fn()));
        }
        let board = Arc::new(Board(party::Board::new(size)?));
        let mut ends: Vec<Option<Ends>> =
            token::circle(plan.via, size, scope)?.into_iter().map(Some).collect();
        let (mut processes, mut thread) = (Vec::new(), None);
        match plan.kind {
            Parties::Processes => {
                processes = party::processes(1..size, |party| {
                    let mine = ends[party].take();
                    // What it inherited of the others', so that their loss is seen.
                    ends.iter_mut().for_each(|other| *other = None);
                    mine.map_or(LOST, |mine| serve(plan, &board, party, &mine))
                })?;
            }
            Parties::Threads => {
                let (mine, plan, board) = (ends[1].take(), plan.clone(), Arc::clone(&board));
                let work = move || mine.map_or(LOST, |mine| serve(&plan, &board, 1, &mine));
                let made = thread::Builder::new().spawn(work).map_err(refused::explained);
                thread = Some(made.context("making thread 2 of 2")?);
            }
        }
        let deadline = Deadline::after(PATIENCE).context("a timer")?;
        // Created after the others, which must not inherit it.
        let mut own = token::circle(plan.via, 1, scope)?;
        // Only this party's ends stay open here, so that the loss of a party is an end of file.
        let circle = Circle {
            plan: plan.clone(),
            ends: ends[0].take().context("the first party's ends")?,
            self_ends: own.pop().context("the way back to oneself")?,
            array: array(plan.working_set),
            board,
            processes,
            thread,
            handovers: 0,
            deadline,
            until: Instant::now() + PATIENCE,
            _patience: patience,
        };
        drop(ends);
        let others = circle.plan.cpus.iter().copied().enumerate().skip(1);
        circle.board.0.gather(others, READY_WITHIN)?;
        Ok(circle)
    }

    pub(in crate::os::switch) fn size(&self) -> u64 {
        self.plan.cpus.len() as u64
    }

    /// Sends the token around once.
    #[inline]
    fn lap(&mut self) -> Result<()> {
        black_box(sum(&self.array));
        self.ends.send()?;
        self.close_lap()
    }

    /// The same where the others may rest.
    fn first_lap(&mut self) -> Result<()> {
        black_box(sum(&self.array));
        self.ends.rouse_and_send()?;
        self.close_lap()
    }

    #[inline]
    fn close_lap(&mut self) -> Result<()> {
        while let Err(error) = self.ends.receive() {
            self.ensure_hope(error)?;
        }
        self.handovers += self.plan.cpus.len() as u64;
        Ok(())
    }

    /// Fails unless the token may still come back after that error.
    #[cold]
    fn ensure_hope(&self, error: io::Error) -> Result<()> {
        let Plan { via, kind, cpus, .. } = &self.plan;
        let one = match kind {
            Parties::Processes => "process",
            Parties::Threads => "thread",
        };
        let party = cpus.len() - 1;
        ensure!(
            error.kind() == ErrorKind::Interrupted,
            "waiting for the token by {via:?} from {one} {party}: {error}"
        );
        ensure!(
            Instant::now() < self.until,
            "the token did not come back by {via:?} from {one} {party} within {PATIENCE:?}"
        );
        Ok(())
    }

    /// Gives what comes next its full time. It is called between batches, not in them.
    pub(in crate::os::switch) fn renew(&mut self) -> Result<()> {
        self.wait_until(PATIENCE)
    }

    fn wait_until(&mut self, time: Duration) -> Result<()> {
        // The timer comes no earlier than this.
        self.until = Instant::now() + time;
        self.deadline.put_off(time).context("a timer")
    }

    /// Sends the token around `laps` times, at least once.
    pub(in crate::os::switch) fn laps(&mut self, laps: u64) -> Result<()> {
        self.first_lap()?;
        for _ in 1..laps {
            self.lap()?;
        }
        self.settle()
    }

    /// Does what one hand-over takes `times` times with oneself: there is no switch.
    pub(in crate::os::switch) fn alone(&mut self, times: u64) -> Result<()> {
        for _ in 0..times {
            black_box(sum(&self.array));
            self.self_ends.send()?;
            self.self_ends.receive()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        if self.ends.are_restless() {
            self.ends.before_rest();
            self.board.order(REST);
            self.lap()?;
            self.board.order(RUN);
        }
        Ok(())
    }

    /// What the scheduler counted of every party so far, and how often the token was handed over;
    /// each moment of a count is the party's own turn.
    pub(in crate::os::switch) fn switches(&mut self) -> Result<Switches> {
        self.renew()?;
        self.board.order(REPORT);
        self.first_lap()?;
        self.board.report(0);
        let handovers = self.handovers;
        self.board.order(RUN);
        self.settle()?;
        let mut all = Switches { handovers, ..Switches::default() };
        for (party, cpu) in self.plan.cpus.iter().enumerate() {
            let found = self.board.0.get(party, CPU);
            ensure!(
                found == *cpu as u64,
                "party {party} is on CPU {found}, it was pinned to {cpu}"
            );
            let involuntary = self.board.0.get(party, INVOLUNTARY);
            all.voluntary += self.board.0.get(party, VOLUNTARY);
            all.involuntary += involuntary;
            if party == 0 || self.plan.kind == Parties::Threads {
                all.involuntary_here += involuntary;
            }
        }
        Ok(all)
    }

    pub(in crate::os::switch) fn end(mut self) -> Result<()> {
        self.renew()?;
        self.board.order(END);
        self.first_lap()?;
        for child in std::mem::take(&mut self.processes) {
            child.succeed().context("a party")?;
        }
        self.thread.take().map_or(Ok(()), join)
    }
}

impl Drop for Circle {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.board.order(END);
            // Of no use where the other is gone; the caller reports why.
            let _ = self.ends.rouse_and_send();
            let _ = join(thread);
        }
    }
}

/// What every party but the measuring one does; returns its exit status.
fn serve(plan: &Plan, board: &Board, party: usize, ends: &Ends) -> i32 {
    let status = if board.0.place(party, plan.cpus[party]).is_err() {
        NOT_PINNED
    } else {
        // Best effort, as for the measuring thread.
        let _ = place::nice(-20);
        let array = array(plan.working_set);
        black_box(sum(&array));
        board.0.ready(party);
        pass_on(board, party, ends, &array).map_or(LOST, |()| 0)
    };
    if status != 0 {
        // Those behind this party would wait for ever.
        board.order(END);
        let _ = ends.send();
    }
    status
}

fn pass_on(board: &Board, party: usize, ends: &Ends, array: &[Line]) -> io::Result<()> {
    loop {
        while let Err(error) = ends.receive() {
            // A signal, or yields without effect; a process whose circle is gone is killed.
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
            if board.command() == END {
                return ends.send();
            }
        }
        match board.command() {
            RUN => {
                black_box(sum(array));
            }
            REPORT => board.report(party),
            REST => {
                ends.send_and_rest()?;
                continue;
            }
            _ => return ends.send(),
        }
        ends.send()?;
    }
}

fn array(working_set: u64) -> Vec<Line> {
    let lines = working_set.div_ceil(size_of::<Line>() as u64);
    (0..lines).map(|line| Line([line.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1; 8])).collect()
}

/// What the scheduler counted of all parties, and how often the token was handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::os::switch) struct Switches {
    pub(in crate::os::switch) voluntary: u64,
    pub(in crate::os::switch) involuntary: u64,
    /// Those of the involuntary that are this process's.
    pub(in crate::os::switch) involuntary_here: u64,
    pub(in crate::os::switch) handovers: u64,
}

impl Switches {
    pub(in crate::os::switch) fn since(&self, before: &Switches) -> Switches {
        Switches {
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
            involuntary_here: self.involuntary_here - before.involuntary_here,
            handovers: self.handovers - before.handovers,
        }
    }
}

/// The words that parties use to communicate: the command, then a place for each.
struct Board(party::Board);

/// Commands for the party that gets the token. The end is the last one.
const RUN: u64 = 0;
const REPORT: u64 = 1;
const REST: u64 = 2;
const END: u64 = 3;
/// Words of a party's place.
const CPU: usize = 0;
const VOLUNTARY: usize = 1;
const INVOLUNTARY: usize = 2;

impl Board {
    #[inline]
    fn command(&self) -> u64 {
        self.0.common(0).load(Ordering::Acquire)
    }

    /// Sets the command for all parties that get the token from now on.
    fn order(&self, command: u64) {
        let _ = self.0.common(0).fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| {
            (before != END).then_some(command)
        });
    }

    fn report(&self, party: usize) {
        let usage = rusage_thread();
        self.0.set(party, VOLUNTARY, usage.nvcsw);
        self.0.set(party, INVOLUNTARY, usage.nivcsw);
        self.0.set(party, CPU, place::current_cpu() as u64);
    }
}

#[cfg(test)]
mod tests;
