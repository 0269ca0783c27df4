//! Processes: which processes end together, their usage, and the first system call of a child.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, setsid, waitid, waitpid,
};

use crate::answer::{done, invalid, number};
use crate::clock;

mod child;
mod create;
mod program;
mod within;

pub(crate) use child::reap;
pub use child::{Child, Ending};
use create::Stack;
pub use create::{Moments, STATUS, Then, Watch};
pub use program::Program;
pub use within::{Patience, Signs, within};

/// What the calling thread or process used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults served without a device.
    pub minflt: u64,
    /// Page faults that read from a device.
    pub majflt: u64,
    /// Voluntary context switches (it waited).
    pub nvcsw: u64,
    /// Involuntary context switches (it was preempted).
    pub nivcsw: u64,
    /// CPU time in user mode, ns, to the microsecond.
    pub utime_ns: u64,
    /// CPU time in the kernel, ns, to the microsecond.
    pub stime_ns: u64,
    /// Largest resident size of the process, bytes. It survives exec: where the program that
    /// started this one was larger, it is that one's. See [`peak_resident_bytes`].
    pub maxrss: u64,
}

pub fn rusage_thread() -> Usage {
    usage(libc::RUSAGE_THREAD)
}

pub fn rusage_self() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// Usage of all children that have ended and were waited for, and of theirs.
pub fn rusage_children() -> Usage {
    usage(libc::RUSAGE_CHILDREN)
}

/// What sysinfo(2) answers: of the whole machine, whatever is mounted over /proc.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SystemInfo {
    pub memory_bytes: u64,
    pub uptime_s: u64,
    /// Tasks that run or wait, over 1, 5 and 15 minutes.
    pub load: [f64; 3],
}

/// Asks the kernel. Errors: those of sysinfo(2).
pub fn system_info() -> io::Result<SystemInfo> {
    // SAFETY: an all-zero sysinfo is a valid one.
    let mut answer: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `answer` is ours.
    done(unsafe { libc::sysinfo(&mut answer) })?;
    Ok(SystemInfo {
        memory_bytes: answer.totalram.saturating_mul(answer.mem_unit.into()),
        uptime_s: u64::try_from(answer.uptime).unwrap_or(0),
        // Fixed point with 16 bits behind the point.
        load: answer.loads.map(|load| load as f64 / 65536.0),
    })
}

/// Largest resident size of this process since its exec, in bytes, as `VmHWM` of
/// /proc/self/status; `None` where that cannot be read. The kernel counts it per address space,
/// which exec replaces, whereas `ru_maxrss` keeps the peak of the program before.
pub fn peak_resident_bytes() -> Option<u64> {
    peak_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The peak in a text as /proc/self/status is.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Has the kernel kill this process when its parent ends (strictly: when the parent's thread that
/// made it ends), and says whether the parent `parent_pid` is still there: it may have ended before
/// this call. Every child must call it anew. Errors: the parent has already ended, so this process
/// should end too.
pub fn die_with_parent(parent_pid: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = crate::raw::getppid();
    if parent != parent_pid {
        return Err(io::Error::other(format!(
            "the parent {parent_pid} has ended; the parent is now {parent}"
        )));
    }
    Ok(())
}

/// Has `command` begin a session of its own, and with it a process group whose number is the new
/// process's. Kernels that share the CPU between sessions (`kernel.sched_autogroup_enabled`) weigh
/// a priority only within one, so that one which stays in its parent's cannot come before others.
pub fn in_new_session(command: &mut Command) -> &mut Command {
    // SAFETY: the closure makes one system call, which may be made between fork and exec.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) }
}

/// Has the kernel kill `command`'s process when this one ends (strictly: when the calling thread
/// does). It survives exec, but not that of a program that gains rights by it.
pub fn dying_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: the closure makes two system calls, which may be made between fork and exec, and its
    // error holds no memory.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            match crate::raw::getppid() == parent {
                true => Ok(()),
                false => Err(io::ErrorKind::NotFound.into()),
            }
        })
    }
}

/// Has `command` run on `cpus` alone, at the highest ordinary priority that it may have: as plumb's
/// own workers do. To be asked for after [`in_new_session`], in which priorities may be weighed.
pub fn placed(command: &mut Command, cpus: Vec<usize>) -> &mut Command {
    let place = move || {
        crate::place::set_affinity(&cpus)?;
        crate::place::first();
        Ok(())
    };
    // SAFETY: between fork and exec the closure reads and writes files of /proc and makes system
    // calls. It may allocate: the C library's allocator is usable after fork.
    unsafe { command.pre_exec(place) }
}

