//! `lstopo` (hwloc): which caches a CPU has, beside what plumb reads of them and where it measures
//! their ends.

use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic};
use anyhow::{Context, Result};
use bench::experiment::{Preset, Skip};
use host::Host;
use host::cache::{Cache, CacheKind};
use record::key::CaseId;
use record::run::Run;
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("hwloc", &["lstopo-no-graphics"], pairings, parse)
    .about("lstopo of hwloc: caches, their levels and sizes")
    .package("hwloc-nox")
    .version(&["--version"], |said| Some(said.stdout.trim().rsplit_once(' ')?.1.to_owned()))
    // Before, caches were of one type.
    .oldest("2.0");

/// Steps of the ladder in an octave.
const STEPS: u32 = 4;
/// It begins at this share of the first level, and ends at so many times the last one sought.
const BELOW: f64 = 0.25;
const BEYOND: f64 = 4.0;
const LINE_BYTES: u64 = 64;

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let cpu = conditions.cpus[0];
    let levels = data_levels(&conditions.host, cpu);
    let (inner, last) = levels.split_at(levels.len().saturating_sub(1));
    let mut found = vec![described(conditions, &levels)];
    if conditions.preset != Preset::Rehearsal {
        found.push(inner_levels(conditions, inner));
    }
    if conditions.is_whole() {
        found.push(last_level(conditions, &levels, last));
    }
    found
}

/// Level and size in bytes of the caches that hold a CPU's data, from the first on.
fn data_levels(host: &Host, cpu: usize) -> Vec<(u32, u64)> {
    let of = |level| host.cache.data(level, cpu);
    let levels = (1..=4).filter_map(of);
    levels.map(|cache| (cache.level, cache.size_bytes)).collect()
}

/// What the two read: levels and sizes as the machine describes them.
fn described(conditions: &Conditions, levels: &[(u32, u64)]) -> Pairing {
    let row = |name: String, level: u32, read: fn(&Run, &Row) -> Result<f64>| Row {
        statistic: Statistic::Own("as described", read),
        goal: Goal::Agree,
        difference: "both read the kernel's description of the machine; plumb falls back to CPUID",
        ..sized(conditions, name, level)
    };
    let mut rows: Vec<Row> = levels
        .iter()
        .map(|(level, _)| row(format!("L{level}"), *level, |run, row| size_read(run, row, false)))
        .collect();
    let is_it = |cache: &Cache| is_first_instruction(cache, conditions.cpus[0]);
    if conditions.host.cache.levels.iter().any(is_it) {
        rows.push(row("L1i".to_owned(), 1, |run, row| size_read(run, row, true)));
    }
    let skip = levels.is_empty().then(no_description);
    // Any run records what plumb reads of the machine: this one is short.
    pairing(conditions, "described", vec![4096, 8192], 5, rows, skip)
}

/// Where plumb finds the ends of the levels below the last.
fn inner_levels(conditions: &Conditions, inner: &[(u32, u64)]) -> Pairing {
    let difference = "plumb's size is the footprint at which one load in ten goes to the next \
                      level, on a ladder of four steps an octave. A cache without true \
                      least-recently-used replacement, or with physical addresses, misses before \
                      it is full: the result is between six tenths and all of the described size";
    let rows = inner.iter().map(|(level, _)| measured(conditions, *level, difference)).collect();
    let footprints = match inner {
        [] => Vec::new(),
        [(_, first), ..] => ladder(*first, inner[inner.len() - 1].1),
    };
    let skip = inner.is_empty().then(no_description);
    pairing(conditions, "measured", footprints, 30, rows, skip)
}

/// Where plumb finds the end of the last level.
fn last_level(conditions: &Conditions, levels: &[(u32, u64)], last: &[(u32, u64)]) -> Pairing {
    let difference = "plumb's size is the share of the last level that one CPU can use, where one \
                      load in ten goes to memory: other CPUs, remote slices and classes of service \
                      reduce it below the described size";
    let rows = last.iter().map(|(level, _)| measured(conditions, *level, difference)).collect();
    // From the first on: a level is identified by its place among the others.
    let footprints = match (levels, last) {
        ([(_, first), ..], [(_, last)]) => ladder(*first, *last),
        _ => Vec::new(),
    };
    let most = footprints.last().copied().unwrap_or(0);
    let skip = if last.is_empty() {
        Some(no_description())
    } else if conditions.host.kernel.virtualisation.is_guest == Some(true) {
        Some(
            Skip::because(
                "a virtual machine gets an unknown share of the last cache, so the ladder has no \
                 edge near the described size",
            )
            .needs("the machine itself; memory.latency's ladder shows the part"),
        )
    } else if most > conditions.memory_bytes {
        Some(Skip::because("less memory is available than four times the last cache"))
    } else {
        None
    };
    pairing(conditions, "last-level", footprints, 90, rows, skip)
}

fn no_description() -> Skip {
    Skip::because("the machine describes no such caches")
        .needs("sysfs (/sys/devices/system/cpu/cpu0/cache), or CPUID")
}

