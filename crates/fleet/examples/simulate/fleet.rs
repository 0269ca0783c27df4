//! Drawn fleets: nodes with their own lasting differences, and rounds resampled from recorded ones.

use fastrand::Rng;
use fleet::matchings::{isolated, matchings, steps_for};
use fleet::model::{Known, LOOKS, Suspects, suspects};
use fleet::read::Sweep;
use fleet::sweep::{Estimate, FLEET_FORMAT, Figure, Header, Node, Pair, Purpose};
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::unit::Unit;
use std::collections::BTreeMap;

/// Rounds of a figure in one measurement.
const ROUNDS: usize = 6;
/// How much slower a pair is beside the others of its step, as a log.
const CONTENTION: f64 = 0.1;
/// Lasting differences of healthy nodes, as standard deviations of logs: hardware, and the rest.
const SPREAD: (f64, f64) = (0.01, 0.03);

/// What changes for all nodes from one repetition to the next, as a standard deviation of logs.
const DRIFT: f64 = 0.02;

/// Recorded rounds of one figure: deviations of the logarithm from the median, by run.
#[derive(Clone)]
pub struct Noise {
    pub key: Key,
    pub better: Better,
    /// Absent for a figure of pairs.
    pub kind: Option<Kind>,
    pub is_alone: bool,
    runs: Vec<Vec<f64>>,
}

impl Noise {
    /// Recorded noise, one figure a line (`scripts/fleet/noise`).
    pub fn of(lines: &str) -> Vec<Noise> {
        lines.lines().map(Noise::parsed).collect()
    }

    fn parsed(line: &str) -> Noise {
        let parts: Vec<&str> = line.split('\t').collect();
        let run = |text: &&str| text.split(' ').map(|x| x.parse().expect("a number")).collect();
        Noise {
            key: Key::new(parts[3], &CaseId::new(), "value"),
            better: if parts[1] == "higher" { Better::Higher } else { Better::Lower },
            kind: match parts[0] {
                "hardware" => Some(Kind::Hardware),
                "os" => Some(Kind::Os),
                "io" => Some(Kind::Io),
                _ => None,
            },
            is_alone: parts[2] == "alone",
            runs: parts[4..].iter().map(run).collect(),
        }
    }

    /// A measurement with a level, as a log that is worse when it is more. All of its rounds come
    /// from one recorded run: what lasts for minutes lasts for all of them.
    fn measured(&self, level: f64, rng: &mut Rng) -> Estimate {
        let run = &self.runs[rng.usize(..self.runs.len())];
        let mut logs: Vec<f64> = (0..ROUNDS).map(|_| run[rng.usize(..run.len())]).collect();
        logs.sort_by(f64::total_cmp);
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        let value = |log: f64| (log + sign * level).exp();
        let mean = logs.iter().sum::<f64>() / ROUNDS as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Estimate {
            value: value(f64::midpoint(logs[ROUNDS / 2 - 1], logs[ROUNDS / 2])),
            ci: Some((value(logs[0]), value(logs[ROUNDS - 1]))),
            rounds: ROUNDS as u32,
            scatter: Some((squares / (ROUNDS - 1) as f64).sqrt()),
        }
    }
}

/// What is wrong with a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A node is worse in one figure, by its index, as a log.
    Figure(u32, usize, f64),
    /// A path carries less, as a log; both figures of pairs.
    Link(u32, u32, f64),
    /// A node is worse in all of its figures and pairs, and in some pairs more than in others.
    Node(u32, f64),
}

/// A fleet with its lasting differences.
pub struct Fleet {
    noise: Vec<Noise>,
    size: u32,
    /// By node and figure; of figures of pairs for the near and the far end.
    levels: Vec<Vec<(f64, f64)>>,
    fault: Fault,
    seed: u64,
    rng: Rng,
    /// Measurements of phase 4: figures of nodes, and pairs.
    pub repeated: usize,
    pub pairs_repeated: usize,
    /// Turns of pairs in phase 4, one after another.
    pub turns: usize,
}

