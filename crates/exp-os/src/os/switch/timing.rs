//! The hand-over and its one-party cost, timed in turn, and the scheduler's account of both.

use super::circle::{Circle, Switches};
use bench::measure::{Quartet, Timer, Turns, Watch, abba, samples};
use bench::prelude::*;

/// Share of a case's time that goes to the hand-overs; the rest to the one party.
const HANDOVER_SHARE: f64 = 0.75;
/// Batches of a quartet, in units of the short one.
pub(super) const QUARTET_BATCHES: u64 = 6;
/// Hand-overs of a case at least: with fewer a single other switch is more than the law allows.
const HANDOVERS_MIN: u64 = 400;
/// Relative difference between hand-overs and switches that is accepted …
const LAW_SHARE: f64 = 0.01;

/// The quartets of a turn: of the hand-overs and of the one party.
type Both = (Quartet, Quartet);

struct Timed {
    /// Hand-overs in the short batch.
    k: u64,
    /// Operations in the short batch of the one party.
    times: u64,
    turns: Turns<Both>,
    /// What a reader must know of the batches.
    notes: Vec<String>,
}

/// Hand-over less one party, turn by turn, in ns per hand-over; of any sign.
fn differences(turns: &[Both], k: u64, times: u64) -> Vec<f64> {
    let (handover, one_party): (Vec<Quartet>, Vec<Quartet>) = turns.iter().copied().unzip();
    let (handovers, alone) = (samples(&handover, k), samples(&one_party, times));
    handovers.iter().zip(alone).map(|(a, b)| a - b).collect()
}

/// Times a case between two accounts of the scheduler's, ends the circle, and writes the three
/// figures down, if the scheduler says that hand-overs were measured.
///
/// `row`: laps of the short batch at least.
pub(super) fn measure(case: &Case, mut circle: Circle, row: u64, bench: &mut Bench) -> Result<()> {
    let before = circle.switches()?;
    let Timed { k, times, turns, notes } = turns(&mut circle, row, bench)?;
    let counted = circle.switches()?.since(&before);
    bench.declare(Declared::Switches(counted.planned_here()));
    circle.end()?;
    let broken = match (counted.check(), bench.order().rehearsal) {
        (Err(error), false) => return Err(error),
        (outcome, _) => outcome.err(),
    };
    let differences = differences(&turns.kept, k, times);
    let samples = bench.record(case, "handover", Values::quartets(k, turns.map(|both| both.0)))?;
    let switches = counted.all();
    samples.set_quantities([
        ("switches_per_handover", switches as f64 / counted.handovers as f64),
        ("involuntary_share", counted.involuntary as f64 / switches.max(1) as f64),
    ]);
    samples.notes.extend(broken.map(|broken| broken.to_string()));
    samples.notes.extend(notes);
    bench.record(case, "one_party", Values::quartets(times, turns.map(|both| both.1)))?;
    bench.record(case, "switch", Values::batches(k, differences).watched(turns.readings))?;
    Ok(())
}

