//! Figures over runs as a document.

use super::plots::axis;
use crate::document::{
    Audience, Axis, Block, Cell, Document, Marker, Plot, Point, Remark, Row, Section, Series,
    Shape, Table, Tone,
};
use crate::values::{counted, percent, shown};
use analysis::findings::Severity;
use analysis::trend::{Change, Changed, LEAST_RUNS, RunPoint, Trend, Trends};
use record::metric::Better;
use record::order::InOrder;
use record::quantity::{digits, render};
use record::unit::Unit;

/// Figures with a section each; of more, those that shift.
const SECTIONS: usize = 8;

/// Most lines of the table of figures.
const LISTED: usize = 60;

/// The document of some trends: `what` was requested, and the machine.
pub fn build(trends: &Trends, what: &str, machine: &str) -> Document {
    let shifting = |trend: &&Trend| !trend.shifts.is_empty();
    let own: Vec<&Trend> = match trends.trends.len() {
        0..=SECTIONS => trends.trends.iter().collect(),
        _ => trends.trends.iter().filter(shifting).collect(),
    };
    let mut sections = vec![shifts(trends)];
    sections.extend((own.len() < trends.trends.len()).then(|| figures(trends)));
    sections.extend(own.into_iter().enumerate().map(|(index, trend)| {
        let id = format!("trend-{}", index + 1);
        Section::new(id, trend.over.key.to_string(), of_trend(trends, trend))
    }));
    Document::new(format!("Trend: {what}"), summary(trends, machine), sections)
}

fn summary(trends: &Trends, machine: &str) -> String {
    let runs = &trends.runs;
    let span = match (runs.first(), runs.last()) {
        (Some(first), Some(last)) => format!(", {} to {}", first.started, last.started),
        _ => String::new(),
    };
    let count: usize = trends.trends.iter().map(|trend| trend.shifts.len()).sum();
    format!(
        "{} over {} of {machine}{span}; {} of level.",
        counted(trends.trends.len(), "figure"),
        counted(runs.len(), "run"),
        counted(count, "shift"),
    )
}

/// Every shift, in the order of the runs.
fn shifts(trends: &Trends) -> Section {
    let mut found: Vec<(&Trend, &Changed)> = trends
        .trends
        .iter()
        .flat_map(|trend| trend.shifts.iter().map(move |changed| (trend, changed)))
        .collect();
    found.order_by_key(|(trend, changed)| trend.over.points[changed.shift.first].run);
    let mut blocks = vec![Block::Paragraph(trends.method())];
    let (few, more): (Vec<&Trend>, Vec<&Trend>) =
        trends.trends.iter().partition(|trend| trend.over.points.len() < LEAST_RUNS);
    if !few.is_empty() && !more.is_empty() {
        blocks.push(Block::Paragraph(format!(
            "{} in fewer than {LEAST_RUNS} runs, not searched for shifts.",
            counted(few.len(), "figure")
        )));
    }
    if !found.is_empty() {
        let headings = [
            "figure",
            "first run",
            "at the latest",
            "#change",
            "#interval",
            "#before",
            "#after",
            "also changed",
        ];
        let rows = found.iter().map(|(trend, changed)| shift_row(trends, trend, changed));
        blocks.push(Block::Table(Table::new("Shifts of level, by run", &headings, rows)));
    }
    Section::new("shifts", "Shifts of level", everyone(blocks))
}

/// A line for each figure over the runs, up to a page.
fn figures(trends: &Trends) -> Section {
    let row = |trend: &Trend| {
        let (unit, points) = (trend.over.unit, &trend.over.points);
        let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
        let latest = values.last().copied();
        values.order_by(f64::total_cmp);
        let cell = |value: Option<f64>| {
            Cell::plain(value.map(|value| render(value, unit)).unwrap_or_default())
        };
        Row::always_shown(vec![
            Cell::plain(trend.over.key.to_string()),
            Cell::plain(points.len().to_string()),
            cell(values.first().copied()),
            cell(trend.levels().last().copied()),
            cell(values.last().copied()),
            cell(latest),
        ])
    };
    let headings = ["figure", "#runs", "#lowest", "#level now", "#highest", "#latest"];
    let rows = trends.trends.iter().take(LISTED).map(row);
    let mut blocks = vec![Block::Table(Table::new("Figures over the runs", &headings, rows))];
    if trends.trends.len() > LISTED {
        blocks.push(Block::Paragraph(format!(
            "The first {LISTED} of {}; name a family, an experiment or a figure to see its own, or \
             use --format csv for all.",
            counted(trends.trends.len(), "figure")
        )));
    }
    Section::new("figures", "Figures", everyone(blocks))
}

fn everyone(blocks: Vec<Block>) -> Vec<(Audience, Block)> {
    blocks.into_iter().map(Block::for_all).collect()
}

fn shift_row(trends: &Trends, trend: &Trend, changed: &Changed) -> Row {
    let shift = &changed.shift;
    let unit = trend.over.unit;
    let name = |point: usize| {
        let run = trend.over.points.get(point).map(|point| point.run);
        run.map_or("", |run| trends.runs[run].name.as_str())
    };
    let (change, interval) = change_text(shift.size, unit);
    let environment: Vec<String> = changed
        .environment
        .iter()
        .map(|(name, before, after)| format!("{name}: {before} → {after}"))
        .collect();
    Row::always_shown(vec![
        Cell::plain(trend.over.key.to_string()),
        Cell::plain(name(shift.first)),
        Cell::plain(match shift.place {
            (low, high) if low == high => "same".to_owned(),
            (low, high) => format!("{} … {}", name(low), name(high)),
        }),
        Cell::toned(change, tone(trend, changed)),
        Cell::plain(interval.unwrap_or_default()),
        Cell::plain(render(shift.before, unit)),
        Cell::plain(render(shift.after, unit)),
        Cell::plain(match environment.is_empty() {
            true => "nothing recorded".to_owned(),
            false => environment.join("; "),
        }),
    ])
}

