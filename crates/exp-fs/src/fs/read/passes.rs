//! Passes over a file, block by block, and the account of where the blocks came from.

use super::{BLOCK_BYTES, BLOCKS_MIN, file_bytes_of, path_of, window_of};
use crate::fs::file::{Account, Mode, Moved, Opened, WARM_TRIES, open, order_seed, right, seed_of};
use crate::fs::offered::{LISTED, describe_place, in_ns, text_at};
use crate::fs::prelude::*;
use crate::fs::window::{self, Window};
use bench::measure::Settled;
use bench::prepared::demand_written_extents;
use laws::fs::read::{CACHED_BYTES, Read};
use metal::io::{Buffers, Latencies, Op, Psync, Ran, Stop};
use stats::steady::Steady;

/// Blocks of a pass over a file that is larger …
const PASS_BLOCKS: usize = 4096;
/// … and of the part of a file that is brought into the page cache.
const CACHED_BLOCKS: usize = CACHED_BYTES as usize / BLOCK_BYTES;
/// What needs no eviction is passed over so often that a run has at least so many blocks.
const RUN_BLOCKS: usize = 1024;
/// Blocks that are read into, and looked at after each run.
const BUFFERS: usize = 8;
/// Passes end when all that belongs to them has taken so many times the time that they may take.
const AROUND_MOST: u32 = 2;

pub(super) fn time(
    case: &Case,
    read: &Read,
    bench: &mut Bench,
    dir: &Path,
    settled: Settled,
) -> Result<()> {
    let (mode, bytes) = (read.mode, read.size);
    let file_bytes = file_bytes_of(case).context("no file")?;
    let path = path_of(dir, file_bytes);
    let seed = seed_of(&path);
    let opened = open(&path, mode)?;
    ensure!(
        opened.bytes == file_bytes,
        "the size of the prepared file changed to {}",
        opened.bytes
    );
    let alignment = opened.memory_alignment.max(opened.offset_alignment);
    ensure!(
        (BLOCK_BYTES as u64).is_multiple_of(alignment),
        "cache: O_DIRECT is missing for blocks of 4 KiB: it needs multiples of {alignment} bytes here"
    );
    let extents = demand_written_extents(&opened.file, file_bytes)?;
    let random = read.pattern == Pattern::Random;
    let seeds =
        Seeds { round: bench.order().round, mode, order: order_seed(bench.order().seed, &case.id) };
    let blocks = Blocks::in_file(bytes, random, seeds);
    let number = text_at(case, "device_number");
    let window = window::rate_ns(case).map(|ns| Window::new(ns, BLOCKS_MIN, 1, true));
    let look = Look {
        opened: &opened,
        mode,
        blocks: &blocks,
        seed,
        number,
        window_ns: window_of(case, bench.order().case_ns),
    };
    let passes = look.run(bench, window)?;
    let part = (mode == Mode::Cached && blocks.span().1 < bytes).then(|| {
        format!(
            "each round caches and reads another part of {} of the file",
            render(blocks.span().1 as f64, Unit::B)
        )
    });
    let samples = passes.record(case, bench)?;
    samples.notes.extend(opened.notes.iter().cloned());
    describe_place(samples, case, settled);
    samples.notes.extend(part);
    samples.set_quantities([("extents", extents.map(|extents| extents as f64))]);
    let untold = "the file system does not report a file's extents (FIEMAP)";
    samples.notes.extend(extents.is_none().then(|| untold.to_owned()));
    Ok(())
}

/// The blocks of a file in the order in which they are read, and where a pass ends.
#[derive(Debug, PartialEq)]
struct Blocks {
    order: Vec<u32>,
    pass: usize,
}

#[derive(Clone, Copy)]
struct Seeds {
    round: u32,
    mode: Mode,
    order: u64,
}

