//! What does another node's memory cost: rate and latency of every node's CPUs against every node's
//! memory?
//!
//! ## Question
//!
//! On a machine with several memory nodes, what bandwidth and latency do the CPUs of each node
//! reach with the memory of each node, and is the firmware's table of distances right?
//!
//! ## Method
//!
//! A case is a CPU node and a memory node; nodes without CPUs are columns only. A round for one
//! memory node places its memory once (mbind, touched on that node's CPUs if it has any) and
//! measures every row in random order:
//!
//! - `bandwidth`: as in R4, one CPU at a time, with STREAM's four kernels (copy, scale, add, triad;
//!   doubles, regular stores, vectors, in assembly). A CPU's value is the arithmetic mean of its
//!   four rates, a node's value the mean over its CPUs. R4 ran every CPU of the node once; here
//!   each round draws `cpus` of them, so that the rounds cover the node, and the spread between
//!   CPUs is part of the interval. R4 took the best of ten passes; a round here takes one window.
//! - `node_bandwidth`: one CPU of each core of the node at the same time, their rates added up,
//!   mean of the four kernels: the node's bandwidth to that memory, which R4 did not measure.
//!   Threads start together, and bytes count only in the shared window; `overlap` is its share of
//!   the requested window.
//! - `latency`: the same CPUs alone, one after the other, walk a random ring (two lines per slot,
//!   every address the value of the previous load); time over loads, mean over CPUs.
//!
//! A single CPU's rate is that of its median step (256 KiB, 256 loads; for the team 32 KiB), which
//! excludes interrupts. Rates are of the program's bytes (copy and scale 16, add and triad 24 B an
//! element); a regular store reads the line first, so the bus carries half more for copy and scale
//! and a third more for add and triad. Before each window the team moves a quarter of its arrays,
//! as much as the last caches hold. This brings the caches into the steady state of such a stream
//! (dirty lines of another kernel or node would be written back in the window, an empty cache would
//! absorb stores). Then each single CPU moves 3 MiB, more than its private caches, before each of
//! its windows, and makes 16384 loads before the walk. Each part of the memory uses the fastest
//! vector loop of its own CPU, with or without prefetch instructions, found by short trials.
//! CLOCK_MONOTONIC times the windows, one clock for all CPUs. The streams together are four times
//! the last caches of a whole node, the walk continues where it stopped, and the streams have
//! evicted what linking the ring left in a cache.
//!
//! After its window each thread must be on its CPU and node (getcpu), or the case fails and names
//! both. After all windows move_pages reports the node of the used pages (up to 4096 of each
//! mapping): one page elsewhere, or a kernel that does not answer, voids the round. The arrays must
//! have the content that the kernels compute.
//!
//! *Derived*: `bandwidth_ratio`, `node_bandwidth_ratio` (over the same CPUs' rate on their own
//! node's memory) and `latency_ratio`, each with the firmware's distances: `distance` and
//! `local_distance` in `at`.
//!
//! `quick` measures at most four pairs: the row of the first CPU's node, first one node of each
//! distance. If no cache is described, a node counts as 32 MiB.
//!
//! ## Prediction
//!
//! Local figures follow the laws of memory.latency and memory.bandwidth (or their measured
//! figures), scaled by the extra distance of the firmware's table (SLIT); usually a quarter to
//! slightly more than all of the extra distance applies. A single CPU's rate falls as the latency
//! rises, since its lines in flight stay the same. A whole node's bandwidth to another depends on
//! links that no table describes, so the range is wide. A virtual machine's distances are set by
//! hand.
//!
//! ## Reading the result
//!
//! Rows are CPU nodes, columns memory nodes (R4's table has them the other way round). The diagonal
//! is local. `latency_ratio` near `distance` over `local_distance`: the firmware's table is right.
//! `bandwidth_ratio` is about its reciprocal; if it is near 1 although the latency is not,
//! prefetchers hide the distance. `node_bandwidth_ratio` far below that: the link between the nodes
//! is full. Columns that do not depend on the row, as in R4, would mean that threads were not on
//! their nodes: here such a case fails.
//!
//! ## Pitfalls
//!
//! - Failed binding: R4's figures depend on the memory node only; plumb verifies both sides.
//! - Automatic NUMA balancing unmaps pages to see which threads use them; the kernel excludes
//!   memory bound to a node, as it is here.
//! - A node that is nearly full: binding makes the kernel reclaim memory or kill processes rather
//!   than use another node. A node with less free memory (including idle pages of files) than
//!   needed is skipped, with the numbers.
//! - A node with too few huge pages: base pages are used, and a note says so; then address
//!   translation is part of the latency.
//! - SMT siblings are excluded from `node_bandwidth`, but not from the CPUs that are measured
//!   alone.
//! - In a container mbind and move_pages may be forbidden: without verification nothing is
//!   measured.
//! - The figures include the effect of a last cache that serves several nodes, or of a nearer
//!   node's cache.
//!
//! ## Sources
//!
//! [R4] part B (four-node Magny-Cours; firmware's distances 10 and 16; rates that do not depend on
//! the CPU's node); [stream] (rules and kernels); [acpi] (SLIT); [man] mbind(2), move_pages(2),
//! getcpu(2); [linux] mm/mempolicy.c (`vma_policy_mof`); [mlc] (whole nodes at once: its bandwidth
//! matrix).

