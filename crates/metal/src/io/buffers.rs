//! Memory that blocks are read into and written from.

use std::io;

use crate::answer::invalid;
use crate::memory::{Mapping, Pages, base_page_bytes};
use crate::ring::{STEP, noise};

/// A stamp stands at the begin of every so many bytes of a block.
const STAMP_EVERY: usize = 4096;
/// Blocks of equal length, each aligned to a page, filled with what does not compress.
#[derive(Debug)]
pub struct Buffers {
    mapping: Mapping,
    count: usize,
    block_bytes: usize,
    stride_bytes: usize,
    stamp: u64,
}

impl Buffers {
    /// `count` blocks of `block_bytes`; every page is touched by the caller. Errors: no block,
    /// blocks without a byte, or those of mmap(2).
    pub fn new(count: usize, block_bytes: usize, seed: u64) -> io::Result<Buffers> {
        let stride_bytes = block_bytes.checked_next_multiple_of(base_page_bytes());
        let bytes = stride_bytes
            .and_then(|stride| stride.checked_mul(count))
            .filter(|_| count > 0 && block_bytes > 0)
            .ok_or_else(|| invalid(format!("cannot have {count} blocks of {block_bytes} bytes")))?;
        let mut mapping = Mapping::new(bytes, Pages::Base)?;
        let mut state = seed;
        for word in mapping.words_mut() {
            state = state.wrapping_add(STEP);
            *word = noise(state);
        }
        Ok(Buffers {
            mapping,
            count,
            block_bytes,
            stride_bytes: bytes / count,
            stamp: noise(seed ^ STEP),
        })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Length of a block in bytes.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// A block. Panics: there is no such block.
    pub fn get(&self, index: usize) -> &[u8] {
        let from = self.start_of(index);
        &self.mapping.as_slice()[from..from + self.block_bytes]
    }

    /// A block, to write. Panics: there is no such block.
    pub fn get_mut(&mut self, index: usize) -> &mut [u8] {
        let from = self.start_of(index);
        &mut self.mapping.as_mut_slice()[from..from + self.block_bytes]
    }

    /// Makes a block unlike every other that was stamped: a store of eight bytes to every 4 KiB of
    /// it (of one byte, where a block has fewer than eight: those repeat after 256).
    #[inline]
    pub(super) fn stamp(&mut self, index: usize) {
        let mut stamp = self.stamp;
        for page in self.get_mut(index).chunks_mut(STAMP_EVERY) {
            stamp = stamp.wrapping_add(STEP);
            match page.first_chunk_mut::<8>() {
                Some(head) => *head = stamp.to_le_bytes(),
                None => page[0] = page[0].wrapping_add(1),
            }
        }
        self.stamp = stamp;
    }

    fn start_of(&self, index: usize) -> usize {
        assert!(index < self.count, "block {index} of {}", self.count);
        index * self.stride_bytes
    }
}
