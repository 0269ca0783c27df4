//! fio: reads and writes of a file by system calls and rings.
//!
//! Both sides do six rounds of 225 ms (fio: jobs one after another), because a virtual disk's host
//! polls for as long as there is load, and gives more in a window that lasts; each writes no more
//! than the same bytes in a round. All rounds count, disturbed or not: fio leaves none out.

use crate::ours::is_of;
use crate::read::{ZERO, json, version_behind};
use crate::table::{Entry, RATE, Reading, TIME, entry, words};
use crate::{Conditions, Goal, MIB, Output, Pairing, Rival, Row, Statistic};
use anyhow::{Context, Result, ensure};
use bench::experiment::Preset::{self, Rehearsal, Standard, Thorough};
use record::event::Samples;
use record::unit::Unit;
use serde::Deserialize;

pub static RIVAL: Rival = Rival::new("fio", &["fio"], pairings, parse)
    .about("reads and writes of a file by psync, io_uring and libaio")
    .package("fio")
    .version(&["--version"], |said| version_behind(said, "fio-"))
    // The first with registered files for rings.
    .oldest("3.16");

/// Bytes of the file that is read, and of plumb's; of this it writes to a half.
const READ_BYTES: u64 = 32 * MIB;
const WRITE_BYTES: u64 = READ_BYTES / 2;
/// Bytes that a round writes at most, in small blocks and in large ones.
const WRITTEN_4K: u64 = 18 * MIB;
const WRITTEN_1M: u64 = 48 * MIB;
/// Rounds until plumb's first look.
const ROUNDS: usize = 6;
const ROUND_MS: u64 = 225;
const REHEARSED_MS: u64 = 50;
/// What rounding to whole milliseconds takes on average.
const HALF_MS_NS: f64 = 5e5;

/// fio's arguments, with those of an engine before those of the operation (`{op...}`) and the jobs.
///
/// A job of a process begins a session of its own (setsid), and so leaves the group of processes
/// whose priority is plumb's (autogroup): hence `--thread`.
macro_rules! fio {
    ($engine:literal) => {
        concat!(
            "--filename={file} --size={size} --rw={rw} --bs={block} --iodepth={depth} ",
            "--runtime={ms}ms --direct=1 --thread --overwrite=1 --randrepeat=0 ",
            "--output-format=json ",
            $engine,
            " {op...} {jobs...}"
        )
    };
}

const FIO: Entry = Entry { budget_s: 30, ..entry("fio", "fs.io") };

const PSYNC: Entry = FIO
    .named("psync-{pattern}-{do}-{length}", Rehearsal)
    .asked(
        fio!("--ioengine=psync"),
        "op={do} pattern={pattern} mode=direct block={block} engine=psync depth=1 threads=1 \
         size={most} written={written} window={ms}ms",
    )
    .beside(&[OPERATIONS.differs(PSYNC_DIFFERS), CPU.differs(CPU_DIFFERS)]);

const RING_SET: &str = "op={do} pattern={pattern} mode=direct block={block} engine=io_uring \
    depth={depth} threads=1 size={most} written={written} window={ms}ms";

const RING: Entry = FIO
    .named("io-uring-{depth}-{pattern}-{do}-{length}", Rehearsal)
    .asked(fio!("--ioengine=io_uring --registerfiles=1 --fixedbufs=1"), RING_SET)
    .beside(&[OPERATIONS.differs(RING_DIFFERS), CPU.differs(CPU_DIFFERS)]);

/// fio submits and reaps as many as the depth at a time, in place of one.
const BATCHED: Entry = FIO
    .named("io-uring-{depth}-batched-{pattern}-{do}-{length}", Rehearsal)
    .asked(
        fio!(
            "--ioengine=io_uring --registerfiles=1 --fixedbufs=1 --iodepth_batch_submit={depth} \
             --iodepth_batch_complete_min=1 --iodepth_batch_complete_max={depth}"
        ),
        RING_SET,
    )
    .beside(&[OPERATIONS.differs(BATCHED_DIFFERS), CPU.differs(CPU_DIFFERS)]);

const LIBAIO: Entry = FIO
    .named("libaio-{depth}-{pattern}-{do}-{length}", Rehearsal)
    .asked(fio!("--ioengine=libaio"), RING_SET)
    .beside(&[OPERATIONS.explained(LIBAIO_DIFFERS), CPU.explained(LIBAIO_DIFFERS)]);

/// Operations a second of all rounds together.
const OPERATIONS: Reading = Reading {
    unit: Unit::OpPerS,
    ..RATE
        .named("iops")
        .metric("iops")
        .keyed(7)
        .read("iops")
        .taken(Statistic::Own("operations of all rounds over their time", |run, row| {
            rate_of(&rounds(&run.samples, row)?, row)
        }))
};

