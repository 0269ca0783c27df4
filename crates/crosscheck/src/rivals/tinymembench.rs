//! ssvb/tinymembench: copies and fills of memory by many loops, and random reads over growing
//! blocks. It is in no distribution, takes no arguments, and measures everything in one run of
//! minutes: so it is run once, and neither in quick nor in a rehearsal. Its `MAXREPEATS` and
//! `LATBENCH_COUNT` can be lowered when it is built (`make CFLAGS='-O2 -DMAXREPEATS=3
//! -DLATBENCH_COUNT=1000000'`); its text stays the same.
//!
//! Two things must be known to compare its figures: of a copy it counts each byte once, and a
//! latency is the *extra* time over a read that hits the first cache.

use crate::ours::figure_value;
use crate::read::positive;
use crate::sides::case;
use crate::{Conditions, Goal, KIB, MIB, Ours, Output, Pairing, Rival, Row, Statistic};
use anyhow::{Context, Result};
use bench::experiment::{Preset, Skip};
use host::Arch;
use record::key::CaseId;
use record::run::Run;
use record::unit::Unit;

// Asked for its version it would measure for minutes: the run reports it.
pub static RIVAL: Rival = Rival::new("tinymembench", &["tinymembench"], pairings, parse)
    .about("copies and fills of memory by many loops, random reads over growing blocks");

/// All of it is in the first cache of every core since 2008.
const FIRST: u64 = 16 * KIB;
/// Blocks whose latencies are compared.
const BLOCKS: [(&str, u64); 3] = [("256k", 256 * KIB), ("1m", MIB), ("64m", 64 * MIB)];
/// Both of its buffers together.
const BUFFERS: u64 = 64 * MIB;
/// A whole run takes about five minutes; ten measurements each where they scatter.
const LIMIT_S: u64 = 900;

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    vec![latency(conditions), bandwidth(conditions)]
}

/// A comparison for which one run of minutes is enough.
fn once(
    conditions: &Conditions,
    name: &str,
    experiment: &'static str,
    set: &str,
    rows: Vec<Row>,
) -> Pairing {
    let ours = conditions.ours(experiment, set).within(15);
    let ours = Ours { preset: Preset::Quick, ..ours };
    let theirs = conditions.theirs("tinymembench", &[]).within(LIMIT_S);
    let skip = (!conditions.is_whole()).then(|| {
        Skip::because("it measures everything in one run of minutes and has no option for less")
            .needs("--preset standard")
    });
    Pairing { skip, is_once: true, ..Pairing::new(name, ours, theirs, rows) }
}

const LATENCY: &str = "Both report a load's time less that of a hit in the first cache. \
    tinymembench draws random addresses with repetition, so a cache smaller than the block still \
    serves its share; plumb visits all lines before it returns to the first, so such a cache \
    serves less. tinymembench takes the best of up to ten. Its run is long, so there is one turn \
    and no verdict.";

fn latency(conditions: &Conditions) -> Pairing {
    let rows = BLOCKS.iter().flat_map(|(name, bytes)| {
        ["huge", "base"].map(|pages| Row {
            name: format!("{name}-{pages}"),
            case: walk(pages, *bytes),
            statistic: Statistic::Own("value less that of the first cache", over_first),
            goal: Goal::Explained,
            ..Row::new("latency", Unit::Ns, format!("{pages}:{bytes}"), LATENCY)
        })
    });
    let blocks: Vec<String> = BLOCKS.iter().map(|(_, bytes)| bytes.to_string()).collect();
    let blocks = blocks.join(",");
    let set = format!("pattern=random load=pointer pages=huge,base footprint={FIRST},{blocks}");
    once(conditions, "latency", "memory.latency", &set, rows.collect())
}

fn walk(pages: &str, bytes: u64) -> CaseId {
    case(&format!("pattern=random load=pointer pages={pages} footprint={bytes}"))
}

