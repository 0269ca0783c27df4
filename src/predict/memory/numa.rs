//! Laws of memory nodes: what a node's CPUs get of another node's memory, from the firmware's
//! distances and the local figures.
//!
//! Distances (ACPI's SLIT, 10 for local) are the firmware's word on latency, and firmware writers
//! differ: two sockets are 20, 21 or 32 apart where both answer in 1.6 to 2 times the local time, and
//! halves of a chip 11 or 12 where they differ by 5 to 25 %. So the law takes a part of what the
//! distance adds. A lone CPU has so many lines in flight, whose number does not depend on the node,
//! so its rate falls as the latency rises; of a whole node's CPUs the link between the nodes decides,
//! which nothing describes.

use super::{MEMORY, level_latency};
use crate::experiment::{Known, Site, unknown};
use crate::predict::cpu::is_guest;
use crate::predict::{Estimate, around, inverse, product, range};
use record::event::{Prediction, Range};
use record::key::CaseId;

/// Firmware's word that it cannot tell, or that there is no way.
const UNREACHABLE: u32 = 255;
/// Part of what the distance adds that the latency really rises by.
const ADDED: Range = Range {
    low: 0.25,
    likely: 0.65,
    high: 1.3,
};
/// Where no distance is told.
const UNTOLD: Range = Range {
    low: 1.0,
    likely: 1.6,
    high: 3.5,
};

/// The firmware's distance of a node's memory from another node's CPUs; 10 is local.
pub(crate) fn distance(site: &Site, cpu_node: usize, memory_node: usize) -> Option<u32> {
    let nodes = &site.host.numa.nodes;
    let column = nodes.iter().position(|node| node.id == memory_node)?;
    let row = nodes.iter().find(|node| node.id == cpu_node)?;
    let told = row.distances.get(column).copied();
    told.filter(|distance| (1..UNREACHABLE).contains(distance))
}

/// Latency over that of the local memory.
pub(crate) fn latency_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Estimate {
    if cpu_node == memory_node {
        return Estimate::new(1.0, 1.0, 1.0, "local memory");
    }
    let far = distance(site, cpu_node, memory_node);
    let near = distance(site, cpu_node, cpu_node);
    let (mut ratio, mut because) = match far.zip(near) {
        Some((far, near)) => {
            let added = (f64::from(far) / f64::from(near) - 1.0).max(0.0);
            let told = range(
                1.0 + ADDED.low * added,
                1.0 + ADDED.likely * added,
                1.0 + ADDED.high * added + 0.1,
            );
            let because = format!(
                "the firmware's distance is {far} against {near} for local memory, of which {} to \
                 {} of what it adds is usual",
                ADDED.low, ADDED.high
            );
            (told, because)
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
    Estimate {
        range: ratio,
        because: format!("base hardware: {because}; software: none"),
    }
}

/// Rate of one CPU over that from its local memory.
pub(crate) fn bandwidth_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Estimate {
    let slower = latency_ratio(site, cpu_node, memory_node);
    if cpu_node == memory_node {
        return slower;
    }
    let rate = inverse(1.0, slower.range);
    // Prefetchers have more lines in flight than the core: part of the latency is hidden.
    Estimate {
        range: range(rate.low * 0.8, rate.likely.max(0.5), rate.high.max(1.05)),
        because: slower.because,
    }
    .and("one CPU has the same lines in flight to any node")
}

/// Rate of all of a node's CPUs over that from their local memory.
pub(crate) fn node_bandwidth_ratio(site: &Site, cpu_node: usize, memory_node: usize) -> Estimate {
    let slower = latency_ratio(site, cpu_node, memory_node);
    if cpu_node == memory_node {
        return slower;
    }
    let rate = inverse(1.0, slower.range);
    Estimate {
        range: range(0.1, (rate.likely * 0.8).max(0.15), rate.high.max(1.2)),
        because: slower.because,
    }
    .and("the link between the nodes and the other node's channels decide, which nothing describes")
}

/// Time of a random load from the memory node, in ns. `None` where known figures add nothing.
pub(crate) fn latency(
    site: &Site,
    known: Option<&Known>,
    cpu_node: usize,
    memory_node: usize,
) -> Option<Estimate> {
    let (local, from) = match known {
        None => {
            let prior = level_latency(site, None, MEMORY).ok()?;
            (prior.range, prior.because)
        }
        Some(known) => {
            let level = CaseId::new().with("level", MEMORY);
            let ns = known.get("memory.latency", &level, "level_latency")?;
            // On any CPU of any node, in other pages, and what is left of the ring in caches.
            let from = format!(
                "base hardware: memory.latency found {ns:.1} ns in {MEMORY}; software: none"
            );
            (around(ns, 0.3), from)
        }
    };
    let ratio = latency_ratio(site, cpu_node, memory_node);
    let range = product(local, ratio.range);
    let because = format!("{from}; times {}", ratio.because);
    Some(Estimate { range, because })
}

/// STREAM's mean by one CPU alone, in B/s of the program. `None` where known figures add nothing.
pub(crate) fn bandwidth(
    site: &Site,
    known: Option<&Known>,
    cpu_node: usize,
    memory_node: usize,
) -> Option<Prediction> {
    let ratio = bandwidth_ratio(site, cpu_node, memory_node);
    times(stream_mean(site, known, 1), ratio, known)
}

/// As [`bandwidth`], by `team` CPUs of the node together.
pub(crate) fn node_bandwidth(
    site: &Site,
    known: Option<&Known>,
    cpu_node: usize,
    memory_node: usize,
    team: usize,
) -> Option<Prediction> {
    let ratio = node_bandwidth_ratio(site, cpu_node, memory_node);
    times(stream_mean(site, known, team), ratio, known)
}

fn times(
    local: Option<Result<Estimate, String>>,
    ratio: Estimate,
    known: Option<&Known>,
) -> Option<Prediction> {
    match local? {
        Ok(local) => {
            let range = product(local.range, ratio.range);
            let because = format!("{}; times {}", local.because, ratio.because);
            Some(Estimate { range, because }.prediction())
        }
        Err(reason) => known.is_none().then(|| unknown(reason)),
    }
}

fn is_memory_only(site: &Site, id: usize) -> bool {
    let mut nodes = site.host.numa.nodes.iter();
    nodes.any(|node| node.id == id && node.memory_only)
}

/// The local figure.
fn stream_mean(
    site: &Site,
    known: Option<&Known>,
    threads: usize,
) -> Option<Result<Estimate, String>> {
    let latency = level_latency(site, None, MEMORY).ok()?.range;
    let lines = inverse(64.0 * 1e9, latency);
    let one = product(range(6.0, 15.0, 50.0), lines);
    let all = range(
        one.low,
        one.likely * threads as f64 / 2.0,
        one.high * threads as f64,
    );
    known.is_none().then(|| {
        Ok(Estimate::new(
            all.low,
            all.likely.max(one.likely),
            all.high,
            "provisional",
        ))
    })
}
