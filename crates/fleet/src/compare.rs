//! Two sweeps over the same nodes: what all nodes have in common, and which nodes went another way.
//!
//! Pure. Nodes are paired by name. A figure is compared within each stratum of the base sweep, since
//! hardware of one kind may gain by a change what another kind loses.

use crate::file::Purpose;
use crate::model::{First, node_places};
use crate::paired::{Shift, apart, common};
use crate::read::Fleet;
use analysis::compare::Direction;
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::{Gather, InOrder};
use record::unit::Unit;
use serde::Serialize;
use stats::compare::RATE;
use stats::compare::multiple::{benjamini_hochberg, two_step};
use stats::moments::Moments;
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet};

/// Expected share of false ones among the nodes that are said to differ from the others: each costs
/// the inspection of a machine.
pub const NODE_RATE: f64 = 0.01;

/// Of which a value is: the node alone, or the near or far end of its pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Alone,
    Near,
    Far,
}

/// What two sweeps say together.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Names of the nodes in both.
    pub nodes: Vec<String>,
    /// Names of the nodes in one sweep alone: of the base, of the new one.
    pub only: (Vec<String>, Vec<String>),
    /// What differs around the figures: what, in the base, in the new sweep, and on how many nodes.
    pub around: Vec<(String, String, String, usize)>,
    /// The figures that both sweeps have, stratum by stratum.
    pub figures: Vec<Compared>,
    /// Figures of the base sweep that the new one lacks.
    pub missing: Vec<Key>,
}

/// A figure that both sweeps have, in one stratum.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub key: Key,
    pub side: Side,
    pub unit: Unit,
    pub better: Better,
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
    pub nodes: Vec<Changed>,
    #[serde(skip)]
    common: Option<Shift>,
}

/// One node's change of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Changed {
    pub node: String,
    /// Value in the base sweep, and in the new one.
    pub base: f64,
    pub new: f64,
    /// Its ratio over that of the others, with the interval at 95 %; null below five others.
    pub of_others: Option<f64>,
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

impl Comparison {
    /// Whether any figure or any node changed.
    pub fn has_finding(&self) -> bool {
        self.figures.iter().any(|one| one.finding.is_some() || !one.apart().is_empty())
    }

    /// Figures that were tested.
    pub fn tested(&self) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(|one| one.p.is_some())
    }

    /// By kind the least change that half of the tested figures show.
    pub fn least_seen(&self) -> Vec<(Kind, f64)> {
        let one = |kind: Kind| {
            let figures = self.figures.iter().filter(|one| one.kind == kind);
            let least: Vec<f64> = figures.filter_map(|one| one.least_seen).collect();
            Some((kind, median(&least)?))
        };
        [Kind::Hardware, Kind::Os, Kind::Io].into_iter().filter_map(one).collect()
    }
}

/// The logarithm of a value, and its variance.
type Log = (f64, f64);

/// The value of each node.
type Valued = BTreeMap<String, Log>;

/// A node with its values before and after.
type Both<'fleet> = (&'fleet String, Log, Log);

/// The values of each node over its partners.
type Partners<'fleet> = BTreeMap<&'fleet str, Vec<Log>>;

/// All values by figure and side: of pairs the median over a node's partners.
fn values(fleet: &Fleet) -> BTreeMap<(Key, Side), (usize, Valued)> {
    let mut all: BTreeMap<(usize, Side), Partners<'_>> = BTreeMap::new();
    let places = node_places(fleet);
    let mut add = |figure: usize, side: Side, host: &str, value: f64, own: f64| {
        let name = places.get_key_value(host).map(|(name, _)| *name);
        if let Some(name) = name.filter(|_| value > 0.0 && value.is_finite()) {
            all.entry((figure, side)).or_default().entry(name).or_default().push((value.ln(), own));
        }
    };
    for file in &fleet.nodes {
        for value in &file.values {
            add(value.figure, Side::Alone, &file.header.host, value.value, value.scatter);
        }
        for pair in file.pairs.iter().filter(|pair| pair.purpose == Purpose::Matching) {
            for value in &pair.values {
                add(value.figure, Side::Near, &file.header.host, value.value, value.scatter);
                add(value.figure, Side::Far, &pair.to, value.value, value.scatter);
            }
        }
    }
    let of_node = |side: Side, values: &[(f64, f64)]| {
        if side == Side::Alone {
            return values.last().copied();
        }
        let logs: Vec<f64> = values.iter().map(|value| value.0).collect();
        let variance = Moments::from_values(&logs).variance().unwrap_or(0.0) / logs.len() as f64;
        Some((median(&logs)?, variance))
    };
    all.into_iter()
        .map(|((figure, side), nodes)| {
            let nodes = nodes
                .into_iter()
                .filter_map(|(node, all)| Some((node.to_owned(), of_node(side, &all)?)));
            ((fleet.figures[figure].key.clone(), side), (figure, nodes.gather()))
        })
        .gather()
}

