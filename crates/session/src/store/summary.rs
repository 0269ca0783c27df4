//! The figures of each record, kept in a small file of JSON beside it.
//!
//! The records stay the truth. A file counts while its record has the size and the time of change,
//! and plumb the analysis, that it was made with; one that is missing, stale or damaged is made again
//! from the record, so to delete it changes no answer. It has two lines with a checksum each: lists
//! need only the first. It is opened through no link and replaced by renaming, so that several
//! processes may make it at once. In a store that others may write, or that cannot be written, the
//! records are read each time.

#[cfg(test)]
mod tests;

use super::{Age, ENDING, Store, began, file, is_being_written, trust};
use anyhow::{Context, Result};
use record::crosscheck::CROSSCHECK;
use record::event::End;
use record::key::Key;
use record::machine::MachineIdentity;
use record::metric::{Better, Kind};
use record::seal::{self, Seal};
use record::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Version of these files; any other one is made again.
const FORMAT: u32 = 1;

/// Ending of a file of figures; it replaces that of the record.
const FIGURES_ENDING: &str = ".figures.json";

/// A run, as lists and trends show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub run: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    pub seed: u64,
    /// `quick`, `standard` or `thorough`.
    pub preset: String,
    pub machine: MachineIdentity,
    /// Written like this: `release` or `debug`.
    pub profile: String,
    /// How it ended; `None` if it was killed.
    pub end: Option<End>,
    pub rounds: usize,
    /// Figures measured, skipped and failed.
    pub figures: [usize; 3],
    /// What stands beside other tools, if anything does.
    pub beside: Option<Beside>,
    /// The environment by name, with what measured (`plumb`, `preset` …).
    pub environment: BTreeMap<String, String>,
}

impl Facts {
    /// In what the machines of two runs differ, or the profiles of plumb.
    pub fn difference(&self, other: &Facts) -> Option<String> {
        let profiles = format!("profile of plumb: {} and {}", self.profile, other.profile);
        let is_other = self.profile != other.profile;
        self.machine.difference(&other.machine).or_else(|| is_other.then_some(profiles))
    }

    pub fn is_alike(&self, other: &Facts) -> bool {
        self.difference(other).is_none()
    }

    /// Whether it is a crosscheck's own record, which measured nothing.
    pub fn is_crosscheck(&self) -> bool {
        self.preset == CROSSCHECK
    }
}

/// What stands beside other tools, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    pub tools: usize,
    pub compared: usize,
    pub missed: usize,
}

/// A figure, in the metric's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub key: Key,
    /// Unit, direction and class of its metric.
    pub about: About,
    pub value: f64,
    pub ci: Option<(f64, f64)>,
    pub cycles: Option<f64>,
    pub rounds: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct About {
    pub unit: Unit,
    pub better: Better,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    pub facts: Facts,
    /// Its figures that have a value; none where they were not asked for.
    pub figures: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub name: String,
    /// Length of the record, in bytes.
    pub size_bytes: u64,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It can be read, and no plumb is writing it.
    Readable(Box<Content>),
    /// Another plumb is writing it; nothing is kept of it.
    UnderWay,
    /// It cannot be read, and why.
    Unreadable(String),
}

/// How records are read whose files of figures are missing, stale or damaged.
pub struct Reader<'read> {
    pub store: &'read Store,
    /// What the analysis is made of: figures by another one are stale.
    pub analysis: &'read str,
    /// Reads and analyses a record; the reason where it cannot be read.
    pub read: &'read dyn Fn(&Path) -> Result<Content, String>,
}

/// First line of a file of figures.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    analysis: String,
    version: Version,
    run: Result<Facts, String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Figures {
    figures: Vec<Row>,
}

/// What shows that a record was changed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    size_bytes: u64,
    /// Time of change since 1970; 0 where the file system has none.
    modified_ns: u64,
}

