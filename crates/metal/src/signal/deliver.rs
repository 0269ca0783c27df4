//! Signals that a thread sends itself and catches, and faults that it makes on purpose, with counts
//! of what was delivered.
//!
//! A signal belongs to one [`Catcher`] or [`Faults`] of the process at a time; what was there
//! before is put back when that is dropped.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::answer::invalid;
use crate::arch;
use crate::memory::{Mapped, base_page_bytes};
use crate::raw::{self, call};

/// One more than the largest signal's number.
const SIGNALS: usize = 65;
const SET_BYTES: usize = 8;
/// A signal to the process that is not caught in this time is lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Spins between looks at the time.
const SPINS: u32 = 10_000;

/// Deliveries of each signal since the program began.
pub(super) static CAUGHT: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
static TAKEN: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];
/// Address of the page whose faults are stepped over; 0 before that.
static FAULTING: AtomicUsize = AtomicUsize::new(0);

/// What the kernel keeps of a signal, on both architectures.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// A signal that is ours, its disposition and its place in the calling thread's mask; both are put
/// back on drop.
#[derive(Debug)]
pub(super) struct Claim {
    signal: i32,
    before: libc::sigaction,
    mask_before: u64,
    of_this_thread: PhantomData<*mut ()>,
}

impl Claim {
    /// As [`Claim::new`], but waits a while for another owner of the signal: one for faults is the
    /// same for all.
    pub(super) fn patient(
        signal: i32,
        handler: libc::sighandler_t,
        flags: i32,
    ) -> io::Result<Claim> {
        let begin = Instant::now();
        while TAKEN[slot(signal)?].load(Ordering::Acquire) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        Claim::new(signal, handler, flags)
    }

    /// Takes the signal, gives it `handler` and unblocks it in the calling thread.
    fn new(signal: i32, handler: libc::sighandler_t, flags: i32) -> io::Result<Claim> {
        let taken = slot(signal).map(|slot| &TAKEN[slot])?;
        if taken.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other(format!("signal {signal} is being caught already")));
        }
        let free = || taken.store(false, Ordering::Release);
        // SAFETY: all-zero values are valid ones.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        // SAFETY: the handlers of this file touch atomic words and the interrupted context only.
        if unsafe { libc::sigaction(signal, &action, &mut before) } != 0 {
            free();
            return Err(io::Error::last_os_error());
        }
        let mut claim = Claim { signal, before, mask_before: 0, of_this_thread: PhantomData };
        claim.mask_before = change_mask(libc::SIG_UNBLOCK, bit(signal))?;
        Ok(claim)
    }

    fn caught(&self) -> &'static AtomicU64 {
        &CAUGHT[self.signal as usize]
    }

    /// The disposition as the kernel has it, the way back that the C library gave it included.
    fn action(&self) -> io::Result<KernelAction> {
        let mut action = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: the kernel writes one action of this layout.
        raw::done(unsafe {
            call!(SYS_rt_sigaction, self.signal, 0, (&raw mut action).addr(), SET_BYTES)
        })
        .map(|()| action)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // SAFETY: what the kernel gave out when the signal was taken.
        unsafe { libc::sigaction(self.signal, &self.before, ptr::null_mut()) };
        if self.mask_before & bit(self.signal) != 0 {
            let _ = change_mask(libc::SIG_BLOCK, bit(self.signal));
        }
        TAKEN[self.signal as usize].store(false, Ordering::Release);
    }
}

/// A signal that the calling thread sends itself; a handler counts it. The methods are each one
/// system call, made by its instruction.
#[derive(Debug)]
pub struct Catcher {
    claim: Claim,
    action: KernelAction,
    process: usize,
    thread: usize,
    caught_before: u64,
}

impl Catcher {
    /// Catches `signal` from now on, unblocked in the calling thread. Errors: no such signal, or
    /// one that cannot be caught or that another catcher has.
    pub fn new(signal: i32) -> io::Result<Catcher> {
        let handler = count as extern "C" fn(i32);
        let claim = Claim::new(signal, handler as libc::sighandler_t, libc::SA_RESTART)?;
        let action = claim.action()?;
        // SAFETY: no arguments; cannot fail.
        let thread = unsafe { call!(SYS_gettid) } as usize;
        Ok(Catcher {
            action,
            process: raw::getpid() as usize,
            thread,
            caught_before: claim.caught().load(Ordering::Acquire),
            claim,
        })
    }

    pub fn caught(&self) -> u64 {
        self.claim.caught().load(Ordering::Acquire) - self.caught_before
    }

    /// `rt_sigaction`: gives the signal its counting handler. Errors: those of the call.
    #[inline(always)]
    pub fn install(&self) -> io::Result<()> {
        self.dispose(&self.action)
    }

    /// `rt_sigaction`: has the signal ignored until [`Catcher::install`]. Errors of the call.
    pub fn ignore(&self) -> io::Result<()> {
        self.dispose(&KernelAction { handler: libc::SIG_IGN, ..self.action })
    }

    /// Whether the kernel's disposition is the counting handler. Errors: those of the call.
    pub fn is_installed(&self) -> io::Result<bool> {
        Ok(self.claim.action()? == self.action)
    }

