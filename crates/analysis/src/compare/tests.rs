//! Comparisons of the synthetic run with changed copies of itself.

use super::answer::Level;
use super::conditions::Class;
use super::{Against, Comparison, Direction, Measured, Outcome, Source, Untested, Why, compare};
use crate::figure::Figure;
use crate::figures;
use crate::history::{Earlier, History, used_rounds};
use crate::sample;
use record::event::{Ending, Event, Header, Raw};
use record::key::{CaseId, Key};
use record::note::{Note, NoteKind};
use record::run::Run;
use record::unit::Unit;

fn with_header(change: impl Fn(&mut Header)) -> Run {
    let mut run = sample::run();
    change(&mut run.header);
    run
}

fn measured(run: &Run) -> Measured<'_> {
    Measured { run, figures: figures(run) }
}

/// Two runs compared; their figures live as long as the runs do.
fn compared<'run>(base: &'run Run, new: &'run Run, history: &History) -> Comparison<'run> {
    let runs = Box::leak(Box::new([base, new].map(measured)));
    compare(runs, history).unwrap()
}

/// The only comparison of two runs of a machine without a history.
fn against<'run>(base: &'run Run, new: &'run Run) -> Against<'run> {
    compared(base, new, &History::default()).against.remove(0)
}

/// The sample with another factor on all latencies of its ladder.
fn slower(factor: f64) -> Run {
    sample::changed(|event| scale(event, "memory.latency", factor))
}

/// Multiplies what the samples of a series say.
fn scale(event: &mut Event, series: &str, factor: f64) {
    let Event::Samples(samples) = event else {
        return;
    };
    if samples.series != series {
        return;
    }
    match &mut samples.raw {
        Raw::Event { values } | Raw::Batch { values, .. } => {
            values.iter_mut().for_each(|value| *value *= factor);
        }
        Raw::Quartets { n, two_n, .. } => {
            let all = n.iter_mut().chain(two_n);
            all.for_each(|value| *value *= factor);
        }
    }
}

#[test]
fn a_run_with_itself_is_quiet_and_nothing_differs_around_it() {
    let run = sample::run();
    let comparison = compared(&run, &run, &History::default());
    let against = &comparison.against[0];
    assert!(!comparison.has_finding());
    assert!(against.conditions.is_empty(), "{:?}", against.conditions);
    assert!(against.incomparable.is_empty());
    assert!(against.same_machine);
    assert!(against.tested() > 20);
    for one in &against.figures {
        assert!(one.ratio().is_none_or(|ratio| ratio == 1.0), "{one:?}");
        assert!(one.p.is_none_or(|p| p == 1.0), "{one:?}");
    }
    assert!(compare(&[measured(&run)], &History::default()).is_none());
}

#[test]
fn a_comparison_that_could_test_less_than_half_is_undecided() {
    let base = sample::run();
    // Of the sample's figures, so many are tested; without a finding.
    let with_tested = |tested: usize| {
        let mut against = against(&base, &base);
        let all = against.figures.len();
        for (at, one) in against.figures.iter_mut().enumerate() {
            let untested = Outcome::Untested(Untested::NoInterval);
            one.outcome = if at < tested { Outcome::Quiet } else { untested };
        }
        assert_eq!(against.tested(), tested);
        (against, all)
    };
    let (_, all) = with_tested(0);
    for (tested, is_undecided) in
        [(0, true), (all.div_ceil(2) - 1, true), (all.div_ceil(2), false), (all, false)]
    {
        let (against, _) = with_tested(tested);
        assert_eq!(against.is_undecided(), is_undecided, "{tested} of {all}");
    }
    // A change is an answer, however few figures were tested.
    let new = slower(1.3);
    let mut changed = against(&base, &new);
    let mut found = changed.figures.iter_mut().filter(|one| one.finding().is_some()).skip(1);
    found.by_ref().for_each(|one| one.outcome = Outcome::Untested(Untested::NoInterval));
    changed.figures.iter_mut().filter(|one| one.finding().is_none()).for_each(|one| {
        one.outcome = Outcome::Untested(Untested::NoInterval);
    });
    assert_eq!((changed.tested(), changed.is_undecided()), (1, false));
}

