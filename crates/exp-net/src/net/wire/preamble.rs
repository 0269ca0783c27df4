//! The first message of a connection, and the check that admits it.

use anyhow::{Context, Result, ensure};
use blake2::Blake2sMac;
use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};

/// Magic, version, purpose, two bytes of zeros, number, code.
pub const PREAMBLE_BYTES: usize = SAID_BYTES + CODE_BYTES;

const MAGIC: [u8; 4] = *b"plmd";
const VERSION: u8 = 2;
const PURPOSE_AT: usize = 5;
/// Bytes that the code covers.
const SAID_BYTES: usize = 12;
pub(super) const CODE_BYTES: usize = 16;
/// Numbers above are no near end's: what is remembered of them stays bounded (2 MiB).
const NUMBER_MAX: u32 = 1 << 24;

/// What a preamble is for. It is part of what the code covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Line = 1,
    Data = 2,
    /// The first datagram of a near end.
    Datagram = 3,
    /// The far end's answer to it.
    Answer = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAdmitted {
    /// It speaks something else.
    #[error("a stranger: no preamble of this version and purpose")]
    Otherwise,
    #[error("a stranger: its code is wrong")]
    Code,
    /// Its number was admitted before, or is impossible.
    #[error("a stranger: its number was used before")]
    Used,
}

/// What makes and checks the codes of one line's messages: with the round's secret over the line's
/// number, the direction, how many messages went before, and the message, so that none is changed,
/// left out, or said again on this line or another one.
pub(super) struct Codes {
    keyed: Blake2sMac<U16>,
    number: u32,
}

impl Codes {
    pub(super) fn code(&self, from_near: bool, nth: u64, body: &[u8]) -> Blake2sMac<U16> {
        // No preamble begins so.
        let keyed = self.keyed.clone().chain_update(b"line").chain_update([from_near.into()]);
        let numbered = keyed.chain_update(self.number.to_le_bytes());
        numbered.chain_update(nth.to_le_bytes()).chain_update(body)
    }
}

pub(super) struct Admission {
    keyed: Blake2sMac<U16>,
    /// A bit for each number.
    used: Vec<u64>,
    /// What was made ready to be compared with, and its number.
    expected: Option<([u8; PREAMBLE_BYTES], u32)>,
}

impl Admission {
    /// Of the secret that an endpoint's token is, in hexadecimal.
    pub(super) fn from_token(token: &str) -> Result<Admission> {
        let digits = token.as_bytes().chunks(2).map(|two| {
            let text = std::str::from_utf8(two).ok()?;
            u8::from_str_radix(text, 16).ok()
        });
        let secret: Option<Vec<u8>> = digits.collect();
        let secret = secret.context("the far end's token is not hexadecimal")?;
        let count = secret.len();
        ensure!((16..=32).contains(&count), "the far end's token has {count} bytes");
        let keyed =
            <Blake2sMac<U16> as KeyInit>::new_from_slice(&secret).expect("a secret fits BLAKE2s");
        Ok(Admission { keyed, used: Vec::new(), expected: None })
    }

    pub(super) fn preamble(&self, purpose: Purpose, number: u32) -> [u8; PREAMBLE_BYTES] {
        let mut preamble = [0; PREAMBLE_BYTES];
        preamble[..4].copy_from_slice(&MAGIC);
        preamble[4] = VERSION;
        preamble[PURPOSE_AT] = purpose as u8;
        preamble[8..SAID_BYTES].copy_from_slice(&number.to_le_bytes());
        let code = self.keyed.clone().chain_update(&preamble[..SAID_BYTES]);
        preamble[SAID_BYTES..].copy_from_slice(&code.finalize().into_bytes());
        preamble
    }

    /// The codes of the line that this number opened.
    pub(super) fn codes(&self, number: u32) -> Codes {
        Codes { keyed: self.keyed.clone(), number }
    }

    /// Makes ready for the preamble of a purpose and number: it is then let in without a code made
    /// in between, where that would be part of what is timed. Others are let in as ever.
    pub(super) fn expect(&mut self, purpose: Purpose, number: u32) {
        self.expected = Some((self.preamble(purpose, number), number));
    }

