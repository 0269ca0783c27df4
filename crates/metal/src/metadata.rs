//! What file systems do beside data: names made, changed, found and removed relative to an open
//! directory, by one system call each; directories read; space reserved.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

use crate::answer::done;
use crate::raw::{self, call};

/// What one `getdents64` may fill: the C library's `readdir` asks for as much.
const LISTING_BYTES: usize = 32 << 10;
/// Offset of a record's length in `struct linux_dirent64`: after the inode and the offset.
const RECORD_LENGTH_AT: usize = 2 * size_of::<u64>();
/// Offset of its name, which ends in a zero byte: after the length and the type.
const RECORD_NAME_AT: usize = RECORD_LENGTH_AT + size_of::<u16>() + 1;

/// Opens a directory as a place only (`O_PATH`): paths are relative to it, and nothing is read of
/// it. Errors: those of open(2); a path with a zero byte.
pub fn open_place(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    raw::openat(None, &path, libc::O_PATH | libc::O_DIRECTORY)
}

/// Makes an empty regular file that was not there and opens it for writing. Errors: those of
/// openat(2): `EEXIST` for a name that is there.
#[inline]
pub fn create(directory: BorrowedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    raw::openat(Some(directory), name, flags)
}

/// Opens a file for reading. Errors: those of openat(2).
#[inline]
pub fn open(directory: BorrowedFd, name: &CStr) -> io::Result<OwnedFd> {
    raw::openat(Some(directory), name, libc::O_RDONLY)
}

/// Makes a directory, the owner's alone. Errors: those of mkdirat(2).
#[inline]
pub fn mkdir(directory: BorrowedFd, name: &CStr) -> io::Result<()> {
    const MODE: usize = 0o700;
    // SAFETY: `name` ends in a zero byte; the directory is open.
    raw::done(unsafe { call!(SYS_mkdirat, directory.as_raw_fd(), name.as_ptr(), MODE) })
}

/// Removes a name that is not a directory's. Errors: those of unlinkat(2).
#[inline]
pub fn unlink(directory: BorrowedFd, name: &CStr) -> io::Result<()> {
    unlinkat(directory, name, 0)
}

/// Removes an empty directory. Errors: those of unlinkat(2) with `AT_REMOVEDIR`.
#[inline]
pub fn rmdir(directory: BorrowedFd, name: &CStr) -> io::Result<()> {
    unlinkat(directory, name, libc::AT_REMOVEDIR)
}

#[inline(always)]
fn unlinkat(directory: BorrowedFd, name: &CStr, flags: i32) -> io::Result<()> {
    // SAFETY: `name` ends in a zero byte; the directory is open.
    raw::done(unsafe { call!(SYS_unlinkat, directory.as_raw_fd(), name.as_ptr(), flags) })
}

/// Gives a file another name in the same directory; one that has that name is replaced. Errors:
/// those of renameat2(2).
#[inline]
pub fn rename(directory: BorrowedFd, from: &CStr, to: &CStr) -> io::Result<()> {
    let at = directory.as_raw_fd();
    // SAFETY: both names end in a zero byte; the directory is open; no flags.
    raw::done(unsafe { call!(SYS_renameat2, at, from.as_ptr(), at, to.as_ptr(), 0, 0) })
}

/// A directory to be read again and again, with the kernel's records walked as the C library's
/// `readdir` does.
pub struct Listing {
    directory: File,
    records: Vec<u8>,
}

impl Listing {
    /// Opens a directory for reading. Errors: those of openat(2).
    pub fn new(directory: BorrowedFd) -> io::Result<Listing> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let opened = raw::openat(Some(directory), c".", flags)?;
        Ok(Listing { directory: File::from(opened), records: vec![0; LISTING_BYTES] })
    }

    /// Reads all of it once, from its beginning: the number of entries, without `.` and `..`.
    /// Errors: those of lseek(2) and getdents64(2); records that do not add up.
    pub fn pass(&mut self) -> io::Result<u64> {
        // SAFETY: plain values; the descriptor is open.
        done(unsafe { libc::lseek(self.directory.as_raw_fd(), 0, libc::SEEK_SET) })?;
        let mut entries = 0;
        loop {
            // SAFETY: the kernel writes at most the buffer's length into it.
            let filled = raw::result(unsafe {
                call!(
                    SYS_getdents64,
                    self.directory.as_raw_fd(),
                    self.records.as_mut_ptr(),
                    self.records.len()
                )
            })?;
            if filled == 0 {
                return Ok(entries);
            }
            entries += walk(&self.records[..filled])?;
        }
    }
}