#[test]
fn a_slower_ladder_is_found_and_named() {
    let base = sample::run();
    let new = slower(1.3);
    let against = against(&base, &new);
    let findings = against.findings();
    assert_eq!(findings.len(), sample::ladder().len());
    for one in &findings {
        assert_eq!(one.base.experiment, "memory.latency");
        assert_eq!(one.finding(), Some(Direction::Worse));
        assert_eq!(one.word(), "slower");
        let (low, high) = one.interval().unwrap();
        assert!((low..high).contains(&1.3), "{one:?}");
        assert!((one.ratio().unwrap() - 1.3).abs() < 0.02);
        // 1.96 * sqrt(2) * 1.5 % of the logarithm.
        assert!((one.band.share - 0.0425).abs() < 0.0001, "{:?}", one.band);
        assert!(matches!(one.band.source, Source::Default(_)));
    }
}

#[test]
fn findings_of_one_experiment_in_one_direction_are_one_effect() {
    let base = sample::run();
    let new = slower(1.3);
    let against = against(&base, &new);
    let effects = against.effects();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].direction, Direction::Worse);
    assert_eq!(effects[0].figures.len(), against.findings().len());
    let (least, greatest) = effects[0].factors();
    assert!((1.25..=greatest).contains(&least) && greatest < 1.35, "{least} {greatest}");
    // Faster by as much is the same factor.
    let back = self::against(&new, &base);
    let effects = back.effects();
    assert_eq!(effects[0].direction, Direction::Better);
    assert!(effects[0].factors().0 > 1.25);
    // Nothing below the band is seen, and an assumed band lowers the confidence.
    for one in against.figures.iter().filter(|one| one.p.is_some()) {
        assert!(one.least_seen() >= one.band.share);
    }
    assert!(!against.least_seen().is_empty());
    let incomplete = |run: &Run| {
        let confidence = against.confidence(run);
        assert!(confidence.level < Level::High && !confidence.doubts.is_empty());
        let doubt = confidence.doubts.into_iter().find(|doubt| doubt.what == "incomplete");
        doubt.map(|doubt| doubt.of_runs.map(|why| why.is_some()))
    };
    assert_eq!(incomplete(&base), None);
    let mut killed = base.clone();
    killed.footer = None;
    assert_eq!(incomplete(&killed), Some([true, false]));
}

/// Another run of the machine, as the index tells it.
fn add(history: &mut History, figures: &[Figure]) {
    for figure in figures {
        let values = used_rounds(figure);
        if let Some(key) = figure.key().filter(|_| !values.is_empty()) {
            let earlier = Earlier { condition: 0, rounds: values };
            history.0.entry(key).or_default().push(earlier);
        }
    }
}

#[test]
fn stored_runs_widen_the_band() {
    let base = sample::run();
    let new = slower(1.3);
    let mut history = History::default();
    for factor in [0.6, 0.8, 1.0, 1.3, 1.7] {
        add(&mut history, &figures(&slower(factor)));
    }
    let comparison = compared(&base, &new, &history);
    assert!(!comparison.has_finding());
    let key = Key::new("memory.latency", &sample::rung(65536), "latency");
    let of_key = |one: &&super::Compared| one.base.key().as_ref() == Some(&key);
    let one = comparison.against[0].figures.iter().find(of_key).unwrap();
    assert_eq!(one.band.source, Source::Stored(5));
    assert!(one.band.share > 0.5, "{:?}", one.band);
    assert_eq!(one.outcome, Outcome::Quiet);
}

#[test]
fn a_derived_figure_changes_only_where_a_case_does() {
    let moved = |factor: f64| {
        sample::changed(|event| match event {
            Event::Derived(derived) if derived.experiment == "memory.latency" => {
                derived.value *= 2.0;
                derived.ci = derived.ci.map(|(low, high)| (2.0 * low, 2.0 * high));
            }
            event => scale(event, "memory.latency", factor),
        })
    };
    let base = sample::run();
    for (factor, expected) in [(1.0, false), (1.5, true)] {
        let new = moved(factor);
        let found = against(&base, &new);
        let is_derived = found.findings().iter().any(|one| one.metric.derived);
        assert_eq!(is_derived, expected, "{factor}");
        assert!(found.figures.iter().filter(|one| one.metric.derived).all(|one| one.p.is_some()));
    }
}

