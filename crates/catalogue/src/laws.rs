//! Laws over the catalogue.

mod contained;
mod frozen;
mod keys;
mod messages;
mod reasons;
mod views;

use super::{FAMILIES, find};
use bench::experiment::fixtures;
use bench::experiment::{
    AnyExperiment, Card, DirFacts, Family, Known, Need, Offer, Preset, Role, Site, Skip, manual_of,
};
use frozen::with_peer;
use record::case::Series;
use record::event::Repeat;
use session::fixtures::{check_machine, check_offer, here, recorded_sites as sites, smoke, trees};
use session::params::{Settings, parse_values};
use session::plan::{Planned, default_budget, lacks, plan};
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

fn all() -> Vec<(&'static Family, &'static dyn AnyExperiment)> {
    FAMILIES
        .iter()
        .flat_map(|family| family.experiments.iter().map(move |e| (*family, *e)))
        .collect()
}

fn offer(experiment: &'static dyn AnyExperiment, site: &Site, preset: Preset) -> Option<Offer> {
    let params = Settings::default().params(experiment.card(), preset);
    match experiment.series(site, &params) {
        Ok(offer) => Some(offer),
        Err(skip) => {
            assert!(skip.reason.len() > 3, "{}: a skip has a reason", experiment.card().id);
            None
        }
    }
}

