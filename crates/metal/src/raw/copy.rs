//! System calls that copy between files, and files to copy between.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use super::{call, opened, result};

/// Makes a file that is in memory only, empty. Errors: those of memfd_create(2).
pub fn memfd_create() -> io::Result<OwnedFd> {
    // SAFETY: the name ends in a zero byte; this code owns what the kernel opens.
    unsafe { opened(call!(SYS_memfd_create, c"plumb".as_ptr(), libc::MFD_CLOEXEC)) }
}

/// Writes `buffer` from byte `offset` on; returns bytes. Errors: those of pwrite(2).
#[inline]
pub fn pwrite64(fd: BorrowedFd, buffer: &[u8], offset: u64) -> io::Result<usize> {
    // SAFETY: the kernel reads at most `buffer.len()` bytes from `buffer`.
    result(unsafe { call!(SYS_pwrite64, fd.as_raw_fd(), buffer.as_ptr(), buffer.len(), offset) })
}

/// Copies at most `bytes` from byte `offset` of one file to the same place of another; returns
/// bytes, 0 at the first one's end. Errors: those of copy_file_range(2).
#[inline]
pub fn copy_file_range(
    from: BorrowedFd,
    to: BorrowedFd,
    offset: u64,
    bytes: usize,
) -> io::Result<usize> {
    let (mut here, mut there) = (offset, offset);
    let (here, there) = (ptr::from_mut(&mut here), ptr::from_mut(&mut there));
    // SAFETY: the kernel reads both offsets, and writes where it ended.
    result(unsafe {
        call!(SYS_copy_file_range, from.as_raw_fd(), here, to.as_raw_fd(), there, bytes, 0)
    })
}

/// Copies at most `bytes` from byte `offset` of a file to the position of `to`; returns bytes.
/// Errors: those of sendfile(2).
#[inline]
pub fn sendfile(to: BorrowedFd, from: BorrowedFd, offset: u64, bytes: usize) -> io::Result<usize> {
    let mut offset = offset;
    let here = ptr::from_mut(&mut offset);
    // SAFETY: the kernel reads the offset, and writes where it ended.
    result(unsafe { call!(SYS_sendfile, to.as_raw_fd(), from.as_raw_fd(), here, bytes) })
}

/// Moves at most `bytes` between a pipe and a file; the file's end has an offset. Returns bytes.
/// Errors: those of splice(2).
#[inline]
pub fn splice(
    (from, here): (BorrowedFd, Option<u64>),
    (to, there): (BorrowedFd, Option<u64>),
    bytes: usize,
) -> io::Result<usize> {
    let (mut here, mut there) = (here, there);
    let place = |offset: &mut Option<u64>| offset.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    let (here, there) = (place(&mut here), place(&mut there));
    // SAFETY: the kernel reads an offset that is given, and writes where it ended.
    result(unsafe { call!(SYS_splice, from.as_raw_fd(), here, to.as_raw_fd(), there, bytes, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::pread64;
    use std::os::fd::AsFd;

    #[test]
    fn every_call_copies_what_is_there_to_the_place_that_it_names() {
        let file = || memfd_create().expect("a file in memory");
        let (from, (output, input)) = (file(), io::pipe().expect("a pipe"));
        assert_eq!(pwrite64(from.as_fd(), b"0123456789", 0).unwrap(), 10);
        let copied = |copy: &dyn Fn(BorrowedFd) -> io::Result<usize>, expected: &[u8]| {
            let to = file();
            let mut found = [0; 16];
            assert_eq!(copy(to.as_fd()).unwrap(), 6);
            let bytes = pread64(to.as_fd(), &mut found, 0).unwrap();
            assert_eq!(&found[..bytes], expected);
        };
        let from = from.as_fd();
        copied(&|to| copy_file_range(from, to, 4, 100), b"\0\0\0\x00456789");
        copied(&|to| sendfile(to, from, 4, 100), b"456789");
        let by_pipe = |to: BorrowedFd<'_>| {
            assert_eq!(splice((from, Some(4)), (input.as_fd(), None), 100)?, 6);
            splice((output.as_fd(), None), (to, Some(4)), 100)
        };
        copied(&by_pipe, b"\0\0\0\x00456789");
        let read = splice((from, Some(0)), (output.as_fd(), None), 1).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::EBADF));
    }
}
