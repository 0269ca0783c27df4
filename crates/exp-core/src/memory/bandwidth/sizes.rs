//! How large arrays are: from the levels that `memory.latency` measured, else from described ones.

use crate::cpu::peak::load::place_threads;
use crate::memory::levels::{TIMES_LAST, instances, last_bytes, level_bytes, quiet_part, sharing};
use crate::memory::reports;
use crate::too_much;
use bench::prelude::*;
use laws::cpu::peak::chain_latency;
use laws::memory::bandwidth::bytes_per_cycle;
use laws::memory::channels::stated_peak;
use laws::memory::transfer::{Transfer, cpus_of};
use laws::memory::{Level, described_levels};

/// Arrays in main memory have at least so much altogether: many small caches lie in front of it.
const LEAST_BYTES: u64 = 16 << 20;
/// Arrays are cut to whole lines of three arrays in strides of eight.
const GRAIN: u64 = 3 * 8 * 64;
/// Most bytes that all arrays of a round may have, as a case has it.
pub(super) const MEMORY_LIMIT: &str = "memory_limit";

/// The arrays of one thread.
#[derive(Debug)]
pub(super) struct Sized {
    pub(super) cpus: Vec<usize>,
    /// Bytes of the arrays of each thread together.
    pub(super) footprint: u64,
    /// Bytes of the level, or of the last cache in front of main memory, that this CPU can fill,
    /// and where that is from.
    pub(super) level: (u64, &'static str),
    /// The bytes of all threads' arrays in main memory over those of the last caches.
    pub(super) times_last: Option<f64>,
}

impl Sized {
    /// Bytes of the arrays of all threads.
    pub(super) fn total_bytes(&self) -> u64 {
        self.footprint.saturating_mul(self.cpus.len() as u64)
    }

    /// Writes into a case what its symbols come to.
    pub(super) fn write(&self, case: &mut Case, site: &Site, of: &Transfer) {
        place_threads(case, site, self.cpus.len(), &self.cpus);
        let bytes = of.bytes(site) as u64;
        let chain = of.at_width(bytes).and_then(|wide| chain_latency(site, wide, &self.cpus));
        let at = &mut case.at;
        at.put("instruction_bytes", bytes);
        at.put_known("chain_cycles", chain);
        at.put("footprint", self.footprint);
        at.put("footprint_total", self.total_bytes());
        at.put(MEMORY_LIMIT, site.memory_bytes);
        at.put("level_size", self.level.0);
        at.put("level_from", self.level.1);
        at.put_known("times_last_cache", self.times_last.map(|times| render(times, Unit::Ratio)));
        at.put_known("cut", self.times_last.filter(|times| *times < 3.9).map(|_| "yes"));
        if of.level.is_memory() {
            at.put_known("peak", stated_peak(site).map(|(peak, _)| peak as u64));
        } else {
            let per_cycle = bytes_per_cycle(site, of, &self.cpus);
            at.put_known("bytes_per_cycle", per_cycle.map(|bytes| format!("{bytes:.3}")));
        }
    }
}

/// The size of a case's arrays. `limit`: most bytes of one thread's. Errors: there is no such
/// level, its share for a thread is no larger than the level before, or the memory is too small.
pub(super) fn size_of_case(facts: Facts, case: &Transfer, limit: u64) -> Result<Sized, Skip> {
    let cpus = cpus_of(facts.site, case.threads);
    let sized = match case.level.before() {
        Some(at) => in_cache(facts, at, cpus)?,
        None => in_memory(facts, case.level, cpus, limit)?,
    };
    match too_much(facts.site, sized.total_bytes(), "another level") {
        Some(skip) => Err(skip),
        None => Ok(sized),
    }
}

/// A thread's share of a cache.
fn share_of(facts: Facts, at: usize, cpus: &[usize]) -> u64 {
    level_bytes(facts, Level::CACHES[at])
        .map_or(0, |(bytes, _)| bytes / sharing(facts.site, at, cpus) as u64)
}

fn in_cache(facts: Facts, at: usize, cpus: Vec<usize>) -> Result<Sized, Skip> {
    let name = Level::CACHES[at].text();
    let level = level_bytes(facts, Level::CACHES[at])
        .ok_or_else(|| Skip::because(format!("the machine describes no {name}")))?;
    let share = share_of(facts, at, &cpus);
    let inner = at.checked_sub(1).map_or(0, |before| share_of(facts, before, &cpus));
    // Away from both edges; most of the level where the one before is not much smaller.
    let footprint = if quiet_part(share) >= 2 * inner { quiet_part(share) } else { share / 8 * 7 };
    if footprint < inner + inner / 2 {
        let [share, inner] = [share, inner].map(|bytes| render(bytes as f64, Unit::B));
        return Err(Skip::because(format!(
            "each thread's share of {name} ({share}) is hardly larger than the previous cache \
             ({inner})"
        )));
    }
    Ok(Sized { footprint: footprint / GRAIN * GRAIN, cpus, level, times_last: None })
}

fn in_memory(facts: Facts, level: Level, cpus: Vec<usize>, limit: u64) -> Result<Sized, Skip> {
    let (last, threads) = (last_bytes(facts), cpus.len() as u64);
    let (wanted, last) = if level == Level::FourTimes {
        reports::four_times(facts, &cpus, limit)?
    } else {
        let whole = TIMES_LAST * last.0 * instances(facts.site, &cpus) as u64;
        // Each thread's arrays are also more than its private caches.
        let before = described_levels(facts.site).len().checked_sub(2);
        let private = before.map_or(0, |before| share_of(facts, before, &cpus));
        let each = (whole.max(LEAST_BYTES) / threads).max(TIMES_LAST * private);
        (each.min(limit).min(facts.site.memory_bytes / threads), last)
    };
    let caches = last.0 * instances(facts.site, &cpus) as u64;
    let footprint = (wanted / GRAIN * GRAIN).max(GRAIN);
    let times_last = Some((footprint * threads) as f64 / caches as f64);
    Ok(Sized { times_last, cpus, footprint, level: last })
}