/// What a preset does at a site without options.
fn planned(site: &Site, preset: Preset) -> Planned {
    let (selection, settings) = (Selection::default(), Settings::default());
    plan(FAMILIES, &selection, &settings, preset, default_budget(preset), site).unwrap()
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

/// Whether an experiment offers nothing at any of the sites, and what is needed has this text.
fn needs_everywhere(
    experiment: &dyn AnyExperiment,
    sites: &[(String, Site)],
    preset: Preset,
    text: &str,
) -> bool {
    let params = Settings::default().params(experiment.card(), preset);
    sites.iter().all(|(_, site)| {
        let skip = experiment.series(site, &params).err();
        skip.and_then(|skip| skip.needed).is_some_and(|needed| needed.contains(text))
    })
}

/// Whether an experiment refers a preset that is too short for it to a longer one, everywhere.
fn is_for_longer(experiment: &dyn AnyExperiment, sites: &[(String, Site)], preset: Preset) -> bool {
    preset == Preset::Quick && needs_everywhere(experiment, sites, preset, "--preset standard")
}

/// Whether an experiment measures only what the user names with a setting of its own, everywhere.
fn is_for_a_setting(
    experiment: &dyn AnyExperiment,
    sites: &[(String, Site)],
    preset: Preset,
) -> bool {
    let setting = format!("--set {}.", experiment.card().id);
    needs_everywhere(experiment, sites, preset, &setting)
}

/// Cases that a preset may have (DESIGN §5: quick about 120 in all, standard about 600).
#[test]
fn presets_keep_their_number_of_cases() {
    for (preset, most) in [(Preset::Quick, 150), (Preset::Standard, 785)] {
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
        assert_eq!(experiment.manual(), manual_of(&text), "{id} has its own file's header");
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
fn folder(experiment: &dyn AnyExperiment) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let named = experiment.card().id.replace('.', "/");
    let mut folders = ["exp-core", "exp-fs", "exp-net", "exp-os"]
        .map(|of| crates.join(of).join("src").join(&named))
        .into_iter();
    let found = folders.find(|folder| folder.with_extension("rs").is_file());
    found.unwrap_or_else(|| panic!("{named}.rs is in no crate"))
}

/// An experiment's file and the parts in the directory of its name.
fn whole_source(experiment: &dyn AnyExperiment) -> String {
    let parts = folder(experiment);
    let mut text = std::fs::read_to_string(parts.with_extension("rs")).unwrap();
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

/// Only a case that [`bench::measure::Bench::each`] knows is tried once more when it fails, and given
/// up without its round.
#[test]
fn cases_that_are_timed_in_quartets_are_visited() {
    for (family, experiment) in all().into_iter().filter(|(family, _)| !family.hidden) {
        let source = whole_source(experiment);
        assert!(
            !source.contains("bench.time") || source.contains("bench.each"),
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
fn every_experiment_keeps_its_contract_at_every_site() {
    let others = fixtures::sites().into_iter().chain(fixtures::file_systems());
    let others: Vec<_> = others.map(|site| ("of the fixtures".to_owned(), site)).collect();
    for preset in PRESETS {
        let recorded = sites(preset).into_iter().flat_map(|(host, site)| {
            let joined = with_peer(site.clone());
            [(host.clone(), site), (format!("{host} with a peer"), joined)]
        });
        for (host, site) in recorded.chain(others.iter().cloned()) {
            for (_, experiment) in all() {
                if let Some(offer) = offer(experiment, &site, preset) {
                    println!("{host} in {}", preset.name());
                    check_offer(experiment, &site, &offer);
                }
            }
        }
    }
}

/// Each is planned for, its ranges are in order, or it is refused with its architecture.
#[test]
fn every_machine_has_a_plan_and_predictions_or_is_refused() {
    for (name, root) in trees() {
        println!("{name}");
        let checked = check_machine(FAMILIES, &root, Preset::Standard).map_err(|why| why.0);
        match host::Host::read(&root).cpu.other_arch {
            Some(arch) => assert!(checked.is_err_and(|why| why.contains(&arch)), "{name}"),
            None => assert!(matches!(checked, Ok(100..)), "{name}: {checked:?}"),
        }
    }
}

/// A prediction from figures takes the place of the one before the run: where no figure says more,
/// there is none.
#[test]
fn nothing_is_derived_from_no_figures() {
    let known = Known::default();
    for (host, site) in sites(Preset::Standard) {
        for (_, experiment) in all() {
            let series = offer(experiment, &site, Preset::Standard).map(|offer| offer.series);
            for case in series.iter().flatten().flat_map(|series| &series.cases) {
                for metric in experiment.card().metrics.iter().filter(|metric| !metric.derived) {
                    let derived = experiment.predict(&site, Some(&known), case, metric);
                    let about = format!("{host}: {} {}", experiment.card().id, case.id);
                    assert!(derived.is_none(), "{about} {}: {derived:?}", metric.name);
                }
            }
        }
    }
}

/// An experiment cannot be rehearsed on this machine.
fn skipped(card: &Card, why: &str) {
    let what = format!("{}: {why}", card.id);
    match card.needs {
        [Need::TwoCpus] => skips::part("one-cpu", what),
        [Need::Numa] => skips::part("one-node", what),
        _ => skips::part("kernel", what),
    }
}

/// What has files or two ends, or measures what the user names, is rehearsed by tests of its own.
#[test]
fn every_other_experiment_can_be_rehearsed_here() {
    let here = [("here".to_owned(), here())];
    let site = &here[0].1;
    let mut count = 0;
    for (_, experiment) in all().into_iter().filter(|(family, _)| !family.hidden) {
        let card = experiment.card();
        let is_own = card.needs.contains(&Need::Directory)
            || experiment.two_ended()
            || is_for_a_setting(experiment, &here, Preset::Rehearsal);
        if is_own {
            continue;
        }
        let params = Settings::default().params(card, Preset::Rehearsal);
        match lacks(card, site).map_or_else(|| experiment.series(site, &params), Err) {
            Err(skip) => skipped(card, &skip.reason),
            Ok(offer) if offer.series.is_empty() => skipped(card, &offer.skipped[0].1.reason),
            Ok(_) => {
                assert!(!smoke(experiment).is_empty(), "{}", card.id);
                count += 1;
            }
        }
    }
    assert!(count >= 16, "{count}");
}

#[test]
fn what_measures_files_is_skipped_without_a_directory_and_says_how_to_name_one() {
    let (_, mut site) = sites(Preset::Standard).remove(0);
    site.dir = None;
    for id in ["cache_size", "contention", "io", "metadata", "read", "sync"] {
        let experiment = find(&format!("fs.{id}")).unwrap();
        let params = Settings::default().params(experiment.card(), Preset::Standard);
        let skips = match (lacks(experiment.card(), &site), experiment.series(&site, &params)) {
            (Some(skip), _) | (None, Err(skip)) => vec![skip],
            (None, Ok(offer)) => {
                assert!(offer.series.is_empty(), "fs.{id} offers something");
                offer.skipped.into_iter().map(|(_, skip)| skip).collect()
            }
        };
        let names_it =
            |skip: &Skip| skip.needed.as_deref().is_some_and(|how| how.contains("--dir"));
        assert!(!skips.is_empty() && skips.iter().all(names_it), "fs.{id}: {skips:?}");
    }
}

#[test]
fn presets_keep_their_time_on_every_recorded_host() {
    for preset in [Preset::Quick, Preset::Standard, Preset::Thorough] {
        let budget = default_budget(preset);
        for (host, site) in sites(preset) {
            let planned = planned(&site, preset);
            let least: Duration =
                planned.work.iter().map(|work| work.whole(preset.looks()[0])).sum();
            // Of a thorough run's time a good third is one series that is measured one time only,
            // and as long as stated: cpu.sustained.
            let allowed = match preset {
                Preset::Thorough => budget * 19 / 20,
                // Half a second for each rate that a device or congestion control decides: a
                // quarter of it all.
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
fn a_filter_that_passes_nothing_is_told() {
    let sites = sites(Preset::Quick);
    let selection = Selection::parse(&["selftest.echo:messages=3".to_owned()], FAMILIES).unwrap();
    let settings = Settings::default();
    let (_, site) = &sites[0];
    let nothing =
        plan(FAMILIES, &selection, &settings, Preset::Quick, Duration::from_secs(9), site);
    assert!(nothing.is_err_and(|error| error.to_string().contains("messages")));
}
