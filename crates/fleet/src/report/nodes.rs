//! Every node beside its peers: the heat map, and a row for each node.

use super::answer::tone;
use super::names::{ends, node};
use super::{View, left_out};
use crate::model::Standing;
use crate::model::strata::index;
use crate::sweep::Node;
use record::order::{Gather, InOrder};
use record::unit::Unit;
use report::document::{Block, Cell, Column, Grid, Row, Section, Shades, Table, Tone};
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Nodes of a picture: more would have no width.
pub(super) const DRAWN: usize = 120;
/// Figures of the heat map.
const FIGURES: usize = 40;
/// Rows of the table of nodes.
const ROWS: usize = 5_000;

pub(super) fn section(view: &View) -> Option<Section> {
    let standings = &view.judgement.standings;
    if standings.is_empty() {
        return None;
    }
    let worst = worst(view);
    let drawn = drawn(view, &worst);
    let (grid, more) = heat_map(view, &drawn);
    let (nodes, shown) = (view.sweep.nodes.len(), drawn.len());
    let mut blocks = vec![Block::text(HOW_TO_READ).on_page(), Block::Grid(grid).on_page()];
    for (is_cut, text) in [
        (
            more > 0,
            format!(
                "{more} more figures are left out of the picture: those that no card calls a key figure and in which no node is accused. The CSV file has all."
            ),
        ),
        (
            shown < nodes,
            format!(
                "{shown} of {nodes} nodes are drawn: those that are accused, and those furthest from their peers. The table and the CSV file have all."
            ),
        ),
    ] {
        blocks.extend(is_cut.then(|| Block::text(text).on_page()));
    }
    blocks.push(Block::Table(table(view, &worst)).for_all());
    blocks.extend(left_out(nodes, ROWS, " nodes", "the CSV file has all"));
    Some(Section::new("nodes", "The nodes beside their peers", blocks))
}

const HOW_TO_READ: &str = "Each cell is a node's speed in one figure over the median of its stratum: 1 is as its peers, 0.8 is a fifth slower (for times: 1.25 times as long). Empty cells were not measured.";

/// By node where it is worst: the standing with the greatest z, or the greatest factor without one.
fn worst<'view>(view: &'view View) -> HashMap<u32, &'view Standing> {
    let mut all: HashMap<u32, &Standing> = HashMap::new();
    let z = |standing: &Standing| standing.z.unwrap_or(f64::NEG_INFINITY);
    for one in &view.judgement.standings {
        let worst = all.entry(one.rank).or_insert(one);
        if z(one).total_cmp(&z(worst)).then(one.factor.total_cmp(&worst.factor)).is_gt() {
            *worst = one;
        }
    }
    all
}

/// The nodes of pictures, in the order of the strata: all, or the accused and the furthest.
fn drawn(view: &View, worst: &HashMap<u32, &Standing>) -> Vec<u32> {
    let accused: BTreeSet<u32> =
        view.judgement.verdicts.iter().flat_map(|verdict| ends(verdict.at)).gather();
    let mut ranks: Vec<u32> = view.sweep.nodes.keys().copied().collect();
    if ranks.len() > DRAWN {
        let z = |rank: &u32| worst.get(rank).and_then(|of| of.z).unwrap_or(0.0);
        ranks.order_by(|a, b| {
            accused.contains(b).cmp(&accused.contains(a)).then(z(b).total_cmp(&z(a)))
        });
        ranks.truncate(DRAWN);
    }
    let of = index(&view.judgement.strata);
    ranks.order_by_key(|rank| (of.get(rank).copied(), *rank));
    ranks
}

