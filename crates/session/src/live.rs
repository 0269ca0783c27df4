//! A series while it is measured.

use crate::budget::{Claim, Enough, Rules};
use crate::plan::Work;
use record::case::{Case, Order, Series};
use record::event::{Ending, FailedCase, Round, RoundStatus};
use record::key::CaseId;
use record::metric::Better;
use record::run::Run;
use stats::estimate::{RoundValue, estimate};
use stats::interval::relative_half_width;
use stats::rounds::values;
use std::collections::BTreeMap;
use std::time::Duration;

/// Void rounds in a row after which a series has failed.
const VOID_IN_ROW_MAX: u32 = 3;

/// How the reason of a case begins that the budget left without a round.
pub const OVER_BUDGET: &str = "the budget ran out before its first round";

/// Why measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All that was planned is done.
    Done,
    /// The budget ended it.
    Budget,
    /// A signal ended it.
    Interrupted,
}

/// A series with what was measured of it.
pub struct Live<'run> {
    /// Its plan.
    pub work: &'run Work,
    /// With its sizes.
    pub series: Series,
    /// Rounds that count, but for those of [`Live::ahead`].
    pub ok: u32,
    /// Rounds that count of the cases of the quick preset alone.
    ahead: u32,
    /// After how many rounds of all cases those come, and how many they are.
    ahead_rounds: (u32, u32),
    /// Rounds of the other cases before widths decide.
    asked_from: u32,
    /// Number of the last round tried.
    pub tried: u32,
    /// Why it needs no further round.
    pub finished: Option<String>,
    /// How long `prepare` took, where it was done in this segment.
    pub prepared: Option<Duration>,
    /// Greatest relative half width of its figures at the last look.
    width: Option<f64>,
    void_in_row: u32,
    last_void: Option<String>,
    /// In how many rounds that count a case failed, and why the last time.
    failures: BTreeMap<CaseId, (u32, String)>,
    /// Cases that no further round measures: after how many rounds that counted, and why.
    given_up: BTreeMap<CaseId, (u32, String)>,
    spent: Duration,
    /// Rounds of all cases in that time; one of some of them is a part.
    timed: f64,
}

/// What the next rounds of a series measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All its cases.
    Whole,
    /// Those of the quick preset.
    Ahead,
    /// The others, once those had their rounds.
    Rest,
}

impl<'run> Live<'run> {
    /// A series with what an earlier segment measured of it, by the rounds of the run.
    pub fn new(work: &'run Work, series: Series, rounds: &[Round], rules: &Rules<'_>) -> Self {
        let label = series.label();
        let of_series = || rounds.iter().filter(|round| round.series == label);
        let mut live = Live {
            work,
            ok: 0,
            ahead: 0,
            ahead_rounds: (rules.first(), rules.ahead_until.saturating_sub(rules.first())),
            asked_from: rules.asked_from,
            tried: of_series().map(|round| round.n).max().unwrap_or(0),
            series,
            finished: None,
            prepared: None,
            width: None,
            void_in_row: 0,
            last_void: None,
            failures: BTreeMap::new(),
            given_up: BTreeMap::new(),
            spent: Duration::ZERO,
            timed: 0.0,
        };
        // Void rounds of an earlier segment count for what they gave up, not for their number.
        of_series()
            .filter(|round| round.status == RoundStatus::Ok || !round.failed.is_empty())
            .for_each(|round| live.take(&round.status, &round.failed));
        live
    }

    /// Whether it has failed for good.
    pub fn failed(&self) -> bool {
        self.void_in_row >= VOID_IN_ROW_MAX || self.left().next().is_none()
    }

    /// Its cases without those that were given up.
    fn left(&self) -> impl Iterator<Item = &Case> {
        let cases = self.series.cases.iter();
        cases.filter(|case| !self.given_up.contains_key(&case.id))
    }

    /// Whether all its cases, or none, are in the quick preset.
    fn is_of_one_kind(&self) -> bool {
        self.work.in_quick.is_empty() || self.work.in_quick.len() == self.series.cases.len()
    }

    fn part(&self) -> Part {
        let (from, count) = self.ahead_rounds;
        let is_there = |case: &Case| self.work.in_quick.contains(&case.id);
        match self.ok < from || self.is_of_one_kind() {
            true => Part::Whole,
            false if self.ahead < count && self.left().any(is_there) => Part::Ahead,
            false => Part::Rest,
        }
    }

