//! How well the laws predict the machines of `data/sheets` and the published ones (METHOD §5):
//! `scripts/score` prints it.
//!
//! The interval score of a range is its width on a log scale, and twenty times the distance by which
//! a value misses it (2/α for ranges that hold nine values in ten): smaller is better, and neither
//! wide ranges nor bold ones pay. Beside it stands the score of knowing nothing of the
//! machine: of the whole range that figures of the family and unit have over all machines.

use super::fit::fit;
use super::{FILES, SHEETS, Sheet};
use crate::published::score::{asked_case, scored, site as published_site};
use bench::experiment::{AnyExperiment, DirFacts, Known, Preset, Site};
use catalogue::{FAMILIES, find};
use host::Root;
use record::case::Case;
use record::event::Range;
use record::key::{CaseId, FAR, Key, PLACEMENT, Value};
use record::metric::Metric;
use record::quantity::render;
use session::site::Files;
use stats::quantile::median;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;

/// Mean interval score of all priors, with coefficients that were fitted without the machine: no
/// change of a law may raise it.
const SCORE_MAX: f64 = 6.35;

/// 2/α of ranges that should hold nine values in ten.
const MISSED: f64 = 20.0;

/// Misses that are listed of each machine.
const LISTED: usize = 8;

pub(super) struct Machine {
    pub(super) name: String,
    pub(super) site: Site,
    figures: Vec<Measured>,
}

pub(super) struct Measured {
    pub(super) experiment: &'static dyn AnyExperiment,
    pub(super) metric: &'static Metric,
    pub(super) case: Case,
    pub(super) value: f64,
}

/// A figure with its prediction.
pub(super) struct Judged<'a> {
    machine: &'a str,
    pub(super) figure: &'a Measured,
    pub(super) range: Option<Range>,
}

/// Least and greatest figure of a family and a unit over all machines.
type Naive = BTreeMap<(&'static str, &'static str), (f64, f64)>;

pub(super) fn machines() -> Vec<Machine> {
    let mut all: Vec<Machine> = SHEETS.iter().map(|(name, text)| of_sheet(name, text)).collect();
    for (report, table) in scored() {
        let name = format!("published/{}", report.name);
        if all.last().is_none_or(|last| last.name != name) {
            all.push(Machine { name, site: published_site(report), figures: Vec::new() });
        }
        let experiment = find(&table.experiment).expect("it is in the catalogue");
        let mut metrics = experiment.card().metrics.iter();
        let metric = metrics.find(|metric| metric.name == table.metric);
        let metric = metric.expect("the card has the metric");
        let figures = &mut all.last_mut().expect("it is there").figures;
        figures.extend(table.rows.iter().map(|row| {
            let (case, value) = asked_case(report, table, row);
            Measured { experiment, metric, case, value }
        }));
    }
    all
}

fn of_sheet(name: &str, text: &str) -> Machine {
    let sheet = Sheet::read(text).unwrap_or_else(|why| panic!("{name}: {why}"));
    let figures = sheet.figures.iter().map(|figure| {
        let (experiment, metric) = figure.metric().expect("reading has checked it");
        let case = Case { id: figure.key().case, at: figure.at.clone() };
        Measured { experiment, metric, case, value: figure.printed() }
    });
    let name = name.to_owned();
    Machine { name, figures: figures.collect(), site: site(&sheet) }
}

/// The machine as laws see it, with its files at `/`.
fn site(sheet: &Sheet) -> Site {
    let dir = sheet.host.block.mount_of(FILES).map(|mount| DirFacts {
        path: FILES.into(),
        file_system: mount.fs.clone(),
        allowance_bytes: 0,
        shares: 0,
    });
    let (host, stop) = (sheet.host.clone(), AtomicBool::new(false));
    let bare =
        session::site::site(host, &Root::tree(""), None, Files::Nowhere, Preset::Standard, &stop);
    Site { cpus: sheet.cpus.clone(), dir, ..bare.expect("no CPU or directory was named") }
}

impl Measured {
    fn key(&self) -> Key {
        Key::new(self.experiment.card().id, &self.case.id, &self.metric.name)
    }

    fn family(&self) -> &'static str {
        self.experiment.card().id.split('.').next().expect("an id has a family")
    }

    fn group(&self) -> (&'static str, &'static str) {
        (self.family(), self.metric.unit.text())
    }

    /// What the law says here, from the description or from figures that it sees; none where
    /// figures add nothing.
    fn predict(&self, machine: &Machine, seen: Option<&Known>) -> Option<Option<Range>> {
        let site = machine.site.toward(self.case.id.text(FAR).unwrap_or_default());
        let site = site.placed(&self.case).unwrap_or(site);
        let case = Case { id: self.case.id.unplaced(), at: self.case.at.clone() };
        let found = self.experiment.predict(&site, seen, &case, self.metric)?;
        Some(found.range)
    }
}