/// Makes this process the parent of whatever descendants lose theirs, so that none of them gets out
/// of sight by a session of its own. Errors: those of prctl.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(Pid::INIT))?)
}

/// Whether the child `pid` has ended. It is not reaped, so that its number stays its own. Errors:
/// it is no child of this process. Numbers below 2 are refused.
pub fn has_ended(pid: u32) -> io::Result<bool> {
    let asked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(one_process(pid)?), asked)?.is_some())
}

/// Reaps the child `pid` if it has ended; whether it has. Errors: it is no child of this process.
/// Numbers below 2 are refused.
pub fn reap_ended(pid: u32) -> io::Result<bool> {
    Ok(waitpid(Some(one_process(pid)?), WaitOptions::NOHANG)?.is_some())
}

/// Kills (SIGKILL) all processes of the group that `pid` leads. Errors: no such group, or one of
/// another user. Numbers below 2 are refused.
pub fn kill_group(pid: u32) -> io::Result<()> {
    Ok(kill_process_group(one_process(pid)?, Signal::KILL)?)
}

/// Sends `signal` (0: only asks) to the process `pid`. Errors: no such process, or one of another
/// user. Numbers below 2 are refused.
pub fn kill(pid: u32, signal: i32) -> io::Result<()> {
    let pid = one_process(pid)?.as_raw_pid();
    // SAFETY: plain values.
    done(unsafe { libc::kill(pid, signal) })
}

/// Effective user; 0 is root.
pub fn geteuid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Ticks that the first system call of a fresh child takes, R1's way around a cached `getpid`: the
/// child is made as vfork makes it (it shares the memory, the parent waits), keeps the parent's CPU
/// set, and times one raw `getpid`. Its number and its exit status are checked. Errors: a processor
/// without [`clock::ticks_end`]; those of clone(2) and waitpid(2); a child that answered with
/// another number or did not exit by itself.
pub fn first_syscall_in_vfork_child() -> io::Result<u64> {
    /// What the child leaves in the memory that it shares.
    struct Answer {
        ticks: u64,
        pid: u32,
    }

    extern "C" fn child(answer: *mut libc::c_void) -> libc::c_int {
        let start = clock::ticks_start();
        let pid = crate::raw::getpid();
        let end = clock::ticks_end();
        // SAFETY: the parent's `Answer`; the parent waits and does not use it.
        unsafe {
            *answer.cast::<Answer>() = Answer { ticks: end.wrapping_sub(start), pid };
        }
        // The C library's clone ends the child by the raw exit call, so nothing
        // of the parent's exit handlers runs.
        0
    }

    if !clock::has_ticks_end() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the child ends its window by rdtscp, which this processor lacks",
        ));
    }
    let mut stack = Stack::new();
    let mut answer = Answer { ticks: 0, pid: 0 };
    // SAFETY: the child writes `answer` while this thread is suspended (CLONE_VFORK).
    let pid = number(unsafe { stack.vfork(child, (&raw mut answer).cast()) })?;
    child::succeed(pid)?;
    // SAFETY: a plain read that the compiler may not replace by the value from
    // before the child ran.
    let answer = unsafe { (&raw const answer).read_volatile() };
    if answer.pid != pid as u32 {
        return Err(io::Error::other(format!(
            "the child {pid} says that it is process {}",
            answer.pid
        )));
    }
    Ok(answer.ticks)
}

fn usage(whose: libc::c_int) -> Usage {
    // SAFETY: an all-zero rusage is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours; all values of `whose` exist, so it cannot fail.
    unsafe { libc::getrusage(whose, &mut usage) };
    let nanoseconds =
        |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Usage {
        minflt: usage.ru_minflt as u64,
        majflt: usage.ru_majflt as u64,
        nvcsw: usage.ru_nvcsw as u64,
        nivcsw: usage.ru_nivcsw as u64,
        utime_ns: nanoseconds(usage.ru_utime),
        stime_ns: nanoseconds(usage.ru_stime),
        maxrss: usage.ru_maxrss as u64 * 1024,
    }
}

/// The number as the kernel takes it. 0, -1 and other negative numbers would
/// mean whole groups or every process, 1 is init.
fn one_process(pid: u32) -> io::Result<Pid> {
    let positive = i32::try_from(pid).ok().and_then(Pid::from_raw);
    positive
        .filter(|pid| *pid != Pid::INIT)
        .ok_or_else(|| invalid(format!("{pid} is not a process that can receive a signal")))
}

#[cfg(test)]
mod tests;
