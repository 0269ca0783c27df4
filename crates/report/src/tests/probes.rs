//! Records without probes beside records with probes: a figure as found and of the core alone.

use super::every_format;
use crate::build::build;
use analysis::compare::{Measured, compare};
use analysis::figure::{Condition, Figure};
use analysis::figures;
use analysis::history::History;
use flate2::read::GzDecoder;
use record::event::{Event, Learnt, Raw, Unusable, Width};
use record::run::Run;
use std::io::Read;

/// The least factor that other work puts on every other sample below.
const BESIDE: f64 = 1.4;
const LEVEL: f64 = 4.0;

fn recorded(name: &str) -> Run {
    let path = format!("{}/../../tests/records/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let file = GzDecoder::new(std::fs::File::open(path).unwrap());
    let recording = record::codec::read(std::io::BufReader::new(file)).unwrap();
    assert!(!recording.torn);
    recording.run
}

fn unprobed() -> Run {
    recorded("unprobed")
}

#[test]
fn the_design_of_the_core_stands_where_the_machine_is_described() {
    let run = unprobed();
    let [_, (_, terminal), (_, page), ..] = every_format(&run, &build(&run));
    assert!(terminal.contains("Zen 4") && page.contains("Zen 4"));
}

/// The same run with probes, and a neighbour beside every third quartet, which makes it longer.
fn probed() -> Run {
    let mut run = unprobed();
    run.header.calibration.width = Some(Width {
        from_design: false,
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

fn figure<'figures>(figures: &'figures [Figure], experiment: &str) -> &'figures Figure {
    let mut of = figures.iter().filter(|one| one.experiment == experiment);
    of.find(|one| one.value.is_some()).unwrap()
}

#[test]
fn a_record_without_probes_renders_in_every_format_and_compares_as_found() {
    let run = unprobed();
    let document = build(&run);
    for (name, text) in every_format(&run, &document) {
        assert!(text.contains("call") || name == "pictures", "{name}: {}", &text[..200]);
    }
    let measured = Measured { run: &run, figures: figures(&run) };
    let values = measured.figures.iter().filter(|figure| figure.value.is_some());
    assert!(values.count() > 10);
    for figure in &measured.figures {
        assert_ne!(figure.condition, Some(Condition::Alone), "{}", figure.label());
        assert_eq!(figure.as_found, None, "{}", figure.label());
    }
    let itself = [Measured { run: &run, figures: figures(&run) }, measured];
    let comparison = compare(&itself, &History::default()).unwrap();
    assert!(comparison.against[0].figures.len() > 10 && !comparison.has_finding());
}

#[test]
fn a_record_whose_samples_are_listed_shorter_has_the_same_figures() {
    let before = recorded("quick");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/records/quick.jsonl.gz");
    let mut listed = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut listed).unwrap();
    let mut shorter = Vec::new();
    let mut sealer = record::seal::Sealer::new(before.header.format);
    for line in listed.lines() {
        let mut event = record::codec::event(line.as_bytes()).unwrap();
        if let Event::Samples(samples) = &mut event {
            samples.shorten(&before.header.calibration, false);
        }
        record::codec::write(&mut shorter, &mut sealer, &event).unwrap();
    }
    assert!(shorter.len() < listed.len(), "{} of {}", shorter.len(), listed.len());
    let after = record::codec::read(shorter.as_slice()).unwrap().run;
    let (before, after) = (figures(&before), figures(&after));
    assert_eq!(before.len(), after.len());
    let is_same = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.label(), after.label());
        let of = |figure: &Figure| figure.value.zip(figure.stats.as_ref().map(|stats| stats.p99));
        for ((value, p99), (other, other_p99)) in of(before).into_iter().zip(of(after)) {
            assert!(is_same(value, other) && is_same(p99, other_p99), "{}", before.label());
        }
    }
}

#[test]
fn a_probed_figure_has_both_values_and_says_which_it_prints() {
    let (before, after) = (figures(&unprobed()), figures(&probed()));
    let (before, after) = (figure(&before, "cpu.call"), figure(&after, "cpu.call"));
    assert_eq!(after.condition, Some(Condition::Alone));
    let alone = after.value.unwrap() / before.value.unwrap();
    assert!((alone - 1.0).abs() < 0.01, "{alone}");
    assert!((after.shared.unwrap() - 1.0 / 3.0).abs() < 0.03, "{:?}", after.shared);
    let found = after.as_found.as_ref().unwrap();
    assert_eq!(found.condition, Some(Condition::AsFound));
    assert!(found.value.is_some() && found.ci.is_some() && found.cycles.is_some());
}

#[test]
fn rounds_that_waited_for_the_core_count_alone_and_not_as_found() {
    let (all, mut run) = (probed(), probed());
    for round in run.rounds.iter_mut().filter(|round| round.n > 6) {
        round.waited_s = Some(0.2);
    }
    let (before, after) = (figures(&all), figures(&run));
    let (before, after) = (figure(&before, "cpu.call"), figure(&after, "cpu.call"));
    assert_eq!((after.value, after.rounds.len()), (before.value, before.rounds.len()));
    let rounds = |figure: &Figure| figure.as_found.as_ref().map(|found| found.rounds.len());
    assert_eq!((rounds(before), rounds(after)), (Some(before.rounds.len()), Some(6)));
}

#[test]
fn the_verdict_beside_a_neighbour_is_by_what_was_to_be_expected_there() {
    let run = probed();
    let found = figures(&run);
    let judged = |figure: &Figure| figure.prior.clone().expect("a prediction");
    let alone = figure(&found, "cpu.call");
    assert_eq!(judged(alone).beside, None);
    let as_found = judged(alone.as_found.as_ref().expect("both values"));
    let (prior, beside) = (as_found.prediction.range.unwrap(), as_found.beside.unwrap());
    assert_eq!(prior, judged(alone).prediction.range.unwrap(), "the prior stays");
    assert!(beside.low == prior.low && beside.high == 2.1 * prior.high, "{beside:?}");
}

#[test]
fn a_level_that_was_learnt_after_the_calibration_counts() {
    let probed = probed();
    let known = probed.header.calibration.width;
    let mut run = probed.clone();
    run.header.calibration.width =
        known.map(|width| Width { level: None, unusable: Some(Unusable::NeverAlone), ..width });
    let found = figures(&run);
    assert!(figure(&found, "cpu.call").condition != Some(Condition::Alone));
    run.push(Event::Width(Learnt { segment: 0, width: known.expect("a width") }));
    assert_eq!(run.width_level(0), Some(LEVEL));
    let (found, expected) = (figures(&run), figures(&probed));
    let (found, expected) = (figure(&found, "cpu.call"), figure(&expected, "cpu.call"));
    assert_eq!(found.condition, Some(Condition::Alone));
    assert_eq!(found.value, expected.value);
}

#[test]
fn a_run_with_probes_and_one_without_compare_as_found_and_find_nothing_but_what_changed() {
    let (old, new) = (unprobed(), probed());
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
