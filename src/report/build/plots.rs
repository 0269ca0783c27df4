//! Plots, by the view that an experiment asks for.

use super::spans;
use crate::analysis::facts::stated_levels;
use crate::analysis::figure::Figure;
use crate::analysis::verdict::Verdict;
use crate::report::document::{Axis, Block, Marker, Plot, Point, Series, Shape};
use crate::report::values;
use record::event::{Ending, PlannedExperiment, Trace};
use record::key::CaseId;
use record::metric::Metric;
use record::quantity::{digits, render};
use record::run::Run;
use record::unit::Unit;
use record::view::View;
use std::collections::BTreeMap;

/// Series up to which the predicted band is drawn; more would hide each other.
const BANDS: usize = 2;

/// Points of a trace that are drawn.
const TRACE_POINTS: usize = 4_000;

/// An experiment of one of the runs that are shown together.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'run> {
    /// What legends call the run; empty where it is the only one.
    pub(crate) name: &'run str,
    /// The run.
    pub(crate) run: &'run Run,
    /// The experiment in its plan.
    pub(crate) planned: &'run PlannedExperiment,
    /// The experiment's figures in it.
    pub(crate) figures: &'run [&'run Figure],
}

/// The plots and matrices of an experiment, all runs in each; none where there is nothing to draw.
pub(crate) fn of_experiment(shown: &[Shown<'_>]) -> Vec<Block> {
    let Some(first) = shown.first() else {
        return Vec::new();
    };
    let plots = of_one(first.run, first.planned, first.figures);
    plots.into_iter().map(Block::Plot).collect()
}

fn of_one(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Vec<Plot> {
    let plot = match &planned.view {
        View::Table | View::Matrix { .. } => None,
        View::Spans { timeline, .. } => return spans::plots(run, planned, timeline),
        View::Line {
            over,
            metric,
            log_x,
            log_y,
            beside,
        } => {
            let metrics = std::iter::once(metric).chain(beside);
            let plot =
                |metric: &String| line(run, planned, figures, over, metric, (*log_x, *log_y));
            return metrics.filter_map(plot).collect();
        }
        View::Curve { along, x, y } => curve(planned, figures, along, (x, y)),
        View::Bars { metric } => bars(planned, figures, metric),
        View::Timeline { trace } => timeline(run, planned, trace),
    };
    plot.into_iter().collect()
}

fn with_value<'a>(figures: &[&'a Figure], metric: &str) -> Vec<(&'a Figure, &'a Metric, f64)> {
    figures
        .iter()
        .filter_map(|figure| {
            let of = figure.metric.as_ref().filter(|of| of.name == metric)?;
            Some((*figure, of, figure.value?))
        })
        .collect()
}

fn line(
    run: &Run,
    planned: &PlannedExperiment,
    figures: &[&Figure],
    over: &str,
    metric: &str,
    (log_x, log_y): (bool, bool),
) -> Option<Plot> {
    let figures = with_value(figures, metric);
    let (_, of, _) = *figures.first()?;
    let unit_x = planned.units.get(over).copied();
    let mut lines: BTreeMap<CaseId, Vec<(Point, Option<Point>)>> = BTreeMap::new();
    for (figure, of, value) in &figures {
        let Some(x) = figure.case.int(over) else {
            continue;
        };
        let point = Point {
            x: x as f64,
            y: *value,
            ends: figure.ci,
            hover: hover(figure, of, &values::parameter(&x.into(), unit_x)),
        };
        lines
            .entry(without(&figure.case, over))
            .or_default()
            .push((point, predicted(figure, x as f64)));
    }
    let count = lines.len();
    let names = names(lines.keys(), metric);
    let mut series = Vec::new();
    for (name, mut points) in names.into_iter().zip(lines.into_values()) {
        points.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
        let (points, band): (Vec<Point>, Vec<Option<Point>>) = points.into_iter().unzip();
        let band: Vec<Point> = band.into_iter().flatten().collect();
        if count <= BANDS && band.len() > 1 {
            series.push(Series {
                name: format!("predicted, {name}"),
                shape: Shape::Band,
                points: band,
            });
        }
        series.push(Series {
            name,
            shape: Shape::Line,
            points,
        });
    }
    Some(Plot {
        title: format!("{}: {metric} over {over}", planned.id),
        x: axis(over, unit_x, log_x),
        // A share may be zero.
        y: axis(metric, Some(of.unit), log_y && of.unit != Unit::Ratio),
        series,
        markers: markers(run, planned, unit_x),
    })
}

/// A case but for one parameter: what a line's points have in common.
fn without(case: &CaseId, name: &str) -> CaseId {
    let rest = case.0.iter().filter(|(other, _)| other != name);
    CaseId(rest.cloned().collect())
}

