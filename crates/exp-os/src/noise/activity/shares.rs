//! The causes and their shares, in words.

use super::super::attribution::{Attributed, By};
use super::seen::Seen;
use bench::prelude::*;
use laws::noise::Cause;
use record::order::InOrder;
use stats::phase::Periodic;
use stats::quantile::median;

/// Causes that a note names; the rest is in the trace.
const NAMED: usize = 12;
/// Periods of two windows that are so near are the same.
const SAME: f64 = 0.05;

/// One cause with its name: how many gaps, their lengths together and their median.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) cause: &'static str,
    pub(super) count: usize,
    pub(super) total_ns: f64,
    pub(super) median_ns: f64,
}

/// The causes of a window's gaps, those that took most first.
pub(super) fn rows(seen: &Seen) -> Vec<Row> {
    let mut lengths: BTreeMap<(&'static str, String), Vec<f64>> = BTreeMap::new();
    for (attributed, length_ns) in seen.attributed.iter().zip(&seen.lengths_ns) {
        let key = (attributed.cause.text(), name(attributed));
        lengths.entry(key).or_default().push(*length_ns);
    }
    let row = |((cause, name), lengths): ((&'static str, String), Vec<f64>)| Row {
        name,
        cause,
        count: lengths.len(),
        total_ns: lengths.iter().sum(),
        median_ns: median(&lengths).unwrap_or(0.0),
    };
    let mut rows: Vec<Row> = lengths.into_iter().map(row).collect();
    rows.order_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
    rows
}

/// A cause and its name: `thread kworker/0:1`. What is only matched by number says so.
pub(super) fn name(attributed: &Attributed) -> String {
    let cause = attributed.cause.text();
    if attributed.cause == Cause::Unattributed {
        // The reason for a missing cause is given once, not with every gap.
        return cause.to_owned();
    }
    let name = match attributed.who.as_str() {
        "" => cause.to_owned(),
        who if who.starts_with(cause) || who.ends_with(cause) => who.to_owned(),
        who => format!("{cause} {who}"),
    };
    by_count(attributed, name)
}

/// The cause alone, and whether it is only matched by number.
pub(super) fn state(attributed: &Attributed) -> String {
    by_count(attributed, attributed.cause.text().to_owned())
}

fn by_count(attributed: &Attributed, name: String) -> String {
    match attributed.by {
        By::Count => format!("{name} (by count)"),
        _ => name,
    }
}

/// The causes in words, in the first round.
pub(super) fn causes(seen: &Seen, round: u32) -> Option<String> {
    let rows = rows(seen);
    let texts = rows
        .iter()
        .map(|row| format!("{} {}, {}", row.name, row.count, render(row.median_ns, Unit::Ns)));
    let texts = named(texts, "in the trace `causes`");
    let causes = format!("gaps by cause, with their median length, in round 1: {texts}");
    (round <= 1).then(|| if rows.is_empty() { "no gap in round 1".to_owned() } else { causes })
}

/// Why gaps are unattributed, and how many for each reason, the commonest first.
pub(super) fn reasons(seen: &Seen) -> Vec<(&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let nobody = seen.attributed.iter();
    for attributed in nobody.filter(|one| one.cause == Cause::Unattributed) {
        *counts.entry(&attributed.who).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.order_by_key(|(why, count)| (std::cmp::Reverse(*count), *why));
    counts
}

/// The same in words, in the first round.
pub(super) fn why_nobody(seen: &Seen, round: u32) -> Option<String> {
    let reasons = reasons(seen);
    (round <= 1 && !reasons.is_empty()).then(|| {
        let texts = reasons.iter().map(|(why, count)| format!("{why} ({count} gaps)"));
        format!("in round 1: {}", named(texts, "reasons"))
    })
}

/// The first of some texts, and how many more there are of what.
fn named(texts: impl ExactSizeIterator<Item = String>, of: &str) -> String {
    let more = texts.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more {of}"));
    texts.take(NAMED).chain(more).collect::<Vec<_>>().join("; ")
}

/// What recording costs: the median gap on the tick without and with it, and a sentence for the
/// first round.
pub(super) fn tracing(
    plain: &Seen,
    traced: Option<&Seen>,
    round: u32,
) -> (Vec<(&'static str, f64)>, Option<String>) {
    let Some(traced) = traced else {
        return (Vec::new(), None);
    };
    let mut quantities = vec![("lost_traced_ratio", traced.traced.lost())];
    let mut cost = "no tick shows the cost of that (round 1)".to_owned();
    if let Some((without_ns, with_ns)) = plain.tick_gap_ns().zip(traced.tick_gap_ns()) {
        quantities.extend([("tick_gap_ns", without_ns), ("tick_gap_traced_ns", with_ns)]);
        let [without, with] = [without_ns, with_ns].map(|ns| render(ns, Unit::Ns));
        cost = format!("the median gap on the tick is {with} with it, {without} without (round 1)");
    }
    let level = traced.evidence.level.text();
    let note = format!("from a window with recorded {level}, which may change the gaps: {cost}");
    (quantities, (round == 1).then_some(note))
}

/// Periodic sources: without figures, which differ between rounds and stand beside the sample.
pub(super) fn told_of_other(found: &Periodic, plain: &Seen, traced: Option<&Seen>) -> String {
    let is_same = |period_ns: f64| (period_ns / found.period_ns - 1.0).abs() <= SAME;
    let named = traced.and_then(|traced| {
        let other = traced.other.as_ref().filter(|other| is_same(other.period_ns))?;
        commonest(&other.members, traced)
    });
    let beside = if plain.tick.as_ref().is_some_and(|tick| is_same(tick.period_ns)) {
        " (at the tick's rate but off the tick: work after it, or a hypervisor's own \
                 tick)"
    } else {
        ""
    };
    let who = named.or_else(|| commonest(&found.members, plain));
    format!("regular gaps off the tick: {}{beside}", who.unwrap_or_else(|| "unknown".to_owned()))
}

pub(super) fn commonest(members: &[usize], seen: &Seen) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for gap in members {
        *counts.entry(name(seen.attributed.get(*gap)?)).or_default() += 1;
    }
    let (name, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some(name)
}
