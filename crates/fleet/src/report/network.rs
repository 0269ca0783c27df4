//! The network: each pair, and what pairs have when others run beside them.

use super::View;
use super::names::{counted, node, percent};
use super::nodes::DRAWN;
use crate::sweep::{Pair, Purpose};
use record::key::Key;
use record::metric::Better;
use record::order::InOrder;
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
    let mut all: BTreeMap<&Key, Measured> = BTreeMap::new();
    for pair in &view.sweep.pairs {
        let (unit, better) = (pair.unit, pair.better);
        let of_key = Measured { key: &pair.key, unit, better, pairs: BTreeMap::new() };
        let of_key = all.entry(&pair.key).or_insert(of_key);
        of_key.pairs.entry(pair.purpose).or_default().push(pair);
    }
    if all.is_empty() {
        return None;
    }
    // Key figures first, those without a better direction last; in short the key figures, if any.
    let mut figures: Vec<&Measured> = all.values().collect();
    figures.order_by_key(|of| (of.better == Better::None, view.titles.place(of.key)));
    if !whole && figures.iter().any(|of| view.titles.is_key_figure(of.key)) {
        figures.retain(|of| view.titles.is_key_figure(of.key));
    }
    let mut blocks = vec![Block::text(said(view)).for_all()];
    blocks.push(Block::Table(levels(view, &figures)).for_all());
    let shared: Vec<Row> = figures.iter().flat_map(|of| of.shared(view, &all)).collect();
    if !shared.is_empty() {
        let headings = ["what", "figure", "#measured", "#alone", "#ratio", "#pairs"];
        let caption = "Pairs with others beside them. Ratio: measured over the same pairs (or the median pair) alone";
        blocks.push(Block::Table(Table::new(caption, &headings, shared)).for_all());
    }
    if whole {
        blocks.extend(matrices(view, &figures).into_iter().map(Block::on_page));
    }
    Some(Section::new("pairs", "The network", blocks))
}

fn said(view: &View) -> String {
    let mut met: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut partners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for pair in view.sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Matching) {
        met.insert((pair.from, pair.to));
        partners.entry(pair.from).or_default().insert(pair.to);
        partners.entry(pair.to).or_default().insert(pair.from);
    }
    let counts: Vec<f64> = partners.values().map(|of| of.len() as f64).collect();
    format!(
        "{} of nodes were measured in {}; a node met {} others (median).",
        counted(met.len(), "pair"),
        counted(view.sweep.header.steps as usize, "step"),
        median(&counts).unwrap_or(0.0)
    )
}

/// The pairs of one figure, by why they were measured.
struct Measured<'view> {
    key: &'view Key,
    unit: Unit,
    better: Better,
    pairs: BTreeMap<Purpose, Vec<&'view Pair>>,
}

fn values(pairs: &[&Pair]) -> Vec<f64> {
    pairs.iter().map(|pair| pair.estimate.value).collect()
}

impl<'view> Measured<'view> {
    fn of(&self, purpose: Purpose) -> &[&'view Pair] {
        self.pairs.get(&purpose).map_or(&[], Vec::as_slice)
    }

    fn shown(&self, value: f64) -> String {
        shown(value, None, self.unit).value
    }

    /// The median of the pairs that ran alone; of all pairs where none did.
    fn alone(&self) -> Option<f64> {
        let median = |purpose| median(&values(self.of(purpose)));
        let median = median(Purpose::Isolated).or_else(|| median(Purpose::Matching));
        // Nothing is a multiple of zero.
        median.filter(|median| *median > 0.0)
    }

    /// What others cost: pairs alone and beside others, across a cut, and several into one.
    fn shared(&self, view: &View, all: &BTreeMap<&Key, Measured>) -> Vec<Row> {
        if self.better == Better::None {
            return Vec::new();
        }
        let gathered = |purpose| self.gathering(all, purpose);
        let found = [
            self.contention(),
            self.bisection(),
            gathered(Purpose::Incast),
            gathered(Purpose::Outcast),
        ];
        let row = |(what, measured, alone, pairs): Shared| {
            let (beside, alone_) = (self.shown(measured), self.shown(alone));
            let ratio = percent(measured / alone);
            let texts = [what, view.titles.key(self.key), beside, alone_, ratio, pairs.to_string()];
            Row::always_shown(texts.map(Cell::plain).into())
        };
        found.into_iter().flatten().map(row).collect()
    }

    /// Pairs in a step beside the same pairs with nothing else running.
    fn contention(&self) -> Option<Shared> {
        let beside = self.of(Purpose::Matching).iter();
        let beside: HashMap<(u32, u32), f64> =
            beside.map(|pair| ((pair.from, pair.to), pair.estimate.value)).collect();
        let both = self.of(Purpose::Isolated).iter().filter_map(|alone| {
            Some((*beside.get(&(alone.from, alone.to))?, alone.estimate.value))
        });
        let (ratios, alone): (Vec<f64>, Vec<f64>) = both
            .filter(|(beside, alone)| *beside > 0.0 && *alone > 0.0)
            .map(|(beside, alone)| (beside / alone, alone))
            .unzip();
        let median_alone = median(&alone)?;
        let what = "contention: all pairs of a step at once".to_owned();
        Some((what, median_alone * median(&ratios)?, median_alone, alone.len()))
    }

