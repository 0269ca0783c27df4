//! The next place of a thread.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

use super::Places;

impl Places {
    #[inline(always)]
    pub(in crate::fs::job) fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.drawn.is_empty() {
            let at = self.next;
            self.next += self.block;
            if self.next == self.end {
                self.next = self.start;
            }
            return Some(at);
        }
        let at = self.drawn[self.next as usize];
        self.next += 1;
        if self.next as usize == self.drawn.len() {
            self.next = 0;
        }
        Some(at)
    }
}
