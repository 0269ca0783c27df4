//! Figures that are those of a limit that somebody set.

use super::{Finding, Named, Severity, about, counted};
use crate::figure::Figure;
use crate::held;
use record::run::Run;
use std::collections::BTreeMap;

/// One finding for each limit near which figures lie.
pub(super) fn findings(run: &Run, figures: &[Figure], named: &Named) -> Vec<Finding> {
    let mut near: BTreeMap<String, Vec<&Figure>> = BTreeMap::new();
    for figure in figures {
        if let Some(limit) = held::by(run, figure) {
            near.entry(limit).or_default().push(figure);
        }
    }
    let each = near.into_iter().map(|(limit, own)| {
        let lie = counted(own.len(), "lies", "lie");
        let text = format!("{lie} at {limit}: {}", named.listed(&own));
        let finding = Finding::new(Severity::Warning, "limit", text).about(about(&own));
        finding.so("raise the limit to measure what is below it")
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Named, Severity};
    use super::findings;
    use crate::held::tests::{figure, limited};
    use record::unit::Unit;

    #[test]
    fn figures_at_a_limit_are_told_once_for_each_limit() {
        let run = limited();
        let rate = |mode: &str, value: f64| {
            let case = [("op", "read"), ("mode", mode), ("block", "4096")];
            figure("fs.io", &case, ("iops", Unit::OpPerS), value)
        };
        let all = [rate("cold", 290.0), rate("direct", 300.0), rate("direct", 100.0)];
        let found = findings(&run, &all, &Named::from_figures(&run, &all));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].cause, found[0].about.as_str()), ("limit", "fs.io"));
        assert_eq!(found[0].severity, Severity::Warning);
        let start =
            "2 figures lie at the control group's limit of 300 requests/s on 254:0 (/cg/a): ";
        assert!(found[0].text.starts_with(start), "{}", found[0].text);
    }
}
