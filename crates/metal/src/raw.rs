//! System calls by their instruction: no cached answers, no `errno`, no
//! cancellation points. Each function makes exactly one system call.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::clock::Clock;

mod copy;
mod ipc;
mod uring;

pub use copy::{copy_file_range, memfd_create, pwrite64, sendfile, splice};
pub use ipc::{MessageQueue, Scope, eventfd, futex_wait, futex_wait_for, futex_wake};
pub use uring::UringNop;

/// A system call by its instruction: its name, and its arguments, which are numbers and addresses.
macro_rules! call {
    ($name:ident) => { $crate::arch::syscall0(libc::$name) };
    ($name:ident, $a:expr) => { $crate::arch::syscall1(libc::$name, $a as usize) };
    ($name:ident, $a:expr, $b:expr) => {
        $crate::arch::syscall2(libc::$name, $a as usize, $b as usize)
    };
    ($name:ident, $a:expr, $b:expr, $c:expr) => {
        $crate::arch::syscall3(libc::$name, $a as usize, $b as usize, $c as usize)
    };
    ($name:ident, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::arch::syscall4(libc::$name, $a as usize, $b as usize, $c as usize, $d as usize)
    };
    ($name:ident, $a:expr, $b:expr, $c:expr, $($more:expr),*) => {
        $crate::arch::syscall6(
            libc::$name, $a as usize, $b as usize, $c as usize, $($more as usize),*
        )
    };
}
pub(crate) use call;

/// What the kernel writes to `$place`, which the call gets; one that succeeds writes all of it.
macro_rules! written {
    ($place:ident, $call:expr) => {{
        let mut room = MaybeUninit::uninit();
        let $place: *mut _ = room.as_mut_ptr();
        result($call)?;
        Ok(room.assume_init())
    }};
}

/// The number of the error of a connection that is being made (EINPROGRESS).
pub const IN_PROGRESS: i32 = libc::EINPROGRESS;

#[inline]
pub fn getpid() -> u32 {
    // SAFETY: no arguments; cannot fail.
    (unsafe { call!(SYS_getpid) }) as u32
}

#[inline]
pub fn getppid() -> u32 {
    // SAFETY: no arguments; cannot fail.
    (unsafe { call!(SYS_getppid) }) as u32
}

/// Time of a clock. Errors: only where a sandbox forbids the call.
#[inline]
pub fn clock_gettime(clock: Clock) -> io::Result<libc::timespec> {
    // SAFETY: the kernel writes one timespec.
    unsafe { written!(time, call!(SYS_clock_gettime, clock.id(), time)) }
}

/// Wall time in s; `None` on aarch64, which has no such call.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn time() -> Option<u64> {
    // SAFETY: a null pointer asks for the returned value only.
    Some(unsafe { call!(SYS_time, 0) } as u64)
}

/// Wall time in s; `None` on aarch64, which has no such call.
#[cfg(target_arch = "aarch64")]
#[inline]
pub fn time() -> Option<u64> {
    None
}

/// Opens `path`, relative to `directory` or to the current one, with the kernel's `flags`
/// (`O_CLOEXEC` is added). A file that `O_CREAT` makes is the owner's alone. Errors of openat(2).
#[inline]
pub fn openat(directory: Option<BorrowedFd>, path: &CStr, flags: i32) -> io::Result<OwnedFd> {
    const MODE: usize = 0o600;
    // SAFETY: `path` ends in a zero byte; the directory is open or AT_FDCWD; this code owns what
    // the kernel opens.
    unsafe {
        opened(call!(
            SYS_openat,
            directory_fd(directory),
            path.as_ptr(),
            flags | libc::O_CLOEXEC,
            MODE
        ))
    }
}

/// Closes `fd`. Errors: those of close(2); the descriptor is closed all the same.
#[inline]
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: we own it, and `into_raw_fd` keeps it from being closed again.
    done(unsafe { call!(SYS_close, fd.into_raw_fd()) })
}

/// What the kernel knows about the file at `path`, links followed. Errors: those of newfstatat(2).
#[inline]
pub fn newfstatat(directory: Option<BorrowedFd>, path: &CStr) -> io::Result<libc::stat> {
    // SAFETY: the kernel writes one stat, in the C library's layout on both architectures; `path`
    // ends in a zero byte.
    unsafe {
        written!(status, call!(SYS_newfstatat, directory_fd(directory), path.as_ptr(), status, 0))
    }
}

