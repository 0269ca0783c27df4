//! A comparison as comma-separated values: a row per figure and new run, in base units. What has no
//! partner has a row too, with its reason; so has a published figure that stands beside the nearest
//! one of the other run.

use super::compare_json::flat;
use super::csv::{table, text};
use analysis::compare::Comparison;
use serde_json::{Value, json};

/// Columns, and where each stands in a figure of the flat comparison.
const COLUMNS: [(&str, &str); 34] = [
    ("base_run", "/base_run"),
    ("new_run", "/new_run"),
    ("experiment", "/experiment"),
    ("case", "/case"),
    ("metric", "/metric"),
    ("unit", "/unit"),
    ("better", "/better"),
    ("kind", "/kind"),
    ("base", "/base/value"),
    ("base_low", "/base/ci/0"),
    ("base_high", "/base/ci/1"),
    ("base_rounds", "/base/rounds"),
    ("new", "/new/value"),
    ("new_low", "/new/ci/0"),
    ("new_high", "/new/ci/1"),
    ("new_rounds", "/new/rounds"),
    ("ratio", "/ratio"),
    ("difference", "/difference"),
    ("low", "/ci/0"),
    ("high", "/ci/1"),
    ("p", "/p"),
    ("band", "/band/share"),
    ("band_source", "/band/source"),
    ("stored_runs", "/band/stored_runs"),
    ("between_deviation", "/band/between_deviation"),
    ("outcome", "/outcome"),
    ("direction", "/direction"),
    ("why", "/why"),
    ("beside", "/beside"),
    ("interval", "/base/interval"),
    ("nearest", "/nearest"),
    ("printed", "/printed"),
    ("differs", "/differs"),
    ("moves", "/moves"),
];

/// The text, with a header line. Absent values are empty.
pub fn render(comparison: &Comparison) -> String {
    let flat = flat(comparison);
    // The side of a published figure, and that of the nearest one.
    let sides = match comparison.base.run.header.is_published() {
        true => ["base", "new"],
        false => ["new", "base"],
    };
    let mut rows = Vec::new();
    for of_run in flat.against {
        let runs = [&flat.base.run, &of_run.new.run];
        rows.extend(of_run.figures.iter().map(|one| row(runs, one.case.to_string(), json!(one))));
        rows.extend(of_run.nearest.iter().map(|one| {
            let mut value = json!(one);
            for (side, field) in sides.into_iter().zip(["published_value", "value"]) {
                value[side] = json!({ "value": value[field] });
            }
            value["outcome"] = "nearest".into();
            row(runs, one.case.to_string(), value)
        }));
        rows.extend(of_run.incomparable.iter().map(|one| {
            let mut value = json!(one);
            value["outcome"] = "incomparable".into();
            row(runs, one.case.to_string(), value)
        }));
    }
    table(COLUMNS.map(|(name, _)| name), rows)
}

fn row([base, new]: [&String; 2], case: String, mut figure: Value) -> Vec<String> {
    figure["base_run"] = base.clone().into();
    figure["new_run"] = new.clone().into();
    // In the card's order, which a JSON value does not keep.
    figure["case"] = case.into();
    let field =
        |(_, pointer): &(&str, &str)| figure.pointer(pointer).map_or_else(String::new, text);
    COLUMNS.iter().map(field).collect()
}
