//! The second measurement: what phase 4 says of each suspect.

use super::first::{First, LEAST_LINK, LinkTest, Test};
use super::fit::{Fit, usable};
use super::looks::{ACCUSED_RATE, Known, LAST, Outcome, weight};
use super::peers::{LEAST_PEERS, reach, tail};
use super::repeats::{Repeats, pooled, sum};
use super::{Role, least_effect, signed, sought};
use crate::read::Sweep;
use crate::sweep::{Figure, Purpose};
use record::key::Key;
use record::metric::Kind;
use record::order::InOrder;
use statrs::distribution::{Binomial, DiscreteCDF};
use stats::compare::variance::Variance;
use stats::quantile::{median, sorted};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::f64::consts::FRAC_PI_2;

/// Fewest degrees of freedom that say how much repetitions scatter: with fewer each is as uncertain
/// as a first measurement.
const LEAST_FREEDOM: f64 = 8.0;
/// One variance is larger than another if the difference exceeds this many standard errors.
const LARGER: f64 = 5.0;
/// Variance of a trimmed mean of normal values, in variances of one over their number.
pub(super) const OF_TRIMMED: f64 = 1.15;
/// Up to so many peers each is left out of what it is compared with.
const FEW: usize = 64;
/// Iterations of a weighted mean whose weights depend on it.
const WEIGHINGS: usize = 8;
/// Repetitions of anything that is concluded from.
const LEAST_AGAIN: usize = 2;

/// What the second measurement of a suspect says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Again {
    /// How often it was measured.
    pub count: usize,
    /// Its distance from the peers, as a log: all repetitions together.
    pub distance: f64,
    /// z, and p over the share of the look.
    pub z: f64,
    pub p: f64,
    /// Half the 95 % interval of the distance.
    pub half: f64,
    /// The other ends.
    pub partners: Vec<u32>,
    /// The least distance that counts, and the one that is to be found.
    least: f64,
    sought: f64,
    /// Whether this can confirm anything.
    is_evidence: bool,
}

impl Again {
    fn new(distances: &[f64], error: Variance, (least, sought): (f64, f64)) -> Again {
        let count = distances.len();
        let distance = Repeats::from_values(distances).map_or(0.0, |repeats| repeats.mean);
        let (z, p) = match count {
            0 => (0.0, 1.0),
            _ => tail(distance, error.variance.sqrt(), error.freedom),
        };
        let p = (p / weight(count)).min(1.0);
        let half = reach(error.freedom) * error.variance.sqrt();
        let (partners, is_evidence) = (Vec::new(), count >= LEAST_AGAIN);
        Again { count, distance, z, p, half, partners, least, sought, is_evidence }
    }

    /// Half of its distance.
    fn half_way(&self) -> f64 {
        self.distance / 2.0
    }

    /// Raises p to the probability that a healthy node or link is half as far in as many repetitions,
    /// if a `share` of the others' is: disturbances are not normal noise, and several may meet in one
    /// node of many.
    fn among(self, share: f64, own: &[f64]) -> Again {
        let times = own.iter().filter(|distance| **distance >= self.half_way()).count() as u64;
        let rare = match (Binomial::new(share, own.len() as u64), times.checked_sub(1)) {
            (Ok(chance), Some(fewer)) => chance.sf(fewer),
            _ => 1.0,
        };
        Again { p: self.p.max((rare / weight(own.len())).min(1.0)), ..self }
    }

    fn nothing(effects: (f64, f64)) -> Again {
        Again::new(&[], Variance { variance: 0.0, freedom: 1.0 }, effects)
    }

    /// What follows, found at a rate of `q`.
    pub fn outcome(&self, q: f64) -> Outcome {
        let is_last = self.count >= LAST as usize;
        if self.count < LEAST_AGAIN {
            Outcome::Open
        } else if q <= ACCUSED_RATE && self.distance >= self.least && self.is_evidence {
            Outcome::Shown
        } else if self.distance < self.least && (is_last || self.distance + self.half < self.sought)
        {
            Outcome::Cleared
        } else {
            Outcome::Open
        }
    }
}

/// The repetitions of a figure in a stratum.
#[derive(Debug, Default)]
struct Repeated {
    /// Distances from the peers of the same repetition, by node.
    distances: BTreeMap<u32, Vec<f64>>,
    /// Those of the peers, ascending.
    beside: Vec<f64>,
    /// How many peers were measured beside the suspects, in the median repetition; 0 where the first
    /// measurement stands for them.
    peers: usize,
}

