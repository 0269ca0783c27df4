//! Threads that are made to be timed: by the C library, on a stack that it keeps or on one that is
//! mapped for them, or by clone(2) alone. All are joined, whichever way the maker goes on.

use std::cell::UnsafeCell;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{c_int, c_void};

use crate::answer::{done, invalid, outcome};
use crate::place;
use crate::raw::{Scope, futex_wait, futex_wake};

mod area;
mod stress;

use area::Area;
use stress::RobustList;

/// Stack of a thread made by clone(2) alone, which reads a clock and ends.
const BARE_STACK_BYTES: usize = 64 * 1024;

/// What clone(2) shares for a thread: all that the C library asks for, but for its thread-local
/// storage. The thread's number is written before the call returns and cleared at its end, which
/// wakes its waiters.
const BARE_FLAGS: c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// pthread_create(3) with the library's own stack: glibc keeps those of ended threads (at most
    /// 40 MiB), so that a thread made after another has ended gets its stack.
    Cached,
    /// pthread_create(3) on a stack that is mapped, given a guard page and unmapped for this one
    /// thread: what the library does when it keeps none.
    Fresh,
    /// clone(2) without the library, on one stack that stays: what the kernel does for a thread.
    Bare,
}

/// What threads that live together do beside waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    Nothing,
    /// The system calls of a thread of `stress-ng --pthread`, about forty, before and after.
    Stress,
}

/// How to read a clock at the start and at the end of a window, in ticks of its own.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Nothing after it runs before it.
    pub start: fn() -> u64,
    /// All before it has run.
    pub end: fn() -> u64,
}

/// Moments of one thread's life, in ticks of the [`Watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Before the call that makes it (and before its stack is mapped, for a fresh one).
    pub call: u64,
    pub returned: u64,
    /// The thread's own first reading, before anything else of its body.
    pub first: u64,
    /// It is joined, and its stack unmapped, for a fresh one.
    pub joined: u64,
}

/// Makes threads of one kind, on a CPU.
#[derive(Debug)]
pub struct Maker {
    stack: Stack,
    stack_bytes: usize,
    attributes: Attributes,
    bare: Option<Arc<Bare>>,
}

/// What a thread of clone(2) alone needs.
#[derive(Debug)]
struct Bare {
    stack: Area,
    /// Number of the running thread, 0 once it has ended.
    tid: AtomicU32,
}

impl Maker {
    /// A maker of threads with stacks of `stack_bytes`, guard page included, on `cpu`, or wherever
    /// the calling thread may run. A thread for another CPU is made where its maker runs and moved
    /// by the library before its first instruction. Errors: a stack below the library's least size,
    /// or a bare thread for a CPU: it would have to move itself, after its first instruction.
    pub fn new(stack: Stack, stack_bytes: usize, cpu: Option<usize>) -> io::Result<Maker> {
        let mut attributes = Attributes::new()?;
        attributes.stack_bytes(stack_bytes)?;
        if let Some(cpu) = cpu {
            if stack == Stack::Bare {
                return Err(invalid("a bare thread stays on its maker's CPU"));
            }
            attributes.cpu(cpu)?;
        }
        let bare = match stack {
            Stack::Bare => Some(Arc::new(Bare {
                stack: Area::guarded(BARE_STACK_BYTES)?,
                tid: AtomicU32::new(0),
            })),
            Stack::Cached | Stack::Fresh => None,
        };
        Ok(Maker { stack, stack_bytes, attributes, bare })
    }

    /// Makes one thread and joins it. Errors: as [`Maker::together`]; the thread did not run.
    pub fn one(&mut self, watch: Watch) -> io::Result<Life> {
        let body = Body::new(watch.end);
        let call = (watch.start)();
        let running = self.start(&body)?;
        let returned = (watch.end)();
        running.join()?;
        let joined = (watch.end)();
        body.ran(1)?;
        Ok(Life { call, returned, first: body.first.load(Ordering::Relaxed), joined })
    }

    /// Makes `count` threads, each after the one before is joined. Errors: as [`Maker::together`];
    /// a thread did not run.
    pub fn in_sequence(&mut self, count: u64) -> io::Result<()> {
        let body = Body::new(no_clock);
        for _ in 0..count {
            self.start(&body)?.join()?;
        }
        body.ran(count)
    }

