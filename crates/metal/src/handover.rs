//! Handing over to another thread or process: events, futexes between
//! processes, the work of whoever has the token, and a child's first run.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch;
use crate::memory::SharedWords;
use crate::process::{Ending, reap};

/// Who may wait on a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process.
    Process,
    /// Whoever has the memory.
    Machine,
}

impl Scope {
    #[inline(always)]
    fn flag(self) -> i32 {
        match self {
            Scope::Process => libc::FUTEX_PRIVATE_FLAG,
            Scope::Machine => 0,
        }
    }
}

/// The kernel looks at 32 bits: the low half of a word, which lies at its address.
const _: () = assert!(cfg!(target_endian = "little"));

/// Waits until woken, if the low half of `word` is `expected`; returns at once if it is not. It may
/// also return without reason: the caller looks at the word.
///
/// # Errors
/// Those of futex(2) other than another value and a signal.
#[inline]
pub fn futex_wait(word: &AtomicU64, expected: u32, scope: Scope) -> io::Result<()> {
    // SAFETY: the word is valid and aligned; without a timeout.
    let result = unsafe {
        arch::syscall4(
            libc::SYS_futex,
            word.as_ptr() as usize,
            (libc::FUTEX_WAIT | scope.flag()) as usize,
            expected as usize,
            0,
        )
    };
    match i32::try_from(-result) {
        Ok(0 | libc::EAGAIN | libc::EINTR) => Ok(()),
        Ok(error) => Err(io::Error::from_raw_os_error(error)),
        Err(_) => Err(io::Error::other("futex(2) returned no error number")),
    }
}

/// Wakes one that waits on `word`; returns how many there were.
///
/// # Errors
/// Those of futex(2).
#[inline]
pub fn futex_wake_one(word: &AtomicU64, scope: Scope) -> io::Result<usize> {
    // SAFETY: the word is valid, and waking does not access it.
    let result = unsafe {
        arch::syscall3(
            libc::SYS_futex,
            word.as_ptr() as usize,
            (libc::FUTEX_WAKE | scope.flag()) as usize,
            1,
        )
    };
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32))
}

/// Makes an eventfd that counts from 0; a read takes all of the count.
///
/// # Errors
/// Those of eventfd(2).
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: plain values.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

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
    /// The child, by its first instruction. Earlier than the other where the kernel let the child
    /// run first.
    pub child_begins: u64,
}

/// Makes a child as fork(2) does (its memory is a copy) by the bare system call, and waits for its
/// end. The child reads the counter before anything else, leaves it in `word` and exits.
///
/// # Errors
/// Those of clone(2), RLIMIT_NPROC and pids.max among them, and of waitpid(2); a child that did not
/// end by its own exit.
pub fn first_run(words: &SharedWords) -> io::Result<FirstRun> {
    let word = words.first().expect("shared memory has a word at least");
    word.store(0, Ordering::Relaxed);
    // SAFETY: no new stack, no flags but the signal for the parent: a fork. The child goes on with a
    // copy of this thread's stack and does nothing that the C library would have to know about.
    let pid = unsafe { arch::syscall6(libc::SYS_clone, libc::SIGCHLD as usize, 0, 0, 0, 0, 0) };
    if pid == 0 {
        let begins = arch::ticks_start();
        word.store(begins, Ordering::Release);
        loop {
            // SAFETY: ends the child.
            unsafe { arch::syscall1(libc::SYS_exit_group, 0) };
        }
    }
    let parent_waits = arch::ticks_start();
    if pid < 0 {
        return Err(io::Error::from_raw_os_error(-pid as i32));
    }
    match reap(pid as libc::pid_t)? {
        Ending::Exited(0) => Ok(FirstRun {
            parent_waits,
            child_begins: word.load(Ordering::Acquire),
        }),
        ending => Err(io::Error::other(format!(
            "the child {pid} ended: {ending:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Scope, eventfd, first_run, futex_wait, futex_wake_one, sum};
    use crate::memory::SharedWords;
    use crate::process::Child;
    use crate::raw;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

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
            let expected = array
                .iter()
                .flat_map(|line| line.0)
                .fold(0_u64, u64::wrapping_add);
            assert_eq!(sum(&array), expected, "{lines} lines");
        }
    }

    #[test]
    fn a_futex_wakes_another_process() {
        let words = SharedWords::new(2).expect("shared memory");
        let child = Child::fork(|| {
            while words[0].load(Ordering::Acquire) == 0 {
                if futex_wait(&words[0], 0, Scope::Machine).is_err() {
                    return 1;
                }
            }
            i32::from(words[0].load(Ordering::Acquire) != 7)
        })
        .expect("forks");
        words[0].store(7, Ordering::Release);
        let woken = futex_wake_one(&words[0], Scope::Machine).expect("wakes");
        assert!(woken <= 1);
        child.succeed().expect("saw the word");
    }

    #[test]
    fn a_futex_with_another_value_does_not_wait_and_only_the_low_half_counts() {
        let words = SharedWords::new(1).expect("shared memory");
        words[0].store(5 << 32 | 3, Ordering::Release);
        for scope in [Scope::Process, Scope::Machine] {
            futex_wait(&words[0], 5, scope).expect("returns at once");
            assert_eq!(futex_wake_one(&words[0], scope).expect("nobody"), 0);
        }
    }

    #[test]
    fn an_eventfd_gives_its_count_once() {
        let event = eventfd().expect("an eventfd");
        for count in [1_u64, 5] {
            let bytes = count.to_ne_bytes();
            assert_eq!(raw::write(event.as_fd(), &bytes).expect("writes"), 8);
            let mut read = [0; 8];
            assert_eq!(raw::read(event.as_fd(), &mut read).expect("reads"), 8);
            assert_eq!(u64::from_ne_bytes(read), count);
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
