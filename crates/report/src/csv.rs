//! The flat result's figures as comma-separated values, one a row, in base units.

mod crosscheck;

use crate::columns::COLUMNS;
use analysis::figure::Figure;
use analysis::figures;
use record::plain::lines;
use record::run::Run;
use serde_json::{Value, json};

/// Columns by their words, each with its place as a JSON pointer: a name, and behind `=` where it
/// stands if not under its name; a place that ends in `/` is followed by the name.
pub fn columns(words: &'static str) -> Vec<(&'static str, String)> {
    let column = |word: &'static str| match word.split_once('=') {
        Some((name, place)) if place.ends_with('/') => (name, format!("/{place}{name}")),
        Some((name, place)) => (name, format!("/{place}")),
        None => (word, format!("/{word}")),
    };
    words.split_whitespace().map(column).collect()
}

/// The fields of some columns; empty where the value has none.
pub(super) fn fields<Name>(columns: &[(Name, String)], of: &Value) -> Vec<String> {
    columns.iter().map(|(_, place)| of.pointer(place).map_or_else(String::new, text)).collect()
}

/// The text, with a header line. Absent values are empty; a case is `name=value` pairs joined by
/// commas, what it resolved to (where values may have commas) by `; `, as are notes. The last
/// columns name plumb's version and the run, so that files of several runs can be put together.
///
/// A crosscheck's own record has no figures: its rows are those of the crosscheck.
pub fn render(run: &Run) -> String {
    if run.header.is_crosscheck() {
        return crosscheck::render(run);
    }
    let columns = of_figures();
    let rows = figures(run).into_iter().map(|figure| row(&columns, &figure, run));
    table(columns.iter().map(|(name, _)| name.as_str()), rows)
}

/// The same with a column for each of these parameters in place of `case`, empty where a case has
/// none, so that the columns are the same for all runs. `other` holds parameters that are not among
/// them; one that is called as another column has `case_` before it.
pub fn tidy(run: &Run, params: &[&str]) -> String {
    let columns = of_figures();
    let mut names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    let at = names.iter().position(|name| name == "case").unwrap_or(0);
    names.remove(at);
    let heading = |param: &&str| match names.iter().any(|name| name == param) {
        true => format!("case_{param}"),
        false => (*param).to_owned(),
    };
    let headings: Vec<String> = params.iter().map(heading).chain(["other".to_owned()]).collect();
    names.splice(at..at, headings);
    let rows = figures(run).into_iter().map(|figure| {
        let case = &figure.case;
        let of = |param: &&str| case.get(param).map_or_else(String::new, ToString::to_string);
        let others = case.0.iter().filter(|(name, _)| !params.contains(&name.as_str()));
        let others: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
        let mut texts = row(&columns, &figure, run);
        texts.splice(at..=at, params.iter().map(of).chain([others.join("; ")]));
        texts
    });
    table(names.iter().map(String::as_str), rows)
}

fn of_figures() -> Vec<(String, String)> {
    let columns = COLUMNS.iter().filter(|column| column.is_in_csv);
    columns.flat_map(|column| column.fields()).map(|(name, place, _)| (name, place)).collect()
}

/// The text of rows below their header line. No cell is a formula to a spreadsheet, and none steers a
/// terminal.
pub fn table<'name>(
    names: impl IntoIterator<Item = &'name str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let written = "writing to memory does not fail and rows have equal length";
    writer.write_record(names.into_iter().map(cell)).expect(written);
    for row in rows {
        writer.write_record(row.iter().map(|text| cell(text))).expect(written);
    }
    let bytes = writer.into_inner().expect(written);
    lines(&String::from_utf8(bytes).expect("fields are strings"))
}

/// What begins a formula in a spreadsheet (OWASP, CSV injection).
const FORMULA: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];

/// A cell that no spreadsheet takes for a formula: one that begins as a formula does and is no
/// number has an apostrophe before it.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(FORMULA) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

