//! A team: processes or threads that are placed, ready, start together, work, and are gathered.
//!
//! A [`Team`] has a place for each member and words that all of them share, so members may be
//! processes as well as threads. It is filled by [`Team::processes`], by [`Team::spawned`] (threads
//! that outlive the call) or by [`Team::threads`] (threads that borrow, with results of any type).
//! Where the calling thread works as well, it is the first member ([`Team::led`]).
//!
//! A member meets the others at gates ([`Seat::meet`]), asleep or awake, and tells by
//! [`Seat::arrive`] that it is past one without waiting there. Where a member fails, all gates
//! open, and the others end with [`Fault::OtherFailed`]. Work in steps over one shared window is
//! [`TeamWindow`].

mod attempts;
mod log;
mod seat;
mod window;

use anyhow::{Context, Result, anyhow, ensure};
pub use attempts::{BestWindow, REHEARSAL_NS, best_window};
use host::refused;
use metal::memory::{SharedWords, WORDS_PER_LINE};
use metal::process::{Child, Ending};
use metal::raw::{Scope, futex_wait_for, futex_wake};
pub use seat::{Failed, Fault, Report, Seat};
use std::ops::{Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};
pub use window::{NeverTogether, Shared, TeamWindow};

/// Words that two members write lie so far apart: two lines, which some processors fetch together.
pub const STRIDE: usize = 2 * WORDS_PER_LINE;
/// Words of a member, and of all, that are free for what the team does.
pub const FREE_WORDS: usize = WORDS_PER_LINE;

/// The team's own words, from the first on: how many have come to a gate. A member may be ahead of
/// another by as many gates as there are words, less one.
const GATES: usize = WORDS_PER_LINE;
/// Those that members look at while they work, on a line of their own: how many gates are open,
/// whether a member failed, whether the work may begin, the tick of the common start; and how many
/// are ready, and have ended.
const OPENED: usize = WORDS_PER_LINE;
const FAILED: usize = WORDS_PER_LINE + 1;
const BEGIN: usize = WORDS_PER_LINE + 2;
const START: usize = WORDS_PER_LINE + 3;
const READY: usize = WORDS_PER_LINE + 4;
const ENDED: usize = WORDS_PER_LINE + 5;
/// [`BEGIN`]: it may begin, or never will.
const NOW: u32 = 1;
const NEVER: u32 = 2;

/// A thread has so long to end after the command.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_micros(50);
/// One sleep of a wait without a limit.
const LONG: Duration = Duration::from_secs(3600);
/// Status of a process whose body failed: the fault is in its words.
const FAULTY: i32 = 1;

/// Members that work at the same time, and the words that they share.
pub struct Team {
    /// The CPU of each; none where the scheduler places it.
    places: Vec<Option<usize>>,
    is_led: bool,
    is_awake: bool,
    patience: Option<Duration>,
    words: SharedWords,
}

impl Team {
    /// A team with these places: CPUs, or none where the scheduler decides.
    /// Errors: memory is short.
    pub fn new(places: impl IntoIterator<Item = Option<usize>>) -> Result<Team> {
        let places: Vec<Option<usize>> = places.into_iter().collect();
        // Those of the team, those of all, and those of each.
        let words = SharedWords::new(STRIDE * (places.len() + 2));
        Ok(Team {
            words: words.context("memory that a team shares")?,
            places,
            is_led: false,
            is_awake: false,
            patience: None,
        })
    }

    /// The calling thread is the first member, and is placed already.
    #[must_use]
    pub fn led(self) -> Team {
        Team { is_led: true, ..self }
    }

    /// Members wait for one another awake.
    #[must_use]
    pub fn awake(self) -> Team {
        Team { is_awake: true, ..self }
    }

