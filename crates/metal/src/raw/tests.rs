use std::ffi::CString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::*;
use tempfile::TempDir;

/// A file of its own for each user, in a directory that goes with it.
fn file(content: &[u8]) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("temporary files can be made");
    let path = place.path().join("file");
    std::fs::write(&path, content).unwrap();
    (place, path)
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn error(result: io::Result<impl Sized>) -> i32 {
    result.err().unwrap().raw_os_error().unwrap()
}

#[test]
fn numbers_of_processes_are_the_librarys() {
    assert_eq!(getpid(), std::process::id());
    assert_eq!(getppid(), std::os::unix::process::parent_id());
}

#[test]
fn a_file_is_opened_read_stated_and_closed() {
    let (_place, path) = file(b"0123456789");
    let file = openat(None, &text(&path), libc::O_RDONLY).unwrap();
    let mut buffer = [0; 4];
    assert_eq!(read(file.as_fd(), &mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"0123");
    assert_eq!(pread64(file.as_fd(), &mut buffer, 7).unwrap(), 3);
    assert_eq!(&buffer, b"7893");
    assert_eq!(read(file.as_fd(), &mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"4567");
    let status = newfstatat(None, &text(&path)).unwrap();
    assert_eq!(status.st_size, 10);
    assert_eq!(status.st_ino, std::fs::metadata(&path).unwrap().ino());
    assert_eq!(status.st_mode & libc::S_IFMT, libc::S_IFREG);
    let number = file.as_raw_fd();
    close(file).unwrap();
    // SAFETY: asks for the flags of a number, open or not.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // Another thread may have been given the number meanwhile; then it is not this file.
    if flags >= 0 {
        let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
        assert_ne!(link.ok(), Some(path));
    }
}

#[test]
fn paths_may_be_relative_to_a_directory() {
    let (place, path) = file(b"x");
    let directory = openat(None, &text(place.path()), libc::O_RDONLY | libc::O_DIRECTORY).unwrap();
    let file = openat(Some(directory.as_fd()), c"file", libc::O_WRONLY).unwrap();
    assert_eq!(write(file.as_fd(), b"yz").unwrap(), 2);
    assert_eq!(newfstatat(Some(directory.as_fd()), c"file").unwrap().st_size, 2);
    assert_eq!(std::fs::read(&path).unwrap(), b"yz");
}

#[test]
fn descriptors_are_closed_on_exec() {
    let file = openat(None, c"/dev/null", libc::O_WRONLY).unwrap();
    // SAFETY: asks for the flags of a descriptor that is open.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
}

#[test]
fn errors_are_the_kernels() {
    assert_eq!(error(openat(None, c"/no/such/file", 0)), libc::ENOENT);
    assert_eq!(error(newfstatat(None, c"/no/such/file")), libc::ENOENT);
    let null = openat(None, c"/dev/null", libc::O_WRONLY).unwrap();
    assert_eq!(error(read(null.as_fd(), &mut [0])), libc::EBADF);
    assert_eq!(error(ioctl_fionread(null.as_fd())), libc::ENOTTY);
    assert_eq!(error(mmap(0)), libc::EINVAL);
    assert_eq!(write(null.as_fd(), b"a").unwrap(), 1);
}

#[test]
fn only_the_last_page_of_numbers_is_an_error() {
    assert!(result(-4095).is_err() && result(-1).is_err());
    assert_eq!(result(-4096).unwrap(), usize::MAX - 4095);
    assert_eq!(result(0).unwrap(), 0);
}

#[test]
fn a_region_is_mapped_and_unmapped() {
    let mapped = |address: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (low, high) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let low = usize::from_str_radix(low, 16).unwrap();
            (low..usize::from_str_radix(high, 16).unwrap()).contains(&address)
        })
    };
    // Large enough that no other thread's allocation takes the place of any of its middle at once.
    let region = mmap(1 << 26).unwrap();
    let middle = region.start.as_ptr() as usize + (1 << 25);
    assert!(mapped(middle));
    munmap(region).unwrap();
    assert!(!mapped(middle));
    drop(mmap(4096).unwrap());
}

#[test]
fn waiting_bytes_and_ready_descriptors_are_counted() {
    let (reader, mut writer) = io::pipe().unwrap();
    let epoll = epoll_create().unwrap();
    epoll_add(epoll.as_fd(), reader.as_fd()).unwrap();
    assert_eq!(epoll_wait(epoll.as_fd(), 0).unwrap(), 0);
    assert_eq!(ioctl_fionread(reader.as_fd()).unwrap(), 0);
    writer.write_all(b"abc").unwrap();
    assert_eq!(epoll_wait(epoll.as_fd(), -1).unwrap(), 1);
    assert_eq!(ioctl_fionread(reader.as_fd()).unwrap(), 3);
}

#[test]
fn yielding_succeeds() {
    sched_yield().unwrap();
}

#[test]
fn every_nop_of_every_batch_completes() {
    let Ok(mut ring) = UringNop::new(8) else {
        // Forbidden here; then the kernel says so for every depth.
        assert!(UringNop::new(1).is_err());
        return skips::test("io-uring");
    };
    assert_eq!(ring.depth(), 8);
    for n in [0, 1, 7, 8, 9, 100] {
        assert_eq!(ring.submit_nops(n).unwrap(), n);
    }
    assert!(UringNop::new(0).is_err());
}

#[test]
fn a_wait_with_a_limit_comes_back_without_anybody() {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;
    let word = AtomicU32::new(0);
    let limit = Duration::from_millis(2);
    for scope in [Scope::Process, Scope::Machine] {
        // Until the time is over, or without a reason before.
        futex_wait_for(&word, 0, scope, limit).unwrap();
        // Another value: at once, however long the limit.
        futex_wait_for(&word, 1, scope, Duration::from_secs(3600)).unwrap();
    }
}
