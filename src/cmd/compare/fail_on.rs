//! `--fail-on`: which findings end `plumb compare` with exit code 1.
//!
//! `WORD[:PERCENT%][@SELECTOR]`, where WORD is `slower` (worse, whatever the metric), `faster`
//! (better), `changed` (either, and what has no better side), `missing` (the base run has it, the
//! new one has not, for whatever reason) or `never`; the percentage is of the base value; the
//! selector is one of `plumb run`. But for `missing` only findings are judged: a difference that
//! may be chance never fails, whatever its size.

use analysis::compare::{Against, Compared, Direction, Outcome};
use analysis::figure::Figure;
use catalogue::FAMILIES;
use record::key::CaseId;
use session::select::{Selection, nearest};

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct FailOn {
    text: String,
    word: Word,
    /// Least |ratio - 1|.
    least: f64,
    scope: Option<Selection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Slower,
    Faster,
    Changed,
    Missing,
    Never,
}

const WORDS: [(&str, Word); 5] = [
    ("slower", Word::Slower),
    ("faster", Word::Faster),
    ("changed", Word::Changed),
    ("missing", Word::Missing),
    ("never", Word::Never),
];

/// What came of a rule in one comparison or several, in figures of its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Met {
    /// Figures that meet it.
    pub(crate) met: usize,
    /// Figures that were tested.
    pub(crate) tested: usize,
    /// Figures that both runs have.
    pub(crate) common: usize,
    /// Figures of the base run that the new one has not, or in another unit.
    pub(crate) missing: usize,
    /// Tested figures in which a change of the rule's size would be no finding.
    pub(crate) blind: usize,
}

impl FailOn {
    /// The rule as typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What it finds in comparisons.
    pub(crate) fn of(&self, comparisons: &[Against]) -> Met {
        let mut all = Met::default();
        for against in comparisons {
            for one in against.figures.iter().filter(|one| self.means(one.base)) {
                all.common += 1;
                all.met += usize::from(self.is_met_by(one));
                if !matches!(one.outcome, Outcome::Untested(_)) {
                    all.tested += 1;
                    all.blind += usize::from(one.least_seen() > self.least);
                }
            }
            let gone = against.incomparable.iter();
            let gone = gone.filter(|one| one.why.is_missing_in_new() && self.means(one.figure));
            all.missing += gone.count();
        }
        if self.word == Word::Missing {
            all.met = all.missing;
        }
        all
    }

    /// Whether its figures are to be tested; `missing` and `never` ask for none.
    pub(crate) fn needs_tests(&self) -> bool {
        !matches!(self.word, Word::Missing | Word::Never)
    }

    /// Whether it names a size.
    pub(crate) fn has_size(&self) -> bool {
        self.least > 0.0
    }

    /// Whether a figure is in its scope.
    fn means(&self, figure: &Figure) -> bool {
        let is_meant = |scope: &Selection| is_meant(scope, &figure.experiment, &figure.case);
        self.scope.as_ref().is_none_or(is_meant)
    }

    /// Whether a figure is a finding of this kind.
    fn is_met_by(&self, one: &Compared) -> bool {
        let Some(direction) = one.finding() else {
            return false;
        };
        let is_word = match self.word {
            Word::Slower => direction == Direction::Worse,
            Word::Faster => direction == Direction::Better,
            Word::Changed => true,
            Word::Missing | Word::Never => false,
        };
        let is_enough = one.ratio().is_some_and(|ratio| (ratio - 1.0).abs() >= self.least);
        is_word && is_enough
    }
}

/// Whether a selection means a case; never one of an experiment that this plumb does not know.
pub(crate) fn is_meant(selection: &Selection, experiment: &str, case: &CaseId) -> bool {
    FAMILIES.iter().any(|family| {
        family
            .experiments
            .iter()
            .map(|one| one.card())
            .filter(|card| card.id == experiment)
            .any(|card| selection.wants(family, card) && selection.wants_case(family, card, case))
    })
}

/// Parses the rules; `never` stands alone.
///
/// # Errors
/// What is wrong, and what to type.
pub(crate) fn parse(texts: &[String]) -> Result<Vec<FailOn>, String> {
    let rules: Vec<FailOn> = texts.iter().map(|text| rule(text)).collect::<Result<_, _>>()?;
    match rules.iter().any(|rule| rule.word == Word::Never) && rules.len() > 1 {
        true => Err("--fail-on never allows no other rule".to_owned()),
        false => Ok(rules),
    }
}

fn rule(text: &str) -> Result<FailOn, String> {
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
            "--fail-on `{text}`: a rule starts with slower, faster, changed, missing or never{} type \
             for example slower:5%",
            near
        ));
    };
    if *meant == Word::Never && (size.is_some() || scope.is_some()) {
        return Err("--fail-on never takes neither a size nor a selector".to_owned());
    }
    if *meant == Word::Missing && size.is_some() {
        return Err("--fail-on missing takes no size".to_owned());
    }
    let least = match size {
        Some(size) => share(size).ok_or_else(|| {
            format!("--fail-on `{text}`: `{size}` is not a percentage; type for example {word}:5%")
        })?,
        None => 0.0,
    };
    let scope = scope
        .map(|scope| Selection::parse(&[scope.to_owned()], FAMILIES))
        .transpose()
        .map_err(|error| format!("--fail-on `{text}`: {error}"))?;
    Ok(FailOn { text: text.to_owned(), word: *meant, least, scope })
}

/// A percentage as a share.
pub(crate) fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (percent.is_finite() && percent >= 0.0).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::{Word, parse, rule};

    #[test]
    fn rules_are_a_word_a_size_and_a_selector() {
        let found = rule("slower:5%@memory.latency:pages=huge").unwrap();
        assert_eq!((found.word, found.least), (Word::Slower, 0.05));
        assert!(found.scope.is_some());
        assert_eq!(rule("changed:0.5%").unwrap().least, 0.005);
        assert_eq!(rule("faster").unwrap().least, 0.0);
        assert_eq!(rule("never").unwrap().word, Word::Never);
        assert_eq!(rule("missing@memory").unwrap().word, Word::Missing);
    }

    #[test]
    fn what_cannot_be_meant_says_what_to_type() {
        for (text, part) in [
            ("slow:5%", "did you mean `slower`"),
            ("slower:5", "`5` is not a percentage; type for example slower:5%"),
            ("slower:-5%", "is not a percentage"),
            ("slower:nan%", "is not a percentage"),
            ("slower@memry", "unknown experiment or family `memry`"),
            ("never:5%", "neither a size nor a selector"),
            ("missing:5%", "missing takes no size"),
        ] {
            let error = rule(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let both = ["never".to_owned(), "slower".to_owned()];
        assert!(parse(&both).unwrap_err().contains("no other rule"));
    }
}
