//! fio: reads and writes of a file by system calls and rings.
//!
//! Both sides do six rounds of 225 ms (fio: jobs one after another), because a virtual disk's host
//! polls for as long as there is load, and gives more in a window that lasts; each writes no more
//! than the same bytes in a round. All rounds count, disturbed or not: fio leaves none out.

use crate::ours::is_of;
use crate::read::{ZERO, json};
use crate::sides::case;
use crate::{Conditions, Goal, MIB, Output, Pairing, Rival, Row, Statistic, Theirs};
use anyhow::{Context, Result, ensure};
use bench::experiment::Preset;
use record::event::Samples;
use record::unit::Unit;
use serde::Deserialize;

pub static RIVAL: Rival = Rival::new("fio", &["fio"], pairings, parse)
    .about("reads and writes of a file by psync, io_uring and libaio")
    .package("fio")
    .version(&["--version"], |said| Some(said.stdout.trim().strip_prefix("fio-")?.to_owned()))
    // The first with registered files for rings.
    .oldest("3.16");

/// The files that are read and written, as plumb's (of `size` it writes to a half).
const READ_BYTES: u64 = 32 * MIB;
const WRITE_BYTES: u64 = READ_BYTES / 2;
/// Rounds until plumb's first look.
const ROUNDS: usize = 6;
const ROUND_MS: u64 = 225;
const REHEARSED_MS: u64 = 50;
/// What rounding to whole milliseconds takes on average.
const HALF_MS_NS: f64 = 5e5;

/// What is done, on both sides.
#[derive(Clone, Copy, Debug)]
struct Work {
    op: &'static str,
    pattern: &'static str,
    block: u64,
    /// fio's name of it.
    engine: &'static str,
    depth: u64,
    /// fio submits and reaps as many as the depth at a time, in place of one.
    is_batched: bool,
}

const fn random(op: &'static str, engine: &'static str, depth: u64) -> Work {
    Work { op, pattern: "random", block: 4096, engine, depth, is_batched: false }
}

const fn batched(work: Work) -> Work {
    Work { is_batched: true, ..work }
}

const fn large(op: &'static str) -> Work {
    Work { pattern: "sequential", block: MIB, ..random(op, "psync", 1) }
}

/// The most useful ones.
const FEW: [Work; 2] = [random("read", "psync", 1), batched(random("read", "io_uring", 32))];

const STANDARD: [Work; 8] = [
    FEW[0],
    random("write", "psync", 1),
    random("read", "io_uring", 1),
    random("read", "io_uring", 32),
    FEW[1],
    batched(random("write", "io_uring", 32)),
    large("read"),
    random("read", "libaio", 32),
];

const FURTHER: [Work; 13] = [
    random("read", "io_uring", 4),
    random("read", "io_uring", 16),
    batched(random("read", "io_uring", 16)),
    random("read", "io_uring", 64),
    random("read", "io_uring", 128),
    batched(random("read", "io_uring", 128)),
    random("read", "libaio", 128),
    random("write", "io_uring", 1),
    random("write", "io_uring", 16),
    batched(random("write", "io_uring", 16)),
    random("write", "io_uring", 128),
    batched(random("write", "io_uring", 128)),
    large("write"),
];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let works = match conditions.preset {
        Preset::Rehearsal | Preset::Quick => FEW.to_vec(),
        Preset::Standard => STANDARD.to_vec(),
        Preset::Thorough => [&STANDARD[..], &FURTHER].concat(),
    };
    works.into_iter().map(|work| pairing(conditions, work)).collect()
}

fn pairing(conditions: &Conditions, work: Work) -> Pairing {
    let files = conditions.files.clone().unwrap_or_default();
    let file = files.join(work.op).display().to_string();
    let (rounds, round_ms) = conditions.rehearsed((1, REHEARSED_MS), (ROUNDS, ROUND_MS));
    let theirs = Theirs {
        args: work.args(&file, rounds, round_ms),
        prepare: vec![work.laid_out(&file)],
        ..conditions.theirs("fio", &[])
    };
    let (set, written) = (work.set(), work.written());
    let set = format!("{set} size={READ_BYTES} written={written} window={round_ms}ms");
    let ours = conditions.ours_in_files("fs.io", &set).within(30);
    Pairing::new(work.name(), ours, theirs, work.rows()).unless(conditions.no_files())
}

impl Work {
    /// Its name: `io-uring-128-batched-random-read-4k`.
    fn name(self) -> String {
        let engine = self.engine.replace('_', "-");
        let depth = match self.engine {
            "psync" => String::new(),
            _ => format!("-{}", self.depth),
        };
        let batched = if self.is_batched { "-batched" } else { "" };
        let block = if self.block == MIB { "1m" } else { "4k" };
        format!("{engine}{depth}{batched}-{}-{}-{block}", self.pattern, self.op)
    }

    /// Bytes that a round writes at most.
    fn written(self) -> u64 {
        match self.block {
            MIB => 48 * MIB,
            _ => 18 * MIB,
        }
    }

