//! The figures of a run's summary: those that the cards call key figures.

use super::figure::Figure;
use super::gather::distinct;
use record::event::{Plan, PlannedExperiment};
use record::key::{CaseId, FAR};
use record::metric::Better;
use record::run::Run;
use record::unit::Unit;

/// The groups of a summary in their order: title, and the families and experiments in it, in
/// theirs.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("CPU", &["clock.rate", "clock.loop", "cpu"]),
    ("MEM", &["memory"]),
    ("OS", &["clock.read", "os"]),
    ("DISK", &["fs"]),
    ("NET", &["net"]),
    ("NOISE", &["noise"]),
];

fn is_in(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Where the group of a figure stands among [`GROUPS`]; behind them for what is in none.
pub fn group_of(figure: &Figure) -> usize {
    let has =
        |(_, names): &(&str, &[&str])| names.iter().any(|name| is_in(&figure.experiment, name));
    GROUPS.iter().position(has).unwrap_or(GROUPS.len())
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyFigure<'run> {
    pub group: &'static str,
    pub title: &'run str,
    pub figure: &'run Figure,
}

/// The key figures of a run that have a value, those of a group together.
pub fn keys<'run>(run: &Run, figures: &'run [Figure]) -> Vec<KeyFigure<'run>> {
    let places = places(run, figures).into_iter();
    let key = |(group, _, at): (_, _, usize)| {
        let figure = &figures[at];
        Some(KeyFigure { group, title: figure.title.as_deref()?, figure })
    };
    places.filter_map(key).collect()
}

pub(super) fn name(run: &Run, figures: &mut [Figure]) {
    for (_, title, at) in places(run, figures) {
        figures[at].title = Some(title);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub experiment: String,
    /// Its title in the summary: `load latency, L1`.
    pub title: String,
    pub unit: Unit,
}

/// The key figures of a plan, in the order of the summary.
pub fn planned(plan: &Plan) -> Vec<Planned> {
    let mut found: Vec<Planned> = Vec::new();
    for name in GROUPS.iter().flat_map(|(_, names)| names.iter()) {
        for own in plan.experiments.iter().filter(|planned| is_in(&planned.id, name)) {
            let cases: Vec<&CaseId> =
                own.series.iter().flat_map(|series| &series.cases).chain(&own.derived).collect();
            for end in distinct(cases.iter().map(|case| case.get(FAR))) {
                let is_here = |key: &&record::key_figure::KeyFigure| {
                    cases.iter().any(|case| case.get(FAR) == end && key.is_of(case))
                };
                found.extend(own.keys.iter().filter(is_here).filter_map(|key| {
                    let metric = own.metrics.iter().find(|metric| metric.name == key.metric)?;
                    let title =
                        end.map_or_else(|| key.title(), |end| format!("{end}: {}", key.title()));
                    Some(Planned { experiment: own.id.clone(), title, unit: metric.unit })
                }));
            }
        }
    }
    distinct(found)
}

/// Group, title and place of each key figure: `load, L1`, with the far end before it where there is
/// one: `loopback: ping`.
fn places(run: &Run, figures: &[Figure]) -> Vec<(&'static str, String, usize)> {
    let mut all = Vec::new();
    let planned = || run.plan.iter().flat_map(|plan| &plan.experiments);
    for (group, names) in GROUPS {
        for name in *names {
            for planned in planned().filter(|planned| is_in(&planned.id, name)) {
                all.extend(of_experiment(planned, figures).map(|(title, at)| (*group, title, at)));
            }
        }
    }
    all
}

/// The key figures of an experiment: once for each of its far ends.
fn of_experiment<'run>(
    planned: &'run PlannedExperiment,
    figures: &'run [Figure],
) -> impl Iterator<Item = (String, usize)> + 'run {
    let own = (0..figures.len()).filter(|at| {
        let figure = &figures[*at];
        figure.experiment == planned.id && figure.value.is_some()
    });
    let own: Vec<usize> = own.collect();
    let ends = distinct(own.iter().map(|at| figures[*at].case.get(FAR)));
    ends.into_iter().flat_map(move |end| {
        let own = own.clone();
        planned.keys.iter().filter_map(move |key| {
            let is_it = |figure: &Figure| {
                figure.metric_name() == key.metric
                    && figure.case.get(FAR) == end
                    && key.is_of(&figure.case)
            };
            let at = best(figures, own.iter().copied().filter(|at| is_it(&figures[*at])))?;
            let title = match end {
                Some(end) => format!("{end}: {}", key.title()),
                None => key.title(),
            };
            Some((title, at))
        })
    })
}

/// The best of some figures of one metric; the first where none is better.
fn best(figures: &[Figure], places: impl Iterator<Item = usize>) -> Option<usize> {
    let value = |at: usize| figures[at].value.unwrap_or(f64::NAN);
    places.reduce(|best, other| {
        let (value, least) = (value(other), value(best));
        let is_better = match figures[other].metric.as_ref().map(|metric| metric.better) {
            Some(Better::Lower) => value < least,
            Some(Better::Higher) => value > least,
            Some(Better::None) | None => false,
        };
        if is_better { other } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::{keys, planned};
    use crate::{figures, sample};
    use record::key::CaseId;

    #[test]
    fn key_figures_stand_in_the_order_of_the_reports() {
        let run = sample::run();
        let all = figures(&run);
        let found: Vec<(&str, &str)> =
            keys(&run, &all).iter().map(|key| (key.group, key.title)).collect();
        let expected = [
            ("CPU", "counter"),
            ("MEM", "load latency, L1"),
            ("MEM", "load latency, DRAM"),
            ("OS", "system call, null"),
            ("OS", "system call, read"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_plan_has_the_key_figures_that_its_run_shows() {
        let run = sample::run();
        let all = figures(&run);
        let planned = planned(run.plan.as_ref().expect("was planned"));
        for key in keys(&run, &all) {
            assert!(planned.iter().any(|one| one.title == key.title), "{}: {planned:?}", key.title);
        }
    }

    #[test]
    fn of_several_cases_the_best_is_shown_and_each_far_end_has_its_own() {
        let mut run = sample::run();
        let mut all = figures(&run);
        let experiments = &mut run.plan.as_mut().expect("was planned").experiments;
        let syscall = experiments.iter_mut().find(|planned| planned.id == "os.syscall");
        let planned = &mut syscall.expect("is planned").keys;
        planned.truncate(1);
        planned[0].case = "".into();
        all.retain(|figure| figure.experiment == "os.syscall" && figure.value.is_some());
        all.truncate(1);
        for (far, value) in [("here", 5.0), ("here", 3.0), ("here", 4.0), ("there", 9.0)] {
            let mut one = all[0].clone();
            one.case = CaseId::new().with("far", far);
            one.value = Some(value);
            all.push(one);
        }
        all.remove(0);
        super::name(&run, &mut all);
        let found: Vec<(&str, Option<f64>)> =
            keys(&run, &all).iter().map(|key| (key.title, key.figure.value)).collect();
        let expected =
            [("here: system call, null", Some(3.0)), ("there: system call, null", Some(9.0))];
        assert_eq!(found, expected);
    }
}
