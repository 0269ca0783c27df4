//! An author's own estimates of key figures beside plumb's, both against what was measured.

use crate::document::{Block, Cell, Row, Section, Table};
use crate::values;
use analysis::figure::Figure;
use analysis::keys::{KeyFigure, keys};
use record::estimate::Estimate;
use record::quantity::{digits, render};
use record::run::Run;

const HEADINGS: [&str; 8] = [
    "figure",
    "#own estimate",
    "#plumb's estimate",
    "#measured",
    "#measured / own",
    "#measured / plumb's",
    "closer",
    "reason",
];

pub fn section(run: &Run, figures: &[Figure]) -> Option<Section> {
    if run.header.estimates.is_empty() {
        return None;
    }
    let keys = keys(run, figures);
    let judged: Vec<Judged> =
        run.header.estimates.iter().map(|own| Judged::new(own, &keys)).collect();
    let table = Table::new(
        "The author's estimates of key figures, stated before the run",
        &HEADINGS,
        judged.iter().map(row),
    );
    let blocks = vec![Block::Table(table).for_all()];
    Some(Section::new("estimates", "The author's own estimates", blocks))
}

struct Judged<'run> {
    estimate: &'run Estimate,
    figure: Option<&'run Figure>,
}

impl<'run> Judged<'run> {
    fn new(estimate: &'run Estimate, keys: &[KeyFigure<'run>]) -> Self {
        let found = keys.iter().find(|key| key.title == estimate.figure);
        Judged { estimate, figure: found.map(|key| key.figure) }
    }

    /// Measured over the author's estimate.
    fn own_ratio(&self) -> Option<f64> {
        let ratio = self.figure?.value? / self.estimate.value;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    fn plumb_ratio(&self) -> Option<f64> {
        self.figure?.ratio.filter(|ratio| *ratio > 0.0)
    }

    /// Whether the author's estimate is the closer one, where there are two that differ.
    fn is_own_closer(&self) -> Option<bool> {
        let (own, plumb) = (factor(self.own_ratio()?), factor(self.plumb_ratio()?));
        (own.total_cmp(&plumb).is_ne()).then_some(own < plumb)
    }
}

/// How far a ratio is from 1, as a factor.
fn factor(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

fn row(judged: &Judged) -> Row {
    let estimate = judged.estimate;
    let range = judged.figure.and_then(Figure::shown_range);
    let closer = judged.is_own_closer().map(|is_own| if is_own { "own" } else { "plumb's" });
    let reason = Some(estimate.reason.as_str()).filter(|reason| !reason.is_empty());
    Row::always_shown(vec![
        Cell::plain(&estimate.figure),
        Cell::plain(render(estimate.value, estimate.unit)),
        Cell::optional(range.map(|range| render(range.likely, estimate.unit))),
        Cell::optional(judged.figure.and_then(values::value)),
        Cell::optional(judged.own_ratio().map(digits)),
        Cell::optional(judged.plumb_ratio().map(digits)),
        Cell::optional(closer),
        Cell::optional(reason),
    ])
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::document::Block;
    use analysis::keys::keys;
    use analysis::{figures, sample};
    use record::estimate::Estimate;

    #[test]
    fn own_estimates_stand_beside_plumbs_and_what_was_measured() {
        let mut run = sample::run();
        let all = figures(&run);
        assert!(section(&run, &all).is_none());
        let key = keys(&run, &all).into_iter().find(|key| key.figure.ratio.is_some());
        let key = key.expect("the sample has a predicted key figure");
        let (figure, title, unit) = (key.figure, key.title.to_owned(), key.figure.unit());
        let measured = figure.value.expect("a value");
        let estimate = |figure: &str, value: f64| Estimate {
            figure: figure.to_owned(),
            value,
            unit,
            reason: "guessed".to_owned(),
        };
        run.header.estimates = vec![estimate(&title, measured), estimate("gone", 1.0)];
        let section = section(&run, &all).expect("there are estimates");
        let [(_, Block::Table(table))] = section.blocks.as_slice() else { panic!("{section:?}") };
        // The estimate is exact, the other figure was not measured.
        let cell = |row: usize, column: usize| table.rows[row].cells[column].text.as_str();
        assert_eq!((cell(0, 4), cell(0, 6), cell(0, 7)), ("1", "own", "guessed"));
        assert_eq!((cell(1, 3), cell(1, 4), cell(1, 6)), ("-", "-", "-"));
    }
}
