//! What the kernel says of an open file: whether it can be read past the page cache, how much of it
//! is in there, and what its file system is.

use std::ffi::c_long;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{AtFlags, StatVfsMountFlags, StatxFlags, fstatfs, fstatvfs, statx};

use crate::answer::done;
use crate::fault::resident_pages;

/// cachestat(2), Linux 6.5, which has one number on every architecture.
const SYS_CACHESTAT: c_long = 451;
/// mincore(2) is asked for a range in pieces of so many bytes: a byte answers for each page.
const MINCORE_BYTES: u64 = 1 << 30;

/// What statx(2) says of O_DIRECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectTold {
    /// It works with buffers, and with offsets and lengths, that are multiples of these.
    Alignment {
        /// Of addresses in memory, in bytes.
        memory_bytes: u32,
        /// Of offsets and lengths, in bytes.
        offset_bytes: u32,
    },
    /// The file system says that it cannot.
    Unsupported,
    /// Nothing is said: a kernel before 6.1, or a file system that does not report it.
    Silent,
}

/// Asks whether and how a file can be read and written past the page cache (`STATX_DIOALIGN`).
/// Errors: those of statx(2).
pub fn direct_told(file: &File) -> io::Result<DirectTold> {
    let facts = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    Ok(match StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::DIOALIGN) {
        false => DirectTold::Silent,
        _ if facts.stx_dio_offset_align == 0 => DirectTold::Unsupported,
        _ => DirectTold::Alignment {
            memory_bytes: facts.stx_dio_mem_align,
            offset_bytes: facts.stx_dio_offset_align,
        },
    })
}

/// Pages of a range of a file in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    pub cached: u64,
    /// Of these, changed and not yet being written …
    pub dirty: u64,
    /// … and being written. Both are 0 if only mincore(2) is available.
    pub writeback: u64,
}

/// How much of a range of a file is in the page cache: what cachestat(2) says, and where the kernel
/// lacks or refuses it, mincore(2). Neither touches the file.
///
/// A file whose pages are kept as another file's (overlay, FUSE with passthrough) has none of its
/// own, which is all that cachestat looks at; a mapping is one of the other file. There mincore is
/// asked too. Errors: those of mmap(2) and mincore(2); an offset that begins no page.
pub fn residency(file: &File, offset: u64, bytes: u64) -> io::Result<Residency> {
    let Ok(own) = cachestat(file, offset, bytes) else { return mincore(file, offset, bytes) };
    if own.cached > 0 || has_own_pages(file) {
        return Ok(own);
    }
    // Where it cannot be mapped, there is no other file.
    Ok(mincore(file, offset, bytes).unwrap_or(own))
}

/// Whether a file system is known to keep a file's pages as that file's.
fn has_own_pages(file: &File) -> bool {
    let name = file_system(file).ok().and_then(|facts| facts.name());
    name.is_some_and(|name| !["overlay", "fuse"].contains(&name))
}

fn cachestat(file: &File, offset: u64, bytes: u64) -> io::Result<Residency> {
    // A length of 0 would mean: to the end.
    if bytes == 0 {
        return Ok(Residency::default());
    }
    // `struct cachestat_range` and `struct cachestat` of linux/mman.h.
    let range = [offset, bytes];
    let mut found = [0_u64; 5];
    // SAFETY: two structures of 64-bit words, of the sizes that the call reads and writes.
    done(unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0_u32)
    })?;
    let [cached, dirty, writeback, _, _] = found;
    Ok(Residency { cached, dirty, writeback })
}

fn mincore(file: &File, offset: u64, bytes: u64) -> io::Result<Residency> {
    let mut residency = Residency::default();
    let mut done = 0;
    while done < bytes {
        let piece = MINCORE_BYTES.min(bytes - done);
        residency.cached += resident_pages(file, offset + done, piece as usize)? as u64;
        done += piece;
    }
    Ok(residency)
}

/// What statfs(2) says of a file's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemFacts {
    /// `f_type`, one of linux/magic.h.
    pub magic: u64,
    pub block_bytes: u64,
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    pub total_bytes: u64,
    pub is_read_only: bool,
}