    /// plumb's engine beside fio's.
    fn ours(self) -> &'static str {
        match self.engine {
            "psync" => "psync",
            _ => "io_uring",
        }
    }

    /// Parameters of plumb's case.
    fn set(self) -> String {
        let Work { op, pattern, block, depth, .. } = self;
        let engine = self.ours();
        format!(
            "op={op} pattern={pattern} mode=direct block={block} engine={engine} depth={depth} threads=1"
        )
    }

    fn size(self) -> u64 {
        match self.op {
            "read" => READ_BYTES,
            _ => WRITE_BYTES,
        }
    }

    fn args(self, file: &str, rounds: usize, round_ms: u64) -> Vec<String> {
        let pattern = if self.pattern == "random" { "rand" } else { "" };
        let mut args = vec![
            format!("--filename={file}"),
            format!("--size={}", self.size()),
            format!("--rw={pattern}{}", self.op),
            format!("--bs={}", self.block),
            format!("--ioengine={}", self.engine),
            format!("--iodepth={}", self.depth),
            format!("--runtime={round_ms}ms"),
        ];
        let mut also = |words: &[&str]| args.extend(words.iter().map(|&word| word.to_owned()));
        also(&[
            "--direct=1",
            // A job of a process begins a session of its own (setsid), and so leaves the group of
            // processes whose priority is plumb's (autogroup).
            "--thread",
            "--overwrite=1",
            "--randrepeat=0",
            "--output-format=json",
        ]);
        match self.op {
            "read" => also(&["--time_based"]),
            // As plumb: the blocks are filled once, and a word in each is changed before each
            // write.
            _ => also(&["--refill_buffers=0", "--scramble_buffers=1"]),
        }
        if self.engine == "io_uring" {
            also(&["--registerfiles=1", "--fixedbufs=1"]);
        }
        if self.op == "write" {
            args.push(format!("--io_size={}", self.written()));
        }
        if self.is_batched {
            let depth = self.depth;
            args.push(format!("--iodepth_batch_submit={depth}"));
            args.push("--iodepth_batch_complete_min=1".to_owned());
            args.push(format!("--iodepth_batch_complete_max={depth}"));
        }
        let names = (1..=rounds).map(|round| format!("--name=round{round}"));
        args.extend(names.flat_map(|name| [name, "--stonewall".to_owned()]));
        args
    }

    /// What lays its file out: written once, synced, incompressible, as plumb's.
    fn laid_out(self, file: &str) -> Vec<String> {
        let size = format!("--size={}", self.size());
        let file = format!("--filename={file}");
        let words = ["fio", "--name=lay", &file, &size, "--rw=write", "--bs=1M"];
        let ends = ["--end_fsync=1", "--refill_buffers"];
        words.into_iter().chain(ends).map(str::to_owned).collect()
    }

    fn rows(self) -> [Row; 2] {
        let is_alike = self.engine != "libaio";
        let difference = match self.engine {
            "libaio" => LIBAIO,
            "psync" => PSYNC,
            _ if self.is_batched => BATCHED,
            _ => RING,
        };
        let row = |statistic, goal, row: Row| Row {
            name: row.what.clone(),
            case: case(&self.set()),
            statistic,
            goal: if is_alike { goal } else { Goal::Explained },
            ..row
        };
        let rate = Statistic::Own("operations of all rounds over their time", |run, row| {
            rate_of(&rounds(&run.samples, row)?, row)
        });
        let cpu = Statistic::Own("CPU of all rounds over their operations", |run, row| {
            Ok(cpu_of(&rounds(&run.samples, row)?))
        });
        let of_cpu = if is_alike { CPU } else { LIBAIO };
        [
            row(rate, Goal::AtLeast, Row::new("burst_iops", Unit::OpPerS, "iops", difference)),
            row(cpu, Goal::AtMost, Row::new("cpu", Unit::NsPerOp, "cpu", of_cpu)),
        ]
    }
}

const PSYNC: &str = "fio picks each offset and drops the file from the page cache within its time, \
                     which it reports in whole milliseconds; plumb does both beforehand. Activity \
                     on the host of a virtual disk shifts one turn against the next; neither tool \
                     controls it";
const RING: &str = "fio submits one operation at a time (its default); plumb resubmits all \
                    completed ones, four per system call, which is faster or slower depending on \
                    the device. The pairing `batched` has fio submit in batches too. fio picks \
                    each offset within its time, which it reports in whole milliseconds. plumb's \
                    rate is for a full queue: the time to fill and drain it once is added, because \
                    fio's time includes both";
const BATCHED: &str = "both submit and reap in batches: fio with one system call, plumb with one \
                       per four operations, so that the device starts sooner. fio picks each \
                       offset within its time, which it reports in whole milliseconds. The time to \
                       fill and drain the queue is added to plumb's time, because fio's includes \
                       both";
const LIBAIO: &str = "fio uses Linux AIO (io_submit, io_getevents), plumb io_uring with registered \
                      file and buffers at the same depth. Both lead to the same block layer; \
                      io_uring needs fewer system calls and no page pinning";
const CPU: &str = "both count user and system time of the thread that does the operations, \
                   interrupts included, without the kernel's io_uring workers. fio truncates both \
                   times to whole milliseconds a job, so half a millisecond is added to each that \
                   is not zero. fio's time includes choosing offsets, filling buffers and \
                   statistics";

/// Of each round of a row's case: operations, their rate, and the CPU time that they took, in ns.
fn rounds(all: &[Samples], row: &Row) -> Result<Vec<(f64, f64, f64)>> {
    let is_meant = |samples: &&Samples, metric: &str| {
        let is_own = samples.series.split('/').next() == Some("fs.io");
        is_own && samples.metric == metric && is_of(&samples.case, &row.case)
    };
    let of = |samples: &Samples, name: &str| samples.quantities.get(name).copied();
    let only = |samples: &Samples| samples.raw.samples().first().copied();
    let rates = all.iter().filter(|samples| is_meant(samples, "burst_iops"));
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

/// Of fio's answer what is read.
#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    /// An error's number.
    error: i64,
    read: Side,
    write: Side,
    /// In ms.
    job_runtime: u64,
    /// Share of that, in per cent.
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Side {
    /// In ms.
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
