//! Verdicts from both measurements.

use super::below::below;
use super::confirm::{Again, Outcome, Second};
use super::first::{First, Test};
use super::peers::reach;
use super::select::{ACCUSED_RATE, q_values};
use super::{At, Charge, Evidence, Judgement, Role, Standing, Verdict};
use crate::read::Sweep;
use record::key::Key;
use stats::quantile::median;

/// The verdicts of a sweep: see [`judge`].
pub fn verdicts(sweep: &Sweep) -> Vec<Verdict> {
    judge(sweep).verdicts
}

/// All that the model says of a sweep. In a sweep without its phase 4 all that stands out is
/// [`Charge::Suspect`].
pub fn judge(sweep: &Sweep) -> Judgement {
    let first = First::new(sweep);
    let second = Second::new(sweep, &first);
    let mut bench = Bench { first: &first, verdicts: Vec::new(), cleared: Vec::new() };
    bench.nodes(&second);
    bench.flaky(&second);
    bench.links(&second);
    let Bench { mut verdicts, cleared, .. } = bench;
    verdicts.sort_by(|a, b| {
        let order = a.charge.cmp(&b.charge).then(a.evidence.q.total_cmp(&b.evidence.q));
        order.then(b.evidence.z.total_cmp(&a.evidence.z)).then(a.at.cmp(&b.at))
    });
    let below = below(sweep, &first.place);
    let standings = standings(&first);
    let subjects = first.topics.iter().map(|topic| topic.subject.clone()).collect();
    let First { strata, untested, .. } = first;
    Judgement { strata, subjects, standings, verdicts, cleared, below, untested }
}

/// Every node in every subject.
fn standings(first: &First) -> Vec<Standing> {
    let mut tests = first.tests.iter().peekable();
    let mut standings = Vec::new();
    for (at, field) in first.fields.iter().enumerate() {
        let centre = field.centre();
        for (row, of) in field.rows.iter().enumerate() {
            let test = tests.next_if(|test| (test.field, test.row) == (at, row));
            standings.push(Standing {
                rank: of.rank,
                stratum: field.stratum,
                subject: field.subject,
                factor: (of.x - centre).exp(),
                z: test.map(|test| test.z),
                p: test.map(|test| test.p),
                peers: field.rows.len() - 1,
            });
        }
    }
    standings
}

/// The verdicts as they come.
struct Bench<'a> {
    first: &'a First,
    verdicts: Vec<Verdict>,
    cleared: Vec<(At, Key)>,
}

/// A suspect in both measurements.
struct Case {
    at: At,
    key: Key,
    role: Role,
    /// The charge if it is confirmed.
    charge: Charge,
    /// The rate at which it is found, with both measurements.
    q: f64,
    /// Of the first measurement: distance, z, p, and half the interval of the distance.
    first: (f64, f64, f64, f64),
    value: f64,
    expected: f64,
    peers: usize,
    predicted: Option<(f64, f64)>,
}

