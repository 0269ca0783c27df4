//! One file that grows, and its pages in memory.
//!
//! Its length is always the size that is measured: what lies behind would be read ahead, and take
//! memory.

mod timed;

use crate::fs::file::{self, Mode, Opened};
use crate::fs::prelude::*;
use bench::prepared;
use metal::memory::base_page_bytes;
use metal::storage::residency;
use std::fs::OpenOptions;
use std::io::ErrorKind;

pub(super) const BLOCK_BYTES: u64 = prepared::BLOCK_BYTES as u64;
/// Name of the file in the run's directory.
const NAME: &str = "fs-cache-size";
/// It is written in pieces of so many bytes …
const PIECE_BYTES: u64 = 1 << 20;
/// … and synced after so many: few dirty pages stand in the way of a limit.
const SYNC_BYTES: u64 = 16 << 20;
/// A pass is timed in so many stretches.
const STRETCHES: u64 = 128;

/// The file: every byte is written once.
pub(super) struct Grown {
    path: PathBuf,
    file: File,
    seed: u64,
    pub(super) bytes: u64,
}

pub(super) struct Pass {
    /// Time of a block in each stretch, in ns.
    pub(super) stretches: Vec<f64>,
    /// Bytes read, and the time that took in all, in ns.
    pub(super) bytes: u64,
    pub(super) ns: f64,
}

impl Pass {
    pub(super) fn block_ns(&self) -> f64 {
        self.ns * BLOCK_BYTES as f64 / self.bytes as f64
    }
}

impl Grown {
    /// An empty file in the run's directory, where `most` bytes must have room; goes with its
    /// guard. One that an earlier worker of the run left when it was killed makes room for it.
    pub(super) fn new(dir: &Path, seed: u64, most: u64) -> Result<Grown> {
        let way_out = "smaller files with --set fs.cache_size.size";
        let path = dir.join(NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("removing {}", path.display()))?,
        }
        prepared::demand_space(dir, most, way_out)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        ensure!(file.metadata()?.is_file(), "not a regular file");
        Ok(Grown { path, file, seed, bytes: 0 })
    }

    /// Has the file grow to `bytes`, or cuts it off there, on its device in written extents when
    /// this returns. A file that goes on behind what is read would be read ahead there.
    pub(super) fn resize(&mut self, bytes: u64, until: Instant, bench: &mut Bench) -> Result<()> {
        if bytes < self.bytes {
            self.file.set_len(bytes).context("truncating the file")?;
            self.bytes = bytes;
            self.file.sync_data().context("syncing")?;
        }
        let mut piece = vec![0_u8; PIECE_BYTES as usize];
        while self.bytes < bytes {
            let now = (bytes - self.bytes).min(PIECE_BYTES - self.bytes % PIECE_BYTES);
            let data = &mut piece[..now as usize];
            prepared::fill(data, self.seed, self.bytes);
            self.file.write_all_at(data, self.bytes).context("writing")?;
            self.bytes += now;
            if self.bytes.is_multiple_of(SYNC_BYTES) || self.bytes == bytes {
                self.file.sync_data().context("syncing")?;
                bench.declare(Declared::Alive);
                ensure!(self.bytes == bytes || Instant::now() < until, NO_TIME);
            }
        }
        prepared::demand_written_extents(&self.file, self.bytes)?;
        Ok(())
    }

    /// The file opened anew, so that nothing that the kernel learnt of earlier reads counts.
    pub(super) fn opened(&self) -> Result<Opened> {
        file::open(&self.path, Mode::Cached)
    }

    /// Share of the first `bytes` that are in memory.
    pub(super) fn residency(&self, bytes: u64) -> Result<f64> {
        let found =
            residency(&self.file, 0, bytes).context("reading the file's page-cache state")?;
        Ok(found.cached as f64 / bytes.div_ceil(base_page_bytes() as u64) as f64)
    }

    /// Reads the first `bytes` block by block in their order, for at most `most_ns`.
    pub(super) fn pass(
        &self,
        opened: &Opened,
        bytes: u64,
        limits: Limits,
        bench: &mut Bench,
    ) -> Result<Pass> {
        let clock: Clock = bench.order().clock();
        let stretch = bytes.div_ceil(STRETCHES).next_multiple_of(BLOCK_BYTES).max(16 * BLOCK_BYTES);
        let mut block = vec![0_u8; BLOCK_BYTES as usize];
        let mut pass =
            Pass { stretches: Vec::with_capacity(STRETCHES as usize), bytes: 0, ns: 0.0 };
        while pass.bytes < bytes && pass.ns < limits.most_ns {
            let end = (pass.bytes + stretch).min(bytes);
            let first = pass.bytes;
            let begin = clock.start();
            pass.bytes = timed::stretch(&opened.file, &mut block, first, end)?;
            let ns = clock.between_ns(begin, clock.end());
            pass.ns += ns;
            pass.stretches.push(ns * BLOCK_BYTES as f64 / (pass.bytes - first) as f64);
            bench.declare(Declared::Alive);
            ensure!(Instant::now() < limits.until, NO_TIME);
        }
        ensure!(
            prepared::right(&block, self.seed, pass.bytes - BLOCK_BYTES),
            "the file contents differ from what was written"
        );
        Ok(pass)
    }
}

impl Drop for Grown {
    /// Removes the file, and its pages from memory with it.
    fn drop(&mut self) {
        // What stays goes with the run's directory.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// When a pass ends before the file does.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Time that it may take, in ns: what was read by then counts.
    pub(super) most_ns: f64,
    /// The sweep's own end: what was read by then does not count.
    pub(super) until: Instant,
}

/// Why a size has no figure that came too late.
const NO_TIME: &str = "the sweep ran out of time because the device is slower than planned; allow \
                       more with --set fs.cache_size.time=TIME, or fewer sizes with --set \
                       fs.cache_size.size";

#[cfg(test)]
mod tests {
    use super::Grown;

    #[test]
    fn a_file_goes_with_its_guard_and_what_a_killed_worker_left_stands_in_nobody_s_way() {
        let dir = tempfile::tempdir().expect("a directory");
        let left = || std::fs::read_dir(dir.path()).expect("is there").count();
        let killed = Grown::new(dir.path(), 1, 4096).expect("made");
        std::fs::write(&killed.path, "x").expect("written");
        std::mem::forget(killed);
        assert_eq!(left(), 1);
        let next = Grown::new(dir.path(), 2, 4096).expect("made again");
        assert_eq!((left(), next.file.metadata().expect("told").len()), (1, 0));
        drop(next);
        assert_eq!(left(), 0);
    }
}
