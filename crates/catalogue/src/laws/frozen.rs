//! What is planned, predicted and derived on recorded hosts stays what it was, until a change means
//! it: `UPDATE_FROZEN=1 cargo test -p plumb-catalogue frozen` writes it anew, and
//! tests/frozen/README.md says what changed and why.
//!
//! A line has what it is about, then numbers. Sentences are not in it. Figures that predictions
//! rest on are invented: each key's likely prior, moved by [`MOVED`], so that a prediction from
//! figures is another than the one before the run.

mod records;

use crate::find;
use bench::experiment::{AnyExperiment, Known, Peer, Preset, Site};
use record::case::Case;
use record::event::{Prediction, Range};
use record::key::{FAR, Key, Value};
use record::metric::Metric;
use session::fixtures::recorded_sites;
use session::plan::Planned;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const PRESETS: [Preset; 3] = [Preset::Quick, Preset::Standard, Preset::Thorough];

/// Ranges and costs may move so far.
const WITHIN: f64 = 1e-3;

/// Invented figures are so far from their priors.
const MOVED: f64 = 1.1;

/// Differences that a failure shows.
const SHOWN: usize = 40;

/// Texts of lines (what they are about) with their numbers, by the presets that have them.
type Lines = BTreeMap<(String, Vec<u64>), String>;

struct Listing {
    preset: Preset,
    lines: Lines,
}

impl Listing {
    fn line(&mut self, about: &str, numbers: &[f64]) {
        let bits = numbers.iter().map(|number| number.to_bits()).collect();
        let presets = self.lines.entry((about.to_owned(), bits)).or_default();
        let initial = &self.preset.name()[..1];
        if !presets.ends_with(initial) {
            presets.push_str(initial);
        }
    }

    fn prediction(&mut self, kind: &str, about: &str, prediction: Option<&Prediction>) {
        let Some(prediction) = prediction else { return };
        match prediction.range {
            Some(Range { low, likely, high }) => {
                assert!(low <= likely && likely <= high, "{about}: {low} {likely} {high}");
                assert!(low.is_finite() && high.is_finite(), "{about}: {low} {high}");
                self.line(&format!("{kind}\t{about}"), &[low, likely, high]);
            }
            None => self.line(&format!("{kind} unknown\t{about}"), &[]),
        }
        if let Some(bound) = &prediction.bound {
            let about = format!("{kind} bound\t{about}\t{}", bound.constant);
            self.line(&about, &[bound.uncertainty]);
        }
    }
}

/// A far end beside loopback: the same machine once more.
pub(super) fn with_peer(site: Site) -> Site {
    let peer = Peer {
        name: "peer".to_owned(),
        address: std::net::Ipv4Addr::new(192, 0, 2, 1).into(),
        host: site.host.clone(),
        cpus: site.cpus.clone(),
        interface: None,
    };
    Site { peers: vec![peer], ..site }
}

/// A site and figures as cases see them: each far end has its own site.
struct Views<'site> {
    site: &'site Site,
    known: Option<&'site Known>,
    by_far_end: BTreeMap<Option<Value>, Site>,
}

impl<'site> Views<'site> {
    fn new(site: &'site Site, known: Option<&'site Known>) -> Self {
        Views { site, known, by_far_end: BTreeMap::new() }
    }

    fn site(&mut self, case: &Case) -> &Site {
        let toward = || self.site.toward(case.id.text(FAR).unwrap_or_default());
        self.by_far_end.entry(case.id.get(FAR).cloned()).or_insert_with(toward)
    }

    fn predict(
        &mut self,
        experiment: &dyn AnyExperiment,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let known = self.known;
        experiment.predict(self.site(case), known, case, metric)
    }
}

