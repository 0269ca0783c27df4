//! Runs that came out oddly, in every format.

use super::super::{build::build, csv, html, json, markdown, openmetrics, terminal};
use super::{PLAIN, every_format, schema_errors, with_texts};
use crate::document::Document;
use analysis::sample;
use host::{Host, Root};
use record::event::{Absence, Derived, Ending, Event, Outcome, PeerHeader, Raw, RoundStatus};
use record::plain::steers;
use record::run::Run;
use serde_json::Value;

/// Named runs: what became of them, and how many figures and absences they have at least.
fn odd() -> Vec<(&'static str, Run, usize)> {
    let skipped = sample::kept(|event| match event {
        Event::Plan(plan) => {
            for planned in &mut plan.experiments {
                planned.series.clear();
                planned.derived.clear();
                planned.skipped = Some(Absence { reason: "no room | <b>".into(), needed: None });
            }
            true
        }
        Event::Footer(_) => true,
        _ => false,
    });
    let one = sample::kept(|event| {
        if let Event::Plan(plan) = event {
            plan.experiments.retain(|planned| planned.id == "clock.rate");
        }
        true
    });
    let failed = sample::kept(|event| {
        if let Event::Round(round) = event
            && round.series.starts_with("os.")
        {
            round.status = RoundStatus::Void("the worker died of signal 9".into());
        }
        if let Event::Outcome(outcome) = event
            && outcome.experiment.starts_with("os.")
        {
            outcome.outcome = Ending::Failed;
            outcome.reason = Some("the worker died of signal 9".into());
        }
        true
    });
    let mut killed = sample::kept(|event| matches!(event, Event::Plan(_)));
    killed.push(Event::Outcome(Outcome {
        experiment: "os.syscall".into(),
        case: None,
        outcome: Ending::Failed,
        reason: None,
    }));
    // Nothing, less than nothing, nearly nothing, and more than there is.
    let mut values = [0.0, -5.0, 1e-12, 1e15].into_iter().cycle();
    let strange = sample::changed(|event| {
        let Event::Samples(samples) = event else { return };
        let value = values.next().unwrap();
        match &mut samples.raw {
            Raw::Event { values } | Raw::Batch { values, .. } => values.fill(value),
            Raw::Quartets { k, n, two_n, .. } => {
                n.fill(2.0 * *k as f64 * value);
                two_n.fill(4.0 * *k as f64 * value);
            }
        }
    });
    let mut far = sample::run();
    far.header.peers = vec![PeerHeader {
        name: "far|<b>".into(),
        url: "ssh://me@far.example".into(),
        address: "192.0.2.1".into(),
        plumb: "0.1.0".into(),
        identity: "0".into(),
        cpus: vec![0],
        host: far.header.host.clone(),
        environment: far.header.environment.clone(),
        calibration: far.header.calibration.clone(),
    }];
    vec![
        ("killed before its plan", Run::new(sample::header()), 0),
        ("killed after its plan", killed, 1),
        ("everything skipped", skipped, 5),
        ("one figure", one, 1),
        ("a failed family", failed, 20),
        ("strange values", strange, 20),
        ("a far end", far, 20),
        ("printed figures", printed(), 3),
    ]
}

/// As of a published machine: values alone, without interval, rounds, clock or description.
fn printed() -> Run {
    let mut header = sample::header();
    header.host = serde_json::json!({ "cpu": { "model_name": "Core <2> | Duo" } });
    header.environment.clear();
    header.calibration.core_hz = 0.0;
    header.options.preset = "published".into();
    let mut run = Run::new(header);
    for event in sample::events() {
        if let Event::Plan(mut plan) = event {
            plan.experiments.retain(|planned| planned.id == "memory.latency");
            plan.experiments[0].series.clear();
            plan.experiments[0].metrics[0].derived = true;
            plan.experiments[0].derived = [1024_u64, 2048, 4096].map(sample::rung).into();
            run.push(Event::Plan(plan));
        }
    }
    for case in [1024_u64, 2048, 4096].map(sample::rung) {
        run.push(Event::Derived(Derived {
            experiment: "memory.latency".into(),
            case,
            metric: "latency".into(),
            value: 1.5,
            ci: None,
            confidence: None,
            presence: 1.0,
            at: [("source".to_owned(), "table <1> | \"x\"".into())].into(),
            notes: vec!["the text says 2; the table 1.5\n# no heading".into()],
        }));
    }
    run
}

#[test]
fn json_of_odd_runs_meets_its_schema() {
    for (name, run, least) in odd() {
        let value: Value = serde_json::from_str(&json::render(&run)).unwrap();
        assert_eq!(schema_errors(&value), [""; 0], "{name}");
        let figures = value["figures"].as_array().unwrap();
        assert!(figures.len() >= least, "{name}: {}", figures.len());
    }
}

#[test]
fn csv_of_odd_runs_has_a_row_for_each_figure() {
    for (name, run, _) in odd() {
        let text = csv::render(&run);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let rows = reader.records().collect::<Result<Vec<_>, _>>();
        let count = analysis::figures(&run).len();
        assert_eq!(rows.unwrap().len(), count, "{name}");
    }
}

