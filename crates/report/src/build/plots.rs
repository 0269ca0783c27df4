//! Plots, by the views that an experiment asks for.

mod bars;
mod curve;
mod distribution;
mod line;
mod score;
mod timeline;

pub use distribution::distribution;
pub use score::score;

use super::{matrix, spans};
use crate::document::{Axis, Block, Plot};
use crate::values;
use analysis::figure::Figure;
use analysis::gather::gathered;
use analysis::names::around;
use record::event::PlannedExperiment;
use record::key::{CaseId, Value};
use record::metric::Metric;
use record::run::Run;
use record::unit::Unit;
use record::view::{Cases, View};

/// Most views of an experiment that are drawn, and most plots: each view draws its figures again.
const VIEWS_MAX: usize = 32;
const PLOTS_MAX: usize = 400;

#[derive(Clone, Copy)]
pub struct Shown<'run> {
    pub name: &'run str,
    pub run: &'run Run,
    pub planned: &'run PlannedExperiment,
    pub figures: &'run [&'run Figure],
}

/// The plots and matrices of an experiment, all runs in each; none where there is nothing to draw.
/// A record of before there were several views is shown by the views of the others.
pub fn of_experiment(shown: &[Shown<'_>]) -> Vec<Block> {
    let views = |one: &Shown<'_>| one.planned.all_views().count();
    let Some(most) = shown.iter().map(views).max() else {
        return Vec::new();
    };
    let chosen = shown.iter().find(|one| views(one) == most);
    let views = chosen.into_iter().flat_map(|one| one.planned.all_views());
    let drawn = views.take(VIEWS_MAX).flat_map(|view| of_view(shown, view));
    let mut blocks: Vec<Block> = drawn.take(PLOTS_MAX + 1).collect();
    if most > VIEWS_MAX || blocks.len() > PLOTS_MAX {
        blocks.truncate(PLOTS_MAX);
        blocks.push(Block::text(format!(
            "Further views are left out: at most {VIEWS_MAX} views and {PLOTS_MAX} plots are drawn; `plumb report RUN \
             --format csv` has every figure."
        )));
    }
    blocks
}

fn of_view(shown: &[Shown<'_>], view: &View) -> Vec<Block> {
    let plots: Vec<Plot> = match view {
        View::Table => Vec::new(),
        View::Matrix { rows, columns, metric, cases } => {
            return matrix::grids(shown, (rows, columns), metric, cases);
        }
        View::Line { .. } => line::plots(shown, view),
        View::Curve { .. } => curve::plots(shown, view),
        View::Bars { metric, cases } => bars::plots(shown, metric, cases),
        View::Timeline { trace, beside } => timeline::plots(shown, trace, beside),
        View::Spans { timeline, beside, .. } => {
            let plots = shown.iter().flat_map(|one| spans::plots(one, timeline, beside));
            plots.collect()
        }
    };
    plots.into_iter().map(Block::Plot).collect()
}

#[derive(Clone, Copy)]
pub(super) struct Spot<'run> {
    pub(super) run_index: usize,
    pub(super) figure: &'run Figure,
    pub(super) metric: &'run Metric,
    /// Its value, in the metric's unit.
    pub(super) value: f64,
}

/// The figures of a metric that have values, of all runs; those of the first run first.
pub(super) fn spots<'run>(shown: &[Shown<'run>], metric: &str, cases: &Cases) -> Vec<Spot<'run>> {
    let of_run = |(of, one): (usize, &Shown<'run>)| {
        let spot = move |figure: &&'run Figure| {
            let figure: &'run Figure = figure;
            Some(Spot {
                run_index: of,
                figure,
                metric: figure.metric.as_ref()?,
                value: figure.value?,
            })
        };
        one.figures.iter().filter_map(spot)
    };
    let all = shown.iter().enumerate().flat_map(of_run);
    all.filter(|spot| spot.metric.name == metric && cases.shows(&spot.figure.case)).collect()
}

/// The figures of each picture under what the picture is of, in the order of the plan.
pub(super) fn pictures<'run>(
    spots: Vec<Spot<'run>>,
    each: &[String],
) -> Vec<(CaseId, Vec<Spot<'run>>)> {
    gathered(spots.into_iter().map(|spot| {
        let own = spot.figure.case.0.iter();
        (CaseId(own.filter(|(name, _)| each.contains(name)).cloned().collect()), spot)
    }))
}

