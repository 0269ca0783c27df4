//! What a thread of `stress-ng --pthread` does beside being made and joined, for a case that shows
//! the difference of method: the system calls of stress-pthread.c (version 0.15.06), in its order.
//!
//! Left out is what needs its signal handler (the SIGUSR1 that its maker queues to each thread).
//! What it sends are signals 0, which only ask.

use std::cell::UnsafeCell;
use std::ffi::CStr;

use crate::arch;

const PR_GET_TID_ADDRESS: usize = 40;
const NAME: &CStr = c"plumb";
const PID_MAX: &CStr = c"/proc/sys/kernel/pid_max";
const OWN_NAMESPACE: &CStr = c"/proc/self/ns/uts";
/// A process number that few systems reach.
const UNUSED: usize = 32_749;
const NOBODY: usize = usize::MAX;

/// A robust list as the kernel reads it at the end of a thread. Its entry leads to itself, and the
/// word beside the entry is no lock of anybody's, so the kernel goes round to its limit of 2048
/// entries (`ROBUST_LIST_LIMIT`). The rival's threads do the same at every exit, because they
/// replace their list's head by a copy, to which the list does not lead back.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RobustList {
    /// Address of the first entry.
    next: usize,
    offset: isize,
    pending: usize,
    entry: usize,
    word: usize,
}

impl RobustList {
    /// A list that is not linked yet, for a thread to come.
    pub(super) fn cell() -> UnsafeCell<RobustList> {
        UnsafeCell::new(RobustList {
            next: 0,
            offset: size_of::<usize>() as isize,
            pending: 0,
            entry: 0,
            word: 0,
        })
    }

    /// Gives the calling thread this list.
    ///
    /// # Safety
    /// It stays in place until the thread has ended.
    unsafe fn take(&mut self) {
        self.entry = (&raw const self.entry) as usize;
        self.next = self.entry;
        let head = (&raw const *self) as usize;
        // SAFETY: the kernel only notes the address; what it reads there at the exit is ours and in
        // place, and no lock in it is the thread's, so that it writes nothing.
        unsafe {
            arch::syscall2(libc::SYS_set_robust_list, head, 24);
            arch::syscall2(libc::SYS_set_robust_list, head, 0);
        }
    }
}

/// Everything until it waits for its maker.
///
/// # Safety
/// `list` stays in place until the thread has ended.
pub(super) unsafe fn before(list: &mut RobustList) {
    let (mut head, mut length) = (0_usize, 0_usize);
    let head = (&raw mut head) as usize;
    let length = (&raw mut length) as usize;
    // SAFETY: each call gets numbers, a text that ends in zero or words of ours to write to;
    // signals 0 only ask.
    unsafe {
        let process = arch::syscall0(libc::SYS_getpid) as usize;
        let thread = arch::syscall0(libc::SYS_gettid) as usize;
        let name = NAME.as_ptr() as usize;
        arch::syscall2(libc::SYS_prctl, libc::PR_SET_NAME as usize, name);
        arch::syscall3(libc::SYS_get_robust_list, 0, head, length);
        list.take();
        arch::syscall3(libc::SYS_get_robust_list, NOBODY, head, length);
        for (of, to, signal) in [
            (process, thread, 0),
            (NOBODY, thread, 0),
            (process, NOBODY, 0),
            (process, thread, NOBODY),
        ] {
            arch::syscall3(libc::SYS_tgkill, of, to, signal);
        }
        ask_for_unused();
        arch::syscall3(libc::SYS_tgkill, UNUSED, thread, 0);
        ask_for_unused();
        arch::syscall3(libc::SYS_tgkill, process, UNUSED, 0);
        for (to, signal) in [(thread, 0), (NOBODY, 0), (thread, NOBODY)] {
            arch::syscall2(libc::SYS_tkill, to, signal);
        }
        ask_for_unused();
        arch::syscall2(libc::SYS_tkill, UNUSED, 0);
        #[cfg(target_arch = "x86_64")]
        arch::syscall1(libc::SYS_get_thread_area, head);
        pending();
    }
}

/// Everything after it: a look at its own namespace, which it enters again where it may, a wait of
/// a millisecond, and its number's address unset and set.
pub(super) fn after() {
    let set: u64 = 1 << (libc::SIGUSR1 - 1);
    let limit = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let mut address = 0_usize;
    // SAFETY: as in `before`; the address is the kernel's.
    unsafe {
        let own = open(OWN_NAMESPACE);
        if own >= 0 {
            arch::syscall2(libc::SYS_setns, own as usize, 0);
            arch::syscall1(libc::SYS_close, own as usize);
        }
        arch::syscall4(
            libc::SYS_rt_sigtimedwait,
            (&raw const set) as usize,
            0,
            (&raw const limit) as usize,
            8,
        );
        pending();
        let told = (&raw mut address) as usize;
        if arch::syscall2(libc::SYS_prctl, PR_GET_TID_ADDRESS, told) == 0 && address != 0 {
            arch::syscall1(libc::SYS_set_tid_address, 0);
            arch::syscall1(libc::SYS_set_tid_address, address);
            arch::syscall0(libc::SYS_gettid);
        }
    }
}

/// The rival's search for an unused process number.
fn ask_for_unused() {
    let mut text = [0_u8; 64];
    // SAFETY: as in `before`; the descriptor is the one just opened.
    unsafe {
        let file = open(PID_MAX);
        if file >= 0 {
            let room = text.as_mut_ptr() as usize;
            arch::syscall3(libc::SYS_read, file as usize, room, 63);
            arch::syscall1(libc::SYS_close, file as usize);
        }
        arch::syscall2(libc::SYS_kill, UNUSED, 0);
    }
}

fn open(path: &CStr) -> isize {
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends in zero.
    unsafe { arch::syscall4(libc::SYS_openat, here, path.as_ptr() as usize, 0, 0) }
}

/// Which signals wait, asked as often as the rival asks.
fn pending() {
    let mut set = 0_u64;
    for _ in 0..2 {
        // SAFETY: a word of ours to write to.
        unsafe { arch::syscall2(libc::SYS_rt_sigpending, (&raw mut set) as usize, 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::{RobustList, after, before};
    use crate::arch;

    #[test]
    fn the_calls_are_made_and_leave_a_thread_that_ends_well() {
        let list: &'static mut RobustList = Box::leak(Box::new(RobustList::cell())).get_mut();
        let expected = (&raw const *list) as usize;
        let thread = std::thread::spawn(move || {
            let (mut head, mut length) = (0_usize, 0_usize);
            // SAFETY: the list is leaked; two words of ours are written to.
            unsafe {
                before(list);
                let head = (&raw mut head) as usize;
                let length = (&raw mut length) as usize;
                arch::syscall3(libc::SYS_get_robust_list, 0, head, length);
            }
            after();
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            (head, length, name)
        });
        // The join needs the number's address, which `after` unsets and sets.
        let (head, length, name) = thread.join().unwrap();
        assert_eq!((head, length), (expected, 24));
        assert_eq!(name.trim(), "plumb");
    }
}
