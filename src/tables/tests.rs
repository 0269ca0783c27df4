//! Cells, rows, and the page that describes the tables.

use super::{TABLES, Writer, quoted, sql, time};
use analysis::sample;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// The files of a run, as text by table.
fn written(push: impl Fn(&mut Writer<&mut Vec<u8>>)) -> Vec<String> {
    let mut files = vec![Vec::new(); TABLES.len()];
    let mut writer = Writer::begin(files.iter_mut().collect()).expect("memory");
    push(&mut writer);
    writer.end().expect("memory");
    files.into_iter().map(|file| String::from_utf8(file).expect("text")).collect()
}

/// The records of a file, without quotes and escapes.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .escape(Some(b'\\'))
        .double_quote(false)
        .has_headers(false)
        .from_reader(text.as_bytes());
    let rows = reader.records().map(|row| row.expect("as many cells as the header"));
    rows.map(|row| row.iter().map(str::to_owned).collect()).collect()
}

#[test]
fn every_table_is_whole() {
    let mut names = BTreeSet::new();
    for table in TABLES {
        assert!(names.insert(table.name));
        let columns: BTreeSet<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        let keys =
            table.key.iter().chain(table.indexes.iter().copied().flatten()).chain(&table.root);
        for name in keys {
            let column = table.columns.iter().find(|column| column.name == *name);
            assert!(column.is_some(), "{}.{name}", table.name);
        }
        for key in table.key {
            let column = table.columns.iter().find(|column| column.name == *key);
            assert!(column.is_some_and(|column| column.is_required), "{}.{key}", table.name);
        }
    }
}

#[test]
fn a_run_has_a_row_for_each_figure_and_is_written_once() {
    let run = sample::run();
    let files = written(|writer| {
        for _ in 0..2 {
            super::run::push(writer, &run, 1000).expect("memory");
        }
    });
    let of = |name: &str| {
        let at = TABLES.iter().position(|table| table.name == name).expect("a table");
        rows(&files[at])
    };
    let flat = report::json::flat(&run);
    assert_eq!(of("run").len(), 2);
    let figures = of("figure");
    assert_eq!(figures.len() + of("absent").len(), flat.figures.len() + 2);
    assert_eq!(of("finding").len(), flat.findings.len() + 1);
    let at = |name: &str| figures[0].iter().position(|column| column == name).expect("a column");
    let rung = figures.iter().find(|row| row[at("params")].ends_with("footprint=65536"));
    let rung = rung.expect("a rung of the ladder");
    let params: serde_json::Value = serde_json::from_str(&rung[at("params_json")]).expect("JSON");
    assert_eq!(params, json!({"pattern": "random", "pages": "huge", "footprint": 65536}));
    assert_eq!(rung[at("outcome")], "measured");
    assert!(
        rung[at("ci_low")].parse::<f64>().expect("a number")
            <= rung[at("value")].parse().expect("a number")
    );
}

#[test]
fn cells_hold_what_databases_take() {
    assert_eq!(quoted("a\"b\\c\n\\.\nd\u{0}\u{1b}"), "\"a\\\"b\\\\c\n\\\\.\nd  \"");
    assert_eq!(time("2026-11-26T21:00:00Z").as_deref(), Some("2026-11-26T21:00:00Z"));
    assert_eq!(time("21 October 2013"), None);
    let [run, figure] = [&super::run::RUN, &super::run::FIGURE];
    let cell = |table: &super::Table, name: &str, row: &serde_json::Value| {
        table.columns.iter().find(|column| column.name == name).expect("a column").cell(row)
    };
    assert_eq!(cell(run, "build", &json!({})), "");
    assert_eq!(cell(run, "plumb", &json!({"plumb": 1})), "\"\"");
    assert_eq!(cell(run, "environment", &json!({})), "\"{}\"");
    assert_eq!(cell(run, "started", &json!({"started": "hostile'); DROP"})), "");
    assert_eq!(cell(run, "memory_bytes", &json!({"memory_bytes": u64::MAX})), "");
    assert_eq!(cell(figure, "ci_high", &json!({"ci": [1.5, 2.5e300]})), "2.5e+300");
    assert_eq!(cell(figure, "notes", &json!({"notes": ["a\u{0}\"b"]})), r#""[\"a \\\"b\"]""#);
}

#[test]
fn the_page_describes_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/TEAM.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    const HEADING: &str = "## The tables\n";
    let (before, after) = page.split_once(HEADING).expect("the heading");
    let introduction = after.split("\n### ").next().expect("a text").trim();
    let made = format!("{before}{HEADING}\n{introduction}\n{}", sql::described());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("the page");
    }
    let page = std::fs::read_to_string(&path).expect("the page");
    assert!(page == made, "UPDATE_DOCS=1 cargo test --lib the_page writes it anew");
}
