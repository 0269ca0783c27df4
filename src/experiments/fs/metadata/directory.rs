//! A directory of many entries: made once, and found by every round as it was made.

use crate::experiments::prepared::demand_space;
use anyhow::{Context, Result, ensure};
use metal::metadata::{Listing, create, free_files, open_place, rmdir, unlink};
use metal::raw;
use metal::storage::sync_file_system;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::ENTRY_BYTES;

/// Bytes of a name at least: its number, a dash, and a little of its key.
pub(super) const NAME_BYTES_MIN: u64 = 12;
/// Digits of the number in a name.
const NUMBER_DIGITS: usize = 8;
/// Share of the files that a file system can still hold that stays free: one over this.
const MARGIN: u64 = 10;
const WAY_OUT: &str = "--set fs.metadata.entries=COUNT";

/// An open directory with its entries' names.
pub(super) struct Directory {
    path: PathBuf,
    place: OwnedFd,
    listing: Listing,
    /// Names of the entries, in random order.
    names: Vec<CString>,
    name_bytes: u64,
    /// Number of the next name that never was.
    fresh: u64,
    /// Where the next entry is taken from.
    next: usize,
}

impl Directory {
    /// Makes a directory with so many empty files, and syncs it. A server may take long for each, and
    /// the kernel counts none of it as reading or writing: `alive` is called after each.
    ///
    /// # Errors
    /// There is no room for so many, or they cannot be made.
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
        if let Some(free) = free_files(&above).context("asking for the free inodes")? {
            ensure!(
                entries <= free - free / MARGIN,
                "{} can hold {free} more files, of which a tenth stays free, and {entries} would be made: \
                 {WAY_OUT}",
                dir.display()
            );
        }
        std::fs::create_dir(&path).with_context(|| format!("making {shown}"))?;
        let place = open_place(&path).with_context(|| format!("opening {shown}"))?;
        for index in 0..entries {
            let name = name(index, name_bytes);
            create(place.as_fd(), &name)
                .and_then(raw::close)
                .with_context(|| format!("making the {}th file of {shown}", index + 1))?;
            alive();
        }
        // Else the journal would be busy with them in the first round.
        sync_file_system(&above).context("syncing the file system")?;
        Ok(path)
    }

    /// Opens one that was made, and asks for every entry once; `alive` is called after each.
    ///
    /// # Errors
    /// It is gone, or an entry is.
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
        let mut names: Vec<CString> = (0..entries).map(|index| name(index, name_bytes)).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut names);
        let mut directory = Directory {
            path,
            place,
            listing,
            names,
            name_bytes,
            // Another round's names may be remembered as gone: none is used twice.
            fresh: entries + (seed % 1_000_003) * 100_000,
            next: 0,
        };
        directory.restore()?;
        for name in &directory.names {
            raw::newfstatat(Some(directory.place.as_fd()), name)
                .with_context(|| format!("asking for {}", name.to_string_lossy()))?;
            alive();
        }
        Ok(directory)
    }

    /// Where names are relative to.
    pub(super) fn place(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }

    /// Entries that were made.
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

    /// Names that never were in it.
    pub(super) fn fresh(&mut self, count: usize) -> Vec<CString> {
        let first = self.fresh;
        self.fresh += count as u64;
        let of = |index| name(index, self.name_bytes);
        (first..self.fresh).map(of).collect()
    }

    /// Reads all of it once; returns the number of entries.
    ///
    /// # Errors
    /// Those of getdents64(2).
    pub(super) fn list(&mut self) -> Result<u64> {
        let path = &self.path;
        self.listing
            .pass()
            .with_context(|| format!("listing {}", path.display()))
    }

    /// Whether a name is there.
    pub(super) fn has(&self, name: &CStr) -> bool {
        raw::newfstatat(Some(self.place.as_fd()), name).is_ok()
    }

    /// Makes it what it was, where a batch that failed left it otherwise.
    ///
    /// # Errors
    /// It cannot be.
    pub(super) fn restore(&mut self) -> Result<()> {
        if self.list()? == self.entries() && self.names.iter().take(1).all(|name| self.has(name)) {
            return Ok(());
        }
        let mut missing: BTreeSet<CString> = self.names.iter().cloned().collect();
        let shown = self.path.display();
        for entry in std::fs::read_dir(&self.path).with_context(|| format!("listing {shown}"))? {
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
                .with_context(|| format!("making {} again", name.to_string_lossy()))?;
        }
        let found = self.list()?;
        ensure!(
            found == self.entries(),
            "{} has {found} entries in place of {}",
            self.path.display(),
            self.entries()
        );
        Ok(())
    }
}

fn path_of(dir: &Path, entries: u64) -> PathBuf {
    dir.join(format!("fs-metadata-{entries}"))
}

/// The name of a number: a key that looks like a hash, and the number.
fn name(index: u64, name_bytes: u64) -> CString {
    let mut random = fastrand::Rng::with_seed(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let number = format!("-{index:0NUMBER_DIGITS$}");
    let key = (name_bytes as usize).saturating_sub(number.len()).max(1);
    let mut name: String = (0..key).map(|_| random.digit(16)).collect();
    name.push_str(&number);
    CString::new(name).expect("digits and a dash have no zero byte")
}

#[cfg(test)]
mod tests {
    use super::{Directory, NAME_BYTES_MIN, name};
    use metal::metadata::{create, mkdir, unlink};
    use metal::raw;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_as_long_as_asked() {
        for bytes in [NAME_BYTES_MIN, 24, 255] {
            let names: BTreeSet<_> = (0..500).map(|index| name(index, bytes)).collect();
            assert_eq!(names.len(), 500);
            assert!(
                names
                    .iter()
                    .all(|name| name.as_bytes().len() == bytes as usize)
            );
        }
        // A number that outgrows its digits still is a name.
        assert!(name(u64::MAX, NAME_BYTES_MIN).as_bytes().len() <= 255);
        assert_eq!(name(7, 24), name(7, 24));
    }

    #[test]
    fn a_directory_is_what_it_was_after_a_batch_that_failed() {
        let dir = tempfile::tempdir().expect("a directory");
        Directory::make(dir.path(), 30, 24, &mut || ()).expect("made");
        assert!(Directory::make(dir.path(), 30, 24, &mut || ()).is_err(), "it is there");
        let mut directory = Directory::open(dir.path(), 30, 24, 1, &mut || ()).expect("opened");
        assert_eq!(
            (directory.list().expect("lists"), directory.entries()),
            (30, 30)
        );
        let gone = directory.some(2);
        let fresh = directory.fresh(2);
        assert!(fresh.iter().all(|name| !directory.has(name)));
        for name in &gone {
            unlink(directory.place(), name).expect("removed");
        }
        mkdir(directory.place(), &fresh[0]).expect("made");
        raw::close(create(directory.place(), &fresh[1]).expect("made")).expect("closed");
        directory.restore().expect("mended");
        assert!(gone.iter().all(|name| directory.has(name)));
        assert!(fresh.iter().all(|name| !directory.has(name)));
        assert_eq!(directory.list().expect("lists"), 30);
    }

    #[test]
    fn entries_come_round() {
        let dir = tempfile::tempdir().expect("a directory");
        Directory::make(dir.path(), 5, 24, &mut || ()).expect("made");
        let mut directory = Directory::open(dir.path(), 5, 24, 9, &mut || ()).expect("opened");
        let seen: Vec<_> = directory.some(12);
        assert_eq!(seen[..5], seen[5..10]);
        assert_eq!(seen[..5].iter().collect::<BTreeSet<_>>().len(), 5);
        assert_eq!(directory.some(3)[0], seen[2]);
    }
}
