//! Processes that keep CPUs busy while somebody sleeps.

use anyhow::{Context, Result, ensure};
use host::refused;
use metal::kernel::chain_rotate;
use metal::memory::{SharedWords, WORDS_PER_LINE};
use metal::place;
use metal::process::Child;
use metal::raw::{Scope, futex_wait, futex_wake};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rotations between two looks at whether to go on: some µs.
const STEP: u64 = 20_000;
/// A spinner that neither begins nor ends for so long is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the parent leaves the CPU to its spinners before it looks again.
const LOOK: Duration = Duration::from_micros(100);
/// Word by which spinners are told to spin or rest; each has two lines of its own after it.
const GO: usize = 0;
/// Words from one spinner's to the next one's.
const STRIDE: usize = 2 * WORDS_PER_LINE;
/// A spinner's words: steps that it made, and what it does.
const STEPS: usize = 0;
const STATE: usize = 1;
/// States: waiting to be told, spinning, ended because it may not run on its CPU.
const RESTS: u64 = 0;
const SPINS: u64 = 1;
const LOST: u64 = 2;

/// The loads of a round, made when they are first asked for.
#[derive(Default)]
pub(crate) struct Loads(BTreeMap<Vec<usize>, Load>);

impl Loads {
    /// Has a process spin on each of `cpus`, and returns when all do.
    ///
    /// # Errors
    /// One could not be made, or does not spin.
    pub(crate) fn start(&mut self, cpus: &[usize]) -> Result<()> {
        if !self.0.contains_key(cpus) {
            self.0.insert(cpus.to_vec(), Load::new(cpus)?);
        }
        let started = self.of(cpus).map_or(Ok(()), Load::start);
        if started.is_err() {
            // Some may spin.
            self.0.remove(cpus);
        }
        started
    }

    /// Has them rest, and returns when all do.
    ///
    /// # Errors
    /// One of them has not got on since it was started.
    pub(crate) fn stop(&mut self, cpus: &[usize]) -> Result<()> {
        self.of(cpus).map_or(Ok(()), Load::stop)
    }

    fn of(&mut self, cpus: &[usize]) -> Option<&mut Load> {
        self.0.get_mut(cpus)
    }
}

/// A spinner had its CPU not once while the sleeper slept.
#[derive(Debug, thiserror::Error)]
#[error("the process that was to spin on CPU {0} did not run")]
pub(crate) struct DidNotRun(usize);

/// Processes that the loads of a round need.
pub(super) fn count(loads: impl Iterator<Item = Vec<usize>>) -> usize {
    let different: std::collections::BTreeSet<Vec<usize>> = loads.collect();
    different.iter().map(Vec::len).sum()
}

/// A process for each of some CPUs.
struct Load {
    words: SharedWords,
    /// Killed when dropped.
    _children: Vec<Child>,
    cpus: Vec<usize>,
    /// Steps of each when it was started.
    before: Vec<u64>,
}

impl Load {
    fn new(cpus: &[usize]) -> Result<Load> {
        let words = SharedWords::new(STRIDE * (cpus.len() + 1))?;
        let mut children = Vec::with_capacity(cpus.len());
        for (number, &cpu) in cpus.iter().enumerate() {
            let child = Child::fork(|| spin(cpu, &words, number))
                .map_err(refused::told)
                .with_context(|| format!("a process that spins on CPU {cpu}"))?;
            children.push(child);
        }
        Ok(Load { words, _children: children, cpus: cpus.to_vec(), before: Vec::new() })
    }

    fn steps(&self) -> Vec<u64> {
        (0..self.cpus.len())
            .map(|number| word(&self.words, number, STEPS).load(Ordering::Acquire))
            .collect()
    }

    fn state(&self, number: usize) -> u64 {
        word(&self.words, number, STATE).load(Ordering::Acquire)
    }

