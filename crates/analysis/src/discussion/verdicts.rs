//! How many predictions hold, which do not, by how much, and what may explain it.

use super::headline::{found, predicted_by, times};
use super::{counted, finished, listed};
use crate::causes;
use crate::figure::{Figure, Judged};
use crate::gather::ends;
use crate::misses::{self, Miss};
use crate::names::Names;
use crate::score::off;
use crate::verdict::Verdict;
use record::event::PredictionKind;
use record::run::Run;
use stats::quantile::median;
use std::collections::BTreeMap;

/// Candidate causes that are reported.
const CAUSES: usize = 3;

/// Both kinds of prediction, each by itself; nothing where at most one figure was judged and it
/// lies within: the first sentence says so. Of a published machine how far its estimates are off,
/// because a single number cannot hold.
pub(super) fn sentence(run: &Run, names: &Names, figures: &[&Figure]) -> Option<String> {
    if run.header.is_published() {
        return estimates(figures);
    }
    let parts: Vec<String> = [PredictionKind::Prior, PredictionKind::Derived]
        .into_iter()
        .filter_map(|kind| of_kind(run, names, figures, kind))
        .collect();
    (!parts.is_empty()).then(|| finished(&parts.join("; ")))
}

/// `the report's own 8 estimates: measured 0.96 to 1.09 times the estimate, typically off by a
/// factor of 1.05`; nothing for a single one, which is in the first sentence.
fn estimates(figures: &[&Figure]) -> Option<String> {
    let off = off(figures.iter().copied()).filter(|off| off.figures > 1)?;
    Some(finished(&format!(
        "the report's own {} estimates: measured {} to {} times the estimate, typically off by a factor of {}",
        off.figures,
        times(off.least),
        times(off.most),
        times(off.median_factor)
    )))
}

/// Where the predictions of a kind come from.
fn source(kind: PredictionKind) -> &'static str {
    match kind {
        PredictionKind::Prior => "made before the run",
        PredictionKind::Derived => "from earlier figures",
    }
}

/// The predictions that say something, and how many others say nothing: these are misses too.
fn of_kind(run: &Run, names: &Names, figures: &[&Figure], kind: PredictionKind) -> Option<String> {
    let told = that_say_something(run, names, figures, kind);
    let is_mute = |figure: &&&Figure| {
        let judged = figure.prediction(kind);
        judged.is_some_and(|judged| judged.verdict == Some(Verdict::Unpredicted))
    };
    let mute = figures.iter().filter(is_mute).count();
    let is_unjudged = |figure: &&&Figure| misses::is_unjudged(figure, kind);
    let told = told.map(|told| match figures.iter().filter(is_unjudged).count() {
        0 => told,
        unjudged => format!("{told}; {unjudged} without an interval not judged"),
    });
    let source = source(kind);
    match (told, mute) {
        (told, 0) => told,
        // The first sentence says so.
        (None, 1) if kind == PredictionKind::Prior && figures.len() == 1 => None,
        (None, _) => Some(format!("{} no prediction {source}", has(mute))),
        (Some(told), _) => Some(format!("{told}; {} none", has(mute))),
    }
}

fn has(count: usize) -> String {
    let has = if count == 1 { "has" } else { "have" };
    format!("{} {has}", counted(count, "figure", "figures"))
}

fn that_say_something(
    run: &Run,
    names: &Names,
    figures: &[&Figure],
    kind: PredictionKind,
) -> Option<String> {
    let judged: Vec<(&Figure, &Judged)> = figures
        .iter()
        .filter_map(|figure| Some((*figure, misses::judged(figure, kind)?)))
        // A figure beyond its bound is reported once.
        .filter(|(figure, judged)| {
            let is_told = kind == PredictionKind::Derived && figure.prior.is_some();
            !(is_told && judged.verdict == Some(Verdict::Impossible))
        })
        .collect();
    let mut missed: BTreeMap<Verdict, Vec<Miss>> = BTreeMap::new();
    for miss in judged.iter().filter_map(|(figure, _)| misses::of(figure, kind)) {
        missed.entry(miss.verdict).or_default().push(miss);
    }
    let (all, outside) = (judged.len(), missed.values().map(Vec::len).sum::<usize>());
    let source = source(kind);
    if missed.is_empty() {
        return match all {
            0 => None,
            1 if kind == PredictionKind::Prior => None,
            1 => Some(format!("the prediction {source} holds")),
            2 => Some(format!("both predictions {source} hold{}", how_well(&judged))),
            _ => Some(format!("all {all} predictions {source} hold{}", how_well(&judged))),
        };
    }
    let parts: Vec<String> =
        missed.into_iter().map(|(verdict, missed)| side(run, names, verdict, missed)).collect();
    let within = match (all - outside, kind) {
        (_, PredictionKind::Prior) if all == 1 => String::new(),
        (0, _) => format!("none of the {all} predictions {source} holds: "),
        (within, _) => format!("{within} of {all} predictions {source} hold: "),
    };
    Some(format!("{within}{}", parts.join("; ")))
}

