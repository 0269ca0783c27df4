//! What every experiment keeps, whatever it measures: one `check` for their tests, and a rehearsal
//! of what one offers on this machine.

pub mod fuzz;

use crate::params::Settings;
use crate::plan::{case_ns, default_budget, lacks, plan};
use crate::select::Selection;
use crate::setup::Usage;
use crate::site::{Files, site};
use bench::experiment::fixtures::{RECORDED, bare_site, calibrated, on_a_thread, rehearsal};
use bench::experiment::{
    AnyExperiment, Card, DirFacts, Domain, Family, Known, Offer, Params, Preset, Role, Site, Skip,
    measure,
};
use bench::link::RoundOrder;
use bench::measure::{Bench, Written};
use host::{Host, Outside, Root};
use record::case::{Case, Series};
use record::event::{Calibration, Samples, Side};
use record::key::CaseId;
use record::metric::Metric;
use record::unit::Unit;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts")
}

/// Each of [`RECORDED`] with its name, as a session finds it.
pub fn recorded_sites(preset: Preset) -> Vec<(String, Site)> {
    let site = |name: &str| {
        let root =
            Root::recorded(&hosts().join(name)).expect("the recorded host is in the repository");
        (name.to_owned(), site_of(&root, preset).expect("a recorded host has CPUs"))
    };
    RECORDED.into_iter().map(site).collect()
}

/// Every host of tests/hosts with its name.
pub fn trees() -> impl Iterator<Item = (String, Root)> {
    let entries = std::fs::read_dir(hosts()).expect("the recorded hosts are in the repository");
    let dirs = entries.flatten().filter(|entry| entry.path().is_dir());
    dirs.map(|entry| {
        let root = Root::recorded(&entry.path()).expect("the tree is read");
        (entry.file_name().to_string_lossy().into_owned(), root)
    })
}

/// A machine as a session finds it. Errors: it cannot be used.
pub fn site_of(root: &Root, preset: Preset) -> Result<Site, Usage> {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let nowhere = site(Host::read(root), root, None, Files::Nowhere, preset, &stop)?;
    assert_eq!(nowhere.case_ns, case_ns(preset));
    // As on most machines: a default directory, on the root's device.
    let root_mount = nowhere.host.block.mount_of("/");
    let dir = DirFacts {
        path: "/".into(),
        file_system: root_mount.map_or_else(String::new, |mount| mount.fs.clone()),
        allowance_bytes: 2 << 30,
        portions: Vec::new(),
    };
    Ok(Site { dir: Some(dir), ..nowhere })
}

/// Asserts what holds for the plan and for every prediction of a preset on any machine, and returns
/// the number of cases. Errors: nothing can be measured there.
pub fn check_machine(
    families: &'static [&'static Family],
    root: &Root,
    preset: Preset,
) -> Result<usize, Usage> {
    let site = site_of(root, preset)?;
    let (selection, settings) = (Selection::default(), Settings::default());
    let budget = default_budget(preset);
    let planned = plan(families, &selection, &settings, preset, budget, &site)?;
    let eta_s = planned.plan.eta_s;
    // `plumb run` and `plumb plan` refuse more: the machine is misread.
    assert!(eta_s <= 10.0 * budget.as_secs_f64(), "a plan of {eta_s} s");
    let mut cases = 0;
    for experiment in families.iter().flat_map(|family| family.experiments) {
        let offer = experiment.series(&site, &settings.params(experiment.card(), preset));
        if let (None, Ok(offer)) = (lacks(experiment.card(), &site), offer) {
            check_offer(*experiment, &site, &offer);
            cases += offer.series.iter().map(|series| series.cases.len()).sum::<usize>();
        }
    }
    Ok(cases)
}

/// The parameters of a card: its defaults for a preset, some of them replaced.
pub fn params(card: &'static Card, preset: Preset, set: &[(&str, &str)]) -> Params {
    let settings = set.iter().fold(Settings::default(), |settings, (name, value)| {
        settings.with(card, name, value).expect("it fits the card")
    });
    settings.params(card, preset)
}

