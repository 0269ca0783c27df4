//! Laws over the catalogue.

mod frozen;
mod views;

use super::{FAMILIES, find};
use bench::experiment::{DirFacts, Domain, Experiment, Family, Offer, Preset, Role, Site};
use record::case::{Case, Series};
use record::event::Repeat;
use record::metric::Metric;
use session::fixtures::recorded_sites as sites;
use session::params::{Settings, parse_values};
use session::plan::{default_budget, plan};
use session::select::Selection;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PRESETS: [Preset; 4] = [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];

const HEADINGS: [&str; 6] = [
    "## Question",
    "## Method",
    "## Prediction",
    "## Reading the result",
    "## Pitfalls",
    "## Sources",
];

fn all() -> Vec<(&'static Family, &'static dyn Experiment)> {
    FAMILIES
        .iter()
        .flat_map(|family| family.experiments.iter().map(move |e| (*family, *e)))
        .collect()
}

fn offer(experiment: &'static dyn Experiment, site: &Site, preset: Preset) -> Option<Offer> {
    let params = Settings::default().params(experiment.card(), preset);
    match experiment.series(site, &params) {
        Ok(offer) => Some(offer),
        Err(skip) => {
            assert!(skip.reason.len() > 3, "{}: a skip has a reason", experiment.card().id);
            None
        }
    }
}

#[test]
fn every_experiment_offers_something_on_some_recorded_host() {
    for preset in PRESETS {
        let sites = sites(preset);
        for (_, experiment) in all() {
            let offers = sites.iter().filter_map(|(_, site)| offer(experiment, site, preset));
            assert!(
                offers.count() > 0
                    || is_for_longer(experiment, &sites, preset)
                    || is_for_a_setting(experiment, &sites, preset),
                "{} in {}",
                experiment.card().id,
                preset.name()
            );
        }
    }
}

/// A continued run is compared with its plan, and finds less free space and more available memory.
#[test]
fn what_changes_from_one_minute_to_the_next_is_in_no_setting() {
    const MIB: u64 = 1 << 20;
    for preset in PRESETS {
        for (host, mut site) in sites(preset) {
            for (_, experiment) in all() {
                let mut planned = |allowance_bytes: u64, available_bytes: u64| {
                    site.host.memory.available_bytes = Some(available_bytes);
                    site.host.limits.memory_left_bytes = None;
                    site.dir = site.dir.take().map(|dir| DirFacts { allowance_bytes, ..dir });
                    let series = offer(experiment, &site, preset)?.series.into_iter();
                    let of = |series: Series| (series.name, series.cases.len(), series.settings);
                    Some(series.map(of).collect::<Vec<_>>())
                };
                for allowed in [1800 * MIB, 50_000 * MIB] {
                    let then = planned(allowed, 9_000 * MIB);
                    let now = planned(allowed - 3 * MIB, 9_100 * MIB + 4096);
                    assert_eq!(then, now, "{} on {host}", experiment.card().id);
                }
            }
        }
    }
}

/// Whether an experiment refers a preset that is too short for it to a longer one, everywhere.
fn is_for_longer(experiment: &dyn Experiment, sites: &[(String, Site)], preset: Preset) -> bool {
    let params = Settings::default().params(experiment.card(), preset);
    preset == Preset::Quick
        && sites.iter().all(|(_, site)| {
            let skip = experiment.series(site, &params).err();
            let way_out = skip.and_then(|skip| skip.needed);
            way_out.is_some_and(|needed| needed.contains("--preset standard"))
        })
}

/// Whether an experiment measures only what the user names with a setting of its own, everywhere.
fn is_for_a_setting(experiment: &dyn Experiment, sites: &[(String, Site)], preset: Preset) -> bool {
    let card = experiment.card();
    let params = Settings::default().params(card, preset);
    let setting = format!("--set {}.", card.id);
    sites.iter().all(|(_, site)| {
        let skip = experiment.series(site, &params).err();
        let way_out = skip.and_then(|skip| skip.needed);
        way_out.is_some_and(|needed| needed.contains(&setting))
    })
}

/// Cases that a preset may have (DESIGN §5: quick about 120 in all, standard about 600).
#[test]
fn presets_keep_their_number_of_cases() {
    for (preset, most) in [(Preset::Quick, 150), (Preset::Standard, 770)] {
        for (host, site) in sites(preset) {
            let cases: usize = all()
                .into_iter()
                .filter(|(family, _)| !family.hidden)
                .filter_map(|(_, experiment)| offer(experiment, &site, preset))
                .flat_map(|offer| offer.series)
                .map(|series| series.cases.len())
                .sum();
            assert!(cases <= most, "{host}: {cases} cases in {}", preset.name());
        }
    }
}

#[test]
fn ids_are_family_and_file_and_unique() {
    let mut seen = BTreeSet::new();
    for (family, experiment) in all() {
        let id = experiment.card().id;
        let (first, file) = id.split_once('.').expect("family.file");
        assert_eq!(first, family.name);
        let path = folder(experiment).with_extension("rs");
        assert!(path.ends_with(format!("{first}/{file}.rs")));
        let text = std::fs::read_to_string(&path).expect("the id names its file");
        assert_eq!(experiment.source(), text, "{id} includes its own file");
        assert!(seen.insert(id), "{id} twice");
        assert!(find(id).is_some());
    }
}