/// Entries among some records, without `.` and `..`.
fn walk(mut records: &[u8]) -> io::Result<u64> {
    let mut entries = 0;
    while !records.is_empty() {
        let broken = || io::Error::other("getdents64 returned records that do not add up");
        let length = records
            .get(RECORD_LENGTH_AT..RECORD_LENGTH_AT + size_of::<u16>())
            .and_then(|bytes| bytes.try_into().ok())
            .map(|bytes| usize::from(u16::from_ne_bytes(bytes)))
            .filter(|length| (RECORD_NAME_AT..=records.len()).contains(length))
            .ok_or_else(broken)?;
        let (record, rest) = records.split_at(length);
        let name = &record[RECORD_NAME_AT..];
        let own = name.starts_with(b".\0") || name.starts_with(b"..\0");
        entries += u64::from(!own);
        records = rest;
    }
    Ok(entries)
}

/// Files that a file system can still hold; `None` where it makes room for them as it goes (btrfs
/// says zero of zero). Errors: those of fstatvfs(3).
pub fn free_files(file: &File) -> io::Result<Option<u64>> {
    let facts = fstatvfs(file)?;
    Ok((facts.f_files > 0).then_some(facts.f_favail))
}

/// Reserves the first `bytes` of a file: blocks that are its own, and not yet written. Errors:
/// those of fallocate(2): `EOPNOTSUPP` where the file system reserves nothing.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::{
        Listing, create, free_files, mkdir, open, open_place, rename, reserve, rmdir, unlink, walk,
    };
    use crate::{fault::unlinked, raw};
    use std::ffi::CString;
    use std::os::fd::AsFd;

    #[test]
    fn names_come_change_and_go() {
        let place = tempfile::tempdir().expect("temporary files can be made");
        let directory = open_place(place.path()).unwrap();
        let at = directory.as_fd();
        let is_there = |name| place.path().join(name).exists();
        raw::close(create(at, c"a").unwrap()).unwrap();
        assert!(is_there("a"));
        let again = create(at, c"a").unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::EEXIST));
        rename(at, c"a", c"b").unwrap();
        assert!(!is_there("a") && is_there("b"));
        raw::close(open(at, c"b").unwrap()).unwrap();
        mkdir(at, c"d").unwrap();
        assert!(place.path().join("d").is_dir());
        assert!(unlink(at, c"d").is_err() && rmdir(at, c"b").is_err());
        unlink(at, c"b").unwrap();
        rmdir(at, c"d").unwrap();
        assert!(!is_there("b") && !is_there("d"));
        let gone = open(at, c"b").unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_listing_counts_what_is_there_each_time_anew() {
        let place = tempfile::tempdir().expect("temporary files can be made");
        let directory = open_place(place.path()).unwrap();
        let mut listing = Listing::new(directory.as_fd()).unwrap();
        assert_eq!(listing.pass().unwrap(), 0);
        // More than one call returns, and names that begin with a dot.
        let name = |index: u32| CString::new(format!(".{index:060}")).unwrap();
        for index in 0..900 {
            raw::close(create(directory.as_fd(), &name(index)).unwrap()).unwrap();
        }
        assert_eq!(listing.pass().unwrap(), 900);
        unlink(directory.as_fd(), &name(7)).unwrap();
        assert_eq!(listing.pass().unwrap(), 899);
    }

    #[test]
    fn broken_records_are_an_error() {
        assert_eq!(walk(&[]).unwrap(), 0);
        assert!(walk(&[0; 40]).is_err(), "a record without length");
        let mut long = [0; 40];
        long[16] = 41;
        assert!(walk(&long).is_err(), "a record longer than what is left");
        long[16] = 40;
        assert_eq!(walk(&long).unwrap(), 1);
    }

    #[test]
    fn what_is_reserved_belongs_to_the_file_and_is_not_written() {
        let file = unlinked(&std::env::temp_dir()).unwrap();
        assert_ne!(free_files(&file).unwrap(), Some(0));
        if let Err(error) = reserve(&file, 1 << 16) {
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
            return skips::part("file-system", error);
        }
        assert_eq!(file.metadata().unwrap().len(), 1 << 16);
        let extents = crate::storage::extents(&file).unwrap().unwrap_or_default();
        assert!(extents.iter().all(|extent| !extent.is_on_device()));
    }
}
