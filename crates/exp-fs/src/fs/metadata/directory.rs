//! A directory of many entries, made once and found by every round as it was made, and batches of
//! one call in it: names put into place before, traces removed after, both outside of the window.

use super::ENTRY_BYTES;
use crate::fs::prelude::*;
use bench::measure::{Timer, abba};
use bench::prepared::demand_space;
use laws::fs::metadata::Call;
use metal::metadata::{
    Listing, create, free_files, mkdir, open, open_place, rename, rmdir, unlink,
};
use metal::raw;
use metal::storage::sync_file_system;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

/// Bytes of a name at least: its number, a dash, and a little of its key.
pub(super) const NAME_BYTES_MIN: u64 = 12;
/// Digits of the number in a name, and how many numbers that makes.
const NUMBER_DIGITS: usize = 8;
const NUMBERS: u64 = 100_000_000;
/// Share of the files that a file system can still hold that stays free: one over this.
const MARGIN: u64 = 10;
const WAY_OUT: &str = "--set fs.metadata.entries=COUNT";

pub(super) struct Directory {
    path: PathBuf,
    place: OwnedFd,
    listing: Listing,
    names: Vec<CString>,
    name_bytes: u64,
    /// Names that were given out and never were before.
    fresh: u64,
    /// Keys of those names are another round's no more.
    seed: u64,
    /// Where the next entry is taken from.
    next: usize,
}

impl Directory {
    /// Makes a directory with so many empty files, and syncs it. A server may take long for each,
    /// and the kernel does not count this as reading or writing: `alive` is called after each.
    pub(super) fn make(
        dir: &Path,
        entries: u64,
        name_bytes: u64,
        alive: &mut dyn FnMut(),
    ) -> Result<PathBuf> {
        let path = path_of(dir, entries);
        let shown = path.display();
        demand_space(dir, entries.saturating_mul(ENTRY_BYTES), WAY_OUT)?;
        let above = File::open(dir).with_context(|| format!("opening {}", dir.display()))?;
        if let Some(free) = free_files(&above).context("reading the number of free inodes")? {
            ensure!(
                entries <= free - free / MARGIN,
                "{} has room for {free} more files, plumb leaves a tenth free, and {entries} are \
                 needed: {WAY_OUT}",
                dir.display()
            );
        }
        std::fs::create_dir(&path).with_context(|| format!("making {shown}"))?;
        let place = open_place(&path).with_context(|| format!("opening {shown}"))?;
        for index in 0..entries {
            let name = name(index, MADE, name_bytes);
            create(place.as_fd(), &name)
                .and_then(raw::close)
                .with_context(|| format!("creating file {} of {shown}", index + 1))?;
            alive();
        }
        // Else the journal would be busy with them in the first round.
        sync_file_system(&above).context("syncing the file system")?;
        Ok(path)
    }

