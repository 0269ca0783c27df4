//! Every node beside its peers: the strata, the heat map, a row for each node, and the differences of
//! nodes that have too few peers.

use super::answer::by_place;
use super::{ROWS, View, left_out};
use crate::model::{Field, Role, Row as Valued, Stratum, is_small};
use crate::names::{counted, listed, percent, size, sizes};
use crate::nodelist::compact;
use crate::read::NodeFile;
use record::metric::Kind;
use record::order::InOrder;
use record::unit::Unit;
use report::document::{Block, Cell, Grid, Row, Section, Shades, Table};
use stats::quantile::median;
use std::collections::{BTreeSet, HashMap};
use std::iter::once;

/// Nodes of a picture: more would have no width.
pub(super) const DRAWN: usize = 120;
/// Figures of the heat map, and of the table of differences.
const FIGURES: usize = 40;
/// Half the width of an interval of 95 %, in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// Where a node is worst: standard errors, the field, and how many times worse.
type Worst<'view> = (f64, &'view Field, f64);

/// The strata, and the differences within those that are too small to accuse.
pub(super) fn strata(view: &View) -> Section {
    let strata = || view.judgement.first.strata.iter().enumerate();
    let row = |(at, stratum): (usize, &Stratum)| {
        let names: Vec<&str> = stratum.nodes.iter().map(|node| view.fleet.host(*node)).collect();
        let least = |kind: Kind| {
            let seen = view.judgement.seen.iter();
            let seen = seen.filter(|seen| seen.stratum == Some(at) && seen.kind == kind);
            let factors: Vec<f64> = seen.map(|seen| seen.factor).collect();
            Cell::optional(median(&factors).map(|factor| percent(factor - 1.0)))
        };
        let head = [stratum.name.clone(), names.len().to_string(), listed(&compact(&names))];
        let kinds = [Kind::Hardware, Kind::Os, Kind::Io].map(least);
        Row::always_shown(head.into_iter().map(Cell::plain).chain(kinds).collect())
    };
    let headings = ["hardware", "#nodes", "which", "#hardware seen from", "#os", "#io"];
    let table = Table::new("", &headings, strata().take(ROWS).map(row));
    let small = strata().filter(|(_, stratum)| is_small(stratum));
    let tables = small.map(|(at, stratum)| differences(view, at, stratum));
    let tables = once(table).chain(tables.filter(|table| !table.rows.is_empty()));
    let blocks = tables.map(|table| Block::Table(table).for_all()).collect();
    Section::new("strata", "Nodes with the same hardware", blocks)
}

/// The figures of the nodes alone in some strata, those of the cards first.
fn alone<'view>(view: &'view View, is_counted: impl Fn(&Field) -> bool) -> Vec<&'view Field> {
    let fields = view.judgement.first.fields.iter();
    let fields = fields.filter(|field| field.subject.role == Role::Alone && is_counted(field));
    let mut fields: Vec<&Field> = fields.collect();
    fields.order_by_key(|field| view.place(field.subject.figure));
    fields
}

/// Each node over the median of the others, with an interval by its own rounds and theirs.
fn differences(view: &View, at: usize, stratum: &Stratum) -> Table {
    let fields = alone(view, |field| field.stratum == at && field.rows.len() > 1);
    let row = |field: &&Field| {
        let one = |node: &usize| {
            let is_it = |row: &&Valued| row.node == *node;
            let (own, others): (Vec<_>, Vec<_>) = field.rows.iter().partition(is_it);
            let Some(own) = own.first() else { return Cell::absent() };
            let x: Vec<f64> = others.iter().map(|other| other.x).collect();
            let scatter = others.iter().map(|other| other.scatter).sum::<f64>();
            let variance = own.scatter + scatter / (x.len() * x.len()) as f64;
            let (distance, reach) =
                (own.x - median(&x).unwrap_or(own.x), HALF_WIDTH * variance.sqrt());
            // One round says nothing of its scatter.
            let ends = (reach > 0.0).then(|| {
                format!(" ({})", sizes(((distance - reach).exp(), (distance + reach).exp())))
            });
            Cell::plain(size(distance.exp()) + &ends.unwrap_or_default())
        };
        let name = Cell::plain(view.subject(field.subject));
        Row::always_shown(once(name).chain(stratum.nodes.iter().map(one)).collect())
    };
    let names = stratum.nodes.iter().map(|node| format!("#{}", view.fleet.host(*node)));
    let headings: Vec<String> = once("figure".to_owned()).chain(names).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let caption = format!(
        "{}: fewer than six are alike, so none is accused. How many times worse each is than the \
         median of the others, with the 95 % interval by its own rounds",
        counted(stratum.nodes.len(), "node")
    );
    Table::new(caption, &headings, fields.iter().take(FIGURES).map(row))
}