    /// The number of a preamble that is let in. A stranger's uses no number up.
    pub(super) fn admit(
        &mut self,
        preamble: &[u8; PREAMBLE_BYTES],
        purpose: Purpose,
    ) -> Result<u32, NotAdmitted> {
        if let Some((expected, number)) = &self.expected {
            // All bytes, in a time that does not depend on how many are right.
            let differ = |sum, (one, other)| sum | (one ^ other);
            let differs = expected.iter().zip(preamble).fold(0, differ) != 0;
            if !differs && preamble[PURPOSE_AT] == purpose as u8 {
                let number = *number;
                self.expected = None;
                return self.use_up(number);
            }
        }
        let (said, code) = preamble.split_at(SAID_BYTES);
        let head = [&MAGIC[..], &[VERSION, purpose as u8, 0, 0]].concat();
        let number = said
            .strip_prefix(&head[..])
            .and_then(|number| number.try_into().ok())
            .map(u32::from_le_bytes)
            .ok_or(NotAdmitted::Otherwise)?;
        let keyed = self.keyed.clone().chain_update(said);
        // In a time that does not depend on how much is right.
        keyed.verify_slice(code).map_err(|_| NotAdmitted::Code)?;
        self.use_up(number)
    }

    /// Lets a number in that was not used before.
    fn use_up(&mut self, number: u32) -> Result<u32, NotAdmitted> {
        if number > NUMBER_MAX {
            return Err(NotAdmitted::Used);
        }
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        if self.used[word] & bit != 0 {
            return Err(NotAdmitted::Used);
        }
        self.used[word] |= bit;
        Ok(number)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Admission, NotAdmitted, PREAMBLE_BYTES, Purpose};

    pub(in super::super) const TOKEN: &str = "00112233445566778899aabbccddeeff";
    pub(in super::super) const OTHER_TOKEN: &str = "ffeeddccbbaa99887766554433221100";

    pub(in super::super) fn admission(token: &str) -> Admission {
        Admission::from_token(token).expect("a token")
    }

    #[test]
    fn a_number_is_let_in_once() {
        let (near, mut far) = (admission(TOKEN), admission(TOKEN));
        for number in [1, 2, 900, 63, 64, 65] {
            let said = near.preamble(Purpose::Data, number);
            assert_eq!(far.admit(&said, Purpose::Data), Ok(number));
            assert_eq!(far.admit(&said, Purpose::Data), Err(NotAdmitted::Used));
        }
        let far_away = near.preamble(Purpose::Data, u32::MAX);
        assert_eq!(far.admit(&far_away, Purpose::Data), Err(NotAdmitted::Used));
        assert!(far.used.len() < 20, "what nobody uses takes no memory");
    }

    #[test]
    fn one_that_is_expected_is_let_in_once_and_so_are_others() {
        let (near, mut far) = (admission(TOKEN), admission(TOKEN));
        for number in [5, 6, 9] {
            far.expect(Purpose::Data, 6);
            let said = near.preamble(Purpose::Data, number);
            assert_eq!(far.admit(&said, Purpose::Line), Err(NotAdmitted::Otherwise));
            assert_eq!(far.admit(&said, Purpose::Data), Ok(number));
            assert_eq!(far.admit(&said, Purpose::Data), Err(NotAdmitted::Used));
            // Nor when it is expected again.
            far.expect(Purpose::Data, number);
            assert_eq!(far.admit(&said, Purpose::Data), Err(NotAdmitted::Used));
        }
        assert_eq!(
            far.admit(&near.preamble(Purpose::Line, 5), Purpose::Line),
            Err(NotAdmitted::Used)
        );
    }

    #[test]
    fn every_bit_of_a_preamble_counts() {
        let (near, mut far) = (admission(TOKEN), admission(TOKEN));
        far.expect(Purpose::Line, 7);
        let right = near.preamble(Purpose::Line, 7);
        for bit in 0..8 * PREAMBLE_BYTES {
            let mut wrong = right;
            wrong[bit / 8] ^= 1 << (bit % 8);
            for purpose in [Purpose::Line, Purpose::Data] {
                assert!(far.admit(&wrong, purpose).is_err(), "bit {bit}");
            }
        }
        // None of these used the number up.
        assert_eq!(far.admit(&right, Purpose::Line), Ok(7));
    }

    #[test]
    fn another_secret_or_purpose_is_a_stranger() {
        let mut far = admission(TOKEN);
        let other = admission(OTHER_TOKEN);
        let said = other.preamble(Purpose::Data, 1);
        assert_eq!(far.admit(&said, Purpose::Data), Err(NotAdmitted::Code));
        let said = admission(TOKEN).preamble(Purpose::Data, 1);
        assert_eq!(far.admit(&said, Purpose::Line), Err(NotAdmitted::Otherwise));
    }

    #[test]
    fn a_token_that_is_none_is_told() {
        for wrong in
            ["", "00", "zz112233445566778899aabbccddeeff", "é0112233445566778899aabbccddeef"]
        {
            assert!(Admission::from_token(wrong).is_err(), "{wrong}");
        }
    }
}
