//! Where the bytes of a file lie on its device, and that they are there; and in `storage/facts.rs`,
//! what of them is in memory; in `storage/open.rs`, how that is gone past.

mod facts;
mod open;

pub use facts::{DirectTold, FileSystemFacts, Residency, direct_told, file_system, residency};
pub use open::{Way, open};

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::answer::done;

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)` of linux/fs.h, whose head has 32 bytes; both
/// architectures encode it alike.
const FS_IOC_FIEMAP: u32 = 3 << 30 | (size_of::<Head>() as u32) << 16 | (b'f' as u32) << 8 | 11;
/// Extents that one call asks for.
const AT_ONCE: usize = 64;
/// `FIEMAP_EXTENT_LAST`: no extent follows.
const LAST: u32 = 0x1;
/// `FIEMAP_EXTENT_UNKNOWN`, `_DELALLOC`, `_DATA_INLINE`, `_DATA_TAIL` and `_UNWRITTEN`: a read of
/// these takes no block of the device that holds these bytes alone, or none at all.
const NOT_ON_DEVICE: u32 = 0x2 | 0x4 | 0x200 | 0x400 | 0x800;

/// `struct fiemap` of linux/fiemap.h, without its list.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Head {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// As the kernel's `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

/// A call's argument and answer.
#[repr(C)]
struct Map {
    head: Head,
    extents: [Raw; AT_ONCE],
}

/// A piece of a file that lies in one piece on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub device_offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    flags: u32,
}

impl Extent {
    /// Whether blocks of the device hold it: allocated, written, and neither inside of a block of
    /// the file system's own nor still to be placed.
    pub fn is_on_device(&self) -> bool {
        self.flags & NOT_ON_DEVICE == 0
    }
}

/// The extents of a file in order, holes left out; `None` if the file system does not report it.
/// Errors: those of `ioctl(FS_IOC_FIEMAP)` (Documentation/filesystems/fiemap.rst).
pub fn extents(file: &File) -> io::Result<Option<Vec<Extent>>> {
    let mut all: Vec<Extent> = Vec::new();
    loop {
        let start = all.last().map_or(0, |extent| extent.device_offset + extent.bytes);
        let mut map = Map {
            head: Head {
                start,
                length: u64::MAX - start,
                count: AT_ONCE as u32,
                ..Head::default()
            },
            extents: [Raw::default(); AT_ONCE],
        };
        // SAFETY: the descriptor is open; the kernel writes the head and at most the `count`
        // extents that follow it in the same structure.
        match done(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) }) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => {
                return Ok(None);
            }
            asked => asked?,
        }
        let found = &map.extents[..(map.head.mapped as usize).min(AT_ONCE)];
        all.extend(found.iter().map(|raw| Extent {
            device_offset: raw.logical,
            bytes: raw.length,
            flags: raw.flags,
        }));
        // An extent without length would be asked for for ever.
        let goes_on = found.last().is_some_and(|last| last.flags & LAST == 0 && last.length > 0);
        if !goes_on {
            return Ok(Some(all));
        }
    }
}

/// Has the file system of an open file write all of its changes, of whatever file, and waits for
/// it. Errors: those of syncfs(2).
pub fn sync_file_system(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

#[cfg(test)]
mod tests {
    use super::{Extent, FS_IOC_FIEMAP, extents, sync_file_system};
    use crate::fault::unlinked;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    /// Bytes of a file on the device, if known.
    fn on_device(file: &std::fs::File) -> Option<u64> {
        let extents = extents(file).unwrap()?;
        let held = extents.iter().filter(|extent| extent.is_on_device());
        Some(held.map(|extent| extent.bytes).sum())
    }

    #[test]
    fn the_call_has_its_number() {
        assert_eq!(FS_IOC_FIEMAP, 0xc020_660b);
        assert_eq!(size_of::<super::Raw>(), 56);
    }

    #[test]
    fn what_is_written_and_synced_is_on_the_device_and_a_hole_is_not() {
        let mut file = unlinked(&std::env::temp_dir()).unwrap();
        file.write_all(&[0x5a; 1 << 16]).unwrap();
        file.write_all_at(&[0x5a; 1 << 16], 1 << 20).unwrap();
        file.sync_all().unwrap();
        sync_file_system(&file).unwrap();
        let Some(bytes) = on_device(&file) else { return skips::test("file-system") };
        assert_eq!(bytes, 2 << 16);
        let all = extents(&file).unwrap().unwrap();
        let last = all.last().unwrap();
        assert_eq!(last.device_offset + last.bytes, (1 << 20) + (1 << 16));
    }

    #[test]
    fn many_extents_take_several_calls() {
        let file = unlinked(&std::env::temp_dir()).unwrap();
        // A page in every 128 KiB, and more of them than a call reports.
        let pieces = 2 * super::AT_ONCE as u64 + 3;
        for index in 0..pieces {
            file.write_all_at(&[0xa5; 4096], index << 17).unwrap();
        }
        file.sync_all().unwrap();
        let Some(all) = extents(&file).unwrap() else { return skips::test("file-system") };
        let starts: Vec<u64> = all.iter().map(|extent| extent.device_offset).collect();
        let expected: Vec<u64> = (0..pieces).map(|index| index << 17).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn what_is_only_reserved_is_not_on_the_device() {
        let reserved = Extent { device_offset: 0, bytes: 4096, flags: 0x801 };
        assert!(!reserved.is_on_device());
    }
}
