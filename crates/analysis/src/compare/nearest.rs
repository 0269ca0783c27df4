//! Figures of a published machine beside the nearest ones of a run, which are not the same
//! measurement: they stand side by side and are never judged.

use super::Measured;
use super::join::{stated, usable};
use crate::figure::Figure;
use record::key::{Key, Value};
use std::collections::HashMap;

/// The facts of a figure that name a nearest case: one where no case is the same, the other where
/// this machine lacks that case.
const NEAREST: [&str; 2] = ["nearest", "otherwise"];

/// A published figure and the nearest one of ours.
#[derive(Clone, Copy, Debug)]
pub struct Near<'a> {
    pub published: &'a Figure,
    pub figure: &'a Figure,
    fact: &'static str,
}

impl<'a> Near<'a> {
    /// How the report's method differs, as a clause without its subject.
    pub fn differs(&self) -> &'a str {
        self.text("differs")
    }

    /// Where that moves the printed figure: `up`, `down` or `either way`.
    pub fn moves(&self) -> &'a str {
        self.text("moves")
    }

    pub fn printed(&self) -> &'a str {
        printed(self.published).unwrap_or_default()
    }

    fn text(&self, name: &str) -> &'a str {
        text(self.published, &format!("{}_{name}", self.fact)).unwrap_or_default()
    }
}

/// Pairs of two runs; none unless one of them alone is a published machine.
pub(super) fn nearest<'a>(base: &'a Measured, new: &'a Measured) -> Vec<Near<'a>> {
    let (published, own) = match [base, new].map(|one| one.run.header.is_published()) {
        [true, false] => (base, new),
        [false, true] => (new, base),
        _ => return Vec::new(),
    };
    let usable_own = own.figures.iter().rev().filter(|figure| usable(figure).is_some());
    let stated = |key: Key| stated(key).to_string();
    let own: HashMap<String, &Figure> =
        usable_own.filter_map(|figure| Some((stated(figure.key()?), figure))).collect();
    let near = |published: &'a Figure| {
        if published.key().is_some_and(|key| own.contains_key(&stated(key))) {
            return None;
        }
        NEAREST.iter().find_map(|fact| {
            let figure = own.get(text(published, fact)?)?;
            Some(Near { published, figure, fact })
        })
    };
    published.figures.iter().filter_map(near).collect()
}

/// The table of the report that a published figure stands in; `None` for one of ours.
pub fn table(figure: &Figure) -> Option<&str> {
    figure.at.get("source").and_then(Value::text)
}

pub fn printed(figure: &Figure) -> Option<&str> {
    text(figure, "printed")
}

fn text<'a>(figure: &'a Figure, name: &str) -> Option<&'a str> {
    figure.at.get(name).and_then(Value::text)
}

#[cfg(test)]
mod tests {
    use super::super::{Measured, compare};
    use crate::figure::Figure;
    use crate::history::History;
    use crate::{figures, sample};
    use record::key::CaseId;
    use record::run::Run;
    use record::unit::Unit;

    /// The first time of the sample, as the only one of a run and with another case.
    fn only(run: &Run, case: CaseId) -> (Measured<'_>, String) {
        let is_time =
            |one: &Figure| one.metric.as_ref().is_some_and(|metric| metric.unit == Unit::Ns);
        let first = figures(run).into_iter().find(|one| one.value.is_some() && is_time(one));
        let figure = Figure { case, ..first.expect("a time was measured") };
        let label = figure.label();
        (Measured { run, figures: vec![figure] }, label)
    }

    fn printed() -> Run {
        let mut run = sample::run();
        run.header.options.preset = "published".to_owned();
        run
    }

    #[test]
    fn what_a_report_does_not_state_matches_any() {
        let (printed, own) = (printed(), sample::run());
        let to = |far: &str| CaseId::new().with("far", far);
        let (printed, _) = only(&printed, to("peer"));
        let (own, _) = only(&own, to("lab"));
        let mut runs = [printed, own];
        let source = runs[0].figures[0].value.expect("measured");
        runs[0].figures[0].at.insert("source".to_owned(), "R9 Table I".into());
        runs[1].figures[0].value = Some(2.0 * source);
        let comparison = compare(&runs, &History::default()).expect("two runs");
        let against = &comparison.against[0];
        assert_eq!((against.figures.len(), against.nearest.len()), (1, 0));
        assert_eq!(against.report(), Some("R9"));
        let [speed] = &against.speeds()[..] else { panic!("{:?}", against.speeds()) };
        assert_eq!((speed.factor, speed.figures), (0.5, 1));
        runs[1].figures[0].case = to("loopback");
        let comparison = compare(&runs, &History::default()).expect("two runs");
        assert!(comparison.against[0].figures.is_empty());
    }

    #[test]
    fn the_next_nearest_stands_in_where_the_same_case_is_missing() {
        let (printed, own) = (printed(), sample::run());
        let on = |node: u64| CaseId::new().with("node", node);
        let (printed, _) = only(&printed, on(2));
        let (own, label) = only(&own, on(0));
        let mut runs = [printed, own];
        for (name, text) in [("otherwise", &*label), ("otherwise_differs", "is of two nodes")] {
            runs[0].figures[0].at.insert(name.to_owned(), text.into());
        }
        let comparison = compare(&runs, &History::default()).expect("two runs");
        let [near] = &comparison.against[0].nearest[..] else { panic!("it has a partner") };
        assert_eq!(near.differs(), "is of two nodes");
        runs[1].figures[0].case = on(2);
        let comparison = compare(&runs, &History::default()).expect("two runs");
        let against = &comparison.against[0];
        assert_eq!((against.figures.len(), against.nearest.len()), (1, 0));
    }
}
