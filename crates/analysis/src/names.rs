//! What figures are called among those of their experiment: by what differs between them.

use super::figure::Figure;
use super::gather::distinct;
use record::event::PlannedExperiment;
use record::key::{CaseId, Value};
use record::quantity::render;

/// Values of a parameter that are spelled out for many cases.
const SPELLED: usize = 4;

pub struct Names<'run> {
    planned: &'run PlannedExperiment,
    /// Parameters that differ between measured cases, and between derived ones.
    measured: Vec<&'run str>,
    derived: Vec<&'run str>,
}

impl<'run> Names<'run> {
    pub fn from_plan(planned: &'run PlannedExperiment, figures: &[&'run Figure]) -> Self {
        let (derived, measured): (Vec<&Figure>, Vec<&Figure>) =
            figures.iter().partition(|figure| is_derived(figure));
        Names { planned, measured: varying(&measured), derived: varying(&derived) }
    }

    /// What distinguishes the figure's case: `random, 64 MiB`; empty where nothing does.
    pub fn case(&self, figure: &Figure) -> String {
        self.values(&figure.case, self.varying(figure))
    }

    /// Metric and what distinguishes the case: `latency (random, 64 MiB)`.
    pub fn figure(&self, figure: &Figure) -> String {
        let case = self.case(figure);
        match (&figure.metric, case.is_empty()) {
            (Some(metric), true) => words(&metric.name),
            (Some(metric), false) => format!("{} ({case})", words(&metric.name)),
            (None, true) => figure.experiment.clone(),
            (None, false) => case,
        }
    }

    /// A parameter's value as a reader knows it: `64 MiB`, `random`, `arguments 12`.
    pub fn value(&self, name: &str, value: &Value) -> String {
        match (value, self.planned.units.get(name)) {
            (Value::Int(number), Some(unit)) => {
                let shown = render(*number as f64, *unit);
                let has_unit = shown.ends_with(|letter: char| !letter.is_ascii_digit());
                match has_unit {
                    true => shown,
                    false => format!("{} {shown}", words(name)),
                }
            }
            (Value::Int(number), None) => format!("{} {number}", words(name)),
            (Value::Text(text), _) => text.clone(),
        }
    }

    /// Many cases in a few words: `12 cases: random/forward, 4 KiB to 1 MiB`.
    pub fn stretch(&self, figures: &[&Figure], count: usize) -> String {
        let varying = figures.first().map_or(&self.measured, |figure| self.varying(figure));
        let parts: Vec<String> = varying
            .iter()
            .map(|name| self.span(name, figures))
            .filter(|part| !part.is_empty())
            .collect();
        format!("{count} cases: {}", parts.join(", "))
    }

    /// The values of one parameter over some figures: `4 KiB to 1 MiB`, `random/forward`,
    /// `pipe/eventfd/futex/mqueue and 3 more`.
    fn span(&self, name: &str, figures: &[&Figure]) -> String {
        let values = distinct(figures.iter().filter_map(|figure| figure.case.get(name)));
        let numbers: Vec<u64> = values.iter().filter_map(|value| value.int()).collect();
        let ends = numbers.iter().min().zip(numbers.iter().max());
        match ends.filter(|(least, most)| least < most && numbers.len() == values.len()) {
            Some((least, most)) => format!(
                "{} to {}",
                self.value(name, &Value::Int(*least)),
                self.value(name, &Value::Int(*most))
                    .trim_start_matches(&format!("{} ", words(name)))
            ),
            None => {
                let shown = values.iter().take(SPELLED);
                let shown: Vec<String> = shown.map(|value| self.value(name, value)).collect();
                match values.len().saturating_sub(SPELLED) {
                    0 => shown.join("/"),
                    more => format!("{} and {more} more", shown.join("/")),
                }
            }
        }
    }

    fn varying(&self, figure: &Figure) -> &Vec<&'run str> {
        match is_derived(figure) {
            true => &self.derived,
            false => &self.measured,
        }
    }

    fn values(&self, case: &CaseId, varying: &[&str]) -> String {
        let values: Vec<String> = case
            .0
            .iter()
            .filter(|(name, _)| varying.contains(&name.as_str()))
            .map(|(name, value)| self.value(name, value))
            .collect();
        values.join(", ")
    }
}

pub fn is_derived(figure: &Figure) -> bool {
    figure.metric.as_ref().is_some_and(|metric| metric.derived)
}

pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A text with what goes before and after it; empty for an empty text.
pub fn around(before: &str, text: &str, after: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!("{before}{text}{after}"),
    }
}

/// Parameters that not all of the cases have with one value.
fn varying<'run>(figures: &[&'run Figure]) -> Vec<&'run str> {
    let names = figures.iter().flat_map(|figure| &figure.case.0);
    let mut names = distinct(names.map(|(name, _)| name.as_str()));
    let first = figures.first();
    names.retain(|name| {
        let of_first = first.and_then(|figure| figure.case.get(name));
        figures.iter().any(|figure| figure.case.get(name) != of_first)
    });
    names
}

#[cfg(test)]
mod tests {
    use super::Names;
    use crate::figure::Figure;
    use crate::{figures, sample};
    use record::key::CaseId;

    #[test]
    fn only_what_differs_is_named() {
        let run = sample::run();
        let all = figures(&run);
        let plan = run.plan.as_ref().expect("the sample has a plan");
        let planned = plan.experiments.iter().find(|one| one.id == "memory.latency");
        let planned = planned.expect("the sample has a ladder");
        let own: Vec<&Figure> = all.iter().filter(|one| one.experiment == planned.id).collect();
        let names = Names::from_plan(planned, &own);
        assert_eq!(names.figure(own[6]), "latency (64 KiB)");
        let level = own.iter().find(|one| one.case.text("level") == Some("L2"));
        assert_eq!(names.figure(level.expect("has levels")), "level latency (L2)");
        let operations = ["getppid", "read", "time-vdso"];
        let calls: Vec<Figure> = operations
            .iter()
            .chain(&["futex", "a", "b"])
            .map(|call| {
                let mut figure = own[6].clone();
                figure.case = CaseId::new().with("call", *call);
                figure
            })
            .collect();
        let calls: Vec<&Figure> = calls.iter().collect();
        let names_of_calls = Names::from_plan(planned, &calls);
        let stretch = names_of_calls.stretch(&calls, 6);
        assert!(
            stretch.starts_with("6 cases: getppid/") && stretch.ends_with("2 more"),
            "{stretch}"
        );
        assert_eq!(names_of_calls.span("call", &calls[..2]), "getppid/read");
        // Alone it needs no name.
        assert_eq!(Names::from_plan(planned, &own[6..7]).figure(own[6]), "latency");
    }
}
