//! Laws of memory nodes: what a node's CPUs get of another node's memory, from the firmware's
//! distances and the local figures.
//!
//! Distances (ACPI's SLIT, 10 for local) are the firmware's word on latency, and firmware writers
//! differ: two sockets are 20, 21 or 32 apart where both answer in 1.6 to 2 times the local time,
//! and halves of a chip 11 or 12 where they differ by 5 to 25 %. So the law takes a part of what
//! the distance adds. A lone CPU has so many lines in flight, whose number does not depend on the
//! node, so its rate falls as the latency rises; of a whole node's CPUs the link between the nodes
//! decides, which nothing describes.

use super::bandwidth::stream_mean;
use super::measured::level_ns;
use super::transfer::{Op, STREAM, Stores, Threads, Transfer};
use super::{Level, level_latency};
use crate::cpu::is_guest;
use crate::{Facts, Law, around, inverse, range};
use bench::experiment::{Fields, Known, Site, unknown};
use record::event::{Prediction, Range};

/// The firmware's value for an unknown distance or a missing path.
const UNREACHABLE: u32 = 255;
/// Part of what the distance adds that the latency really rises by.
const ADDED: Range = Range { low: 0.25, likely: 0.65, high: 1.3 };
/// If no distance is reported.
const UNTOLD: Range = Range { low: 1.0, likely: 1.6, high: 3.5 };

/// The firmware's distance of a node's memory from another node's CPUs; 10 is local.
pub fn distance(site: &Site, cpu_node: usize, memory_node: usize) -> Option<u32> {
    let nodes = &site.host.numa.nodes;
    let column = nodes.iter().position(|node| node.id == memory_node)?;
    let row = nodes.iter().find(|node| node.id == cpu_node)?;
    let told = row.distances.get(column).copied();
    told.filter(|distance| (1..UNREACHABLE).contains(distance))
}

/// Latency over that of the local memory.
pub fn latency_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    if cpu_node == memory_node {
        return Law::hardware(range(1.0, 1.0, 1.0), "local memory");
    }
    let far = distance(site, cpu_node, memory_node);
    let near = distance(site, cpu_node, cpu_node);
    let (ratio, because) = match far.zip(near) {
        Some((far, near)) => {
            let added = (f64::from(far) / f64::from(near) - 1.0).max(0.0);
            let Range { low, likely, high } = ADDED;
            let ratio = range(1.0 + low * added, 1.0 + likely * added, 1.0 + high * added + 0.1);
            (ratio, format!("the firmware reports distance {far}, and {near} for local memory"))
        }
        None => (UNTOLD, "the firmware reports no distance".to_owned()),
    };
    let mut law = Law::hardware(ratio, because);
    law.range.low *= 0.95;
    let mut nodes = site.host.numa.nodes.iter();
    if nodes.any(|node| node.id == memory_node && node.memory_only) {
        law = law.widened(1.0, 1.5, "a memory-only node may be on another bus");
    }
    if is_guest(site) {
        law.range.low = law.range.low.min(0.7);
        law = law.widened(1.0, 1.2, "a virtual machine's nodes may differ from the host's");
    }
    law
}

/// Rate of one CPU over that from its local memory.
pub fn bandwidth_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    let slower = latency_ratio(site, cpu_node, memory_node);
    if cpu_node == memory_node {
        return slower;
    }
    let rate = inverse(1.0, slower.range);
    // Prefetchers have more lines in flight than the core: part of the latency is hidden.
    slower
        .with_range(range(rate.low * 0.8, rate.likely.max(0.5), rate.high.max(1.05)))
        .and("one CPU has the same number of lines in flight to any node")
}

/// Rate of all of a node's CPUs over that from their local memory.
pub fn node_bandwidth_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    let slower = latency_ratio(site, cpu_node, memory_node);
    if cpu_node == memory_node {
        return slower;
    }
    let rate = inverse(1.0, slower.range);
    let why = "limited by the inter-node link and the other node's channels, which nothing states";
    slower.with_range(range(0.1, (rate.likely * 0.8).max(0.15), rate.high.max(1.2))).and(why)
}

/// Time of a random load from the memory node, in ns. `None` where known figures add nothing.
pub fn latency(facts: Facts, cpu_node: usize, memory_node: usize) -> Option<Law> {
    let local = match facts.known {
        None => level_latency(facts, Level::Memory).ok()?,
        // On any CPU of any node, in other pages, and what is left of the ring in caches.
        Some(known) => {
            let ns = level_ns(known, Level::Memory)?;
            Law::hardware(around(ns, 0.3), "main memory latency (measured by memory.latency)")
        }
    };
    Some(of_node(local, &latency_ratio(facts.site, cpu_node, memory_node)))
}

/// STREAM's mean by one CPU alone, in B/s of the program. `None` where known figures add nothing.
pub fn bandwidth(facts: Facts, cpu_node: usize, memory_node: usize) -> Option<Prediction> {
    let local = match facts.known {
        None => stream_mean(facts, &triad(Level::FourTimes, Threads::Number(1))),
        Some(known) => Ok(measured(known, Threads::Number(1), 1.0, 0.35)?),
    };
    let ratio = bandwidth_ratio(facts.site, cpu_node, memory_node);
    Some(local.map_or_else(unknown, |local| of_node(local, &ratio).prediction()))
}

