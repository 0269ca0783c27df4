//! Goldens of every format on the synthetic run. `UPDATE_GOLDENS=1` rewrites them.

mod beside;
mod claims;
mod nearest;
mod odd;
mod probes;
mod spread;

use super::build::{build, summary};
use super::document::{Block, Document, Plot, Section, Shape, Table};
use super::terminal::{self, Look};
use super::{compare_json, csv, html, json, markdown, ndjson, openmetrics};
use analysis::sample;
use bench::experiment::ViewCard;
use record::event::{Event, Header, PlannedExperiment, Trace};
use record::run::Run;
use record::view::View;
use serde_json::Value;
use std::path::Path;

const PLAIN: Look = Look { width: 100, colours: false };

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testdata").join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}, line {}; UPDATE_GOLDENS=1 rewrites it", at + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}: lines");
}

fn planned<'run>(run: &'run mut Run, id: &str) -> &'run mut PlannedExperiment {
    let mut planned = run.plan.as_mut().unwrap().experiments.iter_mut();
    planned.find(|planned| planned.id == id).unwrap()
}

fn section<'a>(document: &'a Document, id: &str) -> &'a Section {
    document.sections.iter().find(|section| section.id == id).expect("is in the document")
}

fn blocks<'a>(sections: impl IntoIterator<Item = &'a Section>) -> impl Iterator<Item = &'a Block> {
    sections.into_iter().flat_map(|section| &section.blocks).map(|(_, block)| block)
}

fn plots<'a>(sections: impl IntoIterator<Item = &'a Section>) -> impl Iterator<Item = &'a Plot> {
    blocks(sections).filter_map(|block| match block {
        Block::Plot(plot) => Some(plot),
        _ => None,
    })
}

pub(crate) fn tables<'a>(
    sections: impl IntoIterator<Item = &'a Section>,
) -> impl Iterator<Item = &'a Table> {
    blocks(sections).filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    })
}

