//! What this plumb reads: a record of every released format, reported, compared and exported; another
//! one is refused by its number, with the way out. docs/FORMAT.md names the versions that are in use.

use crate::plumb::prelude::*;
use flate2::read::GzDecoder;
use std::io::Read;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn kept(name: &str) -> String {
    kept_at("records", name)
}

fn kept_at(dir: &str, name: &str) -> String {
    let path = root().join("tests").join(dir).join(name);
    if let Ok(text) = fs::read_to_string(&path) {
        return text;
    }
    let packed = PathBuf::from(format!("{}.gz", path.display()));
    let mut text = String::new();
    let file = File::open(&packed).unwrap_or_else(|error| panic!("{name}: {error}"));
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// The first line with another format, sealed as this plumb seals lines.
fn of_format(text: &str, format: u32) -> String {
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header = event(header);
    header["format"] = format.into();
    lines([&header]) + rest
}

#[test]
fn a_record_of_every_released_format_is_reported_compared_and_exported() {
    for format in record::FIRST_FORMAT..=record::FORMAT {
        let here = Here::new();
        let text = kept(&format!("format-{format}.jsonl"));
        let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(header["format"], format);
        fs::write(here.path("run.jsonl"), text).unwrap();
        assert!(here.ends(0, &["report", "run.jsonl"]).out.contains("QUALITY"), "{format}");
        let flat = here.ends(0, &["report", "run.jsonl", "--format", "json"]).json();
        let figures = flat["figures"].as_array().unwrap().iter();
        let measured = figures.filter(|figure| figure["outcome"] == "measured").count();
        assert!(measured > 10, "{format}: {measured}");
        let same = here.ends(0, &["compare", "run.jsonl", "run.jsonl", "--format", "json"]).json();
        assert_eq!(same["finding"], false, "{format}");
        let lines = here.ends(0, &["report", "run.jsonl", "--format", "ndjson"]).json_lines();
        let lines = lines.iter().filter(|line| line["outcome"] == "measured");
        assert_eq!(lines.count(), measured, "{format}");
    }
}

/// Format 1 was of a development version.
#[test]
fn a_sweep_of_every_format_is_exported() {
    for format in 2..=fleet::file::FLEET_FORMAT {
        let here = Here::new();
        here.make_dir("sweep");
        fs::write(
            here.path("sweep/node.jsonl"),
            kept_at("versions", &format!("node-{format}.jsonl")),
        )
        .unwrap();
        let lines = here.ends(0, &["fleet", "report", "sweep", "--format", "ndjson"]);
        let lines = lines.json_lines();
        assert!(!lines.is_empty(), "{format}");
        assert!(lines.iter().all(|line| line["node"].is_string()), "{format}: {lines:?}");
    }
}

#[test]
fn other_formats_are_refused_with_the_way_out() {
    let here = Here::new();
    let (newer, unreleased) = (record::FORMAT + 1, record::FIRST_FORMAT - 1);
    fs::write(here.path("run.jsonl"), of_format(&kept("format-5.jsonl"), unreleased)).unwrap();
    let refused = here.ends(2, &["report", "run.jsonl"]);
    let said = format!("its format is {unreleased}, of a development version of plumb");
    assert!(refused.err.contains(&said) && refused.err.contains("measure again"), "{refused:?}");
    fs::write(here.path("run.jsonl"), of_format(&kept("format-5.jsonl"), newer)).unwrap();
    let commands: [&[&str]; 5] = [
        &["report", "run.jsonl"],
        &["report", "run.jsonl", "--redact", "--format", "json"],
        &["compare", "run.jsonl", "run.jsonl"],
        &["report", "run.jsonl", "--format", "ndjson"],
        &["run", "--resume", "run.jsonl"],
    ];
    for args in commands {
        let refused = here.ends(2, args);
        let said =
            format!("its format is {newer}, this plumb reads formats up to {}", record::FORMAT);
        assert!(refused.err.contains(&said), "{refused:?}");
        assert!(refused.err.contains("use a newer plumb"), "{refused:?}");
        assert_eq!(refused.err.lines().count(), 1, "{refused:?}");
    }
    let newer = fleet::file::FLEET_FORMAT + 1;
    here.make_dir("sweep");
    fs::write(here.path("sweep/n1.jsonl"), format!("{{\"node\":{{\"format\":{newer}}}}}\n"))
        .unwrap();
    let refused = here.ends(2, &["fleet", "report", "sweep", "--format", "ndjson"]);
    assert!(refused.err.contains(&format!("format is {newer}")), "{refused:?}");
    assert!(refused.err.contains("use a newer plumb"), "{refused:?}");
}

/// The version that docs/FORMAT.md gives.
fn documented(what: &str) -> String {
    let page = fs::read_to_string(root().join("docs/FORMAT.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with(&format!("| {what} | "))).expect("a row");
    row.split(" | ").nth(1).unwrap().to_owned()
}

#[test]
fn the_page_names_the_versions_in_use() {
    let here = Here::new();
    fs::write(here.path("run.jsonl"), kept("format-5.jsonl")).unwrap();
    let version = |args: &[&str]| -> String {
        let value = here.ends(0, args).json();
        value["format"].to_string()
    };
    let compare = ["compare", "run.jsonl", "run.jsonl", "--format", "json"];
    let sheet = fs::read_to_string(root().join("data/sheets/runs.sheet")).unwrap();
    let sheet = sheet.lines().next().and_then(|line| line.strip_prefix("plumb sheet ")).unwrap();
    let lines = here.ends(0, &["report", "run.jsonl", "--format", "ndjson"]).json_lines();
    for (what, version) in [
        ("record", record::FORMAT.to_string()),
        ("flat result", version(&["report", "run.jsonl", "--format", "json"])),
        ("comparison", version(&compare)),
        ("sheet", sheet.to_owned()),
        ("fleet file", fleet::file::FLEET_FORMAT.to_string()),
        ("line", lines[0]["format"].to_string()),
    ] {
        assert_eq!(documented(what), version, "{what}");
    }
    let log = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let formats =
        ["record", "flat result", "comparison", "trend", "A/B", "sheet", "fleet file", "line"]
            .map(|what| format!("{what} {}", documented(what)));
    assert!(log.contains(&format!("Formats: {}.", formats.join(", "))), "{formats:?}");
}