/// The heat map of some nodes, and how many figures it leaves out.
fn heat_map(view: &View, ranks: &[u32]) -> (Grid, usize) {
    let judgement = &view.judgement;
    let accused: BTreeSet<&record::key::Key> =
        judgement.verdicts.iter().map(|verdict| &verdict.subject.key).gather();
    let mut subjects: Vec<usize> = (0..judgement.subjects.len()).collect();
    subjects.retain(|at| !judgement.subjects[*at].is_scatter);
    let all = subjects.len();
    if all > FIGURES {
        subjects.retain(|at| {
            let key = &judgement.subjects[*at].key;
            view.titles.is_key_figure(key) || accused.contains(key)
        });
    }
    subjects.order_by_key(|at| view.titles.place(&judgement.subjects[*at].key));
    subjects.truncate(FIGURES);
    let place: HashMap<(usize, u32), f64> =
        judgement.standings.iter().map(|of| ((of.subject, of.rank), 1.0 / of.factor)).collect();
    let cells = subjects.iter().map(|subject| {
        let of = |rank: &u32| place.get(&(*subject, *rank)).copied().filter(|of| of.is_finite());
        ranks.iter().map(of).collect()
    });
    let titles = subjects.iter().map(|at| view.subject(*at));
    let grid = Grid {
        title: "Speed of each node beside its peers".to_owned(),
        rows: (String::new(), titles.collect()),
        columns: ("node".to_owned(), ranks.iter().map(|rank| node(view.sweep, *rank)).collect()),
        label: "speed / peers".to_owned(),
        unit: Unit::Ratio,
        shades: Shades::Ratios,
        cells: cells.collect(),
    };
    (grid, all - subjects.len())
}

/// A row for each node: its stratum and labels, and where it is worst.
fn table(view: &View, worst: &HashMap<u32, &Standing>) -> Table {
    let nodes = view.sweep.nodes.values();
    let labels: BTreeSet<&String> = nodes.clone().flat_map(|node| node.labels.keys()).gather();
    let several = view.judgement.strata.len() > 1;
    let mut columns = vec![Column::text("node"), Column::number("rank")];
    columns.extend(several.then(|| Column::number("stratum")));
    columns.extend(labels.iter().map(|name| Column::text(name)));
    columns.extend(Column::list(&["worst in", "#speed / peers", "#z", "verdict"]));
    let strata = index(&view.judgement.strata);
    let row = |node: &Node| {
        let of = worst.get(&node.rank);
        let mut cells = vec![Cell::plain(&node.name), Cell::plain(node.rank.to_string())];
        cells.extend(
            several.then(|| Cell::optional(strata.get(&node.rank).map(|at| (at + 1).to_string()))),
        );
        cells.extend(labels.iter().map(|name| Cell::optional(node.labels.get(*name).cloned())));
        cells.push(Cell::optional(of.map(|of| view.subject(of.subject))));
        cells.push(Cell::optional(of.map(|of| format!("{:.3}", 1.0 / of.factor))));
        cells.push(Cell::optional(of.and_then(|of| of.z).map(z)));
        cells.push(charge(view, node.rank, of.is_some_and(|of| of.z.is_some())));
        Row::always_shown(cells)
    };
    let rows = nodes.take(ROWS).map(row);
    let caption = "Where each node is worst, and what became of that";
    Table { caption: caption.to_owned(), columns, rows: rows.collect() }
}

/// A distance in standard deviations; infinite where nothing scatters.
pub(super) fn z(z: f64) -> String {
    if z.abs() < 1000.0 { format!("{z:.1}") } else { "> 1000".to_owned() }
}

/// The worst charge against a node.
fn charge(view: &View, rank: u32, is_compared: bool) -> Cell {
    let own = view.judgement.verdicts.iter().filter(|verdict| ends(verdict.at).contains(&rank));
    let worst = own
        .map(|verdict| verdict.charge)
        .min_by_key(|charge| (tone(*charge) != Tone::Bad, *charge));
    worst.map_or_else(
        || Cell::toned(if is_compared { "as its peers" } else { "not compared" }, Tone::Muted),
        |of| Cell::toned(super::answer::charge(of), tone(of)),
    )
}

/// By kind of figure the least difference of a node from its peers that half of the figures show in
/// 95 % of such sweeps.
pub(super) fn least_seen(view: &View) -> BTreeMap<&'static str, f64> {
    let mut by_kind: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for of in &view.judgement.detectable {
        by_kind.entry(of.kind.text()).or_default().push(of.factor - 1.0);
    }
    by_kind.into_iter().filter_map(|(kind, least)| Some((kind, median(&least)?))).gather()
}
