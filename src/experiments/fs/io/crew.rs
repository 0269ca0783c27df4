//! The operations of a case: by the measuring thread, or by several that begin at the same time.

use super::cases::{MIB, Sizes, Work, file_of, region_of};
use super::places::Places;
use crate::experiments::fs::file::{self, Account, Mode, Moved, Opened};
use crate::measure::{Bench, Clock, WrongResult};
use anyhow::{Context, Result, anyhow, bail, ensure};
use metal::io::{Buffers, Latencies, Op, Psync, Ran, Stop, Uring, UringSetup};
use metal::memory::base_page_bytes;
use metal::place;
use metal::storage::{Way, residency};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

/// Latencies that are kept as they are; all are counted.
const LISTED: usize = 20_000;
/// Members begin so far ahead of the moment at which all are ready, in ns.
const LEAD_NS: f64 = 100e3;
/// Blocks whose contents are checked after a case.
const CHECKED: usize = 4;

/// What one thread did.
pub(super) struct Did {
    pub(super) ran: Ran,
    pub(super) log: Latencies,
    /// CPU time of the kernel's workers for its ring, in ns; `None` where the kernel does not tell.
    pub(super) workers_ns: Option<u64>,
    /// What was found out about its file.
    pub(super) notes: Vec<String>,
}

/// What all threads have in common.
pub(super) struct Task<'round> {
    pub(super) dir: &'round Path,
    pub(super) work: Work,
    pub(super) sizes: Sizes,
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) window_ns: f64,
    /// `major:minor` of the device below.
    pub(super) number: Option<&'round str>,
}

/// Where threads wait for each other.
struct Meeting {
    ready: Barrier,
    start: AtomicU64,
    failed: AtomicBool,
    account: Mutex<Option<Account>>,
}

impl Task<'_> {
    /// The clock in which several CPUs may begin together.
    pub(super) fn clock(bench: &mut Bench, cpus: &[usize], window_ns: f64) -> Result<Clock> {
        let mut clock = bench.clock();
        for cpu in cpus.iter().filter(|cpu| **cpu != cpus[0]) {
            if !bench.offset(cpus[0], *cpu)?.allows(window_ns) {
                clock = Clock::Monotonic;
            }
        }
        Ok(clock)
    }

    /// Runs the case by the calling thread, and says where its bytes came from or went to.
    pub(super) fn alone(&self) -> Result<(Vec<Did>, Moved)> {
        let mut member = Member::enlist(self, 0)?;
        let account = self.account();
        let did = member.run(self, self.clock.start())?;
        member.finish(self.work)?;
        let asked = did.ran.bytes;
        Ok((vec![did], account.end(asked)))
    }

    fn account(&self) -> Account {
        match self.work.is_read {
            true => Account::begin(self.number),
            false => Account::begin_writes(self.number),
        }
    }

    /// Runs the case by a thread for each of `cpus`.
    ///
    /// # Errors
    /// The first of any member: none works then.
    pub(super) fn together(&self, cpus: &[usize]) -> Result<(Vec<Did>, Moved)> {
        let meeting = Meeting {
            ready: Barrier::new(cpus.len()),
            start: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            account: Mutex::new(None),
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
        // The reason of the one that failed, and not that the others did not begin.
        let (mut did, mut errors) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome {
                Ok(one) => did.push(one),
                Err(error) => errors.push(error),
            }
        }
        let told = errors
            .iter()
            .position(|error| !error.is::<NotBegun>())
            .unwrap_or(0);
        if !errors.is_empty() {
            return Err(errors.swap_remove(told));
        }
        let account = meeting.account.into_inner();
        let account = account.unwrap_or_else(PoisonError::into_inner);
        let asked = did.iter().map(|did| did.ran.bytes).sum();
        let account = account.context("no thread came to the start")?;
        Ok((did, account.end(asked)))
    }

    fn member(&self, index: u64, cpu: usize, meeting: &Meeting) -> Result<Did> {
        let enlisted = place::pin(cpu)
            .with_context(|| format!("pinning to CPU {cpu}"))
            .and_then(|_| Member::enlist(self, index));
        if enlisted.is_err() {
            meeting.failed.store(true, Ordering::Release);
        }
        // All come here, whatever they met; the last sets the start.
        if meeting.ready.wait().is_leader() {
            let mut account = meeting
                .account
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *account = Some(self.account());
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
        let did = member.run(self, start);
        // What comes now would be in the way of those that still work.
        meeting.ready.wait();
        let did = did?;
        member.finish(self.work)?;
        Ok(did)
    }
}

