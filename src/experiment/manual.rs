//! Manuals: the `//!` header of an experiment's own file, as the constant that
//! [`Experiment::manual`](super::Experiment::manual) returns.

/// The headings of every manual, in order, each a `## ` line.
pub(crate) const MANUAL_HEADINGS: [&str; 7] = [
    "Question",
    "Method",
    "Prediction",
    "Parameters",
    "Reading the result",
    "Pitfalls",
    "Sources",
];

/// The headings that a manual has.
pub(crate) fn headings(manual: &str) -> Vec<&str> {
    manual
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect()
}

/// The manual of the invoking file, which must be named: `manual!("read.rs")`. A `&'static str`
/// made at compile time.
#[macro_export]
macro_rules! manual {
    ($file:literal) => {{
        const SOURCE: &str = include_str!($file);
        const LENGTH: usize = $crate::experiment::manual::length(SOURCE);
        const BYTES: [u8; LENGTH] = $crate::experiment::manual::header::<LENGTH>(SOURCE);
        const MANUAL: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("whole lines of a str are a str"),
        };
        MANUAL
    }};
}

/// Bytes of the header without its markers.
pub(crate) const fn length(source: &str) -> usize {
    copy(source.as_bytes(), &mut [])
}

/// The header without its markers; `N` is its [`length`].
pub(crate) const fn header<const N: usize>(source: &str) -> [u8; N] {
    let mut text = [0; N];
    copy(source.as_bytes(), &mut text);
    text
}

/// Copies the header as far as `to` reaches; returns the header's length.
const fn copy(source: &[u8], to: &mut [u8]) -> usize {
    let (mut at, mut length) = (0, 0);
    while at + 3 <= source.len()
        && source[at] == b'/'
        && source[at + 1] == b'/'
        && source[at + 2] == b'!'
    {
        at += 3;
        if at < source.len() && source[at] == b' ' {
            at += 1;
        }
        while at < source.len() {
            if length < to.len() {
                to[length] = source[at];
            }
            length += 1;
            at += 1;
            if source[at - 1] == b'\n' {
                break;
            }
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::{header, headings, length};

    #[test]
    fn the_header_is_the_manual() {
        const SOURCE: &str =
            "//! Title — é.\n//!\n//! ## Question\n//!   indented\n\nuse x;\n//! no\n";
        const MANUAL: &str = "Title — é.\n\n## Question\n  indented\n";
        assert_eq!(length(SOURCE), MANUAL.len());
        let bytes = header::<{ length(SOURCE) }>(SOURCE);
        assert_eq!(std::str::from_utf8(&bytes), Ok(MANUAL));
        assert_eq!(headings(MANUAL), ["Question"]);
        assert_eq!(length("use x;\n//! late\n"), 0);
        assert_eq!(length("//!"), 0);
    }

    #[test]
    fn a_manual_comes_from_the_file_that_asks() {
        assert!(manual!("manual.rs").starts_with("Manuals: the `//!` header"));
    }
}
