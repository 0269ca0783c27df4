//! Plumb beside the tools that people use today: a file per rival, which says how it is found, what
//! it is asked, how its answer is read, and what of plumb's stands beside it. Everything in these
//! files is pure; [`turns`] runs both sides alternating, and judges nothing.
#![forbid(unsafe_code)]

mod bandwidth;
mod binary;
pub mod chosen;
mod estimate;
mod load;
mod ours;
mod ports;
mod probe;
mod process;
mod read;
mod ready;
mod rivals;
mod sides;
mod table;
#[cfg(test)]
mod tests;
pub mod turns;

use anyhow::Result;
use bench::experiment::{Preset, Skip};
use host::Host;
use record::crosscheck::Goal;
use record::key::CaseId;
use record::run::Run;
use record::unit::Unit;
use std::path::PathBuf;
use std::time::Duration;

pub use rivals::{RIVALS, not_compared};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

pub struct Rival {
    /// Its name on the command line and in reports: the one that people call it by.
    pub name: &'static str,
    /// One line: what it is, to stand behind its name.
    pub about: &'static str,
    pub package: Option<&'static str>,
    /// Programs by which it is recognised; the first that is found has the version.
    pub programs: &'static [&'static str],
    /// What the program is asked for its version; nothing: it cannot be asked without all its work,
    /// and is not: its file is read instead.
    pub version_args: &'static [&'static str],
    /// The version in its output, or in the texts of its file ([`binary::texts`], as
    /// [`Output::answer`]); `None` where that has none.
    pub version: fn(&Output) -> Option<String>,
    /// Versions below this one are too old to be asked.
    pub oldest: Option<&'static str>,
    /// What is run beside it, in the order of a report.
    pub pairings: fn(&Conditions) -> Vec<Pairing>,
    /// The value of a row ([`Row::what`]) in what the program said, in the row's unit; else what is
    /// wrong with it, in one line.
    pub parse: fn(&Output, &str) -> Result<f64, String>,
}

/// Letters of a reason that quotes what a program said.
const REASON_MAX: usize = 200;

impl Rival {
    /// One that reports no version, of no package.
    const fn new(
        name: &'static str,
        programs: &'static [&'static str],
        pairings: fn(&Conditions) -> Vec<Pairing>,
        parse: fn(&Output, &str) -> Result<f64, String>,
    ) -> Rival {
        Rival {
            name,
            about: "",
            package: None,
            programs,
            version_args: &[],
            version: |_| None,
            oldest: None,
            pairings,
            parse,
        }
    }

    const fn about(self, about: &'static str) -> Rival {
        Rival { about, ..self }
    }

    const fn package(self, package: &'static str) -> Rival {
        Rival { package: Some(package), ..self }
    }

    const fn version(
        self,
        version_args: &'static [&'static str],
        version: fn(&Output) -> Option<String>,
    ) -> Rival {
        Rival { version_args, version, ..self }
    }

    const fn oldest(self, oldest: &'static str) -> Rival {
        Rival { oldest: Some(oldest), ..self }
    }

    /// The value of a row ([`Rival::parse`]), which is finite and not negative; else what is wrong, in
    /// one line whatever the program said. A program that did nothing reported 0, which has no ratio.
    pub fn read(&self, said: &Output, what: &str) -> Result<f64, String> {
        match (self.parse)(said, what) {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            Ok(value) => Err(format!("it reported {value}")),
            Err(why) if why == read::ZERO => Ok(0.0),
            Err(why) => {
                Err(why.lines().next().unwrap_or_default().chars().take(REASON_MAX).collect())
            }
        }
    }
}

/// What both sides have alike.
#[derive(Clone, Debug)]
pub struct Conditions {
    pub host: Host,
    /// CPUs to measure on, the quietest first; at least one.
    pub cpus: Vec<usize>,
    /// Memory that a side may take, in bytes.
    pub memory_bytes: u64,
    /// A directory of the rival's own: its working directory, where its output and input lie.
    pub scratch: PathBuf,
    /// A directory for the files that are measured, on the file system of `--dir`; `None` if it
    /// does not exist.
    pub files: Option<PathBuf>,
    pub in_memory: Option<PathBuf>,
    /// The rival's version, as it reports it; empty if it reports none.
    pub version: String,
    /// How much to measure; of a rehearsal, quick and standard choose fewer pairings.
    pub preset: Preset,
    /// How long a rival runs in one turn, in seconds, if known.
    pub seconds: f64,
    /// Ports of this host without a listener.
    pub ports: [u16; 4],
    pub is_root: bool,
}

impl Conditions {
    /// Whether the preset is standard or more.
    pub fn is_whole(&self) -> bool {
        matches!(self.preset, Preset::Standard | Preset::Thorough)
    }

    /// Preset whose lengths of windows plumb's side takes.
    pub fn lengths(&self) -> Preset {
        self.rehearsed(Preset::Rehearsal, Preset::Quick)
    }

