//! A member of a job: its file in the state that the job asks for, its engine, and its operations.

use super::places::Places;
use super::watch::Watch;
use super::{Job, MemberRun, RUN_BLOCKS};
use crate::fs::file::{self, Opened};
use crate::fs::offered::LISTED;
use crate::fs::prelude::*;
use crate::fs::window::Window;
use laws::fs::Mode;
use laws::fs::io::Work;
use metal::io::{Buffers, Failure, Latencies, Op, Psync, Ran, Stop, Uring, UringSetup};
use metal::memory::base_page_bytes;
use metal::storage::{Way, residency};
use std::io::ErrorKind;

/// Blocks whose contents are checked after a run.
const CHECKED: usize = 8;
/// Blocks that passes read into in turn.
const READ_INTO: u64 = 8;
/// Blocks that are written are so many bytes together at least before they come again: more than
/// what file systems and arrays compress at a time.
const UNLIKE_BYTES: u64 = 256 << 10;
const KIB: u64 = 1 << 10;
/// Passes end when all that belongs to them has taken so many times the time that they may take.
const AROUND_MOST: u32 = 2;
/// Below this share, bytes that no device took are not mentioned.
const SHARE_IGNORED: f64 = 0.01;

enum Engine {
    Psync(Psync),
    Ring(Box<Uring>),
}

/// A member's file: as the operations find it, and through the page cache.
pub(super) struct Opening {
    opened: Opened,
    plain: Opened,
}

impl Opening {
    pub(super) fn new(job: &Job, index: usize) -> Result<Opening> {
        let (work, region) = (job.work, &job.regions[index]);
        let path = &region.path;
        let opened = opened(path, work)?;
        let alignment = opened.memory_alignment.max(opened.offset_alignment);
        ensure!(
            work.block.is_multiple_of(alignment),
            "cache: O_DIRECT is missing for blocks of {} bytes: it needs multiples of {alignment} \
             bytes here",
            work.block
        );
        let plain = file::open(path, Mode::Cached)?;
        match work.mode {
            // Each direct write would have to evict the file's cached pages.
            mode if mode.is_cold() || mode.is_direct() => plain.make_cold(0, 0)?,
            // Partial pages would have to be read before they are written.
            _ => plain.warm(region.start, region.bytes)?,
        }
        Ok(Opening { opened, plain })
    }
}

pub(super) struct Member {
    engine: Engine,
    places: Places,
    op: Op,
    /// Seed of the data of the file that it reads.
    contents: u64,
    /// The file through the page cache.
    plain: Opened,
    log: Latencies,
    window: Option<Window>,
    ahead: u64,
    moved: u64,
    notes: Vec<String>,
}

impl Member {
    /// Opens the file, brings it into the state that the job asks for, and makes everything that
    /// the operations need.
    pub(super) fn prepare(job: &Job, index: usize) -> Result<Member> {
        Member::with(job, index, Opening::new(job, index)?)
    }

