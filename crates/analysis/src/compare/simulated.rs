//! The promises of METHOD §3 on simulated runs, through the whole path: events of rounds become a
//! run, its figures, and their comparison. `crates/stats/src/compare/simulated.rs` tests the same
//! on the mathematics alone, with more runs.

use super::{Measured, compare};
use crate::figures;
use crate::history::History;
use crate::sample;
use record::case::Order;
use record::event::{
    Event, Isolation, Plan, PlannedExperiment, PlannedSeries, Raw, Repeat, Round, RoundStatus,
    Samples,
};
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::run::Run;
use record::unit::Unit;
use record::view::View;
use stats::draw::{Draw, trials};
use std::collections::BTreeMap;

const EXPERIMENTS: usize = 100;
const CASES: u64 = 20;
const ROUNDS: u32 = 6;

/// Every second experiment is of hardware: 1.5 % from run to run, 1 % between rounds; the others of
/// the operating system: 4 % and 2 %.
fn kind(experiment: usize) -> (Kind, &'static str, f64, f64) {
    match experiment.is_multiple_of(2) {
        true => (Kind::Hardware, "cpu", 0.015, 0.01),
        false => (Kind::Os, "os", 0.04, 0.02),
    }
}

fn id(experiment: usize) -> String {
    format!("{}.x{experiment}", kind(experiment).1)
}

fn case(number: u64) -> CaseId {
    CaseId::new().with("case", number)
}

fn planned(experiment: usize) -> PlannedExperiment {
    let (kind, ..) = kind(experiment);
    PlannedExperiment {
        id: id(experiment),
        title: "Simulated".into(),
        manual: String::new(),
        metrics: vec![Metric::new("time", "A time.", Unit::Ns, Better::Lower, kind)],
        params: vec![("case".into(), "A case.".into())],
        units: BTreeMap::new(),
        view: View::Table,
        views: vec![],
        keys: vec![],
        repeat: Repeat::Rounds,
        isolation: Isolation::Shared,
        after: vec![],
        series: vec![PlannedSeries {
            name: String::new(),
            cases: (0..CASES).map(case).collect(),
            order: Order::Fixed,
            settings: BTreeMap::new(),
            round_cost_s: 0.1,
        }],
        derived: vec![],
        skipped: None,
    }
}

/// A run of 2,000 figures; the first case of an experiment is changed by a factor.
fn run(draw: &mut Draw, changed: Option<(usize, f64)>) -> Run {
    let mut run = Run::new(sample::header());
    run.push(Event::Plan(Box::new(Plan {
        experiments: (0..EXPERIMENTS).map(planned).collect(),
        stages: vec![],
        looks: vec![6],
        eta_s: 1.0,
    })));
    for experiment in 0..EXPERIMENTS {
        let (.., between, within) = kind(experiment);
        let factor = |case: u64| match changed {
            Some((of, factor)) if of == experiment && case == 0 => factor,
            _ => 1.0,
        };
        let levels: Vec<(f64, f64)> = (0..CASES)
            .map(|case| {
                let level = 100.0 * (between * draw.normal()).exp() * factor(case);
                let scatter: f64 = 0.3 * draw.normal();
                (level, within * scatter.exp())
            })
            .collect();
        for n in 1..=ROUNDS {
            for (number, (level, within)) in (0..CASES).zip(&levels) {
                let value = level * (within * draw.normal()).exp();
                run.push(Event::Samples(of_round(experiment, n, number, value)));
            }
            run.push(Event::Round(round(experiment, n)));
        }
    }
    run
}

fn of_round(experiment: usize, n: u32, number: u64, value: f64) -> Samples {
    let raw = Raw::Batch { k: 1000, values: vec![value] };
    Samples::new(&id(experiment), n, case(number), "time", raw)
}

fn round(experiment: usize, n: u32) -> Round {
    Round {
        series: id(experiment),
        n,
        segment: 0,
        at_s: 0.0,
        window_ns: 1e8,
        status: RoundStatus::Ok,
        waited_s: None,
        cpus: vec![1],
        environment: BTreeMap::new(),
        disturbed: vec![],
        others: Vec::new(),
        failed: vec![],
    }
}

fn found(base: &Run, new: &Run) -> Vec<String> {
    let runs = [base, new].map(|run| Measured { run, figures: figures(run) });
    let comparison = compare(&runs, &History::default()).unwrap();
    let against = &comparison.against[0];
    assert_eq!(against.tested(), EXPERIMENTS * CASES as usize);
    assert!(against.incomparable.is_empty());
    let labels = against.findings().into_iter().map(|one| one.base.label());
    labels.collect()
}

/// Counts over some pairs of runs: not quiet though unchanged; the changed hardware figure found;
/// the changed os figure found.
fn count(trials: u64) -> (usize, usize, usize) {
    let (mut loud, mut hardware, mut os) = (0, 0, 0);
    for trial in 0..trials {
        let mut draw = Draw::new(trial + 1);
        let base = run(&mut draw, None);
        loud += usize::from(!found(&base, &run(&mut draw, None)).is_empty());
        // Up in one trial, down in the next.
        let way = |factor: f64| {
            if trial.is_multiple_of(2) { factor } else { 1.0 / factor }
        };
        for (experiment, factor, count) in [(0, 1.2, &mut hardware), (1, 1.4, &mut os)] {
            let new = run(&mut draw, Some((experiment, way(factor))));
            let changed = format!("{}:case=0 time", id(experiment));
            *count += usize::from(found(&base, &new).contains(&changed));
        }
    }
    println!("{trials} trials: {loud} not quiet, {hardware} hardware found, {os} os found");
    (loud, hardware, os)
}

#[test]
fn unchanged_runs_are_quiet_and_one_changed_figure_is_found() {
    // One trial of the numbers of METHOD §3: a run of 2,000 figures takes its time in a debug
    // build.
    let trials = trials(1);
    let (loud, hardware, os) = count(trials as u64);
    assert!(loud <= trials / 20, "{loud} of {trials}");
    assert!(hardware * 10 >= trials * 9, "{hardware} of {trials}");
    // A single trial of an os figure may miss it.
    assert!(trials < 100 || os * 10 >= trials * 9, "{os} of {trials}");
}