/// What figures have in common whose healthy nodes differ alike: stratum, kind, and whether it is
/// their scatter.
pub(super) type Like = (usize, Kind, bool);

pub(super) fn like(first: &First, field: usize) -> Like {
    let subject = first.subject(field);
    (first.fields[field].stratum, subject.kind, subject.is_scatter)
}

/// What healthy nodes differ by for good, over all figures of a kind, one standard error more than it
/// seems. The scatter of a figure explains a part of what the nodes differed by once.
pub(super) fn lasting(first: &First, scatter: impl Fn(usize) -> f64) -> HashMap<Like, Variance> {
    let mut alike: HashMap<Like, Vec<(Variance, f64)>> = HashMap::new();
    for (at, field) in first.fields.iter().enumerate() {
        let is_alone = first.subject(at).is_alone();
        if let Some(once) = field.variance().filter(|of| is_alone && of.variance > 0.0) {
            alike.entry(like(first, at)).or_default().push((once, scatter(at)));
        }
    }
    alike.into_iter().filter_map(|(like, all)| Some((like, pooled_lasting(&all)?))).collect()
}

/// The weighted mean of the variances less their scatter. Quiet figures weigh most. No weight exceeds
/// that of a figure at the mean: with few nodes the smallest variances are small by chance, and
/// weights by the variances alone gave two thirds of the difference between ten nodes.
fn pooled_lasting(all: &[(Variance, f64)]) -> Option<Variance> {
    let seen: Vec<f64> = all.iter().map(|(once, _)| once.variance).collect();
    let mut lasting = median(&seen)?;
    let mut error = 0.0;
    for _ in 0..WEIGHINGS {
        let (mut weights, mut sum, mut precision) = (0.0, 0.0, 0.0);
        for (once, scatter) in all {
            let at_least = once.variance.max(lasting + scatter);
            let weight = once.freedom * at_least.powi(-3);
            weights += weight;
            sum += weight * (once.variance - scatter);
            precision += once.freedom / (2.0 * at_least * at_least);
        }
        (lasting, error) = ((sum / weights).max(0.0), (1.0_f64 / precision).sqrt());
    }
    let freedom: f64 = all.iter().map(|(once, _)| once.freedom).sum();
    // As sure as a quarter of the figures.
    Some(Variance { variance: lasting + error, freedom: (freedom / 4.0).max(1.0) })
}

/// Logarithms of pairs of one figure by near and far end, in the order of their steps.
type Paths = HashMap<(u32, u32), Vec<f64>>;

/// All that was measured again.
pub(super) struct Second<'a> {
    sweep: &'a Sweep,
    first: &'a First,
    fields: HashMap<usize, Repeated>,
    lasting: HashMap<Like, Variance>,
    pairs: HashMap<&'a Key, Paths>,
}