/// Priors of a machine's figures; those that no law has an answer to are unpredicted.
pub(super) fn priors(machine: &Machine) -> Vec<Judged<'_>> {
    let judged = |figure| Judged {
        machine: &machine.name,
        figure,
        range: figure.predict(machine, None).flatten(),
    };
    machine.figures.iter().map(judged).collect()
}

/// Predictions from the figures of the other experiments, where these say anything.
pub(super) fn derived(machine: &Machine) -> Vec<Judged<'_>> {
    let mut seen: BTreeMap<(&str, Option<&Value>), Known> = BTreeMap::new();
    let mut all = Vec::new();
    for figure in &machine.figures {
        let (id, place) = (figure.experiment.card().id, figure.case.id.get(PLACEMENT));
        let seen = seen.entry((id, place)).or_insert_with(|| {
            let mut known = Known::default();
            let others = machine.figures.iter().filter(|of| of.experiment.card().id != id);
            others.for_each(|of| known.insert(of.key(), of.value));
            known.seen_from(place)
        });
        if let Some(range) = figure.predict(machine, Some(seen)) {
            all.push(Judged { machine: &machine.name, figure, range });
        }
    }
    all
}

fn naive(machines: &[Machine]) -> Naive {
    let mut all = Naive::new();
    for figure in machines.iter().flat_map(|machine| &machine.figures).filter(|of| of.value > 0.0) {
        let (least, most) = all.entry(figure.group()).or_insert((figure.value, figure.value));
        (*least, *most) = (least.min(figure.value), most.max(figure.value));
    }
    all
}

impl Judged<'_> {
    fn is_inside(&self) -> bool {
        self.range.is_some_and(|range| (range.low..=range.high).contains(&self.figure.value))
    }

    /// The range, where it says something.
    fn predicted(&self) -> Option<Range> {
        self.range.filter(|range| range.predicts(self.figure.metric.unit))
    }

    /// The factor by which the value misses the range; 1 inside.
    fn missed_by(&self) -> f64 {
        let value = self.figure.value;
        let factor = |range: Range| (value / range.high).max(range.low / value).max(1.0);
        self.range.filter(|_| value > 0.0).map_or(1.0, factor)
    }

    /// Interval scores of the law and of knowing nothing; none of values and ranges that a log scale
    /// lacks. What is not predicted scores as knowing nothing.
    fn scores(&self, naive: &Naive) -> Option<(f64, f64)> {
        let (least, most) = naive.get(&self.figure.group()).filter(|_| self.figure.value > 0.0)?;
        let nothing = (most / least).ln();
        let of = |range: Range| (range.high / range.low).ln() + MISSED * self.missed_by().ln();
        let score = self.predicted().map_or(nothing, of);
        score.is_finite().then_some((score, nothing))
    }
}

/// What some predictions came to.
#[derive(Clone, Copy)]
struct Tally {
    figures: usize,
    inside: usize,
    predicted: usize,
    predicted_inside: usize,
    width: Option<f64>,
    bias: Option<f64>,
    score: f64,
    nothing: f64,
}

fn tally<'a>(all: impl Iterator<Item = &'a Judged<'a>> + Clone, naive: &Naive) -> Tally {
    let ranges = all.clone().filter_map(|of| Some((of.figure.value, of.range?)));
    let widths: Vec<f64> = ranges
        .clone()
        .filter(|(_, range)| range.low > 0.0)
        .map(|(_, range)| range.high / range.low)
        .collect();
    let ratios: Vec<f64> = ranges
        .filter(|(value, range)| *value > 0.0 && range.likely > 0.0)
        .map(|(value, range)| value / range.likely)
        .collect();
    let scores: Vec<(f64, f64)> = all.clone().filter_map(|of| of.scores(naive)).collect();
    let mean = |sum: f64| sum / scores.len() as f64;
    Tally {
        figures: all.clone().count(),
        inside: all.clone().filter(|of| of.is_inside()).count(),
        predicted: all.clone().filter(|of| of.predicted().is_some()).count(),
        predicted_inside: all.filter(|of| of.predicted().is_some() && of.is_inside()).count(),
        width: median(&widths),
        bias: median(&ratios),
        score: mean(scores.iter().map(|(ours, _)| ours).sum()),
        nothing: mean(scores.iter().map(|(_, nothing)| nothing).sum()),
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: usize| format!("{:.1}", 100.0 * part as f64 / self.figures as f64);
        let number =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
        let Tally { figures, inside, predicted, predicted_inside, width, bias, score, nothing } =
            *self;
        write!(
            out,
            "{figures} | {} | {} | {} | {} | {} | {score:.2} | {nothing:.2} | {:.1} |",
            share(inside),
            share(figures - predicted),
            share(predicted_inside),
            number(width),
            number(bias),
            nothing / score
        )
    }
}

