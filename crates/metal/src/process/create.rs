//! One process made, run and reaped, with the moments in between.
//!
//! The children made here do not ask to be killed with their parent ([`super::Child`] does): that
//! would be one system call more in what is timed. They need not, because none waits for anything:
//! each exits after its few instructions, whatever became of its parent, and init reaps it then.
//! They stay in their parent's process group.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering;

use super::program::Program;
use crate::answer::{done, outcome};
use crate::memory::SharedWords;
use crate::raw::{self, call};

/// Exit status of every child that did what it should.
pub const STATUS: u8 = 42;
/// Exit status of a child that could not execute its program.
const NOT_EXECUTED: libc::c_int = 127;

/// Words that the child writes: its first reading of the clock, and the error number of its exec.
const FIRST: usize = 0;
const ERROR: usize = 1;

/// Moments of one creation, in ticks of the [`Watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Just before the call.
    pub called: u64,
    /// Just after the call returned in the parent.
    pub returned: u64,
    /// The child's first instructions; `None` if the child is a separate program from the start and
    /// has no channel.
    pub first: Option<u64>,
    /// Just after the parent's wait for the child's end returned.
    pub reaped: u64,
}

/// What a child does before it exits with [`STATUS`].
#[derive(Clone, Copy, Debug)]
pub enum Then<'program> {
    Exit,
    /// The ten system calls that a child of stress-ng 0.15's `--fork` makes: its number and group,
    /// a session of its own, a hang-up, four attempts to change its group, a yield, and its name.
    Calls,
    /// The program, which exits by itself.
    Exec(&'program Program),
}

/// The clock that parent and child read, and the memory in which the child leaves its reading.
/// Readings can be compared where both run on one CPU, or where its clocks agree.
#[derive(Debug)]
pub struct Watch {
    now: fn() -> u64,
    words: SharedWords,
    stack: Box<Stack>,
}

/// Stack of a child that shares its parent's memory, aligned as both conventions demand; touched.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Stack([u8; 16 * 1024]);

impl Stack {
    pub(super) fn new() -> Box<Stack> {
        Box::new(Stack([1; 16 * 1024]))
    }

    /// A child as vfork makes it: it shares the memory, runs `body` on this stack, and the calling
    /// thread stands until it exits. The number, or what clone(2) says in its place.
    ///
    /// # Safety
    /// `body` may be called with `argument` in a thread that has this one's thread-local storage.
    #[inline(always)]
    pub(super) unsafe fn vfork(
        &mut self,
        body: extern "C" fn(*mut libc::c_void) -> libc::c_int,
        argument: *mut libc::c_void,
    ) -> libc::pid_t {
        let bytes = self.0.len();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: one past the end of the array is a valid address of it. The child runs on it
        // while this thread is suspended (CLONE_VFORK), so that it outlives the child; the rest is
        // the caller's promise.
        unsafe { libc::clone(body, self.0.as_mut_ptr().add(bytes).cast(), flags, argument) }
    }
}

impl Watch {
    /// A watch that reads `now`: a function that makes no allocation and takes no lock, because
    /// children call it. Errors: those of mmap(2).
    pub fn new(now: fn() -> u64) -> io::Result<Watch> {
        Ok(Watch { now, words: SharedWords::new(2)?, stack: Stack::new() })
    }

