//! What a run says: pure functions of a [`Run`]; no clock, no paths, no way to fail.
//!
//! [`figures`] is the base: a [`Figure`] per planned case and metric. Everything else (score,
//! findings, health) reads figures and the run; nothing here measures or formats for a medium.
//!
//! METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod among;
pub mod bound;
pub mod causes;
mod checks;
pub mod compare;
pub mod crosscheck;
mod derived;
pub mod distribution;
pub mod facts;
pub mod figure;
pub mod findings;
pub mod gather;
pub mod health;
mod held;
pub mod history;
mod index;
pub mod keys;
mod measured;
pub mod misses;
pub mod moved;
pub mod names;
pub mod neighbour;
mod notes;
pub mod paired;
pub mod quality;
#[cfg(any(test, feature = "fixtures"))]
pub mod sample;
pub mod score;
#[cfg(test)]
mod tests;
pub mod trend;
pub mod verdict;

use figure::Figure;
use index::Index;
use record::event::{Ending, Outcome, PlannedExperiment};
use record::run::Run;
use std::collections::HashSet;

/// Every figure of a run in plan order: per planned case and metric, then derived ones, then what
/// was skipped or failed without any value. Empty for a run that was killed before its plan.
pub fn figures(run: &Run) -> Vec<Figure> {
    let Some(plan) = &run.plan else {
        return Vec::new();
    };
    let index = Index::from_run(run);
    let mut figures = Vec::new();
    for experiment in &plan.experiments {
        figures.extend(of_experiment(run, &index, experiment));
    }
    checks::apply(&mut figures);
    figures
}

fn of_experiment(run: &Run, index: &Index, experiment: &PlannedExperiment) -> Vec<Figure> {
    if let Some(absence) = &experiment.skipped {
        let mut figure = Figure::absent(&experiment.id, Ending::Skipped, absence.reason.clone());
        figure.needed.clone_from(&absence.needed);
        return vec![figure];
    }
    let mut figures = Vec::new();
    let mut planned = HashSet::new();
    for series in &experiment.series {
        for case in &series.cases {
            planned.insert(case);
            figures.extend(measured::of_case(run, index, experiment, series, case));
        }
    }
    figures.extend(derived::of_experiment(run, experiment));
    planned.extend(&experiment.derived);
    let unplanned = |outcome: &&Outcome| {
        outcome.experiment == experiment.id
            && outcome.outcome != Ending::Measured
            && outcome.case.as_ref().map_or(figures.is_empty(), |case| !planned.contains(case))
    };
    let absent: Vec<Figure> = run
        .outcomes
        .iter()
        .filter(unplanned)
        .map(|outcome| {
            let reason = outcome.reason.clone().unwrap_or_default();
            let mut figure = Figure::absent(&experiment.id, outcome.outcome, reason);
            figure.case = outcome.case.clone().unwrap_or_default();
            figure
        })
        .collect();
    figures.extend(absent);
    figures
}
