//! Memory whose pages are asked for explicitly and verified.
//!
//! A [`Mapping`] is private anonymous memory that begins on a huge page
//! boundary and has inaccessible pages on both sides, so that the kernel never
//! merges it with a neighbour and its line in smaps is its own.

use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::answer::{done, invalid};

mod mapped;
mod shared;
mod stream;

pub(crate) use mapped::Mapped;
pub use shared::{SharedWords, WORDS_PER_LINE};
pub use stream::{StreamReader, StreamWriter, shared_stream};

/// Pages that are asked about at most in one [`Mapping::nodes`].
const MOST_SAMPLED_PAGES: usize = 4096;
/// Increment of the filling pattern: odd, so that 2^64 words differ.
const FILL_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// mbind(2): fail if a page stays elsewhere.
const MPOL_MF_STRICT: i32 = 1;
/// mbind(2): move what is elsewhere.
const MPOL_MF_MOVE: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pages {
    /// The smallest; transparent huge pages are refused.
    Base,
    /// Transparent huge pages (those that one entry of the second lowest table level maps).
    Huge,
}

/// Size of a base page in bytes.
pub fn base_page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    // SAFETY: asks for a number.
    *BYTES.get_or_init(|| match unsafe { libc::sysconf(libc::_SC_PAGESIZE) } {
        bytes if bytes > 0 => bytes as usize,
        _ => 4096,
    })
}

/// Size of a huge page in bytes, as the kernel states it. Where it states none
/// (no transparent huge pages), what one full table of base pages maps: 2 MiB
/// for base pages of 4 KiB, 512 MiB for 64 KiB.
pub fn huge_page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|bytes: &usize| bytes.is_power_of_two() && *bytes > base_page_bytes())
            .unwrap_or(base_page_bytes() * (base_page_bytes() / size_of::<u64>()))
    })
}

/// Private anonymous memory; unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    pages: Pages,
}

// SAFETY: the mapping owns its memory, as a Vec does; `&Mapping` only reads.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes`, rounded up to whole pages of the kind asked for. No page is there
    /// before it is touched. Errors: `bytes` is 0, or more than the kernel would ever give; or huge
    /// pages are asked of a kernel that has none. Whether huge pages were given is seen by
    /// [`Mapping::huge_share`] after the first touch.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<Mapping> {
        let huge = huge_page_bytes();
        let base = base_page_bytes();
        let unit = match pages {
            Pages::Base => base,
            Pages::Huge => huge,
        };
        let bytes = bytes
            .checked_next_multiple_of(unit)
            .filter(|&bytes| bytes > 0 && bytes < isize::MAX as usize - 2 * huge)
            .ok_or_else(|| invalid(format!("cannot map {bytes} bytes")))?;

        let start = reserve(bytes, huge, base)?;
        let mapping = Mapping { start, bytes, pages };
        match pages {
            Pages::Huge => mapping.advise(libc::MADV_HUGEPAGE)?,
            // EINVAL: a kernel without transparent huge pages gives none.
            Pages::Base => accept_invalid(mapping.advise(libc::MADV_NOHUGEPAGE))?,
        }
        // EINVAL: a kernel without KSM merges nothing.
        accept_invalid(mapping.advise(libc::MADV_UNMERGEABLE))?;
        Ok(mapping)
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Size in bytes of the pages that were asked for.
    pub fn page_bytes(&self) -> usize {
        match self.pages {
            Pages::Base => base_page_bytes(),
            Pages::Huge => huge_page_bytes(),
        }
    }

    /// Address of the first byte; a multiple of the huge page size.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is readable, `bytes` long, and zero or written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    pub fn words(&self) -> &[u64] {
        // SAFETY: as in `as_slice`; the start is aligned to a page.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `as_mut_slice`; the start is aligned to a page.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// Writes every word, on the calling thread, with values that are not zero
    /// and do not repeat: pages are placed by first touch, and neither zero
    /// pages, merging nor compression can stand in for them.
    pub fn touch(&mut self) {
        let mut value = self.start.as_ptr() as u64 | 1;
        for word in self.words_mut() {
            // Zero comes once in 2^64 steps; the low bit keeps it out for good.
            *word = value | 1;
            value = value.wrapping_add(FILL_STEP);
        }
    }

    /// Asks the kernel to gather what is there into huge pages now. Errors: a kernel before 6.1
    /// (EINVAL), no free huge page (EAGAIN, ENOMEM), or base pages were asked for.
    pub fn collapse(&self) -> io::Result<()> {
        if self.pages == Pages::Base {
            return Err(invalid("a mapping of base pages is not to be collapsed"));
        }
        self.advise(libc::MADV_COLLAPSE)
    }

    /// The share of the touched memory that huge pages hold, 0 to 1, from /proc/self/smaps; 0 where
    /// nothing was touched. Errors: smaps cannot be read or does not have the mapping.
    pub fn huge_share(&self) -> io::Result<f64> {
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        let from = self.start.as_ptr() as usize;
        let held = held_in(&smaps, from, from + self.bytes)
            .ok_or_else(|| io::Error::other("the mapping is not in /proc/self/smaps"))?;
        Ok(held.huge_share())
    }

    /// The NUMA node of each page, as pages per node: of every base page, or of 4096 evenly spread
    /// ones where there are more. Pages that were not touched are in no node. Errors: a kernel
    /// without page migration or a sandbox that forbids the call.
    pub fn nodes(&self) -> io::Result<BTreeMap<usize, usize>> {
        let all = self.bytes / base_page_bytes();
        let sampled = all.min(MOST_SAMPLED_PAGES);
        let addresses: Vec<*const u8> = (0..sampled)
            .map(|index| {
                let page = index * all / sampled;
                self.as_ptr().wrapping_add(page * base_page_bytes())
            })
            .collect();
        let mut status = vec![-libc::ENOENT; sampled];
        // SAFETY: both lists have `sampled` elements; without a list of nodes
        // the call moves nothing and only fills `status`.
        done(unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                sampled,
                addresses.as_ptr(),
                std::ptr::null::<i32>(),
                status.as_mut_ptr(),
                0,
            )
        })?;
        let mut nodes = BTreeMap::new();
        for node in status.into_iter().filter_map(|node| usize::try_from(node).ok()) {
            *nodes.entry(node).or_insert(0) += 1;
        }
        Ok(nodes)
    }

    /// Binds the memory to a NUMA node and moves what is elsewhere. Bind before the first touch,
    /// and verify with [`Mapping::nodes`]. Errors: no such node, one without memory or outside the
    /// cpuset, or a kernel without NUMA.
    pub fn bind(&self, node: usize) -> io::Result<()> {
        let mut set = vec![0u64; node / 64 + 1];
        set[node / 64] |= 1 << (node % 64);
        // SAFETY: `set` has the bits that are announced (the kernel reads one less than the given
        // number); the range is this mapping.
        done(unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.bytes,
                libc::MPOL_BIND,
                set.as_ptr(),
                set.len() * 64 + 1,
                MPOL_MF_STRICT | MPOL_MF_MOVE,
            )
        })
    }

    fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: the range is this mapping, and no advice used here changes its content.
        done(unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let guard = base_page_bytes();
        // SAFETY: `reserve` left this range with one guard page on each side,
        // and no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().sub(guard).cast(), self.bytes + 2 * guard) };
    }
}

