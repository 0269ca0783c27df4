//! Files of the family: prepared data, the ways to open it, and what of it is in memory.
//!
//! Nothing about a file is taken for granted. O_DIRECT is asked for (statx), set (F_GETFL) and
//! tried: a read past the page cache leaves nothing in it. Cold is what cachestat or mincore find
//! nowhere in memory.

mod ground;

pub(super) use ground::{
    Ground, JOURNAL_AT, Kind, below, ground, ground_facts, ground_note, only_memory,
};

use crate::fs::prelude::*;
use metal::fault::{evict, random_readahead};
use metal::memory::{Mapping, Pages, base_page_bytes};
use metal::storage::{self, DirectTold, Residency, Way, direct_told, file_system, residency};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(super) use bench::prepared::{BLOCK_BYTES, right, write};
pub(super) use laws::fs::Mode;

/// Pages that are on their way into memory cannot be evicted. The wait for them ends when their
/// number has not changed for this long: a read-ahead of 8 MiB below a limit of 20 MB/s takes 0.42
/// s …
const EVICTION_STILL: Duration = Duration::from_secs(1);
/// … and no longer than this: a window of readahead of 8 MiB from a device that gives 4 MB/s.
const EVICTION_MOST: Duration = Duration::from_secs(2);
/// … and so often tried.
const EVICTION_EVERY: Duration = Duration::from_micros(200);
/// So often a file is brought into memory: kernels that page out what looks cold before memory is
/// short (DAMON's `pageout`) take single pages back at any time.
pub(in crate::fs) const WARM_TRIES: usize = 4;
/// A file is brought into memory in pieces of so many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// A file that is written before the rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Writes files, on their device when this returns; `way_out` says how they would be smaller.
pub(super) fn make(dir: &Path, files: Vec<Made>, way_out: &str) -> Result<Vec<PathBuf>> {
    let one =
        |Made { name, bytes }: &Made| write(dir, name, *bytes, seed_of(&dir.join(name)), way_out);
    files.iter().map(one).collect()
}

/// A seed for the data of a file that depends on its path alone: the rounds find by it what was
/// written, and no other run has it.
pub(super) fn seed_of(path: &Path) -> u64 {
    hashed(path)
}

fn hashed(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The seed of a case's order, of its round's: no two cases of a round go to the same places one
/// after the other, or what runs later is served from what the device, or the host below it, still
/// has in memory of what ran before.
pub(super) fn order_seed(seed: u64, case: &CaseId) -> u64 {
    hashed((seed, case.to_string()))
}

/// An open file, and what was found out about it.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) bytes: u64,
    /// What addresses in memory, and what offsets and lengths must be multiples of, in bytes; 1
    /// where the page cache is between.
    pub(super) memory_alignment: u64,
    pub(super) offset_alignment: u64,
    /// What a reader of the figures must know.
    pub(super) notes: Vec<String>,
}

/// Opens a file for reading, and verifies that the mode is available.
pub(super) fn open(path: &Path, mode: Mode) -> Result<Opened> {
    let opened = open_with(
        path,
        Way { direct: mode.is_direct(), sync: mode == Mode::DirectSync, ..Way::default() },
    )?;
    if mode.is_direct() {
        opened.demand_direct_read()?;
    }
    if mode == Mode::ColdNoReadahead {
        random_readahead(&opened.file).context("POSIX_FADV_RANDOM")?;
    }
    Ok(opened)
}

/// Opens a file that the experiment made in a way of its own, `write` among them: nothing is read
/// by that, and whether direct writes are what they say is seen by what the device wrote.
pub(super) fn open_with(path: &Path, way: Way) -> Result<Opened> {
    let shown = path.display();
    let plain = storage::open(path, Way::default()).with_context(|| format!("opening {shown}"))?;
    let bytes = plain.metadata().context("reading the file size")?.len();
    let mut notes = Vec::new();
    let (memory_alignment, offset_alignment) = match way.direct {
        true => alignment(&plain, &mut notes)?,
        false => (1, 1),
    };
    let file = storage::open(path, way).with_context(|| match way.direct {
        true => format!("cache: the file system refuses O_DIRECT for {shown}"),
        false => format!("opening {shown}"),
    })?;
    Ok(Opened { file, bytes, memory_alignment, offset_alignment, notes })
}

/// What O_DIRECT needs here, in bytes: of addresses, and of offsets and lengths.
fn alignment(file: &File, notes: &mut Vec<String>) -> Result<(u64, u64)> {
    let facts = file_system(file).context("statfs")?;
    let name = facts.name().unwrap_or("this file system");
    ensure!(
        !facts.is_in_memory(),
        "cache: O_DIRECT is faked here: {name} keeps its files only in memory"
    );
    match direct_told(file).context("statx")? {
        DirectTold::Alignment { memory_bytes, offset_bytes } => {
            Ok((u64::from(memory_bytes), u64::from(offset_bytes)))
        }
        DirectTold::Unsupported => {
            bail!("cache: O_DIRECT is missing here: {name} reports so for this file (statx)")
        }
        DirectTold::Silent => {
            notes.push(format!(
                "{name} does not report the alignment of O_DIRECT (statx); plumb uses 4 KiB"
            ));
            Ok((BLOCK_BYTES as u64, BLOCK_BYTES as u64))
        }
    }
}

