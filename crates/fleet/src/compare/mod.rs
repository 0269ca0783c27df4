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
use serde::Serialize;
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

/// A figure that both sweeps have, in one stratum.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "FlatCompared"))]
pub struct Compared {
    /// Experiment, case and metric.
    #[serde(flatten)]
    pub key: Key,
    /// Of the node alone, or of its pairs.
    pub side: Side,
    /// Unit of all values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Class of the metric.
    pub kind: Kind,
    /// The stratum, of the base sweep.
    pub stratum: String,
    /// New over base, of all nodes; null where fewer than three nodes have the figure, or nothing
    /// scatters.
    pub ratio: Option<f64>,
    /// Interval of `ratio` at 95 %.
    pub ci: Option<(f64, f64)>,
    /// Two-sided p of no common change, before correction.
    pub p: Option<f64>,
    /// Least |ratio - 1| of a finding, beside p.
    pub band: f64,
    /// Least |ratio - 1| that would have been found here.
    pub least_seen: Option<f64>,
    /// The direction of a finding; null without one.
    pub finding: Option<Direction>,
    /// The nodes.
    pub nodes: Vec<Changed>,
    #[serde(skip)]
    common: Option<Shift>,
}

/// One node's change of a figure.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "FlatChanged"))]
pub struct Changed {
    /// Name of the node.
    #[serde(rename = "node")]
    pub name: String,
    /// Value in the base sweep.
    pub base: f64,
    /// Value in the new one.
    pub new: f64,
    /// Its ratio over that of the others; null below five others.
    pub of_others: Option<f64>,
    /// Interval of `of_others` at 95 %.
    pub of_others_ci: Option<(f64, f64)>,
    /// Two-sided p of no difference, before correction.
    pub of_others_p: Option<f64>,
    /// Whether it went another way than the others.
    pub is_apart: bool,
}

impl Changed {
    /// How far it is from the others, as a log.
    pub fn distance(&self) -> f64 {
        self.of_others.map_or(0.0, |ratio| ratio.ln().abs())
    }
}

impl Compared {
    /// The nodes that went another way, the furthest first.
    pub fn apart(&self) -> Vec<&Changed> {
        let mut found: Vec<&Changed> = self.nodes.iter().filter(|node| node.is_apart).collect();
        found.order_by(|a, b| b.distance().total_cmp(&a.distance()));
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
        self.figures.iter().filter(|one| one.p.is_some())
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
            let both = members.filter_map(|name| {
                let base = by_rank.get(&of_base[name])?;
                Some((name, *base, *new_by_rank.get(&of_new[name])?))
            });
            figures.extend(in_one(what, about, &stratum_name(stratum), &both.collect::<Vec<_>>()));
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

/// A figure in a stratum, by nodes with both values; `None` without any.
fn in_one(
    what: &What,
    about: &About,
    stratum: &str,
    both: &[(&str, Value, Value)],
) -> Option<Compared> {
    both.first()?;
    let own: Vec<f64> = both.iter().map(|(_, base, new)| base.variance + new.variance).collect();
    let values: Vec<(f64, f64)> =
        both.iter().map(|(_, base, new)| (base.log.exp(), new.log.exp())).collect();
    let changes: Vec<f64> = values.iter().map(|(base, new)| (new / base).ln()).collect();
    let nodes = both.iter().zip(values).zip(apart(&changes, &own));
    let nodes = nodes.map(|(((name, ..), (base, new)), apart)| Changed {
        name: (*name).to_owned(),
        base,
        new,
        of_others: apart.map(|apart| apart.log.exp()),
        of_others_ci: apart.map(|apart| apart.factors()),
        of_others_p: apart.map(|apart| apart.p),
        is_apart: false,
    });
    let common = common(&changes, &own);
    Some(Compared {
        key: what.key.clone(),
        side: what.side,
        unit: about.unit,
        better: about.better,
        kind: about.kind,
        stratum: stratum.to_owned(),
        ratio: common.map(|common| common.log.exp()),
        ci: common.map(|common| common.factors()),
        p: common.map(|common| common.p),
        band: about.kind.default_between_run_sd(),
        least_seen: None,
        finding: None,
        nodes: nodes.collect(),
        common,
    })
}

/// Settles what changed: by p over all figures, and by size.
fn judge(figures: &mut [Compared]) {
    let mut series: BTreeMap<(String, String), Vec<(usize, f64)>> = BTreeMap::new();
    for (at, one) in figures.iter().enumerate() {
        let series_of = || (one.key.experiment.clone(), one.stratum.clone());
        one.p.into_iter().for_each(|p| series.entry(series_of()).or_default().push((at, p)));
    }
    let p_values: Vec<Vec<f64>> =
        series.values().map(|all| all.iter().map(|(_, p)| *p).collect()).collect();
    let rejected = two_step(&p_values, RATE).concat();
    for ((at, _), is_rejected) in series.values().flatten().zip(&rejected) {
        let one = &mut figures[*at];
        let Some((common, ratio)) = one.common.zip(one.ratio) else { continue };
        // Alone among all figures, a change must pass the first step of the correction.
        let reach = common.reach(RATE / rejected.len() as f64).exp() - 1.0;
        one.least_seen = Some(reach.max(one.band));
        let is_large = (ratio - 1.0).abs() > one.band;
        one.finding =
            (*is_rejected && is_large).then(|| Direction::from_growth(one.better, ratio > 1.0));
    }
    // Which nodes went another way: by p over all nodes and figures, and by size.
    let nodes = figures.iter_mut().flat_map(|one| {
        let band = one.band;
        one.nodes.iter_mut().filter_map(move |node| Some((node.of_others_p?, band, node)))
    });
    let nodes: Vec<(f64, f64, &mut Changed)> = nodes.collect();
    let p_values: Vec<f64> = nodes.iter().map(|(p, ..)| *p).collect();
    for ((_, band, node), is_rejected) in
        nodes.into_iter().zip(benjamini_hochberg(&p_values, NODE_RATE))
    {
        node.is_apart = is_rejected && node.distance() > band;
    }
}
