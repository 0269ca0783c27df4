//! The network: each pair, and what pairs have when others run beside them.

use super::View;
use super::names::{counted, node, percent};
use super::nodes::DRAWN;
use crate::sweep::{Pair, Purpose};
use record::key::Key;
use record::metric::Better;
use record::order::{Gather, InOrder};
use record::shown::shown;
use record::unit::Unit;
use report::document::{Block, Cell, Grid, Row, Section, Shades, Table};
use stats::quantile::{median, quantile};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Figures of pairs that have a matrix of their own.
const MATRICES: usize = 4;
/// The metric that adds up over the senders of a receiver.
const RATE: &str = "bandwidth";
/// The parameter of a case that says which end sends: the near one unless it is `down`.
const DIRECTION: &str = "direction";
/// Figures of pairs in the table.
const ROWS: usize = 60;

pub(super) fn section(view: &View, whole: bool) -> Option<Section> {
    let pairs = &view.sweep.pairs;
    if pairs.is_empty() {
        return None;
    }
    let keys = keys(view, whole);
    let mut blocks = vec![Block::text(said(view)).for_all()];
    blocks.push(Block::Table(levels(view, &keys)).for_all());
    blocks.extend(shared(view, &keys).map(|table| Block::Table(table).for_all()));
    if whole {
        blocks.extend(matrices(view, &keys).into_iter().map(Block::on_page));
    }
    Some(Section::new("pairs", "The network", blocks))
}

/// The figures of pairs, key figures first, those without a better direction last; in short the key
/// figures, if any.
fn keys<'view>(view: &'view View, whole: bool) -> Vec<&'view Key> {
    let mut better: BTreeMap<&Key, Better> = BTreeMap::new();
    for pair in &view.sweep.pairs {
        better.insert(&pair.key, pair.better);
    }
    let mut keys: Vec<&Key> = better.keys().copied().collect();
    keys.order_by_key(|key| (better[key] == Better::None, view.titles.place(key)));
    if !whole && keys.iter().any(|key| view.titles.is_key_figure(key)) {
        keys.retain(|key| view.titles.is_key_figure(key));
    }
    keys
}

fn said(view: &View) -> String {
    let matched = of(&view.sweep.pairs, Purpose::Matching).map(|pair| (pair.from, pair.to));
    let met: BTreeSet<(u32, u32)> = matched.gather();
    let mut partners: HashMap<u32, BTreeSet<u32>> = HashMap::new();
    for (from, to) in &met {
        partners.entry(*from).or_default().insert(*to);
        partners.entry(*to).or_default().insert(*from);
    }
    let counts: Vec<f64> = partners.values().map(|of| of.len() as f64).collect();
    format!(
        "{} of nodes were measured in {}; a node met {} others (median).",
        counted(met.len(), "pair"),
        counted(view.sweep.header.steps as usize, "step"),
        median(&counts).unwrap_or(0.0)
    )
}

fn of(pairs: &[Pair], purpose: Purpose) -> impl Iterator<Item = &Pair> {
    pairs.iter().filter(move |pair| pair.purpose == purpose)
}

/// The typical pair, and the slow and fast ones.
fn levels(view: &View, keys: &[&Key]) -> Table {
    let rows = keys.iter().take(ROWS).filter_map(|key| {
        let own: Vec<&Pair> =
            of(&view.sweep.pairs, Purpose::Matching).filter(|pair| pair.key == **key).collect();
        let unit = own.first()?.unit;
        let values: Vec<f64> = own.iter().map(|pair| pair.estimate.value).collect();
        let at = |q: f64| quantile(&values, q).map(|value| shown(value, None, unit).value);
        let mut cells =
            vec![Cell::plain(view.titles.key(key)), Cell::plain(values.len().to_string())];
        cells.extend([0.0, 0.05, 0.5, 0.95, 1.0].map(|q| Cell::of(at(q))));
        Some(Row::of(cells))
    });
    let headings = ["figure", "#pairs", "#least", "#5 %", "#median", "#95 %", "#greatest"];
    Table::new("All pairs of the matchings", &headings, rows)
}

