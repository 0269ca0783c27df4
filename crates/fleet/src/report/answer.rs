//! The answer, first: which nodes and links are worse than their peers, in what, by how much, how sure
//! that is, and what to do.

use super::View;
use super::missing::lost;
use super::names::{self, at, counted, duration, listed, node, percent, size, span, times, worse};
use crate::model::{At, Below, Charge, Detectable, Verdict};
use analysis::findings::Severity;
use analysis::gather::gathered;
use record::key::Key;
use record::metric::Kind;
use record::order::{Gather, InOrder};
use record::shown::shown;
use report::document::{Block, Cell, Row, Section, Table, Tone};
use std::collections::BTreeSet;

/// Accused nodes and links that are shown where room is short.
const SHOWN: usize = 20;
/// Nodes and links that get advice of their own.
const ADVISED: usize = 8;
/// Places of a stratum that are named as worse than predicted.
const BELOW_SHOWN: usize = 6;

/// `Sweep 2026-11-26T21-00: 23 of 24 nodes, quick, slurm, 4 min 1 s`.
pub(super) fn title(view: &View) -> String {
    let sweep = view.sweep;
    let header = &sweep.header;
    let took = sweep.end.as_ref().map_or_else(
        || ", not ended".to_owned(),
        |end| match end.interrupted {
            true => format!(", interrupted after {}", duration(end.wall_s)),
            false => format!(", {}", duration(end.wall_s)),
        },
    );
    // A node that never joined is lost and not among the nodes.
    let lost: BTreeSet<u32> = lost(sweep).iter().map(|absent| absent.rank).gather();
    let whole = sweep.nodes.keys().filter(|rank| !lost.contains(rank)).count();
    format!(
        "Fleet sweep {}: {whole} of {}, {}, {}{took}",
        header.id.strip_prefix("sweep-").unwrap_or(&header.id),
        counted(header.size as usize, "node"),
        header.preset,
        header.starter
    )
}

/// What was compared, in a sentence.
pub(super) fn summary(view: &View) -> String {
    let alone: BTreeSet<&Key> = view.sweep.figures.iter().map(|figure| &figure.key).gather();
    let pairs: BTreeSet<&Key> = view.sweep.pairs.iter().map(|pair| &pair.key).gather();
    format!(
        "{} of each node alone and {} of each pair, compared between nodes with the same hardware and \
         kernel.",
        counted(alone.len(), "figure"),
        counted(pairs.len(), "figure")
    )
}

pub(super) fn section(view: &View) -> Section {
    let mut blocks = vec![Block::KeyValues(head(view)).for_all()];
    let accused = by_place(view);
    if !accused.is_empty() {
        blocks.push(Block::Table(table(view, &accused)).for_all());
        blocks.push(Block::Notes(advice(view, &accused)).for_all());
    }
    blocks.push(Block::KeyValues(foot(view)).for_all());
    Section::new("findings", "The answer", blocks)
}

/// The verdicts on each node and link, the most certain first.
pub(super) fn by_place<'view>(view: &'view View) -> Vec<(At, Vec<&'view Verdict>)> {
    gathered(view.judgement.verdicts.iter().map(|verdict| (verdict.at, verdict)))
}

/// What is accused, counted: `1 node is slower than its peers; 1 link is degraded`.
fn verdict(view: &View) -> String {
    let accused = by_place(view);
    let count = |of: Charge| accused.iter().filter(|(_, own)| own[0].charge == of).count();
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let nodes = |count: usize, what: &str| {
        let peers = if count == 1 { "its" } else { "their" };
        (count, format!("{} {} {what} than {peers} peers", counted(count, "node"), is(count)))
    };
    let (links, suspects) = (count(Charge::DegradedLink), count(Charge::Suspect));
    let lost = lost(view.sweep).len();
    let parts = [
        nodes(count(Charge::Slower), "slower"),
        nodes(count(Charge::Unstable), "less stable"),
        (links, format!("{} {} degraded", counted(links, "link"), is(links))),
        (suspects, format!("{} not confirmed", counted(suspects, "suspect"))),
        (lost, format!("{} lost", counted(lost, "node"))),
    ];
    let mut said: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    if accused.is_empty() {
        said.insert(0, nothing(view).to_owned());
    }
    said.join("; ")
}

/// Without findings: whether there was anything to find.
fn nothing(view: &View) -> &'static str {
    match view.judgement.standings.iter().any(|standing| standing.z.is_some()) {
        true => "no node and no link is worse than its peers",
        false => "none: no node has five peers with the same hardware to be compared with",
    }
}

