//! The operations of a case: by the measuring thread, or by several that begin at the same time.

use super::places::Places;
use super::workloads::{KIB, Sizes, file_of, least, most_written, region_of};
use super::written::{Seen, Watch, demand_written_down};
use crate::fs::file::{self, Mode as ReadMode, Opened};
use crate::fs::offered::LISTED;
use crate::fs::prelude::*;
use crate::fs::window::Window;
use laws::fs::io::{Mode, Work};
use metal::io::{Buffers, Latencies, Op, Psync, Ran, Stop, Uring, UringSetup};
use metal::memory::base_page_bytes;
use metal::place;
use metal::storage::Way;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Members begin so far ahead of the moment at which all are ready, in ns.
const LEAD_NS: f64 = 100e3;
/// Blocks whose contents are checked after a case.
const CHECKED: usize = 4;
/// Blocks that are written are so many bytes together at least before they come again: more than
/// what file systems and arrays compress at a time.
const UNLIKE_BYTES: u64 = 256 * KIB;

pub(super) struct Did {
    pub(super) ran: Ran,
    pub(super) log: Latencies,
    /// When its operations began, in cases that yield a rate.
    pub(super) window: Option<Window>,
    /// What was found out about its file.
    pub(super) notes: Vec<String>,
}

pub(super) struct Task<'round> {
    pub(super) dir: &'round Path,
    pub(super) work: Work,
    pub(super) sizes: Sizes,
    /// Of the round and the case: no two cases of a round go to the same places in the same order.
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) window_ns: f64,
    /// The window lasts until its rate has settled.
    pub(super) is_rate: bool,
    /// `major:minor` of the device below.
    pub(super) number: Option<&'round str>,
    /// Writes into the page cache do not stay there.
    pub(super) is_written_through: bool,
    /// The scheduler places the threads.
    pub(super) is_free: bool,
}

/// Where the threads of a case meet. It is no `bench::measure::Crew`, whose members spin at their
/// gates and all work until the last is past the end: here each ends with its own window, and a
/// thread that spun meanwhile would take the CPU from what the kernel does for the others.
struct Meeting<'round> {
    ready: Barrier,
    start: AtomicU64,
    failed: AtomicBool,
    /// Bytes that all have moved.
    moved: AtomicU64,
    watch: Mutex<Option<Watch<'round>>>,
}

impl<'round> Task<'round> {
    /// Runs the case by the calling thread, and says what the kernel and the device did for it.
    pub(super) fn alone(&self) -> Result<(Vec<Did>, Seen)> {
        let mut member = Member::enlist(self, 0)?;
        let mut watch = Watch::begin(self.work, self.number);
        let ran = member.run(self, self.clock.start())?;
        watch.operations_are_over(ran.bytes);
        member.demand_written_down(self.work, &watch)?;
        member.finish(self.work)?;
        Ok((vec![member.did(ran)], watch.end(ran.bytes)))
    }

