//! Two sweeps over the same nodes: what all nodes have in common, and which nodes went another way.
//!
//! Pure: a comparison follows from the two sweeps alone. Nodes are paired by name. A figure is
//! compared within each stratum of the base sweep, since hardware of one kind may gain by a change
//! what another kind loses.

pub mod paired;

mod around;
#[cfg(test)]
mod tests;

pub use around::Difference;

use crate::model::strata;
use crate::read::Sweep;
use crate::report::names::stratum as stratum_name;
pub use crate::values::Side;
use crate::values::{About, Value, What, values};
use analysis::compare::Direction;
use paired::{Shift, apart, common};
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::{Gather, InOrder};
use record::unit::Unit;
use stats::compare::RATE;
use stats::compare::multiple::{benjamini_hochberg, two_step};
use std::collections::BTreeMap;

/// Expected share of false ones among the nodes that are said to differ from the others: each costs
/// the inspection of a machine.
pub const NODE_RATE: f64 = 0.01;

/// What two sweeps say together.
#[derive(Clone, Debug)]
pub struct Comparison<'sweep> {
    /// The first sweep.
    pub base: &'sweep Sweep,
    /// The second one.
    pub new: &'sweep Sweep,
    /// Names of the nodes in both, in the order of the base sweep.
    pub nodes: Vec<&'sweep str>,
    /// Names of the nodes in one sweep alone: of the base, of the new one.
    pub only: (Vec<&'sweep str>, Vec<&'sweep str>),
    /// What differs around the figures.
    pub around: Vec<Difference>,
    /// The figures that both sweeps have, stratum by stratum.
    pub figures: Vec<Compared>,
    /// Figures of the base sweep that the new one lacks, with the number of common nodes that had
    /// them.
    pub missing: BTreeMap<Key, usize>,
}

/// One figure in one stratum.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What it is of.
    pub key: Key,
    /// Of the node alone, or of its pairs.
    pub side: Side,
    /// Unit of both values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Class of the metric.
    pub kind: Kind,
    /// Name of the stratum, of the base sweep.
    pub stratum: String,
    /// The nodes that have it in both sweeps.
    pub nodes: Vec<Changed>,
    /// What they have in common; `None` where too few nodes have it, or nothing scatters.
    pub common: Option<Shift>,
    /// Least |factor - 1| of a finding, beside its p.
    pub band: f64,
    /// Least |factor - 1| that would have been found here; `None` without a test.
    pub least_seen: Option<f64>,
    /// Whether all nodes changed.
    pub finding: Option<Direction>,
}

/// One node's change of a figure.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Value in the base sweep.
    pub base: f64,
    /// Value in the new one.
    pub new: f64,
    /// How far it is from the others; `None` where too few others have the figure.
    pub apart: Option<Shift>,
    /// Whether it went another way than the others.
    pub is_apart: bool,
}

impl Compared {
    /// New over base, of all nodes.
    pub fn factor(&self) -> Option<f64> {
        Some(self.common?.log.exp())
    }

    /// The interval of [`Self::factor`].
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.common?.interval();
        Some((low.exp(), high.exp()))
    }

    /// The nodes that went another way, the furthest first.
    pub fn apart(&self) -> Vec<&Changed> {
        let mut found: Vec<&Changed> = self.nodes.iter().filter(|node| node.is_apart).collect();
        let size = |node: &Changed| node.apart.map_or(0.0, |apart| apart.log.abs());
        found.order_by(|a, b| size(b).total_cmp(&size(a)));
        found
    }
}

impl Comparison<'_> {
    /// Whether any figure or any node changed.
    pub fn has_finding(&self) -> bool {
        let is_one = |one: &Compared| one.finding.is_some() || !one.apart().is_empty();
        self.figures.iter().any(is_one)
    }

    /// Figures that were tested.
    pub fn tested(&self) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(|one| one.common.is_some())
    }

    /// By kind the least change that half of the tested figures show.
    pub fn least_seen(&self) -> Vec<(Kind, f64)> {
        let of = |kind: Kind| {
            let own = self.figures.iter().filter(|one| one.kind == kind);
            let least: Vec<f64> = own.filter_map(|one| one.least_seen).collect();
            Some((kind, stats::quantile::median(&least)?))
        };
        [Kind::Hardware, Kind::Os, Kind::Io].into_iter().filter_map(of).collect()
    }
}

