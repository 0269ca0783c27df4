//! The checksum that ends each line, and what a line held that does not match its own.
//!
//! It finds accidents: a digit that a disk, a copy or an editor changed. It does not find tampering:
//! whoever changes a line on purpose can compute its checksum anew.

/// What begins the member with the checksum, which is the last one of a line's object.
const START: &[u8] = br#","crc":""#;
/// What ends the line after it.
const END: &[u8] = br#""}"#;
/// Its hexadecimal digits.
const DIGITS: usize = 8;

/// What a line's checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// The line is as it was written.
    Intact,
    /// It is not.
    Broken,
    /// The line has no checksum.
    Absent,
}

/// Ends a line's object with the CRC-32 (that of zlib) of everything before this member.
pub fn seal(object: &mut Vec<u8>) {
    object.pop();
    let sum = crc32fast::hash(object);
    object.extend_from_slice(START);
    object.extend_from_slice(format!("{sum:08x}").as_bytes());
    object.extend_from_slice(END);
}

/// Compares a line, with or without its newline, with its checksum.
pub fn check(line: &[u8]) -> Seal {
    match parts(line) {
        None => Seal::Absent,
        Some((text, digits)) if format!("{:08x}", crc32fast::hash(text)).as_bytes() == digits => {
            Seal::Intact
        }
        Some(_) => Seal::Broken,
    }
}

/// What the checksum of a line is of, and its digits.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let object = line.strip_suffix(b"\n").unwrap_or(line).strip_suffix(END)?;
    let (text, digits) = object.split_at_checked(object.len().checked_sub(DIGITS)?)?;
    Some((text.strip_suffix(START)?, digits))
}

/// A line that was changed on purpose, with its new checksum.
pub fn resealed(line: &str) -> String {
    let whole = line.trim_end_matches('\n');
    let mut object = match parts(whole.as_bytes()) {
        Some((text, _)) => [text, b"}"].concat(),
        None => whole.as_bytes().to_vec(),
    };
    seal(&mut object);
    String::from_utf8_lossy(&object).into_owned() + &line[whole.len()..]
}

/// A line that was changed by accident or cannot be read: nothing in it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Its number, from 1.
    pub line: usize,
    /// Its event and what that was about, as far as it can be read.
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
    use super::{Damaged, Seal, check, resealed, seal};

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
    fn a_line_changed_on_purpose_is_sealed_again() {
        let changed = String::from_utf8(sealed(r#"{"a":1}"#)).unwrap().replace('1', "2") + "\n";
        assert_eq!(check(changed.as_bytes()), Seal::Broken);
        let again = resealed(&changed);
        assert_eq!(check(again.as_bytes()), Seal::Intact);
        assert_eq!(again.as_bytes(), [&sealed(r#"{"a":2}"#)[..], b"\n"].concat());
        assert_eq!(check(resealed("{}").as_bytes()), Seal::Intact);
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
