//! A node's file: JSON Lines, one [`Line`] each, sealed with its checksum as the lines of a run's record.
//! It grows while the node measures, so a node that dies leaves the figures until then.

use anyhow::{Context, Error, Result};
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::seal::{seal, unsealed};
use record::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Version of a node's file. Format 1 was a record of a whole sweep, of a development version.
pub const FLEET_FORMAT: u32 = 2;
/// Most characters of a reason.
const REASON_MAX: usize = 300;
/// Files of the first ranks list all hosts: a host without a file is then known by name.
pub const LISTING: u32 = 4;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// First: the node, and what its sweep measures.
    Node(Box<Header>),
    Clock(Clock),
    Figure(Figure),
    /// A pair that this node was the near end of.
    Pair(Pair),
    Served(Served),
    Absent(Absent),
    /// Last, unless the node died.
    End(End),
}

/// The node, and what its sweep measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FLEET_FORMAT`] of the writer.
    pub format: u32,
    pub plumb: String,
    /// Identity of the sweep: all its nodes compute the same.
    pub sweep: String,
    /// Whether this is a step of suspects: it repeats a part of the sweep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Number of this node, from 0.
    pub rank: u32,
    pub size: u32,
    /// Name of this node in the list of hosts.
    pub host: String,
    /// All hosts by rank, in the files of the first ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Start of measuring by the agreed clock, RFC 3339 in UTC.
    pub started: String,
    pub seed: u64,
    /// Preset and selectors of what a node measures by itself; no selectors for all of the preset.
    pub preset: String,
    pub selectors: Vec<String>,
    pub pair_selectors: Vec<String>,
    /// Time for what a node measures by itself, and length of a slot, in seconds.
    pub alone_s: f64,
    pub slot_s: f64,
    pub slots: u32,
    /// What started the node: slurm, kubernetes, mpi or options.
    pub starter: String,
    /// What makes hardware identical, by name.
    pub stratum: BTreeMap<String, String>,
    /// What the site says of the node: rack, zone, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// How far a node's clock is from those of its peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The median over the peers of their clock minus this node's, in seconds.
    pub offset_s: f64,
    pub peers: Vec<String>,
    /// Whether the node followed its peers' clock instead of its own.
    pub is_corrected: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub experiment: String,
    pub case: CaseId,
    pub metric: String,
    pub unit: Unit,
    pub better: Better,
    pub kind: Kind,
    pub value: f64,
    /// Its interval; absent where there were too few rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<(f64, f64)>,
    /// Values of the rounds: the undisturbed ones where there are two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
    /// Range that was predicted before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<(f64, f64)>,
}

impl Figure {
    pub fn key(&self) -> Key {
        Key::new(&self.experiment, &self.case, &self.metric)
    }
}

/// Why a pair is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A step of a matching, beside the other pairs of the step.
    Matching,
    /// A matching of two random halves of the fleet.
    Bisection,
    /// Several senders, one receiver.
    Incast,
    /// One sender, several receivers: the far end sends.
    Outcast,
    Suspect,
}

impl Purpose {
    /// In the order of a sweep, what the pairs of a slot are.
    pub const ALL: [(Purpose, &str); 5] = [
        (Purpose::Matching, "matchings"),
        (Purpose::Bisection, "two halves (bisection)"),
        (Purpose::Incast, "four senders, one receiver (incast)"),
        (Purpose::Outcast, "one sender, four receivers (outcast)"),
        (Purpose::Suspect, "suspects"),
    ];

    pub fn text(self) -> &'static str {
        Purpose::ALL[self as usize].1
    }
}

/// A pair and its figures, from the near end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Number of the slot, from 0.
    pub slot: u32,
    pub purpose: Purpose,
    /// Name of the far end.
    pub to: String,
    /// Begin and end of measuring, in seconds since the sweep's start.
    pub begin_s: f64,
    pub end_s: f64,
    /// The far end's clock minus this node's, in seconds, before any correction.
    pub offset_s: f64,
    pub figures: Vec<Figure>,
}

/// A slot in which this node was the far end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Number of the slot, from 0.
    pub slot: u32,
    pub near: Vec<String>,
    pub sessions: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<String>,
    /// The experiment; absent where all of the node's part is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Time since the sweep's start, in seconds.
    pub wall_s: f64,
    /// Whether a signal ended it before its schedule did.
    pub interrupted: bool,
}

