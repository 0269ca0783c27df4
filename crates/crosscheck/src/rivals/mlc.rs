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
use crate::read::{after, positive, version_behind};
use crate::sides::{case, case_of};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::Skip;
use host::{Arch, format_cpus};
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("mlc", &["mlc"], pairings, parse)
    .about("Intel Memory Latency Checker: latency idle and under load, bandwidth, cache to cache")
    .version(&["--help"], version)
    // No output of an older one was at hand.
    .oldest("3.5");

/// What is printed, by the names that [`parse`] is asked for.
const IDLE: &str = "Each iteration took";
const READS: &str = "ALL Reads";
const TRIAD: &str = "Stream-triad like";
const LOADED_LATENCY: &str = "Latency at delay 0";
const LOADED_BANDWIDTH: &str = "Bandwidth at delay 0";
const HITM: &str = "Local Socket L2->L2 HITM latency";

/// `Intel(R) Memory Latency Checker - v3.11b` heads all that it says.
fn version(said: &Output) -> Option<String> {
    let rest = version_behind(said, "Intel(R) Memory Latency Checker")?;
    Some(rest.rsplit_once("- v")?.1.split_whitespace().next()?.to_owned())
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

fn theirs(conditions: &Conditions, args: &[&str], cpus: &[usize]) -> Theirs {
    let seconds = format!("-t{}", conditions.whole_seconds());
    conditions.theirs("mlc", &[args, &[&seconds]].concat()).on(cpus).within(120)
}

const WALK: &str = "How long MLC's random walk stays in a page is not fully documented, so the \
    number of TLB misses in its figure is unknown; plumb's order is uniform over the whole \
    footprint, on base pages. Compare with `pages=huge` if MLC has huge pages.";

fn idle(conditions: &Conditions) -> Pairing {
    let bytes = conditions.rehearsed(FAR_REHEARSED, FAR);
    let footprint = bytes.to_string();
    let set = format!("pattern=random load=pointer pages=base footprint={footprint}");
    // A buffer in KiB.
    let [buffer, on] = [format!("-b{}", bytes >> 10), format!("-c{}", conditions.cpus[0])];
    let row = Row::new("latency", Unit::Ns, IDLE, WALK);
    let args = ["--idle_latency", "-e", "-r", &buffer, &on];
    Pairing::new(
        "idle-latency",
        conditions.ours("memory.latency", &set).within(15),
        theirs(conditions, &args, &conditions.cpus[..1]),
        [Row { case: case(&set), goal: Goal::Explained, ..row }],
    )
}

const PEAK: &str = "By default MLC uses buffers of a fixed size per thread and prints one window \
    of each mix; plumb's arrays are four times the last caches if the limit allows, and its figure \
    here is the mean of its rounds. Both count the bytes that the program loads and stores.";

fn peak(conditions: &Conditions) -> Pairing {
    let moved = |op: &str, stores: &str| {
        format!("op={op} stores={stores} access=every width=vector level=DRAM threads=all")
    };
    let peak = |name: &str, op, stores, what| Row {
        name: name.to_owned(),
        case: case(&moved(op, stores)),
        statistic: Statistic::MeanOfRounds,
        goal: Goal::AtLeast,
        ..Row::new("bandwidth", Unit::BPerS, what, PEAK)
    };
    let cpus = &conditions.cpus;
    let on = format!("-k{}", format_cpus(cpus));
    let set = moved("read,triad", "regular,nontemporal");
    Pairing::new(
        "peak-bandwidth",
        conditions.ours("memory.bandwidth", &set).on(cpus).within(15),
        theirs(conditions, &["--peak_injection_bandwidth", "-e", &on], cpus),
        [peak("reads", "read", "regular", READS), peak("triad", "triad", "nontemporal", TRIAD)],
    )
}

const LOADED: &str = "The latency depends on the bandwidth that the load threads use, and there \
    the two differ: their loops and buffer sizes are not the same. Compare at equal bandwidth \
    only.";

fn loaded(conditions: &Conditions) -> Pairing {
    let cpus = &conditions.cpus;
    let set = "op=read stores=regular load=100 sibling=in";
    let chaser = format!("-c{}", cpus[0]);
    let others = format!("-k{}", format_cpus(&cpus[1..]));
    let row = |metric: &'static str, unit, what| Row {
        name: metric.to_owned(),
        case: case_of(set, 3),
        goal: Goal::Explained,
        ..Row::new(metric, unit, what, LOADED)
    };
    Pairing::new(
        "loaded-latency",
        conditions.ours("memory.loaded", set).on(cpus).within(15),
        theirs(conditions, &["--loaded_latency", "-e", "-r", "-d0", &chaser, &others], cpus),
        [row("latency", Unit::Ns, LOADED_LATENCY), row("bandwidth", Unit::BPerS, LOADED_BANDWIDTH)],
    )
    .unless(conditions.alone("a loaded measurement needs two CPUs"))
}

const HANDED: &str = "MLC reads lines, one load after another, that another core (chosen by MLC) \
    has modified and left in its second cache: one way, without contention. plumb's transfer is \
    half a round trip of compare and swap on one line, where each side also waits for the other.";

fn hand_over(conditions: &Conditions) -> Pairing {
    let (ours, row) = conditions.hand_over(&conditions.pair(), HITM, HANDED);
    // It chooses its own CPUs.
    let theirs = theirs(conditions, &["--c2c_latency", "-e"], &conditions.cpus);
    let row = Row { goal: Goal::Explained, ..row };
    let skip = conditions.nobody_to_hand_to();
    Pairing::new("cache-to-cache", ours.within(15), theirs, [row]).unless(skip)
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let text = &said.stdout;
    match what {
        // `Each iteration took 186.5 base frequency clocks ( 89.0 ns)`, `core clocks` in v3.5.
        IDLE => {
            let line = after(text, IDLE)?;
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
            let line = after(text, what)?;
            Ok(positive(line.trim_start_matches([' ', ':', '\t']))? * 1e6)
        }
        LOADED_LATENCY => Ok(loaded_row(text)?[0]),
        LOADED_BANDWIDTH => Ok(loaded_row(text)?[1] * 1e6),
        HITM => positive(after(text, HITM)?),
        other => Err(format!("MLC says nothing of {other}")),
    }
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

#[cfg(test)]
mod tests;
