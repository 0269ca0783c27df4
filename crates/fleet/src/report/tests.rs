//! Goldens of every format on a drawn sweep, and what no record may do to them. `UPDATE_GOLDENS=1`
//! rewrites the goldens and the schemas.

use super::names::Titles;
use super::{View, build, compared, csv, json, openmetrics};
use crate::compare::compare;
use crate::fixture::Fleet;
use crate::model::{At, Charge, Verdict};
use crate::read::{Sweep, read};
use record::plain::steers;
use report::document::Document;
use report::openmetrics::strict;
use report::terminal::Look;
use report::{html, markdown, terminal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const PLAIN: Look = Look { width: 100, colours: false };
const PARAMS: [&str; 4] = ["op", "level", "threads", "call"];

fn sweep(fleet: &Fleet) -> Sweep {
    read(&fleet.record()[..]).unwrap()
}

fn view(sweep: &Sweep) -> View<'_> {
    let keys = sweep.figures.iter().map(|figure| &figure.key);
    let titles = Titles::of(keys.chain(sweep.pairs.iter().map(|pair| &pair.key)), |_| None);
    View::from_sweep(sweep, titles)
}

fn after() -> Fleet {
    Fleet {
        noise: 2,
        id: "2026-11-27T21-00-rank0",
        changed: vec![("os.syscall", 0.93)],
        kernel: "6.18.1",
        slow: vec![(7, "memory.bandwidth", 0.71), (9, "memory.bandwidth", 0.8)],
        ..Fleet::planted()
    }
}

/// Compares with `src/report/testdata/<name>`, or rewrites it.
fn check(name: &str, found: &str) {
    golden(&format!("src/report/testdata/{name}"), found);
}

fn golden(path: &str, found: &str) {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(&full, found).unwrap();
    }
    let expected = std::fs::read_to_string(&full).unwrap_or_default();
    for (at, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{path}, line {}; UPDATE_GOLDENS=1 rewrites it", at + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{path}: lines");
}

/// A document in every format, by the format's name.
fn shown(document: &Document) -> [(&'static str, String); 3] {
    [
        ("terminal", terminal::render(document, PLAIN)),
        ("page", html::render(document, html::Print::Full)),
        ("markdown", markdown::render(document)),
    ]
}

fn every_format(view: &View) -> Vec<(&'static str, String)> {
    let mut all = shown(&build(view, true)).to_vec();
    all.extend([
        ("csv", csv::render(view, &PARAMS)),
        ("json", json::render(view)),
        ("openmetrics", openmetrics::render(view)),
    ]);
    all
}

fn schema_errors(schema: &Value, text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).unwrap();
    let validator = jsonschema::validator_for(schema).unwrap();
    validator.iter_errors(&value).map(|error| error.to_string()).collect()
}

#[test]
fn the_answer_is_what_was_planted() {
    let sweep = sweep(&Fleet::planted());
    let view = view(&sweep);
    let accused: BTreeSet<At> = view.judgement.verdicts.iter().map(|verdict| verdict.at).collect();
    assert_eq!(accused, [At::Node(7), At::Link(3, 11)].into(), "{:?}", view.judgement.verdicts);
    assert!(view.judgement.verdicts.iter().all(|verdict| verdict.charge != Charge::Suspect));
    check("planted.txt", &terminal::render(&build(&view, false), PLAIN));
    check("planted-full.txt", &terminal::render(&build(&view, true), PLAIN));
    check("planted.md", &markdown::render(&build(&view, true)));
    let csv = csv::render(&view, &PARAMS);
    let rows: Vec<&str> = csv.lines().collect();
    let some = rows.iter().take(15).chain(rows.iter().skip(rows.len() / 2).take(15));
    check("planted.csv", &some.map(|row| format!("{row}\n")).collect::<String>());
    check("planted.prom", &openmetrics::render(&view));
}

#[test]
fn a_healthy_fleet_says_what_it_could_have_seen() {
    let sweep = sweep(&Fleet::healthy(24));
    let view = view(&sweep);
    let text = terminal::render(&build(&view, false), PLAIN);
    assert!(text.contains("no node and no link is worse than its peers"), "{text}");
    let (_, after) = text.split_once("CANNOT SEE").expect("what it could not see");
    assert!(after.trim_start().starts_with("nodes less than 10"), "{text}");
    assert!(!text.contains("LOST") && !text.contains("not measured, and why"), "{text}");
    check("healthy.txt", &text);
}

