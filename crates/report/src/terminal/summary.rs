//! A run on one screen: at most [`LINES`] lines of at most [`COLUMNS`] columns.

use super::{LEAST_WIDTH, Look, bold, letters, marked, of_section, paint, wrapped};
use crate::build::summary::{Row, Summary};
use crate::document::{Cell, Tone};
use crate::plain;
use crate::values::SHARED_MARK;

/// Lines that it has at most.
pub const LINES: usize = 60;

/// Columns that it has at most.
pub const COLUMNS: usize = 100;

/// Findings that it has room for.
const LOOK_AT: usize = 5;

/// Columns of the group's title.
const GROUP: usize = 5;

/// Letters that the column of predictions has room for before it is left out.
const LEAST_PREDICTED: usize = 14;

/// What stands in place of what has no room.
const NO_ROOM: &str = "…";

const HEADINGS: [&str; COLUMN_COUNT] = ["", "measured", "interval", "predicted", "verdict"];
const COLUMN_COUNT: usize = 5;
const INTERVAL: usize = 2;
const PREDICTED: usize = 3;
const VERDICT: usize = 4;

/// Columns that are left out where room is short, the first one first, with the letters that headings
/// keep before.
const LEFT_OUT: [(usize, usize); 2] = [(PREDICTED, 20), (INTERVAL, 14)];

/// The screen, ending in a newline; `next` are the commands that lead on. Texts steer no terminal.
pub fn screen(summary: &Summary, next: &[&str], look: Look) -> String {
    let summary = &plain::summary(summary);
    let whole = Look { width: look.width.max(LEAST_WIDTH), ..look };
    let look = Look { width: whole.width.min(COLUMNS), ..look };
    let mut head = wrapped(&summary.title, look.width, "");
    if let Some(first) = head.first_mut() {
        *first = bold(first, look);
    }
    if let Some(quality) = &summary.quality {
        head.extend(labelled("QUALITY", quality, look));
    }
    if let Some(so_far) = &summary.so_far {
        head.extend(labelled("MEASURED", &Cell::plain(so_far), look));
    }
    let labels = std::iter::once("SCORE").chain(std::iter::repeat(""));
    for (label, score) in labels.zip(&summary.score) {
        head.extend(labelled(label, &Cell::plain(score), look));
    }
    let next = labelled("NEXT", &Cell::plain(next.join(" · ")), look);
    let of_mark = |told: &String| labelled(SHARED_MARK, &Cell::plain(told), look);
    let shared = summary.shared.as_ref().map_or_else(Vec::new, of_mark);
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
            let room = LINES.saturating_sub(head.len() + table.len() + shared.len() + next.len());
            (table, room)
        }
    };
    let lines = [head, table, shared, look_at(&summary.look_at, room, look), next].concat();
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
    let fit = Fit::of(rows, look.width);
    let line = |group: &str, cells: [&Cell; COLUMN_COUNT]| {
        let mut line = format!("{group:<GROUP$} ");
        let spills = spills(&cells.map(Cell::clone));
        for (at, cell) in cells.into_iter().enumerate().filter(|(at, _)| fit.widths[*at] > 0) {
            let text = match (at, spills) {
                (PREDICTED, true) => continue,
                (VERDICT, true) => cut(&cell.text, look.width.saturating_sub(letters(&line))),
                _ => fit.shortened(&cell.text, at),
            };
            line.push_str(&marked(&text, cell.tone));
            line.push_str(&" ".repeat((fit.widths[at] + 2).saturating_sub(letters(&text))));
        }
        paint(line.trim_end(), look)
    };
    let headings = HEADINGS.map(Cell::plain);
    let mut lines = vec![bold(&line("", headings.each_ref()), look)];
    let mut group = "";
    for row in rows {
        let title = if row.group == group { "" } else { row.group };
        group = row.group;
        lines.push(line(title, cells(row).each_ref()));
        let notes = row.notes.iter().flat_map(|note| wrapped(note, look.width, "         "));
        lines.extend(notes.map(|note| paint(&marked(&note, Tone::Muted), look)));
    }
    lines
}

/// Heading, measured, interval, predicted, verdict.
fn cells(row: &Row) -> [Cell; COLUMN_COUNT] {
    let of = |text: &String| Cell::plain(text);
    let Row { heading, measured, interval, predicted, because, verdict, .. } = row;
    let why = because.as_ref().map(|why| format!("{}: {why}", verdict.text));
    let verdict = why.map_or_else(|| verdict.clone(), |why| Cell::toned(why, verdict.tone));
    [of(heading), of(measured), of(interval), of(predicted), verdict]
}

