//! A comparison as a row of a rival's table: a command, plumb's side, and for each figure the pattern
//! of the rival's line, plumb's key, the goal, and what differs. One engine makes a pairing of a row
//! ([`Entry::pairing`]).
//!
//! Texts of a row may have places (`{seconds}`), which the rival's conditions fill in.

use super::sides::case_of;
use super::{Conditions, Goal, Pairing, Row, Server, Statistic, Theirs, read};
use bench::experiment::Preset;
use record::unit::Unit;

/// What the places of a row stand for, by name.
pub(super) type Places = Vec<(&'static str, String)>;

/// A command of a rival, and plumb's side beside it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub name: &'static str,
    pub from: Preset,
    /// The rival's versions that it is for: at least the first, below the second; empty: any.
    pub versions: [&'static str; 2],
    pub program: &'static str,
    /// The program's arguments. A place is one argument, or none if it is empty; `{name...}` is as
    /// many as it has words.
    pub args: &'static str,
    /// Programs that the command starts through a shell.
    pub behind: &'static [&'static str],
    /// The far end's program and arguments; empty: there is none. It listens at `{port}`.
    pub server: &'static str,
    /// The rival is ended after so many seconds.
    pub limit_s: u64,
    pub needs: Needs,
    /// Whether the program ends with a status; some of lmbench leave `main` without one.
    pub has_status: bool,
    /// One repetition of lmbench takes at least so many seconds, whatever its options.
    pub interval_s: f64,
    /// The shortest interval in lmbench's options, in seconds.
    pub enough_s: f64,
    pub experiment: &'static str,
    /// plumb's parameters and settings, a blank between.
    pub set: &'static str,
    /// plumb's measuring time at most, in seconds.
    pub budget_s: u64,
    pub readings: &'static [Reading],
}

/// What a program needs beside the CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    File,
    Memory,
    /// lmbench's `hello` under the name that it is executed by.
    Hello,
    /// Its own server, which listens at a port that is fixed.
    Listener {
        port: u16,
    },
    /// As many bytes as plumb's arrays of these kernels have, divided by its shares.
    Arrays {
        ops: &'static [&'static str],
        shares: u64,
    },
}

/// What is read of the rival's output, and plumb's figure beside it.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// The row's name; empty where there is only one.
    pub name: &'static str,
    /// plumb's case: so many of the command's parameters, and these, a blank between.
    pub keyed: usize,
    pub case: &'static str,
    pub metric: &'static str,
    pub statistic: Statistic,
    /// plumb's value is multiplied by this.
    pub times: f64,
    pub unit: Unit,
    /// The pattern of the rival's line ([`super::read::line`]), or what its own parser takes.
    pub pattern: &'static str,
    pub goal: Goal,
    pub difference: &'static str,
}

/// A program beside an experiment: of the standard preset, without arguments, in need of nothing.
pub(super) const fn entry(program: &'static str, experiment: &'static str) -> Entry {
    Entry {
        name: "",
        from: Preset::Standard,
        versions: ["", ""],
        program,
        args: "",
        behind: &[],
        server: "",
        limit_s: 60,
        needs: Needs::Nothing,
        has_status: true,
        interval_s: 0.0,
        enough_s: 0.0,
        experiment,
        set: "",
        budget_s: 5,
        readings: &[],
    }
}

impl Entry {
    pub const fn named(self, name: &'static str, from: Preset) -> Entry {
        Entry { name, from, ..self }
    }

    pub const fn asked(self, args: &'static str, set: &'static str) -> Entry {
        Entry { args, set, ..self }
    }

    pub const fn versions(self, from: &'static str, below: &'static str) -> Entry {
        Entry { versions: [from, below], ..self }
    }

    pub const fn needs(self, needs: Needs) -> Entry {
        Entry { needs, ..self }
    }

    pub const fn beside(self, readings: &'static [Reading]) -> Entry {
        Entry { readings, ..self }
    }

