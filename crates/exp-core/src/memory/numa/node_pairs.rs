//! Which pairs of nodes are measured, on which CPUs, and how much memory that takes.

use super::{ID, Pair, distances};
use crate::too_much;
use bench::prelude::*;
use host::numa::Node;
use host::{Distance, format_cpus};
use laws::memory::numa::distance;
use record::order::InOrder;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
/// STREAM's rule: arrays of at least four times the last cache.
pub(super) const CACHES: u64 = 4;
/// Last caches of a node where nothing describes them.
const CACHE_UNKNOWN: u64 = 32 * MIB;
/// Longer rings take longer to link than all else takes; what linking leaves in a cache, the
/// streams drive out.
const RING_MOST: u64 = 512 * MIB;
const REHEARSAL_FOOTPRINT: u64 = 4 * MIB;
const REHEARSAL_RING: u64 = MIB;
/// Pairs that `quick` looks at.
const QUICK_PAIRS: usize = 4;

/// The settings of all series, `auto` resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of the streams on one memory node.
    pub(super) footprint: u64,
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
        let footprint = if rehearsal { REHEARSAL_FOOTPRINT } else { CACHES * all };
        let ring = if rehearsal { REHEARSAL_RING } else { (CACHES * one).min(RING_MOST) };
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

    pub(super) fn from_series(series: &Series) -> Option<Sizes> {
        Some(Sizes {
            footprint: series.setting("footprint")?,
            ring: series.setting("ring")?,
            cpus: series.setting("cpus")?,
        })
    }

    pub(super) fn settings(self) -> BTreeMap<String, Value> {
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
        let Some(cache) = site.host.cache.last(*cpu) else { continue };
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
fn cpus_of(site: &Site, node: &Node) -> Vec<usize> {
    let usable = node.cpus.iter().copied();
    usable.filter(|cpu| site.cpus.contains(cpu)).collect()
}

fn team_of(site: &Site, cpus: &[usize]) -> Vec<usize> {
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

/// How many CPUs the node of a pair has to measure on, and how many of them are a team.
pub(super) fn workers(site: &Site, pair: &Pair) -> (usize, usize) {
    let cpus = node(site, pair.nodes().0).map(|node| cpus_of(site, node)).unwrap_or_default();
    (cpus.len(), team_of(site, &cpus).len())
}

fn node(site: &Site, id: usize) -> Option<&Node> {
    site.host.numa.nodes.iter().find(|node| node.id == id)
}

/// Members of the largest team among the nodes whose CPUs work.
pub(super) fn members(site: &Site, pairs: &[Pair]) -> usize {
    pairs.iter().map(|pair| workers(site, pair).1).max().unwrap_or(0)
}

/// At most four pairs: the row of the first CPU's node, with its own memory, then one node of each
/// further distance, nearest first, then the others.
pub(super) fn quick(site: &Site, wanted: Vec<Pair>) -> Vec<Pair> {
    if wanted.len() <= QUICK_PAIRS {
        return wanted;
    }
    let home = site.cpus.first().and_then(|cpu| {
        let mut nodes = site.host.numa.nodes.iter();
        Some(nodes.find(|node| node.cpus.contains(cpu))?.id)
    });
    let row = wanted.iter().find(|pair| Some(pair.nodes().0) == home);
    let row = row.or(wanted.first()).map(|pair| pair.cpu_node);
    let mut pairs = wanted;
    pairs.retain(|pair| Some(pair.cpu_node) == row);
    let far = |pair: &Pair| {
        let (cpu_node, memory_node) = pair.nodes();
        (!pair.is_local(), distance(site, cpu_node, memory_node).unwrap_or(u32::MAX))
    };
    pairs.order_by_key(|pair| (far(pair), pair.memory_node));
    let mut seen = BTreeSet::new();
    let (first, rest): (Vec<Pair>, Vec<Pair>) =
        pairs.into_iter().partition(|pair| seen.insert(far(pair)));
    first.into_iter().chain(rest).take(QUICK_PAIRS).collect()
}

/// Why a pair cannot be measured here, if it cannot.
pub(super) fn refused(site: &Site, pair: &Pair, sizes: Sizes, members: usize) -> Option<Skip> {
    let found = |id: usize| {
        node(site, id).ok_or_else(|| {
            let there: Vec<usize> = site.host.numa.nodes.iter().map(|node| node.id).collect();
            let there = format_cpus(&there);
            Skip::because(format!("there is no node {id}: the machine has nodes {there}"))
        })
    };
    let (cpu_node, memory_node) = pair.nodes();
    match found(cpu_node).and_then(|worker| Ok((worker, found(memory_node)?))) {
        Ok((worker, memory)) => {
            no_cpu(site, worker).or_else(|| no_memory(site, memory, sizes, members))
        }
        Err(absent) => Some(absent),
    }
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
            "none of node {id}'s CPUs ({}) is among those to measure on",
            format_cpus(&node.cpus)
        ))
        .needs("a wider --cpu, affinity or cpuset")
    })
}

fn no_memory(site: &Site, node: &Node, sizes: Sizes, members: usize) -> Option<Skip> {
    let id = node.id;
    let bytes = |bytes: u64| render(bytes as f64, Unit::B);
    if node.total_bytes == Some(0) {
        return Some(Skip::because(format!("node {id} has no memory")));
    }
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
    too_much(site, needed, &format!("a smaller {ID}.footprint and {ID}.ring"))
}

/// Writes into a case which CPUs its node has, and how far the firmware puts the memory.
pub(super) fn place(site: &Site, case: &mut Case, pair: &Pair) {
    let Some(node) = node(site, pair.nodes().0) else { return };
    let cpus = cpus_of(site, node);
    let team = team_of(site, &cpus);
    case.at.put("node_cpus", format_cpus(&cpus));
    case.at.put("team", format_cpus(&team));
    case.at.extend(distances(site, pair));
}