/// Reserves `bytes` on a boundary of `align` with a page of `guard` bytes that
/// cannot be accessed on each side, and makes the inside writable.
fn reserve(bytes: usize, align: usize, guard: usize) -> io::Result<NonNull<u8>> {
    let whole = bytes + align + 2 * guard;
    // Given up: what is cut off below is unmapped piece by piece.
    let area = std::mem::ManuallyDrop::new(Mapped::reserved(whole)?);
    let area: *mut libc::c_void = area.as_ptr().cast();
    let first = area as usize;
    let start = (first + guard).next_multiple_of(align);
    let before = start - guard - first;
    let after = first + whole - (start + bytes + guard);
    // SAFETY: all three ranges are parts of the area just mapped, which no other code knows; they
    // do not overlap.
    let result = unsafe {
        if before > 0 {
            libc::munmap(area, before);
        }
        if after > 0 {
            libc::munmap((start + bytes + guard) as *mut _, after);
        }
        libc::mprotect(start as *mut _, bytes, libc::PROT_READ | libc::PROT_WRITE)
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: what is left of the area.
        unsafe { libc::munmap((start - guard) as *mut _, bytes + 2 * guard) };
        return Err(error);
    }
    Ok(NonNull::new(start as *mut u8).expect("a mapping is not at address 0"))
}

/// What smaps says about a range, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Held {
    resident: u64,
    transparent: u64,
    hugetlb: u64,
}

impl Held {
    fn huge_share(self) -> f64 {
        // Pages of hugetlbfs are not counted as resident.
        let all = self.resident + self.hugetlb;
        if all == 0 {
            return 0.0;
        }
        (self.transparent + self.hugetlb) as f64 / all as f64
    }
}

/// Sums the areas of smaps that lie inside `from..to`; `None` if it does not exist.
fn held_in(smaps: &str, from: usize, to: usize) -> Option<Held> {
    let mut held: Option<Held> = None;
    let mut inside = false;
    for line in smaps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(first) = fields.next() else { continue };
        if let Some((low, high)) = address_range(first) {
            inside = from <= low && high <= to;
            if inside {
                held.get_or_insert_default();
            }
        } else if inside && let Some(held) = held.as_mut() {
            let kib = fields.next().and_then(|kib| kib.parse::<u64>().ok());
            let kib = kib.unwrap_or(0);
            match first {
                "Rss:" => held.resident += kib,
                "AnonHugePages:" => held.transparent += kib,
                "Private_Hugetlb:" | "Shared_Hugetlb:" => held.hugetlb += kib,
                _ => {}
            }
        }
    }
    held
}

fn address_range(text: &str) -> Option<(usize, usize)> {
    let (low, high) = text.split_once('-')?;
    Some((usize::from_str_radix(low, 16).ok()?, usize::from_str_radix(high, 16).ok()?))
}

fn accept_invalid(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
