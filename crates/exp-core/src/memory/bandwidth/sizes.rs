//! How large arrays are: from the levels that `memory.latency` measured, else from described ones.

use super::super::levels::{TIMES_LAST, instances, known_bytes, last_bytes, quiet_part, sharing};
use super::{MEMORY_LIMIT, reports};
use crate::cpu::peak::load::tell_designs;
use bench::experiment::{Site, Skip};
use host::format_cpus;
use laws::Facts;
use laws::cpu::peak::{chain_latency, distinct_cores};
use laws::memory::bandwidth::{Transfer, bytes_per_cycle, cpus_of, stated_peak};
use laws::memory::{Level, described_levels, level_size};
use record::case::Case;
use record::key::Value;
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

    /// Writes into a case what its symbols come to.
    pub(super) fn write(&self, case: &mut Case, site: &Site, of: &Transfer) {
        tell_designs(case, site, &self.cpus);
        let at = &mut case.at;
        let mut put = |name: &str, value: Value| at.insert(name.to_owned(), value);
        let bytes = of.bytes(site);
        for (name, value) in [
            ("thread_count", self.cpus.len() as u64),
            ("cores", distinct_cores(site, &self.cpus) as u64),
            ("instruction_bytes", bytes as u64),
            ("footprint", self.footprint),
            ("footprint_total", self.total_bytes()),
            (MEMORY_LIMIT, site.memory_bytes),
            ("level_size", self.level_bytes),
        ] {
            put(name, Value::from(value));
        }
        put("cpus", Value::Text(format_cpus(&self.cpus)));
        put("level_from", Value::from(self.from));
        if let Some(times) = self.times_last {
            put("times_last_cache", Value::Text(render(times, Unit::Ratio)));
            if times < 3.9 {
                put("cut", Value::from("yes"));
            }
        }
        if of.level.is_memory() {
            if let Some((peak, _)) = stated_peak(site) {
                put("peak", Value::from(peak as u64));
            }
        } else if let Some(bytes) = bytes_per_cycle(site, of, &self.cpus) {
            put("bytes_per_cycle", Value::Text(format!("{bytes:.3}")));
        }
        let wide = of.at_width(bytes as u64);
        if let Some(cycles) = wide.and_then(|wide| chain_latency(site, wide, &self.cpus)) {
            put("chain_cycles", Value::from(cycles));
        }
    }
}

/// The size of a case's arrays. `limit`: most bytes of one thread's.
///
/// # Errors
/// There is no such level, or its share for a thread is no larger than the level before.
pub(super) fn of(facts: Facts, case: &Transfer, limit: u64) -> Result<Sized, Skip> {
    let cpus = cpus_of(facts.site, case.threads);
    match case.level.before() {
        Some(at) => in_cache(facts, at, cpus),
        None => in_memory(facts, case.level, cpus, limit),
    }
}

fn in_cache(facts: Facts, at: usize, cpus: Vec<usize>) -> Result<Sized, Skip> {
    let name = Level::CACHES[at].text();
    let (level_bytes, from) = level_bytes(facts, Level::CACHES[at])
        .ok_or_else(|| Skip::because(format!("the machine describes no {name}")))?;
    let share = level_bytes / sharing(facts.site, at, &cpus) as u64;
    let inner = at.checked_sub(1).map_or(0, |before| share_of(facts, before, &cpus));
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

/// A thread's share of a cache.
fn share_of(facts: Facts, at: usize, cpus: &[usize]) -> u64 {
    level_bytes(facts, Level::CACHES[at])
        .map_or(0, |(bytes, _)| bytes / sharing(facts.site, at, cpus) as u64)
}

fn in_memory(facts: Facts, level: Level, cpus: Vec<usize>, limit: u64) -> Result<Sized, Skip> {
    let is_exact = level == Level::FourTimes;
    let (level_bytes, from) = match is_exact {
        true => reports::last_bytes(facts)?,
        false => last_bytes(facts),
    };
    let instances = instances(facts.site, &cpus) as u64;
    let threads = cpus.len() as u64;
    let four = TIMES_LAST * level_bytes * instances;
    // Each thread's arrays are also more than its private caches.
    let before = described_levels(facts.site).len().checked_sub(2);
    let private = before.map_or(0, |before| share_of(facts, before, &cpus));
    let (wanted, most) = match is_exact {
        true if four / threads > limit => {
            return Err(reports::too_large(level_bytes * instances, from, four / threads, limit));
        }
        true => (four / threads, u64::MAX),
        false => (
            (four.max(LEAST_BYTES) / threads).max(TIMES_LAST * private),
            limit.min(facts.site.memory_bytes / threads),
        ),
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

/// Bytes of a cache that one core can fill: as `memory.latency` found it, as given, else what its
/// law takes it to be from the description (of a last cache that a virtual machine shares, a part).
pub(super) fn level_bytes(facts: Facts, level: Level) -> Option<(u64, &'static str)> {
    known_bytes(facts, level).or_else(|| {
        let described = level_size(facts.site, level).ok()?;
        Some((described.range.likely as u64, "described"))
    })
}

fn whole(bytes: u64) -> u64 {
    bytes / GRAIN * GRAIN
}