#[test]
fn another_size_is_not_tested() {
    let base = sample::run();
    let sized = |bytes: u64, cpu: u64| {
        sample::changed(move |event| {
            scale(event, "memory.latency", 1.3);
            if let Event::Samples(samples) = event
                && samples.series == "memory.latency"
            {
                samples.at.insert("file_bytes".into(), bytes.into());
                samples.at.insert("cpu".into(), cpu.into());
            }
        })
    };
    let (small, large) = (sized(1 << 26, 1), sized(1 << 28, 0));
    for (base, new, untested) in [(&small, &large, true), (&base, &small, false)] {
        let comparison = compared(base, new, &History::default());
        let of_size = comparison.against[0].untested(Untested::OtherSize).len();
        assert_eq!(of_size >= sample::ladder().len(), untested, "{of_size}");
        assert_eq!(comparison.has_finding(), !untested);
    }
}

#[test]
fn a_cpu_that_others_took_is_told() {
    let base = sample::run();
    let new = sample::changed(|event| {
        scale(event, "memory.latency", 1.3);
        if let Event::Round(round) = event {
            let taken = 0.4 * round.window_ns * round.cpus.len() as f64;
            round.environment.insert("run_delay_ns".into(), taken);
        }
    });
    let quiet = sample::changed(|event| {
        if let Event::Round(round) = event {
            round.environment.insert("run_delay_ns".into(), 0.0);
        }
    });
    let against_quiet = against(&quiet, &new);
    let told = against_quiet.conditions.iter().find(|one| one.name.contains("run delay"));
    assert_eq!(told.unwrap().new, "40 %");
    let reasons = &against_quiet.findings()[0].reasons;
    let expected = "other programs used its CPU (run delay) for 0 → 40 % of the time";
    assert!(reasons.iter().any(|one| one == expected), "{reasons:?}");
    // A run that does not record it says nothing of it.
    let conditions = against(&base, &new).conditions;
    assert!(!conditions.iter().any(|one| one.name.contains("run delay")));
}

#[test]
fn stored_runs_that_agree_leave_a_band() {
    let base = sample::run();
    let new = slower(1.004);
    let mut history = History::default();
    (0..5).for_each(|_| add(&mut history, &figures(&base)));
    let comparison = compared(&base, &new, &history);
    let all = &comparison.against[0].figures;
    assert!(all.iter().any(|one| one.band.source == Source::Stored(5)));
    // Half of the default: 2.1 % of hardware, 5.9 % of the system.
    assert!(all.iter().all(|one| one.band.share >= 0.02));
}

#[test]
fn another_machine_s_history_says_nothing() {
    let base = sample::run();
    let new = with_header(|header| header.identity = "another".into());
    let mut history = History::default();
    (0..5).for_each(|_| add(&mut history, &figures(&base)));
    let runs = [measured(&base), measured(&new)];
    let against = &compare(&runs, &history).unwrap().against[0];
    assert!(!against.same_machine);
    assert!(against.figures.iter().all(|one| one.band.between.runs == 0));
    let identity = &against.conditions[0];
    assert_eq!((identity.class, identity.name.as_str()), (Class::Machine, "identity"));
}

#[test]
fn what_cannot_be_tested_says_why() {
    let base = sample::run();
    let comparison_of = |new: &Run| {
        let against = against(&base, new);
        Untested::ALL.map(|why| against.untested(why).len())
    };
    assert_eq!(comparison_of(&base), [0; 6]);
    let new = with_header(|header| header.options.preset = "published".into());
    let [published, bare, ..] = comparison_of(&new);
    assert!(published > 20 && bare == 0, "{published}, {bare}");
    // Until stored runs say how much the minutes before a run matter.
    let noted = sample::changed(|event| {
        if let Event::Samples(samples) = event {
            samples.notes.push(Note::with_kind(NoteKind::History, "so many were deleted"));
        }
    });
    let mut history = History::default();
    for (stored, is_tested) in [(0, false), (5, true)] {
        (0..stored).for_each(|_| add(&mut history, &figures(&base)));
        let runs = [measured(&base), measured(&noted)];
        let comparison = compare(&runs, &history).unwrap();
        let untested = comparison.against[0].untested(Untested::History).len();
        assert_eq!(untested == 0, is_tested, "{untested} by {stored} stored runs");
    }
}

