//! A comparison as comma-separated values: a row per figure and new run, in base units. What has no
//! partner has a row too, with its reason.

use super::compare_json::{FlatCompared, FlatComparison, flat};
use analysis::compare::Comparison;
use record::plain::lines;

const COLUMNS: [&str; 30] = [
    "base_run",
    "new_run",
    "experiment",
    "case",
    "metric",
    "unit",
    "better",
    "kind",
    "base",
    "base_low",
    "base_high",
    "base_rounds",
    "new",
    "new_low",
    "new_high",
    "new_rounds",
    "ratio",
    "difference",
    "low",
    "high",
    "p",
    "band",
    "band_source",
    "stored_runs",
    "between_deviation",
    "outcome",
    "direction",
    "why",
    "beside",
    "interval",
];

/// The text, with a header line. Absent values are empty.
pub fn render(comparison: &Comparison) -> String {
    let FlatComparison { base, against, .. } = flat(comparison);
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let written = "writing to memory does not fail and rows have equal length";
    writer.write_record(COLUMNS).expect(written);
    for of_run in against {
        for one in &of_run.figures {
            let row = row(&base.run, &of_run.new.run, one);
            writer.write_record(row).expect(written);
        }
        for one in of_run.incomparable {
            let mut row: [String; 30] = Default::default();
            row[0].clone_from(&base.run);
            row[1].clone_from(&of_run.new.run);
            row[2] = one.experiment;
            row[3] = one.case.to_string();
            row[4] = one.metric;
            row[25] = "incomparable".to_owned();
            row[27] = one.why;
            writer.write_record(row).expect(written);
        }
    }
    let bytes = writer.into_inner().expect(written);
    lines(&String::from_utf8(bytes).expect("fields are strings"))
}

fn row(base_run: &str, new_run: &str, one: &FlatCompared) -> [String; 30] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let count = |value: Option<usize>| value.map_or_else(String::new, |value| value.to_string());
    let word = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let low = |ends: Option<(f64, f64)>| number(ends.map(|(low, _)| low));
    let high = |ends: Option<(f64, f64)>| number(ends.map(|(_, high)| high));
    [
        base_run.to_owned(),
        new_run.to_owned(),
        one.experiment.clone(),
        one.case.to_string(),
        one.metric.clone(),
        one.unit.to_string(),
        word(serde_json::to_value(one.better)),
        word(serde_json::to_value(one.kind)),
        number(one.base.value),
        low(one.base.ci),
        high(one.base.ci),
        count(one.base.rounds),
        number(one.new.value),
        low(one.new.ci),
        high(one.new.ci),
        count(one.new.rounds),
        number(one.ratio),
        number(one.difference),
        low(one.ci),
        high(one.ci),
        number(one.p),
        number(Some(one.band.share)),
        one.band.source.clone(),
        one.band.stored_runs.to_string(),
        number(Some(one.band.between_deviation)),
        one.outcome.clone(),
        text(&one.direction),
        text(&one.why),
        one.beside.join("; "),
        one.base.interval.clone(),
    ]
}
