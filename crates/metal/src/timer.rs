//! The kernel's timers by their system calls: a relative sleep, timerfd, the process's interval
//! timer and epoll's time-out. [`crate::sleep::until`] is the absolute sleep.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::clock;
use crate::raw::{call, done, opened, result};

/// The size of a signal set in the kernel.
const SET_BYTES: usize = 8;

/// Sleeps for so long (nanosleep(2)). Errors: `Interrupted` by a signal that has a handler.
#[inline]
pub fn sleep(ns: u64) -> io::Result<()> {
    let time = timespec(ns);
    // SAFETY: the kernel reads one timespec; what would be left is not asked for.
    done(unsafe { call!(SYS_nanosleep, &raw const time, 0) })
}

/// A timer that is a descriptor, on the monotonic clock.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// One that is not armed. Errors: those of timerfd_create(2).
    pub fn new() -> io::Result<TimerFd> {
        // SAFETY: plain values; this code owns what the kernel opens.
        let fd =
            unsafe { opened(call!(SYS_timerfd_create, libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC)) };
        fd.map(TimerFd)
    }

    /// Arms it for once after so long; 0 disarms it. Errors: those of timerfd_settime(2).
    #[inline]
    pub fn arm(&self, ns: u64) -> io::Result<()> {
        let times = libc::itimerspec { it_interval: timespec(0), it_value: timespec(ns) };
        // SAFETY: the kernel reads one itimerspec; the old times are not asked for.
        done(unsafe { call!(SYS_timerfd_settime, self.0.as_raw_fd(), 0, &raw const times, 0) })
    }

    /// Waits until it expires; how often it has. Errors: `Interrupted` by a signal that has a
    /// handler.
    #[inline]
    pub fn wait(&self) -> io::Result<u64> {
        let mut expirations = 0u64;
        // SAFETY: the kernel writes 8 bytes to `expirations`.
        result(unsafe { call!(SYS_read, self.0.as_raw_fd(), &raw mut expirations, 8) })?;
        Ok(expirations)
    }
}

/// Arms the process's real-time interval timer for once after so long, in whole µs; 0 disarms it.
/// It sends SIGALRM to the process: whoever arms it has that blocked in all threads. Errors: those
/// of setitimer(2).
#[inline]
pub fn arm_alarm(ns: u64) -> io::Result<()> {
    let times = libc::itimerval { it_interval: timeval(0), it_value: timeval(ns) };
    // SAFETY: the kernel reads one itimerval; the old times are not asked for.
    done(unsafe { call!(SYS_setitimer, libc::ITIMER_REAL, &raw const times, 0) })
}

/// Takes SIGALRM, which the thread has blocked, or waits for it at most so long
/// (rt_sigtimedwait(2)). Errors: `WouldBlock` where none came.
#[inline]
pub fn wait_alarm(most_ns: u64) -> io::Result<()> {
    let set = 1u64 << (libc::SIGALRM - 1);
    let most = timespec(most_ns);
    // SAFETY: the kernel reads a signal set of 8 bytes and a timespec; its data is not asked for.
    done(unsafe { call!(SYS_rt_sigtimedwait, &raw const set, 0, &raw const most, SET_BYTES) })
}

/// Waits for descriptors of an epoll set at most so long (epoll_pwait2(2), Linux 5.11); how many
/// are ready. Errors: those of epoll_pwait2(2).
#[inline]
pub fn epoll_wait_for(epoll: BorrowedFd, ns: u64) -> io::Result<usize> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let time = timespec(ns);
    let (fd, into) = (epoll.as_raw_fd() as usize, (&raw mut event) as usize);
    let time = (&raw const time) as usize;
    // SAFETY: the kernel writes at most one event and reads a timespec; the signal mask stays.
    result(unsafe { call!(SYS_epoll_pwait2, fd, into, 1, time, 0, SET_BYTES) })
}

fn timespec(ns: u64) -> libc::timespec {
    clock::timespec(Duration::from_nanos(ns))
}

fn timeval(ns: u64) -> libc::timeval {
    libc::timeval {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_usec: (ns % 1_000_000_000 / 1000) as libc::suseconds_t,
    }
}

#[cfg(test)]
mod tests {
    use super::{TimerFd, epoll_wait_for, sleep};
    use crate::clock::monotonic_raw_ns;
    use crate::raw::{epoll_add, epoll_create};
    use std::os::fd::AsFd;

    #[test]
    fn nothing_ends_before_its_time_and_what_is_disarmed_never() {
        const NS: u64 = 300_000;
        let timer = TimerFd::new().expect("a timer");
        let epoll = epoll_create().expect("an epoll set");
        epoll_add(epoll.as_fd(), timer.0.as_fd()).expect("a member");
        let waits: [&dyn Fn(); 3] = [
            &|| sleep(NS).expect("sleeps"),
            &|| {
                timer.arm(NS).expect("is armed");
                assert_eq!(timer.wait().expect("expires"), 1);
            },
            &|| {
                timer.arm(NS).expect("is armed");
                timer.arm(0).expect("is disarmed");
                assert_eq!(epoll_wait_for(epoll.as_fd(), 2 * NS).expect("waits"), 0);
            },
        ];
        for wait in waits {
            let before = monotonic_raw_ns();
            wait();
            // NTP may slew the clock that timers count in by 500 ppm against this one.
            assert!(monotonic_raw_ns() - before >= NS - NS / 1000);
        }
    }
}
