//! The sweep itself: strata, the values of each figure in a stratum, and where a node stands in them.

use super::repeated::{Repeated, repeat};
use super::step::Step;
use super::{EACH, FOUND, LEAST_PEERS, PEERS, RATE, STEPS_LEAST, least_effect, mean_error, signed};
use crate::file::Purpose;
use crate::fit::{Between, Fit};
use crate::peers::{Peers, SMALL, errors, spread_to_worse, tail};
use crate::read::{Fleet, NodeFile, Value};
use record::metric::{Better, Kind};
use record::order::{Gather, InOrder};
use std::collections::{BTreeMap, BTreeSet};

/// Standard errors from which a node, and a link, stands out.
const STANDS_OUT: f64 = 2.33;
const LINK_STANDS_OUT: f64 = 3.0;

/// Nodes of identical hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Stratum {
    /// The facts in which it differs from the others.
    pub name: String,
    /// Its nodes, by their place in [`Fleet::nodes`].
    pub nodes: Vec<usize>,
}

/// Whether no node of a stratum has enough peers.
pub fn is_small(stratum: &Stratum) -> bool {
    stratum.nodes.len() <= LEAST_PEERS
}

/// Which end of its pairs a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Alone,
    Send,
    Receive,
    /// Which either end, of round trips.
    Both,
}

/// What is compared: a figure by its place in [`Fleet::figures`], of a kind of end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    pub figure: usize,
    pub role: Role,
}

/// A node's value of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub node: usize,
    /// The logarithm, more is worse.
    pub x: f64,
    /// Variance of `x` by the node's own rounds.
    pub scatter: f64,
    /// In the figure's unit.
    pub value: f64,
    pub predicted: Option<(f64, f64)>,
    pub better: Better,
}

impl Row {
    /// Gives it another logarithm, and the value of that.
    pub(super) fn moves_to(&mut self, x: f64) {
        self.x = x;
        self.value = if self.better == Better::Higher { (-x).exp() } else { x.exp() };
    }
}

/// All nodes of a stratum in one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub subject: Subject,
    pub stratum: usize,
    pub rows: Vec<Row>,
    pub kind: Kind,
    /// Where all of its nodes were measured again.
    pub repeated: Option<Repeated>,
    /// Distances of each row from the median of each step, where there are such steps.
    pub(super) distances: Vec<Vec<f64>>,
    /// So many comparisons may be false: of all suspects, or of all nodes that are measured again.
    pub(super) tests: usize,
    /// Typical variance by a node's own rounds.
    pub(super) scatter: f64,
    pub(crate) whole: Option<Peers>,
    /// Least effect of an accusation, as a log.
    pub least: f64,
}

/// A node in a field, by the place of its row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Distance from its peers, as a log, and its standard error.
    pub distance: f64,
    pub error: f64,
    /// Distance in standard errors, and how likely chance gives as much.
    pub z: f64,
    pub p: f64,
}

pub struct First {
    pub strata: Vec<Stratum>,
    pub places: Vec<usize>,
    pub fields: Vec<Field>,
    pub(crate) fits: Vec<Fit>,
}

impl Field {
    fn new(subject: Subject, stratum: usize, kind: Kind, rows: Vec<Row>) -> Field {
        let owns: Vec<f64> = rows.iter().map(|row| row.scatter).collect();
        let scatter = stats::quantile::median(&owns).unwrap_or(0.0);
        let mut sorted = stats::quantile::sorted(&xs(&rows));
        // Of few nodes the worst one is no measure of the others.
        if (3..=SMALL).contains(&sorted.len()) {
            sorted.pop();
        }
        let whole = spread_to_worse(&sorted);
        let least = least_effect(kind).ln();
        let (repeated, distances) = (None, Vec::new());
        Field { subject, stratum, rows, kind, repeated, distances, tests: 1, scatter, whole, least }
    }

    pub fn is_compared(&self) -> bool {
        self.rows.len() > LEAST_PEERS && self.whole.is_some()
    }

