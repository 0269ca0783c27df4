//! sysbench: its measurements of processor, memory and files, whose figures are often quoted.
//!
//! An event of `cpu` looks for primes below a limit by trial division in 64 bits: so many events a
//! second say little, but [`divisions`] counts what an event does, and a time per division stands
//! beside plumb's. `memory` walks over one block by machine words, each block an event that is
//! timed. `fileio` lays out files in its working directory.

use crate::read::{after, positive};
use crate::sides::{case, case_of};
use crate::{Conditions, Goal, MIB, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::Skip;
use record::unit::Unit;
use std::path::Path;

pub static RIVAL: Rival = Rival::new("sysbench", &["sysbench"], pairings, parse)
    .about("trial division, walks over memory, reads of files: events per second")
    .package("sysbench")
    .version(&["--version"], |said| Some(said.stdout.trim().strip_prefix("sysbench ")?.to_owned()))
    // 0.4 takes other arguments and prints other text.
    .oldest("1.0");

/// Primes are looked for below this: an event takes about a millisecond.
const PRIMES_BELOW: u64 = 20_000;
/// What is printed, by the names that [`parse`] is asked for.
const DIVISION: &str = "ns per division";
const TRANSFERRED: &str = "MiB/sec";
const READS: &str = "reads/s";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let mut all = vec![cpu(conditions), memory(conditions, "read", MIB)];
    if conditions.is_whole() {
        all.push(memory(conditions, "read", 1024));
        all.push(memory(conditions, "write", MIB));
    }
    all.push(fileio(conditions));
    all
}

fn theirs(conditions: &Conditions, args: &[&str]) -> Theirs {
    let time = format!("--time={}", conditions.whole_seconds());
    let common = ["--threads=1", "--events=0", &time, "run"];
    conditions.theirs("sysbench", &[args, &common].concat()).within(30)
}

/// A row of what is printed, beside the mean of plumb's rounds.
fn row(metric: &'static str, unit: Unit, what: &str, difference: &'static str) -> Row {
    let (statistic, goal) = (Statistic::MeanOfRounds, Goal::Explained);
    Row { statistic, goal, ..Row::new(metric, unit, what, difference) }
}

const CPU: &str = "A turn of sysbench's loop divides a small number by a smaller one, converts the \
    divisor to floating point and compares it; each number that it tests ends with a mispredicted \
    loop exit. plumb only divides, at full width, so which is slower depends on how the divider \
    treats small numbers.";

fn cpu(conditions: &Conditions) -> Pairing {
    let set = "instruction=div_u64";
    let limit = format!("--cpu-max-prime={PRIMES_BELOW}");
    let row = row("reciprocal_throughput", Unit::Ns, DIVISION, CPU);
    let theirs = theirs(conditions, &["cpu", &limit]);
    let rows = [Row { case: case(set), ..row }];
    Pairing::new("cpu", conditions.ours("cpu.instruction", set), theirs, rows)
}

/// The cache that a block of this size lies in, by its description; main memory where none is so
/// large.
fn level(conditions: &Conditions, bytes: u64) -> &'static str {
    let holds = |level: u32| {
        let cache = conditions.host.cache.data(level, conditions.cpus[0]);
        cache.is_some_and(|cache| bytes <= cache.size_bytes / 2)
    };
    match (holds(1), holds(2), holds(3)) {
        (true, _, _) => "L1",
        (_, true, _) => "L2",
        (_, _, true) => "L3",
        _ => "DRAM",
    }
}

const MEMORY_1K: &str = "sysbench's default block is 1 KiB: reading its words takes a few dozen \
    ns, less than the clock reads and counting of an event. Since 1.1 it also reads one word less \
    than it counts. plumb times windows of milliseconds.";
const MEMORY_1M: &str = "sysbench reads words of 8 bytes in a compiled loop and times each block \
    as an event; plumb's loop is unrolled assembly. Both stay in a cache, so neither figure is \
    main memory bandwidth, although sysbench's is often quoted as such.";

