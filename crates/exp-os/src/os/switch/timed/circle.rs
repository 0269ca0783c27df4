//! Parties in a circle that hand a token on: two of them, or a ring.

use super::super::Parties;
use super::token::{self, Ends};
use bench::measure::Finally;
use bench::measure::team::{Fault, Running, Seat, Team};
use bench::prelude::*;
use laws::os::switch::Via;
use metal::deadline::Deadline;
use metal::handover::{Line, sum};
use metal::place;
use metal::raw::Scope;
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A party that is not ready by then will not be.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// A batch that takes longer has lost a party.
const PATIENCE: Duration = Duration::from_secs(10);
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

/// The circle, as the measuring party sees it. It ends all others when it is dropped.
pub(in crate::os::switch) struct Circle {
    plan: Plan,
    team: Arc<Team>,
    /// The others: processes, which are killed and reaped when dropped, or one thread, which needs
    /// a command to end. None once they have ended.
    others: Option<Running>,
    ends: Ends,
    /// The same way back to oneself.
    self_ends: Ends,
    array: Vec<Line>,
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
        let mut ends = token::circle(plan.via, size, scope)?;
        let mut first = Some(ends.remove(0));
        let team = Team::new(plan.cpus.iter().map(|cpu| Some(*cpu)))?.led().patient(READY_WITHIN);
        let others = match plan.kind {
            Parties::Processes => team.processes(ends, |seat, mine| {
                // What it inherited of the first's, so that a loss is seen.
                first = None;
                serve(plan, seat, mine)
            }),
            Parties::Threads => {
                let plan = plan.clone();
                team.spawned(ends, move |seat, mine| serve(&plan, seat, mine))
            }
        }?;
        let deadline = Deadline::after(PATIENCE).context("a timer")?;
        // Created after the others, which must not inherit it.
        let mut own = token::circle(plan.via, 1, scope)?;
        // Only this party's ends stay open here, so that the loss of a party is an end of file.
        let circle = Circle {
            plan: plan.clone(),
            ends: first.context("the first party's ends")?,
            self_ends: own.pop().context("the way back to oneself")?,
            array: array(plan.working_set),
            team: others.team(),
            others: Some(others),
            handovers: 0,
            deadline,
            until: Instant::now() + PATIENCE,
            _patience: patience,
        };
        circle.others.as_ref().map_or(Ok(()), |others| others.ready())?;
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
            order(&self.team, REST);
            self.lap()?;
            order(&self.team, RUN);
        }
        Ok(())
    }

    /// What the scheduler counted of every party so far, and how often the token was handed over;
    /// each moment of a count is the party's own turn.
    pub(in crate::os::switch) fn switches(&mut self) -> Result<Switches> {
        self.renew()?;
        order(&self.team, REPORT);
        self.first_lap()?;
        self.team.seat(0).count();
        let handovers = self.handovers;
        order(&self.team, RUN);
        self.settle()?;
        let mut all = Switches { handovers, ..Switches::default() };
        for (party, cpu) in self.plan.cpus.iter().enumerate() {
            let counted = self.team.report(party);
            let found = counted.cpu;
            ensure!(found == *cpu, "party {party} is on CPU {found}, it was pinned to {cpu}");
            let involuntary = counted.involuntary;
            all.voluntary += counted.voluntary;
            all.involuntary += involuntary;
            if party == 0 || self.plan.kind == Parties::Threads {
                all.involuntary_here += involuntary;
            }
        }
        Ok(all)
    }

    pub(in crate::os::switch) fn end(mut self) -> Result<()> {
        self.renew()?;
        order(&self.team, END);
        self.first_lap()?;
        self.others.take().map_or(Ok(()), |others| Ok(others.end().map(drop)?))
    }
}

impl Drop for Circle {
    fn drop(&mut self) {
        let threads = self.others.take().filter(|_| self.plan.kind == Parties::Threads);
        if let Some(threads) = threads {
            order(&self.team, END);
            // Of no use where the other is gone; the caller reports why.
            let _ = self.ends.rouse_and_send();
            let _ = threads.end();
        }
    }
}

/// What every party but the measuring one does.
fn serve(plan: &Plan, seat: &Seat<'_>, ends: &Ends) -> Result<(), Fault> {
    // Best effort, as for the measuring thread.
    let _ = place::nice(-20);
    let array = array(plan.working_set);
    black_box(sum(&array));
    seat.ready();
    let passed = pass_on(seat, ends, &array);
    if passed.is_err() {
        // Those behind this party would wait for ever.
        order(seat.team, END);
        let _ = ends.send();
    }
    Ok(passed?)
}

fn pass_on(seat: &Seat<'_>, ends: &Ends, array: &[Line]) -> io::Result<()> {
    loop {
        while let Err(error) = ends.receive() {
            // A signal, or yields without effect; a process whose circle is gone is killed.
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
            if command(seat.team) == END {
                return ends.send();
            }
        }
        match command(seat.team) {
            RUN => {
                black_box(sum(array));
            }
            REPORT => seat.count(),
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

/// Commands for the party that gets the token. The end is the last one.
const RUN: u64 = 0;
const REPORT: u64 = 1;
const REST: u64 = 2;
const END: u64 = 3;

#[inline]
fn command(team: &Team) -> u64 {
    team.common(0).load(Ordering::Acquire)
}

/// Sets the command for all parties that get the token from now on.
fn order(team: &Team, command: u64) {
    let _ = team.common(0).fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| {
        (before != END).then_some(command)
    });
}

#[cfg(test)]
mod tests;