fn curve(
    planned: &PlannedExperiment,
    figures: &[&Figure],
    along: &str,
    (x, y): (&str, &str),
) -> Option<Plot> {
    let across = with_value(figures, x);
    let mut lines: BTreeMap<CaseId, Vec<(u64, Point)>> = BTreeMap::new();
    let mut units = None;
    for (figure, of_y, value) in with_value(figures, y) {
        let step = figure.case.int(along)?;
        let same = across.iter().find(|(other, ..)| other.case == figure.case);
        let Some((_, of_x, at)) = same else {
            continue;
        };
        units = Some((of_x.unit, of_y.unit));
        let point = Point {
            x: *at,
            y: value,
            ends: figure.ci,
            hover: hover(
                figure,
                of_y,
                &format!("{along} {step}, {}", render(*at, of_x.unit)),
            ),
        };
        let line = lines.entry(without(&figure.case, along)).or_default();
        line.push((step, point));
    }
    let (unit_x, unit_y) = units?;
    let names = names(lines.keys(), y);
    let series = names
        .into_iter()
        .zip(lines.into_values())
        .map(|(name, mut points)| {
            points.sort_by_key(|(step, _)| *step);
            Series {
                name,
                shape: Shape::Line,
                points: points.into_iter().map(|(_, point)| point).collect(),
            }
        });
    Some(Plot {
        title: format!("{}: {y} over {x}", planned.id),
        x: axis(x, Some(unit_x), false),
        y: axis(y, Some(unit_y), false),
        series: series.collect(),
        markers: Vec::new(),
    })
}

/// Names of lines: the values of what differs between them.
fn names<'a>(cases: impl Iterator<Item = &'a CaseId>, metric: &str) -> Vec<String> {
    let cases: Vec<&CaseId> = cases.collect();
    let differs = |name: &str| {
        cases
            .iter()
            .any(|case| case.get(name) != cases[0].get(name))
    };
    let name = |case: &&CaseId| {
        let values: Vec<String> = case
            .0
            .iter()
            .filter(|(name, _)| differs(name))
            .map(|(_, value)| value.to_string())
            .collect();
        match values.is_empty() {
            true => metric.replace('_', " "),
            false => values.join(", "),
        }
    };
    cases.iter().map(name).collect()
}

/// Sizes along a byte axis: levels that the run found and levels that the machine states.
fn markers(run: &Run, planned: &PlannedExperiment, unit: Option<Unit>) -> Vec<Marker> {
    if unit != Some(Unit::B) {
        return Vec::new();
    }
    let is_size = |name: &str| {
        planned
            .metrics
            .iter()
            .any(|metric| metric.name == name && metric.derived && metric.unit == Unit::B)
    };
    let found = run
        .derived
        .iter()
        .filter(|derived| derived.experiment == planned.id && is_size(&derived.metric))
        .filter_map(|derived| {
            let level = derived.case.text("level")?;
            Some(Marker {
                at: derived.value,
                label: format!("{level} {}", render(derived.value, Unit::B)),
                is_measured: true,
            })
        });
    let mut markers: Vec<Marker> = found.collect();
    if planned.id.starts_with("memory.") {
        markers.extend(stated_levels(run).into_iter().map(|(name, size)| Marker {
            at: size,
            label: format!("{name} {}", render(size, Unit::B)),
            is_measured: false,
        }));
    }
    markers
}

fn predicted(figure: &Figure, x: f64) -> Option<Point> {
    let range = figure.shown_prediction()?.prediction.range?;
    Some(Point {
        x,
        y: range.likely,
        ends: Some((range.low, range.high)),
        hover: String::new(),
    })
}

pub(super) fn axis(label: &str, unit: Option<Unit>, is_log: bool) -> Axis {
    Axis {
        label: label.replace('_', " "),
        unit,
        is_log,
        names: Vec::new(),
    }
}

/// `64 KiB: 4.06 ns [4.03, 4.09], 13.0 cycles; predicted 2.8 – 6.5 ns: within`.
fn hover(figure: &Figure, metric: &Metric, at: &str) -> String {
    let shown = values::of_figure(figure);
    let mut text = match shown {
        Some(shown) if shown.interval.is_empty() => format!("{at}: {}", shown.value),
        Some(shown) => format!("{at}: {} {}", shown.value, shown.interval),
        None => at.to_owned(),
    };
    if let Some(cycles) = values::of_cycles(figure) {
        text.push_str(&format!(", {cycles} cycles"));
    }
    if let Some(judged) = figure.shown_prediction()
        && let Some(range) = &judged.prediction.range
    {
        text.push_str(&format!(
            "; predicted {}",
            values::range(range, metric.unit)
        ));
        if let Some(verdict) = judged.verdict {
            text.push_str(&format!(": {}", verdict.text()));
        }
    }
    text
}

