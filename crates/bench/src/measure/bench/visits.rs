//! Visits of the cases of a round.

use super::{Bench, WrongResult};
use crate::experiment::Fields;
use anyhow::Result;
use record::case::Case;
use stats::width::is_alone;

type Measure<'a> = &'a mut dyn FnMut(&mut Bench, &Case) -> Result<()>;

impl Bench {
    /// Measures every case by itself, in order: one that fails is measured once more, then given up
    /// with its reason while the round goes on; a [`WrongResult`] is given up at once. A case that
    /// is given up in every round that counts has failed.
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
            self.around.end_case();
        }
    }

    /// Does what [`Bench::each`] does, with each case as its type has it.
    pub fn each_of<'case, C: Fields>(
        &mut self,
        cases: impl IntoIterator<Item = &'case Case>,
        mut measure: impl FnMut(&mut Bench, &Case, C) -> Result<()>,
    ) {
        self.each(cases, |bench, case| measure(bench, case, C::decode(case)?));
    }

    /// Which of these readings are of a core that is alone.
    pub(super) fn alone(&self, width: &[f64]) -> Vec<usize> {
        let Some(level) = self.order.level_alone() else { return Vec::new() };
        let readings = width.iter().enumerate();
        let alone = readings.filter(|(_, reading)| is_alone(**reading, level));
        alone.map(|(at, _)| at).collect()
    }
}