/// Another member failed before the start.
#[derive(Debug, thiserror::Error)]
#[error("another thread of the case did not come to the start")]
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
    notes: Vec<String>,
}

impl Member {
    /// Opens the file, brings it into the state that the case asks for, and makes everything that the
    /// operations need.
    fn enlist(task: &Task, index: u64) -> Result<Member> {
        let work = task.work;
        let made = file_of(work, index, task.sizes.size);
        let path = task.dir.join(&made.name);
        let opened = opened(&path, work)?;
        ensure!(
            work.block.is_multiple_of(opened.offset_alignment),
            "O_DIRECT moves multiples of {} bytes here",
            opened.offset_alignment
        );
        let plain = file::open(&path, Mode::Cached)?;
        let (start, bytes) = region_of(work, index, task.sizes);
        match work.mode {
            "cold" => opened.make_cold(start, bytes)?,
            // Pages of it that are in memory would have to be thrown out by each write.
            "direct" => plain.make_cold(start, bytes)?,
            // Partial pages would have to be read before they are written.
            _ => warm(&plain, start, bytes)?,
        }
        let blocks = usize::try_from(work.depth)?;
        let seed = task.seed ^ (index << 32);
        let buffers = Buffers::new(blocks, usize::try_from(work.block)?, seed)
            .context("memory for the blocks")?;
        let engine = match work.is_ring {
            false => Engine::Psync(Psync::new(opened.file, buffers)),
            true => Engine::Ring(Box::new(
                Uring::new(opened.file, buffers, UringSetup::REGISTERED).map_err(forbidden)?,
            )),
        };
        Ok(Member {
            engine,
            places: Places::new(work, start, bytes, seed)?,
            op: match (work.is_read, work.mode) {
                (true, _) => Op::Read,
                (false, "buffered_fdatasync") => Op::WriteSynced,
                (false, _) => Op::Write,
            },
            seed: made.seed,
            plain,
            notes: opened.notes,
        })
    }

    fn run(&mut self, task: &Task, start: u64) -> Result<Did> {
        let (work, clock) = (task.work, task.clock);
        let at_least = work.least();
        let page = base_page_bytes() as u64;
        let at_most = match (work.is_read, work.mode) {
            (false, mode) if mode != "buffered" => {
                work.most_written(task.sizes.written) / work.threads / work.block.max(page)
            }
            _ => u64::MAX,
        };
        let stop = Stop {
            until_tick: start + clock.ticks(task.window_ns),
            at_least,
            at_most: at_most.max(at_least),
        };
        let mut log = Latencies::new(LISTED);
        let places = &mut self.places;
        let before_ns = workers_ns();
        let next = || places.next();
        // One instance for each clock and engine: nothing is chosen inside.
        let ran = match (&mut self.engine, clock) {
            (Engine::Psync(engine), Clock::Monotonic) => {
                engine.run(self.op, next, metal::clock::monotonic_ns, stop, &mut log)
            }
            (Engine::Psync(engine), Clock::Counter { .. }) => {
                engine.run(self.op, next, metal::clock::ticks_fenced, stop, &mut log)
            }
            (Engine::Ring(engine), Clock::Monotonic) => {
                engine.run(self.op, next, metal::clock::monotonic_ns, stop, &mut log)
            }
            (Engine::Ring(engine), Clock::Counter { .. }) => {
                engine.run(self.op, next, metal::clock::ticks_fenced, stop, &mut log)
            }
        };
        let ran = ran.map_err(anyhow::Error::new)?;
        let workers_ns = workers_ns()
            .zip(before_ns)
            .map(|(now, then)| now.saturating_sub(then));
        ensure!(
            ran.operations > 0 && log.total() > 0,
            "cache: no operation was begun before the places were used up: a larger file with --set \
             fs.io.size=SIZE"
        );
        Ok(Did {
            ran,
            log,
            workers_ns: if work.is_ring { workers_ns } else { Some(0) },
            notes: std::mem::take(&mut self.notes),
        })
    }

    /// Has what was written go to the device, and checks the data.
    fn finish(&self, work: Work) -> Result<()> {
        if !work.is_read {
            let synced = self.plain.file.sync_data();
            synced.context("syncing what was written")?;
        }
        self.check(work)
    }

