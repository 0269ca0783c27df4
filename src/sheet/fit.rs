//! Fits the coefficients of the laws (`bench::fitted`) to the recorded machines: `scripts/fit`
//! writes the table.
//!
//! Least squares on logarithms of measured over likely. Each figure is explained by the terms of its
//! law, as far as these move it, and by a coefficient of its group, which is pooled: a metric's is
//! a deviation from its experiment's, that from its family's, that from the one of all, and that of
//! cases with the same symbols is one from its metric's; and each deviation is drawn to zero (ridge).
//! The deviation of a design of processor in each group is found and not kept, so that it counts once
//! there, however many figures and machines it has. No coefficient rests on fewer than three designs.
//! Priors and derived predictions have separate coefficients.
//!
//! The laws are linear in the logarithms of their terms only near a point, which is the committed
//! table; the script repeats the fit until that does not move. A fit that leaves machines out solves
//! the same equations without their figures.

use super::score::{Judged, Machine, derived, machines, priors};
use bench::fitted::{Fitted, TABLE, levels, power};
use bench::widths::of_kernel;
use laws::device;
use laws::os::work::{
    ALIASED_SAFE_RETURNS, ENTRY, GUEST_WAKE, GUEST_WORK, INSTRUCTIONS, NESTED, SAFE_RETURNS,
};
use record::key::CaseId;
use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Terms of laws that have a coefficient, each with how far from 1 it may be, as a share of how far
/// a group's may. Machines differ in more than in the terms of the kernel's work, and they are few:
/// what they differ in must not pass for these terms. Each has a rule and a source of its own.
const TERMS: [(&str, f64); 10] = [
    (INSTRUCTIONS, FIRM),
    (GUEST_WORK, FIRM),
    (ENTRY, FIRM),
    (SAFE_RETURNS, FIRM),
    (ALIASED_SAFE_RETURNS, FIRM),
    (GUEST_WAKE, FIRM),
    (NESTED, 1.0),
    (device::UNKNOWN.name, 1.0),
    (device::FLASH.name, 1.0),
    (device::FLASH_NVME.name, 1.0),
];

/// How far from 1 the terms of the kernel's work may be.
const FIRM: f64 = 0.1;

/// How far the deviations of groups may be from 0, as a share of how far a machine's may: one for each
/// of the [`levels`] of a figure. That of all figures is as free as those of families.
fn free(is_prior: bool) -> [f64; 5] {
    // What is predicted from earlier figures has shed most of what machines differ in: what is left
    // is the law's.
    if is_prior { [0.7; 5] } else { [1.5, 1.5, 3.0, 3.0, 3.0] }
}

/// Designs of processors that a coefficient rests on at least.
const DESIGNS: usize = 3;

/// A figure further off than this factor counts as if it were that far off.
const FARTHEST: f64 = 6.0;
/// Change of a term's logarithm by which its effect on a figure is found.
const STEP: f64 = 0.3;
/// Coefficients this near to that of the level above are not written.
const ALIKE: f64 = 0.1;
/// Square of what the equations may be off by, as a share of their right sides'.
const EXACT: f64 = 1e-12;
/// Difference of a logarithm that is the same coefficient, on another machine's arithmetic.
const SAME: f64 = 0.02;

fn are_same(one: &Fitted, other: &Fitted) -> bool {
    let is_same = |(name, of): (&String, &f64)| (of / other.coefficient(name)).ln().abs() < SAME;
    one.0.keys().eq(other.0.keys()) && one.0.iter().all(is_same)
}

/// What is fitted: clocks, the kernel's work, and devices. Other laws have tables of their own.
const FITTED: [&str; 5] = ["clock", "os", "net", "fs", "memory.fault"];

struct Observation {
    design: String,
    /// Its experiment, of the kernel's work on Arm apart.
    experiment: String,
    metric: String,
    case: CaseId,
    is_prior: bool,
    /// Logarithm of measured over likely, of rates with the other sign, at the point.
    here: f64,
    /// What the logarithm of each term adds to that of the likely value.
    slopes: Terms,
}

/// A figure that is fitted, with the logarithms of what was measured and of the likely value; of
/// rates with the other sign.
struct Judgement {
    experiment: &'static str,
    metric: String,
    case: CaseId,
    measured: f64,
    likely: f64,
}

