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

/// The case of the first so many of them.
pub(super) fn case_of(set: &str, count: usize) -> CaseId {
    let pairs = set.split_whitespace().filter_map(|one| one.split_once('='));
    pairs.take(count).fold(CaseId::new(), |case, (name, value)| match value.parse::<u64>() {
        Ok(number) => case.with(name, number),
        Err(_) => case.with(name, value),
    })
}

/// The words of a line, as arguments.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
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

    /// The same with files in the directory that is measured.
    pub(super) fn ours_in_files(&self, experiment: &'static str, set: &str) -> Ours {
        Ours { dir: self.files.clone(), ..self.ours(experiment, set) }
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

    /// plumb's hand-over of a cache line from the first of two CPUs to the last, and its row.
    pub(super) fn hand_over(
        &self,
        cpus: &[usize],
        what: &str,
        difference: &'static str,
    ) -> (Ours, Row) {
        let (from, to) = (cpus[0], cpus[cpus.len() - 1]);
        let set = format!("from={from} to={to}");
        let row = Row::new("transfer", Unit::Ns, what, difference);
        (self.ours("cpu.core_to_core", &set).on(cpus), Row { case: case(&set), ..row })
    }

    /// Why no line can be handed over, where there is one CPU.
    pub(super) fn nobody_to_hand_to(&self) -> Option<Skip> {
        self.alone("there is one CPU, so no other core can take a line over")
    }
}

impl Ours {
    /// What `--set` is given.
    pub(super) fn settings(&self) -> Vec<String> {
        self.set.split_whitespace().map(|one| format!("{}.{one}", self.experiment)).collect()
    }

    /// The value of a parameter.
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
    /// One that can be run, in turns.
    pub(super) fn new(
        name: impl Into<String>,
        ours: Ours,
        theirs: Theirs,
        rows: impl Into<Vec<Row>>,
    ) -> Pairing {
        let (name, rows) = (name.into(), rows.into());
        Pairing { name, ours, theirs, rows, skip: None, is_once: false }
    }

    pub(super) fn unless(self, skip: Option<Skip>) -> Pairing {
        Pairing { skip, ..self }
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
