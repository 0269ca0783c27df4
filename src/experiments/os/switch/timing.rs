//! The hand-over and its one-party cost, timed in turn, and the scheduler's account of both.

use super::circle::{Circle, Switches};
use crate::measure::{Bench, Clock, voids};
use anyhow::{Result, ensure};
use metal::clock::monotonic_raw_ns;
use record::case::Case;
use std::hint::black_box;

/// METHOD §2: a batch is at least so many times the clock's cost and its resolution.
const COST_FACTOR: f64 = 1000.0;
const RESOLUTION_FACTOR: f64 = 100.0;
/// Turns of both quartets at most.
const TURNS_MAX: usize = 100;
/// Share of a case's time that goes to the hand-overs; the rest to the one party.
const HANDOVER_SHARE: f64 = 0.75;
/// Batches in a quartet, in units of the short one.
const QUARTET_BATCHES: f64 = 6.0;
/// No batch is larger.
const BATCH_MAX: u64 = 1 << 24;
/// Relative difference between hand-overs and switches that is accepted …
const LAW_SHARE: f64 = 0.01;
/// … and always: so few others may have wanted the CPU in a short case.
const LAW_LEAST: u64 = 4;

/// The quartets of a case; one element of each list per turn.
#[derive(Debug, Default)]
pub(super) struct Timed {
    /// Laps in the short batch of the hand-overs.
    pub(super) laps: u64,
    /// Hand-overs of a lap.
    pub(super) size: u64,
    /// Operations in the short batch of the one party.
    pub(super) times: u64,
    /// Sums of the two short and of the two long batches, in ns.
    pub(super) handover: (Vec<f64>, Vec<f64>),
    pub(super) one_party: (Vec<f64>, Vec<f64>),
    /// Turns that their reference chains voided.
    pub(super) voids: u32,
}

/// Sums of a quartet, in ns: of the short and of the long batches.
type Quartet = (f64, f64);

impl Timed {
    fn push(&mut self, handover: Quartet, one_party: Quartet) {
        for ((short, long), quartet) in [
            (&mut self.handover, handover),
            (&mut self.one_party, one_party),
        ]
        .map(|(lists, quartet)| ((&mut lists.0, &mut lists.1), quartet))
        {
            short.push(quartet.0);
            long.push(quartet.1);
        }
    }

    fn turns(&self) -> usize {
        self.handover.0.len()
    }

    /// Hand-over less one party, turn by turn, in ns per hand-over; of any sign.
    pub(super) fn differences(&self) -> Vec<f64> {
        let each = |lists: &(Vec<f64>, Vec<f64>), operations: u64| -> Vec<f64> {
            let both = lists.0.iter().zip(&lists.1);
            both.map(|(short, long)| (long - short) / (2.0 * operations as f64))
                .collect()
        };
        let handovers = each(&self.handover, self.laps * self.size);
        let alone = each(&self.one_party, self.times);
        handovers.iter().zip(alone).map(|(a, b)| a - b).collect()
    }
}

/// Times a case between two accounts of the scheduler's.
///
/// # Errors
/// A party is gone.
pub(super) fn time(circle: &mut Circle, bench: &mut Bench) -> Result<(Timed, Counted)> {
    let before = circle.switches()?;
    let timed = turns(circle, bench)?;
    let counted = Counted::between(&before, &circle.switches()?);
    bench.planned_switches(counted.planned_here());
    Ok((timed, counted))
}

/// Writes the three figures of a case down, if the scheduler says that hand-overs were measured.
///
/// # Errors
/// It says that other things happened. In a rehearsal that is a note: its figures mean nothing, and
/// its few hand-overs may well be lost on a busy machine.
pub(super) fn write(case: &Case, bench: &mut Bench, timed: Timed, counted: &Counted) -> Result<()> {
    let broken = match (counted.check(), bench.order().rehearsal) {
        (Err(error), false) => return Err(error),
        (outcome, _) => outcome.err(),
    };
    let k = timed.laps * timed.size;
    let differences = timed.differences();
    let voids = timed.voids;
    let (n, two_n) = timed.handover;
    let samples = bench.record_quartets(case, "handover", k, n, two_n, voids)?;
    let quantities = &mut samples.quantities;
    let per_handover = counted.switches() as f64 / counted.handovers as f64;
    quantities.insert("switches_per_handover".to_owned(), per_handover);
    let share = counted.involuntary as f64 / counted.switches().max(1) as f64;
    quantities.insert("involuntary_share".to_owned(), share);
    samples
        .notes
        .extend(broken.map(|broken| broken.to_string()));
    let (n, two_n) = timed.one_party;
    bench.record_quartets(case, "one_party", timed.times, n, two_n, voids)?;
    bench.record_batches(case, "switch", k, differences)?;
    Ok(())
}

/// What happened in a case by the scheduler's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) handovers: u64,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    pub(super) involuntary_here: u64,
}

impl Counted {
    /// From two accounts.
    pub(super) fn between(before: &Switches, after: &Switches) -> Counted {
        Counted {
            handovers: after.handovers - before.handovers,
            voluntary: after.voluntary - before.voluntary,
            involuntary: after.involuntary - before.involuntary,
            involuntary_here: after.involuntary_here - before.involuntary_here,
        }
    }

    fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// Involuntary switches of this process that hand-overs explain: what is beyond them disturbs.
    fn planned_here(&self) -> u64 {
        let beyond = self.switches().saturating_sub(self.handovers);
        self.involuntary_here.saturating_sub(beyond)
    }