/// A load's latency less that of a block that lies in the first cache, in ns.
fn over_first(run: &Run, row: &Row) -> Result<f64> {
    let pages = row.case.text("pages").context("a row without pages")?;
    let value = |case: &CaseId| figure_value(run, case, row.metric);
    Ok(value(&row.case)? - value(&walk(pages, FIRST))?)
}

/// What its kernels are called, and what of plumb's is alike: operation, stores, width.
fn kernels(arch: Arch) -> &'static [(&'static str, &'static str, &'static str, &'static str)] {
    match arch {
        Arch::X86_64 => &[
            ("SSE2 copy", "copy", "regular", "sse2"),
            ("SSE2 nontemporal copy", "copy", "nontemporal", "sse2"),
            ("SSE2 fill", "write", "regular", "sse2"),
            ("SSE2 nontemporal fill", "write", "nontemporal", "sse2"),
        ],
        Arch::Aarch64 => &[
            ("NEON LDP/STP copy", "copy", "regular", "neon"),
            ("NEON STP fill", "write", "regular", "neon"),
            ("NEON STNP fill", "write", "nontemporal", "neon"),
        ],
    }
}

const BANDWIDTH: &str = "Both report the best of several passes of one thread over 64 MiB, and a \
    copied byte counts once. tinymembench's buffers are in base pages with staggered starts; its \
    fills cover half as much. plumb's are in huge pages if available, and it takes the fastest \
    vector loop with or without prefetch instructions. tinymembench's run is long, so there is one \
    turn and no verdict.";

fn bandwidth(conditions: &Conditions) -> Pairing {
    let kernels = kernels(conditions.host.cpu.arch);
    let rows = kernels.iter().map(|(name, op, stores, width)| Row {
        name: format!("{op}-{stores}"),
        case: case(&format!(
            "op={op} stores={stores} access=every width={width} level=DRAM threads=1"
        )),
        statistic: Statistic::Best,
        // What is read counts as well in plumb's.
        times: if *op == "copy" { 0.5 } else { 1.0 },
        goal: Goal::Explained,
        ..Row::new("bandwidth", Unit::BPerS, *name, BANDWIDTH)
    });
    let set = format!(
        "op=copy,write stores=regular,nontemporal access=every width={} level=DRAM threads=1 limit={BUFFERS}",
        kernels[0].3
    );
    once(conditions, "bandwidth", "memory.bandwidth", &set, rows.collect())
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let text = &said.stdout;
    if !text.starts_with("tinymembench v0.") {
        return Err("it does not begin with its name and version".to_owned());
    }
    match what.split_once(':') {
        Some((pages, bytes)) => extra_latency(text, pages, bytes),
        None => copied(text, what),
    }
}

/// `NAME : 1234.5 MB/s (0.2%)`, a line each.
fn copied(text: &str, name: &str) -> Result<f64, String> {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(" : "));
    let (_, rest) = lines
        .find(|(found, rest)| found.trim() == name && rest.contains("MB/s"))
        .ok_or_else(|| format!("no line of `{name}`"))?;
    let mb_per_s = rest.trim().split_once(" MB/s").map_or("", |(value, _)| value);
    Ok(positive(mb_per_s)? * 1e6)
}

/// `BYTES : 12.3 ns / 14.5 ns` below the heading of its pages; the first is of single reads.
fn extra_latency(text: &str, pages: &str, bytes: &str) -> Result<f64, String> {
    let heading = match pages {
        "huge" => "[MADV_HUGEPAGE]",
        _ => "[MADV_NOHUGEPAGE]",
    };
    let below = text.lines().skip_while(|line| !line.ends_with(heading)).skip(1);
    let mut rows = below.take_while(|line| !line.trim().is_empty());
    let row =
        rows.find_map(|line| line.split_once(" : ").filter(|(found, _)| found.trim() == bytes));
    let (_, rest) = row.ok_or_else(|| format!("no line of {bytes} bytes below {heading}"))?;
    let single = rest.split_once(" ns").map_or("", |(value, _)| value);
    positive(single)
}

#[cfg(test)]
mod tests;
