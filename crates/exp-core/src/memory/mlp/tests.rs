use super::{Chased, EXPERIMENT, ID};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::{bare_site, recorded};
use bench::prelude::*;
use laws::memory::Level;
use session::fixtures::{offered, refused};

#[test]
fn quick_measures_it_only_where_it_is_asked_for() {
    let site = recorded("epyc-7763-2s");
    assert!(refused(&EXPERIMENT, &site, Preset::Quick, &[]).needed.is_some());
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &[("chains", "1,8")]);
    assert_eq!(offer.series[0].cases.len(), 2);
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
