//! The evidence: every verdict on each node and link, with what it rests on.

use super::answer::{by, by_place, charge, figure, interval, sure, tone, value};
use super::names::{at, ends, span};
use super::nodes::z;
use super::{View, left_out};
use crate::model::{At, Verdict};
use report::document::{Block, Cell, Row, Section, Table};

/// Nodes and links whose evidence is shown.
const SHOWN: usize = 50;
/// Figures of each.
const FIGURES: usize = 60;

pub(super) fn section(view: &View) -> Option<Section> {
    let accused = by_place(view);
    if accused.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::text(HOW).on_page()];
    for (at_, own) in accused.iter().take(SHOWN) {
        blocks.push(Block::Subheading(heading(view, *at_)).for_all());
        blocks.push(Block::Table(table(view, own)).for_all());
        blocks.extend(left_out(own.len(), FIGURES, " figures", "the JSON file has all"));
    }
    blocks.extend(left_out(accused.len(), SHOWN, " nodes and links", "the JSON file has all"));
    Some(Section::new("accused", "The evidence", blocks))
}

const HOW: &str = "Peers is their median, and of how many. z is the distance from the peers in standard errors, over all repetitions. q is the share of false accusations to expect among all that are at least as certain. Slower, unstable and degraded are said only of what the repetitions alone show; healthy peers were measured beside them.";

/// `node-07 (rank 7, rack r0, switch s0, 10.0.0.8)`.
fn heading(view: &View, of: At) -> String {
    let places = ends(of).into_iter().map(|rank| {
        let Some(node) = view.sweep.nodes.get(&rank) else { return format!("rank {rank}") };
        let labels = node.labels.iter().map(|(name, text)| format!("{name} {text}"));
        let all =
            std::iter::once(format!("rank {rank}")).chain(labels).chain([node.address.clone()]);
        all.collect::<Vec<String>>().join(", ")
    });
    format!("{} ({})", at(view.sweep, of), places.collect::<Vec<String>>().join(" → "))
}

fn table(view: &View, own: &[&Verdict]) -> Table {
    let rows = own.iter().take(FIGURES).map(|verdict| {
        let evidence = &verdict.evidence;
        let predicted = evidence.predicted.filter(|_| !verdict.subject.is_scatter);
        Row::always_shown(vec![
            Cell::plain(figure(view, verdict)),
            Cell::toned(charge(verdict.charge), tone(verdict.charge)),
            Cell::toned(by(verdict), tone(verdict.charge)),
            Cell::plain(interval(verdict)),
            Cell::plain(value(verdict, evidence.value)),
            Cell::plain(value(verdict, evidence.peers_median)),
            Cell::plain(evidence.peers.to_string()),
            Cell::optional(predicted.map(|ends| span(ends, verdict.subject.unit))),
            Cell::plain(z(evidence.z)),
            Cell::plain(chance(evidence.q)),
            sure(view, verdict, true),
        ])
    });
    let headings = [
        "figure",
        "is",
        "#by",
        "#95 %",
        "#measured",
        "#peers",
        "#of",
        "#predicted",
        "#z",
        "#q",
        "how sure",
    ];
    Table::new("", &headings, rows)
}

/// A probability: `0.0021`, `3e-9`.
pub(super) fn chance(p: f64) -> String {
    match p {
        p if p < 1e-15 => "< 1e-15".to_owned(),
        p if p < 1e-3 => format!("{p:.0e}"),
        p => format!("{p:.3}"),
    }
}
