//! Numbered messages of one size over a socket: sent, taken in, and sent back.

use super::Socket;
use anyhow::{Context, Result, bail};
use metal::socket::Wait;

/// The smallest buffer for datagrams: a longer one than was sent is seen to be longer.
const PROBE_BYTES: usize = 64;

/// Buffers of one connection's messages. A stream's are taken in by as much as there is room for.
pub struct Messages {
    out: Vec<u8>,
    /// Bytes of it that the kernel took.
    away: usize,
    inbox: Vec<u8>,
    /// Bytes of a message that is there in part.
    have: usize,
}

/// What one call took in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Nothing,
    Bytes,
    /// The other end sends no more: a stream's end, or an empty datagram.
    End,
}

impl Messages {
    /// Of so many bytes each; of a stream at least `room` bytes are taken in at a time.
    pub fn new(bytes: usize, room: usize) -> Messages {
        Messages { out: pattern(bytes), away: bytes, inbox: vec![1; room.max(bytes)], have: 0 }
    }

    /// For an end that has one message on its way: no more is taken in than the rest of a message,
    /// so that none goes back in parts that began with another's.
    pub fn one_by_one(bytes: usize, is_stream: bool) -> Messages {
        Messages::new(bytes, if is_stream { bytes } else { bytes.max(PROBE_BYTES) })
    }

    /// The message that goes next.
    pub fn next(&mut self) -> &mut [u8] {
        &mut self.out
    }

