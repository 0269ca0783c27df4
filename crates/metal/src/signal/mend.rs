//! Stores that fault on a page that may only be read, and a handler that lifts the protection, as
//! user-space pagers and collectors do.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::deliver::{CAUGHT, Claim};
use crate::answer::done;
use crate::memory::{Mapping, Pages, base_page_bytes};
use crate::raw::call;

/// The pages whose protection the handler lifts: first address, and the one behind the last. Both 0
/// at first.
static FROM: AtomicUsize = AtomicUsize::new(0);
static TO: AtomicUsize = AtomicUsize::new(0);
/// Size of a page, where a handler may look.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Pages that are there, and a handler of SIGSEGV that makes a protected one writable and returns,
/// so that the store is made again. Faults elsewhere end the process, as they would without.
#[derive(Debug)]
pub struct Mender {
    /// Dropped first: no fault is ours then.
    _claim: Claim,
    mapping: Mapping,
}

impl Mender {
    /// Maps and writes so many base pages and catches SIGSEGV. Errors: those of mmap(2) and
    /// sigaction(2); another has the signal.
    pub fn new(pages: usize) -> io::Result<Mender> {
        type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
        let mut mapping = Mapping::new(pages * base_page_bytes(), Pages::Base)?;
        mapping.touch();
        let handler = mend as Handler;
        let claim = Claim::patient(libc::SIGSEGV, handler as libc::sighandler_t, libc::SA_SIGINFO)?;
        let from = mapping.as_ptr().addr();
        PAGE.store(base_page_bytes(), Ordering::Release);
        TO.store(from + mapping.bytes(), Ordering::Release);
        FROM.store(from, Ordering::Release);
        Ok(Mender { _claim: claim, mapping })
    }

    pub fn pages(&self) -> usize {
        self.mapping.bytes() / base_page_bytes()
    }

    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Protects the first `pages` against writing. Errors: those of mprotect(2). Panics: there are
    /// not so many.
    pub fn protect(&mut self, pages: usize) -> io::Result<()> {
        assert!(pages <= self.pages(), "{pages} of {} pages", self.pages());
        let bytes = pages * base_page_bytes();
        let start = self.mapping.as_ptr().cast_mut();
        // SAFETY: the range is inside the mapping, and no reference into it exists, because this is
        // the only borrow; a store to it is caught as long as `self` lives.
        done(unsafe { libc::mprotect(start.cast(), bytes, libc::PROT_READ) })
    }

    /// Stores a word to each of the first `pages`, one store each. Returns how many faults were
    /// delivered to the handler: as many as pages were protected. Panics: there are not so many.
    #[inline(never)]
    pub fn store(&mut self, pages: usize) -> u64 {
        assert!(pages <= self.pages(), "{pages} of {} pages", self.pages());
        let caught = &CAUGHT[libc::SIGSEGV as usize];
        let before = caught.load(Ordering::Acquire);
        let mut at = self.mapping.as_ptr().cast_mut();
        for index in 0..pages {
            // SAFETY: inside of the mapping and aligned; where the page is protected the handler
            // makes it writable, and the store is made again. This has the only borrow of the
            // memory.
            unsafe { at.cast::<u64>().write_volatile(index as u64 + 1) };
            at = at.wrapping_add(base_page_bytes());
        }
        caught.load(Ordering::Acquire) - before
    }
}

impl Drop for Mender {
    fn drop(&mut self) {
        FROM.store(0, Ordering::Release);
        TO.store(0, Ordering::Release);
    }
}

extern "C" fn mend(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes it to a handler with SA_SIGINFO, for its time, and for SIGSEGV the
    // address is the field in use.
    let address = unsafe { (*info).si_addr() }.addr();
    let page = PAGE.load(Ordering::Acquire);
    let ours = (FROM.load(Ordering::Acquire)..TO.load(Ordering::Acquire)).contains(&address);
    if ours {
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a whole page of the mapping; the raw call touches no errno.
        if unsafe { call!(SYS_mprotect, address & !(page - 1), page, writable) } == 0 {
            CAUGHT[signal as usize].fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    // A fault of someone else's, or one that cannot be mended: back to the default, under which the
    // same instruction ends the process.
    // SAFETY: SIG_DFL runs no code of ours; signal(2) may be called in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use super::Mender;

    #[test]
    fn every_protected_page_is_one_delivery_and_what_is_mended_stays() {
        let mut mender = Mender::new(16).expect("nobody keeps the signal for long");
        assert_eq!(mender.store(16), 0, "nothing is protected yet");
        mender.protect(8).unwrap();
        assert_eq!(mender.store(16), 8);
        assert_eq!(mender.store(16), 0);
        let words = mender.mapping().words();
        assert_eq!(words[0], 1);
        assert_eq!(words[words.len() / 16 * 15], 16);
    }
}
