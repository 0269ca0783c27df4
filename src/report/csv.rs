//! Figures as comma-separated values, one a row, in base units.

use crate::analysis::figure::Figure;
use crate::analysis::figures;
use record::run::Run;

const COLUMNS: [&str; 34] = [
    "experiment",
    "case",
    "metric",
    "unit",
    "better",
    "kind",
    "outcome",
    "reason",
    "value",
    "ci_low",
    "ci_high",
    "confidence",
    "interval",
    "cycles",
    "predicted_low",
    "predicted_likely",
    "predicted_high",
    "verdict",
    "derived_low",
    "derived_likely",
    "derived_high",
    "derived_verdict",
    "bound",
    "of",
    "rounds",
    "disturbed",
    "samples",
    "mean",
    "stddev",
    "min",
    "p50",
    "p90",
    "p99",
    "max",
];

/// The text, with a header line. Absent values are empty.
pub(crate) fn render(run: &Run) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let written = "writing to memory does not fail and rows have equal length";
    writer.write_record(COLUMNS).expect(written);
    for figure in figures(run) {
        writer.write_record(row(&figure)).expect(written);
    }
    let bytes = writer.into_inner().expect(written);
    String::from_utf8(bytes).expect("fields are strings")
}

fn row(figure: &Figure) -> [String; 34] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let word = |value: Option<serde_json::Value>| {
        value
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let metric = figure.metric.as_ref();
    let range = |judged: &Option<crate::analysis::figure::Judged>| {
        let range = judged.as_ref().and_then(|judged| judged.prediction.range);
        let verdict = judged.as_ref().and_then(|judged| judged.verdict);
        [
            number(range.map(|range| range.low)),
            number(range.map(|range| range.likely)),
            number(range.map(|range| range.high)),
            verdict.map_or("", |verdict| verdict.text()).to_owned(),
        ]
    };
    let stats = figure.stats.as_ref();
    let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let [low, likely, high, verdict] = range(&figure.prior);
    let [derived_low, derived_likely, derived_high, derived_verdict] = range(&figure.derived);
    [
        figure.experiment.clone(),
        figure.case.to_string(),
        metric.map_or_else(String::new, |metric| metric.name.to_string()),
        metric.map_or_else(String::new, |metric| metric.unit.to_string()),
        word(metric.and_then(|metric| serde_json::to_value(metric.better).ok())),
        word(metric.and_then(|metric| serde_json::to_value(metric.kind).ok())),
        word(serde_json::to_value(figure.outcome).ok()),
        figure.reason.clone().unwrap_or_default(),
        number(figure.value),
        number(figure.ci.map(|(low, _)| low)),
        number(figure.ci.map(|(_, high)| high)),
        number(figure.confidence),
        figure
            .value
            .map_or("", |_| figure.interval.text())
            .to_owned(),
        number(figure.cycles),
        low,
        likely,
        high,
        verdict,
        derived_low,
        derived_likely,
        derived_high,
        derived_verdict,
        number(figure.bound.as_ref().and_then(|check| check.value)),
        stats.map_or_else(String::new, |stats| stats.of.clone()),
        count(stats.map(|stats| stats.rounds as u64)),
        count(stats.map(|stats| stats.disturbed as u64)),
        count(stats.map(|stats| stats.samples)),
        number(stats.map(|stats| stats.mean)),
        number(stats.and_then(|stats| stats.stddev)),
        number(stats.map(|stats| stats.min)),
        number(stats.map(|stats| stats.p50)),
        number(stats.map(|stats| stats.p90)),
        number(stats.map(|stats| stats.p99)),
        number(stats.map(|stats| stats.max)),
    ]
}