#[test]
fn figures_of_pairs_that_hide_half_a_path_are_named() {
    let sweep = sweep(&Fleet::healthy(24));
    let mut view = view(&sweep);
    let all = view.judgement.detectable_links.len();
    assert!(all > 0 && view.judgement.detectable_links.iter().all(|of| of.factor < 2.0));
    view.judgement.detectable_links[0].factor = 2.44;
    let text = markdown::render(&build(&view, true));
    let count = format!("paths at half the rate in 1 of {all} figures of pairs: net.");
    assert!(text.contains(&count) && text.contains("(from 2.4 times worse)"), "{text}");
}

/// A node is unstable by its links at a level of these, and a suspect by its scatter at a scatter.
#[test]
fn what_scatters_is_stated_as_scatter_and_what_is_slower_as_a_level() {
    let sweep = sweep(&Fleet::planted());
    let mut view = view(&sweep);
    let link = |of: &&mut Verdict| of.charge == Charge::DegradedLink;
    let verdict = view.judgement.verdicts.iter_mut().find(link).unwrap();
    (verdict.charge, verdict.at) = (Charge::Unstable, At::Node(3));
    (verdict.factor, verdict.evidence.value) = (2.25, 0.125);
    let text = markdown::render(&build(&view, true));
    assert!(text.contains("2.25× slower") && !text.contains("± 12"), "{text}");
    let unstable = |of: &&mut Verdict| of.charge == Charge::Unstable;
    let verdict = view.judgement.verdicts.iter_mut().find(unstable).unwrap();
    (verdict.charge, verdict.subject.is_scatter) = (Charge::Suspect, true);
    let text = markdown::render(&build(&view, true));
    assert!(text.contains("2.25× the scatter") && text.contains("± 12"), "{text}");
}

#[test]
fn few_nodes_are_compared_with_the_prediction_alone() {
    let sweep = sweep(&Fleet::healthy(6));
    let view = view(&sweep);
    let text = markdown::render(&build(&view, true));
    for part in ["only with the prediction", "6 nodes with fewer than five peers", "not compared"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("|as its peers|"), "{text}");
}

#[test]
fn a_comparison_names_the_change_and_the_node() {
    let (base, new) = (sweep(&Fleet::planted()), sweep(&after()));
    let comparison = compare(&base, &new);
    let titles = view(&base).titles;
    check("compared.txt", &terminal::render(&compared::build(&comparison, &titles, false), PLAIN));
    check("compared.md", &markdown::render(&compared::build(&comparison, &titles, true)));
    let csv = compared::csv::render(&comparison);
    assert!(csv.lines().count() > 24 * 12, "{}", csv.lines().count());
    let json = compared::json::render(&comparison);
    assert_eq!(schema_errors(&compared::json::schema(), &json), [""; 0]);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["finding"], true);
}

#[test]
fn the_schemas_are_those_of_the_types() {
    for (path, schema) in [
        ("src/report/sweep.schema.json", json::schema()),
        ("src/report/compared/comparison.schema.json", compared::json::schema()),
    ] {
        golden(path, &(serde_json::to_string_pretty(&schema).unwrap() + "\n"));
    }
    let sweep = sweep(&Fleet::planted());
    let text = json::render(&view(&sweep));
    assert_eq!(schema_errors(&json::schema(), &text), [""; 0]);
    let other = text.replace("\"degraded_link\"", "\"guilty\"");
    assert!(!schema_errors(&json::schema(), &other).is_empty(), "an unknown charge is refused");
}