    fn start(&mut self) -> Result<()> {
        self.before = self.steps();
        self.tell(1);
        self.wait("begun to spin", |load, number| load.steps()[number] > load.before[number])?;
        // What they did before all of them ran does not count.
        self.before = self.steps();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let after = self.steps();
        self.tell(0);
        self.wait("come to rest", |load, number| load.state(number) == RESTS)?;
        let idle = self.before.iter().zip(&after).position(|(before, after)| after <= before);
        idle.map_or(Ok(()), |number| Err(DidNotRun(self.cpus[number]).into()))
    }

    fn tell(&self, go: u32) {
        let word = self.words.low_half(GO);
        word.store(go, Ordering::Release);
        // A spinner that does not wait sees it by itself.
        let _ = futex_wake(word, i32::MAX as u32, Scope::Machine);
    }

    /// Waits until something holds for every spinner; the CPU is theirs meanwhile.
    fn wait(&self, what: &str, holds: impl Fn(&Load, usize) -> bool) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        for (number, cpu) in self.cpus.iter().enumerate() {
            while !holds(self, number) {
                ensure!(self.state(number) != LOST, "a process cannot be pinned to CPU {cpu}");
                ensure!(Instant::now() < until, "the process for CPU {cpu} has not {what}");
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

/// A word of a spinner.
fn word(words: &SharedWords, number: usize, which: usize) -> &AtomicU64 {
    &words[STRIDE * (number + 1) + which]
}

/// A spinner's life; it is killed in the end.
fn spin(cpu: usize, words: &SharedWords, number: usize) -> i32 {
    let (steps, state) = (word(words, number, STEPS), word(words, number, STATE));
    if place::pin(cpu).is_err() {
        state.store(LOST, Ordering::Release);
        return 1;
    }
    let go = words.low_half(GO);
    loop {
        while go.load(Ordering::Acquire) == 0 {
            state.store(RESTS, Ordering::Release);
            // It returns without a reason at times, and the word is looked at again.
            let _ = futex_wait(go, 0, Scope::Machine);
        }
        state.store(SPINS, Ordering::Release);
        black_box(chain_rotate(black_box(STEP)));
        steps.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{Loads, count};
    use metal::place;

    #[test]
    fn spinners_run_when_told_and_rest_when_told() {
        let cpus = place::allowed().expect("CPUs");
        let cpus = &cpus[..cpus.len().min(2)];
        let mut loads = Loads::default();
        for _ in 0..2 {
            loads.start(cpus).expect("spins");
            // Long enough for a step of each, whoever else runs.
            let before = loads.0[cpus].steps();
            while loads.0[cpus].steps().iter().zip(&before).any(|(now, before)| now == before) {
                std::thread::sleep(super::LOOK);
            }
            loads.stop(cpus).expect("rests");
            let rest = loads.0[cpus].steps();
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert_eq!(loads.0[cpus].steps(), rest);
        }
    }

    #[test]
    fn a_spinner_that_did_not_run_is_an_error() {
        let cpus = [place::allowed().expect("CPUs")[0]];
        let mut loads = Loads::default();
        loads.start(&cpus).expect("spins");
        // As if it had made all its steps before.
        loads.of(&cpus).expect("is there").before = vec![u64::MAX];
        let error = loads.stop(&cpus).expect_err("is told");
        assert!(error.to_string().contains("did not run"), "{error}");
        assert!(Loads::default().stop(&cpus).is_ok(), "there is no load");
    }

    #[test]
    fn a_load_that_cannot_be_had_is_told_and_leaves_no_spinner() {
        let there = place::allowed().expect("CPUs")[0];
        let mut loads = Loads::default();
        let error = loads.start(&[there, 100_000]).expect_err("no such CPU");
        let text = error.to_string();
        assert!(text.contains("cannot be pinned to CPU 100000"), "{text}");
        assert!(loads.0.is_empty());
    }

    #[test]
    fn each_load_is_counted_once() {
        let loads = [vec![0], vec![1, 2, 3], vec![0], vec![]];
        assert_eq!(count(loads.into_iter()), 4);
    }
}
