//! Analysis of the synthetic run.

use super::figure::{Figure, Interval};
use super::figures;
use super::findings::{Finding, Severity, findings};
use super::health::health;
use super::sample;
use super::score::score;
use super::verdict::Verdict;
use record::event::{Ending, Event, PredictionKind, Raw, RoundStatus};
use record::key::{CaseId, Key};
use record::note::{Note, NoteKind};
use record::run::Run;

/// The latency of the ladder in so many bytes.
fn rung(figures: &[Figure], bytes: u64) -> &Figure {
    figure(figures, "memory.latency", &sample::rung(bytes), "latency")
}

fn call<'a>(figures: &'a [Figure], name: &str) -> &'a Figure {
    figure(figures, "os.syscall", &sample::call(name), "latency")
}

fn figure<'a>(figures: &'a [Figure], experiment: &str, case: &CaseId, metric: &str) -> &'a Figure {
    figures.iter().find(|figure| figure.key() == Some(Key::new(experiment, case, metric))).unwrap()
}

#[test]
fn a_ladder_rung_has_estimate_interval_and_cycles() {
    let figures = figures(&sample::run());
    let rung = rung(&figures, 65536);
    let value = rung.value.unwrap();
    assert!((value - 4.06).abs() < 0.06, "{value}");
    let (low, high) = rung.ci.unwrap();
    assert!(low < value && value < high);
    assert_eq!(rung.confidence, Some(0.96875));
    assert_eq!(rung.interval, Interval::Rounds);
    let cycles = rung.cycles.unwrap();
    assert!((cycles - value * 3.2).abs() < 0.01 * cycles, "{cycles}");
    let stats = rung.stats.as_ref().unwrap();
    assert_eq!((stats.rounds, stats.disturbed, stats.samples), (6, 0, 120));
    assert_eq!(stats.sample_kind, "batch(10000)");
    assert_eq!(stats.best_round, rung.rounds.iter().map(|round| round.value).reduce(f64::min));
    assert_eq!(rung.prior.as_ref().unwrap().verdict, Some(Verdict::Within));
}

#[test]
fn events_that_never_ended_are_said_as_at_least() {
    let run = sample::unanswered();
    let figures = figures(&run);
    let rung = rung(&figures, 65536);
    let stats = rung.stats.as_ref().unwrap();
    assert_eq!((stats.samples, stats.censored), (60, 12));
    assert_eq!((stats.p50, stats.p90, stats.p99, stats.max), (10.0, 20.0, 20.0, 20.0));
    assert_eq!(stats.at_least, ["p90", "p99", "max"]);
    assert!(rung.notes.iter().any(|note| note.contains("12 of 60")), "{:?}", rung.notes);
    // Every report says so, and of how many.
    let found = findings(&run, &figures);
    let mut of_them = found.iter().filter(|finding| finding.cause == "unended");
    let warning = of_them.next().expect("is a finding");
    assert!(warning.severity == Severity::Warning && warning.text.ends_with("(12 of 60)"));
    assert_eq!(of_them.next(), None);
}

#[test]
fn disturbed_rounds_that_cannot_be_spared_are_used_and_told() {
    let figures = figures(&sample::run());
    let read = call(&figures, "read");
    let stats = read.stats.as_ref().unwrap();
    assert_eq!((stats.rounds, stats.disturbed, stats.used), (6, 4, 6));
    assert!(stats.used_disturbed);
    assert!(read.notes.has(NoteKind::Disturbed), "{:?}", read.notes);
    assert_eq!(read.prior.as_ref().unwrap().verdict, Some(Verdict::Slower));
    assert_eq!(read.derived.as_ref().unwrap().verdict, Some(Verdict::Slower));
}