    /// Whether the next rounds measure a case.
    fn is_next(&self, case: &CaseId) -> bool {
        match self.part() {
            Part::Whole => true,
            Part::Ahead => self.work.in_quick.contains(case),
            Part::Rest => !self.work.in_quick.contains(case),
        }
    }

    /// Share of its cases that the next rounds measure.
    fn share(&self) -> f64 {
        let next = self.left().filter(|case| self.is_next(&case.id)).count();
        next as f64 / self.left().count().max(1) as f64
    }

    /// Rounds that count of the cases that the next ones measure.
    pub fn rounds(&self) -> u32 {
        match self.part() {
            Part::Ahead => self.ok + self.ahead,
            Part::Whole | Part::Rest => self.ok,
        }
    }

    /// Rounds before widths decide.
    fn least(&self) -> u32 {
        let (from, count) = self.ahead_rounds;
        match self.part() {
            Part::Rest => self.asked_from,
            Part::Whole if self.work.in_quick.is_empty() => self.asked_from,
            Part::Whole | Part::Ahead => from + count,
        }
    }

    /// All rounds that count, of whatever cases.
    pub fn tally(&self) -> u32 {
        self.ok + self.ahead
    }

    /// Whether it wants rounds until all are so many.
    pub fn wants(&self, tally: u32) -> bool {
        self.tally() < tally && self.finished.is_none() && !self.failed()
    }