fn head(view: &View) -> Vec<(String, String)> {
    let mut pairs = vec![("VERDICT".to_owned(), verdict(view))];
    if view.sweep.header.simulated {
        let text = "the figures are drawn, not measured: a rehearsal of the sweep itself";
        pairs.push(("NOT MEASURED".to_owned(), text.to_owned()));
    }
    let below: Vec<String> =
        view.judgement.below.iter().take(BELOW_SHOWN).map(|below| predicted(view, below)).collect();
    if !below.is_empty() {
        let more = match view.judgement.below.len() - below.len() {
            0 => String::new(),
            more => format!("; {more} more"),
        };
        pairs.push(("BELOW PREDICTION".to_owned(), format!("{}{more}", below.join("; "))));
    }
    pairs
}

/// `all 16 nodes of AMD EPYC 7713: memory.bandwidth: DRAM read, all is 1.3× slower than predicted`.
fn predicted(view: &View, below: &Below) -> String {
    let named = match (below.is_whole, view.judgement.strata.get(below.stratum)) {
        (true, Some(stratum)) => {
            format!("{} ({})", counted(below.nodes, "node"), names::stratum(stratum))
        }
        _ => names::nodes(view.sweep, &below.ranks),
    };
    format!(
        "{named}: {} is {} than predicted ({}, predicted {})",
        view.titles.key(&below.key),
        times(below.factor, worse(below.unit, below.better)),
        shown(below.value, None, below.unit).value,
        span(below.predicted, below.unit),
    )
}

/// A row for each node or link: its most certain verdict, and how many there are.
fn table(view: &View, accused: &[(At, Vec<&Verdict>)]) -> Table {
    let row = |(place, (at_, own)): (usize, &(At, Vec<&Verdict>))| {
        let first = own[0];
        let more = match own.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let cells = vec![
            Cell::plain(at(view.sweep, *at_)),
            Cell::toned(charge(first.charge), tone(first.charge)),
            Cell::plain(format!("{}{more}", figure(view, first))),
            Cell::toned(by(first), tone(first.charge)),
            Cell::plain(interval(first)),
            Cell::plain(value(first, first.evidence.value)),
            Cell::plain(value(first, first.evidence.peers_median)),
            sure(view, first, false),
        ];
        Row { cells, is_spare: place >= SHOWN }
    };
    let headings =
        ["which", "is", "in", "#by", "#95 % interval", "#measured", "#peers", "how sure"];
    Table::new("", &headings, accused.iter().enumerate().map(row))
}

pub(super) fn charge(charge: Charge) -> &'static str {
    match charge {
        Charge::Slower => "slower",
        Charge::Unstable => "unstable",
        Charge::DegradedLink => "degraded link",
        Charge::Suspect => "suspect",
    }
}

pub(super) fn tone(charge: Charge) -> Tone {
    match charge {
        Charge::Slower | Charge::DegradedLink => Tone::Bad,
        Charge::Unstable | Charge::Suspect => Tone::Warn,
    }
}

pub(super) fn figure(view: &View, verdict: &Verdict) -> String {
    let end = match verdict.at {
        At::Node(_) => names::role(verdict.subject.role),
        At::Link(..) => "",
    };
    format!("{}{end}", view.titles.key(&verdict.subject.key))
}

/// `1.41× slower`.
pub(super) fn by(verdict: &Verdict) -> String {
    match verdict.subject.is_scatter {
        true => times(verdict.factor, "the scatter"),
        false => times(verdict.factor, worse(verdict.subject.unit, verdict.subject.better)),
    }
}

pub(super) fn interval(verdict: &Verdict) -> String {
    let (low, high) = verdict.interval;
    format!("{}–{}", size(low), size(high))
}

/// A value of the evidence; of scatter a share.
pub(super) fn value(verdict: &Verdict, value: f64) -> String {
    match verdict.subject.is_scatter {
        true => format!("± {}", percent(value)),
        false => shown(value, None, verdict.subject.unit).value,
    }
}

