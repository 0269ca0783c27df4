mod truths;

use super::sentences;
use crate::figure::Figure;
use crate::names::Names;
use crate::{figures, misses, sample};
use proptest::prelude::*;
use record::event::{Event, PredictionKind, Range, Raw};
use record::quantity::{digits, render};
use record::run::Run;
use record::shown::{range, shown};
use stats::quantile::median;
use std::collections::BTreeSet;

const EXPERIMENTS: [&str; 4] = ["memory.latency", "os.syscall", "os.pipe", "clock.rate"];

fn own<'run>(all: &'run [Figure], experiment: &str) -> Vec<&'run Figure> {
    let own = all.iter().filter(|one| one.experiment == experiment);
    own.collect()
}

fn told(run: &Run, experiment: &str) -> Vec<String> {
    let all = figures(run);
    let plan = run.plan.as_ref().expect("the sample has a plan");
    let planned = plan.experiments.iter().find(|one| one.id == experiment);
    sentences(run, planned.expect("is in the sample"), &own(&all, experiment))
}

#[test]
fn a_ladder_tells_its_ends_its_steps_and_its_verdicts() {
    let told = told(&sample::run(), "memory.latency");
    for (at, part) in [
        (0, "0.88 to 2.00 ns at 1 KiB"),
        (0, "66.4 to 151.7 ns at 128 MiB; "),
        (0, " times as much."),
        (1, "32.0 KiB (L1), 512 KiB (L2) and 16.0 MiB (L3); "),
        (2, " hold, typically "),
    ] {
        assert!(told[at].contains(part), "{part}: {told:#?}");
    }
    assert!(told.len() <= 4);
}

#[test]
fn nothing_measured_is_nothing_said() {
    assert!(told(&sample::run(), "memory.numa").is_empty());
    let silent = sample::changed(|event| {
        if let Event::Outcome(outcome) = event {
            outcome.outcome = record::event::Ending::Failed;
        }
    });
    // What failed is told, and nothing of what it would have measured.
    let told = told(&silent, "os.pipe");
    assert!(told.iter().all(|text| !text.contains("measured")), "{told:?}");
}

#[test]
fn a_miss_names_its_factor_and_a_cause_only_where_its_condition_held() {
    let slow = |has_steal: bool| {
        sample::changed(move |event| match event {
            Event::Samples(samples) if samples.series == "os.syscall" => {
                if let Raw::Quartets { .. } = &samples.raw {
                    slower(&mut samples.raw);
                }
            }
            Event::Round(round) if round.series == "os.syscall" => {
                let steal = if has_steal { round.window_ns } else { 0.0 };
                round.environment.insert("steal_ns".to_owned(), steal);
                // The sample's own reasons name steal.
                round.disturbed.clear();
            }
            _ => {}
        })
    };
    let with = told(&slow(true), "os.syscall").join(" ");
    let without = told(&slow(false), "os.syscall").join(" ");
    for text in [&with, &without] {
        assert!(text.contains("slower than predicted"), "{text}");
        assert!(text.contains("by a factor of "), "{text}");
    }
    assert!(with.contains("candidate cause"), "{with}");
    assert!(with.contains("(steal)"), "{with}");
    assert!(!without.contains("steal"), "{without}");
}

/// Ten times as long.
fn slower(raw: &mut Raw) {
    scale(raw, 10.0);
}

fn scale(raw: &mut Raw, by: f64) {
    let (values, others) = match raw {
        Raw::Event { values } | Raw::Batch { values, .. } => (values, None),
        Raw::Quartets { n, two_n, .. } => (n, Some(two_n)),
    };
    for value in values.iter_mut().chain(others.into_iter().flatten()) {
        *value *= by;
    }
}

/// Every number of a text, as written: digits with points between, and a sign before.
fn numbers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let letters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < letters.len() {
        let in_word = at > 0 && (letters[at - 1].is_alphanumeric() || letters[at - 1] == '_');
        if !letters[at].is_ascii_digit() || in_word {
            at += 1;
            continue;
        }
        let start = at;
        let digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
        while digit(at) || (letters.get(at) == Some(&'.') && digit(at + 1)) {
            at += 1;
        }
        if letters.get(at) == Some(&'e') && (digit(at + 1) || digit(at + 2)) {
            at += 2;
            while digit(at) {
                at += 1;
            }
        }
        found.push(letters[start..at].iter().collect());
    }
    found
}

