//! Figures over runs as a document.

use super::plots::axis;
use crate::document::{
    Audience, Axis, Block, Cell, Document, Marker, Plot, Point, Row, Section, Series, Shape, Table,
    Tone,
};
use crate::values::{counted, percent, shown};
use analysis::findings::Severity;
use analysis::trend::{Changed, LEAST_RUNS, RunPoint, Size, Trend, Trends};
use record::metric::Better;
use record::quantity::{digits, render};

/// Figures of which each has a section of its own; of more, those that shift.
const SECTIONS: usize = 8;

/// The document of some trends: `what` was asked for, of which machine.
pub fn build(trends: &Trends, what: &str, machine: &str) -> Document {
    let shifting = |trend: &&Trend| !trend.shifts.is_empty();
    let own: Vec<&Trend> = match trends.trends.len() {
        0..=SECTIONS => trends.trends.iter().collect(),
        _ => trends.trends.iter().filter(shifting).collect(),
    };
    let mut sections = vec![shifts(trends)];
    sections.extend(own.into_iter().enumerate().map(|(index, trend)| {
        let id = format!("trend-{}", index + 1);
        Section::new(id, trend.over.key.to_string(), of_trend(trends, trend))
    }));
    Document { title: format!("Trend: {what}"), summary: summary(trends, machine), sections }
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
    found.sort_by_key(|(trend, changed)| trend.over.points[changed.shift.at].run);
    let mut blocks = vec![Block::Paragraph(trends.method())];
    let (few, more): (Vec<&Trend>, Vec<&Trend>) =
        trends.trends.iter().partition(|trend| trend.over.points.len() < LEAST_RUNS);
    if !few.is_empty() && !more.is_empty() {
        blocks.push(Block::Paragraph(format!(
            "{} in fewer than {LEAST_RUNS} runs and not searched.",
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
            "what else changed there, and only there",
        ];
        let rows = found.iter().map(|(trend, changed)| shift_row(trends, trend, changed));
        blocks.push(Block::Table(Table::new("Shifts of level, by run", &headings, rows)));
    }
    Section::new("shifts", "Shifts of level", everyone(blocks))
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
    let (change, interval) = match shift.size {
        Size::Ratio(ratio, ends) => (
            change(ratio),
            ends.map(|ends| format!("[{}, {}]", change_number(ends.low), change(ends.high))),
        ),
        Size::Difference(difference, ends) => (
            render(difference, unit),
            ends.map(|ends| format!("[{}, {}]", render(ends.low, unit), render(ends.high, unit))),
        ),
    };
    let environment: Vec<String> = changed
        .environment
        .iter()
        .map(|(name, before, after)| format!("{name}: {before} → {after}"))
        .collect();
    Row::of(vec![
        Cell::plain(trend.over.key.to_string()),
        Cell::plain(name(shift.at)),
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

/// A ratio as a change in percent, `+10.2 %`.
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
    let mut blocks = vec![Block::Plot(plot(trends, trend))];
    if points.len() < LEAST_RUNS {
        let text = format!(
            "In {}: a shift is searched from {LEAST_RUNS} on.",
            counted(points.len(), "run")
        );
        blocks.push(Block::Notes(vec![(Severity::Note, text)]));
    } else if let Some(p) = trend.p.filter(|_| trend.shifts.is_empty()) {
        blocks.push(Block::Paragraph(format!(
            "No shift: chance alone divides these runs as well in {} of cases.",
            percent(p)
        )));
    }
    blocks.push(Block::Table(table(trends, trend)));
    everyone(blocks)
}

fn table(trends: &Trends, trend: &Trend) -> Table {
    let level_of = trend.levels();
    let row = |index: usize, point: &RunPoint| {
        let told = shown(point.value, point.ci, trend.over.unit);
        let begins = trend.shifts.iter().find(|changed| changed.shift.at == index);
        let tone = begins.map_or(Tone::Plain, |changed| tone(trend, changed));
        let relative = match level_of[index] {
            level if level > 0.0 && point.value > 0.0 => change(point.value / level),
            _ => "-".to_owned(),
        };
        Row::of(vec![
            Cell::plain(trends.runs[point.run].name.clone()),
            Cell::toned(told.value, tone),
            Cell::plain(told.interval),
            Cell::plain(relative),
        ])
    };
    Table::new(
        "The figure in each run; its level is the median of the runs between two shifts",
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
    let levels = trend.levels().into_iter().zip(0..);
    let levels = levels.map(|(level, index): (f64, u32)| Point {
        x: f64::from(index),
        y: level,
        ends: None,
        hover: format!("level {}", render(level, unit)),
    });
    let series = |name: &str, points| Series::new(name, Shape::Line, points);
    Plot {
        title: format!("{} from run to run", trend.over.key),
        x: Axis {
            names: points_of(trend).map(|(_, point)| date(&run(point).started)).collect(),
            ..axis("run", None, false)
        },
        y: axis(&trend.over.key.metric, Some(unit), false),
        series: vec![series("value", values.collect()), series("level", levels.collect())],
        markers: trend
            .shifts
            .iter()
            .map(|changed| Marker {
                at: changed.shift.at as f64 - 0.5,
                label: match changed.shift.size {
                    Size::Ratio(ratio, _) => change(ratio),
                    Size::Difference(difference, _) => render(difference, unit),
                },
                is_measured: true,
            })
            .collect(),
    }
}

/// Day and minute of a start, `2026-11-22 15:36`.
fn date(started: &str) -> String {
    let minute = started.get(..16).unwrap_or(started);
    minute.replace('T', " ")
}