    pub fn centre(&self) -> f64 {
        self.whole.map_or_else(
            || stats::quantile::median(&xs(&self.rows)).unwrap_or(0.0),
            |whole| whole.centre,
        )
    }

    fn peers(&self, row: usize) -> Option<Peers> {
        if self.rows.len() > SMALL || self.repeated.is_some() {
            return self.whole;
        }
        let mut others = xs(&self.rows);
        others.swap_remove(row);
        spread_to_worse(&others)
    }

    /// Where a node stands; `None` without enough peers.
    pub fn standing(&self, row: usize) -> Option<Standing> {
        let peers = self.peers(row).filter(|_| self.is_compared())?;
        let one = &self.rows[row];
        let excess = match self.repeated {
            Some(_) => 0.0,
            None => (one.scatter - self.scatter).max(0.0),
        };
        let error = (peers.squared_error() + excess).sqrt();
        let distance = one.x - peers.centre;
        let (z, p) = tail(distance, error, peers.freedom);
        Some(Standing { distance, error, z, p })
    }

    /// The places of the rows that stand out.
    pub fn out(&self) -> Vec<usize> {
        let is_out = |row: &usize| {
            self.standing(*row).is_some_and(|one| one.distance >= self.least && one.z >= STANDS_OUT)
        };
        (0..self.rows.len()).filter(is_out).collect()
    }

    /// The least loss that stands out in 95 % of sweeps and is accused after [`STEPS_LEAST`] steps, as a
    /// log.
    pub(super) fn seen_from(&self) -> Option<f64> {
        let whole = self.whole.filter(|_| self.is_compared())?;
        let once = whole.squared_error().sqrt();
        let error = mean_error(once * once, None, STEPS_LEAST, self.least).sqrt();
        let freedom = whole.freedom + (STEPS_LEAST * PEERS) as f64;
        let significant = (errors(RATE / self.tests as f64, freedom) + FOUND) * error;
        let stands_out = self.least.max(STANDS_OUT * once) + FOUND * once;
        let each_time = EACH * self.least + 2.2 * once;
        Some(stands_out.max(self.least + FOUND * error).max(each_time).max(significant))
    }
}

fn xs(rows: &[Row]) -> Vec<f64> {
    rows.iter().map(|row| row.x).collect()
}

impl First {
    /// Everything that the sweep itself says.
    pub fn new(fleet: &Fleet) -> First {
        First::with_steps(fleet, &Step::all(fleet))
    }

    pub(super) fn with_steps(fleet: &Fleet, steps: &[Step]) -> First {
        let (strata, places) = strata(&fleet.nodes);
        let mut rows: BTreeMap<(usize, Subject), Vec<Row>> = BTreeMap::new();
        for (node, file) in fleet.nodes.iter().enumerate() {
            for Value { figure, value, scatter, predicted, .. } in file.values.iter().copied() {
                let better = fleet.figures[figure].better;
                let Some(x) = signed(value, better) else { continue };
                let row = Row { node, x, scatter, value, predicted, better };
                let subject = Subject { figure, role: Role::Alone };
                rows.entry((places[node], subject)).or_default().push(row);
            }
        }
        let first = between(fleet, &fleet.nodes, |purpose| purpose == Purpose::Matching);
        let fits: Vec<Fit> = first
            .iter()
            .map(|(figure, pairs)| Fit::new(*figure, fleet.figures[*figure].better, pairs, &places))
            .collect();
        for fit in &fits {
            for role in fit.roles().iter().copied() {
                let subject = Subject { figure: fit.figure, role };
                for row in fit.rows(role) {
                    rows.entry((places[row.node], subject)).or_default().push(row);
                }
            }
        }
        let field = |((stratum, subject), rows): ((usize, Subject), Vec<Row>)| {
            let of_pairs = subject.role != Role::Alone;
            let kind = if of_pairs { Kind::Io } else { fleet.figures[subject.figure].kind };
            Field::new(subject, stratum, kind, rows)
        };
        let fields = rows.into_iter().map(field).collect();
        let mut first = First { strata, places, fields, fits };
        first.repeat(steps);
        first
    }

