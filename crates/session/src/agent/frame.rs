//! Frames: a four-byte little-endian length and that many bytes, cut from a stream of bytes.

use thiserror::Error;

/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;
/// A buffer that grew beyond this is given back once it is empty, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// A frame over the limit.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a frame of {length} bytes exceeds the limit of {limit} bytes")]
pub struct TooLong {
    /// Its length in bytes, as it stands before it.
    pub length: usize,
    /// The limit in bytes.
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

    /// Whether a frame has begun to arrive.
    pub fn is_partial(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

/// A frame as it is sent. Errors: it is over `limit` bytes.
pub fn encode(body: &[u8], limit: usize) -> Result<Vec<u8>, TooLong> {
    let too_long = TooLong { length: body.len(), limit };
    let Ok(length) = u32::try_from(body.len()) else { return Err(too_long) };
    if body.len() > limit {
        return Err(too_long);
    }
    let mut framed = Vec::with_capacity(LENGTH_BYTES + body.len());
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(body);
    Ok(framed)
}

#[cfg(test)]
mod tests {
    use super::{Decoder, TooLong, encode};

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
            assert!(!decoder.is_partial());
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_arrive() {
        assert!(encode(&[0; 11], 10).is_err());
        let mut decoder = Decoder::new(10);
        decoder.push(&u32::MAX.to_le_bytes());
        let refused = TooLong { length: u32::MAX as usize, limit: 10 };
        assert_eq!(decoder.whole(), Err(refused));
        assert!(decoder.is_partial());
        // The limit holds for what is taken after it was set.
        let mut decoder = Decoder::new(10);
        decoder.push(&encode(&[1; 20], 20).expect("fits"));
        decoder.set_limit(20);
        assert_eq!(decoder.whole(), Ok(Some(vec![1; 20])));
    }
}