    /// Runs the case by a thread for each of `cpus`.
    pub(super) fn together(&self, cpus: &[usize]) -> Result<(Vec<Did>, Seen)> {
        let meeting = Meeting {
            ready: Barrier::new(cpus.len()),
            start: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            watch: Mutex::new(None),
        };
        let outcomes: Vec<Result<Did>> = thread::scope(|scope| {
            let meeting = &meeting;
            let threads: Vec<_> = cpus
                .iter()
                .enumerate()
                .map(|(index, cpu)| scope.spawn(move || self.member(index as u64, *cpu, meeting)))
                .collect();
            let join = |thread: thread::ScopedJoinHandle<'_, Result<Did>>| {
                let joined = thread.join();
                joined.unwrap_or_else(|_| Err(anyhow!("a thread of the case panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        let (did, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        // The reason of the one that failed, and not that the others did not begin.
        let failed = failed.into_iter().filter_map(Result::err);
        if let Some(error) = failed.min_by_key(|error| error.is::<NotBegun>()) {
            return Err(error);
        }
        let watch = meeting.watch.into_inner();
        let watch = watch.unwrap_or_else(PoisonError::into_inner);
        let watch = watch.context("no thread reached the start")?;
        Ok((did.into_iter().flatten().collect(), watch.end(meeting.moved.into_inner())))
    }

    fn member(&self, index: u64, cpu: usize, meeting: &Meeting<'round>) -> Result<Did> {
        let placed = match self.is_free {
            true => Ok(()),
            false => place::pin(cpu).map(drop).with_context(|| format!("pinning to CPU {cpu}")),
        };
        let enlisted = placed.and_then(|()| Member::enlist(self, index));
        if enlisted.is_err() {
            meeting.failed.store(true, Ordering::Release);
        }
        // All come here, whatever they met; the last sets the start.
        if meeting.ready.wait().is_leader() {
            *meeting.watch() = Some(Watch::begin(self.work, self.number));
            let start = self.clock.start() + self.clock.ticks(LEAD_NS);
            meeting.start.store(start, Ordering::Release);
        }
        meeting.ready.wait();
        let mut member = enlisted?;
        if meeting.failed.load(Ordering::Acquire) {
            return Err(NotBegun.into());
        }
        let start = meeting.start.load(Ordering::Acquire);
        while self.clock.end() < start {
            std::hint::spin_loop();
        }
        let ran = member.run(self, start);
        let bytes = ran.as_ref().map_or(0, |ran| ran.bytes);
        meeting.moved.fetch_add(bytes, Ordering::AcqRel);
        // What comes now would be in the way of those that still work; and the kernel's workers go
        // with the thread that they work for.
        if meeting.ready.wait().is_leader()
            && let Some(watch) = meeting.watch().as_mut()
        {
            watch.operations_are_over(meeting.moved.load(Ordering::Acquire));
        }
        meeting.ready.wait();
        let written = match meeting.watch().as_ref() {
            Some(watch) => member.demand_written_down(self.work, watch),
            None => Ok(()),
        };
        // Only then is anything synced, or read back into memory.
        meeting.ready.wait();
        let ran = ran?;
        written?;
        member.finish(self.work)?;
        Ok(member.did(ran))
    }
}

impl<'round> Meeting<'round> {
    fn watch(&self) -> MutexGuard<'_, Option<Watch<'round>>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another member failed before the start.
#[derive(Debug, thiserror::Error)]
#[error("another thread of the case did not reach the start")]
struct NotBegun;

enum Engine {
    Psync(Psync),
    Ring(Box<Uring>),
}

/// A thread with its file, its blocks and the places it goes to.
struct Member {
    engine: Engine,
    places: Places,
    op: Op,
    /// Seed of the file that it reads.
    seed: u64,
    /// The file through the page cache.
    plain: Opened,
    log: Latencies,
    window: Option<Window>,
    notes: Vec<String>,
}

impl Member {
    /// Opens the file, brings it into the state that the case asks for, and makes everything that
    /// the operations need.
    fn enlist(task: &Task, index: u64) -> Result<Member> {
        let work = task.work;
        let made = file_of(work, index, task.sizes.size);
        let path = task.dir.join(&made.name);
        let opened = opened(&path, work)?;
        ensure!(
            work.block.is_multiple_of(opened.offset_alignment),
            "O_DIRECT needs multiples of {} bytes here",
            opened.offset_alignment
        );
        let plain = file::open(&path, ReadMode::Cached)?;
        let (start, bytes) = region_of(work, index, task.sizes);
        match work.mode {
            Mode::Cold => opened.make_cold(start, bytes)?,
            // Each write would have to evict the file's cached pages.
            Mode::Direct => plain.make_cold(start, bytes)?,
            // Partial pages would have to be read before they are written.
            _ => plain.warm(start, bytes)?,
        }
        let seed = task.seed ^ (index << 32);
        let contents = file::seed_of(&path);
        let buffers = Buffers::new(blocks(work)?, usize::try_from(work.block)?, contents ^ seed)
            .context("memory for the blocks")?;
        let engine = match work.is_ring() {
            false => Engine::Psync(Psync::new(opened.file, buffers)),
            true => {
                let depth = usize::try_from(work.depth)?;
                let ring = Uring::with_depth(opened.file, buffers, depth, UringSetup::REGISTERED);
                Engine::Ring(Box::new(ring.context(NO_RING)?))
            }
        };
        Ok(Member {
            engine,
            places: Places::new(work, start, bytes, seed)?,
            op: match (work.is_read(), work.mode) {
                (true, _) => Op::Read,
                (false, Mode::BufferedFdatasync) => Op::WriteSynced,
                (false, _) => Op::Write,
            },
            seed: contents,
            plain,
            log: Latencies::new(LISTED),
            window: task.is_rate.then(|| {
                let is_alone = work.threads == 1;
                Window::new(task.window_ns as u64, least(work), work.depth, is_alone)
            }),
            notes: opened.notes,
        })
    }

    fn run(&mut self, task: &Task, start: u64) -> Result<Ran> {
        let (work, clock) = (task.work, task.clock);
        let at_least = least(work);
        let page = base_page_bytes() as u64;
        let at_most = match (work.is_read(), work.mode) {
            (false, mode) if mode != Mode::Buffered || task.is_written_through => {
                most_written(work, task.sizes.written) / work.threads / work.block.max(page)
            }
            _ => u64::MAX,
        };
        let most_ns = self.window.as_ref().map(|window| window.most_ns as f64);
        let stop = Stop {
            until_tick: start + clock.ticks(most_ns.unwrap_or(task.window_ns)),
            at_least,
            at_most: at_most.max(at_least),
        };
        let (places, log, window) = (&mut self.places, &mut self.log, &mut self.window);
        let next = || match window {
            None => places.next(),
            Some(window) => {
                let ns = clock.between_ns(start, clock.end()) as u64;
                window.begins(ns).then(|| places.next()).flatten()
            }
        };
        // One instance for each clock and engine: nothing is chosen inside.
        let ran = match (&mut self.engine, clock) {
            (Engine::Psync(engine), Clock::Monotonic) => {
                engine.run(self.op, next, metal::clock::monotonic_ns, stop, log)
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
            ran.operations > 0,
            "cache: all offsets were used up before the first operation; use a larger file with \
             --set fs.io.size=SIZE"
        );
        Ok(ran)
    }

    fn did(self, ran: Ran) -> Did {
        Did { ran, log: self.log, window: self.window, notes: self.notes }
    }

    /// Demands that the last writes are where the case says, before anything else is synced.
    fn demand_written_down(&self, work: Work, watch: &Watch) -> Result<()> {
        if work.is_read() || work.mode == Mode::Buffered {
            return Ok(());
        }
        let offsets = self.last_blocks().into_iter().map(|(_, offset)| offset);
        demand_written_down(&self.plain.file, work, offsets, watch)
    }

    /// Has what was written go to the device, and checks the data.
    fn finish(&self, work: Work) -> Result<()> {
        if !work.is_read() {
            let synced = self.plain.file.sync_data();
            synced.context("syncing the written data")?;
        }
        self.check(work)
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
    fn check(&self, work: Work) -> Result<()> {
        let last = self.last_blocks();
        // If blocks in flight overlap, the last one is unknown.
        if !work.is_read() && work.is_ring() && self.places.count() < 2 * last.len() as u64 {
            return Ok(());
        }
        let mut found = vec![0_u8; usize::try_from(work.block)?];
        for (block, offset) in last.iter().take(CHECKED) {
            let is_right = match work.is_read() {
                true => file::right(block, self.seed, *offset),
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

/// How many blocks a thread has: one for each operation in flight, and for writes more, in which it
/// goes round: what is written one after another is then nothing that could be compressed.
fn blocks(work: Work) -> Result<usize> {
    let turns = match work.is_read() {
        true => 1,
        false => UNLIKE_BYTES.div_ceil(work.depth * work.block.max(KIB)),
    };
    Ok(usize::try_from(work.depth * turns)?)
}

fn opened(path: &Path, work: Work) -> Result<Opened> {
    let (direct, dsync) = (work.is_direct(), work.mode == Mode::Dsync);
    let read = match work.mode {
        _ if !work.is_read() => {
            return file::open_with(path, Way { write: true, direct, dsync, sync: false });
        }
        Mode::Direct => ReadMode::Direct,
        Mode::Cold => ReadMode::Cold,
        _ => ReadMode::Cached,
    };
    file::open(path, read)
}

/// What helps where a ring is allowed and not made: its buffers are locked memory.
const NO_RING: &str = "io_uring cannot lock its buffers; raise ulimit -l, or use a smaller \
                       --set fs.io.depth";

/// CPUs for so many threads: one each as far as they go round.
pub(super) fn cpus_for(threads: u64, cpus: &[usize]) -> Result<Vec<usize>> {
    ensure!(!cpus.is_empty(), "the round has no CPU");
    let count = usize::try_from(threads)?;
    Ok(cpus.iter().copied().cycle().take(count).collect())
}
