//! What stands beside other tools, in every format.

use super::super::{build::build, html, json, markdown, openmetrics, terminal};
use super::{
    PLAIN, blocks, check, every_format, plots, schema_errors, section, tables, with_texts,
};
use crate::document::{Audience, Block, Document};
use analysis::crosscheck::{rows, sample};
use record::crosscheck::{Began, Goal};
use record::event::Event;
use record::plain::steers;
use record::run::Run;
use serde_json::Value;

fn ids(document: &Document) -> Vec<&str> {
    let sections = document.sections.iter();
    sections.map(|section| section.id.as_str()).collect()
}

#[test]
fn a_crosschecks_own_record_is_a_report_of_it_alone() {
    let document = build(&sample::run_of_plumb());
    assert_eq!(ids(&document), ["crosscheck", "findings", "machine", "environment"]);
    assert!(document.title.starts_with("Crosscheck: "));
    let told = "2 of 3 goals compared with other tools met, 1 explained by a difference in method, 3 not \
                judged, 1 not compared; 2 findings.";
    assert_eq!(document.summary, told);
    for section in &document.sections {
        assert!(!section.blocks.is_empty(), "{}", section.id);
    }
    check("crosscheck.txt", &terminal::render(&document, PLAIN));
    let text = markdown::render(&document);
    markdown::tests::check(&text);
    check("crosscheck.md", &text);
}

#[test]
fn a_run_that_had_one_added_has_it_after_its_experiments() {
    let document = build(&sample::added());
    let ids = ids(&document);
    let place = |id: &str| ids.iter().position(|of| *of == id);
    assert!(place("memory.latency") < place("crosscheck"), "{ids:?}");
    assert!(place("crosscheck").is_some() && place("crosscheck") < place("score"));
    assert!(document.title.starts_with("Lab report: "));
    // The goals are counted as in a record of the comparison alone.
    let alone = build(&sample::run_of_plumb()).summary;
    let goals = alone.split(", ").next().expect("the goals");
    assert!(goals.starts_with("2 of 3 ") && document.summary.contains(goals), "{goals}");
    let without = build(&analysis::sample::run());
    assert!(!without.sections.iter().any(|section| section.id == "crosscheck"));
    assert!(!without.summary.contains("tools"));
}

/// An added one has a day and an environment of its own: what is set otherwise is named, what moves
/// by itself is not.
#[test]
fn when_it_was_made_is_told_with_what_was_otherwise_then() {
    let mut run = sample::added();
    let mut environment = run.header.environment.clone();
    environment.insert("load_1m".to_owned(), "99".to_owned());
    let mut began = Began {
        started: "2026-11-23T08:00:00Z".to_owned(),
        plumb: "0.1.0".to_owned(),
        preset: "standard".to_owned(),
        pairs: 9,
        environment,
    };
    run.push(Event::Crosscheck(began.clone()));
    let text = terminal::render(&build(&run), PLAIN);
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let alike = "Begun 2026-11-23T08:00:00Z by plumb 0.1.0, standard, 9 turns a comparison.";
    assert!(told.contains(alike), "{told}");
    began.environment.insert("<b>kernel".to_owned(), "7.0".to_owned());
    run.push(Event::Crosscheck(began));
    let document = build(&run);
    let begun = blocks([section(&document, "crosscheck")]).find_map(|block| match block {
        Block::Paragraph(text) if text.contains(&run.header.plumb) => Some(text),
        _ => None,
    });
    let begun = begun.expect("when it was made");
    assert!(begun.contains("<b>kernel") && !begun.contains("load_1m"), "{begun}");
    assert!(!html::render(&document, html::Print::Full).contains("<b>kernel"));
}

#[test]
fn every_row_stands_in_a_table_and_every_ratio_in_the_plot() {
    let run = sample::run_of_plumb();
    let document = build(&run);
    let section = &document.sections[0];
    let names: Vec<&str> = tables([section])
        .flat_map(|table| &table.rows)
        .map(|row| row.cells[0].text.as_str())
        .collect();
    let rows = rows(&run);
    for row in &rows {
        assert!(names.contains(&row.name().as_str()), "{}: {names:?}", row.name());
    }
    assert!(names.contains(&"iozone") && names.contains(&"ping"));
    let plots: Vec<_> = plots([section]).collect();
    assert_eq!(plots.len(), 1);
    let [goals, drawn] = plots[0].series.as_slice() else {
        panic!("the goals and the ratios");
    };
    let has_goal = rows.iter().filter(|row| row.ratio.is_some() && row.row.goal != Goal::Explained);
    assert_eq!(goals.points.len(), has_goal.count());
    for goal in &goals.points {
        let (low, high) = goal.ends.expect("a goal has ends");
        assert!(low <= 1.0 && 1.0 <= high && low < high, "{low} {high}");
        let of = &drawn.points[goal.x as usize];
        assert!(of.hover.contains("goal"), "{}", of.hover);
    }
    let points = &drawn.points;
    let ratios: Vec<f64> = points.iter().map(|point| point.y).collect();
    let expected: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
    assert_eq!(ratios, expected);
    assert_eq!(points[0].ends, rows[0].interval);
    let is_folded = |(audience, block): &(Audience, Block)| {
        *audience == Audience::Page && matches!(block, Block::Folded { .. })
    };
    let folded = section.blocks.iter().filter(|block| is_folded(block));
    assert_eq!(folded.count(), 3, "the commands beside each tool");
}

