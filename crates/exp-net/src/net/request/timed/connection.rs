//! The near end's connections: nothing of them ever waits. A message is a number, the number's
//! complement, and bytes up to its size; a reply is the request itself.

use crate::net::ends::{Socket, is_again, pattern};
use anyhow::{Context, Result, bail};
use laws::net::request::MESSAGE_BYTES_MIN;
use metal::readiness::is_full;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};

/// Bytes that are taken in at a time, or a message if that is longer.
pub(in crate::net::request) const INBOX_BYTES: usize = 64 << 10;

/// One connection with requests on their way.
pub(in crate::net::request) struct Connection {
    socket: Socket,
    /// The request that is being sent, and how many bytes are sent.
    out: Vec<u8>,
    away: usize,
    inbox: Vec<u8>,
    have: usize,
    /// Requests without a reply so far.
    pub(in crate::net::request) in_flight: u64,
}

impl Connection {
    /// Of messages like `blank`.
    pub(in crate::net::request) fn new(socket: Socket, blank: Vec<u8>) -> Result<Connection> {
        SockRef::from(&socket).set_nonblocking(true).context("making a socket non-blocking")?;
        Ok(Connection {
            away: blank.len(),
            inbox: vec![0; INBOX_BYTES.max(blank.len())],
            out: blank,
            have: 0,
            in_flight: 0,
            socket,
        })
    }

    /// Sends a request; `false` if the kernel accepts no bytes now. What it takes in part goes on
    /// its way with the next calls.
    #[inline]
    pub(in crate::net::request) fn send(&mut self, number: u64) -> Result<bool> {
        if self.away < self.out.len() && !self.flush()? {
            return Ok(false);
        }
        stamp(&mut self.out, number);
        self.away = 0;
        self.flush()?;
        if self.away == 0 {
            self.away = self.out.len();
            return Ok(false);
        }
        self.in_flight += 1;
        Ok(true)
    }

    /// Sends the rest of a request; whether it is completely sent.
    fn flush(&mut self) -> Result<bool> {
        while self.away < self.out.len() {
            let rest = &self.out[self.away..];
            let sent = match &mut self.socket {
                Socket::Stream(stream) => stream.write(rest),
                Socket::Datagram(socket) => socket.send(rest),
            };
            match sent {
                Ok(0) => bail!("the far end accepts no more data"),
                Ok(bytes) => self.away += bytes,
                Err(error) if is_full(&error) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("sending a request"),
            }
        }
        Ok(true)
    }

    /// Receives what is there, in one call; `got` gets the number of each reply.
    #[inline]
    pub(in crate::net::request) fn receive(
        &mut self,
        got: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        if self.away < self.out.len() {
            self.flush()?;
        }
        let room = &mut self.inbox[self.have..];
        let bytes = match &mut self.socket {
            Socket::Stream(stream) => stream.read(room),
            Socket::Datagram(socket) => {
                let bytes = socket.recv(room);
                return self.receive_datagram(bytes, got);
            }
        };
        match bytes {
            Ok(0) => bail!("the far end closed a connection during a case"),
            Ok(bytes) => self.have += bytes,
            Err(error) if is_again(&error) => return Ok(()),
            Err(error) => return Err(error).context("receiving a reply"),
        }
        let size = self.out.len();
        let mut at = 0;
        while self.have - at >= size {
            let number =
                number(&self.inbox[at..at + size]).context("received data is not a reply")?;
            self.in_flight = self.in_flight.saturating_sub(1);
            got(number)?;
            at += size;
        }
        self.inbox.copy_within(at..self.have, 0);
        self.have -= at;
        Ok(())
    }

    fn receive_datagram(
        &mut self,
        bytes: io::Result<usize>,
        got: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        match bytes {
            // A late answer of the introduction is no message, and shorter or longer than one.
            Ok(bytes) if bytes == self.out.len() => {
                if let Some(number) = number(&self.inbox[..bytes]) {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    got(number)?;
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if is_again(&error) => Ok(()),
            Err(error) => Err(error).context("receiving a reply"),
        }
    }

    pub(in crate::net::request) fn softirq_cpu(&self) -> Option<usize> {
        self.socket.softirq_cpu()
    }

    /// Expects one reply less: it was given up.
    pub(in crate::net::request) fn give_up(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}

/// Bytes of the shortest message.
const LEAST_BYTES: usize = MESSAGE_BYTES_MIN as usize;

/// A message of so many bytes, none of them 0 behind the numbers.
pub(in crate::net::request) fn blank(bytes: usize) -> Vec<u8> {
    pattern(bytes.max(LEAST_BYTES))
}

pub(in crate::net::request) fn stamp(message: &mut [u8], number: u64) {
    message[..8].copy_from_slice(&number.to_le_bytes());
    message[8..LEAST_BYTES].copy_from_slice(&(!number).to_le_bytes());
}

/// The number of a message; `None` if the bytes are no message.
pub(in crate::net::request) fn number(message: &[u8]) -> Option<u64> {
    let (number, rest) = message.split_first_chunk::<8>()?;
    let complement = rest.first_chunk::<8>()?;
    let number = u64::from_le_bytes(*number);
    (u64::from_le_bytes(*complement) == !number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{blank, number, stamp};

    #[test]
    fn a_number_comes_back_and_noise_has_none() {
        let mut message = blank(64);
        assert_eq!(number(&message), None);
        for told in [0, 1, 77, u64::MAX] {
            stamp(&mut message, told);
            assert_eq!(number(&message), Some(told));
        }
        message[3] ^= 1;
        assert_eq!(number(&message), None);
        assert_eq!(number(&message[..15]), None);
        assert_eq!(blank(1).len(), 16);
    }
}