    /// The first of a rehearsal, which only shows that all works; else the second.
    pub(crate) fn rehearsed<T>(&self, rehearsal: T, otherwise: T) -> T {
        match self.preset {
            Preset::Rehearsal => rehearsal,
            _ => otherwise,
        }
    }

    /// Why files cannot be measured: there is no directory for them.
    pub fn no_files(&self) -> Option<Skip> {
        let none = "no directory for files: the current one is not writable, or is in memory";
        match self.files {
            Some(_) => None,
            None => Some(Skip::because(none).needs("--dir DIR")),
        }
    }

    pub fn has_version(&self, least: &str) -> bool {
        probe::numbers(&self.version) >= probe::numbers(least)
    }
}

/// One command of each side, run in turns.
#[derive(Clone, Debug)]
pub struct Pairing {
    /// Unique among the rival's: lower case, words joined by `-`.
    pub name: String,
    pub ours: Ours,
    pub theirs: Theirs,
    pub rows: Vec<Row>,
    /// Why it cannot be run here.
    pub skip: Option<Skip>,
    /// One pair is enough: neither side is a timing (cache sizes).
    pub is_once: bool,
}

#[derive(Clone, Debug)]
pub struct Ours {
    pub experiment: &'static str,
    /// Its parameters and settings, as `--set` takes them (lists too), with a blank between: those
    /// that are left out have the preset's defaults, so name all that make cases.
    pub set: String,
    pub cpus: Vec<usize>,
    pub dir: Option<PathBuf>,
    /// Measuring time at most.
    pub budget: Duration,
    /// Preset whose lengths of windows it takes; it ends after the first look (six rounds) in any
    /// case.
    pub preset: Preset,
}

#[derive(Clone, Debug, Default)]
pub struct Theirs {
    /// The program, looked for in PATH; empty: the one that the rival was recognised by.
    pub program: &'static str,
    pub args: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    /// CPUs that it may use; it is pinned to them, at the priority of plumb's workers.
    pub cpus: Vec<usize>,
    /// Files that it finds in its working directory: name and text.
    pub inputs: Vec<(&'static str, String)>,
    /// A file that it writes there, which holds its answer.
    pub answer: Option<&'static str>,
    /// Commands (program and arguments) that are run once before the first pair: to lay out files.
    pub prepare: Vec<Vec<String>>,
    /// Programs that these commands start through a shell, `env` or `mpirun`.
    pub behind: Vec<&'static str>,
    /// Its far end, which runs from before the first pair until after the last.
    pub server: Option<Server>,
    /// It is ended after this time.
    pub limit: Duration,
}

impl Theirs {
    /// All programs that it takes, the first one first.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        let commands = self.prepare.iter().chain(self.server.iter().map(|server| &server.command));
        let first = commands.filter_map(|command| command.first()).map(String::as_str);
        std::iter::once(self.program).chain(self.behind.iter().copied()).chain(first)
    }
}

/// The far end of a rival.
#[derive(Clone, Debug)]
pub struct Server {
    pub command: Vec<String>,
    pub cpus: Vec<usize>,
    /// It is there once something listens at these ports (TCP, or UDP).
    pub ports: Vec<u16>,
}

#[derive(Clone, Debug)]
pub struct Row {
    /// Unique in the pairing; empty where it has one row.
    pub name: String,
    /// Parameters that distinguish plumb's case from the others of its command.
    pub case: CaseId,
    pub metric: &'static str,
    pub statistic: Statistic,
    /// plumb's value is multiplied by this: two hand-overs are a round trip.
    pub times: f64,
    pub unit: Unit,
    /// What [`Rival::parse`] is asked for.
    pub what: String,
    pub goal: Goal,
    /// What the two do differently: shown where they disagree.
    pub difference: &'static str,
}

/// What is taken of a figure's samples.
#[derive(Clone, Copy, Debug)]
pub enum Statistic {
    /// The figure's value: the median of the rounds' values, disturbed rounds left out.
    Value,
    /// The best of its samples' values: the least of a time, the greatest of a rate.
    Best,
    /// The mean over all operations of all rounds, disturbed or not: beside what counts everything.
    MeanOfAll,
    MedianOfAll,
    /// The mean of the rounds' values, disturbed or not: beside rates over a whole window.
    MeanOfRounds,
    /// Another, by its name.
    Own(&'static str, fn(&Run, &Row) -> Result<f64>),
}

impl Statistic {
    pub fn name(self) -> &'static str {
        match self {
            Statistic::Value => "value",
            Statistic::Best => "best",
            Statistic::MeanOfAll => "mean of all",
            Statistic::MedianOfAll => "median of all",
            Statistic::MeanOfRounds => "mean of rounds",
            Statistic::Own(name, _) => name,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    /// The text of the file that holds its answer ([`Theirs::answer`]).
    pub answer: String,
}
