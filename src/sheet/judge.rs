//! The laws as they are shipped, judged by instances of clouds that they were not fitted to:
//! `scripts/score --cloud FILE` prints it for any file with an instance a line.

use super::cloud::{self, Instance};
use super::score::{Judged, of_sheet, priors};
use analysis::score::{Scored, tally};
use bench::widths::{Widths, of_metric, residual};
use flate2::read::MultiGzDecoder;
use host::Host;
use record::event::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

/// A value of an instance beside its prediction.
struct Judgement {
    instance: String,
    design: String,
    family: &'static str,
    metric: String,
    case: String,
    scored: Scored<'static>,
    /// How far the value is from the likely one, in widths of the law's own range …
    residual: f64,
    /// … and the logarithm of high over low of a range of one such width.
    width: f64,
}

/// The file of `scripts/score --cloud`.
const FILE: &str = "PLUMB_CLOUD";

/// The instances of the file that was named, else made-up ones.
fn text() -> String {
    let Some(path) = std::env::var_os(FILE) else { return cloud::tests::MADE_UP.to_owned() };
    let bytes = std::fs::read(&path);
    let bytes = bytes.unwrap_or_else(|why| panic!("refused: {}: {why}", path.display()));
    let mut text = String::new();
    let read = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => MultiGzDecoder::new(&*bytes).read_to_string(&mut text),
        false => (&*bytes).read_to_string(&mut text),
    };
    read.unwrap_or_else(|why| panic!("refused: {}: {why}", path.display()));
    text
}

/// The processor's design: the platform, where its core is in several.
pub(super) fn design(host: &Host) -> String {
    let known = &host.cpu.microarchitecture;
    match &known.platform {
        Some(platform) => platform.clone(),
        None => known.core.name().to_owned(),
    }
}

/// A range that also holds what a difference in method leaves open, which is independent of what the
/// law does not know: the logarithms' squares add up.
fn with_open(range: Range, open: f64) -> Range {
    let Range { low, likely, high } = range;
    let side = |factor: f64| factor.ln().hypot(open).exp();
    match low > 0.0 {
        true => {
            Range { low: likely / side(likely / low), likely, high: likely * side(high / likely) }
        }
        false => range,
    }
}

/// All figures of an instance. Errors: it is refused.
fn judged(instance: &Instance) -> Result<Vec<Judgement>, String> {
    let sheet = instance.sheet()?;
    let design = design(&sheet.host);
    let machine = of_sheet(&instance.id, &sheet);
    let all = priors(&machine, |_| true);
    let figure = |(of, figure): (Judged, &super::Datum)| {
        let mut scored = of.as_wide_as(Widths::fitted()).scored();
        let residual = of.nearer().and_then(|range| residual(range, of.figure.value, false));
        let width = of.as_wide_as(&Widths::default()).scored().range;
        let width = width.map_or(f64::NAN, |range| (range.high / range.low).ln());
        let open = figure.ci.map_or(0.0, |(low, high)| (high / low).ln() / 2.0);
        scored.range = scored.range.map(|range| with_open(range, open));
        let metric = of_metric(of.experiment(), &of.figure.metric.name);
        Judgement {
            instance: instance.id.clone(),
            design: design.clone(),
            family: scored.family,
            case: format!("{metric} {}", of.figure.case.id),
            metric,
            scored,
            residual: residual.unwrap_or(f64::INFINITY),
            width,
        }
    };
    Ok(all.into_iter().zip(&sheet.figures).map(figure).collect())
}

/// What a group of figures comes to, each design of processor counting once.
struct Total {
    designs: usize,
    inside: f64,
    width: f64,
    bias: f64,
    score: f64,
}

fn total(figures: &[&Judgement]) -> Total {
    let mut designs: BTreeMap<&str, Vec<Scored>> = BTreeMap::new();
    for figure in figures {
        designs.entry(&figure.design).or_default().push(figure.scored);
    }
    let (mut widths, mut biases) = (Vec::new(), Vec::new());
    let (mut inside, mut score) = (0.0, 0.0);
    let share = 1.0 / designs.len() as f64;
    for own in designs.values() {
        let tally = tally(own);
        inside += share * tally.inside_share().unwrap_or(0.0);
        score += share * tally.score.unwrap_or(0.0);
        let each = share / own.len() as f64;
        let ranges = own.iter().filter_map(|one| Some((one.value, one.range?)));
        for (value, range) in ranges.filter(|(_, range)| range.low > 0.0) {
            widths.push((range.high / range.low, each));
            biases.push((value / range.likely, each));
        }
    }
    Total { designs: designs.len(), inside, width: middle(widths), bias: middle(biases), score }
}

/// The median of values with their weights.
fn middle(mut all: Vec<(f64, f64)>) -> f64 {
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let half = all.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let found = all.iter().find(|(_, weight)| {
        below += weight;
        below >= half
    });
    found.map_or(f64::NAN, |(value, _)| *value)
}

/// Share of the figures that a scale holds.
const HELD: f64 = 0.9;

/// The scale of widths that holds [`HELD`] of some figures, each design counting once.
fn scale(figures: &[&Judgement]) -> f64 {
    let mut all: Vec<(f64, f64)> = weighted(figures).map(|(one, by)| (one.residual, by)).collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let found = all.iter().find(|(_, weight)| {
        below += weight;
        below >= HELD * total
    });
    found.map_or(f64::NAN, |(residual, _)| *residual)
}

