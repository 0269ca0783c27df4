use super::{Chased, EXPERIMENT, ID};
use bench::experiment::fixtures::{bare_site, recorded};
use bench::experiment::{AnyExperiment, DerivedValue, Fields, Known, Preset};
use laws::memory::Level;
use record::case::Case;
use record::key::{CaseId, Key};
use session::fixtures::{check, params};

#[test]
fn quick_measures_it_only_where_it_is_asked_for() {
    let site = recorded("epyc-7763-2s");
    let quick = |set: &[(&str, &str)]| {
        let params = params(EXPERIMENT.card(), Preset::Quick, set);
        EXPERIMENT.series(&site, &params)
    };
    let skip = quick(&[]).expect_err("not in quick");
    assert!(skip.needed.is_some());
    let offer = quick(&[("chains", "1,8")]).expect("asked for");
    assert_eq!(offer.series[0].cases.len(), 2);
}

#[test]
fn every_count_to_32_is_there_and_levels_that_are_not_described_are_skipped() {
    let offer = check(&EXPERIMENT, &recorded("epyc-7763-2s"), Preset::Thorough);
    let names: Vec<&str> = offer.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["L2", "L3", "DRAM"]);
    for series in &offer.series {
        let counts = series.cases.iter().filter_map(|case| case.id.int("chains"));
        assert!(counts.eq(1..=32));
    }
    let bare = check(&EXPERIMENT, &bare_site(), Preset::Thorough);
    assert_eq!((bare.series.len(), bare.skipped.len()), (1, 64));
}

fn case(chains: u64) -> CaseId {
    Chased { level: Level::Memory, chains }.id()
}

fn derived(times: &[(u64, f64)]) -> Vec<DerivedValue> {
    let mut values = Known::default();
    for (chains, ns) in times {
        values.insert(Key::new(ID, &case(*chains), "load_time"), *ns);
    }
    EXPERIMENT.derive(&bare_site(), &Known::default(), &values)
}

#[test]
fn the_plateau_is_the_lines_in_flight() {
    // A core of 12 buffers at 96 ns.
    let times: Vec<(u64, f64)> = (1..=32).map(|k| (k, 96.0 / k.min(12) as f64)).collect();
    let found = derived(&times);
    let lines = found.iter().find(|value| value.metric == "lines_in_flight");
    let lines = lines.expect("a plateau");
    assert!((lines.value - 12.0).abs() < 1e-9 && lines.notes.is_empty());
    assert_eq!(lines.case, CaseId::new().with("level", "DRAM"));
    assert_eq!(lines.at["from_chains"].int(), Some(12));
    let four = found.iter().find(|value| value.case == case(4)).expect("a gain");
    assert!((four.value - 4.0).abs() < 1e-9);
    // Not saturated; no chain alone.
    let rising = derived(&times[..8]);
    let lines = rising.iter().find(|value| value.metric == "lines_in_flight");
    assert!(lines.is_some_and(|lines| lines.notes.len() == 1 && lines.value == 8.0));
    assert!(derived(&times[1..]).is_empty());
}

#[test]
fn the_measured_latency_is_what_the_prediction_divides() {
    let site = recorded("vm-granite-rapids");
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let series =
        EXPERIMENT.resolve(&site, &Known::default(), offer.series[0].clone()).expect("a footprint");
    let footprint = series.cases[0].int("footprint").expect("resolved");
    let metric = &EXPERIMENT.card().metrics[0];
    let mut known = Known::default();
    let one: &Case = series.cases.iter().find(|case| case.id.int("chains") == Some(1)).unwrap();
    assert!(EXPERIMENT.predict(&site, Some(&known), one, metric).is_none());
    let ladder = CaseId::new()
        .with("pattern", "random")
        .with("load", "pointer")
        .with("pages", "huge")
        .with("footprint", footprint);
    known.insert(Key::new("memory.latency", &ladder, "latency"), 111.0);
    let range = EXPERIMENT
        .predict(&site, Some(&known), one, metric)
        .and_then(|prediction| prediction.range)
        .unwrap();
    assert!((range.likely / 111.0 - 1.0).abs() < 0.01, "{range:?}");
}