#[test]
fn a_published_figure_stands_beside_the_nearest_one_and_is_not_judged() {
    let new = sample::run();
    let base = with_header(|header| header.options.preset = "published".into());
    let mut runs = [measured(&base), measured(&new)];
    let label = |figure: &Figure| figure.label();
    let nearest = runs[1].figures.iter().find(|one| one.value.is_some() && one.key().is_some());
    let nearest = nearest.map(label).expect("something was measured");
    runs[0].figures.retain(|figure| figure.label() == nearest);
    let published = &mut runs[0].figures[0];
    published.case = CaseId::new().with("as_reported", "by_hand");
    for (name, text) in [("nearest", &*nearest), ("nearest_moves", "up"), ("printed", "3 cycles")] {
        published.at.insert(name.to_owned(), text.into());
    }
    let comparison = compare(&runs, &History::default()).expect("two runs");
    let against = &comparison.against[0];
    let [near] = against.nearest.as_slice() else { panic!("{:?}", against.nearest) };
    assert_eq!(
        (label(near.figure), near.moves(), near.printed()),
        (nearest.clone(), "up", "3 cycles")
    );
    assert!(against.figures.is_empty() && !comparison.has_finding());
    assert!(against.incomparable.iter().all(|one| one.figure.label() != nearest));
}

#[test]
fn what_has_no_partner_is_named_with_its_reason() {
    let base = sample::run();
    let new = sample::changed(|event| match event {
        // The pipe was not planned; one call failed.
        Event::Plan(plan) => plan.experiments.retain(|planned| planned.id != "os.pipe"),
        Event::Samples(samples) if samples.case == sample::call("read") => {
            samples.series = "nowhere".into();
        }
        Event::Outcome(outcome) if outcome.case == Some(sample::call("read")) => {
            outcome.outcome = Ending::Failed;
            outcome.reason = Some("broken pipe".into());
        }
        _ => {}
    });
    let told: Vec<(String, String)> = against(&base, &new)
        .incomparable
        .iter()
        .map(|one| (one.figure.label(), one.why.text()))
        .collect();
    let expected = [
        ("os.syscall:call=read latency", "not in the new run: failed: broken pipe"),
        ("os.pipe hop", "only in the base run"),
    ];
    let expected = expected.map(|(label, why)| (label.to_owned(), why.to_owned()));
    assert_eq!(told, expected);
    // The other way round.
    let back = against(&new, &base);
    let whys: Vec<&Why> = back.incomparable.iter().map(|one| &one.why).collect();
    assert!(whys.contains(&&Why::OnlyNew), "{whys:?}");
    assert!(whys.iter().any(|why| matches!(why, Why::AbsentInBase(_))), "{whys:?}");
}

#[test]
fn another_unit_is_never_compared() {
    let base = sample::run();
    let new = sample::changed(|event| {
        if let Event::Plan(plan) = event {
            let pipe = plan.experiments.iter_mut().find(|planned| planned.id == "os.pipe");
            pipe.unwrap().metrics[0].unit = Unit::OpPerS;
        }
    });
    let incomparable = against(&base, &new).incomparable;
    assert_eq!(incomparable[0].why, Why::Units("ns", "op/s"));
    assert_eq!(incomparable.len(), 1);
}

#[test]
fn a_renamed_figure_is_compared_with_that_of_its_former_name() {
    const LATER: &str = "later";
    let base = sample::run();
    let new = sample::changed(|event| match event {
        Event::Plan(plan) => {
            let mut planned = plan.experiments.iter_mut();
            let pipe = planned.find(|planned| planned.id == "os.pipe").unwrap();
            let was = std::mem::replace(&mut pipe.metrics[0].name, LATER.into());
            pipe.metrics[0].formerly = Some(was);
        }
        Event::Samples(samples) if samples.series == "os.pipe" => {
            samples.metric = LATER.into();
        }
        _ => {}
    });
    for runs in [[&base, &new], [&new, &base]] {
        let runs = runs.map(measured);
        let comparison = compare(&runs, &History::default()).unwrap();
        let against = &comparison.against[0];
        let of_pipe = |one: &&super::Compared| one.base.experiment == "os.pipe";
        assert_eq!(against.figures.iter().filter(of_pipe).count(), 1);
        assert!(against.incomparable.is_empty(), "{:?}", against.incomparable);
    }
}