impl Blocks {
    /// All of a file, in order from another pass's begin in each round and mode, or at random, none
    /// twice; of a cached one the part that can be in memory: all of a small one, another part of a
    /// large one in each round.
    fn in_file(bytes: u64, random: bool, seeds: Seeds) -> Blocks {
        let is_cached = seeds.mode == Mode::Cached;
        let mut order: Vec<u32> = (0..(bytes / BLOCK_BYTES as u64) as u32).collect();
        let pass = if is_cached { CACHED_BLOCKS } else { PASS_BLOCKS }.min(order.len());
        if is_cached || !random {
            let first = begin(seeds, order.len() / pass) * pass;
            order.rotate_left(first);
        }
        if is_cached {
            order.truncate(pass);
        }
        if random {
            fastrand::Rng::with_seed(seeds.order).shuffle(&mut order);
        }
        Blocks { order, pass }
    }

    /// The part of the file that is read, in bytes: where it begins and how long it is.
    fn span(&self) -> (u64, u64) {
        let ends = self.order.iter().copied();
        let first = ends.clone().min().unwrap_or(0);
        let last = ends.max().unwrap_or(0);
        (offset(first), offset(last - first + 1))
    }
}

fn offset(block: u32) -> u64 {
    u64::from(block) * BLOCK_BYTES as u64
}

/// Where a case begins, of `places`: rounds that follow one another are far apart, and so are the
/// modes of one that a device answers.
fn begin(seeds: Seeds, places: usize) -> usize {
    let places = places.max(1);
    // The golden section: no two of few rounds meet.
    let turns = f64::from(seeds.round.saturating_sub(1)) * 0.618_033_988_749_895;
    let of_round = (turns.fract() * places as f64) as usize;
    let of_device = Mode::ALL.iter().copied().filter(|mode| *mode != Mode::Cached);
    let modes = of_device.clone().count();
    let rank = of_device.take_while(|mode| *mode != seeds.mode).count();
    (of_round + rank * places / modes) % places
}

struct Passes {
    clock: Clock,
    /// The part in which the rate was steady, in cases that yield a rate.
    steady: Option<Steady>,
    /// Passes that were done as a whole; where there is none, the part of one.
    whole: Vec<Ran>,
    part: Option<Ran>,
    log: Latencies,
    /// What came from where; of a cached file what came from the device all the same.
    moved: Moved,
    passes: usize,
    span_bytes: u64,
    /// Bytes that the kernel read ahead without a request.
    ahead: u64,
}

struct Look<'case> {
    opened: &'case Opened,
    mode: Mode,
    blocks: &'case Blocks,
    seed: u64,
    number: Option<&'case str>,
    window_ns: u64,
}

