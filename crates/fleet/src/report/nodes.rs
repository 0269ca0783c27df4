//! Every node beside its peers: the strata, the heat map, a row for each node, and the differences of
//! nodes that have too few peers.

use super::answer::by_place;
use super::{View, left_out};
use crate::model::{Field, LEAST_PEERS, Role, Stratum, Which};
use crate::names::{counted, hosts, percent, size};
use record::metric::Kind;
use record::order::InOrder;
use record::unit::Unit;
use report::document::{Block, Cell, Grid, Row, Section, Shades, Table};
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Nodes of a picture: more would have no width.
pub(super) const DRAWN: usize = 120;
/// Figures of the heat map, and of the table of differences.
const FIGURES: usize = 40;
/// Rows of the table of nodes.
const ROWS: usize = 5_000;
/// Half the width of an interval of 95 %, in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// Whether no node of a stratum has enough peers.
pub(super) fn is_small(stratum: &Stratum) -> bool {
    stratum.nodes.len() <= LEAST_PEERS
}

/// The strata, and the differences within those that are too small to accuse.
pub(super) fn strata(view: &View) -> Section {
    let row = |(at, stratum): (usize, &Stratum)| {
        let names: Vec<String> =
            stratum.nodes.iter().map(|node| view.fleet.nodes[*node].header.host.clone()).collect();
        let least = |kind: Kind| {
            let seen = view
                .judgement
                .seen
                .iter()
                .filter(|seen| seen.stratum == Some(at) && seen.kind == kind);
            let factors: Vec<f64> = seen.map(|seen| seen.factor).collect();
            Cell::optional(median(&factors).map(|factor| percent(factor - 1.0)))
        };
        Row::always_shown(vec![
            Cell::plain(&stratum.name),
            Cell::plain(stratum.nodes.len().to_string()),
            Cell::plain(hosts(&names)),
            least(Kind::Hardware),
            least(Kind::Os),
            least(Kind::Io),
        ])
    };
    let headings = ["hardware", "#nodes", "which", "#hardware seen from", "#os", "#io"];
    let strata = view.judgement.strata();
    let table = Table::new("", &headings, strata.iter().enumerate().take(ROWS).map(row));
    let mut blocks = vec![Block::Table(table).for_all()];
    let small = strata.iter().enumerate().filter(|(_, stratum)| is_small(stratum));
    let tables = small.map(|(at, stratum)| differences(view, at, stratum));
    blocks.extend(
        tables.filter(|table| !table.rows.is_empty()).map(|table| Block::Table(table).for_all()),
    );
    Section::new("strata", "Nodes with the same hardware", blocks)
}

/// Each node over the median of the others, with an interval by its own rounds and theirs.
fn differences(view: &View, at: usize, stratum: &Stratum) -> Table {
    let mut fields: Vec<&Field> = view
        .judgement
        .first
        .fields
        .iter()
        .filter(|field| {
            field.stratum == at && field.subject.role == Role::Alone && field.rows.len() > 1
        })
        .collect();
    fields.order_by_key(|field| view.titles.place(&view.fleet.figures[field.subject.figure].key));
    let row = |field: &&Field| {
        let one = |node: &usize| {
            let Some(row) = field.rows.iter().find(|row| row.node == *node) else {
                return Cell::absent();
            };
            let others: Vec<_> = field.rows.iter().filter(|other| other.node != *node).collect();
            let x: Vec<f64> = others.iter().map(|other| other.x).collect();
            let own = others.iter().map(|other| other.scatter).sum::<f64>()
                / (others.len() * others.len()) as f64;
            let distance = row.x - median(&x).unwrap_or(row.x);
            let reach = HALF_WIDTH * (row.scatter + own).sqrt();
            let factor = |log: f64| size(log.exp());
            // One round says nothing of its scatter.
            Cell::plain(match reach > 0.0 {
                true => format!(
                    "{} ({}–{})",
                    factor(distance),
                    factor(distance - reach),
                    factor(distance + reach)
                ),
                false => factor(distance),
            })
        };
        let cells = std::iter::once(Cell::plain(view.subject(field.subject)))
            .chain(stratum.nodes.iter().map(one));
        Row::always_shown(cells.collect())
    };
    let names =
        stratum.nodes.iter().map(|node| format!("#{}", view.fleet.nodes[*node].header.host));
    let headings: Vec<String> = std::iter::once("figure".to_owned()).chain(names).collect();
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
    let mut blocks =
        vec![Block::text(HOW_TO_READ).on_page(), Block::Grid(heat_map(view, &drawn)).on_page()];
    if shown < count {
        let text = format!(
            "{shown} of {count} nodes are drawn: those that are accused, and those furthest from their peers."
        );
        blocks.push(Block::text(text).on_page());
    }
    let row = |(node, file): (usize, &crate::read::NodeFile)| {
        let labels: Vec<String> =
            file.header.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let worst = worst.get(&node);
        Row::always_shown(vec![
            Cell::plain(&file.header.host),
            Cell::plain(&view.judgement.strata()[view.judgement.first.places[node]].name),
            Cell::plain(labels.join(" ")),
            Cell::optional(worst.map(|(_, field, _)| view.subject(field.subject))),
            Cell::optional(worst.map(|(.., factor)| size(*factor))),
            Cell::optional(worst.map(|(z, ..)| format!("{z:.1}"))),
        ])
    };
    let headings = ["node", "hardware", "labels", "worst in", "#times", "#standard errors"];
    let table = Table::new("", &headings, view.fleet.nodes.iter().enumerate().take(ROWS).map(row));
    blocks.push(Block::Table(table).for_all());
    blocks.extend(left_out(count, ROWS, " nodes"));
    Some(Section::new("nodes", "The nodes beside their peers", blocks))
}