#[test]
fn nothing_compared_is_told_in_a_sentence() {
    let mut run = Run::new(sample::run_of_plumb().header);
    let mut rival = sample::rival("perf");
    let reason = "no perf in PATH";
    rival.absent = Some(record::event::Absence { reason: reason.into(), needed: None });
    run.push(Event::Rival(rival));
    let text = terminal::render(&build(&run), PLAIN);
    assert!(text.contains(reason), "{text}");
    let nothing = Run::new(sample::run_of_plumb().header);
    let document = build(&nothing);
    assert_eq!(ids(&document), ["findings", "machine", "environment"]);
    assert!(document.summary.starts_with("no comparison"));
}

#[test]
fn the_flat_result_meets_its_schema() {
    for run in [sample::run_of_plumb(), sample::added(), hostile()] {
        let mut value: Value = serde_json::from_str(&json::render(&run)).unwrap();
        assert_eq!(schema_errors(&value), [""; 0]);
        let row = &value["crosscheck"][0]["pairings"][1]["rows"][0];
        assert_eq!(row["verdict"], "missed");
        assert_eq!(row["ratios"].as_array().unwrap().len(), 9);
        value["crosscheck"][0]["pairings"][1]["rows"][0]["goal"] = "best".into();
        assert!(!schema_errors(&value).is_empty(), "an unknown goal is refused");
    }
    let without: Value = serde_json::from_str(&json::render(&analysis::sample::run())).unwrap();
    assert!(without.get("crosscheck").is_none());
}

#[test]
fn gauges_tell_ratios_and_goals() {
    for run in [sample::run_of_plumb(), sample::added()] {
        let text = openmetrics::render(&run);
        if let Err(error) = openmetrics::strict::read(&text) {
            panic!("{error}");
        }
        let lines = |name: &str| {
            let of = format!("{name}{{");
            text.lines().filter(|line| line.starts_with(&of)).count()
        };
        assert_eq!(lines("plumb_crosscheck_ratio"), 7, "{text}");
        assert_eq!(lines("plumb_crosscheck_low_ratio"), 5, "from six turns");
        assert_eq!(lines("plumb_crosscheck_goal_met"), 3);
        let missed = "pairing=\"sched-pipe\",row=\"\"} 0";
        assert!(text.contains(missed), "{text}");
    }
}

/// A crosscheck whose every text, names included, tries to steer or to be markup.
fn hostile() -> Run {
    const TEXT: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\r\n\u{2028}<b class=planted>|`*_[x](y) @z #1";
    let is_fixed = |key: &str| ["event", "goal", "outcome", "unit"].contains(&key);
    let mut run = with_texts(sample::run_of_plumb().header, sample::events(), |key, text| {
        if is_fixed(key) { text } else { format!("{text}{TEXT}") }
    });
    run.header = sample::run_of_plumb().header;
    run
}

#[test]
fn no_text_of_a_crosscheck_steers_or_is_markup() {
    let run = hostile();
    assert_eq!(rows(&run).len(), rows(&sample::run_of_plumb()).len());
    let document = build(&run);
    for (name, text) in every_format(&run, &document) {
        match name {
            "page" => assert!(!text.contains("<b class"), "text became markup"),
            "markdown" => {
                markdown::tests::check(&text);
                let unescaped = text.replace("\\<b class", "");
                assert!(!unescaped.contains("<b class"), "{text}");
            }
            _ => {}
        }
        let found = text.find(|letter| letter != '\n' && steers(letter));
        assert_eq!(found, None, "{name}");
        assert!(text.contains("owned"), "{name}");
    }
    if let Err(error) = openmetrics::strict::read(&openmetrics::render(&run)) {
        panic!("{error}");
    }
}
