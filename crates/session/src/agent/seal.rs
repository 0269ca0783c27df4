//! What follows the handshake on a TCP connection: records, each a two-byte little-endian length
//! and one sealed Noise message, which together carry a stream of bytes.

use snow::TransportState;
use thiserror::Error;

/// Longest Noise message, in bytes.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// So many of these bytes are its authentication.
const TAG_BYTES: usize = 16;
/// Bytes that one message carries at most.
const PAYLOAD_BYTES_MAX: usize = MESSAGE_BYTES_MAX - TAG_BYTES;
/// Bytes of the length before a record.
pub(super) const LENGTH_BYTES: usize = 2;

/// Bytes that the other end did not seal, or not in this order.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "a message failed its authentication: the connection was tampered with, or bytes were \
         lost"
)]
pub struct Unsealed;

/// Both directions of a connection after its handshake.
pub struct Seal {
    state: TransportState,
    held: Vec<u8>,
}

impl Seal {
    pub(super) fn new(state: TransportState) -> Self {
        Seal { state, held: Vec::new() }
    }

    /// Seals bytes, and appends them to what is sent. An empty text is a record, too.
    pub fn seal(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let mut pieces = text.chunks(PAYLOAD_BYTES_MAX);
        let first = pieces.next().unwrap_or_default();
        for piece in std::iter::once(first).chain(pieces) {
            let start = out.len();
            let length = piece.len() + TAG_BYTES;
            let stated = u16::try_from(length).expect("a piece leaves room for its tag");
            out.extend_from_slice(&stated.to_le_bytes());
            out.resize(start + LENGTH_BYTES + length, 0);
            self.state.write_message(piece, &mut out[start + LENGTH_BYTES..]).expect(
                "the buffer is as long as the message, and no connection lasts 2^64 of them",
            );
        }
    }

    /// Takes bytes that arrived, and appends what whole records among them carried. Errors:
    /// [`Unsealed`]: the connection is of no more use.
    pub fn open(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<(), Unsealed> {
        self.held.extend_from_slice(bytes);
        while self.open_one(text)? {}
        Ok(())
    }

    /// Opens one record, where a whole one is there. Errors: as [`Seal::open`].
    pub(super) fn open_one(&mut self, text: &mut Vec<u8>) -> Result<bool, Unsealed> {
        let Some(length) = whole(&self.held) else { return Ok(false) };
        let end = LENGTH_BYTES + length;
        let start = text.len();
        text.resize(start + length, 0);
        let opened = self.state.read_message(&self.held[LENGTH_BYTES..end], &mut text[start..]);
        text.truncate(start + opened.as_ref().copied().unwrap_or(0));
        self.held.drain(..end);
        opened.map(|_| true).map_err(|_| Unsealed)
    }

    /// Whether a record has begun to arrive.
    pub fn is_partial(&self) -> bool {
        !self.held.is_empty()
    }
}

/// The length of the record that bytes begin with, if all of it is there.
pub(super) fn whole(bytes: &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::from(u16::from_le_bytes(*length));
    (rest.len() >= length).then_some(length)
}
