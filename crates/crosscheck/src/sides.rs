//! What most pairings have, said once: both sides on the first CPU, figures that should agree.

use super::{Conditions, Goal, Ours, Pairing, Row, Statistic, Theirs};
use bench::experiment::Skip;
use record::key::CaseId;
use record::unit::Unit;
use std::time::Duration;

/// The case of parameters (`op=read block=4096`); a value that is a number is one.
pub(super) fn case(set: &str) -> CaseId {
    case_of(set, usize::MAX)
}

pub(super) fn case_of(set: &str, count: usize) -> CaseId {
    let pairs = set.split_whitespace().filter_map(|one| one.split_once('='));
    pairs.take(count).fold(CaseId::new(), |case, (name, value)| match value.parse::<u64>() {
        Ok(number) => case.with(name, number),
        Err(_) => case.with(name, value),
    })
}

impl Conditions {
    /// plumb's side on the first CPU, for five seconds at most.
    pub(super) fn ours(&self, experiment: &'static str, set: &str) -> Ours {
        Ours {
            experiment,
            set: set.to_owned(),
            cpus: vec![self.cpus[0]],
            dir: None,
            budget: Duration::from_secs(5),
            preset: self.lengths(),
        }
    }

    /// A program on the first CPU, ended after a minute.
    pub(super) fn theirs(&self, program: &'static str, args: &[&str]) -> Theirs {
        Theirs {
            program,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            cpus: vec![self.cpus[0]],
            limit: Duration::from_secs(60),
            ..Theirs::default()
        }
    }

    /// Whole seconds that a rival runs in one turn, where it takes no parts of them.
    pub(super) fn whole_seconds(&self) -> u64 {
        self.seconds.ceil().max(1.0) as u64
    }

    /// Why what takes two CPUs cannot be run, where there is one.
    pub(super) fn alone(&self, why: &str) -> Option<Skip> {
        let needed = "a second CPU, named by --cpu";
        (self.cpus.len() < 2).then(|| Skip::because(why).needs(needed))
    }

    /// The first two CPUs, as many as there are.
    pub(super) fn pair(&self) -> Vec<usize> {
        self.cpus.iter().copied().take(2).collect()
    }
}

impl Ours {
    /// What `--set` is given.
    pub(super) fn settings(&self) -> Vec<String> {
        self.set.split_whitespace().map(|one| format!("{}.{one}", self.experiment)).collect()
    }

    #[cfg(test)]
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        let mut pairs = self.set.split_whitespace().filter_map(|one| one.split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub(super) fn on(self, cpus: &[usize]) -> Ours {
        Ours { cpus: cpus.to_vec(), ..self }
    }

    pub(super) fn within(self, seconds: u64) -> Ours {
        Ours { budget: Duration::from_secs(seconds), ..self }
    }
}

impl Theirs {
    pub(super) fn on(self, cpus: &[usize]) -> Theirs {
        Theirs { cpus: cpus.to_vec(), ..self }
    }

    pub(super) fn within(self, seconds: u64) -> Theirs {
        Theirs { limit: Duration::from_secs(seconds), ..self }
    }
}

impl Pairing {
    pub(super) fn new(
        name: impl Into<String>,
        ours: Ours,
        theirs: Theirs,
        rows: impl Into<Vec<Row>>,
    ) -> Pairing {
        let (name, rows) = (name.into(), rows.into());
        Pairing { name, ours, theirs, rows, skip: None, is_once: false }
    }

    pub(super) fn on(self, cpus: &[usize]) -> Pairing {
        Pairing { ours: self.ours.on(cpus), theirs: self.theirs.on(cpus), ..self }
    }

    /// The pairing with plumb's files in the directory that is measured.
    pub(super) fn in_files(mut self, conditions: &Conditions) -> Pairing {
        self.ours.dir.clone_from(&conditions.files);
        self.unless(conditions.no_files())
    }

    /// The pairing, skipped for its earlier reason or for this one.
    pub(super) fn unless(self, skip: Option<Skip>) -> Pairing {
        Pairing { skip: self.skip.or(skip), ..self }
    }
}

impl Row {
    /// The nameless row of a command with one case, whose value should agree.
    pub(super) fn new(
        metric: &'static str,
        unit: Unit,
        what: impl Into<String>,
        difference: &'static str,
    ) -> Row {
        Row {
            name: String::new(),
            case: CaseId::new(),
            metric,
            statistic: Statistic::Value,
            times: 1.0,
            unit,
            what: what.into(),
            goal: Goal::Agree,
            difference,
        }
    }
}