impl<'a> Second<'a> {
    pub fn new(sweep: &'a Sweep, first: &'a First, known: Known) -> Second<'a> {
        let mut figures: HashMap<&Key, Vec<&Figure>> = HashMap::new();
        let is_known = |of: &&Figure| of.again > 0 && of.again <= known.repetitions();
        for figure in sweep.figures.iter().filter(is_known) {
            figures.entry(&figure.key).or_default().push(figure);
        }
        let mut pairs: HashMap<&Key, Paths> = HashMap::new();
        for pair in sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Suspect) {
            if let Some(x) = usable(pair).filter(|_| pair.step < known.steps) {
                let ends = pairs.entry(&pair.key).or_default();
                ends.entry((pair.from, pair.to)).or_default().push(x);
            }
        }
        let mut chosen: HashMap<usize, HashSet<u32>> = HashMap::new();
        for test in first.chosen.iter().map(|at| &first.tests[*at]) {
            if first.subject(test.field).role == Role::Alone {
                chosen.entry(test.field).or_default().insert(first.rank(test));
            }
        }
        let repeated = |(field, suspects): (usize, HashSet<u32>)| {
            let figures = figures.get(&first.subject(field).key)?;
            Some((field, Repeated::new(first, field, figures, &suspects)))
        };
        let fields: HashMap<usize, Repeated> = chosen.into_iter().filter_map(repeated).collect();
        // Of a figure that was not repeated its own rounds say how much it scatters.
        let lasting = lasting(first, |field| {
            let repeated = fields.get(&field).and_then(Repeated::scatter);
            repeated.unwrap_or(first.fields[field].own)
        });
        Second { sweep, first, fields, lasting, pairs }
    }

    /// A node's figure.
    pub fn node(&self, test: &Test) -> Again {
        match self.first.subject(test.field).role {
            Role::Alone => self.alone(test),
            role => self.end(test, role),
        }
    }

    fn alone(&self, test: &Test) -> Again {
        let (subject, field) = (self.first.subject(test.field), &self.first.fields[test.field]);
        let effects = (least_effect(subject), sought(subject));
        let repeated = self.fields.get(&test.field);
        let distances = repeated.and_then(|of| of.distances.get(&self.first.rank(test)));
        let (Some(repeated), Some(distances)) = (repeated, distances) else {
            return Again::nothing(effects);
        };
        let (Some(once), Some(others)) = (field.error(test.row), field.others(test.row)) else {
            return Again::nothing(effects);
        };
        let others = Variance { variance: others.variance, freedom: others.freedom };
        let lasting = self.lasting.get(&like(self.first, test.field));
        let error = lasting.and_then(|of| repeated.error(distances.len(), others, *of));
        let again = Again::new(distances, error.unwrap_or(once), effects);
        let share = repeated.share_beyond(again.half_way());
        let again = again.among(share, distances);
        // Six rounds of a device or of the system scatter as others let them, for as long as these
        // stay: that confirms nothing about the node (docs/notes, the fleet's model).
        let is_evidence = match (subject.is_scatter, subject.kind) {
            (true, Kind::Os | Kind::Io) => false,
            (true, Kind::Hardware) => distances.iter().all(|distance| *distance >= effects.0),
            (false, _) => true,
        };
        Again { is_evidence: again.is_evidence && is_evidence, ..again }
    }

    /// The pairs of one end that were measured again: what each leaves of the other end, and which
    /// that is.
    fn with_partners(
        &self,
        fit: &Fit,
        rank: u32,
        is_near: bool,
        but: Option<u32>,
    ) -> Vec<(u32, f64)> {
        let ends = self.pairs.get(&fit.key).into_iter().flatten();
        let mut found: Vec<(u32, f64)> = Vec::new();
        for (&(from, to), logs) in ends {
            let is_its = if is_near { from == rank } else { to == rank };
            let is_its = is_its || fit.is_shared && [from, to].contains(&rank);
            let partner = if from == rank { to } else { from };
            if !is_its || Some(partner) == but || self.first.suspects.contains(&partner) {
                continue;
            }
            if let Some(level) = self.level(fit, (from, to)) {
                let other = fit.end(partner, partner == from);
                found.extend(logs.iter().map(|x| (partner, x - level - other)));
            }
        }
        found.order_by_key(|(partner, _)| *partner);
        found
    }

    /// What a pair lets expect whose ends are as good as their peers, with nothing else running.
    fn level(&self, fit: &Fit, ends: (u32, u32)) -> Option<f64> {
        let known = ends.0 != ends.1 && fit.at(ends.0).is_some() && fit.at(ends.1).is_some();
        let centre = known.then(|| fit.class_centre(self.sweep, &self.first.place, ends))??;
        Some(centre + fit.alone.0)
    }

    fn end(&self, test: &Test, role: Role) -> Again {
        let (subject, field) = (self.first.subject(test.field), &self.first.fields[test.field]);
        let effects = (least_effect(subject), sought(subject));
        let fit = self.first.fits.iter().find(|fit| fit.key == subject.key);
        let (Some(fit), Some(peers)) = (fit, field.peers(test.row)) else {
            return Again::nothing(effects);
        };
        let rank = self.first.rank(test);
        let found = self.with_partners(fit, rank, role != Role::Receive, None);
        let distances: Vec<f64> = found.iter().map(|(_, effect)| effect - peers.centre).collect();
        let pairs = fit.variance / distances.len().max(1) as f64;
        let variance = peers.squared_error() + pairs + fit.alone.1;
        let again = Again::new(&distances, Variance { variance, freedom: peers.freedom }, effects);
        let share = fit.share_beyond(again.half_way(), &[rank]);
        Again { partners: partners(&found), ..again.among(share, &distances) }
    }

    /// How much worse a link is than its two ends explain. If one end became worse with all
    /// partners, that loss is subtracted first: an end that is as bad with others clears the link.
    pub fn link(&self, link: &LinkTest) -> Again {
        let fit = &self.first.fits[link.fit];
        let near = self.with_partners(fit, link.from, true, Some(link.to));
        let far = self.with_partners(fit, link.to, false, Some(link.from));
        let ends = [(link.from, true, &near), (link.to, false, &far)];
        let moved = ends.iter().filter_map(|(rank, is_near, found)| {
            let fitted = fit.end(*rank, *is_near) - fit.alone.0;
            let moved: Vec<f64> = found.iter().map(|(_, effect)| effect - fitted).collect();
            Some((median(&moved)?, FRAC_PI_2 * fit.variance / moved.len() as f64))
        });
        let fitted = fit.end(link.from, true) + fit.end(link.to, false);
        let worse = moved.max_by(|a, b| a.0.total_cmp(&b.0));
        // Where no other pair was measured with nothing else running, the gain of all pairs stands in.
        let (moved, error) = worse.unwrap_or(fit.alone);
        let distances = self.path(fit, (link.from, link.to), fitted - fit.alone.0 + moved);
        let others = error + fit.variance * fit.of_ends(link.link);
        let variance = fit.variance / distances.len().max(1) as f64 + others;
        let error = Variance { variance, freedom: fit.freedom.max(1.0) };
        let again = Again::new(&distances, error, (LEAST_LINK.ln(), 2.0 * LEAST_LINK.ln()));
        let all: Vec<(u32, f64)> = near.into_iter().chain(far).collect();
        let share = fit.share_beyond(again.half_way(), &link.ends());
        Again { partners: partners(&all), ..again.among(share, &distances) }
    }

    /// The distances of one path from the level of its class and what its ends add.
    fn path(&self, fit: &Fit, path: (u32, u32), ends: f64) -> Vec<f64> {
        let logs = self.pairs.get(&fit.key).and_then(|pairs| pairs.get(&path));
        let level = self.level(fit, path);
        let of = |level: f64| logs.into_iter().flatten().map(move |x| x - level - ends).collect();
        level.map(of).unwrap_or_default()
    }
}