impl FileSystemFacts {
    /// The usual name of the type, where it is one of the well-known.
    pub fn name(&self) -> Option<&'static str> {
        NAMES.iter().find(|(magic, _)| *magic == self.magic).map(|(_, name)| *name)
    }

    /// Whether its files are nowhere but in memory (and swap).
    pub fn is_in_memory(&self) -> bool {
        matches!(self.name(), Some("tmpfs" | "ramfs"))
    }
}

/// linux/magic.h; cifs, smb2 and zfs have theirs in their own sources.
const NAMES: [(u64, &str); 18] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x794c_7630, "overlay"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x4d44, "vfat"),
];

/// Asks what the file system of an open file is and has left. Errors of statfs(2) and statvfs(3).
pub fn file_system(file: &File) -> io::Result<FileSystemFacts> {
    let (facts, more) = (fstatfs(file)?, fstatvfs(file)?);
    Ok(FileSystemFacts {
        // A signed word, whose upper half repeats the sign of the 32 bits that count.
        magic: facts.f_type as u64 & u64::from(u32::MAX),
        block_bytes: facts.f_bsize as u64,
        free_bytes: more.f_bavail.saturating_mul(more.f_frsize),
        total_bytes: more.f_blocks.saturating_mul(more.f_frsize),
        is_read_only: more.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

#[cfg(test)]
mod tests {
    use super::{DirectTold, cachestat, direct_told, file_system, mincore, residency};
    use crate::fault::{evict, unlinked};
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    fn written(pages: usize) -> File {
        let mut file = unlinked(&std::env::temp_dir()).unwrap();
        file.write_all(&vec![0x3c; pages * 4096]).unwrap();
        file
    }

    #[test]
    fn pages_are_counted_before_and_after_eviction() {
        let file = written(64);
        let before = residency(&file, 0, 64 * 4096).unwrap();
        assert_eq!(before.cached * crate::memory::base_page_bytes() as u64, 64 * 4096);
        file.sync_all().unwrap();
        let synced = residency(&file, 0, 64 * 4096).unwrap();
        assert_eq!((synced.dirty, synced.writeback), (0, 0));
        evict(&file, 0, 0).unwrap();
        let after = residency(&file, 0, 64 * 4096).unwrap();
        let in_memory = file_system(&file).unwrap().is_in_memory();
        assert!(after.cached == 0 || in_memory, "{after:?}");
        assert_eq!(residency(&file, 0, 0).unwrap().cached, 0);
    }

    #[test]
    fn both_calls_count_alike() {
        let file = written(300);
        let by_mincore = mincore(&file, 0, 200 * 4096).unwrap();
        match cachestat(&file, 0, 200 * 4096) {
            Ok(by_cachestat) => assert_eq!(by_cachestat.cached, by_mincore.cached),
            Err(error) => skips::part("kernel", format!("cachestat: {error}")),
        }
        assert!(by_mincore.cached > 0);
    }

    #[test]
    fn a_file_system_in_memory_says_so_and_tells_no_alignment() {
        let Ok(file) = unlinked(Path::new("/dev/shm")) else {
            return skips::test("memory-directory");
        };
        let facts = file_system(&file).unwrap();
        assert_eq!(facts.name(), Some("tmpfs"));
        assert!(facts.is_in_memory() && !facts.is_read_only);
        assert!(!matches!(direct_told(&file).unwrap(), DirectTold::Alignment { .. }));
    }

    #[test]
    fn an_alignment_is_a_power_of_two_where_it_is_told() {
        let file = written(1);
        let facts = file_system(&file).unwrap();
        assert!(facts.block_bytes > 0 && facts.free_bytes <= facts.total_bytes);
        if let DirectTold::Alignment { memory_bytes, offset_bytes } = direct_told(&file).unwrap() {
            assert!(memory_bytes.is_power_of_two() && offset_bytes.is_power_of_two());
        }
    }

    #[test]
    fn a_file_of_proc_cannot_be_read_past_the_cache() {
        let file = File::open("/proc/self/status").unwrap();
        assert_ne!(file_system(&file).unwrap().name(), Some("ext4"));
        assert!(!matches!(direct_told(&file).unwrap(), DirectTold::Alignment { .. }));
    }
}
