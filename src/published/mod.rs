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
use crate::sheet::{Figure, Sheet};
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
    serde_json::from_str(&packed!("published")).expect("a test reads every machine")
});

/// How long the rates are sustained with [`selectors`], which the reports show over 600 s.
pub const SETTINGS: [&str; 2] = ["cpu.sustained.duration=60s", "cpu.sustained.duration_part=20s"];

/// What only plots of the reports show: R3's rates over 600 s, R0's and R1's readers beside each
/// other.
const PLOTTED: [&str; 3] = [
    "cpu.sustained",
    "fs.contention:readers=processes,size=64KiB,pattern=sequential,competitors=0..15",
    "fs.contention:readers=threads,pattern=sequential,competitors=0..15",
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

/// Selectors of all reports' cases in the catalogue, or of the nearest ones.
pub fn preset() -> Vec<String> {
    let figures = SHEETS.values().flat_map(|sheet| &sheet.figures);
    let all = figures.map(selector).chain(PLOTTED.map(str::to_owned));
    all.gather::<BTreeSet<String>>().into_iter().collect()
}

/// The same of one machine, or of one of its tables.
/// Errors: as [`run`], and where no published machine has the name.
pub fn selectors(typed: &str) -> Result<Vec<String>, String> {
    let Some(found) = find(typed)? else {
        return Err(format!("no published machine is called {typed}; {}", listed(&names())));
    };
    let all = found.figures.into_iter().map(selector);
    Ok(all.gather::<BTreeSet<String>>().into_iter().collect())
}

/// A machine, with all its figures or those of a table.
struct Found {
    /// The machine's name.
    machine: String,
    /// The run's name: with the table, where one is meant.
    name: String,
    sheet: &'static Sheet,
    figures: Vec<&'static Figure>,
}

/// What a typed name means: `published/` and a machine's name or the part of it before a hyphen, as
/// in `published/r1`; after a colon a table by its name in the report.
fn find(typed: &str) -> Result<Option<Found>, String> {
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
    let all = sheet.figures.iter();
    let figures: Vec<&Figure> =
        all.filter(|figure| table.is_empty() || is_called(&figure.table, table)).collect();
    if figures.is_empty() {
        let tables = distinct(sheet.figures.iter().map(|one| one.table.clone()));
        return Err(format!("{PREFIX}{name} has no table {table}; {}", listed(&tables)));
    }
    let machine = format!("{PREFIX}{name}");
    let name = if table.is_empty() { machine.clone() } else { format!("{machine}:{table}") };
    Ok(Some(Found { machine, name, sheet, figures }))
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

/// The selector of the case that stands beside a figure: its own, or the nearest.
fn selector(figure: &Figure) -> String {
    let own = || figure.key().to_string();
    let key = figure.nearest().map_or_else(own, str::to_owned);
    let case = key.rsplit_once(' ').map_or(&*key, |(case, _)| case);
    match case.starts_with("memory.latency:") && case.contains("level=") {
        // A level's figures follow from the walk over all footprints.
        true => "memory.latency:pattern=random,load=pointer".to_owned(),
        false => case.to_owned(),
    }
}