mod node_pairs;
mod round;

use bench::prelude::*;
use laws::Law;
use laws::cpu::is_guest;
use laws::memory::numa;
use laws::memory::transfer::STREAM;
use node_pairs::{Sizes, workers};
use record::order::InOrder;

const ID: &str = "memory.numa";
/// Numbers of nodes that may be asked for; Linux has up to 1024.
const NODE_MAX: u64 = 1023;
/// What the round's cost is stated from: a thread made and joined, a pair's other work, a round's.
const PER_THREAD: Duration = Duration::from_micros(70);
const PER_WINDOW: Duration = Duration::from_micros(300);
const PER_ROUND: Duration = Duration::from_millis(30);
/// Touching a byte first, in ns (a hypervisor finds the memory then); passes over the streams that
/// prepare and check them, and the time of a byte in one of those by one thread; linking a slot.
const TOUCH_NS: f64 = 0.4;
const TOUCH_GUEST_NS: f64 = 2.0;
const PASSES: f64 = 8.0;
const PASS_NS: f64 = 0.15;
const LINK_NS: f64 = 25.0;
/// Waiting for a load from a node's memory.
const LOAD_NS: f64 = 130.0;
/// Threads beyond this prepare memory no faster together.
const MAKERS_MOST: f64 = 16.0;

bench::experiment!(Numa);

static CARD: Card = Card {
    id: ID,
    title: "Every node's CPUs against every node's memory",
    metrics: metrics! {
        "bandwidth" => BPerS Higher Hardware:
            "mean of STREAM's four kernels by one CPU at a time, mean over the node's CPUs; bytes \
             of the program";
        "node_bandwidth" => BPerS Higher Hardware:
            "mean of STREAM's four kernels by one CPU of each core of the node together; bytes of \
             the program";
        "latency" => Ns Lower Hardware:
            "time of one load whose address is the result of the previous load, in random order, \
             mean over the node's CPUs";
        "bandwidth_ratio" => derived Ratio Higher Hardware:
            "bandwidth over that of the same CPUs on their own node's memory";
        "node_bandwidth_ratio" => derived Ratio Higher Hardware:
            "node_bandwidth over that of the same CPUs on their own node's memory";
        "latency_ratio" => derived Ratio Lower Hardware:
            "latency over that of the same CPUs on their own node's memory";
    },
    params: bench::params!(
        Pair::PARAMS,
        settings! {
            "cpus": Domain::Either(&["auto"], 1, 8192, Unit::Count), ["auto"; 3] =>
                "CPUs of a node that are measured alone in a round, drawn for each round; auto: 1, \
                 2 and 8 by preset";
            "footprint": Domain::Either(&["auto"], 1 << 20, 1 << 42, Unit::B), ["auto"; 3] =>
                "bytes of all streams on a memory node; auto: four times the last caches of a \
                 node";
            "ring": Domain::Either(&["auto"], 1 << 12, 1 << 42, Unit::B), ["auto"; 3] =>
                "footprint of the latency walk; auto: four times one last cache, at most 512 MiB";
        },
    ),
    after: &["clock.rate", "memory.latency", "memory.bandwidth"],
    needs: &[Need::Numa],
    views: &[
        ViewCard::matrix("cpu_node", "memory_node", "latency"),
        ViewCard::matrix("cpu_node", "memory_node", "bandwidth"),
        ViewCard::matrix("cpu_node", "memory_node", "node_bandwidth"),
        ViewCard::matrix("cpu_node", "memory_node", "latency_ratio"),
        ViewCard::matrix("cpu_node", "memory_node", "bandwidth_ratio"),
        ViewCard::line("cpu_node", "bandwidth").beside(&["latency"]),
    ],
    ..Card::PLAIN
};