impl Switches {
    fn all(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// Involuntary switches of this process that hand-overs explain: what is beyond them disturbs.
    fn planned_here(&self) -> u64 {
        let beyond = self.all().saturating_sub(self.handovers);
        self.involuntary_here.saturating_sub(beyond)
    }

    /// The law: each hand-over takes one party off its CPU once.
    fn check(&self) -> Result<()> {
        let (switches, handovers) = (self.all(), self.handovers);
        let allowed = (LAW_SHARE * handovers as f64) as u64;
        ensure!(
            switches.abs_diff(handovers) <= allowed,
            "the scheduler counted {switches} switches ({} voluntary, {} involuntary) for {handovers} \
             hand-overs: {}",
            self.voluntary,
            self.involuntary,
            if switches > handovers {
                "other programs ran in between"
            } else {
                "parties found the token there without waiting"
            }
        );
        Ok(())
    }
}

/// Runs both quartets in turn for the case's time, which of them first changing each time.
fn turns(circle: &mut Circle, row: u64, bench: &Bench) -> Result<Timed> {
    let timer = bench.timer();
    let goal = timer.goal;
    let turn_ns = goal.batch_ns;
    let part = |share: f64| Timer { goal: goal.with_batches(share * turn_ns), ..timer };
    let (handovers, alone) = (part(HANDOVER_SHARE), part(1.0 - HANDOVER_SHARE));
    let laps_batch = handovers.search(&mut |n| laps(&timer, circle, n))?;
    let alone_batch = alone.search(&mut |n| timer.timed(n, &mut |n| circle.alone(n)))?;
    let least =
        if bench.order().rehearsal { 1 } else { least_laps(goal.quartets_min, circle.size()) };
    let (short, times) = (laps_batch.operations.max(least).max(row), alone_batch.operations);
    let mut is_handover_first = false;
    let turns = timer.repeat(&mut |watch| {
        is_handover_first = !is_handover_first;
        Ok(Some(if is_handover_first {
            let handover = of_laps(&timer, circle, short, watch)?;
            (handover, of_one_party(&timer, circle, times, watch)?)
        } else {
            let one_party = of_one_party(&timer, circle, times, watch)?;
            (of_laps(&timer, circle, short, watch)?, one_party)
        }))
    })?;
    let notes = [laps_batch.note(), alone_batch.note()];
    let notes = notes.into_iter().flatten().collect();
    Ok(Timed { k: short * circle.size(), times, turns, notes })
}

/// Laps of a short batch with which the fewest turns have enough hand-overs.
fn least_laps(turns: usize, size: u64) -> u64 {
    HANDOVERS_MIN.div_ceil(turns as u64 * QUARTET_BATCHES * size)
}

fn laps(timer: &Timer, circle: &mut Circle, n: u64) -> Result<f64> {
    circle.renew()?;
    timer.timed(n, &mut |n| circle.laps(n))
}

/// One lap before the quartet is not timed: caches are another's then, and whoever waited for the
/// CPU while one party kept it takes it at the first wait.
fn of_laps(timer: &Timer, circle: &mut Circle, n: u64, watch: &mut Watch) -> Result<Quartet> {
    circle.renew()?;
    circle.laps(1)?;
    abba(n, watch, &mut |n| laps(timer, circle, n))
}

fn of_one_party(timer: &Timer, circle: &mut Circle, n: u64, watch: &mut Watch) -> Result<Quartet> {
    circle.alone(1)?;
    abba(n, watch, &mut |n| timer.timed(n, &mut |n| circle.alone(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(voluntary: u64, involuntary: u64) -> Switches {
        Switches { handovers: 10_000, voluntary, involuntary, involuntary_here: involuntary }
    }

    #[test]
    fn switches_must_lie_within_one_per_cent_of_the_hand_overs() {
        for (voluntary, involuntary, lawful) in [
            (10_000, 0, true),
            (0, 10_000, true),
            (5_000, 5_100, true),
            (5_000, 5_101, false),
            (9_900, 0, true),
            (9_899, 0, false),
            (0, 0, false),
        ] {
            let outcome = counted(voluntary, involuntary).check();
            assert_eq!(outcome.is_ok(), lawful, "{voluntary} + {involuntary}");
        }
    }

    #[test]
    fn a_case_has_enough_hand_overs_to_forgive_a_few_switches() {
        for size in [2, 3, 8, 96, 1024] {
            let laps = least_laps(6, size);
            let least = laps * size * 6 * 6;
            assert!(least >= HANDOVERS_MIN, "{size}");
            assert!(laps == 1 || (laps - 1) * size * 6 * 6 < HANDOVERS_MIN);
            let counted = |switches| Switches { handovers: least, ..counted(switches, 0) };
            counted(least + 4).check().expect("within one per cent");
        }
    }

    #[test]
    fn what_is_beyond_the_hand_overs_is_not_planned() {
        assert_eq!(counted(5_000, 5_000).planned_here(), 5_000);
        assert_eq!(counted(5_000, 5_090).planned_here(), 5_000);
        assert_eq!(counted(9_990, 10).planned_here(), 10);
        assert_eq!(counted(10_000, 60).planned_here(), 0);
    }

    #[test]
    fn differences_are_per_hand_over_and_of_any_sign() {
        let turns = [((100.0, 300.0), (10.0, 50.0)), ((100.0, 120.0), (10.0, 50.0))];
        assert_eq!(differences(&turns, 10, 4), [10.0 - 5.0, 1.0 - 5.0]);
    }
}
