//! What every experiment keeps, whatever it measures: one `check` for their tests, and the sites
//! on which it is asked.

use super::FAMILIES;
use crate::experiment::{Card, Experiment, Offer, Params, Preset, Site};
use crate::host::{Arch, Core};
use crate::predict::tests::bare_site;
use crate::session::params::Settings;
use record::case::Case;
use record::key::CaseId;
use record::metric::Metric;
use std::collections::BTreeSet;

/// Machines that tell nothing, that are virtual, and that are of the other architecture.
pub(crate) fn sites() -> Vec<Site> {
    let silent = bare_site();
    let mut guest = bare_site();
    guest.host.kernel.virtualisation.is_guest = Some(true);
    guest.host.cpu.cpuid_frequency.hypervisor_tsc_hz = Some(2_600_000_000);
    guest.host.cpu.microarchitecture.core = Core::GoldenCove;
    let mut bare = bare_site();
    bare.host.kernel.virtualisation.is_guest = Some(false);
    bare.host.cpu.model_name = Some("Intel(R) Core(TM) i7-3770K CPU @ 3.50GHz".to_owned());
    bare.host.cpu.microarchitecture.core = Core::IvyBridge;
    bare.host.kernel.release = Some("3.2.0-54-generic".to_owned());
    let mut arm = bare_site();
    arm.host.cpu.arch = Arch::Aarch64;
    arm.host.cpu.microarchitecture.core = Core::NeoverseN1;
    arm.host.kernel.release = Some("6.1.0-18-arm64".to_owned());
    vec![silent, guest, bare, arm]
}

/// The parameters of a card: its defaults for a preset, some of them replaced.
pub(crate) fn params(card: &'static Card, preset: Preset, set: &[(&str, &str)]) -> Params {
    let texts: Vec<String> = set
        .iter()
        .map(|(name, value)| format!("{}.{name}={value}", card.id))
        .collect();
    Settings::parse(&texts, FAMILIES)
        .unwrap()
        .params(card, preset)
}

/// Asserts what holds for every experiment at every site, and returns what it offers there.
pub(crate) fn check(experiment: &dyn Experiment, site: &Site, preset: Preset) -> Offer {
    let card = experiment.card();
    let offer = experiment
        .series(site, &params(card, preset, &[]))
        .unwrap_or_else(|skip| panic!("{}: {}", card.id, skip.reason));
    let mut seen = BTreeSet::new();
    for series in &offer.series {
        assert_eq!(series.experiment, card.id);
        assert!(!series.cases.is_empty(), "{}", series.label());
        assert!(!experiment.round_cost(site, series).is_zero());
        for case in &series.cases {
            assert!(
                seen.insert(case.id.clone()),
                "{}: {} twice",
                card.id,
                case.id
            );
            check_names(card, &case.id);
            for metric in card.metrics.iter().filter(|metric| !metric.derived) {
                check_prior(experiment, site, case, metric);
            }
        }
    }
    for id in &offer.derived {
        check_names(card, id);
        for metric in card.metrics.iter().filter(|metric| metric.derived) {
            check_prior(experiment, site, &Case::new(id.clone()), metric);
        }
    }
    for (id, skip) in &offer.skipped {
        assert!(
            !seen.contains(id) && !skip.reason.is_empty(),
            "{}: {id}",
            card.id
        );
    }
    offer
}

/// Parameters of a case are the card's, in the card's order.
fn check_names(card: &Card, id: &CaseId) {
    let places: Vec<_> =
        id.0.iter()
            .map(|(name, _)| card.params.iter().position(|param| param.name == name))
            .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{}: {id}",
        card.id
    );
}

fn check_prior(experiment: &dyn Experiment, site: &Site, case: &Case, metric: &Metric) {
    let prediction = experiment
        .predict(site, None, case, metric)
        .unwrap_or_else(|| {
            panic!(
                "{} {}: no prior of {}",
                experiment.card().id,
                case.id,
                metric.name
            )
        });
    assert!(!prediction.because.is_empty());
    if let Some(range) = prediction.range {
        let ordered = range.low <= range.likely && range.likely <= range.high;
        let finite = range.low.is_finite() && range.high.is_finite();
        assert!(
            ordered && finite,
            "{} {}: {range:?}",
            experiment.card().id,
            case.id
        );
    }
}
