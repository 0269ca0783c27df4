//! google/multichase: pointer chases through memory, beside load threads too, and a line handed
//! over between CPUs (`multichase`, `multiload`, `pingpong`). It is in no distribution.
//!
//! A chase has a word in each stride of its arena, drawn by a *mixer*; words are visited in random
//! order within groups of pages, the groups in random order. So that both sides walk alike: strides
//! of a line (in a longer one only one of its lines is ever loaded), one group as large as the
//! arena (its default is 256 KiB: then few TLB misses are in the figure) or one page for the walk
//! that goes page by page, the same footprint, the same pages, no flush.

use crate::bandwidth::{FAR, FAR_REHEARSED};
use crate::{Conditions, Goal, KIB, MIB, Ours, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::{Preset, Skip};
use record::key::{CaseId, Value};
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "multichase",
    about: "pointer chases through memory, alone, several at once and beside load; a line handed over",
    package: None,
    programs: &["multichase"],
    // Any unknown option makes it print its usage, and there is no version.
    version_args: &["-h"],
    version: |_| None,
    oldest: None,
    pairings,
    parse,
};

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
    let far = match conditions.preset {
        Preset::Rehearsal => FAR_REHEARSED,
        _ => FAR,
    };
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
            "huge pages are not given on request, and multichase would change the kernel's setting",
        )
        .needs("transparent_hugepage: enabled and defrag at madvise")
    })
}

/// Common arguments: the arena, strides of a line, groups, no flush, one sample of half a second
/// (the one before it is dropped).
fn arena(bytes: u64, group: u64, huge: bool) -> Vec<String> {
    let mut args: Vec<String> = vec![
        "-m".to_owned(),
        bytes.to_string(),
        "-s".to_owned(),
        "64".to_owned(),
        "-T".to_owned(),
        group.to_string(),
        "-F".to_owned(),
        "0".to_owned(),
        // The mean of its samples, not the best.
        "-a".to_owned(),
    ];
    if huge {
        args.push("-H".to_owned());
    }
    args
}

fn samples(conditions: &Conditions) -> [String; 2] {
    let count = (conditions.seconds / 0.5).floor().max(1.0) - 1.0;
    ["-n".to_owned(), count.max(1.0).to_string()]
}

fn chase(conditions: &Conditions, name: &str, walk: Walk, bytes: u64) -> Pairing {
    let huge = walk == Walk::Random { huge: true };
    let (pattern, group) = match walk {
        Walk::Random { .. } => ("random", bytes),
        Walk::PageRandom => ("page-random", 4096),
    };
    let mut args = arena(bytes, group, huge);
    args.extend(samples(conditions));
    let pages = if huge { "huge" } else { "base" };
    let mut set = vec![
        ("pattern", pattern.to_owned()),
        ("load", "pointer".to_owned()),
        ("pages", pages.to_owned()),
        ("footprint", bytes.to_string()),
    ];
    if walk == Walk::PageRandom {
        set.push(("stride", "64".to_owned()));
    }
    Pairing {
        name: name.to_owned(),
        ours: Ours {
            experiment: "memory.latency",
            set,
            cpus: vec![conditions.cpus[0]],
            dir: None,
            budget: Duration::from_secs(10),
            preset: conditions.lengths(),
        },
        theirs: Theirs {
            program: "multichase",
            args,
            cpus: vec![conditions.cpus[0]],
            limit: Duration::from_secs(60),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new()
                .with("pattern", pattern)
                .with("load", "pointer")
                .with("pages", pages)
                .with("footprint", Value::Int(bytes)),
            metric: "latency",
            statistic: Statistic::Value,
            times: 1.0,
            unit: Unit::Ns,
            what: CHASE.to_owned(),
            goal: Goal::Agree,
            difference: "multichase takes the loads of half a second in one mapping, with a locked addition \
                         after each 200 of them and all interruptions; plumb the median of six mappings, loads \
                         alone. On base pages the placement of pages differs from mapping to mapping.",
        }],
        skip: huge.then(|| huge_pages(conditions)).flatten(),
        is_once: false,
    }
}

fn chains(conditions: &Conditions, bytes: u64) -> Pairing {
    let mut args = vec!["-c".to_owned(), format!("parallel{CHAINS}")];
    args.extend(arena(bytes, bytes, true));
    args.extend(samples(conditions));
    Pairing {
        name: format!("chains-{CHAINS}"),
        ours: Ours {
            experiment: "memory.mlp",
            set: vec![
                ("level", "DRAM".to_owned()),
                ("chains", CHAINS.to_string()),
                ("most", bytes.to_string()),
            ],
            cpus: vec![conditions.cpus[0]],
            dir: None,
            budget: Duration::from_secs(10),
            preset: conditions.lengths(),
        },
        theirs: Theirs {
            program: "multichase",
            args,
            cpus: vec![conditions.cpus[0]],
            limit: Duration::from_secs(60),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new().with("level", "DRAM").with("chains", Value::Int(CHAINS)),
            metric: "load_time",
            statistic: Statistic::Value,
            times: 1.0,
            unit: Unit::Ns,
            what: CHASE.to_owned(),
            goal: Goal::Agree,
            difference: "multichase's chains are cycles of their own over the same lines, each through another \
                         word of them, so a line may still be in a cache since another chain was there; plumb's \
                         chains are evenly spaced on one cycle and meet each line once around. The larger \
                         the last cache beside the walk, the more multichase gains by that.",
        }],
        skip: huge_pages(conditions),
        is_once: false,
    }
}

