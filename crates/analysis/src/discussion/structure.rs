//! What the cases give together: levels of a ladder, shares of a whole, derived figures.

use super::headline::{found, least_and_most, value};
use super::{bracketed, finished, listed};
use crate::facts::stated_levels;
use crate::figure::Figure;
use crate::gather::distinct;
use crate::names::{Names, is_derived, words};
use record::event::PlannedExperiment;
use record::order::InOrder;
use record::quantity::render;
use record::run::Run;
use record::shown::shown;
use record::unit::Unit;

/// Derived or further metrics that are reported.
const METRICS: usize = 3;

/// Letters from which a case is not named here: the table does.
const LONG_NAME: usize = 32;

/// Metrics of sizes at which a ladder has steps.
const LEVEL_SIZE: &str = "level_size";

/// A share, and what begins the names of its parts.
const WHOLE: &str = "lost";
const PART: &str = "lost_";

/// Levels, else shares, else derived figures, else what was measured beside the first metric.
pub(super) fn sentence<'run>(
    run: &Run,
    names: &Names,
    measured: &[&'run Figure],
    planned: &PlannedExperiment,
) -> Option<String> {
    let derived: Vec<&Figure> =
        measured.iter().filter(|figure| is_derived(figure)).copied().collect();
    // The first sentence is about the first metric.
    let headline = super::headline::metric(planned, measured);
    let beside = |figures: &[&'run Figure]| -> Vec<&'run Figure> {
        let others = figures.iter().filter(|figure| Some(figure.metric_name()) != headline);
        others.copied().collect()
    };
    // What others published are readings of their own: nothing follows from anything.
    let following = match run.header.is_published() {
        true => Vec::new(),
        false => beside(&derived),
    };
    let text = levels(run, &derived)
        .or_else(|| parts(measured))
        .or_else(|| several(planned, names, &following, "from these follow "))
        .or_else(|| several(planned, names, &beside(measured), "beside it "))?;
    Some(finished(&text))
}

/// `the ladder has steps at 48 KiB (L1) and 2 MiB (L2), where the machine states 48 KiB (L1) …`.
fn levels(run: &Run, derived: &[&Figure]) -> Option<String> {
    let sizes = derived.iter().filter(|figure| figure.metric_name() == LEVEL_SIZE);
    let at: Vec<String> = sizes
        .map(|figure| {
            let level = figure.case.text("level").unwrap_or_default();
            let value = figure
                .value
                .map_or_else(String::new, |value| shown(value, figure.ci, Unit::B).value);
            format!("{value}{}", bracketed(level))
        })
        .collect();
    if at.is_empty() {
        return None;
    }
    let stated: Vec<String> = stated_levels(run)
        .iter()
        .map(|(level, bytes)| format!("{}{}", render(*bytes, Unit::B), bracketed(level)))
        .collect();
    let steps = if at.len() == 1 { "a step" } else { "steps" };
    let stated = match stated.is_empty() {
        true => "the machine states no sizes".to_owned(),
        false => format!("the machine states {}", listed(&stated)),
    };
    Some(format!("the ladder has {steps} at {}; {stated}", listed(&at)))
}

/// A share of a single case with the largest of its parts.
fn parts(measured: &[&Figure]) -> Option<String> {
    let mut wholes = measured.iter().filter(|figure| figure.metric_name() == WHOLE);
    let whole = wholes.next()?;
    let of_case = measured.iter().filter(|figure| figure.case == whole.case);
    let mut parts: Vec<(&str, f64, &Figure)> = of_case
        .filter_map(|figure| {
            Some((figure.metric_name().strip_prefix(PART)?, figure.value?, *figure))
        })
        .filter(|(_, share, _)| *share > 0.0)
        .collect();
    if wholes.next().is_some() || parts.is_empty() {
        return None;
    }
    parts.order_by(|a, b| b.1.total_cmp(&a.1));
    let largest: Vec<String> = parts
        .iter()
        .take(METRICS)
        .map(|(name, share, figure)| {
            let shown = shown(*share, figure.ci, Unit::Ratio).value;
            format!("{} {shown}", words(name))
        })
        .collect();
    Some(format!("{} of the time was lost; by cause {}", found(whole), listed(&largest)))
}

/// Some metrics, each with its value or its least and greatest.
fn several(
    planned: &PlannedExperiment,
    names: &Names,
    figures: &[&Figure],
    begin: &str,
) -> Option<String> {
    let mut metrics = distinct(figures.iter().map(|figure| figure.metric_name()));
    let position = |name: &str| planned.metrics.iter().position(|metric| metric.name == name);
    metrics.order_by_key(|name| position(name));
    let told: Vec<String> = metrics
        .iter()
        .take(METRICS)
        .filter_map(|name| {
            let own = figures.iter().filter(|figure| figure.metric_name() == *name);
            spread(names, name, &own.copied().collect::<Vec<&Figure>>())
        })
        .collect();
    (!told.is_empty()).then(|| format!("{begin}{}", told.join("; ")))
}

/// `slope -0.008 ns (i64, registers) to 0.21 ns (f64, spilled)`; one figure alone with its
/// interval.
fn spread(names: &Names, name: &str, figures: &[&Figure]) -> Option<String> {
    let (least, most) = least_and_most(figures)?;
    let named = |text: String, figure: &Figure| {
        let case = names.case(figure);
        match case.chars().count() > LONG_NAME {
            true => text,
            false => format!("{text}{}", bracketed(&case)),
        }
    };
    let end = |figure: &Figure| named(shown(value(figure), figure.ci, figure.unit()).value, figure);
    let words = words(name);
    Some(match (figures.len(), value(least) == value(most)) {
        (1, _) => format!("{words} {}", named(found(least), least)),
        (count, true) => format!("{words} {} in all {count} cases", found(least)),
        _ => format!("{words} {} to {}", end(least), end(most)),
    })
}
