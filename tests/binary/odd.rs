//! Reports of odd runs in every format: whole, right, and safe where they are read next.

use crate::plumb::prelude::*;
use crate::records::{self, FOREIGN, HOSTILE};
use std::sync::OnceLock;

const FORMATS: [&str; 6] = ["terminal", "markdown", "csv", "json", "openmetrics", "html"];

/// A real run of a few experiments, one round of the least: lines, bars, spans, derived figures, a
/// skip.
fn real() -> Vec<Value> {
    static REAL: OnceLock<Vec<Value>> = OnceLock::new();
    let measure = || {
        let selected = [
            "cpu.call",
            "cpu.core_to_core",
            "noise.activity",
            "memory.mlp",
            "memory.numa",
            "os.syscall",
        ];
        Here::new().measure(&[&selected[..], &["--preset", "rehearsal"]].concat())
    };
    REAL.get_or_init(measure).clone()
}

/// A record's report in a format.
#[track_caller]
fn report(events: &[Value], format: &str) -> String {
    let here = Here::new();
    fs::write(here.path("run.jsonl"), lines(events)).unwrap();
    let answer = here.ends(0, &["report", "run.jsonl", "--format", format]);
    assert!(!answer.out.is_empty(), "{format} says nothing");
    answer.out
}

/// The flat result's figures and the rows of the CSV, which must be as many.
#[track_caller]
fn figures(events: &[Value]) -> Vec<Value> {
    let result: Value = serde_json::from_str(&report(events, "json")).expect("one JSON document");
    let figures = result["figures"].as_array().unwrap().clone();
    let text = report(events, "csv");
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let columns = rows.headers().unwrap().len();
    let rows: Vec<csv::StringRecord> =
        rows.records().map(|row| row.expect("a whole row")).collect();
    assert!(rows.iter().all(|row| row.len() == columns));
    assert_eq!(rows.len(), figures.len());
    figures
}

/// Every line is a comment, or a name, labels in quotes and a number that is one.
#[track_caller]
fn is_openmetrics(text: &str) {
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert!(!line.chars().any(records::commands), "{line:?}");
        let number: f64 = value.parse().unwrap_or_else(|_| panic!("{line:?}"));
        assert!(number.is_finite(), "{line:?}");
        let metric = name.split('{').next().unwrap();
        let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == ':';
        assert!(metric.chars().all(is_of_name) && !metric.is_empty(), "{line:?}");
        assert_eq!(name.contains('{'), name.ends_with('}'), "{line:?}");
    }
}

#[test]
fn everything_skipped_says_why_in_every_format() {
    let events = records::everything_skipped(real());
    for format in FORMATS {
        let text = report(&events, format);
        if ["terminal", "markdown", "html"].contains(&format) {
            assert!(text.contains("no cpu.call here"), "{format}: {text}");
        }
    }
    let measured = figures(&events).iter().filter(|figure| !figure["value"].is_null()).count();
    assert_eq!(measured, 0);
    is_openmetrics(&report(&events, "openmetrics"));
}

#[test]
fn one_figure_is_a_report() {
    let events = Here::new().measure(&["selftest.fault", "--preset", "rehearsal"]);
    let figures = figures(&events);
    assert_eq!(figures.len(), 1);
    assert_eq!(figures[0]["value"], 42.0);
    for format in FORMATS {
        let text = report(&events, format);
        assert!(text.contains("42"), "{format}: {text}");
    }
}

#[test]
fn a_failed_family_says_why_in_every_format() {
    let events = records::failed_family(real(), "os", "died of signal 11");
    for format in ["terminal", "markdown", "csv", "json", "html"] {
        assert!(report(&events, format).contains("signal 11"), "{format}");
    }
    let figures = figures(&events);
    let of_os = |figure: &&Value| figure["experiment"] == "os.syscall";
    assert!(figures.iter().filter(of_os).all(|figure| figure["value"].is_null()));
    assert!(figures.iter().any(|figure| figure["value"].is_number()));
}

