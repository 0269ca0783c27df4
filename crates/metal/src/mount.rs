//! A file system that is mounted for this process alone.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

const FSOPEN_CLOEXEC: usize = 1;
const FSCONFIG_CMD_CREATE: usize = 6;
const FSMOUNT_CLOEXEC: usize = 1;
/// `MOUNT_ATTR_NOSUID | NODEV | NOEXEC`.
const ATTRIBUTES: usize = 2 | 4 | 8;

/// A mount that is attached nowhere: no other process sees it, and it goes with its descriptor,
/// however the process ends. Linux 5.2.
#[derive(Debug)]
pub struct Detached {
    root: OwnedFd,
}

impl Detached {
    /// Mounts a file system that needs no device, as `c"tracefs"`.
    ///
    /// # Errors
    /// Those of fsopen(2), fsconfig(2) and fsmount(2): EPERM without the right to mount, ENODEV
    /// where the kernel has no such file system, ENOSYS before Linux 5.2.
    pub fn new(kind: &CStr) -> io::Result<Detached> {
        // SAFETY: the kernel reads the string up to its end.
        let context = unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) };
        let context = owned(context)?;
        // SAFETY: a descriptor of ours and plain values; this command reads no pointer.
        let created = unsafe {
            let none = 0usize;
            let fd = context.as_raw_fd();
            libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, none, none, none)
        };
        if created < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor of ours and plain values.
        let root = unsafe {
            let fd = context.as_raw_fd();
            libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, ATTRIBUTES)
        };
        Ok(Detached { root: owned(root)? })
    }

    /// Where this process finds its files, as long as this value lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd()))
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us; descriptors are small.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use super::Detached;

    #[test]
    fn a_file_system_is_seen_by_its_path_and_goes_with_its_value() {
        let mount = match Detached::new(c"tmpfs") {
            Ok(mount) => mount,
            Err(error) => return skips::part("mount", error),
        };
        let file = mount.path().join("here");
        std::fs::write(&file, "x").expect("it is writable");
        assert_eq!(std::fs::read_to_string(&file).expect("it was written"), "x");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("Linux has it");
        assert!(!mounts.contains("/proc/self/fd"), "{mounts}");
        drop(mount);
        assert!(!file.exists());
    }

    #[test]
    fn an_unknown_file_system_is_an_error() {
        assert!(Detached::new(c"no-such-file-system").is_err());
    }
}
