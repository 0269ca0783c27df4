//! Intel Memory Latency Checker: idle latency, peak bandwidth, latency under load, cache to cache.
//!
//! **Not run by plumb's authors.** It is a closed binary that must be downloaded by hand. Arguments
//! and formats are written from Intel's page on it (its "Command line arguments" and "How does it
//! work", v2 to v3.11a) and from outputs that users have published of v3.5 (FD.io CSIT's reports),
//! v3.10 and v3.11b; the tests are of text so documented. Whoever has it: `plumb crosscheck mlc`
//! refuses what it cannot read and says what.
//!
//! `-e` leaves the prefetchers' registers alone, which it else writes as root; `-r` walks at
//! random.

use crate::bandwidth::{FAR, FAR_REHEARSED};
use crate::{Conditions, Goal, Ours, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::{Preset, Skip};
use host::{Arch, format_cpus};
use record::key::{CaseId, Value};
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "mlc",
    about: "Intel Memory Latency Checker: latency idle and under load, bandwidth, cache to cache",
    package: None,
    programs: &["mlc"],
    version_args: &["--help"],
    version,
    // No output of an older one was at hand.
    oldest: Some("3.5"),
    pairings,
    parse,
};

/// What is printed, by the names that [`parse`] is asked for.
const IDLE: &str = "Each iteration took";
const READS: &str = "ALL Reads";
const TRIAD: &str = "Stream-triad like";
const LOADED_LATENCY: &str = "Latency at delay 0";
const LOADED_BANDWIDTH: &str = "Bandwidth at delay 0";
const HITM: &str = "Local Socket L2->L2 HITM latency";

/// `Intel(R) Memory Latency Checker - v3.11b` heads all that it says.
fn version(said: &Output) -> Option<String> {
    let mut lines = said.stdout.lines().chain(said.stderr.lines());
    let rest =
        lines.find_map(|line| line.trim().strip_prefix("Intel(R) Memory Latency Checker"))?;
    let version = rest.rsplit_once("- v")?.1.split_whitespace().next()?;
    Some(version.to_owned())
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let mut all = vec![idle(conditions)];
    if conditions.is_whole() {
        all.extend([peak(conditions), loaded(conditions), hand_over(conditions)]);
    }
    if conditions.host.cpu.arch != Arch::X86_64 {
        for pairing in &mut all {
            pairing.skip = Some(Skip::because("Intel MLC is a program for x86-64"));
        }
    }
    all
}

fn theirs(conditions: &Conditions, args: &[&str], cpus: Vec<usize>) -> Theirs {
    let seconds = format!("-t{}", conditions.seconds.ceil().max(1.0));
    let args = args.iter().map(|&arg| arg.to_owned());
    Theirs {
        program: "mlc",
        args: args.chain([seconds]).collect(),
        cpus,
        limit: Duration::from_secs(120),
        ..Theirs::default()
    }
}