    /// A child by the C library's fork(3), which does what `then` says. Errors: those of fork(2)
    /// and waitpid(2); a child with another exit than [`STATUS`]; a program that could not be
    /// executed.
    pub fn fork(&self, then: Then) -> io::Result<Moments> {
        self.forget();
        let called = (self.now)();
        // SAFETY: the child is this thread alone, on a copy of the memory; `child` makes system
        // calls only and does not return.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            self.child(then);
        }
        let returned = (self.now)();
        self.reap(pid, called, returned)
    }

    /// A child by the bare system call clone3(2), Linux 5.3, with nothing but the signal of its
    /// end: what fork does in the kernel, without the C library around it. The child exits at once.
    /// Errors: as [`Watch::fork`]; ENOSYS where the kernel has no such call or a sandbox says so.
    pub fn clone3(&self) -> io::Result<Moments> {
        /// The arguments as the first version of the call takes them (CLONE_ARGS_SIZE_VER0).
        #[repr(C)]
        #[derive(Default)]
        struct Arguments {
            flags: u64,
            pidfd: u64,
            child_tid: u64,
            parent_tid: u64,
            exit_signal: u64,
            stack: u64,
            stack_size: u64,
            tls: u64,
        }
        let arguments = Arguments { exit_signal: libc::SIGCHLD as u64, ..Arguments::default() };
        self.forget();
        let called = (self.now)();
        // SAFETY: the kernel reads the arguments. Without flags the child runs on from here on a
        // copy of the memory, stack included; it makes system calls only and does not return. The C
        // library does not learn of it, and nothing of it is called there.
        let pid = unsafe { call!(SYS_clone3, &raw const arguments, size_of::<Arguments>()) };
        if pid == 0 {
            self.child(Then::Exit);
        }
        let returned = (self.now)();
        let pid = raw::result(pid)?;
        self.reap(pid as libc::pid_t, called, returned)
    }

    /// A child as vfork makes it: it shares the memory, and the parent stands until it exits. So
    /// the call cannot return before the child has ended. Errors: as [`Watch::fork`].
    pub fn vfork(&mut self) -> io::Result<Moments> {
        extern "C" fn child(watch: *mut libc::c_void) -> libc::c_int {
            // SAFETY: the parent's watch, which stands still; only its atomic words are written.
            let watch = unsafe { &*watch.cast::<Watch>() };
            watch.words[FIRST].store((watch.now)(), Ordering::Release);
            // The C library's clone ends the child by the raw exit call.
            libc::c_int::from(STATUS)
        }

        self.forget();
        let watch = ptr::from_ref(&*self).cast_mut().cast();
        let called = (self.now)();
        // SAFETY: the child uses the watch, but for its stack, while this thread is suspended.
        let pid = unsafe { self.stack.vfork(child, watch) };
        let returned = (self.now)();
        self.reap(pid, called, returned)
    }

    /// A child that is `program` from the start, by posix_spawn(3) without attributes: it returns
    /// once the program's memory stands. Errors: those of posix_spawn(3) and waitpid(2); a program
    /// with another exit than [`STATUS`].
    pub fn spawn(&self, program: &Program) -> io::Result<Moments> {
        self.forget();
        let mut pid = 0;
        let called = (self.now)();
        // SAFETY: path, arguments and environment end as they must and outlive the call; no
        // attributes.
        let error = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                program.path(),
                ptr::null(),
                ptr::null(),
                program.arguments(),
                program.environment(),
            )
        };
        let returned = (self.now)();
        outcome(error)?;
        self.reap(pid, called, returned)
    }

    /// Clears what the last child wrote.
    fn forget(&self) {
        self.words[FIRST].store(0, Ordering::Release);
        self.words[ERROR].store(0, Ordering::Release);
    }

    /// The life of a child that has memory of its own.
    fn child(&self, then: Then) -> ! {
        self.words[FIRST].store((self.now)(), Ordering::Release);
        match then {
            Then::Exit => {}
            Then::Calls => ten_calls(),
            Then::Exec(program) => {
                // SAFETY: path, arguments and environment end as they must; the child is on a copy
                // of the memory that holds them.
                unsafe {
                    libc::execve(
                        program.path(),
                        program.arguments().cast(),
                        program.environment().cast(),
                    )
                };
                let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
                self.words[ERROR].store(u64::from(error.unsigned_abs()), Ordering::Release);
                exit(NOT_EXECUTED);
            }
        }
        exit(libc::c_int::from(STATUS))
    }

    /// Waits for the child and checks what it did.
    fn reap(&self, pid: libc::pid_t, called: u64, returned: u64) -> io::Result<Moments> {
        done(pid)?;
        let mut status: libc::c_int = 0;
        // SAFETY: the kernel writes one number to `status`; no usage is asked for.
        let mut wait = || raw::result(unsafe { call!(SYS_wait4, pid, &raw mut status, 0, 0) });
        while let Err(error) = wait() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let reaped = (self.now)();
        if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != i32::from(STATUS) {
            return Err(self.misfortune(pid, status));
        }
        let first = self.words[FIRST].load(Ordering::Acquire);
        Ok(Moments { called, returned, first: (first != 0).then_some(first), reaped })
    }

    /// Why a child ended abnormally.
    fn misfortune(&self, pid: libc::pid_t, status: libc::c_int) -> io::Error {
        let error = self.words[ERROR].load(Ordering::Acquire);
        if let Ok(error @ 1..) = i32::try_from(error) {
            return io::Error::from_raw_os_error(error);
        }
        io::Error::other(if libc::WIFEXITED(status) {
            format!(
                "the child {pid} exited with {} in place of {STATUS}",
                libc::WEXITSTATUS(status)
            )
        } else {
            format!("the child {pid} was killed by signal {}", libc::WTERMSIG(status))
        })
    }
}

fn exit(status: libc::c_int) -> ! {
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(status) }
}