fn row(columns: &[(String, String)], figure: &Figure, run: &Run) -> Vec<String> {
    let mut value = json!(figure);
    // In the card's order, which a JSON value does not keep.
    value["params"] = figure.case.to_string().into();
    value["plumb"] = run.header.plumb.clone().into();
    value["run"] = run.header.run.clone().into();
    fields(columns, &value)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // The cases' own spelling of a number, not that of a double.
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(pairs) => pairs
            .iter()
            .map(|(name, value)| format!("{name}={}", text(value)))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::{of_figures, render};
    use crate::json;
    use analysis::{figures, sample};
    use std::collections::{BTreeMap, BTreeSet};

    /// Pointers of all leaves that columns are made of; a case, what it resolved to and lists are
    /// one column each.
    fn leaves(value: &serde_json::Value, at: &str, found: &mut BTreeSet<String>) {
        let is_one = ["/case", "/at", "/stats/at_least", "/notes"].contains(&at);
        match value {
            serde_json::Value::Object(fields) if !is_one => {
                for (name, value) in fields {
                    leaves(value, &format!("{at}/{name}"), found);
                }
            }
            serde_json::Value::Array(items) if !is_one => {
                for (n, value) in items.iter().enumerate() {
                    leaves(value, &format!("{at}/{n}"), found);
                }
            }
            _ => drop(found.insert(at.to_owned())),
        }
    }

    #[test]
    fn every_field_of_a_flat_figure_is_a_column() {
        let mut found = BTreeSet::new();
        for figure in figures(&sample::run()) {
            leaves(&serde_json::to_value(figure).unwrap(), "", &mut found);
        }
        let have: BTreeSet<String> = of_figures().into_iter().map(|(_, place)| place).collect();
        // A bound's formula and conditions are in the flat result alone; of objects, null stands for
        // all.
        found.retain(|at| {
            !["bound_rule/constant", "bound_rule/inputs", "bound_rule/uncertainty", "conditions"]
                .iter()
                .any(|part| at.contains(&format!("prediction/{part}")))
                && !at.ends_with("prediction/shares")
                && !at.ends_with("prediction/beside")
                && !["/case", "/ci", "/stats", "/prediction", "/derived_prediction", "/as_found"]
                    .contains(&at.as_str())
        });
        let missing: Vec<_> = found.difference(&have).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(found.len() > 40, "{}", found.len());
    }

    #[test]
    fn no_cell_is_a_formula_and_numbers_stay_numbers() {
        let rows = [
            ("=1+1", "'=1+1"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-1.5e-9", "-1.5e-9"),
            ("+3", "+3"),
            ("", ""),
            ("a=b", "a=b"),
        ];
        for (text, shown) in rows {
            assert_eq!(super::cell(text), shown);
            let all = super::table(["=name"], [vec![text.to_owned()]]);
            let mut reader = ::csv::Reader::from_reader(all.as_bytes());
            assert_eq!(reader.headers().unwrap(), vec!["'=name"]);
            let read = reader.records().next().unwrap().unwrap();
            assert_eq!(&read[0], shown);
        }
        assert_eq!(super::cell("\t=1"), "'\t=1");
    }

    #[test]
    fn rows_say_what_the_flat_result_says() {
        let run = sample::run();
        let text = render(&run);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<BTreeMap<String, String>> =
            reader.deserialize().collect::<Result<_, _>>().unwrap();
        let flat = serde_json::to_value(json::flat(&run)).unwrap();
        let figures = flat["figures"].as_array().unwrap();
        assert_eq!(rows.len(), figures.len());
        for (row, figure) in rows.iter().zip(figures) {
            assert_eq!(row["run"], run.header.run);
            let number = |name: &str| row[name].parse::<f64>().ok();
            assert_eq!(number("value"), figure["value"].as_f64());
            assert_eq!(number("ci_high"), figure["ci"][1].as_f64());
            assert_eq!(number("used"), figure["stats"]["used"].as_f64());
            let needed = figure["needed"].as_str().unwrap_or_default();
            assert_eq!(row["needed"], needed);
        }
        let futex = rows.iter().find(|row| row["case"] == "call=futex").unwrap();
        assert_eq!((futex["outcome"].as_str(), futex["value"].as_str()), ("failed", ""));
        assert!(futex["reason"].contains("Operation not permitted"));
        let rung = rows.iter().find(|row| row["case"].ends_with("footprint=65536"));
        let rung = rung.unwrap();
        assert_eq!(rung["case"], "pattern=random,pages=huge,footprint=65536");
        assert_eq!(rung["at"], "cpu=1");
    }
}
