//! Where a value stands among those of its peers: a robust z on the log scale.
//!
//! The centre is a median and the scale a standard deviation of what is not far from it, so that
//! neither follows the nodes that are looked for. A scale of few peers is uncertain: it is never
//! taken below what the other figures of the same kind say, and the tails are Student's.

use record::order::InOrder;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use stats::compare::variance::{Prior, Variance, shrunk};
use stats::quantile::median;
use std::f64::consts::FRAC_PI_2;

/// Fewest peers of a node that is compared.
pub const LEAST_PEERS: usize = 5;

/// A consistent standard deviation from the median absolute deviation of a normal distribution.
const FROM_MAD: f64 = 1.4826;
/// Values further from the centre, in robust standard deviations, do not count for the scale.
const FAR: f64 = 3.5;
/// Up to so many values a node is left out of its own peers; among more it makes no difference.
const SMALL: usize = 64;
/// Above so many degrees of freedom Student's distribution is the normal one.
const MANY: f64 = 1e6;

/// A node's value of one subject.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub rank: u32,
    /// The logarithm, more is worse.
    pub x: f64,
    /// Variance of `x` by the node's own rounds, where they say.
    pub own: Option<f64>,
    /// In the figure's unit.
    pub value: f64,
    /// The range that was predicted, in the same unit.
    pub predicted: Option<(f64, f64)>,
}

/// Centre and scale of some peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Peers {
    pub centre: f64,
    pub variance: f64,
    pub freedom: f64,
    pub count: usize,
}

impl Peers {
    /// Of a node as healthy as its peers, measured once: their variance, and the uncertainty of the
    /// centre (a median's).
    pub fn squared_error(&self) -> f64 {
        self.variance * (1.0 + FRAC_PI_2 / self.count as f64)
    }
}

/// The standard deviation from a centre by the median absolute deviation; 0 of nothing.
pub(super) fn deviation(values: &[f64], centre: f64) -> f64 {
    let away: Vec<f64> = values.iter().map(|x| (x - centre).abs()).collect();
    FROM_MAD * median(&away).unwrap_or(0.0)
}

/// The centre and scale of values, never less spread than `floor` (a standard deviation) before the
/// far ones are left out. `None` below two values.
pub(crate) fn spread(values: &[f64], floor: f64) -> Option<Peers> {
    let mut centre = median(values)?;
    let mut scale = deviation(values, centre).max(floor);
    let mut found = None;
    // The second time the scale is that of what the first one kept: a third of bad nodes is left out.
    for _ in 0..2 {
        let near = |x: &&f64| (*x - centre).abs() <= FAR * scale;
        let kept: Vec<f64> = values.iter().filter(near).copied().collect();
        if kept.len() < 2 {
            break;
        }
        centre = median(&kept)?;
        let squares: f64 = kept.iter().map(|x| (x - centre).powi(2)).sum();
        let freedom = (kept.len() - 1) as f64;
        let variance = squares / freedom;
        scale = variance.sqrt().max(floor);
        found = Some(Peers { centre, variance, freedom, count: values.len() });
    }
    found
}

/// All nodes of a stratum in one subject.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// Index of the subject.
    pub subject: usize,
    /// Index of the stratum.
    pub stratum: usize,
    /// The nodes in ascending order.
    pub rows: Vec<Row>,
    /// Typical variance by a node's own rounds.
    pub own: f64,
    /// The typical scale of the kind, as a standard deviation.
    floor: f64,
    prior: Option<Prior>,
    whole: Option<Peers>,
}

impl Field {
    pub fn new(subject: usize, stratum: usize, mut rows: Vec<Row>) -> Field {
        rows.order_by_key(|row| row.rank);
        let owns: Vec<f64> = rows.iter().filter_map(|row| row.own).collect();
        let own = median(&owns).unwrap_or(0.0);
        let whole = spread(&xs(&rows), 0.0);
        Field { subject, stratum, rows, own, floor: 0.0, prior: None, whole }
    }