#[test]
fn a_run_killed_at_any_line_is_a_report() {
    let events = real();
    for lines in [1, 2, events.len() / 2, events.len() - 1] {
        let events = records::killed(events.clone(), lines);
        for format in FORMATS {
            report(&events, format);
        }
        is_openmetrics(&report(&events, "openmetrics"));
    }
}

#[test]
fn strange_values_are_told_or_left_out_but_never_words() {
    let mut events = real();
    for (id, metric) in
        [("cpu.call", "call"), ("memory.mlp", "load_time"), ("os.syscall", "latency")]
    {
        records::strange_samples(&mut events, id, metric);
    }
    for format in FORMATS {
        let text = report(&events, format);
        for wrong in ["NaN", "nan ", "-inf", "+Inf"] {
            // The page carries a library, which has words of its own.
            assert!(format == "html" || !text.contains(wrong), "{format}: {wrong}");
        }
    }
    figures(&events);
    is_openmetrics(&report(&events, "openmetrics"));
}

#[test]
fn names_of_anywhere_are_told() {
    let events = records::appended(real(), FOREIGN);
    for format in ["terminal", "markdown", "html"] {
        assert!(report(&events, format).contains("größe-Ωμέγα-主机-מחשב"), "{format}");
    }
    figures(&events);
    is_openmetrics(&report(&events, "openmetrics"));
}

/// A text that a terminal shows and does nothing else with.
#[track_caller]
fn commands_nothing(what: &str, text: &str) {
    let found: Vec<&str> =
        text.lines().filter(|line| line.chars().any(records::commands)).collect();
    assert!(found.is_empty(), "{what} has commands: {found:#?}");
}

#[test]
fn hostile_texts_command_no_terminal() {
    let mut events = records::appended(real(), HOSTILE);
    let here = Here::new();
    fs::create_dir(here.path("store")).unwrap();
    for run in ["2026-11-01T10-00-00-one", "2026-11-02T10-00-00-two"] {
        events[0]["run"] = run.into();
        let text = lines(&events);
        fs::write(here.path("store").join(format!("{run}.jsonl")), &text).unwrap();
        fs::write(here.path(run), text).unwrap();
    }
    // A file's name and a selector are as hostile as what stands in a file.
    let name = "\u{1b}]0;planted\u{7}\u{202e}.jsonl";
    fs::write(here.path(name), "no record").unwrap();
    for args in [
        &["runs"][..],
        &["compare", "2026-11-01T10-00-00-one", "2026-11-02T10-00-00-two", "--all"],
        &["trend", "cpu.call"],
        &["report", name],
        &["compare", name, "last"],
        &["trend", name],
        &["plan", name],
    ] {
        let answer = here.plumb(args);
        let what = args.join(" ");
        assert!(answer.out.len() + answer.err.len() > 0, "{what} says nothing");
        commands_nothing(&what, &answer.out);
        commands_nothing(&what, &answer.err);
    }
}

#[test]
fn hostile_texts_are_texts_in_every_format() {
    let events = records::appended(real(), HOSTILE);
    // What is shown as it is, or read on a terminal by who looks for something in a file.
    for format in ["terminal", "markdown", "openmetrics", "html"] {
        commands_nothing(format, &report(&events, format));
    }
    let html = report(&events, "html");
    assert!(!html.contains("<img class=planted") && !html.contains("<svg class=planted"));
    figures(&events);
    is_openmetrics(&report(&events, "openmetrics"));
    // In Markdown no text begins an element: a renderer that lets HTML through makes none of it.
    let markdown = report(&events, "markdown");
    let within_code = |line: &str, at: usize| line[..at].matches('`').count() % 2 == 1;
    let planted: Vec<&str> = markdown
        .lines()
        .filter(|line| {
            line.match_indices("<img class=planted")
                .any(|(at, _)| !line[..at].ends_with('\\') && !within_code(line, at))
        })
        .collect();
    assert!(planted.is_empty(), "{planted:#?}");
}
