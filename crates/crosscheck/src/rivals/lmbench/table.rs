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

/// What most entries are.
const PLAIN: Entry = Entry {
    name: "",
    from: Preset::Standard,
    program: "",
    args: "",
    interval_s: 0.0,
    enough_s: super::ENOUGH_S,
    has_status: true,
    needs: Needs::Nothing,
    experiment: "",
    set: "",
    rows: &[],
};

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
