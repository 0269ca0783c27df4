//! The answer, first: which nodes and links are worse than their peers, in what, by how much, how sure
//! that is, and what to do.

use super::missing::{clocks, lost, unreached};
use super::{SHOWN, View, pair, value};
use crate::model::{Role, Seen, State, Verdict, Which, is_small};
use crate::names::{counted, duration, listed, percent, sizes, span, times, which_name, worse};
use analysis::findings::Severity;
use analysis::gather::gathered;
use record::metric::Kind;
use record::order::InOrder;
use record::shown::shown;
use report::document::{Block, Cell, Remark, Row, Section, Table, Tone};
use stats::quantile::median;
use std::collections::BTreeSet;

/// Nodes and links that get advice of their own.
const ADVISED: usize = 8;

/// A node or link with its verdicts, the most certain first.
pub(super) type Found<'view> = (Which, Vec<&'view Verdict>);

/// `Fleet sweep 2026-11-26T21:00:00Z: 23 of 24 nodes, quick, slurm, 4 min 1 s`.
pub(super) fn title(view: &View) -> String {
    let header = view.fleet.header();
    let ends: Vec<f64> =
        view.fleet.nodes.iter().filter_map(|node| Some(node.end.as_ref()?.wall_s)).collect();
    let took = ends.iter().copied().max_by(f64::total_cmp);
    let took = took.map_or_else(|| "not ended".to_owned(), duration);
    let size = counted(header.size as usize, "node");
    let (started, preset, starter) = (&header.started, &header.preset, &header.starter);
    format!("Fleet sweep {started}: {} of {size}, {preset}, {starter}, {took}", ends.len())
}

pub(super) fn summary(view: &View) -> String {
    let first = &view.judgement.first;
    let subjects: BTreeSet<_> = first.fields.iter().map(|field| field.subject).collect();
    let alone = subjects.iter().filter(|subject| subject.role == Role::Alone).count();
    let steps = match view.fleet.steps.len() {
        0 => "not repeated".to_owned(),
        count => format!("suspects repeated in {}", counted(count, "step")),
    };
    format!(
        "{} of each node alone and {} of pairs, compared between nodes with the same hardware and \
         kernel; {steps}.",
        counted(alone, "figure"),
        counted(first.fits.len(), "figure")
    )
}

pub(super) fn section(view: &View) -> Section {
    let found = by_place(view);
    let mut head = vec![pair("VERDICT", verdict(view, &found))];
    let below = view.judgement.below.iter().map(|below| {
        let about = view.about(below.figure);
        format!(
            "{}: {} is {} than predicted ({}, predicted {})",
            view.judgement.first.strata[below.stratum].name,
            view.titles.key(&about.key),
            times(below.factor, worse(about.unit, about.better)),
            shown(below.value, None, about.unit).value,
            span(below.predicted, about.unit),
        )
    });
    head.extend(named("BELOW PREDICTION", &below.collect::<Vec<String>>()));
    let mut blocks = vec![Block::KeyValues(head).for_all()];
    if !found.is_empty() {
        blocks.push(Block::Table(table(view, &found)).for_all());
        blocks.push(Block::Notes(advice(view, &found)).for_all());
    }
    blocks.push(Block::KeyValues(foot(view, &found)).for_all());
    Section::new("findings", "The answer", blocks)
}

fn named(name: &str, said: &[String]) -> Option<(String, String)> {
    (!said.is_empty()).then(|| pair(name, listed(said)))
}

/// The verdicts that are not cleared on each node and link, the most certain first.
pub(super) fn by_place<'view>(view: &'view View) -> Vec<Found<'view>> {
    let found = view.judgement.verdicts.iter().filter(|verdict| verdict.state != State::Cleared);
    gathered(found.map(|verdict| (verdict.which, verdict)))
}