/// Reads into `buffer`; returns bytes. Errors: those of read(2).
#[inline]
pub fn read(fd: BorrowedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`.
    result(unsafe { call!(SYS_read, fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) })
}

/// Writes `buffer`; returns bytes. Errors: those of write(2).
#[inline]
pub fn write(fd: BorrowedFd, buffer: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads at most `buffer.len()` bytes from `buffer`.
    result(unsafe { call!(SYS_write, fd.as_raw_fd(), buffer.as_ptr(), buffer.len()) })
}

/// Reads into `buffer` from byte `offset` on; returns bytes. Errors: those of pread(2).
#[inline]
pub fn pread64(fd: BorrowedFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    // SAFETY: as in `read`.
    result(unsafe { call!(SYS_pread64, fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len(), offset) })
}

/// Lets another thread run on this CPU, if one waits. Errors: a sandbox forbids it.
#[inline]
pub fn sched_yield() -> io::Result<()> {
    // SAFETY: no arguments.
    done(unsafe { call!(SYS_sched_yield) })
}

/// Anonymous memory of [`mmap`], to be given to [`munmap`].
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

/// Maps `bytes` of private anonymous memory, not touched. Errors: those of mmap(2).
#[inline]
pub fn mmap(bytes: usize) -> io::Result<Region> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = result(unsafe {
        call!(
            SYS_mmap,
            0,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            usize::MAX,
            0
        )
    })?;
    let start = NonNull::new(start as *mut u8).expect("a mapping is not at address 0");
    Ok(Region { start, bytes })
}

/// Unmaps a region. Errors: those of munmap(2).
#[inline]
pub fn munmap(region: Region) -> io::Result<()> {
    let (start, bytes) = (region.start, region.bytes);
    std::mem::forget(region);
    // SAFETY: the region is ours and is not used again.
    done(unsafe { call!(SYS_munmap, start.as_ptr(), bytes) })
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: as in `munmap`, which does not come here.
        unsafe { call!(SYS_munmap, self.start.as_ptr(), self.bytes) };
    }
}

/// Makes an epoll set. Errors: those of epoll_create1(2).
pub fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: a flag only; this code owns what the kernel opens.
    unsafe { opened(call!(SYS_epoll_create1, libc::EPOLL_CLOEXEC)) }
}

/// Adds `fd` to an epoll set, for reading, level-triggered. Errors: those of epoll_ctl(2).
pub fn epoll_add(epoll: BorrowedFd, fd: BorrowedFd) -> io::Result<()> {
    let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd.as_raw_fd() as u64 };
    // SAFETY: the kernel reads one event.
    done(unsafe {
        call!(
            SYS_epoll_ctl,
            epoll.as_raw_fd(),
            libc::EPOLL_CTL_ADD,
            fd.as_raw_fd(),
            &raw const event
        )
    })
}

/// Waits at most `timeout_ms` (0: not at all, -1: for ever) for descriptors of an epoll set;
/// returns how many are ready, 8 at most. aarch64 has only epoll_pwait, which is called there.
/// Errors: those of epoll_wait(2).
#[inline]
pub fn epoll_wait(epoll: BorrowedFd, timeout_ms: i32) -> io::Result<usize> {
    const EVENTS: usize = 8;
    let mut events = MaybeUninit::<[libc::epoll_event; EVENTS]>::uninit();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel writes at most EVENTS events to `events`.
    let ready = unsafe {
        call!(SYS_epoll_wait, epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS, timeout_ms)
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; without a signal mask.
    let ready = unsafe {
        call!(SYS_epoll_pwait, epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS, timeout_ms, 0, 0)
    };
    result(ready)
}

/// Bytes that wait to be read, by `ioctl(FIONREAD)`. Errors: those of ioctl(2): not a pipe, socket
/// or terminal.
#[inline]
pub fn ioctl_fionread(fd: BorrowedFd) -> io::Result<usize> {
    let mut waiting = 0i32;
    // SAFETY: the kernel writes one integer to `waiting`.
    result(unsafe { call!(SYS_ioctl, fd.as_raw_fd(), libc::FIONREAD, &raw mut waiting) })?;
    Ok(waiting as usize)
}

/// Flags of an open file (fcntl(2) F_GETFL). Errors: those of fcntl(2).
#[inline]
pub fn fcntl_getfl(fd: BorrowedFd) -> io::Result<usize> {
    // SAFETY: plain values.
    result(unsafe { call!(SYS_fcntl, fd.as_raw_fd(), libc::F_GETFL) })
}

#[inline(always)]
fn directory_fd(directory: Option<BorrowedFd>) -> i32 {
    directory.map_or(libc::AT_FDCWD, |fd| fd.as_raw_fd())
}

/// The kernel returns error numbers as -1 to -4095.
#[inline(always)]
pub(crate) fn result(value: isize) -> io::Result<usize> {
    if (-4095..0).contains(&value) {
        Err(io::Error::from_raw_os_error(-value as i32))
    } else {
        Ok(value as usize)
    }
}

/// The descriptor that a call returned.
///
/// # Safety
/// It was just opened, and has no other owner.
#[inline(always)]
pub(crate) unsafe fn opened(value: isize) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(result(value)? as i32) })
}

/// As [`result`], where nothing else is asked.
#[inline(always)]
pub(crate) fn done(value: isize) -> io::Result<()> {
    result(value).map(drop)
}

#[cfg(test)]
mod tests;