/// Every measured and derived case of a plan with its metrics.
pub(super) fn figures(
    planned: &Planned,
) -> Vec<(&'static dyn AnyExperiment, Case, &'static Metric)> {
    let measured = planned.work.iter().flat_map(|work| {
        let cases = work.series.cases.iter();
        cases.map(|case| (work.experiment, case.clone(), false))
    });
    let derived = planned.plan.experiments.iter().flat_map(|of| {
        let experiment = find(&of.id).expect("it is in the catalogue");
        let cases = of.derived.iter();
        cases.map(move |case| (experiment, Case::new(case.clone()), true))
    });
    measured
        .chain(derived)
        .flat_map(|(experiment, case, derived)| {
            let metrics = experiment.card().metrics.iter();
            metrics
                .filter(move |metric| metric.derived == derived)
                .map(move |metric| (experiment, case.clone(), metric))
        })
        .collect()
}

fn list(listing: &mut Listing, site: &Site) {
    let planned = super::planned(site, listing.preset);
    let mut known = Known::default();
    let about = |experiment: &dyn AnyExperiment, case: &Case, metric: &Metric| {
        let (id, case) = (experiment.card().id, &case.id);
        format!("{id}\t{case}\t{}\t{}", metric.name, metric.unit)
    };
    let mut views = Views::new(site, None);
    for (experiment, case, metric) in figures(&planned) {
        let prior = views.predict(experiment, &case, metric);
        listing.prediction("prior", &about(experiment, &case, metric), prior.as_ref());
        if let Some(range) = prior.and_then(|prior| prior.range) {
            let key = Key::new(experiment.card().id, &case.id, &metric.name);
            known.insert(key, MOVED * range.likely);
        }
    }
    let mut views = Views::new(site, Some(&known));
    for work in &planned.work {
        let label = work.series.label();
        let costs = [work.cost, work.preparation].map(|cost| cost.as_secs_f64());
        listing.line(&format!("series\t{label}\t{:?}", work.series.order), &costs);
        listing.line(&format!("stage\t{label}"), &[work.stage as f64]);
        for (name, value) in &work.series.settings {
            listing.line(&format!("setting\t{label}\t{name}\t{value}"), &[]);
        }
        let first = work.series.cases.first().expect("a series has cases");
        let at = views.site(first);
        // These ask for the rights of this process, which are no matter of the recorded host.
        let resolved = match work.experiment.card().id {
            "noise.wakeup" => Ok(work.series.clone()),
            _ => work.experiment.resolve(at, &known, work.series.clone()),
        };
        match resolved {
            Err(_) => listing.line(&format!("unresolved\t{label}"), &[]),
            Ok(series) => {
                for case in &series.cases {
                    for (name, value) in &case.at {
                        listing.line(&format!("fact\t{label}\t{}\t{name}\t{value}", case.id), &[]);
                    }
                    for metric in work.experiment.card().metrics.iter() {
                        if !metric.derived {
                            let from = views.predict(work.experiment, case, metric);
                            let about = about(work.experiment, case, metric);
                            listing.prediction("from figures", &about, from.as_ref());
                        }
                    }
                }
            }
        }
    }
    for of in &planned.plan.experiments {
        let experiment = find(&of.id).expect("it is in the catalogue");
        for value in experiment.derive(site, &known, &known) {
            let about = format!("derived\t{}\t{}\t{}", of.id, value.case, value.metric);
            listing.line(&about, &[value.value]);
        }
    }
    for (card, case, _) in &planned.skipped {
        let case = case.as_ref().map(ToString::to_string).unwrap_or_default();
        listing.line(&format!("skip\t{}\t{case}", card.id), &[]);
    }
}

/// Presets and the numbers that they have.
type Numbers = (String, Vec<f64>);

/// Lines by what they are about.
type ByAbout = BTreeMap<String, Vec<Numbers>>;

fn text(lines: &Lines) -> String {
    let line = |((about, bits), presets): (&(String, Vec<u64>), &String)| {
        let numbers = bits.iter().map(|bits| f64::from_bits(*bits));
        let numbers: String = numbers.map(|number| format!("\t{number:.5e}")).collect();
        format!("{about}\t|{presets}{numbers}\n")
    };
    lines.iter().map(line).collect()
}

