//! `--fail-on`: the rules that say which findings of a comparison end with exit code 1.
//!
//! `WORD[:PERCENT%][@SELECTOR]`: the words that a command offers are in a table of its own; the
//! percentage is a least change of the base value; the selector is one of `plumb run`.

use analysis::compare::Direction;
use catalogue::FAMILIES;
use record::key::CaseId;
use session::select::{Selection, nearest, parted};

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    text: String,
    word: Word,
    least: f64,
    scope: Option<Selection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Slower,
    Faster,
    /// Either, and changes of metrics without a better side.
    Changed,
    /// Figures that the base has and the new run lacks, for any reason.
    Missing,
    Never,
}

impl Word {
    fn name(self) -> &'static str {
        match self {
            Word::Slower => "slower",
            Word::Faster => "faster",
            Word::Changed => "changed",
            Word::Missing => "missing",
            Word::Never => "never",
        }
    }
}

impl Rule {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn word(&self) -> Word {
        self.word
    }

    pub(crate) fn least(&self) -> f64 {
        self.least
    }

    /// Whether its figures are to be tested; `missing` and `never` ask for none.
    pub(crate) fn needs_tests(&self) -> bool {
        !matches!(self.word, Word::Missing | Word::Never)
    }

    /// Whether it names a size that a change of figures is to have.
    pub(crate) fn has_size(&self) -> bool {
        self.least > 0.0
    }

    pub(crate) fn means(&self, experiment: &str, case: &CaseId) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.means(FAMILIES, experiment, Some(case)))
    }

    /// Whether a finding is of this kind and size: its direction, and the ratio to the base.
    pub(crate) fn is_met_by(&self, finding: Option<Direction>, ratio: Option<f64>) -> bool {
        let Some((direction, ratio)) = finding.zip(ratio) else { return false };
        let is_word = match self.word {
            Word::Slower => direction == Direction::Worse,
            Word::Faster => direction == Direction::Better,
            Word::Changed => true,
            Word::Missing | Word::Never => false,
        };
        is_word && (ratio - 1.0).abs() >= self.least
    }
}

/// What came of a rule in one comparison or several, in figures of its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) met: usize,
    pub(crate) tested: usize,
    /// Figures that both runs have.
    pub(crate) common: usize,
    /// Figures of the base run that the new one has not, or in another unit.
    pub(crate) missing: usize,
    /// Tested figures in which a change of the rule's size would be no finding.
    pub(crate) blind: usize,
}

/// Parses rules with the words that a command offers; `never` stands alone.
/// Errors: what is wrong, and what to type.
pub(crate) fn parse(texts: &[String], words: &[Word]) -> Result<Vec<Rule>, String> {
    let rules: Vec<Rule> = texts.iter().map(|text| rule(text, words)).collect::<Result<_, _>>()?;
    match rules.iter().any(|rule| rule.word == Word::Never) && rules.len() > 1 {
        true => Err("--fail-on never allows no other rule".to_owned()),
        false => Ok(rules),
    }
}

fn rule(text: &str, words: &[Word]) -> Result<Rule, String> {
    let (condition, scope) = parted(text, '@');
    let (word, size) = parted(condition, ':');
    let Some(&meant) = words.iter().find(|one| one.name() == word) else {
        let names: Vec<&str> = words.iter().map(|word| word.name()).collect();
        let near = nearest(word, names.iter().copied());
        let (last, others) = names.split_last().unwrap_or((&"never", &[]));
        return Err(format!(
            "--fail-on `{text}`: a rule starts with {} or {last}{near} type for example slower:5%",
            others.join(", ")
        ));
    };
    if meant == Word::Never && (size.is_some() || scope.is_some()) {
        return Err("--fail-on never takes neither a size nor a selector".to_owned());
    }
    if meant == Word::Missing && size.is_some() {
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
    Ok(Rule { text: text.to_owned(), word: meant, least, scope })
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (percent.is_finite() && percent >= 0.0).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::{Word, parse, rule};

    const WORDS: [Word; 5] =
        [Word::Slower, Word::Faster, Word::Changed, Word::Missing, Word::Never];

    #[test]
    fn rules_are_a_word_a_size_and_a_selector() {
        let of = |text: &str| rule(text, &WORDS).unwrap();
        let found = of("slower:5%@memory.latency:pages=huge");
        assert_eq!((found.word, found.least, found.scope.is_some()), (Word::Slower, 0.05, true));
        assert_eq!(of("changed:0.5%").least, 0.005);
        assert_eq!(of("faster").least, 0.0);
        assert_eq!(of("never").word, Word::Never);
        assert_eq!(of("missing@memory").word, Word::Missing);
        assert!(of("slower:5%").has_size() && !of("slower").has_size());
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
            let error = rule(text, &WORDS).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        // A word of another command does not belong to this one.
        let error = rule("faster", &[Word::Slower, Word::Never]).unwrap_err();
        let named = WORDS.map(Word::name).into_iter().filter(|name| error.contains(name));
        // The third is what was typed.
        assert_eq!(named.collect::<Vec<_>>(), ["slower", "faster", "never"], "{error}");
        let both = ["never".to_owned(), "slower".to_owned()];
        assert!(parse(&both, &WORDS).unwrap_err().contains("no other rule"));
    }
}