fn print(title: &str, all: &[Judged<'_>], naive: &Naive) -> Tally {
    println!("## {title}\n");
    println!(
        "| machine | family | figures | inside % | unpredicted % | inside and predicted % | median \
         width | bias | score | knowing nothing | times narrower |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut names: Vec<&str> = all.iter().map(|of| of.machine).collect();
    names.dedup();
    let machines = names.into_iter().map(Some).chain([None]);
    for machine in machines {
        let of_machine = |of: &&Judged<'_>| machine.is_none_or(|name| of.machine == name);
        for family in FAMILIES.iter().map(|family| Some(family.name)).chain([None]) {
            let of_family = |of: &&Judged<'_>| family.is_none_or(|name| of.figure.family() == name);
            let some: Vec<&Judged<'_>> = all.iter().filter(of_machine).filter(of_family).collect();
            if !some.is_empty() {
                let tally = tally(some.iter().copied(), naive);
                let (machine, family) = (machine.unwrap_or("all"), family.unwrap_or("all"));
                println!("| {machine} | {family} | {tally}");
            }
        }
    }
    println!();
    tally(all.iter(), naive)
}

/// The widest misses of each machine.
fn print_misses(all: &[Judged<'_>]) {
    println!("## Widest misses of the priors\n");
    println!("| machine | figure | measured | predicted | factor |\n|---|---|--:|--:|--:|");
    for some in all.chunk_by(|one, other| one.machine == other.machine) {
        let mut missed: Vec<_> = some.iter().filter(|of| of.missed_by() > 1.0).collect();
        missed.sort_by(|one, other| other.missed_by().total_cmp(&one.missed_by()));
        for of in missed.iter().take(LISTED) {
            let Some(range) = of.range else { continue };
            let shown = |value: f64| render(value, of.figure.metric.unit);
            let [value, low, high] = [of.figure.value, range.low, range.high].map(shown);
            let (key, factor) = (of.figure.key(), of.missed_by());
            println!("| {} | {key} | {value} | {low} … {high} | {factor:.1} |", of.machine);
        }
    }
    println!();
}

#[test]
fn the_laws_predict_the_recorded_machines_as_well_as_ever() {
    let mut machines = machines();
    for machine in &mut machines {
        machine.site.fitted = fit(&[&machine.name]);
    }
    let naive = naive(&machines);
    let before: Vec<Judged<'_>> = machines.iter().flat_map(priors).collect();
    let after: Vec<Judged<'_>> = machines.iter().flat_map(derived).collect();
    let all = print("Before measuring (priors)", &before, &naive);
    print("From earlier figures (derived)", &after, &naive);
    print_misses(&before);
    assert!(all.score <= SCORE_MAX, "the mean interval score is {:.3}", all.score);
}

#[test]
fn the_score_is_worse_for_wide_ranges_and_for_misses() {
    let experiment = find("os.syscall").expect("in the catalogue");
    let metric = experiment.card().metrics.iter().find(|metric| !metric.derived);
    let figure = Measured {
        experiment,
        metric: metric.expect("it measures something"),
        case: Case::new(CaseId::new()),
        value: 100.0,
    };
    let naive = Naive::from([(figure.group(), (1.0, 1e6))]);
    let judged = |range: Option<(f64, f64)>| {
        let range = range.map(|(low, high)| Range { low, likely: (low * high).sqrt(), high });
        Judged { machine: "", figure: &figure, range }
    };
    let score = |range| judged(range).scores(&naive).expect("a value above zero").0;
    let nothing = 1e6_f64.ln();
    assert!((score(Some((50.0, 200.0))) - 4.0_f64.ln()).abs() < 1e-9);
    assert!((score(Some((110.0, 220.0))) - 2.0_f64.ln() - 20.0 * 1.1_f64.ln()).abs() < 1e-9);
    // Too wide, a time from zero on, and without a range: nothing is said.
    for range in [Some((10.0, 101.0)), Some((0.0, 200.0)), None] {
        assert!((score(range) - nothing).abs() < 1e-9, "{range:?}");
    }
    let all = [judged(Some((50.0, 200.0))), judged(Some((10.0, 1e3))), judged(None)];
    let tally = tally(all.iter(), &naive);
    assert_eq!(
        (tally.figures, tally.inside, tally.predicted, tally.predicted_inside),
        (3, 2, 1, 1)
    );
    assert_eq!(tally.bias, Some(1.0));
}
