//! Visits of cases in a round: each once, and again where a neighbour left too few samples of the
//! core alone (METHOD §2a).

use super::{Bench, WrongResult};
use crate::experiment::Fields;
use anyhow::Result;
use record::case::Case;
use stats::alone::LEAST_OF_ROUND;
use stats::width::{IN_VAIN, VISITS, VISITS_TIME, is_alone};
use std::collections::BTreeMap;

/// What measures a case.
type Measure<'a> = &'a mut dyn FnMut(&mut Bench, &Case) -> Result<()>;

impl Bench {
    /// Measures every case by itself, in order: one that fails is measured once more, then given up
    /// with its reason while the round goes on; a [`WrongResult`] is given up at once. A case that
    /// is given up in every round that counts has failed. Those that are visited again come in the
    /// opposite order, so that what grew from case to case can shrink.
    ///
    /// Before each visit it says to the session what the experiment's hazards ask for
    /// ([`crate::experiment::Hazards`]).
    pub fn each<'case>(
        &mut self,
        cases: impl IntoIterator<Item = &'case Case>,
        mut measure: impl FnMut(&mut Bench, &Case) -> Result<()>,
    ) {
        self.visit(&cases.into_iter().collect::<Vec<_>>(), &mut measure);
    }

    /// As [`Bench::each`]. Compiled once, with one copy of what measures: visits of an experiment
    /// are many kilobytes.
    fn visit(&mut self, cases: &[&Case], measure: Measure<'_>) {
        let mut took_ns = Vec::with_capacity(cases.len());
        for case in cases {
            self.before_visit(case);
            self.around.begin_case();
            let mut outcome = measure(self, case);
            if outcome.as_ref().is_err_and(|error| !error.is::<WrongResult>()) {
                self.book.forget(&case.id);
                self.before_visit(case);
                outcome = measure(self, case);
            }
            if let Err(error) = outcome {
                self.book.fail(&case.id, host::refused::text(&error));
            }
            took_ns.push(self.around.end_case());
        }
        self.visit_again(cases, &took_ns, measure);
    }

    /// As [`Bench::each`], with each case as its type has it.
    pub fn each_of<'case, C: Fields>(
        &mut self,
        cases: impl IntoIterator<Item = &'case Case>,
        mut measure: impl FnMut(&mut Bench, &Case, C) -> Result<()>,
    ) {
        self.each(cases, |bench, case| measure(bench, case, C::decode(case)?));
    }

    /// Visits cases again that have too few samples of a core that was alone, in turn, each in a
    /// share of the case's time: a neighbour may be gone by then. Quartets wait for that; after two
    /// failed turns the neighbour is likely to stay, and the time is kept for a later round. What a
    /// visit cannot measure is not missed.
    fn visit_again(&mut self, cases: &[&Case], took_ns: &[f64], measure: Measure<'_>) {
        let level = self.order.level_alone();
        if self.order.rehearsal || level.is_none() {
            return;
        }
        let first_goal = self.goal;
        self.goal.case_ns *= VISITS_TIME / f64::from(VISITS);
        self.goal.alone = level;
        let mut left_ns: Vec<f64> = took_ns.iter().map(|took| VISITS_TIME * took).collect();
        let mut in_vain = 0;
        for visit in 1..=VISITS {
            let before = self.book.samples.len();
            for (case, left_ns) in cases.iter().zip(&mut left_ns).rev() {
                if *left_ns <= 0.0 || !self.lacks_alone(case) {
                    continue;
                }
                self.before_visit(case);
                self.around.begin_case();
                let mark = self.book.mark(visit);
                let outcome = measure(self, case);
                self.book.end_visit(mark, outcome.is_ok());
                *left_ns -= self.around.end_case();
            }
            let won = self.book.samples[before..]
                .iter()
                .any(|samples| !self.alone(&samples.width).is_empty());
            in_vain = if won { 0 } else { in_vain + 1 };
            if in_vain == IN_VAIN {
                break;
            }
        }
        self.goal = first_goal;
    }

    /// Whether a figure of the case was probed and has too few samples of a core that was alone.
    fn lacks_alone(&self, case: &Case) -> bool {
        let mut counts = BTreeMap::new();
        for samples in self.book.samples.iter().filter(|one| one.case == case.id) {
            if samples.width.iter().any(|reading| *reading > 0.0) {
                let count = counts.entry(samples.metric.as_str()).or_insert(0);
                *count += self.alone(&samples.width).len();
            }
        }
        self.order.level_alone().is_some() && counts.values().any(|count| *count < LEAST_OF_ROUND)
    }

    /// Which of these readings are of a core that is alone.
    pub(super) fn alone(&self, width: &[f64]) -> Vec<usize> {
        let Some(level) = self.order.level_alone() else { return Vec::new() };
        let readings = width.iter().enumerate();
        let alone = readings.filter(|(_, reading)| is_alone(**reading, level));
        alone.map(|(at, _)| at).collect()
    }
}
