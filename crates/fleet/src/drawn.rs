//! Drawn sweeps: files of nodes with lasting differences, whose rounds are resampled from recorded ones.

use crate::file::{End, Figure, Header, LISTING, Line, Pair, Purpose};
use crate::hosts::List;
use crate::model::{Again, judge, suspects};
use crate::read::{Fleet, from_lines};
use crate::schedule::Recipe;
use fastrand::Rng;
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::unit::Unit;

/// Rounds of a figure in the sweep, and in a step that measures few figures for as long.
const ROUNDS: usize = 6;
const ROUNDS_AGAIN: usize = 30;
/// How much slower a pair is beside the others of its slot, as a log.
const CONTENTION: f64 = 0.1;
/// Lasting differences of healthy nodes, as standard deviations of logs: hardware, and the rest.
const SPREAD: (f64, f64) = (0.01, 0.03);
/// What changes for all nodes from one step to the next, as a standard deviation of logs.
const DRIFT: f64 = 0.02;

/// The files of nodes, each as its host and its lines.
pub type Files = Vec<(String, Vec<Line>)>;

/// Recorded rounds of one figure: deviations of the logarithm from the median, by run.
#[derive(Clone, Debug)]
pub struct Noise {
    pub key: Key,
    better: Better,
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
            let better = if parts[1] == "higher" { Better::Higher } else { Better::Lower };
            let (case, metric) = parts[3].split_once(' ').unwrap_or((parts[3], "value"));
            let (experiment, case) = case.split_once(':').unwrap_or((case, ""));
            let parameters = case.split(',').filter_map(|one| one.split_once('='));
            let case = parameters.fold(CaseId::new(), |case, (name, value)| case.with(name, value));
            Noise {
                key: Key::new(experiment, &case, metric),
                better,
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
        let runs = "-0.004 -0.001 0.0 0.001 0.003 0.005\t-0.003 0.0 0.002";
        let figures = [
            "hardware\thigher\talone\tmemory.bandwidth",
            "hardware\tlower\talone\tmemory.latency",
            "hardware\thigher\talone\tcpu.peak",
            "os\tlower\talone\tos.syscall",
            "pair\tlower\talone\tnet.rtt",
            "pair\thigher\talone\tnet.bandwidth",
        ];
        Noise::parse(&figures.map(|figure| format!("{figure}\t{runs}\n")).concat())
    }

