//! The lines of a record, of which the last one may have lost its end.

use std::io::{self, BufRead, Read};

/// Lines of a limited length.
pub struct Lines<R> {
    reader: R,
    most_bytes: u64,
    line: Vec<u8>,
    number: usize,
    whole_bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most so many bytes.
    pub fn new(reader: R, most_bytes: u64) -> Lines<R> {
        Lines { reader, most_bytes, line: Vec::new(), number: 0, whole_bytes: 0 }
    }

    /// The next whole line, with its newline, and its number from 1. `None` at the end, and where a
    /// line has none: it may have lost its end even if what is there parses. Errors: the reader's.
    pub fn whole(&mut self) -> io::Result<Option<(usize, &[u8])>> {
        self.line.clear();
        self.number += 1;
        (&mut self.reader).take(self.most_bytes).read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            return Ok(None);
        }
        self.whole_bytes += self.line.len() as u64;
        Ok(Some((self.number, &self.line)))
    }

    /// Length of the whole lines, in bytes.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// After the whole lines: what follows them, and its number; `None` where nothing does.
    pub fn torn(&self) -> Option<(usize, &[u8])> {
        (!self.line.is_empty()).then_some((self.number, &self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn whole_lines_come_with_their_numbers_and_what_is_torn_stays_apart() {
        let mut lines = Lines::new(&b"a\n\nbc\nd"[..], 100);
        for (number, text) in [(1, &b"a\n"[..]), (2, b"\n"), (3, b"bc\n")] {
            assert_eq!(lines.whole().unwrap(), Some((number, text)));
        }
        assert_eq!(lines.whole().unwrap(), None);
        assert_eq!((lines.whole_bytes(), lines.torn()), (6, Some((4, &b"d"[..]))));
        let mut long = Lines::new(&b"a\nbcd\n"[..], 2);
        assert!(long.whole().unwrap().is_some() && long.whole().unwrap().is_none());
        assert_eq!(long.torn(), Some((2, &b"bc"[..])));
        let mut none = Lines::new(&b""[..], 2);
        assert!(none.whole().unwrap().is_none() && none.torn().is_none());
    }
}
