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
    let First { strata, untested, subjects, .. } = first;
    let untested = untested.into_iter().map(|(key, why)| (key, why.to_owned())).collect();
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
                subject: field.subject,
                factor: (of.x - centre).exp(),
                z: test.map(|test| test.z),
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

impl Bench<'_> {
    fn nodes(&mut self, inquiry: &Inquiry) {
        let first = self.first;
        for (at, found) in first.chosen.iter().zip(&inquiry.nodes) {
            let test = &first.tests[*at];
            let (subject, field) = (first.subject(test.field), &first.fields[test.field]);
            let row = &field.rows[test.row];
            let Some(peers) = field.peers(test.row) else { continue };
            let distance = first.distance(test);
            let half = reach(peers.freedom) * peers.squared_error().sqrt();
            let verdict = Verdict {
                charge: if subject.is_scatter { Charge::Unstable } else { Charge::Slower },
                at: At::Node(row.rank),
                subject: subject.clone(),
                factor: distance.exp(),
                interval: interval(distance, half),
                evidence: Evidence {
                    z: test.z,
                    p: test.p,
                    q: found.q,
                    value: row.value,
                    peers_median: self.peers_median(test),
                    peers: peers.count,
                    repetitions: 0,
                    partners: Vec::new(),
                    predicted: row.predicted,
                },
            };
            self.judge(verdict, first.stands_out(test), found);
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
            let mut found = (*found).clone();
            found.again.partners = partners;
            let mut verdict = self.link(At::Node(rank), link, Charge::Unstable, found.q);
            verdict.subject.role = Role::Both;
            self.judge(verdict, link.stands_out(), &found);
        }
        for (link, found) in left {
            let at = At::Link(link.from, link.to);
            let verdict = self.link(at, link, Charge::DegradedLink, found.q);
            self.judge(verdict, link.stands_out(), found);
        }
    }

    fn link(&self, at: At, test: &LinkTest, charge: Charge, q: f64) -> Verdict {
        let fit = &self.first.fits[test.fit];
        let link = &fit.links[test.link];
        let half = reach(fit.freedom.max(1.0)) * test.residual / test.z;
        Verdict {
            charge,
            at,
            subject: fit.subject(if fit.is_shared { Role::Both } else { Role::Send }),
            factor: test.residual.exp(),
            interval: interval(test.residual, half),
            evidence: Evidence {
                z: test.z,
                p: test.p,
                q,
                value: link.value,
                peers_median: fit.expected(link),
                peers: fit.links.len(),
                repetitions: 0,
                partners: Vec::new(),
                predicted: link.predicted,
            },
        }
    }

    /// Takes a verdict by the first measurement, which made it a suspect if it `stands_out`, as the
    /// second one leaves it.
    fn judge(&mut self, mut verdict: Verdict, stands_out: bool, found: &Found) {
        match found.outcome {
            Outcome::Shown => {}
            // What only might have been slower stood nowhere out.
            Outcome::Open if stands_out => verdict.charge = Charge::Suspect,
            Outcome::Cleared if stands_out => {
                return self.cleared.push((verdict.at, verdict.subject.key));
            }
            _ => return,
        }
        let again = &found.again;
        if again.count > 0 {
            verdict.factor = again.distance.exp();
            verdict.interval = interval(again.distance, again.half);
            (verdict.evidence.z, verdict.evidence.p) = (again.z, again.p);
        }
        verdict.evidence.repetitions = u32::try_from(again.count).unwrap_or(u32::MAX);
        verdict.evidence.partners.clone_from(&again.partners);
        self.verdicts.push(verdict);
    }
}

/// The factors of a distance with half its interval.
fn interval(distance: f64, half: f64) -> (f64, f64) {
    ((distance - half).exp(), (distance + half).exp())
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
