use super::{EXPERIMENT, window_ns};
use bench::experiment::fixtures::bare_site;
use bench::experiment::{Preset, Site};
use session::fixtures::{offered, skipped, smoke};

#[test]
fn processes_whose_gaps_have_no_room_are_skipped() {
    let set = [("processes", "2,64")];
    let offer = |memory_bytes| {
        offered(&EXPERIMENT, &Site { memory_bytes, ..bare_site() }, Preset::Quick, &set)
    };
    assert_eq!(skipped(&offer(4 << 20)), ["processes=64"]);
    assert!(offer(4 << 20).skipped[0].1.needed.is_some());
    assert_eq!(skipped(&offer(1 << 10)), ["processes=2", "processes=64"], "no room for two");
}

#[test]
fn a_window_holds_slices_of_several_ticks() {
    assert_eq!(window_ns(4, 2, 4e6, 48e6), 96e6);
    assert_eq!(window_ns(15, 2, 4e6, 48e6), 120e6);
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
}