    /// The same with a file that is in that state.
    pub(super) fn with(job: &Job, index: usize, opening: Opening) -> Result<Member> {
        let (work, region) = (job.work, &job.regions[index]);
        let Opening { opened, plain } = opening;
        let seed = job.seed ^ ((index as u64) << 32);
        let contents = file::seed_of(&region.path);
        let buffers = Buffers::new(blocks(job)?, usize::try_from(work.block)?, contents ^ seed)
            .context("memory for the blocks")?;
        let engine = match work.is_ring() {
            false => Engine::Psync(Psync::new(opened.file, buffers)),
            true => {
                let depth = usize::try_from(work.depth)?;
                let ring = Uring::with_depth(opened.file, buffers, depth, UringSetup::REGISTERED);
                Engine::Ring(Box::new(ring.context(NO_RING)?))
            }
        };
        let is_alone = job.regions.len() == 1;
        let window = || Window::new(job.window_ns, job.least, work.depth, is_alone);
        Ok(Member {
            engine,
            places: Places::new(work, region, job.pass.is_none() && work.mode.is_cold(), seed)?,
            op: match (work.is_read(), work.mode) {
                (true, _) => Op::Read,
                (false, Mode::BufferedFdatasync) => Op::WriteSynced,
                (false, _) => Op::Write,
            },
            contents,
            plain,
            log: Latencies::new(LISTED),
            window: job.is_rate.then(window),
            ahead: 0,
            moved: 0,
            notes: opened.notes,
        })
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn log(&self) -> &Latencies {
        &self.log
    }

    pub(super) fn log_mut(&mut self) -> &mut Latencies {
        &mut self.log
    }

    /// Runs from `start` to the end of the window: one, or passes that follow each other. Of passes
    /// those that were done as a whole; where there is none, the part of one.
    pub(super) fn run(&mut self, job: &Job, start: u64) -> Result<Vec<Ran>> {
        let (clock, is_cold) = (job.clock, job.work.mode.is_cold());
        let longest_ns = self.window.as_ref().map_or(job.window_ns, |window| window.most_ns);
        let most = Duration::from_nanos(longest_ns);
        let turns = |pass: u64| if is_cold { pass } else { RUN_BLOCKS.div_ceil(pass) * pass };
        let at_most = job.pass.map_or(job.most, turns);
        let (begun, mut begin) = (Instant::now(), start);
        let (mut runs, mut timed, mut done): (Vec<Ran>, _, _) = (Vec::new(), Duration::ZERO, 0);
        loop {
            let left_ns = most.saturating_sub(timed).as_nanos() as f64;
            let stop = Stop {
                until_tick: begin + clock.ticks(left_ns),
                at_least: job.least.saturating_sub(done).max(1),
                at_most,
            };
            let ran = self.operate(job, begin, timed.as_nanos() as u64, stop)?;
            self.moved += ran.bytes;
            done += ran.operations;
            timed += Duration::from_nanos(clock.between_ns(ran.first_tick, ran.last_tick) as u64);
            runs.push(ran);
            if job.pass.is_none() {
                return Ok(runs);
            }
            if is_cold {
                self.ahead += self.plain.beyond(ran.bytes)?;
            }
            let has_settled = self.window.as_ref().is_some_and(|window| window.is_over);
            let is_over = has_settled || timed >= most || begun.elapsed() >= AROUND_MOST * most;
            if is_over && done >= job.least {
                return Ok(runs);
            }
            self.check(job.work)?;
            if is_cold {
                self.plain.make_cold(0, 0)?;
            }
            begin = clock.start();
        }
    }

    /// Operations until `stop`; `before_ns` of the window are over.
    fn operate(&mut self, job: &Job, start: u64, before_ns: u64, stop: Stop) -> Result<Ran> {
        let clock = job.clock;
        let (places, log, window) = (&mut self.places, &mut self.log, &mut self.window);
        let next = || match window {
            None => places.next(),
            Some(window) => {
                let ns = before_ns + clock.between_ns(start, clock.end()) as u64;
                window.begins(ns).then(|| places.next()).flatten()
            }
        };
        // One instance for each clock and engine: nothing is chosen inside.
        let ran = match (&mut self.engine, clock) {
            (Engine::Psync(engine), Clock::Monotonic) => {
                engine.run(self.op, next, metal::clock::monotonic_ns, stop, log)
            }
            // Ends of windows, as fs.read's figures have them.
            (Engine::Psync(engine), Clock::Counter { .. }) if job.pass.is_some() => {
                engine.run(self.op, next, metal::clock::ticks_end, stop, log)
            }
            (Engine::Psync(engine), Clock::Counter { .. }) => {
                engine.run(self.op, next, metal::clock::ticks_fenced, stop, log)
            }
            (Engine::Ring(engine), Clock::Monotonic) => {
                engine.run(self.op, next, metal::clock::monotonic_ns, stop, log)
            }
            (Engine::Ring(engine), Clock::Counter { .. }) => {
                engine.run(self.op, next, metal::clock::ticks_fenced, stop, log)
            }
        };
        let ran = ran.map_err(anyhow::Error::new)?;
        ensure!(
            ran.operations > 0 || job.pass.is_some(),
            "cache: all offsets were used up before the first operation; use a larger file with \
             --set fs.io.size=SIZE"
        );
        Ok(ran)
    }

    /// One run until it is over, which is asked before each operation.
    pub(super) fn run_until(
        &mut self,
        clock: Clock,
        is_over: impl Fn() -> bool,
    ) -> Result<Ran, Failure> {
        let (places, log) = (&mut self.places, &mut self.log);
        let stop = Stop { until_tick: u64::MAX, at_least: 0, at_most: u64::MAX };
        let next = || if is_over() { None } else { places.next() };
        match (&mut self.engine, clock) {
            (Engine::Psync(engine), Clock::Monotonic) => {
                engine.run(self.op, next, metal::clock::monotonic_ns, stop, log)
            }
            (Engine::Psync(engine), Clock::Counter { .. }) => {
                engine.run(self.op, next, metal::clock::ticks_end, stop, log)
            }
            (Engine::Ring(_), _) => Err(Failure::Engine(ErrorKind::Unsupported.into())),
        }
    }

    pub(super) fn did(self, job: &Job, mut runs: Vec<Ran>) -> MemberRun {
        let passes = runs.len();
        if job.pass.is_some() {
            let longest = runs.iter().map(|ran| ran.operations).max();
            runs.retain(|ran| Some(ran.operations) == longest);
        }
        let Member { log, window, ahead, moved: bytes, notes, .. } = self;
        MemberRun { runs, passes, log, window, ahead, bytes, notes }
    }

    /// Bytes that are to have come from a device, or to have gone there.
    pub(super) fn asked(&self, job: &Job) -> u64 {
        match job.work.mode {
            Mode::Cached => 0,
            _ => self.moved + self.ahead,
        }
    }

    /// Demands that all that the member read is in the page cache.
    pub(super) fn demand_cached(&self, job: &Job) -> Result<()> {
        let region = &job.regions[0];
        self.plain.demand_cached(region.start, region.bytes)
    }

    /// Demands that the last writes are where the case says, before anything else is synced: a
    /// direct write leaves none in the page cache, a sync leaves none dirty.
    pub(super) fn demand_written_down(&self, job: &Job, watch: &Watch) -> Result<()> {
        if job.work.is_read() || job.work.mode == Mode::Buffered {
            return Ok(());
        }
        let offsets = self.last_blocks().into_iter().map(|(_, offset)| offset);
        demand_written_down(&self.plain.file, job.work, offsets, watch)
    }

    /// Has what was written go to the device, and checks the data.
    pub(super) fn finish(&self, job: &Job) -> Result<()> {
        if !job.work.is_read() {
            let synced = self.plain.file.sync_data();
            synced.context("syncing the written data")?;
        }
        self.check(job.work)
    }

    /// The blocks that were read or written last, and where.
    fn last_blocks(&self) -> Vec<(&[u8], u64)> {
        let (buffers, offset_of): (_, &dyn Fn(usize) -> Option<u64>) = match &self.engine {
            Engine::Psync(engine) => (engine.buffers(), &|index| engine.offset_of(index)),
            Engine::Ring(engine) => (engine.buffers(), &|index| engine.offset_of(index)),
        };
        let at = |index| Some((buffers.get(index), offset_of(index)?));
        (0..buffers.count()).filter_map(at).collect()
    }

    /// Demands that the last blocks hold what their file has there: what was prepared, or, for
    /// writes, that the file has what one of those has that went there.
    pub(super) fn check(&self, work: Work) -> Result<()> {
        let last = self.last_blocks();
        // If blocks in flight overlap, the last one is unknown.
        if !work.is_read() && work.is_ring() && self.places.count() < 2 * last.len() as u64 {
            return Ok(());
        }
        let mut found = vec![0_u8; usize::try_from(work.block)?];
        for (block, offset) in last.iter().take(CHECKED) {
            let is_right = match work.is_read() {
                true => file::right(block, self.contents, *offset),
                false => {
                    let moved = self.plain.file.read_at(&mut found, *offset);
                    let is_it = |(other, at): &(&[u8], u64)| at == offset && found == *other;
                    moved.context("reading back the written data")? == block.len()
                        && last.iter().any(is_it)
                }
            };
            if !is_right {
                let what = if work.is_read() { "read" } else { "written" };
                let reason = format!(
                    "the {} bytes at offset {offset} differ from what was {what} there",
                    block.len()
                );
                return Err(WrongResult(reason).into());
            }
        }
        Ok(())
    }
}

/// How many blocks a member has: one for each operation in flight, for passes some, and for writes
/// more, in which it goes round: what is written one after another is then nothing that could be
/// compressed.
fn blocks(job: &Job) -> Result<usize> {
    let work = job.work;
    let turns = match (work.is_read(), job.pass) {
        (true, Some(_)) => READ_INTO,
        (true, None) => 1,
        (false, _) => UNLIKE_BYTES.div_ceil(work.depth * work.block.max(KIB)),
    };
    Ok(usize::try_from(work.depth * turns)?)
}

fn opened(path: &Path, work: Work) -> Result<Opened> {
    match work.is_read() {
        true => file::open(path, work.mode),
        false => {
            let (direct, dsync) = (work.is_direct(), work.mode == Mode::Dsync);
            file::open_with(path, Way { write: true, direct, dsync, sync: false })
        }
    }
}

/// What helps where a ring is allowed and not made: its buffers are locked memory.
const NO_RING: &str = "io_uring cannot lock its buffers; raise ulimit -l, or use a smaller \
                       --set fs.io.depth";

/// Checks that the blocks written last at `offsets` are on the device, as the mode promises.
fn demand_written_down(
    plain: &File,
    work: Work,
    offsets: impl Iterator<Item = u64>,
    watch: &Watch,
) -> Result<()> {
    let page = base_page_bytes() as u64;
    let (mut cached, mut unwritten) = (0, 0);
    for offset in offsets {
        let start = offset / page * page;
        let found = residency(plain, start, offset + work.block - start);
        let found = found.context("reading the page-cache state of the written blocks")?;
        cached += found.cached;
        unwritten += found.dirty + found.writeback;
    }
    ensure!(
        work.mode != Mode::Direct || cached == 0,
        "cache: O_DIRECT is faked here: {cached} pages of the last written blocks are in the page \
         cache, {unwritten} not yet on the device"
    );
    // A journal of data has it on the device before its page is clean.
    let is_taken = watch.missing_share().is_some_and(|share| share <= SHARE_IGNORED);
    ensure!(
        unwritten == 0 || is_taken,
        "cache: the sync is faked here: {unwritten} pages of the last written and synced blocks \
         are not on the device"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::demand_written_down as demand;
    use crate::fs::io::workloads::one;
    use crate::fs::job::watch::{Below, Watch};
    use crate::fs::prelude::*;
    use laws::fs::Mode;
    use laws::fs::io::Op;
    use metal::fault::evict;

    #[test]
    fn writes_that_are_only_in_memory_are_no_direct_or_synced_ones() {
        let file = tempfile::tempfile().expect("a file");
        let told = |mode| {
            let work = one(Op::Write, Pattern::Random, mode, 4096);
            let mut watch = Watch::begin(work, Below::Device(None));
            watch.operations_are_over(16384);
            let offsets = (0..4).map(|index| index * 4096);
            demand(&file, work, offsets, &watch)
        };
        file.write_all_at(&[7; 16384], 0).expect("room");
        let error = told(Mode::Direct).expect_err("they are in the page cache");
        assert!(error.to_string().starts_with("cache: O_DIRECT"), "{error}");
        let in_memory = metal::storage::file_system(&file).expect("statfs").is_in_memory();
        let counts_dirty = metal::storage::residency(&file, 0, 4096).expect("counted").dirty > 0;
        if in_memory || !counts_dirty {
            return skips::part("kernel", "cachestat of files on a disk");
        }
        for mode in [Mode::Dsync, Mode::BufferedFdatasync] {
            told(mode).expect_err("nobody synced them");
        }
        file.sync_data().expect("syncs");
        told(Mode::Dsync).expect("they are on the device");
        assert!(told(Mode::Direct).is_err(), "they are in the page cache still");
        evict(&file, 0, 0).expect("evicts");
        told(Mode::Direct).expect("as if they had gone past it");
    }
}
