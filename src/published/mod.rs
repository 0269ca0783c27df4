//! The machines of the published reports R0 to R4 as runs that anyone can compare with: figures as
//! they were printed, each with its source and statistic.
//!
//! Every figure of every table stands here, and those that only a text gives; `hosts` has a folder
//! for each machine: its description and the tables of its report. A figure that a case of the
//! catalogue measures as well has that case's key. What else is printed, and a second reading of a
//! figure (text against table), stands under `as_reported=…` and names the nearest case. Slips are
//! noted on the figures that they concern. What the reports themselves
//! expected is the prior prediction of the figure.

mod build;
#[cfg(test)]
mod offered;
#[cfg(test)]
pub(crate) mod score;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod traces;

use crate::packed::packed;
use build::key_of;
#[cfg(test)]
use build::{case_of, nearest_of};
use record::order::Gather;
use record::run::Run;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use table::Report;

/// What their names begin with.
const PREFIX: &str = "published/";

/// The reports from their files.
macro_rules! reports {
    ($($name:literal),*) => {
        vec![$(Report {
            tree: packed!(concat!($name, "-tree.txt")),
            ..serde_json::from_str(&packed!(concat!($name, "-report.json")))
                .expect("a test reads every report")
        }),*]
    };
}

/// The machines.
pub(crate) static REPORTS: LazyLock<Vec<Report>> = LazyLock::new(|| {
    reports![
        "r0-i7-3770k",
        "r1-i5-2557m",
        "r2-i5-5257u",
        "r3-t2-micro",
        "r4-e6300",
        "r4-magny-cours"
    ]
});

/// The names of the machines, as they are typed: `published/r0-i7-3770k` …
pub fn names() -> Vec<String> {
    let names = REPORTS.iter().map(|report| &report.name);
    names.map(|name| format!("{PREFIX}{name}")).collect()
}

/// All of them.
pub fn runs() -> Vec<Run> {
    names().iter().filter_map(|name| run(name)).collect()
}

/// How long the rates are sustained with [`selectors`], which the reports show over 600 s.
pub const SETTINGS: [&str; 2] = ["cpu.sustained.duration=60s", "cpu.sustained.duration_part=20s"];

/// What only plots of the reports show: R3's rates over 600 s, R0's and R1's readers beside each
/// other.
const PLOTTED: [&str; 3] = [
    "cpu.sustained",
    "fs.contention:readers=processes,size=64KiB,pattern=sequential,competitors=0..15",
    "fs.contention:readers=threads,pattern=sequential,competitors=0..15",
];

/// Selectors of the reports' cases in the catalogue, or of the nearest ones.
pub fn selectors() -> Vec<String> {
    let tables = REPORTS.iter().flat_map(|report| &report.tables);
    let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let selectors = rows.map(|(table, row)| {
        let key = key_of(table, row);
        let case = key.case;
        match case.get("level").filter(|_| key.experiment == "memory.latency") {
            // A level's figures follow from the walk over all footprints.
            Some(_) => format!("{}:pattern=random,load=pointer", key.experiment),
            None if case.0.is_empty() => key.experiment,
            None => format!("{}:{case}", key.experiment),
        }
    });
    let plotted = PLOTTED.map(str::to_owned);
    selectors.chain(plotted).gather::<BTreeSet<String>>().into_iter().collect()
}

/// The run of a machine; `None` for a name that is not in [`names`].
pub fn run(name: &str) -> Option<Run> {
    let machine = name.strip_prefix(PREFIX)?;
    let report = REPORTS.iter().find(|report| report.name == machine)?;
    Some(build::run(name, report))
}
