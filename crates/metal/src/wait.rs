//! Waiting for a file descriptor with a deadline: one system call, no timer thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until `fd` is readable (or at its end). `Ok(false)` after the time is over; an interrupting
/// signal is an error of kind `Interrupted`, so that the caller can look at its flags.
///
/// # Errors
/// What poll(2) reports.
pub fn readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // Rounded up: a wait must not spin through its last partial millisecond.
    let timeout_ms =
        libc::c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: one valid pollfd that outlives the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
    match ready {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(false),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::readable;
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

    fn io_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
        std::io::pipe().expect("a pipe can be made")
    }
}