pub fn offered(
    experiment: &dyn AnyExperiment,
    site: &Site,
    preset: Preset,
    set: &[(&str, &str)],
) -> Offer {
    let offer = experiment.series(site, &params(experiment.card(), preset, set));
    offer.unwrap_or_else(|skip| panic!("{}: {}", experiment.card().id, skip.reason))
}

/// Why an experiment offers nothing at a site where some parameters are chosen.
pub fn refused(
    experiment: &dyn AnyExperiment,
    site: &Site,
    preset: Preset,
    set: &[(&str, &str)],
) -> Skip {
    let offer = experiment.series(site, &params(experiment.card(), preset, set));
    offer.expect_err("nothing is offered")
}

pub fn ids(offer: &Offer) -> Vec<String> {
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    cases.map(|case| case.id.to_string()).collect()
}

pub fn skipped(offer: &Offer) -> Vec<String> {
    offer.skipped.iter().map(|(id, _)| id.to_string()).collect()
}

/// Asserts what holds for every experiment at every site, and returns what it offers there.
pub fn check(experiment: &dyn AnyExperiment, site: &Site, preset: Preset) -> Offer {
    let offer = offered(experiment, site, preset, &[]);
    check_offer(experiment, site, &offer);
    offer
}

/// Asserts what holds for what every experiment offers at every site.
pub fn check_offer(experiment: &dyn AnyExperiment, site: &Site, offer: &Offer) {
    let card = experiment.card();
    let metrics = |derived| card.metrics.iter().filter(move |metric| metric.derived == derived);
    let (mut seen, mut labels) = (BTreeSet::new(), BTreeSet::new());
    assert!(
        !offer.series.is_empty() || !offer.skipped.is_empty(),
        "{} offers nothing and gives no reason",
        card.id
    );
    for series in &offer.series {
        assert_eq!(series.experiment, card.id);
        assert!(labels.insert(series.label()), "series {} twice", series.label());
        assert!(!series.cases.is_empty(), "{}", series.label());
        assert!(!experiment.round_cost(site, series).is_zero());
        for case in &series.cases {
            assert!(seen.insert(case.id.clone()), "{}: {} twice", card.id, case.id);
            check_names(card, &case.id);
            for metric in metrics(false) {
                check_prior(experiment, site, case, metric);
            }
        }
    }
    for id in experiment.derivable(site, &offer.series) {
        check_names(card, &id);
        // A derived case has some of the derived metrics, and each that it has is predicted.
        let case = Case::new(id.clone());
        let told =
            metrics(true).filter(|metric| experiment.predict(site, None, &case, metric).is_some());
        assert_ne!(told.map(|metric| check_prior(experiment, site, &case, metric)).count(), 0);
    }
    for (id, skip) in &offer.skipped {
        assert!(!seen.contains(id) && skip.reason.len() > 3, "{}: {id}", card.id);
    }
}

/// Parameters of a case are the card's, in the card's order, and its symbols are those of their
/// domains.
fn check_names(card: &Card, id: &CaseId) {
    let mut rest = card.params.iter().filter(|param| param.role == Role::Case);
    for (name, value) in &id.0 {
        let param = rest.find(|param| param.name == name);
        let param = param.unwrap_or_else(|| panic!("{}: {id}: {name} is out of order", card.id));
        if let Domain::Symbols(symbols) = param.domain {
            assert!(value.text().is_some_and(|text| symbols.contains(&text)), "{}: {id}", card.id);
        }
    }
}

/// Figures that are differences of two, and rates of what may never happen.
const ZERO_OR_LESS: [(&str, &str); 12] = [
    ("cpu.call", "slope"),
    ("fs.cache_size", "cache_growth"),
    // Of a machine that states no free memory.
    ("fs.cache_size", "machine_estimate"),
    ("fs.contention", "slope"),
    ("net.loaded", "queue"),
    ("net.ping", "tcp_over_ping"),
    ("net.ping", "udp_over_ping"),
    ("noise.activity", "gap_rate"),
    ("noise.activity", "gap_rate_1us"),
    ("noise.all", "gap_rate"),
    ("os.process", "reaped_per_page"),
    ("os.process", "return_per_page"),
];

