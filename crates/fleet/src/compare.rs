//! Two sweeps over the same nodes: what all nodes have in common, and which nodes went another way.
//!
//! Pure. Nodes are paired by name. A figure is compared within each stratum of the base sweep, since
//! hardware of one kind may gain by a change what another kind loses.

use crate::model::{Field, First, Role, Row};
use crate::paired::{Shift, apart, common};
use crate::read::{About, Fleet};
use analysis::compare::Direction;
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::Gather;
use record::unit::Unit;
use serde::Serialize;
use stats::compare::RATE;
use stats::compare::multiple::benjamini_hochberg;
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Expected share of false ones among the nodes that are said to differ from the others: each costs
/// the inspection of a machine.
pub const NODE_RATE: f64 = 0.01;

/// What two sweeps say together.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
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
    pub role: Role,
    pub unit: Unit,
    pub better: Better,
    pub kind: Kind,
    pub stratum: String,
    /// New over base, of all nodes; null where fewer than three nodes have the figure, or nothing
    /// scatters.
    pub common: Option<Shift>,
    /// Least |ratio - 1| of a finding, beside p.
    pub band: f64,
    /// Least |ratio - 1| that would have been found here.
    pub least_seen: Option<f64>,
    /// The direction of a finding; null without one.
    pub finding: Option<Direction>,
    pub nodes: Vec<Changed>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Changed {
    pub node: String,
    /// Value in the base sweep, and in the new one.
    pub base: f64,
    pub new: f64,
    /// Its ratio over that of the others; null below five others.
    pub of_others: Option<Shift>,
    /// Whether it went another way than the others.
    pub is_apart: bool,
}

impl Comparison {
    /// The nodes that went another way, with the figure.
    pub fn apart(&self) -> impl Iterator<Item = (&Compared, &Changed)> {
        let all = self.figures.iter().flat_map(|one| one.nodes.iter().map(move |node| (one, node)));
        all.filter(|(_, node)| node.is_apart)
    }

    /// Whether any figure or any node changed.
    pub fn has_finding(&self) -> bool {
        self.figures.iter().any(|one| one.finding.is_some()) || self.apart().next().is_some()
    }