#[test]
fn a_value_beyond_its_bound_is_failed_and_impossible() {
    // Two undisturbed rounds lie below 4 cycles at 3.2 GHz.
    let figures = figures(&sample::run());
    let vdso = call(&figures, "time-vdso");
    let bound = vdso.bound.as_ref().unwrap();
    assert_eq!((bound.evaluated, bound.beyond), (2, 2));
    assert!((bound.value.unwrap() - 1.25).abs() < 0.01);
    assert_eq!(vdso.outcome, Ending::Failed);
    assert_eq!(vdso.prior.as_ref().unwrap().verdict, Some(Verdict::Impossible));
    assert!(vdso.value.is_some(), "the value stays visible");
}

#[test]
fn one_round_beyond_a_bound_only_warns() {
    let run = sample::changed(|event| {
        if let Event::Round(round) = event
            && round.series == "os.syscall"
            && round.n == 2
        {
            round.disturbed.push("steal".into());
        }
    });
    let figures = figures(&run);
    let vdso = call(&figures, "time-vdso");
    assert_eq!(vdso.outcome, Ending::Measured);
    assert!(vdso.bound.as_ref().unwrap().warns());
    assert!(vdso.notes.has(NoteKind::Suspicious));
}

#[test]
fn events_tell_resolution_and_modes() {
    let figures = figures(&sample::run());
    let hop = figure(&figures, "os.pipe", &CaseId::new(), "hop");
    let stats = hop.stats.as_ref().unwrap();
    assert_eq!((stats.sample_kind.as_str(), stats.modes.len()), ("event", 2));
    assert!(hop.notes.iter().any(|note| note.starts_with("at resolution: p50")));
    assert!((stats.modes[0].share - 0.66).abs() < 0.01 && hop.notes.has(NoteKind::TwoModes));
    // It has a prior without a range.
    assert_eq!(hop.prior.as_ref().unwrap().verdict, Some(Verdict::Unpredicted));
}

#[test]
fn once_takes_its_interval_from_blocks() {
    let figures = figures(&sample::run());
    let rate = figure(&figures, "clock.rate", &CaseId::new(), "counter");
    assert_eq!(rate.interval, Interval::WithinRun);
    let (low, high) = rate.ci.unwrap();
    assert!(low >= 2.445e9 * (1.0 - 1e-6) && high <= 2.445e9 * (1.0 + 1e-6));
    assert_eq!(rate.cycles, None);
}

#[test]
fn absences_have_reasons() {
    let figures = figures(&sample::run());
    let reason = |label: &str| {
        let figure = figures.iter().find(|figure| figure.label() == label).unwrap();
        (figure.outcome, figure.reason.clone().unwrap())
    };
    assert_eq!(reason("memory.numa"), (Ending::Skipped, "one NUMA node".into()));
    assert_eq!(reason("os.syscall:call=futex").0, Ending::Failed);
    assert_eq!(reason("os.syscall:call=io-uring-nop").0, Ending::Skipped);
}

#[test]
fn derived_values_are_judged_and_carry_doubt() {
    let figures = figures(&sample::run());
    let level = |name: &str| CaseId::new().with("level", name);
    let l1 = figure(&figures, "memory.latency", &level("L1"), "level_latency");
    assert_eq!(l1.interval, Interval::Resamples);
    assert!((l1.cycles.unwrap() - 4.0).abs() < 0.05);
    let l3 = figure(&figures, "memory.latency", &level("L3"), "level_size");
    assert_eq!(l3.prior.as_ref().unwrap().verdict, Some(Verdict::Within));
    assert!(l3.notes.has(NoteKind::Uncertain));
    assert!(!figures.iter().any(|figure| figure.label().contains("level=DRAM level_size")));
}

#[test]
fn a_killed_run_says_what_is_missing() {
    let mut is_over = false;
    let run = sample::kept(|event| {
        let was_over = is_over;
        is_over |= matches!(event, Event::Round(round) if round.series == "memory.latency");
        !was_over
    });
    let figures = figures(&run);
    let rung = rung(&figures, 1024);
    assert_eq!((rung.ci, rung.value.is_some()), (None, true));
    assert!(rung.notes.iter().any(|note| note.contains("1 of 5 rounds fitted")));
    let absent = figures.iter().find(|figure| figure.experiment == "os.pipe").unwrap();
    assert_eq!(absent.outcome, Ending::Skipped);
    let findings = findings(&run, &figures);
    assert!(findings.iter().any(|finding| finding.cause == "killed"));
    assert!(super::figures(&Run::new(sample::header())).is_empty());
}

