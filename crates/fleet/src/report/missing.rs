//! What was not measured, and why; and how the sweep went.

use super::csv::text;
use super::names::{counted, duration, listed, node, nodes};
use super::{View, left_out};
use crate::read::Sweep;
use crate::sweep::{Absent, Stage};
use report::document::{Block, Cell, Row, Section, Table, Tone};
use std::collections::BTreeMap;

/// Reasons that are shown where room is short, and at all.
const SHOWN: usize = 12;
const LISTED: usize = 500;
/// Damaged lines that are named.
const DAMAGED: usize = 10;

/// The nodes that were lost and did not return: measured nothing after that.
pub(super) fn lost(sweep: &Sweep) -> Vec<&Absent> {
    let mut by_rank: BTreeMap<u32, &Absent> = BTreeMap::new();
    for absent in sweep.absents.iter().filter(|absent| absent.lost && !has_returned(sweep, absent))
    {
        by_rank.insert(absent.rank, absent);
    }
    by_rank.into_values().collect()
}

/// Whether a node measured something after it was lost: a resumed sweep has its figures.
fn has_returned(sweep: &Sweep, absent: &Absent) -> bool {
    let alone = || sweep.figures.iter().any(|figure| figure.rank == absent.rank);
    let later = |step: u32| absent.step.is_none_or(|lost| step > lost);
    let paired = || {
        let own = |pair: &crate::sweep::Pair| pair.from == absent.rank || pair.to == absent.rank;
        sweep.pairs.iter().any(|pair| own(pair) && later(pair.step))
    };
    match absent.phase {
        Stage::Meet => alone() || paired(),
        Stage::Alone | Stage::Pairs => paired(),
        Stage::Suspects | Stage::Gather => false,
    }
}

/// What is missing in the end: a resumed sweep may have measured it.
fn missing(sweep: &Sweep) -> Vec<&Absent> {
    let is_missing = |absent: &&Absent| match (absent.to, absent.phase, &absent.experiment) {
        _ if absent.lost => !has_returned(sweep, absent),
        (Some(to), ..) => !sweep.pairs.iter().any(|pair| {
            (pair.from, pair.to) == (absent.rank, to)
                && absent.step.is_none_or(|step| step == pair.step)
                && absent.experiment.as_ref().is_none_or(|id| *id == pair.key.experiment)
        }),
        (None, Stage::Alone, id) => !sweep.figures.iter().any(|figure| {
            figure.rank == absent.rank && id.as_ref().is_none_or(|id| *id == figure.key.experiment)
        }),
        (None, ..) => true,
    };
    sweep.absents.iter().filter(is_missing).collect()
}

pub(super) fn section(view: &View) -> Option<Section> {
    let sweep = view.sweep;
    let mut groups: BTreeMap<(bool, Stage, String, String), Vec<&Absent>> = BTreeMap::new();
    for absent in missing(sweep) {
        let key = (!absent.lost, absent.phase, what(absent), absent.why.clone());
        groups.entry(key).or_default().push(absent);
    }
    let mut blocks = Vec::new();
    if !groups.is_empty() {
        let more = left_out(groups.len(), LISTED, "", "the JSON file has all");
        let rows = groups.into_iter().take(LISTED).enumerate();
        let rows = rows.map(|(at, ((is_kept, phase, what, why), all))| {
            let which = if all.iter().any(|absent| absent.to.is_some()) {
                let pairs = all.iter().map(|absent| {
                    let to = absent.to.map_or_else(String::new, |to| node(sweep, to));
                    format!("{} → {to}", node(sweep, absent.rank))
                });
                listed(&pairs.collect::<Vec<String>>())
            } else {
                let mut ranks: Vec<u32> = all.iter().map(|absent| absent.rank).collect();
                ranks.dedup();
                nodes(sweep, &ranks)
            };
            let tone = if is_kept { Tone::Plain } else { Tone::Bad };
            let cells = vec![
                Cell::plain(which),
                Cell::toned(what, tone),
                Cell::plain(text(&phase)),
                Cell::plain(why),
            ];
            Row { cells, is_spare: at >= SHOWN }
        });
        let table = Table::new("", &["which", "what", "phase", "why"], rows);
        blocks.push(Block::Table(table).for_all());
        blocks.extend(more);
    }
    blocks.extend(
        silent(sweep).into_iter().chain(damaged(sweep)).map(|text| Block::text(text).for_all()),
    );
    blocks.extend(untested(view).map(|table| Block::Table(table).on_page()));
    (!blocks.is_empty()).then(|| Section::new("missing", "What was not measured, and why", blocks))
}