fn ours(
    conditions: &Conditions,
    experiment: &'static str,
    set: &[(&'static str, &str)],
    cpus: Vec<usize>,
) -> Ours {
    Ours {
        experiment,
        set: set.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        cpus,
        dir: None,
        budget: Duration::from_secs(15),
        preset: conditions.lengths(),
    }
}

fn row(name: &str, case: CaseId, metric: &'static str, unit: Unit, what: &str) -> Row {
    Row {
        name: name.to_owned(),
        case,
        metric,
        statistic: Statistic::Value,
        times: 1.0,
        unit,
        what: what.to_owned(),
        goal: Goal::Explained,
        difference: "",
    }
}

fn idle(conditions: &Conditions) -> Pairing {
    let bytes = match conditions.preset {
        Preset::Rehearsal => FAR_REHEARSED,
        _ => FAR,
    };
    let cpu = conditions.cpus[0];
    let footprint = bytes.to_string();
    let set = [
        ("pattern", "random"),
        ("load", "pointer"),
        ("pages", "base"),
        ("footprint", footprint.as_str()),
    ];
    // A buffer in KiB.
    let [buffer, on] = [format!("-b{}", bytes >> 10), format!("-c{cpu}")];
    let case = CaseId::new()
        .with("pattern", "random")
        .with("load", "pointer")
        .with("pages", "base")
        .with("footprint", Value::Int(bytes));
    Pairing {
        name: "idle-latency".to_owned(),
        ours: ours(conditions, "memory.latency", &set, vec![cpu]),
        theirs: theirs(conditions, &["--idle_latency", "-e", "-r", &buffer, &on], vec![cpu]),
        rows: vec![Row {
            difference: "How far MLC's random walk goes before it leaves a page is its own and not documented in full, and so \
                         is how many misses of the TLB are in its figure; plumb's order is uniform over all of the footprint, \
                         on base pages. Compare with `pages=huge` where MLC was given huge pages.",
            ..row("", case, "latency", Unit::Ns, IDLE)
        }],
        skip: None,
        is_once: false,
    }
}

fn peak(conditions: &Conditions) -> Pairing {
    let cpus = conditions.cpus.clone();
    let set = [
        ("op", "read,triad"),
        ("stores", "regular,nontemporal"),
        ("access", "every"),
        ("width", "vector"),
        ("level", "DRAM"),
        ("threads", "all"),
    ];
    let on = format!("-k{}", format_cpus(&cpus));
    let case = |op, stores| {
        CaseId::new()
            .with("op", op)
            .with("stores", stores)
            .with("access", "every")
            .with("width", "vector")
            .with("level", "DRAM")
            .with("threads", "all")
    };
    let peak = |name, op, stores, what| Row {
        statistic: Statistic::MeanOfRounds,
        goal: Goal::AtLeast,
        difference: "MLC has, unless told otherwise, buffers of a fixed size for each thread, and prints one window of each mix; \
                     plumb's arrays are four times the last caches where the limit allows, and the mean of its \
                     rounds stands here. Bytes are those that the program names on both sides.",
        ..row(name, case(op, stores), "bandwidth", Unit::BPerS, what)
    };
    Pairing {
        name: "peak-bandwidth".to_owned(),
        ours: ours(conditions, "memory.bandwidth", &set, cpus.clone()),
        theirs: theirs(conditions, &["--peak_injection_bandwidth", "-e", &on], cpus),
        rows: vec![
            peak("reads", "read", "regular", READS),
            peak("triad", "triad", "nontemporal", TRIAD),
        ],
        skip: None,
        is_once: false,
    }
}

fn loaded(conditions: &Conditions) -> Pairing {
    let cpus = conditions.cpus.clone();
    let set = [("op", "read"), ("stores", "regular"), ("load", "100"), ("sibling", "in")];
    let chaser = format!("-c{}", cpus[0]);
    let others = format!("-k{}", format_cpus(&cpus[1..]));
    let case =
        CaseId::new().with("op", "read").with("stores", "regular").with("load", Value::Int(100));
    let at_most = |name, metric, unit, what| Row {
        difference: "What a load waits depends on what the others draw, and there the two differ: MLC's loaders and \
                     plumb's have other loops, and buffers of other sizes. Compare at equal bandwidth only.",
        ..row(name, case.clone(), metric, unit, what)
    };
    Pairing {
        name: "loaded-latency".to_owned(),
        ours: ours(conditions, "memory.loaded", &set, cpus.clone()),
        theirs: theirs(
            conditions,
            &["--loaded_latency", "-e", "-r", "-d0", &chaser, &others],
            cpus.clone(),
        ),
        rows: vec![
            at_most("latency", "latency", Unit::Ns, LOADED_LATENCY),
            at_most("bandwidth", "bandwidth", Unit::BPerS, LOADED_BANDWIDTH),
        ],
        skip: alone(conditions, "one CPU cannot be measured beside load"),
        is_once: false,
    }
}

fn hand_over(conditions: &Conditions) -> Pairing {
    let cpus: Vec<usize> = conditions.cpus.iter().copied().take(2).collect();
    let [from, to] = [cpus[0], *cpus.last().unwrap_or(&0)].map(|cpu| cpu.to_string());
    let case = CaseId::new()
        .with("from", Value::Int(cpus[0] as u64))
        .with("to", Value::Int(*cpus.last().unwrap_or(&0) as u64));
    Pairing {
        name: "cache-to-cache".to_owned(),
        ours: ours(conditions, "cpu.core_to_core", &[("from", &from), ("to", &to)], cpus.clone()),
        // It chooses its own CPUs.
        theirs: theirs(conditions, &["--c2c_latency", "-e"], conditions.cpus.clone()),
        rows: vec![Row {
            difference: "MLC reads lines, one load after another, that another core of its own choice has modified and \
                         left in its second cache: one way, in no race. plumb's transfer is half a round trip of \
                         compare and swap on one line, where each also waits for the other to notice.",
            ..row("", case, "transfer", Unit::Ns, HITM)
        }],
        skip: alone(conditions, "there is one CPU: nobody to hand a line to"),
        is_once: false,
    }
}

fn alone(conditions: &Conditions, reason: &str) -> Option<Skip> {
    (conditions.cpus.len() < 2).then(|| Skip::because(reason).needs("a second CPU, named by --cpu"))
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let text = &said.stdout;
    match what {
        // `Each iteration took 186.5 base frequency clocks ( 89.0 ns)`, `core clocks` in v3.5.
        IDLE => {
            let line = beginning(text, IDLE)?;
            let inside = line.split_once('(').map_or("", |(_, rest)| rest);
            let ns = inside.trim_end().strip_suffix(')').unwrap_or_default();
            positive(ns.trim_end().strip_suffix("ns").unwrap_or_default())
        }
        // `ALL Reads        : 163473.8`, in millions of bytes a second.
        READS | TRIAD => {
            let is_decimal = text.contains("1 MB/sec = 1,000,000 Bytes/sec");
            if !is_decimal {
                return Err("it does not say what its MB/sec are".to_owned());
            }
            let line = beginning(text, what)?;
            Ok(positive(line.trim_start_matches([' ', ':', '\t']))? * 1e6)
        }
        LOADED_LATENCY => Ok(loaded_row(text)?[0]),
        LOADED_BANDWIDTH => Ok(loaded_row(text)?[1] * 1e6),
        HITM => positive(beginning(text, HITM)?),
        other => Err(format!("MLC says nothing of {other}")),
    }
}

/// What is behind the beginning of a line.
fn beginning<'text>(text: &'text str, label: &str) -> Result<&'text str, String> {
    let mut lines = text.lines().map(str::trim_start);
    lines
        .find_map(|line| line.strip_prefix(label))
        .ok_or_else(|| format!("no line begins with `{label}`"))
}

/// ` 00000 261.65  225634.2`: injection delay, latency in ns, millions of bytes a second.
fn loaded_row(text: &str) -> Result<[f64; 2], String> {
    let mut below = text.lines().skip_while(|line| !line.starts_with("====="));
    let mut words = below.nth(1).unwrap_or_default().split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("00000"), Some(latency), Some(bandwidth), None) => {
            Ok([positive(latency)?, positive(bandwidth)?])
        }
        _ => Err("no line of delay 00000 below the rule".to_owned()),
    }
}

fn positive(word: &str) -> Result<f64, String> {
    let value: f64 = word.trim().parse().map_err(|_| format!("`{}` is no number", word.trim()))?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(format!("it printed {value}")),
    }
}

#[cfg(test)]
mod tests;