/// Whether it was measured again, and with how many others, or with which.
pub(super) fn sure(view: &View, verdict: &Verdict, by_name: bool) -> Cell {
    let partners: BTreeSet<u32> = verdict.evidence.partners.iter().copied().gather();
    let names = || partners.iter().map(|rank| node(view.sweep, *rank)).collect::<Vec<String>>();
    let with = match partners.len() {
        0 => String::new(),
        _ if by_name => format!(", with {}", listed(&names())),
        many => format!(", {}", counted(many, "partner")),
    };
    let again = match verdict.evidence.repetitions {
        0 => "not measured again".to_owned(),
        times => format!("again {times}×{with}"),
    };
    match verdict.charge {
        Charge::Suspect => Cell::toned(format!("not confirmed: {again}"), Tone::Warn),
        _ => Cell::plain(format!("confirmed: {again}")),
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
const ADVICE_UNSTABLE: &str =
    "Look for other programs and for throttling; `plumb doctor` there names both";
const ADVICE_SUSPECT: &str = "Not confirmed: measure it again before you open the machine (`plumb fleet resume`, or another sweep)";

fn advice(view: &View, accused: &[(At, Vec<&Verdict>)]) -> Vec<(Severity, String)> {
    let texts = gathered(accused.iter().map(|one| (what_to_do(one.0, one.1[0]), one)));
    let notes = texts.into_iter().take(ADVISED).map(|(text, all)| {
        let is_bad = all.iter().any(|(_, own)| tone(own[0].charge) == Tone::Bad);
        let severity = if is_bad { Severity::Warning } else { Severity::Note };
        let names: Vec<String> = all.iter().map(|(at_, _)| at(view.sweep, *at_)).collect();
        (severity, format!("{}: {text}.{}", listed(&names), beside(view, &names)))
    });
    notes.collect()
}

fn what_to_do(at: At, verdict: &Verdict) -> &'static str {
    match (verdict.charge, at) {
        (Charge::Suspect, _) => ADVICE_SUSPECT,
        _ if verdict.subject.is_scatter => ADVICE_UNSTABLE,
        (_, At::Link(..)) => ADVICE_LINK,
        (_, At::Node(_)) => {
            let own =
                |(start, _): &&(&str, &str)| verdict.subject.key.experiment.starts_with(start);
            ADVICE.iter().find(own).map_or(ADVICE_ELSE, |(_, text)| text)
        }
    }
}

/// Where the only node's own record is.
fn beside(view: &View, names: &[String]) -> String {
    let [name] = names else { return String::new() };
    let own = view.sweep.nodes.values().find(|node| node.name == *name);
    own.and_then(|node| node.record.as_ref())
        .map_or_else(String::new, |record| format!(" Its own record: {record}."))
}

/// What could not be seen, and what is missing.
fn foot(view: &View) -> Vec<(String, String)> {
    let mut pairs = vec![("CANNOT SEE".to_owned(), cannot_see(view))];
    let cleared = &view.judgement.cleared;
    if !cleared.is_empty() {
        let places: Vec<String> = cleared.iter().map(|(of, _)| at(view.sweep, *of)).collect();
        let mut places: Vec<&str> = places.iter().map(String::as_str).collect();
        places.dedup();
        let text = format!("{}: stood out once, measured again and found well", listed(&places));
        pairs.push(("CLEARED".to_owned(), text));
    }
    let lost = lost(view.sweep);
    if !lost.is_empty() {
        let said: Vec<String> = lost
            .iter()
            .map(|absent| format!("{}: {}", node(view.sweep, absent.rank), absent.why))
            .collect();
        pairs.push(("LOST".to_owned(), listed(&said)));
    }
    pairs
}

/// `nodes less than 3.1 % (hardware), 12 % (os) worse than their peers; 10 % in 2 of 16 hardware figures:
/// cpu.linpack: 1000 (from 13 %); paths at half the rate in 1 of 2 figures of pairs: …`.
fn cannot_see(view: &View) -> String {
    let judgement = &view.judgement;
    let least = super::nodes::least_seen(view);
    let kinds = [Kind::Hardware, Kind::Os, Kind::Io].map(Kind::text).into_iter();
    let said: Vec<String> =
        kinds.filter_map(|kind| Some(format!("{} ({kind})", percent(*least.get(kind)?)))).collect();
    let named = |subject: usize, from: String| format!("{} (from {from})", view.subject(subject));
    // The noisiest first.
    let is_hardware = |of: &&Detectable| of.kind == Kind::Hardware;
    let hardware: Vec<&Detectable> = judgement.detectable.iter().filter(is_hardware).collect();
    let mut noisy = hardware.clone();
    noisy.retain(|of| 0.9 * of.factor > 1.0);
    noisy.order_by(|a, b| b.factor.total_cmp(&a.factor));
    let noisy = noisy.iter().map(|of| named(of.subject, percent(of.factor - 1.0)));
    let links = &judgement.detectable_links;
    let hidden = links.iter().filter(|of| of.factor > 2.0);
    let hidden = hidden.map(|of| named(of.subject, format!("{:.1} times worse", of.factor)));
    let hides = |what: &str, names: Vec<String>, all: usize, of: &str| match names.len() {
        0 => String::new(),
        count => format!("; {what} in {count} of {all} {of}: {}", listed(&names)),
    };
    let seen = match said.is_empty() {
        true => "differences between nodes: too few are alike".to_owned(),
        false => format!(
            "nodes less than {} worse than their peers{}{}",
            said.join(", "),
            hides("10 %", noisy.collect(), hardware.len(), "hardware figures"),
            hides("paths at half the rate", hidden.collect(), links.len(), "figures of pairs")
        ),
    };
    match super::strata::too_small(view) {
        0 => seen,
        count => format!(
            "{seen}. Compared only with the prediction: {} with fewer than five peers",
            counted(count, "node")
        ),
    }
}
