//! The machines of the published reports R0 to R4: five lab reports of students, whose measurements
//! plumb repeats. Anyone can show one, and compare a run with it.
//!
//! `data/published` has a sheet for each machine (docs/SHEETS.md), with every figure of every table
//! and those that only a text gives. A figure that a case of the catalogue measures as well has that
//! case's key. What else is printed, and a second reading of a figure (text against table), has
//! `as_reported=…` in its case and names the nearest case. Slips are on the figures that they
//! concern. What the reports themselves expected is the prior prediction of a figure.

mod build;
#[cfg(test)]
pub(crate) mod tests;

use crate::packed::packed;
use crate::sheet::{Datum, Plot, Sheet};
use analysis::among::Machine;
use analysis::gather::distinct;
use record::order::Gather;
use record::run::Run;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// What their names begin with.
pub const PREFIX: &str = "published/";

/// The parameter of a case that no case of the catalogue measures, or of a second reading.
pub(crate) const AS_REPORTED: &str = "as_reported";

/// The machines by their names after the prefix.
pub(crate) static SHEETS: LazyLock<BTreeMap<String, Sheet>> = LazyLock::new(|| {
    let sheets = Sheet::read_all(&packed!("published")).expect("a test reads every machine");
    sheets.into_iter().collect()
});

/// Parameters of [`preset`] and of the tables: how long the rates are sustained, which R3 shows over
/// 600 s; the file cache of the memory, and of a control group that every disk has room for.
const SETTINGS: [&str; 3] = [
    "cpu.sustained.duration=60s",
    "cpu.sustained.duration_part=20s",
    "fs.cache_size.limit=1GiB,memory",
];

/// The names of the machines, as they are typed: `published/r0-i7-3770k` …
pub fn names() -> Vec<String> {
    SHEETS.keys().map(|name| format!("{PREFIX}{name}")).collect()
}

/// All of them, for a run to stand among.
pub fn machines() -> Vec<Machine> {
    let machine = |(name, sheet): (&String, &Sheet)| Machine {
        name: format!("{PREFIX}{name}"),
        source: sheet.source.clone(),
        values: sheet.figures.iter().map(|figure| (figure.key(), figure.value)).collect(),
    };
    SHEETS.iter().map(machine).collect()
}

/// The run of `published/NAME`, or of one of its tables by `published/NAME:TABLE`; `None` for a name
/// that is no published machine's.
/// Errors: the name means several machines, or the report has no such table.
pub fn run(typed: &str) -> Result<Option<Run>, String> {
    let machine = find(typed)?;
    Ok(machine.map(|found| build::run(&found)))
}

/// The run of another machine, whose sheet has what a report states.
pub fn run_of(name: &str, sheet: &Sheet) -> Run {
    let (machine, name) = (name.to_owned(), name.to_owned());
    build::run(&Found {
        machine,
        name,
        sheet,
        figures: sheet.figures.iter().collect(),
        plots: Vec::new(),
    })
}

/// What is measured: selectors, and values of parameters as `--set` takes them.
pub struct Cases {
    pub selectors: Vec<String>,
    pub settings: Vec<String>,
}

/// All reports' cases in the catalogue, or the nearest ones.
pub fn preset() -> Cases {
    cases(SHEETS.values().flat_map(|sheet| &sheet.figures), SHEETS.values().flat_map(plots))
}

/// The same of one machine, or of one of its tables, whose plots have their own settings.
/// Errors: as [`run`], and where no published machine has the name.
pub fn named(typed: &str) -> Result<Cases, String> {
    let Some(Found { machine, name, figures, plots, .. }) = find(typed)? else {
        return Err(format!("no published machine is called {typed}; {}", listed(&names())));
    };
    let mut found = cases(figures.into_iter(), plots.iter().copied());
    if name != machine {
        let settings = plots.iter().flat_map(|plot| &plot.settings);
        found.settings.extend(settings.cloned());
    }
    Ok(found)
}

