//! Drawn sweeps for tests: nodes that differ a little, with what is planted among them.

use crate::sweep::{
    Absent, End, Estimate, Event, FLEET_FORMAT, Figure, Header, Loads, Node, Pair, Phase, Purpose,
    Stage,
};
use record::key::{CaseId, Key};
use record::metric::Better;
use record::metric::Kind::{self, Hardware, Io, Os};
use record::seal::seal;
use record::unit::Unit;
use stats::draw::Draw;
use std::collections::BTreeMap;

/// What a sweep is drawn from.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Name of the sweep.
    pub id: &'static str,
    /// Number of nodes.
    pub size: u32,
    /// Seed of what is the node's own: the same in every sweep over these nodes.
    pub nodes: u64,
    /// Seed of the sweep's noise.
    pub noise: u64,
    /// Figures that a node has at a factor of what its peers have: rank, experiment, factor of the
    /// speed.
    pub slow: Vec<(u32, &'static str, f64)>,
    /// Experiments that all nodes have at a factor of their speed.
    pub changed: Vec<(&'static str, f64)>,
    /// A link at a factor of its rate, in both directions.
    pub link: Option<(u32, u32, f64)>,
    /// A node that is lost in the pairs.
    pub lost: Option<u32>,
    /// Kernel of all nodes.
    pub kernel: &'static str,
    /// Node names, where they are not `node-00`, `node-01` …
    pub names: BTreeMap<u32, &'static str>,
}

impl Fleet {
    /// Healthy nodes, two thirds of one kind and a third of another.
    pub fn healthy(size: u32) -> Fleet {
        Fleet {
            id: "2026-11-26T21-00-rank0",
            size,
            nodes: 1,
            noise: 1,
            slow: Vec::new(),
            changed: Vec::new(),
            link: None,
            lost: None,
            kernel: "6.12.57",
            names: BTreeMap::new(),
        }
    }

    /// Twenty-four nodes: one with slow memory, one slow link, one lost node.
    pub fn planted() -> Fleet {
        Fleet {
            slow: vec![(7, "memory.bandwidth", 0.71)],
            link: Some((3, 11, 0.5)),
            lost: Some(20),
            ..Fleet::healthy(24)
        }
    }

    /// The same sweep as a record: a sealed line for each event.
    pub fn record(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for event in self.events() {
            let mut line = serde_json::to_vec(&event).expect("an event is JSON");
            seal(&mut line);
            text.extend(line);
            text.push(b'\n');
        }
        text
    }

    /// The events of the sweep.
    pub fn events(&self) -> Vec<Event> {
        let mut draw = Draw::new(self.noise);
        let steps = 2 * self.size.next_power_of_two().trailing_zeros();
        let mut events = vec![Event::Header(self.header(steps))];
        events.push(phase(Stage::Meet, 0.0, false));
        events.extend((0..self.size).map(|rank| Event::Node(self.node(rank))));
        events.extend([phase(Stage::Meet, 2.1, true), phase(Stage::Alone, 2.1, false)]);
        let all = (0..self.size).flat_map(|rank| OF_NODES.iter().map(move |of| (rank, of)));
        for (rank, of) in all.filter(|(rank, of)| !self.is_absent(*rank, of)) {
            events.push(self.figure(rank, of, 0, &mut draw));
        }
        events.extend(self.absent());
        events.extend([phase(Stage::Alone, 68.0, true), phase(Stage::Pairs, 68.0, false)]);
        events.extend(self.pairs(steps, &mut draw));
        events.extend([phase(Stage::Pairs, 152.0, true), phase(Stage::Suspects, 152.0, false)]);
        events.extend(self.again(steps, &mut draw));
        events.extend([phase(Stage::Suspects, 240.0, true), phase(Stage::Gather, 240.0, false)]);
        events.push(phase(Stage::Gather, 241.0, true));
        events.push(Event::End(End { wall_s: 241.0, interrupted: false }));
        events
    }

    fn header(&self, steps: u32) -> Header {
        Header {
            format: FLEET_FORMAT,
            id: self.id.to_owned(),
            started: "2026-11-26T21:00:00Z".to_owned(),
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            size: self.size,
            preset: "quick".to_owned(),
            selectors: Vec::new(),
            pair_selectors: vec!["net.rtt".to_owned(), "net.bandwidth".to_owned()],
            steps,
            seed: 7,
            loads: Loads { bisection: 2, incast: 1, outcast: 1 },
            starter: "slurm".to_owned(),
            simulated: false,
        }
    }

    /// Name of a node.
    pub fn name(&self, rank: u32) -> String {
        self.names.get(&rank).map_or_else(|| format!("node-{rank:02}"), |name| (*name).to_owned())
    }

    fn is_first_kind(&self, rank: u32) -> bool {
        rank < self.size - self.size / 3
    }

    fn node(&self, rank: u32) -> Node {
        let (processor, memory) = match self.is_first_kind(rank) {
            true => ("AMD EPYC 7713", "8 × 32 GiB DDR4-3200"),
            false => ("AMD EPYC 9654", "12 × 32 GiB DDR5-4800"),
        };
        let stratum = [
            ("cpu", processor),
            ("kernel", self.kernel),
            ("memory", memory),
            ("nic", "mlx5_core 25 Gb/s"),
        ];
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        let labels = [("rack", format!("r{}", rank / 8)), ("switch", format!("s{}", rank / 16))];
        Node {
            rank,
            name: self.name(rank),
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            stratum: stratum.into_iter().map(owned).collect(),
            labels: labels.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
            address: format!("10.0.{}.{}", rank / 250, rank % 250 + 1),
            record: Some(format!("node-{rank}.jsonl")),
            clock_offset_s: 0.001 * f64::from(rank % 5),
            round_trip_s: 8e-5,
        }
    }

    /// How a node's own speed differs from its peers', in logarithms.
    fn own(&self, rank: u32, what: u64) -> f64 {
        let seed = self.nodes.wrapping_mul(1_000_003) ^ (u64::from(rank) << 20) ^ what;
        0.006 * Draw::new(seed).normal()
    }

    fn figure(&self, rank: u32, of: &OfNode, again: u32, draw: &mut Draw) -> Event {
        let planted = self.slow.iter().filter(|(slow, id, _)| (*slow, *id) == (rank, of.id));
        let planted = planted.map(|(.., factor)| factor).product::<f64>();
        let changed = self.changed.iter().filter(|(id, _)| *id == of.id);
        let factor = planted * changed.map(|(_, factor)| factor).product::<f64>();
        let what = OF_NODES.iter().position(|other| other == of).unwrap_or(0);
        let speed = factor.ln() + self.own(rank, what as u64) + of.scatter * draw.normal() / 2.0;
        let (sign, second) = if of.better == Better::Lower { (-1.0, 0.8) } else { (1.0, 1.6) };
        let kind = if self.is_first_kind(rank) { 1.0 } else { second };
        let value = of.value * kind * (sign * speed).exp();
        Event::Figure(Figure {
            rank,
            key: of.key(),
            unit: of.unit,
            better: of.better,
            kind: of.kind,
            estimate: estimate(value, of.scatter),
            predicted: Some((of.value * 0.6, of.value * 2.0)),
            again,
        })
    }

    /// Whether a node cannot run an experiment.
    fn is_absent(&self, rank: u32, of: &OfNode) -> bool {
        self.lost.is_some() && (rank, of.id) == (NO_DISK, "fs.read")
    }

    /// One experiment that a node cannot run.
    fn absent(&self) -> Option<Event> {
        (self.size > NO_DISK && self.lost.is_some()).then(|| {
            let why = "no directory on a disk: name one with --dir";
            Event::Absent(Absent {
                experiment: Some("fs.read".to_owned()),
                ..Absent::new(NO_DISK, Stage::Alone, why)
            })
        })
    }

    /// The matchings, with some pairs alone.
    fn pairs(&self, steps: u32, draw: &mut Draw) -> Vec<Event> {
        let mut events = Vec::new();
        for step in 0..steps {
            let gone = self.lost.filter(|_| step >= LOST_AT);
            if let Some(rank) = self.lost.filter(|_| step == LOST_AT) {
                let why = "the connection to rank 0 ended; the node did not return within 30 s";
                let absent = Absent::new(rank, Stage::Pairs, why);
                events.push(Event::Absent(Absent { step: Some(step), lost: true, ..absent }));
            }
            for (from, to) in self.matching(step, draw) {
                if gone.is_some_and(|gone| gone == from || gone == to) {
                    continue;
                }
                events.extend(self.meet(step, Purpose::Matching, (from, to), draw));
                if (from + step).is_multiple_of(20) {
                    events.extend(self.meet(step, Purpose::Isolated, (from, to), draw));
                }
            }
        }
        for step in steps..steps + 2 {
            for (from, to) in self.across(step - steps) {
                if self.lost.is_none_or(|lost| lost != from && lost != to) {
                    events.extend(self.meet(step, Purpose::Bisection, (from, to), draw));
                }
            }
        }
        let gatherings =
            [(Purpose::Incast, steps + 2, &OF_PAIRS[0]), (Purpose::Outcast, steps + 3, &PULLED)];
        for (purpose, step, of) in gatherings {
            for from in (1..self.size.min(5)).filter(|from| self.lost != Some(*from)) {
                events.push(self.pair(step, purpose, (from, 0), of, draw));
            }
        }
        events
    }

    /// A random perfect matching; the first has the planted link.
    fn matching(&self, step: u32, draw: &mut Draw) -> Vec<(u32, u32)> {
        let mut ranks: Vec<u32> = (0..self.size).collect();
        for at in (1..ranks.len()).rev() {
            ranks.swap(at, (draw.uniform() * (at as f64 + 1.0)) as usize % (at + 1));
        }
        if let Some((a, b, _)) = self.link.filter(|_| step == 0) {
            for (at, rank) in [(0, a), (1, b)] {
                let has = ranks.iter().position(|other| *other == rank).unwrap_or(at);
                ranks.swap(at, has);
            }
        }
        ranks.chunks_exact(2).map(|two| (two[0], two[1])).collect()
    }

    /// A matching of the first half with the second.
    fn across(&self, turn: u32) -> Vec<(u32, u32)> {
        let half = self.size / 2;
        (0..half).map(|at| (at, half + (at + turn) % half)).collect()
    }

    /// All figures of a pair.
    fn meet(&self, step: u32, purpose: Purpose, way: (u32, u32), draw: &mut Draw) -> Vec<Event> {
        OF_PAIRS.iter().map(|of| self.pair(step, purpose, way, of, draw)).collect()
    }

    fn pair(
        &self,
        step: u32,
        purpose: Purpose,
        (from, to): (u32, u32),
        of: &OfNode,
        draw: &mut Draw,
    ) -> Event {
        let planted = self.link.filter(|(a, b, _)| [(*a, *b), (*b, *a)].contains(&(from, to)));
        let planted = planted.map_or(1.0, |(.., factor)| factor);
        let changed = self.changed.iter().filter(|(id, _)| *id == of.id);
        let shared = match purpose {
            Purpose::Incast | Purpose::Outcast => 0.3,
            Purpose::Bisection => 0.82,
            Purpose::Matching => 0.97,
            Purpose::Isolated | Purpose::Suspect => 1.0,
        };
        let factor = shared * planted * changed.map(|(_, factor)| factor).product::<f64>();
        let ends = self.own(from, 101) + self.own(to, 202);
        let speed = factor.ln() + ends + of.scatter * draw.normal() / 2.0;
        let sign = if of.better == Better::Lower { -1.0 } else { 1.0 };
        Event::Pair(Pair {
            step,
            purpose,
            from,
            to,
            key: of.key(),
            unit: of.unit,
            better: of.better,
            estimate: estimate(of.value * (sign * speed).exp(), of.scatter),
            predicted: Some((of.value * 0.5, of.value * 1.5)),
        })
    }

    /// What stands out, again: slow nodes three times, and the ends of a slow link with each other and
    /// with partners.
    fn again(&self, steps: u32, draw: &mut Draw) -> Vec<Event> {
        let mut events = Vec::new();
        for (rank, id, _) in &self.slow {
            let own: Vec<_> = OF_NODES.iter().filter(|of| of.id == *id).collect();
            for (again, of) in (1..=3).flat_map(|again| own.iter().map(move |of| (again, *of))) {
                events.push(self.figure(*rank, of, again, draw));
            }
        }
        if let Some((a, b, _)) = self.link {
            let partners = [(a, b), (b, a), (a, 1), (2, a), (a, 4), (b, 1), (2, b), (b, 4)];
            for (at, pair) in (0..3).flat_map(|_| partners).enumerate() {
                let step = steps + 3 + at as u32;
                events.extend(self.meet(step, Purpose::Suspect, pair, draw));
            }
        }
        events
    }
}

/// Step of the pairs in which a node is lost.
const LOST_AT: u32 = 4;

/// A node without a disk, in sweeps that lose a node.
const NO_DISK: u32 = 5;

/// A figure that nodes have.
#[derive(PartialEq)]
struct OfNode {
    id: &'static str,
    /// `op=read level=DRAM`.
    case: &'static str,
    metric: &'static str,
    unit: Unit,
    better: Better,
    kind: Kind,
    value: f64,
    scatter: f64,
}

const fn of(
    kind: Kind,
    id: &'static str,
    case: &'static str,
    metric: &'static str,
    (unit, better): (Unit, Better),
    value: f64,
) -> OfNode {
    let scatter = if matches!(kind, Hardware) { 0.008 } else { 0.02 };
    OfNode { id, case, metric, unit, better, kind, value, scatter }
}

const HZ: (Unit, Better) = (Unit::Hz, Better::Higher);
const FLOPS: (Unit, Better) = (Unit::FlopPerS, Better::Higher);
const RATE: (Unit, Better) = (Unit::BPerS, Better::Higher);
const TIME: (Unit, Better) = (Unit::Ns, Better::Lower);
const SHARE: (Unit, Better) = (Unit::Ratio, Better::Lower);

const OF_NODES: [OfNode; 12] = [
    of(Hardware, "clock.rate", "", "core_frequency", HZ, 3.4e9),
    of(Hardware, "cpu.peak", "op=fma type=f64 threads=all", "flop_rate", FLOPS, 2.6e12),
    of(Hardware, "memory.latency", "level=L2", "level_latency", TIME, 3.4),
    of(Hardware, "memory.latency", "level=L3", "level_latency", TIME, 13.6),
    of(Hardware, "memory.latency", "level=DRAM", "level_latency", TIME, 108.0),
    of(Hardware, "memory.bandwidth", READ, "bandwidth", RATE, 1.82e11),
    of(Hardware, "memory.bandwidth", TRIAD, "bandwidth", RATE, 1.31e11),
    of(Os, "os.syscall", "call=getpid", "latency", TIME, 92.0),
    of(Os, "os.syscall", "call=open", "latency", TIME, 1310.0),
    of(Os, "os.process", "call=fork pages=base", "reaped", TIME, 171_000.0),
    of(Io, "fs.read", "pattern=random mode=direct", "latency_per_block", TIME, 84_000.0),
    of(Os, "noise.activity", "cpu=quietest", "lost", SHARE, 0.004),
];

const READ: &str = "op=read level=DRAM threads=all";
const TRIAD: &str = "op=triad stores=regular threads=all";

const OF_PAIRS: [OfNode; 2] = [
    rate("far=far protocol=tcp direction=up"),
    of(Io, "net.rtt", "far=far protocol=tcp", "round_trip", TIME, 31_000.0),
];

/// The rate of a pair whose far end sends.
const PULLED: OfNode = rate("far=far protocol=tcp direction=down");

const fn rate(case: &'static str) -> OfNode {
    of(Io, "net.bandwidth", case, "bandwidth", RATE, 2.9e9)
}

impl OfNode {
    fn key(&self) -> Key {
        let parts = self.case.split(' ').filter_map(|part| part.split_once('='));
        let case = parts.fold(CaseId::new(), |case, (name, value)| case.with(name, value));
        Key::new(self.id, &case, self.metric)
    }
}

fn estimate(value: f64, scatter: f64) -> Estimate {
    let half = scatter / 2.0 * 1.5;
    let ci = Some((value * (-half).exp(), value * half.exp()));
    Estimate { value, ci, rounds: 6, scatter: Some(scatter) }
}

fn phase(phase: Stage, at_s: f64, ended: bool) -> Event {
    Event::Phase(Phase { phase, ended, at_s })
}
