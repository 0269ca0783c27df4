//! What a sweep does, in which order: phases, steps and jobs, from the header of its record alone,
//! so that a sweep that is resumed does the same.

use crate::matchings::{self, Edge, MayPair, SENDERS, isolated, matchings, steps_for};
use crate::model::Suspects;
use crate::sweep::{Header, Loads, Purpose, Stage};
use analysis::gather::distinct;
use std::collections::BTreeMap;

/// How long a sweep waits, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// For nodes to join.
    pub meet_s: f64,
    /// For a node whose connection broke to come back.
    pub grace_s: f64,
    /// For a node's measurement by itself; nodes on one machine measure in turns, each this long.
    pub alone_s: f64,
    /// For a pair.
    pub pair_s: f64,
    /// For nodes to report what is left, and for an answer beyond the other times.
    pub gather_s: f64,
}

/// What a sweep does.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// What was asked for.
    pub header: Header,
    /// How long it waits.
    pub limits: Limits,
}

/// Something that one node or one pair does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// A node measures itself.
    Alone {
        /// The node.
        rank: u32,
        /// 0, or the number of the repetition.
        again: u32,
        /// Experiments that a repetition measures; empty in the phase `alone`.
        experiments: Vec<String>,
    },
    /// Two nodes measure what is between them.
    Pair {
        /// Why.
        purpose: Purpose,
        /// The near end.
        from: u32,
        /// The far end.
        to: u32,
    },
    /// A node reports what is left.
    Gather {
        /// The node.
        rank: u32,
    },
}

impl Job {
    /// The nodes that it needs.
    pub fn ranks(&self) -> Vec<u32> {
        match self {
            Job::Alone { rank, .. } | Job::Gather { rank } => vec![*rank],
            Job::Pair { from, to, .. } => vec![*from, *to],
        }
    }

    /// Whether it is a part of a gathering, whose jobs have one far end.
    pub fn is_gathering(&self) -> bool {
        matches!(self, Job::Pair { purpose, .. } if purpose.is_gathering())
    }
}

/// Jobs that run at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number over all phases.
    pub number: u32,
    /// Of which phase it is a part.
    pub phase: Stage,
    /// What runs.
    pub jobs: Vec<Job>,
}

impl Recipe {
    /// The steps of the phase `alone`: one, of all nodes.
    pub fn alone(&self) -> Vec<Step> {
        let job = |rank| Job::Alone { rank, again: 0, experiments: Vec::new() };
        let jobs = (0..self.header.size).map(job).collect();
        vec![Step { number: 0, phase: Stage::Alone, jobs }]
    }

    /// The pairs of each step of the phase `pairs`: the matchings, some of their pairs with nothing
    /// else running, matchings across a cut, and gatherings. `may_pair` says which nodes are on
    /// different hosts, `group` on which side of a cut a node is.
    pub fn edges(
        &self,
        may_pair: MayPair,
        group: &dyn Fn(u32) -> String,
    ) -> Vec<(Purpose, Vec<Edge>)> {
        let Header { size, steps, seed, loads, .. } = self.header;
        let ranks: Vec<u32> = (0..size).collect();
        let matched = matchings(&ranks, steps, seed, may_pair);
        let apart = isolated(&matched, seed).into_iter().map(|edge| vec![edge]).collect();
        let seed_of = |more| seed.wrapping_add(more);
        let across = matchings::bisection(&ranks, group, loads.bisection, seed_of(1), may_pair);
        let gathered =
            |turns, more| matchings::gatherings(&ranks, SENDERS, turns, seed_of(more), may_pair);
        let all = [
            (Purpose::Matching, matched),
            (Purpose::Isolated, apart),
            (Purpose::Bisection, across),
            (Purpose::Incast, gathered(loads.incast, 2)),
            (Purpose::Outcast, gathered(loads.outcast, 3)),
        ];
        let steps = |(purpose, steps): (Purpose, Vec<Vec<Edge>>)| {
            steps.into_iter().map(move |edges| (purpose, edges))
        };
        all.into_iter().flat_map(steps).collect()
    }

