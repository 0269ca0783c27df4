//! A file system that is mounted for this process alone.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// A mount that is attached nowhere: no other process sees it, and it goes with its descriptor,
/// however the process ends. Linux 5.2.
#[derive(Debug)]
pub struct Detached {
    root: OwnedFd,
}

impl Detached {
    /// Mounts a file system that needs no device, as `c"tracefs"`. Errors: those of fsopen(2),
    /// fsconfig(2) and fsmount(2): EPERM without the right to mount, ENODEV where the kernel has no
    /// such file system, ENOSYS before Linux 5.2.
    pub fn new(kind: &CStr) -> io::Result<Detached> {
        let harmless = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        Ok(Detached { root: fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, harmless)? })
    }

    /// Where this process finds its files, as long as this value lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd()))
    }
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
