//! The reason of every figure whose law is a sum of rows is the arithmetic that gives it, and
//! arithmetic adds up wherever it is printed.

use super::frozen::{figures, with_peer};
use super::planned;
use bench::experiment::{AnyExperiment, Known, Preset};
use record::case::Case;
use record::event::Prediction;
use record::key::Key;
use record::metric::Metric;
use record::quantity::in_unit;
use record::unit::Unit;
use session::fixtures::recorded_sites;

/// What rounding leaves open: three digits of each number, of small ones two.
fn open(value: f64) -> f64 {
    if value.abs() < 1.0 { 0.05 } else { 0.006 }
}

/// A printed value with its unit at the end of a text, in base units.
fn value(text: &str, unit: Unit) -> Option<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Ok(number) = words.last()?.parse() {
        return Some(number);
    }
    if let [.., number, scale] = &words[..]
        && let (Ok(number), Some(one)) =
            (number.parse::<f64>(), in_unit(&format!("1 {scale}"), unit))
    {
        return Some(number * one);
    }
    in_unit(words.last()?, unit)
}

/// What follows the range of a term, which begins a piece of text: `110–570] + another 12 ns`.
fn after_range(piece: &str) -> Option<&str> {
    let (ends, after) = piece.split_once(']')?;
    let (low, high) = ends.split_once('–')?;
    [low, high].iter().all(|end| end.parse::<f64>().is_ok()).then_some(after)
}

/// The sum of the printed terms, and that of their sizes.
fn sum(terms: &str, unit: Unit) -> Option<(f64, f64)> {
    let (mut sum, mut size, mut sign) = (0.0, 0.0, 1.0);
    let pieces: Vec<&str> = terms.split(" [").collect();
    for pair in pieces.windows(2) {
        let Some(after) = after_range(pair[1]) else { continue };
        let value = value(pair[0], unit)?;
        (sum, size) = (sum + sign * value, size + value);
        sign = if after.starts_with(" - ") { -1.0 } else { 1.0 };
    }
    (size > 0.0).then_some((sum, size))
}

/// Adds up what a reason says, and gives the value that it comes to.
fn redone(because: &str, unit: Unit) -> Option<f64> {
    let mut clauses = because.split("; ");
    let first = clauses.next()?;
    let is_rate = because.contains(" in that time: ");
    let of_terms = if is_rate { Unit::Ns } else { unit };
    let (terms, printed) = match first.rsplit_once(" = ") {
        Some((terms, printed)) => (terms, value(printed, of_terms)),
        None => (first, None),
    };
    let (sum, size) = sum(terms, of_terms)?;
    let mut found = printed.unwrap_or(sum);
    let open = open(found);
    (((found - sum).abs()) <= 2.0 * open * size).then_some(())?;
    for clause in clauses {
        if let Some((done, rate)) = clause.split_once(" in that time: ") {
            let done = match done.strip_suffix(" op") {
                Some(count) => count.parse().ok()?,
                None => value(done, Unit::B)?,
            };
            let rate = value(rate, unit)?;
            (((1e9 * done / found) / rate - 1.0).abs() <= 3.0 * open).then_some(())?;
            found = rate;
        } else if let Some(by) = clause.strip_prefix("× ") {
            let (by, rest) = by.split_once(" = ")?;
            let after = value(rest.split_once(", ")?.0, unit)?;
            ((by.parse::<f64>().ok()? * found / after - 1.0).abs() <= 2.0 * open).then_some(())?;
            found = after;
        }
    }
    Some(found)
}

/// A figure of a plan.
type Planned<'a> = (&'a dyn AnyExperiment, &'a Case, &'a Metric);

/// Whether a figure's law is a sum of rows.
fn is_sum(experiment: &str, case: &Case) -> bool {
    let fault = case.id.text("fault").unwrap_or("stress");
    experiment.starts_with("os.")
        || experiment == "memory.fault" && !["stress", "page", "random", "window"].contains(&fault)
}

/// What is wrong with a reason.
fn wrong(host: &str, figure: Planned, prediction: &Prediction) -> Option<String> {
    let (experiment, case, metric) = figure;
    let id = experiment.card().id;
    let range = prediction.range.filter(|range| range.likely != 0.0)?;
    let because = &prediction.because;
    if !is_sum(id, case) && !because.contains("; range ") {
        return None;
    }
    let found = redone(because, metric.unit);
    let is_right =
        found.is_some_and(|found| (found / range.likely - 1.0).abs() <= open(range.likely));
    (!is_right).then(|| {
        format!("{host} {id} {} {}: {found:?}, {range:?}: {because}", case.id, metric.name)
    })
}

#[test]
fn reasons_add_up_to_the_figure() {
    let mut all_wrong = Vec::new();
    for (host, site) in recorded_sites(Preset::Standard) {
        let site = with_peer(site);
        let mut known = Known::default();
        let all = figures(&planned(&site, Preset::Standard));
        for (experiment, case, metric) in &all {
            let Some(prior) = experiment.predict(&site, None, case, metric) else { continue };
            if let Some(range) = prior.range {
                let key = Key::new(experiment.card().id, &case.id, &metric.name);
                known.insert(key, 1.1 * range.likely);
            }
            all_wrong.extend(wrong(&host, (*experiment, case, metric), &prior));
        }
        for (experiment, case, metric) in &all {
            let derived = experiment.predict(&site, Some(&known), case, metric);
            let found = derived.and_then(|one| wrong(&host, (*experiment, case, metric), &one));
            all_wrong.extend(found);
        }
    }
    assert!(all_wrong.is_empty(), "{}:\n{}", all_wrong.len(), all_wrong.join("\n"));
}