fn memory(conditions: &Conditions, op: &'static str, block: u64) -> Pairing {
    let (size, difference) = match block {
        1024 => ("1K", MEMORY_1K),
        _ => ("1M", MEMORY_1M),
    };
    let level = level(conditions, block);
    let set = format!("op={op} stores=regular access=every width=8 level={level} threads=1");
    let args = [
        "memory",
        &format!("--memory-block-size={size}"),
        &format!("--memory-oper={op}"),
        // The shared buffer is the default; with one thread they differ in nothing but whose page
        // it is.
        "--memory-scope=local",
        // Time ends it.
        "--memory-total-size=1000T",
    ];
    let row = row("bandwidth", Unit::BPerS, TRANSFERRED, difference);
    Pairing::new(
        format!("memory-{op}-{}", size.to_lowercase()),
        conditions.ours("memory.bandwidth", &set),
        theirs(conditions, &args),
        [Row { case: case(&set), ..row }],
    )
}

const FILEIO: &str = "sysbench picks blocks with replacement, reads a file of zeros and validates \
    nothing, for one second. plumb reads each block at most once in a round, from incompressible \
    data, in windows of 225 ms. A device that compresses or caches favours sysbench.";

fn fileio(conditions: &Conditions) -> Pairing {
    let bytes = match conditions.is_whole() {
        true => 64 * MIB,
        false => 16 * MIB,
    };
    let size = format!("--file-total-size={bytes}");
    // It has no option for the directory.
    let dir = conditions.files.as_deref().unwrap_or(Path::new("."));
    let change = format!("--chdir={}", dir.display());
    let args = [
        &change,
        "sysbench",
        "fileio",
        &size,
        "--file-num=1",
        "--file-block-size=4096",
        "--file-test-mode=rndrd",
        "--file-io-mode=sync",
        "--file-extra-flags=direct",
        "--file-fsync-freq=0",
        // Else a few places of the file are read most of the time.
        "--rand-type=uniform",
    ];
    let prepare = ["env", &change, "sysbench", "fileio", &size, "--file-num=1", "prepare"];
    let size = bytes.to_string();
    let set = format!(
        "op=read pattern=random mode=direct block=4096 engine=psync depth=1 threads=1 size={size} window=225ms"
    );
    let theirs = Theirs {
        program: "env",
        behind: vec!["sysbench"],
        prepare: vec![prepare.map(str::to_owned).to_vec()],
        ..theirs(conditions, &args)
    };
    let row = row("burst_iops", Unit::OpPerS, READS, FILEIO);
    let ours = conditions.ours_in_files("fs.io", &set).within(8);
    let skip = conditions.files.is_none().then(|| {
        Skip::because("there is no directory for files").needs("--dir with one that can be written")
    });
    Pairing::new("fileio-rndrd", ours, theirs, [Row { case: case_of(&set, 7), ..row }]).unless(skip)
}

/// Divisions of one event of `cpu`, whose loop divides each number from 3 by 2, 3 … as long as the
/// divisor is no larger than its square root, and stops at the first that divides it.
fn divisions(primes_below: u64) -> u64 {
    let of_number = |number: u64| {
        let root = number.isqrt();
        let divisor = (2..=root).find(|divisor| number.is_multiple_of(*divisor));
        // From 2 to the last that was tried.
        divisor.unwrap_or(root.max(1)) - 1
    };
    (3..primes_below).map(of_number).sum()
}

fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let text = &said.stdout;
    match what {
        DIVISION => {
            let limit = after(text, "Prime numbers limit:")?;
            let rate = positive(after(text, "events per second:")?)?;
            let limit: u64 = limit.parse().map_err(|_| format!("no limit of primes: {limit}"))?;
            // Above that counting would take longer than a turn; below that, it has none.
            if !(5..=1_000_000).contains(&limit) {
                return Err(format!("a limit of primes of {limit}"));
            }
            Ok(1e9 / (rate * divisions(limit) as f64))
        }
        TRANSFERRED => {
            let line = text.lines().find(|line| line.contains(" MiB transferred ("));
            let line = line.ok_or("no line says what was transferred")?;
            let inside = line.split_once('(').map_or("", |(_, rest)| rest);
            let rate = inside.trim_end().strip_suffix(" MiB/sec)");
            Ok(positive(rate.ok_or("no MiB/sec")?)? * MIB as f64)
        }
        READS => {
            // Since 1.1 `read:  IOPS=…`, before `reads/s: …`.
            let found = after(text, "reads/s:").or_else(|_| after(text, "read:  IOPS="))?;
            positive(found.split_whitespace().next().unwrap_or_default())
        }
        other => Err(format!("sysbench says nothing of {other}")),
    }
}

#[cfg(test)]
mod tests;
