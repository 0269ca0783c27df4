//! Threads that begin together and then work, or wait in the kernel, until each is done. A
//! [`super::Crew`] has a window in which all are at work, step by step: threads of streams and
//! requests have none, because each waits for another process, and ends when that does.

use anyhow::{Context, Result, anyhow, ensure};
use host::refused;
use metal::place;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// Where members wait, prepared, until they may begin.
pub struct Gate {
    members: usize,
    state: Mutex<State>,
    changed: Condvar,
    ended: AtomicUsize,
}

#[derive(Default)]
struct State {
    ready: usize,
    /// Whether they may begin, once that is known.
    begin: Option<bool>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, wait: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.state(), wait).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all members are prepared, or failed in it.
    pub fn gather(&self) {
        drop(self.wait_while(|state| state.ready < self.members));
    }

    /// Lets all begin, once they are prepared.
    pub fn open(&self) {
        self.gather();
        self.decide(true);
    }

    /// Members that are through with their work, or failed.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    fn decide(&self, begin: bool) {
        self.state().begin.get_or_insert(begin);
        self.changed.notify_all();
    }

    /// One member from its first to its last instruction.
    fn member<P, R>(
        &self,
        index: usize,
        prepare: impl FnOnce() -> Result<P>,
        work: impl FnOnce(P) -> Result<R>,
    ) -> Result<R> {
        let all = || {
            let arrive = Finally(|| {
                self.state().ready += 1;
                self.changed.notify_all();
            });
            let prepared = prepare();
            drop(arrive);
            let begin = self.wait_while(|state| state.begin.is_none()).begin;
            let prepared = prepared?;
            ensure!(begin == Some(true), "a thread did not begin");
            work(prepared)
        };
        let outcome = catch_unwind(AssertUnwindSafe(all));
        self.ended.fetch_add(1, Ordering::AcqRel);
        outcome.unwrap_or_else(|_| Err(anyhow!("thread {index} panicked")))
    }
}

/// Does something when it is dropped, however that comes about.
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Works in a thread for each of `members`, pinned to its CPU or (none) where the scheduler places
/// it. Each prepares its own and waits; `conduct`, in the calling thread, opens the gate. What that
/// gave, and what became of the members, in their order. Errors: a thread cannot be made: then
/// nothing began.
pub fn beside<T: Send, P, R: Send, C>(
    members: Vec<(Option<usize>, T)>,
    prepare: impl Fn(T) -> Result<P> + Sync,
    work: impl Fn(P) -> Result<R> + Sync,
    conduct: impl FnOnce(&Gate) -> C,
) -> Result<(C, Vec<Result<R>>)> {
    let gate = &Gate {
        members: members.len(),
        state: Mutex::default(),
        changed: Condvar::new(),
        ended: AtomicUsize::new(0),
    };
    let (prepare, work) = (&prepare, &work);
    thread::scope(|scope| {
        // Threads that wait at a gate which was never opened end.
        let closing = Finally(|| gate.decide(false));
        let mut threads = Vec::with_capacity(members.len());
        for (index, (cpu, member)) in members.into_iter().enumerate() {
            let prepare = move || {
                if let Some(cpu) = cpu {
                    place::pin(cpu).with_context(|| format!("pinning to CPU {cpu}"))?;
                }
                prepare(member)
            };
            let all = move || gate.member(index, prepare, work);
            let made = thread::Builder::new().spawn_scoped(scope, all);
            let made = made.map_err(refused::explained);
            threads.push(made.with_context(|| format!("making thread {index}"))?);
        }
        let conducted = conduct(gate);
        drop(closing);
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().expect("panics are caught inside");
        Ok((conducted, threads.into_iter().map(join).collect()))
    })
}

/// Does something to each of `things` at the same time, in as many threads as there are CPUs, each
/// pinned to one; results in their order. Errors: a CPU that cannot be pinned to, a thread that
/// cannot be made or panicked, or the first error of the work.
pub fn together<T: Send, R: Send>(
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
    let ((), outcomes) = beside(members, Ok, each, Gate::open)?;
    let mut all: Vec<(usize, R)> =
        outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::{Gate, beside, together};
    use anyhow::{Result, bail, ensure};

    /// What became of three members, by what their conductor does.
    fn run(work: fn(usize) -> Result<usize>, conduct: fn(&Gate)) -> Vec<Result<usize>> {
        let cpu = metal::place::allowed().expect("CPUs")[0];
        let members = vec![(Some(cpu), 0), (Some(cpu), 1), (None, 2)];
        let prepare = |member: usize| {
            ensure!(member != 1, "unprepared");
            Ok(member + 10)
        };
        let conduct = |gate: &Gate| {
            gate.gather();
            assert_eq!(gate.ended(), 0, "none begins before the gate opens");
            conduct(gate);
        };
        beside(members, prepare, work, conduct).expect("threads are made").1
    }

    #[test]
    fn members_work_once_the_gate_is_open_and_tell_what_became_of_them() {
        let found = run(Ok, Gate::open);
        assert!(matches!(found.as_slice(), [Ok(10), Err(_), Ok(12)]), "{found:?}");
        let found = run(|_| panic!("a panic that is survived"), Gate::open);
        assert!(found.iter().all(Result::is_err), "{found:?}");
    }

    #[test]
    fn none_works_where_the_gate_stays_closed() {
        let found = run(|_| panic!("it worked"), |_| ());
        assert!(found.iter().all(Result::is_err), "{found:?}");
    }

    #[test]
    fn work_done_together_keeps_its_order_and_tells_the_first_failure() {
        let cpus = metal::place::allowed().expect("CPUs");
        let squares = together(&cpus, (0..9).collect(), |n: usize| Ok(n * n));
        let wanted: Vec<usize> = (0..9).map(|n| n * n).collect();
        assert_eq!(squares.expect("none fails"), wanted);
        let failed = together(&cpus, vec![1, 2, 3], |n| match n {
            2 => bail!("the second"),
            _ => Ok(n),
        });
        assert_eq!(failed.expect_err("one fails").to_string(), "the second");
        let panicked =
            together(&cpus, vec![()], |()| -> Result<()> { panic!("a panic that is survived") });
        panicked.expect_err("told");
    }
}
