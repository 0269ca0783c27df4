//! Reads of blocks, one after another until the case's time is over, whoever answers them.

use super::mounted::File;
use crate::fs::file::BLOCK_BYTES;
use crate::fs::prelude::*;
use metal::clock::{Clock, vdso_clock_gettime};
use metal::io::Buffers;

/// Blocks that are read in a case, at least and at most.
const BLOCKS_MIN: usize = 8;
const BLOCKS_MAX: usize = 200_000;
/// Blocks in memory that are read into in turn; what is in them is checked after each pass.
const BUFFERS: usize = 16;

#[derive(Default)]
pub(super) struct Passes {
    latencies_ns: Vec<f64>,
    per_block_ns: Vec<f64>,
    cpu_ns: Vec<f64>,
    blocks: u64,
}

/// Reads the first `bytes` of a file in passes over all of its blocks, in order or shuffled anew by
/// the round, until the case's time is over.
pub(super) fn drive(
    bench: &Bench,
    pattern: Pattern,
    bytes: u64,
    file: &mut File,
) -> Result<Passes> {
    let mut random = fastrand::Rng::with_seed(bench.order().seed);
    let count = bytes / BLOCK_BYTES as u64;
    ensure!(count > 0, "a file of {bytes} bytes is smaller than a block of {BLOCK_BYTES}");
    let mut offsets: Vec<u64> = (0..count).map(|block| block * BLOCK_BYTES as u64).collect();
    if pattern == Pattern::Random {
        random.shuffle(&mut offsets);
    }
    let mut buffers =
        Buffers::new(BUFFERS, BLOCK_BYTES, random.u64(..)).context("memory for blocks")?;
    let clock = bench.order().clock();
    let case_ns = bench.order().case_ns as f64;
    let mut seen = Passes::default();
    let mut spent_ns = 0.0;
    // Grown beforehand: no page is first touched between two reads.
    seen.latencies_ns.resize(BLOCKS_MAX, 0.0);
    seen.latencies_ns.clear();
    let enough = |blocks: usize, spent_ns: f64| {
        blocks >= BLOCKS_MAX || blocks >= BLOCKS_MIN && spent_ns >= case_ns
    };
    while !enough(seen.latencies_ns.len(), spent_ns) {
        file.begin_pass()?;
        let before = seen.latencies_ns.len();
        let cpu_before_ns = vdso_clock_gettime(Clock::THREAD_CPU);
        let first = clock.start();
        let mut last = first;
        for (index, offset) in offsets.iter().enumerate() {
            let begin = clock.start();
            file.read(buffers.get_mut(index % BUFFERS), *offset)?;
            last = clock.end();
            seen.latencies_ns.push(clock.between_ns(begin, last));
            if enough(seen.latencies_ns.len(), spent_ns + clock.between_ns(first, last)) {
                break;
            }
        }
        let cpu_ns = vdso_clock_gettime(Clock::THREAD_CPU) - cpu_before_ns;
        let read = seen.latencies_ns.len() - before;
        let length_ns = clock.between_ns(first, last);
        spent_ns += length_ns;
        seen.add(read, length_ns, cpu_ns as f64);
        let last = offsets.iter().enumerate().take(read).skip(read.saturating_sub(BUFFERS));
        for (index, offset) in last {
            file.check(buffers.get(index % BUFFERS), *offset)?;
        }
    }
    Ok(seen)
}

impl Passes {
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES as u64
    }

    fn add(&mut self, blocks: usize, length_ns: f64, cpu_ns: f64) {
        self.blocks += blocks as u64;
        // The beginning of a pass that was cut off is no pass: it stands only if there is no other.
        if blocks < BLOCKS_MIN && !self.per_block_ns.is_empty() {
            return;
        }
        self.per_block_ns.push(length_ns / blocks as f64);
        self.cpu_ns.push(cpu_ns / blocks as f64);
    }

    /// Records what was read; returns the samples of the latency, for what else is to be said.
    pub(super) fn record<'bench>(
        self,
        bench: &'bench mut Bench,
        case: &Case,
    ) -> Result<&'bench mut Samples> {
        let per = |scale: f64| self.per_block_ns.iter().map(|ns| scale / ns).collect();
        bench.record(case, "bandwidth", Values::blocks(per(1e9 * BLOCK_BYTES as f64)))?;
        bench.record(case, "iops", Values::blocks(per(1e9)))?;
        bench.record(case, "latency_per_block", Values::blocks(self.per_block_ns))?;
        bench.record(case, "cpu", Values::blocks(self.cpu_ns))?;
        bench.record(case, "latency", self.latencies_ns)
    }
}
