//! A turn of stress-ng's fault stressor (0.15, `stress-fault.c`): what it does and what it times,
//! for a comparison of like with like.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::answer::{done, outcome};
use crate::clock::monotonic_ns;
use crate::memory::{Mapped, base_page_bytes};

pub const TURN_TOUCHES: usize = 4;

/// A page, mapped; unmapped on drop.
struct Page(Mapped);

impl Page {
    fn map(bytes: usize, protection: i32, flags: i32, fd: i32) -> io::Result<Page> {
        Mapped::new(bytes, protection, flags, fd, 0).map(Page)
    }

    fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: the page is ours; no reference to it exists.
        done(unsafe { libc::madvise(self.0.as_ptr().cast(), base_page_bytes(), advice) })
    }

    /// Writes a byte; returns how long that took, in ns, with a read of the clock.
    fn write(&self) -> u64 {
        let start = monotonic_ns();
        // SAFETY: the page is mapped to be written, of a file with at least this byte.
        unsafe { self.0.as_ptr().write_volatile(0) };
        monotonic_ns() - start
    }

    /// Reads a byte, as [`Page::write`].
    fn read(&self) -> u64 {
        let start = monotonic_ns();
        // SAFETY: the page is mapped to be read.
        unsafe { self.0.as_ptr().read_volatile() };
        monotonic_ns() - start
    }
}

/// One turn: a file of one byte at `path` is made and mapped, its page written, dropped and
/// written, paged out and written; then a page of shared memory is read, dropped and read. The file
/// goes before (`unlink_first`) or after its page is mapped. Returns the four timed touches in ns,
/// reads of the clock included; each is a fault. Errors: those of the calls: above all a kernel
/// before 5.4, which pages nothing out (EINVAL).
pub fn stress_turn(path: &Path, unlink_first: bool) -> io::Result<[u64; TURN_TOUCHES]> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(0o600).open(path)?;
    // SAFETY: plain values; the descriptor is open.
    outcome(unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, 1) })?;
    if unlink_first {
        std::fs::remove_file(path)?;
    }
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let page = Page::map(1, both, libc::MAP_SHARED, file.as_raw_fd())?;
    drop(file);
    let first = page.write();
    page.advise(libc::MADV_DONTNEED)?;
    let again = page.write();
    page.advise(libc::MADV_PAGEOUT)?;
    let paged_out = page.write();
    drop(page);
    if !unlink_first {
        std::fs::remove_file(path)?;
    }
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let page = Page::map(base_page_bytes(), libc::PROT_READ, flags, -1)?;
    page.read();
    page.advise(libc::MADV_DONTNEED)?;
    Ok([first, again, paged_out, page.read()])
}
