//! The tables of a comparison.

use crate::document::{Audience, Block, Cell, Column, Remark, Row, Table, Tone};
use crate::values::{self, label};
use analysis::compare::conditions::About;
use analysis::compare::{
    Compared, Comparison, Direction, Near, Outcome, printed as text_of, table,
};
use analysis::figure::Figure;
use analysis::findings::Severity;
use analysis::gather::gathered;
use analysis::names::around;
use std::collections::BTreeMap;

/// Findings of a family that are shown where room is short.
const FINDINGS_SHOWN: usize = 12;

/// Experiments that a reason names before it only counts.
const NAMED: usize = 6;

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size < 9.95 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}

/// The findings of a family, a row each, the greatest first; then what stands beside them.
pub(super) fn findings(findings: &[&Compared], caption: &str) -> Vec<(Audience, Block)> {
    let rows = findings
        .iter()
        .enumerate()
        .map(|(at, one)| Row { cells: changed(one).into(), is_spare: at >= FINDINGS_SHOWN });
    let headings = ["figure", "#base", "#new", "change", "#new / base", "#band"];
    let mut blocks = vec![Block::Table(Table::new(caption, &headings, rows)).for_all()];
    blocks.extend(Block::notes(beside(findings)).map(Block::for_all));
    blocks
}

/// Figure, base, new, change, ratio, band.
fn changed(one: &Compared) -> [Cell; 6] {
    let figure = Cell::plain(label(one.base));
    [figure, value(one.base), value(one.new), change(one), ratio(one), band(one)]
}

/// What stands beside findings, each reason once with the figures that have it.
fn beside(findings: &[&Compared]) -> Vec<Remark> {
    let reasons = findings.iter().flat_map(|one| one.reasons.iter().map(|why| (why, *one)));
    let reasons: Vec<(&String, Vec<&Compared>)> = gathered(reasons);
    let told = reasons.into_iter().map(|(reason, figures)| {
        let whose = match figures.as_slice() {
            all if all.len() == findings.len() => "all of them".to_owned(),
            [one] => label(one.base),
            [first, ..] => format!("{} and {} more", label(first.base), figures.len() - 1),
            [] => String::new(),
        };
        Remark::new(Severity::Note, format!("Beside {whose}"), format!("{reason}."))
    });
    told.collect()
}

/// Differences whose interval excludes zero; nothing where there are none.
pub(super) fn differences(apart: &[&Compared]) -> Option<Table> {
    let row = |one: &&Compared| {
        Row::always_shown(vec![
            Cell::plain(label(one.base)),
            value(one.base),
            value(one.new),
            difference(one),
        ])
    };
    (!apart.is_empty()).then(|| {
        Table::new(
            "A value or an end of its interval is not positive, so no ratio exists; the \
             uncorrected interval of the difference excludes zero",
            &["figure", "#base", "#new", "#new - base"],
            apart.iter().map(row),
        )
    })
}

/// Figures that gave no finding, the least p first; some of them where room is short.
pub(super) fn closest(closest: &[&Compared], shown: usize) -> Table {
    let rows = closest.iter().enumerate().map(|(at, one)| Row {
        cells: changed(one).into_iter().chain([p(one)]).collect(),
        is_spare: at >= shown,
    });
    Table::new(
        "The smallest p values among the figures that are not findings (p before correction)",
        &["figure", "#base", "#new", "change", "#new / base", "#band", "#p"],
        rows,
    )
}

/// Why figures were not compared: how many, and of which experiments.
pub(super) fn not_compared(groups: &[(String, Vec<&Figure>)]) -> Table {
    let row = |(why, figures): &(String, Vec<&Figure>)| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for figure in figures {
            *counts.entry(figure.experiment.as_str()).or_default() += 1;
        }
        let mut named: Vec<String> = match figures.as_slice() {
            [only] => vec![label(only)],
            _ => {
                let named = counts.iter().take(NAMED);
                named.map(|(id, count)| format!("{id} ({count})")).collect()
            }
        };
        if counts.len() > NAMED {
            named.push(format!("{} more experiments", counts.len() - NAMED));
        }
        Row::always_shown(vec![
            Cell::plain(figures.len().to_string()),
            Cell::plain(why),
            Cell::plain(named.join(", ")),
        ])
    };
    Table::new(
        "Figures that were not compared, and why",
        &["#figures", "why", "of"],
        groups.iter().map(row),
    )
}

