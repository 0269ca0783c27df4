//! google/multichase: pointer chases through memory, beside load threads too, and a line handed
//! over between CPUs (`multichase`, `multiload`, `pingpong`). It is in no distribution.
//!
//! A chase has a word in each stride of its arena, drawn by a *mixer*; words are visited in random
//! order within groups of pages, the groups in random order. So that both sides walk alike: strides
//! of a line (in a longer one only one of its lines is ever loaded), one group as large as the
//! arena (its default is 256 KiB: then few TLB misses are in the figure) or one page for the walk
//! that goes page by page, the same footprint, the same pages, no flush.

use crate::bandwidth::{FAR, FAR_REHEARSED};
use crate::read::{lone_number, positive};
use crate::sides::{case, case_of};
use crate::{Conditions, Goal, KIB, MIB, Output, Pairing, Rival, Row, Theirs};
use bench::experiment::Skip;
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("multichase", &["multichase"], pairings, parse)
    .about(
        "pointer chases through memory: single, parallel and under load; hand-over of a cache \
            line",
    )
    // Any unknown option makes it print its usage, and there is no version.
    .version(&["-h"], |_| None);

/// Chains beside each other: a line has eight words, so not more can be apart in strides of a line.
const CHAINS: u64 = 8;
/// What is printed, by the names that [`parse`] is asked for.
const CHASE: &str = "ns";
const CHASE_LOADED: &str = "ChaseNS";
const LOAD: &str = "LdAvgMibs";
const HAND_OVER: &str = "ns a transfer";

/// Order and pages of a chase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Any line after any other.
    Random { huge: bool },
    /// Base pages in random order, all lines of a page in random order before the next.
    PageRandom,
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let far = conditions.rehearsed(FAR_REHEARSED, FAR);
    let far_huge = chase(conditions, "memory-huge", Walk::Random { huge: true }, far);
    let mut all = vec![far_huge, hand_over(conditions)];
    if conditions.is_whole() {
        for (name, level, otherwise) in [("l1", 1, 16 * KIB), ("l2", 2, 128 * KIB)] {
            let bytes = half_of(conditions, level).unwrap_or(otherwise);
            all.push(chase(conditions, name, Walk::Random { huge: false }, bytes));
        }
        all.push(chase(conditions, "memory-base", Walk::Random { huge: false }, far));
        all.push(chase(conditions, "pages", Walk::PageRandom, far));
        all.push(chains(conditions, far));
        all.push(loaded(conditions, far));
    }
    all
}

/// Half of a cache, in whole pages: on both sides all of it stays there.
fn half_of(conditions: &Conditions, level: u32) -> Option<u64> {
    let cache = conditions.host.cache.data(level, conditions.cpus[0])?;
    Some(cache.size_bytes / 2 / 4096 * 4096).filter(|bytes| *bytes > 0)
}

/// plumb's preset where the figures are to mean something.
fn huge_pages(conditions: &Conditions) -> Option<Skip> {
    let thp = &conditions.host.memory.thp;
    let is = |value: &Option<String>, usable: &[&str]| {
        value.as_deref().is_some_and(|value| usable.contains(&value))
    };
    let given = is(&thp.enabled, &["always", "madvise"]);
    // With -H it writes what it wants into the kernel's settings where they are otherwise.
    let at_once = is(&thp.defrag, &["always", "defer+madvise", "madvise"]);
    (!given || !at_once).then(|| {
        Skip::because(
            "the kernel gives no huge pages on request, and multichase would change that setting",
        )
        .needs("transparent_hugepage: enabled and defrag at madvise")
    })
}

/// A program with common arguments: the arena, strides of a line, groups, no flush; of its samples
/// the mean, not the best.
fn arena(
    conditions: &Conditions,
    program: &'static str,
    first: &[&str],
    (bytes, group, huge): (u64, u64, bool),
) -> Theirs {
    let [bytes, group] = [bytes.to_string(), group.to_string()];
    let common = ["-m", &bytes, "-s", "64", "-T", &group, "-F", "0", "-a"];
    let huge: &[&str] = if huge { &["-H"] } else { &[] };
    conditions.theirs(program, &[first, &common, huge].concat())
}

/// The same for half a second each; the first sample is dropped.
fn chased(conditions: &Conditions, first: &[&str], arena_of: (u64, u64, bool)) -> Theirs {
    let mut theirs = arena(conditions, "multichase", first, arena_of);
    let count = (conditions.seconds / 0.5).floor().max(1.0) - 1.0;
    theirs.args.extend(["-n".to_owned(), count.max(1.0).to_string()]);
    theirs
}

const CHASED: &str = "multichase times the loads of half a second in one mapping, with a locked \
    addition after every 200 loads and with interruptions; plumb takes the median of six mappings, \
    loads only. On base pages the placement of pages differs from mapping to mapping.";

fn chase(conditions: &Conditions, name: &str, walk: Walk, bytes: u64) -> Pairing {
    let huge = walk == Walk::Random { huge: true };
    let (pattern, group) = match walk {
        Walk::Random { .. } => ("random", bytes),
        Walk::PageRandom => ("page-random", 4096),
    };
    let pages = if huge { "huge" } else { "base" };
    let mut set = format!("pattern={pattern} load=pointer pages={pages} footprint={bytes}");
    let row = Row { case: case(&set), ..Row::new("latency", Unit::Ns, CHASE, CHASED) };
    if walk == Walk::PageRandom {
        set += " stride=64";
    }
    let ours = conditions.ours("memory.latency", &set).within(10);
    let pairing = Pairing::new(name, ours, chased(conditions, &[], (bytes, group, huge)), [row]);
    pairing.unless(huge.then(|| huge_pages(conditions)).flatten())
}

