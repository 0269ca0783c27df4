//! Lists of queueing disciplines from rtnetlink(7), as raw messages of linux/rtnetlink.h. Reading
//! them needs no privilege; they describe the caller's network namespace.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

use crate::answer::{done, number, socket};

/// A list that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// The queueing disciplines of all interfaces.
    Queueing,
    /// The traffic classes of one interface, by its index.
    Classes(u32),
}

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEAD_BYTES: usize = 16;
/// `struct tcmsg`: family, interface, handle, parent, information.
const TRAFFIC_BYTES: usize = 20;
/// The kernel cuts its list into messages of no more than this.
const PART_BYTES: usize = 32_768;

/// The index of an interface; none where there is no such name.
pub fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends in a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// All messages of a list, one after the other, as [`messages`] reads them. Errors: those of
/// socket(2), send(2) and recv(2), and what the kernel answers in place of a list.
pub fn list(of: List) -> io::Result<Vec<u8>> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    let request = request(of);
    // SAFETY: the pointer and the length are those of `request`.
    done(unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) })?;
    let mut all = Vec::new();
    loop {
        let mut part = vec![0_u8; PART_BYTES];
        // The kernel has the next part ready before this call: nothing is waited for.
        // SAFETY: the pointer and the length are those of `part`.
        let bytes = number(unsafe {
            libc::recv(socket.as_raw_fd(), part.as_mut_ptr().cast(), part.len(), libc::MSG_DONTWAIT)
        })? as usize;
        part.truncate(bytes);
        for (kind, body) in messages(&part) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(all),
                libc::NLMSG_ERROR => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => {}
            }
        }
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        all.extend(part);
    }
}

fn request(of: List) -> Vec<u8> {
    let (kind, interface) = match of {
        List::Queueing => (libc::RTM_GETQDISC, 0),
        List::Classes(interface) => (libc::RTM_GETTCLASS, interface),
    };
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
    let mut bytes = Vec::with_capacity(HEAD_BYTES + TRAFFIC_BYTES);
    bytes.extend(((HEAD_BYTES + TRAFFIC_BYTES) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags as u16).to_ne_bytes());
    // Sequence number, port, and family: all zero.
    bytes.extend([0; 12]);
    bytes.extend(interface.to_ne_bytes());
    bytes.resize(HEAD_BYTES + TRAFFIC_BYTES, 0);
    bytes
}

/// Type and contents of each message; ends at the first that is not whole.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let body = bytes.get(HEAD_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Type and contents of each attribute (`struct rtattr`); ends at the first that is not whole.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// The two highest bits say how the contents are to be read.
    const TYPE: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let body = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE, body))
    })
}

#[cfg(test)]
mod tests {
    use super::{List, attributes, index, list, messages};

    #[test]
    fn the_kernel_lists_disciplines_and_classes_of_what_there_is() {
        let lo = index("lo").unwrap();
        assert_eq!((index("no-such-device"), index("zero\0byte")), (None, None));
        let all = list(List::Queueing).unwrap();
        for (kind, body) in messages(&all) {
            assert_eq!(kind, libc::RTM_NEWQDISC);
            // TCA_KIND is a text that ends in a zero byte.
            let name = attributes(&body[20..]).find(|(kind, _)| *kind == 1);
            assert_eq!(name.unwrap().1.last(), Some(&0));
        }
        assert_eq!(messages(&list(List::Classes(lo)).unwrap()).count(), 0);
    }

    #[test]
    fn what_is_not_whole_is_left_out() {
        let whole = [20, 0, 0, 0, 36, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4_u8];
        let twice = [whole, whole].concat();
        for length in 0..twice.len() {
            assert_eq!(messages(&twice[..length]).count(), length / whole.len());
        }
        assert_eq!(attributes(&[6, 0, 1, 0, 7, 8, 0, 0, 8, 0, 2, 0]).count(), 1);
        // A length that does not cover its own head would be read for ever.
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }
}