/// What is accused, counted: `1 node is slower than its peers; 1 link is degraded`.
fn verdict(view: &View, found: &[Found]) -> String {
    let count = |state: State, is_kind: fn(&Which) -> bool| {
        found.iter().filter(|(at, all)| all[0].state == state && is_kind(at)).count()
    };
    let nodes = count(State::Accused, |at| matches!(at, Which::Node(_)));
    let links = count(State::Accused, |at| matches!(at, Which::Link(..)));
    let suspects = count(State::Suspect, |_| true);
    let is = |count: usize, what: &str| {
        format!("{} {}", counted(count, what), if count == 1 { "is" } else { "are" })
    };
    let peers = if nodes == 1 { "its" } else { "their" };
    let lost = lost(view.fleet).len();
    let is_compared = view.judgement.first.fields.iter().any(|field| field.is_compared());
    let none = match is_compared {
        true => "no node and no link is worse than its peers",
        false => "none: no node has five peers with the same hardware to be compared with",
    };
    let parts = [
        (usize::from(found.is_empty()), none.to_owned()),
        (nodes, format!("{} slower than {peers} peers", is(nodes, "node"))),
        (links, format!("{} degraded", is(links, "link"))),
        (suspects, format!("{} not confirmed", is(suspects, "suspect"))),
        (lost, format!("{} lost", counted(lost, "host"))),
    ];
    let said = parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text);
    said.collect::<Vec<String>>().join("; ")
}

/// A row for each node or link: its most certain verdict, and how many there are.
fn table(view: &View, found: &[Found]) -> Table {
    let row = |(place, (which, all)): (usize, &Found)| {
        let first = all[0];
        let about = view.about(first.subject.figure);
        let more = match all.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let tone = if first.state == State::Accused { Tone::Bad } else { Tone::Warn };
        let cells = vec![
            Cell::plain(which_name(view.fleet, *which)),
            Cell::toned(state(first), tone),
            Cell::plain(format!("{}{more}", view.subject(first.subject))),
            Cell::toned(times(first.factor, worse(about.unit, about.better)), tone),
            Cell::plain(sizes(first.interval)),
            value(about, first.value),
            value(about, first.peers),
            Cell::plain(match first.steps {
                0 => "not measured again".to_owned(),
                steps => format!("again {steps}×"),
            }),
        ];
        Row { cells, is_spare: place >= SHOWN }
    };
    let headings =
        ["which", "is", "in", "#by", "#95 % interval", "#measured", "#peers", "how sure"];
    Table::new("", &headings, found.iter().enumerate().map(row))
}

pub(super) fn state(verdict: &Verdict) -> &'static str {
    match (verdict.state, verdict.which) {
        (State::Accused, Which::Node(_)) => "slower",
        (State::Accused, Which::Link(..)) => "degraded link",
        (State::Suspect, _) => "suspect",
        (State::Cleared, _) => "cleared",
    }
}

/// What to look at, by the start of the experiment's name; the last one begins every name.
const ADVICE: [(&str, &str); 7] = [
    (
        "memory.",
        "Check that all its memory modules are present and run at their rated speed, and look for corrected errors",
    ),
    ("cpu.", ADVICE_CORE),
    ("clock.", ADVICE_CORE),
    ("fs.", "Check the health and free space of its disk, and the mount options"),
    ("net.", "Check its network card: link rate, PCIe width, error counters (`ethtool -S`)"),
    ("noise.", "Look for services, timers and interrupts that run only there"),
    ("", "Look for other kernel settings, mitigations and programs than its peers have"),
];
const ADVICE_CORE: &str = "Check its power limit, cooling and frequency governor; `plumb doctor` there names what limits it";
const ADVICE_LINK: &str = "Check cable, transceiver and switch port of the path, and their counters for errors and dropped packets";
const ADVICE_SUSPECT: &str =
    "Not confirmed: measure again with `plumb fleet suspects` before you open the machine";