#[test]
fn odd_sweeps_are_shown_too() {
    let whole = sweep(&Fleet::planted());
    let header = Sweep::new(whole.header.clone());
    let nodes = Sweep { nodes: whole.nodes.clone(), ..header.clone() };
    let alone = Sweep { pairs: Vec::new(), ..whole.clone() };
    let pairs = Sweep { figures: Vec::new(), end: None, torn: true, ..whole.clone() };
    let mut odd = whole.clone();
    for (at, figure) in odd.figures.iter_mut().enumerate() {
        figure.estimate.value = [0.0, -1.0, f64::INFINITY, f64::NAN, 1e300][at % 5];
        figure.estimate.ci = Some((f64::NAN, f64::INFINITY));
    }
    odd.pairs.iter_mut().step_by(3).for_each(|pair| pair.estimate.value = 0.0);
    for (name, sweep) in
        [("header", header), ("nodes", nodes), ("alone", alone), ("pairs", pairs), ("odd", odd)]
    {
        let view = view(&sweep);
        for (format, text) in every_format(&view) {
            assert!(!text.is_empty(), "{name} {format}");
            let first = text.lines().all(|line| !line.contains("NaN") && !line.contains("inf "));
            assert!(first || format == "page", "{name} {format}");
        }
        strict::read(&openmetrics::render(&view)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let comparison = compare(&whole, &sweep);
        shown(&compared::build(&comparison, &view.titles, true));
        compared::json::render(&comparison);
    }
}

/// Texts that another host may send.
const HOSTILE: [&str; 6] = [
    "</script><script>alert(1)</script>",
    "=HYPERLINK(\"http://x\")",
    "a\u{1b}[2J\u{7}\u{9b}31m\u{202e}b\r\nc",
    "| x | [y](http://z) `t` <img src=x onerror=alert(1)>",
    "a\"b\\c\nd{e}",
    "@SUM(A1)",
];

#[test]
fn texts_of_the_network_stay_texts() {
    let mut sweep = sweep(&Fleet::planted());
    for (rank, node) in &mut sweep.nodes {
        let text = HOSTILE[*rank as usize % HOSTILE.len()];
        node.name = format!("{text}{rank}");
        node.address = text.to_owned();
        node.record = Some(text.to_owned());
        node.labels =
            [(text.to_owned(), text.to_owned()), ("node".to_owned(), text.to_owned())].into();
        node.stratum.insert("nic".to_owned(), HOSTILE[0].to_owned());
    }
    for absent in &mut sweep.absents {
        absent.why = HOSTILE[2].to_owned();
    }
    sweep.header.id = HOSTILE[1].to_owned();
    sweep.header.starter = HOSTILE[3].to_owned();
    let view = view(&sweep);
    for (format, text) in every_format(&view) {
        let steering = text.chars().find(|letter| *letter != '\n' && steers(*letter));
        assert_eq!(steering, None, "{format}");
        if format == "page" {
            assert!(!text.contains("<script>alert") && !text.contains("<img src=x"), "{format}");
        }
        if format == "markdown" {
            assert!(!text.contains("<script>") && !text.contains("[y](http"), "{text}");
        }
        if format == "csv" {
            let formula = text.lines().flat_map(|line| line.split(','));
            let formula = formula
                .map(|cell| cell.trim_matches('"'))
                .find(|cell| cell.starts_with(['=', '+', '@']) && cell.parse::<f64>().is_err());
            assert_eq!(formula, None);
        }
    }
    strict::read(&openmetrics::render(&view)).unwrap();
    let value: Value = serde_json::from_str(&json::render(&view)).unwrap();
    assert_eq!(value["nodes"][2]["address"], HOSTILE[2], "JSON keeps the text by escapes");
}

#[test]
fn a_page_of_a_thousand_nodes_has_limits_and_says_so() {
    let sweep = sweep(&Fleet {
        slow: vec![(700, "memory.bandwidth", 0.8)],
        link: Some((3, 11, 0.5)),
        lost: Some(20),
        ..Fleet::healthy(1000)
    });
    let view = view(&sweep);
    let page = html::render(&build(&view, true), html::Print::Full);
    assert!(page.len() < 1_200_000, "{} bytes", page.len());
    assert!(page.contains("120 of 1000 nodes are drawn"), "the heat map's limit");
    assert!(page.contains("stands for 9 nodes"), "the matrix' limit");
    assert!(page.contains("node-700") && page.contains("node-03 → node-11"));
    let lines = terminal::render(&build(&view, false), PLAIN).lines().count();
    assert!(lines < 80, "{lines} lines");
    assert_eq!(
        csv::render(&view, &PARAMS).lines().count(),
        1 + sweep.figures.len() + sweep.pairs.len()
    );
}