fn check_prior(experiment: &dyn AnyExperiment, site: &Site, case: &Case, metric: &Metric) {
    let card = experiment.card();
    let about = format!("{} {} {}", card.id, case.id, metric.name);
    let prediction = experiment.predict(site, None, case, metric);
    let prediction = prediction.unwrap_or_else(|| panic!("{about}: no prior"));
    assert!(prediction.because.len() > 3, "{about}: because of what?");
    if let Some(range) = prediction.range {
        let ordered = range.low <= range.likely && range.likely <= range.high;
        let finite = range.low.is_finite() && range.high.is_finite();
        let may_be_zero = matches!(metric.unit, Unit::Ratio | Unit::Count);
        let least = match ZERO_OR_LESS.contains(&(card.id, &metric.name)) {
            true => f64::NEG_INFINITY,
            false if may_be_zero => 0.0,
            false => f64::MIN_POSITIVE,
        };
        let is_positive = range.low >= least;
        assert!(ordered && finite && is_positive, "{about}: {range:?}");
        let limit = case.id.int("limit").filter(|_| metric.name == "cached");
        let most = limit.map(|bytes| bytes as f64).or(experiment.is_share(metric).then_some(1.0));
        assert!(most.is_none_or(|most| range.high <= most), "{about}: {range:?}");
    }
    if let Some(bound) = prediction.bound {
        assert!(bound.constant.is_finite() && bound.uncertainty >= 0.0, "{about}: {bound:?}");
        let is_in_cycles = bound.inputs == [("core_hz".to_owned(), -1)];
        if let (Some(range), true, Side::AtLeast) = (prediction.range, is_in_cycles, bound.side) {
            // At 10 GHz, the fastest clock that `--set` takes. The fastest that a machine may state is
            // slower, but fitted widths reach beyond the law of the clock.
            let least = bound.constant / 1e10 / (1.0 + bound.uncertainty);
            assert!(range.low > least, "{about}: {range:?} below {bound:?}");
        }
    }
}

/// One rehearsal of everything that an experiment offers on this machine. Every measured metric
/// that has a prediction must get samples.
pub fn smoke(experiment: &dyn AnyExperiment) -> Vec<Samples> {
    smoke_set(experiment, &[])
}

/// As [`smoke`], with settings and parameters as `--set` has them.
pub fn smoke_set(experiment: &dyn AnyExperiment, set: &[(&str, &str)]) -> Vec<Samples> {
    on_a_thread(|| rehearse(experiment, set))
}

/// What a rehearsal in a directory gave.
pub struct Rehearsed {
    pub samples: Vec<Samples>,
    pub failed: Vec<(CaseId, String)>,
}

impl Rehearsed {
    pub fn samples_of(&self, case: &CaseId, metric: &str) -> Option<&Samples> {
        let mut all = self.samples.iter();
        all.find(|samples| samples.case == *case && samples.metric == metric)
    }
}

/// This machine, with two of its CPUs as far as it has them. What measures asks for no other: a
/// recorded machine has instructions, files and CPUs that this one lacks.
pub fn here() -> Site {
    let mut cpus = metal::place::allowed().expect("CPUs");
    cpus.truncate(2);
    Site { host: Host::read(&Root::live(Outside::live())), cpus, ..bare_site() }
}

/// This machine, with a directory for files.
pub fn here_with(dir: &Path) -> Site {
    Site {
        dir: Some(DirFacts {
            path: dir.canonicalize().expect("it is there"),
            file_system: String::new(),
            allowance_bytes: 1 << 34,
            portions: Vec::new(),
        }),
        ..here()
    }
}