    /// A measurement with a level, as a log that is worse when it is more. All of its rounds come from
    /// one recorded run: what lasts for minutes lasts for all of them.
    fn measured(&self, level: f64, rounds: usize, rng: &mut Rng) -> Figure {
        let run = &self.runs[rng.usize(..self.runs.len())];
        let mut logs: Vec<f64> = (0..rounds).map(|_| run[rng.usize(..run.len())]).collect();
        logs.sort_by(f64::total_cmp);
        let is_rate = self.better == Better::Higher;
        let sign = if is_rate { -1.0 } else { 1.0 };
        let value = |log: f64| 1e9 * (log + sign * level).exp();
        Figure {
            experiment: self.key.experiment.clone(),
            case: self.key.case.clone(),
            metric: self.key.metric.clone(),
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A node is worse in one figure, by its index, as a log.
    Figure(usize, usize, f64),
    /// A path carries less, as a log; both figures of pairs.
    Link(usize, usize, f64),
    /// A node is worse in all of its figures and pairs, and in some pairs more than in others.
    Node(usize, f64),
}

impl Fault {
    fn alone(&self, node: usize, figure: usize) -> f64 {
        match *self {
            Fault::Figure(bad, of, log) if (bad, of) == (node, figure) => log,
            Fault::Node(bad, log) if bad == node => log,
            _ => 0.0,
        }
    }

    fn pair(&self, from: usize, to: usize) -> f64 {
        match *self {
            Fault::Link(a, b, log) if (a, b) == (from, to) => log,
            Fault::Node(bad, log) if bad == from || bad == to => {
                log * if (from ^ to).is_multiple_of(3) { 2.0 } else { 1.0 }
            }
            _ => 0.0,
        }
    }
}

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

pub fn recipe(seed: u64) -> Recipe {
    Recipe {
        preset: "quick".to_owned(),
        selectors: Vec::new(),
        pair_selectors: ["net.rtt:far=peer", "net.bandwidth:far=peer"].map(str::to_owned).into(),
        seed,
        steps: None,
        loads: [Some(0); 3],
        alone_s: 100.0,
        slot_s: 12.0,
    }
}

impl Drawn {
    /// Nodes `n000` and so on, with faults.
    pub fn new(noise: &[Noise], size: usize, faults: Vec<Fault>, seed: u64) -> Drawn {
        let mut rng = Rng::with_seed(seed);
        let mut level = |noise: &Noise| {
            let spread = if noise.kind == Some(Kind::Hardware) { SPREAD.0 } else { SPREAD.1 };
            (spread * normal(&mut rng), spread * normal(&mut rng))
        };
        let levels = (0..size).map(|_| noise.iter().map(&mut level).collect()).collect();
        let list = List::new((0..size).map(|node| format!("n{node:03}")).collect());
        Drawn { recipe: recipe(seed), list, noise: noise.to_vec(), levels, faults, rng, steps: 0 }
    }

    pub fn sweep(&mut self) -> Files {
        let list = self.list.clone();
        self.measure(&list, None, CONTENTION, 0.0)
    }

    pub fn again(&mut self, again: &Again) -> Files {
        self.steps += 1;
        let list = List::parse(&again.list(|key| key.experiment.clone())).unwrap_or_default();
        let drift = DRIFT * normal(&mut self.rng);
        self.measure(&list, Some(again), 0.0, drift)
    }

    /// A sweep and its steps of suspects, at most so many, as a job script makes them: its files, and what
    /// they say.
    pub fn job(&mut self, steps: usize) -> (Files, Fleet) {
        let mut files = self.sweep();
        for _ in 0..steps {
            let fleet = from_lines(files.clone());
            let again = suspects(&fleet, &judge(&fleet));
            if again.hosts().is_empty() {
                return (files, fleet);
            }
            files.extend(self.again(&again));
        }
        let fleet = from_lines(files.clone());
        (files, fleet)
    }

    fn measure(
        &mut self,
        list: &List,
        again: Option<&Again>,
        contention: f64,
        drift: f64,
    ) -> Files {
        let started = format!("2026-11-30T00:{:02}:00Z", self.steps);
        let facts = [("cpu", "drawn"), ("kernel", "6.12")];
        let header = Header {
            hosts: Vec::new(),
            stratum: facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into(),
            starter: "options".to_owned(),
            ..self.recipe.header(list, 0, started, again.is_some())
        };
        // A drift of each figure, by its index.
        let drifts: Vec<f64> = self.noise.iter().map(|_| drift * normal(&mut self.rng)).collect();
        // Nodes are called by their number.
        let node = |rank: u32| list.hosts[rank as usize][1..].parse::<usize>().unwrap_or_default();
        let mut pairs: Vec<Vec<(u32, Purpose, u32)>> = vec![Vec::new(); list.hosts.len()];
        for (number, slot) in (0..).zip(self.recipe.slots(list)) {
            for (near, far) in slot.pairs {
                pairs[near as usize].push((number, slot.purpose, far));
            }
        }
        let mut files = Files::new();
        for (rank, pairs) in (0..).zip(pairs) {
            let (host, is_listing) = (list.hosts[rank as usize].clone(), rank < LISTING);
            let hosts = if is_listing { list.hosts.clone() } else { Vec::new() };
            let mut lines =
                vec![Line::Node(Box::new(Header { rank, host, hosts, ..header.clone() }))];
            for (at, drift) in drifts.iter().enumerate() {
                // A step that names no figure measures them all.
                let few = again.filter(|again| !again.figures.is_empty());
                let is_asked = few.is_none_or(|few| few.figures.contains(&self.noise[at].key));
                if self.noise[at].kind.is_some() && is_asked {
                    let rounds = if few.is_some() { ROUNDS_AGAIN } else { ROUNDS };
                    lines.push(Line::Figure(self.figure(node(rank), at, *drift, rounds)));
                }
            }
            for (slot, purpose, far) in pairs {
                let figures = self.pair(node(rank), node(far), contention);
                let (to, begin_s) = (list.hosts[far as usize].clone(), f64::from(slot));
                let (end_s, offset_s) = (begin_s + 9.0, 0.001);
                lines.push(Line::Pair(Pair {
                    slot,
                    purpose,
                    to,
                    begin_s,
                    end_s,
                    offset_s,
                    figures,
                }));
            }
            lines.push(Line::End(End { wall_s: 244.0, interrupted: false }));
            files.push((list.hosts[rank as usize].clone(), lines));
        }
        files
    }

    fn figure(&mut self, node: usize, at: usize, drift: f64, rounds: usize) -> Figure {
        let fault: f64 = self.faults.iter().map(|fault| fault.alone(node, at)).sum();
        let level = self.levels[node][at].0 + fault + drift;
        self.noise[at].measured(level, rounds, &mut self.rng)
    }

    fn pair(&mut self, from: usize, to: usize, contention: f64) -> Vec<Figure> {
        let fault: f64 = self.faults.iter().map(|fault| fault.pair(from, to)).sum();
        let of_pairs = self.noise.iter().enumerate().filter(|(_, noise)| noise.kind.is_none());
        let figures = of_pairs.map(|(at, noise)| {
            let level = self.levels[from][at].0 + self.levels[to][at].1 + fault + contention;
            noise.measured(level, ROUNDS, &mut self.rng)
        });
        figures.collect()
    }
}

pub fn text(lines: &[Line]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.sealed().unwrap_or_default()).collect()
}