    /// What it asks of the budget.
    pub fn claim(&self) -> Claim<'run> {
        Claim {
            preparation: match self.prepared {
                Some(_) => Duration::ZERO,
                None => self.work.preparation,
            },
            observed: (self.timed > 0.0).then(|| self.spent.div_f64(self.timed)),
            rounds: self.rounds(),
            least: self.least(),
            share: self.share(),
            width: self.width,
            ended: self.finished.is_some() || self.failed(),
            ..self.work.claim()
        }
    }

    /// Takes the end of a round.
    pub fn ended(&mut self, status: &RoundStatus, failed: &[FailedCase], took: Duration) {
        // What was made for all rounds was made in the first.
        let preparing = self.prepared.filter(|_| self.timed == 0.0);
        // One in which cases were given up says nothing of what those cost that are left.
        if *status == RoundStatus::Ok || failed.is_empty() {
            self.spent += took.saturating_sub(preparing.unwrap_or_default());
            self.timed += self.share();
        }
        self.take(status, failed);
    }

    fn take(&mut self, status: &RoundStatus, failed: &[FailedCase]) {
        match status {
            RoundStatus::Ok => {
                match self.part() {
                    Part::Ahead => self.ahead += 1,
                    Part::Whole | Part::Rest => self.ok += 1,
                }
                self.void_in_row = 0;
                count_failures(&mut self.failures, failed);
            }
            RoundStatus::Void(reason) => {
                // A round that gives cases up leaves fewer of them: that cannot go on for ever.
                if failed.is_empty() {
                    self.void_in_row += 1;
                }
                self.last_void = Some(reason.clone());
                for FailedCase { case, reason } in failed {
                    let of = (self.rounds(), reason.clone());
                    self.given_up.entry(case.clone()).or_insert(of);
                }
            }
        }
    }

    /// The series with its cases in the order of round `n`: ladders upwards in odd rounds and
    /// downwards in even ones, others shuffled anew.
    pub fn in_order(&self, n: u32, seed: u64) -> Series {
        let next = self.left().filter(|case| self.is_next(&case.id));
        let mut series = Series { cases: next.cloned().collect(), ..self.series.clone() };
        match series.order {
            Order::Ladder if n.is_multiple_of(2) => series.cases.reverse(),
            Order::Ladder | Order::Fixed => {}
            Order::Shuffled => fastrand::Rng::with_seed(seed).shuffle(&mut series.cases),
        }
        series
    }

    /// Looks at it: what its intervals are like, and whether it has enough rounds.
    pub fn look(&mut self, run: &Run, rules: &Rules<'_>) {
        if self.work.once() && self.ok > 0 {
            self.finished = Some("measured one time".to_owned());
        }
        if self.finished.is_some() || self.ok < rules.first() {
            return;
        }
        self.width = self.relative_half_width(run);
        let rounds = self.rounds();
        if rounds < self.least() {
            return;
        }
        self.finished = match rules.enough(rounds, self.width) {
            Some(Enough::Precise) => {
                Some(format!("precise to {:.1} % after {rounds} rounds", rules.goal * 100.0))
            }
            Some(Enough::LastLook) => Some(format!("last look after {rounds} rounds")),
            None if !self.left().any(|case| self.is_next(&case.id)) => {
                Some(format!("ended after {rounds} rounds"))
            }
            None => None,
        };
    }

    /// Greatest half width over value of its figures; none where one has no interval.
    fn relative_half_width(&self, run: &Run) -> Option<f64> {
        let figures = values(run, &self.series.experiment, &self.series.label());
        let next = figures.iter().filter(|((case, _), _)| self.is_next(case));
        let widths = next.map(|(_, rounds)| {
            let rounds: Vec<RoundValue> = rounds.iter().map(RoundValue::from).collect();
            let estimate = estimate(&rounds, Better::None)?;
            Some(relative_half_width(&estimate.interval?, estimate.value))
        });
        let widths: Option<Vec<f64>> = widths.collect();
        widths?.into_iter().max_by(f64::total_cmp)
    }

    /// How one of its cases ended, and why: failed, if it did in every round that counts.
    pub fn ending_of(&self, case: &CaseId, stopped: Stop) -> (Ending, String) {
        let (ending, reason) = match self.given_up.get(case) {
            Some((0, why)) => return (Ending::Failed, why.clone()),
            Some((rounds, why)) => {
                (Ending::Measured, format!("given up after {rounds} rounds: {why}"))
            }
            None => self.ending(stopped),
        };
        match self.failures.get(case) {
            Some((rounds, why)) if *rounds >= self.rounds_of(case) => (Ending::Failed, why.clone()),
            Some((rounds, why)) => {
                let failed = format!(
                    "{reason}; it failed in {rounds} of {} rounds: {why}",
                    self.rounds_of(case)
                );
                (ending, failed)
            }
            None => (ending, reason),
        }
    }

    /// Rounds that count and had the case.
    fn rounds_of(&self, case: &CaseId) -> u32 {
        let measured = match self.is_of_one_kind() || !self.work.in_quick.contains(case) {
            true => self.ok,
            false => self.ok.min(self.ahead_rounds.0) + self.ahead,
        };
        self.given_up.get(case).map_or(measured, |(rounds, _)| *rounds)
    }

    /// How its cases ended that did not fail by themselves, and why.
    fn ending(&self, stopped: Stop) -> (Ending, String) {
        if self.ok == 0 {
            let reason = match (&self.last_void, stopped) {
                (Some(reason), _) => reason.clone(),
                (None, Stop::Interrupted) => {
                    "the run was interrupted before its first round".to_owned()
                }
                (None, _) => format!("{OVER_BUDGET}; raise it with --budget"),
            };
            let ending = if self.last_void.is_some() { Ending::Failed } else { Ending::Skipped };
            return (ending, reason);
        }
        let reason = match (&self.finished, stopped) {
            (Some(reason), _) => reason.clone(),
            (None, _) if self.failed() => format!(
                "given up after {} rounds: {}",
                self.ok,
                self.last_void.as_deref().unwrap_or("void rounds")
            ),
            (None, Stop::Interrupted) => format!("interrupted after {} rounds", self.ok),
            (None, Stop::Budget) => format!("the budget ran out after {} rounds", self.ok),
            (None, Stop::Done) => format!("ended after {} rounds", self.ok),
        };
        (Ending::Measured, reason)
    }
}