/// Whether the verdict also has the place of the prediction, which there is none of.
fn spills([.., predicted, verdict]: &[Cell; COLUMN_COUNT]) -> bool {
    predicted.text.is_empty() && verdict.text.contains(": ")
}

/// A text as far as there is room.
fn cut(text: &str, room: usize) -> String {
    match letters(text) > room {
        true => text.chars().take(room.saturating_sub(1)).chain(NO_ROOM.chars()).collect(),
        false => text.to_owned(),
    }
}

/// How wide each column is; one without a width is left out.
struct Fit {
    widths: [usize; COLUMN_COUNT],
}

impl Fit {
    /// What says least gives way: predictions of several figures, the ends of headings, all
    /// predictions, whose verdict stays, then the intervals, without which a value says little.
    fn of(rows: &[Row], room: usize) -> Fit {
        let cells: Vec<[Cell; COLUMN_COUNT]> = rows.iter().map(cells).collect();
        let longest = |at: usize| {
            let own = cells.iter().filter(|cells| at != VERDICT || !spills(cells));
            let own = own.map(|cells| letters(&cells[at].text));
            own.fold(letters(HEADINGS[at]), usize::max)
        };
        let mut widths: [usize; COLUMN_COUNT] = std::array::from_fn(longest);
        let total = |widths: &[usize; COLUMN_COUNT]| {
            let shown = widths.iter().filter(|width| **width > 0);
            GROUP - 1 + shown.map(|width| width + 2).sum::<usize>()
        };
        let over = |widths: &[usize; COLUMN_COUNT]| total(widths).saturating_sub(room);
        let least = LEAST_PREDICTED.min(widths[PREDICTED]);
        widths[PREDICTED] = (widths[PREDICTED].saturating_sub(over(&widths))).max(least);
        for (left_out, heading) in LEFT_OUT {
            if over(&widths) > widths[0].saturating_sub(heading) {
                widths[left_out] = 0;
            }
        }
        widths[0] = widths[0].saturating_sub(over(&widths)).max(1);
        Fit { widths }
    }

    /// A text as it stands in a column, in which it may have no room.
    fn shortened(&self, text: &str, at: usize) -> String {
        match (letters(text) > self.widths[at], at) {
            (false, _) => text.to_owned(),
            (true, 0) => cut(text, self.widths[0]),
            (true, _) => NO_ROOM.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Fit, INTERVAL, LINES, PREDICTED, VERDICT, screen};
    use crate::build::summary::{Row, Summary};
    use crate::document::{Cell, Tone};
    use crate::terminal::Look;

    fn full(findings: usize) -> Summary {
        let row = |at: usize| Row {
            group: if at < 5 { "CPU" } else { "MEM" },
            heading: format!("figure {at}, 1 thread / all"),
            measured: "51.0 / 102 Gflop/s".to_owned(),
            interval: "±0.7 %".to_owned(),
            predicted: if at == 7 {
                String::new()
            } else {
                "31–62 / 39–121 Gflop/s".to_owned()
            },
            because: (at == 7).then(|| "an unknown disk ".repeat(9)),
            verdict: Cell::toned("within", Tone::Good),
            notes: if at == 3 { vec!["two modes".to_owned()] } else { Vec::new() },
        };
        Summary {
            title: "plumb standard · 6 min 4 s · a machine".to_owned(),
            quality: Some(Cell::toned("fair: the core was shared 22 % of the time", Tone::Warn)),
            score: vec!["before the run: 2.1 times narrower".to_owned(); 2],
            rows: (0..32).map(row).collect(),
            shared: Some("others used the core ".repeat(7)),
            so_far: None,
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
    fn intervals_are_the_last_column_to_give_way() {
        let rows = full(0).rows;
        let shown = |room: usize| {
            let fit = Fit::of(&rows, room);
            let is_shown = |at: usize| fit.widths[at] > 0;
            assert!(is_shown(0) && is_shown(1) && is_shown(VERDICT), "{room}");
            (is_shown(INTERVAL), is_shown(PREDICTED))
        };
        assert_eq!([100, 80, 50].map(shown), [(true, true), (true, false), (false, false)]);
        for room in 40..=200 {
            let (interval, predicted) = shown(room);
            assert!(interval || !predicted, "{room}");
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
