//! A sweep as a reader gets it, and the strict reader of its record.
//!
//! What was measured before an accident is kept: a torn last line is left out, and so is each line
//! that does not match its checksum or does not parse, by its number.

use crate::sweep::{Absent, End, Event, FLEET_FORMAT, Figure, Header, Node, Pair, Phase};
use record::codec::named;
use record::lines::Lines;
use record::seal::{self, Damaged, Seal};
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use thiserror::Error;

/// A sweep, from its events in the order of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What was asked for.
    pub header: Header,
    /// The nodes that joined, by rank. A node that joined again (after a resume) counts once, as it
    /// was described last.
    pub nodes: BTreeMap<u32, Node>,
    /// Figures of one node.
    pub figures: Vec<Figure>,
    /// Figures between two nodes.
    pub pairs: Vec<Pair>,
    /// What is missing.
    pub absents: Vec<Absent>,
    /// Beginnings and ends of phases.
    pub phases: Vec<Phase>,
    /// The last line; absent for a sweep that did not end.
    pub end: Option<End>,
    /// Lines that do not count.
    pub damaged: Vec<Damaged>,
    /// Whether a torn last line was left out.
    pub torn: bool,
    /// Length of the whole lines, in bytes: where a resume continues. 0 for a sweep that was not read.
    pub whole_bytes: u64,
}

impl Sweep {
    /// A sweep that has begun and measured nothing.
    pub fn new(header: Header) -> Sweep {
        Sweep {
            header,
            nodes: BTreeMap::new(),
            figures: Vec::new(),
            pairs: Vec::new(),
            absents: Vec::new(),
            phases: Vec::new(),
            end: None,
            damaged: Vec::new(),
            torn: false,
            whole_bytes: 0,
        }
    }

    /// A sweep from its events; `None` unless the first one is a header.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Option<Sweep> {
        let mut events = events.into_iter();
        let Some(Event::Header(header)) = events.next() else { return None };
        let mut sweep = Sweep::new(header);
        events.for_each(|event| sweep.push(event));
        Some(sweep)
    }

    /// Takes the next event. A later header replaces the one before: a sweep that was resumed.
    pub fn push(&mut self, event: Event) {
        match event {
            Event::Header(header) => self.header = header,
            Event::Node(node) => drop(self.nodes.insert(node.rank, node)),
            Event::Figure(figure) => self.figures.push(figure),
            Event::Pair(pair) => self.pairs.push(pair),
            Event::Absent(absent) => self.absents.push(absent),
            Event::Phase(phase) => self.phases.push(phase),
            Event::End(end) => self.end = Some(end),
        }
    }
}

/// Why a fleet's record cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The reader itself failed.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// Nothing in it.
    #[error("it is empty: the sweep ended before its first line was written")]
    Empty,
    /// The first line is no header of a sweep.
    #[error("it is not a fleet record: its first line is not the header of a sweep ({reason})")]
    NotASweep {
        /// What the parser says.
        reason: String,
    },
    /// Written by a later plumb.
    #[error(
        "its format is {found}, this plumb reads fleet formats up to {FLEET_FORMAT}: use a newer plumb"
    )]
    Newer {
        /// Format found.
        found: u64,
    },
    /// More damage than an accident makes.
    #[error("more than {DAMAGED_MAX} of its lines are damaged: use a copy of the record")]
    Damaged,
}

/// Longest line. What is no record may have no line's end at all.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A record with more damaged lines is refused.
const DAMAGED_MAX: usize = 1000;

/// Reads the record of a sweep. Errors: see [`Unreadable`].
pub fn read(reader: impl BufRead) -> Result<Sweep, Unreadable> {
    let mut sweep: Option<Sweep> = None;
    let mut lines = Lines::new(reader, LINE_BYTES_MAX);
    while let Some((number, line)) = lines.whole()? {
        match &mut sweep {
            None => sweep = Some(Sweep::new(header(line)?)),
            Some(sweep) => take(sweep, number, line)?,
        }
    }
    let torn = lines.torn().is_some();
    let sweep = sweep.ok_or(match torn {
        true => Unreadable::NotASweep { reason: "the line has no end".to_owned() },
        false => Unreadable::Empty,
    })?;
    Ok(Sweep { torn, whole_bytes: lines.whole_bytes(), ..sweep })
}