/// Compares two sweeps; the second one is the new one.
pub fn compare(base: &Fleet, new: &Fleet) -> Comparison {
    let names = |fleet: &Fleet| -> BTreeSet<String> {
        fleet.nodes.iter().map(|node| node.header.host.clone()).gather()
    };
    let (of_base, of_new) = (names(base), names(new));
    let both: Vec<String> = of_base.intersection(&of_new).cloned().collect();
    let only = (
        of_base.difference(&of_new).cloned().collect(),
        of_new.difference(&of_base).cloned().collect(),
    );
    let others = values(new);
    let (mut missing, mut figures) = (Vec::new(), Vec::new());
    let strata = First::new(base).strata;
    for ((key, side), (figure, nodes)) in values(base) {
        let Some((_, new_nodes)) = others.get(&(key.clone(), side)) else {
            missing.push(key);
            continue;
        };
        for stratum in &strata {
            let members = stratum.nodes.iter().map(|node| &base.nodes[*node].header.host);
            let pairs: Vec<Both<'_>> = members
                .filter_map(|name| Some((name, *nodes.get(name)?, *new_nodes.get(name)?)))
                .collect();
            if !pairs.is_empty() {
                figures.push(in_one(&key, side, &base.figures[figure], &stratum.name, &pairs));
            }
        }
    }
    judge(&mut figures);
    missing.dedup();
    Comparison { around: around(base, new, &both), nodes: both, only, figures, missing }
}

/// A figure in a stratum, by nodes with both values.
fn in_one(
    key: &Key,
    side: Side,
    about: &crate::read::About,
    stratum: &str,
    both: &[Both<'_>],
) -> Compared {
    let own: Vec<f64> = both.iter().map(|(_, base, new)| base.1 + new.1).collect();
    let changes: Vec<f64> = both.iter().map(|(_, base, new)| new.0 - base.0).collect();
    let nodes = both.iter().zip(apart(&changes, &own)).map(|((node, base, new), apart)| Changed {
        node: (*node).clone(),
        base: base.0.exp(),
        new: new.0.exp(),
        of_others: apart.map(|apart| apart.log.exp()),
        of_others_ci: apart.map(|apart| apart.factors()),
        of_others_p: apart.map(|apart| apart.p),
        is_apart: false,
    });
    let common = common(&changes, &own);
    let kind = if side == Side::Alone { about.kind } else { Kind::Io };
    Compared {
        key: key.clone(),
        side,
        unit: about.unit,
        better: about.better,
        kind,
        stratum: stratum.to_owned(),
        ratio: common.map(|common| common.log.exp()),
        ci: common.map(|common| common.factors()),
        p: common.map(|common| common.p),
        band: kind.default_between_run_sd(),
        least_seen: None,
        finding: None,
        nodes: nodes.collect(),
        common,
    }
}

/// Settles what changed: by p over all figures, and by size.
fn judge(figures: &mut [Compared]) {
    let mut series: BTreeMap<(String, String), Vec<(usize, f64)>> = BTreeMap::new();
    for (at, one) in figures.iter().enumerate() {
        let key = || (one.key.experiment.clone(), one.stratum.clone());
        one.p.into_iter().for_each(|p| series.entry(key()).or_default().push((at, p)));
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

/// What differs between the options of two sweeps, and between their nodes.
fn around(base: &Fleet, new: &Fleet, both: &[String]) -> Vec<(String, String, String, usize)> {
    let asked = |fleet: &Fleet| {
        let header = fleet.header();
        [
            ("preset", header.preset.clone()),
            ("experiments", header.selectors.join(" ")),
            ("pair experiments", header.pair_selectors.join(" ")),
            ("seed", header.seed.to_string()),
            ("starter", header.starter.clone()),
            ("plumb", header.plumb.clone()),
        ]
    };
    let asked =
        asked(base).into_iter().zip(asked(new)).filter(|((_, one), (_, other))| one != other);
    let mut found: Vec<(String, String, String, usize)> =
        asked.map(|((name, base), (_, new))| (name.to_owned(), base, new, both.len())).collect();
    let mut counts: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for host in both {
        let (Some(one), Some(other)) = (base.node(host), new.node(host)) else { continue };
        let (one, other) = (&one.header.stratum, &other.header.stratum);
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).gather();
        for name in names.into_iter().filter(|name| one.get(*name) != other.get(*name)) {
            let text = |facts: &BTreeMap<String, String>| {
                facts.get(name).cloned().unwrap_or("unknown".to_owned())
            };
            *counts.entry((name.clone(), text(one), text(other))).or_default() += 1;
        }
    }
    found.extend(counts.into_iter().map(|((name, base, new), count)| (name, base, new, count)));
    found
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::drawn::{Drawn, Fault, Noise};
    use crate::read::from_lines;
    use analysis::compare::Direction;

    #[test]
    fn a_common_change_and_a_node_that_went_another_way_are_found() {
        let noise = Noise::plain();
        let drawn = |faults: Vec<Fault>| {
            let mut drawn = Drawn::new(&noise, 24, Fault::None, 7);
            drawn.faults = faults;
            from_lines(drawn.sweep())
        };
        let base = drawn(vec![Fault::None]);
        let all = (0..24).map(|node| Fault::Figure(node, 3, 0.1));
        let mut new = drawn(all.chain([Fault::Figure(9, 0, 0.3)]).collect());
        new.nodes.remove(23);
        let found = compare(&base, &new);
        assert_eq!((found.nodes.len(), found.only.0.len(), found.only.1.len()), (23, 1, 0));
        let changed: Vec<_> = found.figures.iter().filter(|one| one.finding.is_some()).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].key.experiment, "os.syscall");
        assert_eq!(changed[0].finding, Some(Direction::Worse));
        let apart: Vec<&str> = found
            .figures
            .iter()
            .flat_map(|one| one.apart())
            .map(|node| node.node.as_str())
            .collect();
        assert_eq!(apart, ["n009"]);
        assert!(found.has_finding() && found.around.is_empty() && found.missing.is_empty());
        let same = compare(&base, &drawn(vec![Fault::None]));
        assert!(!same.has_finding());
    }
}
