//! Figures over runs as JSON and as comma-separated values, in base units.

use super::csv::{columns, fields, table};
use analysis::trend::{Changed, Trend, Trends};
use serde_json::{Value, json};

/// Columns ([`columns`]) of a figure in a run.
const COLUMNS: &str = "experiment case metric unit run started value ci_low=ci/0 ci_high=ci/1 level \
    ratio difference";

/// A row per figure and run, with a header line; `ratio` or `difference` stand where a new level
/// begins.
pub fn csv(trends: &Trends) -> String {
    let columns = columns(COLUMNS);
    let mut rows = Vec::new();
    for trend in &trends.trends {
        let key = &trend.over.key;
        for (index, (point, level)) in trend.over.points.iter().zip(trend.levels()).enumerate() {
            let shift = trend.shifts.iter().find(|changed| changed.shift.first == index);
            let size = shift.map(|changed| changed.shift.size);
            let run = &trends.runs[point.run];
            let row = json!({
                "experiment": key.experiment,
                "case": key.case.to_string(),
                "metric": key.metric,
                "unit": trend.over.unit,
                "run": run.name,
                "started": run.started,
                "value": point.value,
                "ci": point.ci,
                "level": level,
                "ratio": size.and_then(|size| size.ratio()),
                "difference": size.and_then(|size| size.difference()),
            });
            rows.push(fields(&columns, &row));
        }
    }
    table(columns.iter().map(|(name, _)| *name), rows)
}

const TREND: u32 = 1;

pub fn json(trends: &Trends) -> String {
    let runs = trends.runs.iter();
    let runs = runs.map(|run| json!({"run": run.name, "started": run.started}));
    let all = json!({
        "format": TREND,
        "runs": runs.collect::<Vec<_>>(),
        "method": trends.method(),
        "trends": trends.trends.iter().map(|trend| of_trend(trends, trend)).collect::<Vec<_>>(),
    });
    record::plain::json(&format!("{all:#}\n"))
}

fn of_trend(trends: &Trends, trend: &Trend) -> Value {
    let over = &trend.over;
    let points = over.points.iter().map(
        |point| json!({"run": trends.runs[point.run].name, "value": point.value, "ci": point.ci}),
    );
    json!({
        "experiment": over.key.experiment,
        "case": over.key.case,
        "metric": over.key.metric,
        "unit": over.unit,
        "better": over.better,
        "kind": over.kind,
        "points": points.collect::<Vec<_>>(),
        "p": trend.p,
        "shifts": trend.shifts.iter().map(|changed| of_shift(trends, trend, changed)).collect::<Vec<_>>(),
    })
}

fn of_shift(trends: &Trends, trend: &Trend, changed: &Changed) -> Value {
    let shift = &changed.shift;
    let name = |index: usize| {
        let point = trend.over.points.get(index);
        point.map(|point| &trends.runs[point.run].name)
    };
    let ci = shift.size.interval().map(|ends| (ends.low, ends.high));
    let environment = changed.environment.iter();
    let environment = environment
        .map(|(name, before, after)| json!({"name": name, "before": before, "after": after}));
    json!({
        "run": name(shift.first),
        "earliest": name(shift.place.0),
        "latest": name(shift.place.1),
        "before": shift.before,
        "after": shift.after,
        "ratio": shift.size.ratio(),
        "difference": shift.size.difference(),
        "ci": ci,
        "p": shift.p,
        "environment": environment.collect::<Vec<_>>(),
    })
}