    /// Nobody waits longer than this for the others; else as long as it takes.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Team {
        Team { patience: Some(patience), ..self }
    }

    pub fn size(&self) -> usize {
        self.places.len()
    }

    fn made(&self) -> Range<usize> {
        usize::from(self.is_led)..self.size()
    }

    #[inline]
    pub fn common(&self, word: usize) -> &AtomicU64 {
        &self.words[STRIDE + word]
    }

    /// Its lower half, for a futex.
    #[inline]
    pub fn common_half(&self, word: usize) -> &AtomicU32 {
        self.words.low_half(STRIDE + word)
    }

    #[inline]
    pub fn word(&self, member: usize, word: usize) -> &AtomicU64 {
        &self.words[STRIDE * (member + 2) + word]
    }

    /// Reads a word of a member's that another may have written.
    pub fn get(&self, member: usize, word: usize) -> u64 {
        self.word(member, word).load(Ordering::Acquire)
    }

    /// Writes a word of a member's for another to read.
    pub fn set(&self, member: usize, word: usize, value: u64) {
        self.word(member, word).store(value, Ordering::Release);
    }

    pub fn seat(&self, number: usize) -> Seat<'_> {
        Seat::new(self, number)
    }

    /// The calling thread's part of a team that it leads. A failure, or a panic, is the team's.
    /// Errors: those of the work.
    pub fn lead<R>(&self, work: impl FnOnce(&Seat<'_>) -> Result<R>) -> Result<R> {
        let failing = Finally(|| self.fail());
        let done = work(&self.seat(0))?;
        std::mem::forget(failing);
        Ok(done)
    }

    /// Waits until all that were made are ready, or have ended before.
    pub fn gather(&self) {
        let all = self.made().len() as u64;
        self.wait_asleep(READY, |ready| u64::from(ready) >= all);
    }

    /// Lets all begin, once they are ready.
    pub fn open(&self) {
        self.gather();
        self.decide(NOW);
    }

    fn failed(&self, number: usize, fault: Fault) -> Failed {
        Failed { number, size: self.size(), cpu: self.places[number], fault }
    }

    fn decide(&self, begin: u32) {
        let word = self.words.low_half(BEGIN);
        let _ = word.compare_exchange(0, begin, Ordering::AcqRel, Ordering::Acquire);
        self.wake(BEGIN);
    }

    /// Members that are through with their work, or failed.
    pub fn ended(&self) -> usize {
        self.words[ENDED].load(Ordering::Acquire) as usize
    }

    /// Ends the waiting of all, and their work where they look.
    pub fn fail(&self) {
        self.words[FAILED].store(1, Ordering::Release);
        // Open to any count, so that whoever is about to fall asleep on it does not.
        self.words[OPENED].fetch_or(1 << 31, Ordering::AcqRel);
        self.wake(OPENED);
    }

    pub fn has_failed(&self) -> bool {
        self.words[FAILED].load(Ordering::Acquire) != 0
    }

    fn wake(&self, word: usize) {
        let _ = futex_wake(self.words.low_half(word), i32::MAX as u32, Scope::Machine);
    }

    /// Waits asleep until a word of the team's is right; whether it became so in time.
    fn wait_asleep(&self, word: usize, is_right: impl Fn(u32) -> bool) -> bool {
        let half = self.words.low_half(word);
        let until = self.patience.map(|patience| Instant::now() + patience);
        loop {
            let value = half.load(Ordering::Acquire);
            if is_right(value) {
                return true;
            }
            let left = until.map_or(LONG, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            // It returns without a reason at times, and the word is looked at again.
            let _ = futex_wait_for(half, value, Scope::Machine, left);
        }
    }

    /// What the kernel counted of a member, as that wrote it down last.
    pub fn report(&self, member: usize) -> Report {
        Report::read(self, member)
    }

    /// Makes a process for each thing, in the order of the members, which has only its own: what
    /// the others hold open is closed in it, and here. All end with the calling thread. Where one
    /// cannot be made, those before it are killed.
    /// Errors: the limit on processes or memory that was met.
    pub fn processes<T>(
        self,
        things: impl IntoIterator<Item = T>,
        mut body: impl FnMut(&Seat<'_>, &mut T) -> Result<(), Fault>,
    ) -> Result<Running> {
        let team = Arc::new(self);
        let mut things: Vec<Option<T>> = things.into_iter().map(Some).collect();
        let mut members = Vec::with_capacity(things.len());
        for (at, number) in team.made().enumerate().take(things.len()) {
            let made = Child::fork(|| {
                // It stays open until the fault is known: whoever waits for its end looks there.
                let mut own = things[at].take();
                things.iter_mut().for_each(|other| *other = None);
                let seat = team.seat(number);
                let outcome = own.as_mut().map(|own| seat.live(|| body(&seat, own)));
                if outcome == Some(Ok(())) { 0 } else { FAULTY }
            });
            let made = made.map_err(refused::explained);
            let last = team.size();
            let made = made.with_context(|| format!("making process {} of {last}", number + 1))?;
            members.push(Made::Process(made));
        }
        Ok(Running { team, members })
    }

    /// As [`Team::processes`], as threads of this process, which end when their body does.
    /// Errors: the limit on threads or memory that was met; those made before it go on.
    pub fn spawned<T: Send + 'static>(
        self,
        things: impl IntoIterator<Item = T>,
        body: impl Fn(&Seat<'_>, &mut T) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Result<Running> {
        let (team, body) = (Arc::new(self), Arc::new(body));
        let mut members = Vec::new();
        for (number, mut thing) in team.made().zip(things) {
            let (shared, body) = (Arc::clone(&team), Arc::clone(&body));
            let work = move || {
                let seat = shared.seat(number);
                let _ = seat.live(|| body(&seat, &mut thing));
            };
            let made = thread::Builder::new().spawn(work).map_err(refused::explained);
            let last = team.size();
            let made = made.with_context(|| format!("making thread {} of {last}", number + 1))?;
            members.push(Made::Thread(made));
        }
        Ok(Running { team, members })
    }

    /// Works in a thread for each thing, in the order of the members. Each prepares its own and
    /// waits; `conduct`, in the calling thread, opens ([`Team::open`]). What that gave, and what
    /// became of the members, in their order. A failure of one is one of the team
    /// ([`Team::has_failed`]), which those that meet at gates see.
    /// Errors: a thread cannot be made: then nothing began.
    pub fn threads<T: Send, P, R: Send, C>(
        &self,
        things: impl IntoIterator<Item = T>,
        prepare: impl Fn(&Seat<'_>, T) -> Result<P> + Sync,
        work: impl Fn(&Seat<'_>, P) -> Result<R> + Sync,
        conduct: impl FnOnce(&Team) -> C,
    ) -> Result<(C, Vec<Result<R>>)> {
        let (prepare, work) = (&prepare, &work);
        thread::scope(|scope| {
            // Threads that wait for a beginning which never comes end.
            let closing = Finally(|| self.decide(NEVER));
            let mut threads = Vec::new();
            for (number, thing) in self.made().zip(things) {
                let all = move || self.thread(number, thing, prepare, work);
                let made = thread::Builder::new().spawn_scoped(scope, all);
                let made = made.map_err(refused::explained);
                threads.push(made.with_context(|| format!("making thread {number}"))?);
            }
            let conducted = conduct(self);
            drop(closing);
            let join =
                |thread: ScopedJoinHandle<'_, _>| thread.join().expect("panics are caught inside");
            Ok((conducted, threads.into_iter().map(join).collect()))
        })
    }

    /// A thread from its first to its last instruction.
    fn thread<T, P, R>(
        &self,
        number: usize,
        thing: T,
        prepare: impl Fn(&Seat<'_>, T) -> Result<P>,
        work: impl Fn(&Seat<'_>, P) -> Result<R>,
    ) -> Result<R> {
        let seat = self.seat(number);
        let all = || {
            // Whatever becomes of it, the others do not wait for it.
            let arriving = Finally(|| seat.ready());
            let prepared = seat.place().and_then(|()| prepare(&seat, thing));
            let prepared = prepared.inspect_err(|_| self.fail());
            drop(arriving);
            self.wait_asleep(BEGIN, |begin| begin != 0);
            let prepared = prepared?;
            let begin = self.words.low_half(BEGIN).load(Ordering::Acquire);
            ensure!(begin == NOW, "a thread did not begin");
            work(&seat, prepared)
        };
        let outcome = catch_unwind(AssertUnwindSafe(all));
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("thread {number} panicked")));
        if outcome.is_err() {
            self.fail();
        }
        self.words[ENDED].fetch_add(1, Ordering::AcqRel);
        outcome
    }

    /// Threads for members, each a place and a thing, that do not meet beside their beginning.
    /// Errors: those of [`Team::threads`].
    pub fn beside<T: Send, P, R: Send, C>(
        members: Vec<(Option<usize>, T)>,
        prepare: impl Fn(T) -> Result<P> + Sync,
        work: impl Fn(P) -> Result<R> + Sync,
        conduct: impl FnOnce(&Team) -> C,
    ) -> Result<(C, Vec<Result<R>>)> {
        let (places, things): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let team = Team::new(places)?;
        team.threads(things, |_, thing| prepare(thing), |_, prepared| work(prepared), conduct)
    }

    /// Does something to each of `things` at the same time, in as many threads as there are CPUs,
    /// each pinned to one; results in their order.
    /// Errors: a CPU that cannot be pinned to, a thread that cannot be made or panicked, or the
    /// first error of the work.
    pub fn each<T: Send, R: Send>(
        cpus: &[usize],
        things: Vec<T>,
        work: impl Fn(T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let mut shares: Vec<Vec<(usize, T)>> = cpus.iter().map(|_| Vec::new()).collect();
        for (at, thing) in things.into_iter().enumerate() {
            shares[at % cpus.len()].push((at, thing));
        }
        let members = cpus.iter().map(|cpu| Some(*cpu)).zip(shares);
        let members = members.filter(|(_, share)| !share.is_empty()).collect();
        let each = |share: Vec<(usize, T)>| {
            share.into_iter().map(|(at, thing)| Ok((at, work(thing)?))).collect::<Result<Vec<_>>>()
        };
        let ((), outcomes) = Team::beside(members, Ok, each, Team::open)?;
        let mut all: Vec<(usize, R)> =
            outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        all.sort_by_key(|(at, _)| *at);
        Ok(all.into_iter().map(|(_, result)| result).collect())
    }
}

/// What all members have, or the reason of one that failed: its own before that of one which ended
/// because another did.
/// Errors: that reason.
pub fn all_of<R>(outcomes: impl IntoIterator<Item = Result<R>>) -> Result<Vec<R>> {
    let (done, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let rank = |error: &anyhow::Error| error.downcast_ref().map_or(0, Fault::rank);
    match failed.into_iter().filter_map(Result::err).min_by_key(rank) {
        Some(error) => Err(error),
        None => Ok(done.into_iter().flatten().collect()),
    }
}

/// Members that were made and run. Processes are killed when this is dropped; threads go on.
pub struct Running {
    team: Arc<Team>,
    members: Vec<Made>,
}

enum Made {
    Process(Child),
    Thread(JoinHandle<()>),
}

impl Deref for Running {
    type Target = Team;

    fn deref(&self) -> &Team {
        &self.team
    }
}

impl Running {
    /// The words, which outlive the members.
    pub fn team(&self) -> Arc<Team> {
        Arc::clone(&self.team)
    }

    /// Waits until all that were made are ready.
    /// Errors: one failed, or is not ready within the team's patience.
    pub fn ready(&self) -> Result<()> {
        self.gather();
        for number in self.made() {
            let (seat, cpu) = (self.seat(number), self.places[number]);
            seat.fault().map_or(Ok(()), |fault| Err(self.failed(number, fault)))?;
            let place = cpu.map_or_else(String::new, |cpu| format!(" for CPU {cpu}"));
            let limit = self.patience.unwrap_or_default();
            ensure!(seat.is_ready(), "member {}{place} is not ready after {limit:?}", number + 1);
        }
        Ok(())
    }

    /// Waits until all have ended; the words that they left.
    /// Errors: one ended with a fault: the one that explains the others'.
    pub fn end(self) -> Result<Arc<Team>, Failed> {
        let Running { team, members } = self;
        let made = team.made();
        let fault = |(number, member): (usize, Made)| Some((number, ended(&team, number, member)?));
        // All are waited for before one is judged.
        let faults: Vec<(usize, Fault)> = made.zip(members).filter_map(fault).collect();
        let first = faults.into_iter().min_by_key(|(number, fault)| (fault.rank(), *number));
        match first {
            None => Ok(team),
            Some((number, fault)) => Err(team.failed(number, fault)),
        }
    }
}

fn ended(team: &Team, number: usize, member: Made) -> Option<Fault> {
    let ending = match member {
        Made::Process(child) => child.wait(),
        Made::Thread(thread) => {
            let until = Instant::now() + END_WITHIN;
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(LOOK);
            }
            match thread.is_finished() {
                true => Ok(Ending::Exited(i32::from(thread.join().is_err()))),
                false => return Some(Fault::Lost),
            }
        }
    };
    let fault = team.seat(number).fault();
    match ending {
        Ok(Ending::Exited(0)) => fault,
        Ok(ending) => Some(fault.unwrap_or(Fault::Died(ending))),
        Err(error) => Some(error.into()),
    }
}

/// Does something when it is dropped, however that comes about.
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests;