#[test]
fn moved_clock_leaves_cycles_out() {
    let run = sample::changed(|event| {
        if let Event::Samples(samples) = event {
            samples.core_hz = None;
        }
    });
    let figures = figures(&run);
    let rung = rung(&figures, 1024);
    assert_eq!(rung.cycles, None);
    assert!(rung.no_cycles.is_some());
}

#[test]
fn scores_count_impossible_as_outside() {
    let figures = figures(&sample::run());
    let prior = score(&figures, PredictionKind::Prior);
    let os = prior.by_family["os"];
    assert_eq!((os.figures, os.inside, os.unpredicted), (4, 1, 1));
    assert_eq!(prior.by_family["memory"].inside_share(), Some(1.0));
    let derived = score(&figures, PredictionKind::Derived);
    assert_eq!((derived.all.figures, derived.all.inside), (1, 0));
    assert_eq!(derived.all.median_width, Some(2.0));
}

#[test]
fn findings_name_what_a_reader_must_see() {
    let run = sample::run();
    let findings = findings(&run, &figures(&run));
    let found: Vec<(Severity, &str, &str)> =
        findings.iter().map(|one| (one.severity, one.cause, one.about.as_str())).collect();
    let expected = [
        (Severity::Error, "failed", "os.syscall"),
        (Severity::Warning, "counter_drift", "run"),
        (Severity::Warning, "void_rounds", "run"),
        (Severity::Warning, "disturbed", "os.syscall"),
        (Severity::Note, "unexplained", "os.syscall"),
    ];
    assert_eq!(found, expected, "{findings:#?}");
    // Both kinds of prediction of one figure are one miss.
    assert!(findings[4].text.starts_with("1 figure is"), "{findings:#?}");
    let failed = &findings[0].text;
    assert!(failed.starts_with("2 figures failed") && failed.contains("Operation not permitted"));
}

#[test]
fn a_miss_is_a_finding_only_where_its_interval_is_clear_of_the_prediction() {
    let run = sample::run();
    let mut all = figures(&run);
    for figure in &mut all {
        figure.ci = figure.ci.map(|(low, high)| (low / 10.0, high * 10.0));
    }
    let findings = findings(&run, &all);
    assert!(findings.iter().all(|finding| finding.cause != "steal"), "{findings:#?}");
}

/// Figures of system calls that nobody disturbed, of which some took so many times what was
/// predicted at most.
fn slow(run: &mut Run, factors: &[f64]) -> Vec<Figure> {
    for round in &mut run.rounds {
        round.environment.insert("steal_ns".to_owned(), 0.0);
    }
    let all = figures(run);
    let mut syscalls = all.iter().filter(|figure| {
        figure.experiment == "os.syscall" && figure.case.text("call") == Some("getppid")
    });
    let one = syscalls.next().cloned().expect("is in the sample");
    let high = one.prior.as_ref().and_then(|judged| judged.prediction.range).expect("has one").high;
    let figure = |(at, factor): (usize, &f64)| {
        let mut figure = one.clone();
        figure.case = sample::call(&at.to_string());
        figure.value = Some(high * factor);
        figure.ci = Some((high * factor * 0.999, high * factor * 1.001));
        figure.derived = None;
        let judged = figure.prior.as_mut().expect("has one");
        judged.verdict = Some(if *factor > 1.0 { Verdict::Slower } else { Verdict::Within });
        figure
    };
    factors.iter().enumerate().map(figure).collect()
}