fn cases<'sheet>(
    figures: impl Iterator<Item = &'sheet Datum>,
    plots: impl Iterator<Item = &'sheet Plot>,
) -> Cases {
    let plotted = plots.flat_map(|plot| plot.selectors.iter().cloned());
    let all: BTreeSet<String> = figures.flat_map(selectors_of).chain(plotted).gather();
    Cases { selectors: all.into_iter().collect(), settings: SETTINGS.map(str::to_owned).into() }
}

fn plots(sheet: &Sheet) -> impl Iterator<Item = &Plot> {
    sheet.report.iter().flat_map(|report| &report.plots)
}

/// A machine, with all its figures or those of a table.
struct Found<'sheet> {
    machine: String,
    /// The run's name: with the table, where one is meant.
    name: String,
    sheet: &'sheet Sheet,
    figures: Vec<&'sheet Datum>,
    plots: Vec<&'sheet Plot>,
}

/// What a typed name means: `published/` and a machine's name or the part of it before a hyphen, as
/// in `published/r1`; after a colon a table by its name in the report.
fn find(typed: &str) -> Result<Option<Found<'static>>, String> {
    let Some(rest) = typed.strip_prefix(PREFIX) else { return Ok(None) };
    let (machine, table) = rest.split_once(':').unwrap_or((rest, ""));
    let is_meant = |name: &str| {
        name.strip_prefix(machine).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let meant: Vec<_> = SHEETS.iter().filter(|(name, _)| is_meant(name)).collect();
    let (name, sheet) = match meant[..] {
        [] => return Ok(None),
        [one] => one,
        _ => {
            let names: Vec<String> =
                meant.iter().map(|(name, _)| format!("{PREFIX}{name}")).collect();
            return Err(format!("{PREFIX}{machine} means several machines; {}", listed(&names)));
        }
    };
    let is_meant = |name: &str| table.is_empty() || is_called(name, table);
    let figures: Vec<&Datum> =
        sheet.figures.iter().filter(|figure| is_meant(&figure.table)).collect();
    let found: Vec<&Plot> = plots(sheet).filter(|plot| is_meant(&plot.table)).collect();
    if figures.is_empty() && found.is_empty() {
        let printed = sheet.figures.iter().map(|one| one.table.clone());
        let tables = distinct(printed.chain(plots(sheet).map(|plot| plot.table.clone())));
        return Err(format!("{PREFIX}{name} has no table {table}; {}", listed(&tables)));
    }
    let machine = format!("{PREFIX}{name}");
    let name = if table.is_empty() { machine.clone() } else { format!("{machine}:{table}") };
    Ok(Some(Found { machine, name, sheet, figures, plots: found }))
}

fn listed(names: &[String]) -> String {
    format!("there are: {}", names.join("; "))
}

/// Whether a table is meant by a name: its own, with or without the word `Table`, or the part of it
/// before a space, comma or colon.
fn is_called(table: &str, typed: &str) -> bool {
    let bare = table.split_once(' ').filter(|(word, _)| word.starts_with("Table"));
    [table, bare.map_or(table, |(_, number)| number)].iter().any(|name| {
        name.strip_prefix(typed)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',', ':']))
    })
}

/// The selectors of the cases that stand beside a figure: its own or the nearest, and the one for
/// machines without it; at any far end on another host. The catalogue or this machine may have none.
fn selectors_of(figure: &Datum) -> impl Iterator<Item = String> {
    let own = figure.nearest().map_or_else(|| figure.key().to_string(), str::to_owned);
    let keys = std::iter::once(own).chain(figure.otherwise().map(str::to_owned));
    keys.map(|key| selector(&key))
}

fn selector(key: &str) -> String {
    let case = key.rsplit_once(' ').map_or(key, |(case, _)| case);
    match case.starts_with("memory.latency:") && case.contains("level=") {
        // A level's figures follow from the walk over all footprints.
        true => "memory.latency:pattern=random,load=pointer".to_owned(),
        false => {
            let mark = if case.contains(':') { "?" } else { "" };
            case.replace("far=peer", "far=!loopback") + mark
        }
    }
}
