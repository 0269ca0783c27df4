//! A directory of nodes' files, read strictly: what does not belong to the sweep is one line of
//! [`Fleet::notes`], and everything else stands.

use crate::file::{Absent, Clock, End, FLEET_FORMAT, Figure, Header, Line, Purpose};
use anyhow::{Context, Result, ensure};
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::{Gather, InOrder};
use record::seal::{Seal, check};
use record::unit::Unit;
use session::store::file;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::f64::consts::FRAC_PI_2;
use std::path::{Path, PathBuf};

/// Longest line of a node's file.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Half the width of a normal interval of 95 %, in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// What all values of a figure share.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    pub key: Key,
    pub unit: Unit,
    pub better: Better,
    pub kind: Kind,
}

/// A value of a figure, by its index in [`Fleet::figures`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    pub figure: usize,
    pub value: f64,
    pub ci: Option<(f64, f64)>,
    pub rounds: u32,
    pub predicted: Option<(f64, f64)>,
    /// Variance of the logarithm by the node's own rounds; 0 where they do not say.
    pub scatter: f64,
}

/// A pair that was measured; the far end by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct PairValues {
    pub slot: u32,
    pub purpose: Purpose,
    pub to: String,
    pub offset_s: f64,
    pub values: Vec<Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFile {
    pub header: Header,
    pub clock: Option<Clock>,
    pub values: Vec<Value>,
    pub pairs: Vec<PairValues>,
    pub absents: Vec<Absent>,
    pub end: Option<End>,
    pub path: PathBuf,
    lines: usize,
}

/// A sweep and its steps of suspects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    pub figures: Vec<About>,
    /// The files of the sweep, by rank.
    pub nodes: Vec<NodeFile>,
    /// The files of each step of suspects, in the order of time.
    pub steps: Vec<Vec<NodeFile>>,
    /// All hosts, where a file or the reader's list names them.
    pub hosts: Option<Vec<String>>,
    /// What is wrong with the files, a line each.
    pub notes: Vec<String>,
}

impl Fleet {
    /// What all nodes of the sweep share: the header of the first.
    pub fn header(&self) -> &Header {
        &self.nodes[0].header
    }

    /// The node of a name.
    pub fn node(&self, host: &str) -> Option<&NodeFile> {
        self.nodes.iter().find(|node| node.header.host == host)
    }
}

#[derive(Default)]
struct Figures {
    all: Vec<About>,
    places: HashMap<Key, usize>,
}

