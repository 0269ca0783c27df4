//! How well the laws predict the machines of `data/sheets` and the published ones (METHOD §5):
//! `scripts/score` prints it. Each machine is scored with coefficients that never saw its processor's
//! design, and with widths from the residuals of the others.

use super::fit::fit;
use super::judge::design;
use super::widths;
use super::{Datum, FILES, Sheet, sheets};
use crate::published::{AS_REPORTED, PREFIX, SHEETS, tests::site as reported_site};
use analysis::score::{Scored, Tally, is_measured_only, tally};
use bench::experiment::{AnyExperiment, DirFacts, Known, Preset, Site};
use bench::widths::{Widths, of_metric};
use catalogue::FAMILIES;
use host::Root;
use laws::cpu::core;
use record::case::Case;
use record::event::{Prediction, Range};
use record::key::{CaseId, FAR, Key};
use record::metric::Metric;
use record::order::{Gather, InOrder};
use record::quantity::render;
use session::site::Files;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, OnceLock};

/// Mean interval score of all priors: no change of a law may raise it.
const SCORE_MAX: f64 = 1.68;

const LISTED: usize = 8;
/// Length of the lists of metrics.
const METRICS: usize = 20;

/// With fewer machines, or machines of fewer core designs, residuals are published and nothing is
/// claimed (METHOD §5). A machine with fewer figures does not count.
const LEAST_MACHINES: usize = 8;
const LEAST_CORES: usize = 4;
const LEAST_FIGURES: usize = 30;

pub(super) struct Machine {
    pub(super) name: String,
    /// The design of its processor: machines of one design are left out together.
    pub(super) design: String,
    pub(super) site: Site,
    figures: Vec<Measured>,
    /// By experiment: the figures of all other experiments, from which its figures are predicted.
    seen: OnceLock<BTreeMap<&'static str, Known>>,
}

fn machine(name: String, site: Site, figures: Vec<Measured>) -> Machine {
    let design = design(&site.host);
    Machine { name, design, site, figures, seen: OnceLock::new() }
}

pub(super) struct Measured {
    pub(super) experiment: &'static dyn AnyExperiment,
    pub(super) metric: &'static Metric,
    pub(super) case: Case,
    pub(super) value: f64,
}

#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) machine: &'a Machine,
    pub(super) figure: &'a Measured,
    /// From earlier figures, and not from the description alone.
    pub(super) is_derived: bool,
    pub(super) range: Option<Range>,
    /// The law's other range, where it has two ([`Prediction::otherwise`]).
    otherwise: Option<Range>,
}

pub(super) fn machines() -> Vec<Machine> {
    let mut all: Vec<Machine> =
        sheets().iter().map(|(name, sheet)| of_sheet(name, sheet)).collect();
    for (name, sheet) in SHEETS.iter() {
        let scored = sheet.figures.iter().filter(|figure| figure.scored);
        let figures: Vec<Measured> = scored.map(of_report).collect();
        if !figures.is_empty() {
            all.push(machine(format!("{PREFIX}{name}"), reported_site(name), figures));
        }
    }
    all
}

/// A printed figure. A second reading of one is of the same case.
fn of_report(figure: &Datum) -> Measured {
    let (experiment, metric) = figure.metric().expect("reading has checked it");
    let others = figure.case.0.iter().filter(|(name, _)| name != AS_REPORTED);
    let case = Case::new(CaseId(others.cloned().collect()));
    Measured { experiment, metric, case, value: figure.value }
}

pub(super) fn of_sheet(name: &str, sheet: &Sheet) -> Machine {
    let figures = sheet.figures.iter().map(|figure| {
        let (experiment, metric) = figure.metric().expect("reading has checked it");
        let case = Case { id: figure.key().case, at: figure.at.clone() };
        Measured { experiment, metric, case, value: figure.printed() }
    });
    machine(name.to_owned(), site(sheet), figures.collect())
}