/// See [`Then::Calls`]. Most of them fail, there as here.
fn ten_calls() {
    const NAME: &std::ffi::CStr = c"plumb-child";
    // SAFETY: plain values and a text that ends in a zero byte. This child changes, and exits next.
    unsafe {
        let pid = call!(SYS_getpid) as usize;
        let group = call!(SYS_getpgid, pid) as usize;
        call!(SYS_setsid);
        call!(SYS_vhangup);
        for (of, to) in [(0, 0), (pid, group), (0, usize::MAX), (usize::MAX, 0)] {
            call!(SYS_setpgid, of, to);
        }
        call!(SYS_sched_yield);
        call!(SYS_prctl, libc::PR_SET_NAME, NAME.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::{STATUS, Then, Watch};
    use crate::clock;
    use crate::elf::{Machine, dynamic_program, linkage, static_program};
    use crate::process::Program;

    fn watch() -> Watch {
        Watch::new(clock::monotonic_raw_ns).expect("maps")
    }

    fn program(status: u8) -> Program {
        Program::in_memory(&static_program(Machine::HERE, status)).expect("memory is executable")
    }

    #[test]
    fn moments_come_in_order_whatever_makes_the_child() {
        let mut watch = watch();
        let program = program(STATUS);
        for _ in 0..3 {
            let forked = [
                watch.fork(Then::Exit),
                watch.fork(Then::Calls),
                watch.fork(Then::Exec(&program)),
                watch.clone3(),
                watch.vfork(),
            ];
            for (way, moments) in forked.into_iter().enumerate() {
                let moments = moments.expect("a child can be made");
                let first = moments.first.expect("told");
                assert!(moments.called <= first && first <= moments.reaped, "{moments:?}");
                let back = moments.called <= moments.returned && moments.returned <= moments.reaped;
                assert!(back, "{moments:?}");
                // The parent of vfork stands until the child has ended.
                assert!(way != 4 || first <= moments.returned, "{moments:?}");
            }
            let spawned = watch.spawn(&program).expect("is spawned");
            assert_eq!(spawned.first, None);
            assert!(spawned.called <= spawned.returned && spawned.returned <= spawned.reaped);
        }
    }

    #[test]
    fn a_dynamic_program_is_loaded_and_exits() {
        let own = std::fs::read("/proc/self/exe").expect("is readable");
        // A static build of these tests has no interpreter to ask for.
        if let Some(linkage) = linkage(&own).expect("is a program") {
            let file = dynamic_program(Machine::HERE, &linkage, STATUS);
            let program = Program::in_memory(&file).expect("memory is executable");
            watch().fork(Then::Exec(&program)).expect("forks and runs");
            watch().spawn(&program).expect("spawns and runs");
            // The libraries are looked for: one that does not exist ends the program.
            let mut missing = linkage;
            missing.needed = vec!["libc.so.of-nowhere".to_owned()];
            let file = dynamic_program(Machine::HERE, &missing, STATUS);
            let program = Program::in_memory(&file).expect("memory is executable");
            let error = watch().spawn(&program).expect_err("no such library");
            assert!(error.to_string().contains("exited with 127"), "{error}");
        }
    }

    #[test]
    fn a_program_that_fails_is_an_error_and_never_a_moment() {
        let watch = watch();
        let other = program(43);
        for error in [watch.fork(Then::Exec(&other)), watch.spawn(&other)] {
            let error = error.expect_err("another status");
            assert!(error.to_string().contains("exited with 43"), "{error}");
        }
        let nowhere = Program::at_path(c"/nowhere/at/all", &[c"all"]);
        for error in [watch.fork(Then::Exec(&nowhere)), watch.spawn(&nowhere)] {
            let error = error.expect_err("nothing to execute");
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
        let text = Program::in_memory(b"no program").expect("memory is executable");
        let error = watch.fork(Then::Exec(&text)).expect_err("not executable");
        assert_eq!(error.raw_os_error(), Some(libc::ENOEXEC));
        let shell = Program::at_path(c"/bin/sh", &[c"sh", c"-c", c"exit 42"]);
        watch.spawn(&shell).expect("the shell exits with 42");
    }

    #[test]
    fn no_child_is_left() {
        let mut watch = watch();
        watch.vfork().expect("a child can be made");
        watch.clone3().expect("a child can be made");
        // What a failing check saw is reaped too.
        watch.spawn(&program(1)).expect_err("another status");
        // Children of this thread, those that wait to be reaped included; other tests run on
        // theirs. Kernels without CONFIG_PROC_CHILDREN lack it.
        if let Ok(children) = std::fs::read_to_string("/proc/thread-self/children") {
            assert_eq!(children, "");
        }
    }
}
