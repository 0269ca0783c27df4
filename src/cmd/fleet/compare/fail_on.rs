//! `--fail-on`: which findings end `plumb fleet compare` with exit code 1.
//!
//! `WORD[:PERCENT%][@SELECTOR]`, where WORD is `slower` (worse on all nodes), `faster` (better on all),
//! `changed` (either, and what has no better side), `apart` (a node went another way), `missing` (the
//! base sweep has a node or a figure that the new one has not) or `never`.

use analysis::compare::Direction;
use catalogue::FAMILIES;
use fleet::compare::{Changed, Compared, Comparison};
use record::key::Key;
use session::select::{Selection, nearest};

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    text: String,
    word: Word,
    /// Least |factor - 1|.
    least: f64,
    scope: Option<Selection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Slower,
    Faster,
    Changed,
    Apart,
    Missing,
    Never,
}

const WORDS: [(&str, Word); 6] = [
    ("slower", Word::Slower),
    ("faster", Word::Faster),
    ("changed", Word::Changed),
    ("apart", Word::Apart),
    ("missing", Word::Missing),
    ("never", Word::Never),
];

/// What came of a rule, in figures of its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// What meets it.
    pub(super) met: usize,
    /// Figures that were tested.
    pub(super) tested: usize,
    /// Tested figures in which a change of the rule's size would be no finding.
    pub(super) blind: usize,
}

impl Rule {
    /// The rule as typed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What is counted where it is met.
    pub(super) fn noun(&self) -> &'static str {
        match self.word {
            Word::Apart => "node figure",
            Word::Missing => "missing node or figure",
            _ => "figure",
        }
    }

    /// Whether its figures are to be tested; `missing` and `never` ask for none.
    pub(super) fn needs_tests(&self) -> bool {
        !matches!(self.word, Word::Missing | Word::Never)
    }

    /// Whether it names a size that a common change is to have.
    pub(super) fn has_size(&self) -> bool {
        self.least > 0.0 && self.word != Word::Apart
    }

    /// What it finds.
    pub(super) fn of(&self, comparison: &Comparison) -> Met {
        let mut found = Met::default();
        for one in comparison.tested().filter(|one| self.means(&one.key)) {
            found.tested += 1;
            found.blind += usize::from(one.least_seen.is_none_or(|least| least > self.least));
            found.met += match self.word {
                Word::Apart => one.apart().iter().filter(|node| self.is_far(node)).count(),
                _ => usize::from(self.is_met_by(one)),
            };
        }
        if self.word == Word::Missing {
            let figures = comparison.missing.keys().filter(|key| self.means(key)).count();
            let nodes = if self.scope.is_none() { comparison.only.0.len() } else { 0 };
            found.met = figures + nodes;
        }
        found
    }

    /// Whether a figure is in its scope.
    fn means(&self, key: &Key) -> bool {
        let is_meant = |scope: &Selection| {
            crate::cmd::compare::fail_on::is_meant(scope, &key.experiment, &key.case)
        };
        self.scope.as_ref().is_none_or(is_meant)
    }

    fn is_met_by(&self, one: &Compared) -> bool {
        let Some((direction, factor)) = one.finding.zip(one.factor()) else { return false };
        let is_word = match self.word {
            Word::Slower => direction == Direction::Worse,
            Word::Faster => direction == Direction::Better,
            Word::Changed => true,
            Word::Apart | Word::Missing | Word::Never => false,
        };
        is_word && (factor - 1.0).abs() >= self.least
    }

    fn is_far(&self, node: &Changed) -> bool {
        node.apart.is_some_and(|apart| (apart.log.exp() - 1.0).abs() >= self.least)
    }
}

