//! A stack of our own: mapped, guarded, unmapped on drop.

use std::io;
use std::ptr::NonNull;

use crate::memory::base_page_bytes;

/// A mapping whose lowest page is inaccessible, as the C library makes for a stack.
#[derive(Debug)]
pub(super) struct Area {
    start: NonNull<u8>,
    /// All of it, the guard included.
    bytes: usize,
}

// SAFETY: the area owns its mapping and gives out addresses only.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Maps `bytes`, rounded up to whole pages, by the library's two calls: all of it inaccessible,
    /// then all but the guard for use. Errors: those of mmap(2) and mprotect(2); no room beside the
    /// guard.
    pub(super) fn guarded(bytes: usize) -> io::Result<Area> {
        let page = base_page_bytes();
        let bytes = bytes
            .checked_next_multiple_of(page)
            .filter(|&bytes| bytes >= 2 * page && bytes < isize::MAX as usize)
            .ok_or_else(|| super::invalid("a stack needs a page beside its guard"))?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped at address 0"))?;
        let area = Area { start, bytes };
        // SAFETY: part of the mapping just made.
        let result = unsafe {
            libc::mprotect(area.bottom().cast(), area.bytes(), libc::PROT_READ | libc::PROT_WRITE)
        };
        match result {
            0 => Ok(area),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Lowest address above the guard.
    pub(super) fn bottom(&self) -> *mut u8 {
        // In bounds: the guard is one page of at least two.
        self.start.as_ptr().wrapping_add(base_page_bytes())
    }

    /// Bytes above the guard.
    pub(super) fn bytes(&self) -> usize {
        self.bytes - base_page_bytes()
    }

    /// One past the highest address, where a stack begins; page-aligned.
    pub(super) fn top(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.bytes)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: our mapping; its thread is joined.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