fn partners(found: &[(u32, f64)]) -> Vec<u32> {
    let mut partners: Vec<u32> = found.iter().map(|(partner, _)| *partner).collect();
    partners.dedup();
    partners
}

impl Repeated {
    fn new(first: &First, field: usize, figures: &[&Figure], suspects: &HashSet<u32>) -> Repeated {
        let (subject, of) = (first.subject(field), &first.fields[field]);
        let x = |figure: &Figure| match subject.is_scatter {
            true => figure.estimate.scatter.filter(|scatter| *scatter > 0.0).map(f64::ln),
            false => signed(figure.estimate.value, figure.better),
        };
        let mut by_time: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
        for figure in figures {
            let is_peer = first.place.get(&figure.rank) == Some(&of.stratum);
            if let Some(x) = x(figure).filter(|_| is_peer) {
                by_time.entry(figure.again).or_default().insert(figure.rank, x);
            }
        }
        let mut repeated = Repeated::default();
        let mut peers = Vec::new();
        for logs in by_time.values() {
            let beside = |but: Option<&u32>| -> Vec<f64> {
                let is_peer = |rank: &u32| !suspects.contains(rank) && Some(rank) != but;
                logs.iter().filter(|(rank, _)| is_peer(rank)).map(|(_, x)| *x).collect()
            };
            let all = beside(None);
            let is_enough = all.len() >= LEAST_PEERS;
            let mean = |peers: &[f64]| {
                let mean =
                    Repeats::from_values(peers).filter(|_| is_enough).map(|peers| peers.mean);
                mean.unwrap_or_else(|| of.centre())
            };
            let centre = mean(&all);
            peers.push(if is_enough { all.len() as f64 } else { 0.0 });
            for (rank, x) in logs {
                let is_in = all.len() <= FEW && !suspects.contains(rank);
                let centre = if is_in { mean(&beside(Some(rank))) } else { centre };
                repeated.distances.entry(*rank).or_default().push(x - centre);
            }
        }
        repeated.peers = median(&peers).unwrap_or(0.0) as usize;
        if repeated.peers > 0 {
            let beside = repeated.distances.iter().filter(|(rank, _)| !suspects.contains(rank));
            repeated.beside = sorted(&beside.flat_map(|(_, of)| of.clone()).collect::<Vec<f64>>());
        }
        repeated
    }

    /// The share of the peers' repetitions at least so `far` away, with one added to both counts; 0
    /// where no peers were measured.
    fn share_beyond(&self, far: f64) -> f64 {
        let count = self.beside.len();
        let seen = count - self.beside.partition_point(|distance| *distance < far);
        if count == 0 { 0.0 } else { (seen + 1) as f64 / (count + 1) as f64 }
    }

    /// What the peers add to the variance of a distance, as a factor.
    fn of_peers(&self) -> f64 {
        if self.peers == 0 { 1.0 } else { 1.0 + OF_TRIMMED / self.peers as f64 }
    }

