//! Which pairs of nodes are measured, on which CPUs, and how much memory that takes.

use super::ID;
use bench::experiment::{Params, Preset, Site, Skip};
use host::numa::Node;
use host::{Distance, format_cpus};
use laws::memory::numa::distance;
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;
use std::collections::{BTreeMap, BTreeSet};

const MIB: u64 = 1 << 20;
/// STREAM's rule: arrays of at least four times the last cache.
pub(super) const CACHES: u64 = 4;
/// Last caches of a node where nothing describes them.
const CACHE_UNKNOWN: u64 = 32 * MIB;
/// Longer rings take longer to link than all else takes; what linking leaves in a cache, the streams
/// drive out.
const RING_MOST: u64 = 512 * MIB;
/// Of a rehearsal.
const REHEARSAL_FOOTPRINT: u64 = 4 * MIB;
const REHEARSAL_RING: u64 = MIB;
/// Pairs that `quick` looks at.
const QUICK_PAIRS: usize = 4;

/// A node whose CPUs work, and the node of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) cpu_node: usize,
    pub(super) memory_node: usize,
}

impl Pair {
    pub(super) fn id(self) -> CaseId {
        CaseId::new()
            .with("cpu_node", self.cpu_node as u64)
            .with("memory_node", self.memory_node as u64)
    }

    pub(super) fn of(id: &CaseId) -> Option<Pair> {
        Some(Pair {
            cpu_node: usize::try_from(id.int("cpu_node")?).ok()?,
            memory_node: usize::try_from(id.int("memory_node")?).ok()?,
        })
    }

    pub(super) fn is_local(self) -> bool {
        self.cpu_node == self.memory_node
    }
}

/// The settings of all series, `auto` resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of the streams on one memory node.
    pub(super) footprint: u64,
    /// Bytes of the ring there.
    pub(super) ring: u64,
    /// CPUs of a node that work alone, one after the other, in a round.
    pub(super) cpus: u64,
}

impl Sizes {
    pub(super) fn new(site: &Site, params: &Params) -> Sizes {
        let given = |name: &str| params.chosen(name).and_then(|values| values.first()?.int());
        let rehearsal = params.preset == Preset::Rehearsal;
        let nodes = site.host.numa.nodes.iter();
        let with_cpus = nodes.filter(|node| !node.cpus.is_empty());
        let caches = with_cpus.map(|node| caches_of(site, node));
        let (all, one) = caches.fold((0, 0), |(all, one), (a, b)| (all.max(a), one.max(b)));
        let footprint = match rehearsal {
            true => REHEARSAL_FOOTPRINT,
            false => CACHES * all,
        };
        let ring = match rehearsal {
            true => REHEARSAL_RING,
            false => (CACHES * one).min(RING_MOST),
        };
        let cpus = match params.preset {
            Preset::Rehearsal | Preset::Quick => 1,
            Preset::Standard => 2,
            Preset::Thorough => 8,
        };
        Sizes {
            footprint: given("footprint").unwrap_or(footprint),
            ring: given("ring").unwrap_or(ring),
            cpus: given("cpus").unwrap_or(cpus),
        }
    }

    pub(super) fn of(series: &Series) -> Option<Sizes> {
        Some(Sizes {
            footprint: series.setting("footprint")?,
            ring: series.setting("ring")?,
            cpus: series.setting("cpus")?,
        })
    }

    fn settings(self) -> BTreeMap<String, Value> {
        let settings = [("footprint", self.footprint), ("ring", self.ring), ("cpus", self.cpus)];
        let owned = settings.map(|(name, value)| (name.to_owned(), Value::from(value)));
        owned.into()
    }

    /// Bytes that a memory node must have free: every member's part and the ring in whole pages.
    fn needed(self, site: &Site, members: usize) -> u64 {
        let page = site.host.memory.thp.page_bytes.unwrap_or(2 * MIB).max(1);
        let members = members.max(1) as u64;
        let part = self.footprint.div_ceil(members).next_multiple_of(page);
        part.saturating_mul(members).saturating_add(self.ring.next_multiple_of(page))
    }
}

/// Bytes of the last caches of a node's CPUs together, and of one of them.
fn caches_of(site: &Site, node: &Node) -> (u64, u64) {
    let mut seen = BTreeSet::new();
    let (mut all, mut one) = (0, 0);
    for cpu in &node.cpus {
        let Some(cache) = site.host.cache.last(*cpu) else {
            continue;
        };
        let shared = cache.shared_by.iter().find(|group| group.contains(cpu));
        if seen.insert(shared.and_then(|group| group.first()).copied()) {
            all += cache.size_bytes;
            one = one.max(cache.size_bytes);
        }
    }
    match one {
        0 => (CACHE_UNKNOWN, CACHE_UNKNOWN),
        _ => (all, one),
    }
}

