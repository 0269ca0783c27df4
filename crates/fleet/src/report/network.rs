//! The network: each figure of the pairs, what pairs have under load, and the matrix of all pairs.

use super::nodes::{DRAWN, grid};
use super::{View, value};
use crate::file::Purpose;
use crate::names::counted;
use record::metric::Better;
use record::order::InOrder;
use record::unit::Unit;
use report::document::{Block, Cell, Grid, Row, Section, Table};
use stats::quantile::{median, quantile};
use std::collections::{BTreeMap, HashMap};

/// Figures of pairs that have a matrix of their own.
const MATRICES: usize = 2;

/// The values of a figure: slot, near and far end, value.
type Measured<'fleet> = Vec<(u32, &'fleet str, &'fleet str, f64)>;

pub(super) fn section(view: &View, whole: bool) -> Option<Section> {
    let mut all: BTreeMap<(usize, Purpose), Measured> = BTreeMap::new();
    for node in &view.fleet.nodes {
        for pair in &node.pairs {
            for of_pair in &pair.values {
                let one = (pair.slot, node.header.host.as_str(), pair.to.as_str(), of_pair.value);
                all.entry((of_pair.figure, pair.purpose)).or_default().push(one);
            }
        }
    }
    if all.is_empty() {
        return None;
    }
    let mut figures: Vec<((usize, Purpose), Measured)> = all.into_iter().collect();
    figures.order_by_key(|((figure, purpose), _)| (view.place(*figure), *purpose));
    let rows =
        figures.iter().map(|((figure, purpose), values)| row(view, *figure, *purpose, values));
    let headings = ["figure", "pairs", "#number", "#median", "#worst", "#best", "#sum of a slot"];
    let caption = "Pairs of a slot begin together. The sum of a slot is that of its pairs' rates, the median over the slots";
    let mut blocks = vec![Block::Table(Table::new(caption, &headings, rows)).for_all()];
    if whole {
        let matched = figures.iter().filter(|((_, purpose), _)| *purpose == Purpose::Matching);
        let grids = matched.take(MATRICES).map(|((figure, _), all)| matrix(view, *figure, all));
        blocks.extend(grids.map(|grid| Block::Grid(grid).on_page()));
    }
    Some(Section::new("pairs", "The network", blocks))
}

fn row(view: &View, figure: usize, purpose: Purpose, measured: &Measured) -> Row {
    let about = view.about(figure);
    let values: Vec<f64> = measured.iter().map(|one| one.3).collect();
    let cell = |shown: Option<f64>| shown.map_or_else(Cell::absent, |shown| value(about, shown));
    let (low, high) = (quantile(&values, 0.0), quantile(&values, 1.0));
    let (worst, best) = if about.better == Better::Higher { (low, high) } else { (high, low) };
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for (slot, .., value) in measured.iter().filter(|_| about.unit == Unit::BPerS) {
        *sums.entry(*slot).or_default() += value;
    }
    Row::always_shown(vec![
        Cell::plain(view.titles.key(&about.key)),
        Cell::plain(purpose.text()),
        Cell::plain(counted(values.len(), "pair")),
        cell(median(&values)),
        cell(worst),
        cell(best),
        cell(median(&sums.into_values().collect::<Vec<f64>>())),
    ])
}

/// Near ends as rows, far ends as columns; the first nodes where there are too many.
fn matrix(view: &View, figure: usize, measured: &Measured) -> Grid {
    let about = view.about(figure);
    let values: Vec<f64> = measured.iter().map(|one| one.3).collect();
    let middle = median(&values).unwrap_or(1.0);
    let speed =
        |value: f64| if about.better == Better::Higher { value / middle } else { middle / value };
    let by_ends: HashMap<(&str, &str), f64> =
        measured.iter().map(|one| ((one.1, one.2), speed(one.3))).collect();
    let hosts = view.fleet.nodes.iter().map(|node| node.header.host.as_str());
    let hosts: Vec<&str> = hosts.take(DRAWN).collect();
    let names = || hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<String>>();
    let title = format!("{}, each pair over the median pair", view.titles.key(&about.key));
    grid(title, ("near end", names()), ("far end", names()), "speed / median", |near, far| {
        by_ends.get(&(hosts[near], hosts[far])).copied()
    })
}
