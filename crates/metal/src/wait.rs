//! Waiting for a file descriptor with a deadline: one system call, no timer thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::answer::{done, number, outcome};
use crate::clock::timespec;
use crate::signal;

/// Waits until `fd` is readable (or at its end). `Ok(false)` after the time is over; an
/// interrupting signal is an error of kind `Interrupted`, so that the caller can look at its flags.
/// Errors: what poll(2) reports.
pub fn readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    Ok(poll(&mut [entry(fd, libc::POLLIN)], timeout)? > 0)
}

pub(crate) fn entry(fd: BorrowedFd<'_>, events: i16) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }
}

/// poll(2) for at most so long, in whole ms, rounded up: a wait must not spin through its last
/// partial one.
pub(crate) fn poll(polls: &mut [libc::pollfd], timeout: Duration) -> io::Result<i32> {
    let ms = libc::c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: pointer and length are those of the list. One that is not open would be reported.
    number(unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, ms) })
}

fn have_events(polls: &[libc::pollfd]) -> Vec<bool> {
    polls.iter().map(|poll| poll.revents != 0).collect()
}

/// As [`readable`], for several at once: which of them are, in their order; none after the time is
/// over. Errors: what poll(2) reports.
pub fn which_readable(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polls: Vec<_> = fds.iter().map(|fd| entry(*fd, libc::POLLIN)).collect();
    poll(&mut polls, timeout)?;
    Ok(have_events(&polls))
}

/// Like [`readable`], but looks at a flag that a handler of `signals` sets, and loses none of them
/// between the look and the wait: they are blocked in the calling thread from before `stopped` is
/// asked and let through by the wait itself (ppoll(2)). An error of kind `Interrupted` means that
/// `stopped` said so or that a signal came; the caller looks again. The process must handle the
/// signals, and no other thread of it may take them. Errors: `Interrupted`, what ppoll(2) reports,
/// or a signal that does not exist.
pub fn readable_unless(
    fd: BorrowedFd<'_>,
    timeout: Duration,
    signals: &[i32],
    stopped: impl FnOnce() -> bool,
) -> io::Result<bool> {
    any_unless(&[Want::Readable(fd)], Some(timeout), signals, stopped).map(|ready| ready[0])
}