fn judge(of: &Judged<'_>) -> Option<Judgement> {
    let (experiment, metric) = (of.figure.experiment.card().id, of.figure.metric);
    let range = of.nearer().filter(|range| range.low > 0.0)?;
    let power = f64::from(power(metric, range));
    (power != 0.0 && of.figure.value > 0.0).then(|| Judgement {
        experiment,
        metric: metric.name.to_string(),
        case: of.figure.case.id.clone(),
        measured: power * of.figure.value.ln(),
        likely: power * range.likely.ln(),
    })
}

fn is_fitted(name: &str) -> bool {
    let name = name.rsplit('-').next().unwrap_or(name);
    FITTED.iter().any(|start| name.starts_with(start))
}

type Terms = [f64; TERMS.len()];

/// The machine's figures under such terms.
fn judged(machine: &mut Machine, terms: &Terms, is_prior: bool) -> Vec<Option<Judgement>> {
    let named = TERMS.iter().zip(terms).map(|((name, _), log)| ((*name).to_owned(), log.exp()));
    machine.site.fitted = Box::leak(Box::new(Fitted(named.collect())));
    let all = if is_prior { priors } else { derived }(machine, is_fitted);
    all.iter().map(judge).collect()
}

/// A machine's figures, with the effect of each term near a point.
fn observe(mut machine: Machine, point: &Terms) -> Vec<Observation> {
    let mut all = Vec::new();
    for is_prior in [true, false] {
        let mut at = |terms: &Terms| judged(&mut machine, terms, is_prior);
        let here = at(point);
        let moved: [Vec<Option<Judgement>>; TERMS.len()] = std::array::from_fn(|term| {
            let mut moved = *point;
            moved[term] += STEP;
            at(&moved)
        });
        for (nth, here) in here.into_iter().enumerate() {
            let Some(here) = here else { continue };
            let slope = |term: usize| {
                let moved: Option<&Judgement> = moved[term].get(nth)?.as_ref();
                Some((moved?.likely - here.likely) / STEP)
            };
            all.push(Observation {
                design: machine.design.clone(),
                is_prior,
                here: here.measured - here.likely,
                slopes: std::array::from_fn(|term| slope(term).unwrap_or(0.0)),
                experiment: of_kernel(&machine.site, here.experiment),
                metric: here.metric,
                case: here.case,
            });
        }
    }
    all
}

/// What each value gives, found side by side, in their order.
fn beside<T: Send, R: Send>(all: Vec<T>, one: impl Fn(T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let one = &one;
        let all: Vec<_> = all.into_iter().map(|of| scope.spawn(move || one(of))).collect();
        all.into_iter().map(|of| of.join().expect("it has not panicked")).collect()
    })
}

/// The observations in which an unknown stands, each with its factor.
type Column = Vec<(usize, f64)>;

/// Unknowns by name, each drawn to zero.
#[derive(Default)]
struct Unknowns {
    names: BTreeMap<String, usize>,
    columns: Vec<Column>,
}

impl Unknowns {
    fn add(&mut self, name: String, observation: usize, factor: f64) {
        let next = self.columns.len();
        let at = *self.names.entry(name).or_insert(next);
        if at == next {
            self.columns.push(Column::new());
        }
        self.columns[at].push((observation, factor));
    }

    /// Their values: the least squares of what they leave of the observations and of the values
    /// themselves (deviations and single figures scatter alike, by a factor of about 1.35 each),
    /// by conjugate gradients on the normal equations, whose diagonal is scaled to 1.
    fn solved(&self, observed: &[f64]) -> Vec<f64> {
        let scale =
            |column: &Column| (1.0 + column.iter().map(|(_, by)| by * by).sum::<f64>()).powf(-0.5);
        let scales: Vec<f64> = self.columns.iter().map(scale).collect();
        let project = |left: &[f64]| -> Vec<f64> {
            let sum = |column: &Column| column.iter().map(|(of, by)| by * left[*of]).sum::<f64>();
            self.columns.iter().zip(&scales).map(|(column, scale)| scale * sum(column)).collect()
        };
        let image = |way: &[f64]| -> Vec<f64> {
            let (mut moved, scaled) = (vec![0.0; observed.len()], product(way, &scales));
            for (column, value) in self.columns.iter().zip(&scaled) {
                column.iter().for_each(|(of, by)| moved[*of] += by * value);
            }
            let own = product(&scaled, &scales);
            project(&moved).into_iter().zip(own).map(|(moved, own)| moved + own).collect()
        };
        let mut values = vec![0.0; self.columns.len()];
        let mut left = project(observed);
        let (mut way, mut rest) = (left.clone(), square(&left));
        let enough = EXACT * rest;
        while rest > enough {
            let image = image(&way);
            let step = rest / product(&way, &image).iter().sum::<f64>();
            values.iter_mut().zip(&way).for_each(|(value, way)| *value += step * way);
            left.iter_mut().zip(&image).for_each(|(left, image)| *left -= step * image);
            let before = std::mem::replace(&mut rest, square(&left));
            way.iter_mut().zip(&left).for_each(|(way, left)| *way = left + rest / before * *way);
        }
        product(&values, &scales)
    }
}

