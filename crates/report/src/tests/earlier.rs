//! Records of earlier formats, which stay readable and comparable.

use super::PLAIN;
use crate::build::build;
use crate::{csv, html, json, markdown, openmetrics, terminal};
use analysis::compare::{Measured, compare};
use analysis::figure::{Condition, Figure};
use analysis::figures;
use analysis::history::History;
use record::event::{Event, Learnt, Raw, Unusable, Width};
use record::run::Run;
use std::path::Path;

/// The least factor that other work puts on every other sample below.
const BESIDE: f64 = 1.4;
const LEVEL: f64 = 4.0;

fn earlier() -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/records/format-1.jsonl");
    let file = std::fs::File::open(path).unwrap();
    let recording = record::codec::read(std::io::BufReader::new(file)).unwrap();
    assert_eq!(recording.run.header.format, 1);
    recording.run
}

/// The same run as this format has it: probed, with a neighbour beside every third quartet, which makes
/// it longer.
fn probed() -> Run {
    let mut run = earlier();
    run.header.format = record::FORMAT;
    run.header.calibration.width = Some(Width {
        level: Some(LEVEL),
        unusable: None,
        additions_per_cycle: Some(LEVEL),
        readings: 6000,
        at_level: 5900,
        spread: 0.001,
        alone: 0.98,
    });
    for samples in &mut run.samples {
        if let Raw::Quartets { n, two_n, .. } = &mut samples.raw {
            let shared = |at: usize| at % 3 == 2;
            for (at, (n, two_n)) in n.iter_mut().zip(two_n).enumerate() {
                *two_n = if shared(at) { *n + BESIDE * (*two_n - *n) } else { *two_n };
                samples.width.push(if shared(at) { 2.2 } else { LEVEL });
            }
        }
    }
    run
}

fn of<'figures>(figures: &'figures [Figure], experiment: &str) -> &'figures Figure {
    let mut of = figures.iter().filter(|one| one.experiment == experiment);
    of.find(|one| one.value.is_some()).unwrap()
}

#[test]
fn a_record_of_format_1_renders_in_every_format() {
    let run = earlier();
    let document = build(&run);
    for text in [
        terminal::render(&document, PLAIN),
        html::render(&document),
        markdown::render(&document),
        csv::render(&run),
        json::render(&run),
        openmetrics::render(&run),
    ] {
        assert!(text.contains("loop"), "{}", &text[..200]);
    }
    for figure in figures(&run) {
        assert_eq!((figure.condition, figure.as_found), (None, None));
    }
}

#[test]
fn a_probed_figure_has_both_values_and_says_which_it_prints() {
    let (before, after) = (figures(&earlier()), figures(&probed()));
    let (before, after) = (of(&before, "cpu.call"), of(&after, "cpu.call"));
    assert_eq!(after.condition, Some(Condition::Alone));
    let alone = after.value.unwrap() / before.value.unwrap();
    assert!((alone - 1.0).abs() < 0.01, "{alone}");
    assert!((after.shared.unwrap() - 1.0 / 3.0).abs() < 0.03, "{:?}", after.shared);
    let found = after.as_found.as_ref().unwrap();
    assert_eq!(found.condition, Some(Condition::AsFound));
    assert!(found.value.is_some() && found.ci.is_some() && found.cycles.is_some());
}

#[test]
fn a_level_that_was_learnt_after_the_calibration_counts() {
    let probed = probed();
    let known = probed.header.calibration.width;
    let mut run = probed.clone();
    run.header.calibration.width =
        known.map(|width| Width { level: None, unusable: Some(Unusable::NeverAlone), ..width });
    let found = figures(&run);
    assert!(of(&found, "cpu.call").condition != Some(Condition::Alone));
    run.push(Event::Width(Learnt { segment: 0, width: known.expect("a width") }));
    assert_eq!(run.width_level(0), Some(LEVEL));
    let (found, expected) = (figures(&run), figures(&probed));
    let (found, expected) = (of(&found, "cpu.call"), of(&expected, "cpu.call"));
    assert_eq!(found.condition, Some(Condition::Alone));
    assert_eq!(found.value, expected.value);
}

#[test]
fn runs_of_both_formats_compare_as_found_and_find_nothing_but_what_changed() {
    let (old, new) = (earlier(), probed());
    let runs = [&old, &new].map(|run| Measured { run, figures: figures(run) });
    let comparison = compare(&runs, &History::default()).unwrap();
    let compared = &comparison.against[0].figures;
    assert!(compared.len() > 10);
    for one in compared {
        assert_ne!(one.new.condition, Some(Condition::Alone), "{}", one.new.label());
    }
    let itself = [&new, &new].map(|run| Measured { run, figures: figures(run) });
    let comparison = compare(&itself, &History::default()).unwrap();
    let conditions = comparison.against[0].figures.iter().map(|one| one.base.condition);
    assert!(conditions.filter(|one| *one == Some(Condition::Alone)).count() > 5);
    assert!(!comparison.has_finding());
}