impl Bench<'_> {
    fn nodes(&mut self, second: &Second) {
        let first = self.first;
        let again: Vec<Again> =
            first.chosen.iter().map(|at| second.node(&first.tests[*at])).collect();
        let mut tests: Vec<(u32, f64)> =
            first.tests.iter().map(|test| (first.rank(test), test.p)).collect();
        for (at, again) in first.chosen.iter().zip(&again) {
            tests[*at].1 = after(again);
        }
        let q_values = q_values(&tests, ACCUSED_RATE);
        for (at, again) in first.chosen.iter().zip(&again) {
            let test = &first.tests[*at];
            let (subject, peers) =
                (&first.topic(test.field).subject, first.fields[test.field].peers(test.row));
            let Some(peers) = peers else { continue };
            let half = reach(peers.freedom) * peers.squared_error().sqrt();
            let row = &first.fields[test.field].rows[test.row];
            let case = Case {
                at: At::Node(row.rank),
                key: subject.key.clone(),
                role: subject.role,
                charge: if subject.is_scatter { Charge::Unstable } else { Charge::Slower },
                q: q_values[*at],
                first: (first.distance(test), test.z, test.p, half),
                value: row.value,
                expected: self.peers_median(test),
                peers: peers.count,
                predicted: row.predicted,
            };
            self.judge(case, again);
        }
    }

    /// The median of a node's peers in the figure's unit.
    fn peers_median(&self, test: &Test) -> f64 {
        let rows = self.first.fields[test.field].rows.iter().enumerate();
        let others = rows.filter(|(at, _)| *at != test.row).map(|(_, row)| row.value);
        median(&others.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    }

    fn links(&mut self, second: &Second) {
        let first = self.first;
        let again: Vec<Again> =
            first.chosen_links.iter().map(|at| second.link(&first.links[*at])).collect();
        // What a healthy link was disturbed by does not last: the second measurement is tested among
        // those that were chosen.
        let tests: Vec<(At, f64)> = first
            .chosen_links
            .iter()
            .map(|at| first.at(*at))
            .zip(again.iter().map(after))
            .collect();
        let q_values = q_values(&tests, ACCUSED_RATE);
        for ((at, again), q) in first.chosen_links.iter().zip(&again).zip(q_values) {
            let case = self.link(first.at(*at), *at, Charge::DegradedLink, q);
            self.judge(case, again);
        }
    }

    /// A node whose links are bad with several partners. The least of the two worst links decides.
    fn flaky(&mut self, second: &Second) {
        for flaky in &self.first.flaky {
            let again = second.flaky(flaky);
            let Some(link) = flaky.links.get(1).or(flaky.links.first()).copied() else { continue };
            let q = after(&again);
            let mut case = self.link(At::Node(flaky.rank), link, Charge::Unstable, q);
            case.role = Role::Both;
            self.judge(case, &again);
        }
    }

    fn link(&self, at: At, link: usize, charge: Charge, q: f64) -> Case {
        let test = &self.first.links[link];
        let fit = &self.first.fits[test.fit];
        let link = &fit.links[test.link];
        Case {
            at,
            key: fit.key.clone(),
            role: if fit.is_shared { Role::Both } else { Role::Send },
            charge,
            q,
            first: (
                test.residual,
                test.z,
                test.p,
                reach(fit.freedom.max(1.0)) * test.residual / test.z,
            ),
            value: link.value,
            expected: fit.expected(link),
            peers: fit.links.len(),
            predicted: link.predicted,
        }
    }

    fn judge(&mut self, case: Case, again: &Again) {
        let charge = match again.outcome() {
            Outcome::Cleared => {
                self.cleared.push((case.at, case.key));
                return;
            }
            Outcome::Shown if case.q <= ACCUSED_RATE => case.charge,
            _ => Charge::Suspect,
        };
        let (distance, z, p, half) = case.first;
        let (distance, half) =
            median(&again.distances).map_or((distance, half), |again_at| (again_at, again.half));
        let is_again = !again.distances.is_empty();
        let topic = self.first.topics.iter().find(|topic| topic.subject.key == case.key);
        let (unit, better, kind) = match topic {
            Some(topic) => (topic.unit, topic.better, topic.kind),
            None => return,
        };
        self.verdicts.push(Verdict {
            charge,
            at: case.at,
            key: case.key,
            role: case.role,
            unit,
            better,
            kind,
            factor: distance.exp(),
            interval: ((distance - half).exp(), (distance + half).exp()),
            evidence: Evidence {
                z: if is_again { again.z } else { z },
                p: if is_again { again.p } else { p },
                q: case.q,
                value: case.value,
                peers_median: case.expected,
                peers: case.peers,
                repetitions: u32::try_from(again.distances.len()).unwrap_or(u32::MAX),
                partners: again.partners.clone(),
                predicted: case.predicted,
            },
        });
    }
}

/// The p value after the second measurement. What was not shown again is no finding.
fn after(again: &Again) -> f64 {
    if again.outcome() == Outcome::Shown { again.p } else { 1.0 }
}