    /// Whether the preset and the version that was found have it.
    pub fn is_offered(&self, conditions: &Conditions) -> bool {
        let [from, below] = self.versions;
        self.from <= conditions.preset
            && conditions.has_version(from)
            && (below.is_empty() || !conditions.has_version(below))
    }

    /// The pairing on the first CPU, with the places filled in.
    pub fn pairing(&self, conditions: &Conditions, places: &Places) -> Pairing {
        let set = words(self.set, places).join(" ");
        let rows: Vec<Row> = self.readings.iter().map(|one| one.row(&set, places)).collect();
        let ours = conditions.ours(self.experiment, &set);
        let server = words(self.server, places);
        let server = (!server.is_empty()).then(|| Server {
            command: server,
            cpus: vec![conditions.cpus[0]],
            ports: port(places).into_iter().collect(),
        });
        let theirs = Theirs {
            args: words(self.args, places),
            behind: self.behind.to_vec(),
            server,
            ..conditions.theirs(self.program, &[]).within(self.limit_s)
        };
        Pairing::new(fill(self.name, places), ours.within(self.budget_s), theirs, rows)
    }
}

impl Reading {
    pub const fn named(self, name: &'static str) -> Reading {
        Reading { name, ..self }
    }

    /// The figure of one of several cases of plumb's command.
    pub const fn in_case(self, case: &'static str, pattern: &'static str) -> Reading {
        Reading { case, pattern, ..self }
    }

    /// The figure of plumb's only case.
    pub const fn read(self, pattern: &'static str) -> Reading {
        Reading { pattern, ..self }
    }

    /// The figure of plumb's case with the first so many parameters of its command.
    pub const fn keyed(self, keyed: usize) -> Reading {
        Reading { keyed, ..self }
    }

    pub const fn metric(self, metric: &'static str) -> Reading {
        Reading { metric, ..self }
    }

    pub const fn times(self, times: f64) -> Reading {
        Reading { times, ..self }
    }

    pub const fn taken(self, statistic: Statistic) -> Reading {
        Reading { statistic, ..self }
    }

    pub const fn goal(self, goal: Goal) -> Reading {
        Reading { goal, ..self }
    }

    pub const fn differs(self, difference: &'static str) -> Reading {
        Reading { difference, ..self }
    }

    pub const fn explained(self, difference: &'static str) -> Reading {
        self.goal(Goal::Explained).differs(difference)
    }

    /// The row of a pairing whose command has these parameters.
    pub fn row(&self, set: &str, places: &Places) -> Row {
        let &Reading { metric, statistic, times, unit, goal, difference, .. } = self;
        let mut case = case_of(set, self.keyed);
        case.0.extend(case_of(&fill(self.case, places), usize::MAX).0.iter().cloned());
        Row {
            name: self.name.to_owned(),
            case,
            statistic,
            times,
            goal,
            ..Row::new(metric, unit, fill(self.pattern, places), difference)
        }
    }
}

/// A latency that should agree.
pub(super) const TIME: Reading = Reading {
    name: "",
    keyed: 0,
    case: "",
    metric: "latency",
    statistic: Statistic::Value,
    times: 1.0,
    unit: Unit::Ns,
    pattern: "",
    goal: Goal::Agree,
    difference: "",
};

pub(super) const RATE: Reading =
    Reading { metric: "bandwidth", unit: Unit::BPerS, goal: Goal::AtLeast, ..TIME };

fn port(places: &Places) -> Option<u16> {
    places.iter().find(|(name, _)| *name == "port")?.1.parse().ok()
}

pub(super) fn fill(text: &str, places: &Places) -> String {
    places
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// The words of a line with places: one argument for each word that is not empty then.
pub(super) fn words(line: &str, places: &Places) -> Vec<String> {
    let one = |word: &str| match word.strip_suffix("...}") {
        Some(place) => read::words(&fill(&format!("{place}}}"), places)),
        None => vec![fill(word, places)],
    };
    let all = line.split_whitespace().flat_map(one);
    all.filter(|word| !word.is_empty()).collect()
}