/// Whether files below a directory are on a file system that does all that is asked for, and gives
/// up their pages on request.
pub fn is_plain(dir: &Path) -> bool {
    let dir = File::open(dir).expect("a directory");
    let facts = metal::storage::file_system(&dir).expect("statfs");
    matches!(facts.name(), Some("ext4" | "xfs"))
}

/// One rehearsal of what an experiment that has files offers at a site (of [`here_with`]): its
/// files are made, and every series is measured once.
pub fn rehearse_in(
    experiment: &dyn AnyExperiment,
    site: &Site,
    preset: Preset,
    set: &[(&str, &str)],
) -> Rehearsed {
    on_a_thread(|| {
        let dir = &site.dir.as_ref().expect("a directory").path;
        let calibration = calibrated(site.cpus[0]);
        let mut rehearsed = Rehearsed { samples: Vec::new(), failed: Vec::new() };
        for series in resolved(experiment, site, preset, set) {
            if experiment.is_prepared(&series) {
                let files = experiment
                    .prepare(&series, dir, &mut || ())
                    .unwrap_or_else(|error| panic!("{}: {error:#}", experiment.card().id));
                assert!(files.iter().all(|file| file.starts_with(dir)));
            }
            let (samples, _, _, done) = round(experiment, site, &calibration, &series);
            rehearsed.samples.extend(samples);
            let failed = done.failed.into_iter();
            rehearsed.failed.extend(failed.map(|failed| (failed.case, failed.reason)));
        }
        rehearsed
    })
}

fn rehearse(experiment: &dyn AnyExperiment, set: &[(&str, &str)]) -> Vec<Samples> {
    let site = here();
    let card = experiment.card();
    let calibration = calibrated(site.cpus[0]);
    let mut all = Vec::new();
    for series in resolved(experiment, &site, Preset::Rehearsal, set) {
        let (samples, ..) = round(experiment, &site, &calibration, &series);
        for case in &series.cases {
            for metric in card.metrics.iter().filter(|metric| !metric.derived) {
                let told = experiment
                    .predict(&site, None, case, metric)
                    .is_some_and(|prediction| prediction.range.is_some());
                let mut of = samples
                    .iter()
                    .filter(|samples| samples.case == case.id && samples.metric == metric.name);
                let values = of.next().map(|samples| samples.raw.samples());
                assert!(of.next().is_none(), "{} {}: twice", case.id, metric.name);
                let some = values.is_some_and(|values| !values.is_empty());
                if !experiment.may_lack(metric) {
                    // Noise is measured, not predicted.
                    let is_unpredicted = some && card.id.starts_with("noise.");
                    let (id, name) = (card.id, &metric.name);
                    assert!(some == told || is_unpredicted, "{id} {} {name}", case.id);
                }
            }
        }
        all.extend(samples);
    }
    all
}

fn resolved(
    experiment: &dyn AnyExperiment,
    site: &Site,
    preset: Preset,
    set: &[(&str, &str)],
) -> Vec<Series> {
    let card = experiment.card();
    let told = |skip: Skip| -> String { format!("{}: {}", card.id, skip.reason) };
    let offer = experiment.series(site, &params(card, preset, set)).map_err(told);
    let resolve = |series| experiment.resolve(site, &Known::default(), series).map_err(told);
    let all = offer.and_then(|offer| offer.series.into_iter().map(resolve).collect());
    all.unwrap_or_else(|told| panic!("{told}"))
}

fn round(
    experiment: &dyn AnyExperiment,
    site: &Site,
    calibration: &Calibration,
    series: &Series,
) -> Written {
    let dir = site.dir.as_ref().map(|dir| dir.path.clone());
    let order = rehearsal(series.clone(), site.cpus.clone(), calibration.clone());
    let order = RoundOrder { dir, ..order };
    let mut bench = Bench::new(order).expect("the CPU is allowed");
    measure(experiment, series, &mut bench)
        .unwrap_or_else(|error| panic!("{}: {error:#}", series.label()));
    bench.finish().expect("nothing is sent")
}
