//! The lines of a record, as they may come after travel: with a mark of byte order before the first,
//! ended by CR LF, the last one without an end or cut.

use crate::seal;
use std::io::{self, BufRead, Read};

/// The mark of byte order that some editors put before UTF-8 text.
const MARK: &[u8] = b"\xef\xbb\xbf";

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

    /// The next whole line, with a newline, and its place from 1. `None` at the end, and where a line
    /// has none, unless it ends with a checksum: then only the newline is lost. Errors: the reader's.
    pub fn whole(&mut self) -> io::Result<Option<(usize, &[u8])>> {
        self.line.clear();
        self.number += 1;
        (&mut self.reader).take(self.most_bytes).read_until(b'\n', &mut self.line)?;
        let bytes = self.line.len() as u64;
        let is_ended = self.line.pop_if(|byte| *byte == b'\n').is_some();
        if self.number == 1 && self.line.starts_with(MARK) {
            self.line.drain(..MARK.len());
        }
        let is_returned = self.line.last() == Some(&b'\r');
        let line = &self.line[..self.line.len() - usize::from(is_returned)];
        if !is_ended && !seal::is_ended(line) {
            return Ok(None);
        }
        self.line.truncate(line.len());
        self.line.push(b'\n');
        self.whole_bytes += bytes;
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

    #[test]
    fn what_travel_adds_or_takes_is_no_part_of_a_line() {
        let sealed = crate::seal::resealed("{\"a\":1}");
        let text = format!("\u{feff}{{}}\r\n\r\n{sealed}");
        for end in ["", "\r"] {
            let text = format!("{text}{end}");
            let mut lines = Lines::new(text.as_bytes(), 100);
            for (number, line) in [(1, "{}"), (2, ""), (3, &sealed)] {
                let expected = format!("{line}\n");
                assert_eq!(lines.whole().unwrap(), Some((number, expected.as_bytes())));
            }
            assert!(lines.whole().unwrap().is_none() && lines.torn().is_none());
            assert_eq!(lines.whole_bytes(), text.len() as u64);
        }
        let mut cut = Lines::new(&sealed.as_bytes()[..sealed.len() - 1], 100);
        assert!(cut.whole().unwrap().is_none() && cut.torn().is_some());
    }
}