/// The CPUs of a node to measure on, ascending.
pub(super) fn cpus_of(site: &Site, node: &Node) -> Vec<usize> {
    let usable = node.cpus.iter().copied();
    usable.filter(|cpu| site.cpus.contains(cpu)).collect()
}

/// One CPU of each of their cores.
pub(super) fn team_of(site: &Site, cpus: &[usize]) -> Vec<usize> {
    let mut team: Vec<usize> = Vec::new();
    for cpu in cpus {
        let siblings =
            |other: &usize| site.host.cpu.distance(*other, *cpu) == Some(Distance::SmtSibling);
        if !team.iter().any(siblings) {
            team.push(*cpu);
        }
    }
    team
}

/// How many CPUs the node of a case has to measure on, and how many of them are a team.
pub(super) fn workers(site: &Site, id: &CaseId) -> (usize, usize) {
    let node = Pair::of(id).map(|pair| pair.cpu_node);
    let mut nodes = site.host.numa.nodes.iter();
    let Some(node) = nodes.find(|of| Some(of.id) == node) else {
        return (0, 0);
    };
    let cpus = cpus_of(site, node);
    (cpus.len(), team_of(site, &cpus).len())
}

/// The pairs to measure, and those that this machine or what a process may use does not allow.
pub(super) fn pairs(
    site: &Site,
    params: &Params,
    sizes: Sizes,
) -> (Vec<Pair>, Vec<(CaseId, Skip)>) {
    let nodes = &site.host.numa.nodes;
    let given = |name: &str| params.chosen(name).map(|_| params.ints(name));
    let numbers = |ints: Vec<u64>| -> Vec<usize> {
        let numbers = ints.into_iter().map(usize::try_from);
        numbers.filter_map(Result::ok).collect()
    };
    let with_cpus = nodes.iter().filter(|node| !node.cpus.is_empty());
    let rows = given("cpu_node").map_or_else(|| with_cpus.map(|node| node.id).collect(), numbers);
    let all = || nodes.iter().map(|node| node.id).collect();
    let columns = given("memory_node").map_or_else(all, numbers);
    let asked = given("cpu_node").is_some() || given("memory_node").is_some();

    let members = members(site, &rows);
    let (mut wanted, mut skipped) = (Vec::new(), Vec::new());
    for &cpu_node in &rows {
        for &memory_node in &columns {
            let pair = Pair { cpu_node, memory_node };
            match refused(site, pair, sizes, members) {
                Some(skip) => skipped.push((pair.id(), skip)),
                None => wanted.push(pair),
            }
        }
    }
    if params.preset == Preset::Quick && !asked && wanted.len() > QUICK_PAIRS {
        wanted = quick(site, &wanted);
    }
    (wanted, skipped)
}

/// Members of the largest team among these nodes.
fn members(site: &Site, rows: &[usize]) -> usize {
    let of_rows = |node: &&Node| rows.contains(&node.id);
    let nodes = site.host.numa.nodes.iter().filter(of_rows);
    let teams = nodes.map(|node| team_of(site, &cpus_of(site, node)).len());
    teams.max().unwrap_or(0)
}

/// The row of the first CPU's node: its own memory, then one node of each further distance, nearest
/// first, then the others.
fn quick(site: &Site, wanted: &[Pair]) -> Vec<Pair> {
    let home = site.cpus.first().and_then(|cpu| {
        let mut nodes = site.host.numa.nodes.iter();
        Some(nodes.find(|node| node.cpus.contains(cpu))?.id)
    });
    let row = wanted.iter().find(|pair| Some(pair.cpu_node) == home);
    let row = row.or(wanted.first()).map(|pair| pair.cpu_node);
    let mut pairs: Vec<Pair> =
        wanted.iter().filter(|pair| Some(pair.cpu_node) == row).copied().collect();
    let far = |pair: &Pair| distance(site, pair.cpu_node, pair.memory_node).unwrap_or(u32::MAX);
    pairs.sort_by_key(|pair| (!pair.is_local(), far(pair), pair.memory_node));
    let mut seen = BTreeSet::new();
    let (first, rest): (Vec<Pair>, Vec<Pair>) =
        pairs.into_iter().partition(|pair| seen.insert((!pair.is_local(), far(pair))));
    let mut chosen: Vec<Pair> = first.into_iter().chain(rest).take(QUICK_PAIRS).collect();
    chosen.sort();
    chosen
}

