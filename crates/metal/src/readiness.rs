//! Waiting for any of several file descriptors, again and again, without allocating.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::wait::{entry, poll};

/// File descriptors that are waited for together.
pub struct Readiness<'fd> {
    polls: Vec<libc::pollfd>,
    fds: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> Readiness<'fd> {
    /// A set of descriptors; they keep their places.
    pub fn new(fds: impl IntoIterator<Item = BorrowedFd<'fd>>) -> Self {
        let poll = |fd| entry(fd, libc::POLLIN);
        Readiness { polls: fds.into_iter().map(poll).collect(), fds: PhantomData }
    }

    /// Waits until one is readable, or at its end; whether one is before the time was over (which
    /// is rounded up to ms). A signal ends the wait as the time does. Errors: what poll(2) reports.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let ready = poll(&mut self.polls, timeout);
        if ready.is_err() {
            self.polls.iter_mut().for_each(|poll| poll.revents = 0);
        }
        match ready {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            ready => ready.map(|count| count > 0),
        }
    }

    /// Whether the last wait found something in a place.
    pub fn is_ready(&self, place: usize) -> bool {
        self.polls.get(place).is_some_and(|poll| poll.revents != 0)
    }

    /// Waits no longer for what is in a place: it has ended.
    pub fn forget(&mut self, place: usize) {
        if let Some(poll) = self.polls.get_mut(place) {
            // poll(2) passes over negative ones.
            poll.fd = -1;
            poll.revents = 0;
        }
    }
}

/// Whether a socket that does not wait takes nothing now, for want of room in its buffer or
/// (`ENOBUFS`) in the device's queue.
pub fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::{Readiness, is_full};
    use std::io::{Error, ErrorKind, Write, pipe};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn no_room_is_told_from_other_failures() {
        assert!(is_full(&ErrorKind::WouldBlock.into()));
        assert!(is_full(&Error::from_raw_os_error(libc::ENOBUFS)));
        assert!(!is_full(&ErrorKind::ConnectionReset.into()));
    }

    #[test]
    fn those_are_told_that_have_something_until_they_are_forgotten() {
        let (silent, _open) = pipe().expect("a pipe");
        let (spoken, mut writer) = pipe().expect("a pipe");
        let (ended, gone) = pipe().expect("a pipe");
        let mut all = Readiness::new([silent.as_fd(), spoken.as_fd(), ended.as_fd()]);
        assert!(!all.wait(Duration::ZERO).expect("polls"));
        writer.write_all(b"x").expect("writes");
        drop(gone);
        let told = |all: &Readiness<'_>| [0, 1, 2, 3].map(|place| all.is_ready(place));
        assert!(all.wait(Duration::from_secs(5)).expect("polls"));
        assert_eq!(told(&all), [false, true, true, false]);
        all.forget(2);
        assert!(all.wait(Duration::from_secs(5)).expect("polls"));
        assert_eq!(told(&all), [false, true, false, false]);
        all.forget(1);
        assert!(!all.wait(Duration::ZERO).expect("polls"));
        assert_eq!(told(&all), [false; 4]);
    }
}
