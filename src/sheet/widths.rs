//! The widths of predictions from the residuals of recorded machines (METHOD §5), and the range that
//! knowing nothing gives: `scripts/fit` writes both tables.
//!
//! Split conformal prediction with normalised residuals: the scale of a metric's priors is their
//! quantile over its figures. Every design of processor counts alike, however many machines and
//! figures it has; one with few figures counts less. The figures of the experiment and of the family count a little too, which
//! decides where there are few of a metric. Files on a hypervisor's disk are judged by such files.
//! Predictions from earlier figures have a scale by experiment only: they err by what was learnt,
//! whatever the metric.

use super::fit::is_updated;
use super::score::{APART_PREDICTIONS, Judged};
use analysis::score::NAIVE_TABLE;
use bench::widths::{TABLE, Widths, group, of_class, of_metric, residual};
use std::collections::{BTreeMap, BTreeSet};

/// Share of the figures that ranges hold, of priors and of predictions from earlier figures. On another
/// machine they are to hold 85 and 90 % (METHOD §5).
const HELD: [f64; 2] = [0.9, 0.91];

/// Figures that a machine counts half with.
const FEW: f64 = 50.0;

/// Figures of one machine from which on an experiment's narrow and wide laws are judged apart.
const MANY: usize = 100;

/// What the figures of each wider group count: as half a machine.
const POOLED: f64 = 0.5;

/// No prediction is narrower than a tenth of its law's own width.
const NARROWEST: f64 = 0.1;

type Residuals<'a> = BTreeMap<&'a str, Vec<f64>>;

/// The scales that hold these predictions, which are as wide as their laws make them.
pub(super) fn fit(all: &[Judged]) -> Widths {
    let mut groups: BTreeMap<(String, bool), Residuals> = BTreeMap::new();
    for of in all {
        let found = of.nearer().and_then(|range| residual(range, of.figure.value, of.is_derived));
        let experiments = [of.experiment(), &group(&of.machine.site, of.experiment())];
        let levels = experiments.into_iter().flat_map(|experiment| {
            let family = experiment.split('.').next().unwrap_or_default();
            let part = match of.is_derived {
                false => of_metric(experiment, &of.figure.metric.name),
                true => of_class(experiment, of.range),
            };
            [String::new(), family.to_owned(), experiment.to_owned(), part]
        });
        let names: BTreeSet<String> = levels.filter(|_| found.is_some()).collect();
        for name in names {
            let group = groups.entry((name, of.is_derived)).or_default();
            group.entry(&of.machine.design).or_default().extend(found);
        }
    }
    let mut widths = Widths::default();
    for ((name, is_derived), own) in &groups {
        // Few figures in two classes say less than all in one.
        let whole = name.split_once(' ').filter(|_| *is_derived);
        let whole = whole.map(|(whole, _)| &groups[&(whole.to_owned(), true)]);
        if whole.is_some_and(|whole| whole.values().all(|of| of.len() < MANY)) {
            continue;
        }
        let wider = |end| Some(name.split_once(end)?.0.to_owned());
        let wider: Vec<String> = [wider(' '), wider('.')].into_iter().flatten().collect();
        let wider = if wider.is_empty() { vec![String::new()] } else { wider };
        let pools: Vec<&Residuals> =
            wider.into_iter().map(|name| &groups[&(name, *is_derived)]).collect();
        let scale = quantile(HELD[usize::from(*is_derived)], own, &pools);
        let scales = widths.0.entry(name.clone()).or_default();
        scales[usize::from(*is_derived)] = Some(scale.max(NARROWEST));
    }
    widths.0.remove("");
    widths
}

/// The weighted quantile of residuals with those of wider groups.
fn quantile(held: f64, own: &Residuals, pools: &[&Residuals]) -> f64 {
    let weight = |of: &Vec<f64>| 1.0 / (of.len() as f64 + FEW);
    let pooled = pools.iter().flat_map(|pool| {
        let whole: f64 = pool.values().map(|of| of.len() as f64 * weight(of)).sum();
        pool.values().map(move |of| (of, POOLED / whole * weight(of)))
    });
    // The figure that is predicted counts as one more of its own group, beyond all others.
    let figures: usize = own.values().map(Vec::len).sum();
    let next = own.values().map(|of| of.len() as f64 * weight(of)).sum::<f64>() / figures as f64;
    let own = own.values().map(|of| (of, weight(of)));
    let each = own.chain(pooled).flat_map(|(of, weight)| of.iter().map(move |one| (*one, weight)));
    let mut all: Vec<(f64, f64)> = each.collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let total = all.iter().map(|(_, weight)| weight).sum::<f64>() + next;
    let mut below = 0.0;
    let found = all.iter().find(|(_, weight)| {
        below += weight;
        below >= held * total
    });
    found.or(all.last()).map_or(1.0, |(residual, _)| *residual)
}

/// Least and greatest figure of each family and unit over all machines.
fn naive(all: &[Judged]) -> String {
    let mut ends: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
    for of in all.iter().map(Judged::scored).filter(|of| of.value > 0.0) {
        let (least, most) = ends.entry((of.family, of.unit.text())).or_insert((of.value, of.value));
        (*least, *most) = (least.min(of.value), most.max(of.value));
    }
    let row = |((family, unit), (least, most))| format!("{family},{unit},{least:e},{most:e}\n");
    std::iter::once("family,unit,least,most\n".to_owned())
        .chain(ends.into_iter().map(row))
        .collect()
}

#[test]
fn the_tables_are_what_the_machines_give() {
    // Their residuals are from coefficients that never saw the machine.
    let all = &*APART_PREDICTIONS;
    for (path, table, committed) in [
        ("crates/bench/src/widths.csv", fit(all).table(), TABLE),
        ("crates/analysis/src/naive.csv", naive(all), NAIVE_TABLE),
    ] {
        if is_updated() {
            std::fs::write(path, table).expect("the repository can be written");
        } else {
            assert_eq!(table, committed, "{path} is out of date; run scripts/fit");
        }
    }
}

#[test]
fn few_figures_take_the_scale_of_their_family() {
    let residuals = |of: &[f64]| Residuals::from([("a", of.to_vec())]);
    let pool = residuals(&[2.0; 100]);
    assert_eq!(quantile(0.9, &residuals(&[9.0]), &[&pool]), 2.0);
    assert_eq!(quantile(0.9, &residuals(&[1.0; 1000]), &[]), 1.0);
    let many = quantile(0.9, &residuals(&[9.0; 1000]), &[&pool]);
    assert_eq!(many, 9.0);
    // Nine in ten are held, of these and the next.
    let rising: Vec<f64> = (1..=1000).map(f64::from).collect();
    assert_eq!(quantile(0.9, &residuals(&rising), &[]), 901.0);
}
