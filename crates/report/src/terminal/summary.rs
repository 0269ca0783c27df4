//! A run on one screen: at most [`LINES`] lines of at most [`COLUMNS`] columns.

use super::{LEAST_WIDTH, Look, MOST_WIDTH, bold, marked, of_section, paint, wrapped};
use crate::build::summary::{Row, Summary};
use crate::document::{Cell, Tone};
use crate::plain;

/// Lines that it has at most.
pub const LINES: usize = 60;

/// Columns that it has at most.
pub const COLUMNS: usize = 100;

/// Findings that it has room for.
const LOOK_AT: usize = 5;

/// Columns of the group's title.
const GROUP: usize = 6;

/// Letters that a predicted or measured cell of several figures has at most.
const CELL: usize = 24;

/// Width from which there is room for intervals.
const WITH_INTERVALS: usize = 96;

/// What stands in place of what has no room.
const NO_ROOM: &str = "…";

const HEADINGS: [&str; 4] = ["measured", "interval", "predicted", "verdict"];

/// The screen, ending in a newline; `next` are the commands that lead on. Texts steer no terminal.
pub fn screen(summary: &Summary, next: &[&str], look: Look) -> String {
    let summary = &plain::summary(summary);
    let whole = Look { width: look.width.clamp(LEAST_WIDTH, MOST_WIDTH), ..look };
    let look = Look { width: whole.width.min(COLUMNS), ..look };
    let mut head = wrapped(&summary.title, look.width, "");
    if let Some(first) = head.first_mut() {
        *first = bold(first, look);
    }
    if let Some(quality) = &summary.quality {
        head.extend(labelled("QUALITY", quality, look));
    }
    let next = labelled("NEXT", &Cell::plain(next.join(" · ")), look);
    let (table, room) = match &summary.experiments {
        Some(document) => {
            let sections = document.sections.iter();
            let mut lines: Vec<String> =
                sections.flat_map(|section| of_section(section, whole)).collect();
            lines.push(String::new());
            (lines, usize::MAX)
        }
        None => {
            let table = table(&summary.rows, look);
            let room = LINES.saturating_sub(head.len() + table.len() + next.len());
            (table, room)
        }
    };
    let lines = [head, table, look_at(&summary.look_at, room, look), next].concat();
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A text behind its label, wrapped below itself.
fn labelled(label: &str, text: &Cell, look: Look) -> Vec<String> {
    const LABEL: usize = 9;
    let mut lines = wrapped(&text.text, look.width, &" ".repeat(LABEL));
    if let Some(first) = lines.first_mut() {
        let rest = first.trim_start();
        let (word, rest) =
            rest.split_once(':').map_or(("", rest), |(word, _)| (word, &rest[word.len()..]));
        let word = paint(&marked(word, text.tone), look);
        *first = format!("{}{word}{rest}", bold(&format!("{label:<LABEL$}"), look));
    }
    lines
}

/// Findings by number, as many as there is room for.
fn look_at(findings: &[Cell], room: usize, look: Look) -> Vec<String> {
    if findings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![bold("LOOK AT", look)];
    let mut shown = 0;
    for finding in findings.iter().take(LOOK_AT) {
        let mut own = wrapped(&finding.text, look.width, "     ");
        if let Some(first) = own.first_mut() {
            let number = paint(&marked(&format!("{:>3}", shown + 1), finding.tone), look);
            *first = format!("{number}  {}", first.trim_start());
        }
        // One line is for how many there are beside them.
        if shown > 0 && lines.len() + own.len() + 1 > room {
            break;
        }
        lines.extend(own);
        shown += 1;
    }
    if findings.len() > shown {
        lines.push(format!("     … and {} more: --full", findings.len() - shown));
    }
    lines
}

/// The key figures: a line each, and what else must be known of one below it.
fn table(rows: &[Row], look: Look) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let cells: Vec<[Cell; 5]> = rows.iter().map(cells).collect();
    let has_room = |at: usize| at != 2 || look.width >= WITH_INTERVALS;
    let widths: Vec<usize> = (0..5)
        .map(|at| {
            let own = cells.iter().map(|cells| width(&cells[at].text));
            let heading = at.checked_sub(1).map_or(0, |at| width(HEADINGS[at]));
            if has_room(at) { own.fold(heading, usize::max) } else { 0 }
        })
        .collect();
    let line = |group: &str, cells: &[Cell; 5]| {
        let mut line = format!("{group:<GROUP$} ");
        for at in (0..5).filter(|at| has_room(*at)) {
            let text = &cells[at].text;
            let space = " ".repeat(widths[at].saturating_sub(width(text)));
            line.push_str(&marked(text, cells[at].tone));
            line.push_str(&space);
            line.push_str("  ");
        }
        paint(line.trim_end(), look)
    };
    let headings = HEADINGS.map(Cell::plain);
    let [measured, interval, predicted, verdict] = headings;
    let heading = [Cell::plain(""), measured, interval, predicted, verdict];
    let mut lines = vec![bold(&line("", &heading), look)];
    let mut group = "";
    for (row, cells) in rows.iter().zip(&cells) {
        let title = if row.group == group { "" } else { row.group };
        group = row.group;
        lines.push(line(title, cells));
        let notes = row.notes.iter().flat_map(|note| wrapped(note, look.width, "         "));
        lines.extend(notes.map(|note| paint(&marked(&note, Tone::Muted), look)));
    }
    lines
}

