//! Laws of loads that do not wait for each other: lines in flight by core design.
//!
//! Every load that misses the first cache holds one of its miss buffers (Intel: line-fill buffers)
//! until its line is there, wherever it comes from; so their number bounds how many misses of loads
//! a core has in flight. Buffers of the second cache (48 and more in cores that have 16 of the
//! first) serve prefetchers too and are not reached by loads alone.

use super::designs::unknown;
use super::measured::walk_ns;
use super::{Level, On, Point, load_latency};
use crate::cpu::{core, is_guest};
use crate::{Facts, Law, around, designs, inverse, range};
use bench::experiment::Site;
use host::Core;
use record::event::{Condition, Range};

/// Sharpness of the knee: with n chains on L lines, (n^-p + L^-p)^(-1/p) are in flight.
const KNEE: f64 = 4.0;

/// A machine's lines in flight, from the first cache's miss buffers of the core design.
pub fn lines_in_flight(site: &Site, level: Level) -> Law {
    of_buffers(site, level, |least, lines| {
        range(least * lines.low, 0.95 * lines.likely, 1.1 * lines.high)
    })
}

/// How many times faster `chains` chains load than one.
pub fn parallelism(site: &Site, level: Level, chains: u64) -> Law {
    let chains = chains as f64;
    of_buffers(site, level, |least, lines| {
        // Few chains are never held up by each other.
        let least = least.max(0.9 - 0.02 * (chains - 1.0));
        range(
            least * knee(chains, lines.low),
            knee(chains, lines.likely),
            1.05 * chains.min(1.1 * lines.high),
        )
    })
}

/// Time per load of `chains` chains over `footprint` bytes in `level`, in ns.
pub fn load_time(facts: Facts, level: Level, footprint: f64, chains: u64) -> Law {
    let faster = parallelism(facts.site, level, chains);
    let alone = one_chain(facts, footprint).and("divided by the loads in flight");
    alone.by(inverse(1.0, faster.range)).with(&faster)
}

/// Latency of a random walk over a footprint: as `memory.latency` measured it nearby, else by its
/// law.
pub fn one_chain(facts: Facts, footprint: f64) -> Law {
    match facts.known.and_then(|known| walk_ns(known, footprint)) {
        // Rounds of a machine differ by pages; other tenants come and go in a guest.
        Some(ns) => {
            let share = if is_guest(facts.site) { 0.25 } else { 0.1 };
            let why = "latency of a single load (measured by memory.latency)";
            Law::hardware(around(ns, share), why)
        }
        None => load_latency(facts, &Point::random(On::Huge, footprint)),
    }
}

fn knee(chains: f64, lines: f64) -> f64 {
    (chains.powf(-KNEE) + lines.powf(-KNEE)).powf(-1.0 / KNEE)
}

/// What follows from the share of the buffers that is reached at least, and from their number.
fn of_buffers(site: &Site, level: Level, interval: impl Fn(f64, Range) -> Range) -> Law {
    let (lines, sure) = buffers(site, core(site));
    let is_nested = is_guest(site) && level.is_memory();
    let (least, why) = match level {
        // A line every two cycles and more from the second cache, whatever waits for it.
        Level::L1 | Level::L2 => (0.3, "the second-level cache gives a line per two cycles"),
        Level::L3 | Level::L4 => (0.5, "loads queue at the shared cache"),
        _ if is_nested => (0.4, "few nested page walks at a time, and other tenants' loads"),
        _ => (0.6, "each load waits longer when more are in flight than a single one"),
    };
    let design = if sure { core(site).name() } else { "any design" };
    let because = format!("{} to {} miss buffers of {design}", lines.low, lines.high);
    Law::hardware(interval(least, lines), because)
        .and(why)
        .unsourced()
        .counting_if(is_nested, Condition::NestedPaging)
}

/// Miss buffers of the first data cache; for an unknown design, an interval over all, marked
/// `false`.
fn buffers(site: &Site, core: Core) -> (Range, bool) {
    let (row, is_known) = designs::row("memory.buffers", core, unknown(site));
    (row.range(0), is_known)
}