#[test]
fn unexplained_misses_are_a_finding_where_there_are_more_than_predictions_allow() {
    let mut run = sample::run();
    let mut few = vec![0.9; 19];
    few.push(1.3);
    let mut many = vec![0.9; 8];
    many.extend([1.2, 1.3, 1.4]);
    let mut far = few.clone();
    far[19] = 2.5;
    for (factors, expected) in
        [(few, None), (many, Some("3 figures are")), (far, Some("1 figure is"))]
    {
        let all = slow(&mut run, &factors);
        let found = findings(&run, &all);
        let found: Vec<&str> = found
            .iter()
            .filter(|finding| finding.cause == "unexplained")
            .map(|finding| finding.text.as_str())
            .collect();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(expected.is_none_or(|start| found[0].starts_with(start)), "{found:?}");
    }
}

#[test]
fn a_falling_ladder_disproves_itself() {
    let run = sample::changed(|event| {
        if let Event::Samples(samples) = event
            && samples.case == sample::rung(1 << 27)
            && let Raw::Quartets { two_n, n, .. } = &mut samples.raw
        {
            for (long, short) in two_n.iter_mut().zip(n) {
                *long = *short + (*long - *short) * 0.9;
            }
        }
    });
    let figures = figures(&run);
    let failed: Vec<&Figure> = figures
        .iter()
        .filter(|figure| figure.experiment == "memory.latency" && figure.outcome == Ending::Failed)
        .collect();
    // Also the rungs after it, as far as they lie below the highest before it.
    assert_eq!(failed[0].case, sample::rung(1 << 27));
    let reason = failed[0].reason.as_deref().unwrap();
    assert!(reason.contains("below footprint=67108864"), "{reason}");
    let findings = findings(&run, &figures);
    let is_error = |one: &&Finding| one.severity == Severity::Error;
    let errors: Vec<&Finding> = findings.iter().filter(is_error).collect();
    let all = figures.iter().filter(|figure| figure.outcome == Ending::Failed).count();
    let count = format!("{all} figures failed");
    assert!(errors.len() == 1 && errors[0].text.starts_with(&count), "{findings:#?}");
}

#[test]
fn a_ladder_that_falls_a_little_at_every_rung_is_seen() {
    let mut share = 1.0;
    let run = sample::changed(|event| {
        if let Event::Samples(samples) = event
            && let Raw::Quartets { two_n, n, .. } = &mut samples.raw
            && let Some(footprint) = samples.case.int("footprint")
        {
            // Two per cent less with every doubling beyond 32 MiB.
            share = 0.98_f64.powf((footprint as f64 / f64::from(1 << 25)).log2().max(0.0));
            for (long, short) in two_n.iter_mut().zip(n) {
                *long = *short + 100.0 * share;
            }
        }
    });
    assert!(share < 1.0, "the ladder goes beyond 32 MiB");
    let figures = figures(&run);
    let mut ladder = figures.iter().filter(|figure| figure.experiment == "memory.latency");
    assert!(ladder.any(|figure| figure.outcome == Ending::Failed));
}

#[test]
fn health_sums_rounds_by_reason() {
    let health = health(&sample::run());
    assert_eq!((health.rounds, health.void, health.disturbed), (19, 1, 4));
    assert_eq!(health.reasons, [("steal".to_owned(), 4)]);
    assert!(health.steal.unwrap() > 0.003);
}

#[test]
fn void_rounds_are_no_rounds() {
    let run = sample::changed(|event| {
        if let Event::Round(round) = event
            && round.series == "memory.latency"
            && round.n == 6
        {
            round.status = RoundStatus::Void("lost".into());
        }
    });
    let figures = figures(&run);
    let rung = rung(&figures, 1024);
    assert_eq!((rung.rounds.len(), rung.confidence), (5, Some(0.9375)));
    assert!(rung.notes.iter().any(|note| note.contains("93.75 %")));
    assert!(rung.prior.as_ref().is_some_and(|judged| judged.verdict.is_some()));
}

#[test]
fn a_clock_that_moves_between_samples_costs_no_cycles() {
    let mut run = sample::run();
    for samples in &mut run.samples {
        let count = samples.values().len();
        samples.core_mhz = (0..count).map(|at| if at % 3 == 0 { 2200 } else { 3150 }).collect();
        let values = samples.core_mhz.iter().map(|mhz| 330.0 / (f64::from(*mhz) / 1e3));
        samples.raw = Raw::Batch { k: 1, values: values.collect() };
    }
    let figures = figures(&run);
    let cycles = call(&figures, "getppid").cycles.expect("each sample has a clock");
    assert!((cycles - 330.0).abs() < 1e-9, "{cycles}");
}