/// As [`bandwidth`], by `team` CPUs of the node together.
pub fn node_bandwidth(
    facts: Facts,
    cpu_node: usize,
    memory_node: usize,
    team: usize,
) -> Option<Prediction> {
    let mut nodes = facts.site.host.numa.nodes.iter();
    let with_cpus = nodes.by_ref().filter(|node| !node.memory_only).count();
    let local = match facts.known {
        None => {
            let threads = Threads::Number(team.max(1) as u64);
            let whole = stream_mean(facts, &triad(Level::FourTimes, threads));
            whole.map(|whole| part_of_socket(facts.site, with_cpus as f64, whole))
        }
        Some(known) => Ok(measured(known, Threads::All, 1.0 / with_cpus.max(1) as f64, 0.6)?),
    };
    let ratio = node_bandwidth_ratio(facts.site, cpu_node, memory_node);
    Some(local.map_or_else(unknown, |local| of_node(local, &ratio).prediction()))
}

fn triad(level: Level, threads: Threads) -> Transfer {
    Transfer::widest(Op::Triad, Stores::Regular, level, threads)
}

fn of_node(local: Law, ratio: &Law) -> Law {
    local.by(ratio.range).and("times the node's ratio").with(ratio)
}

/// Where a socket's memory is several nodes, its channels are spread over them.
fn part_of_socket(site: &Site, nodes: f64, whole: Law) -> Law {
    let each = nodes / site.host.cpu.packages().unwrap_or(1).max(1) as f64;
    let part = |of: Range| range(of.low / each, of.likely * (1.0 + 1.0 / each) / 2.0, of.high);
    let why = "a socket's channels are spread over its nodes";
    whole.when(each > 1.0, |whole| whole.reshaped(part).and(why))
}

/// The mean of the four kernels that memory.bandwidth measured in main memory, or at four times the
/// last cache; a part of it.
fn measured(known: &Known, threads: Threads, part: f64, share: f64) -> Option<Law> {
    [Level::Memory, Level::FourTimes].into_iter().find_map(|level| {
        let rate = |op| {
            let case = triad(level, threads).with_op(op).id();
            known.get("memory.bandwidth", &case, "bandwidth")
        };
        let rates: Vec<f64> = STREAM.into_iter().map(rate).collect::<Option<_>>()?;
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let why = format!("{part:.2} of the mean of STREAM's kernels (by memory.bandwidth)");
        Some(Law::hardware(around(mean * part, share), why))
    })
}

#[cfg(test)]
mod tests {
    use super::Known;
    use super::{bandwidth, bandwidth_ratio, distance, latency, latency_ratio};
    use crate::Facts;
    use bench::experiment::fixtures::recorded;

    #[test]
    fn distances_are_the_rows_own_and_absurd_ones_are_none() {
        let mut site = recorded("epyc-7763-2s");
        assert_eq!(distance(&site, 0, 0), Some(10));
        assert_eq!(distance(&site, 0, 1), Some(32));
        site.host.numa.nodes[0].distances = vec![10, 255];
        site.host.numa.nodes[1].distances = vec![20, 10];
        assert_eq!(distance(&site, 0, 1), None, "the firmware's word for no way");
        assert_eq!(distance(&site, 1, 0), Some(20));
        assert_eq!(distance(&site, 1, 2), None, "no such node");
    }

    #[test]
    fn known_machines_are_inside_and_further_is_slower() {
        let mut site = recorded("epyc-7763-2s");
        // Two sockets of Zen 3: about 1.9 (published); Intel's say 21 and take 1.6 to 1.8.
        for (told, seen) in [(32, 1.9), (21, 1.7), (12, 1.1), (16, 1.45)] {
            site.host.numa.nodes[0].distances = vec![10, told];
            let ratio = latency_ratio(&site, 0, 1).range;
            assert!(ratio.low < seen && seen < ratio.high, "{told}: {ratio:?}");
            let rate = bandwidth_ratio(&site, 0, 1).range;
            assert!(rate.low < 1.0 / seen && 1.0 / seen < rate.high, "{told}: {rate:?}");
        }
        let near = latency_ratio(&site, 0, 1).range.likely;
        site.host.numa.nodes[0].distances = vec![10, 40];
        assert!(latency_ratio(&site, 0, 1).range.likely > near);
        site.host.numa.nodes[0].distances = vec![];
        assert_eq!(latency_ratio(&site, 0, 1).range.likely, super::UNTOLD.likely);
        let local = latency_ratio(&site, 0, 0).range;
        assert_eq!((local.low, local.high), (1.0, 1.0));
    }

    #[test]
    fn figures_that_tell_nothing_give_no_prediction() {
        let site = recorded("epyc-7763-2s");
        let nothing = Facts { site: &site, known: Some(&Known::default()) };
        assert!(latency(nothing, 0, 1).is_none() && bandwidth(nothing, 0, 1).is_none());
    }
}