pub(super) fn section(view: &View) -> Option<Section> {
    let worst = worst(view);
    if worst.is_empty() {
        return None;
    }
    let drawn = drawn(view, &worst);
    let (count, shown) = (view.fleet.nodes.len(), drawn.len());
    let mut text = HOW_TO_READ.to_owned();
    if shown < count {
        text += &format!(
            " {shown} of {count} nodes are drawn: those that are accused, and those furthest from their peers."
        );
    }
    let row = |(node, file): (usize, &NodeFile)| {
        let labels = file.header.labels.iter().map(|(name, value)| format!("{name}={value}"));
        let first = &view.judgement.first;
        let head = [
            file.header.host.clone(),
            first.strata[first.places[node]].name.clone(),
            labels.collect::<Vec<String>>().join(" "),
        ];
        let place = match worst.get(&node) {
            Some((z, field, factor)) => {
                [view.subject(field.subject), size(*factor), format!("{z:.1}")].map(Cell::plain)
            }
            None => [(); 3].map(|()| Cell::absent()),
        };
        Row::always_shown(head.map(Cell::plain).into_iter().chain(place).collect())
    };
    let headings = ["node", "hardware", "labels", "worst in", "#times", "#standard errors"];
    let table = Table::new("", &headings, view.fleet.nodes.iter().enumerate().take(ROWS).map(row));
    let mut blocks = vec![
        Block::text(text).on_page(),
        Block::Grid(heat_map(view, &drawn)).on_page(),
        Block::Table(table).for_all(),
    ];
    blocks.extend(left_out(count, ROWS, " nodes"));
    Some(Section::new("nodes", "The nodes beside their peers", blocks))
}

const HOW_TO_READ: &str = "Each cell is a node's speed in one figure over the median of its stratum: 1 is as its peers, 0.8 is a fifth slower (for times: 1.25 times as long). Empty cells were not measured.";

fn worst<'view>(view: &'view View) -> HashMap<usize, Worst<'view>> {
    let mut all: HashMap<usize, Worst> = HashMap::new();
    for field in &view.judgement.first.fields {
        for (place, row) in field.rows.iter().enumerate() {
            let Some(standing) = field.standing(place) else { continue };
            let one = (standing.z, field, standing.distance.exp());
            let worst = all.entry(row.node).or_insert(one);
            if one.0 > worst.0 {
                *worst = one;
            }
        }
    }
    all
}

/// The nodes of the picture: all, or the accused and the furthest, in their order.
fn drawn(view: &View, worst: &HashMap<usize, Worst>) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..view.fleet.nodes.len()).collect();
    if nodes.len() > DRAWN {
        let found = by_place(view).into_iter().flat_map(|(which, _)| which.ends());
        let found: BTreeSet<usize> = found.collect();
        let z = |node: &usize| match found.contains(node) {
            true => f64::INFINITY,
            false => worst.get(node).map_or(0.0, |worst| worst.0),
        };
        nodes.order_by(|a, b| z(b).total_cmp(&z(a)));
        nodes.truncate(DRAWN);
        nodes.sort_unstable();
    }
    nodes
}

fn heat_map(view: &View, nodes: &[usize]) -> Grid {
    let mut figures: Vec<usize> = Vec::new();
    let mut cells: HashMap<(usize, usize), f64> = HashMap::new();
    for field in alone(view, |_| true) {
        let (figure, centre) = (field.subject.figure, field.centre());
        if figures.last() != Some(&figure) {
            figures.push(figure);
        }
        cells.extend(field.rows.iter().map(|row| ((figure, row.node), (centre - row.x).exp())));
    }
    figures.truncate(FIGURES);
    let rows = figures.iter().map(|figure| view.titles.key(&view.about(*figure).key)).collect();
    let columns = nodes.iter().map(|node| view.fleet.host(*node).to_owned()).collect();
    let title = "Speed of each node beside its peers".to_owned();
    grid(title, ("", rows), ("node", columns), "speed / peers", |figure, node| {
        cells.get(&(figures[figure], nodes[node])).copied()
    })
}

pub(super) fn grid(
    title: String,
    (row, rows): (&str, Vec<String>),
    (column, columns): (&str, Vec<String>),
    label: &str,
    cell: impl Fn(usize, usize) -> Option<f64>,
) -> Grid {
    let cells = |at: usize| (0..columns.len()).map(|other| cell(at, other)).collect();
    Grid {
        cells: (0..rows.len()).map(cells).collect(),
        title,
        rows: (row.to_owned(), rows),
        columns: (column.to_owned(), columns),
        label: label.to_owned(),
        unit: Unit::Ratio,
        shades: Shades::Ratios,
    }
}
