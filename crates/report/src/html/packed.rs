//! What the page's script inflates: gzip as text that no text of a run can break out of.
//!
//! 13 bits are two of 91 letters: 1.23 letters a byte where base64 has 1.33, which is 65 kB of a
//! standard run's page.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Letters, from the first one on without [`LEFT_OUT`].
const LETTERS: u32 = 91;
const FIRST: u8 = b'#';
/// What would begin markup.
const LEFT_OUT: u8 = b'<';
/// Bits that two letters hold.
const BITS: u32 = 13;
/// Bits that one letter holds.
const ALONE: u32 = 6;

pub fn pack(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = "writing to memory does not fail";
    encoder.write_all(text.as_bytes()).expect(written);
    letters(&encoder.finish().expect(written))
}

/// Bytes as pairs of letters, the lowest bits first. A last letter alone holds [`ALONE`] bits, so
/// that no more bytes come out than went in.
pub fn letters(bytes: &[u8]) -> String {
    let letter = |place: u32| {
        let plain = FIRST + place as u8;
        char::from(plain + u8::from(plain >= LEFT_OUT))
    };
    let (mut text, mut waiting, mut bits) = (String::new(), 0_u32, 0);
    let pair = |bits: u32| [letter(bits % LETTERS), letter(bits / LETTERS)];
    for byte in bytes {
        waiting |= u32::from(*byte) << bits;
        bits += 8;
        if bits >= BITS {
            text.extend(pair(waiting & ((1 << BITS) - 1)));
            waiting >>= BITS;
            bits -= BITS;
        }
    }
    match bits {
        0 => {}
        1..=ALONE => text.push(letter(waiting)),
        _ => text.extend(pair(waiting)),
    }
    text
}

/// What was packed, as the page's script finds it.
#[cfg(test)]
pub fn unpack(packed: &str) -> String {
    let place = |letter: u8| u32::from(letter - u8::from(letter > LEFT_OUT) - FIRST);
    let (mut bytes, mut waiting, mut bits) = (Vec::new(), 0_u32, 0);
    for pair in packed.as_bytes().chunks(2) {
        let (high, own) = pair.get(1).map_or((0, ALONE), |high| (place(*high), BITS));
        waiting |= (place(pair[0]) + LETTERS * high) << bits;
        bits += own;
        while bits >= 8 {
            bytes.push(waiting as u8);
            waiting >>= 8;
            bits -= 8;
        }
    }
    crate::unpacked(&bytes)
}

#[cfg(test)]
mod tests {
    use super::{letters, unpack};

    #[test]
    fn what_was_packed_comes_out_again() {
        for times in 0..40 {
            let text = "</script><img src=x>\u{b5}".repeat(times);
            let packed = super::pack(&text);
            assert!(!packed.contains('<'));
            assert_eq!(unpack(&packed), text);
        }
    }

    #[test]
    fn every_letter_can_be_seen_and_none_begins_markup() {
        let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let text = letters(&all);
        assert!(text.bytes().all(|letter| letter.is_ascii_graphic() && letter != b'<'));
        assert!(text.len() < 124_000, "{}", text.len());
    }
}