fn weighted<'a>(figures: &'a [&'a Judgement]) -> impl Iterator<Item = (&'a Judgement, f64)> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    figures.iter().for_each(|figure| *counts.entry(&figure.design).or_default() += 1.0);
    figures.iter().map(move |figure| (*figure, 1.0 / counts[&*figure.design]))
}

/// What the widths of a metric come to if half of the designs set them, on the other half.
fn print_halves(figures: &[Judgement]) {
    println!("## Scales of half of the designs, on the other half\n");
    println!(
        "| | scale of all | scale | inside % | median width | scale | inside % | median width |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let designs: BTreeSet<&str> = figures.iter().map(|one| &*one.design).collect();
    let first: BTreeSet<&str> = designs.into_iter().step_by(2).collect();
    let metrics: BTreeSet<&str> = figures.iter().map(|one| &*one.metric).collect();
    for metric in metrics {
        let own = figures.iter().filter(|one| one.metric == metric);
        let (one, other): (Vec<&Judgement>, Vec<&Judgement>) =
            own.partition(|figure| first.contains(&*figure.design));
        let cells = |from: &[&Judgement], on: &[&Judgement]| {
            let scale = scale(from);
            let inside = |(figure, by): (&Judgement, f64)| by * f64::from(figure.residual <= scale);
            let all: f64 = weighted(on).map(|(_, by)| by).sum();
            let share = 100.0 * weighted(on).map(inside).sum::<f64>() / all;
            let widths = weighted(on).map(|(one, by)| ((scale * one.width).exp(), by));
            format!("{scale:.2} | {share:.1} | {:.2}", middle(widths.collect()))
        };
        let all = scale(&[&*one, &*other].concat());
        println!("| {metric} | {all:.2} | {} | {} |", cells(&one, &other), cells(&other, &one));
    }
    println!();
}

fn print(title: &str, figures: &[Judgement], name: impl Fn(&Judgement) -> String) {
    println!("## {title}\n");
    println!(
        "| | designs | instances | figures | inside % | median width | bias | score |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut groups: BTreeMap<String, Vec<&Judgement>> = BTreeMap::new();
    for figure in figures {
        groups.entry(name(figure)).or_default().push(figure);
    }
    for (name, own) in groups {
        let instances: BTreeSet<&str> = own.iter().map(|figure| &*figure.instance).collect();
        let Total { designs, inside, width, bias, score } = total(&own);
        println!(
            "| {name} | {designs} | {} | {} | {:.1} | {width:.2} | {bias:.2} | {score:.2} |",
            instances.len(),
            own.len(),
            100.0 * inside,
        );
    }
    println!();
}

#[test]
fn instances_of_clouds_are_judged() {
    let all = cloud::instances(&text()).unwrap_or_else(|why| panic!("refused: {why}"));
    let mut figures = Vec::new();
    for (nth, instance) in all.iter().enumerate() {
        let own = judged(instance);
        figures.extend(own.unwrap_or_else(|why| panic!("refused: line {}: {why}", nth + 1)));
    }
    print("Cloud instances by family", &figures, |one| one.family.to_owned());
    print("By metric", &figures, |one| one.metric.clone());
    print("By family and processor design", &figures, |one| {
        format!("{} {}", one.family, one.design)
    });
    print("By metric and processor design", &figures, |one| {
        format!("{} {}", one.metric, one.design)
    });
    print("By case and processor design", &figures, |one| format!("{} {}", one.case, one.design));
    print_halves(&figures);
    let families: BTreeSet<&str> = figures.iter().map(|one| one.family).collect();
    for family in families {
        let own: Vec<&Judgement> = figures.iter().filter(|one| one.family == family).collect();
        let Total { inside, width, .. } = total(&own);
        println!(
            "cloud {family} figures {} inside {:.0}% width {width:.2}",
            own.len(),
            100.0 * inside
        );
    }
    assert!(!figures.is_empty(), "refused: no figure");
}

#[test]
fn a_design_counts_once() {
    let one = |design: &str, value: f64| Judgement {
        instance: String::new(),
        design: design.to_owned(),
        family: "os",
        metric: String::new(),
        case: String::new(),
        scored: Scored {
            family: "os",
            unit: record::unit::Unit::Ns,
            value,
            range: Some(Range { low: 1.0, likely: 2.0, high: 4.0 }),
            beside: None,
            is_impossible: false,
        },
        residual: 0.0,
        width: 1.0,
    };
    let figures = [one("a", 2.0), one("a", 2.0), one("a", 2.0), one("b", 9.0)];
    let found = total(&figures.iter().collect::<Vec<_>>());
    assert_eq!((found.designs, found.inside, found.width), (2, 0.5, 4.0));
}

#[test]
fn what_a_method_leaves_open_widens_a_range() {
    let range = Range { low: 0.5, likely: 1.0, high: 3.0 };
    assert!((with_open(range, 0.0).high - 3.0).abs() < 1e-12);
    let wide = with_open(range, 2.0_f64.ln());
    assert!((wide.low.ln() + 2.0_f64.ln() * 2.0_f64.sqrt()).abs() < 1e-12, "{wide:?}");
}