    /// Demands that the last blocks hold what their file has there: what was prepared, or, for writes,
    /// that the file has what they hold.
    fn check(&self, work: Work) -> Result<()> {
        let (buffers, offset_of): (&Buffers, &dyn Fn(usize) -> Option<u64>) = match &self.engine {
            Engine::Psync(engine) => (engine.buffers(), &|index| engine.offset_of(index)),
            Engine::Ring(engine) => (engine.buffers(), &|index| engine.offset_of(index)),
        };
        // Where blocks in flight may meet, nobody knows which came last.
        if !work.is_read && self.places.count() < 2 * work.depth {
            return Ok(());
        }
        let mut found = vec![0_u8; buffers.block_bytes()];
        for index in 0..buffers.count().min(CHECKED) {
            let Some(offset) = offset_of(index) else {
                continue;
            };
            let block = buffers.get(index);
            let is_right = match work.is_read {
                true => file::right(block, self.seed, offset),
                false => {
                    let moved = self.plain.file.read_at(&mut found, offset);
                    moved.context("reading what was written")? == block.len() && found == block
                }
            };
            if !is_right {
                let what = if work.is_read { "read" } else { "written" };
                let reason = format!(
                    "the {} bytes at offset {offset} are not what was {what} there",
                    block.len()
                );
                return Err(WrongResult(reason).into());
            }
        }
        Ok(())
    }
}

fn opened(path: &Path, work: Work) -> Result<Opened> {
    match (work.is_read, work.mode) {
        (true, mode) => {
            let mode = Mode::of(mode).with_context(|| format!("no way to read: {mode}"))?;
            file::open(path, mode)
        }
        (false, mode) => file::open_with(
            path,
            Way {
                write: true,
                direct: mode == "direct",
                dsync: mode == "dsync",
                sync: false,
            },
        ),
    }
}

/// Brings a part of a file into the page cache, and demands that it stays there.
fn warm(opened: &Opened, start: u64, bytes: u64) -> Result<()> {
    let pages = bytes.div_ceil(base_page_bytes() as u64);
    let resident = || residency(&opened.file, start, bytes).context("asking what is in memory");
    if resident()?.cached >= pages {
        return Ok(());
    }
    let mut piece = vec![0_u8; usize::try_from(bytes.min(MIB))?];
    let mut done = 0;
    while done < bytes {
        let now = (bytes - done).min(piece.len() as u64) as usize;
        let moved = opened.file.read_at(&mut piece[..now], start + done);
        let moved = moved.context("reading")?;
        ensure!(moved > 0, "the file has become shorter");
        done += moved as u64;
    }
    let cached = resident()?.cached;
    ensure!(
        cached >= pages,
        "of {pages} pages only {cached} are in the page cache after they were read"
    );
    Ok(())
}

/// Why there is no ring, and what helps.
fn forbidden(error: std::io::Error) -> anyhow::Error {
    let way_out = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "io_uring is forbidden here: kernel.io_uring_disabled (sysctl), or a container's seccomp \
             profile that leaves io_uring_setup out; --set fs.io.engine=psync goes without"
        }
        std::io::ErrorKind::OutOfMemory => {
            "io_uring may not lock the blocks: ulimit -l, or a smaller --set fs.io.depth"
        }
        std::io::ErrorKind::Unsupported => {
            "this kernel has no io_uring (Linux 5.1): --set fs.io.engine=psync goes without"
        }
        _ => "making a ring",
    };
    anyhow::Error::new(error).context(way_out)
}

/// CPU time so far of the kernel's workers for rings of the calling thread, which bear its number in
/// their names (`iou-wrk-NUMBER`), in ns; `None` where the kernel does not tell.
fn workers_ns() -> Option<u64> {
    let own = std::fs::read_link("/proc/thread-self").ok()?;
    let name = format!("iou-wrk-{}", own.file_name()?.to_str()?);
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let dir = task.path();
        let comm = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
        if comm.trim() == name {
            let stat = std::fs::read_to_string(dir.join("schedstat")).ok()?;
            let ns: u64 = stat.split_ascii_whitespace().next()?.parse().ok()?;
            total += ns;
        }
    }
    Some(total)
}

/// CPUs for so many threads: one each as far as they go round.
pub(super) fn cpus_for(threads: u64, cpus: &[usize]) -> Result<Vec<usize>> {
    if cpus.is_empty() {
        bail!("the round has no CPU");
    }
    let count = usize::try_from(threads)?;
    Ok(cpus.iter().copied().cycle().take(count).collect())
}
