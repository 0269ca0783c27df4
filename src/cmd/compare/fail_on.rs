//! What a rule of `--fail-on` finds in comparisons of runs. But for `missing` only findings are
//! judged: a difference that may be chance never fails, whatever its size.

use crate::cmd::fail_on::{Rule, Word};
use analysis::compare::{Against, Outcome};
use analysis::figure::Figure;

/// The words that `plumb compare` offers.
pub(super) const WORDS: [Word; 5] =
    [Word::Slower, Word::Faster, Word::Changed, Word::Missing, Word::Never];

/// What came of a rule in one comparison or several, in figures of its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Met {
    /// Figures that meet it.
    pub(super) met: usize,
    /// Figures that were tested.
    pub(super) tested: usize,
    /// Figures that both runs have.
    pub(super) common: usize,
    /// Figures of the base run that the new one has not, or in another unit.
    pub(super) missing: usize,
    /// Tested figures in which a change of the rule's size would be no finding.
    pub(super) blind: usize,
}

/// What a rule finds in comparisons.
pub(super) fn met(rule: &Rule, comparisons: &[Against]) -> Met {
    let means = |figure: &Figure| rule.means(&figure.experiment, &figure.case);
    let mut all = Met::default();
    for against in comparisons {
        for one in against.figures.iter().filter(|one| means(one.base)) {
            all.common += 1;
            all.met += usize::from(rule.is_met_by(one.finding(), one.ratio()));
            if !matches!(one.outcome, Outcome::Untested(_)) {
                all.tested += 1;
                all.blind += usize::from(one.least_seen() > rule.least());
            }
        }
        let gone = against.incomparable.iter();
        all.missing += gone.filter(|one| one.why.is_missing_in_new() && means(one.figure)).count();
    }
    if rule.word() == Word::Missing {
        all.met = all.missing;
    }
    all
}
