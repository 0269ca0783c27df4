//! A run on one screen: at most [`LINES`] lines, where the terminal has 80 columns or more.

use super::{LEAST_WIDTH, Look, bold, marked, of_section, of_table, paint, wrapped};
use crate::build::summary::Summary;
use crate::document::{Cell, Tone};
use crate::values::SHARED_MARK;

pub const LINES: usize = 60;

/// Columns that its texts have at most.
pub const COLUMNS: usize = 100;

/// Findings that it has room for, and lines of notes on key figures.
const LOOK_AT: usize = 5;
const NOTES: usize = 4;

/// The screen, ending in a newline; `next` are the commands that lead on. Texts steer no terminal.
pub fn screen(summary: &Summary, next: &[&str], look: Look) -> String {
    let whole = Look { width: look.width.max(LEAST_WIDTH), ..look };
    let look = Look { width: whole.width.min(COLUMNS), ..look };
    let mut head = wrapped(&summary.title, look.width, "");
    if let Some(first) = head.first_mut() {
        *first = bold(first, look);
    }
    let line = |label: &str, text: &str| labelled(label, &Cell::plain(text), look);
    let optional = |label: &str, text: &Option<String>| {
        text.as_ref().map_or_else(Vec::new, |text| line(label, text))
    };
    head.extend(optional("MEASURED", &summary.so_far));
    let quality = summary.quality.as_ref();
    let quality = quality.map_or_else(Vec::new, |quality| labelled("QUALITY", quality, look));
    let shared = optional(SHARED_MARK, &summary.shared);
    let end = [optional("SCORE", &summary.score), line("NEXT", &next.join(" · "))].concat();
    let (table, room) = match &summary.experiments {
        Some(document) => {
            let sections = document.sections.iter();
            let mut lines: Vec<String> =
                sections.flat_map(|section| of_section(section, whole)).collect();
            lines.push(String::new());
            (lines, usize::MAX)
        }
        None => {
            let table = keys(summary, whole);
            let parts = [&head, &table, &shared, &quality, &end];
            let room = LINES.saturating_sub(parts.iter().map(|part| part.len()).sum());
            (table, room)
        }
    };
    let look_at = look_at(&summary.look_at, room, look);
    let lines = [head, table, shared, quality, look_at, end].concat();
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

/// The key figures, and what else must be known of some below them.
fn keys(summary: &Summary, look: Look) -> Vec<String> {
    if summary.keys.rows.is_empty() {
        return Vec::new();
    }
    let mut lines = of_table(&summary.keys, look, 0);
    let mut notes = Vec::new();
    for (nth, note) in summary.notes.iter().enumerate() {
        let more = wrapped(note, look.width, "  ");
        if notes.len() + more.len() > NOTES {
            notes.push(format!("  … and {} more: --full", summary.notes.len() - nth));
            break;
        }
        notes.extend(more);
    }
    lines.extend(notes.iter().map(|note| paint(&marked(note, Tone::Muted), look)));
    lines
}

#[cfg(test)]
mod tests {
    use super::{LINES, screen};
    use crate::build::summary::{self, Summary};
    use crate::document::{Cell, Table, Tone};
    use crate::terminal::Look;
    use analysis::sample;

    fn full(findings: usize) -> Summary {
        let Table { caption, columns, rows } = summary::screen(&sample::run()).keys;
        let rows = rows.into_iter().cycle().take(38).collect();
        Summary {
            title: "plumb standard · 6 min 4 s · a machine".to_owned(),
            quality: Some(Cell::toned("fair: the core was shared 22 % of the time", Tone::Warn)),
            score: Some("92 % of 1710 figures fell into their predicted ranges".to_owned()),
            keys: Table { caption, columns, rows },
            notes: vec!["figure 3: two modes".to_owned(); 20],
            shared: Some("others used the core ".repeat(7)),
            so_far: None,
            experiments: None,
            look_at: (0..findings).map(|_| Cell::plain("word ".repeat(70))).collect(),
        }
    }

    #[test]
    fn it_is_one_screen() {
        for findings in [0, 1, 4, 5, 10, 40] {
            for (width, colours) in [(80, false), (100, false), (200, false)] {
                let look = Look { width, colours };
                let text = screen(&full(findings), &["plumb report last --full"], look);
                assert!(text.lines().count() <= LINES, "{findings} {width}\n{text}");
                assert_eq!(text.contains("LOOK AT"), findings > 0);
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{text}");
            }
        }
    }

    #[test]
    fn predictions_stay_and_what_is_less_important_gives_way() {
        let shown = |width: usize| {
            let look = Look { width, colours: false };
            let text = screen(&full(0), &[], look);
            let heads = text.lines().find(|line| line.contains("measured")).expect("headings");
            for heading in ["operation", "predicted", "measured", "verdict"] {
                assert!(heads.contains(heading), "{width}: {heads}");
            }
            ["estimate", "interval", " ratio", " sd", "trials"].map(|one| heads.contains(one))
        };
        assert_eq!(shown(80), [true, false, false, false, false]);
        assert_eq!(shown(160), [true; 5]);
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
