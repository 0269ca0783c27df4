//! A machine as data: its description and the figures of one run, without what names it
//! (docs/SHEETS.md). Laws are judged by sheets of many machines.

pub mod cloud;
pub mod export;
#[cfg(test)]
mod fit;
#[cfg(test)]
mod judge;
mod rows;
#[cfg(test)]
mod score;
#[cfg(test)]
mod tests;
mod text;
#[cfg(test)]
mod widths;

use crate::packed::packed;
use analysis::among::Machine;
use bench::experiment::AnyExperiment;
use catalogue::find;
use host::Host;
use host::given::FACTS;
use record::event::{Outcome, Prediction, Trace};
use record::key::{CaseId, FAR, Key, LOOPBACK, Value};
use record::metric::Metric;
use record::order::Gather as _;
use record::unit::Unit;
use record::view::View;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use text::{Refused, Section};

/// Where the directory for files is mounted in a sheet, which has no paths.
const FILES: &str = "/";

#[derive(Debug)]
pub struct Sheet {
    /// Where the figures come from: a run of plumb, or a publication.
    pub source: String,
    /// CPUs that were measured on, the measuring thread's first.
    pub cpus: Vec<usize>,
    /// The machine as laws see it. The file system that held the files is the only one, at `/`.
    pub host: Host,
    pub figures: Vec<Datum>,
    /// The report that printed the figures, of a published machine.
    pub report: Option<Report>,
}

/// What a report states beside its figures.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Written like this: `R0` to `R4`.
    pub name: String,
    /// When it was written, in words.
    pub dated: String,
    /// Rate of the counter whose ticks it calls cycles, in Hz; 0 where it prints none.
    pub counter_hz: f64,
    /// Core clock, in Hz; 0 where it is not stated.
    pub core_hz: f64,
    /// Conditions by name; `clocks` says both clocks in a sentence.
    pub environment: BTreeMap<String, String>,
    pub methods: BTreeMap<String, String>,
    /// How an experiment is shown besides as its card says; a picture over time in place of the
    /// card's.
    #[serde(default)]
    pub views: BTreeMap<String, Vec<View>>,
    /// Points of its pictures over time.
    #[serde(default)]
    pub traces: Vec<Trace>,
    /// Plots without printed figures, and what measures them.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// What its text does not contain: plots, and a table that is a picture.
    #[serde(default)]
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// What an imported machine states in place of a report.
    pub fn imported(name: &str, sheet: &Sheet) -> Report {
        let method = format!("The figures come from {}.", sheet.source);
        let ids = sheet.figures.iter().map(|figure| figure.experiment.clone());
        Report {
            name: name.to_owned(),
            dated: String::new(),
            counter_hz: 0.0,
            core_hz: 0.0,
            environment: BTreeMap::new(),
            methods: ids.map(|id| (id, method.clone())).gather(),
            views: BTreeMap::new(),
            traces: Vec::new(),
            plots: Vec::new(),
            outcomes: Vec::new(),
        }
    }
}

/// A plot of a report whose points are not printed, or not all of them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The plot's name in the report, or the name of the table with its points.
    pub table: String,
    pub selectors: Vec<String>,
    #[serde(default)]
    pub settings: Vec<String>,
}

/// What a sheet states of one case and metric. In a run it becomes a figure of analysis. All quantities
/// but the cycles are in the metric's unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datum {
    pub experiment: String,
    pub case: CaseId,
    pub metric: String,
    unit: Unit,
    pub value: f64,
    /// Its interval, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ci: Option<(f64, f64)>,
    /// The same while no other program or guest used the core (METHOD §2a), where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alone: Option<Estimate>,
    /// The value that a report prints in cycles of the core's clock, where it is a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cycles: Option<f64>,
    /// What the case's symbols came to on this machine before the run; of a report's figure what it
    /// prints, and the nearest case (docs/FORMAT.md, published machines).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub table: String,
    /// What must be known of the report's figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Prediction>,
    /// Whether laws are judged by the report's figure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scored: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate {
    value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ci: Option<(f64, f64)>,
}

/// The machines of `data/sheets`, with their figures as reports print them.
pub fn machines() -> Vec<Machine> {
    let text = packed!("sheets");
    let sections = text::sections(&text).expect("a test reads every sheet");
    let machine = |section: Section| Machine {
        name: format!("sheet/{}", section.name),
        source: section.source().expect("a test reads every source"),
        values: section
            .figures
            .iter()
            .map(|(_, figure)| (figure.key(), figure.printed()))
            .collect(),
    };
    let sections = sections.into_iter().filter(Section::is_machine);
    let mut all: Vec<Machine> = sections.map(machine).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// The sheets of `data/sheets` by their names, read after the kinds of machines.
#[cfg(test)]
fn sheets() -> BTreeMap<String, Sheet> {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let read = |path| std::fs::read_to_string(path).expect("it is in the repository");
    let kinds = read(data.join("kinds.sheet"));
    let files = std::fs::read_dir(data.join("sheets")).expect("the sheets are in the repository");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("it can be listed").path();
        let text = kinds.clone() + &read(path.clone());
        let row = |line: usize| text.lines().nth(line - 1).unwrap_or_default().to_owned();
        Sheet::read_all(&text)
            .unwrap_or_else(|why| panic!("{}: {why}: {}", path.display(), row(why.line)))
    };
    files.flat_map(file).collect()
}

impl Sheet {
    /// The sheet of a text that describes one machine. Errors: what is wrong with it, and in which line.
    pub fn read(text: &str) -> Result<Sheet, Refused> {
        let mut all = Sheet::read_all(text)?;
        match all.pop() {
            Some((_, sheet)) if all.is_empty() => Ok(sheet),
            found => {
                let count = all.len() + usize::from(found.is_some());
                Err(Refused { line: 1, why: format!("{count} machines in place of one") })
            }
        }
    }