/// Standard normal (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Fleet {
    pub fn drawn(noise: &[Noise], size: u32, fault: Fault, seed: u64) -> Fleet {
        let mut rng = Rng::with_seed(seed);
        let mut level = |noise: &Noise| {
            let spread = if noise.kind == Some(Kind::Hardware) { SPREAD.0 } else { SPREAD.1 };
            (spread * normal(&mut rng), spread * normal(&mut rng))
        };
        let levels = (0..size).map(|_| noise.iter().map(&mut level).collect()).collect();
        let noise = noise.to_vec();
        let (repeated, pairs_repeated, turns) = (0, 0, 0);
        Fleet { noise, size, levels, fault, seed, rng, repeated, pairs_repeated, turns }
    }

    /// The phases `alone` and `pairs`, into the sweep.
    pub fn measure(&mut self, sweep: &mut Sweep) {
        sweep.figures.clear();
        sweep.pairs.clear();
        for rank in 0..self.size {
            for at in 0..self.noise.len() {
                if self.noise[at].kind.is_some() {
                    sweep.figures.push(self.figure(rank, at, 0, 0.0));
                }
            }
        }
        let ranks: Vec<u32> = (0..self.size).collect();
        let steps = matchings(&ranks, steps_for(self.size), self.seed, &|_, _| true);
        for (step, pairs) in (0_u32..).zip(&steps) {
            for (from, to) in pairs {
                self.pair(sweep, (*from, *to), step, Purpose::Matching, CONTENTION);
            }
        }
        for (from, to) in isolated(&steps, self.seed) {
            self.pair(sweep, (from, to), 0, Purpose::Isolated, 0.0);
        }
    }

    /// Phase 4, as the model asks for it.
    pub fn measure_again(&mut self, sweep: &mut Sweep) {
        for looks in 0..LOOKS.len() as u32 {
            let Suspects { again, nodes, pairs } =
                suspects(sweep, Known { looks, steps: u32::MAX });
            for again in again.0..=again.1 {
                for at in 0..self.noise.len() {
                    // What changes for all nodes between one time and the next.
                    let drift = DRIFT * normal(&mut self.rng);
                    let key = self.noise[at].key.clone();
                    for node in nodes.iter().filter(|node| node.keys.contains(&key)) {
                        let figure = self.figure(node.rank, at, again, drift);
                        sweep.figures.push(figure);
                        self.repeated += 1;
                    }
                }
            }
            let mut turns: BTreeMap<u32, u32> = BTreeMap::new();
            for turn in pairs.iter().flat_map(|pair| &pair.turns) {
                *turns.entry(*turn).or_default() += 1;
            }
            self.turns += turns.len();
            for pair in &pairs {
                for turn in &pair.turns {
                    let beside = turns[turn] - 1;
                    // As much of what all pairs of a matching cost as there are pairs beside it.
                    let share = 2.0 * f64::from(beside) / f64::from(self.size);
                    let ends = (pair.from, pair.to);
                    self.pair(sweep, ends, 0, Purpose::Suspect, CONTENTION * share);
                    self.pairs_repeated += 1;
                }
            }
        }
    }

    fn figure(&mut self, rank: u32, at: usize, again: u32, drift: f64) -> Figure {
        let noise = &self.noise[at];
        let fault = match self.fault {
            Fault::Figure(bad, figure, log) if (bad, figure) == (rank, at) => log,
            Fault::Node(bad, log) if bad == rank => log,
            _ => 0.0,
        };
        let level = self.levels[rank as usize][at].0 + fault + drift;
        Figure {
            rank,
            key: noise.key.clone(),
            unit: Unit::Ns,
            better: noise.better,
            kind: noise.kind.unwrap_or(Kind::Io),
            estimate: noise.measured(level, &mut self.rng),
            predicted: None,
            again,
        }
    }

    fn pair(
        &mut self,
        sweep: &mut Sweep,
        (from, to): (u32, u32),
        step: u32,
        purpose: Purpose,
        contention: f64,
    ) {
        for at in 0..self.noise.len() {
            let noise = &self.noise[at];
            if noise.kind.is_some() {
                continue;
            }
            let ends = self.levels[from as usize][at].0 + self.levels[to as usize][at].1;
            let fault = match self.fault {
                Fault::Link(a, b, log) if (a, b) == (from, to) => log,
                Fault::Node(bad, log) if bad == from || bad == to => {
                    log * if (from ^ to) % 3 == 0 { 2.0 } else { 1.0 }
                }
                _ => 0.0,
            };
            sweep.pairs.push(Pair {
                step,
                purpose,
                from,
                to,
                key: noise.key.clone(),
                unit: Unit::Ns,
                better: noise.better,
                estimate: noise.measured(ends + fault + contention, &mut self.rng),
                predicted: None,
            });
        }
    }
}

/// A sweep of nodes that have joined.
pub fn met(size: u32) -> Sweep {
    let header = Header { format: FLEET_FORMAT, size, ..Header::default() };
    let node = |rank| Node { rank, name: format!("n{rank}"), ..Node::default() };
    let mut sweep = Sweep::new(header);
    sweep.nodes.extend((0..size).map(|rank| (rank, node(rank))));
    sweep
}
