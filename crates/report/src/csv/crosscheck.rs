//! The rows of a crosscheck as comma-separated values, in base units.

use super::{table, text};
use crate::json;
use record::run::Run;
use serde_json::Value;

/// What a column's value belongs to.
enum Of {
    Rival,
    Pairing,
    Row,
}

/// Columns, and where each stands in the flat result.
const COLUMNS: [(&str, Of, &str); 23] = [
    ("rival", Of::Rival, "/name"),
    ("rival_version", Of::Rival, "/version"),
    ("pairing", Of::Pairing, "/name"),
    ("row", Of::Row, "/name"),
    ("experiment", Of::Row, "/experiment"),
    ("case", Of::Row, "/case"),
    ("metric", Of::Row, "/metric"),
    ("statistic", Of::Row, "/statistic"),
    ("unit", Of::Row, "/unit"),
    ("ours", Of::Row, "/ours"),
    ("theirs", Of::Row, "/theirs"),
    ("ratio", Of::Row, "/ratio"),
    ("ci_low", Of::Row, "/ci/0"),
    ("ci_high", Of::Row, "/ci/1"),
    ("confidence", Of::Row, "/confidence"),
    ("ratios", Of::Row, "/ratios"),
    ("goal", Of::Row, "/goal"),
    ("verdict", Of::Row, "/verdict"),
    ("difference", Of::Row, "/difference"),
    ("turns", Of::Pairing, "/turns"),
    ("outcome", Of::Pairing, "/outcome"),
    ("reason", Of::Pairing, "/reason"),
    ("needed", Of::Pairing, "/needed"),
];

/// The text, with a header line: a row per compared figure. Rivals that are not here have none. The
/// last columns name plumb's version and the run.
pub(super) fn render(run: &Run) -> String {
    let names = COLUMNS.iter().map(|(name, ..)| *name);
    let mut lines = Vec::new();
    let flat = serde_json::to_value(json::flat(run))
        .expect("its keys are strings and it holds no foreign serialisers");
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    for rival in list(&flat, "crosscheck") {
        for pairing in list(&rival, "pairings") {
            for row in list(&pairing, "rows") {
                let field = |(_, of, pointer): &(&str, Of, &str)| {
                    let whole = match of {
                        Of::Rival => &rival,
                        Of::Pairing => &pairing,
                        Of::Row => &row,
                    };
                    whole.pointer(pointer).map_or_else(String::new, text)
                };
                let fields = COLUMNS.iter().map(field);
                let header = &run.header;
                let of_the_run = [header.plumb.clone(), header.run.clone()];
                lines.push(fields.chain(of_the_run).collect());
            }
        }
    }
    table(names.chain(["plumb", "run"]), lines)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, render};
    use analysis::crosscheck::{rows, sample};
    use std::collections::BTreeMap;

    #[test]
    fn a_row_for_each_figure_says_what_was_compared() {
        let run = sample::own();
        let text = render(&run);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let found: Vec<BTreeMap<String, String>> =
            reader.deserialize().collect::<Result<_, _>>().unwrap();
        let rows = rows(&run);
        assert_eq!(found.len(), rows.len());
        for (found, row) in found.iter().zip(&rows) {
            assert_eq!(found.len(), COLUMNS.len() + 2);
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
