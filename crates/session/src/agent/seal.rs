//! What follows the handshake on a TCP connection: records, each a two-byte little-endian length
//! and one sealed Noise message, which together carry a stream of bytes.

use snow::TransportState;
use thiserror::Error;

/// Longest Noise message, in bytes.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// So many of these bytes are its authentication.
const TAG_BYTES: usize = 16;
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

    pub fn sealed(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        text.chunks(MESSAGE_BYTES_MAX - TAG_BYTES).for_each(|piece| self.record(piece, &mut out));
        out
    }

    pub(super) fn record(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let start = out.len() + LENGTH_BYTES;
        let length = piece.len() + TAG_BYTES;
        out.extend_from_slice(&(length as u16).to_le_bytes());
        out.resize(start + length, 0);
        self.state
            .write_message(piece, &mut out[start..])
            .expect("the buffer is as long as the message, and no connection lasts 2^64 of them");
    }

    /// Takes bytes that arrived, and appends what whole records among them carried. Errors:
    /// [`Unsealed`]: the connection is of no more use.
    pub fn open(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<(), Unsealed> {
        self.held.extend_from_slice(bytes);
        while let Some((length, rest)) = self.held.split_first_chunk::<LENGTH_BYTES>() {
            let length = usize::from(u16::from_le_bytes(*length));
            let Some(record) = rest.get(..length) else { break };
            let start = text.len();
            text.resize(start + length, 0);
            let opened = self.state.read_message(record, &mut text[start..]);
            text.truncate(start + opened.as_ref().copied().unwrap_or(0));
            self.held.drain(..LENGTH_BYTES + length);
            opened.map_err(|_| Unsealed)?;
        }
        Ok(())
    }

    /// Whether a record has begun to arrive.
    pub fn is_partial(&self) -> bool {
        !self.held.is_empty()
    }
}
