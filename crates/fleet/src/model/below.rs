//! What is worse than predicted: a whole stratum, which its own median cannot show, and nodes that
//! have too few peers.

use super::peers::LEAST_PEERS;
use super::{Below, signed};
use crate::read::Sweep;
use crate::sweep::Figure;
use record::key::Key;
use record::metric::Better;
use record::order::InOrder;
use stats::interval::median_order;
use stats::quantile::median;
use std::collections::{BTreeMap, HashMap};

/// The figures of strata that are worse than predicted, the largest factor first.
pub(super) fn below(sweep: &Sweep, place: &HashMap<u32, usize>) -> Vec<Below> {
    let mut groups: BTreeMap<(usize, &Key), BTreeMap<u32, &Figure>> = BTreeMap::new();
    for figure in sweep.figures.iter().filter(|figure| figure.again == 0) {
        if let Some(stratum) = place.get(&figure.rank).filter(|_| figure.predicted.is_some()) {
            groups.entry((*stratum, &figure.key)).or_default().insert(figure.rank, figure);
        }
    }
    let found = groups.into_iter().filter_map(|((stratum, _), figures)| {
        let figures: Vec<&Figure> = figures.into_values().collect();
        one(stratum, &figures)
    });
    let mut found: Vec<Below> = found.collect();
    found.order_by(|a, b| b.factor.total_cmp(&a.factor));
    found
}

/// How many times worse than the end of a predicted range an interval's better end is.
fn beyond(ci: (f64, f64), predicted: (f64, f64), better: Better) -> Option<f64> {
    let (best, end) =
        if better == Better::Higher { (ci.1, predicted.0) } else { (ci.0, predicted.1) };
    let log = signed(best, better)? - signed(end, better)?;
    (log > 0.0).then(|| log.exp())
}

fn one(stratum: usize, figures: &[&Figure]) -> Option<Below> {
    let first = figures.first()?;
    let is_out = |figure: &&&Figure| {
        let (ci, predicted) = (figure.estimate.ci, figure.predicted);
        ci.zip(predicted).and_then(|(ci, range)| beyond(ci, range, figure.better)).is_some()
    };
    let out: Vec<&Figure> = figures.iter().filter(is_out).copied().collect();
    let is_whole = figures.len() > LEAST_PEERS;
    let meant = if is_whole { figures } else { &out[..] };
    let values: Vec<f64> = meant.iter().map(|figure| figure.estimate.value).collect();
    let value = median(&values)?;
    let end = |of: fn(&(f64, f64)) -> f64| {
        median(
            &meant
                .iter()
                .filter_map(|figure| figure.predicted.as_ref().map(of))
                .collect::<Vec<f64>>(),
        )
    };
    let predicted = (end(|range| range.0)?, end(|range| range.1)?);
    if is_whole {
        let interval = median_order(&values)?;
        beyond((interval.low, interval.high), predicted, first.better)?;
    }
    Some(Below {
        stratum,
        key: first.key.clone(),
        unit: first.unit,
        better: first.better,
        ranks: out.iter().map(|figure| figure.rank).collect(),
        nodes: figures.len(),
        is_whole,
        value,
        predicted,
        factor: beyond((value, value), predicted, first.better)?,
    })
}
