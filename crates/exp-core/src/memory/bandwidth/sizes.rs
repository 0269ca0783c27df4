//! How large arrays are: from the levels that `memory.latency` measured, else from described ones.

use super::super::levels::{TIMES_LAST, instances, known_bytes, last_bytes, quiet_part, sharing};
use super::points::Point;
use bench::experiment::{Known, Site, Skip};
use laws::memory::bandwidth::{FOUR_TIMES, cpus_of};
use laws::memory::{LEVELS, described_levels, level_size};
use record::quantity::render;
use record::unit::Unit;

/// Arrays in main memory have at least so much altogether: many small caches lie in front of it.
const LEAST_BYTES: u64 = 16 << 20;
/// Arrays are cut to whole lines of three arrays in strides of eight.
const GRAIN: u64 = 3 * 8 * 64;

/// The arrays of one thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sized {
    /// CPUs, one for each thread.
    pub(super) cpus: Vec<usize>,
    /// Bytes of the arrays of each thread together.
    pub(super) footprint: u64,
    /// Bytes of the level, or of the last cache in front of main memory, that this CPU can fill.
    pub(super) level_bytes: u64,
    /// Where that is from.
    pub(super) from: &'static str,
    /// Of arrays in main memory: all threads' over the last caches'.
    pub(super) times_last: Option<f64>,
}

impl Sized {
    /// Bytes of the arrays of all threads.
    pub(super) fn total_bytes(&self) -> u64 {
        self.footprint.saturating_mul(self.cpus.len() as u64)
    }
}

/// The size of a point's arrays. `limit`: most bytes of one thread's.
///
/// # Errors
/// There is no such level, or its share for a thread is no larger than the level before.
pub(super) fn of(
    site: &Site,
    known: Option<&Known>,
    point: &Point,
    limit: u64,
) -> Result<Sized, Skip> {
    let cpus = cpus_of(site, &point.threads);
    match LEVELS.iter().position(|name| *name == point.level) {
        Some(at) => in_cache(site, known, at, cpus),
        None => in_memory(site, known, point.level, cpus, limit),
    }
}

fn in_cache(
    site: &Site,
    known: Option<&Known>,
    at: usize,
    cpus: Vec<usize>,
) -> Result<Sized, Skip> {
    let name = LEVELS[at];
    let (level_bytes, from) = level_bytes(site, known, name)
        .ok_or_else(|| Skip::because(format!("the machine describes no {name}")))?;
    let share = level_bytes / sharing(site, at, &cpus) as u64;
    let inner = match at.checked_sub(1) {
        None => 0,
        Some(before) => level_bytes_of_inner(site, known, before, &cpus),
    };
    // Away from both edges; most of the level where the one before is not much smaller.
    let footprint = if quiet_part(share) >= 2 * inner { quiet_part(share) } else { share / 8 * 7 };
    if footprint < inner + inner / 2 {
        return Err(Skip::because(format!(
            "the share of {name} of each thread, {}, is hardly more than the cache before it has, {}",
            render(share as f64, Unit::B),
            render(inner as f64, Unit::B)
        )));
    }
    Ok(Sized { footprint: whole(footprint), cpus, level_bytes, from, times_last: None })
}

fn level_bytes_of_inner(site: &Site, known: Option<&Known>, at: usize, cpus: &[usize]) -> u64 {
    level_bytes(site, known, LEVELS[at])
        .map_or(0, |(bytes, _)| bytes / sharing(site, at, cpus) as u64)
}

fn in_memory(
    site: &Site,
    known: Option<&Known>,
    level: &str,
    cpus: Vec<usize>,
    limit: u64,
) -> Result<Sized, Skip> {
    let described = described_levels(site);
    let last = described.last().map(|(name, _)| *name);
    let (level_bytes, from) = match (level, last) {
        (FOUR_TIMES, None) => return Err(Skip::because("the machine describes no last cache")),
        (FOUR_TIMES, Some(name)) => reports_last(site, known, name)?,
        _ => last_bytes(site, known),
    };
    let instances = instances(site, &cpus) as u64;
    let threads = cpus.len() as u64;
    let four = TIMES_LAST * level_bytes * instances;
    let wanted = match level {
        FOUR_TIMES => four / threads,
        // Each thread's arrays are also more than its private caches.
        _ => {
            let private = match described.len() {
                0..=1 => 0,
                levels => level_bytes_of_inner(site, known, levels - 2, &cpus),
            };
            (four.max(LEAST_BYTES) / threads).max(TIMES_LAST * private)
        }
    };
    if level == FOUR_TIMES && wanted > limit {
        return Err(Skip::because(format!(
            "four times the last cache ({} here, {from}) is {} for each thread, more than the limit of {}",
            render((level_bytes * instances) as f64, Unit::B),
            render(wanted as f64, Unit::B),
            render(limit as f64, Unit::B)
        ))
        .needs(format!("--set memory.bandwidth.limit={}MiB", (wanted >> 20) + 1)));
    }
    let most = match level {
        FOUR_TIMES => wanted,
        _ => limit.min(site.memory_bytes / threads),
    };
    let footprint = whole(wanted.min(most)).max(GRAIN);
    Ok(Sized {
        times_last: Some((footprint * threads) as f64 / (level_bytes * instances) as f64),
        cpus,
        footprint,
        level_bytes,
        from,
    })
}

/// Bytes of a level that one core can fill: as `memory.latency` found it, as given, else what its law
/// takes it to be from the description (of a last cache that a virtual machine shares, a part).
fn level_bytes(site: &Site, known: Option<&Known>, name: &str) -> Option<(u64, &'static str)> {
    known_bytes(site, known, name).or_else(|| {
        let described = level_size(site, name).ok()?;
        Some((described.range.likely as u64, "described"))
    })
}

/// The last cache that the reports' case is four times of. How much of one that it shares a virtual
/// machine has, only a measurement tells; before that (`known` is none) it is what a law expects.
fn reports_last(
    site: &Site,
    known: Option<&Known>,
    name: &str,
) -> Result<(u64, &'static str), Skip> {
    let expected = level_bytes(site, known, name);
    let (bytes, from) =
        expected.ok_or_else(|| Skip::because(format!("nothing tells the size of {name}")))?;
    let described = described_levels(site).into_iter();
    let whole = described.rev().find(|(level, _)| *level == name);
    let whole = whole.map_or(bytes, |(_, whole)| whole);
    if from == "described" && known.is_some() && bytes < whole / 10 * 9 {
        return Err(Skip::because(format!(
            "{name} is described as {}, of which a virtual machine has an unknown part, and \
             memory.latency did not find where it ends",
            render(whole as f64, Unit::B)
        ))
        .needs("--set host.cache.l3=…: what one core can fill of it"));
    }
    Ok(match from {
        "measured" => last_bytes(site, known),
        _ => (bytes, from),
    })
}

fn whole(bytes: u64) -> u64 {
    bytes / GRAIN * GRAIN
}
