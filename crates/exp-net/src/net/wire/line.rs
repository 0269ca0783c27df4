//! A line: small messages between the two ends of a case, each whole in its time or not at all, and
//! with a code that only the two ends can make. They go in clear.

use super::preamble::{CODE_BYTES, Codes};
use super::{completed, readable_in};
use anyhow::{Context, Result, bail, ensure};
use blake2::digest::Mac;
use metal::wait::readable;
use record::order::Gather;
use record::plain::line;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Of a message whose code is not that of the other end's next one.
const CHANGED: &str = "a message of the other end was changed on its way";
const MESSAGE_BYTES_MAX: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
pub(super) struct Asked {
    /// The case as text: maps lose their order on the way, and an id has one.
    pub(super) case: String,
    pub(super) ask: Value,
}

#[derive(Serialize, Deserialize)]
enum Word {
    /// What one end says to the other.
    Said(Value),
    /// The far end cannot serve, and why.
    Refused(String),
}

/// The far end said that it cannot serve a case, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the far end: {0}")]
pub struct Refused(String);

/// A message from its bytes. Texts of the other end come into errors and records: none of them, and
/// no name of a field, steers a terminal.
fn heard(body: &[u8]) -> serde_json::Result<Word> {
    serde_json::from_value(plain(serde_json::from_slice(body)?))
}

fn plain(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(line(&text)),
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::Object(values) => {
            let values = values.into_iter().map(|(name, value)| (line(&name), plain(value)));
            Value::Object(values.gather())
        }
        other => other,
    }
}

/// A line between the ends of a case. Its end is dropping it.
pub struct Line {
    stream: TcpStream,
    codes: Codes,
    is_near: bool,
    /// Messages said and heard.
    said: u64,
    heard: u64,
}

/// A message as it is sent: its length, itself, its code.
pub(super) fn framed(codes: &Codes, from_near: bool, nth: u64, body: &[u8]) -> Vec<u8> {
    let code = codes.code(from_near, nth, body).finalize().into_bytes();
    [&(body.len() as u32).to_le_bytes()[..], body, &code].concat()
}

/// Whether the other end of a stream is gone and nothing is left to read.
pub(super) fn is_ended(stream: &TcpStream) -> bool {
    match readable_in(stream.as_fd(), Duration::ZERO) {
        Ok(false) => false,
        Ok(true) => !stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0),
        Err(_) => true,
    }
}

impl Line {
    pub(super) fn new(stream: TcpStream, codes: Codes, is_near: bool) -> Line {
        Line { stream, codes, is_near, said: 0, heard: 0 }
    }

    pub fn tell(&mut self, message: &impl Serialize) -> Result<()> {
        let value = serde_json::to_value(message).context("encoding a message to the other end")?;
        self.send(&Word::Said(value))
    }

    pub fn hear<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T> {
        let until = Instant::now() + patience;
        let mut length = [0; 4];
        read_by(&mut self.stream, &mut length, until)?;
        let length = u32::from_le_bytes(length) as usize;
        ensure!(
            length <= MESSAGE_BYTES_MAX,
            "the other end announces a message of {length} B; at most {MESSAGE_BYTES_MAX} B are \
             allowed"
        );
        let mut message = vec![0; length + CODE_BYTES];
        read_by(&mut self.stream, &mut message, until)?;
        let (body, code) = message.split_at(length);
        let right = self.codes.code(!self.is_near, self.heard, body).verify_slice(code);
        ensure!(right.is_ok(), CHANGED);
        self.heard += 1;
        match heard(body).context("the other end sent an invalid message")? {
            Word::Said(value) => {
                serde_json::from_value(value).context("the other end sent an unexpected message")
            }
            Word::Refused(reason) => Err(Refused(reason).into()),
        }
    }

    pub fn heed<T: DeserializeOwned + PartialEq + Debug>(&mut self, word: T) -> Result<()> {
        let said: T = self.hear(super::PATIENCE)?;
        ensure!(said == word, "the other end sent {said:?} instead of {word:?}");
        Ok(())
    }

    /// An error of this end's with the far end's reason, where that gives one within `patience`.
    pub fn explained(&mut self, error: anyhow::Error, patience: Duration) -> anyhow::Error {
        if !self.speaks(patience).unwrap_or(false) {
            return error;
        }
        match self.hear::<Value>(patience) {
            Err(theirs) if theirs.is::<Refused>() => error.context(theirs),
            _ => error,
        }
    }