/// The machine as laws see it, with its files at `/`.
fn site(sheet: &Sheet) -> Site {
    let dir = sheet.host.block.mount_of(FILES).map(|mount| DirFacts {
        path: FILES.into(),
        file_system: mount.fs.clone(),
        allowance_bytes: 0,
        portions: Vec::new(),
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

    /// What the law says here, as wide as the law makes it, from the description or from figures
    /// that it sees; none where figures add nothing.
    fn predict<'a>(&'a self, machine: &'a Machine, seen: Option<&Known>) -> Option<Judged<'a>> {
        let site = machine.site.toward(self.case.id.text(FAR).unwrap_or_default());
        let found = self.experiment.unscaled(&site, seen, &self.case, self.metric)?;
        let Prediction { range, otherwise, .. } = found;
        Some(Judged { machine, figure: self, is_derived: seen.is_some(), range, otherwise })
    }
}

/// Priors of a machine's figures of some experiments; those that no law has an answer to are
/// unpredicted.
pub(super) fn priors(machine: &Machine, is_asked: fn(&str) -> bool) -> Vec<Judged<'_>> {
    let nothing =
        |figure| Judged { machine, figure, is_derived: false, range: None, otherwise: None };
    let all = machine.figures.iter().filter(|of| is_asked(of.experiment.card().id));
    all.map(|figure| figure.predict(machine, None).unwrap_or_else(|| nothing(figure))).collect()
}

/// The same from the figures of the other experiments, where these say anything.
pub(super) fn derived<'a>(machine: &'a Machine, is_asked: fn(&str) -> bool) -> Vec<Judged<'a>> {
    let seen = machine.seen.get_or_init(|| seen(&machine.figures));
    let judged =
        |figure: &'a Measured| figure.predict(machine, Some(&seen[figure.experiment.card().id]));
    let all = machine.figures.iter().filter(|of| is_asked(of.experiment.card().id));
    all.filter_map(judged).collect()
}

fn seen(figures: &[Measured]) -> BTreeMap<&'static str, Known> {
    let mut all = BTreeMap::new();
    for figure in figures {
        all.entry(figure.experiment.card().id).or_insert_with_key(|id| {
            let mut known = Known::default();
            let others = figures.iter().filter(|of| of.experiment.card().id != *id);
            others.for_each(|of| known.insert(of.key(), of.value));
            known
        });
    }
    all
}

/// Both, of all experiments that are predicted.
pub(super) fn predictions(machine: &Machine) -> Vec<Judged<'_>> {
    let is_predicted = |id: &str| !is_measured_only(id);
    [priors(machine, is_predicted), derived(machine, is_predicted)].concat()
}

impl<'a> Judged<'a> {
    pub(super) fn experiment(&self) -> &'static str {
        self.figure.experiment.card().id
    }

    /// Of the law's ranges the one that is nearer to the figure.
    pub(super) fn nearer(&self) -> Option<Range> {
        let off = |range: &Range| (self.figure.value / range.likely).ln().abs();
        self.range.into_iter().chain(self.otherwise).min_by(|a, b| off(a).total_cmp(&off(b)))
    }

    /// The same as wide as residuals of other machines make it.
    pub(super) fn as_wide_as(self, widths: &Widths) -> Judged<'a> {
        let (range, otherwise) = (self.range, self.otherwise);
        let raw = Prediction { otherwise, ..Prediction::new(range, String::new()) };
        let (site, id) = (&self.machine.site, self.experiment());
        let wide = widths.applied(site, id, self.figure.metric, self.is_derived, raw);
        Judged { range: wide.range, otherwise: None, ..self }
    }

    pub(super) fn scored(&self) -> Scored<'static> {
        Scored {
            family: self.experiment().split('.').next().unwrap_or_default(),
            unit: self.figure.metric.unit,
            value: self.figure.value,
            range: self.range,
            beside: None,
            is_impossible: false,
        }
    }
}

/// The machines, each with coefficients that never saw its design.
static APART: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    let mut all = machines();
    all.iter_mut().for_each(|machine| machine.site.fitted = fit(&machine.design));
    all
});