bench::case! {
    /// A node whose CPUs work, and the node of the memory.
    pub struct Pair {
        /// node whose CPUs work
        cpu_node: u64 = Domain::count(0, NODE_MAX),
        /// node of the memory; in quick four pairs in all
        memory_node: u64 = Domain::count(0, NODE_MAX),
    }
}

impl Pair {
    fn nodes(&self) -> (usize, usize) {
        (self.cpu_node as usize, self.memory_node as usize)
    }

    fn is_local(&self) -> bool {
        self.cpu_node == self.memory_node
    }

    /// The same CPUs with their own memory.
    fn local(&self) -> Pair {
        Pair { memory_node: self.cpu_node, ..*self }
    }
}

/// Measured metrics and the ratios over a row's local pair that they give.
const RATIOS: [(&str, &str); 3] = [
    ("bandwidth", "bandwidth_ratio"),
    ("node_bandwidth", "node_bandwidth_ratio"),
    ("latency", "latency_ratio"),
];

impl Experiment for Numa {
    type Case = Pair;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("numa.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;
    /// The memory of a node is for all of its column.
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |_| Hazards { memory: Claim::OfRound, ..Hazards::NONE };

    fn cases(site: &Site, _: Preset) -> Vec<Pair> {
        let nodes = &site.host.numa.nodes;
        let rows = nodes.iter().filter(|node| !node.cpus.is_empty());
        let all = rows.flat_map(|row| {
            nodes
                .iter()
                .map(|column| Pair { cpu_node: row.id as u64, memory_node: column.id as u64 })
        });
        all.collect()
    }

    fn series(site: &Site, cases: Vec<Pair>, params: &Params) -> Result<Offer, Skip> {
        let nodes = &site.host.numa.nodes;
        if nodes.len() < 2 {
            return Err(Skip::because(match nodes.first() {
                Some(node) => format!("node {} is the only node: all memory is local", node.id),
                None => "the kernel describes no memory nodes".to_owned(),
            }));
        }
        let sizes = Sizes::new(site, params);
        let mut offer = Offer::default();
        let mut pairs = Vec::new();
        let members = node_pairs::members(site, &cases);
        for pair in cases {
            match node_pairs::refused(site, &pair, sizes, members) {
                Some(skip) => offer.skipped.push((pair.id(), skip)),
                None => pairs.push(pair),
            }
        }
        let is_asked = Pair::PARAMS.iter().any(|param| params.chosen(param.name).is_some());
        if params.preset == Preset::Quick && !is_asked {
            pairs = node_pairs::quick(site, pairs);
        }
        // A node's memory is placed once a round, and what happens to it stays in its column.
        pairs.order_by_key(|pair| pair.memory_node);
        for pair in pairs {
            let series =
                offer.series_named(&CARD, &format!("memory-{}", pair.memory_node), Self::ORDER);
            series.settings = sizes.settings();
            series.cases.push(Case::new(pair.id()));
        }
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            if let Some(pair) = Pair::from_id(&case.id) {
                node_pairs::place(site, case, &pair);
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Pair, _: &Case, metric: &Metric) -> Option<Prediction> {
        let (cpu_node, memory_node) = of.nodes();
        match &*metric.name {
            "latency" => numa::latency(facts, cpu_node, memory_node).map(Law::prediction),
            "bandwidth" => numa::bandwidth(facts, cpu_node, memory_node),
            _ => {
                let (_, team) = workers(facts.site, of);
                numa::node_bandwidth(facts, cpu_node, memory_node, team)
            }
        }
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        round::measure(series, bench)
    }

    /// The pairs whose row's local pair is measured too.
    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        let pairs: Vec<Pair> = cases.filter_map(|case| Pair::from_id(&case.id)).collect();
        let remote = pairs.iter().filter(|pair| !pair.is_local());
        remote.filter(|pair| pairs.contains(&pair.local())).map(Pair::id).collect()
    }

    fn derived_law(facts: Facts, case: &CaseId, metric: &Metric) -> Option<Prediction> {
        let pair = Pair::from_id(case).filter(|pair| facts.known.is_none() && !pair.is_local())?;
        let (cpu_node, memory_node) = pair.nodes();
        let ratio = match &*metric.name {
            "bandwidth_ratio" => numa::bandwidth_ratio,
            "node_bandwidth_ratio" => numa::node_bandwidth_ratio,
            _ => numa::latency_ratio,
        };
        Some(ratio(facts.site, cpu_node, memory_node).prediction())
    }

    fn derive(site: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut found = Vec::new();
        for (metric, ratio) in RATIOS {
            for (case, value) in values.figures(ID, metric) {
                let pair = Pair::from_id(case).filter(|pair| !pair.is_local());
                let Some((pair, own)) = pair.and_then(|pair| {
                    let own = values.get(ID, &pair.local().id(), metric)?;
                    Some((pair, own))
                }) else {
                    continue;
                };
                let mut derived = DerivedValue::new(case.clone(), ratio, value / own);
                derived.at.extend(distances(site, &pair));
                found.push(derived);
            }
        }
        found
    }
}

/// The firmware's distances of a pair and of its row's local memory, as facts of a case.
fn distances(site: &Site, pair: &Pair) -> impl Iterator<Item = (String, Value)> {
    let (cpu_node, memory_node) = pair.nodes();
    let of = |name: &str, memory_node| {
        let distance = numa::distance(site, cpu_node, memory_node)?;
        Some((name.to_owned(), Value::from(u64::from(distance))))
    };
    [of("distance", memory_node), of("local_distance", cpu_node)].into_iter().flatten()
}

/// [`workers`] of a case.
fn workers_of(site: &Site, id: &CaseId) -> (usize, usize) {
    Pair::from_id(id).map_or((0, 0), |pair| workers(site, &pair))
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let Some(sizes) = Sizes::from_series(series) else { return PER_ROUND };
    let window = Duration::from_nanos((1.1 * round::window_ns(site.case_ns, false)) as u64);
    let (mut cost, mut most) = (PER_ROUND, 1);
    for case in &series.cases {
        let (cpus, team) = workers_of(site, &case.id);
        let kernels = STREAM.len() as u32;
        let alone = (cpus as u64).min(sizes.cpus) as u32;
        let windows = alone * (kernels + 1) + kernels;
        let threads = alone * (kernels + 1) + kernels * team as u32;
        cost += (window + PER_WINDOW) * windows + PER_THREAD * threads;
        // What is moved and walked before the windows.
        let caches_ns = sizes.footprint as f64 / node_pairs::CACHES as f64 * PASS_NS
            / (team as f64).clamp(1.0, MAKERS_MOST);
        let own_ns = round::WARM_BYTES as f64 * PASS_NS;
        let walk_ns = round::WARM_LOADS as f64 * LOAD_NS;
        let warm_ns = f64::from(kernels) * (caches_ns + f64::from(alone) * own_ns)
            + f64::from(alone) * walk_ns;
        cost += Duration::from_nanos(warm_ns as u64);
        most = most.max(team);
    }
    let makers = (most as f64).min(MAKERS_MOST);
    let touch_ns = if is_guest(site) { TOUCH_GUEST_NS } else { TOUCH_NS };
    let (streams, ring) = (sizes.footprint as f64, sizes.ring as f64);
    let slots = ring / round::SLOT_BYTES as f64;
    let ns = streams * (touch_ns + PASSES * PASS_NS) / makers + ring * touch_ns + slots * LINK_NS;
    cost + Duration::from_nanos(ns as u64)
}

#[cfg(test)]
mod tests;