    /// Opens one that was made, and asks for every entry once; `alive` is called after each.
    pub(super) fn open(
        dir: &Path,
        entries: u64,
        name_bytes: u64,
        seed: u64,
        alive: &mut dyn FnMut(),
    ) -> Result<Directory> {
        let path = path_of(dir, entries);
        let shown = path.display();
        let place =
            open_place(&path).with_context(|| format!("the prepared directory {shown} is gone"))?;
        let listing =
            Listing::new(place.as_fd()).with_context(|| format!("opening {shown} to list it"))?;
        let mut names: Vec<CString> =
            (0..entries).map(|index| name(index, MADE, name_bytes)).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut names);
        let mut directory =
            Directory { path, place, listing, names, name_bytes, fresh: 0, seed, next: 0 };
        if !directory.is_whole(alive)? {
            // A worker was killed, or could not mend what a batch left.
            directory.restore(alive)?;
            ensure!(directory.is_whole(alive)?, "cannot restore {}", directory.path.display());
        }
        Ok(directory)
    }

    /// Whether every entry is there and nothing else: all are asked for.
    fn is_whole(&mut self, alive: &mut dyn FnMut()) -> Result<bool> {
        if self.list()? != self.entries() {
            return Ok(false);
        }
        for name in &self.names {
            match raw::newfstatat(Some(self.place.as_fd()), name) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                asked => {
                    asked.with_context(|| format!("asking for {}", name.to_string_lossy()))?;
                }
            }
            alive();
        }
        Ok(true)
    }

    pub(super) fn place(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }

    pub(super) fn entries(&self) -> u64 {
        self.names.len() as u64
    }

    /// The next entries in random order, over and over.
    pub(super) fn some(&mut self, count: usize) -> Vec<CString> {
        let start = self.next;
        self.next = (start + count) % self.names.len();
        let all = self.names.iter().cycle();
        all.skip(start).take(count).cloned().collect()
    }

    /// Names that never were in it, as long as the entries': they have the numbers that those have
    /// not, and keys of this round. What is remembered of another round's as gone is of other keys.
    pub(super) fn fresh(&mut self, count: usize) -> Vec<CString> {
        let first = self.fresh;
        self.fresh += count as u64;
        let entries = self.entries();
        let number = |index: u64| entries + index % (NUMBERS - entries);
        let of = |index| name(number(index), self.seed, self.name_bytes);
        (first..self.fresh).map(of).collect()
    }

    /// Reads the whole directory once; returns the number of entries.
    pub(super) fn list(&mut self) -> Result<u64> {
        let path = &self.path;
        self.listing.pass().with_context(|| format!("listing {}", path.display()))
    }

    pub(super) fn has(&self, name: &CStr) -> bool {
        raw::newfstatat(Some(self.place.as_fd()), name).is_ok()
    }

    /// Makes it what it was after a batch that failed, by its names: a file that was renamed and
    /// not back leaves their number as it was.
    pub(super) fn restore(&mut self, alive: &mut dyn FnMut()) -> Result<()> {
        let mut missing: BTreeSet<CString> = self.names.iter().cloned().gather();
        let shown = self.path.display();
        for entry in std::fs::read_dir(&self.path).with_context(|| format!("listing {shown}"))? {
            alive();
            let entry = entry.with_context(|| format!("listing {shown}"))?;
            let name = CString::new(entry.file_name().into_vec())?;
            if missing.remove(&name) {
                continue;
            }
            let removed = match entry.file_type()?.is_dir() {
                true => rmdir(self.place.as_fd(), &name),
                false => unlink(self.place.as_fd(), &name),
            };
            removed.with_context(|| format!("removing {}", name.to_string_lossy()))?;
        }
        for name in missing {
            create(self.place.as_fd(), &name)
                .and_then(raw::close)
                .with_context(|| format!("creating {} again", name.to_string_lossy()))?;
            alive();
        }
        let found = self.list()?;
        let (path, entries) = (self.path.display(), self.entries());
        ensure!(found == entries, "{path} has {found} entries instead of {entries}");
        Ok(())
    }
}

fn path_of(dir: &Path, entries: u64) -> PathBuf {
    dir.join(format!("fs-metadata-{entries}"))
}

/// Seed of the names of entries, which every round must know.
const MADE: u64 = 0;

/// The name of a number: a key that looks like a hash, and the number.
fn name(number: u64, seed: u64, name_bytes: u64) -> CString {
    let seed = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = fastrand::Rng::with_seed(seed);
    let number = format!("-{number:0NUMBER_DIGITS$}");
    let key = (name_bytes as usize).saturating_sub(number.len()).max(1);
    let mut name: String = (0..key).map(|_| random.digit(16)).collect();
    name.push_str(&number);
    CString::new(name).expect("digits and a dash have no zero byte")
}

/// The short batch of a call that changes the directory has one name for so many of its entries, …
const SHARE: u64 = 8;
/// … at least, and at most: what is opened must not reach the limit of open files.
const NAMES_MIN: u64 = 16;
const NAMES_MAX: u64 = 128;
/// Calls in the short batch of one that leaves no trace.
const CALLS_MAX: u64 = 1 << 14;

/// Times one call. The caller may add to the samples.
pub(super) fn time<'bench>(
    call: Call,
    directory: &mut Directory,
    case: &Case,
    bench: &'bench mut Bench,
) -> Result<&'bench mut Samples> {
    let timer = bench.timer();
    let entries = directory.entries();
    let most = match call {
        Call::Stat | Call::Readdir => CALLS_MAX,
        Call::Open | Call::Rename => NAMES_MAX,
        _ => (entries / SHARE).clamp(NAMES_MIN, NAMES_MAX),
    };
    let mut batch = |n: u64| batch(call, directory, timer, n);
    // Its long batches have twice the names.
    let found = timer.search(&mut |n| batch(n.min(2 * most))).context("searching for a batch")?;
    let k = found.operations.min(most);
    let turns = timer.repeat(&mut |watch| abba(k, watch, &mut batch).map(Some))?;
    let listed = directory.list()?;
    ensure!(
        listed == entries,
        "the directory had {entries} entries before the batch and has {listed} after cleaning up"
    );
    let per_batch = match call {
        Call::Readdir => k * entries,
        _ => k,
    };
    bench.record(case, "latency", Values::quartets(per_batch, turns))
}

