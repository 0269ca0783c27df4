use super::{Catcher, Faults};
use crate::process::{Child, Ending};

/// What the process does at a signal, as a number.
fn handler_of(signal: i32) -> usize {
    // SAFETY: an all-zero value is a valid one; asks only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

#[test]
fn every_signal_to_the_own_thread_is_caught_before_the_call_returns() {
    let catcher = Catcher::new(libc::SIGURG).expect("catches");
    for sent in 1..=5 {
        catcher.send_to_thread().expect("sends");
        assert_eq!(catcher.caught(), sent);
    }
    catcher.ignore().expect("ignores");
    assert!(!catcher.is_installed().expect("asks"));
    catcher.send_to_thread().expect("sends");
    assert_eq!(catcher.caught(), 5);
    catcher.install().expect("installs");
    assert!(catcher.is_installed().expect("asks"));
    catcher.block(true).expect("blocks");
    assert!(catcher.is_blocked().expect("asks"));
    catcher.send_to_thread().expect("sends");
    assert_eq!(catcher.caught(), 5);
    catcher.block(false).expect("unblocks");
    assert_eq!(catcher.caught(), 6);
    assert!(!catcher.is_blocked().expect("asks"));
}

#[test]
fn a_signal_to_the_process_is_caught_by_whoever_it_reaches() {
    let before = handler_of(libc::SIGWINCH);
    let catcher = Catcher::new(libc::SIGWINCH).expect("catches");
    assert_ne!(handler_of(libc::SIGWINCH), before);
    for sent in 1..=20 {
        catcher.send_to_process().expect("sends and waits");
        assert_eq!(catcher.caught(), sent);
    }
    Catcher::new(libc::SIGWINCH).expect_err("one at a time");
    drop(catcher);
    assert_eq!(handler_of(libc::SIGWINCH), before);
    let catcher = Catcher::new(libc::SIGWINCH).expect("free again");
    assert_eq!(catcher.caught(), 0);
    Catcher::new(libc::SIGKILL).expect_err("cannot be caught");
    Catcher::new(0).expect_err("none");
    Catcher::new(65).expect_err("none");
}

#[test]
fn every_store_to_the_page_faults_once_and_another_fault_ends_the_process() {
    let before = handler_of(libc::SIGSEGV);
    let faults = Faults::new().expect("maps and catches");
    for n in [0, 1, 2, 1000] {
        assert_eq!(faults.store(n), n);
    }
    let child = Child::fork(|| {
        // SAFETY: on purpose none: nothing is mapped there.
        unsafe { (16 as *mut u8).write_volatile(1) };
        0
    });
    let ending = child.expect("forks").wait().expect("is reaped");
    assert_eq!(ending, Ending::Killed(libc::SIGSEGV));
    drop(faults);
    assert_eq!(handler_of(libc::SIGSEGV), before);
}