#[test]
fn figures_of_the_core_are_compared_in_cycles_where_the_clocks_differ() {
    let all = figures(&sample::run());
    let measured = all.iter().find(|figure| figure.experiment == "os.syscall").unwrap();
    let figure = |experiment: &str, ghz: f64| {
        let mut figure = Figure { experiment: experiment.into(), ..measured.clone() };
        figure.cycles = Some(330.0);
        figure.value = Some(330.0 / ghz);
        for round in &mut figure.rounds {
            (round.cycles, round.value) = (figure.cycles, 330.0 / ghz);
        }
        figure
    };
    let metric = measured.metric.as_ref().unwrap();
    for (experiment, ghz, expected) in
        [("cpu.call", 2.2, true), ("cpu.call", 3.01, false), ("os.syscall", 2.2, false)]
    {
        let (base, new) = (figure(experiment, 3.0), figure(experiment, ghz));
        let joined = super::join::Joined { base: &base, new: &new, metric, index: 0 };
        let cycles = super::in_cycles(&joined);
        assert_eq!(cycles.is_some(), expected, "{experiment} at {ghz} GHz");
        assert!(cycles.is_none_or(|[base, new]| base == new));
    }
}

#[test]
fn what_differs_around_runs_is_told_the_most_telling_first() {
    let base = sample::run();
    let new = with_header(|header| {
        header.plumb = "0.2.0".into();
        header.environment.insert("thp".into(), "always".into());
        header.environment.insert("load_1m".into(), "9.5".into());
        header.environment.remove("governor");
        header.calibration.core_hz *= 0.9;
        header.host["cpu"]["turbo"]["enabled"] = false.into();
        header.host["memory"]["available_bytes"] = 1.into();
    });
    let told: Vec<String> = against(&base, &new)
        .conditions
        .iter()
        .map(|one| format!("{} {}: {} → {}", one.class.text(), one.name, one.base, one.new))
        .collect();
    let expected = [
        "setting cpu.turbo.enabled: not recorded → false",
        "setting governor: performance → not recorded",
        "setting thp: madvise → always",
        "plumb version: 0.1.0 → 0.2.0",
        "clocks core clock: 3.20 GHz → 2.88 GHz",
        "state load_1m: 0.12 → 9.5",
    ];
    assert_eq!(told, expected, "small loads and moving numbers are no news");
}

#[test]
fn an_option_that_was_not_given_is_no_gap_in_the_record() {
    let base = with_header(|header| header.options.selectors.clear());
    let new = with_header(|header| header.options.selectors = vec!["os".into(), "cpu".into()]);
    let told = against(&base, &new).conditions;
    let selected = told.iter().find(|one| one.name == "selected").unwrap();
    assert_eq!((&*selected.base, &*selected.new), ("everything", "os cpu"));
}

#[test]
fn what_is_recorded_beside_a_finding_is_told() {
    let base = sample::run();
    let new = sample::changed(|event| {
        scale(event, "memory.latency", 1.25);
        match event {
            Event::Samples(samples) if samples.series == "memory.latency" => {
                samples.core_hz = Some(sample::CORE_HZ / 1.25);
                samples.at.insert("cpu".into(), 0.into());
            }
            Event::Round(round) if round.series == "memory.latency" => {
                round.disturbed = vec!["steal 1.8 % of the window".into()];
            }
            _ => {}
        }
    });
    let against = against(&base, &new);
    let reasons = &against.findings()[0].reasons;
    for (reason, part) in reasons.iter().zip(["cpu: 1 → 0", "in cycles", "by steal"]) {
        assert!(reason.contains(part), "{reasons:?}");
    }
    assert_eq!(reasons.len(), 3, "{reasons:?}");
}