#[derive(Clone, Copy, Debug)]
pub enum Want<'fd> {
    /// Bytes to read, or their end.
    Readable(BorrowedFd<'fd>),
    /// Room to write, or no reader.
    Writable(BorrowedFd<'fd>),
}

/// Like [`readable_unless`], for several file descriptors at once, and without an end where
/// `timeout` is `None`: which of them are ready, in their order; none of them after the time is
/// over. One that has failed is ready: reading or writing reports it. Errors: as
/// [`readable_unless`].
pub fn any_unless(
    wants: &[Want<'_>],
    timeout: Option<Duration>,
    signals: &[i32],
    stopped: impl FnOnce() -> bool,
) -> io::Result<Vec<bool>> {
    let blocked = Blocked::new(signals)?;
    if stopped() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let wanted = wants.iter().map(|want| match want {
        Want::Readable(fd) => entry(*fd, libc::POLLIN),
        Want::Writable(fd) => entry(*fd, libc::POLLOUT),
    });
    let mut polls: Vec<libc::pollfd> = wanted.collect();
    let timeout = timeout.map(timespec);
    // SAFETY: as many valid pollfds as stated, a timespec or none, and a mask, outliving the call.
    done(unsafe {
        libc::ppoll(
            polls.as_mut_ptr(),
            polls.len() as libc::nfds_t,
            timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
            &raw const blocked.before,
        )
    })?;
    Ok(have_events(&polls))
}

/// Signals that the calling thread does not take until this is dropped.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn new(signals: &[i32]) -> io::Result<Blocked> {
        // SAFETY: an all-zero set is a valid place to receive a mask in.
        let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: without a set the call changes nothing and writes the present mask.
        outcome(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut before) })?;
        signal::block(signals)?;
        Ok(Blocked { before })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that the kernel gave. Setting it so cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Want, any_unless, readable, readable_unless, which_readable};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_pipe_becomes_readable_by_data_and_by_its_end() {
        let (reader, mut writer) = io_pipe();
        assert!(!readable(reader.as_fd(), Duration::ZERO).expect("polls"));
        writer.write_all(b"x").expect("writes");
        assert!(readable(reader.as_fd(), Duration::from_secs(5)).expect("polls"));
        let (reader, writer) = io_pipe();
        drop(writer);
        assert!(readable(reader.as_fd(), Duration::from_secs(5)).expect("polls"));
    }

    #[test]
    fn of_several_those_are_told_that_are_readable() {
        let (silent, _open) = io_pipe();
        let (spoken, mut writer) = io_pipe();
        let (ended, gone) = io_pipe();
        writer.write_all(b"x").expect("writes");
        drop(gone);
        let all = [silent.as_fd(), spoken.as_fd(), ended.as_fd()];
        let told = which_readable(&all, Duration::from_secs(5)).expect("polls");
        assert_eq!(told, [false, true, true]);
        assert_eq!(which_readable(&all[..1], Duration::ZERO).expect("polls"), [false]);
    }

    extern "C" fn noted(_: libc::c_int) {}

    #[test]
    fn a_signal_between_the_look_and_the_wait_ends_the_wait() {
        let (reader, mut writer) = io_pipe();
        let handler = noted as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing; no other test uses this signal.
        unsafe { libc::signal(libc::SIGWINCH, handler as libc::sighandler_t) };
        let signals = [libc::SIGWINCH];
        let raised = || {
            // SAFETY: sends the calling thread a signal that it handles.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
            false
        };
        // With the signal handled before the wait, all of this time would pass.
        let waited = readable_unless(reader.as_fd(), Duration::from_secs(3), &signals, raised);
        assert_eq!(waited.expect_err("interrupted").kind(), std::io::ErrorKind::Interrupted);
        // The mask is as before, so this one is handled before the look.
        raised();
        let now = readable_unless(reader.as_fd(), Duration::ZERO, &signals, || false);
        assert!(!now.expect("polls"));
        let told = readable_unless(reader.as_fd(), Duration::ZERO, &signals, || true);
        assert_eq!(told.expect_err("stopped").kind(), std::io::ErrorKind::Interrupted);
        writer.write_all(b"x").expect("writes");
        let ready = readable_unless(reader.as_fd(), Duration::from_secs(5), &signals, || false);
        assert!(ready.expect("polls"));
        assert!(readable_unless(reader.as_fd(), Duration::ZERO, &[1000], || false).is_err());
    }

    #[test]
    fn several_are_told_apart() {
        let (idle, _held) = io_pipe();
        let (reader, mut writer) = io_pipe();
        let wants = [Want::Readable(idle.as_fd()), Want::Readable(reader.as_fd())];
        let look = |timeout| any_unless(&wants, timeout, &[], || false).expect("polls");
        assert_eq!(look(Some(Duration::ZERO)), [false, false]);
        writer.write_all(b"x").expect("writes");
        assert_eq!(look(None), [false, true]);
        let room = |writer: &std::io::PipeWriter| {
            let wants = [Want::Writable(writer.as_fd())];
            any_unless(&wants, Some(Duration::ZERO), &[], || false).expect("polls")
        };
        assert_eq!(room(&writer), [true]);
        // A full pipe has none, until its readers are gone: then writing reports it.
        while room(&writer) == [true] {
            writer.write_all(&[0; 4096]).expect("writes");
        }
        drop(reader);
        assert_eq!(room(&writer), [true]);
        let nothing = any_unless(&[], Some(Duration::ZERO), &[], || false);
        assert_eq!(nothing.expect("polls"), [false; 0]);
    }

    fn io_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
        std::io::pipe().expect("a pipe can be made")
    }
}