/// Where in their intervals the figures lie, and how wide these are.
fn how_well(judged: &[(&Figure, &Judged)]) -> String {
    let ranges = judged
        .iter()
        .filter_map(|(figure, judged)| Some((figure.value?, judged.prediction.range?)));
    let of_likely = ranges.clone().filter(|(value, range)| *value > 0.0 && range.likely > 0.0);
    let factors: Vec<f64> = of_likely.map(|(value, range)| value / range.likely).collect();
    let widths: Vec<f64> = ranges
        .filter(|(_, range)| range.low > 0.0 && range.high > 0.0)
        .map(|(_, range)| range.high / range.low)
        .collect();
    let mut text = String::new();
    if let Some(middle) = median(&factors).filter(|_| factors.len() > 2) {
        let (least, most) = ends(factors.iter().copied());
        text = format!(
            ", typically {} times the likely value ({} to {})",
            times(middle),
            times(least),
            times(most)
        );
    }
    if let Some(width) = median(&widths) {
        let typically = if widths.len() > 1 { "typically " } else { "" };
        text = format!("{text}, in ranges that {typically}span a factor of {}", times(width));
    }
    text
}

/// `2 figures are slower than predicted, at most by a factor of 1.3: latency (64 MiB) with 156 ns
/// [150, 160] against 60 to 120 ns; candidate cause: …`. A miss whose interval overlaps the
/// prediction is reported as such, without a cause.
fn side(run: &Run, names: &Names, verdict: Verdict, mut missed: Vec<Miss>) -> String {
    misses::sort(&mut missed);
    let Some(worst) = missed.first().copied() else {
        return String::new();
    };
    let count = counted(missed.len(), "figure", "figures");
    let is = if missed.len() == 1 { "is" } else { "are" };
    let what = match verdict {
        Verdict::Above => "above what was predicted",
        Verdict::Below => "below what was predicted",
        Verdict::Impossible => "beyond a physical bound",
        other => other.text(),
    };
    let most = if missed.len() == 1 { "" } else { "at most " };
    let factor = match (verdict, worst.factor) {
        (Verdict::Impossible, _) | (_, None) => String::new(),
        (_, Some(factor)) => format!(", {most}by a factor of {}", times(factor)),
    };
    let against = predicted_by(worst.figure, &worst.range);
    let text = format!(
        "{count} {is} {what}{factor}: {} with {} against {against}",
        names.figure(worst.figure),
        found(worst.figure)
    );
    if verdict == Verdict::Impossible {
        return text;
    }
    let uncertain = missed.iter().filter(|miss| !miss.is_certain).count();
    let reach = "what was predicted";
    let text = match (uncertain, missed.len()) {
        (0, _) => text,
        (1, 1) => return format!("{text}, but its interval overlaps {reach}"),
        (2, 2) => return format!("{text}, but both intervals overlap {reach}"),
        (some, all) if some == all => {
            return format!("{text}, but the intervals of all {all} overlap {reach}");
        }
        (1, _) => format!("{text}; the interval of another one overlaps {reach}"),
        (some, _) => format!("{text}; the intervals of {some} others overlap {reach}"),
    };
    let causes: Vec<String> = causes::of(run, &missed).into_iter().take(CAUSES).collect();
    match causes.as_slice() {
        [] => format!("{text}; no recorded condition explains it"),
        [only] => format!("{text}; candidate cause: {only}"),
        several => format!("{text}; candidate causes: {}", listed(several)),
    }
}
