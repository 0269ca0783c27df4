//! One experiment's section: question, table, plot, discussion.

use super::{groups, matrix, plots, spans};
use crate::analysis::causes;
use crate::analysis::figure::{Figure, Judged};
use crate::analysis::findings::Severity;
use crate::analysis::verdict::Verdict;
use crate::report::document::{Audience, Block, Cell, Column, Row, Section, Table, Tone};
use crate::report::values;
use record::event::{Ending, PlannedExperiment};
use record::key::Value;
use record::run::Run;
use record::view::View;

/// Rows above which a ladder's table is thinned where room is short.
pub(super) const MANY_ROWS: usize = 24;

/// More notes of one kind than this are told as one.
const FOLDED_FROM: usize = 5;

/// The section of an experiment and its figures.
pub(crate) fn section(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Section {
    let mut blocks = Vec::new();
    if let Some(question) = question(&planned.manual) {
        blocks.push((Audience::Page, Block::Paragraph(question)));
    }
    if let Some(absence) = &planned.skipped {
        let needed = absence
            .needed
            .as_ref()
            .map_or_else(String::new, |needed| format!(" (needs {needed})"));
        let text = format!("Skipped: {}{needed}.", absence.reason);
        blocks.push((Audience::Everyone, Block::Paragraph(text)));
    } else {
        let shown = plots::Shown {
            name: "",
            run,
            planned,
            figures,
        };
        for (at, block) in plots::of_experiment(&[shown]).into_iter().enumerate() {
            // A terminal has room for the most telling one.
            let audience = if at == 0 {
                Audience::Everyone
            } else {
                Audience::Page
            };
            blocks.push((audience, block));
        }
        for view in planned.all_views() {
            if let View::Spans { table, .. } = view {
                let tables = spans::tables(run, planned, table).into_iter();
                blocks.extend(tables.map(|table| (Audience::Everyone, Block::Table(table))));
            }
        }
        blocks.extend(
            tables(planned, figures)
                .into_iter()
                .map(|(audience, table)| (audience, Block::Table(table))),
        );
        let absent = absent(figures);
        if !absent.is_empty() {
            blocks.push((Audience::Everyone, Block::Notes(absent)));
        }
        let notes = discussion(run, figures);
        if !notes.is_empty() {
            blocks.push((Audience::Page, Block::Subheading("Discussion".to_owned())));
            blocks.push((Audience::Page, Block::Notes(notes)));
        }
        // What happened, and who did it, is the result of an experiment whose view are spans.
        let told = told(figures);
        if matches!(planned.view, View::Spans { .. }) && !told.is_empty() {
            blocks.push((Audience::Terminal, Block::Notes(told)));
        }
        let because = predictions(figures);
        if !because.is_empty() {
            blocks.push((
                Audience::Page,
                Block::Subheading("What the predictions rest on".to_owned()),
            ));
            blocks.push((Audience::Page, Block::Notes(because)));
        }
    }
    if !planned.manual.is_empty() {
        blocks.push((Audience::Page, Block::Manual(planned.manual.clone())));
    }
    Section {
        id: planned.id.clone(),
        heading: format!("{}: {}", planned.id, planned.title),
        blocks,
    }
}

/// The text under the manual's heading `Question`.
fn question(manual: &str) -> Option<String> {
    let mut lines = manual.lines().skip_while(|line| {
        !(line.starts_with('#') && line.trim_start_matches('#').trim() == "Question")
    });
    lines.next()?;
    let text: Vec<&str> = lines
        .take_while(|line| !line.starts_with('#'))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    (!text.is_empty()).then(|| text.join(" "))
}

/// A table per metric class: measured cases first, derived figures in their own table. What was
/// skipped stands below them, with its reason.
fn tables(planned: &PlannedExperiment, figures: &[&Figure]) -> Vec<(Audience, Table)> {
    let is_derived = |figure: &Figure| figure.metric.as_ref().is_some_and(|metric| metric.derived);
    let (derived, measured): (Vec<&Figure>, Vec<&Figure>) = figures
        .iter()
        .filter(|figure| figure.outcome != Ending::Skipped)
        .partition(|figure| is_derived(figure));
    let mut tables = Vec::new();
    if let View::Matrix {
        rows,
        columns,
        metric,
        ..
    } = &planned.view
    {
        // The view's metric first, then what else has both parameters.
        let others = planned.metrics.iter().map(|metric| metric.name.as_ref());
        let others = others.filter(|other| other != metric);
        for metric in std::iter::once(metric.as_str()).chain(others) {
            let matrix = matrix::table(planned, figures, rows, columns, metric);
            tables.extend(matrix.into_iter().map(|table| (Audience::Everyone, table)));
        }
    }
    for alike in by_parameters(&measured) {
        let whole = table(planned, &alike, "Measured");
        match groups::tables(planned, &alike) {
            None => tables.push((Audience::Everyone, whole)),
            Some(short) => {
                tables.push((Audience::Page, whole));
                tables.extend(short.into_iter().map(|table| (Audience::Terminal, table)));
            }
        }
    }
    for alike in by_parameters(&derived) {
        let table = table(planned, &alike, "Derived from several cases");
        tables.push((Audience::Everyone, table));
    }
    tables
}

/// Figures in groups whose cases have the same parameters, so that no table has empty columns.
fn by_parameters<'figures>(figures: &[&'figures Figure]) -> Vec<Vec<&'figures Figure>> {
    let names = |figure: &Figure| -> Vec<String> {
        figure.case.0.iter().map(|(name, _)| name.clone()).collect()
    };
    let mut groups: Vec<Vec<&Figure>> = Vec::new();
    for figure in figures {
        match groups
            .iter_mut()
            .find(|group| names(group[0]) == names(figure))
        {
            Some(group) => group.push(figure),
            None => groups.push(vec![figure]),
        }
    }
    groups
}

