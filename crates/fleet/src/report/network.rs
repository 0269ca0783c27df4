//! The network: each figure of the pairs, what pairs have under load, and the matrix of all pairs.

use super::View;
use super::nodes::DRAWN;
use crate::file::Purpose;
use crate::names::counted;
use crate::read::{About, Value};
use record::metric::Better;
use record::order::InOrder;
use record::shown::shown;
use record::unit::Unit;
use report::document::{Block, Cell, Grid, Row, Section, Shades, Table};
use stats::quantile::{median, quantile};
use std::collections::{BTreeMap, BTreeSet};

/// Figures of pairs that have a matrix of their own.
const MATRICES: usize = 2;

/// The values of a figure: slot, near and far end, value.
type Measured<'fleet> = Vec<(u32, &'fleet str, &'fleet str, f64)>;

pub(super) fn section(view: &View, whole: bool) -> Option<Section> {
    let mut all: BTreeMap<(usize, Purpose), Measured> = BTreeMap::new();
    for node in &view.fleet.nodes {
        for pair in &node.pairs {
            for Value { figure, value, .. } in &pair.values {
                let one = (pair.slot, node.header.host.as_str(), pair.to.as_str(), *value);
                all.entry((*figure, pair.purpose)).or_default().push(one);
            }
        }
    }
    if all.is_empty() {
        return None;
    }
    let mut figures: Vec<(&(usize, Purpose), &Measured)> = all.iter().collect();
    figures.order_by_key(|((figure, purpose), _)| {
        (view.titles.place(&view.fleet.figures[*figure].key), *figure, *purpose)
    });
    let rows =
        figures.iter().map(|((figure, purpose), values)| row(view, *figure, *purpose, values));
    let headings = ["figure", "pairs", "#number", "#median", "#worst", "#best", "#sum of a slot"];
    let caption = "Pairs of a slot begin together. The sum of a slot is that of its pairs' rates, the median over the slots";
    let mut blocks = vec![Block::Table(Table::new(caption, &headings, rows)).for_all()];
    if whole {
        let matched = figures.iter().filter(|((_, purpose), _)| *purpose == Purpose::Matching);
        let grids =
            matched.take(MATRICES).map(|((figure, _), values)| matrix(view, *figure, values));
        blocks.extend(grids.map(|grid| Block::Grid(grid).on_page()));
    }
    Some(Section::new("pairs", "The network", blocks))
}

fn row(view: &View, figure: usize, purpose: Purpose, measured: &Measured) -> Row {
    let about = &view.fleet.figures[figure];
    let values: Vec<f64> = measured.iter().map(|one| one.3).collect();
    let cell = |value: Option<f64>| {
        Cell::optional(value.map(|value| shown(value, None, about.unit).value))
    };
    let (low, high) = (quantile(&values, 0.0), quantile(&values, 1.0));
    let (worst, best) = if about.better == Better::Higher { (low, high) } else { (high, low) };
    let sum = is_rate(about).then(|| slot_sum(measured)).flatten();
    Row::always_shown(vec![
        Cell::plain(view.titles.key(&about.key)),
        Cell::plain(purpose_text(purpose)),
        Cell::plain(counted(values.len(), "pair")),
        cell(median(&values)),
        cell(worst),
        cell(best),
        cell(sum),
    ])
}

fn is_rate(about: &About) -> bool {
    about.unit == Unit::BPerS
}

/// The sum of the pairs of a slot, the median over the slots.
fn slot_sum(measured: &Measured) -> Option<f64> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for (slot, .., value) in measured {
        *sums.entry(*slot).or_default() += value;
    }
    median(&sums.into_values().collect::<Vec<f64>>())
}

pub(super) fn purpose_text(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Matching => "matchings",
        Purpose::Bisection => "two halves (bisection)",
        Purpose::Incast => "four senders, one receiver (incast)",
        Purpose::Outcast => "one sender, four receivers (outcast)",
        Purpose::Suspect => "suspects",
    }
}

/// Near ends as rows, far ends as columns; the first nodes where there are too many.
fn matrix(view: &View, figure: usize, measured: &Measured) -> Grid {
    let about = &view.fleet.figures[figure];
    let present: BTreeSet<&str> = measured.iter().flat_map(|one| [one.1, one.2]).collect();
    let hosts = view.fleet.nodes.iter().map(|node| node.header.host.as_str());
    let hosts: Vec<&str> = hosts.filter(|host| present.contains(host)).take(DRAWN).collect();
    let values: Vec<f64> = measured.iter().map(|one| one.3).collect();
    let middle = median(&values).unwrap_or(1.0);
    let by_ends: BTreeMap<(&str, &str), f64> =
        measured.iter().map(|one| ((one.1, one.2), one.3)).collect();
    let speed =
        |value: f64| if about.better == Better::Higher { value / middle } else { middle / value };
    let cells = |near: &&str| {
        hosts.iter().map(|far| by_ends.get(&(near, far)).map(|value| speed(*value))).collect()
    };
    let names = || hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<String>>();
    Grid {
        title: format!("{}, each pair over the median pair", view.titles.key(&about.key)),
        rows: ("near end".to_owned(), names()),
        columns: ("far end".to_owned(), names()),
        label: "speed / median".to_owned(),
        unit: Unit::Ratio,
        shades: Shades::Ratios,
        cells: hosts.iter().map(cells).collect(),
    }
}
