//! What a rule of `--fail-on` finds in comparisons of runs. But for `missing` only findings are
//! judged: a difference that may be chance never fails, whatever its size.

use crate::cmd::fail_on::{Met, Rule, Word};
use analysis::compare::{Against, Outcome};
use analysis::figure::Figure;

/// The words that `plumb compare` offers.
pub(super) const WORDS: [Word; 5] =
    [Word::Slower, Word::Faster, Word::Changed, Word::Missing, Word::Never];

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
