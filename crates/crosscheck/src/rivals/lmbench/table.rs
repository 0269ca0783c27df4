//! The programs of lmbench that something of plumb's stands beside.

mod machine;
mod os;

use crate::ours::figure_value;
use crate::sides::case;
use crate::{Goal, Statistic};
use anyhow::Result;
use bench::experiment::Preset;
use record::run::Run;
use record::unit::Unit;

/// In arguments, for what the machine decides: a file, a directory, bytes.
pub(super) const VALUE: &str = "{}";

/// A program with what it is asked, and what of plumb's stands beside it.
pub(super) struct Entry {
    /// The pairing's name.
    pub name: &'static str,
    /// The least preset that has it.
    pub from: Preset,
    /// The program.
    pub program: &'static str,
    /// Its arguments after the number of repetitions.
    pub args: &'static str,
    /// Its interval is never shorter than this, whatever its options, in seconds.
    pub interval_s: f64,
    /// The interval in its options, in seconds.
    pub enough_s: f64,
    /// Whether it ends with a status (some leave `main` without one).
    pub has_status: bool,
    /// What must be there.
    pub needs: Needs,
    /// plumb's experiment.
    pub experiment: &'static str,
    /// What it is set to; of [`Needs::Arrays`], nothing.
    pub set: &'static str,
    /// What is compared.
    pub rows: &'static [Figure],
}

/// What a program needs.
#[derive(Clone, Copy)]
pub(super) enum Needs {
    Nothing,
    /// A file in the directory for files.
    File,
    /// A directory in memory.
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

/// A row of the table.
pub(super) struct Figure {
    pub name: &'static str,
    /// Parameters with a blank between.
    pub case: &'static str,
    pub metric: &'static str,
    pub statistic: Statistic,
    pub times: f64,
    pub unit: Unit,
    pub what: &'static str,
    pub goal: Goal,
    pub difference: &'static str,
}

/// All of them.
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    os::ENTRIES.iter().chain(machine::ENTRIES)
}

/// A program beside an experiment, as most are: any preset, no arguments, nothing needed.
const fn entry(program: &'static str, experiment: &'static str) -> Entry {
    Entry {
        name: "",
        from: Preset::Standard,
        program,
        args: "",
        interval_s: 0.0,
        enough_s: super::ENOUGH_S,
        has_status: true,
        needs: Needs::Nothing,
        experiment,
        set: "",
        rows: &[],
    }
}

impl Entry {
    const fn named(self, name: &'static str, from: Preset) -> Entry {
        Entry { name, from, ..self }
    }

    const fn asked(self, args: &'static str, set: &'static str) -> Entry {
        Entry { args, set, ..self }
    }

    const fn interval(self, interval_s: f64) -> Entry {
        Entry { interval_s, ..self }
    }

    const fn enough(self, enough_s: f64) -> Entry {
        Entry { enough_s, ..self }
    }

    const fn without_status(self) -> Entry {
        Entry { has_status: false, ..self }
    }

    const fn needs(self, needs: Needs) -> Entry {
        Entry { needs, ..self }
    }

    const fn beside(self, rows: &'static [Figure]) -> Entry {
        Entry { rows, ..self }
    }
}

impl Figure {
    const fn named(self, name: &'static str) -> Figure {
        Figure { name, ..self }
    }

    /// Of one of the command's cases.
    const fn of(self, case: &'static str, what: &'static str) -> Figure {
        Figure { case, what, ..self }
    }

    /// Of its only case.
    const fn read(self, what: &'static str) -> Figure {
        Figure { what, ..self }
    }

    const fn metric(self, metric: &'static str) -> Figure {
        Figure { metric, ..self }
    }

    const fn halved(self) -> Figure {
        Figure { times: 0.5, ..self }
    }

    const fn taken(self, statistic: Statistic) -> Figure {
        Figure { statistic, ..self }
    }

    const fn goal(self, goal: Goal) -> Figure {
        Figure { goal, ..self }
    }

    const fn differs(self, difference: &'static str) -> Figure {
        Figure { difference, ..self }
    }

    /// The difference explains whatever ratio there is.
    const fn explained(self, difference: &'static str) -> Figure {
        self.goal(Goal::Explained).differs(difference)
    }
}

/// A latency that should agree.
const TIME: Figure = Figure {
    name: "",
    case: "",
    metric: "latency",
    statistic: Statistic::Value,
    times: 1.0,
    unit: Unit::Ns,
    what: "",
    goal: Goal::Agree,
    difference: "",
};

/// A rate that should be reached.
const RATE: Figure = Figure { metric: "bandwidth", unit: Unit::BPerS, goal: Goal::AtLeast, ..TIME };

/// The value of a case of plumb's run, which has one experiment.
fn value(run: &Run, (name, choice): (&str, &str), metric: &str) -> Result<f64> {
    figure_value(run, &case(&format!("{name}={choice}")), metric)
}