    /// Makes `count` threads, which all wait, then lets them go and joins all. Errors: EAGAIN: the
    /// user's limit on processes (RLIMIT_NPROC; root is exempt), the cgroup's pids.max,
    /// kernel.threads-max or memory for stacks is reached; those made so far are joined. A thread
    /// did not run. Bare threads share one stack and cannot live together.
    pub fn together(&mut self, count: u64, work: Work) -> io::Result<()> {
        if self.stack == Stack::Bare && count > 1 {
            return Err(invalid("bare threads share one stack"));
        }
        let mut body = Body::new(no_clock);
        body.waits = true;
        if work == Work::Stress {
            body.lists = (0..count).map(|_| RobustList::cell()).collect();
        }
        let body = body;
        let mut running = Vec::with_capacity(count as usize);
        for index in 0..count {
            match self.start(&body) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    body.open();
                    drop(running);
                    let at = format!("thread {} of {count} at once: {error}", index + 1);
                    return Err(io::Error::new(error.kind(), at));
                }
            }
        }
        body.open();
        for thread in running {
            thread.join()?;
        }
        body.ran(count)
    }

    /// The CPU on which a thread of this maker begins. Errors: as [`Maker::together`].
    pub fn cpu_of_one(&mut self) -> io::Result<usize> {
        let mut body = Body::new(no_clock);
        body.tells_cpu = true;
        self.start(&body)?.join()?;
        body.ran(1)?;
        Ok(body.first.load(Ordering::Relaxed) as usize)
    }

    /// Starts a thread. It uses `body` and is joined by the end of the returned value, whose
    /// lifetime the borrow is.
    fn start<'body>(&mut self, body: &'body Body) -> io::Result<Running<'body>> {
        match self.stack {
            Stack::Bare => self.start_bare(body),
            Stack::Cached => self.start_by_library(body, None),
            Stack::Fresh => {
                let area = Area::guarded(self.stack_bytes)?;
                self.attributes.area(&area)?;
                self.start_by_library(body, Some(area))
            }
        }
    }

    fn start_by_library<'body>(
        &mut self,
        body: &'body Body,
        area: Option<Area>,
    ) -> io::Result<Running<'body>> {
        let mut thread = 0;
        // SAFETY: the attributes are initialised; `body` outlives the thread, which `Running` joins
        // before its borrow ends; a stack of ours is unmapped after that.
        let error = unsafe {
            libc::pthread_create(
                &mut thread,
                &raw const self.attributes.0,
                library_body,
                ptr::from_ref(body).cast_mut().cast(),
            )
        };
        outcome(error)?;
        Ok(Running { thread: Some(Handle::Library(thread)), _area: area, _body: body })
    }

    fn start_bare<'body>(&mut self, body: &'body Body) -> io::Result<Running<'body>> {
        let bare = self.bare.as_ref().expect("a bare maker has its stack");
        let tid = bare.tid.as_ptr();
        // SAFETY: the stack is this maker's, and no other thread runs on it: `one` and
        // `in_sequence` join each before the next, `together` refuses a second. The thread shares
        // this thread's thread-local storage, which its body does not use. Stack, number and `body`
        // stay until `Running` has waited for the thread.
        done(unsafe {
            libc::clone(
                bare_body,
                bare.stack.top().cast(),
                BARE_FLAGS,
                ptr::from_ref(body).cast_mut().cast(),
                tid,
                ptr::null_mut::<c_void>(),
                tid,
            )
        })?;
        Ok(Running { thread: Some(Handle::Bare(Arc::clone(bare))), _area: None, _body: body })
    }
}

/// What a thread does and leaves behind.
struct Body {
    now: fn() -> u64,
    first: AtomicU64,
    ran: AtomicU64,
    waits: bool,
    tells_cpu: bool,
    /// 1 once threads that wait may end.
    gate: AtomicU32,
    /// One for each thread that works as the rival's; empty where none does.
    lists: Vec<UnsafeCell<RobustList>>,
}

// SAFETY: the lists are the only part that is neither atomic nor constant, and each is taken by one
// thread alone: the one that counted itself as that list's.
unsafe impl Sync for Body {}

impl Body {
    fn new(now: fn() -> u64) -> Body {
        Body {
            now,
            first: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            waits: false,
            tells_cpu: false,
            gate: AtomicU32::new(0),
            lists: Vec::new(),
        }
    }

