//! Processes that keep CPUs busy while somebody sleeps.

use bench::measure::team::{Fault, Running, Seat, Team};
use bench::prelude::*;
use metal::kernel::chain_rotate;
use metal::raw::{Scope, futex_wait, futex_wake};
use record::order::Gather;
use std::collections::btree_map::Entry;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Rotations between two looks at whether to go on: some µs.
const STEP: u64 = 20_000;
/// A spinner that neither begins nor ends for so long is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the parent leaves the CPU to its spinners before it looks again.
const LOOK: Duration = Duration::from_micros(100);
/// Word that commands spinners to spin or rest.
const GO: usize = 0;
/// A spinner's words: steps that it made, and whether it spins.
const STEPS: usize = 0;
const SPINS: usize = 1;

/// The loads of a round, made when they are first asked for.
#[derive(Default)]
pub(crate) struct Loads(BTreeMap<Vec<usize>, Load>);

impl Loads {
    /// Does `work` while a process spins on each of `cpus`, if there are any; they rest when this
    /// returns. A rehearsal is so short that none of them need have run.
    pub(crate) fn beside<T>(
        &mut self,
        cpus: &[usize],
        rehearsal: bool,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if cpus.is_empty() {
            return work();
        }
        let load = match self.0.entry(cpus.to_vec()) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => place.insert(Load::new(cpus)?),
        };
        if let Err(error) = load.start() {
            // Some may spin.
            self.0.remove(cpus);
            return Err(error);
        }
        let done = work();
        // Whatever became of the work: no thread spins on.
        let stopped = load.stop();
        match (done?, stopped) {
            (done, Err(error)) if rehearsal && error.is::<DidNotRun>() => Ok(done),
            (done, stopped) => stopped.map(|()| done),
        }
    }
}

/// A spinner had its CPU not once while the sleeper slept.
#[derive(Debug, thiserror::Error)]
#[error("the spinning process on CPU {0} did not run")]
struct DidNotRun(usize);

pub(super) fn count(loads: impl Iterator<Item = Vec<usize>>) -> usize {
    let different: std::collections::BTreeSet<Vec<usize>> = loads.gather();
    different.iter().map(Vec::len).sum()
}

struct Load {
    team: Running,
    cpus: Vec<usize>,
    /// Steps of each when it was started.
    before: Vec<u64>,
}

impl Load {
    fn new(cpus: &[usize]) -> Result<Load> {
        let team = Team::new(cpus.iter().map(|cpu| Some(*cpu)))?.patient(PATIENCE);
        let team = team.processes(cpus, |seat, _| spin(seat))?;
        team.ready()?;
        Ok(Load { team, cpus: cpus.to_vec(), before: Vec::new() })
    }

    fn steps(&self) -> Vec<u64> {
        (0..self.cpus.len()).map(|number| self.team.get(number, STEPS)).collect()
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
        self.wait("come to rest", |load, number| load.team.get(number, SPINS) == 0)?;
        let idle = self.before.iter().zip(&after).position(|(before, after)| after <= before);
        idle.map_or(Ok(()), |number| Err(DidNotRun(self.cpus[number]).into()))
    }

    fn tell(&self, go: u32) {
        let word = self.team.common_half(GO);
        word.store(go, Ordering::Release);
        // A spinner that does not wait sees it by itself.
        let _ = futex_wake(word, i32::MAX as u32, Scope::Machine);
    }

    /// Waits until something holds for every spinner; the CPU is theirs meanwhile.
    fn wait(&self, what: &str, holds: impl Fn(&Load, usize) -> bool) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        for (number, cpu) in self.cpus.iter().enumerate() {
            while !holds(self, number) {
                ensure!(Instant::now() < until, "the process for CPU {cpu} has not {what}");
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

/// Spins or rests as it is told, until it is killed.
fn spin(seat: &Seat<'_>) -> Result<(), Fault> {
    seat.ready();
    let go = seat.team.common_half(GO);
    loop {
        while go.load(Ordering::Acquire) == 0 {
            seat.set(SPINS, 0);
            // It returns without a reason at times, and the word is looked at again.
            let _ = futex_wait(go, 0, Scope::Machine);
        }
        seat.set(SPINS, 1);
        black_box(chain_rotate(black_box(STEP)));
        seat.word(STEPS).fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal::place;

    #[test]
    fn spinners_run_when_told_and_rest_when_told() {
        let cpus = place::allowed().expect("CPUs");
        let cpus = &cpus[..cpus.len().min(2)];
        let mut load = Load::new(cpus).expect("is made");
        for _ in 0..2 {
            load.start().expect("spins");
            // Long enough for a step of each, whoever else runs.
            let before = load.steps();
            while load.steps().iter().zip(&before).any(|(now, before)| now == before) {
                std::thread::sleep(LOOK);
            }
            load.stop().expect("rests");
            let rest = load.steps();
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(load.steps(), rest);
        }
    }

    #[test]
    fn a_spinner_that_did_not_run_is_an_error() {
        let cpus = [place::allowed().expect("CPUs")[0]];
        let mut load = Load::new(&cpus).expect("is made");
        load.start().expect("spins");
        // As if it had made all its steps before.
        load.before = vec![u64::MAX];
        assert!(load.stop().expect_err("is told").is::<DidNotRun>());
    }

    #[test]
    fn a_load_that_cannot_be_had_leaves_no_spinner() {
        let there = place::allowed().expect("CPUs")[0];
        let mut loads = Loads::default();
        loads.beside(&[there, 100_000], true, || Ok(())).expect_err("no such CPU");
        assert!(loads.0.is_empty());
    }

    #[test]
    fn each_load_is_counted_once() {
        let loads = [vec![0], vec![1, 2, 3], vec![0], vec![]];
        assert_eq!(count(loads.into_iter()), 4);
    }
}
