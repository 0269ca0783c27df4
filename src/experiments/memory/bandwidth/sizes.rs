//! How large arrays are: from the levels that `memory.latency` measured, else from described ones.

use super::cases::Point;
use crate::experiment::{Known, Site, Skip};
use crate::predict::memory::bandwidth::{FOUR_TIMES, cpus_of};
use crate::predict::memory::{LEVELS, described_levels, level_size};
use record::key::CaseId;
use record::quantity::render;
use record::unit::Unit;

/// What an unknown last cache is taken to have: nearly all have less for one core.
const UNKNOWN_LAST: u64 = 32 << 20;
/// Arrays in main memory have at least so many times the last cache.
const TIMES_LAST: u64 = 4;
/// And at least so much altogether.
const LEAST_MEMORY: u64 = 16 << 20;
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
    // Half of the level, away from both edges; where the level before is not much smaller, most of it.
    let footprint = if share / 2 >= 2 * inner {
        share / 2
    } else {
        share / 8 * 7
    };
    if footprint < inner + inner / 2 {
        return Err(Skip::because(format!(
            "the share of {name} of each thread, {}, is hardly more than the cache before it has, {}",
            render(share as f64, Unit::B),
            render(inner as f64, Unit::B)
        )));
    }
    Ok(Sized {
        footprint: whole(footprint),
        cpus,
        level_bytes,
        from,
        times_last: None,
    })
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
        (_, None) => (UNKNOWN_LAST, "assumed"),
        (_, Some(name)) => measured(known, name)
            .or_else(|| Some((whole_level(site, name)?, "described")))
            .unwrap_or((UNKNOWN_LAST, "assumed")),
    };
    let instances = instances(site, described.len(), &cpus) as u64;
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
            (four.max(LEAST_MEMORY) / threads).max(TIMES_LAST * private)
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

/// Bytes of a level that one core can fill: as `memory.latency` found it, else what its law takes it
/// to be from the description (of a last cache that a virtual machine shares, a part).
fn level_bytes(site: &Site, known: Option<&Known>, name: &str) -> Option<(u64, &'static str)> {
    measured(known, name).or_else(|| {
        let described = level_size(site, name).ok()?;
        Some((described.range.likely as u64, "described"))
    })
}

fn measured(known: Option<&Known>, name: &str) -> Option<(u64, &'static str)> {
    let case = CaseId::new().with("level", name);
    let found = known?.get("memory.latency", &case, "level_size");
    let bytes = found.filter(|bytes| *bytes >= 1024.0)?;
    Some((bytes as u64, "measured"))
}

/// A level as it is described: arrays in main memory must not lie in any part of it.
fn whole_level(site: &Site, name: &str) -> Option<u64> {
    let levels = described_levels(site).into_iter();
    let mut of = levels.filter(|(level, _)| *level == name);
    of.next().map(|(_, bytes)| bytes)
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
    let whole = whole_level(site, name).unwrap_or(bytes);
    if from == "described" && known.is_some() && bytes < whole / 10 * 9 {
        return Err(Skip::because(format!(
            "{name} is described as {}, of which a virtual machine has an unknown part, and \
             memory.latency did not find where it ends",
            render(whole as f64, Unit::B)
        ))
        .needs("level=DRAM, whose arrays are as large as `limit` allows"));
    }
    Ok((bytes, from))
}

/// How many of the CPUs share the fullest instance of a level.
fn sharing(site: &Site, at: usize, cpus: &[usize]) -> usize {
    groups(site, at, cpus).into_iter().max().unwrap_or(1).max(1)
}

/// Instances of the last cache under the CPUs.
fn instances(site: &Site, levels: usize, cpus: &[usize]) -> usize {
    match levels.checked_sub(1) {
        None => 1,
        Some(at) => groups(site, at, cpus).len().max(1),
    }
}

/// How many of the CPUs each instance of a level serves that serves any. A cache that only CPUID
/// describes tells no instances: then the first two levels are taken as private, others as shared.
fn groups(site: &Site, at: usize, cpus: &[usize]) -> Vec<usize> {
    let level = at as u32 + 1;
    let first = cpus.first().copied().unwrap_or(0);
    let Some(cache) = site.host.cache.data(level, first) else {
        return vec![1; cpus.len()];
    };
    if cache.shared_by.is_empty() {
        return if at < 2 {
            vec![1; cpus.len()]
        } else {
            vec![cpus.len()]
        };
    }
    // Cores of other kinds have instances of other geometry.
    let caches = site.host.cache.levels.iter();
    let same = caches.filter(|other| other.level == level && other.kind == cache.kind);
    same.flat_map(|cache| &cache.shared_by)
        .map(|group| group.iter().filter(|cpu| cpus.contains(cpu)).count())
        .filter(|count| *count > 0)
        .collect()
}

fn whole(bytes: u64) -> u64 {
    bytes / GRAIN * GRAIN
}