pub(super) fn table(planned: &PlannedExperiment, figures: &[&Figure], what: &str) -> Table {
    let (fixed, varying) = parameters(figures);
    let several_metrics = figures
        .iter()
        .filter_map(|figure| figure.metric.as_ref().map(|metric| &metric.name))
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        > 1;
    let unit = |name: &str| planned.units.get(name).copied();
    let mut columns: Vec<Column> = varying
        .iter()
        .map(|name| {
            let is_number = figures
                .iter()
                .any(|figure| matches!(figure.case.get(name), Some(Value::Int(_))));
            Column {
                heading: name.clone(),
                is_number,
            }
        })
        .collect();
    if several_metrics {
        columns.push(Column::text("metric"));
    }
    columns.extend([
        Column::number("predicted"),
        Column::number("measured"),
        Column::number("interval"),
        Column::number("cycles"),
        Column::text("verdict"),
    ]);
    let rows = figures.iter().map(|figure| {
        let mut cells: Vec<Cell> = varying
            .iter()
            .map(|name| match figure.case.get(name) {
                Some(value) => Cell::plain(values::parameter(value, unit(name))),
                None => Cell::toned("-", Tone::Muted),
            })
            .collect();
        if several_metrics {
            let name = values::metric(figure);
            cells.push(Cell::plain(name));
        }
        cells.extend(quantities(figure));
        Row {
            cells,
            is_spare: is_spare(planned, figures.len(), figure),
        }
    });
    let fixed: Vec<String> = fixed
        .iter()
        .map(|(name, value)| format!("{name} {}", values::parameter(value, unit(name))))
        .collect();
    let caption = match (
        several_metrics,
        figures.iter().find_map(|figure| figure.metric.as_ref()),
    ) {
        (false, Some(metric)) => format!("{what}: {}", metric.name.replace('_', " ")),
        _ => what.to_owned(),
    };
    Table {
        caption: if fixed.is_empty() {
            caption
        } else {
            format!("{caption}; {}", fixed.join(", "))
        },
        columns,
        rows: rows.collect(),
    }
}

/// Parameters that all figures share, with their value, and the names of those that vary.
fn parameters(figures: &[&Figure]) -> (Vec<(String, Value)>, Vec<String>) {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in figures.iter().flat_map(|figure| &figure.case.0) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (mut fixed, mut varying) = (Vec::new(), Vec::new());
    for name in names {
        let mut seen = figures.iter().map(|figure| figure.case.get(name));
        let first = seen.next().flatten();
        match first {
            Some(value) if figures.len() > 1 && seen.all(|other| other == Some(value)) => {
                fixed.push((name.clone(), value.clone()));
            }
            _ => varying.push(name.clone()),
        }
    }
    (fixed, varying)
}