    /// The steps of the phase `pairs`.
    pub fn pairs(&self, may_pair: MayPair, group: &dyn Fn(u32) -> String) -> Vec<Step> {
        let steps = self.edges(may_pair, group).into_iter().zip(0..);
        steps.map(|((purpose, edges), number)| step(number, purpose, edges)).collect()
    }

    /// The steps of one look of the phase `suspects`, numbered from `first`: all its nodes at the
    /// same time, once for each repetition, then its pairs in their turns.
    pub fn suspects(&self, suspects: &Suspects, first: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let (from, to) = suspects.again;
        for again in (from..=to).filter(|_| !suspects.nodes.is_empty()) {
            let jobs = suspects.nodes.iter().map(|node| Job::Alone {
                rank: node.rank,
                again,
                experiments: distinct(node.keys.iter().map(|key| key.experiment.clone())),
            });
            steps.push(Step { number: 0, phase: Stage::Suspects, jobs: jobs.collect() });
        }
        let mut turns: BTreeMap<u32, Vec<Edge>> = BTreeMap::new();
        for pair in &suspects.pairs {
            for turn in &pair.turns {
                turns.entry(*turn).or_default().push((pair.from, pair.to));
            }
        }
        steps.extend(turns.into_values().map(|edges| step(0, Purpose::Suspect, edges)));
        for (number, step) in (first..).zip(&mut steps) {
            step.number = number;
        }
        steps
    }

    /// What a pair measures. In a step that loads what pairs share it is the rates alone: the windows
    /// of all pairs are then open at the same time, but for what lies between two windows.
    pub fn pair_selectors(&self, purpose: Purpose) -> Vec<String> {
        let all = &self.header.pair_selectors;
        let is_measured = |selector: &&String| !purpose.is_load() || is_rate(selector);
        let measured: Vec<String> = all.iter().filter(is_measured).cloned().collect();
        if measured.is_empty() { all.clone() } else { measured }
    }

    /// The preset of a pair's measurement.
    pub fn pair_preset(&self) -> &str {
        match self.header.preset.as_str() {
            "rehearsal" => "rehearsal",
            _ => "quick",
        }
    }
}

fn step(number: u32, purpose: Purpose, edges: Vec<Edge>) -> Step {
    let phase = match purpose {
        Purpose::Suspect => Stage::Suspects,
        _ => Stage::Pairs,
    };
    let job = |(from, to)| Job::Pair { purpose, from, to };
    Step { number, phase, jobs: edges.into_iter().map(job).collect() }
}

/// The experiment that loads a path.
const RATES: &str = "net.bandwidth";

/// Whether a selector is of rates.
pub fn is_rate(selector: &str) -> bool {
    selector.starts_with(RATES)
}

/// Steps of each kind of load unless the user says otherwise.
const LOADS: u32 = 2;
/// With fewer nodes a cut has one pair, as a matching has.
const LOADS_LEAST: u32 = 4;

/// What a sweep of this size measures beside so many matchings: what was asked for, of bisection,
/// incast and outcast.
pub fn loads(size: u32, steps: u32, asked: [Option<u32>; 3]) -> Loads {
    let usual = if size < LOADS_LEAST || steps == 0 { 0 } else { LOADS };
    let [bisection, incast, outcast] = asked.map(|asked| asked.unwrap_or(usual));
    Loads { bisection, incast, outcast }
}

/// Matchings of a sweep of this size: all pairs on request, else as many as asked for.
pub fn steps(size: u32, all: bool, asked: Option<u32>) -> u32 {
    let every = matchings::all_steps(size);
    match (all, asked) {
        (true, _) => every,
        (false, Some(asked)) => asked.min(every),
        (false, None) => steps_for(size),
    }
}
