//! Files and the page cache: what of them is in memory, and how it gets out.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise, fstatvfs};

use crate::answer::done;
use crate::memory::{Mapped, base_page_bytes};

/// Asks the kernel to forget the pages of a file that are clean and not mapped: what was written
/// must be synced first. What stays is seen by [`resident_pages`]. Errors: those of
/// posix_fadvise(2).
pub fn evict(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    Ok(fadvise(file, offset, NonZeroU64::new(bytes), Advice::DontNeed)?)
}

/// Advises the kernel that reads of this opened file follow no order: it reads nothing ahead.
/// Errors: those of posix_fadvise(2).
pub fn random_readahead(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::Random)?)
}

/// Base pages of a range of a file that are in the page cache: what mincore(2) says of a mapping of
/// it, which stays untouched. The kernel reports it only for files that the caller may write.
/// Errors: those of mmap(2) and mincore(2); an offset that begins no page.
pub fn resident_pages(file: &File, offset: u64, bytes: usize) -> io::Result<usize> {
    let pages = bytes.div_ceil(base_page_bytes());
    let mut present = vec![0_u8; pages];
    let mapped = Mapped::new(bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset)?;
    // SAFETY: the range is the mapping; the list has a byte for each of its pages.
    done(unsafe { libc::mincore(mapped.as_ptr().cast(), bytes, present.as_mut_ptr()) })?;
    Ok(present.iter().filter(|page| **page & 1 != 0).count())
}

/// Bytes that a file system still has for this user. Errors: those of statvfs(3).
pub fn free_bytes(file: &File) -> io::Result<u64> {
    let facts = fstatvfs(file)?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

/// A file without a name, which is gone when it is closed, however that happens. Errors: the
/// directory cannot be written.
pub fn unlinked(dir: &Path) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(dir) {
        return Ok(file);
    }
    // File systems without O_TMPFILE.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!(".plumb-unlinked-{}-{count}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