impl Look<'_> {
    /// The passes of a case; for a cached file again if the kernel reclaimed some of its pages
    /// meanwhile.
    fn run(&self, bench: &Bench, window: Option<Window>) -> Result<Passes> {
        if self.mode != Mode::Cached {
            return self.once(bench, window);
        }
        let (first, span_bytes) = self.blocks.span();
        let mut tries = 1..=WARM_TRIES;
        loop {
            let passes = self.once(bench, None)?;
            let stayed = self.opened.demand_cached(first, span_bytes);
            if stayed.is_ok() || tries.next() == Some(WARM_TRIES) {
                return stayed.map(|()| passes);
            }
        }
    }

    fn once(&self, bench: &Bench, mut window: Option<Window>) -> Result<Passes> {
        let (opened, mode, blocks) = (self.opened, self.mode, self.blocks);
        let clock = bench.order().clock();
        let (first, span_bytes) = blocks.span();
        let longest_ns = window.as_ref().map(|window| window.most_ns);
        let most = Duration::from_nanos(longest_ns.unwrap_or(self.window_ns));
        let is_cold = matches!(mode, Mode::Cold | Mode::ColdNoReadahead);
        match mode {
            Mode::Cached => opened.warm(first, span_bytes)?,
            _ => opened.make_cold(0, 0)?,
        }
        let file = opened.file.try_clone().context("a second descriptor")?;
        let buffers = Buffers::new(BUFFERS, BLOCK_BYTES, self.seed).context("memory for blocks")?;
        let mut engine = Psync::new(file, buffers);
        let mut log = Latencies::new(LISTED);
        let (mut whole, mut part, mut passes, mut done) = (Vec::new(), None, 0, 0_u64);
        let mut ahead = 0;
        let (start, mut timed) = (Instant::now(), Duration::ZERO);
        let account = Account::begin(self.number);
        for pass in blocks.order.chunks(blocks.pass).cycle() {
            if is_cold && passes > 0 {
                opened.make_cold(0, 0)?;
            }
            let turns = if is_cold { 1 } else { RUN_BLOCKS.div_ceil(pass.len()) };
            let mut left = pass.iter().cycle();
            let left_ns = most.saturating_sub(timed).as_nanos() as f64;
            let stop = Stop {
                until_tick: clock.start() + clock.ticks(left_ns),
                at_least: BLOCKS_MIN.saturating_sub(done).max(1),
                at_most: (turns * pass.len()) as u64,
            };
            let (begin, before_ns) = (clock.start(), timed.as_nanos() as u64);
            let next = || {
                let goes_on = window.as_mut().is_none_or(|window| {
                    window.begins(before_ns + clock.between_ns(begin, clock.end()) as u64)
                });
                let block = goes_on.then(|| left.next()).flatten();
                block.map(|block| offset(*block))
            };
            let ran = engine.run(Op::Read, next, || clock.end(), stop, &mut log)?;
            if is_cold {
                ahead += opened.beyond(ran.bytes)?;
            }
            demand_right(&engine, self.seed)?;
            timed += Duration::from_nanos(clock.between_ns(ran.first_tick, ran.last_tick) as u64);
            passes += 1;
            done += ran.operations;
            match ran.operations == stop.at_most {
                true => whole.push(ran),
                false => part = Some(ran),
            }
            let has_settled = window.as_ref().is_some_and(|window| window.is_over);
            let is_over = has_settled || timed >= most || start.elapsed() >= AROUND_MOST * most;
            if is_over && done >= BLOCKS_MIN {
                break;
            }
        }
        let asked = if mode == Mode::Cached { 0 } else { done * BLOCK_BYTES as u64 + ahead };
        let moved = account.end(asked);
        let steady = window.map(|window| window::settled(vec![window])).transpose()?;
        Ok(Passes { clock, steady, whole, part, log, moved, passes, span_bytes, ahead })
    }
}

/// Compares the blocks that were read last with what was written.
fn demand_right(engine: &Psync, seed: u64) -> Result<()> {
    for index in 0..BUFFERS {
        if let Some(at) = engine.offset_of(index) {
            ensure!(
                right(engine.buffers().get(index), seed, at),
                WrongResult(format!(
                    "the block at offset {at} differs from what was written there"
                ))
            );
        }
    }
    Ok(())
}