    /// The squared error of the trimmed mean of `count` repetitions, from the first `count` of every node
    /// that has as many. Further repetitions of peers do not change it.
    fn of_first(&self, count: usize) -> Option<Variance> {
        let first = self.distances.values().filter_map(|distances| distances.get(..count));
        pooled(&first.filter_map(Repeats::from_values).collect::<Vec<Repeats>>())
    }

    /// The variance of one repetition, from the number of repetitions that says most.
    fn scatter(&self) -> Option<f64> {
        let mut counts: Vec<usize> = self.distances.values().map(Vec::len).collect();
        counts.sort_unstable();
        counts.dedup();
        let of = |count: &usize| Some((*count, self.of_first(*count)?));
        let most = counts.iter().filter_map(of).max_by(|a, b| a.1.freedom.total_cmp(&b.1.freedom));
        most.map(|(count, error)| count as f64 * error.variance / self.of_peers())
    }

    /// The squared error of `count` repetitions of a healthy node: what lasts, and what they scatter.
    /// Of what the others differed by the first time, the repetitions explain their own part;
    /// the rest lasts where it is plainly more than what figures of the kind say. `None` where too few
    /// repetitions say how much they scatter.
    fn error(&self, count: usize, others: Variance, lasting: Variance) -> Option<Variance> {
        let scatter = self.of_first(count).filter(|of| of.freedom >= LEAST_FREEDOM)?;
        let once = count as f64 * scatter.variance / self.of_peers();
        let (rest, alike) = (others.variance - once, lasting.variance + once);
        let is_more = others.variance > alike * (1.0 + LARGER * (2.0 / others.freedom).sqrt());
        let lasts = match is_more {
            true => Variance { variance: rest, freedom: others.freedom },
            false => lasting,
        };
        Some(sum(&[Variance { variance: lasts.variance * self.of_peers(), ..lasts }, scatter]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    /// Further repetitions of the peers, for other suspects, do not change the error at an earlier look.
    #[test]
    fn later_repetitions_of_peers_leave_the_error_of_an_earlier_look() {
        let scattered = |count: u64| -> Vec<f64> {
            (0..count).map(|at| ((at * 7919) % 13) as f64 / 100.0).collect()
        };
        let of = |peers: u64| Repeated {
            distances: (0..6)
                .map(|rank| (rank, scattered(if rank == 0 { 6 } else { peers })))
                .collect(),
            ..Repeated::default()
        };
        let (at_look, later) = (of(6).of_first(6).unwrap(), of(16).of_first(6).unwrap());
        assert_eq!(at_look, later);
        assert!(of(16).of_first(16).unwrap().variance < later.variance);
        assert_eq!(of(16).of_first(17), None);
    }

    /// A node that is worse by more than the least effect is not cleared because it is not as bad as
    /// what is to be found: a later look may show it.
    #[test]
    fn what_is_worse_by_the_least_effect_stays_open() {
        let outcome = |distance: f64| {
            let error = Variance { variance: 1e-4, freedom: 90.0 };
            Again::new(&[distance; 3], error, (0.05, 0.1)).outcome(0.5)
        };
        assert_eq!([0.04, 0.06].map(outcome), [Outcome::Cleared, Outcome::Open]);
    }

    /// Ten nodes that differ alike in sixteen figures: their variances differ by chance alone.
    #[test]
    fn the_least_variances_of_few_nodes_do_not_decide_what_lasts() {
        let chance = ChiSquared::new(9.0).unwrap();
        let variance = |at: usize| chance.inverse_cdf((at as f64 + 0.5) / 16.0) / 9.0;
        let all: Vec<(Variance, f64)> =
            (0..16).map(|at| (Variance { variance: variance(at), freedom: 9.0 }, 0.0)).collect();
        let lasting = pooled_lasting(&all).unwrap().variance;
        assert!((0.8..1.1).contains(&lasting), "{lasting}");
        let scattered: Vec<(Variance, f64)> = all.iter().map(|(once, _)| (*once, 0.5)).collect();
        let rest = pooled_lasting(&scattered).unwrap().variance;
        assert!(rest < lasting - 0.3, "{rest}");
        assert_eq!(pooled_lasting(&[]), None);
        // A figure that differed little by chance, and whose repetitions scatter much, says little.
        let chance = (Variance { variance: 1.0, freedom: 9.0 }, 30.0);
        let beside: Vec<(Variance, f64)> = all.iter().copied().chain([chance]).collect();
        assert!((pooled_lasting(&beside).unwrap().variance / lasting - 1.0).abs() < 0.05);
    }
}
