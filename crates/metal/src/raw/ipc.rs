//! System calls between processes: event counters, POSIX message queues, waits on shared words.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::{call, done, opened, result};
use crate::clock::timespec;

/// Makes an event counter (eventfd) at 0. Writing 8 bytes adds their number to it; reading 8 bytes
/// waits until it is not 0, returns it and sets it to 0. Errors: those of eventfd2(2).
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: plain values; this code owns what the kernel opens.
    unsafe { opened(call!(SYS_eventfd2, 0, libc::EFD_CLOEXEC)) }
}

/// The possible waiters on a word, which must be searched when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
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

/// Waits until the kernel is notified that `word` changed, if it still is `expected`. Returns at
/// once where it is not, and may return without a reason; the caller looks again. Errors:
/// `Interrupted` by a signal that has a handler, a [`Deadline`](crate::deadline::Deadline) among
/// them; others of futex(2).
#[inline]
pub fn futex_wait(word: &AtomicU32, expected: u32, scope: Scope) -> io::Result<()> {
    wait(word, expected, scope, ptr::null()).or_else(|error| again(error, &[libc::EAGAIN]))
}

/// As [`futex_wait`], for so long at most; where that passed, it returns as if there had been no
/// reason. Errors: those of [`futex_wait`].
pub fn futex_wait_for(
    word: &AtomicU32,
    expected: u32,
    scope: Scope,
    at_most: Duration,
) -> io::Result<()> {
    let limit = timespec(at_most);
    let ended = [libc::EAGAIN, libc::ETIMEDOUT];
    wait(word, expected, scope, &raw const limit).or_else(|error| again(error, &ended))
}

#[inline(always)]
fn wait(
    word: &AtomicU32,
    expected: u32,
    scope: Scope,
    limit: *const libc::timespec,
) -> io::Result<()> {
    let operation = libc::FUTEX_WAIT | scope.flag();
    // SAFETY: the word is valid, and the kernel reads one timespec or, of a null pointer, none.
    done(unsafe { call!(SYS_futex, word.as_ptr(), operation, expected, limit) })
}

/// Whether the caller is just to look again.
fn again(error: io::Error, reasons: &[i32]) -> io::Result<()> {
    match error.raw_os_error() {
        Some(number) if reasons.contains(&number) => Ok(()),
        _ => Err(error),
    }
}

/// Wakes at most `count` of those that wait on `word` by [`futex_wait`] with the same scope;
/// returns how many there were. Errors: those of futex(2).
#[inline]
pub fn futex_wake(word: &AtomicU32, count: u32, scope: Scope) -> io::Result<usize> {
    // SAFETY: the word is valid, and waking does not access it.
    result(unsafe { call!(SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | scope.flag(), count) })
}

/// A POSIX message queue without a name: it is gone with its last descriptor.
#[derive(Debug)]
pub struct MessageQueue {
    fd: OwnedFd,
}

impl MessageQueue {
    /// A queue for at most `messages` messages of at most `bytes` each. It is made under `name`
    /// (without a slash), which must be free and is removed at once. Errors: those of mq_open(2):
    /// `InvalidInput` where `bytes` or `messages` is above `fs.mqueue.msgsize_max` or
    /// `fs.mqueue.msg_max`; `EMFILE` above the limit on bytes in queues (RLIMIT_MSGQUEUE); `ENOSYS`
    /// where the kernel has no queues.
    pub fn new(name: &CStr, messages: usize, bytes: usize) -> io::Result<MessageQueue> {
        const MODE: usize = 0o600;
        // SAFETY: an all-zero mq_attr is a valid one.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = messages as _;
        attributes.mq_msgsize = bytes as _;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name ends in a zero byte, and the kernel reads one mq_attr; it owns what it
        // opens.
        let fd = unsafe {
            opened(call!(SYS_mq_open, name.as_ptr(), flags, MODE, &raw const attributes))?
        };
        // SAFETY: the name ends in a zero byte.
        result(unsafe { call!(SYS_mq_unlink, name.as_ptr()) })?;
        Ok(MessageQueue { fd })
    }

    /// Another descriptor of the same queue. Errors: those of fcntl(2).
    pub fn try_clone(&self) -> io::Result<MessageQueue> {
        Ok(MessageQueue { fd: self.fd.try_clone()? })
    }

