//! What a rule of `--fail-on` finds in a comparison of sweeps: `slower`, `faster` and `changed` are
//! changes on all nodes, `apart` nodes that went another way, `missing` nodes and figures of the base
//! sweep that the new one has not.

use crate::cmd::fail_on::{Met, Rule, Word};
use fleet::compare::{Changed, Comparison};
use record::key::Key;

/// The words that `plumb fleet compare` offers.
pub(super) const WORDS: [Word; 6] =
    [Word::Slower, Word::Faster, Word::Changed, Word::Apart, Word::Missing, Word::Never];

/// What is counted where a rule is met.
pub(super) fn noun(rule: &Rule) -> &'static str {
    match rule.word() {
        Word::Apart => "node figure",
        Word::Missing => "missing node or figure",
        _ => "figure",
    }
}

/// What a rule finds.
pub(super) fn met(rule: &Rule, comparison: &Comparison) -> Met {
    let means = |key: &Key| rule.means(&key.experiment, &key.case);
    let is_far =
        |node: &&Changed| node.of_others.is_some_and(|of| (of - 1.0).abs() >= rule.least());
    let mut found = Met::default();
    for one in comparison.tested().filter(|one| means(&one.key)) {
        found.tested += 1;
        found.blind += usize::from(one.least_seen.is_none_or(|least| least > rule.least()));
        found.met += match rule.word() {
            Word::Apart => one.apart().into_iter().filter(is_far).count(),
            _ => usize::from(rule.is_met_by(one.finding, one.ratio)),
        };
    }
    if rule.word() == Word::Missing {
        let figures = comparison.missing.iter().filter(|key| means(key)).count();
        let nodes = if rule.has_scope() { 0 } else { comparison.only.0.len() };
        found.met = figures + nodes;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Met, WORDS, met};
    use crate::cmd::fail_on::parse;
    use fleet::compare::{Comparison, compare};
    use fleet::drawn::{Drawn, Fault, Noise};
    use fleet::read::from_lines;

    fn found(text: &str, comparison: &Comparison) -> Met {
        met(&parse(&[text.to_owned()], &WORDS).unwrap()[0], comparison)
    }

    #[test]
    fn rules_are_met_by_findings_of_their_scope() {
        let drawn = |faults: Vec<Fault>| {
            let mut drawn = Drawn::new(&Noise::plain(), 24, Fault::None, 7);
            drawn.faults = faults;
            from_lines(drawn.sweep())
        };
        // The system calls of all nodes are slower, and the memory of one.
        let all = (0..24).map(|node| Fault::Figure(node, 3, 0.1));
        let base = drawn(vec![Fault::None]);
        let mut new = drawn(all.chain([Fault::Figure(9, 0, 0.3)]).collect());
        new.nodes.pop();
        let comparison = compare(&base, &new);
        let met = |text: &str| found(text, &comparison).met;
        assert_eq!([met("slower"), met("slower:15%"), met("slower@memory")], [1, 0, 0]);
        assert_eq!([met("faster"), met("changed@os.syscall"), met("never")], [0, 1, 0]);
        assert_eq!([met("apart"), met("apart@os"), met("apart:50%")], [1, 0, 0]);
        assert_eq!([met("missing"), met("missing@memory")], [1, 0]);
        let blind = found("slower:0.001%", &comparison);
        assert_eq!(blind.blind, blind.tested);
        assert_eq!(found("slower@net.ping", &comparison).tested, 0);
    }
}
