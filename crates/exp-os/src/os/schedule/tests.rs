use super::{CARD, EXPERIMENT};
use bench::experiment::fixtures::{bare_site, recorded};
use bench::experiment::{AnyExperiment as _, Known, Preset, Site};
use record::case::Case;
use record::event::Range;
use record::key::{CaseId, Key};
use session::fixtures::{params, smoke};
use std::time::Duration;

#[test]
fn processes_whose_gaps_have_no_room_are_skipped() {
    let set = [("processes", "2,64")];
    let params = params(&CARD, Preset::Quick, &set);
    let small = |memory_bytes| Site { memory_bytes, ..bare_site() };
    let offer = EXPERIMENT.series(&small(4 << 20), &params).unwrap();
    assert_eq!(offer.series[0].cases.len(), 1);
    let (id, skip) = &offer.skipped[0];
    assert_eq!(id.to_string(), "processes=64");
    assert!(skip.needed.is_some());
    let offer = EXPERIMENT.series(&small(1 << 10), &params).unwrap();
    assert_eq!((offer.series.len(), offer.skipped.len()), (0, 2), "no room for two");
}

#[test]
fn a_window_holds_slices_of_several_ticks() {
    // CFS on 256 CPUs: 12 ms for one of two, which is three or four ticks.
    let site = recorded("epyc-7763-2s");
    let set = [("processes", "2"), ("samples", "4")];
    let offer = EXPERIMENT.series(&site, &params(&CARD, Preset::Quick, &set));
    let series = offer.unwrap().series.remove(0);
    let cost = EXPERIMENT.round_cost(&site, &series);
    assert!(cost > Duration::from_millis(2 * 4 * 12), "{cost:?}");
}

#[test]
fn the_derived_switch_comes_from_os_switch() {
    let site = recorded("vm-granite-rapids");
    let case = Case::new(CaseId::new().with("processes", 2_u64));
    let metric = |name: &str| {
        let mut of = CARD.metrics.iter();
        of.find(|metric| metric.name == name).expect("in the card")
    };
    let mut known = Known::default();
    let told = |known: &Known, name| EXPERIMENT.predict(&site, Some(known), &case, metric(name));
    assert_eq!(told(&known, "switch"), None);
    let pipe = CaseId::new().with("via", "pipe").with("parties", "processes").with("pair", "same");
    known.insert(Key::new("os.switch", &pipe, "switch"), 50_000.0);
    let prediction = told(&known, "switch").expect("derived");
    let Range { low, likely, .. } = prediction.range.expect("an interval");
    assert!(low > 20_000.0 && likely > 50_000.0);
    for other in ["slice", "fairness", "on_tick"] {
        assert_eq!(told(&known, other), None, "{other}");
    }
}

#[test]
fn it_runs_and_every_figure_has_samples() {
    let samples = smoke(&EXPERIMENT);
    let of = |metric: &str| {
        let mut found = samples.iter().filter(|samples| samples.metric == metric);
        found.next().expect("a case").raw.samples()
    };
    assert!(of("slice").iter().chain(&of("switch")).all(|ns| *ns > 0.0));
    let (interrupted, lost) = (of("interrupted")[0], of("lost")[0]);
    assert!(0.0 <= interrupted && interrupted <= lost && lost < 1.0);
    assert!((0.5..=1.0).contains(&of("fairness")[0]));
    assert!(samples.iter().all(|samples| samples.metric != "rotation"));
    let of_slices = samples.iter().find(|samples| samples.metric == "slice");
    let of_slices = of_slices.expect("a case");
    let share: f64 = ["share_1", "share_2"].iter().map(|name| of_slices.quantities[*name]).sum();
    assert!((share + lost - 1.0).abs() < 1e-6, "{share} {lost}");
    assert!(of_slices.notes.iter().any(|note| note.contains("first run after fork")));
}
