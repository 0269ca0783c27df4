//! Following a sweep by its record: lines for what a user wants to know at once.

use super::plan::name;
use crate::cmd::output;
use anyhow::{Context, Result};
use fleet::sweep::{Absent, Event, Stage};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Follows a record that grows, and prints what is new.
pub struct Follower {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    part: Vec<u8>,
    /// Where the sweep is.
    pub progress: Progress,
    /// The state that was printed last.
    said: String,
}

impl Follower {
    /// One that begins at the record's beginning; it need not exist yet.
    pub fn new(path: &Path) -> Follower {
        let (path, progress) = (path.to_owned(), Progress::default());
        Follower { path, offset: 0, part: Vec::new(), progress, said: String::new() }
    }

    /// Takes the events that were added since the last call, and prints their lines. Lines that are
    /// no events are left out: the report counts them. Errors: the record cannot be read.
    pub fn take_news(&mut self) -> Result<()> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.with_context(|| format!("cannot open {}", self.path.display()))?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        self.offset += file.read_to_end(&mut self.part)? as u64;
        let whole = self.part.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.part.drain(..whole).collect();
        let lines = lines.split(|byte| *byte == b'\n');
        let events = lines.filter_map(|line| serde_json::from_slice(line).ok());
        events.filter_map(|event| self.progress.take(event)).for_each(|text| say(&text));
        Ok(())
    }

    /// Prints a state that is another one than before.
    pub fn is_at(&mut self, state: String) {
        if state != self.said {
            say(&state);
            self.said = state;
        }
    }
}

/// Prints a line.
pub fn say(text: &str) {
    output::diagnose(&format!("plumb: {text}"));
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
    fn take(&mut self, event: Event) -> Option<String> {
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
