//! Tables where room is short: a row for each case, or for each line of cases where there are many,
//! with a column for each of the first metrics.

use super::columns;
use super::experiment::{by_parameters, table};
use crate::document::{Cell, Column, Row, Table, Tone};
use crate::values;
use analysis::figure::Figure;
use analysis::gather::{distinct, gathered};
use analysis::misses::{self, KINDS, is_estimate};
use analysis::names::{Names, around, words};
use analysis::verdict::Verdict;
use record::event::{Ending, PlannedExperiment, Range};
use record::key::CaseId;
use record::view::View;

/// Metrics that have a column: more do not fit where room is short.
const MOST_METRICS: usize = 4;

/// Cases that have a row each; more are reported by line.
const MOST_ROWS: usize = 32;

/// Cases that have a column each, where there are more metrics than cases.
const MOST_COLUMNS: usize = 3;

/// Cases of one metric that have a row with all its quantities each.
const MOST_WHOLE: usize = 8;

/// Metrics without a place that are named.
const NAMED: usize = 3;

/// Metrics that have a row each.
const MOST_METRIC_ROWS: usize = 12;

/// Short forms of the tables of some figures of an experiment.
pub fn tables(
    planned: &PlannedExperiment,
    names: &Names,
    figures: &[&Figure],
    what: &str,
) -> Vec<Table> {
    let cases = cases(figures);
    let metrics = metrics(planned, figures);
    if metrics.is_empty() {
        return Vec::new();
    }
    let is_uniform = by_parameters(figures).len() == 1;
    if cases.len() == 1 || (metrics.len() == 1 && cases.len() <= MOST_WHOLE && is_uniform) {
        return vec![table(planned, figures, what, columns::SHORT)];
    }
    if cases.len() <= MOST_COLUMNS && metrics.len() > MOST_METRICS {
        let table = by_metric(names, figures, (&cases, &metrics), what);
        return vec![tidied(table, 1)];
    }
    let keys: Vec<&str> = match is_uniform || cases.len() > MOST_ROWS {
        true => parameters(figures),
        false => Vec::new(),
    };
    vec![by_line(planned, names, figures, (&keys, &metrics), what)]
}

/// Every parameter of some case.
fn parameters<'figures>(figures: &[&'figures Figure]) -> Vec<&'figures str> {
    distinct(figures.iter().flat_map(|figure| &figure.case.0).map(|(name, _)| name.as_str()))
}

fn cases<'figures>(figures: &[&'figures Figure]) -> Vec<&'figures CaseId> {
    distinct(figures.iter().map(|figure| &figure.case))
}

/// Metrics that some figure has: the view's first, then in the plan's order.
fn metrics<'run>(planned: &'run PlannedExperiment, figures: &[&Figure]) -> Vec<&'run str> {
    let mut metrics = planned.view.metrics();
    let others = planned.metrics.iter().map(|metric| metric.name.as_ref());
    let others: Vec<&str> = others.filter(|other| !metrics.contains(other)).collect();
    metrics.extend(others);
    metrics.retain(|metric| figures.iter().any(|figure| figure.metric_name() == *metric));
    metrics
}

/// What the caption says of metrics that have no place.
fn unshown(metrics: &[&str]) -> String {
    let which = match metrics.len() {
        0 => return String::new(),
        many if many > NAMED => format!("{many} further metrics"),
        _ => words(&metrics.join(", ")),
    };
    format!("; without {which}, which `--format csv` has")
}

/// A row for each metric, a column for each of a few cases.
fn by_metric(
    names: &Names,
    figures: &[&Figure],
    (cases, metrics): (&[&CaseId], &[&str]),
    what: &str,
) -> Table {
    let (metrics, left) = metrics.split_at(metrics.len().min(MOST_METRIC_ROWS));
    let mut columns = Column::list(&["metric"]);
    columns.extend(cases.iter().map(|case| {
        let heading = of_case(figures, case).next().map(|figure| names.case(figure));
        Column::number(&heading.unwrap_or_default())
    }));
    columns.push(Column::number("hold"));
    let rows = metrics.iter().map(|metric| {
        let own = |case| of_case(figures, case).filter(|figure| figure.metric_name() == *metric);
        let mut cells = vec![Cell::plain(words(metric))];
        cells.extend(cases.iter().map(|case| extremes(own(case))));
        let all: Vec<&Figure> = cases.iter().flat_map(|case| own(case)).collect();
        cells.push(within(&all));
        Row::of(cells)
    });
    let caption = format!("{what}{}{}", unshown(left), values::told_of_core(figures));
    Table { caption, rows: rows.collect(), columns }
}

