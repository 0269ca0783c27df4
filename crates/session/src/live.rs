//! A series while it is measured.

use crate::budget::{Claim, Enough, Rules};
use crate::plan::Work;
use crate::quiet::Look;
use record::case::{Case, Order, Series};
use record::event::{Ending, FailedCase, Round, RoundStatus};
use record::key::CaseId;
use record::metric::Better;
use record::order::Gather;
use record::run::Run;
use stats::interval::relative_half_width;
use stats::rounds::{Figures, values};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Void rounds in a row after which a series has failed.
const VOID_IN_ROW_MAX: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Done,
    Budget,
    Interrupted,
}

pub struct Live<'run> {
    pub work: &'run Work,
    pub series: Series,
    /// Rounds that count, of whatever cases.
    pub tally: u32,
    counts: BTreeMap<CaseId, u32>,
    /// Cases that lacked rounds of a core that was alone at the last look.
    lacking: BTreeSet<CaseId>,
    /// Whether its samples have readings of the width probe, at the last look.
    pub is_probed: bool,
    /// What the session saw of the core before the round that comes next, if it asked.
    pub look: Option<Look>,
    rules: Rules<'run>,
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
    /// The rounds of its figures, and when they were grouped: the number of the last round tried, and
    /// of what the width probe had learnt.
    figures: (Option<(u32, usize)>, Rc<Figures>),
    spent: Duration,
    /// Rounds of all cases in that time; one of some of them is a part.
    timed: f64,
}

/// What the next rounds of a series measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// Those that lack rounds of a core that was alone.
    Lacking,
    Ahead,
    Rest,
}

