//! Locks on single bytes of a file that several users share. Every process that opens the file sees
//! them, in whatever namespace, and they end with the open file.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::answer::{done, invalid};
use crate::path::{Flags, Location};

/// What everybody may do with such a file.
const SHARED: u32 = 0o666;

/// Opens a file that every user may read and write, and makes it where it is missing; one that was
/// there keeps its mode. No link in its place is followed, nor one of another user on the way, and
/// nothing but a regular file of one name is taken: somebody else may have put another there. Errors:
/// it is something else, or cannot be opened or made.
pub fn open_shared(path: &Path) -> io::Result<File> {
    let location = Location::exact(path)?;
    let flags = Flags::RDWR | Flags::NONBLOCK;
    // Opened before it is made: kernels that protect sticky directories refuse to create a file that
    // another user already has there.
    let file = match location.open(flags) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match location.create(flags, SHARED) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    location.open(flags)?
                }
                made => {
                    let file = made?;
                    // The mask of the process took some permissions.
                    file.set_permissions(Permissions::from_mode(SHARED))?;
                    file
                }
            }
        }
        opened => opened?,
    };
    let facts = file.metadata()?;
    if !facts.is_file() || facts.nlink() != 1 {
        return Err(invalid(format!("{} is not a file of plumb's", path.display())));
    }
    Ok(file)
}

/// Takes a byte of a file, unless another open file has it (`F_OFD_SETLK`). Errors: the file system
/// has no locks.
pub fn try_byte(file: &File, at: u64) -> io::Result<bool> {
    let lock = bytes(at, 1);
    // SAFETY: the descriptor is open, and the kernel only reads the lock.
    match done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        taken => taken.map(|()| true),
    }
}

/// Whether other open files have any of so many bytes (`F_OFD_GETLK`). Errors: as [`try_byte`].
pub fn is_taken(file: &File, at: u64, length: u64) -> io::Result<bool> {
    let mut lock = bytes(at, length);
    // SAFETY: the descriptor is open, and the kernel writes into a lock of ours.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) })?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

fn bytes(at: u64, length: u64) -> libc::flock {
    // SAFETY: all-zero values are valid ones; an open file's locks have no process.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at as libc::off_t;
    lock.l_len = length as libc::off_t;
    lock
}

#[cfg(test)]
mod tests {
    use super::{SHARED, is_taken, open_shared, try_byte};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_byte_is_one_open_file_s_until_that_is_closed() {
        let dir = tempfile::tempdir().expect("temporary files can be made");
        let path = dir.path().join("lock");
        let (one, other) = (open_shared(&path).unwrap(), open_shared(&path).unwrap());
        assert_eq!(one.metadata().unwrap().mode() & 0o777, SHARED);
        assert!(try_byte(&one, 3).unwrap());
        assert!(try_byte(&one, 3).unwrap(), "its own");
        assert!(!try_byte(&other, 3).unwrap());
        assert!(try_byte(&other, 4).unwrap());
        let taken = |file: &fs::File| [2, 3, 4].map(|at| is_taken(file, at, 1).unwrap());
        assert_eq!(taken(&one), [false, false, true]);
        assert_eq!(taken(&other), [false, true, false]);
        assert!(is_taken(&one, 0, 9).unwrap() && !is_taken(&one, 5, 9).unwrap());
        drop(other);
        assert_eq!(taken(&one), [false; 3]);
        assert!(!is_taken(&one, 0, 9).unwrap());
    }

    #[test]
    fn only_a_regular_file_of_one_name_is_taken() {
        let dir = tempfile::tempdir().expect("temporary files can be made");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("precious"), "kept").unwrap();
        symlink(path("precious"), path("link")).unwrap();
        symlink(path("new"), path("dangling")).unwrap();
        fs::hard_link(path("precious"), path("second")).unwrap();
        fs::create_dir(path("dir")).unwrap();
        for name in ["link", "dangling", "second", "precious", "dir"] {
            assert!(open_shared(&path(name)).is_err(), "{name}");
        }
        assert!(!path("new").exists());
    }
}
