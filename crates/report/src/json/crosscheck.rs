//! The flat result's part on other tools.

use analysis::crosscheck::{Beside, Bout, Compared, rivals};
use record::crosscheck::Goal;
use record::event::{Absence, Ending};
use record::key::CaseId;
use record::run::Run;
use record::unit::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

/// Another tool, with its comparisons.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatRival {
    /// Its name.
    name: String,
    /// One line: what it is.
    about: Option<String>,
    /// Its Debian package.
    package: Option<String>,
    /// The version that it reported.
    version: Option<String>,
    /// Why it was not run, and what would help; null if it was run.
    absent: Option<Absence>,
    /// Its comparisons.
    pairings: Vec<FlatPairing>,
}

/// One command of each side, run in turns.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatPairing {
    /// Unique among the rival's.
    name: String,
    /// plumb's command.
    ours: Vec<String>,
    /// The rival's command.
    theirs: Vec<String>,
    /// Input files of the rival in its directory: name and text.
    inputs: BTreeMap<String, String>,
    /// Commands to run there once before the first turn.
    prepare: Vec<Vec<String>>,
    /// The rival's far end, which runs during all turns; null without one.
    server: Option<Vec<String>>,
    /// How it ended; null if it was cut off.
    outcome: Option<Ending>,
    /// Why it was skipped or failed.
    reason: Option<String>,
    /// What would help a skipped one.
    needed: Option<String>,
    /// Turns that it has.
    turns: usize,
    /// Other load on the CPUs in its turns; null if it was small or is unknown.
    disturbed: Option<String>,
    /// What was compared.
    rows: Vec<FlatRow>,
}

/// One figure of each side.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatRow {
    /// Unique in the pairing; empty if it is the only row.
    name: String,
    /// plumb's experiment.
    experiment: String,
    /// Parameters that distinguish its case from the others of the command.
    case: CaseId,
    /// Its metric.
    metric: String,
    /// The statistic of its samples.
    statistic: String,
    /// Unit of both values.
    unit: Unit,
    /// plumb's value: the median over the turns; null without a turn.
    ours: Option<f64>,
    /// The rival's.
    theirs: Option<f64>,
    /// plumb's value over the rival's, turn by turn.
    ratios: Vec<f64>,
    /// Their median.
    ratio: Option<f64>,
    /// Its interval; null below six turns.
    ci: Option<(f64, f64)>,
    /// Actual confidence of the interval.
    confidence: Option<f64>,
    /// The expected ratio.
    goal: Goal,
    /// `met`, `missed`, `undecided`, `explained`, `not judged` or `not compared`.
    verdict: String,
    /// The difference in method, if known.
    difference: String,
}

pub(super) fn flat(run: &Run) -> Vec<FlatRival> {
    rivals(run).into_iter().map(of_rival).collect()
}

fn of_rival(beside: Beside<'_>) -> FlatRival {
    let rival = beside.rival.cloned();
    FlatRival {
        name: beside.name.to_owned(),
        about: rival.as_ref().map(|rival| rival.about.clone()),
        package: rival.as_ref().and_then(|rival| rival.package.clone()),
        version: rival.as_ref().and_then(|rival| rival.version.clone()),
        absent: rival.and_then(|rival| rival.absent),
        pairings: beside.bouts.into_iter().map(of_pairing).collect(),
    }
}

fn of_pairing(bout: Bout<'_>) -> FlatPairing {
    FlatPairing {
        name: bout.pairing.name.clone(),
        ours: bout.pairing.ours.clone(),
        theirs: bout.pairing.theirs.clone(),
        inputs: bout.pairing.inputs.clone(),
        prepare: bout.pairing.prepare.clone(),
        server: bout.pairing.server.clone(),
        outcome: bout.end.map(|end| end.outcome),
        reason: bout.end.and_then(|end| end.reason.clone()),
        needed: bout.end.and_then(|end| end.needed.clone()),
        turns: bout.turns,
        disturbed: bout.disturbance(),
        rows: bout.rows.into_iter().map(of_row).collect(),
    }
}

fn of_row(compared: Compared<'_>) -> FlatRow {
    let row = compared.row.clone();
    FlatRow {
        name: row.name,
        experiment: row.experiment,
        case: row.case,
        metric: row.metric,
        statistic: row.statistic,
        unit: row.unit,
        ours: compared.ours,
        theirs: compared.theirs,
        ratio: compared.ratio,
        ci: compared.interval,
        confidence: compared.confidence,
        goal: row.goal,
        verdict: compared.verdict.text().to_owned(),
        difference: row.difference,
        ratios: compared.ratios,
    }
}
