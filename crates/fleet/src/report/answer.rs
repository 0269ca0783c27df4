//! The answer, first: which nodes and links are worse than their peers, in what, by how much, how sure
//! that is, and what to do.

use super::View;
use super::missing::{clocks, lost, unreached};
use crate::model::{Role, Seen, State, Verdict, Which};
use crate::names::{counted, duration, listed, percent, size, span, times, which_name, worse};
use analysis::findings::Severity;
use analysis::gather::gathered;
use record::metric::Kind;
use record::order::InOrder;
use record::shown::shown;
use report::document::{Block, Cell, Remark, Row, Section, Table, Tone};
use stats::quantile::median;
use std::collections::BTreeSet;

/// Accused nodes and links that are shown where room is short.
const SHOWN: usize = 20;
/// Nodes and links that get advice of their own.
const ADVISED: usize = 8;
/// Figures that are named as worse than predicted.
const BELOW_SHOWN: usize = 6;

/// `Fleet sweep 2026-11-26T21:00:00Z: 23 of 24 nodes, quick, slurm, 4 min 1 s`.
pub(super) fn title(view: &View) -> String {
    let header = view.fleet.header();
    let ended = view.fleet.nodes.iter().filter_map(|node| node.end.as_ref());
    let took = ended.map(|end| end.wall_s).max_by(f64::total_cmp);
    let took =
        took.map_or_else(|| ", not ended".to_owned(), |took| format!(", {}", duration(took)));
    let whole = view.fleet.nodes.iter().filter(|node| node.end.is_some()).count();
    format!(
        "Fleet sweep {}: {whole} of {}, {}, {}{took}",
        header.started,
        counted(header.size as usize, "node"),
        header.preset,
        header.starter
    )
}

/// What was compared, in a sentence.
pub(super) fn summary(view: &View) -> String {
    let subjects: BTreeSet<_> =
        view.judgement.first.fields.iter().map(|field| field.subject).collect();
    let alone = subjects.iter().filter(|subject| subject.role == Role::Alone).count();
    let steps = match view.fleet.steps.len() {
        0 => "not repeated".to_owned(),
        count => format!("suspects repeated in {}", counted(count, "step")),
    };
    format!(
        "{} of each node alone and {} of pairs, compared between nodes with the same hardware and \
         kernel; {steps}.",
        counted(alone, "figure"),
        counted(view.judgement.first.fits.len(), "figure")
    )
}

pub(super) fn section(view: &View) -> Section {
    let mut blocks = vec![Block::KeyValues(head(view)).for_all()];
    let found = by_place(view);
    if !found.is_empty() {
        blocks.push(Block::Table(table(view, &found)).for_all());
        blocks.push(Block::Notes(advice(view, &found)).for_all());
    }
    blocks.push(Block::KeyValues(foot(view)).for_all());
    Section::new("findings", "The answer", blocks)
}

/// The verdicts that are not cleared on each node and link, the most certain first.
pub(super) fn by_place<'view>(view: &'view View) -> Vec<(Which, Vec<&'view Verdict>)> {
    let found = view.judgement.verdicts.iter().filter(|verdict| verdict.state != State::Cleared);
    gathered(found.map(|verdict| (verdict.which, verdict)))
}

/// What is accused, counted: `1 node is slower than its peers; 1 link is degraded`.
fn verdict(view: &View) -> String {
    let found = by_place(view);
    let count = |state: State, is_link: bool| {
        let is_it = |(at, own): &&(Which, Vec<&Verdict>)| {
            own[0].state == state && matches!(at, Which::Link(..)) == is_link
        };
        found.iter().filter(is_it).count()
    };
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let nodes = count(State::Accused, false);
    let links = count(State::Accused, true);
    let suspects = count(State::Suspect, false) + count(State::Suspect, true);
    let lost = lost(view.fleet).len();
    let peers = if nodes == 1 { "its" } else { "their" };
    let parts = [
        (nodes, format!("{} {} slower than {peers} peers", counted(nodes, "node"), is(nodes))),
        (links, format!("{} {} degraded", counted(links, "link"), is(links))),
        (suspects, format!("{} {} not confirmed", counted(suspects, "suspect"), is(suspects))),
        (lost, format!("{} lost", counted(lost, "host"))),
    ];
    let mut said: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    if found.is_empty() {
        said.insert(0, nothing(view).to_owned());
    }
    said.join("; ")
}