fn every_format(run: &Run, document: &Document) -> [(&'static str, String); 7] {
    let page = html::render(document, html::Print::Full);
    [
        ("pictures", html::pictures(&page)),
        ("terminal", terminal::render(document, PLAIN)),
        ("page", page),
        ("markdown", markdown::render(document)),
        ("csv", csv::render(run)),
        ("json", json::render(run)),
        ("openmetrics", openmetrics::render(run)),
    ]
}

/// A run with every text changed, which is told apart by its key; that of an environment's text is
/// `environment`.
fn with_texts(
    header: Header,
    events: impl IntoIterator<Item = Event>,
    change: impl Fn(&str, String) -> String,
) -> Run {
    fn changed(key: &str, value: Value, change: &dyn Fn(&str, String) -> String) -> Value {
        match value {
            Value::String(text) => Value::String(change(key, text)),
            Value::Array(all) => all.into_iter().map(|one| changed(key, one, change)).collect(),
            Value::Object(all) => {
                let all = all.into_iter().map(|(name, value)| {
                    let key = if key == "environment" { key } else { &name };
                    let value = changed(key, value, change);
                    (name, value)
                });
                Value::Object(all.collect())
            }
            other => other,
        }
    }
    let header = serde_json::to_value(header).unwrap();
    let mut run = Run::new(serde_json::from_value(changed("", header, &change)).unwrap());
    for event in events {
        let event = changed("", serde_json::to_value(event).unwrap(), &change);
        run.push(record::codec::event(event.to_string().as_bytes()).unwrap());
    }
    run
}

/// What a JSON text has against the schema of the flat result.
fn schema_errors(value: &Value) -> Vec<String> {
    let schema = json::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors = validator.iter_errors(value);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn terminal_golden() {
    let text = terminal::render(&build(&sample::run()), PLAIN);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{2060}'));
    check("terminal.txt", &text);
}

#[test]
fn screen_golden() {
    let mut run = sample::run();
    let text = terminal::screen(&summary::screen(&run), &["plumb report last --full"], PLAIN);
    check("screen.txt", &text);
    // Of a few experiments, these take the table's place.
    let plan = run.plan.as_mut().unwrap();
    plan.experiments.retain(|planned| planned.id == "os.syscall");
    let few = summary::screen(&run);
    let whole = terminal::screen(&few, &[], PLAIN);
    assert!(few.experiments.is_some() && whole.contains("\nos.syscall: "), "{whole}");
}

#[test]
fn a_run_that_barely_started_says_how_far_it_came() {
    let barely = sample::kept(|event| matches!(event, Event::Plan(_)));
    let killed_first = Run::new(sample::header());
    for run in [barely, killed_first] {
        let shown = summary::screen(&run);
        assert!(shown.so_far.is_some() && shown.experiments.is_none());
        let text = terminal::screen(&shown, &["plumb run --resume last"], PLAIN);
        assert!(text.lines().count() <= 12 && text.contains("\nMEASURED "), "{text}");
    }
    let killed = sample::kept(|event| !matches!(event, Event::Footer(_)));
    assert!(!killed.has_ended() && sample::run().has_ended());
    for run in [sample::run(), killed] {
        assert_eq!(summary::screen(&run).so_far, None, "it has key figures");
    }
}

#[test]
fn a_narrow_terminal_is_kept() {
    let look = Look { width: 60, ..PLAIN };
    let text = terminal::render(&build(&sample::run()), look);
    for line in text.lines() {
        assert!(line.chars().count() <= 60 || !line.trim().contains(' '), "{line}");
    }
}

#[test]
fn markdown_golden() {
    check("report.md", &markdown::render(&build(&sample::run())));
}

#[test]
fn csv_golden() {
    let text = csv::render(&sample::run());
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows = reader.records().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(rows.len(), analysis::figures(&sample::run()).len());
    check("figures.csv", &text);
}

#[test]
fn the_schemas_are_those_of_the_types() {
    for (name, schema) in [
        ("../result.schema.json", json::schema()),
        ("../comparison.schema.json", compare_json::schema()),
        ("../line.schema.json", ndjson::schema()),
    ] {
        let text = serde_json::to_string_pretty(&schema).unwrap();
        check(name, &format!("{text}\n"));
    }
}

#[test]
fn json_golden_meets_its_schema() {
    let text = json::render(&sample::run());
    let mut value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema_errors(&value), [""; 0]);
    check("result.json", &text);
    value["figures"][0]["outcome"] = "maybe".into();
    assert!(!schema_errors(&value).is_empty(), "the schema refuses an unknown outcome");
}

#[test]
fn openmetrics_golden() {
    let text = openmetrics::render(&sample::run());
    assert!(text.ends_with("# EOF\n"));
    check("metrics.txt", &text);
}

#[test]
fn the_page_needs_nothing_else() {
    let page = html::render(&build(&sample::run()), html::Print::Full);
    assert!(page.len() < 300_000, "{}", page.len());
    assert!(!page.contains("src="), "nothing is fetched");
    for (at, _) in page.match_indices(" href=") {
        assert!(page[at..].starts_with(" href=\"#"), "{}", &page[at..at + 40]);
    }
    // A saved picture states its namespace, which nothing fetches.
    let plain = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!plain.contains("http://") && !plain.contains("https://"));
    for part in ["default-src 'none'", "impossible", "<noscript>"] {
        assert!(page.contains(part), "{part}");
    }
    let pictures = html::pictures(&page);
    assert!(pictures.contains("L2 512 KiB stated") && pictures.contains("detected"));
    if let Some(path) = std::env::var_os("PLUMB_PAGE") {
        std::fs::write(path, page).unwrap();
    }
}

#[test]
fn text_of_a_run_cannot_break_out_of_the_page() {
    let mut run = sample::run();
    run.header.environment.insert("kernel".into(), "<script>alert(1)</script>".into());
    let mut document = build(&run);
    document.sections.retain(|section| section.id == "environment");
    let page = html::render(&document, html::Print::Full);
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains("<script"), "a page without plots carries no script");
}

#[test]
fn a_matrix_has_a_row_and_a_column_per_value() {
    let mut run = sample::run();
    planned(&mut run, "memory.latency").view =
        ViewCard::matrix("footprint", "pages", "latency").view();
    let text = markdown::render(&build(&run));
    assert!(text.contains("\\\\ pages|huge|"), "{text}");
    assert!(text.contains("|128 MiB|94.9 ns|"));
}

#[test]
fn a_curve_goes_along_its_steps() {
    let mut run = sample::run();
    planned(&mut run, "memory.latency").view =
        ViewCard::curve("footprint", "latency", "latency").view();
    let document = build(&run);
    let plot = plots(&document.sections)
        .find(|plot| plot.title == "memory.latency: latency over latency")
        .expect("a curve");
    let lines = plot.series.iter().filter(|one| one.shape == Shape::Line);
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "one line: only the footprint differs");
    let bands = plot.series.iter().filter(|one| one.shape == Shape::Band);
    assert_eq!(bands.count(), 1, "with what was predicted");
    let found: Vec<f64> = lines[0].points.iter().map(|point| point.x).collect();
    assert!(found.len() > 6, "{found:?}");
    // The sample's ladder climbs, but for rungs within a level.
    let inversions = found.windows(2).filter(|pair| pair[1] < 0.9 * pair[0]);
    assert_eq!(inversions.count(), 0, "{found:?}");
    assert!(lines[0].points.iter().all(|point| point.x == point.y));
}