impl Figures {
    fn value(&mut self, figure: Figure) -> Value {
        let key = figure.key();
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                let Figure { unit, better, kind, .. } = figure;
                self.all.push(About { key: key.clone(), unit, better, kind });
                self.places.insert(key, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        Value {
            figure: place,
            value: figure.value,
            ci: figure.ci,
            rounds: u32::try_from(figure.rounds.len()).unwrap_or(u32::MAX),
            predicted: figure.predicted,
            scatter: own_variance(&figure),
        }
    }
}

/// The variance of the logarithm of a value by its interval, or of the median of its rounds.
fn own_variance(figure: &Figure) -> f64 {
    if let Some((low, high)) = figure.ci.filter(|(low, high)| *low > 0.0 && high.is_finite()) {
        return ((high / low).ln() / (2.0 * HALF_WIDTH)).powi(2);
    }
    let logs: Vec<f64> =
        figure.rounds.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    let moments = stats::moments::Moments::from_values(&logs);
    moments.variance().map_or(0.0, |variance| FRAC_PI_2 * variance / logs.len() as f64)
}

/// Reads a directory; `hosts` is the list that the reader has. Errors: it cannot be read, or has no
/// file of a sweep.
pub fn read(dir: &Path, hosts: Option<Vec<String>>) -> Result<Fleet> {
    let entries = dir.read_dir().with_context(|| {
        format!("cannot read {}; name the directory of a sweep's files", dir.display())
    })?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect();
    paths.order_by(|a, b| a.cmp(b));
    ensure!(
        !paths.is_empty(),
        "{} has no file of a sweep: *.jsonl, as --out {0}/%h.jsonl writes",
        dir.display()
    );
    let (mut figures, mut notes, mut files) = (Figures::default(), Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match node_file(&path, &mut figures) {
            Ok((file, note)) => {
                notes.extend(note.map(|note| format!("{name}: {note}")));
                files.push(file);
            }
            Err(error) => notes.push(format!("{name}: {error:#}; left out")),
        }
    }
    ensure!(
        !files.is_empty(),
        "{} has no readable file of a sweep: {}",
        dir.display(),
        notes.join("; ")
    );
    Ok(assembled(files, figures.all, hosts, notes))
}

/// A fleet from lines instead of files, each with its host.
#[cfg(any(test, feature = "fixtures"))]
pub fn from_lines(files: impl IntoIterator<Item = (String, Vec<Line>)>) -> Fleet {
    let mut figures = Figures::default();
    let mut all = Vec::new();
    for (host, lines) in files {
        let (count, mut lines) = (lines.len(), lines.into_iter());
        let Some(header) = lines.next().and_then(|line| line.node) else { continue };
        let path = PathBuf::from(format!("{host}.jsonl"));
        let mut file = NodeFile { header: *header, path, lines: count, ..NodeFile::default() };
        lines.for_each(|line| take(&mut file, line, &mut figures));
        all.push(file);
    }
    assembled(all, figures.all, None, Vec::new())
}

/// A node's file, and its damage. Errors: the file is not a node's.
fn node_file(path: &Path, figures: &mut Figures) -> Result<(NodeFile, Option<String>)> {
    let reader = file::reader(path)?;
    let mut lines = record::lines::Lines::new(reader, LINE_BYTES_MAX);
    let mut found: Option<NodeFile> = None;
    let mut damaged = 0_usize;
    while let Some((number, line)) = lines.whole()? {
        match &mut found {
            None => {
                found = Some(NodeFile {
                    header: header(line)?,
                    path: path.to_owned(),
                    ..NodeFile::default()
                })
            }
            Some(file) => match parsed(line) {
                Some(line) => take(file, line, figures),
                None => damaged += 1,
            },
        }
        found.iter_mut().for_each(|file| file.lines = number);
    }
    let is_torn = lines.torn().is_some();
    let file = found.with_context(|| match is_torn {
        true => "its first line is cut",
        false => "it is empty: the node ended before it wrote a line",
    })?;
    let note = match (is_torn, damaged) {
        (_, 1..) => Some(format!("{damaged} of its lines are damaged and left out")),
        (true, 0) => Some(format!("it is cut after line {}", file.lines)),
        (false, 0) => None,
    };
    Ok((file, note))
}

fn parsed(line: &[u8]) -> Option<Line> {
    (check(line) == Seal::Intact).then(|| serde_json::from_slice(line).ok()).flatten()
}

/// The header on a first line. Errors: the line is no header, or one of another version.
fn header(line: &[u8]) -> Result<Header> {
    let value: serde_json::Value =
        serde_json::from_slice(line).context("it is not a node's file")?;
    let inside = value.get("node").unwrap_or(&value);
    let format = inside.get("format").and_then(serde_json::Value::as_u64);
    let format = format.context("it is not a node's file")?;
    ensure!(value.get("run").is_none(), "it is the record of a run, which `plumb report` shows");
    ensure!(
        format <= u64::from(FLEET_FORMAT),
        "its format is {format}, this plumb reads fleet formats up to {FLEET_FORMAT}: use a newer plumb"
    );
    ensure!(
        format == u64::from(FLEET_FORMAT),
        "its format is {format}, of a development version of plumb: measure again"
    );
    let parsed = parsed(line).context("its first line is damaged")?;
    Ok(*parsed.node.context("it is not a node's file")?)
}

fn take(file: &mut NodeFile, line: Line, figures: &mut Figures) {
    file.clock = line.clock.or(file.clock.take());
    file.end = line.end.or(file.end.take());
    file.absents.extend(line.absent);
    file.values.extend(line.figure.map(|figure| figures.value(figure)));
    file.pairs.extend(line.pair.map(|pair| PairValues {
        slot: pair.slot,
        purpose: pair.purpose,
        to: pair.to,
        offset_s: pair.offset_s,
        values: pair.figures.into_iter().map(|figure| figures.value(figure)).collect(),
    }));
}

/// Sorts files into the sweep that most of them are of, and its steps of suspects.
fn assembled(
    files: Vec<NodeFile>,
    figures: Vec<About>,
    hosts: Option<Vec<String>>,
    mut notes: Vec<String>,
) -> Fleet {
    let (again, first): (Vec<NodeFile>, Vec<NodeFile>) =
        files.into_iter().partition(|file| file.header.again);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &first {
        *counts.entry(&file.header.sweep).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count).map(|(sweep, _)| (*sweep).to_owned());
    let (of_sweep, others): (Vec<NodeFile>, Vec<NodeFile>) =
        first.into_iter().partition(|file| Some(&file.header.sweep) == most.as_ref());
    let sample = of_sweep.first().map(|file| file.header.clone()).unwrap_or_default();
    for file in others {
        notes.push(format!(
            "{}: it is of another sweep ({}); left out",
            name(&file),
            difference(&file.header, &sample)
        ));
    }
    let hosts = hosts.or_else(|| {
        of_sweep.iter().map(|file| &file.header.hosts).find(|hosts| !hosts.is_empty()).cloned()
    });
    let listed: Option<BTreeSet<&String>> = hosts.as_ref().map(|hosts| hosts.iter().gather());
    let is_listed =
        |file: &NodeFile| listed.as_ref().is_none_or(|listed| listed.contains(&file.header.host));
    let mut nodes = unique(of_sweep, &is_listed, &mut notes);
    nodes.order_by_key(|file| file.header.rank);
    let mut steps: BTreeMap<(String, String), Vec<NodeFile>> = BTreeMap::new();
    for file in again {
        let key = (file.header.started.clone(), file.header.sweep.clone());
        steps.entry(key).or_default().push(file);
    }
    let steps =
        merged(steps).into_iter().map(|step| unique(step, &is_listed, &mut notes)).collect();
    Fleet { figures, nodes, steps, hosts, notes }
}

/// Steps by the order of time. With `--start-in` the nodes of a step start some seconds apart, and one
/// identity is of one list of suspects: its files of one host are several steps.
fn merged(steps: BTreeMap<(String, String), Vec<NodeFile>>) -> Vec<Vec<NodeFile>> {
    let mut merged: Vec<Vec<NodeFile>> = Vec::new();
    for ((_, sweep), files) in steps {
        for file in files {
            let has = |step: &&mut Vec<NodeFile>| {
                step[0].header.sweep == sweep
                    && step.iter().all(|other| other.header.host != file.header.host)
            };
            match merged.iter_mut().find(has) {
                Some(step) => step.push(file),
                None => merged.push(vec![file]),
            }
        }
    }
    merged
}

/// The files of listed hosts, one for each host: of two the longer one.
fn unique(
    files: Vec<NodeFile>,
    is_listed: &impl Fn(&NodeFile) -> bool,
    notes: &mut Vec<String>,
) -> Vec<NodeFile> {
    let mut by_host: BTreeMap<String, NodeFile> = BTreeMap::new();
    for file in files {
        if !is_listed(&file) {
            notes.push(format!(
                "{}: {} is not in the list of hosts; left out",
                name(&file),
                file.header.host
            ));
            continue;
        }
        let host = file.header.host.clone();
        let Some(other) = by_host.remove(&host) else {
            by_host.insert(host, file);
            continue;
        };
        let (kept, left) = if file.lines > other.lines { (file, other) } else { (other, file) };
        notes.push(format!("{}: {host} has another file, {}; left out", name(&left), name(&kept)));
        by_host.insert(host, kept);
    }
    by_host.into_values().collect()
}

fn name(file: &NodeFile) -> String {
    file.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// In what two headers differ, in words.
fn difference(one: &Header, sweep: &Header) -> String {
    let facts = |header: &Header| {
        [
            ("size", header.size.to_string()),
            ("plumb", header.plumb.clone()),
            ("seed", header.seed.to_string()),
            ("preset", header.preset.clone()),
            ("slots", header.slots.to_string()),
            ("slot_s", header.slot_s.to_string()),
            ("start", header.started.clone()),
        ]
    };
    let all = facts(one).into_iter().zip(facts(sweep));
    let mut differs = all.filter(|((_, one), (_, other))| one != other);
    let text =
        differs.next().map(|((what, one), (_, other))| format!("{what} {one}, the others {other}"));
    text.unwrap_or_else(|| "other hosts or selectors".to_owned())
}
