//! What predictions rest on: each reason once, with the cases it is for.
//!
//! Laws give a reason for every case, and the reasons of a family of cases differ in numbers only.
//! These are reported as one, with `a … b` for the first and the last of a number that differs. `plumb report --format json`
//! has every reason in full.

use super::alike::{Alike, gathered};
use crate::document::Block;
use crate::values::counted;
use analysis::figure::{Figure, Judged};
use analysis::names::Names;
use record::event::PlannedExperiment;

/// Behind a reason with a number that was not looked up in any source …
const UNSOURCED: &str = " [unsourced]";
/// … and what that says.
const LEGEND: &str = "[unsourced]: at least one number in this reason is a usual value, given \
                      from memory. No published source was looked up for it.";

/// The reasons of both kinds of prediction, folded; nothing where nothing was predicted.
pub(super) fn block(
    planned: &PlannedExperiment,
    names: &Names,
    figures: &[&Figure],
) -> Option<Block> {
    let kinds = [
        (
            "From the machine's description and state before the run:",
            reasons(figures, |figure| figure.prior.as_ref()),
        ),
        ("From earlier figures of this run:", reasons(figures, |figure| figure.derived.as_ref())),
    ];
    let count = kinds.iter().map(|(_, reasons)| reasons.len()).sum();
    let blocks = kinds.iter().filter(|(_, reasons)| !reasons.is_empty());
    let blocks = blocks.flat_map(|(from, reasons)| {
        let pairs = reasons
            .iter()
            .map(|reason| (reason.whose(planned, names, figures), format!("{}.", reason.text())));
        [Block::text(*from), Block::KeyValues(pairs.collect())]
    });
    let summary = format!("Basis of the predictions ({})", counted(count, "reason"));
    let mut blocks: Vec<Block> = blocks.collect();
    let predictions = figures.iter().flat_map(|figure| [&figure.prior, &figure.derived]);
    if predictions.flatten().any(|judged| judged.prediction.unsourced) {
        blocks.push(Block::text(LEGEND));
    }
    (count > 0).then_some(Block::Folded { summary, blocks })
}

fn reasons<'run>(
    figures: &[&'run Figure],
    of: impl Fn(&Figure) -> Option<&Judged>,
) -> Vec<Alike<'run>> {
    let all = figures.iter().filter_map(|figure| {
        let prediction = &of(figure)?.prediction;
        let mark = if prediction.unsourced { UNSOURCED } else { "" };
        Some((*figure, format!("{}{mark}", prediction.because).into()))
    });
    gathered(all)
}