const HOW_TO_READ: &str = "Each cell is a node's speed in one figure over the median of its stratum: 1 is as its peers, 0.8 is a fifth slower (for times: 1.25 times as long). Empty cells were not measured.";

/// By node where it is worst: standard errors, the field, and how many times worse.
fn worst<'view>(view: &'view View) -> HashMap<usize, (f64, &'view Field, f64)> {
    let mut all: HashMap<usize, (f64, &Field, f64)> = HashMap::new();
    for field in view.judgement.first.fields.iter().filter(|field| field.is_compared()) {
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
fn drawn(view: &View, worst: &HashMap<usize, (f64, &Field, f64)>) -> Vec<usize> {
    let mut accused: BTreeSet<usize> = BTreeSet::new();
    for (at, _) in by_place(view) {
        match at {
            Which::Node(node) => accused.extend([node]),
            Which::Link(from, to) => accused.extend([from, to]),
        }
    }
    let mut nodes: Vec<usize> = (0..view.fleet.nodes.len()).collect();
    if nodes.len() > DRAWN {
        let z = |node: &usize| worst.get(node).map_or(0.0, |worst| worst.0);
        nodes.order_by(|a, b| {
            accused.contains(b).cmp(&accused.contains(a)).then(z(b).total_cmp(&z(a)))
        });
        nodes.truncate(DRAWN);
        nodes.sort_unstable();
    }
    nodes
}

fn heat_map(view: &View, nodes: &[usize]) -> Grid {
    let mut figures: BTreeMap<usize, HashMap<usize, f64>> = BTreeMap::new();
    for field in
        view.judgement.first.fields.iter().filter(|field| field.subject.role == Role::Alone)
    {
        let centre = field.centre();
        let cells = field.rows.iter().map(|row| (row.node, (centre - row.x).exp()));
        figures.entry(field.subject.figure).or_default().extend(cells);
    }
    let mut order: Vec<usize> = figures.keys().copied().collect();
    order.order_by_key(|figure| view.titles.place(&view.fleet.figures[*figure].key));
    order.truncate(FIGURES);
    let cells =
        |figure: &usize| nodes.iter().map(|node| figures[figure].get(node).copied()).collect();
    let names = nodes.iter().map(|node| view.fleet.nodes[*node].header.host.clone());
    Grid {
        title: "Speed of each node beside its peers".to_owned(),
        rows: (
            String::new(),
            order.iter().map(|figure| view.subject(View::alone(*figure))).collect(),
        ),
        columns: ("node".to_owned(), names.collect()),
        label: "speed / peers".to_owned(),
        unit: Unit::Ratio,
        shades: Shades::Ratios,
        cells: order.iter().map(cells).collect(),
    }
}
