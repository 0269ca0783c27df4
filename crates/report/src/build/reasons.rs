//! What predictions rest on: each reason once, with the cases it is for.
//!
//! Laws tell a reason for every case, and the reasons of a family of cases differ in numbers only.
//! Such are told as one, with `a … b` where a number differs. `plumb report --format json` has every reason
//! in full.

use super::alike::{Alike, gathered};
use crate::document::Block;
use analysis::figure::{Figure, Judged};
use analysis::names::Names;
use record::event::PlannedExperiment;

/// The reasons of both kinds of prediction, folded; nothing where nothing was predicted.
pub(super) fn block(
    planned: &PlannedExperiment,
    names: &Names,
    figures: &[&Figure],
) -> Option<Block> {
    let before = reasons(figures, |figure| figure.prior.as_ref());
    let during = reasons(figures, |figure| figure.derived.as_ref());
    let count = before.len() + during.len();
    if count == 0 {
        return None;
    }
    let mut blocks = Vec::new();
    let lines = |reasons: &[Alike]| {
        let pairs = reasons.iter().map(|reason| {
            let text = format!("{}.", reason.text());
            (reason.whose(planned, names, figures), text)
        });
        Block::KeyValues(pairs.collect())
    };
    if !before.is_empty() {
        blocks.push(Block::Paragraph(
            "From the machine's description and state before the run:".to_owned(),
        ));
        blocks.push(lines(&before));
    }
    if !during.is_empty() {
        blocks.push(Block::Paragraph("From earlier figures of this run:".to_owned()));
        blocks.push(lines(&during));
    }
    let reasons = if count == 1 { "reason" } else { "reasons" };
    Some(Block::Folded {
        summary: format!("What the predictions rest on ({count} {reasons})"),
        blocks,
    })
}

fn reasons<'run>(
    figures: &[&'run Figure],
    of: impl Fn(&Figure) -> Option<&Judged>,
) -> Vec<Alike<'run>> {
    let all = figures.iter().filter_map(|figure| {
        let because = of(figure)?.prediction.because.clone();
        Some((*figure, because))
    });
    gathered(all)
}
