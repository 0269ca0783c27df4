//! JSON that another end wrote, without what steers a terminal: taken out before it is parsed, of
//! keys as of values, and in no more memory than the text has.

use record::plain::steers;

/// Longest text that is taken, in characters: a kernel's command line is shorter.
pub(super) const TEXT_MAX: usize = 16 << 10;

/// Has spaces in the place of what steers a terminal, however it is written, and cuts texts after
/// [`TEXT_MAX`] characters. Text that is not JSON before is not JSON afterwards.
pub(super) fn plain(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut rest = json;
    // Characters of the text that it is in.
    let mut count = None;
    while let Some((piece, what)) = next(rest, count.is_some()) {
        rest = &rest[piece.len()..];
        match (what, &mut count) {
            (What::Quote, _) => {
                count = if count.is_none() { Some(0) } else { None };
                shown.push('"');
            }
            (What::Other, None) => shown.push_str(piece),
            (What::Steers, None) => shown.push(' '),
            // Half of a character: cut in between it would be none.
            (What::Half, _) => shown.push_str(piece),
            (_, Some(TEXT_MAX)) => {}
            (what, Some(count)) => {
                *count += 1;
                shown.push_str(if what == What::Steers { " " } else { piece });
            }
        }
    }
    shown
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Quote,
    Steers,
    Half,
    Other,
}

/// The next character, as it is written, and what it is.
fn next(rest: &str, in_text: bool) -> Option<(&str, What)> {
    let mut chars = rest.chars();
    let first = chars.next()?;
    let (length, what) = match (first, chars.next()) {
        ('"', _) => (1, What::Quote),
        ('\\', Some('u')) if in_text => match unit(rest) {
            Some(0xd800..0xe000) => (6, What::Half),
            Some(code) if char::from_u32(code).is_some_and(steers) => (6, What::Steers),
            Some(_) => (6, What::Other),
            None => (2, What::Other),
        },
        ('\\', Some('b' | 'f' | 'n' | 'r' | 't')) if in_text => (2, What::Steers),
        ('\\', Some(escaped)) if in_text => (1 + escaped.len_utf8(), What::Other),
        (c, _) if steers(c) => (c.len_utf8(), What::Steers),
        (c, _) => (c.len_utf8(), What::Other),
    };
    Some((&rest[..length], what))
}

/// The code of `\uXXXX`.
fn unit(escape: &str) -> Option<u32> {
    let digits = escape.get(2..6)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then_some(digits).and_then(|digits| u32::from_str_radix(digits, 16).ok())
}

#[cfg(test)]
mod tests {
    use super::{TEXT_MAX, plain};
    use serde_json::{Value, json};

    fn parsed(json: &str) -> Value {
        serde_json::from_str(&plain(json)).unwrap()
    }

    #[test]
    fn texts_steer_no_terminal_neither_keys_nor_values() {
        let value = json!({
            "a": ["x\u{1b}[2Jy\nz\t\"\\", 1.5, null, "\u{9b}\u{202e}\u{2066}"],
            "k\u{1b}[2J\n": {"c": "plain µ 𝄞"},
        });
        let cleaned = json!({
            "a": ["x [2Jy z \"\\", 1.5, null, "   "],
            "k [2J ": {"c": "plain µ 𝄞"},
        });
        assert_eq!(parsed(&value.to_string()), cleaned);
        assert_eq!(parsed(&format!("{value:#}")), cleaned);
        // However it is written.
        let written = r#"{"\u001B\u009b":"\u202E\ud834\udd1e\/\u00b5\\u001b"}"#;
        assert_eq!(parsed(written), json!({"  ": " 𝄞/µ\\u001b"}));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for one in ["µ", "\\", "\"", "\n"] {
            let long = json!([one.repeat(TEXT_MAX + 5), "next"]).to_string();
            let shown = if one == "\n" { " " } else { one };
            assert_eq!(parsed(&long), json!([shown.repeat(TEXT_MAX), "next"]));
        }
        let halves = format!("\"{}\"", r"\ud834\udd1e".repeat(TEXT_MAX));
        assert!(serde_json::from_str::<String>(&plain(&halves)).is_ok());
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for broken in
            ["", "\"", "\"\\", "\"\\u", "\"\\u12", "\"\\u12µ4\"", "\"\\ud834\"", "\"\\x\"", "\\n"]
        {
            let shown = plain(broken);
            assert!(serde_json::from_str::<Value>(&shown).is_err(), "{broken}");
        }
    }
}
