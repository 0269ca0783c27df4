//! Which nodes are each other's peers.

use super::names::{counted, nodes};
use super::{View, left_out};
use crate::model::{LEAST_PEERS, Stratum};
use report::document::{Block, Cell, Column, Row, Section, Table, Tone};

/// Strata that are shown where room is short, and on a page.
const SHOWN: usize = 8;
const LISTED: usize = 200;

pub(super) fn section(view: &View) -> Section {
    let strata = &view.judgement.strata;
    let mut blocks = Vec::new();
    if let Some(first) = strata.first() {
        blocks.push(Block::text(alike(first, strata.len())).for_all());
    }
    if strata.len() > 1 {
        blocks.push(Block::Table(table(view)).for_all());
        let way_out = "the CSV file has the stratum of each node";
        blocks.extend(left_out(strata.len(), LISTED, " strata", way_out));
    }
    Section::new("strata", "Strata", blocks)
}

/// Nodes that have too few peers to be compared.
pub(super) fn too_small(view: &View) -> usize {
    let small = view.judgement.strata.iter().map(|stratum| stratum.ranks.len());
    small.filter(|nodes| *nodes <= LEAST_PEERS).sum()
}

/// What all nodes have in common.
fn alike(first: &Stratum, strata: usize) -> String {
    let facts = first.facts.iter().filter(|(name, _)| !first.differs.contains(name));
    let facts: Vec<String> = facts.map(|(name, text)| format!("{name} {text}")).collect();
    match (facts.is_empty(), strata) {
        (true, _) => format!(
            "The nodes form {}; they have no fact in common.",
            counted(strata, "stratum").replace("stratums", "strata")
        ),
        (false, 1) => format!("All nodes are each other's peers: {}.", facts.join("; ")),
        (false, many) => format!(
            "All nodes have: {}. In the rest they form {many} strata, whose nodes are compared with each other.",
            facts.join("; ")
        ),
    }
}

fn table(view: &View) -> Table {
    let strata = &view.judgement.strata;
    let differs = strata.first().map_or(&[][..], |first| first.differs.as_slice());
    let mut columns = Column::list(&["#stratum", "#nodes"]);
    columns.extend(differs.iter().map(|name| Column::text(name)));
    columns.extend(Column::list(&["compared", "which"]));
    let rows = strata.iter().take(LISTED).enumerate().map(|(at, stratum)| {
        let mut cells =
            vec![Cell::plain((at + 1).to_string()), Cell::plain(stratum.ranks.len().to_string())];
        cells.extend(differs.iter().map(|name| Cell::optional(stratum.facts.get(name).cloned())));
        cells.push(match stratum.ranks.len() > LEAST_PEERS {
            true => Cell::plain("with each other"),
            false => Cell::toned("only with the prediction", Tone::Warn),
        });
        cells.push(Cell::plain(nodes(view.sweep, &stratum.ranks)));
        Row { cells, is_spare: at >= SHOWN }
    });
    Table { caption: String::new(), columns, rows: rows.collect() }
}
