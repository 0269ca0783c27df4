//! A stack of our own: mapped, guarded, unmapped on drop.

use std::io;

use crate::answer::{done, invalid};
use crate::memory::{Mapped, base_page_bytes};

/// A mapping whose lowest page is inaccessible, as the C library makes for a stack. It gives out
/// addresses only.
#[derive(Debug)]
pub(super) struct Area(Mapped);

impl Area {
    /// Maps `bytes`, rounded up to whole pages, by the library's two calls: all of it inaccessible,
    /// then all but the guard for use. Errors of mmap(2) and mprotect(2); no room beside the guard.
    pub(super) fn guarded(bytes: usize) -> io::Result<Area> {
        let page = base_page_bytes();
        let bytes = bytes
            .checked_next_multiple_of(page)
            .filter(|&bytes| bytes >= 2 * page && bytes < isize::MAX as usize)
            .ok_or_else(|| invalid("a stack needs a page beside its guard"))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let area = Area(Mapped::new(bytes, libc::PROT_NONE, flags, -1, 0)?);
        // SAFETY: part of the mapping just made.
        done(unsafe {
            libc::mprotect(area.bottom().cast(), area.bytes(), libc::PROT_READ | libc::PROT_WRITE)
        })?;
        Ok(area)
    }

    /// Lowest address above the guard.
    pub(super) fn bottom(&self) -> *mut u8 {
        // In bounds: the guard is one page of at least two.
        self.0.as_ptr().wrapping_add(base_page_bytes())
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes() - base_page_bytes()
    }

    /// One past the highest address, where a stack begins; page-aligned.
    pub(super) fn top(&self) -> *mut u8 {
        self.0.as_ptr().wrapping_add(self.0.bytes())
    }
}
