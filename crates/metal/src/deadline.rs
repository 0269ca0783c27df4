//! A deadline for system calls that have none of their own, at no cost while they wait.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::answer::done;
use crate::clock::timespec;
use crate::signal;

const SIGNAL: libc::c_int = libc::SIGALRM;
/// It comes again so often: one that came just before a call began is lost on it.
const AGAIN: Duration = Duration::from_millis(20);

/// From its time on, blocking system calls of the thread that made it fail with `Interrupted`,
/// until it is dropped. Calls that take no time limit, or that would pay for a timer at each wait,
/// are bounded with it. It takes over SIGALRM, and the thread that made it drops it.
#[derive(Debug)]
pub struct Deadline {
    timer: libc::timer_t,
}

impl Deadline {
    /// Interrupts the calling thread after `time`. Errors: those of timer_create(2).
    pub fn after(time: Duration) -> io::Result<Deadline> {
        handle()?;
        signal::unblock(&[SIGNAL])?;
        // SAFETY: an all-zero sigevent is a valid one.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        // SAFETY: no arguments; cannot fail.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: `event` and `timer` are ours.
        done(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) })?;
        let deadline = Deadline { timer };
        deadline.put_off(time)?;
        Ok(deadline)
    }

    /// Interrupts the thread that made it after `time` from now on instead. Errors: those of
    /// timer_settime(2).
    pub fn put_off(&self, time: Duration) -> io::Result<()> {
        let times = libc::itimerspec {
            it_interval: timespec(AGAIN),
            // Zero would disarm it.
            it_value: timespec(time.max(Duration::from_nanos(1))),
        };
        // SAFETY: the timer is ours, `times` outlives the call, the old times are not asked for.
        done(unsafe { libc::timer_settime(self.timer, 0, &times, ptr::null_mut()) })
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and is not used again.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Gives the signal a handler that does nothing, once in a process: calls are not taken up again.
fn handle() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    static OUTCOME: Outcome = Outcome::new();
    once(&OUTCOME, || {
        // SAFETY: an all-zero sigaction is a valid one: no flags (so no restarts), an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing; the old action is not asked for.
        done(unsafe { libc::sigaction(SIGNAL, &action, ptr::null_mut()) })
    })
}

/// How something went that is done once; an error by its number.
type Outcome = OnceLock<Result<(), i32>>;

/// Does something once, and says each time how it went: without the handler the signal would kill.
fn once(outcome: &Outcome, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let number = |error: io::Error| error.raw_os_error().unwrap_or(libc::EINVAL);
    let went = *outcome.get_or_init(|| act().map_err(number));
    went.map_err(io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::{Deadline, Outcome, once};
    use crate::raw;
    use std::io::{self, ErrorKind, Write};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_wait_without_an_end_is_interrupted() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        {
            let _deadline = Deadline::after(Duration::from_millis(1)).expect("is armed");
            for _ in 0..2 {
                let error = raw::read(reader.as_fd(), &mut [0]).expect_err("nobody writes");
                assert_eq!(error.kind(), ErrorKind::Interrupted);
            }
        }
        let _deadline = Deadline::after(Duration::from_secs(60)).expect("is armed");
        writer.write_all(b"x").expect("writes");
        assert_eq!(raw::read(reader.as_fd(), &mut [0]).expect("is there"), 1);
    }

    #[test]
    fn a_deadline_is_put_off() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let deadline = Deadline::after(Duration::from_secs(60)).expect("is armed");
        deadline.put_off(Duration::from_millis(1)).expect("is set");
        let error = raw::read(reader.as_fd(), &mut [0]).expect_err("nobody writes");
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        deadline.put_off(Duration::from_secs(60)).expect("is set");
        writer.write_all(b"x").expect("writes");
        assert_eq!(raw::read(reader.as_fd(), &mut [0]).expect("is there"), 1);
    }

    #[test]
    fn a_handler_that_could_not_be_set_is_an_error_each_time() {
        let outcome = Outcome::new();
        for _ in 0..2 {
            let error = once(&outcome, || Err(io::Error::from_raw_os_error(libc::EPERM)))
                .expect_err("was refused");
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        }
        once(&Outcome::new(), || Ok(())).expect("was set");
    }
}