fn of_case<'figures>(
    figures: &[&'figures Figure],
    case: &CaseId,
) -> impl Iterator<Item = &'figures Figure> {
    let own = figures.iter().filter(move |figure| figure.case == *case);
    own.copied()
}

/// A row for each case, or for the cases that differ only in parameters of many values. Without
/// parameters that all cases have, the cases are named in one column.
fn by_line(
    planned: &PlannedExperiment,
    names: &Names,
    figures: &[&Figure],
    (keys, metrics): (&[&str], &[&str]),
    what: &str,
) -> Table {
    let values = |key: &str| distinct(figures.iter().filter_map(|figure| figure.case.get(key)));
    let mut shown: Vec<&str> = keys
        .iter()
        .filter(|key| {
            values(key).len() > 1 || figures.iter().any(|one| one.case.get(key).is_none())
        })
        .copied()
        .collect();
    let rest = |figure: &Figure, shown: &[&str]| -> CaseId {
        let parts = figure.case.0.iter();
        let parts = parts.filter(|(name, _)| keys.is_empty() || shown.contains(&name.as_str()));
        CaseId(parts.cloned().collect())
    };
    let lines = |shown: &[&str]| gathered(figures.iter().map(|one| (rest(one, shown), *one)));
    let mut along: Vec<&str> = Vec::new();
    while lines(&shown).len() > MOST_ROWS && shown.len() > 1 {
        let Some(longest) = along_first(planned, &shown, |key| {
            let values = values(key);
            (values.iter().all(|value| value.int().is_some()), values.len())
        }) else {
            break;
        };
        shown.retain(|key| *key != longest);
        along.push(longest);
    }
    let (metrics, left) = metrics.split_at(metrics.len().min(MOST_METRICS));
    let leading = along.len() + if keys.is_empty() { 1 } else { shown.len() };
    let unit = |key: &str| planned.units.get(key).copied();
    let mut columns: Vec<Column> = match keys.is_empty() {
        true => Column::list(&["case"]),
        false => shown
            .iter()
            .map(|key| Column {
                is_number: values(key).iter().any(|value| value.int().is_some()),
                ..Column::text(&words(key))
            })
            .collect(),
    };
    columns.extend(along.iter().map(|key| Column::number(&words(key))));
    columns.extend(metrics.iter().map(|metric| Column::number(&words(metric))));
    columns.push(Column::number("hold"));
    let rows = lines(&shown).into_iter().map(|(line, own)| {
        let mut cells: Vec<Cell> = match (keys.is_empty(), own.first()) {
            (true, Some(first)) => vec![Cell::plain(names.case(first))],
            _ => shown
                .iter()
                .map(|key| Cell::of(line.get(key).map(|value| values::parameter(value, unit(key)))))
                .collect(),
        };
        cells.extend(along.iter().map(|key| {
            let span = names.span(key, &own);
            let name = format!("{} ", words(key));
            Cell::plain(span.strip_prefix(&name).unwrap_or(&span))
        }));
        cells.extend(metrics.iter().map(|metric| {
            let of_metric = own.iter().filter(|figure| figure.metric_name() == *metric);
            extremes(of_metric.copied())
        }));
        cells.push(within(&own));
        Row::of(cells)
    });
    let ends = around(", least and most along ", &words(&along.join(" and ")), "");
    let table = Table {
        caption: format!("{what}{ends}{}{}", unshown(left), values::told_of_core(figures)),
        rows: rows.collect(),
        columns,
    };
    tidied(table, leading)
}