#[test]
fn manuals_have_all_headings_in_order() {
    for (_, experiment) in all() {
        let manual = experiment.manual();
        let found: Vec<&str> = manual
            .lines()
            .filter(|line| line.starts_with("## ") && *line != "## Parameters")
            .collect();
        assert_eq!(found, HEADINGS, "{}", experiment.card().id);
        for section in manual.split("## ").skip(1) {
            let text = section.split_once('\n').map_or("", |(_, text)| text);
            assert!(text.trim().len() > 4, "{}: {section} is empty", experiment.card().id);
        }
    }
}

/// Where the parts of an experiment lie, beside the file that its id names.
fn folder(experiment: &dyn Experiment) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let named = experiment.card().id.replace('.', "/");
    let mut folders = ["exp-core", "exp-fs", "exp-net", "exp-os"]
        .map(|of| crates.join(of).join("src").join(&named))
        .into_iter();
    let found = folders.find(|folder| folder.with_extension("rs").is_file());
    found.unwrap_or_else(|| panic!("{named}.rs is in no crate"))
}

/// An experiment's file and the parts in the directory of its name.
fn whole_source(experiment: &dyn Experiment) -> String {
    let parts = folder(experiment);
    let mut text = experiment.source().to_owned();
    if let Ok(files) = std::fs::read_dir(parts) {
        for file in files {
            let path = file.unwrap().path();
            let is_part = path.is_file() && path.file_name().is_some_and(|name| name != "tests.rs");
            if is_part {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn parameters_are_documented_used_and_their_defaults_are_in_range() {
    for (_, experiment) in all() {
        let card = experiment.card();
        for param in card.params {
            assert!(param.doc.len() > 3, "{}.{} has no doc", card.id, param.name);
            for default in param.defaults {
                let parsed = parse_values(default, param);
                assert!(parsed.is_ok(), "{}.{}: {default}: {parsed:?}", card.id, param.name);
            }
            // Names are labels in OpenMetrics, where every sample has one of these.
            let mut letters = param.name.bytes();
            let is_label = letters.next().is_some_and(|first| first.is_ascii_lowercase())
                && letters
                    .all(|letter| letter.is_ascii_lowercase() || b"_0123456789".contains(&letter));
            assert!(
                is_label && !["machine", "le", "quantile", "instance", "job"].contains(&param.name),
                "{}.{} cannot be a label",
                card.id,
                param.name
            );
            // Parameters of a case are its fields, which the compiler sees used.
            let used = format!("\"{}\"", param.name);
            let is_used = || whole_source(experiment).matches(&used).count() >= 2;
            assert!(
                param.role == Role::Case || is_used(),
                "{}.{} is never used",
                card.id,
                param.name
            );
        }
        assert!(!card.metrics.is_empty() && !card.title.is_empty());
    }
}

/// Only a case that [`bench::measure::Bench::visit`] knows is visited again when a neighbour left too few samples.
#[test]
fn cases_that_are_timed_in_quartets_are_visited() {
    for (family, experiment) in all().into_iter().filter(|(family, _)| !family.hidden) {
        let source = whole_source(experiment);
        let times = ["bench.time(", "bench.try_time("].map(|call| source.contains(call));
        let visits = ["bench.each", "bench.visit("].map(|call| source.contains(call));
        assert!(
            !times.contains(&true) || visits.contains(&true),
            "{}.{} times cases without a visit",
            family.name,
            experiment.card().id
        );
    }
}

#[test]
fn dependencies_exist_and_form_no_circle() {
    fn depth(id: &str, above: usize) -> usize {
        assert!(above < 20, "{id} depends on itself");
        let card = find(id).expect("a dependency exists").card();
        card.after.iter().map(|id| depth(id, above + 1)).max().unwrap_or(above)
    }
    for (family, experiment) in all() {
        depth(experiment.card().id, 0);
        assert!(
            family.name != "clock" || experiment.card().after.is_empty(),
            "clock is stage 0 alone"
        );
    }
}

#[test]
fn cases_use_the_card_s_parameters_in_its_order() {
    for preset in PRESETS {
        for (host, site) in sites(preset) {
            for (_, experiment) in all() {
                let Some(offer) = offer(experiment, &site, preset) else {
                    continue;
                };
                check_cases(&host, experiment, &offer);
            }
        }
    }
}

fn check_cases(host: &str, experiment: &dyn Experiment, offer: &Offer) {
    let card = experiment.card();
    let names: Vec<&str> = card
        .params
        .iter()
        .filter(|param| param.role == Role::Case)
        .map(|param| param.name)
        .collect();
    let (mut seen, mut labels) = (BTreeSet::new(), BTreeSet::new());
    assert!(!offer.series.is_empty(), "{host}: {} offers nothing and gives no reason", card.id);
    for series in &offer.series {
        assert_eq!(series.experiment, card.id);
        assert!(labels.insert(series.label()), "{host}: series {} twice", series.label());
        assert!(!series.cases.is_empty(), "{host}: series {} is empty", series.label());
        for case in &series.cases {
            let mut rest = names.iter();
            for (name, value) in &case.id.0 {
                assert!(
                    rest.any(|have| have == name),
                    "{host}: {} {}: {name} is out of order",
                    card.id,
                    case.id
                );
                let param = card.params.iter().find(|param| param.name == name).unwrap();
                if let Domain::Symbols(symbols) = param.domain {
                    let text = value.text().expect("a symbol");
                    assert!(symbols.contains(&text), "{host}: {} {}: {text}", card.id, case.id);
                }
            }
            assert!(seen.insert(case.id.to_string()), "{host}: {} {} twice", card.id, case.id);
        }
    }
}

#[test]
fn every_case_has_a_sane_prior() {
    for preset in [Preset::Quick, Preset::Thorough] {
        for (host, site) in sites(preset) {
            for (_, experiment) in all() {
                let Some(offer) = offer(experiment, &site, preset) else {
                    continue;
                };
                let metrics = |derived| {
                    experiment.card().metrics.iter().filter(move |m: &&Metric| m.derived == derived)
                };
                for case in offer.series.iter().flat_map(|series| &series.cases) {
                    metrics(false)
                        .for_each(|metric| check_prior(&host, experiment, &site, case, metric));
                }
                for case in experiment.derivable(&site, &offer.series).into_iter().map(Case::new) {
                    let predicted = metrics(true)
                        .filter(|metric| experiment.predict(&site, None, &case, metric).is_some());
                    assert!(
                        predicted.count() >= 1,
                        "{host}: {} {} has no prior",
                        experiment.card().id,
                        case.id
                    );
                }
            }
        }
    }
}

fn check_prior(host: &str, experiment: &dyn Experiment, site: &Site, case: &Case, metric: &Metric) {
    let about = format!("{host}: {} {} {}", experiment.card().id, case.id, metric.name);
    let prediction = experiment.predict(site, None, case, metric);
    let prediction = prediction.unwrap_or_else(|| panic!("{about}: silence is not allowed"));
    assert!(prediction.because.len() > 3, "{about}: because of what?");
    if let Some(range) = prediction.range {
        assert!(range.low.is_finite() && range.high.is_finite(), "{about}: {range:?}");
        assert!(range.low <= range.likely && range.likely <= range.high, "{about}: {range:?}");
    }
    if let Some(bound) = prediction.bound {
        assert!(bound.constant.is_finite() && bound.uncertainty >= 0.0, "{about}: {bound:?}");
    }
}

#[test]
fn presets_keep_their_time_on_every_recorded_host() {
    for preset in [Preset::Quick, Preset::Standard, Preset::Thorough] {
        let budget = default_budget(preset);
        for (host, site) in sites(preset) {
            let (selection, settings) = (Selection::default(), Settings::default());
            let planned = plan(FAMILIES, &selection, &settings, preset, budget, &site).unwrap();
            let least: Duration =
                planned.work.iter().map(|work| work.whole(preset.looks()[0])).sum();
            // Of a thorough run's time a good third is one series that is measured one time only,
            // and as long as stated: cpu.sustained.
            let allowed = match preset {
                Preset::Thorough => budget * 19 / 20,
                // Half a second for each rate that a device or congestion control decides: a quarter of
                // it all.
                Preset::Quick => budget * 9 / 10,
                _ => budget * 3 / 4,
            };
            assert!(
                least <= allowed,
                "{host}: {} takes {least:?} for six rounds of everything, {allowed:?} of {budget:?} are allowed",
                preset.name()
            );
            assert!(planned.plan.eta_s <= budget.as_secs_f64(), "{host}: {}", planned.plan.eta_s);
        }
    }
}

#[test]
fn once_and_sweep_state_a_duration() {
    for (_, experiment) in all() {
        if let Repeat::Once { duration_s } = experiment.card().repeat {
            assert!(duration_s > 0.0, "{}", experiment.card().id);
        }
    }
}

#[test]
fn a_placement_that_no_case_has_is_told() {
    let set = ["net.rtt.placement=other".to_owned()];
    let settings = Settings::parse(&set, FAMILIES).unwrap();
    let selection = Selection::parse(&["net.rtt".to_owned()], FAMILIES).unwrap();
    for (host, site) in sites(Preset::Quick) {
        let budget = default_budget(Preset::Quick);
        let planned = plan(FAMILIES, &selection, &settings, Preset::Quick, budget, &site);
        assert!(planned.is_err(), "{host} has no peer");
    }
}

#[test]
fn a_filter_that_passes_nothing_is_told() {
    let sites = sites(Preset::Quick);
    let selection = Selection::parse(&["selftest.echo:messages=3".to_owned()], FAMILIES).unwrap();
    let settings = Settings::default();
    let (_, site) = &sites[0];
    let nothing =
        plan(FAMILIES, &selection, &settings, Preset::Quick, Duration::from_secs(9), site);
    assert!(nothing.is_err_and(|error| error.to_string().contains("messages")));
}