    /// Has figures that hide what is sought take the values of the steps.
    fn repeat(&mut self, steps: &[Step]) {
        let suspects = 1 + self.fields.iter().map(|field| field.out().len()).sum::<usize>();
        self.fields.iter_mut().for_each(|field| field.tests = suspects);
        let hiding = || self.fields.iter().filter(|field| field.hides());
        let rows = hiding().map(|field| field.rows.len()).sum();
        for stratum in 0..self.strata.len() {
            let (mut hiding, clear): (Vec<&mut Field>, Vec<&mut Field>) = self
                .fields
                .iter_mut()
                .filter(|field| field.stratum == stratum)
                .partition(|field| field.hides());
            repeat(&mut hiding, &clear, rows, steps);
        }
    }

    /// Links that stand out: the place of the fit and of the link, the residual and its error.
    pub(crate) fn links_out(&self) -> Vec<(usize, usize, f64, f64)> {
        let least = least_effect(Kind::Io).ln();
        let mut found = Vec::new();
        for (at, fit) in self.fits.iter().enumerate() {
            for (place, link) in fit.links.iter().enumerate() {
                if let Some((residual, error)) = fit.standing(link)
                    && residual >= least
                    && residual >= LINK_STANDS_OUT * error
                {
                    found.push((at, place, residual, error));
                }
            }
        }
        found
    }
}

/// Values between nodes by figure, with the last one of each pair. Ends without a file are left out.
pub(crate) fn between(
    fleet: &Fleet,
    files: &[NodeFile],
    is_counted: impl Fn(Purpose) -> bool,
) -> BTreeMap<usize, Vec<Between>> {
    let places = fleet.places();
    let mut found: BTreeMap<usize, BTreeMap<(usize, usize), Between>> = BTreeMap::new();
    for file in files {
        let Some(from) = places.get(file.header.host.as_str()) else { continue };
        for pair in file.pairs.iter().filter(|pair| is_counted(pair.purpose)) {
            let Some(to) = places.get(pair.to.as_str()) else { continue };
            for value in &pair.values {
                let Some(x) = signed(value.value, fleet.figures[value.figure].better) else {
                    continue;
                };
                let (from, to) = (*from, *to);
                let one = Between { from, to, x, scatter: value.scatter, value: value.value };
                found.entry(value.figure).or_default().insert((from, to), one);
            }
        }
    }
    found.into_iter().map(|(figure, pairs)| (figure, pairs.into_values().collect())).gather()
}

/// One stratum for each set of facts, the largest first, and the stratum of each node.
fn strata(nodes: &[NodeFile]) -> (Vec<Stratum>, Vec<usize>) {
    let mut groups: BTreeMap<&BTreeMap<String, String>, Vec<usize>> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        groups.entry(&node.header.stratum).or_default().push(place);
    }
    let names: BTreeSet<&String> = groups.keys().flat_map(|facts| facts.keys()).gather();
    let differs = |name: &&&String| {
        let mut values = groups.keys().map(|facts| facts.get(**name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let differs: Vec<&String> = names.iter().filter(differs).copied().collect();
    let mut strata: Vec<Stratum> = groups
        .iter()
        .map(|(facts, nodes)| {
            let values: Vec<&str> =
                differs.iter().filter_map(|name| facts.get(*name)).map(String::as_str).collect();
            let name =
                if values.is_empty() { "all nodes alike".to_owned() } else { values.join(", ") };
            Stratum { name, nodes: nodes.clone() }
        })
        .collect();
    strata.order_by_key(|stratum| (std::cmp::Reverse(stratum.nodes.len()), stratum.nodes[0]));
    let mut places = vec![0; nodes.len()];
    for (stratum, one) in strata.iter().enumerate() {
        one.nodes.iter().for_each(|node| places[*node] = stratum);
    }
    (strata, places)
}
