//! Tests of `plan`.

use super::{default_budget, levels, plan};
use crate::fixtures::recorded_sites;
use crate::params::Settings;
use crate::select::{Selection, experiments};
use bench::experiment::Preset;
use catalogue::FAMILIES;

#[test]
fn clock_is_alone_in_stage_0_and_dependencies_come_first() {
    let chosen: Vec<_> = experiments(FAMILIES).collect();
    let levels = levels(&chosen);
    for ((family, experiment), level) in chosen.iter().zip(&levels) {
        assert_eq!(family.name == "clock", *level == 0, "{}", experiment.card().id);
        for ((_, other), below) in chosen.iter().zip(&levels) {
            if experiment.card().after.contains(&other.card().id) {
                assert!(below < level, "{} before {}", other.card().id, experiment.card().id);
            }
        }
    }
}

#[test]
fn what_may_be_written_is_divided_among_the_selected_experiments() {
    let (_, site) = recorded_sites(Preset::Standard).remove(0);
    let cases = |selectors: &[&str]| {
        let selectors: Vec<String> = selectors.iter().map(|text| (*text).to_owned()).collect();
        let selection = Selection::parse(&selectors, FAMILIES).expect("experiments");
        let (settings, budget) = (Settings::default(), default_budget(Preset::Standard));
        let planned = plan(FAMILIES, &selection, &settings, Preset::Standard, budget, &site);
        let planned = planned.expect("something is measured").plan.experiments;
        let contention = planned.into_iter().find(|planned| planned.id == "fs.contention");
        contention.expect("is selected").series[0].cases.len()
    };
    // Sixteen files of 64 MiB fit in 2 GiB, but not in this experiment's share beside all others.
    let alone = cases(&["fs.contention", "os.timer"]);
    let (two, all) = (cases(&["fs.contention", "fs.io"]), cases(&[]));
    assert!(alone > two && two >= all, "{alone} {two} {all}");
}

#[test]
fn what_may_be_written_is_for_the_cases_that_a_selector_leaves() {
    // R3's grid of writes, of which thorough has little room for beside its other cases.
    let filter = "fs.io:op=write,mode=buffered,block=1|1024|1048576,threads=1|2,files=own";
    let (_, site) = recorded_sites(Preset::Thorough).remove(0);
    let skipped = |of_io: &str| {
        let others = ["memory.fault", "fs.read", "fs.contention", "fs.cache_size"];
        let selectors: Vec<String> = others.iter().chain([&of_io]).map(|of| (*of).into()).collect();
        let selection = Selection::parse(&selectors, FAMILIES).expect("experiments");
        let (settings, budget) = (Settings::default(), default_budget(Preset::Thorough));
        let planned = plan(FAMILIES, &selection, &settings, Preset::Thorough, budget, &site);
        let planned = planned.expect("something is measured");
        let selection = Selection::parse(&[filter.to_owned()], FAMILIES).expect("a filter");
        let skipped = planned.skipped.iter().filter_map(|(_, case, _)| case.as_ref());
        skipped.filter(|case| selection.means(FAMILIES, "fs.io", Some(case))).count()
    };
    assert!(skipped(filter) < skipped("fs.io"));
}

#[test]
fn a_value_that_no_case_has_is_the_users_error() {
    let (_, site) = recorded_sites(Preset::Quick).remove(0);
    let planned = |id: &str, set: &[(&str, &str)]| {
        let card = catalogue::find(id).expect("in the catalogue").card();
        let settings = set.iter().fold(Settings::default(), |settings, (name, value)| {
            settings.with(card, name, value).expect("in the domain")
        });
        let selection = Selection::parse(&[id.to_owned()], FAMILIES).expect("an experiment");
        let budget = default_budget(Preset::Quick);
        plan(FAMILIES, &selection, &settings, Preset::Quick, budget, &site).is_ok()
    };
    assert!(planned("memory.latency", &[("stride", "128"), ("pattern", "forward")]));
    assert!(!planned("memory.latency", &[("stride", "128"), ("pattern", "random")]));
    assert!(!planned("memory.latency", &[("level", "L1")]), "of derived figures only");
    assert!(!planned("os.switch", &[("size", "4"), ("via", "pipe")]));
    assert!(planned("os.timer", &[("delay", "1ms"), ("timer", "timerfd")]));
    assert!(planned("os.signal", &[("operation", "auto")]));
}

#[test]
fn an_optional_selector_that_finds_nothing_is_a_skip_with_its_reason() {
    let (_, site) = recorded_sites(Preset::Quick).remove(0);
    assert!(site.peers.is_empty());
    let planned = |selectors: &[&str]| {
        let selectors: Vec<String> = selectors.iter().map(|text| (*text).to_owned()).collect();
        let selection = Selection::parse(&selectors, FAMILIES).expect("selectors");
        let budget = default_budget(Preset::Quick);
        plan(FAMILIES, &selection, &Settings::default(), Preset::Quick, budget, &site)
    };
    assert!(planned(&["net.rtt:far=!loopback"]).is_err(), "the user's filter");
    let planned = planned(&["net.rtt:far=!loopback,message=1?", "clock.loop"]).expect("a plan");
    let [(card, Some(case), skip)] = &planned.skipped[..] else { panic!("one is skipped") };
    assert_eq!(
        (card.id, case.text("far"), case.int("message")),
        ("net.rtt", Some("peer"), Some(1))
    );
    assert!(skip.needed.as_ref().is_some_and(|way| way.contains("--peer")), "{skip:?}");
    assert!(planned.work.iter().all(|work| work.experiment.card().id == "clock.loop"));
}