/// Every number that a sentence may hold: renderings of figures, of predicted ends, of ratios
/// between them, of parameters and of stated sizes, and counts.
fn allowed(run: &Run, all: &[&Figure]) -> BTreeSet<String> {
    let mut texts: Vec<String> = Vec::new();
    let factor = |a: f64, b: f64| {
        let ratio = a / b;
        [digits(ratio), format!("{ratio:.2}")]
    };
    for figure in all {
        texts.push(figure.case.to_string());
        for judged in figure.prior.iter().chain(&figure.derived) {
            let shares = judged.prediction.shares.into_iter();
            let shares = shares.flat_map(|shares| [shares.hardware, shares.software]);
            texts.extend(shares.map(|share| range(&share, figure.unit())));
        }
        let Some((metric, value)) = figure.metric.as_ref().zip(figure.value) else {
            continue;
        };
        let text = shown(value, figure.ci, metric.unit);
        texts.extend([text.value, text.interval, render(value, metric.unit)]);
        let judged = figure.prior.iter().chain(&figure.derived);
        for predicted in judged.filter_map(|one| one.prediction.range) {
            texts.push(range(&predicted, metric.unit));
            for end in [predicted.low, predicted.likely, predicted.high] {
                texts.extend(factor(value, end));
                texts.extend(factor(end, value));
            }
        }
        for other in all.iter().filter_map(|other| other.value) {
            texts.extend(factor(value, other));
        }
        let sizes = figure.case.0.iter().filter_map(|(_, value)| value.int());
        texts.extend(sizes.map(|size| render(size as f64, record::unit::Unit::B)));
    }
    // How well the predictions of a kind hold: medians of ratios and of widths.
    for kind in [PredictionKind::Prior, PredictionKind::Derived] {
        let judged = all
            .iter()
            .filter_map(|figure| Some((figure.value?, misses::judged(figure, kind)?)))
            .filter_map(|(value, judged)| Some((value, judged.prediction.range?)));
        let judged: Vec<(f64, Range)> = judged.collect();
        let ratios: Vec<f64> = judged.iter().map(|(value, range)| value / range.likely).collect();
        let widths: Vec<f64> = judged.iter().map(|(_, range)| range.high / range.low).collect();
        for median in [median(&ratios), median(&widths)].into_iter().flatten() {
            texts.push(format!("{median:.2} {}", digits(median)));
        }
    }
    let stated = crate::facts::stated_levels(run);
    texts.extend(stated.iter().map(|(_, bytes)| render(*bytes, record::unit::Unit::B)));
    texts.extend((0..=all.len().max(run.rounds.len())).map(|count| count.to_string()));
    texts.iter().flat_map(|text| numbers(text)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_number_is_a_figure_a_range_a_ratio_or_a_count(by in 0.01..100.0_f64) {
        let run = sample::changed(|event| {
            if let Event::Samples(samples) = event {
                scale(&mut samples.raw, by);
            }
        });
        let all = figures(&run);
        for experiment in EXPERIMENTS {
            let allowed = allowed(&run, &own(&all, experiment));
            let sentences = told(&run, experiment);
            prop_assert!((1..=4).contains(&sentences.len()));
            for text in sentences {
                prop_assert!(text.ends_with('.'), "{}", text);
                for number in numbers(&text) {
                    prop_assert!(allowed.contains(&number), "{} in {}", number, text);
                }
            }
        }
    }
}

#[test]
fn one_figure_alone_is_said_without_a_name() {
    let run = sample::run();
    let all = figures(&run);
    let only = own(&all, "os.pipe");
    let plan = run.plan.as_ref().expect("the sample has a plan");
    let planned = plan.experiments.iter().find(|one| one.id == "os.pipe");
    let planned = planned.expect("is in the sample");
    assert_eq!(Names::of(planned, &only).case(only[0]), "");
    let told = sentences(&run, planned, &only);
    assert!(told[0].starts_with("Hop: "), "{told:?}");
}