#[test]
fn openmetrics_of_odd_runs_is_read() {
    for (name, run, _) in odd() {
        let text = openmetrics::render(&run);
        if let Err(error) = openmetrics::strict::read(&text) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn reports_of_odd_runs_are_written() {
    for (name, run, _) in odd() {
        let document = build(&run);
        let text = markdown::render(&document);
        markdown::tests::check(&text);
        assert!(text.contains("## Machine"), "{name}");
        let page = html::render(&document, html::Print::Full);
        assert!(!page.contains("<b>") && !page.contains("Core <2>"), "{name}");
        let reason = match name {
            "everything skipped" => "no room",
            "a failed family" => "signal 9",
            _ => "",
        };
        for (format, text) in [
            ("terminal", terminal::render(&document, PLAIN)),
            ("markdown", markdown::render(&document)),
            ("page", page),
            ("csv", csv::render(&run)),
            ("json", json::render(&run)),
            ("openmetrics", openmetrics::render(&run)),
        ] {
            assert!(!text.is_empty(), "{name}: {format}");
            // The page contains a library, which has words of its own.
            for wrong in ["NaN", "nan ", "-inf", "+Inf"] {
                assert!(format == "page" || !text.contains(wrong), "{name}: {format}: {wrong}");
            }
            let shows = ["terminal", "page", "markdown", "json"].contains(&format);
            assert!(!shows || text.contains(reason), "{name}: {format}");
        }
    }
}

/// The machine section of a report on a recorded host, in Markdown.
fn machine(name: &str) -> String {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = Root::recorded(&dir.join("../../tests/hosts").join(name)).unwrap();
    let mut header = sample::header();
    header.host = serde_json::to_value(Host::read(&root)).unwrap();
    let mut run = Run::new(header);
    run.push(Event::Plan(Box::new(record::event::Plan {
        experiments: vec![],
        stages: vec![],
        looks: vec![],
        eta_s: 0.0,
    })));
    let document = build(&run);
    let mut only = document;
    only.sections.retain(|section| section.id == "machine");
    let text = markdown::render(&only);
    markdown::tests::check(&text);
    text
}

#[test]
fn recorded_machines_are_described_with_what_is_not_readable() {
    let has = |text: &str, parts: &[&str]| {
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    has(
        &machine("epyc-7763-2s"),
        &[
            "**memory modules and channels**: 16 channels (by EDAC)",
            "**I/O bus**: PCIe 16 GT/s x16, the fastest of disks and network cards",
            "|PCIe 16 GT/s x4|",
            "|ens1f0np0|wired|mlx5\\_core|100 Gbit/s|full|9000 B|",
            "- **cache of the disks**: ",
        ],
    );
    has(
        &machine("alder-lake-hybrid"),
        &[
            "|wlp5s0|Wi-Fi|iwlwifi|",
            "- **Wi-Fi standard of wlp5s0**: only the wireless subsystem",
            "- **memory modules and their rate**: the firmware's table (DMI) is absent, or needs root",
        ],
    );
    has(
        &machine("vm-granite-rapids"),
        &[
            "|vda|-|256 GiB|-|stated, no rate|write back|virtio\\_blk|",
            "- **speed and duplex of eth0**: the driver does not report it",
            "- **rotation of vda**: ",
        ],
    );
}

/// A record whose every text tries to steer what shows it.
fn hostile() -> Run {
    const STEERS: &str =
        "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{2061}\r\n\u{2028}z";
    const TEXTS: [&str; 16] = [
        "run",
        "model_name",
        "kernel",
        "distribution",
        "source",
        "notes",
        "environment",
        "reason",
        "needed",
        "title",
        "manual",
        "because",
        "rule",
        "text",
        "Void",
        "Failed",
    ];
    let events = sample::events().into_iter().map(|mut event| {
        if let Event::Samples(samples) = &mut event {
            samples.notes.push(format!("noted{STEERS}"));
        }
        event
    });
    with_texts(sample::header(), events, |key, text| match TEXTS.contains(&key) {
        true => format!("{text}{STEERS}"),
        false => text,
    })
}

#[test]
fn no_text_of_a_record_steers_who_shows_it() {
    let run = hostile();
    let mut document = build(&run);
    let grid = crate::document::Grid {
        title: "t\u{1b}".to_owned(),
        rows: ("r\u{7}".to_owned(), vec!["a\u{9b}".to_owned()]),
        columns: ("c\u{7}".to_owned(), vec!["b\u{202e}".to_owned()]),
        label: "l\u{1b}".to_owned(),
        unit: record::unit::Unit::Ns,
        shades: crate::document::Shades::Values,
        cells: vec![vec![Some(1.0)]],
    };
    document.sections[0].blocks.push(crate::document::Block::Grid(grid).for_all());
    let document = Document::new(document.title, document.summary, document.sections);
    for (name, text) in every_format(&run, &document) {
        let found = text.find(|letter| letter != '\n' && steers(letter));
        let around = found.map(|at| text[at.saturating_sub(60)..].chars().take(90));
        let around = around.map(|letters| letters.collect::<String>());
        assert_eq!(around, None, "{name}");
        assert!(name == "pictures" || text.contains("owned"), "{name}");
    }
    let flat: Value = serde_json::from_str(&json::render(&run)).unwrap();
    let model = flat["host"]["cpu"]["model_name"].as_str().unwrap();
    assert!(model.contains("\u{1b}]0;owned\u{7}"), "JSON keeps what was recorded");
}