/// The parameter along which cases are grouped first: the view's, else the number of most values,
/// else the text of fewest. What names the operation, the first text of a case, is the last to go:
/// a range over several operations says nothing about any.
fn along_first<'run>(
    planned: &PlannedExperiment,
    shown: &[&'run str],
    values: impl Fn(&str) -> (bool, usize),
) -> Option<&'run str> {
    let of_view = match &planned.view {
        View::Line { over, .. } => Some(over.as_str()),
        View::Curve { along, .. } => Some(along.as_str()),
        _ => None,
    };
    let operation = shown.iter().find(|key| !values(key).0);
    let others = shown.iter().filter(|key| Some(*key) != operation).max_by_key(|key| {
        let (is_number, count) = values(key);
        let count = isize::try_from(count).unwrap_or(isize::MAX);
        // Along numbers least and greatest mean more than along names; of equals the last goes.
        (Some(**key) == of_view, is_number, if is_number { count } else { -count })
    });
    others.or(operation).copied()
}

/// The only value, or the least and the greatest.
fn extremes<'figures>(figures: impl Iterator<Item = &'figures Figure>) -> Cell {
    let figures: Vec<&Figure> = figures.collect();
    let values: Vec<f64> = figures.iter().filter_map(|figure| figure.value).collect();
    let unit = figures.iter().find_map(|figure| figure.metric.as_ref());
    let ends = values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max));
    let (Some(unit), Some((low, high))) = (unit.map(|metric| metric.unit), ends) else {
        return Cell::absent();
    };
    if low < high {
        let likely = low;
        return Cell::plain(values::range(&Range { low, likely, high }, unit));
    }
    let only = figures.iter().find(|figure| figure.value.is_some());
    let shown = only.and_then(|figure| values::value(figure));
    Cell::plain(shown.unwrap_or_default())
}

/// Leaves out rows without any value, and the last column, how many figures are as predicted, where
/// all are or nothing was predicted of any: the caption says so.
fn tidied(mut table: Table, keys: usize) -> Table {
    let is_empty = |row: &Row| {
        let metrics = row.cells.iter().skip(keys);
        metrics.rev().skip(1).all(|cell| cell.tone == Tone::Muted)
    };
    table.rows.retain(|row| !is_empty(row));
    let tones: Vec<Tone> =
        table.rows.iter().filter_map(|row| row.cells.last().map(|cell| cell.tone)).collect();
    if tones.contains(&Tone::Warn) {
        return table;
    }
    let predicted = tones.iter().filter(|tone| **tone == Tone::Good).count();
    table.caption.push_str(match predicted {
        0 => "",
        all if all == tones.len() => "; all as predicted",
        _ => "; all predictions hold",
    });
    table.columns.pop();
    for row in &mut table.rows {
        row.cells.pop();
    }
    table
}

/// How many of the figures with a prediction are as predicted, by each that they have. A range that
/// says nothing is no prediction, and a single number is an estimate that none can be within.
fn within(figures: &[&Figure]) -> Cell {
    let judged = figures.iter().filter(|figure| !is_estimate(figure));
    let verdicts = judged.filter_map(|figure| {
        let both = figure.prior.iter().chain(&figure.derived);
        let verdicts = both.filter_map(|judged| judged.verdict);
        let verdicts: Vec<Verdict> =
            verdicts.filter(|verdict| *verdict != Verdict::Unpredicted).collect();
        let all = verdicts.iter().all(|verdict| *verdict == Verdict::Within);
        (!verdicts.is_empty()).then_some(figure.outcome == Ending::Measured && all)
    });
    let verdicts: Vec<bool> = verdicts.collect();
    let within = verdicts.iter().filter(|is_within| **is_within).count();
    let is_unjudged = |figure: &&&Figure| {
        !is_estimate(figure) && KINDS.iter().any(|kind| misses::is_unjudged(figure, *kind))
    };
    let unjudged = match figures.iter().filter(is_unjudged).count() {
        0 => String::new(),
        unjudged => format!("; {unjudged} without an interval"),
    };
    let tone = match verdicts.len() {
        0 => return Cell::absent(),
        all if within == all && unjudged.is_empty() => Tone::Good,
        _ => Tone::Warn,
    };
    Cell::toned(format!("{within} of {}{unjudged}", verdicts.len()), tone)
}

#[cfg(test)]
mod tests {
    use super::{along_first, tables, tidied, unshown, within};
    use crate::document::{Cell, Column, Row, Table, Tone};
    use analysis::figure::Figure;
    use analysis::names::Names;
    use analysis::{figures, sample};
    use record::key::CaseId;

