//! How often suspects are measured again, and what each look at the repetitions may conclude.
//!
//! A sequential test: at each look a suspect is shown, cleared, or measured more. The looks share the
//! rate of false accusations (alpha spending, Lan and DeMets 1983): a p value counts as itself over
//! the share of its look, so that the least one over all looks is a p value still.

use super::At;
use super::confirm::{Again, Second};
use super::first::First;
use super::select::q_values;
use crate::read::Sweep;

/// Repetitions after each look.
pub const LOOKS: [u32; 4] = [3, 6, 10, 16];
/// Repetitions after the last look.
pub(super) const LAST: u32 = LOOKS[LOOKS.len() - 1];
/// Each look's share of the rate: they sum up to 1.
pub(super) const WEIGHTS: [f64; LOOKS.len()] = [0.1, 0.2, 0.3, 0.4];
/// False discovery rate of what is accused. In a fleet without a bad node it is the probability that
/// anyone is accused, which shall be below 1 %.
pub(super) const ACCUSED_RATE: f64 = 0.01;

/// How much of phase 4 a plan follows from: a sweep that is resumed makes the plans of the first time
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Looks for which nodes were measured again.
    pub looks: u32,
    /// Steps that began before.
    pub steps: u32,
}

impl Known {
    /// All that is in the record.
    pub(super) const ALL: Known = Known { looks: LOOKS.len() as u32, steps: u32::MAX };

    /// The last repetition of nodes that is known.
    pub(super) fn repetitions(self) -> u32 {
        let last = (self.looks as usize).min(LOOKS.len()).checked_sub(1);
        last.map_or(0, |last| LOOKS[last])
    }
}

/// The share of the look that so many repetitions belong to.
pub(super) fn weight(count: usize) -> f64 {
    let at = LOOKS.iter().position(|look| count <= *look as usize);
    WEIGHTS[at.unwrap_or(LOOKS.len() - 1)]
}

/// Repetitions that are missing for the next look; none after the last one.
pub(super) fn missing(count: usize) -> u32 {
    let next = LOOKS.iter().map(|look| *look as usize).find(|look| *look > count);
    next.map_or(0, |next| (next - count) as u32)
}

/// What follows from all measurements of a suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The repetitions show it.
    Shown,
    /// It was measured again and is well.
    Cleared,
    /// Neither.
    Open,
}

/// A suspect after its repetitions.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub again: Again,
    /// The rate at which it is found.
    pub q: f64,
    pub outcome: Outcome,
}

/// All suspects after their repetitions, in the order of [`First`].
pub(super) struct Inquiry {
    pub nodes: Vec<Found>,
    pub links: Vec<Found>,
}

impl Inquiry {
    pub fn new(sweep: &Sweep, first: &First, known: Known) -> Inquiry {
        let second = Second::new(sweep, first, known);
        let nodes = first.chosen.iter().map(|at| second.node(&first.tests[*at])).collect();
        let links = first.chosen_links.iter().map(|at| second.link(&first.links[*at])).collect();
        let of_nodes = first.tests.iter().map(|test| first.rank(test)).collect();
        let of_links: Vec<At> = (0..first.links.len()).map(|at| first.at(at)).collect();
        Inquiry {
            nodes: found(of_nodes, &first.chosen, nodes),
            links: found(of_links, &first.chosen_links, links),
        }
    }
}

/// Places the suspects among all tests. A test without a suspect has a probability of 1.
fn found<G: Ord + Copy>(groups: Vec<G>, places: &[usize], again: Vec<Again>) -> Vec<Found> {
    let mut tests: Vec<(G, f64)> = groups.into_iter().map(|group| (group, 1.0)).collect();
    for (at, again) in places.iter().zip(&again) {
        tests[*at].1 = again.p;
    }
    let q = q_values(&tests, ACCUSED_RATE);
    places.iter().zip(again).map(|(at, again)| Found::new(again, q[*at])).collect()
}

impl Found {
    fn new(again: Again, q: f64) -> Found {
        let outcome = again.outcome(q);
        Found { again, q, outcome }
    }
}
