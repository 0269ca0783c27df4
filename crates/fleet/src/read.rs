//! A directory of nodes' files, read strictly: what does not belong to the sweep is one line of
//! [`Fleet::notes`], and everything else stands.

use crate::file::{Absent, Clock, End, FLEET_FORMAT, Figure, Header, Line, Purpose};
use analysis::gather::gathered;
use anyhow::{Context, Result, bail, ensure};
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::{Gather, InOrder};
use record::unit::Unit;
use session::store::file;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap, HashSet};
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
    /// The far end's clock minus the near end's.
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

    pub fn host(&self, node: usize) -> &str {
        &self.nodes[node].header.host
    }

    pub fn places(&self) -> HashMap<&str, usize> {
        (0..self.nodes.len()).map(|node| (self.host(node), node)).gather()
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
    let file = |(host, lines): (String, Vec<Line>)| {
        let path = PathBuf::from(format!("{host}.jsonl"));
        let mut file = NodeFile { path, lines: lines.len(), ..NodeFile::default() };
        lines.into_iter().for_each(|line| take(&mut file, line, &mut figures));
        file
    };
    let files = files.into_iter().map(file).collect();
    assembled(files, figures.all, None, Vec::new())
}

/// A node's file, and its damage. Errors: the file is not a node's.
fn node_file(path: &Path, figures: &mut Figures) -> Result<(NodeFile, Option<String>)> {
    let mut lines = record::lines::Lines::new(file::reader(path)?, LINE_BYTES_MAX);
    let mut file = NodeFile { path: path.to_owned(), ..NodeFile::default() };
    let mut damaged = 0;
    while let Some((number, line)) = lines.whole()? {
        match Line::parse(line) {
            _ if file.lines == 0 => file.header = header(line)?,
            Ok(None | Some(Line::Node(_))) => {}
            Ok(Some(line)) => take(&mut file, line, figures),
            Err(_) => damaged += 1,
        }
        file.lines = number;
    }
    let is_torn = lines.torn().is_some();
    let note = match (file.lines, damaged, is_torn) {
        (0, _, true) => bail!("its first line is cut"),
        (0, _, false) => bail!("it is empty: the node ended before it wrote a line"),
        (_, 0, false) => None,
        (last, 0, true) => Some(format!("it is cut after line {last}")),
        _ => Some(format!("{damaged} of its lines are damaged and left out")),
    };
    Ok((file, note))
}

/// The header on a first line. Errors: the line is no header, or one of another version.
fn header(line: &[u8]) -> Result<Header> {
    const FOREIGN: &str = "it is not a node's file";
    let value: serde_json::Value = serde_json::from_slice(line).context(FOREIGN)?;
    ensure!(value.get("run").is_none(), "it is the record of a run, which `plumb report` shows");
    let format = &value.get("node").unwrap_or(&value)["format"];
    match format.as_u64().context(FOREIGN)?.cmp(&u64::from(FLEET_FORMAT)) {
        Ordering::Equal => {}
        Ordering::Less => {
            bail!("its format is {format}, of a development version of plumb: measure again")
        }
        Ordering::Greater => bail!(
            "its format is {format}, this plumb reads fleet formats up to {FLEET_FORMAT}: use a \
             newer plumb"
        ),
    }
    match Line::parse(line).context("its first line is damaged")? {
        Some(Line::Node(header)) => Ok(*header),
        _ => bail!(FOREIGN),
    }
}

fn take(file: &mut NodeFile, line: Line, figures: &mut Figures) {
    match line {
        Line::Node(header) => file.header = *header,
        Line::Clock(clock) => file.clock = Some(clock),
        Line::Figure(figure) => file.values.push(figures.value(figure)),
        Line::Pair(pair) => file.pairs.push(PairValues {
            slot: pair.slot,
            purpose: pair.purpose,
            to: pair.to,
            offset_s: pair.offset_s,
            values: pair.figures.into_iter().map(|figure| figures.value(figure)).collect(),
        }),
        Line::Served(_) => {}
        Line::Absent(absent) => file.absents.push(absent),
        Line::End(end) => file.end = Some(end),
    }
}

/// Sorts files into the sweep that most of them are of, and its steps of suspects.
fn assembled(
    files: Vec<NodeFile>,
    figures: Vec<About>,
    hosts: Option<Vec<String>>,
    mut notes: Vec<String>,
) -> Fleet {
    let (mut again, first): (Vec<NodeFile>, Vec<NodeFile>) =
        files.into_iter().partition(|file| file.header.again);
    let mut sweeps = gathered(first.into_iter().map(|file| (file.header.sweep.clone(), file)));
    sweeps.order_by_key(|(_, files)| Reverse(files.len()));
    let mut sweeps = sweeps.into_iter().map(|(_, files)| files);
    let nodes = sweeps.next().unwrap_or_default();
    for file in sweeps.flatten() {
        let why = difference(&file.header, &nodes[0].header);
        notes.push(format!("{}: it is of another sweep ({why}); left out", name(&file)));
    }
    let of_files = nodes.iter().map(|file| &file.header.hosts);
    let hosts = hosts.or_else(|| of_files.into_iter().find(|hosts| !hosts.is_empty()).cloned());
    let listed: Option<HashSet<&String>> = hosts.as_ref().map(|hosts| hosts.iter().gather());
    let mut nodes = unique(nodes, listed.as_ref(), &mut notes);
    nodes.order_by_key(|file| file.header.rank);
    // With `--start-in` the nodes of a step start some seconds apart, and one identity is of one list of
    // suspects: a host's files of it are one step after the other.
    again.order_by(|a, b| a.header.started.cmp(&b.header.started));
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    let steps = gathered(again.into_iter().map(|file| {
        let sweep = file.header.sweep.clone();
        let count = counts.entry((sweep.clone(), file.header.host.clone())).or_default();
        *count += 1;
        ((sweep, *count), file)
    }));
    let steps = steps.into_iter().map(|(_, step)| unique(step, listed.as_ref(), &mut notes));
    Fleet { figures, nodes, steps: steps.collect(), hosts: hosts.clone(), notes }
}

/// The files of listed hosts, one for each host: of two the longer one.
fn unique(
    mut files: Vec<NodeFile>,
    listed: Option<&HashSet<&String>>,
    notes: &mut Vec<String>,
) -> Vec<NodeFile> {
    files.order_by_key(|file| Reverse(file.lines));
    let mut kept: BTreeMap<String, NodeFile> = BTreeMap::new();
    for file in files {
        let host = &file.header.host;
        let why = match kept.get(host) {
            _ if listed.is_some_and(|listed| !listed.contains(host)) => {
                format!("{host} is not in the list of hosts")
            }
            Some(longer) => format!("{host} has another file, {}", name(longer)),
            None => {
                kept.insert(host.clone(), file);
                continue;
            }
        };
        notes.push(format!("{}: {why}; left out", name(&file)));
    }
    kept.into_values().collect()
}

fn name(file: &NodeFile) -> String {
    file.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What the headers of one sweep have alike.
const ALIKE: [&str; 10] = [
    "size",
    "plumb",
    "seed",
    "preset",
    "selectors",
    "pair_selectors",
    "alone_s",
    "slot_s",
    "slots",
    "started",
];

/// In what two headers differ, in words.
fn difference(one: &Header, sweep: &Header) -> String {
    let [one, sweep] = [one, sweep].map(|header| serde_json::json!(header));
    match ALIKE.into_iter().find(|name| one[name] != sweep[name]) {
        Some(name) => format!("{name} {}, the others {}", one[name], sweep[name]),
        None => "other hosts or pairs".to_owned(),
    }
}