/// Parses the rules; `never` stands alone.
///
/// # Errors
/// What is wrong, and what to type.
pub(super) fn parse(texts: &[String]) -> Result<Vec<Rule>, String> {
    let rules: Vec<Rule> = texts.iter().map(|text| rule(text)).collect::<Result<_, _>>()?;
    match rules.iter().any(|rule| rule.word == Word::Never) && rules.len() > 1 {
        true => Err("--fail-on never allows no other rule".to_owned()),
        false => Ok(rules),
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let (condition, scope) = match text.split_once('@') {
        Some((condition, scope)) => (condition, Some(scope)),
        None => (text, None),
    };
    let (word, size) = match condition.split_once(':') {
        Some((word, size)) => (word, Some(size)),
        None => (condition, None),
    };
    let Some((_, meant)) = WORDS.iter().find(|(name, _)| *name == word) else {
        let near = nearest(word, WORDS.iter().map(|(name, _)| *name));
        return Err(format!(
            "--fail-on `{text}`: a rule starts with slower, faster, changed, apart, missing or \
             never{near} type for example slower:5%"
        ));
    };
    if *meant == Word::Never && (size.is_some() || scope.is_some()) {
        return Err("--fail-on never takes neither a size nor a selector".to_owned());
    }
    if *meant == Word::Missing && size.is_some() {
        return Err("--fail-on missing takes no size".to_owned());
    }
    let least = match size {
        Some(size) => crate::cmd::compare::fail_on::share(size).ok_or_else(|| {
            format!("--fail-on `{text}`: `{size}` is not a percentage; type for example {word}:5%")
        })?,
        None => 0.0,
    };
    let scope = scope
        .map(|scope| Selection::parse(&[scope.to_owned()], FAMILIES))
        .transpose()
        .map_err(|error| format!("--fail-on `{text}`: {error}"))?;
    Ok(Rule { text: text.to_owned(), word: *meant, least, scope })
}

#[cfg(test)]
mod tests {
    use super::{Word, parse, rule};
    use fleet::compare::compare;
    use fleet::fixture::Fleet;
    use fleet::read::Sweep;

    #[test]
    fn rules_are_a_word_a_size_and_a_selector() {
        let found = rule("apart:5%@memory").unwrap();
        assert_eq!((found.word, found.least, found.scope.is_some()), (Word::Apart, 0.05, true));
        for (text, part) in [
            ("slow:5%", "did you mean `slower`"),
            ("apart:5", "`5` is not a percentage; type for example apart:5%"),
            ("slower@memry", "unknown experiment or family `memry`"),
            ("missing:5%", "missing takes no size"),
            ("never@os", "neither a size nor a selector"),
        ] {
            let error = rule(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let both = ["never".to_owned(), "apart".to_owned()];
        assert!(parse(&both).unwrap_err().contains("no other rule"));
    }

    #[test]
    fn rules_are_met_by_findings_of_their_scope() {
        let base = Fleet::healthy(24);
        let new = Fleet {
            noise: 2,
            changed: vec![("os.syscall", 0.9)],
            slow: vec![(9, "memory.bandwidth", 0.8)],
            ..base.clone()
        };
        let [base, mut new] = [base, new].map(|of| Sweep::from_events(of.events()).unwrap());
        new.nodes.remove(&23);
        let comparison = compare(&base, &new);
        let met = |text: &str| rule(text).unwrap().of(&comparison).met;
        assert_eq!([met("slower"), met("slower:15%"), met("slower@memory")], [4, 0, 0]);
        assert_eq!([met("faster"), met("changed@os.syscall"), met("never")], [0, 4, 0]);
        assert_eq!([met("apart"), met("apart@os"), met("apart:30%")], [2, 0, 0]);
        assert_eq!([met("missing"), met("missing@memory")], [1, 0]);
        // Two strata have no figure that could show 0.1 %.
        let blind = rule("slower:0.1%").unwrap().of(&comparison);
        assert_eq!(blind.blind, blind.tested);
        assert_eq!(rule("slower@net.ping").unwrap().of(&comparison).tested, 0);
    }
}