impl Line {
    /// The line with its checksum and its end. Errors: a number that JSON has not.
    pub fn sealed(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        seal(&mut bytes);
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// What an intact line says; an error where it is damaged, and nothing for a kind of line that only a
    /// newer plumb knows.
    pub fn parse(line: &[u8]) -> Result<Option<Line>> {
        let object = unsealed(line).context("it is damaged")?;
        Ok(serde_json::from_slice(&object).ok())
    }

    /// The whole node's part is missing.
    pub fn absent(error: &Error) -> Line {
        Line::Absent(Absent { why: format!("{error:#}"), ..Absent::default() })
    }

    pub fn absent_pair(slot: u32, partner: &str, why: &str) -> Line {
        let why = why.chars().take(REASON_MAX).collect();
        let (slot, partner) = (Some(slot), Some(partner.to_owned()));
        Line::Absent(Absent { slot, partner, why, ..Absent::default() })
    }
}

/// A file that grows. After the first failure it takes nothing more: the node goes on, because its
/// partners measure with it.
#[derive(Debug)]
pub struct Writer {
    /// The file with its name; the standard output, where absent.
    file: Option<(File, PathBuf)>,
    failure: Option<Error>,
}

impl Writer {
    /// The place that `--out` names: `-` is the standard output; in a path `%h` is the host and `%r`
    /// the rank. Errors: the file exists or cannot be made.
    pub fn create(out: &str, host: &str, rank: u32) -> Result<Writer> {
        if out == "-" {
            return Ok(Writer { file: None, failure: None });
        }
        Writer::new_file(
            out.replace("%h", &file_name(host)).replace("%r", &rank.to_string()).into(),
        )
    }

    /// The first free name for one more file of a host in a directory. Errors: none can be made.
    pub fn into_directory(dir: &Path, host: &str) -> Result<Writer> {
        let mut names =
            (2..1000).map(|number| dir.join(format!("{}.{number}.jsonl", file_name(host))));
        let free = names.find(|path| !path.exists());
        Writer::new_file(free.with_context(|| format!("too many files in {}", dir.display()))?)
    }

    fn new_file(path: PathBuf) -> Result<Writer> {
        let made = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = made.with_context(|| {
            format!("cannot write {}; name a new file in a directory that exists", path.display())
        })?;
        Ok(Writer { file: Some((file, path)), failure: None })
    }

    pub fn append(&mut self, line: &Line) {
        if self.failure.is_none() {
            self.failure = self.write(line).err();
        }
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let bytes = line.sealed()?;
        match &mut self.file {
            None => {
                let mut output = io::stdout().lock();
                let written = output.write_all(&bytes).and_then(|()| output.flush());
                written.context("cannot write to the standard output")
            }
            Some((file, path)) => {
                file.write_all(&bytes).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// Has all lines reach the disk. Errors: the first failure.
    pub fn finish(self) -> Result<()> {
        match (self.failure, self.file) {
            (Some(failure), _) => Err(failure),
            (None, None) => Ok(()),
            (None, Some((file, path))) => {
                file.sync_data().with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

/// A host's name as one of a file.
fn file_name(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    host.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::{End, Line, Writer};

    #[test]
    fn a_file_grows_line_by_line_and_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("%h-%r.jsonl").display().to_string();
        let mut writer = Writer::create(&out, "10.0.0.1:7", 3).unwrap();
        let end = Line::End(End { wall_s: 1.0, interrupted: false });
        writer.append(&end);
        let text = std::fs::read_to_string(dir.path().join("10.0.0.1_7-3.jsonl")).unwrap();
        assert!(
            text.starts_with("{\"end\":{\"wall_s\":1.0,\"interrupted\":false},\"crc\":\""),
            "{text}"
        );
        assert_eq!(Line::parse(text.trim_end().as_bytes()).unwrap(), Some(end));
        writer.finish().unwrap();
        let error = format!("{:#}", Writer::create(&out, "10.0.0.1:7", 3).unwrap_err());
        assert!(error.contains("name a new file") && error.lines().count() == 1, "{error}");
        for number in [2, 3] {
            drop(Writer::into_directory(dir.path(), "n1").unwrap());
            assert!(dir.path().join(format!("n1.{number}.jsonl")).exists());
        }
        assert!(Writer::into_directory(&dir.path().join("absent"), "n1").is_err());
    }
}
