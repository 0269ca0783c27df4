//! The checksum that ends each line, and what a line held that does not match its own.
//!
//! It finds accidents: a digit that a disk, a copy or an editor changed. In a record each line has its
//! number too, and its checksum begins with the header's ([`Sealer`]), so that lines that are missing,
//! there twice or of another record are found as well. It does not find tampering: whoever changes a
//! line on purpose can compute its checksum anew.

use crate::NUMBERED_FORMAT;

/// What begins the member with the checksum, which is the last one of a line's object.
const START: &[u8] = br#","crc":""#;
/// What begins the member before it, of a line that has its number.
const NUMBER: &[u8] = br#","line":"#;
const END: &[u8] = br#""}"#;
const DIGITS: usize = 8;

/// What a line's checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// The line is as it was written.
    Intact,
    Broken,
    /// The line has no checksum.
    Absent,
}

/// Ends a line's object with the CRC-32 (that of zlib) of everything before this member.
pub fn seal(object: &mut Vec<u8>) {
    seal_from(0, object);
}

/// Ends a line's object with its checksum, which begins with another one's: the new checksum.
fn seal_from(start: u32, object: &mut Vec<u8>) -> u32 {
    object.pop();
    let sum = sum_from(start, object);
    object.extend_from_slice(START);
    object.extend_from_slice(format!("{sum:08x}").as_bytes());
    object.extend_from_slice(END);
    sum
}

/// As `zlib.crc32(text, start)` of Python.
fn sum_from(start: u32, text: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(start);
    hasher.update(text);
    hasher.finalize()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealer {
    is_numbering: bool,
    /// The header's checksum; 0 before it is written.
    header: u32,
    lines: u64,
}

impl Sealer {
    pub fn new(format: u32) -> Sealer {
        Sealer { is_numbering: format >= NUMBERED_FORMAT, header: 0, lines: 0 }
    }

    /// For the next lines of a record that has so many, and a header with this checksum.
    pub(crate) fn after(format: u32, header: u32, lines: u64) -> Sealer {
        Sealer { header, lines, ..Sealer::new(format) }
    }

    /// Ends the next line's object with its number and checksum.
    pub fn seal(&mut self, object: &mut Vec<u8>) {
        if !self.is_numbering {
            return seal(object);
        }
        self.lines += 1;
        object.pop();
        object.extend_from_slice(NUMBER);
        object.extend_from_slice(format!("{}}}", self.lines).as_bytes());
        let sum = seal_from(self.header, object);
        if self.lines == 1 {
            self.header = sum;
        }
    }
}

/// Compares a line, with or without its newline, with its checksum.
pub fn check(line: &[u8]) -> Seal {
    match parts(line) {
        None => Seal::Absent,
        Some((text, sum)) if sum == Some(sum_from(0, text)) => Seal::Intact,
        Some(_) => Seal::Broken,
    }
}

/// The object of an intact line without its checksum.
pub fn unsealed(line: &[u8]) -> Option<Vec<u8>> {
    let (text, sum) = parts(line)?;
    (sum == Some(sum_from(0, text))).then(|| [text, b"}"].concat())
}

/// Whether a line ends as a sealed one does, so that nothing is cut from its end.
pub fn is_ended(line: &[u8]) -> bool {
    parts(line).is_some()
}

/// The checksum that a line has to have, and the one that it has; equal but for damage.
pub(crate) fn sums(line: &[u8]) -> Option<[u32; 2]> {
    let (text, sum) = parts(line)?;
    Some([sum_from(0, text), sum?])
}

/// The number of a line whose checksum begins with one of these; `None` of any other line.
pub(crate) fn number(line: &[u8], headers: [u32; 2]) -> Option<u64> {
    let (text, sum) = parts(line)?;
    let is_own = headers.iter().any(|header| sum == Some(sum_from(*header, text)));
    let digits = &text[number_start(text).filter(|_| is_own)? + NUMBER.len()..];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the member with the number begins in the text of a line.
fn number_start(text: &[u8]) -> Option<usize> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = text.len().checked_sub(digits + NUMBER.len())?;
    text[start..].starts_with(NUMBER).then_some(start)
}

/// What the checksum of a line is of, and the checksum; `None` where it has other digits.
fn parts(line: &[u8]) -> Option<(&[u8], Option<u32>)> {
    let object = line.strip_suffix(b"\n").unwrap_or(line).strip_suffix(END)?;
    let (text, digits) = object.split_at_checked(object.len().checked_sub(DIGITS)?)?;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = std::str::from_utf8(digits).ok().filter(|it| it.as_bytes().iter().all(is_digit));
    Some((text.strip_suffix(START)?, digits.and_then(|it| u32::from_str_radix(it, 16).ok())))
}

/// Lines that were changed on purpose, each with a new checksum; those of a record with the numbers
/// that its format asks for.
pub fn resealed(lines: &str) -> String {
    let first = lines.lines().next().unwrap_or_default();
    let header: Option<serde_json::Value> = serde_json::from_str(first).ok();
    let format = header.and_then(|header| u32::try_from(header["format"].as_u64()?).ok());
    let mut sealer = Sealer::new(format.unwrap_or(0));
    let lines = lines.split_inclusive('\n').map(|line| {
        let whole = line.trim_end_matches('\n');
        let text = match parts(whole.as_bytes()) {
            Some((text, _)) => &text[..number_start(text).unwrap_or(text.len())],
            None => &whole.as_bytes()[..whole.len().saturating_sub(1)],
        };
        let mut object = [text, b"}"].concat();
        sealer.seal(&mut object);
        String::from_utf8_lossy(&object).into_owned() + &line[whole.len()..]
    });
    lines.collect()
}

/// A line that does not count, or before which lines are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Its place in the file, from 1.
    pub line: usize,
    /// What is lost: its event and what that was about, as far as it can be read.
    pub lost: String,
}

