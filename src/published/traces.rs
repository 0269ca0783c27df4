//! What a report draws over time, as traces: from the lengths that its tables list.

use super::build::{ordered, parameters};
use super::table::{Report, Row, Table, Timeline};
use analysis::gather::distinct;
use record::event::Trace;
use record::order::{Gather, InOrder};
use std::collections::BTreeMap;

/// The kind of trace that experiments show as lanes.
const TIMELINE: &str = "timeline";
/// The order in which processes first ran.
pub(super) const FIRST_RUNS: &str = "first_runs";

/// All of a report.
pub(super) fn of(report: &Report) -> Vec<Trace> {
    let timelines = report.timelines.iter().map(|timeline| lanes(report, timeline));
    let orders = report.first_runs.iter().map(|(experiment, case, order)| {
        let names = order.iter().map(u64::to_string).collect();
        let rows = (1..=order.len()).map(|rank| vec![rank as f64, (rank - 1) as f64]).collect();
        trace(experiment, case, FIRST_RUNS, (&["first_run", "process"], rows), names)
    });
    timelines.chain(orders).collect()
}

/// The stretches one after another, from zero.
fn lanes(report: &Report, of: &Timeline) -> Trace {
    let lengths = |metric: &str| {
        let tables = report.tables.iter().filter(move |table| {
            (&table.experiment, &table.case, &table.varies)
                == (&of.experiment, &of.case, &of.varies)
                && table.metric == metric
        });
        let each = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let base = |(table, row): (&Table, &Row)| table.printed.base(row.figure, report.counter_hz);
        each.filter_map(base).collect::<Vec<f64>>()
    };
    let mut names = distinct(of.turns.iter().flat_map(|turn| &turn.lanes));
    names.order();
    let turns: Vec<(Vec<f64>, &Vec<String>)> =
        of.turns.iter().map(|turn| (lengths(&turn.metric), &turn.lanes)).collect();
    let most = turns.iter().map(|(lengths, _)| lengths.len()).max().unwrap_or(0);
    let (mut start, mut rows) = (0.0, Vec::new());
    for at in 0..most {
        for (lengths, lanes) in &turns {
            let Some(length) = lengths.get(at) else { continue };
            let lane = names.iter().position(|name| *name == &lanes[at % lanes.len()]);
            rows.push(vec![start, *length, lane.unwrap_or(0) as f64]);
            start += length;
        }
    }
    let columns = ["start_ns", "duration_ns", "state"];
    let names = names.into_iter().cloned().collect();
    trace(&of.experiment, &of.case, TIMELINE, (&columns, rows), names)
}

/// A trace whose last column has names.
fn trace(
    experiment: &str,
    case: &str,
    kind: &str,
    (columns, rows): (&[&str], Vec<Vec<f64>>),
    names: Vec<String>,
) -> Trace {
    let named = columns.last().map(|column| ((*column).to_owned(), names));
    Trace {
        series: experiment.to_owned(),
        // A report has no rounds.
        round: 0,
        case: ordered(experiment, parameters(case)),
        kind: kind.to_owned(),
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        rows,
        names: named.into_iter().gather::<BTreeMap<_, _>>(),
        dropped: 0,
    }
}