    /// The law: each hand-over takes one party off its CPU once, be it that it waits, yields or is
    /// preempted by the one it woke.
    ///
    /// # Errors
    /// Switches and hand-overs are further apart than 1 %.
    pub(super) fn check(&self) -> Result<()> {
        let (switches, handovers) = (self.switches(), self.handovers);
        let allowed = ((LAW_SHARE * handovers as f64) as u64).max(LAW_LEAST);
        ensure!(
            switches.abs_diff(handovers) <= allowed,
            "the scheduler counted {switches} switches ({} voluntary, {} involuntary) for {handovers} \
             hand-overs: {}",
            self.voluntary,
            self.involuntary,
            match switches > handovers {
                true => "others ran in between",
                false => "parties found the token there without waiting",
            }
        );
        Ok(())
    }
}

/// Runs both quartets in turn for the case's time, which of them first changing each time.
fn turns(circle: &mut Circle, bench: &Bench) -> Result<Timed> {
    let clock = bench.clock();
    let case_ns = bench.order().case_ns as f64;
    let calibration = bench.calibration();
    let least_ns =
        (COST_FACTOR * calibration.pair_cost_ns).max(RESOLUTION_FACTOR * calibration.resolution_ns);
    let turn_ns = case_ns / TURNS_MAX as f64 / QUARTET_BATCHES;
    let (handover_ns, one_party_ns) = (HANDOVER_SHARE * turn_ns, (1.0 - HANDOVER_SHARE) * turn_ns);
    let laps = search(clock, handover_ns.max(least_ns), &mut |n| circle.laps(n))?;
    let times = search(clock, one_party_ns.max(least_ns), &mut |n| circle.alone(n))?;
    let mut good = Timed {
        laps,
        times,
        size: circle.size(),
        ..Timed::default()
    };
    let mut void = Timed {
        laps,
        times,
        size: circle.size(),
        ..Timed::default()
    };
    let rehearsal = bench.order().rehearsal;
    let least = if rehearsal { 2 } else { 6 };
    bench.reference();
    let begin = monotonic_raw_ns();
    let mut before_ns = bench.reference();
    for turn in 1.. {
        let handover_first = turn % 2 == 1;
        let mut one_party = None;
        if !handover_first {
            one_party = Some(quartet(clock, times, &mut |n| circle.alone(n))?);
        }
        let handover = quartet(clock, laps, &mut |n| circle.laps(n))?;
        let one_party = match one_party {
            Some(quartet) => quartet,
            None => quartet(clock, times, &mut |n| circle.alone(n))?,
        };
        let after_ns = bench.reference();
        match voids(before_ns, after_ns) {
            true => void.push(handover, one_party),
            false => good.push(handover, one_party),
        }
        before_ns = after_ns;
        let spent_ns = (monotonic_raw_ns() - begin) as f64;
        let patience = if good.turns() < least { 3.0 } else { 1.0 };
        let over = rehearsal || spent_ns * (turn + 1) as f64 / turn as f64 > patience * case_ns;
        if turn >= least && (over || good.turns() >= TURNS_MAX) {
            break;
        }
    }
    good.voids = u32::try_from(void.turns())?;
    void.voids = good.voids;
    // As everywhere: void ones are given only where figures mean nothing.
    Ok(match good.turns() == 0 && rehearsal {
        true => void,
        false => good,
    })
}

/// Length of one batch in ns. Never inlined, so that n and 2n run the same code.
#[inline(never)]
fn batch(clock: Clock, n: u64, body: &mut impl FnMut(u64) -> Result<()>) -> Result<f64> {
    let n = black_box(n);
    let start = clock.start();
    let outcome = body(n);
    let end = clock.end();
    outcome?;
    Ok(clock.between_ns(start, end))
}

/// A quartet of n, 2n, 2n, n. One operation before it is not timed: caches are another's then, and
/// whoever waited for the CPU while one party kept it takes it at the first wait.
fn quartet(clock: Clock, n: u64, body: &mut impl FnMut(u64) -> Result<()>) -> Result<Quartet> {
    body(1)?;
    let first = batch(clock, n, body)?;
    let second = batch(clock, 2 * n, body)?;
    let third = batch(clock, 2 * n, body)?;
    let fourth = batch(clock, n, body)?;
    Ok((first + fourth, second + third))
}

/// Doubles n until the shortest of three batches lasts `goal_ns`: one that others lengthened must not
/// end the search. The cap ends it for every body.
fn search(clock: Clock, goal_ns: f64, body: &mut impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let mut n = 1;
    'next: while n < BATCH_MAX {
        for _ in 0..3 {
            if batch(clock, n, body)? < goal_ns {
                n *= 2;
                continue 'next;
            }
        }
        break;
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::{Counted, Timed};

    fn counted(voluntary: u64, involuntary: u64) -> Counted {
        Counted {
            handovers: 10_000,
            voluntary,
            involuntary,
            involuntary_here: involuntary,
        }
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
        let error = counted(9_000, 0).check().unwrap_err().to_string();
        assert!(
            error.contains("9000 switches") && error.contains("without waiting"),
            "{error}"
        );
        let few = Counted {
            handovers: 10,
            ..counted(14, 0)
        };
        few.check()
            .expect("four others are accepted in a short case");
        Counted {
            handovers: 10,
            ..counted(15, 0)
        }
        .check()
        .unwrap_err();
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
        let mut timed = Timed {
            laps: 5,
            size: 2,
            times: 4,
            ..Timed::default()
        };
        timed.push((100.0, 300.0), (10.0, 50.0));
        timed.push((100.0, 120.0), (10.0, 50.0));
        assert_eq!(timed.differences(), [10.0 - 5.0, 1.0 - 5.0]);
    }
}