fn loaded(conditions: &Conditions, bytes: u64) -> Pairing {
    // It puts its chase on the first of the CPUs that it may use, in the order of their numbers.
    let mut cpus = conditions.cpus.clone();
    cpus.sort_unstable();
    let mut args: Vec<String> =
        ["-c", "chaseload", "-l", "stream-sum", "-n", "1", "-t"].map(str::to_owned).into();
    args.push(cpus.len().to_string());
    args.extend(arena(bytes, bytes, true));
    let row = |name: &str, metric, what: &str, times: f64, unit, difference| Row {
        name: name.to_owned(),
        case: CaseId::new()
            .with("op", "read")
            .with("stores", "regular")
            .with("load", Value::Int(100)),
        metric,
        statistic: Statistic::Value,
        times,
        unit,
        what: what.to_owned(),
        goal: Goal::Explained,
        difference,
    };
    let memory = bytes.saturating_mul(cpus.len() as u64);
    Pairing {
        name: "loaded".to_owned(),
        ours: Ours {
            experiment: "memory.loaded",
            set: vec![
                ("op", "read".to_owned()),
                ("stores", "regular".to_owned()),
                ("load", "100".to_owned()),
                // multiload loads all CPUs, siblings of the chasing one too.
                ("sibling", "in".to_owned()),
                ("most", bytes.to_string()),
            ],
            cpus: cpus.clone(),
            dir: None,
            budget: Duration::from_secs(15),
            preset: conditions.lengths(),
        },
        theirs: Theirs {
            program: "multiload",
            args,
            limit: Duration::from_secs(90),
            cpus: cpus.clone(),
            ..Theirs::default()
        },
        rows: vec![
            row(
                "latency",
                "latency",
                CHASE_LOADED,
                1.0,
                Unit::Ns,
                "What a chase waits depends on what the others draw from the memory, and there the two differ: \
                 multiload's loaders sum words as the compiler made the loop, plumb's are the fastest \
                 of the processor's vector loads. Compare at equal bandwidth only.",
            ),
            row(
                "bandwidth",
                "bandwidth",
                LOAD,
                1.0,
                Unit::BPerS,
                "multiload's loaders sum words as the compiler made the loop, and its figure is whole passes \
                 over their arrays; plumb's are the fastest of all vector loads, and the \
                 chase's own lines count.",
            ),
        ],
        skip: match () {
            () if cpus.len() < 2 => Some(
                Skip::because("one CPU cannot chase beside load")
                    .needs("a second CPU, named by --cpu"),
            ),
            () if memory > conditions.memory_bytes => Some(
                Skip::because(format!(
                    "{} MiB for each CPU are more memory than there is",
                    bytes / MIB
                ))
                .needs("fewer CPUs by --cpu"),
            ),
            () => huge_pages(conditions),
        },
        is_once: false,
    }
}

fn hand_over(conditions: &Conditions) -> Pairing {
    let mut cpus: Vec<usize> = conditions.cpus.iter().copied().take(2).collect();
    cpus.sort_unstable();
    let [from, to] = [cpus[0], *cpus.last().unwrap_or(&0)];
    Pairing {
        name: "pingpong".to_owned(),
        ours: Ours {
            experiment: "cpu.core_to_core",
            set: vec![("from", from.to_string()), ("to", to.to_string())],
            cpus: cpus.clone(),
            dir: None,
            budget: Duration::from_secs(5),
            preset: conditions.lengths(),
        },
        theirs: Theirs {
            program: "pingpong",
            // Compare and swap, tried again without a pause.
            args: ["-l", "-r", "0"].map(str::to_owned).into(),
            cpus: cpus.clone(),
            limit: Duration::from_secs(30),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new()
                .with("from", Value::Int(from as u64))
                .with("to", Value::Int(to as u64)),
            metric: "transfer",
            statistic: Statistic::Value,
            times: 1.0,
            unit: Unit::Ns,
            what: HAND_OVER.to_owned(),
            goal: Goal::Agree,
            difference: "Both hand one line over by compare and swap without pause and count half a round trip. \
                         multichase's pingpong has one line, looks at a flag between two tries, and prints the best \
                         of five quarters of a second; plumb has lines on eight pages a round, whose \
                         homes differ, and takes the median.",
        }],
        skip: (cpus.len() < 2).then(|| {
            Skip::because("there is one CPU: nobody to hand a line to")
                .needs("a second CPU, named by --cpu")
        }),
        is_once: false,
    }
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

/// multichase prints one number, in ns.
fn lone_number(text: &str) -> Result<f64, String> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => number(word),
        (None, _) => Err("it printed nothing".to_owned()),
        (Some(_), Some(_)) => Err("it printed more than one number".to_owned()),
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
    number(found.ok_or_else(|| format!("no column {name}"))?.1)
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

fn number(word: &str) -> Result<f64, String> {
    let value: f64 = word.parse().map_err(|_| format!("`{word}` is no number"))?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(format!("it printed {value}")),
    }
}

#[cfg(test)]
mod tests;
