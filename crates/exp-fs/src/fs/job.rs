//! A job: operations on prepared files, one after another or many at a time, by one member or by
//! several that begin together; what the kernel and the device counted of them; their figures.
//!
//! fs.read, fs.io and fs.remote are what they ask of jobs.

mod account;
mod competing;
mod flushes;
mod limit;
mod member;
mod places;
mod rates;
mod server;
mod together;
mod watch;

pub(super) use account::Account;
pub(super) use competing::{As, READS_LEAST, ReaderWindow, Shared, WARM_READS, WINDOW_MOST_NS};
pub(super) use flushes::{BESIDE, Count, Counted};
pub(super) use limit::{OwnGroup, in_memory};
pub(super) use watch::Below;

use super::file::{BLOCK_BYTES, WARM_TRIES};
use super::io::workloads::one;
use super::window::Window;
use crate::fs::prelude::*;
use laws::fs::Mode;
use laws::fs::io::{Op, Work};
use laws::fs::read::{CACHED_BYTES, Read};
use member::Member;
use metal::io::{Latencies, Ran};
use watch::{Seen, Watch};

/// Operations of a pass over a file that is larger.
const PASS_BLOCKS: u64 = 4096;
/// What needs no eviction is passed over so often that a run has at least so many operations.
const RUN_BLOCKS: u64 = 1024;
/// Operations of a job of passes, at least, however slow the device.
pub(super) const BLOCKS_MIN: u64 = 8;

/// What is done, where, and for how long.
pub(super) struct Job<'round> {
    pub(super) work: Work,
    /// Where each member works.
    pub(super) regions: Vec<Region>,
    /// Operations of a pass: passes follow each other to the end of the window, and a cold file is
    /// evicted before each. Without it one run lasts to the end of the window.
    pub(super) pass: Option<u64>,
    /// Of the round and the case: no two cases of a round go to the same places in the same order.
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) window_ns: u64,
    /// The window lasts until its rate has settled.
    pub(super) is_rate: bool,
    /// Operations of a member, at least and at most.
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) below: Below<'round>,
    /// Where several members run; they are not pinned where the scheduler places them.
    pub(super) cpus: Vec<usize>,
    pub(super) is_free: bool,
}

/// The part of a file in which a member works, in bytes.
pub(super) struct Region {
    pub(super) path: PathBuf,
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Where operations in order begin; none: drawn.
    pub(super) first: Option<u64>,
}

/// What a member did.
struct MemberRun {
    /// Its runs; of passes those that were done as a whole, or the part of the only one.
    runs: Vec<Ran>,
    passes: usize,
    log: Latencies,
    /// When its operations began, in cases that yield a rate.
    window: Option<Window>,
    /// Bytes that the kernel read ahead without a request.
    ahead: u64,
    bytes: u64,
    /// What was found out about its file.
    notes: Vec<String>,
}

/// What all members did, and what the kernel and the device counted.
pub(super) struct JobRun {
    members: Vec<MemberRun>,
    pub(super) seen: Seen,
}

impl<'round> Job<'round> {
    /// A file read in blocks of 4 KiB by one member, in passes over `read.size` bytes. Of a cached
    /// file what can be in memory is read: all of a small one, another part of a large one in each
    /// round.
    pub(super) fn passes(
        bench: &Bench,
        case: &CaseId,
        read: &Read,
        path: PathBuf,
        window_ns: u64,
        below: Below<'round>,
    ) -> Job<'round> {
        let (order, Read { pattern, mode, .. }) = (bench.order(), read);
        let (region, pass) = region_of(path, read, order.round);
        Job {
            work: one(Op::Read, *pattern, *mode, BLOCK_BYTES as u64),
            regions: vec![region],
            pass: Some(pass),
            seed: super::file::order_seed(order.seed, case),
            clock: order.clock(),
            window_ns,
            is_rate: false,
            least: BLOCKS_MIN,
            most: u64::MAX,
            below,
            cpus: Vec::new(),
            is_free: true,
        }
    }

    /// Runs the job by the calling thread; of a cached file again if the kernel reclaimed some of
    /// its pages meanwhile.
    pub(super) fn alone(&self) -> Result<JobRun> {
        let mut tries = 1..=WARM_TRIES;
        loop {
            let mut member = Member::prepare(self, 0)?;
            let mut watch = Watch::begin(self.work, self.below);
            let runs = member.run(self, self.clock.start())?;
            watch.operations_are_over(member.asked(self));
            member.demand_written_down(self, &watch)?;
            member.finish(self)?;
            let stayed = match self.work.mode {
                Mode::Cached => member.demand_cached(self),
                _ => Ok(()),
            };
            if stayed.is_ok() || tries.next() == Some(WARM_TRIES) {
                stayed?;
                let seen = watch.end(member.asked(self));
                return Ok(JobRun { members: vec![member.did(self, runs)], seen });
            }
        }
    }
}

impl JobRun {
    /// Bytes that all members moved.
    pub(super) fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).sum()
    }
}

/// The part of a file that a round reads, and the blocks of a pass over it.
fn region_of(path: PathBuf, read: &Read, round: u32) -> (Region, u64) {
    let (mode, bytes, block) = (read.mode, read.size, BLOCK_BYTES as u64);
    let is_cached = mode == Mode::Cached;
    let most = if is_cached { CACHED_BYTES / block } else { PASS_BLOCKS };
    let pass = most.min(bytes / block).max(1);
    let first = begin(round, mode, bytes / block / pass) * pass * block;
    let (start, bytes) = if is_cached { (first, pass * block) } else { (0, bytes) };
    (Region { path, start, bytes, first: Some(first) }, pass)
}

/// At which of so many places a case begins: rounds that follow one another are far apart, and so
/// are the modes of one that a device answers.
fn begin(round: u32, mode: Mode, places: u64) -> u64 {
    let places = places.max(1);
    // The golden section: no two of few rounds meet.
    let turns = f64::from(round.saturating_sub(1)) * 0.618_033_988_749_895;
    let of_round = (turns.fract() * places as f64) as u64;
    let of_device = laws::fs::READS.into_iter().filter(|mode| *mode != Mode::Cached);
    let modes = of_device.clone().count() as u64;
    let rank = of_device.take_while(|one| *one != mode).count() as u64;
    (of_round + rank * places / modes) % places
}

#[cfg(test)]
mod tests;
