//! Static data about an experiment: its card and its parameters.

use super::{Unit, ViewCard};
use record::event::{Isolation, Repeat};
use record::key_figure::KeyFigure;
use record::metric::Metric;

/// Static data about an experiment.
pub struct Card {
    /// The family and the file: `family.file`.
    pub id: &'static str,
    pub title: &'static str,
    pub metrics: &'static [Metric],
    /// Its parameters: those of a case, in canonical order, then settings.
    pub params: &'static [Param],
    /// Experiments whose figures its sizes or predictions use.
    pub after: &'static [&'static str],
    pub repeat: Repeat,
    pub isolation: Isolation,
    /// What it cannot do without.
    pub needs: &'static [Need],
    /// How a report shows it, beside tables: the most telling view first.
    pub views: &'static [ViewCard],
    /// Its figures in the summary of a run, in the order of a line.
    pub keys: &'static [KeyFigure],
}

impl Card {
    /// What most cards have: rounds that are shared with others, and nothing else.
    pub const PLAIN: Card = Card {
        id: "",
        title: "",
        metrics: &[],
        params: &[],
        after: &[],
        repeat: Repeat::Rounds,
        isolation: Isolation::Shared,
        needs: &[],
        views: &[],
        keys: &[],
    };
}

/// What [`crate::measure::Bench`] sees to by itself in the rounds of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hazards {
    /// Cases touch files which may hang the worker in the kernel: where a visit says nothing more
    /// in time, the case has failed, and the series goes on without it. (What an experiment that
    /// needs a directory does before its first case is watched as well: where it hangs there, all
    /// its cases have failed.)
    pub hangs: bool,
    /// For which cases much memory is taken: where the kernel's OOM killer ends the worker, they
    /// have failed for that reason, and the series goes on without them.
    pub memory: Claim,
    /// The round sleeps for a device or a server, or keeps a schedule: time that its measuring
    /// thread then waits for a CPU is not theirs, and much of it disturbs.
    pub run_delay: bool,
}

impl Hazards {
    /// What most experiments have: none of them.
    pub const NONE: Hazards = Hazards { hangs: false, memory: Claim::Little, run_delay: false };
    /// The hazards of files on a device or a server.
    pub const FILES: Hazards = Hazards { hangs: true, run_delay: true, ..Hazards::NONE };
}

/// For which cases a round takes much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Little,
    /// Each case takes its own.
    OfCase,
    /// All share what is taken at the start.
    OfRound,
}

/// What an experiment cannot do without; missing ones are skips with a reason, in planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A writable directory on a real file system.
    Directory,
    Numa,
    TwoCpus,
}

/// A parameter: of the case's identity, or a setting of the apparatus.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: &'static str,
    /// One line: what it is, and for defaults that depend on the machine, how they are chosen.
    pub doc: &'static str,
    /// What values it takes.
    pub domain: Domain,
    /// Default per preset (quick, standard, thorough) as a user would type it: `1,2,4`. `auto`
    /// where the experiment chooses from the machine. A rehearsal takes quick's.
    pub defaults: [&'static str; 3],
    /// Part of the case's identity, or a setting.
    pub role: Role,
}

impl Param {
    /// A setting, with its default per preset (quick, standard, thorough).
    pub const fn setting(
        name: &'static str,
        doc: &'static str,
        domain: Domain,
        defaults: [&'static str; 3],
    ) -> Param {
        Param { name, doc, domain, defaults, role: Role::Setting }
    }
}

/// Whether a parameter names a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Part of the case's identity.
    Case,
    /// A setting that all cases of a series share; one value.
    Setting,
}

/// The values a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// One of these symbols.
    Symbols(&'static [&'static str]),
    /// An integer in base units (given with its unit), both ends included.
    Integer {
        low: u64,
        high: u64,
        /// Unit: [`Unit::B`], [`Unit::Count`] or [`Unit::Ns`].
        unit: Unit,
    },
    /// A symbol of these, or an integer in the range.
    Either(&'static [&'static str], u64, u64, Unit),
    /// One text, commas included: a path or a URL. Only for settings.
    Text,
    /// A name: one of these, or one that the user gave (letters, digits, `-`, `_`, `.`).
    Name(&'static [&'static str]),
}

impl Domain {
    /// Sizes in bytes, both ends included.
    pub const fn bytes(low: u64, high: u64) -> Domain {
        let unit = Unit::B;
        Domain::Integer { low, high, unit }
    }

    /// Numbers, both ends included.
    pub const fn count(low: u64, high: u64) -> Domain {
        let unit = Unit::Count;
        Domain::Integer { low, high, unit }
    }

    /// Times in ns, both ends included.
    pub const fn ns(low: u64, high: u64) -> Domain {
        let unit = Unit::Ns;
        Domain::Integer { low, high, unit }
    }

    /// The unit of its integers.
    pub fn unit(&self) -> Option<Unit> {
        match self {
            Domain::Symbols(_) | Domain::Text | Domain::Name(_) => None,
            Domain::Integer { unit, .. } | Domain::Either(_, _, _, unit) => Some(*unit),
        }
    }
}