/// What each kind of event says that it is about.
const ABOUT: [(&str, &[&str]); 12] = [
    ("samples", &["series", "case", "metric", "round"]),
    ("histogram", &["series", "case", "metric", "round"]),
    ("trace", &["series", "case", "kind", "round"]),
    ("round", &["series", "n"]),
    ("prediction", &["experiment", "case", "metric"]),
    ("derived", &["experiment", "case", "metric"]),
    ("outcome", &["experiment", "case"]),
    ("rival", &["name"]),
    ("pair", &["rival", "pairing", "from", "to", "step", "experiment"]),
    ("node", &["rank"]),
    ("figure", &["rank", "experiment"]),
    ("absent", &["rank", "to", "step", "experiment"]),
];
/// Longest text that is kept of one of these.
const KEPT: usize = 120;

impl Damaged {
    /// A line of an event's kind, as far as that can be read.
    pub fn new(line: usize, kind: Option<&str>, text: &[u8]) -> Damaged {
        let about = ABOUT.iter().find(|(of, _)| Some(*of) == kind).map_or(&[][..], |(_, of)| of);
        let text = String::from_utf8_lossy(text);
        let said = about.iter().filter_map(|name| Some(format!("{name} {}", member(&text, name)?)));
        let said: Vec<String> = said.collect();
        let kind =
            kind.and_then(|kind| kind.get(..kind.len().min(KEPT))).unwrap_or("an unknown event");
        let lost = match said.is_empty() {
            true => kind.to_owned(),
            false => format!("{kind} ({})", said.join(", ")),
        };
        Damaged { line, lost }
    }
}

