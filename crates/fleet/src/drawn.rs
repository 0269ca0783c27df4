//! Drawn sweeps: files of nodes with lasting differences, whose rounds are resampled from recorded ones.

use crate::file::{End, FLEET_FORMAT, Figure, Header, Line, Pair};
use crate::hosts::List;
use crate::matchings::steps_for;
use crate::model::Again;
use crate::schedule::Recipe;
use fastrand::Rng;
use record::key::CaseId;
use record::metric::{Better, Kind};
use record::order::Gather;
use record::unit::Unit;
use std::collections::BTreeMap;

/// Rounds of a figure in the sweep, and in a step that measures few figures for as long.
const ROUNDS: usize = 6;
const ROUNDS_AGAIN: usize = 30;
/// How much slower a pair is beside the others of its slot, as a log.
const CONTENTION: f64 = 0.1;
/// Lasting differences of healthy nodes, as standard deviations of logs: hardware, and the rest.
const SPREAD: (f64, f64) = (0.01, 0.03);
/// What changes for all nodes from one step to the next, as a standard deviation of logs.
const DRIFT: f64 = 0.02;

/// Recorded rounds of one figure: deviations of the logarithm from the median, by run.
#[derive(Clone, Debug)]
pub struct Noise {
    pub experiment: String,
    pub better: Better,
    /// Absent for a figure of pairs.
    pub kind: Option<Kind>,
    runs: Vec<Vec<f64>>,
}

impl Noise {
    /// Recorded noise, one figure a line (`scripts/fleet/noise`): kind, direction, condition, key, runs.
    pub fn parse(text: &str) -> Vec<Noise> {
        let line = |line: &str| {
            let parts: Vec<&str> = line.split('\t').collect();
            let run = |text: &&str| text.split(' ').filter_map(|x| x.parse().ok()).collect();
            Noise {
                experiment: parts[3].to_owned(),
                better: if parts[1] == "higher" { Better::Higher } else { Better::Lower },
                kind: match parts[0] {
                    "hardware" => Some(Kind::Hardware),
                    "os" => Some(Kind::Os),
                    "io" => Some(Kind::Io),
                    _ => None,
                },
                runs: parts[4..].iter().map(run).collect(),
            }
        };
        text.lines().map(line).collect()
    }

    /// A few figures of low noise, for tests of sweeps.
    pub fn plain() -> Vec<Noise> {
        let one = |(experiment, better, kind): (&str, Better, Option<Kind>)| {
            let runs =
                vec![vec![-0.004, -0.001, 0.0, 0.001, 0.003, 0.005], vec![-0.003, 0.0, 0.002]];
            Noise { experiment: experiment.to_owned(), better, kind, runs }
        };
        let all = [
            ("memory.bandwidth", Better::Higher, Some(Kind::Hardware)),
            ("memory.latency", Better::Lower, Some(Kind::Hardware)),
            ("cpu.peak", Better::Higher, Some(Kind::Hardware)),
            ("os.syscall", Better::Lower, Some(Kind::Os)),
            ("net.rtt", Better::Lower, None),
            ("net.bandwidth", Better::Higher, None),
        ];
        all.map(one).to_vec()
    }

    /// A measurement with a level, as a log that is worse when it is more. All of its rounds come from
    /// one recorded run: what lasts for minutes lasts for all of them.
    fn measured(&self, level: f64, rounds: usize, rng: &mut Rng) -> Figure {
        let run = &self.runs[rng.usize(..self.runs.len())];
        let mut logs: Vec<f64> = (0..rounds).map(|_| run[rng.usize(..run.len())]).collect();
        logs.sort_by(f64::total_cmp);
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        let value = |log: f64| 1e9 * (log + sign * level).exp();
        let is_rate = self.better == Better::Higher;
        Figure {
            experiment: self.experiment.clone(),
            case: CaseId::new(),
            metric: if is_rate { "bandwidth" } else { "latency" }.to_owned(),
            unit: if is_rate { Unit::BPerS } else { Unit::Ns },
            better: self.better,
            kind: self.kind.unwrap_or(Kind::Io),
            value: value(f64::midpoint(logs[rounds / 2 - 1], logs[rounds / 2])),
            ci: (rounds == ROUNDS).then(|| (value(logs[0]), value(logs[rounds - 1]))),
            rounds: logs.into_iter().map(value).collect(),
            predicted: None,
        }
    }
}