    /// Becomes readable when the other end says something or is gone.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether the other end is still there, as far as was heard; asks nothing and waits for
    /// nothing.
    pub fn is_open(&self) -> bool {
        !is_ended(&self.stream)
    }

    /// Whether there is neither a word of the other end nor its end; waits for nothing. For an end
    /// that works until the other one has enough.
    pub fn is_quiet(&self) -> bool {
        matches!(readable_in(self.stream.as_fd(), Duration::ZERO), Ok(false))
    }

    /// Waits until the other end says something, or is gone; whether it does in time.
    pub fn speaks(&self, patience: Duration) -> Result<bool> {
        readable_in(self.stream.as_fd(), patience).context("waiting for the other end")
    }

    /// The kernel's shortest round trip of the line; `None` if it reports none.
    pub fn least_round_trip(&self) -> Option<Duration> {
        let info = metal::tcp::info(self.stream.as_fd()).ok()?;
        Some(Duration::from_micros(info.min_rtt_us?.into()))
    }

    pub(super) fn refuse(&mut self, reason: &str) -> Result<()> {
        const REASON_CHARS_MAX: usize = 2000;
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        self.send(&Word::Refused(reason))
    }

    fn send(&mut self, word: &Word) -> Result<()> {
        let body = serde_json::to_vec(word).context("encoding a message to the other end")?;
        ensure!(
            body.len() <= MESSAGE_BYTES_MAX,
            "a message of {} B to the other end is too long; at most {MESSAGE_BYTES_MAX} B are \
             allowed",
            body.len()
        );
        let message = framed(&self.codes, self.is_near, self.said, &body);
        self.said += 1;
        self.stream.set_write_timeout(Some(super::PATIENCE))?;
        self.stream.write_all(&message).context("sending a message to the other end")
    }
}

/// Reads so many bytes in time. Errors: they did not come, or the other end is gone.
pub(super) fn read_by(
    stream: &mut (impl Read + AsFd),
    bytes: &mut [u8],
    until: Instant,
) -> Result<()> {
    let mut have = 0;
    while have < bytes.len() {
        let left = until.saturating_duration_since(Instant::now());
        let is_there = completed(readable(stream.as_fd(), left));
        match is_there.context("waiting for the other end")? {
            Some(true) => {}
            Some(false) => bail!("the other end sent nothing in time"),
            None => continue,
        }
        match completed(stream.read(&mut bytes[have..])).context("the other end is gone")? {
            Some(0) => bail!("the other end is gone"),
            Some(more) => have += more,
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::preamble::Codes;
    use super::super::preamble::tests::{TOKEN, gate};
    use super::{CHANGED, Line, framed};
    use std::io::Write;
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    pub(in super::super) fn codes() -> Codes {
        gate(TOKEN).codes(1)
    }

    /// A far end's line whose near end has said this; and that end.
    pub(in super::super) fn after(said: &[u8]) -> (Line, UnixStream) {
        let (far, mut near) = UnixStream::pair().expect("two ends");
        near.write_all(said).expect("it has room");
        (Line::new(TcpStream::from(OwnedFd::from(far)), codes(), false), near)
    }

    /// An attacker on the way without the secret: repeats, leaves out and changes messages.
    #[test]
    fn a_message_that_is_not_the_other_ends_next_one_is_told() {
        let hear = |said: &[u8]| {
            let (mut line, _near) = after(said);
            let mut heard = || line.hear::<u64>(Duration::from_millis(30));
            [heard(), heard()].map(|told| told.map_err(|error| error.to_string()))
        };
        let said = |number: u32, from_near, nth, body: &str| {
            framed(&gate(TOKEN).codes(number), from_near, nth, body.as_bytes())
        };
        let (five, six) = (said(1, true, 0, r#"{"Said":5}"#), said(1, true, 1, r#"{"Said":6}"#));
        assert_eq!(hear(&[&five[..], &six].concat()), [Ok(5), Ok(6)]);
        for wrong in [
            &six,
            &said(1, false, 0, r#"{"Said":5}"#),
            &said(2, true, 0, r#"{"Said":5}"#),
            &five.iter().map(|byte| if *byte == b'5' { b'7' } else { *byte }).collect(),
        ] {
            let [first, _] = hear(wrong);
            assert_eq!(first.expect_err("is wrong"), CHANGED);
        }
        let [first, again] = hear(&five.repeat(2));
        assert_eq!((first, again.expect_err("is wrong").as_str()), (Ok(5), CHANGED));
    }
}
