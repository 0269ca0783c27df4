//! The rows of a crosscheck as comma-separated values, in base units.

use super::{columns, fields, table};
use crate::json;
use record::run::Run;
use serde_json::{Value, json};

/// Columns ([`columns`]) of a row with its pairing and its rival.
const COLUMNS: &str = "rival=rival/name rival_version=rival/version pairing=pairing/name \
    row=row/name experiment=row/ case=row/ metric=row/ statistic=row/ unit=row/ ours=row/ \
    theirs=row/ ratio=row/ ci_low=row/ci/0 ci_high=row/ci/1 confidence=row/ ratios=row/ goal=row/ \
    verdict=row/ difference=row/ turns=pairing/ outcome=pairing/ reason=pairing/ needed=pairing/ \
    plumb run";

/// The text, with a header line: a row per compared figure. Rivals that are not here have none. The
/// last columns name plumb's version and the run.
pub(super) fn render(run: &Run) -> String {
    let columns = columns(COLUMNS);
    let mut lines = Vec::new();
    let flat = json!(json::flat(run));
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    for rival in list(&flat, "crosscheck") {
        for pairing in list(&rival, "pairings") {
            for row in list(&pairing, "rows") {
                let (plumb, run) = (&flat["plumb"], &flat["run"]);
                let all = json!({ "rival": rival, "pairing": pairing, "row": row, "plumb": plumb, "run": run });
                lines.push(fields(&columns, &all));
            }
        }
    }
    table(columns.iter().map(|(name, _)| *name), lines)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, columns, render};
    use analysis::crosscheck::{rows, sample};
    use std::collections::BTreeMap;

    #[test]
    fn a_row_for_each_figure_says_what_was_compared() {
        let run = sample::run_of_plumb();
        let text = render(&run);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let found: Vec<BTreeMap<String, String>> =
            reader.deserialize().collect::<Result<_, _>>().unwrap();
        let rows = rows(&run);
        assert_eq!(found.len(), rows.len());
        for (found, row) in found.iter().zip(&rows) {
            assert_eq!(found.len(), columns(COLUMNS).len());
            assert_eq!(found["rival"], row.pairing.rival);
            assert_eq!(found["pairing"], row.pairing.name);
            assert_eq!(found["case"], "call=getppid");
            assert_eq!(found["verdict"], row.verdict.text());
            assert_eq!(found["ratio"].parse().ok(), row.ratio);
            assert_eq!(found["ci_low"].parse().ok(), row.interval.map(|ends| ends.0));
            assert_eq!(found["run"], run.header.run);
            let needed = row.end.and_then(|end| end.needed.as_deref());
            assert_eq!(found["needed"], needed.unwrap_or_default());
        }
        assert_eq!(found[1]["goal"], "at_most");
        assert_eq!(found[5]["outcome"], "failed");
        assert!(!found[6]["needed"].is_empty());
    }
}
