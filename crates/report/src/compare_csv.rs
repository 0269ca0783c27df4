//! A comparison as comma-separated values: a row per figure and new run, in base units. What has no
//! partner has a row too, with its reason; so has a published figure that stands beside the nearest
//! one of the other run.

use super::compare_json::flat;
use super::csv::{columns, fields, table};
use analysis::compare::Comparison;
use record::key::CaseId;
use serde_json::{Value, json};

/// Columns ([`columns`]) of a figure of the flat comparison.
const COLUMNS: &str = "base_run new_run experiment case metric unit better kind \
    base=base/value base_low=base/ci/0 base_high=base/ci/1 base_rounds=base/rounds \
    new=new/value new_low=new/ci/0 new_high=new/ci/1 new_rounds=new/rounds \
    ratio difference low=ci/0 high=ci/1 p band=band/share band_source=band/source \
    stored_runs=band/ between_deviation=band/ outcome direction why beside interval=base/ \
    nearest printed differs moves";

/// The text, with a header line. Absent values are empty.
pub fn render(comparison: &Comparison) -> String {
    let (columns, flat) = (columns(COLUMNS), flat(comparison));
    // The side of a published figure, and that of the nearest one.
    let sides = match comparison.base.run.header.is_published() {
        true => ["base", "new"],
        false => ["new", "base"],
    };
    let mut rows = Vec::new();
    for of_run in flat.against {
        // A case in the card's order, which a JSON value does not keep.
        let mut add = |case: &CaseId, mut value: Value| {
            value["base_run"] = flat.base.run.clone().into();
            value["new_run"] = of_run.new.run.clone().into();
            value["case"] = case.to_string().into();
            rows.push(fields(&columns, &value));
        };
        for one in &of_run.figures {
            add(&one.case, json!(one));
        }
        for one in &of_run.nearest {
            let mut value = json!(one);
            for (side, field) in sides.into_iter().zip(["published_value", "value"]) {
                value[side] = json!({ "value": value[field] });
            }
            value["outcome"] = "nearest".into();
            add(&one.case, value);
        }
        for one in &of_run.incomparable {
            let mut value = json!(one);
            value["outcome"] = "incomparable".into();
            add(&one.case, value);
        }
    }
    table(columns.iter().map(|(name, _)| *name), rows)
}
