//! Following a sweep by its record: lines for what a user wants to know at once.

use super::plan::name;
use anyhow::{Context, Result};
use fleet::sweep::{Absent, Event, Stage};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A record that grows.
pub struct Tail {
    path: PathBuf,
    at: u64,
    /// The beginning of a line whose end is not there yet.
    part: Vec<u8>,
}

impl Tail {
    /// One that begins at the record's beginning; it need not exist yet.
    pub fn new(path: &Path) -> Tail {
        Tail { path: path.to_owned(), at: 0, part: Vec::new() }
    }

    /// The events that were added since the last call. Lines that are no events are left out: the
    /// report counts them. Errors: the record cannot be read.
    pub fn news(&mut self) -> Result<Vec<Event>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.with_context(|| format!("cannot open {}", self.path.display()))?,
        };
        file.seek(SeekFrom::Start(self.at))?;
        self.at += file.read_to_end(&mut self.part)? as u64;
        let whole = self.part.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.part.drain(..whole).collect();
        let lines = lines.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// Where a sweep is.
#[derive(Default)]
pub struct Progress {
    names: BTreeMap<u32, String>,
    size: u32,
    phase: Option<Stage>,
    /// Of the phase: nodes that have figures, the last step, and what is missing.
    measured: u32,
    step: u32,
    missing: u32,
    /// Whether the record has its end.
    pub has_ended: bool,
}

impl Progress {
    /// Takes an event; the line that a user reads about it, if any.
    pub fn take(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Header(header) => {
                self.size = header.size;
                Some(format!("sweep {} of {} nodes begins", header.id, header.size))
            }
            Event::Node(node) => {
                self.measured += u32::from(node.record.is_some());
                self.names.insert(node.rank, node.name);
                None
            }
            Event::Figure(_) => None,
            Event::Pair(pair) => {
                self.step = self.step.max(pair.step);
                None
            }
            Event::Absent(absent) => {
                self.missing += 1;
                absent.lost.then(|| self.lost(&absent))
            }
            Event::Phase(phase) if phase.ended => {
                let missing = match self.missing {
                    0 => String::new(),
                    missing => format!(", {missing} missing"),
                };
                Some(format!("{}: ended after {:.0} s{missing}", name(phase.phase), phase.at_s))
            }
            Event::Phase(phase) => {
                self.phase = Some(phase.phase);
                (self.measured, self.step, self.missing) = (0, 0, 0);
                None
            }
            Event::End(end) => {
                self.has_ended = true;
                let how = if end.interrupted { " (interrupted)" } else { "" };
                Some(format!("the sweep took {:.0} s{how}", end.wall_s))
            }
        }
    }

    fn lost(&self, absent: &Absent) -> String {
        let node = self.names.get(&absent.rank).map_or_else(
            || format!("the node with rank {}", absent.rank),
            |name| format!("{name} (rank {})", absent.rank),
        );
        format!("{}: {node} is lost: {}", name(absent.phase), absent.why)
    }

    /// The state in one line.
    pub fn line(&self) -> String {
        let Some(phase) = self.phase else { return "waiting for the first node".to_owned() };
        let name = name(phase);
        match phase {
            Stage::Meet => format!("{name}: {} of {} nodes", self.names.len(), self.size),
            Stage::Alone => format!("{name}: {} of {} nodes", self.measured, self.size),
            Stage::Pairs | Stage::Suspects => format!("{name}: step {}", self.step),
            Stage::Gather => name.to_owned(),
        }
    }
}
