//! What a request is on the wire: its number, the number's complement, and bytes up to its size. A
//! reply is the request itself.

use crate::net::ends::pattern;
use laws::net::request::MESSAGE_BYTES_MIN;

/// Bytes of the shortest message.
const LEAST_BYTES: usize = MESSAGE_BYTES_MIN as usize;

/// A message of so many bytes, none of them 0 behind the numbers.
pub(super) fn blank(bytes: usize) -> Vec<u8> {
    pattern(bytes.max(LEAST_BYTES))
}

pub(super) fn stamp(message: &mut [u8], number: u64) {
    message[..8].copy_from_slice(&number.to_le_bytes());
    message[8..LEAST_BYTES].copy_from_slice(&(!number).to_le_bytes());
}

/// The number of a message; none of what is no message.
pub(super) fn number(message: &[u8]) -> Option<u64> {
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