/// Counts the cases that failed in a round.
fn count_failures(failures: &mut BTreeMap<CaseId, (u32, String)>, failed: &[FailedCase]) {
    for FailedCase { case, reason } in failed {
        let rounds = failures.get(case).map_or(0, |(rounds, _)| *rounds);
        failures.insert(case.clone(), (rounds + 1, reason.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::{Live, Rules, Stop, Work};
    use record::case::{Case, Order, Series};
    use record::event::{Ending, FailedCase, Round, RoundStatus};
    use record::key::CaseId;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    const RULES: Rules = Rules { looks: &[6, 9, 12], asked_from: 9, ahead_until: 15, goal: 0.02 };

    fn size(bytes: u64) -> CaseId {
        CaseId::new().with("footprint", bytes)
    }

    fn work() -> Work {
        let cases = [1, 2, 4].map(|bytes| Case::new(size(bytes)));
        Work {
            in_quick: BTreeSet::new(),
            experiment: catalogue::find("memory.latency").expect("in the catalogue"),
            series: Series::new("memory.latency", Order::Ladder, cases.to_vec()),
            stage: 0,
            cost: Duration::from_secs(1),
            preparation: Duration::ZERO,
        }
    }

    fn failed(bytes: u64) -> FailedCase {
        FailedCase { case: size(bytes), reason: format!("{bytes} are too many") }
    }

    fn round(n: u32, status: RoundStatus, failed: Vec<FailedCase>) -> Round {
        Round {
            series: work().series.label(),
            n,
            segment: 0,
            at_s: 1.0,
            window_ns: 1.0,
            status,
            disturbed: Vec::new(),
            others: Vec::new(),
            cpus: Vec::new(),
            environment: BTreeMap::new(),
            failed,
        }
    }

    fn cases(live: &Live<'_>) -> Vec<CaseId> {
        let series = live.in_order(1, 1);
        series.cases.into_iter().map(|case| case.id).collect()
    }

    #[test]
    fn what_a_void_round_gives_up_is_left_out_and_the_rest_goes_on() {
        let work = work();
        let mut live = Live::new(&work, work.series.clone(), &[], &RULES);
        let void = RoundStatus::Void("killed".to_owned());
        let took = Duration::from_secs(1);
        live.ended(&RoundStatus::Ok, &[], took);
        for bytes in [4, 2] {
            live.ended(&void, &[failed(bytes)], took);
            assert!(!live.failed() && live.wants(6));
        }
        assert_eq!(cases(&live), [size(1)]);
        live.ended(&RoundStatus::Ok, &[], took);
        let (ending, reason) = live.ending_of(&size(4), Stop::Done);
        assert_eq!(ending, Ending::Measured);
        assert!(reason.ends_with("4 are too many"), "{reason}");
        assert_eq!(live.ending_of(&size(1), Stop::Done).0, Ending::Measured);
        // Nothing is left to measure.
        live.ended(&void, &[failed(1)], took);
        assert!(live.failed() && !live.wants(6));
    }

    #[test]
    fn a_void_round_without_a_culprit_counts_towards_the_end() {
        let work = work();
        let mut live = Live::new(&work, work.series.clone(), &[], &RULES);
        let void = RoundStatus::Void("killed".to_owned());
        for round in 1..=3 {
            assert!(!live.failed());
            live.ended(&void, &[], Duration::from_secs(1));
            assert_eq!(live.failed(), round == 3);
        }
        assert_eq!(cases(&live).len(), 3);
    }

    #[test]
    fn a_run_that_is_continued_remembers_what_was_given_up() {
        let work = work();
        let rounds = [
            round(1, RoundStatus::Void("killed".to_owned()), vec![failed(4)]),
            round(2, RoundStatus::Void("another".to_owned()), Vec::new()),
            round(3, RoundStatus::Ok, Vec::new()),
        ];
        let live = Live::new(&work, work.series.clone(), &rounds, &RULES);
        assert_eq!((live.ok, live.tried), (1, 3));
        assert_eq!(cases(&live), [size(1), size(2)]);
        let (ending, reason) = live.ending_of(&size(4), Stop::Done);
        assert_eq!((ending, reason.as_str()), (Ending::Failed, "4 are too many"));
    }

    #[test]
    fn cases_of_the_quick_preset_have_more_rounds_by_themselves_and_the_others_go_on() {
        let work = Work { in_quick: [size(2)].into(), ..work() };
        let mut live = Live::new(&work, work.series.clone(), &[], &RULES);
        let mut measured = Vec::new();
        for _ in 0..18 {
            measured.push(cases(&live).len());
            live.ended(&RoundStatus::Ok, &[], Duration::from_secs(1));
        }
        assert_eq!(measured, [vec![3; 6], vec![1; 9], vec![2; 3]].concat());
        assert_eq!((live.rounds(), live.tally(), live.ok), (9, 18, 9));
        // A run that goes on finds itself at the same place.
        let rounds: Vec<Round> = (1..=11).map(|n| round(n, RoundStatus::Ok, Vec::new())).collect();
        let live = Live::new(&work, work.series.clone(), &rounds, &RULES);
        assert_eq!((live.rounds(), cases(&live)), (11, vec![size(2)]));
    }
}
