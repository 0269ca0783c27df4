//! Dispositions of signals and the calling thread's mask.

mod deliver;
mod mend;

pub use deliver::{Catcher, Faults};
pub use mend::Mender;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::answer::{done, outcome};

/// Signals that follow the first within so many ms ask for the same: timeout(1) signals its child
/// and then its group, in which the child is.
const SAME_REQUEST_MS: u64 = 500;

/// Has the first of `signals` set `stop`, and a later one end the process at once with `status`.
/// Errors: a signal that cannot be caught.
pub fn stop_at(signals: &[i32], stop: &Arc<AtomicBool>, status: i32) -> io::Result<()> {
    let begin = Instant::now();
    let first_ms = Arc::new(AtomicU64::new(u64::MAX));
    for signal in signals {
        let (stop, first_ms) = (Arc::clone(stop), Arc::clone(&first_ms));
        let act = move || {
            let now_ms = begin.elapsed().as_millis() as u64;
            let first_ms = first_ms.fetch_min(now_ms, Ordering::SeqCst);
            if now_ms.saturating_sub(first_ms) > SAME_REQUEST_MS {
                signal_hook::low_level::exit(status);
            }
            stop.store(true, Ordering::SeqCst);
        };
        // SAFETY: reading the clock, atomics and `_exit` may interrupt any code.
        unsafe { signal_hook::low_level::register(*signal, act)? };
    }
    Ok(())
}

/// Ignores `signal` in the whole process, for example `SIGPIPE`. Errors: no such signal, or one
/// that cannot be ignored.
pub fn ignore(signal: i32) -> io::Result<()> {
    dispose(signal, libc::SIG_IGN)
}

/// Gives `signal` back its default action. Errors: as [`ignore`].
pub fn restore(signal: i32) -> io::Result<()> {
    dispose(signal, libc::SIG_DFL)
}

/// Whether `signal` is ignored, as by `nohup`; not where there is no such signal.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero action is a valid place to receive one in.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the present action only, into one of ours.
    let asked = done(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) });
    asked.is_ok() && action.sa_sigaction == libc::SIG_IGN
}

/// Adds `signals` to the calling thread's mask. Errors: no such signal.
pub fn block(signals: &[i32]) -> io::Result<()> {
    mask(libc::SIG_BLOCK, signals)
}

/// Takes `signals` from the calling thread's mask. Errors: no such signal.
pub fn unblock(signals: &[i32]) -> io::Result<()> {
    mask(libc::SIG_UNBLOCK, signals)
}

/// Empties the calling thread's mask, which a child inherits. Errors: those of `pthread_sigmask`.
pub fn unblock_all() -> io::Result<()> {
    mask(libc::SIG_SETMASK, &[])
}

fn dispose(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: SIG_IGN and SIG_DFL run no code of ours.
    if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn mask(how: i32, signals: &[i32]) -> io::Result<()> {
    // SAFETY: an all-zero set is a valid place to make a set in.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is ours.
    unsafe { libc::sigemptyset(&mut set) };
    for &signal in signals {
        // SAFETY: as above; a bad number is refused.
        done(unsafe { libc::sigaddset(&mut set, signal) })?;
    }
    // SAFETY: `set` is ours; the old mask is not asked for.
    outcome(unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn an_ignored_signal_does_not_end_the_process() {
        ignore(libc::SIGUSR1).unwrap();
        assert!(is_ignored(libc::SIGUSR1));
        process::kill(std::process::id(), libc::SIGUSR1).unwrap();
        restore(libc::SIGUSR1).unwrap();
        assert!(!is_ignored(libc::SIGUSR1) && !is_ignored(1000));
        assert!(ignore(libc::SIGKILL).is_err());
        assert!(ignore(1000).is_err());
    }

    #[test]
    fn a_blocked_signal_waits_and_can_be_unblocked() {
        let blocked = |signal| {
            // SAFETY: an all-zero set is a valid place to receive the mask in.
            let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
            // SAFETY: asks for the present mask only; `set` is ours.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
                libc::sigismember(&set, signal) == 1
            }
        };
        std::thread::spawn(move || {
            block(&[libc::SIGUSR2, libc::SIGHUP]).unwrap();
            assert!(blocked(libc::SIGUSR2) && blocked(libc::SIGHUP));
            unblock(&[libc::SIGUSR2]).unwrap();
            assert!(!blocked(libc::SIGUSR2) && blocked(libc::SIGHUP));
            unblock_all().unwrap();
            assert!(!blocked(libc::SIGHUP));
            assert!(block(&[1000]).is_err());
        })
        .join()
        .unwrap();
    }
}