    /// Sends the rest of a message; whether it is on its way whole.
    #[inline]
    pub fn flush(&mut self, socket: &Socket) -> Result<bool> {
        while self.away < self.out.len() {
            match socket.send(&self.out[self.away..]).context("sending")? {
                Some(0) => bail!("the far end accepts no more data"),
                Some(bytes) => self.away += bytes,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Sends a message with its number, for an end that never waits; `false` if nothing of it is
    /// taken now. What is taken in part goes on its way with the next calls.
    #[inline]
    pub fn post(&mut self, socket: &Socket, number: u64) -> Result<bool> {
        if !self.flush(socket)? {
            return Ok(false);
        }
        stamp(&mut self.out, number);
        self.away = 0;
        self.flush(socket)?;
        if self.away == 0 {
            self.away = self.out.len();
            return Ok(false);
        }
        Ok(true)
    }

    /// Receives by one call. `got` gets this end's message and each that came: of a stream whole
    /// ones, of datagrams each.
    #[inline]
    pub fn take(
        &mut self,
        socket: &Socket,
        wait: Wait,
        mut got: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<Taken> {
        let room = &mut self.inbox[self.have..];
        let bytes = match socket.receive(room, wait).context("receiving")? {
            None => return Ok(Taken::Nothing),
            Some(0) => return Ok(Taken::End),
            Some(bytes) => bytes,
        };
        if !socket.is_stream {
            got(&self.out, &self.inbox[..bytes])?;
            return Ok(Taken::Bytes);
        }
        self.have += bytes;
        let (size, mut at) = (self.out.len(), 0);
        while self.have - at >= size {
            got(&self.out, &self.inbox[at..at + size])?;
            at += size;
        }
        if at > 0 {
            self.inbox.copy_within(at..self.have, 0);
            self.have -= at;
        }
        Ok(Taken::Bytes)
    }

    /// The next message out and one back, whole, for which `is_back` says so; `false` if `again`
    /// gives up, which is asked whenever nothing moved.
    #[inline]
    pub fn exchange(
        &mut self,
        socket: &Socket,
        wait: Wait,
        mut is_back: impl FnMut(&[u8], &[u8]) -> Result<bool>,
        mut again: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        Ok(self.send(socket, &mut again)?
            && self.until_back(socket, wait, &mut is_back, &mut again)?)
    }

    /// The first half of [`Messages::exchange`].
    #[inline]
    pub fn send(
        &mut self,
        socket: &Socket,
        again: &mut impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        self.away = 0;
        while !self.flush(socket)? {
            if !again()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Between both where one thread has both ends: the message goes back from the other one.
    pub fn turn_round(
        &mut self,
        other: &Socket,
        again: &mut impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let mut is_sent = false;
        while !is_sent {
            let taken = self.echo(other, Wait::Block, || is_sent = true)?;
            if taken == Taken::Nothing && !again()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The second half of [`Messages::exchange`].
    #[inline]
    pub fn until_back(
        &mut self,
        socket: &Socket,
        wait: Wait,
        is_back: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>,
        again: &mut impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        loop {
            let mut came = None;
            let taken = self.take(socket, wait, |sent, back| {
                came = Some(is_back(sent, back)?);
                Ok(())
            })?;
            match (taken, came) {
                (_, Some(true)) => return Ok(true),
                (Taken::Bytes, None) => {}
                (Taken::End, _) => bail!("the far end closed the connection"),
                _ if again()? => {}
                _ => return Ok(false),
            }
        }
    }

    /// Receives by one call and sends each whole message back, `came` having been told of it.
    #[inline]
    pub fn echo(&mut self, socket: &Socket, wait: Wait, mut came: impl FnMut()) -> Result<Taken> {
        self.take(socket, wait, |own, message| {
            // Of datagrams a repeated introduction is none.
            if message.len() == own.len() {
                came();
                send_back(socket, message)?;
            }
            Ok(())
        })
    }
}

/// A stream that takes nothing back for one time-out of its socket after another is gone; a
/// datagram for which there is no room is lost here.
fn send_back(socket: &Socket, message: &[u8]) -> Result<()> {
    const TRIES: u32 = 3;
    let (mut sent, mut tries) = (0, 0);
    while sent < message.len() {
        match socket.send(&message[sent..]).context("sending back")? {
            Some(bytes) => sent += bytes,
            None if tries < TRIES => tries += 1,
            None if socket.is_stream => bail!("the near end takes nothing back"),
            None => break,
        }
    }
    Ok(())
}

/// A message of changing bytes without zeros, each page touched, no two pages alike.
pub fn pattern(bytes: usize) -> Vec<u8> {
    let mut value = 0x9e37_79b9_7f4a_7c15_u64;
    let mut message = vec![0; bytes];
    for part in message.chunks_mut(8) {
        value =
            value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        part.copy_from_slice(&(value | 0x0101_0101_0101_0101).to_ne_bytes()[..part.len()]);
    }
    message
}

/// Writes a number into a message: its first eight bytes, as far as it has them, and its last one.
#[inline]
pub fn stamp(message: &mut [u8], number: u64) {
    match message.first_chunk_mut::<8>() {
        Some(first) => *first = number.to_le_bytes(),
        None => message.fill(number as u8),
    }
    if let Some(last) = message.last_mut() {
        *last = number as u8;
    }
}

/// Whether a message came back with the number that it was sent with.
#[inline]
pub fn is_same(sent: &[u8], back: &[u8]) -> bool {
    let first = |bytes: &[u8]| bytes.first_chunk::<8>().copied();
    sent.len() == back.len() && sent.last() == back.last() && first(sent) == first(back)
}

/// The number of a message of nine bytes or more; `None` if it has not both of its parts.
#[inline]
pub fn number(message: &[u8]) -> Option<u64> {
    let (first, rest) = message.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*first);
    (rest.last() == Some(&(number as u8))).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{is_same, number, pattern, stamp};

    #[test]
    fn a_message_is_known_by_its_number() {
        for bytes in [1, 2, 7, 8, 9, 56, 4096] {
            let mut sent = vec![7; bytes];
            let mut back = vec![7; bytes];
            stamp(&mut sent, 0x0102_0304_0506_0708);
            stamp(&mut back, 0x0102_0304_0506_0707);
            assert!(!is_same(&sent, &back), "{bytes}");
            stamp(&mut back, 0x0102_0304_0506_0708);
            assert!(is_same(&sent, &back), "{bytes}");
            assert_eq!(number(&back), (bytes > 8).then_some(0x0102_0304_0506_0708), "{bytes}");
            back.push(8);
            assert!(!is_same(&sent, &back), "{bytes}");
        }
        // A part that stayed behind from the message before.
        let (mut sent, mut back) = (vec![0; 100], vec![0; 100]);
        stamp(&mut sent, 300);
        stamp(&mut back, 299);
        back[..8].copy_from_slice(&300_u64.to_le_bytes());
        assert!(!is_same(&sent, &back));
        assert_eq!(number(&back), None);
    }

    #[test]
    fn no_byte_is_zero_and_no_page_like_another() {
        for bytes in [1, 7, 8, 4096 * 3 + 5] {
            let message = pattern(bytes);
            assert_eq!(message.len(), bytes);
            assert!(message.iter().all(|byte| *byte != 0));
        }
        let pages = pattern(3 * 4096);
        let mut pages = pages.chunks(4096);
        let first = pages.next();
        assert!(pages.all(|page| Some(page) != first));
    }
}