impl Opened {
    /// Demands that a range is nowhere in the page cache, having evicted it; the whole file for
    /// `bytes` = 0.
    pub(super) fn make_cold(&self, offset: u64, bytes: u64) -> Result<()> {
        let of = self.end(offset, bytes).saturating_sub(offset);
        let mut patience = Patience::new(Instant::now());
        evict(&self.file, offset, bytes).context("evicting")?;
        loop {
            let resident = self.resident(offset, of)?;
            if resident.cached == 0 {
                return Ok(());
            }
            let (stay, dirty) = (resident.cached, resident.dirty);
            ensure!(
                patience.lasts(Instant::now(), stay),
                "cache: {stay} of {} pages stay in memory after eviction ({dirty} dirty)",
                of.div_ceil(base_page_bytes() as u64)
            );
            std::thread::sleep(EVICTION_EVERY);
            // A large folio leaves as a whole, which may be more than the range.
            evict(&self.file, 0, 0).context("evicting")?;
        }
    }

    /// Bytes of the file that are in the page cache beyond `read`, which were read after it was
    /// cold: read ahead and not asked for. A device gave them too, and they must not make up for
    /// others that it did not.
    pub(super) fn beyond(&self, read: u64) -> Result<u64> {
        let bytes = self.resident(0, self.bytes)?.cached * base_page_bytes() as u64;
        Ok(bytes.saturating_sub(read))
    }

    /// Brings a range of the file, opened in a way that is not direct, into the page cache, and
    /// demands that it stays there; to the end of the file for `bytes` = 0.
    pub(super) fn warm(&self, offset: u64, bytes: u64) -> Result<()> {
        for _ in 0..WARM_TRIES {
            if self.demand_cached(offset, bytes).is_ok() {
                return Ok(());
            }
            self.bring_in(offset, bytes)?;
        }
        self.demand_cached(offset, bytes)
    }

    fn bring_in(&self, offset: u64, bytes: u64) -> Result<()> {
        let mut piece = vec![0_u8; PIECE_BYTES];
        let (mut at, end) = (offset, self.end(offset, bytes));
        while at < end {
            let most = usize::try_from(end - at)?.min(PIECE_BYTES);
            let now = self.file.read_at(&mut piece[..most], at);
            let now = now.context("reading")?;
            ensure!(now > 0, "the file became shorter");
            at += now as u64;
        }
        Ok(())
    }

    /// Demands that all of a range is in the page cache; to the end of the file for `bytes` = 0.
    pub(super) fn demand_cached(&self, offset: u64, bytes: u64) -> Result<()> {
        let bytes = self.end(offset, bytes).saturating_sub(offset);
        let pages = bytes.div_ceil(base_page_bytes() as u64);
        let cached = self.resident(offset, bytes)?.cached;
        ensure!(cached == pages, "of {pages} pages only {cached} are in the page cache");
        Ok(())
    }

    fn resident(&self, offset: u64, bytes: u64) -> Result<Residency> {
        residency(&self.file, offset, bytes).context("reading the file's page-cache state")
    }

    fn end(&self, offset: u64, bytes: u64) -> u64 {
        match bytes {
            0 => self.bytes,
            _ => offset + bytes,
        }
    }

    /// Demands that a direct read leaves nothing in the page cache: what is faked goes through it.
    fn demand_direct_read(&self) -> Result<()> {
        let bytes = self.offset_alignment.max(BLOCK_BYTES as u64);
        self.make_cold(0, 0)?;
        let mut buffer =
            Mapping::new(usize::try_from(bytes)?, Pages::Base).context("memory for a block")?;
        // btrfs reads directly without page faults, and what it finds untouched through the cache.
        buffer.as_mut_slice().fill(1);
        self.file
            .read_at(buffer.as_mut_slice(), 0)
            .context("cache: a direct read of the first block failed")?;
        let cached = self.resident(0, self.bytes)?.cached;
        ensure!(
            cached == 0,
            "cache: O_DIRECT is faked here: a direct read of {bytes} bytes left {cached} pages in the page cache"
        );
        Ok(())
    }
}

/// How long pages that stay are waited for.
struct Patience {
    begun: Instant,
    changed: Instant,
    cached: Option<u64>,
}

impl Patience {
    fn new(now: Instant) -> Patience {
        Patience { begun: now, changed: now, cached: None }
    }

    /// Whether to wait on, where `cached` pages are left.
    fn lasts(&mut self, now: Instant, cached: u64) -> bool {
        if self.cached != Some(cached) {
            self.cached = Some(cached);
            self.changed = now;
        }
        now - self.changed < EVICTION_STILL && now - self.begun < EVICTION_MOST
    }
}

#[cfg(test)]
mod tests;