/// What others cost: pairs alone and beside others, across a cut, and several into one.
fn shared(view: &View, keys: &[&Key]) -> Option<Table> {
    let better: HashMap<&Key, Better> =
        view.sweep.pairs.iter().map(|pair| (&pair.key, pair.better)).collect();
    let rows: Vec<Row> = keys
        .iter()
        .filter(|key| better[**key] != Better::None)
        .flat_map(|key| {
            let gathered = [Purpose::Incast, Purpose::Outcast].map(|of| gathering(view, key, of));
            [contention(view, key), bisection(view, key)].into_iter().chain(gathered).flatten()
        })
        .collect();
    let headings = ["what", "figure", "#measured", "#alone", "#ratio", "#pairs"];
    let caption = "Pairs with others beside them. Ratio: measured over the same pairs (or the median pair) alone";
    (!rows.is_empty()).then(|| Table::new(caption, &headings, rows))
}

/// One row: what, of how many pairs, measured and alone.
fn row(
    view: &View,
    key: &Key,
    what: &str,
    unit: Unit,
    (measured, alone): (f64, f64),
    of: usize,
) -> Row {
    let text = |value: f64| Cell::plain(shown(value, None, unit).value);
    Row::of(vec![
        Cell::plain(what),
        Cell::plain(view.titles.key(key)),
        text(measured),
        text(alone),
        Cell::plain(percent(measured / alone)),
        Cell::plain(of.to_string()),
    ])
}

/// Pairs in a step beside the same pairs with nothing else running.
fn contention(view: &View, key: &Key) -> Option<Row> {
    let pairs = &view.sweep.pairs;
    let own = |purpose| of(pairs, purpose).filter(move |pair| pair.key == *key);
    let beside: HashMap<(u32, u32), &Pair> =
        own(Purpose::Matching).map(|pair| ((pair.from, pair.to), pair)).collect();
    let both = own(Purpose::Isolated).filter_map(|alone| {
        let beside = beside.get(&(alone.from, alone.to))?;
        Some((beside.estimate.value, alone.estimate.value))
    });
    let both: Vec<(f64, f64)> = both.filter(|(one, other)| *one > 0.0 && *other > 0.0).collect();
    let alone: Vec<f64> = both.iter().map(|(_, alone)| *alone).collect();
    let ratios: Vec<f64> = both.iter().map(|(beside, alone)| beside / alone).collect();
    let alone = median(&alone)?;
    let measured = alone * median(&ratios)?;
    let unit = own(Purpose::Isolated).next()?.unit;
    Some(row(
        view,
        key,
        "contention: all pairs of a step at once",
        unit,
        (measured, alone),
        both.len(),
    ))
}

/// Pairs across a cut, all at once, beside the median pair.
fn bisection(view: &View, key: &Key) -> Option<Row> {
    let own: Vec<&Pair> =
        of(&view.sweep.pairs, Purpose::Bisection).filter(|pair| pair.key == *key).collect();
    let unit = own.first()?.unit;
    let values: Vec<f64> = own.iter().map(|pair| pair.estimate.value).collect();
    let what = "bisection: all pairs across a cut at once";
    Some(row(view, key, what, unit, (median(&values)?, alone(view, key)?), own.len()))
}

/// Several senders to one receiver, or the other way: the rates add up, times do not. Windows of the
/// pairs overlap in part, so that the sum is at most that.
fn gathering(view: &View, key: &Key, purpose: Purpose) -> Option<Row> {
    let of_it = match purpose {
        Purpose::Outcast => pulled(key),
        _ => key.clone(),
    };
    let mut by_root: BTreeMap<(u32, u32), Vec<&Pair>> = BTreeMap::new();
    for pair in of(&view.sweep.pairs, purpose).filter(|pair| pair.key == of_it) {
        by_root.entry((pair.step, pair.to)).or_default().push(pair);
    }
    // One that lost a pair has another sum.
    let whole = by_root.values().map(Vec::len).max()?;
    by_root.retain(|_, own| own.len() == whole);
    let first = by_root.values().flatten().next()?;
    let is_rate = key.metric == RATE;
    let totals: Vec<f64> = by_root
        .values()
        .filter_map(|own| {
            let values: Vec<f64> = own.iter().map(|pair| pair.estimate.value).collect();
            if is_rate { Some(values.iter().sum()) } else { median(&values) }
        })
        .collect();
    let pairs: usize = by_root.values().map(Vec::len).sum();
    let what = match purpose {
        Purpose::Outcast => format!("outcast: one into {whole}"),
        _ => format!("incast: {whole} into one"),
    };
    let what = if is_rate { format!("{what}, sum at most") } else { what };
    Some(row(view, key, &what, first.unit, (median(&totals)?, alone(view, key)?), pairs))
}