/// A member's value as it stands in a text that may be no JSON any more.
fn member<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let (_, value) = text.split_once(&format!("\"{name}\":"))?;
    let end = match value.bytes().next()? {
        b'"' => value[1..].find('"')? + 2,
        b'{' => value.find('}')? + 1,
        _ => value.find([',', '}'])?,
    };
    Some(value.get(..end.min(KEPT))?.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::{Damaged, Seal, Sealer, check, number, resealed, seal, sums};

    fn sealed(text: &str) -> Vec<u8> {
        let mut line = text.as_bytes().to_vec();
        seal(&mut line);
        line
    }

    #[test]
    fn any_changed_byte_is_found() {
        let line = sealed(r#"{"event":"footer","elapsed_s":61.25}"#);
        assert_eq!(check(&line), Seal::Intact);
        assert_eq!(check(&[&line[..], b"\n"].concat()), Seal::Intact);
        for at in 0..line.len() {
            for flip in [1, 2, 0x80] {
                let mut changed = line.clone();
                changed[at] ^= flip;
                assert_ne!(check(&changed), Seal::Intact, "{at}");
            }
        }
        for end in 0..line.len() {
            assert_ne!(check(&line[..end]), Seal::Intact, "{end}");
        }
        assert_eq!(check(br#"{"event":"footer"}"#), Seal::Absent);
    }

    #[test]
    fn the_checksum_is_that_of_zlib() {
        // python3 -c 'import zlib; print("%08x" % zlib.crc32(b"{\"event\":\"plan\""))'
        assert_eq!(sealed(r#"{"event":"plan"}"#), br#"{"event":"plan","crc":"aa35275d"}"#);
    }

    #[test]
    fn lines_changed_on_purpose_are_sealed_again() {
        let changed = String::from_utf8(sealed(r#"{"a":1}"#)).unwrap().replace('1', "2") + "\n";
        assert_eq!(check(changed.as_bytes()), Seal::Broken);
        let again = resealed(&changed);
        assert_eq!(check(again.as_bytes()), Seal::Intact);
        assert_eq!(again.as_bytes(), [&sealed(r#"{"a":2}"#)[..], b"\n"].concat());
        assert_eq!(check(resealed("{}").as_bytes()), Seal::Intact);
    }

    #[test]
    fn a_line_of_a_record_has_its_number_and_begins_with_the_header_s_checksum() {
        let mut sealer = Sealer::new(crate::FORMAT);
        let mut line = |text: &str| {
            let mut line = text.as_bytes().to_vec();
            sealer.seal(&mut line);
            String::from_utf8(line).unwrap()
        };
        let header = line(r#"{"format":6}"#);
        let lines = [header.clone(), line(r#"{"a":1}"#)];
        // python3 -c 'import zlib; print("%08x" % zlib.crc32(b"{\"format\":6,\"line\":1"))'
        assert_eq!(lines[0], r#"{"format":6,"line":1,"crc":"f3f1a831"}"#);
        // ... and of `{"a":1,"line":2`, with that as its second argument.
        assert_eq!(lines[1], r#"{"a":1,"line":2,"crc":"f5d58fd0"}"#);
        let headers = sums(header.as_bytes()).unwrap();
        assert_eq!(number(lines[1].as_bytes(), headers), Some(2));
        assert_eq!(number(lines[1].replace("2,", "3,").as_bytes(), headers), None);
        assert_eq!(number(lines[1].as_bytes(), [1, 2]), None);
        let bare = "{\"format\":6}\n{\"a\":1}\n";
        let lines = lines.join("\n") + "\n";
        assert_eq!(resealed(bare), lines);
        assert_eq!(resealed(&lines), lines);
    }

    #[test]
    fn what_is_lost_is_named_as_far_as_it_can_be_read() {
        for (kind, text, lost) in [
            (
                Some("samples"),
                r#"{"event":"samples","series":"a.b/c","round":3,"case":{"n":1},"metric":"cost","values":[1.}"#,
                r#"samples (series a.b/c, case {"n":1}, metric cost, round 3)"#,
            ),
            (Some("round"), r#"{"event":"round","series":"a.b"#, "round"),
            (Some("round"), r#"{"event":"round","n":12,"#, "round (n 12)"),
            (Some("plan"), "{", "plan"),
            (None, "\u{0}", "an unknown event"),
        ] {
            let damaged = Damaged::new(7, kind, text.as_bytes());
            assert_eq!(damaged, Damaged { line: 7, lost: lost.to_owned() });
        }
    }
}