/// Predicted, measured, interval, cycles, verdict.
fn quantities(figure: &Figure) -> Vec<Cell> {
    let predicted = match (figure.shown_prediction(), &figure.metric) {
        (Some(judged), Some(metric)) => match &judged.prediction.range {
            Some(range) => Cell::plain(values::range(range, metric.unit)),
            None => Cell::toned("unknown", Tone::Muted),
        },
        _ => Cell::toned("-", Tone::Muted),
    };
    let shown = values::of_figure(figure);
    let interval = match &shown {
        Some(shown) if !shown.interval.is_empty() => Cell::plain(shown.interval.clone()),
        _ => Cell::toned("-", Tone::Muted),
    };
    let cycles = match values::of_cycles(figure) {
        Some(cycles) => Cell::plain(cycles),
        None => Cell::toned("-", Tone::Muted),
    };
    vec![
        predicted,
        shown.map_or_else(
            || Cell::toned("-", Tone::Muted),
            |shown| Cell::plain(shown.value),
        ),
        interval,
        cycles,
        verdict(figure),
    ]
}

/// The verdict, else the outcome.
pub(crate) fn verdict(figure: &Figure) -> Cell {
    let judged = figure.shown_prediction().and_then(|judged| judged.verdict);
    let disturbed = figure
        .stats
        .as_ref()
        .is_some_and(|stats| stats.used_disturbed);
    let (text, tone) = match (figure.outcome, judged) {
        (_, Some(Verdict::Impossible)) => (Verdict::Impossible.text().to_owned(), Tone::Bad),
        (Ending::Failed, _) => ("failed".to_owned(), Tone::Bad),
        (Ending::Skipped, _) => ("skipped".to_owned(), Tone::Muted),
        (Ending::Measured, Some(Verdict::Within)) => {
            (Verdict::Within.text().to_owned(), Tone::Good)
        }
        (Ending::Measured, Some(verdict)) => (verdict.text().to_owned(), Tone::Warn),
        (Ending::Measured, None) => ("unpredicted".to_owned(), Tone::Muted),
    };
    let text = if disturbed {
        format!("{text} (disturbed)")
    } else {
        text
    };
    Cell::toned(text, tone)
}

/// Rungs between octaves of a long ladder, unless something is wrong with them.
fn is_spare(planned: &PlannedExperiment, rows: usize, figure: &Figure) -> bool {
    let View::Line { over, .. } = &planned.view else {
        return false;
    };
    let is_odd = figure
        .case
        .int(over)
        .is_some_and(|at| !at.is_power_of_two());
    let is_fine = figure.outcome == Ending::Measured
        && figure
            .shown_prediction()
            .is_none_or(|judged| judged.verdict == Some(Verdict::Within));
    rows > MANY_ROWS && is_odd && is_fine
}

/// What has no figure, and why.
fn absent(figures: &[&Figure]) -> Vec<(Severity, String)> {
    let absent = figures.iter().filter_map(|figure| {
        let (word, severity) = match figure.outcome {
            Ending::Measured => return None,
            Ending::Skipped => ("skipped", Severity::Note),
            Ending::Failed => ("failed", Severity::Error),
        };
        let reason = figure.reason.as_deref().unwrap_or("no reason was given");
        let needed = figure.needed.as_ref();
        let needed = needed.map_or_else(String::new, |needed| format!("; it needs {needed}"));
        let text = format!("{}: {word}: {reason}{needed}.", name(figure));
        Some((severity, text))
    });
    merged(absent.collect())
}

/// Verdicts with candidate causes, and what else a reader must know of single figures.
fn discussion(run: &Run, figures: &[&Figure]) -> Vec<(Severity, String)> {
    let mut notes: Vec<(Severity, String)> = Vec::new();
    for figure in figures {
        let name = name(figure);
        let causes = causes::of(run, figure);
        if let Some(verdict) = missed(figure) {
            let causes = match causes.is_empty() {
                true => "nothing in the recorded environment explains it".to_owned(),
                false => format!("candidate causes: {}", causes.join("; ")),
            };
            notes.push((
                Severity::Note,
                format!("{name}: {}; {causes}.", verdict.text()),
            ));
        }
        for note in &figure.notes {
            let severity = match note.starts_with("disturbed:") || note.starts_with("suspicious") {
                true => Severity::Warning,
                false => Severity::Note,
            };
            notes.push((severity, format!("{name}: {note}.")));
        }
        let efficiency = figure.bound.as_ref().zip(figure.value);
        if let Some((check, efficiency)) =
            efficiency.and_then(|(check, value)| Some((check, check.efficiency(value)?)))
        {
            let text = format!(
                "{name}: {} of the bound ({}).",
                values::percent(efficiency),
                check.rule.rule
            );
            notes.push((Severity::Note, text));
        }
    }
    merged(folded(notes))
}

