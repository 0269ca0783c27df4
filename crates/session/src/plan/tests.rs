//! Tests of `plan`.

use super::{default_budget, levels, plan};
use crate::fixtures::recorded_sites;
use crate::params::Settings;
use crate::select::Selection;
use bench::experiment::Preset;
use catalogue::FAMILIES;

#[test]
fn clock_is_alone_in_stage_0_and_dependencies_come_first() {
    let chosen: Vec<_> = FAMILIES
        .iter()
        .flat_map(|family| family.experiments.iter().map(move |e| (*family, *e)))
        .collect();
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