/// What a picture is of: the values that it was chosen by, and those of the view's choice that all
/// its figures share.
pub(super) fn shared_values(picture: &CaseId, cases: &Cases, spots: &[Spot<'_>]) -> CaseId {
    let mut told = picture.clone();
    let first = spots.first().map(|spot| &spot.figure.case);
    for (name, value) in first.into_iter().flat_map(|case| &case.0) {
        let all = || spots.iter().all(|spot| spot.figure.case.get(name) == Some(value));
        if cases.only.contains_key(name) && told.get(name).is_none() && all() {
            told.0.push((name.clone(), value.clone()));
        }
    }
    told
}

/// `fs.io: bandwidth over block: read, random`.
pub(super) fn title(shown: &[Shown<'_>], what: &str, picture: &CaseId) -> String {
    let Some(first) = shown.first() else {
        return what.to_owned();
    };
    let values: Vec<String> =
        picture.0.iter().map(|(name, value)| parameter(first.planned, name, value)).collect();
    let which = around(": ", &values.join(", "), "");
    format!("{}: {what}{which}", first.planned.id)
}

/// A value with its unit; of what is counted, with its name: `4 threads`, `cpu 0`, `all threads`.
pub(super) fn parameter(planned: &PlannedExperiment, name: &str, value: &Value) -> String {
    let unit = planned.units.get(name).copied();
    let text = values::parameter(value, unit);
    let is_counted = unit == Some(Unit::Count) || (unit.is_none() && value.int().is_some());
    let words = name.replace('_', " ");
    match (is_counted, words.strip_suffix('s')) {
        (false, _) => text,
        (true, Some(one)) if text == "1" => format!("{text} {one}"),
        (true, Some(_)) if value.int().is_some() || text == "all" => format!("{text} {words}"),
        (true, _) => format!("{words} {text}"),
    }
}

/// What lines or bars are called: the values of what differs between their cases, and the run
/// where there are several. `fallback` stands where nothing differs.
pub(super) fn names(
    shown: &[Shown<'_>],
    series: &[(&CaseId, usize)],
    fallback: &str,
) -> Vec<String> {
    let differs = |name: &str| {
        let first = series.first().and_then(|(case, _)| case.get(name));
        series.iter().any(|(case, _)| case.get(name) != first)
    };
    let name = |(case, of): &(&CaseId, usize)| {
        let Some(one) = shown.get(*of) else {
            return fallback.to_owned();
        };
        let own = case.0.iter().filter(|(name, _)| differs(name));
        let values: Vec<String> =
            own.map(|(name, value)| parameter(one.planned, name, value)).collect();
        match (values.is_empty(), one.name) {
            (true, "") => fallback.replace('_', " "),
            (true, run) => run.to_owned(),
            (false, "") => values.join(", "),
            (false, run) => format!("{} · {run}", values.join(", ")),
        }
    };
    series.iter().map(name).collect()
}

pub fn axis(label: &str, unit: Option<Unit>, is_log: bool) -> Axis {
    Axis { label: label.replace('_', " "), unit, is_log, names: Vec::new() }
}

/// The unit of a parameter in whichever run states it.
pub(super) fn unit_of(shown: &[Shown<'_>], name: &str) -> Option<Unit> {
    let mut units = shown.iter().map(|one| one.planned.units.get(name).copied());
    units.find_map(|unit| unit)
}

/// `64 KiB: 4.06 ns [4.03, 4.09], 13.0 cycles; predicted 2.8 – 6.5 ns: within`.
pub(super) fn hover(figure: &Figure, at: &str) -> String {
    let shown = values::of_figure(figure);
    let mut text = match shown {
        Some(shown) => {
            let value = format!("{at}: {}{} {}", shown.value, values::mark(figure), shown.interval);
            value.trim_end().to_owned()
        }
        None => at.to_owned(),
    };
    if let Some(cycles) = values::of_cycles(figure) {
        text.push_str(&format!(", {cycles} cycles"));
    }
    if let Some(judged) = figure.shown_prediction()
        && let Some(range) = values::predicted(figure)
    {
        text.push_str(&format!("; predicted {range}"));
        if let Some(verdict) = judged.shown_verdict(figure.value) {
            text.push_str(&format!(": {verdict}"));
        }
    }
    text
}