/// What these predict, as wide as the laws make it.
pub(super) static APART_PREDICTIONS: LazyLock<Vec<Judged<'static>>> =
    LazyLock::new(|| APART.iter().flat_map(predictions).collect());

/// The priors and the derived predictions of every machine, each as wide as the residuals of the
/// machines of other designs make it.
fn left_out() -> Vec<Judged<'static>> {
    let all = &*APART_PREDICTIONS;
    let designs: BTreeSet<&str> = all.iter().map(|of| of.machine.design.as_str()).gather();
    let without = |design: &&'static str| {
        let others = all.iter().filter(|of| of.machine.design != *design);
        (*design, widths::fit(&others.copied().collect::<Vec<_>>()))
    };
    let widths: BTreeMap<&str, Widths> = designs.iter().map(without).gather();
    all.iter().map(|of| of.as_wide_as(&widths[of.machine.design.as_str()])).collect()
}

pub(super) fn row(tally: &Tally) -> String {
    let share = |part: usize| 100.0 * tally.share(part).unwrap_or(0.0);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let Tally {
        figures, inside, in_range, unpredicted, median_width, bias, score, nothing, ..
    } = *tally;
    let narrower = tally.narrower().map_or_else(String::new, |times| format!("{times:.1}"));
    format!(
        "{figures} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {} | {narrower} |",
        share(in_range),
        share(unpredicted),
        share(inside),
        number(median_width),
        number(bias),
        number(score),
        number(nothing),
    )
}