impl<'run> Live<'run> {
    /// A series, and its rounds in earlier segments: the rounds of the run, and by round the cases
    /// of the series that have data.
    pub fn new(
        work: &'run Work,
        series: Series,
        rounds: &[Round],
        measured: &BTreeMap<u32, BTreeSet<CaseId>>,
        rules: Rules<'run>,
    ) -> Self {
        let label = series.label();
        let of_series = || rounds.iter().filter(|round| round.series == label);
        let mut live = Live {
            work,
            tally: 0,
            counts: BTreeMap::new(),
            lacking: BTreeSet::new(),
            is_probed: false,
            look: None,
            rules,
            tried: of_series().map(|round| round.n).max().unwrap_or(0),
            series,
            finished: None,
            prepared: None,
            width: None,
            void_in_row: 0,
            last_void: None,
            failures: BTreeMap::new(),
            given_up: BTreeMap::new(),
            figures: Default::default(),
            spent: Duration::ZERO,
            timed: 0.0,
        };
        // Void rounds of an earlier segment count for what they gave up, not for their number.
        for round in of_series() {
            if round.status == RoundStatus::Ok || !round.failed.is_empty() {
                let failed = round.failed.iter().map(|failed| &failed.case);
                let cases = measured.get(&round.n);
                let cases = cases.map(|cases| cases.iter().chain(failed).cloned().gather());
                live.take(&round.status, &round.failed, cases);
            }
        }
        live
    }

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
        let is_there = |part| self.left().any(|case| self.is_of(&case.id, part));
        match self.tally < self.rules.first() {
            true => Part::Whole,
            false if is_there(Part::Lacking) => Part::Lacking,
            false if self.is_of_one_kind() => Part::Whole,
            false if is_there(Part::Ahead) => Part::Ahead,
            false => Part::Rest,
        }
    }

    fn is_of(&self, case: &CaseId, part: Part) -> bool {
        let in_quick = self.work.in_quick.contains(case);
        match part {
            Part::Whole => true,
            Part::Lacking => {
                self.lacking.contains(case) && self.count(case) < self.rules.asked_from
            }
            Part::Ahead => in_quick && self.count(case) < self.rules.ahead_until,
            Part::Rest => !in_quick,
        }
    }

    fn next(&self) -> impl Iterator<Item = &Case> {
        let part = self.part();
        self.left().filter(move |case| self.is_of(&case.id, part))
    }

    fn count(&self, case: &CaseId) -> u32 {
        self.counts.get(case).copied().unwrap_or(0)
    }

    /// Share of its cases that the next rounds measure.
    fn share(&self) -> f64 {
        self.next().count() as f64 / self.left().count().max(1) as f64
    }

    /// Rounds that count of each of the cases that the next ones measure, at least.
    pub fn rounds(&self) -> u32 {
        self.next().map(|case| self.count(&case.id)).min().unwrap_or(self.tally)
    }

    /// Rounds before widths decide.
    fn least(&self) -> u32 {
        match self.part() {
            Part::Lacking | Part::Rest => self.rules.asked_from,
            Part::Whole if self.work.in_quick.is_empty() => self.rules.asked_from,
            Part::Whole | Part::Ahead => self.rules.ahead_until,
        }
    }

    pub fn wants(&self, tally: u32) -> bool {
        self.tally < tally && self.finished.is_none() && !self.failed()
    }

    pub fn claim(&self) -> Claim<'run> {
        Claim {
            preparation: match self.prepared {
                Some(_) => Duration::ZERO,
                None => self.work.preparation,
            },
            observed: (self.timed > 0.0).then(|| self.spent.div_f64(self.timed)),
            rounds: self.rounds(),
            least: self.least(),
            lacks_alone: self.part() == Part::Lacking,
            is_probed: self.is_probed,
            share: self.share(),
            width: self.width,
            ended: self.finished.is_some() || self.failed(),
            ..self.work.claim()
        }
    }

    pub fn ended(&mut self, status: &RoundStatus, failed: &[FailedCase], took: Duration) {
        // What was made for all rounds was made in the first.
        let preparing = self.prepared.filter(|_| self.timed == 0.0);
        // One in which cases were given up says nothing of what those cost that are left.
        if *status == RoundStatus::Ok || failed.is_empty() {
            self.spent += took.saturating_sub(preparing.unwrap_or_default());
            self.timed += self.share();
        }
        self.take(status, failed, None);
    }

    fn take(
        &mut self,
        status: &RoundStatus,
        failed: &[FailedCase],
        measured: Option<BTreeSet<CaseId>>,
    ) {
        match status {
            RoundStatus::Ok => {
                let next = || self.next().map(|case| case.id.clone()).gather();
                for case in measured.unwrap_or_else(next) {
                    *self.counts.entry(case).or_default() += 1;
                }
                self.tally += 1;
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
                    let count_and_reason = (self.count(case), reason.clone());
                    self.given_up.entry(case.clone()).or_insert(count_and_reason);
                }
            }
        }
    }

    /// The series with its cases in the order of round `n`: ladders upwards in odd rounds and
    /// downwards in even ones, others shuffled anew.
    pub fn in_order(&self, n: u32, seed: u64) -> Series {
        let cases = self.next().cloned().collect();
        let mut series = Series { cases, ..self.series.clone() };
        match series.order {
            Order::Ladder if n.is_multiple_of(2) => series.cases.reverse(),
            Order::Ladder | Order::Fixed => {}
            Order::Shuffled => fastrand::Rng::with_seed(seed).shuffle(&mut series.cases),
        }
        series
    }

    /// Looks at it: what its intervals are like, and whether it has enough rounds.
    pub fn look(&mut self, run: &Run) {
        if self.work.once() && self.tally > 0 {
            self.finished = Some("measured".to_owned());
        }
        if self.finished.is_some() || self.tally < self.rules.first() {
            return;
        }
        let figures = self.figures(run);
        self.judge(&figures);
    }

    /// The rounds of its figures: samples are grouped once after each look.
    pub fn figures(&mut self, run: &Run) -> Rc<Figures> {
        let now = Some((self.tried, run.learnt.len()));
        if self.figures.0 != now {
            let figures = values(run, &self.series.experiment, &self.series.label());
            self.figures = (now, Rc::new(figures));
        }
        Rc::clone(&self.figures.1)
    }

    /// Judges its figures: which cases lack rounds of a core alone, the widest interval, and whether
    /// it has enough rounds.
    fn judge(&mut self, figures: &Figures) {
        let lacking = figures.iter().filter(|(_, figure)| figure.lacks_alone());
        self.lacking = lacking.map(|((case, _), _)| case.clone()).collect();
        self.is_probed = figures.values().any(|figure| figure.is_probed);
        self.width = self.relative_half_width(figures);
        let rounds = self.rounds();
        if rounds < self.least() {
            return;
        }
        self.finished = match self.rules.enough(rounds, self.width) {
            Some(Enough::Precise) => Some(format!("precise to {:.1} %", self.rules.goal * 100.0)),
            Some(Enough::LastLook) => Some("last look".to_owned()),
            None => self.next().next().is_none().then(|| "ended".to_owned()),
        };
    }

    /// Greatest half width over value of the figures that the next rounds measure; none where one
    /// has no interval.
    fn relative_half_width(&self, figures: &Figures) -> Option<f64> {
        let part = self.part();
        let next = figures.iter().filter(|((case, _), _)| self.is_of(case, part));
        let widths = next.map(|(_, figure)| {
            let estimate = figure.estimate(Better::None)?;
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
            None => self.ending(self.count(case), stopped),
        };
        let counted = self.given_up.get(case).map_or(self.count(case), |(rounds, _)| *rounds);
        match self.failures.get(case) {
            Some((rounds, why)) if *rounds >= counted => (Ending::Failed, why.clone()),
            Some((rounds, why)) => {
                (ending, format!("{reason}; it failed in {rounds} of {counted} rounds: {why}"))
            }
            None => (ending, reason),
        }
    }

    /// How a case with so many rounds ended, unless it failed by itself, and why.
    fn ending(&self, rounds: u32, stopped: Stop) -> (Ending, String) {
        if self.tally == 0 {
            let reason = match (&self.last_void, stopped) {
                (Some(reason), _) => reason.clone(),
                (None, Stop::Interrupted) => {
                    "the run was interrupted before its first round".to_owned()
                }
                (None, _) => {
                    "the budget ran out before its first round; raise it with --budget".to_owned()
                }
            };
            let ending = if self.last_void.is_some() { Ending::Failed } else { Ending::Skipped };
            return (ending, reason);
        }
        let reason = match (&self.finished, stopped) {
            (Some(_), _) if self.work.once() => "measured one time".to_owned(),
            (Some(reason), _) => format!("{reason} after {rounds} rounds"),
            (None, _) if self.failed() => format!(
                "given up after {rounds} rounds: {}",
                self.last_void.as_deref().unwrap_or("void rounds")
            ),
            (None, Stop::Interrupted) => format!("interrupted after {rounds} rounds"),
            (None, Stop::Budget) => format!("the budget ran out after {rounds} rounds"),
            (None, Stop::Done) => format!("ended after {rounds} rounds"),
        };
        (Ending::Measured, reason)
    }
}

/// The cases of a series that have data, by round.
pub fn measured_cases(run: &Run, label: &str) -> BTreeMap<u32, BTreeSet<CaseId>> {
    let samples = run.samples.iter().map(|one| (&one.series, one.round, &one.case));
    let histograms = run.histograms.iter().map(|one| (&one.series, one.round, &one.case));
    let traces = run.traces.iter().map(|one| (&one.series, one.round, &one.case));
    let mut measured: BTreeMap<u32, BTreeSet<CaseId>> = BTreeMap::new();
    for (series, round, case) in samples.chain(histograms).chain(traces) {
        if series == label {
            measured.entry(round).or_default().insert(case.clone());
        }
    }
    measured
}

fn count_failures(failures: &mut BTreeMap<CaseId, (u32, String)>, failed: &[FailedCase]) {
    for FailedCase { case, reason } in failed {
        let rounds = failures.get(case).map_or(0, |(rounds, _)| *rounds);
        failures.insert(case.clone(), (rounds + 1, reason.clone()));
    }
}

#[cfg(test)]
mod tests;
