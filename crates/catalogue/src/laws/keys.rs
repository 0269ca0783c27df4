//! The summary of a run: what its key figures name, how many there are, and that a run has them.

use super::{all, offer, sites};
use bench::experiment::{AnyExperiment, Preset, Role, Site};
use record::key::CaseId;
use record::key_figure::KeyFigure;
use session::params::parse_values;

fn keys() -> impl Iterator<Item = (&'static dyn AnyExperiment, &'static KeyFigure)> {
    let all = all().into_iter();
    all.flat_map(|(_, experiment)| experiment.card().keys.iter().map(move |key| (experiment, key)))
}

#[test]
fn a_summary_has_thirty_to_forty_key_figures_with_titles_of_their_own() {
    let mut titles: Vec<String> = keys().map(|(_, key)| key.title()).collect();
    assert!((30..=40).contains(&titles.len()), "{}", titles.len());
    let count = titles.len();
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), count);
}

/// So that a line of the summary has room for its quantities.
#[test]
fn headings_are_short() {
    for (_, key) in keys() {
        assert!(key.title().chars().count() <= 24, "{}", key.title());
    }
}

#[test]
fn key_figures_name_what_their_cards_have() {
    for (experiment, key) in keys() {
        let card = experiment.card();
        let is_metric = card.metrics.iter().any(|metric| metric.name == key.metric);
        assert!(is_metric, "{}: no metric {}", card.id, key.metric);
        for (name, values) in key.parameters() {
            let mut params = card.params.iter().filter(|param| param.role == Role::Case);
            let param = params.find(|param| param.name == name);
            for value in values.filter(|value| !value.is_empty()) {
                // A derived figure's case has parameters that no user sets.
                // Integers are in base units, where a user gives times with a unit.
                let is_one = value.parse::<u64>().is_ok()
                    || param.is_none_or(|param| parse_values(value, param).is_ok());
                assert!(is_one, "{}: {name}={value}", card.id);
            }
        }
    }
}

/// The cases that an experiment's figures would have, as planned.
fn cases(experiment: &'static dyn AnyExperiment, site: &Site, preset: Preset) -> Vec<CaseId> {
    let Some(offer) = offer(experiment, site, preset) else {
        return Vec::new();
    };
    let derived = experiment.derivable(site, &offer.series);
    let measured = offer.series.into_iter().flat_map(|series| series.cases);
    measured.map(|case| case.id).chain(derived).collect()
}

#[test]
fn quick_and_standard_runs_measure_every_key_figure_somewhere() {
    for preset in [Preset::Quick, Preset::Standard] {
        let sites = sites(preset);
        for (experiment, key) in keys() {
            let has =
                |site: &Site| cases(experiment, site, preset).iter().any(|case| key.is_of(case));
            let here = sites.iter().filter(|(_, site)| has(site)).count();
            assert!(here > 0, "{} {key:?} in {}", experiment.card().id, preset.name());
        }
    }
}