/// CPU time of an operation.
const CPU: Reading =
    Reading {
        unit: Unit::NsPerOp,
        ..TIME.named("cpu").metric("cpu").keyed(7).read("cpu").goal(Goal::AtMost).taken(
            Statistic::Own("CPU of all rounds over their operations", |run, row| {
                Ok(cpu_of(&rounds(&run.samples, row)?))
            }),
        )
    };

/// Least preset, how, at random or in sequence, operation, depth; the first are the most useful.
const TABLE: [(Preset, &Entry, &str, &str, u64); 21] = [
    (Rehearsal, &PSYNC, "random", "read", 1),
    (Standard, &PSYNC, "random", "write", 1),
    (Standard, &RING, "random", "read", 1),
    (Standard, &RING, "random", "read", 32),
    (Rehearsal, &BATCHED, "random", "read", 32),
    (Standard, &BATCHED, "random", "write", 32),
    (Standard, &PSYNC, "sequential", "read", 1),
    (Standard, &LIBAIO, "random", "read", 32),
    (Thorough, &RING, "random", "read", 4),
    (Thorough, &RING, "random", "read", 16),
    (Thorough, &BATCHED, "random", "read", 16),
    (Thorough, &RING, "random", "read", 64),
    (Thorough, &RING, "random", "read", 128),
    (Thorough, &BATCHED, "random", "read", 128),
    (Thorough, &LIBAIO, "random", "read", 128),
    (Thorough, &RING, "random", "write", 1),
    (Thorough, &RING, "random", "write", 16),
    (Thorough, &BATCHED, "random", "write", 16),
    (Thorough, &RING, "random", "write", 128),
    (Thorough, &BATCHED, "random", "write", 128),
    (Thorough, &PSYNC, "sequential", "write", 1),
];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let files = conditions.files.clone().unwrap_or_default();
    let (rounds, round_ms) = conditions.rehearsed((1, REHEARSED_MS), (ROUNDS, ROUND_MS));
    let jobs = (1..=rounds).map(|round| format!("--name=round{round} --stonewall"));
    let jobs = jobs.collect::<Vec<_>>().join(" ");
    let pairing = |&(_, entry, pattern, operation, depth): &(_, &Entry, &str, &str, u64)| {
        let (is_random, is_read) = (pattern == "random", operation == "read");
        let file = files.join(operation).display().to_string();
        let size = if is_read { READ_BYTES } else { WRITE_BYTES };
        let written = if is_random { WRITTEN_4K } else { WRITTEN_1M };
        // As plumb: the blocks are filled once, and a word in each is changed before each write.
        let write = format!("--refill_buffers=0 --scramble_buffers=1 --io_size={written}");
        let places = vec![
            ("file", file.clone()),
            ("size", size.to_string()),
            ("rw", format!("{}{operation}", if is_random { "rand" } else { "" })),
            ("block", if is_random { 4096 } else { MIB }.to_string()),
            ("length", if is_random { "4k" } else { "1m" }.to_owned()),
            ("depth", depth.to_string()),
            ("ms", round_ms.to_string()),
            ("op", if is_read { "--time_based".to_owned() } else { write }),
            ("jobs", jobs.clone()),
            ("do", operation.to_owned()),
            ("pattern", pattern.to_owned()),
            ("most", READ_BYTES.to_string()),
            ("written", written.to_string()),
        ];
        let mut pairing = entry.pairing(conditions, &places).in_files(conditions);
        // The file is written once, synced, incompressible, as plumb's.
        let laid = "fio --name=lay --filename={file} --size={size} --rw=write --bs=1M --end_fsync=1 \
            --refill_buffers";
        pairing.theirs.prepare.push(words(laid, &places));
        pairing
    };
    let offered = TABLE.iter().filter(|(from, ..)| *from <= conditions.preset);
    offered.map(pairing).collect()
}

const PSYNC_DIFFERS: &str = "fio picks each offset and drops the file from the page cache within its time, \
                     which it reports in whole milliseconds; plumb does both beforehand. Activity \
                     on the host of a virtual disk shifts one turn against the next; neither tool \
                     controls it";
const RING_DIFFERS: &str = "fio submits one operation at a time (its default); plumb resubmits all \
                    completed ones, four per system call, which is faster or slower depending on \
                    the device. The pairing `batched` has fio submit in batches too. fio picks \
                    each offset within its time, which it reports in whole milliseconds. plumb's \
                    rate is for a full queue: the time to fill and drain it once is added, because \
                    fio's time includes both";
