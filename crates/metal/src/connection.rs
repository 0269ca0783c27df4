//! Where a TCP connection stands, and a source address that keeps its port for later.

use std::io;
use std::os::fd::BorrowedFd;

use crate::answer::{option, set_option};

/// The states, by the numbers of `net/tcp_states.h`.
macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// States of a connection (`net/tcp_states.h`), from `TCP_INFO`: one that waits out its
        /// time (TIME_WAIT) has left its descriptor and says [`State::Closed`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum State {
            $($(#[$doc])* $name,)*
        }

        impl State {
            fn from_number(number: u8) -> Option<State> {
                match number {
                    $($number => Some(State::$name),)*
                    _ => None,
                }
            }
        }
    };
}

states! {
    /// Both ends may send.
    Established = 1,
    SynSent = 2,
    SynReceived = 3,
    /// Its FIN is not acknowledged, and none came.
    FinWait1 = 4,
    /// Its FIN is acknowledged, and none came.
    FinWait2 = 5,
    /// Both FINs are acknowledged, and what is late may still come.
    TimeWait = 6,
    Closed = 7,
    /// A FIN came, and it has sent none.
    CloseWait = 8,
    /// A FIN came, and its own is not acknowledged.
    LastAck = 9,
    Listen = 10,
    /// Both FINs crossed, and its own is not acknowledged.
    Closing = 11,
}

impl State {
    /// Whether a FIN was sent and not yet acknowledged.
    pub fn awaits_acknowledgement(self) -> bool {
        matches!(self, State::FinWait1 | State::LastAck | State::Closing)
    }
}

/// The state of a connection; one system call, which copies eight bytes. Errors: those of
/// getsockopt(2): the descriptor is no TCP socket. A state that this plumb does not know.
#[inline]
pub fn state(socket: BorrowedFd<'_>) -> io::Result<State> {
    let mut told = [0_u8; 8];
    option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut told)?;
    State::from_number(told[0]).ok_or_else(|| io::Error::other(format!("TCP state {}", told[0])))
}

/// Has a bind(2) to port 0 choose an address only: connect(2) then takes a port that is free for
/// this address and that destination, and not one that is free on the whole host
/// (`IP_BIND_ADDRESS_NO_PORT`, Linux 4.2). Errors: those of setsockopt(2).
pub fn bind_address_only(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1)
}

#[cfg(test)]
mod tests {
    use super::{State, bind_address_only, state};
    use std::io::Read;
    use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_connection_goes_through_its_states() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(state(listener.as_fd()).unwrap(), State::Listen);
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(state(near.as_fd()).unwrap(), State::Established);
        near.shutdown(Shutdown::Write).unwrap();
        // The acknowledgement may be delayed, but not for ever, and no end closes.
        assert!(matches!(state(near.as_fd()).unwrap(), State::FinWait1 | State::FinWait2));
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        assert_eq!(state(far.as_fd()).unwrap(), State::CloseWait);
        far.shutdown(Shutdown::Write).unwrap();
        let ended = || !state(near.as_fd()).unwrap().awaits_acknowledgement();
        assert!((0..1_000_000).any(|_| ended()));
        assert_eq!(state(near.as_fd()).unwrap(), State::Closed);
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(state(other.as_fd()).is_err());
    }

    #[test]
    fn every_state_has_its_number_and_no_other() {
        let all: Vec<State> = (0..=255).filter_map(State::from_number).collect();
        assert_eq!(all.len(), 11);
        let waiting: Vec<State> =
            all.into_iter().filter(|state| state.awaits_acknowledgement()).collect();
        assert_eq!(waiting, [State::FinWait1, State::LastAck, State::Closing]);
    }

    #[test]
    fn an_address_is_bound_without_a_port() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        bind_address_only(socket.as_fd()).unwrap();
        let no_socket = std::fs::File::open("/proc/self/status").unwrap();
        assert!(bind_address_only(no_socket.as_fd()).is_err());
    }
}