/// Heading, measured, interval, predicted, verdict.
fn cells(row: &Row) -> [Cell; 5] {
    let room = |text: &str| match width(text) > CELL {
        true => Cell::plain(NO_ROOM),
        false => Cell::plain(text),
    };
    [
        Cell::plain(&row.heading),
        Cell::plain(&row.measured),
        Cell::plain(&row.interval),
        room(&row.predicted),
        row.verdict.clone(),
    ]
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, LINES, screen};
    use crate::build::summary::{Row, Summary};
    use crate::document::{Cell, Tone};
    use crate::terminal::Look;

    fn full(findings: usize) -> Summary {
        let row = |at: usize| Row {
            group: if at < 5 { "CPU" } else { "MEM" },
            heading: format!("figure {at}, 1 thread / all"),
            measured: "51.0 / 102 Gflop/s".to_owned(),
            interval: "±0.7 %".to_owned(),
            predicted: "31–62 / 39–121 Gflop/s".to_owned(),
            verdict: Cell::toned("within", Tone::Good),
            notes: if at == 3 { vec!["two modes".to_owned()] } else { Vec::new() },
        };
        Summary {
            title: "plumb standard · 6 min 4 s · a machine".to_owned(),
            quality: Some(Cell::toned("fair: the core was shared 22 % of the time", Tone::Warn)),
            rows: (0..32).map(row).collect(),
            experiments: None,
            look_at: (0..findings).map(|_| Cell::plain("word ".repeat(70))).collect(),
        }
    }

    #[test]
    fn it_is_one_screen() {
        for findings in [0, 1, 4, 5, 10, 40] {
            for (width, colours) in [(60, false), (80, false), (100, false), (200, false)] {
                let look = Look { width, colours };
                let text = screen(&full(findings), &["plumb report last --full"], look);
                assert!(text.lines().count() <= LINES, "{findings} {width}\n{text}");
                assert_eq!(text.contains("LOOK AT"), findings > 0);
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(width < 80 || widest <= Some(COLUMNS), "{text}");
                // A group is named once.
                assert_eq!(text.matches("\nCPU").count(), 1);
            }
        }
    }

    #[test]
    fn the_grade_and_verdicts_have_the_colours_of_their_tones() {
        let look = Look { width: 100, colours: true };
        let text = screen(&full(1), &[], look);
        assert!(text.contains("\u{1b}[33mfair\u{1b}[0m:"), "{text}");
        assert!(text.contains("\u{1b}[32mwithin\u{1b}[0m"), "{text}");
        for line in text.lines() {
            let opened = line.matches("\u{1b}[").count();
            assert_eq!(opened, 2 * line.matches("\u{1b}[0m").count(), "{line:?}");
        }
    }
}
