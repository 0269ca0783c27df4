//! What sentences say against what they are told of: each asks a run that has exactly one thing to
//! tell.

use super::sentences;
use crate::figure::Figure;
use crate::{figures, sample};
use record::event::{Event, Prediction, PredictionEvent, PredictionKind, Range};
use record::run::Run;

/// The sentences of an experiment, after a change of its figures.
fn told(run: &Run, experiment: &str, change: impl Fn(&mut Figure)) -> Vec<String> {
    let mut all = figures(run);
    all.retain(|figure| figure.experiment == experiment);
    all.iter_mut().for_each(change);
    let plan = run.plan.as_ref().expect("there is a plan");
    let planned = plan.experiments.iter().find(|one| one.id == experiment);
    let own: Vec<&Figure> = all.iter().collect();
    sentences(run, planned.expect("is planned"), &own)
}

fn unchanged(_: &mut Figure) {}

/// The sample in which every rung of the ladder is also predicted from earlier figures, the lowest
/// one three times too low.
fn with_derived() -> Run {
    let mut run = Run::new(sample::header());
    for event in sample::events() {
        if let Event::Prediction(prior) = &event
            && prior.experiment == "memory.latency"
            && let Some(range) = prior.prediction.range
            && let Some(footprint) = prior.case.int("footprint")
        {
            let by = if footprint == 1024 { 1.0 / 3.0 } else { 1.0 };
            let range =
                Range { low: range.low * by, likely: range.likely * by, high: range.high * by };
            run.push(Event::Prediction(PredictionEvent {
                of: PredictionKind::Derived,
                prediction: Prediction::new(Some(range), "what was measured before".to_owned()),
                ..prior.clone()
            }));
        }
        run.push(event);
    }
    run
}

#[test]
fn predictions_that_hold_are_told_beside_those_of_the_other_kind_that_do_not() {
    let verdicts = &told(&with_derived(), "memory.latency", unchanged)[2];
    let (before, after) = verdicts.split_once("; ").expect("both kinds of prediction are told");
    // The width of the intervals; the one miss, with its case. The machine was the same when the
    // earlier figures were taken, so that nothing of it explains the miss.
    assert!(before.contains(" hold") && before.contains("2.29"), "{verdicts}");
    assert!(after.contains("1 figure") && after.contains("(1 KiB) with 1."), "{verdicts}");
    assert!(!after.contains("candidate"), "{verdicts}");
}

#[test]
fn an_interval_that_overlaps_is_said_instead_of_a_cause() {
    let certain = told(&sample::run(), "os.syscall", unchanged).join(" ");
    assert!(!certain.contains("overlaps"), "{certain}");
    assert!(certain.contains("candidate cause"), "{certain}");
    let uncertain = told(&sample::run(), "os.syscall", |figure| {
        if figure.case.text("call") == Some("read") {
            figure.ci = Some((50.0, 900.0));
        }
    });
    let uncertain = uncertain.join(" ");
    let both_kinds = uncertain.matches("interval overlaps").count();
    assert_eq!(both_kinds, 2, "{uncertain}");
    assert!(!uncertain.contains("candidate"), "{uncertain}");
    assert!(!uncertain.contains("explains"), "{uncertain}");
}

#[test]
fn unlike_cases_have_no_factor_and_the_furthest_from_its_likely_value_is_told() {
    let told = told(&sample::run(), "os.syscall", unchanged);
    let first = &told[0];
    assert!(!first.contains("apart") && first.contains("is read:"), "{first}");
    let figures = figures(&sample::run());
    let read = figures
        .iter()
        .find(|one| one.case.text("call") == Some("read"))
        .and_then(|one| one.value)
        .expect("was measured");
    let factor = format!("{:.2} times the likely value.", read / 80.0);
    assert!(first.ends_with(&factor), "{first} {factor}");
}

#[test]
fn alike_cases_have_one_prediction_and_a_factor() {
    let told = told(&sample::run(), "os.syscall", |figure| {
        if let Some(prior) = &mut figure.prior {
            prior.prediction.range = Some(Range { low: 50.0, likely: 100.0, high: 200.0 });
        }
        figure.value = figure.value.map(|_| match figure.case.text("call") {
            Some("read") => 150.0,
            _ => 100.0,
        });
        figure.ci = None;
    });
    for part in ["50 to 200 ns", "100 ns (getppid)", "150 ns (read)", "1.50 apart."] {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
}

#[test]
fn the_steps_of_a_ladder_are_rendered_as_in_its_table() {
    let told = told(&sample::run(), "memory.latency", |figure| {
        if figure.case.text("level") == Some("L1") && figure.metric.is_some() {
            figure.value = Some(47_700.0);
            figure.ci = Some((44_000.0, 50_000.0));
        }
    });
    assert!(told[1].contains("47 KiB (L1), "), "{told:?}");
}
