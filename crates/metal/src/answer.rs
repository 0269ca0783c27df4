//! What system calls answer, as results, and the calls that several instruments make alike.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, socklen_t};

/// The C library's answer: below zero the reason is in `errno`.
#[inline(always)]
pub(crate) fn number<N: From<i8> + PartialOrd>(answer: N) -> io::Result<N> {
    if answer < N::from(0) { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// As [`number`], where nothing else is asked.
#[inline(always)]
pub(crate) fn done<N: From<i8> + PartialOrd>(answer: N) -> io::Result<()> {
    number(answer).map(drop)
}

/// The answer of functions that return their error.
#[inline(always)]
pub(crate) fn outcome(error: c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// A new descriptor, or the reason for its absence.
///
/// # Safety
/// A number from zero up is a descriptor that was just opened and has no other owner.
#[inline(always)]
pub(crate) unsafe fn owned<N: From<i8> + PartialOrd + TryInto<i32>>(fd: N) -> io::Result<OwnedFd> {
    let fd = number(fd)?.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Refuses what was asked for.
pub(crate) fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// A new socket, closed on exec.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: plain values; this code owns what the kernel opens.
    unsafe { owned(libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol)) }
}

/// Sets an option of a socket to a plain value (setsockopt(2)).
pub(crate) fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has.
    done(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as socklen_t,
        )
    })
}

/// Asks for an option of a socket (getsockopt(2)): the numbers that the kernel gave, at most as
/// many as there is room for in `values`.
#[inline]
pub(crate) fn option<'values, N: Copy + From<u8>>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    values: &'values mut [N],
) -> io::Result<&'values [N]> {
    let mut length = size_of_val(values) as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into numbers of ours, and how many into
    // `length`.
    done(unsafe {
        let into = values.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, into, &raw mut length)
    })?;
    Ok(&values[..(length as usize / size_of::<N>()).min(values.len())])
}
