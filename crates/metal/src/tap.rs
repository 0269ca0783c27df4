//! A network interface whose other end is a file: each read takes a frame that the kernel sends,
//! each write is a frame that it receives.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::answer::done;

/// Makes the TAP interface `name` in a network namespace (a file of `/run/netns`), without a header
/// of its own before the frames. It goes with the last descriptor; reads and writes fail once it is
/// deleted. Errors: a name of more than 15 bytes; those of setns(2), open(2) of `/dev/net/tun` and
/// of its ioctl: EPERM without `CAP_NET_ADMIN`, ENOENT without the driver, EBUSY where the name is
/// taken.
pub fn open_in(namespace: &File, name: &CStr) -> io::Result<File> {
    if name.count_bytes() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // An interface is of the namespace of the thread that opens the driver: one that ends then.
    thread::scope(|scope| {
        let opened = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            let tap = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
            attach(&tap, name)?;
            Ok(tap)
        });
        opened.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

/// Gives an opened driver its interface.
fn attach(tap: &File, name: &CStr) -> io::Result<()> {
    // SAFETY: an `ifreq` is plain bytes, for which zeroes are right.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = *from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the kernel reads and writes one `ifreq`, which is ours and whose name ends with a
    // zero byte (the caller has looked at its length).
    done(unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })
}

#[cfg(test)]
mod tests {
    use super::open_in;
    use std::fs::File;

    #[test]
    fn a_name_that_does_not_fit_is_an_error() {
        let here = File::open("/proc/self/ns/net").expect("Linux has it");
        assert!(open_in(&here, c"a-name-of-16-too").is_err());
    }

    #[test]
    fn what_is_no_namespace_is_an_error() {
        let file = File::open("/proc/self/status").expect("Linux has it");
        assert!(open_in(&file, c"plumb-tap").is_err());
    }
}
