//! One message is a frame: a four-byte little-endian length and that many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use thiserror::Error;

/// No message is longer; a longer length is a broken or hostile peer.
pub const FRAME_BYTES_MAX: usize = 256 << 20;
const LENGTH_BYTES: usize = 4;
/// A buffer that grew beyond this is given back once it is empty, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// A frame over the limit; both in bytes.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a frame of {length} bytes exceeds the limit of {limit} bytes")]
pub struct TooLong {
    pub length: usize,
    pub limit: usize,
}

/// Cuts frames from bytes as they arrive. What it holds is at most the limit, a length and what the
/// last [`Decoder::push`] brought, provided that frames are taken before the next.
#[derive(Debug)]
pub struct Decoder {
    held: Vec<u8>,
    limit: usize,
}

impl Decoder {
    /// For frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Decoder { held: Vec::new(), limit }
    }

    /// Another limit in bytes, for frames that were not taken yet.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next whole frame, without its length. Errors: its length is over the limit: the
    /// following messages cannot be separated any more.
    pub fn whole(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let Some((length, rest)) = self.held.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.limit {
            return Err(TooLong { length, limit: self.limit });
        }
        if rest.len() < length {
            return Ok(None);
        }
        let frame = rest[..length].to_vec();
        self.held.drain(..LENGTH_BYTES + length);
        if self.held.is_empty() && self.held.capacity() > KEPT_BYTES {
            self.held = Vec::new();
        }
        Ok(Some(frame))
    }

    /// Bytes of a frame that is not whole.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

/// A frame as it is sent. Errors: its body is over `limit` bytes.
pub fn encode(body: &[u8], limit: usize) -> Result<Vec<u8>, TooLong> {
    let too_long = TooLong { length: body.len(), limit };
    let Ok(length) = u32::try_from(body.len()) else { return Err(too_long) };
    if body.len() > limit {
        return Err(too_long);
    }
    Ok([&length.to_le_bytes(), body].concat())
}

/// Writes one message. Errors: what the writer reports, or a message over [`FRAME_BYTES_MAX`].
pub fn send(writer: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let framed = encode(&serde_json::to_vec(message)?, FRAME_BYTES_MAX);
    writer.write_all(&framed.map_err(io::Error::other)?)?;
    writer.flush()
}

/// Reads one message, and waits for it; `None` at a clean end of the stream. Errors: what the reader
/// reports, a torn frame, or one that is no message of this type.
pub fn receive<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = Vec::new();
    reader.take(LENGTH_BYTES as u64).read_to_end(&mut length)?;
    let stated = match length.first_chunk::<LENGTH_BYTES>() {
        Some(stated) => u32::from_le_bytes(*stated) as usize,
        None if length.is_empty() => return Ok(None),
        None => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    if stated > FRAME_BYTES_MAX {
        return Err(io::Error::other(TooLong { length: stated, limit: FRAME_BYTES_MAX }));
    }
    // Grows as bytes arrive: a false length costs nothing.
    let mut body = Vec::new();
    reader.take(stated as u64).read_to_end(&mut body)?;
    if body.len() < stated {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::{Decoder, FRAME_BYTES_MAX, TooLong, encode, receive, send};

    #[test]
    fn messages_come_back_in_order_and_ends_are_told_apart() {
        let mut wire = Vec::new();
        send(&mut wire, &"one").expect("sends");
        send(&mut wire, &vec![2_u8]).expect("sends");
        let mut reader = wire.as_slice();
        assert_eq!(receive::<String>(&mut reader).expect("reads"), Some("one".to_owned()));
        assert_eq!(receive::<Vec<u8>>(&mut reader).expect("reads"), Some(vec![2]));
        assert_eq!(receive::<String>(&mut reader).expect("ends"), None);
        for cut in 1..wire.len() {
            let mut torn = &wire[..cut];
            let first = receive::<String>(&mut torn);
            assert_eq!(first.is_ok(), cut >= 9, "cut at {cut}");
        }
        let mut hostile = &(FRAME_BYTES_MAX as u32 + 1).to_le_bytes()[..];
        assert!(receive::<String>(&mut hostile).is_err());
    }

    #[test]
    fn frames_come_back_however_the_bytes_arrive() {
        let bodies: [&[u8]; 4] = [b"one", b"", &[7; 100], b"last"];
        let wire: Vec<u8> =
            bodies.iter().flat_map(|body| encode(body, 100).expect("fits")).collect();
        for piece in [1, 2, 3, 5, 64, wire.len()] {
            let mut decoder = Decoder::new(100);
            let mut frames = Vec::new();
            for bytes in wire.chunks(piece) {
                decoder.push(bytes);
                while let Some(frame) = decoder.whole().expect("within the limit") {
                    frames.push(frame);
                }
            }
            assert_eq!(frames, bodies, "in pieces of {piece}");
            assert_eq!(decoder.held_bytes(), 0);
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_arrive() {
        assert!(encode(&[0; 11], 10).is_err());
        let mut decoder = Decoder::new(10);
        decoder.push(&u32::MAX.to_le_bytes());
        let refused = TooLong { length: u32::MAX as usize, limit: 10 };
        assert_eq!(decoder.whole(), Err(refused));
        // The limit holds for what is taken after it was set.
        let mut decoder = Decoder::new(10);
        decoder.push(&encode(&[1; 20], 20).expect("fits"));
        decoder.set_limit(20);
        assert_eq!(decoder.whole(), Ok(Some(vec![1; 20])));
    }
}