fn advice(view: &View, found: &[Found]) -> Vec<Remark> {
    let what_to_do = |(which, all): &Found| match (all[0].state, which) {
        (State::Suspect, _) => ADVICE_SUSPECT,
        (_, Which::Link(..)) => ADVICE_LINK,
        (_, Which::Node(_)) => {
            let experiment = &view.about(all[0].subject.figure).key.experiment;
            let advice = ADVICE.iter().find(|(start, _)| experiment.starts_with(start));
            advice.map_or("", |(_, text)| text)
        }
    };
    let texts = gathered(found.iter().map(|one| (what_to_do(one), one)));
    let notes = texts.into_iter().take(ADVISED).map(|(text, all)| {
        let is_note = text == ADVICE_SUSPECT;
        let severity = if is_note { Severity::Note } else { Severity::Warning };
        let names: Vec<String> =
            all.iter().map(|(which, _)| which_name(view.fleet, *which)).collect();
        Remark::new(severity, listed(&names), format!("{text}."))
    });
    notes.collect()
}

/// What could not be seen, and what is missing.
fn foot(view: &View, found: &[Found]) -> Vec<(String, String)> {
    let open: BTreeSet<Which> = found.iter().map(|(which, _)| *which).collect();
    let cleared = view.judgement.in_state(State::Cleared).map(|verdict| verdict.which);
    let cleared: BTreeSet<Which> = cleared.filter(|which| !open.contains(which)).collect();
    let cleared: Vec<String> =
        cleared.into_iter().map(|which| which_name(view.fleet, which)).collect();
    let lost = lost(view.fleet).into_iter().map(|(host, why)| format!("{host}: {why}"));
    let unreached = unreached(view.fleet).into_iter();
    let unreached =
        unreached.map(|(host, slots)| format!("{host}: no partner in {}", counted(slots, "slot")));
    let mut pairs = vec![pair("CANNOT SEE", cannot_see(view))];
    let well = |(name, text)| (name, text + ": stood out once, measured again and found well");
    pairs.extend(named("CLEARED", &cleared).map(well));
    pairs.extend(named("LOST", &lost.collect::<Vec<String>>()));
    pairs.extend(named("UNREACHED", &unreached.collect::<Vec<String>>()));
    pairs.extend(named("CLOCK", &clocks(view.fleet)));
    pairs
}

/// `nodes less than 6.1 % (hardware), 18 % (os) worse than their peers; 10 % in 2 of 16 hardware figures:
/// cpu.linpack: 1000 (from 13 %); paths at half the rate in 1 of 2 figures of pairs: …`.
fn cannot_see(view: &View) -> String {
    let seen = &view.judgement.seen;
    let least = |kind: Kind| {
        let nodes = seen.iter().filter(|seen| seen.kind == kind && !seen.is_link());
        let factors: Vec<f64> = nodes.map(|seen| seen.factor).collect();
        Some(format!("{} ({})", percent(median(&factors)? - 1.0), kind.text()))
    };
    let least: Vec<String> =
        [Kind::Hardware, Kind::Os, Kind::Io].into_iter().filter_map(least).collect();
    let mut text = match least.is_empty() {
        true => "differences between nodes: too few are alike".to_owned(),
        false => format!("nodes less than {} worse than their peers", least.join(", ")),
    };
    for (what, is_link, kind) in
        [("10 %", false, "hardware figures"), ("paths at half the rate", true, "figures of pairs")]
    {
        let sought = seen.iter().filter(|seen| seen.is_link() == is_link && seen.is_sought());
        let (mut hidden, clear): (Vec<&Seen>, Vec<&Seen>) = sought.partition(|seen| seen.hides());
        hidden.order_by(|a, b| b.factor.total_cmp(&a.factor));
        let name = |seen: &&Seen| {
            format!("{} (from {})", view.subject(seen.subject), percent(seen.factor - 1.0))
        };
        let names: Vec<String> = hidden.iter().map(name).collect();
        let all = hidden.len() + clear.len();
        if !names.is_empty() && !least.is_empty() {
            text += &format!("; {what} in {} of {all} {kind}: {}", names.len(), listed(&names));
        }
    }
    let small = view.judgement.first.strata.iter().filter(|stratum| is_small(stratum));
    match small.map(|stratum| stratum.nodes.len()).sum::<usize>() {
        0 => text,
        count => {
            format!("{text}. Not accused: {} with fewer than five peers", counted(count, "node"))
        }
    }
}