/// Why a pair cannot be measured here, if it cannot.
fn refused(site: &Site, pair: Pair, sizes: Sizes, members: usize) -> Option<Skip> {
    let nodes = &site.host.numa.nodes;
    let find = |id: usize| nodes.iter().find(|node| node.id == id);
    let absent = |id: usize| {
        let there: Vec<usize> = nodes.iter().map(|node| node.id).collect();
        Skip::because(format!(
            "there is no node {id}: the machine has nodes {}",
            format_cpus(&there)
        ))
    };
    let Some(worker) = find(pair.cpu_node) else {
        return Some(absent(pair.cpu_node));
    };
    let Some(memory) = find(pair.memory_node) else {
        return Some(absent(pair.memory_node));
    };
    no_cpu(site, worker).or_else(|| no_memory(site, memory, sizes, members))
}

fn no_cpu(site: &Site, node: &Node) -> Option<Skip> {
    let id = node.id;
    if node.cpus.is_empty() {
        return Some(Skip::because(format!(
            "node {id} has memory only: it has no CPU to measure from"
        )));
    }
    cpus_of(site, node).is_empty().then(|| {
        Skip::because(format!(
            "none of node {id}'s CPUs ({}) is one to measure on",
            format_cpus(&node.cpus)
        ))
        .needs("a wider --cpu, affinity or cpuset")
    })
}

fn no_memory(site: &Site, node: &Node, sizes: Sizes, members: usize) -> Option<Skip> {
    let id = node.id;
    let bytes = |bytes: u64| render(bytes as f64, Unit::B);
    let allowed = site.host.numa.allowed.as_deref();
    if let Some(allowed) = allowed.filter(|allowed| !allowed.contains(&id)) {
        return Some(
            Skip::because(format!(
                "this process may not use node {id}'s memory, only that of nodes {}",
                format_cpus(allowed)
            ))
            .needs(format!("a cpuset whose cpuset.mems has {id}")),
        );
    }
    if node.total_bytes == Some(0) {
        return Some(Skip::because(format!("node {id} has no memory")));
    }
    let needed = sizes.needed(site, members);
    let idle = node.idle_file_bytes.unwrap_or(0);
    let room = node.free_bytes.map(|free| free.saturating_add(idle));
    if let Some((free, _)) = node.free_bytes.zip(room.filter(|room| *room < needed)) {
        return Some(
            Skip::because(format!(
                "node {id} has {} of free memory and {} in file pages that could be dropped; streams \
                 and ring take {}",
                bytes(free),
                bytes(idle),
                bytes(needed)
            ))
            .needs(format!(
                "free memory on node {id}, or a smaller {ID}.footprint and {ID}.ring"
            )),
        );
    }
    (needed > site.memory_bytes).then(|| {
        Skip::because(format!(
            "streams and ring take {}; {} may be touched (of what is available, and under the \
             control group's limit)",
            bytes(needed),
            bytes(site.memory_bytes)
        ))
        .needs(format!(
            "more free memory, a higher limit, or a smaller {ID}.footprint and {ID}.ring"
        ))
    })
}

/// One series for each memory node: its memory is placed once a round, and what happens to it stays
/// in its column.
pub(super) fn series_of(pairs: &[Pair], sizes: Sizes) -> Vec<Series> {
    let columns: BTreeSet<usize> = pairs.iter().map(|pair| pair.memory_node).collect();
    let series = columns.into_iter().map(|column| {
        let cases = pairs.iter().filter(|pair| pair.memory_node == column);
        Series {
            experiment: ID.to_owned(),
            name: format!("memory-{column}"),
            order: Order::Shuffled,
            cases: cases.map(|pair| Case::new(pair.id())).collect(),
            settings: sizes.settings(),
        }
    });
    series.collect()
}

/// Writes into a case which CPUs its node has, and how far the firmware puts the memory.
pub(super) fn place(site: &Site, case: &mut Case) {
    let Some(pair) = Pair::of(&case.id) else {
        return;
    };
    let mut nodes = site.host.numa.nodes.iter();
    let Some(node) = nodes.find(|node| node.id == pair.cpu_node) else {
        return;
    };
    let cpus = cpus_of(site, node);
    let team = team_of(site, &cpus);
    let far = distance(site, pair.cpu_node, pair.memory_node);
    let near = distance(site, pair.cpu_node, pair.cpu_node);
    let at = &mut case.at;
    at.insert("node_cpus".to_owned(), Value::Text(format_cpus(&cpus)));
    at.insert("team".to_owned(), Value::Text(format_cpus(&team)));
    for (name, value) in [("distance", far), ("local_distance", near)] {
        if let Some(value) = value {
            at.insert(name.to_owned(), Value::from(u64::from(value)));
        }
    }
}
