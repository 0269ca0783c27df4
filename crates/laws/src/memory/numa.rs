//! Laws of memory nodes: what a node's CPUs get of another node's memory, from the firmware's
//! distances and the local figures.
//!
//! Distances (ACPI's SLIT, 10 for local) are the firmware's word on latency, and firmware writers
//! differ: two sockets are 20, 21 or 32 apart where both answer in 1.6 to 2 times the local time, and
//! halves of a chip 11 or 12 where they differ by 5 to 25 %. So the law takes a part of what the
//! distance adds. A lone CPU has so many lines in flight, whose number does not depend on the node,
//! so its rate falls as the latency rises; of a whole node's CPUs the link between the nodes decides,
//! which nothing describes.

use super::bandwidth::{FOUR_TIMES, Transfer, stream_mean};
use super::measured::level_ns;
use super::{MEMORY, level_latency};
use crate::cpu::is_guest;
use crate::{Law, around, inverse, product, range};
use bench::experiment::{Known, Site, unknown};
use record::event::{Prediction, Range};
use record::key::Value;
use record::quantity::render;
use record::unit::Unit;

/// Firmware's word that it cannot tell, or that there is no way.
const UNREACHABLE: u32 = 255;
/// Part of what the distance adds that the latency really rises by.
const ADDED: Range = Range { low: 0.25, likely: 0.65, high: 1.3 };
/// STREAM's kernels and its stores.
const STREAM_OPS: [&str; 4] = ["copy", "scale", "add", "triad"];
const REGULAR: &str = "regular";
/// Where no distance is told.
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
    told(slower(site, cpu_node, memory_node))
}

/// Rate of one CPU over that from its local memory.
pub fn bandwidth_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    told(one_cpu(site, cpu_node, memory_node))
}

/// Rate of all of a node's CPUs over that from their local memory.
pub fn node_bandwidth_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    told(whole_node(site, cpu_node, memory_node))
}

fn told(of: Law) -> Law {
    Law::of(of.range, format!("base hardware: {}; software: none", of.because()))
}

/// How many times slower the memory node answers than the local one.
fn slower(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    if cpu_node == memory_node {
        return Law::new(1.0, 1.0, 1.0, "local memory");
    }
    let far = distance(site, cpu_node, memory_node);
    let near = distance(site, cpu_node, cpu_node);
    let (mut ratio, mut because) = match far.zip(near) {
        Some((far, near)) => {
            let added = (f64::from(far) / f64::from(near) - 1.0).max(0.0);
            let ratio = range(
                1.0 + ADDED.low * added,
                1.0 + ADDED.likely * added,
                1.0 + ADDED.high * added + 0.1,
            );
            let because = format!(
                "the firmware's distance is {far} against {near} for local memory, of which {} to \
                 {} of what it adds is usual",
                ADDED.low, ADDED.high
            );
            (ratio, because)
        }
        None => (UNTOLD, "the firmware tells no distance".to_owned()),
    };
    ratio.low *= 0.95;
    if is_memory_only(site, memory_node) {
        ratio.high *= 1.5;
        because += "; memory without CPUs of its own may be on another bus";
    }
    if is_guest(site) {
        ratio = range(ratio.low.min(0.7), ratio.likely, ratio.high * 1.2);
        because += "; a virtual machine's nodes need not be the machine's";
    }
    Law::of(ratio, because)
}

fn one_cpu(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    let slower = slower(site, cpu_node, memory_node);
    if cpu_node == memory_node {
        return slower;
    }
    let rate = inverse(1.0, slower.range);
    // Prefetchers have more lines in flight than the core: part of the latency is hidden.
    Law::of(range(rate.low * 0.8, rate.likely.max(0.5), rate.high.max(1.05)), slower.because())
        .and("one CPU has the same lines in flight to any node")
}

fn whole_node(site: &Site, cpu_node: usize, memory_node: usize) -> Law {
    let slower = slower(site, cpu_node, memory_node);
    if cpu_node == memory_node {
        return slower;
    }
    let rate = inverse(1.0, slower.range);
    Law::of(range(0.1, (rate.likely * 0.8).max(0.15), rate.high.max(1.2)), slower.because()).and(
        "the link between the nodes and the other node's channels decide, which nothing describes",
    )
}

/// Time of a random load from the memory node, in ns. `None` where known figures add nothing.
pub fn latency(
    site: &Site,
    known: Option<&Known>,
    cpu_node: usize,
    memory_node: usize,
) -> Option<Law> {
    let (local, from) = match known {
        None => {
            let prior = level_latency(site, None, MEMORY).ok()?;
            (prior.range, prior.because())
        }
        Some(known) => {
            let ns = level_ns(known, MEMORY)?;
            // On any CPU of any node, in other pages, and what is left of the ring in caches.
            let from = format!(
                "base hardware: memory.latency found {ns:.1} ns in {MEMORY}; software: none"
            );
            (around(ns, 0.3), from)
        }
    };
    let ratio = slower(site, cpu_node, memory_node);
    let range = product(local, ratio.range);
    let because = format!("{from}; times the node's: {}", ratio.because());
    Some(Law::of(range, because))
}