/// The header on a first line, which must be whole: every other line is read by it.
fn header(line: &[u8]) -> Result<Header, Unreadable> {
    let refused = |reason: String| Unreadable::NotASweep { reason };
    let value: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| refused(error.to_string()))?;
    if seal::check(line) != Seal::Intact {
        return Err(refused("it does not match its checksum".to_owned()));
    }
    // Runs count formats of their own.
    if value.get("run").is_some() {
        return Err(refused("it is the record of a run, which `plumb report` shows".to_owned()));
    }
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(FLEET_FORMAT) => return Err(Unreadable::Newer { found }),
        _ => {}
    }
    match serde_json::from_value(value) {
        Ok(Event::Header(header)) => Ok(header),
        Ok(_) => Err(refused("it is another event".to_owned())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Takes a later line into the sweep.
fn take(sweep: &mut Sweep, number: usize, line: &[u8]) -> Result<(), Unreadable> {
    let is_intact = seal::check(line) == Seal::Intact;
    match is_intact.then(|| serde_json::from_slice(line).ok()).flatten() {
        Some(event) => sweep.push(event),
        None if sweep.damaged.len() == DAMAGED_MAX => return Err(Unreadable::Damaged),
        None => sweep.damaged.push(Damaged::new(number, named(line), line)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Stage;

    fn begun() -> Header {
        Header { format: FLEET_FORMAT, id: "sweep".to_owned(), size: 3, ..Header::default() }
    }

    fn lines(events: &[Event]) -> Vec<Vec<u8>> {
        let sealed = |event: &Event| {
            let mut line = serde_json::to_vec(event).unwrap();
            seal::seal(&mut line);
            line.push(b'\n');
            line
        };
        events.iter().map(sealed).collect()
    }

    fn some() -> Vec<Event> {
        let at = |phase, ended, at_s| Event::Phase(Phase { phase, ended, at_s });
        let lost = Absent {
            rank: 2,
            to: None,
            phase: Stage::Meet,
            step: None,
            experiment: None,
            why: "it did not join within 60 s".to_owned(),
            lost: true,
        };
        vec![
            Event::Header(begun()),
            at(Stage::Meet, false, 0.0),
            Event::Absent(lost),
            at(Stage::Meet, true, 1.5),
            Event::End(End { wall_s: 2.0, interrupted: false }),
        ]
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = lines(&some()).concat();
        let found = read(&bytes[..]).unwrap();
        assert_eq!((found.phases.len(), found.absents.len()), (2, 1));
        assert!(!found.torn && found.damaged.is_empty());
        assert_eq!(found.whole_bytes, bytes.len() as u64);
        let same = Sweep::from_events(some()).unwrap();
        assert_eq!(Sweep { whole_bytes: found.whole_bytes, ..same }, found);
        assert_eq!(Sweep::from_events(some().split_off(1)), None);
    }

    #[test]
    fn what_precedes_a_torn_end_is_kept() {
        let bytes = lines(&some()).concat();
        let header = lines(&some())[0].len();
        for end in header..bytes.len() - 1 {
            let found = read(&bytes[..end]).unwrap();
            // A line that lacks its newline alone is whole.
            assert_eq!(found.torn, bytes[end - 1] != b'\n' && bytes[end] != b'\n', "{end}");
            assert!(found.end.is_none() && found.damaged.is_empty());
        }
        for end in 1..header - 1 {
            assert!(matches!(read(&bytes[..end]), Err(Unreadable::NotASweep { .. })), "{end}");
        }
        assert!(matches!(read(&b""[..]), Err(Unreadable::Empty)));
    }

    #[test]
    fn a_damaged_line_is_named_and_left_out() {
        let mut all = lines(&some());
        let line = String::from_utf8(all[2].clone()).unwrap().replace("60 s", "61 s");
        all[2] = line.into_bytes();
        all.push(b"{}\n".to_vec());
        let found = read(&all.concat()[..]).unwrap();
        assert_eq!((found.absents.len(), found.phases.len()), (0, 2));
        let named: Vec<(usize, &str)> =
            found.damaged.iter().map(|damaged| (damaged.line, &*damaged.lost)).collect();
        assert_eq!(named, [(3, "absent (rank 2)"), (6, "an unknown event")]);
    }

    #[test]
    fn another_file_and_a_newer_format_are_refused() {
        let newer = lines(&[Event::Header(Header { format: FLEET_FORMAT + 1, ..begun() })]);
        let error = read(&newer[0][..]).unwrap_err();
        assert!(matches!(error, Unreadable::Newer { found: 2 }), "{error}");
        let mut run = br#"{"event":"header","format":5,"run":"2026-11-28T21-37-06-vm"}"#.to_vec();
        seal::seal(&mut run);
        run.push(b'\n');
        let error = read(&run[..]).unwrap_err().to_string();
        assert!(error.contains("the record of a run, which `plumb report` shows"), "{error}");
        for other in ["hello\n", "{\"event\":\"plan\"}\n", "{\"event\":\"header\",\"format\":1}\n"]
        {
            assert!(matches!(read(other.as_bytes()), Err(Unreadable::NotASweep { .. })));
        }
        let many = [lines(&some())[0].clone(), b"x\n".repeat(DAMAGED_MAX + 1)].concat();
        assert!(matches!(read(&many[..]), Err(Unreadable::Damaged)));
    }
}