    /// Whether there are enough peers to compare with.
    pub fn is_compared(&self) -> bool {
        self.rows.len() > LEAST_PEERS && self.whole.is_some()
    }

    /// The centre of all of them.
    pub fn centre(&self) -> f64 {
        self.whole.map_or_else(|| median(&xs(&self.rows)).unwrap_or(0.0), |whole| whole.centre)
    }

    /// The variance of the nodes, before anything is known of other figures.
    pub fn variance(&self) -> Option<Variance> {
        let whole = self.whole.filter(|_| self.is_compared())?;
        Some(Variance { variance: whole.variance, freedom: whole.freedom })
    }

    /// Takes what the figures of the same kind say of the scale.
    pub fn steady(&mut self, floor: f64, prior: Option<Prior>) {
        (self.floor, self.prior) = (floor, prior);
        self.whole = spread(&xs(&self.rows), floor);
    }

    /// What the other nodes say by themselves, by the index of a row.
    pub fn others(&self, at: usize) -> Option<Peers> {
        match self.rows.len() {
            0..=SMALL => {
                let mut others = xs(&self.rows);
                others.swap_remove(at);
                spread(&others, self.floor)
            }
            _ => self.whole,
        }
    }

    /// The peers of a node, by the index of its row.
    pub fn peers(&self, at: usize) -> Option<Peers> {
        let peers = self.others(at)?;
        let own = Variance { variance: peers.variance, freedom: peers.freedom };
        let steadied = shrunk(own, self.prior);
        // Figures differ in scale: the kind may widen it, never narrow.
        let used = if steadied.variance > own.variance { steadied } else { own };
        Some(Peers { variance: used.variance, freedom: used.freedom, ..peers })
    }

    /// What a node's own rounds add to the variance of its value, where they scatter more than those
    /// of a typical node.
    pub fn excess(&self, own: Option<f64>) -> f64 {
        own.map_or(0.0, |own| (own - self.own).max(0.0))
    }

    /// The error of one measurement of a node against its peers, and its degrees of freedom.
    pub fn error(&self, at: usize) -> Option<Variance> {
        let (row, peers) = (&self.rows[at], self.peers(at)?);
        let variance = peers.squared_error() + self.excess(row.own);
        Some(Variance { variance, freedom: peers.freedom })
    }

    /// The z and the one-sided p of a node.
    pub fn place(&self, at: usize) -> Option<(f64, f64)> {
        if !self.is_compared() {
            return None;
        }
        let (peers, error) = (self.peers(at)?, self.error(at)?);
        Some(tail(self.rows[at].x - peers.centre, error.variance.sqrt(), error.freedom))
    }
}

fn xs(rows: &[Row]) -> Vec<f64> {
    rows.iter().map(|row| row.x).collect()
}

/// A distance in standard errors, and how likely chance gives as much.
pub(crate) fn tail(distance: f64, error: f64, freedom: f64) -> (f64, f64) {
    match (distance > 0.0, error > 0.0) {
        (true, true) => {
            let z = distance / error;
            let student = || StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| student.sf(z));
            (z, if freedom > MANY { Normal::standard().sf(z) } else { student() })
        }
        // Without scatter any distance is infinitely far, and equal values have none.
        (true, false) => (f64::MAX, 0.0),
        (false, true) => (distance / error, 1.0),
        (false, false) => (0.0, 1.0),
    }
}

/// The standard errors that chance exceeds with this probability: the inverse of [`tail`].
pub(crate) fn errors(p: f64, freedom: f64) -> f64 {
    let normal = || -Normal::standard().inverse_cdf(p);
    let student =
        || StudentsT::new(0.0, 1.0, freedom).map_or_else(|_| normal(), |t| -t.inverse_cdf(p));
    if freedom > MANY { normal() } else { student() }
}

/// Half the width of a 95 % interval in standard errors.
pub(super) fn reach(freedom: f64) -> f64 {
    errors(0.025, freedom)
}