/// STREAM's mean by one CPU alone, in B/s of the program. `None` where known figures add nothing.
pub fn bandwidth(
    site: &Site,
    known: Option<&Known>,
    cpu_node: usize,
    memory_node: usize,
) -> Option<Prediction> {
    let local = match known {
        None => stream_mean(site, None, REGULAR, FOUR_TIMES, &Value::from(1)),
        Some(known) => Ok(measured(known, &Value::from(1), 1.0, 0.35)?),
    };
    let ratio = one_cpu(site, cpu_node, memory_node);
    times(local, ratio)
}

/// As [`bandwidth`], by `team` CPUs of the node together.
pub fn node_bandwidth(
    site: &Site,
    known: Option<&Known>,
    cpu_node: usize,
    memory_node: usize,
    team: usize,
) -> Option<Prediction> {
    let local = match known {
        None => {
            let threads = Value::from(team.max(1) as u64);
            stream_mean(site, None, REGULAR, FOUR_TIMES, &threads)
                .map(|whole| part_of_socket(site, whole))
        }
        Some(known) => {
            let nodes = &site.host.numa.nodes;
            let with_cpus = nodes.iter().filter(|node| !node.memory_only).count();
            let part = 1.0 / with_cpus.max(1) as f64;
            Ok(measured(known, &Value::from("all"), part, 0.6)?)
        }
    };
    let ratio = whole_node(site, cpu_node, memory_node);
    times(local, ratio)
}

/// Where a socket's memory is several nodes, its channels are spread over them.
fn part_of_socket(site: &Site, whole: Law) -> Law {
    let nodes = &site.host.numa.nodes;
    let with_cpus = nodes.iter().filter(|node| !node.memory_only).count() as f64;
    let each = with_cpus / site.host.cpu.packages().unwrap_or(1).max(1) as f64;
    if each <= 1.0 {
        return whole;
    }
    let Range { low, likely, high } = whole.range;
    Law::of(range(low / each, likely * (1.0 + 1.0 / each) / 2.0, high), whole.because())
        .and("a socket's channels are spread over its nodes")
}

/// The mean of the four kernels that memory.bandwidth measured in main memory, or at four times the
/// last cache; a part of it.
fn measured(known: &Known, threads: &Value, part: f64, share: f64) -> Option<Law> {
    [MEMORY, FOUR_TIMES].into_iter().find_map(|level| {
        let rates: Option<Vec<f64>> = STREAM_OPS
            .iter()
            .map(|op| {
                let case = Transfer::widest(op, REGULAR).case(level, threads);
                known.get("memory.bandwidth", &case, "bandwidth")
            })
            .collect();
        let rates = rates?;
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let because = format!(
            "base hardware: memory.bandwidth found {} with threads={threads}, of which {part:.2}; \
             software: none",
            render(mean, Unit::BPerS)
        );
        Some(Law::of(around(mean * part, share), because))
    })
}

fn times(local: Result<Law, String>, ratio: Law) -> Option<Prediction> {
    Some(match local {
        Ok(local) => {
            let range = product(local.range, ratio.range);
            let because = format!("{}; times the node's: {}", local.because(), ratio.because());
            Law::of(range, because).prediction()
        }
        Err(reason) => unknown(reason),
    })
}

fn is_memory_only(site: &Site, id: usize) -> bool {
    let mut nodes = site.host.numa.nodes.iter();
    nodes.any(|node| node.id == id && node.memory_only)
}

#[cfg(test)]
mod tests {
    use super::{bandwidth, bandwidth_ratio, distance, latency, latency_ratio, node_bandwidth};
    use crate::memory::bandwidth::Transfer;
    use bench::experiment::Known;
    use bench::experiment::fixtures::recorded;
    use record::key::{CaseId, Key, Value};

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
        assert!(latency_ratio(&site, 0, 1).because().contains("no distance"));
        let local = latency_ratio(&site, 0, 0).range;
        assert_eq!((local.low, local.high), (1.0, 1.0));
    }

    #[test]
    fn earlier_figures_take_the_place_of_laws() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        assert!(latency(&site, Some(&known), 0, 1).is_none());
        assert!(bandwidth(&site, Some(&known), 0, 1).is_none());
        let level = CaseId::new().with("level", "DRAM");
        known.insert(Key::new("memory.latency", &level, "level_latency"), 100.0);
        let range = latency(&site, Some(&known), 0, 0).expect("known").range;
        assert!((range.likely - 100.0).abs() < 1e-9, "{range:?}");
        for (op, rate) in [("copy", 8e9), ("scale", 9e9), ("add", 11e9), ("triad", 12e9)] {
            for (threads, factor) in [(Value::from(1), 1.0), (Value::from("all"), 20.0)] {
                let case = Transfer::widest(op, "regular").case("DRAM", &threads);
                known.insert(Key::new("memory.bandwidth", &case, "bandwidth"), rate * factor);
            }
        }
        let of = |prediction: record::event::Prediction| prediction.range.expect("a range").likely;
        let one = of(bandwidth(&site, Some(&known), 0, 0).expect("known"));
        assert!((one / 10e9 - 1.0).abs() < 1e-9, "{one}");
        let all = of(node_bandwidth(&site, Some(&known), 1, 1, 64).expect("known"));
        assert!((all / 100e9 - 1.0).abs() < 1e-9, "half of the machine's: {all}");
    }
}
