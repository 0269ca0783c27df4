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
use crate::table::{Entry, RATE, Reading, TIME, entry};
use crate::{Conditions, KIB, MIB, Output, Pairing, Rival};
use bench::experiment::Preset::{Rehearsal, Standard};
use bench::experiment::Skip;

pub static RIVAL: Rival = Rival::new("multichase", &["multichase"], pairings, parse)
    .about(
        "pointer chases through memory: single, parallel and under load; hand-over of a cache \
            line",
    )
    // Any unknown option makes it print its usage, and there is no version.
    .version(&["-h"], |_| None);

/// What is printed, by the names that [`parse`] is asked for.
const CHASE: &str = "ns";
const CHASE_LOADED: &str = "ChaseNS";
const LOAD: &str = "LdAvgMibs";
const HAND_OVER: &str = "ns a transfer";

const CHASED: &str = "multichase times the loads of half a second in one mapping, with a locked \
    addition after every 200 loads and with interruptions; plumb takes the median of six mappings, \
    loads only. On base pages the placement of pages differs from mapping to mapping.";

const CHAINED: &str = "multichase's chains are separate cycles over the same lines, each through \
    another word of a line, so a line may still be cached from another chain's visit. plumb's \
    chains are evenly spaced on one cycle and visit each line once per cycle. The larger the last \
    cache relative to the walk, the more multichase gains.";

const LOADED_LATENCY: &str = "The latency depends on the bandwidth that the load threads use, and \
    there the two differ: multiload's threads sum words in a compiled loop, plumb's use the \
    processor's fastest vector loads. Compare at equal bandwidth only.";

const LOADED_BANDWIDTH: &str = "multiload's threads sum words in a compiled loop, and its figure \
    counts whole passes over their arrays; plumb's use the fastest vector loads, and plumb also \
    counts the lines of the chase.";

const HANDED: &str = "Both hand over one line by compare and swap without pause and count half a \
    round trip. multichase's pingpong uses one line, checks a flag between two attempts, and \
    prints the best of five quarters of a second; plumb uses lines on eight pages a round, with \
    different homes, and takes the median.";

/// A chase: so many loads of half a second each, of which the mean is taken, not the best.
const CHASE_OF: Entry = Entry { budget_s: 10, ..entry("multichase", "memory.latency") };

const CHASE_TIME: Reading = TIME.keyed(4).read(CHASE).differs(CHASED);

const TABLE: [Entry; 8] = [
    CHASE_OF.named("memory-huge", Rehearsal).beside(&[CHASE_TIME]).asked(
        "-m {far} -s 64 -T {far} -F 0 -a -H -n {samples}",
        "pattern=random load=pointer pages=huge footprint={far}",
    ),
    // Compare and swap, tried again without a pause.
    Entry { limit_s: 30, ..entry("pingpong", "cpu.core_to_core") }
        .named("pingpong", Rehearsal)
        .asked("-l -r 0", "from={from} to={to}")
        .beside(&[TIME.metric("transfer").keyed(2).read(HAND_OVER).differs(HANDED)]),
    CHASE_OF.named("l1", Standard).beside(&[CHASE_TIME]).asked(
        "-m {l1} -s 64 -T {l1} -F 0 -a -n {samples}",
        "pattern=random load=pointer pages=base footprint={l1}",
    ),
    CHASE_OF.named("l2", Standard).beside(&[CHASE_TIME]).asked(
        "-m {l2} -s 64 -T {l2} -F 0 -a -n {samples}",
        "pattern=random load=pointer pages=base footprint={l2}",
    ),
    CHASE_OF.named("memory-base", Standard).beside(&[CHASE_TIME]).asked(
        "-m {far} -s 64 -T {far} -F 0 -a -n {samples}",
        "pattern=random load=pointer pages=base footprint={far}",
    ),
    // Base pages in random order, all lines of a page in random order before the next.
    CHASE_OF.named("pages", Standard).beside(&[CHASE_TIME]).asked(
        "-m {far} -s 64 -T 4096 -F 0 -a -n {samples}",
        "pattern=page-random load=pointer pages=base footprint={far} stride=64",
    ),
    // A line has eight words, so not more chains can be apart in strides of a line.
    Entry { experiment: "memory.mlp", ..CHASE_OF }
        .named("chains-8", Standard)
        .asked(
            "-c parallel8 -m {far} -s 64 -T {far} -F 0 -a -H -n {samples}",
            "level=DRAM chains=8 most={far}",
        )
        .beside(&[TIME.metric("load_time").keyed(2).read(CHASE).differs(CHAINED)]),
    Entry { limit_s: 90, budget_s: 15, ..entry("multiload", "memory.loaded") }
        .named("loaded", Standard)
        .asked(
            "-c chaseload -l stream-sum -n 1 -t {threads} -m {far} -s 64 -T {far} -F 0 -a -H",
            "op=read stores=regular load=100 sibling=in most={far}",
        )
        .beside(&[
            TIME.named("latency").keyed(3).read(CHASE_LOADED).explained(LOADED_LATENCY),
            RATE.named("bandwidth").keyed(3).read(LOAD).explained(LOADED_BANDWIDTH),
        ]),
];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let far = conditions.rehearsed(FAR_REHEARSED, FAR);
    let cache = |level, otherwise| half_of(conditions, level).unwrap_or(otherwise).to_string();
    // multiload puts its chase on the first of the CPUs that it may use, by their numbers.
    let sorted = |mut cpus: Vec<usize>| {
        cpus.sort_unstable();
        cpus
    };
    let (pair, all) = (sorted(conditions.pair()), sorted(conditions.cpus.clone()));
    let samples = (conditions.seconds / 0.5).floor() - 1.0;
    let places = vec![
        ("far", far.to_string()),
        ("l1", cache(1, 16 * KIB)),
        ("l2", cache(2, 128 * KIB)),
        // The first is dropped.
        ("samples", samples.max(1.0).to_string()),
        ("threads", all.len().to_string()),
        ("from", pair[0].to_string()),
        ("to", pair[pair.len() - 1].to_string()),
    ];
    let pairing = |entry: &Entry| {
        let pairing = entry.pairing(conditions, &places);
        let huge = pairing.theirs.args.iter().any(|arg| arg == "-H");
        let no_huge_pages = huge.then(|| huge_pages(conditions)).flatten();
        match entry.program {
            "pingpong" => pairing.on(&pair).unless(
                conditions.alone("there is one CPU, so no other core can take a line over"),
            ),
            "multiload" => pairing
                .on(&all)
                .unless(conditions.alone("a chase under load needs two CPUs"))
                .unless(too_much(conditions, far))
                .unless(no_huge_pages),
            _ => pairing.unless(no_huge_pages),
        }
    };
    TABLE.iter().filter(|entry| entry.is_offered(conditions)).map(pairing).collect()
}

/// Why there is no room for so many bytes on each CPU.
fn too_much(conditions: &Conditions, bytes: u64) -> Option<Skip> {
    let memory = bytes.saturating_mul(conditions.cpus.len() as u64);
    (memory > conditions.memory_bytes).then(|| {
        let why = format!("{} MiB for each CPU exceed the available memory", bytes / MIB);
        Skip::because(why).needs("fewer CPUs by --cpu")
    })
}

/// Half of a cache, in whole pages: on both sides all of it stays there.
fn half_of(conditions: &Conditions, level: u32) -> Option<u64> {
    let cache = conditions.host.cache.data(level, conditions.cpus[0])?;
    Some(cache.size_bytes / 2 / 4096 * 4096).filter(|bytes| *bytes > 0)
}

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