impl Reader<'_> {
    /// The stored runs in the order of their [`Age`], oldest first, with the figures of those whose
    /// facts ask for them.
    ///
    /// # Errors
    /// The store cannot be listed.
    pub fn list(&self, wants_figures: impl Fn(&Facts) -> bool) -> Result<Vec<Stored>> {
        let is_own = self.store.check_own().is_ok();
        if is_own {
            self.store.remove_left_figures();
        }
        let mut listed = Vec::new();
        for name in self.store.names()? {
            let path = self.store.path(&name);
            let version = match Version::of_record(&path) {
                Ok(version) => version,
                // Deleted since it was listed.
                Err(_) if !path.exists() => continue,
                Err(error) => return Err(error),
            };
            let state = match is_being_written(&path) {
                true => State::UnderWay,
                false => self.state(&name, version, is_own, &wants_figures),
            };
            listed.push(Stored { name, size_bytes: version.size_bytes, state });
        }
        listed.sort_by_cached_key(|run| {
            let began = match &run.state {
                State::Readable(content) => Some(content.facts.started.clone()),
                State::UnderWay | State::Unreadable(_) => began(&self.store.path(&run.name)),
            };
            Age::new(began.as_deref(), &run.name)
        });
        Ok(listed)
    }

    fn state(
        &self,
        name: &str,
        version: Version,
        is_own: bool,
        wants_figures: &impl Fn(&Facts) -> bool,
    ) -> State {
        let kept = self.store.figures_path(name);
        let current = |bytes: &[u8]| {
            let parts = parsed(bytes, wants_figures)?;
            let is_current = parts.0.analysis == self.analysis && parts.0.version == version;
            is_current.then_some(parts)
        };
        let bytes = Some(&kept).filter(|_| is_own).and_then(|path| own_bytes(path));
        let (head, figures) = bytes.as_deref().and_then(current).unwrap_or_else(|| {
            let bytes = self.written(name, version);
            if is_own {
                // A full disk or a store that is read-only: the answer is the same.
                let _ = file::make(&kept, file::SHARED, file::There::Replaced, |file| {
                    file.write_all(&bytes)
                });
            }
            // By the same parser as later, so that each answer has the same digits.
            parsed(&bytes, wants_figures).expect("what was just written is whole")
        });
        match head.run {
            Ok(facts) => State::Readable(Box::new(Content { facts, figures })),
            Err(reason) => State::Unreadable(reason),
        }
    }

    /// A record's file of figures.
    fn written(&self, name: &str, version: Version) -> Vec<u8> {
        let content = (self.read)(&self.store.path(name));
        let (run, mut figures) = match content {
            Ok(Content { facts, figures }) => (Ok(facts), figures),
            Err(reason) => (Err(reason), Vec::new()),
        };
        // JSON has no other numbers.
        let is_finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
        figures.retain_mut(|row| {
            row.ci = row.ci.filter(is_finite);
            row.cycles = row.cycles.filter(|cycles| cycles.is_finite());
            row.value.is_finite() && row.rounds.iter().all(|value| value.is_finite())
        });
        let head = Head { format: FORMAT, analysis: self.analysis.to_owned(), version, run };
        [sealed(&head), sealed(&Figures { figures })].concat()
    }
}

impl Version {
    fn of_record(path: &Path) -> Result<Self> {
        let facts = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        let modified = facts.modified().ok();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ns = since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0));
        Ok(Version { size_bytes: facts.len(), modified_ns })
    }
}

impl Store {
    pub(super) fn figures_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{FIGURES_ENDING}"))
    }

    fn remove_left_figures(&self) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            let run = name.strip_suffix(FIGURES_ENDING);
            if run.is_some_and(|run| !self.dir.join(format!("{run}{ENDING}")).exists()) {
                let _ = fs::remove_file(self.dir.join(&name));
            }
        }
    }
}

/// The content of a file that only this user can have written.
fn own_bytes(path: &Path) -> Option<Vec<u8>> {
    let facts = path.symlink_metadata().ok()?;
    (facts.is_file() && trust::others(&facts).is_none()).then(|| fs::read(path).ok())?
}

/// The two lines of a file of figures. `None`: it is damaged, or of another version.
fn parsed(bytes: &[u8], wants_figures: &impl Fn(&Facts) -> bool) -> Option<(Head, Vec<Row>)> {
    let (head, figures) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n')? + 1);
    if [head, figures].map(seal::check) != [Seal::Intact; 2] {
        return None;
    }
    let head: Head = serde_json::from_slice(head).ok()?;
    let is_wanted = head.run.as_ref().is_ok_and(wants_figures);
    let figures = match is_wanted {
        true => serde_json::from_slice::<Figures>(figures).ok()?.figures,
        false => Vec::new(),
    };
    (head.format == FORMAT).then_some((head, figures))
}

fn sealed(value: &impl Serialize) -> Vec<u8> {
    let mut line =
        serde_json::to_vec(value).expect("texts and numbers under texts are always JSON");
    seal::seal(&mut line);
    line.push(b'\n');
    line
}