    /// Runs on the thread. It touches no thread-local storage.
    #[inline(always)]
    fn run(&self) {
        let now = (self.now)();
        self.first.store(now, Ordering::Relaxed);
        if self.tells_cpu {
            let cpu = place::current_cpu() as u64;
            self.first.store(cpu, Ordering::Relaxed);
        }
        let number = self.ran.fetch_add(1, Ordering::Relaxed);
        let list = self.lists.get(number as usize);
        if let Some(list) = list {
            // SAFETY: this thread alone has that number, and the body outlives it.
            unsafe { stress::before(&mut *list.get()) };
        }
        while self.waits && self.gate.load(Ordering::Acquire) == 0 {
            // It returns without a reason at times, and the gate is looked at again.
            let _ = futex_wait(&self.gate, 0, Scope::Process);
        }
        if list.is_some() {
            stress::after();
        }
    }

    /// Lets threads that wait end.
    fn open(&self) {
        self.gate.store(1, Ordering::Release);
        let _ = futex_wake(&self.gate, i32::MAX as u32, Scope::Process);
    }

    fn ran(&self, count: u64) -> io::Result<()> {
        let ran = self.ran.load(Ordering::Relaxed);
        if ran == count {
            return Ok(());
        }
        Err(io::Error::other(format!("{ran} of {count} threads ran")))
    }
}

/// The clock of threads whose readings are unused: none.
fn no_clock() -> u64 {
    0
}

extern "C" fn library_body(body: *mut c_void) -> *mut c_void {
    // SAFETY: `start_by_library` gave a `Body` that outlives this thread.
    unsafe { &*body.cast::<Body>() }.run();
    ptr::null_mut()
}

/// The library's wrapper ends the thread by the raw exit call after it returns.
extern "C" fn bare_body(body: *mut c_void) -> c_int {
    // SAFETY: `start_bare` gave a `Body` that outlives this thread.
    unsafe { &*body.cast::<Body>() }.run();
    0
}

/// A thread that was made and is not joined yet; dropping it joins it.
struct Running<'body> {
    /// `None` once it is joined.
    thread: Option<Handle>,
    /// Its stack, unmapped after it is joined.
    _area: Option<Area>,
    _body: &'body Body,
}

enum Handle {
    Library(libc::pthread_t),
    Bare(Arc<Bare>),
}

impl Running<'_> {
    /// Waits for its end, and unmaps a stack of its own.
    fn join(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        match self.thread.take() {
            None => Ok(()),
            Some(Handle::Library(thread)) => {
                // SAFETY: the thread was made joinable and is joined once.
                outcome(unsafe { libc::pthread_join(thread, ptr::null_mut()) })
            }
            Some(Handle::Bare(bare)) => {
                loop {
                    match bare.tid.load(Ordering::Acquire) {
                        0 => return Ok(()),
                        // The kernel clears and wakes it as a word that processes share.
                        tid => {
                            let _ = futex_wait(&bare.tid, tid, Scope::Machine);
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Attributes(libc::pthread_attr_t);

impl std::fmt::Debug for Attributes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Attributes")
    }
}

impl Attributes {
    fn new() -> io::Result<Attributes> {
        // SAFETY: the library initialises what is zero here.
        let mut attributes = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        outcome(unsafe { libc::pthread_attr_init(&mut attributes) })?;
        Ok(Attributes(attributes))
    }

    fn stack_bytes(&mut self, bytes: usize) -> io::Result<()> {
        // SAFETY: the attributes are initialised.
        outcome(unsafe { libc::pthread_attr_setstacksize(&mut self.0, bytes) })
    }

    /// Threads begin on this CPU alone.
    fn cpu(&mut self, cpu: usize) -> io::Result<()> {
        let set = place::words_of(&[cpu])?;
        let bytes = size_of_val(set.as_slice());
        // SAFETY: the pointer and the length in bytes are those of `set`, which is copied.
        outcome(unsafe {
            libc::pthread_attr_setaffinity_np(&mut self.0, bytes, set.as_ptr().cast())
        })
    }

    /// The next thread runs on this area.
    fn area(&mut self, area: &Area) -> io::Result<()> {
        // SAFETY: the area is readable and writable above its guard until its thread is joined.
        outcome(unsafe {
            libc::pthread_attr_setstack(&mut self.0, area.bottom().cast(), area.bytes())
        })
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after this.
        unsafe { libc::pthread_attr_destroy(&mut self.0) };
    }
}

#[cfg(test)]
mod tests;
