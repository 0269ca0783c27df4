//! The drivers' facts about network interfaces: link settings, coalescing, offloads (`SIOCETHTOOL`,
//! linux/ethtool.h). All of it may be asked without privileges, and is of the caller's network
//! namespace.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::answer::{done, invalid, socket};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const GET_LINK_SETTINGS: u32 = 0x4c;
/// The flag of receive offloads by the device among [`GET_FLAGS`].
const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_drvinfo` is 196 bytes: the driver's name, its version, its firmware's and the
/// device's place on its bus are 32 bytes each, after the command.
const DRIVER_WORDS: usize = 49;
const DRIVER_NAME: std::ops::Range<usize> = 4..36;
const DRIVER_BUS: std::ops::Range<usize> = 100..132;
/// `struct ethtool_coalesce` is 23 words.
const COALESCE_WORDS: usize = 23;
/// `struct ethtool_link_settings` is 12 words, followed by three masks of as many words as the
/// kernel says.
const SETTINGS_WORDS: usize = 12;
const SETTINGS_SPEED: usize = 1;
const SETTINGS_DUPLEX_AT: usize = 8;
const SETTINGS_MASK_WORDS_AT: usize = 15;
const MASK_WORDS_MAX: usize = 127;

/// Interrupts held back: one comes when so much time has passed or so many frames have gathered; 0
/// is no limit of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds after a frame came in.
    pub receive_us: u32,
    pub receive_frames: u32,
    /// The driver changes those of receiving with the traffic.
    pub adaptive_receive: bool,
}

/// A driver's facts about its interface. Missing facts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Driver: `igb`, `veth`, `bridge`.
    pub driver: Option<String>,
    /// The device's place on its bus (`0000:00:03.0`, `usb-…`); none where there is no device.
    pub place: Option<String>,
    /// Maximum transmission unit, in bytes.
    pub mtu_bytes: Option<u32>,
    pub speed_mbit: Option<u32>,
    /// Both directions at once, else one at a time.
    pub is_full_duplex: Option<bool>,
    pub coalescing: Option<Coalescing>,
    /// The device cuts TCP segments.
    pub tso: Option<bool>,
    /// The kernel cuts them just before the device.
    pub gso: Option<bool>,
    /// The kernel joins what came in.
    pub gro: Option<bool>,
    /// The device joins what came in.
    pub lro: Option<bool>,
}

/// Names of the interfaces of this process's network namespace, in the kernel's order. Errors:
/// those of if_nameindex(3).
pub fn names() -> io::Result<Vec<String>> {
    // SAFETY: no arguments.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    for at in 0.. {
        // SAFETY: the list ends with an entry of index 0, where this loop ends.
        let entry = unsafe { &*list.add(at) };
        if entry.if_index == 0 || entry.if_name.is_null() {
            break;
        }
        // SAFETY: names of the list end in a zero byte and live as long as the list.
        let name = unsafe { CStr::from_ptr(entry.if_name) };
        names.push(name.to_string_lossy().into_owned());
    }
    // SAFETY: the list is if_nameindex's, and is not used again.
    unsafe { libc::if_freenameindex(list) };
    Ok(names)
}

/// Reads all facts about an interface from the kernel and its driver. Errors: a name that no
/// interface can have, no such interface, or no socket to ask through.
pub fn link(name: &str) -> io::Result<Link> {
    let asked = Asked::new(name)?;
    let mtu = asked.mtu()?;
    let (speed_mbit, is_full_duplex) = asked.settings().unwrap_or_default();
    let [driver, place] = asked.driver().unwrap_or_default();
    Ok(Link {
        driver,
        place,
        mtu_bytes: u32::try_from(mtu).ok(),
        speed_mbit,
        is_full_duplex,
        coalescing: asked.coalescing(),
        tso: asked.value(GET_TSO).map(|on| on != 0),
        gso: asked.value(GET_GSO).map(|on| on != 0),
        gro: asked.value(GET_GRO).map(|on| on != 0),
        lro: asked.value(GET_FLAGS).map(|flags| flags & FLAG_LRO != 0),
    })
}

/// Whether an interface of this process's network namespace is up. Errors: there is none of this
/// name, or the kernel does not say.
pub fn is_up(name: &str) -> io::Result<bool> {
    let answer = Asked::new(name)?.answer(libc::SIOCGIFFLAGS as _)?;
    // SAFETY: SIOCGIFFLAGS fills this field.
    Ok(i32::from(unsafe { answer.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0)
}

struct Asked {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Asked {
    fn new(name: &str) -> io::Result<Asked> {
        let text = CString::new(name)?;
        let bytes = text.as_bytes_with_nul();
        if bytes.len() > libc::IFNAMSIZ {
            return Err(invalid(format!("{name} is longer than a name of an interface can be")));
        }
        let mut name = [0; libc::IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        // Every family passes these requests on; this one is always there.
        let socket = socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
        Ok(Asked { socket, name })
    }

    fn mtu(&self) -> io::Result<i32> {
        // SAFETY: SIOCGIFMTU fills this field.
        Ok(unsafe { self.answer(libc::SIOCGIFMTU as _)?.ifr_ifru.ifru_mtu })
    }

    /// The kernel's answer to a command that takes a name and fills in a field of the request.
    fn answer(&self, command: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut request = self.request();
        // SAFETY: the kernel reads the name and writes into a request of ours.
        done(unsafe { libc::ioctl(self.socket.as_raw_fd(), command as _, &raw mut request) })?;
        Ok(request)
    }

    /// A request for this interface, with only the name filled in.
    fn request(&self) -> libc::ifreq {
        // SAFETY: all-zero values are valid ones.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    /// One request whose answer has the length of `words`; the first is the command.
    fn ask(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the kernel writes what the command's structure holds; each caller's array is at
        // least that long, and `settings` says how long its masks are.
        done(unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })
    }

    /// The driver's name, its firmware and the device's place.
    fn driver(&self) -> Option<[Option<String>; 2]> {
        let mut words = [0_u32; DRIVER_WORDS];
        words[0] = GET_DRIVER;
        self.ask(&mut words).ok()?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = |of: std::ops::Range<usize>| {
            let name = bytes[of].split(|byte| *byte == 0).next()?;
            let name = String::from_utf8_lossy(name).trim().to_owned();
            // Some drivers write that there is none.
            (!name.is_empty() && name != "N/A").then_some(name)
        };
        Some([DRIVER_NAME, DRIVER_BUS].map(text))
    }

    fn coalescing(&self) -> Option<Coalescing> {
        let mut words = [0_u32; COALESCE_WORDS];
        words[0] = GET_COALESCE;
        self.ask(&mut words).ok()?;
        Some(Coalescing {
            receive_us: words[1],
            receive_frames: words[2],
            adaptive_receive: words[10] != 0,
        })
    }

    fn value(&self, command: u32) -> Option<u32> {
        let mut words = [command, 0];
        self.ask(&mut words).ok()?;
        Some(words[1])
    }

    /// Rate in Mbit/s, and whether both directions go at once. The first question's answer is how
    /// long the masks of the second are (Linux 4.6).
    fn settings(&self) -> Option<(Option<u32>, Option<bool>)> {
        let mut words = [0_u32; SETTINGS_WORDS + 3 * MASK_WORDS_MAX];
        words[0] = GET_LINK_SETTINGS;
        self.ask(&mut words).ok()?;
        let wanted = byte_at(&words, SETTINGS_MASK_WORDS_AT) as i8;
        if wanted >= 0 {
            return None;
        }
        words = [0; SETTINGS_WORDS + 3 * MASK_WORDS_MAX];
        words[0] = GET_LINK_SETTINGS;
        set_byte(&mut words, SETTINGS_MASK_WORDS_AT, wanted.unsigned_abs());
        self.ask(&mut words).ok()?;
        let speed = words[SETTINGS_SPEED];
        let is_full = match byte_at(&words, SETTINGS_DUPLEX_AT) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        Some(((1..u32::MAX).contains(&speed).then_some(speed), is_full))
    }
}

fn byte_at(words: &[u32], at: usize) -> u8 {
    words[at / 4].to_ne_bytes()[at % 4]
}

fn set_byte(words: &mut [u32], at: usize, value: u8) {
    let mut bytes = words[at / 4].to_ne_bytes();
    bytes[at % 4] = value;
    words[at / 4] = u32::from_ne_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::{byte_at, link, names, set_byte};

    #[test]
    fn loopback_is_told_of() {
        assert!(names().unwrap().contains(&"lo".to_owned()));
        let told = link("lo").unwrap();
        let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").ok();
        let mtu = mtu.and_then(|text| text.trim().parse().ok());
        assert!(told.mtu_bytes.is_some());
        if let Some(mtu) = mtu {
            assert_eq!(told.mtu_bytes, Some(mtu));
        }
        // No wire, so no rate; and no card that could hold an interrupt back.
        assert_eq!((told.speed_mbit, told.coalescing), (None, None));
    }

    #[test]
    fn what_is_no_interface_is_an_error() {
        assert!(link("no-such-device").is_err());
        assert!(link("a-name-that-is-too-long").is_err());
        assert!(link("zero\0byte").is_err());
    }

    #[test]
    fn every_interface_that_there_is_can_be_asked() {
        for name in names().unwrap() {
            let told = link(&name).unwrap();
            assert!(told.mtu_bytes.is_some_and(|mtu| mtu >= 68), "{name}: {told:?}");
        }
    }

    #[test]
    fn bytes_lie_where_the_structure_has_them() {
        let mut words = [0_u32; 4];
        set_byte(&mut words, 14, 0xf7);
        assert_eq!(byte_at(&words, 14) as i8, -9);
        assert_eq!(words[3].to_ne_bytes(), [0, 0, 0xf7, 0]);
    }
}
