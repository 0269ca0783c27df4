//! The figures of a run's summary: those that the cards call key figures, line by line.

use super::figure::Figure;
use super::gather::distinct;
use record::event::{Plan, PlannedExperiment};
use record::key::{CaseId, FAR};
use record::key_figure::KeyFigure;
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

/// Whether an experiment is the one of this name, or of this family.
fn is_in(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Where the group of a figure stands among [`GROUPS`]; behind them for what is in none.
pub fn group_of(figure: &Figure) -> usize {
    let has =
        |(_, names): &(&str, &[&str])| names.iter().any(|name| is_in(&figure.experiment, name));
    GROUPS.iter().position(has).unwrap_or(GROUPS.len())
}

/// A line of the summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'run> {
    /// Title of its group.
    pub group: &'static str,
    /// Title: `load latency,`; with the far end before it, where there is one: `loopback: ping`.
    pub title: String,
    /// Its figures, each with what parts it from the others (empty where it is alone); one at
    /// least.
    pub figures: Vec<(&'run str, &'run Figure)>,
}

impl Line<'_> {
    /// The title of one of its figures: `load latency, L1`.
    pub fn title_of(&self, name: &str) -> String {
        format!("{} {name}", self.title).trim_end().to_owned()
    }

    /// Title and names: `load latency, L1 / DRAM`.
    pub fn heading(&self) -> String {
        let names: Vec<&str> = self.figures.iter().map(|(name, _)| *name).collect();
        self.title_of(&names.join(" / "))
    }
}

/// A key figure that a plan has.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its experiment.
    pub experiment: String,
    /// Its title in the summary: `load latency, L1`.
    pub title: String,
    /// Unit of its metric.
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
                let is_here = |key: &&KeyFigure| {
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

/// The lines of a run, those of a group together; without figures that have no value.
pub fn lines<'run>(run: &'run Run, figures: &'run [Figure]) -> Vec<Line<'run>> {
    let mut all = Vec::new();
    for (group, names) in GROUPS {
        for name in *names {
            let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
            for planned in planned.filter(|planned| is_in(&planned.id, name)) {
                of_experiment(group, planned, figures, &mut all);
            }
        }
    }
    all
}

/// Adds the lines of an experiment: once for each of its far ends.
fn of_experiment<'run>(
    group: &'static str,
    planned: &'run PlannedExperiment,
    figures: &'run [Figure],
    to: &mut Vec<Line<'run>>,
) {
    let own = |figure: &&Figure| figure.experiment == planned.id && figure.value.is_some();
    let own: Vec<&Figure> = figures.iter().filter(own).collect();
    for end in distinct(own.iter().map(|figure| figure.case.get(FAR))) {
        for keys in planned.keys.chunk_by(|a, b| a.line == b.line) {
            let shown = keys.iter().filter_map(|key| {
                let is_it = |figure: &&Figure| {
                    figure.metric_name() == key.metric
                        && figure.case.get(FAR) == end
                        && key.is_of(&figure.case)
                };
                Some((key.name.as_ref(), best(own.iter().copied().filter(is_it))?))
            });
            let figures: Vec<_> = shown.collect();
            let Some(first) = keys.first().filter(|_| !figures.is_empty()) else {
                continue;
            };
            let title = match end {
                Some(end) => format!("{end}: {}", first.line),
                None => first.line.to_string(),
            };
            to.push(Line { group, title, figures });
        }
    }
}

/// The best of some figures of one metric; the first where none is better.
fn best<'run>(figures: impl Iterator<Item = &'run Figure>) -> Option<&'run Figure> {
    figures.reduce(|best, other| {
        let (value, least) = (other.value.unwrap_or(f64::NAN), best.value.unwrap_or(f64::NAN));
        let is_better = match other.metric.as_ref().map(|metric| metric.better) {
            Some(Better::Lower) => value < least,
            Some(Better::Higher) => value > least,
            Some(Better::None) | None => false,
        };
        if is_better { other } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::{lines, planned};
    use crate::{figures, sample};
    use record::key::CaseId;

    #[test]
    fn key_figures_stand_in_the_order_of_the_reports_those_of_a_line_together() {
        let run = sample::run();
        let all = figures(&run);
        let lines = lines(&run, &all);
        let headings: Vec<(&str, String)> =
            lines.iter().map(|line| (line.group, line.heading())).collect();
        let expected = [
            ("CPU", "counter"),
            ("MEM", "load latency, L1 / DRAM"),
            ("OS", "system call, null / read"),
        ];
        assert_eq!(headings, expected.map(|(group, text)| (group, text.to_owned())));
    }

    #[test]
    fn a_plan_has_the_key_figures_that_its_run_shows() {
        let run = sample::run();
        let all = figures(&run);
        let lines = lines(&run, &all);
        let of_line = |line: &super::Line| {
            line.figures.iter().map(|(name, _)| line.title_of(name)).collect::<Vec<String>>()
        };
        let shown: Vec<String> = lines.iter().flat_map(of_line).collect();
        let planned = planned(run.plan.as_ref().expect("was planned"));
        for title in &shown {
            assert!(planned.iter().any(|one| one.title == *title), "{title}: {planned:?}");
        }
    }

    #[test]
    fn of_several_cases_the_best_is_shown_and_each_far_end_has_its_lines() {
        let mut run = sample::run();
        let mut all = figures(&run);
        let experiments = &mut run.plan.as_mut().expect("was planned").experiments;
        let syscall = experiments.iter_mut().find(|planned| planned.id == "os.syscall");
        let keys = &mut syscall.expect("is planned").keys;
        keys.truncate(1);
        keys[0].case = "".into();
        all.retain(|figure| figure.experiment == "os.syscall" && figure.value.is_some());
        all.truncate(1);
        for (far, value) in [("here", 5.0), ("here", 3.0), ("here", 4.0), ("there", 9.0)] {
            let mut one = all[0].clone();
            one.case = CaseId::new().with("far", far);
            one.value = Some(value);
            all.push(one);
        }
        all.remove(0);
        let lines = lines(&run, &all);
        let found: Vec<(&str, Option<f64>)> =
            lines.iter().map(|line| (line.title.as_str(), line.figures[0].1.value)).collect();
        let expected = [("here: system call,", Some(3.0)), ("there: system call,", Some(9.0))];
        assert_eq!(found, expected);
    }
}