/// What statistics say of very many figures, each with numbers of its own, is told once.
fn folded(notes: Vec<(Severity, String)>) -> Vec<(Severity, String)> {
    const KINDS: [(&str, &str); 2] = [
        (
            "disturbed: ",
            "disturbed: too many of their rounds were to leave these out",
        ),
        ("two modes: ", "two modes"),
    ];
    let kind_of = |text: &str| {
        let rest = text.split_once(": ").map_or("", |(_, rest)| rest);
        KINDS.iter().position(|(start, _)| rest.starts_with(start))
    };
    let counts = [0, 1].map(|kind| {
        let alike = notes.iter().filter(|(_, text)| kind_of(text) == Some(kind));
        alike.count()
    });
    let fold = |(severity, text): (Severity, String)| match kind_of(&text) {
        Some(kind) if counts[kind] > FOLDED_FROM => {
            let name = text.split_once(": ").map_or("", |(name, _)| name);
            let words = KINDS[kind].1;
            let text =
                format!("{name}: {words}; each one's numbers are in `plumb report --format json`.");
            (severity, text)
        }
        _ => (severity, text),
    };
    notes.into_iter().map(fold).collect()
}

/// What the experiment itself noted, without what statistics say of single figures.
fn told(figures: &[&Figure]) -> Vec<(Severity, String)> {
    let told = figures.iter().flat_map(|figure| {
        let name = name(figure);
        let texts = figure.told.iter();
        texts.map(move |note| (Severity::Note, format!("{name}: {note}.")))
    });
    merged(told.collect())
}

/// Texts that differ only in the figure's name are told once, with all names.
fn merged(notes: Vec<(Severity, String)>) -> Vec<(Severity, String)> {
    let mut groups: Vec<(Severity, String, Vec<String>)> = Vec::new();
    for (severity, text) in notes {
        let (name, rest) = text.split_once(": ").unwrap_or(("", &text));
        match groups
            .iter_mut()
            .find(|(other, have, _)| *other == severity && have == rest)
        {
            Some((.., names)) => names.push(name.to_owned()),
            None => groups.push((severity, rest.to_owned(), vec![name.to_owned()])),
        }
    }
    groups.sort_by_key(|(severity, ..)| *severity);
    let texts = groups.into_iter().map(|(severity, rest, names)| {
        let names = match names.as_slice() {
            [first, .., last] if names.len() > 4 => {
                format!("{first} … {last} ({} figures)", names.len())
            }
            _ => names.join("; "),
        };
        (severity, format!("{names}: {rest}"))
    });
    texts.collect()
}

fn missed(figure: &Figure) -> Option<Verdict> {
    let verdict = figure.shown_prediction()?.verdict?;
    (!matches!(verdict, Verdict::Within | Verdict::Impossible)).then_some(verdict)
}

/// Why each prediction was made, told once for all figures that share the reason.
fn predictions(figures: &[&Figure]) -> Vec<(Severity, String)> {
    let mut notes = Vec::new();
    for figure in figures {
        let mut of = |judged: &Option<Judged>, kind: &str| {
            if let Some(judged) = judged {
                let because = judged.prediction.because.trim_end_matches('.');
                notes.push((
                    Severity::Note,
                    format!("{}{kind}: {because}.", name(figure)),
                ));
            }
        };
        of(&figure.prior, "");
        of(&figure.derived, " (from earlier figures)");
    }
    merged(notes)
}

/// Case and metric, without the experiment.
fn name(figure: &Figure) -> String {
    let case = figure.case.to_string();
    match (&figure.metric, case.is_empty()) {
        (Some(metric), true) => metric.name.to_string(),
        (Some(metric), false) => format!("{case} {}", metric.name),
        (None, true) => figure.experiment.clone(),
        (None, false) => case,
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLDED_FROM, folded, merged};
    use crate::analysis::findings::Severity;

    #[test]
    fn very_many_notes_of_a_kind_are_one_and_few_keep_their_numbers() {
        let notes = |count: usize| -> Vec<(Severity, String)> {
            let note = |at| {
                let text = format!("size={at} latency: disturbed: 7 of 12 rounds; alone {at} ns.");
                (Severity::Warning, text)
            };
            (0..count).map(note).collect()
        };
        assert_eq!(merged(folded(notes(FOLDED_FROM))).len(), FOLDED_FROM);
        let mut many = notes(FOLDED_FROM + 1);
        many.push((Severity::Note, "size=1 latency: cache: 3 %.".to_owned()));
        let told = merged(folded(many));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].1.contains("(6 figures): disturbed: "), "{told:?}");
        assert!(told[1].1.ends_with("cache: 3 %."), "{told:?}");
    }
}
