//! One thread for each stream of an end: made, pinned and prepared, then begun together.

use crate::net::place::settle;
use anyhow::{Context, Result, anyhow};
use host::refused;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

/// Where an end's threads wait until they may begin.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads that are through with their work, or failed in it.
    ended: AtomicUsize,
}

#[derive(Default)]
struct State {
    ready: usize,
    /// Whether they may begin, once that is known.
    begin: Option<bool>,
}

impl Gate {
    /// Waits until so many threads are prepared.
    fn gather(&self, count: usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(state, |state| state.ready < count);
        drop(waited);
    }

    /// Lets all begin, or has them end.
    pub(super) fn open(&self, begin: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.begin.get_or_insert(begin);
        self.changed.notify_all();
    }

    /// Threads whose work has ended.
    pub(super) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// A thread is prepared; whether it may begin, once that is known.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ready += 1;
        self.changed.notify_all();
        let state = self.changed.wait_while(state, |state| state.begin.is_none());
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.begin == Some(true)
    }
}

/// Closes the gate of who did not open it.
pub(super) struct Closing<'gate>(pub(super) &'gate Gate);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.open(false);
    }
}

/// Threads of a crew, in the order of their streams.
pub(super) struct Threads<'scope, R>(Vec<ScopedJoinHandle<'scope, Result<Option<R>>>>);

/// Makes a thread on each of the CPUs, or where the scheduler places it. Each prepares its own;
/// once the gate is open it works with that. Returns when all are prepared.
///
/// # Errors
/// A thread could not be made. The others end at the gate, which its owner closes.
pub(super) fn enlist<'scope, 'env, P, R: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    gate: &'scope Gate,
    (cpus, is_free): (&[usize], bool),
    prepare: impl Fn(usize) -> P + Copy + Send + 'scope,
    work: impl Fn(usize, P) -> Result<R> + Copy + Send + 'scope,
) -> Result<Threads<'scope, R>> {
    let mut threads = Vec::with_capacity(cpus.len());
    for (stream, &cpu) in cpus.iter().enumerate() {
        let all = move || {
            let settled = settle(is_free, cpu);
            let prepared = prepare(stream);
            let begun = gate.pass();
            let outcome = match begun {
                true => settled.and_then(|()| work(stream, prepared)).map(Some),
                false => Ok(None),
            };
            gate.ended.fetch_add(1, Ordering::AcqRel);
            outcome
        };
        let guarded = move || {
            catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|_| {
                gate.ended.fetch_add(1, Ordering::AcqRel);
                Err(anyhow!("the thread of stream {stream} panicked"))
            })
        };
        let made = thread::Builder::new().spawn_scoped(scope, guarded);
        let made = made.map_err(|error| {
            refused::told(error).context(format!("making the thread of stream {stream}"))
        });
        threads.push(made?);
    }
    gate.gather(cpus.len());
    Ok(Threads(threads))
}

impl<R> Threads<'_, R> {
    /// Waits for all to end; what they found, in the order of their streams.
    ///
    /// # Errors
    /// The first error of any; a thread that did not begin.
    pub(super) fn join(self) -> Result<Vec<R>> {
        // All, before the first error counts.
        let outcomes: Vec<_> = self.0.into_iter().map(ScopedJoinHandle::join).collect();
        let of_thread = |outcome: thread::Result<Result<Option<R>>>| {
            let outcome = outcome.map_err(|_| anyhow!("a stream's thread panicked"))?;
            outcome?.context("a stream did not begin")
        };
        outcomes.into_iter().map(of_thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Closing, Gate, enlist};
    use anyhow::{Result, ensure};
    use std::thread;

    fn run(begin: bool) -> (Result<Vec<usize>>, usize) {
        let gate = Gate::default();
        let cpu = metal::place::allowed().expect("CPUs")[0];
        let found = thread::scope(|scope| {
            let closing = Closing(&gate);
            let threads = enlist(
                scope,
                &gate,
                (&[cpu; 3], false),
                |stream| stream + 10,
                |stream, prepared| {
                    ensure!(stream + 10 == prepared, "another's");
                    Ok(prepared)
                },
            )?;
            assert_eq!(gate.ended(), 0, "none begins before the gate opens");
            if begin {
                gate.open(true);
            }
            drop(closing);
            threads.join()
        });
        (found, gate.ended())
    }

    #[test]
    fn all_work_once_the_gate_is_open() {
        let (found, ended) = run(true);
        assert_eq!(found.expect("works"), [10, 11, 12]);
        assert_eq!(ended, 3);
    }

    #[test]
    fn none_works_where_the_gate_was_closed() {
        let (found, ended) = run(false);
        let error = found.expect_err("none began");
        assert!(error.to_string().contains("did not begin"), "{error}");
        assert_eq!(ended, 3);
    }

    #[test]
    fn a_thread_that_panics_is_an_error() {
        let gate = Gate::default();
        let cpu = metal::place::allowed().expect("CPUs")[0];
        let found = thread::scope(|scope| {
            let _closing = Closing(&gate);
            let threads =
                enlist(scope, &gate, (&[cpu], false), |_| (), |_, ()| -> Result<()> { panic!() });
            gate.open(true);
            threads.expect("is made").join()
        });
        assert!(found.expect_err("panicked").to_string().contains("panicked"));
        assert_eq!(gate.ended(), 1);
    }
}
