//! Words that a process shares with the children that it forks.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::{Mapped, base_page_bytes};
use crate::answer::invalid;

/// Words of a cache line of 64 bytes: words that two parties write should lie this far apart (twice
/// this, where the processor fetches lines in pairs).
pub const WORDS_PER_LINE: usize = 8;

/// Shared anonymous memory, zero at first, as atomic words; children made after it see it too.
/// Unmapped on drop.
#[derive(Debug)]
pub struct SharedWords {
    mapped: Mapped,
    words: usize,
}

impl SharedWords {
    /// At least `words` words, in whole base pages, all touched. Errors: those of mmap(2); `words`
    /// is 0 or too large.
    pub fn new(words: usize) -> io::Result<SharedWords> {
        let bytes = words
            .checked_mul(size_of::<AtomicU64>())
            .and_then(|bytes| bytes.checked_next_multiple_of(base_page_bytes()))
            .filter(|&bytes| bytes > 0 && bytes < isize::MAX as usize)
            .ok_or_else(|| invalid(format!("cannot share {words} words")))?;
        Ok(SharedWords { mapped: Mapped::shared(bytes)?, words })
    }

    /// The low half of a word, at which the kernel looks in a futex. Parties that meet at a word
    /// all use its half or all use it whole. Panics: there is no such word.
    #[inline]
    pub fn low_half(&self, index: usize) -> &AtomicU32 {
        const { assert!(cfg!(target_endian = "little")) };
        // SAFETY: the low half lies at the word's address, is aligned as the word is, lives as
        // long, and is atomic as well.
        unsafe { AtomicU32::from_ptr(self[index].as_ptr().cast()) }
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds so many aligned words, zero or written, for as long as `self`.
        unsafe { std::slice::from_raw_parts(self.mapped.as_ptr().cast(), self.words) }
    }
}

#[cfg(test)]
mod tests {
    use super::SharedWords;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_are_zero_aligned_and_as_many_as_asked() {
        let words = SharedWords::new(1000).expect("maps");
        assert_eq!(words.len(), 1000);
        assert_eq!(words.as_ptr().addr() % 4096, 0);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        SharedWords::new(0).expect_err("no words");
    }
}