/// What is wrong with a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// A node is worse in one figure, by its index, as a log.
    Figure(usize, usize, f64),
    /// A path carries less, as a log; both figures of pairs.
    Link(usize, usize, f64),
    /// A node is worse in all of its figures and pairs, and in some pairs more than in others.
    Node(usize, f64),
}

/// A fleet with its lasting differences.
pub struct Drawn {
    pub recipe: Recipe,
    pub list: List,
    noise: Vec<Noise>,
    /// By node and figure; of figures of pairs for the near and the far end.
    levels: Vec<Vec<(f64, f64)>>,
    pub faults: Vec<Fault>,
    rng: Rng,
    steps: u32,
}

/// Standard normal (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Drawn {
    /// Nodes `n000` and so on, with one fault.
    pub fn new(noise: &[Noise], size: usize, fault: Fault, seed: u64) -> Drawn {
        let mut rng = Rng::with_seed(seed);
        let mut level = |noise: &Noise| {
            let spread = if noise.kind == Some(Kind::Hardware) { SPREAD.0 } else { SPREAD.1 };
            (spread * normal(&mut rng), spread * normal(&mut rng))
        };
        let levels = (0..size).map(|_| noise.iter().map(&mut level).collect()).collect();
        let hosts: Vec<String> = (0..size).map(|node| format!("n{node:03}")).collect();
        let labels = vec![BTreeMap::new(); size];
        let list = List { hosts, labels, ..List::default() };
        let recipe = Recipe {
            preset: "quick".to_owned(),
            selectors: Vec::new(),
            pair_selectors: vec![
                "net.rtt:far=peer".to_owned(),
                "net.bandwidth:far=peer".to_owned(),
            ],
            seed,
            steps: None,
            loads: [Some(0); 3],
            alone_s: 100.0,
            slot_s: 12.0,
        };
        Drawn { recipe, list, noise: noise.to_vec(), levels, faults: vec![fault], rng, steps: 0 }
    }

    fn header(&self, list: &List, rank: usize, again: bool) -> Header {
        let place = u32::try_from(rank).unwrap_or(u32::MAX);
        let size = u32::try_from(list.hosts.len()).unwrap_or(u32::MAX);
        let started = format!("2026-11-30T00:{:02}:00Z", self.steps);
        let facts = [("cpu", "drawn"), ("kernel", "6.12")];
        Header {
            format: FLEET_FORMAT,
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            sweep: self.recipe.identity(list, &started, again),
            again,
            rank: place,
            size,
            host: list.hosts[rank].clone(),
            hosts: if rank < 4 { list.hosts.clone() } else { Vec::new() },
            started,
            seed: self.recipe.seed,
            preset: self.recipe.preset.clone(),
            pair_selectors: self.recipe.pair_selectors.clone(),
            alone_s: self.recipe.alone_s,
            slot_s: self.recipe.slot_s,
            slots: steps_for(size),
            starter: "options".to_owned(),
            stratum: facts
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .gather(),
            ..Header::default()
        }
    }

    /// The files of the sweep, each as its host and its lines.
    pub fn sweep(&mut self) -> Vec<(String, Vec<Line>)> {
        let list = self.list.clone();
        self.measure(&list, None, CONTENTION, 0.0)
    }

    /// The files of a step of suspects.
    pub fn again(&mut self, again: &Again) -> Vec<(String, Vec<Line>)> {
        self.steps += 1;
        let list = List::parse(&again.list(|key| key.experiment.clone())).unwrap_or_default();
        let drift = DRIFT * normal(&mut self.rng);
        self.measure(&list, Some(again), 0.0, drift)
    }

    fn measure(
        &mut self,
        list: &List,
        again: Option<&Again>,
        contention: f64,
        drift: f64,
    ) -> Vec<(String, Vec<Line>)> {
        let slots = self.recipe.slots(list);
        // A drift of each figure, by its index.
        let drifts: Vec<f64> = self.noise.iter().map(|_| drift * normal(&mut self.rng)).collect();
        let places: Vec<usize> = list.hosts.iter().map(|host| self.place(host)).collect();
        let mut files = Vec::with_capacity(places.len());
        for (rank, node) in places.iter().enumerate() {
            let header = Box::new(self.header(list, rank, again.is_some()));
            let mut lines = vec![Line { node: Some(header), ..Line::default() }];
            for (at, drift) in drifts.iter().enumerate() {
                let key = |key: &record::key::Key| key.experiment == self.noise[at].experiment;
                // A step that names no figure measures them all.
                let few = again.filter(|again| !again.figures.is_empty());
                let is_asked = few.is_none_or(|again| again.figures.iter().any(key));
                if self.noise[at].kind.is_some() && is_asked {
                    let rounds = if few.is_some() { ROUNDS_AGAIN } else { ROUNDS };
                    let figure = self.figure(*node, at, *drift, rounds);
                    lines.push(Line { figure: Some(figure), ..Line::default() });
                }
            }
            for (number, slot) in (0_u32..).zip(&slots) {
                for (_, far) in slot.pairs.iter().filter(|pair| pair.0 as usize == rank) {
                    let ends = (*node, places[*far as usize]);
                    let figures = self.pair(ends, contention);
                    let (to, purpose) = (list.hosts[*far as usize].clone(), slot.purpose);
                    let begin_s = self.recipe.slot_begin_s(number);
                    let pair = Pair {
                        slot: number,
                        purpose,
                        to,
                        begin_s,
                        end_s: begin_s + 9.0,
                        offset_s: 0.001,
                        figures,
                    };
                    lines.push(Line { pair: Some(pair), ..Line::default() });
                }
            }
            lines.push(Line {
                end: Some(End { wall_s: 244.0, interrupted: false }),
                ..Line::default()
            });
            files.push((list.hosts[rank].clone(), lines));
        }
        files
    }

    fn place(&self, host: &str) -> usize {
        self.list.hosts.iter().position(|one| one == host).unwrap_or_default()
    }

    fn figure(&mut self, node: usize, at: usize, drift: f64, rounds: usize) -> Figure {
        let fault: f64 = self
            .faults
            .iter()
            .map(|fault| match fault {
                Fault::Figure(bad, figure, log) if (*bad, *figure) == (node, at) => *log,
                Fault::Node(bad, log) if *bad == node => *log,
                _ => 0.0,
            })
            .sum();
        let level = self.levels[node][at].0 + fault + drift;
        self.noise[at].measured(level, rounds, &mut self.rng)
    }

    fn pair(&mut self, (from, to): (usize, usize), contention: f64) -> Vec<Figure> {
        let fault: f64 = self
            .faults
            .iter()
            .map(|fault| match fault {
                Fault::Link(a, b, log) if (*a, *b) == (from, to) => *log,
                Fault::Node(bad, log) if *bad == from || *bad == to => {
                    log * if (from ^ to) % 3 == 0 { 2.0 } else { 1.0 }
                }
                _ => 0.0,
            })
            .sum();
        let pairs = (0..self.noise.len()).filter(|at| self.noise[*at].kind.is_none());
        let pairs: Vec<usize> = pairs.collect();
        let level = |levels: &[Vec<(f64, f64)>], at: usize| levels[from][at].0 + levels[to][at].1;
        pairs
            .into_iter()
            .map(|at| {
                let level = level(&self.levels, at) + fault + contention;
                self.noise[at].measured(level, ROUNDS, &mut self.rng)
            })
            .collect()
    }
}

pub fn text(lines: &[Line]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.sealed().unwrap_or_default()).collect()
}
