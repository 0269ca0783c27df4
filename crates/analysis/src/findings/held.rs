//! Figures that are those of a limit that somebody set.

use super::{Finding, Group, Severity, finding, listed};
use crate::held;
use record::run::Run;
use std::collections::BTreeMap;

/// One finding for each limit near which figures of the experiment lie.
pub(super) fn findings(run: &Run, group: &Group) -> Vec<Finding> {
    let mut near: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for figure in &group.figures {
        if let Some(limit) = held::by(run, figure) {
            near.entry(limit).or_default().push(group.name(figure));
        }
    }
    near.into_iter()
        .map(|(limit, names)| {
            let subject = match names.len() {
                1 => "one figure lies".to_owned(),
                count => format!("{count} figures lie"),
            };
            let text = format!("{subject} at {limit}: {}", listed(&names));
            finding(Severity::Note, group.about, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Group, Severity};
    use super::findings;
    use crate::held::tests::{figure, limited};
    use record::unit::Unit;

    #[test]
    fn figures_at_a_limit_are_told_once_for_each_limit() {
        let run = limited();
        let rate = |direction: &str, value: f64| {
            let case = [("protocol", "tcp"), ("direction", direction), ("far", "peer")];
            figure("net.bandwidth", &case, ("bandwidth", Unit::BPerS), value)
        };
        let all = [rate("up", 2.39e7), rate("up", 2.38e7), rate("up", 5e6)];
        let found = findings(&run, &Group::of(&run, all.iter().collect()));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].severity, Severity::Note);
        let start = "2 figures lie at traffic shaping: tbf 200 Mbit/s on eth0: ";
        assert!(found[0].text.starts_with(start), "{}", found[0].text);
    }
}