#[test]
fn a_round_without_a_core_clock_leaves_the_figure_without_cycles() {
    let mut run = sample::run();
    let moved = "the core clock moved over the case: 3.000 GHz before, 3.100 GHz after";
    let others = "what a reader must know";
    for samples in run.samples.iter_mut().filter(|one| one.round == 1) {
        samples.core_hz = None;
        samples.notes.extend([Note::no_clock(moved), others.into()]);
    }
    let figures = figures(&run);
    let figure = call(&figures, "getppid");
    let has = |text: &str| figure.notes.iter().any(|note| note.contains(text));
    // The time rests on that round too: cycles would be of other samples.
    assert!(figure.cycles.is_none() && figure.no_cycles.is_some());
    assert!(has(others) && !has("before,"), "{:?}", figure.notes);
}

#[test]
fn what_a_cache_gave_is_a_finding() {
    let run = sample::changed(|event| {
        if let Event::Samples(samples) = event
            && samples.case == sample::rung(65536)
        {
            let note = "cache: 37 % of what was read did not come from the device";
            samples.notes.push(Note::cache(note));
        }
    });
    let found = findings(&run, &figures(&run));
    let of_cache = found.iter().filter(|of| of.cause == "cache");
    let of_cache: Vec<_> = of_cache.map(|of| (of.severity, of.about.as_str())).collect();
    assert_eq!(of_cache, [(Severity::Warning, "memory.latency")], "{found:?}");
}

#[test]
fn a_quiet_machine_whose_figures_hold_has_nothing_to_look_at() {
    let mut run = sample::changed(|event| {
        if let Event::Round(round) = event {
            round.disturbed.clear();
            round.environment.insert("steal_ns".to_owned(), 0.0);
        }
    });
    run.rounds.retain(|round| round.status == RoundStatus::Ok);
    run.footer.as_mut().expect("has one").counter_drift = None;
    let mut all = figures(&run);
    let two_modes = all.iter().filter(|figure| figure.notes.has(NoteKind::TwoModes)).count();
    assert!(two_modes > 0, "which is no finding");
    all.retain(|figure| {
        figure.outcome == Ending::Measured && figure.case.text("call") != Some("read")
    });
    assert_eq!(findings(&run, &all), []);
}

#[test]
fn a_noisy_machine_has_a_finding_for_each_cause() {
    let counters = ["steal_ns", "throttled_ns", "run_delay_ns", "migrations", "major_faults"];
    let mut run = sample::changed(|event| match event {
        Event::Round(round) => {
            round.disturbed = vec!["steal 5 % of the window".to_owned()];
            for name in counters {
                round.environment.insert(name.to_owned(), 0.07 * round.window_ns);
            }
            round.environment.insert("core_hz_after".to_owned(), 0.8 * sample::CORE_HZ);
        }
        Event::Prediction(event) => {
            // Each figure is slower than predicted.
            if let Some(range) = &mut event.prediction.range {
                (range.low, range.likely, range.high) =
                    (0.1 * range.low, 0.1 * range.low, 0.2 * range.low);
            }
        }
        _ => {}
    });
    run.header.host["kernel"]["seccomp"] = serde_json::json!(2);
    let found = findings(&run, &figures(&run));
    let causes: Vec<&str> = found.iter().map(|finding| finding.cause).collect();
    assert!(found.len() <= 10, "{causes:?}");
    let once: std::collections::BTreeSet<&str> = causes.iter().copied().collect();
    assert_eq!(once.len(), causes.len(), "{causes:?}");
    for expected in ["steal", "throttled", "disturbed", "failed"] {
        assert!(causes.contains(&expected), "{expected}: {causes:?}");
    }
}