/// Without findings: whether there was anything to find.
fn nothing(view: &View) -> &'static str {
    match view.judgement.first.fields.iter().any(|field| field.is_compared()) {
        true => "no node and no link is worse than its peers",
        false => "none: no node has five peers with the same hardware to be compared with",
    }
}

fn head(view: &View) -> Vec<(String, String)> {
    let mut pairs = vec![("VERDICT".to_owned(), verdict(view))];
    let below = &view.judgement.below;
    let mut named: Vec<String> = below
        .iter()
        .take(BELOW_SHOWN)
        .map(|below| {
            let about = &view.fleet.figures[below.figure];
            format!(
                "{}: {} is {} than predicted ({}, predicted {})",
                view.judgement.strata()[below.stratum].name,
                view.titles.key(&about.key),
                times(below.factor, worse(about.unit, about.better)),
                shown(below.value, None, about.unit).value,
                span(below.predicted, about.unit),
            )
        })
        .collect();
    if below.len() > named.len() {
        named.push(format!("{} more", below.len() - named.len()));
    }
    if !named.is_empty() {
        pairs.push(("BELOW PREDICTION".to_owned(), named.join("; ")));
    }
    pairs
}

/// A row for each node or link: its most certain verdict, and how many there are.
fn table(view: &View, found: &[(Which, Vec<&Verdict>)]) -> Table {
    let row = |(place, (which, own)): (usize, &(Which, Vec<&Verdict>))| {
        let first = own[0];
        let about = &view.fleet.figures[first.subject.figure];
        let more =
            if own.len() > 1 { format!(" and {} more", own.len() - 1) } else { String::new() };
        let (low, high) = first.interval;
        let value = |value: f64| Cell::plain(shown(value, None, about.unit).value);
        let cells = vec![
            Cell::plain(which_name(view.fleet, *which)),
            Cell::toned(state(*which, first), tone(first)),
            Cell::plain(format!("{}{more}", view.subject(first.subject))),
            Cell::toned(times(first.factor, worse(about.unit, about.better)), tone(first)),
            Cell::plain(format!("{}–{}", size(low), size(high))),
            value(first.value),
            value(first.peers),
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

pub(super) fn state(at: Which, verdict: &Verdict) -> &'static str {
    match (verdict.state, at) {
        (State::Accused, Which::Node(_)) => "slower",
        (State::Accused, Which::Link(..)) => "degraded link",
        (State::Suspect, _) => "suspect",
        (State::Cleared, _) => "cleared",
    }
}

fn tone(verdict: &Verdict) -> Tone {
    match verdict.state {
        State::Accused => Tone::Bad,
        State::Suspect | State::Cleared => Tone::Warn,
    }
}

/// What to look at, by the start of the experiment's name.
const ADVICE: [(&str, &str); 6] = [
    (
        "memory.",
        "Check that all its memory modules are present and run at their rated speed, and look for corrected errors",
    ),
    (
        "cpu.",
        "Check its power limit, cooling and frequency governor; `plumb doctor` there names what limits it",
    ),
    (
        "clock.",
        "Check its power limit, cooling and frequency governor; `plumb doctor` there names what limits it",
    ),
    ("fs.", "Check the health and free space of its disk, and the mount options"),
    ("net.", "Check its network card: link rate, PCIe width, error counters (`ethtool -S`)"),
    ("noise.", "Look for services, timers and interrupts that run only there"),
];
const ADVICE_ELSE: &str =
    "Look for other kernel settings, mitigations and programs than its peers have";
const ADVICE_LINK: &str = "Check cable, transceiver and switch port of the path, and their counters for errors and dropped packets";
const ADVICE_SUSPECT: &str =
    "Not confirmed: measure again with `plumb fleet suspects` before you open the machine";

fn advice(view: &View, found: &[(Which, Vec<&Verdict>)]) -> Vec<Remark> {
    let texts = gathered(found.iter().map(|one| (what_to_do(view, one), one)));
    let notes = texts.into_iter().take(ADVISED).map(|(text, all)| {
        let is_bad = all.iter().any(|(_, own)| own[0].state == State::Accused);
        let severity = if is_bad { Severity::Warning } else { Severity::Note };
        let names: Vec<String> =
            all.iter().map(|(which, _)| which_name(view.fleet, *which)).collect();
        Remark::new(severity, listed(&names), format!("{text}."))
    });
    notes.collect()
}

fn what_to_do(view: &View, (at, own): &(Which, Vec<&Verdict>)) -> &'static str {
    match (own[0].state, at) {
        (State::Suspect, _) => ADVICE_SUSPECT,
        (_, Which::Link(..)) => ADVICE_LINK,
        (_, Which::Node(_)) => {
            let experiment = &view.fleet.figures[own[0].subject.figure].key.experiment;
            let own = |(start, _): &&(&str, &str)| experiment.starts_with(start);
            ADVICE.iter().find(own).map_or(ADVICE_ELSE, |(_, text)| text)
        }
    }
}

/// What could not be seen, and what is missing.
fn foot(view: &View) -> Vec<(String, String)> {
    let mut pairs = vec![("CANNOT SEE".to_owned(), cannot_see(view))];
    let named = |verdict: &Verdict| which_name(view.fleet, verdict.which);
    let open: BTreeSet<String> =
        by_place(view).iter().map(|(which, _)| which_name(view.fleet, *which)).collect();
    let cleared: BTreeSet<String> = view.judgement.in_state(State::Cleared).map(named).collect();
    let cleared: Vec<&String> = cleared.difference(&open).collect();
    if !cleared.is_empty() {
        let text = format!("{}: stood out once, measured again and found well", listed(&cleared));
        pairs.push(("CLEARED".to_owned(), text));
    }
    let lost = lost(view.fleet);
    if !lost.is_empty() {
        let said: Vec<String> = lost.iter().map(|(host, why)| format!("{host}: {why}")).collect();
        pairs.push(("LOST".to_owned(), listed(&said)));
    }
    let unreached = unreached(view.fleet);
    if !unreached.is_empty() {
        let said = |(host, slots): &(String, usize)| {
            format!("{host}: no partner in {}", counted(*slots, "slot"))
        };
        let said: Vec<String> = unreached.iter().map(said).collect();
        pairs.push(("UNREACHED".to_owned(), listed(&said)));
    }
    let clocks = clocks(view.fleet);
    if !clocks.is_empty() {
        pairs.push(("CLOCK".to_owned(), listed(&clocks)));
    }
    pairs
}

/// `nodes less than 6.1 % (hardware), 18 % (os) worse than their peers; 10 % in 2 of 16 hardware figures:
/// cpu.linpack: 1000 (from 13 %); paths at half the rate in 1 of 2 figures of pairs: …`.
fn cannot_see(view: &View) -> String {
    let seen = &view.judgement.seen;
    let least = |kind: Kind| {
        let factors: Vec<f64> = seen
            .iter()
            .filter(|seen| seen.kind == kind && seen.stratum.is_some())
            .map(|seen| seen.factor)
            .collect();
        Some(format!("{} ({})", percent(median(&factors)? - 1.0), kind.text()))
    };
    let said: Vec<String> =
        [Kind::Hardware, Kind::Os, Kind::Io].into_iter().filter_map(least).collect();
    let hidden = |is_link: bool| {
        let mut hidden: Vec<_> =
            seen.iter().filter(|seen| seen.hides() && seen.stratum.is_none() == is_link).collect();
        hidden.order_by(|a, b| b.factor.total_cmp(&a.factor));
        let names = hidden.iter().map(|seen| {
            format!("{} (from {})", view.subject(seen.subject), percent(seen.factor - 1.0))
        });
        names.collect::<Vec<String>>()
    };
    let count = |is_link: bool| {
        let is_it = |seen: &&Seen| {
            seen.stratum.is_none() == is_link && (is_link || seen.kind == Kind::Hardware)
        };
        seen.iter().filter(is_it).count()
    };
    let hides = |what: &str, is_link: bool, of: &str| match hidden(is_link) {
        names if names.is_empty() => String::new(),
        names => {
            format!("; {what} in {} of {} {of}: {}", names.len(), count(is_link), listed(&names))
        }
    };
    let text = match said.is_empty() {
        true => "differences between nodes: too few are alike".to_owned(),
        false => format!(
            "nodes less than {} worse than their peers{}{}",
            said.join(", "),
            hides("10 %", false, "hardware figures"),
            hides("paths at half the rate", true, "figures of pairs")
        ),
    };
    let small = view.judgement.strata().iter().filter(|stratum| super::nodes::is_small(stratum));
    match small.map(|stratum| stratum.nodes.len()).sum::<usize>() {
        0 => text,
        count => {
            format!("{text}. Not accused: {} with fewer than five peers", counted(count, "node"))
        }
    }
}