#[test]
fn spans_have_lanes_and_a_table_of_the_first_round_of_each_case() {
    let mut run = sample::run();
    planned(&mut run, "clock.rate").view = ViewCard::spans("timeline", "periods").view();
    let names = |column: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        std::collections::BTreeMap::from([(column.to_owned(), names)])
    };
    let trace = |kind: &str, columns: &[&str], names, rows: &[[f64; 3]], round| Trace {
        series: "clock.rate".into(),
        round,
        case: record::key::CaseId::new(),
        kind: kind.into(),
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows: rows.iter().map(|row| row.to_vec()).collect(),
        names,
        dropped: 0,
    };
    let states = names("state", &["active", "never", "timer"]);
    let columns = ["start_ns", "duration_ns", "state"];
    let spans = [[0.0, 4e6, 0.0], [4e6, 3e3, 2.0], [4.003e6, 4e6, 0.0]];
    let causes = names("cause", &["timer"]);
    let rows = [[3_998_123.0, 14_360.0, 0.0], [3_999_001.0, 14_361.0, 1.0]];
    let periods = ["active_ns", "active_cycle", "cause"];
    run.traces = vec![
        trace("timeline", &columns, states.clone(), &spans, 1),
        trace("timeline", &columns, states, &spans[..1], 2),
        trace("periods", &periods, causes, &rows, 1),
    ];
    let document = build(&run);
    let plots: Vec<&Plot> = plots(&document.sections)
        .filter(|plot| plot.title == "clock.rate: timeline, round 1")
        .collect();
    let lanes: Vec<(&str, usize)> =
        plots[0].series.iter().map(|lane| (lane.name.as_str(), lane.points.len())).collect();
    assert_eq!(lanes, [("active", 2), ("timer", 1)]);
    assert_eq!(plots.len(), 1, "a round is enough");
    let periods = tables(&document.sections).find(|table| {
        let headings = table.columns.iter().map(|column| column.heading.as_str());
        headings.eq(["active (ms)", "active (cycles)", "cause"])
    });
    let rows = periods.expect("the periods").rows.iter();
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.cells.iter().map(|cell| cell.text.as_str()).collect()).collect();
    assert_eq!(rows, [["3.998123", "14360", "timer"], ["3.999001", "14361", "-"]]);
    let pictures = html::pictures(&html::render(&document, html::Print::Full));
    assert!(pictures.contains(r#"class=\"span\""#) && pictures.contains("timer: "), "{pictures}");
}

#[test]
fn a_run_killed_before_its_plan_is_still_a_report() {
    let run = Run::new(sample::header());
    let document = build(&run);
    let text = terminal::render(&document, PLAIN);
    assert!(text.contains("before its plan"), "{text}");
    assert!(markdown::render(&document).contains("## Machine"));
    assert!(json::render(&run).contains("\"figures\": []"));
}

#[test]
fn a_second_metric_has_a_picture_of_its_own() {
    let mut run = sample::run();
    let View::Line { metric, beside, .. } = &mut planned(&mut run, "memory.latency").view else {
        panic!("the ladder is a line");
    };
    beside.push(metric.clone());
    beside.push("nobody".to_owned());
    let document = build(&run);
    let section = section(&document, "memory.latency");
    assert_eq!(plots([section]).count(), 2, "what has no figures has no picture");
}

#[test]
fn every_report_says_that_events_never_ended() {
    let document = build(&sample::unanswered());
    let wide = Look { width: 200, ..PLAIN };
    for text in [terminal::render(&document, wide), html::render(&document, html::Print::Full)] {
        assert!(text.contains("≥ "), "a percentile is a bound: {text}");
    }
}

#[test]
fn an_experiment_lists_its_worst_misses_with_their_causes() {
    let document = build(&sample::run());
    let table = tables([section(&document, "os.syscall")]).last().expect("a call is slower");
    let causes = table.columns.iter().position(|column| column.heading == "candidate causes");
    let cell = &table.rows[0].cells[causes.expect("causes stand in a column")];
    assert!((1..=3).contains(&table.rows.len()) && cell.text.contains("retpolines"), "{table:?}");
    assert!(
        tables([section(&document, "os.pipe")]).all(|table| {
            table.columns.iter().all(|column| column.heading != "candidate causes")
        })
    );
}