/// The same figure where the far end sends.
fn pulled(key: &Key) -> Key {
    let mut pulled = key.clone();
    for (_, value) in pulled.case.0.iter_mut().filter(|(name, _)| name == DIRECTION) {
        *value = "down".into();
    }
    pulled
}

/// The median of the pairs that ran alone; of all pairs where none did.
fn alone(view: &View, key: &Key) -> Option<f64> {
    let values = |purpose| -> Vec<f64> {
        let own = of(&view.sweep.pairs, purpose).filter(|pair| pair.key == *key);
        own.map(|pair| pair.estimate.value).collect()
    };
    let median = median(&values(Purpose::Isolated)).or_else(|| median(&values(Purpose::Matching)));
    // Nothing is a multiple of zero.
    median.filter(|median| *median > 0.0)
}

/// Near end by far end, for the first figures.
fn matrices(view: &View, keys: &[&Key]) -> Vec<Block> {
    let blocks = blocks(view);
    let mut all = vec![Block::text(HOW_TO_READ)];
    if let Some(first) = blocks.first().filter(|first| first.len() > 1) {
        let text = format!(
            "Each row and column stands for {} nodes, neighbours by their labels and ranks; a cell is the slowest pair between them. The CSV file has every pair.",
            first.len()
        );
        all.push(Block::text(text));
    }
    all.extend(
        keys.iter().take(MATRICES).filter_map(|key| matrix(view, key, &blocks)).map(Block::Grid),
    );
    if keys.len() > MATRICES {
        let text = format!(
            "The matrices of {} more figures are left out; the CSV file has them.",
            keys.len() - MATRICES
        );
        all.push(Block::text(text));
    }
    all
}

const HOW_TO_READ: &str = "Each cell is the speed from one node to another over that of the median pair: 1 is as the median, 0.5 is half the rate (for times: twice as long). Empty cells were not measured.";

/// The nodes that rows and columns stand for, neighbours by label and rank together: one each, or so
/// many that a picture has room.
fn blocks(view: &View) -> Vec<Vec<u32>> {
    let mut by_label: BTreeMap<&BTreeMap<String, String>, Vec<u32>> = BTreeMap::new();
    for node in view.sweep.nodes.values() {
        by_label.entry(&node.labels).or_default().push(node.rank);
    }
    let mut groups: Vec<Vec<u32>> = by_label.into_values().collect();
    groups.order_by_key(|ranks| ranks[0]);
    let ranks = groups.concat();
    let each = ranks.len().div_ceil(DRAWN).max(1);
    ranks.chunks(each).map(<[u32]>::to_vec).collect()
}

/// The pairs of the matchings, each over the median pair.
fn matrix(view: &View, key: &Key, blocks: &[Vec<u32>]) -> Option<Grid> {
    let own: Vec<&Pair> = of(&view.sweep.pairs, Purpose::Matching)
        .filter(|pair| pair.key == *key && pair.estimate.value > 0.0)
        .collect();
    let first = own.first().filter(|_| blocks.len() > 1)?;
    let values: Vec<f64> = own.iter().map(|pair| pair.estimate.value).collect();
    let median = median(&values)?;
    let place: HashMap<u32, usize> = blocks
        .iter()
        .enumerate()
        .flat_map(|(at, block)| block.iter().map(move |rank| (*rank, at)))
        .collect();
    let mut cells = vec![vec![None; blocks.len()]; blocks.len()];
    for pair in own.iter() {
        let Some((from, to)) = place.get(&pair.from).zip(place.get(&pair.to)) else { continue };
        let speed = match pair.better {
            Better::Lower => median / pair.estimate.value,
            Better::Higher | Better::None => pair.estimate.value / median,
        };
        let cell: &mut Option<f64> = &mut cells[*from][*to];
        *cell = Some(cell.map_or(speed, |slowest| slowest.min(speed)));
    }
    let names: Vec<String> = blocks.iter().map(|block| name(view, block)).collect();
    let median = shown(median, None, first.unit).value;
    Some(Grid {
        title: format!("{}: each pair beside the median, {median}", view.titles.key(key)),
        rows: ("from".to_owned(), names.clone()),
        columns: ("to".to_owned(), names),
        label: "speed / median".to_owned(),
        unit: Unit::Ratio,
        shades: Shades::Ratios,
        cells,
    })
}

/// `node-03`, or the first and last of several.
fn name(view: &View, block: &[u32]) -> String {
    match block {
        [] => String::new(),
        [one] => node(view.sweep, *one),
        [first, .., last] => format!("{} … {}", node(view.sweep, *first), node(view.sweep, *last)),
    }
}