fn by_about(text: &str) -> ByAbout {
    let mut all = ByAbout::new();
    for line in text.lines() {
        let (about, fields) = line.split_once("\t|").unwrap();
        let mut fields = fields.split('\t');
        let presets = fields.next().unwrap().to_owned();
        let numbers = fields.map(|number| number.parse().unwrap()).collect();
        all.entry(about.to_owned()).or_default().push((presets, numbers));
    }
    all
}

fn same(one: &[Numbers], other: &[Numbers]) -> bool {
    let near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= WITHIN * a.abs().max(b.abs());
    let alike = |((presets, numbers), (others, more)): (&Numbers, &Numbers)| {
        presets == others && numbers.len() == more.len() && numbers.iter().zip(more).all(near)
    };
    one.len() == other.len() && one.iter().zip(other).all(alike)
}

/// Differences from what was, a line each.
fn differences(was: &str, is: &str) -> Vec<String> {
    let (was, is) = (by_about(was), by_about(is));
    let none = Vec::new();
    let abouts: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    abouts
        .into_iter()
        .filter_map(|about| {
            let (before, after) = (was.get(about).unwrap_or(&none), is.get(about).unwrap_or(&none));
            (!same(before, after)).then(|| format!("{about}: {before:?} -> {after:?}"))
        })
        .collect()
}

fn file(name: &str) -> PathBuf {
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frozen");
    frozen.join(format!("{name}.txt.gz"))
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// What stands in a frozen file; nothing where there is none.
fn frozen(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    if !is_packed(path) {
        return String::from_utf8(bytes).unwrap();
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap_or_default();
    text
}

/// Whether frozen files are written anew.
fn updates() -> bool {
    std::env::var_os("UPDATE_FROZEN").is_some()
}

/// Holds a text against its frozen file, or writes it anew.
fn hold(path: &Path, is: &str) {
    if updates() {
        let mut bytes = is.as_bytes().to_vec();
        if is_packed(path) {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            writer.write_all(is.as_bytes()).unwrap();
            bytes = writer.finish().unwrap();
        }
        std::fs::write(path, bytes).unwrap();
    }
    let name = path.file_name().unwrap().display();
    let found = differences(&frozen(path), is);
    assert!(
        found.is_empty(),
        "{name}: {} lines are not what was frozen (UPDATE_FROZEN=1 cargo test -p plumb-catalogue frozen makes them \
         so, and tests/frozen/README.md says why):\n{}",
        found.len(),
        found[..found.len().min(SHOWN)].join("\n")
    );
}

#[test]
fn plans_and_predictions_of_recorded_hosts_are_frozen() {
    let mut hosts: BTreeMap<String, Lines> = BTreeMap::new();
    for preset in PRESETS {
        for (host, site) in recorded_sites(preset) {
            let lines = hosts.remove(&host).unwrap_or_default();
            let mut listing = Listing { preset, lines };
            list(&mut listing, &with_peer(site));
            hosts.insert(host, listing.lines);
        }
    }
    for (host, lines) in hosts {
        hold(&file(&host), &text(&lines));
    }
}

#[test]
fn a_line_that_moved_is_shown() {
    let was = "prior\ta\tns\t|qs\t1\t2\t3\nskip\tb\t|q\n";
    assert!(differences(was, "prior\ta\tns\t|qs\t1\t2.001\t3\nskip\tb\t|q\n").is_empty());
    assert_eq!(differences(was, "prior\ta\tns\t|qs\t1\t2.01\t3\nskip\tb\t|q\n").len(), 1);
    assert_eq!(differences(was, "prior\ta\tns\t|q\t1\t2\t3\nskip\tb\t|q\n").len(), 1);
    assert_eq!(differences(was, "prior\ta\tns\t|qs\t1\t2\t3\nskip\tc\t|q\n").len(), 2);
}