    /// `rt_sigprocmask`: adds the signal to the calling thread's mask, or takes it away. Errors:
    /// those of the call.
    #[inline(always)]
    pub fn block(&self, blocked: bool) -> io::Result<()> {
        let set = bit(self.claim.signal);
        let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        // SAFETY: the kernel reads one set; the old one is not asked for.
        raw::done(unsafe { call!(SYS_rt_sigprocmask, how, (&raw const set).addr(), 0, SET_BYTES) })
    }

    /// Whether the signal is in the calling thread's mask. Errors: those of the call.
    pub fn is_blocked(&self) -> io::Result<bool> {
        Ok(change_mask(libc::SIG_BLOCK, 0)? & bit(self.claim.signal) != 0)
    }

    /// `tgkill`: sends the signal to the calling thread. One that is caught has been caught when
    /// this returns. Errors: those of the call.
    #[inline(always)]
    pub fn send_to_thread(&self) -> io::Result<()> {
        // SAFETY: plain values.
        raw::done(unsafe { call!(SYS_tgkill, self.process, self.thread, self.claim.signal) })
    }

    /// `kill`: sends the signal to the process, and returns when it has been caught: at once where
    /// the calling thread is the process's main or only one. Errors: those of the call; no process
    /// caught it for two seconds.
    #[inline(always)]
    pub fn send_to_process(&self) -> io::Result<()> {
        let before = self.claim.caught().load(Ordering::Acquire);
        // SAFETY: plain values; the process is this one.
        raw::done(unsafe { call!(SYS_kill, self.process, self.claim.signal) })?;
        if self.claim.caught().load(Ordering::Acquire) == before {
            return self.await_another(before);
        }
        Ok(())
    }

    /// Waits until another thread has caught the signal.
    #[cold]
    fn await_another(&self, before: u64) -> io::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            for _ in 0..SPINS {
                if self.claim.caught().load(Ordering::Acquire) != before {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("signal {} to the process was not caught for {PATIENCE:?}", self.claim.signal),
        ))
    }

    #[inline(always)]
    fn dispose(&self, action: &KernelAction) -> io::Result<()> {
        // SAFETY: the kernel reads one action, whose handler is `count` or none.
        raw::done(unsafe {
            call!(SYS_rt_sigaction, self.claim.signal, ptr::from_ref(action).addr(), 0, SET_BYTES)
        })
    }
}

/// A page that may only be read, and a handler of SIGSEGV that steps over the stores to it. Other
/// faults end the process, as they would without.
#[derive(Debug)]
pub struct Faults {
    claim: Claim,
    page: Mapped,
}

impl Faults {
    /// Maps and reads the page and catches SIGSEGV. Errors: those of mmap(2) and sigaction(2);
    /// another has the signal.
    pub fn new() -> io::Result<Faults> {
        type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
        let handler = step as Handler;
        let claim = Claim::patient(libc::SIGSEGV, handler as libc::sighandler_t, libc::SA_SIGINFO)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = Mapped::new(base_page_bytes(), libc::PROT_READ, flags, -1, 0)?;
        // SAFETY: the page may be read. It is there then, and only its protection is in the way.
        unsafe { page.as_ptr().read_volatile() };
        FAULTING.store(page.as_ptr().addr(), Ordering::Release);
        Ok(Faults { claim, page })
    }

    /// Stores to the page `n` times. Returns how many of the faults were delivered, which is `n`.
    pub fn store(&self, n: u64) -> u64 {
        let before = self.claim.caught().load(Ordering::Acquire);
        // SAFETY: nothing can be written to the page; each store faults, and the handler, which is
        // installed as long as `self`, steps over it.
        unsafe { arch::fault_stores(n, self.page.as_ptr()) };
        self.claim.caught().load(Ordering::Acquire) - before
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        FAULTING.store(0, Ordering::Release);
    }
}

/// The handler of a [`Catcher`].
extern "C" fn count(signal: i32) {
    CAUGHT[signal as usize].fetch_add(1, Ordering::Relaxed);
}

/// The handler of [`Faults`].
extern "C" fn step(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO, for its time.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    // SAFETY: for SIGSEGV the address is the field in use; for one that a process sent it is some
    // number, and the context does not stand at the store.
    let address = unsafe { info.si_addr() }.addr();
    if address == FAULTING.load(Ordering::Acquire) && arch::step_over(context) {
        CAUGHT[signal as usize].fetch_add(1, Ordering::Relaxed);
        return;
    }
    // A fault of someone else's: back to the default, under which the same instruction ends the
    // process. SAFETY: SIG_DFL runs no code of ours; signal(2) may be called in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn slot(signal: i32) -> io::Result<usize> {
    usize::try_from(signal)
        .ok()
        .filter(|slot| (1..SIGNALS).contains(slot))
        .ok_or_else(|| invalid(format!("there is no signal {signal}")))
}

/// The kernel's set of one signal.
fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Changes the calling thread's mask and returns the one before.
fn change_mask(how: i32, set: u64) -> io::Result<u64> {
    let mut before = 0_u64;
    // SAFETY: the kernel reads one set and writes one.
    raw::done(unsafe {
        call!(SYS_rt_sigprocmask, how, (&raw const set).addr(), (&raw mut before).addr(), SET_BYTES)
    })
    .map(|()| before)
}

#[cfg(test)]
mod tests;