/// One window of `n` calls, in ns.
fn batch(call: Call, directory: &mut Directory, timer: Timer, n: u64) -> Result<f64> {
    let count = usize::try_from(n)?;
    match call {
        Call::Rename => return renamed(directory, timer, count),
        Call::Readdir => return listed(directory, timer, count),
        _ => {}
    }
    let names = match call {
        Call::Open | Call::Stat => directory.some(count),
        _ => directory.fresh(count),
    };
    let mut files: Vec<OwnedFd> = Vec::with_capacity(count);
    let place = directory.place();
    let ns = match call {
        Call::Create => window(timer, &names, |name| {
            files.push(create(place, name)?);
            Ok(())
        }),
        Call::Open => window(timer, &names, |name| {
            files.push(open(place, name)?);
            Ok(())
        }),
        Call::Stat => window(timer, &names, |name| {
            black_box(raw::newfstatat(Some(place), name)?);
            Ok(())
        }),
        Call::Mkdir => window(timer, &names, |name| mkdir(place, name)),
        Call::Unlink => {
            each(&names, "making", |name| create(place, name).and_then(raw::close))?;
            window(timer, &names, |name| unlink(place, name))
        }
        _ => {
            each(&names, "making", |name| mkdir(place, name))?;
            window(timer, &names, |name| rmdir(place, name))
        }
    };
    let ns = ns.with_context(|| call.text())?;
    for file in files {
        raw::close(file).context("closing a file")?;
    }
    match call {
        Call::Create | Call::Mkdir => {
            must_be(directory, &names, true)?;
            each(&names, "clearing away", |name| match call {
                Call::Create => unlink(place, name),
                _ => rmdir(place, name),
            })?;
        }
        Call::Unlink | Call::Rmdir => must_be(directory, &names, false)?,
        _ => {}
    }
    Ok(ns)
}

fn window<'name>(
    timer: Timer,
    names: &'name [CString],
    mut call: impl FnMut(&'name CString) -> io::Result<()>,
) -> Result<f64> {
    timer.timed(names.len() as u64, &mut |_| {
        for name in names {
            call(name)?;
        }
        Ok(())
    })
}

fn renamed(directory: &mut Directory, timer: Timer, count: usize) -> Result<f64> {
    let first = directory.some(count);
    let fresh = directory.fresh(count);
    let place = directory.place();
    // An entry that comes round again has its newest name by then.
    let mut now: HashMap<&CString, &CString> = HashMap::with_capacity(count);
    let pairs: Vec<(&CString, &CString)> = first
        .iter()
        .zip(&fresh)
        .map(|(entry, to)| (now.insert(entry, to).unwrap_or(entry), to))
        .collect();
    let ns = timer
        .timed(count as u64, &mut |_| {
            for (from, to) in &pairs {
                rename(place, from, to)?;
            }
            Ok(())
        })
        .context("renaming a file")?;
    if let Some((from, to)) = pairs.last() {
        let has_moved = directory.has(to) && !directory.has(from);
        ensure!(has_moved, "after a rename the old name still exists or the new name is missing");
    }
    for (entry, to) in now {
        rename(place, to, entry).context("renaming a file back")?;
    }
    Ok(ns)
}

fn listed(directory: &mut Directory, timer: Timer, count: usize) -> Result<f64> {
    let mut wrong = None;
    let entries = directory.entries();
    let ns = timer.timed(count as u64, &mut |passes| {
        for _ in 0..passes {
            let found = directory.list()?;
            if found != entries {
                wrong = Some(found);
            }
        }
        Ok(())
    })?;
    match wrong {
        None => Ok(ns),
        Some(found) => anyhow::bail!("a listing returned {found} entries instead of {entries}"),
    }
}

/// The last name of a batch must be there, or gone; the calls have said so of all.
fn must_be(directory: &Directory, names: &[CString], there: bool) -> Result<()> {
    let name = names.last().context("a batch has a name")?;
    let (wrong, name_told) = (if there { "is not" } else { "is still" }, name.to_string_lossy());
    ensure!(directory.has(name) == there, "{name_told} {wrong} there");
    Ok(())
}