impl Passes {
    /// Writes the case's figures; returns those of the first, for what else is known.
    fn record<'bench>(self, case: &Case, bench: &'bench mut Bench) -> Result<&'bench mut Samples> {
        let (listed, all) = in_ns(self.clock, std::iter::once(&self.log));
        match self.log.total() == listed.len() as u64 {
            true => bench.record(case, "latency", listed)?,
            false => bench.record(case, "latency", Values::counted(listed, &all))?,
        };
        let mut notes = Vec::new();
        let counted = match (self.whole.is_empty(), self.part) {
            (true, Some(part)) => vec![part],
            _ => self.whole,
        };
        let operations: Vec<u64> = counted.iter().map(|ran| ran.operations).collect();
        let even = operations.iter().all(|count| *count == operations[0]);
        let k = if even { operations[0] } else { 0 };
        let ns = |ran: &Ran| self.clock.between_ns(ran.first_tick, ran.last_tick);
        let of = |value: &dyn Fn(&Ran) -> f64| counted.iter().map(value).collect::<Vec<f64>>();
        let cpu = of(&|ran| ran.thread_cpu_ns as f64 / ran.operations as f64);
        bench.record(case, "cpu", Values::batches(k, cpu))?;
        let (iops, k) = match &self.steady {
            Some(steady) => (vec![steady.rate()], 0),
            None => (of(&|ran| ran.operations as f64 / ns(ran) * 1e9), k),
        };
        let scaled = |scale: &dyn Fn(f64) -> f64| iops.iter().map(|rate| scale(*rate)).collect();
        let bandwidth = scaled(&|rate| rate * BLOCK_BYTES as f64);
        let per_block = scaled(&|rate| 1e9 / rate);
        let samples = bench.record(case, "iops", Values::batches(k, iops))?;
        if let Some(steady) = &self.steady {
            steady.describe(samples, BLOCK_BYTES as f64);
        }
        bench.record(case, "bandwidth", Values::batches(k, bandwidth))?;
        if self.moved.asked == 0
            && let Some(bytes) = self.moved.process.filter(|bytes| *bytes > 0)
        {
            notes.push(format!(
                "{} came from a device, although the file was in the page cache before and after",
                render(bytes as f64, Unit::B)
            ));
        }
        let samples = bench.record(case, "latency_per_block", Values::batches(k, per_block))?;
        let quantities = [
            ("passes", Some(self.passes as f64)),
            ("span_bytes", Some(self.span_bytes as f64)),
            ("ahead_bytes", Some(self.ahead as f64)),
        ];
        samples.set_quantities(quantities);
        self.moved.describe(samples);
        samples.notes.extend(notes);
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Blocks, CACHED_BLOCKS, Mode, PASS_BLOCKS, Seeds};
    use std::collections::BTreeSet;

    const MIB: u64 = 1 << 20;

    fn seeds(round: u32, order: u64) -> Seeds {
        Seeds { round, mode: Mode::Direct, order }
    }

    #[test]
    fn a_pass_reads_no_block_twice_and_misses_none() {
        for random in [false, true] {
            for bytes in [128 << 10, 17 * MIB, 64 * MIB] {
                for round in 1..5 {
                    let blocks = Blocks::in_file(bytes, random, seeds(round, 9));
                    let mut seen = blocks.order.clone();
                    seen.sort_unstable();
                    let count = (bytes / BLOCK_BYTES as u64) as u32;
                    assert_eq!(seen, (0..count).collect::<Vec<u32>>());
                    assert_eq!(blocks.span(), (0, bytes));
                    assert_eq!(blocks.pass, PASS_BLOCKS.min(count as usize));
                }
            }
        }
    }

    #[test]
    fn rounds_begin_a_large_file_at_different_places_and_a_small_one_at_its_begin() {
        let first = |round, bytes| Blocks::in_file(bytes, false, seeds(round, 9)).order[0];
        let places: BTreeSet<u32> = (1..7).map(|round| first(round, 256 * MIB)).collect();
        assert_eq!(places.len(), 6);
        assert!(places.iter().all(|block| block % PASS_BLOCKS as u32 == 0));
        assert!((1..7).all(|round| first(round, 16 * MIB) == 0));
        // At random, another order in each round and case.
        assert_ne!(
            Blocks::in_file(MIB, true, seeds(1, 1)).order,
            Blocks::in_file(MIB, true, seeds(1, 2)).order
        );
    }

    #[test]
    fn modes_of_a_round_begin_at_different_places() {
        let device = Mode::ALL.iter().copied().filter(|mode| *mode != Mode::Cached);
        for bytes in [64 * MIB, 256 * MIB] {
            for round in 1..7 {
                let first = |mode| {
                    let seeds = Seeds { mode, ..seeds(round, 9) };
                    Blocks::in_file(bytes, false, seeds).order[0]
                };
                let places: BTreeSet<u32> = device.clone().map(first).collect();
                assert_eq!(places.len(), 4, "{bytes} in round {round}: {places:?}");
            }
        }
    }

    #[test]
    fn of_a_large_cached_file_a_part_is_read() {
        let of = |bytes, random, round| {
            Blocks::in_file(bytes, random, Seeds { mode: Mode::Cached, ..seeds(round, 1) })
        };
        let small = of(MIB, false, 3);
        assert_eq!(small.span(), (0, MIB));
        for round in 1..9 {
            let part = of(256 * MIB, true, round);
            let (first, bytes) = part.span();
            assert_eq!(bytes, (CACHED_BLOCKS * BLOCK_BYTES) as u64);
            assert!(first + bytes <= 256 * MIB && first % bytes == 0);
        }
    }
}
