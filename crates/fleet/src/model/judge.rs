//! Verdicts from both measurements.

use super::below::below;
use super::first::{First, LinkTest, Test};
use super::looks::{Found, Inquiry, Known, Outcome};
use super::peers::reach;
use super::{At, Charge, Evidence, Judgement, Role, Standing, Verdict};
use crate::read::Sweep;
use record::key::Key;
use record::order::InOrder;
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet};

/// The verdicts of a sweep: see [`judge`].
pub fn verdicts(sweep: &Sweep) -> Vec<Verdict> {
    judge(sweep).verdicts
}

/// All that the model says of a sweep. In a sweep without its phase 4 all that stands out is
/// [`Charge::Suspect`].
pub fn judge(sweep: &Sweep) -> Judgement {
    let first = First::new(sweep);
    let inquiry = Inquiry::new(sweep, &first, Known::ALL);
    let mut bench = Bench { first: &first, verdicts: Vec::new(), cleared: Vec::new() };
    bench.nodes(&inquiry);
    bench.links(&inquiry);
    let Bench { mut verdicts, cleared, .. } = bench;
    verdicts.order_by(|a, b| {
        let order = a.charge.cmp(&b.charge).then(a.evidence.q.total_cmp(&b.evidence.q));
        order.then(b.evidence.z.total_cmp(&a.evidence.z)).then(a.at.cmp(&b.at))
    });
    let below = below(sweep, &first.place);
    let (standings, detectable) = (standings(&first), first.detectable());
    let detectable_links = first.detectable_links();
    let subjects = first.topics.iter().map(|topic| topic.subject.clone()).collect();
    let First { strata, untested, .. } = first;
    Judgement {
        strata,
        subjects,
        standings,
        verdicts,
        cleared,
        below,
        detectable,
        detectable_links,
        untested,
    }
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
    is_scatter: bool,
    /// The charge if it is confirmed.
    charge: Charge,
    /// Whether the first measurement alone made it a suspect.
    stands_out: bool,
    /// Of the first measurement: distance, z, p, and half the interval of the distance.
    first: (f64, f64, f64, f64),
    value: f64,
    expected: f64,
    peers: usize,
    predicted: Option<(f64, f64)>,
}

impl Bench<'_> {
    fn nodes(&mut self, inquiry: &Inquiry) {
        let first = self.first;
        for (at, found) in first.chosen.iter().zip(&inquiry.nodes) {
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
                is_scatter: subject.is_scatter,
                charge: if subject.is_scatter { Charge::Unstable } else { Charge::Slower },
                stands_out: first.stands_out(test),
                first: (first.distance(test), test.z, test.p, half),
                value: row.value,
                expected: self.peers_median(test),
                peers: peers.count,
                predicted: row.predicted,
            };
            self.judge(case, found);
        }
    }

    /// The median of a node's peers in the figure's unit.
    fn peers_median(&self, test: &Test) -> f64 {
        let rows = self.first.fields[test.field].rows.iter().enumerate();
        let others = rows.filter(|(at, _)| *at != test.row).map(|(_, row)| row.value);
        median(&others.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    }

    /// Judges links, and nodes with several bad links by the second worst of these.
    fn links(&mut self, inquiry: &Inquiry) {
        let first = self.first;
        let mut left: Vec<(&LinkTest, &Found)> =
            first.chosen_links.iter().map(|at| &first.links[*at]).zip(&inquiry.links).collect();
        while let Some((rank, partners)) = several_bad(&left) {
            let (mut own, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(link, _)| link.ends().contains(&rank));
            left = others;
            own.retain(|(_, found)| found.outcome == Outcome::Shown);
            own.order_by(|a, b| a.1.again.p.total_cmp(&b.1.again.p));
            let second = own.iter().find(|(link, _)| link.ends() != own[0].0.ends());
            let Some((link, found)) = second else { continue };
            let case = self.link(At::Node(rank), link, Charge::Unstable);
            let mut found = (*found).clone();
            found.again.partners = partners;
            self.judge(Case { role: Role::Both, ..case }, &found);
        }
        for (link, found) in left {
            self.judge(self.link(At::Link(link.from, link.to), link, Charge::DegradedLink), found);
        }
    }

    fn link(&self, at: At, test: &LinkTest, charge: Charge) -> Case {
        let fit = &self.first.fits[test.fit];
        let link = &fit.links[test.link];
        Case {
            at,
            key: fit.key.clone(),
            role: if fit.is_shared { Role::Both } else { Role::Send },
            is_scatter: false,
            charge,
            stands_out: test.stands_out(),
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

    fn judge(&mut self, case: Case, found: &Found) {
        let again = &found.again;
        let charge = match found.outcome {
            Outcome::Shown => case.charge,
            // What only might have been slower stood nowhere out.
            Outcome::Open if case.stands_out => Charge::Suspect,
            Outcome::Cleared if case.stands_out => return self.cleared.push((case.at, case.key)),
            _ => return,
        };
        let (distance, z, p, half) = match again.count > 0 {
            true => (again.distance, again.z, again.p, again.half),
            false => case.first,
        };
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
            is_scatter: case.is_scatter,
            unit,
            better,
            kind,
            factor: distance.exp(),
            interval: ((distance - half).exp(), (distance + half).exp()),
            evidence: Evidence {
                z,
                p,
                q: found.q,
                value: case.value,
                peers_median: case.expected,
                peers: case.peers,
                repetitions: u32::try_from(again.count).unwrap_or(u32::MAX),
                partners: again.partners.clone(),
                predicted: case.predicted,
            },
        });
    }
}

/// The node with the most partners over shown links, if it has two, and these partners.
fn several_bad(links: &[(&LinkTest, &Found)]) -> Option<(u32, Vec<u32>)> {
    let mut partners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (link, _) in links.iter().filter(|(_, found)| found.outcome == Outcome::Shown) {
        let [from, to] = link.ends();
        partners.entry(from).or_default().insert(to);
        partners.entry(to).or_default().insert(from);
    }
    let (rank, partners) = partners.into_iter().max_by_key(|(_, partners)| partners.len())?;
    (partners.len() >= 2).then(|| (rank, partners.into_iter().collect()))
}