    /// Pairs across a cut, all at once, beside the median pair.
    fn bisection(&self) -> Option<Shared> {
        let own = values(self.of(Purpose::Bisection));
        let what = "bisection: all pairs across a cut at once".to_owned();
        Some((what, median(&own)?, self.alone()?, own.len()))
    }

    /// Several senders to one receiver, or the other way: the rates add up, times do not. Windows of
    /// the pairs overlap in part, so that the sum is at most that.
    fn gathering(&self, all: &BTreeMap<&Key, Measured>, purpose: Purpose) -> Option<Shared> {
        // The same figure where the far end sends.
        let mut key = self.key.clone();
        if purpose == Purpose::Outcast {
            let directions = key.case.0.iter_mut().filter(|(name, _)| name == DIRECTION);
            directions.for_each(|(_, value)| *value = "down".into());
        }
        let mut by_root: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for pair in all.get(&key)?.of(purpose) {
            by_root.entry((pair.step, pair.to)).or_default().push(pair.estimate.value);
        }
        // One that lost a pair has another sum.
        let whole = by_root.values().map(Vec::len).max()?;
        by_root.retain(|_, own| own.len() == whole);
        let is_rate = self.key.metric == RATE;
        let total = |own: &Vec<f64>| if is_rate { Some(own.iter().sum()) } else { median(own) };
        let totals: Vec<f64> = by_root.values().filter_map(total).collect();
        let what = match purpose {
            Purpose::Outcast => format!("outcast: one into {whole}"),
            _ => format!("incast: {whole} into one"),
        };
        let what = if is_rate { format!("{what}, sum at most") } else { what };
        Some((what, median(&totals)?, self.alone()?, whole * by_root.len()))
    }
}

/// What pairs share; measured beside others, alone, and the number of pairs.
type Shared = (String, f64, f64, usize);

/// The typical pair, and the slow and fast ones.
fn levels(view: &View, figures: &[&Measured]) -> Table {
    let rows = figures.iter().take(ROWS).filter_map(|of| {
        let values = values(of.of(Purpose::Matching));
        let at = |q: f64| quantile(&values, q).map(|value| of.shown(value));
        at(0.5)?;
        let mut cells =
            vec![Cell::plain(view.titles.key(of.key)), Cell::plain(values.len().to_string())];
        cells.extend([0.0, 0.05, 0.5, 0.95, 1.0].map(|q| Cell::optional(at(q))));
        Some(Row::always_shown(cells))
    });
    let headings = ["figure", "#pairs", "#least", "#5 %", "#median", "#95 %", "#greatest"];
    Table::new("All pairs of the matchings", &headings, rows)
}

/// Near end by far end, for the first figures.
fn matrices(view: &View, figures: &[&Measured]) -> Vec<Block> {
    let blocks = blocks(view);
    let mut all = vec![Block::text(HOW_TO_READ)];
    if let Some(first) = blocks.first().filter(|first| first.len() > 1) {
        let text = format!(
            "Each row and column stands for {} nodes, neighbours by their labels and ranks; a cell is the slowest pair between them. The CSV file has every pair.",
            first.len()
        );
        all.push(Block::text(text));
    }
    let grids = figures.iter().take(MATRICES).filter_map(|of| matrix(view, of, &blocks));
    all.extend(grids.map(Block::Grid));
    if figures.len() > MATRICES {
        let text = format!(
            "The matrices of {} more figures are left out; the CSV file has them.",
            figures.len() - MATRICES
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
fn matrix(view: &View, of: &Measured, blocks: &[Vec<u32>]) -> Option<Grid> {
    let own = of.of(Purpose::Matching).iter().filter(|pair| pair.estimate.value > 0.0);
    let own: Vec<&Pair> = own.copied().collect();
    let median = median(&values(&own)).filter(|_| blocks.len() > 1)?;
    let places = blocks.iter().enumerate();
    let place: HashMap<u32, usize> =
        places.flat_map(|(at, block)| block.iter().map(move |rank| (*rank, at))).collect();
    let mut cells: Vec<Vec<Option<f64>>> = vec![vec![None; blocks.len()]; blocks.len()];
    for pair in own {
        let Some((from, to)) = place.get(&pair.from).zip(place.get(&pair.to)) else { continue };
        let speed = match of.better {
            Better::Lower => median / pair.estimate.value,
            Better::Higher | Better::None => pair.estimate.value / median,
        };
        let cell = &mut cells[*from][*to];
        *cell = Some(cell.map_or(speed, |slowest| slowest.min(speed)));
    }
    let names: Vec<String> = blocks.iter().map(|block| name(view, block)).collect();
    let (key, median) = (view.titles.key(of.key), of.shown(median));
    Some(Grid {
        title: format!("{key}: each pair beside the median, {median}"),
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