    /// The machines of a text, with their names, which a text of one machine may leave empty.
    /// Errors: what is wrong with it, and in which line.
    pub fn read_all(text: &str) -> Result<Vec<(String, Sheet)>, Refused> {
        let sections = text::sections(text)?.into_iter().filter(Section::is_machine);
        sections.map(|section| Ok((section.name.to_owned(), section.sheet()?))).collect()
    }

    /// The sheet, if a machine can be as it says. Errors: what is impossible, with the number of the
    /// figure that is.
    fn checked(self) -> Result<Sheet, (Option<usize>, String)> {
        let has = self.host.cpu.usable();
        if let Some(cpu) = self.cpus.iter().find(|cpu| !has.contains(cpu)) {
            return Err((None, format!("the machine has no CPU {cpu}")));
        }
        let missing = [
            (self.source.is_empty(), "the source of the figures"),
            (self.cpus.is_empty(), "the CPUs that were measured on"),
            (self.figures.is_empty(), "a figure"),
        ];
        if let Some((_, what)) = missing.iter().find(|(is_missing, _)| *is_missing) {
            return Err((None, format!("{what} is missing")));
        }
        let mut keys = BTreeSet::new();
        for (nth, figure) in self.figures.iter().enumerate() {
            figure.check().map_err(|why| (Some(nth), why))?;
            if !keys.insert(figure.key()) {
                return Err((Some(nth), format!("{} is there twice", figure.key())));
            }
        }
        Ok(self)
    }

    /// Its text. Errors: it has what JSON has not.
    pub fn text(&self) -> serde_json::Result<String> {
        text::text(self)
    }
}

impl Datum {
    pub fn key(&self) -> Key {
        Key::new(&self.experiment, &self.case, &self.metric)
    }

    /// One of the texts that a report's figure has.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.at.get(name).and_then(Value::text)
    }

    /// Key of the case of ours that is nearest to a report's figure, where none is the same.
    pub fn nearest(&self) -> Option<&str> {
        self.fact("nearest")
    }

    /// The value that a report prints: while the core was this machine's alone, where that is known.
    fn printed(&self) -> f64 {
        self.estimate_printed().0
    }

    pub fn estimate_printed(&self) -> (f64, Option<(f64, f64)>) {
        self.alone.map_or((self.value, self.ci), |alone| (alone.value, alone.ci))
    }

    /// Key of the case that stands beside a report's figure where this machine lacks the nearest one.
    pub fn otherwise(&self) -> Option<&str> {
        self.fact("otherwise")
    }

    /// Its experiment and metric. Errors: there is no such experiment, or it has no such metric.
    pub fn metric(&self) -> Result<(&'static dyn AnyExperiment, &'static Metric), String> {
        let Datum { experiment, metric, .. } = self;
        let found =
            find(experiment).ok_or_else(|| format!("no experiment is called {experiment}"))?;
        let named = found.card().metrics.iter().find(|of| of.name == *metric);
        Ok((found, named.ok_or_else(|| format!("{experiment} has no metric {metric}"))?))
    }

    /// Errors: plumb does not know this figure, or no machine can have it.
    fn check(&self) -> Result<(), String> {
        let (experiment, metric) = self.metric()?;
        let (key, unit) = (self.key(), self.unit);
        if metric.unit != unit {
            return Err(format!("{key} is in {}, not in {unit}", metric.unit));
        }
        let is_known = |name: &str| experiment.card().params.iter().any(|param| param.name == name);
        let (is_reported, is_another) = (!self.table.is_empty(), self.nearest().is_some());
        if let Some((name, _)) = self.case.0.iter().find(|(name, _)| !is_another && !is_known(name))
        {
            return Err(format!("{} has no parameter {name}", self.experiment));
        }
        if !is_reported && self.case.text(FAR).is_some_and(|far| far != LOOPBACK) {
            return Err(format!("{key}: a sheet describes one machine, without a far end"));
        }
        let (found, cycles) = (Estimate { value: self.value, ci: self.ci }, self.cycles);
        let cycles = cycles.map(|value| (Estimate { value, ci: None }, Unit::Cycle));
        let all = [Some((found, unit)), self.alone.map(|alone| (alone, unit)), cycles];
        match all.into_iter().flatten().find(|(one, unit)| !one.is_possible(*unit, metric.derived))
        {
            Some((Estimate { value, ci: None }, unit)) => {
                Err(format!("{key}: {value} {unit} is impossible"))
            }
            Some((Estimate { value, ci: Some((low, high)) }, unit)) => Err(format!(
                "{key}: {value} {unit} in an interval from {low} to {high} is impossible"
            )),
            None => Ok(()),
        }
    }
}

/// Units that have the limits of a fact that a user may give.
const LIMITED: [(Unit, &str); 2] = [(Unit::Hz, "cpu.max_hz"), (Unit::BPerS, "memory.bandwidth")];

impl Estimate {
    /// Whether the interval holds the value and reaches what a machine can have. What several cases
    /// give together may be a difference, and so below zero.
    fn is_possible(&self, unit: Unit, is_derived: bool) -> bool {
        let Estimate { value, ci } = *self;
        let (low, high) = ci.unwrap_or((value, value));
        let limit = LIMITED.iter().find(|(of, _)| *of == unit);
        let fact = limit.and_then(|(_, name)| FACTS.iter().find(|fact| fact.name == *name));
        let most = fact.map_or(f64::MAX, |fact| fact.range.1);
        low <= value && value <= high && (is_derived || value >= 0.0) && value <= most
    }
}