    /// Sends `message`; waits while the queue is full. Errors: those of mq_timedsend(2).
    #[inline]
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads `message.len()` bytes; priority 0, no time limit.
        done(unsafe {
            call!(SYS_mq_timedsend, self.fd.as_raw_fd(), message.as_ptr(), message.len(), 0, 0, 0)
        })
    }

    /// Receives the oldest message into `buffer`, which must have room for the queue's largest;
    /// waits for one. Returns its bytes. Errors: those of mq_timedreceive(2).
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most `buffer.len()` bytes; no priority asked, no time limit.
        result(unsafe {
            call!(
                SYS_mq_timedreceive,
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
                0,
                0,
                0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MessageQueue, Scope, eventfd, futex_wait, futex_wake};
    use crate::deadline::Deadline;
    use crate::memory::SharedWords;
    use crate::process::Child;
    use crate::raw;
    use std::ffi::CString;
    use std::io;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn an_event_counter_adds_up_and_is_emptied_by_reading() {
        let counter = eventfd().expect("is made");
        for add in [3u64, 4] {
            let bytes = add.to_ne_bytes();
            assert_eq!(raw::write(counter.as_fd(), &bytes).expect("writes"), 8);
        }
        let mut bytes = [0; 8];
        assert_eq!(raw::read(counter.as_fd(), &mut bytes).expect("reads"), 8);
        assert_eq!(u64::from_ne_bytes(bytes), 7);
    }

    #[test]
    fn a_wait_for_another_value_ends_at_once_and_nobody_waits() {
        let words = SharedWords::new(1).expect("shared memory");
        words[0].store(5 << 32 | 3, Ordering::Release);
        let half = words.low_half(0);
        assert_eq!(half.load(Ordering::Acquire), 3);
        for scope in [Scope::Process, Scope::Machine] {
            futex_wait(half, 5, scope).expect("returns at once");
            assert_eq!(futex_wake(half, 1, scope).expect("wakes"), 0);
        }
    }

    #[test]
    fn a_thread_and_a_process_are_woken_once() {
        let words = SharedWords::new(2).expect("shared memory");
        let wait = |word: &AtomicU32, scope| {
            while word.load(Ordering::Acquire) == 0 {
                if futex_wait(word, 0, scope).is_err() {
                    return 1;
                }
            }
            0
        };
        let wake = |word: &AtomicU32, scope| {
            // Only one that sleeps is counted.
            while futex_wake(word, 1, scope).expect("wakes") == 0 {
                std::thread::yield_now();
            }
            word.store(1, Ordering::Release);
            futex_wake(word, 1, scope).expect("wakes");
        };
        let (theirs, ours) = (words.low_half(0), words.low_half(1));
        let child = Child::fork(|| wait(theirs, Scope::Machine)).expect("forks");
        wake(theirs, Scope::Machine);
        child.succeed().expect("saw the word");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| wait(ours, Scope::Process));
            wake(ours, Scope::Process);
            assert_eq!(thread.join().expect("ends"), 0);
        });
        assert_eq!(futex_wake(ours, 1, Scope::Process).expect("wakes"), 0);
    }

    #[test]
    fn a_deadline_ends_a_wait_that_nobody_ends() {
        let word = AtomicU32::new(0);
        let _deadline = Deadline::after(Duration::from_millis(1)).expect("is armed");
        for scope in [Scope::Process, Scope::Machine] {
            let error = futex_wait(&word, 0, scope).expect_err("nobody wakes");
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        }
    }

    #[test]
    fn a_queue_keeps_messages_apart_and_in_order() {
        let name = CString::new(format!("plumb-queue-{}", std::process::id())).expect("no zero");
        let queue = match MessageQueue::new(&name, 2, 16) {
            // Kernels and sandboxes without queues.
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return,
            queue => queue.expect("is made"),
        };
        let other = queue.try_clone().expect("is cloned");
        queue.send(b"one").expect("sends");
        queue.send(b"second").expect("sends");
        let mut buffer = [0; 16];
        assert_eq!(other.receive(&mut buffer).expect("receives"), 3);
        assert_eq!(&buffer[..3], b"one");
        assert_eq!(other.receive(&mut buffer).expect("receives"), 6);
        let large = queue.send(&[1; 17]).expect_err("is too large");
        assert_eq!(large.raw_os_error(), Some(libc::EMSGSIZE));
        // The name is free again, so nothing is left behind.
        MessageQueue::new(&name, 2, 16).expect("is made again");
        let none = MessageQueue::new(&name, 0, 16).expect_err("room for no message");
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    }
}