fn print(title: &str, all: &[Judged<'_>]) -> Tally {
    println!("## {title}\n");
    println!(
        "| machine | family | figures | inside % | unpredicted % | inside and predicted % | median \
         width | bias | score | knowing nothing | times narrower |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut names: Vec<&str> = all.iter().map(|of| of.machine.name.as_str()).collect();
    names.dedup();
    for machine in names.into_iter().map(Some).chain([None]) {
        let of_machine = |of: &&Judged| machine.is_none_or(|name| of.machine.name == name);
        for family in FAMILIES.iter().map(|family| Some(family.name)).chain([None]) {
            let scored = all.iter().filter(of_machine).map(Judged::scored);
            let some: Vec<Scored> =
                scored.filter(|one| family.is_none_or(|name| one.family == name)).collect();
            if !some.is_empty() {
                let (machine, family) = (machine.unwrap_or("all"), family.unwrap_or("all"));
                println!("| {machine} | {family} | {}", row(&tally(&some)));
            }
        }
    }
    println!();
    tally(&all.iter().map(Judged::scored).collect::<Vec<_>>())
}

fn print_misses(all: &[Judged<'_>]) {
    println!("## Widest misses of the priors\n");
    println!("| machine | figure | measured | predicted | factor |\n|---|---|--:|--:|--:|");
    for some in all.chunk_by(|one, other| one.machine.name == other.machine.name) {
        let factor = |of: &Judged| of.scored().missed_by();
        let mut missed: Vec<&Judged> = some.iter().filter(|of| factor(of) > 1.0).collect();
        missed.order_by(|one, other| factor(other).total_cmp(&factor(one)));
        for of in missed.into_iter().take(LISTED) {
            let Some(range) = of.range else { continue };
            let shown = |value: f64| render(value, of.figure.metric.unit);
            let [value, low, high] = [of.figure.value, range.low, range.high].map(shown);
            let (key, name) = (of.figure.key(), &of.machine.name);
            println!("| {name} | {key} | {value} | {low} … {high} | {:.1} |", factor(of));
        }
    }
    println!();
}

/// Metrics with the most figures without a prediction or outside.
fn print_metrics(title: &str, all: &[Judged<'_>]) {
    println!("## Metrics that {title} miss\n");
    println!("| metric | figures | unpredicted | outside |\n|---|--:|--:|--:|");
    let mut metrics: BTreeMap<String, Vec<Scored>> = BTreeMap::new();
    for of in all {
        let name = of_metric(of.experiment(), &of.figure.metric.name);
        metrics.entry(name).or_default().push(of.scored());
    }
    let row = |(name, some): (String, Vec<Scored>)| {
        let Tally { figures, in_range, unpredicted, .. } = tally(&some);
        (unpredicted, figures - in_range, figures, name)
    };
    let mut rows: Vec<_> = metrics.into_iter().map(row).collect();
    rows.order_by_key(|(unpredicted, outside, ..)| std::cmp::Reverse(unpredicted + outside));
    for (unpredicted, outside, figures, name) in rows.into_iter().take(METRICS) {
        println!("| {name} | {figures} | {unpredicted} | {outside} |");
    }
    println!();
}

/// How many machines there are, and whether these are enough for a claim.
fn print_case(machines: &[Machine]) {
    let designs: BTreeSet<&str> = machines.iter().map(|one| one.design.as_str()).gather();
    let cores: BTreeSet<&str> = machines.iter().map(|one| core(&one.site).name()).gather();
    let known: Vec<&Machine> =
        machines.iter().filter(|one| one.figures.len() >= LEAST_FIGURES).collect();
    let known_cores: BTreeSet<&str> = known.iter().map(|one| core(&one.site).name()).gather();
    let is_enough = known.len() >= LEAST_MACHINES && known_cores.len() >= LEAST_CORES;
    let case = match is_enough {
        true => "enough to claim how predictions do on a machine that is not among them",
        false => "these are residuals, and nothing is claimed about other machines",
    };
    println!(
        "## {} machines, {} designs of processors, {} of cores ({})\n\n> A claim needs {LEAST_MACHINES} \
         machines of {LEAST_CORES} core designs with {LEAST_FIGURES} figures each, and {} have so \
         many: {case}. Each machine is scored with coefficients that never saw its design, as \
         wide as the others' residuals make it.\n",
        machines.len(),
        designs.len(),
        cores.len(),
        cores.into_iter().collect::<Vec<_>>().join(", "),
        known.len(),
    );
}

#[test]
fn the_laws_predict_the_recorded_machines_as_well_as_ever() {
    print_case(&APART);
    let (after, before): (Vec<Judged>, Vec<Judged>) =
        left_out().into_iter().partition(|of| of.is_derived);
    let all = print("Before measuring (priors), left out", &before);
    print("From earlier figures (derived), left out", &after);
    print_metrics("priors", &before);
    print_metrics("predictions from earlier figures", &after);
    print_misses(&before);
    let score = all.score.expect("there are figures");
    assert!(score <= SCORE_MAX, "the mean interval score is {score:.3}");
}

/// Published figures inside of the priors' ranges, as wide as the laws make them, of all that are
/// scored, and the median width of the ranges: no change of a law may lose any, or hold them by
/// growing. The laws were set on other machines, so this score is independent.
#[test]
fn the_laws_hold_as_many_published_figures_as_ever() {
    let all = machines();
    let reported = all.iter().filter(|machine| machine.name.starts_with(PREFIX));
    let priors: Vec<Judged> = reported.flat_map(|machine| priors(machine, |_| true)).collect();
    let held = |of: &&Judged| of.range.is_some_and(|range| range.holds(of.figure.value));
    let inside = priors.iter().filter(held).count();
    assert_eq!(priors.len(), 158);
    // 139 before the coefficients of single cases went, which say nothing of other machines.
    assert!(inside >= 135, "{inside} inside");
    // No report states how long its machine's card delays interrupts, how deeply its CPUs sleep,
    // what is between the ends, or which kernel it has.
    for (is_net, most) in [(false, 4.05), (true, 14.0)] {
        let some = priors.iter().filter(|of| of.experiment().starts_with("net.") == is_net);
        let width = tally(&some.map(Judged::scored).collect::<Vec<_>>()).median_width;
        assert!(width.is_some_and(|width| width <= most), "{width:?}");
    }
}
