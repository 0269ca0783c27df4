//! What predictions rest on: each reason once, with the cases it is for.
//!
//! Laws tell a reason for every case, and the reasons of a family of cases differ in numbers only.
//! Such are told as one, with `a … b` where a number differs; a phrase that comes back again and again is
//! told once and referred to by a letter. `plumb report --format json` has every reason in full.

use super::alike::{Alike, gathered};
use super::phrases;
use crate::analysis::figure::{Figure, Judged};
use crate::analysis::names::Names;
use crate::report::document::Block;
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
    let mut texts: Vec<String> = before.iter().chain(&during).map(Alike::text).collect();
    let shared = phrases::factored(&mut texts);
    let mut blocks = Vec::new();
    let lines = |reasons: &[Alike], texts: &[String]| {
        let pairs = reasons.iter().zip(texts);
        let pairs = pairs.map(|(reason, text)| {
            let text = format!("{text}.");
            (reason.whose(planned, names, figures), text)
        });
        Block::KeyValues(pairs.collect())
    };
    if !before.is_empty() {
        blocks.push(Block::Paragraph(
            "From the hardware description alone:".to_owned(),
        ));
        blocks.push(lines(&before, &texts[..before.len()]));
    }
    if !during.is_empty() {
        blocks.push(Block::Paragraph(
            "From earlier figures of this run:".to_owned(),
        ));
        blocks.push(lines(&during, &texts[before.len()..]));
    }
    if !shared.is_empty() {
        blocks.push(Block::Paragraph("Where a letter stands above:".to_owned()));
        blocks.push(Block::KeyValues(shared));
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
