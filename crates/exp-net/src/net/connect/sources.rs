//! Where connections come from, so that no port range is ever used up: over loopback each few of
//! them from an address of their own.

use anyhow::{Context, Result};
use host::ports::Ports;
use metal::connection::bind_address_only;
use socket2::Socket;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Addresses that connections over loopback come from: 127.64.0.0/10, far from those that programs
/// listen on.
const FIRST: u32 = 0x7f40_0000;
const ADDRESSES: u32 = 1 << 22;
/// Of an address' ports connections of a run use one in so many; the others belong to other
/// programs.
const SHARE: u64 = 16;
/// From one address at most so many connections.
const FROM_ONE_MAX: u64 = 64;
/// Of the ports to a host on the network, and of the room for connections in TIME_WAIT, all rounds
/// of a preset together use at most one in so many.
const PART: u64 = 2;
/// Linux keeps so many connections in TIME_WAIT where it does not say how many.
const TIME_WAIT_DEFAULT: u64 = 8192;

/// No port is left: whoever measures on would measure the search for one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no free port to connect from (EADDRNOTAVAIL){0}; wait a minute until closed connections leave \
     TIME_WAIT, or allow more ports with `sysctl -w net.ipv4.ip_local_port_range='1024 65535'`"
)]
pub(super) struct NoPort(pub(super) String);

/// Connections that one round may make to a far end so that all rounds of a preset together leave
/// ports and room for closed ones: none of them has left TIME_WAIT (60 s) when the last begins.
pub(super) fn most_in_round(ports: &Ports, is_remote: bool, rounds: u32) -> u64 {
    let kept = ports.time_wait_max.unwrap_or(TIME_WAIT_DEFAULT);
    let all = match is_remote {
        true => ports.usable().min(kept),
        // Each few have an address of their own; only the table bounds them.
        false => kept,
    };
    all / PART / u64::from(rounds.max(1))
}

/// What there is where addresses rotate.
#[derive(Debug)]
pub(super) struct Sources(Option<Rotation>);

#[derive(Debug)]
struct Rotation {
    next: u32,
    from_one: u64,
    left: u64,
}

impl Sources {
    /// For connections to `far`: rotating over 127.64.0.0/10 for an address of 127.0.0.0/8,
    /// beginning where `seed` says, else the one address that the kernel chooses.
    pub(super) fn new(far: IpAddr, ports: &Ports, seed: u64) -> Sources {
        let is_v4_loopback = matches!(far, IpAddr::V4(address) if address.is_loopback());
        let rotation = is_v4_loopback.then(|| {
            let from_one = (ports.usable() / SHARE).clamp(1, FROM_ONE_MAX);
            Rotation {
                next: fastrand::Rng::with_seed(seed).u32(..ADDRESSES),
                from_one,
                left: from_one,
            }
        });
        Sources(rotation)
    }

    pub(super) fn rotate(&self) -> bool {
        self.0.is_some()
    }

    /// Binds a fresh socket to the next source address, and to no port: outside of every timed
    /// window.
    pub(super) fn bind(&mut self, socket: &Socket) -> Result<()> {
        let Some(address) = self.next() else {
            return Ok(());
        };
        bind_address_only(socket.as_fd()).context("binding an address without a port")?;
        let bound = socket.bind(&SocketAddr::new(address.into(), 0).into());
        bound.map_err(|error| explained(error, &format!(" at {address}")))
    }

    fn next(&mut self) -> Option<Ipv4Addr> {
        let rotation = self.0.as_mut()?;
        if rotation.left == 0 {
            rotation.next = (rotation.next + 1) % ADDRESSES;
            rotation.left = rotation.from_one;
        }
        rotation.left -= 1;
        Some(Ipv4Addr::from(FIRST + rotation.next))
    }
}

/// What a failed bind(2) or connect(2) means.
pub(super) fn explained(error: io::Error, place: &str) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => NoPort(place.to_owned()).into(),
        _ => error.into(),
    }
}

/// Why a round is void in which a case failed for the lack of a port: with the way out, which
/// [`NoPort`] says itself.
pub(super) fn void(error: anyhow::Error) -> anyhow::Error {
    match error.chain().any(|cause| cause.is::<NoPort>()) {
        true => error,
        false => NoPort(format!(": {error:#}")).into(),
    }
}

/// Whether an error is that no port was left, here or where the line was opened.
pub(super) fn is_no_port(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<NoPort>()
            || cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    })
}