fn is_first_instruction(cache: &Cache, cpu: usize) -> bool {
    cache.level == 1 && cache.kind == CacheKind::Instruction && cache.serves(cpu)
}

fn sized(conditions: &Conditions, name: String, level: u32) -> Row {
    let what = format!("{name} of CPU {}", conditions.cpus[0]);
    Row {
        name,
        case: CaseId::new().with("level", format!("L{level}")),
        goal: Goal::Explained,
        ..Row::new("level_size", Unit::B, what, "")
    }
}

fn measured(conditions: &Conditions, level: u32, difference: &'static str) -> Row {
    Row { difference, ..sized(conditions, format!("L{level}"), level) }
}

/// The size of a CPU's cache as plumb's run read it.
fn size_read(run: &Run, row: &Row, is_instruction: bool) -> Result<f64> {
    let host = Host::recorded(&run.header.host).context("the run's host")?;
    let cpu = *run.header.cpus.first().context("a run without CPUs")?;
    let name = row.case.text("level").context("a row without a level")?;
    let level: u32 = name.trim_start_matches('L').parse().context("a level")?;
    let cache = match is_instruction {
        true => host.cache.levels.iter().find(|cache| is_first_instruction(cache, cpu)),
        false => host.cache.data(level, cpu),
    };
    let cache = cache.with_context(|| format!("CPU {cpu} has no {name} by its description"))?;
    Ok(cache.size_bytes as f64)
}

/// Footprints in whole lines from below the first size to beyond the last.
fn ladder(first: u64, last: u64) -> Vec<u64> {
    let step = 2_f64.powf(1.0 / f64::from(STEPS));
    let rungs = (last as f64 * BEYOND / (first as f64 * BELOW)).log(step).ceil() as i32;
    let rung = |n: i32| (first as f64 * BELOW * step.powi(n)) as u64 / LINE_BYTES * LINE_BYTES;
    (0..=rungs).map(rung).collect()
}

fn pairing(
    conditions: &Conditions,
    name: &str,
    footprints: Vec<u64>,
    budget_s: u64,
    rows: Vec<Row>,
    skip: Option<Skip>,
) -> Pairing {
    let footprints: Vec<String> = footprints.iter().map(u64::to_string).collect();
    let footprints = footprints.join(",");
    let set = format!("pattern=random load=pointer pages=auto footprint={footprints}");
    let ours = conditions.ours("memory.latency", &set).within(budget_s);
    let theirs = conditions.theirs("lstopo-no-graphics", &["--of", "xml"]).on(&[]).within(30);
    Pairing { skip, is_once: true, ..Pairing::new(name, ours, theirs, rows) }
}

/// `L2 of CPU 3`: the size in bytes of that CPU's cache.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let (level, cpu) = what
        .split_once(" of CPU ")
        .and_then(|(level, cpu)| Some((level, cpu.parse::<usize>().ok()?)))
        .ok_or_else(|| format!("hwloc reports no {what}"))?;
    if !said.stdout.contains("<topology") || !said.stdout.contains("</topology>") {
        return Err("no whole topology in XML".to_owned());
    }
    let kind = format!("{level}Cache");
    let mut sizes = Vec::new();
    for tag in said.stdout.split("<object ").skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        if attribute(tag, "type") != Some(&kind) {
            continue;
        }
        let cpus = attribute(tag, "cpuset").ok_or_else(|| format!("a {kind} without CPUs"))?;
        if !holds(cpus, cpu)? {
            continue;
        }
        let size = attribute(tag, "cache_size").and_then(|size| size.parse().ok());
        sizes.push(size.ok_or_else(|| format!("a {kind} without a size"))?);
    }
    match sizes[..] {
        [size] => Ok(size),
        [] => Err(format!("no {kind} of CPU {cpu}")),
        _ => Err(format!("{} of type {kind} are CPU {cpu}'s", sizes.len())),
    }
}

fn attribute<'tag>(tag: &'tag str, name: &str) -> Option<&'tag str> {
    let mut words = tag.split('"');
    while let (Some(before), Some(value)) = (words.next(), words.next()) {
        if before.trim().strip_suffix('=') == Some(name) {
            return Some(value);
        }
    }
    None
}

/// Whether a CPU is in a set: words of 32 bits in hexadecimal, the highest first.
fn holds(set: &str, cpu: usize) -> Result<bool, String> {
    let words: Vec<&str> = set.split(',').rev().collect();
    let Some(word) = words.get(cpu / 32) else {
        return Ok(false);
    };
    // An empty word stands for zero.
    let digits = word.trim_start_matches("0x");
    let bits = match digits {
        "" => Ok(0),
        digits => u32::from_str_radix(digits, 16),
    };
    let bits = bits.map_err(|_| format!("a set of CPUs called {set}"))?;
    Ok(bits >> (cpu % 32) & 1 == 1)
}

#[cfg(test)]
mod tests;
