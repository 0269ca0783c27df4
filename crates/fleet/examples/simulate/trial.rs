//! One simulated sweep and what came out, through the phases as a real one goes.

use super::fleet::{Fault, Fleet, Noise, met};
use fastrand::Rng;
use fleet::matchings::{matchings, steps_for};
use fleet::model::{At, Charge, Detectable, Judgement, Verdict, judge};
use record::key::Key;
use record::metric::Kind;
use std::collections::BTreeSet;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Is anyone accused in a healthy fleet?
    Healthy,
    /// Is a node found that is 10 % slower in a hardware figure that was measured alone?
    SlowNode,
    /// The same, for all hardware figures.
    SlowFound,
    /// Is a node found that is as much slower in a hardware figure as the report says that it sees?
    Promised,
    /// Is a path found that carries half?
    HalfLink,
    /// Does a bad node make more than one healthy node a confirmed suspect?
    BadNode,
}

/// The answer of one sweep.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, expect(dead_code, reason = "the test asks only whether it happened"))]
pub struct Answer {
    /// Whether the thing in question happened.
    pub happened: bool,
    /// Suspects that stay open: figures of nodes, ends of pairs, links.
    pub open: [usize; 3],
    /// What phase 4 measured: figures of nodes, pairs, and the turns of these.
    pub repeated: [usize; 3],
    /// The figure that is bad, for questions of figures, and how bad the model says that it must be.
    pub figure: Option<(usize, Option<f64>)>,
    /// Whether `CANNOT SEE` names the bad figure: a hardware figure in which a node is 10 % slower, or
    /// all figures of pairs of a path at half its rate.
    pub is_named: bool,
}

/// One sweep.
pub fn trial(question: Question, noise: &[Noise], size: u32, seed: u64) -> Answer {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let bad = rng.u32(..size);
    let is_any = [Question::SlowFound, Question::Promised].contains(&question);
    let is_one = |of: &Noise| of.kind == Some(Kind::Hardware) && (of.is_alone || is_any);
    let figures: Vec<usize> = (0..noise.len()).filter(|at| is_one(&noise[*at])).collect();
    let figure = figures[rng.usize(..figures.len())];
    let fault = match question {
        Question::Healthy => Fault::None,
        Question::SlowNode | Question::SlowFound => Fault::Figure(bad, figure, -0.9_f64.ln()),
        Question::Promised => {
            let mut healthy = met(size);
            Fleet::drawn(noise, size, Fault::None, seed).measure(&mut healthy);
            let least = least(&judge(&healthy), &noise[figure].key);
            Fault::Figure(bad, figure, least.map_or(0.0, f64::ln))
        }
        Question::HalfLink => {
            let ranks: Vec<u32> = (0..size).collect();
            let steps = matchings(&ranks, steps_for(size), seed, &|_, _| true);
            let pairs: Vec<(u32, u32)> = steps.into_iter().flatten().collect();
            let (from, to) = pairs[rng.usize(..pairs.len())];
            Fault::Link(from, to, 2.0_f64.ln())
        }
        Question::BadNode => Fault::Node(bad, 0.5_f64),
    };
    let mut fleet = Fleet::drawn(noise, size, fault, seed);
    let mut sweep = met(size);
    fleet.measure(&mut sweep);
    fleet.measure_again(&mut sweep);
    let judgement = judge(&sweep);
    let figure = match fault {
        Fault::Figure(_, _, log) if question == Question::Promised => {
            Some((figure, Some(log.exp())))
        }
        Fault::Figure(..) => Some((figure, least(&judgement, &noise[figure].key))),
        _ => None,
    };
    let links = judgement.detectable_links.iter();
    let is_named = match fault {
        Fault::Figure(..) => !figure.and_then(|(_, least)| least).is_some_and(|of| 0.9 * of <= 1.0),
        Fault::Link(..) => !links.into_iter().any(|of| of.factor <= 2.0),
        _ => false,
    };
    Answer {
        is_named,
        happened: happened(&judgement, noise, fault),
        open: open(&judgement),
        repeated: [fleet.repeated, fleet.pairs_repeated, fleet.turns],
        figure,
    }
}

/// How many times slower a node is at least in a figure that the model promises to find.
fn least(judgement: &Judgement, key: &Key) -> Option<f64> {
    let is_its = |of: &&Detectable| judgement.subjects[of.subject].key == *key;
    judgement.detectable.iter().find(is_its).map(|of| of.factor)
}

/// Suspects that stay open, by what they are.
fn open(judgement: &Judgement) -> [usize; 3] {
    let open = |is_it: fn(&Verdict) -> bool| {
        let suspects = judgement.verdicts.iter().filter(|of| of.charge == Charge::Suspect);
        suspects.filter(|of| is_it(of)).count()
    };
    [
        open(|of| matches!(of.at, At::Node(_)) && of.subject.is_alone()),
        open(|of| matches!(of.at, At::Node(_)) && !of.subject.is_alone()),
        open(|of| matches!(of.at, At::Link(..))),
    ]
}

/// Whether what is in question happened.
fn happened(judgement: &Judgement, noise: &[Noise], fault: Fault) -> bool {
    let verdicts = judgement.verdicts.iter();
    let accused: Vec<&Verdict> = verdicts.filter(|of| of.charge != Charge::Suspect).collect();
    match fault {
        Fault::None => !accused.is_empty(),
        Fault::Figure(bad, figure, _) => {
            accused.iter().any(|of| of.at == At::Node(bad) && of.subject.key == noise[figure].key)
        }
        Fault::Link(from, to, _) => accused.iter().any(|of| of.at == At::Link(from, to)),
        Fault::Node(bad, _) => {
            let ends = |verdict: &&Verdict| match verdict.at {
                At::Node(rank) => vec![rank],
                At::Link(from, to) => vec![from, to],
            };
            let mut ranks: BTreeSet<u32> = accused.iter().flat_map(ends).collect();
            ranks.remove(&bad);
            ranks.len() > 1
        }
    }
}

/// Wilson's 95 % interval of a share (Wilson 1927).
pub fn wilson(hits: usize, trials: usize) -> (f64, f64) {
    let (n, z) = (trials as f64, 1.96_f64);
    let share = hits as f64 / n;
    let centre = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}
