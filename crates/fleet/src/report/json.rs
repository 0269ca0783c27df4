//! A sweep and what follows from it as one JSON object.

use super::View;
use super::missing::lost;
use super::names::{at, node};
use crate::model::{At, Below, Role, Stratum, Verdict};
use crate::sweep::{Absent, End, Estimate, Loads, Node, Phase, Purpose};
use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of this shape.
const FORMAT: u32 = 1;

/// A sweep.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "plumb: a sweep over a fleet"))]
pub struct FlatSweep {
    /// Version of this shape.
    format: u32,
    /// Name of the sweep.
    sweep: String,
    /// When it began, RFC 3339 in UTC.
    started: String,
    /// Version of plumb at rank 0.
    plumb: String,
    /// Number of nodes that were expected.
    size: u32,
    /// Preset of the single-node phase.
    preset: String,
    /// Selectors of the single-node phase; empty for all of the preset.
    selectors: Vec<String>,
    /// Selectors of the pair phase.
    pair_selectors: Vec<String>,
    /// Number of matchings.
    steps: u32,
    /// Steps beside the matchings: across a cut, and several nodes to one.
    loads: Loads,
    /// Seed of the matchings and of the order.
    seed: u64,
    /// What started the nodes.
    starter: String,
    /// Whether the figures are drawn and not measured: a rehearsal of the sweep itself.
    simulated: bool,
    /// How it ended; null where it did not.
    end: Option<End>,
    /// Phases that began and ended.
    phases: Vec<Phase>,
    /// The nodes that joined.
    nodes: Vec<Node>,
    /// Nodes of identical hardware, which are each other's peers; `ranks` are those of `nodes`.
    strata: Vec<Stratum>,
    /// Nodes and links that are worse than their peers, the most certain first.
    verdicts: Vec<FlatVerdict>,
    /// What stood out once, was measured again and found well.
    cleared: Vec<FlatCleared>,
    /// What is worse than predicted: a stratum as a whole, or nodes of one that is too small to
    /// compare.
    below_prediction: Vec<Below>,
    /// By kind of figure the least difference of a node from its peers, as a share, that half of the
    /// figures would show.
    least_seen: BTreeMap<String, f64>,
    /// Each node beside its peers.
    of_peers: Vec<FlatStanding>,
    /// Figures of nodes.
    figures: Vec<FlatFigure>,
    /// Figures between nodes.
    pairs: Vec<FlatPair>,
    /// What was missing at some time, and why; a resumed sweep may have measured it later.
    absents: Vec<Absent>,
    /// Names of the nodes that were lost and did not return.
    lost: Vec<String>,
    /// Figures that were measured and not compared over nodes.
    untested: Vec<FlatUntested>,
    /// Lines of the record that are damaged and left out.
    damaged_lines: Vec<usize>,
}

/// A node or link that is worse than its peers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatVerdict {
    /// Name of the node; null for a link.
    node: Option<String>,
    /// Names of the near and far end of a link; null for a node.
    link: Option<(String, String)>,
    /// Charge, figure, factor, interval and evidence.
    #[serde(flatten)]
    verdict: Verdict,
}

/// What stood out once and was found well.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatCleared {
    /// Name of the node, or `from → to`.
    which: String,
    /// The same by ranks.
    at: At,
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
}

/// A node beside its peers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatStanding {
    /// Name of the node.
    node: String,
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
    /// Which end of pairs.
    role: Role,
    /// Whether the scatter of its rounds is compared, not its level.
    is_scatter: bool,
    /// Speed over the median of the stratum: below 1 is worse.
    of_peers: f64,
    /// Distance from the median in robust standard deviations, positive where worse; null below five
    /// peers.
    z: Option<f64>,
    /// Number of peers.
    peers: usize,
}

/// A figure of one node.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatFigure {
    /// Name of the node.
    node: String,
    /// Its rank.
    rank: u32,
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
    /// Unit of all quantities.
    unit: Unit,
    /// Direction of improvement.
    better: Better,
    /// Class of the metric.
    kind: Kind,
    /// The value.
    #[serde(flatten)]
    estimate: Estimate,
    /// Range that was predicted before it was measured.
    predicted: Option<(f64, f64)>,
    /// 0 in the phase `alone`; in the phase `suspects` the number of the repetition.
    again: u32,
}

/// A figure between two nodes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatPair {
    /// Name of the near end.
    from: String,
    /// Name of the far end.
    to: String,
    /// Number of the step, over all phases.
    step: u32,
    /// Why it was measured.
    purpose: Purpose,
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
    /// Unit of all quantities.
    unit: Unit,
    /// Direction of improvement.
    better: Better,
    /// The value.
    #[serde(flatten)]
    estimate: Estimate,
    /// Range that was predicted before it was measured.
    predicted: Option<(f64, f64)>,
}