fn bars(planned: &PlannedExperiment, figures: &[&Figure], metric: &str) -> Option<Plot> {
    let figures = with_value(figures, metric);
    let (_, of, _) = *figures.first()?;
    if figures.len() < 2 {
        return None;
    }
    let points = figures
        .iter()
        .enumerate()
        .map(|(at, (figure, of, value))| Point {
            x: at as f64,
            y: *value,
            ends: figure.ci,
            // The page takes the bar's name from before the colon.
            hover: hover(figure, of, &figure.case.to_string()),
        });
    Some(Plot {
        title: format!("{}: {metric}", planned.id),
        x: axis(metric, Some(of.unit), false),
        y: axis("", None, false),
        series: vec![Series {
            name: metric.to_owned(),
            shape: Shape::Bars,
            points: points.collect(),
        }],
        markers: Vec::new(),
    })
}

fn timeline(run: &Run, planned: &PlannedExperiment, kind: &str) -> Option<Plot> {
    let traces: Vec<&Trace> = run
        .traces
        .iter()
        .filter(|trace| {
            trace.series.split('/').next() == Some(planned.id.as_str()) && trace.kind == kind
        })
        .collect();
    let first = traces.first()?;
    let (x, y) = (first.columns.first()?, first.columns.get(1)?);
    let series = traces.iter().map(|trace| Series {
        name: match trace.case.0.is_empty() {
            true => format!("round {}", trace.round),
            false => format!("{}, round {}", trace.case, trace.round),
        },
        shape: Shape::Line,
        points: thinned(&trace.rows, &trace.columns),
    });
    Some(Plot {
        title: format!("{}: {kind}", planned.id),
        x: column_axis(x),
        y: column_axis(y),
        series: series.collect(),
        markers: Vec::new(),
    })
}

/// The axis of a trace's column, whose name ends in its unit; seconds stay seconds.
fn column_axis(name: &str) -> Axis {
    const UNITS: &[(&str, Unit)] = &[
        ("_ns", Unit::Ns),
        ("_hz", Unit::Hz),
        ("_bytes", Unit::B),
        ("_bytes_per_s", Unit::BPerS),
        ("_op_per_s", Unit::OpPerS),
        ("_flop_per_s", Unit::FlopPerS),
    ];
    let found = UNITS
        .iter()
        .find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, *unit)));
    match (found, name.strip_suffix("_s")) {
        (Some((label, unit)), _) => axis(label, Some(unit), false),
        (None, Some(label)) => axis(&format!("{label} (s)"), None, false),
        (None, None) => axis(name, None, false),
    }
}

/// Rows as points; of too many, each stretch's least and greatest, so that spikes stay.
fn thinned(rows: &[Vec<f64>], columns: &[String]) -> Vec<Point> {
    let point = |row: &Vec<f64>| {
        let (x, y) = (*row.first()?, *row.get(1)?);
        let hover = format!("{} {}, {} {}", columns[0], digits(x), columns[1], y);
        Some(Point {
            x,
            y,
            ends: None,
            hover,
        })
    };
    if rows.len() <= TRACE_POINTS {
        return rows.iter().filter_map(point).collect();
    }
    let stretch = rows.len().div_ceil(TRACE_POINTS / 2);
    let mut points = Vec::new();
    for chunk in rows.chunks(stretch) {
        let mut all: Vec<Point> = chunk.iter().filter_map(point).collect();
        all.sort_by(|a, b| a.y.total_cmp(&b.y));
        if let (Some(least), Some(greatest)) = (all.first().cloned(), all.last().cloned()) {
            let ordered = if least.x <= greatest.x {
                [least, greatest]
            } else {
                [greatest, least]
            };
            points.extend(ordered);
        }
    }
    points
}

/// Measured over predicted for every predicted figure, with the predicted interval around one.
pub(crate) fn score(figures: &[Figure]) -> Option<Plot> {
    let mut families: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    let mut ranges = Vec::new();
    let judged = figures.iter().filter_map(|figure| {
        let judged = figure.prior.as_ref()?;
        let range = judged.prediction.range.filter(|range| range.likely > 0.0)?;
        let value = figure.value.filter(|value| *value > 0.0)?;
        let counts =
            figure.outcome == Ending::Measured || judged.verdict == Some(Verdict::Impossible);
        counts.then_some((figure, range, value))
    });
    for (at, (figure, range, value)) in judged.enumerate() {
        let x = at as f64 + 1.0;
        let metric = figure.metric.as_ref()?;
        ranges.push(Point {
            x,
            y: 1.0,
            ends: Some((range.low / range.likely, range.high / range.likely)),
            hover: String::new(),
        });
        families.entry(figure.family()).or_default().push(Point {
            x,
            y: value / range.likely,
            ends: None,
            hover: hover(figure, metric, &figure.label()),
        });
    }
    if ranges.is_empty() {
        return None;
    }
    let mut series = vec![Series {
        name: "predicted interval".to_owned(),
        shape: Shape::Ranges,
        points: ranges,
    }];
    series.extend(families.into_iter().map(|(family, points)| Series {
        name: family.to_owned(),
        shape: Shape::Dots,
        points,
    }));
    Some(Plot {
        title: "Measured over predicted".to_owned(),
        x: axis("figure", None, false),
        y: axis("measured / likely", Some(Unit::Ratio), true),
        series,
        markers: Vec::new(),
    })
}