const BATCHED_DIFFERS: &str = "both submit and reap in batches: fio with one system call, plumb with one \
                       per four operations, so that the device starts sooner. fio picks each \
                       offset within its time, which it reports in whole milliseconds. The time to \
                       fill and drain the queue is added to plumb's time, because fio's includes \
                       both";
const LIBAIO_DIFFERS: &str = "fio uses Linux AIO (io_submit, io_getevents), plumb io_uring with registered \
                      file and buffers at the same depth. Both lead to the same block layer; \
                      io_uring needs fewer system calls and no page pinning";
const CPU_DIFFERS: &str = "both count user and system time of the thread that does the operations, \
                   interrupts included, without the kernel's io_uring workers. fio truncates both \
                   times to whole milliseconds a job, so half a millisecond is added to each that \
                   is not zero. fio's time includes choosing offsets, filling buffers and \
                   statistics";

/// The operations, their rate, and the CPU time that they took, in ns, of each round of a row's case.
fn rounds(all: &[Samples], row: &Row) -> Result<Vec<(f64, f64, f64)>> {
    let is_meant = |samples: &&Samples, metric: &str| {
        let is_own = samples.series.split('/').next() == Some("fs.io");
        is_own && samples.metric == metric && is_of(&samples.case, &row.case)
    };
    let of = |samples: &Samples, name: &str| samples.quantities.get(name).copied();
    let only = |samples: &Samples| samples.raw.samples().first().copied();
    let rates = all.iter().filter(|samples| is_meant(samples, "iops"));
    let rounds: Vec<(f64, f64, f64)> = rates
        .map(|rate| {
            let is_its =
                |samples: &&Samples| samples.round == rate.round && is_meant(samples, "cpu");
            let cost = all.iter().find(is_its).context("a round has no CPU time")?;
            let count = of(rate, "operations").context("a round does not report its operations")?;
            let each_ns = only(cost).context("a round has no CPU time")?;
            let workers_ns = of(cost, "workers_ns").unwrap_or(0.0);
            let per_s = only(rate).context("a round has no rate")?;
            Ok((count, per_s, each_ns * count - workers_ns))
        })
        .collect::<Result<_>>()?;
    ensure!(!rounds.is_empty(), "no round has {}", row.case);
    Ok(rounds)
}

/// Operations per second of all rounds together, a queue's filling and emptying included.
fn rate_of(rounds: &[(f64, f64, f64)], row: &Row) -> Result<f64> {
    let depth = row.case.int("depth").context("the case has no depth")?;
    let more = if depth > 1 { depth as f64 } else { 0.0 };
    let seconds = rounds.iter().map(|(count, per_s, _)| (count + more) / per_s);
    Ok(operations(rounds) / seconds.sum::<f64>())
}

/// CPU time of an operation in all rounds together, without that of the kernel's workers, in ns.
fn cpu_of(rounds: &[(f64, f64, f64)]) -> f64 {
    let cpu_ns: f64 = rounds.iter().map(|(.., cpu_ns)| cpu_ns).sum();
    cpu_ns / operations(rounds)
}

fn operations(rounds: &[(f64, f64, f64)]) -> f64 {
    rounds.iter().map(|(count, ..)| count).sum()
}

#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    error: i64,
    read: Side,
    write: Side,
    /// Its length in whole milliseconds.
    job_runtime: u64,
    /// Share of that, in per cent.
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Side {
    /// Its length in whole milliseconds.
    runtime: u64,
    total_ios: u64,
}

/// `iops`, or `cpu`: ns of an operation; of all jobs together.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let answer: Answer = json(&said.stdout)?;
    let (mut operations, mut ms, mut cpu_ns) = (0.0, 0.0, 0.0);
    for job in &answer.jobs {
        if job.error != 0 {
            return Err(format!("a job ended with error {}", job.error));
        }
        let side = match (job.read.total_ios, job.write.total_ios) {
            (0, 0) => return Err(ZERO.to_owned()),
            (_, 0) => &job.read,
            (0, _) => &job.write,
            _ => return Err("a job read and wrote".to_owned()),
        };
        operations += side.total_ios as f64;
        // The shorter of the two counts against plumb.
        ms += side.runtime.min(job.job_runtime) as f64;
        for share in [job.usr_cpu, job.sys_cpu].into_iter().filter(|share| *share > 0.0) {
            cpu_ns += share / 100.0 * job.job_runtime as f64 * 1e6 + HALF_MS_NS;
        }
    }
    match what {
        _ if operations == 0.0 => Err("it has no job".to_owned()),
        "iops" => Ok(operations * 1e3 / ms),
        "cpu" => Ok(cpu_ns / operations),
        _ => Err(format!("the fio command does not measure {what}")),
    }
}

#[cfg(test)]
mod tests;