/// A call for each name outside of the window.
fn each(
    names: &[CString],
    what: &str,
    mut call: impl FnMut(&CString) -> io::Result<()>,
) -> Result<()> {
    for name in names {
        call(name).with_context(|| format!("{what} {}", name.to_string_lossy()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Directory, MADE, NAME_BYTES_MIN, NUMBERS, name};
    use metal::metadata::{create, mkdir, rename, unlink};
    use metal::raw;
    use std::collections::BTreeSet;
    use std::ffi::CString;
    use tempfile::TempDir;

    /// A directory of so many entries with names of so many bytes, and how it is opened in a round.
    fn made(entries: u64, name_bytes: u64) -> (TempDir, impl Fn(u64) -> Directory) {
        let dir = tempfile::tempdir().expect("a directory");
        Directory::make(dir.path(), entries, name_bytes, &mut || ()).expect("made");
        let path = dir.path().to_owned();
        let open = move |seed| Directory::open(&path, entries, name_bytes, seed, &mut || ());
        (dir, move |seed| open(seed).expect("opened"))
    }

    #[test]
    fn names_are_unique_and_as_long_as_asked() {
        for bytes in [NAME_BYTES_MIN, 24, 255] {
            let names: BTreeSet<_> = (0..500).map(|index| name(index, MADE, bytes)).collect();
            assert_eq!(names.len(), 500);
            assert!(names.iter().all(|name| name.as_bytes().len() == bytes as usize));
        }
        assert_eq!(name(7, MADE, 24), name(7, MADE, 24));
        assert_ne!(name(7, 1, 24), name(7, 2, 24), "another round's");
    }

    #[test]
    fn new_names_are_as_long_as_the_entries_whatever_the_round_and_however_many() {
        let (_dir, open) = made(20, NAME_BYTES_MIN);
        for seed in [1, 999_999_999_999, u64::MAX] {
            let mut directory = open(seed);
            let mut fresh = directory.fresh(100);
            // The last numbers that there are, and the first ones again.
            directory.fresh = NUMBERS - 20 - 2;
            fresh.extend(directory.fresh(4));
            let length = |name: &CString| name.as_bytes().len() as u64;
            assert!(fresh.iter().all(|name| length(name) == NAME_BYTES_MIN));
            assert!(fresh.iter().all(|name| !directory.has(name)));
        }
    }

    #[test]
    fn entries_that_kept_another_s_name_are_mended_though_their_number_is_right() {
        let (_dir, open) = made(30, 24);
        let cut_off = || {
            // Not the first in random order.
            let mut directory = open(1);
            let (gone, fresh) = (directory.some(5).split_off(3), directory.fresh(2));
            for (from, to) in gone.iter().zip(&fresh) {
                rename(directory.place(), from, to).expect("renamed");
            }
            (directory, gone, fresh)
        };
        let (mut directory, gone, fresh) = cut_off();
        assert_eq!(directory.list().expect("lists"), 30, "as many as before");
        directory.restore(&mut || ()).expect("mended");
        assert!(gone.iter().all(|name| directory.has(name)));
        assert!(fresh.iter().all(|name| !directory.has(name)));
        // The worker was killed: the next one's.
        let (_, gone, fresh) = cut_off();
        let directory = open(1);
        assert!(gone.iter().all(|name| directory.has(name)));
        assert!(fresh.iter().all(|name| !directory.has(name)));
    }

    #[test]
    fn a_directory_is_what_it_was_after_a_batch_that_failed() {
        let (dir, open) = made(30, 24);
        assert!(Directory::make(dir.path(), 30, 24, &mut || ()).is_err(), "it is there");
        let mut directory = open(1);
        assert_eq!((directory.list().expect("lists"), directory.entries()), (30, 30));
        let gone = directory.some(2);
        let fresh = directory.fresh(2);
        assert!(fresh.iter().all(|name| !directory.has(name)));
        for name in &gone {
            unlink(directory.place(), name).expect("removed");
        }
        mkdir(directory.place(), &fresh[0]).expect("made");
        raw::close(create(directory.place(), &fresh[1]).expect("made")).expect("closed");
        directory.restore(&mut || ()).expect("mended");
        assert!(gone.iter().all(|name| directory.has(name)));
        assert!(fresh.iter().all(|name| !directory.has(name)));
        assert_eq!(directory.list().expect("lists"), 30);
    }

    #[test]
    fn entries_come_round() {
        let (_dir, open) = made(5, 24);
        let mut directory = open(9);
        let seen: Vec<_> = directory.some(12);
        assert_eq!(seen[..5], seen[5..10]);
        assert_eq!(seen[..5].iter().collect::<BTreeSet<_>>().len(), 5);
        assert_eq!(directory.some(3)[0], seen[2]);
    }
}
