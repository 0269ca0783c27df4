//! Handing over to another thread or process: work with the token, and a child's first run.

use std::io;
use std::sync::atomic::Ordering;

use crate::arch;
use crate::memory::SharedWords;
use crate::process::{Ending, reap};
use crate::raw::{self, call};

/// A line of a working set, 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Line(pub [u64; 8]);

/// Sum of all words (it wraps), each loaded once, in order.
#[inline]
pub fn sum(lines: &[Line]) -> u64 {
    // SAFETY: the slice is readable and its lines lie one after another.
    unsafe { arch::sum_lines(lines.as_ptr().cast(), lines.len()) }
}

/// When a parent went to wait and when the child that it had just made began, in ticks of one CPU's
/// counter if both are pinned to one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRun {
    /// The parent, just before it waits for the child.
    pub parent_waits: u64,
    /// The child, by its first instruction. Earlier where the kernel let the child run first.
    pub child_begins: u64,
}

/// Makes a child as fork(2) does (its memory is a copy) by the bare system call, and waits for its
/// end. The child reads the counter before anything else, leaves it in `word` and exits. Errors:
/// those of clone(2), RLIMIT_NPROC and pids.max among them, and of waitpid(2); a child that did not
/// end by its own exit.
pub fn first_run(words: &SharedWords) -> io::Result<FirstRun> {
    let word = words.first().expect("shared memory has a word at least");
    word.store(0, Ordering::Relaxed);
    // SAFETY: no new stack, no flags but the signal for the parent: a fork. The child goes on with
    // a copy of this thread's stack and does nothing that the C library would have to know about.
    let pid = unsafe { call!(SYS_clone, libc::SIGCHLD, 0, 0, 0, 0, 0) };
    if pid == 0 {
        let begins = arch::ticks_start();
        word.store(begins, Ordering::Release);
        loop {
            // SAFETY: ends the child.
            unsafe { call!(SYS_exit_group, 0) };
        }
    }
    let parent_waits = arch::ticks_start();
    let pid = raw::result(pid)?;
    match reap(pid as libc::pid_t)? {
        Ending::Exited(0) => {
            Ok(FirstRun { parent_waits, child_begins: word.load(Ordering::Acquire) })
        }
        ending => Err(io::Error::other(format!("the child {pid} ended: {ending:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, first_run, sum};
    use crate::memory::SharedWords;

    #[test]
    fn a_sum_takes_every_word_once() {
        for lines in [0, 1, 2, 7, 1024] {
            let mut next = 0;
            let array: Vec<Line> = (0..lines)
                .map(|_| {
                    Line(std::array::from_fn(|_| {
                        next += 1;
                        1 << (next % 61) | next
                    }))
                })
                .collect();
            let expected = array.iter().flat_map(|line| line.0).fold(0_u64, u64::wrapping_add);
            assert_eq!(sum(&array), expected, "{lines} lines");
        }
    }

    #[test]
    fn a_child_runs_and_says_when() {
        let words = SharedWords::new(1).expect("shared memory");
        for _ in 0..3 {
            let run = first_run(&words).expect("forks");
            assert!(run.child_begins > 0 && run.parent_waits > 0, "{run:?}");
        }
    }
}