/// Compares two sweeps.
pub fn compare<'sweep>(base: &'sweep Sweep, new: &'sweep Sweep) -> Comparison<'sweep> {
    let (of_base, of_new) = (ranks(base), ranks(new));
    let is_common = |name: &&str| of_base.contains_key(name) && of_new.contains_key(name);
    let nodes: Vec<&str> =
        base.nodes.values().map(|node| node.name.as_str()).filter(is_common).collect();
    let alone = |of: &BTreeMap<&'sweep str, u32>| -> Vec<&'sweep str> {
        of.keys().filter(|name| !is_common(name)).copied().collect()
    };
    let only = (alone(&of_base), alone(&of_new));
    let (all, others) = (values(base), values(new));
    let mut missing = BTreeMap::new();
    let mut figures = Vec::new();
    let strata = strata(base);
    for (what, (about, by_rank)) in &all {
        let in_new = others.get(what).filter(|(other, _)| other.unit == about.unit);
        let Some((_, new_by_rank)) = in_new else {
            let had = nodes.iter().filter(|name| by_rank.contains_key(&of_base[*name])).count();
            *missing.entry(what.key.clone()).or_default() += had;
            continue;
        };
        for stratum in &strata {
            let members = stratum.ranks.iter().filter_map(|rank| base.nodes.get(rank));
            let members = members.map(|node| node.name.as_str()).filter(is_common);
            let changes = members.filter_map(|name| {
                let base = by_rank.get(&of_base[name])?;
                Some(changed(name, *base, *new_by_rank.get(&of_new[name])?))
            });
            figures.extend(in_one(what, about, &stratum_name(stratum), changes.collect()));
        }
    }
    judge(&mut figures);
    let around = around::around(base, new, &nodes);
    Comparison { base, new, nodes, only, around, figures, missing }
}

/// Ranks by name; a name that several nodes have names none of them.
fn ranks(sweep: &Sweep) -> BTreeMap<&str, u32> {
    let mut all: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, node) in &sweep.nodes {
        all.entry(&node.name).or_default().push(*rank);
    }
    let single = all.into_iter().filter(|(_, ranks)| ranks.len() == 1);
    single.map(|(name, ranks)| (name, ranks[0])).gather()
}

fn changed(name: &str, base: Value, new: Value) -> (Changed, f64) {
    let changed = Changed {
        name: name.to_owned(),
        base: base.log.exp(),
        new: new.log.exp(),
        apart: None,
        is_apart: false,
    };
    (changed, base.variance + new.variance)
}

/// A figure in a stratum; `None` where no node has it in both sweeps.
fn in_one(
    what: &What,
    about: &About,
    stratum: &str,
    nodes: Vec<(Changed, f64)>,
) -> Option<Compared> {
    if nodes.is_empty() {
        return None;
    }
    let own: Vec<f64> = nodes.iter().map(|(_, variance)| *variance).collect();
    let mut nodes: Vec<Changed> = nodes.into_iter().map(|(node, _)| node).collect();
    let changes: Vec<f64> = nodes.iter().map(|node| (node.new / node.base).ln()).collect();
    for (node, apart) in nodes.iter_mut().zip(apart(&changes, &own)) {
        node.apart = apart;
    }
    Some(Compared {
        key: what.key.clone(),
        side: what.side,
        unit: about.unit,
        better: about.better,
        kind: about.kind,
        stratum: stratum.to_owned(),
        nodes,
        common: common(&changes, &own),
        band: about.kind.default_between_run_sd(),
        least_seen: None,
        finding: None,
    })
}

/// Settles what changed: by p over all figures, and by size.
fn judge(figures: &mut [Compared]) {
    let mut series: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (at, one) in figures.iter().enumerate().filter(|(_, one)| one.common.is_some()) {
        series.entry((one.key.experiment.clone(), one.stratum.clone())).or_default().push(at);
    }
    let p = |at: &usize| figures[*at].common.map_or(1.0, |common| common.p);
    let p_values: Vec<Vec<f64>> = series.values().map(|all| all.iter().map(p).collect()).collect();
    let rejected = two_step(&p_values, RATE);
    let tests = p_values.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    for (at, is_rejected) in series.values().flatten().zip(rejected.into_iter().flatten()) {
        let one = &mut figures[*at];
        let Some((common, ratio)) = one.common.zip(one.factor()) else { continue };
        // Alone among all figures, a change must pass the first step of the correction.
        let reach = common.reach(RATE / tests).exp() - 1.0;
        one.least_seen = Some(reach.max(one.band));
        let is_large = (ratio - 1.0).abs() > one.band;
        one.finding = (is_rejected && is_large).then(|| Direction::of(one.better, ratio > 1.0));
    }
    judge_nodes(figures);
}

/// Settles which nodes went another way: by p over all nodes and figures, and by size.
fn judge_nodes(figures: &mut [Compared]) {
    let places = figures.iter().enumerate().flat_map(|(of, one)| {
        let nodes = one.nodes.iter().enumerate();
        nodes.filter_map(move |(at, node)| Some((of, at, node.apart?.p)))
    });
    let places: Vec<(usize, usize, f64)> = places.collect();
    let p_values: Vec<f64> = places.iter().map(|(.., p)| *p).collect();
    let rejected = benjamini_hochberg(&p_values, NODE_RATE);
    for ((of, at, _), is_rejected) in places.into_iter().zip(rejected) {
        let band = figures[of].band;
        let node = &mut figures[of].nodes[at];
        let size = node.apart.map_or(0.0, |apart| apart.log.abs());
        node.is_apart = is_rejected && size > band;
    }
}