/// Ports that this host has in use towards `far`, from the address that leads there, those in
/// TIME_WAIT among them; and that address.
pub(super) fn in_use(far: IpAddr) -> Result<(u64, IpAddr)> {
    let any: IpAddr = match far {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: a connected socket for datagrams only looks the way up.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((far, 9)).with_context(|| format!("no route to {far}"))?;
    let near = socket.local_addr()?.ip();
    let path = match far {
        IpAddr::V4(_) => "/proc/net/tcp",
        IpAddr::V6(_) => "/proc/net/tcp6",
    };
    let table = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok((count_in_use(&table, near, far), near))
}

/// Lines of a table as /proc/net/tcp is, whose ends these are.
fn count_in_use(table: &str, near: IpAddr, far: IpAddr) -> u64 {
    let is_of = |line: &&str| {
        let ends = line.split_ascii_whitespace().skip(1).take(2).map(address);
        ends.eq([Some(near), Some(far)])
    };
    table.lines().skip(1).filter(is_of).count() as u64
}

/// `0100007F:0016`: an address as words of memory in hexadecimal, and a port.
fn address(text: &str) -> Option<IpAddr> {
    let (address, _) = text.split_once(':')?;
    let word = |at| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let words: Option<Vec<[u8; 4]>> = (0..address.len()).step_by(8).map(word).collect();
    let bytes = words?.concat();
    let v4 = <[u8; 4]>::try_from(&bytes[..]).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(&bytes[..]).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::{
        ADDRESSES, FIRST, NoPort, Sources, count_in_use, explained, is_no_port, most_in_round, void,
    };
    use bench::prelude::*;
    use host::ports::Ports;
    use std::io;
    use std::net::{IpAddr, Ipv4Addr};

    fn few() -> Ports {
        Ports { range: Some((40_000, 40_099)), time_wait_max: Some(10_000), ..Ports::default() }
    }

    #[test]
    fn no_address_of_a_round_gives_more_than_its_share_of_ports() {
        let far = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for ports in [few(), Ports::default()] {
            let mut sources = Sources::new(far, &ports, 7);
            let mut used: BTreeMap<Ipv4Addr, u64> = BTreeMap::new();
            for _ in 0..5000 {
                *used.entry(sources.next().expect("they rotate")).or_default() += 1;
            }
            assert!(used.values().all(|count| count * 16 <= ports.usable()));
            assert!(used.keys().all(Ipv4Addr::is_loopback), "{used:?}");
        }
        // The last address is followed by the first.
        let mut sources = Sources::new(far, &few(), 7);
        let rotation = sources.0.as_mut().expect("they rotate");
        (rotation.next, rotation.left) = (ADDRESSES - 1, 0);
        assert_eq!(sources.next(), Some(Ipv4Addr::from(FIRST)));
        for far in ["192.0.2.1", "::1", "2001:db8::1"] {
            let far = far.parse().expect("an address");
            assert_eq!(Sources::new(far, &few(), 7).next(), None);
        }
    }

    #[test]
    fn all_rounds_of_a_preset_leave_half_of_what_there_is() {
        assert_eq!(most_in_round(&few(), true, 5), 10);
        assert_eq!(most_in_round(&few(), false, 5), 1000);
        assert_eq!(most_in_round(&Ports::default(), true, 9), 455);
        for rounds in [1, 9, 20] {
            let all = u64::from(rounds) * most_in_round(&few(), true, rounds);
            assert!(all <= few().usable() / 2);
        }
    }

    #[test]
    fn ports_in_use_are_counted_towards_one_destination() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
            0: 0100007F:A0D2 0200007F:0016 01 0\n\
            1: 0100007F:A0D4 0200007F:0050 06 0\n\
            2: 0100007F:A0D6 0300007F:0050 06 0\n\
            3: 00000000:0016 00000000:0000 0A 0\nbroken\n";
        let v4 = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        assert_eq!(count_in_use(table, v4(1), v4(2)), 2);
        assert_eq!(count_in_use(table, v4(2), v4(1)), 0);
        let table = "head\n0: 00000000000000000000000001000000:A0D2 B80D0120000000000000000007000000:0016 06\n";
        let far = "2001:db8::7".parse().expect("an address");
        assert_eq!(count_in_use(table, "::1".parse().expect("an address"), far), 1);
    }

    #[test]
    fn a_lack_of_ports_is_known_however_deep_it_lies() {
        let error = explained(io::ErrorKind::AddrNotAvailable.into(), " at 127.64.0.1");
        assert!(error.is::<NoPort>() && error.to_string().contains("ip_local_port_range"));
        assert!(is_no_port(&error.context("a case")));
        let deep: Result<(), io::Error> = Err(io::ErrorKind::AddrNotAvailable.into());
        assert!(is_no_port(&deep.context("a line").expect_err("failed")));
        assert!(void(NoPort(String::new()).into()).is::<NoPort>());
        let other = explained(io::ErrorKind::ConnectionRefused.into(), "");
        assert!(!is_no_port(&other));
    }
}