const CHAINED: &str = "multichase's chains are separate cycles over the same lines, each through \
    another word of a line, so a line may still be cached from another chain's visit. plumb's \
    chains are evenly spaced on one cycle and visit each line once per cycle. The larger the last \
    cache relative to the walk, the more multichase gains.";

fn chains(conditions: &Conditions, bytes: u64) -> Pairing {
    let [chains, most] = [CHAINS.to_string(), bytes.to_string()];
    let set = format!("level=DRAM chains={chains} most={most}");
    let row = Row { case: case_of(&set, 2), ..Row::new("load_time", Unit::Ns, CHASE, CHAINED) };
    let ours = conditions.ours("memory.mlp", &set).within(10);
    let parallel = format!("parallel{CHAINS}");
    let theirs = chased(conditions, &["-c", &parallel], (bytes, bytes, true));
    let pairing = Pairing::new(format!("chains-{CHAINS}"), ours, theirs, [row]);
    pairing.unless(huge_pages(conditions))
}

const LOADED_LATENCY: &str = "The latency depends on the bandwidth that the load threads use, and \
    there the two differ: multiload's threads sum words in a compiled loop, plumb's use the \
    processor's fastest vector loads. Compare at equal bandwidth only.";
const LOADED_BANDWIDTH: &str = "multiload's threads sum words in a compiled loop, and its figure \
    counts whole passes over their arrays; plumb's use the fastest vector loads, and plumb also \
    counts the lines of the chase.";

fn loaded(conditions: &Conditions, bytes: u64) -> Pairing {
    // It puts its chase on the first of the CPUs that it may use, in the order of their numbers.
    let mut cpus = conditions.cpus.clone();
    cpus.sort_unstable();
    let [count, most] = [cpus.len().to_string(), bytes.to_string()];
    let set = format!("op=read stores=regular load=100 sibling=in most={most}");
    let row = |metric: &'static str, unit, what, difference| Row {
        name: metric.to_owned(),
        case: case_of(&set, 3),
        goal: Goal::Explained,
        ..Row::new(metric, unit, what, difference)
    };
    let memory = bytes.saturating_mul(cpus.len() as u64);
    let too_much = || {
        let why = format!("{} MiB for each CPU exceed the available memory", bytes / MIB);
        let skip = Skip::because(why).needs("fewer CPUs by --cpu");
        (memory > conditions.memory_bytes).then_some(skip)
    };
    let skip = conditions.alone("a chase under load needs two CPUs");
    let first = ["-c", "chaseload", "-l", "stream-sum", "-n", "1", "-t", &count];
    let theirs = arena(conditions, "multiload", &first, (bytes, bytes, true));
    Pairing::new(
        "loaded",
        conditions.ours("memory.loaded", &set).on(&cpus).within(15),
        theirs.on(&cpus).within(90),
        [
            row("latency", Unit::Ns, CHASE_LOADED, LOADED_LATENCY),
            row("bandwidth", Unit::BPerS, LOAD, LOADED_BANDWIDTH),
        ],
    )
    .unless(skip.or_else(too_much).or_else(|| huge_pages(conditions)))
}

const HANDED: &str = "Both hand over one line by compare and swap without pause and count half a \
    round trip. multichase's pingpong uses one line, checks a flag between two attempts, and \
    prints the best of five quarters of a second; plumb uses lines on eight pages a round, with \
    different homes, and takes the median.";

fn hand_over(conditions: &Conditions) -> Pairing {
    let mut cpus = conditions.pair();
    cpus.sort_unstable();
    let (ours, row) = conditions.hand_over(&cpus, HAND_OVER, HANDED);
    // Compare and swap, tried again without a pause.
    let theirs = conditions.theirs("pingpong", &["-l", "-r", "0"]).on(&cpus).within(30);
    Pairing::new("pingpong", ours, theirs, [row]).unless(conditions.nobody_to_hand_to())
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    match what {
        CHASE => lone_number(&said.stdout),
        CHASE_LOADED => column(&said.stdout, CHASE_LOADED),
        LOAD => Ok(column(&said.stdout, LOAD)? * MIB as f64),
        HAND_OVER => cell(&said.stdout),
        other => Err(format!("multichase says nothing of {other}")),
    }
}

/// multiload prints a line of names and a line of values, separated by commas.
fn column(text: &str, name: &str) -> Result<f64, String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Samples"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return Err("no line of names and one of values".to_owned());
    };
    let names = names.split(',').map(str::trim);
    let values = values.split(',').map(str::trim);
    let found = names.zip(values).find(|(found, _)| *found == name);
    positive(found.ok_or_else(|| format!("no column {name}"))?.1)
}

/// pingpong prints a row for each CPU but the last, with a cell for each one after it: of two CPUs
/// one.
fn cell(text: &str) -> Result<f64, String> {
    if !text.starts_with("avg latency to communicate a modified line") {
        return Err("it does not say what it measures".to_owned());
    }
    let mut rows = text.lines().filter_map(|line| line.split_once(':'));
    match (rows.next(), rows.next()) {
        (Some((_, cells)), None) => lone_number(cells),
        _ => Err("not one row for two CPUs".to_owned()),
    }
}

#[cfg(test)]
mod tests;