/// A figure that was not compared over nodes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatUntested {
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
    /// Why.
    why: String,
}

/// The JSON Schema of a sweep, which a test makes from its types (UPDATE_GOLDENS=1).
pub const SCHEMA: &str = include_str!("sweep.schema.json");

/// The same from the types themselves.
#[cfg(test)]
pub(super) fn schema() -> serde_json::Value {
    schemars::schema_for!(FlatSweep).to_value()
}

/// The sweep as indented text, ending in a newline.
pub fn render(view: &View) -> String {
    text(&flat(view))
}

/// An object as indented text in which nothing steers a terminal.
pub(super) fn text(of: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(of)
        .expect("its keys are strings and it holds no foreign serialisers");
    text.push('\n');
    record::plain::json(&text)
}

fn flat(view: &View) -> FlatSweep {
    let sweep = view.sweep;
    let header = sweep.header.clone();
    let judgement = &view.judgement;
    let name = |rank: u32| node(sweep, rank);
    let verdicts = judgement.verdicts.iter().map(|verdict| {
        let (node, link) = match verdict.at {
            At::Node(rank) => (Some(name(rank)), None),
            At::Link(from, to) => (None, Some((name(from), name(to)))),
        };
        FlatVerdict { node, link, verdict: verdict.clone() }
    });
    let cleared = judgement.cleared.iter();
    let cleared =
        cleared.map(|(of, key)| FlatCleared { which: at(sweep, *of), at: *of, key: key.clone() });
    let least_seen = super::nodes::least_seen(view).into_iter();
    let untested = judgement.untested.iter();
    let untested = untested.map(|(key, why)| FlatUntested { key: key.clone(), why: why.clone() });
    FlatSweep {
        format: FORMAT,
        sweep: header.id,
        started: header.started,
        plumb: header.plumb,
        size: header.size,
        preset: header.preset,
        selectors: header.selectors,
        pair_selectors: header.pair_selectors,
        steps: header.steps,
        loads: header.loads,
        seed: header.seed,
        starter: header.starter,
        simulated: header.simulated,
        end: sweep.end.clone(),
        phases: sweep.phases.clone(),
        nodes: sweep.nodes.values().cloned().collect(),
        strata: judgement.strata.clone(),
        verdicts: verdicts.collect(),
        cleared: cleared.collect(),
        below_prediction: judgement.below.clone(),
        least_seen: least_seen.map(|(kind, least)| (kind.to_owned(), least)).collect(),
        of_peers: standings(view),
        figures: figures(view),
        pairs: pairs(view),
        absents: sweep.absents.clone(),
        lost: lost(sweep).iter().map(|absent| name(absent.rank)).collect(),
        untested: untested.collect(),
        damaged_lines: sweep.damaged.iter().map(|damaged| damaged.line).collect(),
    }
}

fn standings(view: &View) -> Vec<FlatStanding> {
    let judgement = &view.judgement;
    let of = |standing: &crate::model::Standing| {
        let subject = judgement.subjects.get(standing.subject)?;
        Some(FlatStanding {
            node: node(view.sweep, standing.rank),
            key: subject.key.clone(),
            role: subject.role,
            is_scatter: subject.is_scatter,
            of_peers: 1.0 / standing.factor,
            z: standing.z,
            peers: standing.peers,
        })
    };
    judgement.standings.iter().filter_map(of).collect()
}

fn figures(view: &View) -> Vec<FlatFigure> {
    let of = |figure: &crate::sweep::Figure| FlatFigure {
        node: node(view.sweep, figure.rank),
        rank: figure.rank,
        key: figure.key.clone(),
        unit: figure.unit,
        better: figure.better,
        kind: figure.kind,
        estimate: figure.estimate,
        predicted: figure.predicted,
        again: figure.again,
    };
    view.sweep.figures.iter().map(of).collect()
}

fn pairs(view: &View) -> Vec<FlatPair> {
    let of = |pair: &crate::sweep::Pair| FlatPair {
        from: node(view.sweep, pair.from),
        to: node(view.sweep, pair.to),
        step: pair.step,
        purpose: pair.purpose,
        key: pair.key.clone(),
        unit: pair.unit,
        better: pair.better,
        estimate: pair.estimate,
        predicted: pair.predicted,
    };
    view.sweep.pairs.iter().map(of).collect()
}