/// Every figure of an experiment in all runs; nothing where no two runs share one.
pub(super) fn side_by_side(
    comparison: &Comparison,
    experiment: &str,
    abouts: &[About],
) -> Option<Table> {
    let several = abouts.len() > 1;
    let printed = printed(comparison, experiment);
    let mut columns = Column::list(&["figure"]);
    if !printed.is_empty() {
        columns.extend(Column::list(&["table", "#printed"]));
    }
    columns.push(Column::number("base"));
    for about in abouts {
        let of = if several { about.run.as_str() } else { "new" };
        columns.push(Column::number(of));
        columns.push(Column::number("new / base"));
        // What a report prints is not tested.
        columns.extend(printed.is_empty().then(|| Column::text("change")));
    }
    let mut partners: Vec<BTreeMap<String, &Compared>> = Vec::new();
    for against in &comparison.against {
        let own = against.figures.iter();
        let own = own.filter(|one| one.base.experiment == experiment);
        partners.push(own.map(|one| (one.base.label(), one)).collect());
    }
    let own = comparison.base.figures.iter();
    let rows: Vec<Row> = own
        .filter(|figure| figure.experiment == experiment)
        .filter(|figure| partners.iter().any(|of| of.contains_key(&figure.label())))
        .map(|figure| {
            let label = figure.label();
            let short = label.strip_prefix(experiment).unwrap_or(&label);
            let mut cells =
                vec![Cell::plain(short.trim_start_matches([':', ' ']).replace(',', ", "))];
            if !printed.is_empty() {
                let printed = printed.get(&label);
                cells.extend(
                    [table, text_of].map(|text| Cell::optional(printed.and_then(|of| text(of)))),
                );
            }
            cells.push(value(figure));
            for of in &partners {
                let shown = match of.get(&label) {
                    Some(one) => [value(one.new), ratio(one), settled(one)],
                    None => [(); 3].map(|()| Cell::absent()),
                };
                cells.extend(shown.into_iter().take(if printed.is_empty() { 3 } else { 2 }));
            }
            Row::always_shown(cells)
        })
        .collect();
    (!rows.is_empty()).then(|| Table { caption: "All common figures".to_owned(), columns, rows })
}

/// Figures of a report's experiment by the labels of the base's; none without a report.
fn printed<'a>(comparison: &Comparison<'a>, experiment: &str) -> BTreeMap<String, &'a Figure> {
    let all = comparison.against.iter().flat_map(|against| &against.figures);
    let own = all.filter(|one| one.base.experiment == experiment);
    let of_report = |one: &Compared<'a>| {
        let printed = [one.base, one.new].into_iter().find(|figure| table(figure).is_some())?;
        Some((one.base.label(), printed))
    };
    own.filter_map(of_report).collect()
}

pub(super) fn nearest(figures: &[&Near], caption: &str) -> Table {
    let rows = figures.iter().map(|one| {
        let [published, nearest] =
            [one.published, one.figure].map(|figure| Cell::plain(label(figure)));
        let printed = Cell::optional(text_of(one.published));
        let table = Cell::optional(table(one.published));
        let values = [one.published, one.figure].map(value);
        let [printed_value, value] = values;
        Row::always_shown(vec![table, published, printed, printed_value, nearest, value])
    });
    let headings =
        ["table", "figure of the report", "#printed", "#value", "nearest figure", "#value"];
    Table::new(caption, &headings, rows)
}

fn value(figure: &Figure) -> Cell {
    Cell::optional(values::of_figure(figure).map(|shown| shown.value))
}

/// `1.24× slower`, `3.1× more`.
fn change(one: &Compared) -> Cell {
    if one.ratio().is_none() {
        return Cell::absent();
    }
    Cell::toned(format!("{}× {}", times(one.size().exp()), one.word()), tone(one))
}

/// A factor of at least 1 with the digits that it deserves.
pub(super) fn times(factor: f64) -> String {
    match factor {
        factor if factor < 1.1 => format!("{factor:.3}"),
        factor if factor < 10.0 => format!("{factor:.2}"),
        factor => record::quantity::digits(factor),
    }
}

pub(super) fn tone(one: &Compared) -> Tone {
    match one.finding() {
        Some(Direction::Worse) => Tone::Bad,
        Some(Direction::Better) => Tone::Good,
        Some(Direction::Up | Direction::Down) => Tone::Warn,
        None => Tone::Plain,
    }
}

/// The change of a finding; a word for every other figure.
fn settled(one: &Compared) -> Cell {
    match one.outcome {
        Outcome::Finding(_) => change(one),
        Outcome::Quiet => Cell::toned("no change", Tone::Muted),
        Outcome::Untested(_) => Cell::toned("not tested", Tone::Muted),
    }
}

fn ratio(one: &Compared) -> Cell {
    let Some(ratio) = one.ratio() else {
        return difference(one);
    };
    let interval = one.interval().map(values::ratios).unwrap_or_default();
    let unit = if one.in_cycles { " in cycles" } else { "" };
    Cell::plain(format!("{}{}{unit}", values::ratio(ratio), around(" ", &interval, "")))
}

fn difference(one: &Compared) -> Cell {
    let Some(value) = one.difference() else {
        return Cell::absent();
    };
    let shown = values::shown(value, one.interval(), one.metric.shown_unit());
    Cell::plain(format!("{} {}", shown.value, shown.interval).trim_end())
}

fn band(one: &Compared) -> Cell {
    Cell::toned(format!("± {} %", percent(one.band.share)), Tone::Muted)
}

fn p(one: &Compared) -> Cell {
    Cell::optional(one.p.map(|p| match p {
        p if p < 1e-4 => format!("{p:.0e}"),
        p => format!("{p:.4}"),
    }))
}