    #[test]
    fn a_caption_says_that_metrics_are_left_out() {
        assert_eq!(unshown(&[]), "");
        assert_eq!(unshown(&["cpu_near"]), "; without cpu near, which `--format csv` has");
        let many = unshown(&["a", "b", "c", "d"]);
        assert_eq!(many, "; without 4 further metrics, which `--format csv` has");
    }

    fn with(tone: Tone) -> Row {
        Row::of(vec![Cell::plain("a"), Cell::plain("1 ns"), Cell::toned("1 of 1", tone)])
    }

    fn tidied_of(tones: &[Tone]) -> Table {
        let table = Table {
            caption: "Measured".to_owned(),
            columns: Column::list(&["case", "cost", "within"]),
            rows: tones.iter().map(|tone| with(*tone)).collect(),
        };
        tidied(table, 1)
    }

    #[test]
    fn only_figures_with_a_prediction_are_counted_as_within() {
        let all = figures(&sample::run());
        let own = |experiment: &str| -> Vec<&Figure> {
            let own = all.iter().filter(|one| one.experiment == experiment);
            own.filter(|one| one.value.is_some()).collect()
        };
        // Its prediction says that it is unknown.
        assert_eq!(within(&own("os.pipe")), Cell::absent());
        let syscalls = within(&own("os.syscall"));
        assert_eq!(syscalls, Cell::toned("1 of 3", Tone::Warn));
        let rate = within(&own("clock.rate"));
        assert_eq!(rate, Cell::toned("1 of 1", Tone::Good));
        let unpredicted = tidied_of(&[Tone::Muted, Tone::Muted]);
        assert_eq!((unpredicted.caption.as_str(), unpredicted.columns.len()), ("Measured", 2));
        // What the column said is in the caption: that all hold, and whether each had a prediction.
        let [all, some] = [&[Tone::Good; 2][..], &[Tone::Good, Tone::Muted]].map(tidied_of);
        for table in [&all, &some] {
            assert_eq!((table.columns.len(), table.rows.len()), (2, 2));
            assert!(table.caption.starts_with("Measured; all "), "{}", table.caption);
        }
        assert_ne!(all.caption, some.caption);
        let missed = tidied_of(&[Tone::Good, Tone::Warn]);
        assert_eq!((missed.caption.as_str(), missed.columns.len()), ("Measured", 3));
    }

    #[test]
    fn the_operation_is_told_apart_while_anything_else_can_be_told_together() {
        let run = sample::run();
        let plan = run.plan.as_ref().expect("the sample has a plan");
        let mut planned = plan.experiments[1].clone();
        planned.metrics.truncate(1);
        let all = figures(&run);
        let one = all.iter().find(|one| one.experiment == "os.syscall");
        let one = one.expect("is in the sample");
        let mut cases: Vec<Figure> = Vec::new();
        for via in ["pipe", "eventfd", "futex", "mqueue", "socket"] {
            for (pair, size) in (0..12).map(|at| (["same", "llc"][at % 2], 1_u64 << at)) {
                let mut figure = one.clone();
                figure.case = CaseId::new().with("via", via).with("pair", pair).with("size", size);
                cases.push(figure);
            }
        }
        let figures: Vec<&Figure> = cases.iter().collect();
        let names = Names::of(&planned, &figures);
        let tables = tables(&planned, &names, &figures, "Measured");
        let headings = tables[0].columns.iter().map(|one| one.heading.as_str());
        let headings: Vec<&str> = headings.collect();
        assert_eq!(headings[..3], ["via", "pair", "size"], "{headings:?}");
        assert_eq!(tables[0].rows.len(), 10);
        // Where there is no number left, the text of fewest values goes, and the operation last.
        let first = |shown: &[&'static str]| {
            along_first(&planned, shown, |key| match key {
                "size" => (true, 12),
                "via" => (false, 5),
                "mode" => (false, 6),
                _ => (false, 2),
            })
        };
        assert_eq!(first(&["via", "pair", "mode", "size"]), Some("size"));
        assert_eq!(first(&["via", "pair", "mode"]), Some("pair"));
        assert_eq!(first(&["via", "mode"]), Some("mode"));
        assert_eq!(first(&["via"]), Some("via"));
    }
}