fn product(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one * other).collect()
}

fn square(of: &[f64]) -> f64 {
    of.iter().map(|of| of * of).sum()
}

impl Observation {
    /// The terms that move it, each with how far from 1 it may be and how much it moves the figure.
    fn terms(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let slopes = TERMS.iter().zip(&self.slopes).filter(|(_, slope)| **slope != 0.0);
        slopes.map(|((term, share), slope)| (*term, *share, *slope))
    }

    fn levels(&self) -> [String; 5] {
        levels(&self.experiment, &self.case, &self.metric, self.is_prior)
    }
}

/// The coefficients that rest on enough designs.
fn supported(observed: &[&Observation]) -> BTreeSet<String> {
    let mut designs: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for of in observed {
        let terms = of.terms().map(|(term, ..)| term.to_owned());
        for name in of.levels().into_iter().chain(terms) {
            designs.entry(name).or_default().insert(&of.design);
        }
    }
    let enough = designs.into_iter().filter(|(_, designs)| designs.len() >= DESIGNS);
    enough.map(|(name, _)| name).gather()
}

/// The coefficients that some figures give, which were observed at a point.
fn solve(point: &Terms, observed: &[&Observation]) -> BTreeMap<String, f64> {
    let supported = supported(observed);
    let (mut unknowns, mut values) = (Unknowns::default(), Vec::new());
    for (nth, of) in observed.iter().enumerate() {
        let Observation { design, is_prior, slopes, here, .. } = of;
        // The terms' deviations are from 1, not from the point.
        let moved: f64 = slopes.iter().zip(point).map(|(slope, at)| slope * at).sum();
        let most = FARTHEST.ln();
        values.push(here.clamp(-most, most) + moved);
        let (levels, free) = (of.levels(), free(*is_prior));
        let [.., metric, experiment, family] = &levels;
        for group in ["", family, experiment, metric] {
            unknowns.add(format!("{design} {is_prior} {group}"), nth, 1.0);
        }
        unknowns.add(format!("all {is_prior}"), nth, free[4]);
        let free = levels.into_iter().zip(free);
        for (level, free) in free.filter(|(level, _)| supported.contains(level)) {
            unknowns.add(level, nth, free);
        }
        for (term, share, slope) in of.terms().filter(|(term, ..)| supported.contains(*term)) {
            unknowns.add(term.to_owned(), nth, share * slope);
        }
    }
    let found = unknowns.solved(&values);
    unknowns.names.iter().map(|(name, at)| (name.clone(), found[*at])).gather()
}

/// The figures near a point.
struct Seen {
    point: Terms,
    observed: Vec<Observation>,
}

impl Seen {
    fn near(fitted: &Fitted) -> Seen {
        let point = TERMS.map(|(term, _)| fitted.coefficient(term).ln());
        let observed = beside(machines(), |machine| observe(machine, &point));
        Seen { point, observed: observed.into_iter().flatten().collect() }
    }

    fn fit(&self, excluding: Option<&str>) -> Fitted {
        let kept = self.observed.iter().filter(|of| Some(&*of.design) != excluding);
        let kept: Vec<&Observation> = kept.collect();
        let found = solve(&self.point, &kept);
        let of = |name: &str| found.get(name).copied().unwrap_or(0.0);
        let mut all: BTreeMap<String, f64> = TERMS
            .iter()
            .filter(|(term, _)| found.contains_key(*term))
            .map(|(term, share)| ((*term).to_owned(), (share * of(term)).exp()))
            .gather();
        for observation in kept {
            let Observation { is_prior, .. } = observation;
            let free = free(*is_prior);
            let (mut log, mut above) = (free[4] * of(&format!("all {is_prior}")), 0.0);
            for (level, free) in observation.levels().into_iter().zip(free).rev() {
                log += free * of(&level);
                let name = level.split_once(' ').map_or("", |(_, name)| name);
                let is_known = found.contains_key(&level) && is_fitted(name);
                if is_known && (log - above).abs() > ALIKE {
                    all.insert(level, log.exp());
                    above = log;
                }
            }
        }
        Fitted(all)
    }
}

