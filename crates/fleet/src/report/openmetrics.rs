//! A sweep as OpenMetrics text, with labels for nodes.

use super::View;
use super::answer::by_place;
use super::csv::text;
use super::missing::lost;
use super::names::node;
use crate::model::{At, Role, Verdict};
use crate::values::{Side, values};
use record::key::Key;
use report::openmetrics::{Families, identifier, label, seconds_since_1970, unit};
use std::collections::BTreeMap;

/// The text, ending in `# EOF`: each node's figures (of pairs the median over its partners), its speed
/// beside its peers, the verdicts, and how the sweep went.
pub fn render(view: &View) -> String {
    let mut families = Families::with_labels(Vec::new());
    about_the_sweep(&mut families, view);
    about_the_verdicts(&mut families, view);
    about_the_nodes(&mut families, view);
    families.text()
}

fn about_the_sweep(families: &mut Families, view: &View) {
    let header = &view.sweep.header;
    let labels = [
        label("sweep", &header.id),
        label("version", &header.plumb),
        label("preset", &header.preset),
        label("starter", &header.starter),
    ];
    let what = "Version of plumb and the sweep: always 1, the facts are labels";
    families.add("plumb_fleet_info", "", what, &labels, 1.0);
    let joined = view.sweep.nodes.len();
    let states =
        [("expected", header.size as usize), ("joined", joined), ("lost", lost(view.sweep).len())];
    for (state, count) in states {
        let help = "Nodes of the sweep, by state";
        families.add("plumb_fleet_nodes", "", help, &[label("state", state)], count as f64);
    }
    let is_whole = view.sweep.end.as_ref().is_some_and(|end| !end.interrupted);
    for (stem, unit, help, value) in [
        (
            "plumb_fleet_start_timestamp",
            "seconds",
            "When the sweep began, in seconds since 1970",
            seconds_since_1970(&header.started),
        ),
        (
            "plumb_fleet_duration",
            "seconds",
            "How long the sweep took",
            view.sweep.end.as_ref().map(|end| end.wall_s),
        ),
        (
            "plumb_fleet_complete",
            "",
            "1 if the sweep is complete, 0 if it was interrupted or killed",
            Some(f64::from(u8::from(is_whole))),
        ),
    ] {
        families.add(stem, unit, help, &[], value);
    }
}

fn about_the_verdicts(families: &mut Families, view: &View) {
    let mut counts: BTreeMap<String, usize> =
        ["slower", "unstable", "degraded_link", "suspect"].map(|of| (of.to_owned(), 0)).into();
    for (_, own) in by_place(view) {
        *counts.entry(text(&own[0].charge)).or_default() += 1;
    }
    for (charge, count) in counts {
        let help = "Nodes and links that are worse than their peers, by charge";
        families.add("plumb_fleet_accused", "", help, &[label("charge", &charge)], count as f64);
    }
    for verdict in &view.judgement.verdicts {
        let help = "How many times worse than its peers a node or link is";
        let values = (Some(verdict.factor), Some(verdict.interval));
        let labels = of_verdict(view, verdict);
        families.add_with_ends("plumb_fleet_worse", ("ratio", 1.0), help, &labels, values);
    }
}

fn of_verdict(view: &View, verdict: &Verdict) -> Vec<String> {
    let mut labels = Labels::default();
    match verdict.at {
        At::Node(rank) => labels.add("", "node", &node(view.sweep, rank)),
        At::Link(from, to) => {
            labels.add("", "from", &node(view.sweep, from));
            labels.add("", "to", &node(view.sweep, to));
        }
    }
    labels.add("", "charge", &text(&verdict.charge));
    labels.add_key(&verdict.subject.key);
    if verdict.subject.role != Role::Alone {
        labels.add("", "end", &text(&verdict.subject.role));
    }
    labels.text()
}

fn about_the_nodes(families: &mut Families, view: &View) {
    for (what, (about, by_rank)) in values(view.sweep) {
        let stem = format!("plumb_fleet_{}_{}", what.key.experiment, what.key.metric);
        let (unit, factor) = unit(about.unit);
        let help = "A node's figure; of pairs the median over its partners";
        for (rank, value) in by_rank {
            let mut labels = Labels::of_node(view, rank);
            if what.side != Side::Alone {
                labels.add("", "end", &text(&what.side));
            }
            for (name, value) in &what.key.case.0 {
                labels.add("case", name, &value.to_string());
            }
            labels.add_site(view, rank);
            families.add(&stem, unit, help, &labels.text(), value.log.exp() * factor);
        }
    }
    for standing in &view.judgement.standings {
        let Some(subject) = view.judgement.subjects.get(standing.subject) else { continue };
        if subject.is_scatter {
            continue;
        }
        let mut labels = Labels::of_node(view, standing.rank);
        labels.add_key(&subject.key);
        if subject.role != Role::Alone {
            labels.add("", "end", &text(&subject.role));
        }
        labels.add_site(view, standing.rank);
        let help = "Speed of a node over the median of its stratum";
        families.add("plumb_fleet_of_peers", "ratio", help, &labels.text(), 1.0 / standing.factor);
    }
}

/// Labels of a sample, each name once.
#[derive(Default)]
struct Labels(Vec<(String, String)>);

impl Labels {
    /// One more; where its name is taken, or no identifier, with a prefix.
    fn add(&mut self, prefix: &str, name: &str, text: &str) {
        let mut name = identifier(name);
        let is_taken = |name: &str| self.0.iter().any(|(taken, _)| taken == name);
        let is_odd = !name.starts_with(|letter: char| letter.is_ascii_alphabetic());
        if is_odd || is_taken(&name) {
            name = format!("{prefix}_{name}");
        }
        // Two of a record's names may differ in what no label shows.
        if !is_taken(&name) {
            self.0.push((name, text.to_owned()));
        }
    }

    /// The node.
    fn of_node(view: &View, rank: u32) -> Labels {
        let mut labels = Labels::default();
        labels.add("", "node", &node(view.sweep, rank));
        labels
    }

    /// Adds what the site says of a node.
    fn add_site(&mut self, view: &View, rank: u32) {
        let own = view.sweep.nodes.get(&rank);
        for (name, text) in own.iter().flat_map(|own| &own.labels) {
            self.add("site", name, text);
        }
    }

    /// Adds the figure.
    fn add_key(&mut self, key: &Key) {
        self.add("", "experiment", &key.experiment);
        self.add("", "case", &key.case.to_string());
        self.add("", "metric", &key.metric);
    }

    fn text(&self) -> Vec<String> {
        self.0.iter().map(|(name, text)| label(name, text)).collect()
    }
}