fn what(absent: &Absent) -> String {
    match (&absent.experiment, absent.lost, absent.step) {
        (_, true, Some(step)) => format!("lost at step {step}"),
        (_, true, None) => "lost".to_owned(),
        (Some(experiment), ..) => experiment.clone(),
        (None, false, Some(_)) => "pairs".to_owned(),
        (None, false, None) => "all of the phase".to_owned(),
    }
}

/// Ranks of which the record says nothing at all.
fn silent(sweep: &Sweep) -> Option<String> {
    let is_known = |rank: &u32| {
        sweep.nodes.contains_key(rank) || sweep.absents.iter().any(|absent| absent.rank == *rank)
    };
    let silent: Vec<String> = (0..sweep.header.size)
        .filter(|rank| !is_known(rank))
        .map(|rank| rank.to_string())
        .collect();
    (!silent.is_empty()).then(|| {
        format!(
            "{} did not join, without a reason in the record: rank {}.",
            counted(silent.len(), "node"),
            listed(&silent)
        )
    })
}

/// Lines of the record that do not count.
fn damaged(sweep: &Sweep) -> Option<String> {
    let lines = sweep.damaged.iter().take(DAMAGED);
    let lines: Vec<String> = lines.map(|of| format!("line {} ({})", of.line, of.lost)).collect();
    let count = counted(sweep.damaged.len(), "line");
    let damaged = format!("{count} of the record are damaged and left out: {}.", lines.join(", "));
    let said = [
        (!lines.is_empty()).then_some(&*damaged),
        sweep
            .torn
            .then_some("The last line is incomplete (its writer was killed) and is left out."),
        sweep
            .end
            .is_none()
            .then_some("The sweep did not end: `plumb fleet resume` measures what is missing."),
    ];
    let said: Vec<&str> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Figures that were measured and could not be compared.
fn untested(view: &View) -> Option<Table> {
    let mut by_why: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, why) in &view.judgement.untested {
        by_why.entry(why).or_default().push(view.titles.key(key));
    }
    let rows = by_why.iter().map(|(why, keys)| {
        Row::always_shown(vec![
            Cell::plain(keys.len().to_string()),
            Cell::plain(*why),
            Cell::plain(listed(keys)),
        ])
    });
    let caption = "Figures that were measured and not compared over nodes";
    (!by_why.is_empty()).then(|| Table::new(caption, &["#figures", "why", "which"], rows))
}

/// How the sweep was asked for and how long its phases took.
pub(super) fn course(view: &View) -> Section {
    let sweep = view.sweep;
    let header = &sweep.header;
    let mut pairs = vec![
        ("sweep", header.id.clone()),
        ("started (UTC)", header.started.replace('T', " ").trim_end_matches('Z').to_owned()),
        ("plumb at rank 0", header.plumb.clone()),
        ("started by", header.starter.clone()),
    ];
    pairs.extend(header.asked());
    pairs.push(("seed", header.seed.to_string()));
    let name = |name: &str| if name == "steps" { "steps of pairs" } else { name }.to_owned();
    let pairs = pairs.into_iter().map(|(of, text)| (name(of), text)).collect();
    let mut rows = Vec::new();
    for begun in sweep.phases.iter().filter(|phase| !phase.ended) {
        let ended = sweep.phases.iter().filter(|other| other.ended && other.phase == begun.phase);
        let ended = ended.map(|other| other.at_s).find(|at| *at >= begun.at_s);
        let took = ended.map(|at| duration(at - begun.at_s));
        rows.push(Row::always_shown(vec![
            Cell::plain(text(&begun.phase)),
            Cell::plain(duration(begun.at_s)),
            took.map_or_else(|| Cell::toned("not ended", Tone::Warn), Cell::plain),
        ]));
    }
    let table = Table::new("Phases", &["phase", "#began after", "#took"], rows);
    let mut blocks = vec![Block::KeyValues(pairs).for_all()];
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table).for_all());
    }
    blocks.extend(clocks(sweep).map(|text| Block::text(text).for_all()));
    Section::new("sweep", "The sweep", blocks)
}

/// Distance between wall clocks that is worth a word, in seconds.
const CLOCKS_APART_S: f64 = 5.0;

fn clocks(sweep: &Sweep) -> Option<String> {
    let off: Vec<String> = sweep
        .nodes
        .values()
        .filter(|node| node.clock_offset_s.abs() > CLOCKS_APART_S)
        .map(|node| format!("{} by {}", node.name, duration(node.clock_offset_s.abs())))
        .collect();
    (!off.is_empty()).then(|| {
        format!(
            "Wall clocks differ from that of rank 0: {}. Figures do not depend on them.",
            listed(&off)
        )
    })
}
