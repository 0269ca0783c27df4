//! Areas of memory whose pages are touched one by one, so that each touch is a page fault, and that
//! can be made fresh again; files whose pages leave the page cache.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::answer::{done, invalid};
use crate::memory::{Mapped, Mapping, base_page_bytes};

mod file;
mod turn;

pub use file::{evict, free_bytes, random_readahead, resident_pages, unlinked};
pub use turn::{TURN_TOUCHES, stress_turn};

/// What is stored at the first touch of a page: no zero, and another in each page.
const STORED: u64 = 0x9e37_79b9_7f4a_7c15;

/// How an area gets rid of its pages, so that the next touch faults again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    /// They are freed (private memory), or unmapped while the file's cache keeps them.
    Drop,
    /// A hole is made in the object behind shared memory, which frees them.
    Hole,
}

#[derive(Debug)]
enum Memory {
    /// The caller gave it.
    Private(Mapping),
    Own(Mapped),
}

/// Pages that are mapped and not there. Unmapped on drop.
#[derive(Debug)]
pub struct Area {
    memory: Memory,
    bytes: usize,
    renewal: Renewal,
}

impl Area {
    /// Private memory. What was touched of it is freed first. Errors: those of madvise(2): locked
    /// memory is never freed (EINVAL).
    pub fn private(mapping: Mapping) -> io::Result<Area> {
        let bytes = mapping.bytes();
        let mut area = Area { memory: Memory::Private(mapping), bytes, renewal: Renewal::Drop };
        area.renew(area.bytes)?;
        Ok(area)
    }

    /// Shared memory of no file, in base pages where the machine's setting does not force huge
    /// ones. Errors: those of mmap(2).
    pub fn shared(bytes: usize) -> io::Result<Area> {
        let area = Area::reserve(bytes, Renewal::Hole)?;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        area.put(0, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, None)?;
        // SAFETY: the range is the area; a kernel that has no huge pages refuses, which is as well.
        unsafe { libc::madvise(area.start().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(area)
    }

    /// Pieces of a file of `piece_bytes` each, side by side, shared and to be read; `offsets` are
    /// their places in the file. Pieces that do not follow each other in the file are areas of
    /// their own to the kernel, and a fault maps no page of another area. Errors: those of mmap(2):
    /// ENOMEM where the process has too many areas (`vm.max_map_count`).
    pub fn file(file: &File, piece_bytes: usize, offsets: &[u64]) -> io::Result<Area> {
        let area = Area::reserve(piece_bytes * offsets.len(), Renewal::Drop)?;
        for (index, &offset) in offsets.iter().enumerate() {
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            let at = index * piece_bytes;
            area.put(at, piece_bytes, libc::PROT_READ, flags, Some((file, offset)))?;
        }
        Ok(area)
    }

    fn start(&self) -> *mut u8 {
        match &self.memory {
            Memory::Private(mapping) => mapping.as_ptr().cast_mut(),
            Memory::Own(mapped) => mapped.as_ptr(),
        }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The private memory behind it.
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.memory {
            Memory::Private(mapping) => Some(mapping),
            Memory::Own(_) => None,
        }
    }

    /// Has the first `bytes` fault again. Errors: those of madvise(2).
    pub fn renew(&mut self, bytes: usize) -> io::Result<()> {
        let advice = match self.renewal {
            Renewal::Drop => libc::MADV_DONTNEED,
            Renewal::Hole => libc::MADV_REMOVE,
        };
        self.advise(bytes.min(self.bytes), advice)
    }

    /// Advises the kernel that a mapped file is read in no order: a fault reads its page and no
    /// other. Errors: those of madvise(2).
    pub fn expect_random(&self) -> io::Result<()> {
        self.advise(self.bytes, libc::MADV_RANDOM)
    }

    /// Reads the first word of every `stride` bytes, `count` times from the byte `from` on. Each
    /// read is one load that no compiler leaves out or moves. Returns the sum of what it read.
    /// Panics: a read would be outside of the area. (A file shorter than its mapping is a SIGBUS.)
    #[inline(never)]
    pub fn read(&self, from: usize, stride: usize, count: usize) -> u64 {
        self.check(from, stride, count);
        let mut sum = 0_u64;
        let mut at = self.start().wrapping_add(from);
        for _ in 0..count {
            // SAFETY: inside of the area by the check, which is mapped to be read; aligned, because
            // the start and the steps are.
            sum = sum.wrapping_add(unsafe { at.cast::<u64>().read_volatile() });
            at = at.wrapping_add(stride);
        }
        sum
    }

    /// Writes the first word of every `stride` bytes, as [`Area::read`] reads. Panics: a write
    /// would be outside of the area, or the area is a file's.
    #[inline(never)]
    pub fn write(&mut self, from: usize, stride: usize, count: usize) {
        self.check(from, stride, count);
        assert!(
            self.mapping().is_some() || self.renewal == Renewal::Hole,
            "a mapped file is only read"
        );
        let mut value = STORED;
        let mut at = self.start().wrapping_add(from);
        for _ in 0..count {
            // SAFETY: inside of the area by the check, which is mapped to be written, and aligned;
            // no reference to the memory exists, because `mapping` borrows the area, and this is
            // the only borrow.
            unsafe { at.cast::<u64>().write_volatile(value) };
            value = value.wrapping_add(STORED << 1);
            at = at.wrapping_add(stride);
        }
    }

    fn check(&self, from: usize, stride: usize, count: usize) {
        let end = count
            .saturating_sub(1)
            .saturating_mul(stride)
            .saturating_add(from)
            .saturating_add(size_of::<u64>());
        assert!(
            end <= self.bytes && from.is_multiple_of(8) && stride.is_multiple_of(8),
            "{count} touches every {stride} bytes from {from} are not inside of {} bytes",
            self.bytes
        );
    }

    fn advise(&self, bytes: usize, advice: i32) -> io::Result<()> {
        // SAFETY: the range is inside of the area. Advice that changes what memory holds comes from
        // `renew` alone, which has the only borrow: no reference into it exists.
        done(unsafe { libc::madvise(self.start().cast(), bytes, advice) })
    }

    /// Addresses that nothing else is put at.
    fn reserve(bytes: usize, renewal: Renewal) -> io::Result<Area> {
        if bytes == 0 || !bytes.is_multiple_of(base_page_bytes()) {
            return Err(invalid(format!("{bytes} bytes are not whole pages")));
        }
        Ok(Area { memory: Memory::Own(Mapped::reserved(bytes)?), bytes, renewal })
    }

    /// Maps over a part of a reserved range.
    fn put(
        &self,
        position: usize,
        bytes: usize,
        protection: i32,
        flags: i32,
        file: Option<(&File, u64)>,
    ) -> io::Result<()> {
        assert!(position + bytes <= self.bytes, "inside of what was reserved");
        let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
        // SAFETY: MAP_FIXED replaces pages of the range that `reserve` made for this area alone.
        let placed = unsafe {
            libc::mmap(
                self.start().wrapping_add(position).cast(),
                bytes,
                protection,
                flags,
                fd,
                offset as libc::off_t,
            )
        };
        if placed == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