/// Whether `scripts/fit` asks for new tables.
pub(super) fn is_updated() -> bool {
    std::env::var_os("UPDATE_FITTED").is_some()
}

/// The coefficients of the table, and the figures near them.
static SEEN: LazyLock<(Fitted, Seen)> = LazyLock::new(|| {
    let mut fitted = Fitted::read(TABLE);
    loop {
        let seen = Seen::near(&fitted);
        let found = seen.fit(None);
        if !is_updated() || are_same(&found, &fitted) {
            return (fitted, seen);
        }
        let text = table(&seen, &found);
        fitted = Fitted::read(&text);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/bench/src/fitted.csv");
        std::fs::write(path, text).expect("the repository can be written");
    }
});

/// Fits without the figures of a design of processor, by design.
static FITS: LazyLock<BTreeMap<&str, Fitted>> = LazyLock::new(|| {
    let designs: BTreeSet<&str> = SEEN.1.observed.iter().map(|of| &*of.design).gather();
    let fits = beside(designs.into_iter().collect(), |design| (design, SEEN.1.fit(Some(design))));
    fits.into_iter().gather()
});

/// The coefficients without the figures of a design of processor.
pub(super) fn fit(design: &str) -> &'static Fitted {
    FITS.get(design).unwrap_or(&SEEN.0)
}

/// A line for each coefficient, with the figures that it moves: how many, of how many designs, the
/// median of measured over likely without any coefficient and with all, and the standard deviation
/// of that (as a factor).
fn table(seen: &Seen, fitted: &Fitted) -> String {
    let mut text = "name,coefficient,designs,figures,before,after,spread\n".to_owned();
    let Seen { point, observed } = seen;
    for (name, coefficient) in &fitted.0 {
        let mut designs: BTreeSet<&str> = BTreeSet::new();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for of in observed {
            let term = TERMS.iter().position(|(term, _)| term == name);
            let is_moved = match term {
                Some(term) => of.slopes[term].abs() > 0.1,
                None => of.levels().contains(name),
            };
            if is_moved {
                let terms = TERMS.iter().zip(point).zip(&of.slopes);
                let moved: f64 = terms
                    .map(|(((term, _), at), slope)| slope * (fitted.coefficient(term).ln() - at))
                    .sum();
                let own = fitted.group(&of.experiment, &of.case, &of.metric, of.is_prior);
                let own = own.map_or(0.0, |(_, coefficient)| coefficient.ln());
                designs.insert(&of.design);
                before.push(
                    of.here
                        + point.iter().zip(&of.slopes).map(|(at, slope)| at * slope).sum::<f64>(),
                );
                after.push(of.here - moved - own);
            }
        }
        let median = |of: &[f64]| stats::quantile::median(of).map_or(1.0, f64::exp);
        let square = after.iter().map(|of| of * of).sum::<f64>() / after.len().max(1) as f64;
        writeln!(
            text,
            "{name},{coefficient:.3},{},{},{:.2},{:.2},{:.2}",
            designs.len(),
            after.len(),
            median(&before),
            median(&after),
            square.sqrt().exp()
        )
        .expect("a string takes all");
    }
    text
}

#[test]
fn the_committed_coefficients_are_what_the_machines_give() {
    assert!(
        are_same(&SEEN.1.fit(None), &SEEN.0),
        "the sheets or the laws have changed: run scripts/fit"
    );
}

#[test]
fn a_coefficient_that_figures_share_is_found_and_drawn_to_one() {
    let observed: Vec<Observation> = ["a", "b", "c", "d"]
        .iter()
        .flat_map(|machine| (0..20).map(move |nth| (machine, nth)))
        .map(|(machine, nth)| Observation {
            design: (*machine).to_owned(),
            experiment: if nth % 2 == 0 { "os.syscall" } else { "os.switch" }.to_owned(),
            metric: "latency".to_owned(),
            case: CaseId::new(),
            is_prior: true,
            here: if nth % 2 == 0 { 0.0 } else { 1.0 },
            slopes: [0.0; TERMS.len()],
        })
        .collect();
    let found = solve(&[0.0; TERMS.len()], &observed.iter().collect::<Vec<_>>());
    let whole = |experiment: &str| {
        let levels = levels(experiment, &CaseId::new(), "latency", true);
        let own = levels.iter().zip(free(true)).map(|(level, free)| free * found[level]);
        free(true)[4] * found["all true"] + own.sum::<f64>()
    };
    let (calls, switches) = (whole("os.syscall"), whole("os.switch"));
    assert!((0.6..1.0).contains(&switches) && calls.abs() < 0.25, "{calls} {switches}");
}