fn change_text(size: Change, unit: Unit) -> (String, Option<String>) {
    match size {
        Change::Ratio { value, interval } => (
            change(value),
            interval.map(|ends| format!("[{}, {}]", change_number(ends.low), change(ends.high))),
        ),
        Change::Difference { value, interval } => (
            render(value, unit),
            interval
                .map(|ends| format!("[{}, {}]", render(ends.low, unit), render(ends.high, unit))),
        ),
    }
}

fn change(ratio: f64) -> String {
    format!("{} %", change_number(ratio))
}

fn change_number(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent >= 0.0 { "+" } else { "" };
    format!("{sign}{}", digits(percent))
}

fn tone(trend: &Trend, changed: &Changed) -> Tone {
    let grew = changed.shift.after > changed.shift.before;
    match (trend.over.better, grew) {
        (Better::None, _) => Tone::Plain,
        (Better::Lower, true) | (Better::Higher, false) => Tone::Bad,
        (Better::Lower, false) | (Better::Higher, true) => Tone::Good,
    }
}

fn of_trend(trends: &Trends, trend: &Trend) -> Vec<(Audience, Block)> {
    let points = &trend.over.points;
    let mut blocks = Vec::new();
    if points.len() < LEAST_RUNS {
        let text = format!(
            "In {}; the search for shifts needs {LEAST_RUNS}.",
            counted(points.len(), "run")
        );
        blocks.push(Block::Notes(vec![Remark::new(Severity::Note, "", text)]));
    } else if let Some(p) = trend.p.filter(|_| trend.shifts.is_empty()) {
        blocks.push(Block::Paragraph(format!(
            "No shift: random order produces a division like this in {} of cases.",
            percent(p)
        )));
    }
    let mut blocks = everyone(blocks);
    blocks.push(Block::Plot(plot(trends, trend)).on_page());
    blocks.push(Block::Table(table(trends, trend)).for_all());
    blocks
}

/// The figure run by run.
fn table(trends: &Trends, trend: &Trend) -> Table {
    let level_of = trend.levels();
    let row = |index: usize, point: &RunPoint| {
        let told = shown(point.value, point.ci, trend.over.unit);
        let begins = trend.shifts.iter().find(|changed| changed.shift.first == index);
        let tone = begins.map_or(Tone::Plain, |changed| tone(trend, changed));
        let relative = match level_of[index] {
            level if level > 0.0 && point.value > 0.0 => change(point.value / level),
            _ => "-".to_owned(),
        };
        Row::always_shown(vec![
            Cell::plain(trends.runs[point.run].name.clone()),
            Cell::toned(told.value, tone),
            Cell::plain(told.interval),
            Cell::plain(relative),
        ])
    };
    Table::new(
        "The figure in each run; a level is the median of the runs between two shifts",
        &["run", "#value", "#interval", "#from its level"],
        points_of(trend).map(|(index, point)| row(index, point)),
    )
}

fn points_of(trend: &Trend) -> impl Iterator<Item = (usize, &RunPoint)> {
    trend.over.points.iter().enumerate()
}

fn plot(trends: &Trends, trend: &Trend) -> Plot {
    let unit = trend.over.unit;
    let run = |point: &RunPoint| &trends.runs[point.run];
    let values = points_of(trend).map(|(index, point)| {
        let told = shown(point.value, point.ci, unit);
        Point {
            x: index as f64,
            y: point.value,
            ends: point.ci,
            hover: format!("{}: {} {}", run(point).name, told.value, told.interval),
        }
    });
    let mut series = vec![Series::new("value", Shape::Dots, values.collect())];
    series.extend(levels(trend));
    Plot {
        title: format!("{} from run to run", trend.over.key),
        x: Axis {
            names: points_of(trend).map(|(_, point)| date(&run(point).started)).collect(),
            ..axis("run", None, false)
        },
        y: axis(&trend.over.key.metric, Some(unit), false),
        series,
        markers: trend
            .shifts
            .iter()
            .map(|changed| Marker {
                x: changed.shift.first as f64 - 0.5,
                label: change_text(changed.shift.size, unit).0,
                is_measured: true,
            })
            .collect(),
    }
}

/// The levels between shifts, a straight line each.
fn levels(trend: &Trend) -> Vec<Series> {
    let unit = trend.over.unit;
    let points: Vec<Point> = trend
        .levels()
        .into_iter()
        .zip(0_u32..)
        .map(|(level, index)| Point {
            hover: format!("level {}", render(level, unit)),
            ..Point::plain(f64::from(index), level)
        })
        .collect();
    let begins = trend.shifts.iter().map(|changed| changed.shift.first);
    let begins: Vec<usize> = std::iter::once(0).chain(begins).chain([points.len()]).collect();
    let stretches = begins.windows(2).map(|pair| points[pair[0]..pair[1]].to_vec());
    stretches.map(|points| Series::new("level", Shape::Line, points)).collect()
}

/// Day and minute of a start, `2026-11-22 15:36`.
fn date(started: &str) -> String {
    let minute = started.get(..16).unwrap_or(started);
    minute.replace('T', " ")
}