    pub fn tested(&self) -> usize {
        self.figures.iter().filter(|one| one.common.is_some()).count()
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

/// Compares two sweeps; the second one is the new one.
pub fn compare(base: &Fleet, new: &Fleet) -> Comparison {
    let (of_base, of_new) = (base.places(), new.places());
    let only = |fleet: &Fleet, other: &HashMap<&str, usize>| {
        let names = fleet.nodes.iter().map(|node| &node.header.host);
        names.filter(|name| !other.contains_key(name.as_str())).cloned().collect()
    };
    let both = |name: &&String| of_new.contains_key(name.as_str());
    let nodes: Vec<String> =
        base.nodes.iter().map(|node| &node.header.host).filter(both).cloned().collect();
    let (first, second) = (First::new(base), First::new(new));
    let mut others: HashMap<(&Key, Role), HashMap<&str, &Row>> = HashMap::new();
    for field in &second.fields {
        let key = (&new.figures[field.subject.figure].key, field.subject.role);
        let rows = field.rows.iter().map(|row| (new.host(row.node), row));
        others.entry(key).or_default().extend(rows);
    }
    let figures = first.fields.iter().filter_map(|field| {
        let about = &base.figures[field.subject.figure];
        let others = others.get(&(&about.key, field.subject.role))?;
        let names = field.rows.iter().map(|row| (base.host(row.node), row));
        let both = names.filter_map(|(name, row)| Some((name, row, *others.get(name)?)));
        let both: Vec<(&str, &Row, &Row)> = both.collect();
        let stratum = &first.strata[field.stratum].name;
        (!both.is_empty()).then(|| Compared::new(about, field, stratum, &both))
    });
    let mut figures: Vec<Compared> = figures.collect();
    judge(&mut figures);
    let keys: BTreeSet<&Key> = new.figures.iter().map(|about| &about.key).gather();
    let missing = base.figures.iter().map(|about| &about.key).filter(|key| !keys.contains(key));
    Comparison {
        only: (only(base, &of_new), only(new, &of_base)),
        around: around(base, new, &of_new, nodes.len()),
        nodes,
        figures,
        missing: missing.cloned().collect(),
    }
}

impl Compared {
    /// A figure in a stratum, by nodes with both values.
    fn new(about: &About, field: &Field, stratum: &str, both: &[(&str, &Row, &Row)]) -> Compared {
        let own: Vec<f64> = both.iter().map(|(_, base, new)| base.scatter + new.scatter).collect();
        let changes: Vec<f64> =
            both.iter().map(|(_, base, new)| (new.value / base.value).ln()).collect();
        let nodes = both.iter().zip(apart(&changes, &own));
        let nodes = nodes.map(|((node, base, new), of_others)| {
            let (node, base, new) = ((*node).to_owned(), base.value, new.value);
            Changed { node, base, new, of_others, is_apart: false }
        });
        Compared {
            key: about.key.clone(),
            role: field.subject.role,
            unit: about.unit,
            better: about.better,
            kind: field.kind,
            stratum: stratum.to_owned(),
            common: common(&changes, &own),
            band: field.kind.default_between_run_sd(),
            least_seen: None,
            finding: None,
            nodes: nodes.collect(),
        }
    }
}

/// Settles what changed, and which nodes went another way: by p over all of them, and by size.
fn judge(figures: &mut [Compared]) {
    let tested = figures.iter_mut().filter_map(|one| Some((one.common?, one)));
    let tested: Vec<(Shift, &mut Compared)> = tested.collect();
    let p_values: Vec<f64> = tested.iter().map(|(common, _)| common.p).collect();
    let rejected = benjamini_hochberg(&p_values, RATE);
    // Alone among all figures, a change must pass the first step of the correction.
    let level = RATE / rejected.len() as f64;
    for ((common, one), is_rejected) in tested.into_iter().zip(rejected) {
        one.least_seen = Some((common.reach(level).exp() - 1.0).max(one.band));
        let is_large = (common.ratio() - 1.0).abs() > one.band;
        let direction = Direction::from_growth(one.better, common.log > 0.0);
        one.finding = (is_rejected && is_large).then_some(direction);
    }
    let nodes = figures.iter_mut().flat_map(|one| {
        let band = one.band;
        one.nodes.iter_mut().filter_map(move |node| Some((node.of_others?, band, node)))
    });
    let nodes: Vec<(Shift, f64, &mut Changed)> = nodes.collect();
    let p_values: Vec<f64> = nodes.iter().map(|(shift, ..)| shift.p).collect();
    let rejected = benjamini_hochberg(&p_values, NODE_RATE);
    for ((shift, band, node), is_rejected) in nodes.into_iter().zip(rejected) {
        node.is_apart = is_rejected && shift.log.abs() > band;
    }
}

/// What differs between the options of two sweeps, and between the facts of their nodes.
fn around(
    base: &Fleet,
    new: &Fleet,
    of_new: &HashMap<&str, usize>,
    both: usize,
) -> Vec<(String, String, String, usize)> {
    let [asked, others] = [base, new].map(|fleet| serde_json::json!(fleet.header()));
    let names = ["preset", "selectors", "pair_selectors", "seed", "starter", "plumb"];
    let differs = names.into_iter().filter(|name| asked[name] != others[name]);
    let text = |value: &serde_json::Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let mut found: Vec<(String, String, String, usize)> = differs
        .map(|name| (name.replace('_', " "), text(&asked[name]), text(&others[name]), both))
        .collect();
    let mut counts: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for file in &base.nodes {
        let Some(other) = of_new.get(file.header.host.as_str()) else { continue };
        let facts = [file, &new.nodes[*other]].map(|file| &file.header.stratum);
        let names: BTreeSet<&String> = facts.into_iter().flat_map(|facts| facts.keys()).gather();
        for name in names {
            let [one, other] = facts.map(|facts| facts.get(name).map_or("unknown", String::as_str));
            if one != other {
                *counts.entry((name, one, other)).or_default() += 1;
            }
        }
    }
    let facts = counts.into_iter().map(|((name, base, new), count)| {
        (name.to_owned(), base.to_owned(), new.to_owned(), count)
    });
    found.extend(facts);
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
        let drawn = |faults| from_lines(Drawn::new(&Noise::plain(), 24, faults, 7).sweep());
        let base = drawn(vec![]);
        let all = (0..24).map(|node| Fault::Figure(node, 3, 0.1));
        let mut new = drawn(all.chain([Fault::Figure(9, 0, 0.3)]).collect());
        new.nodes.remove(23);
        let found = compare(&base, &new);
        assert_eq!((found.nodes.len(), found.only.0.len(), found.only.1.len()), (23, 1, 0));
        let changed: Vec<_> = found.figures.iter().filter(|one| one.finding.is_some()).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].key.experiment, "os.syscall");
        assert_eq!(changed[0].finding, Some(Direction::Worse));
        assert!(
            (changed[0].common.unwrap().ratio() - 1.105).abs() < 0.01,
            "{:?}",
            changed[0].common
        );
        let apart: Vec<&str> = found.apart().map(|(_, node)| node.node.as_str()).collect();
        assert_eq!(apart, ["n009"]);
        assert!(found.has_finding() && found.around.is_empty() && found.missing.is_empty());
        assert!(!compare(&base, &drawn(vec![])).has_finding());
    }
}
