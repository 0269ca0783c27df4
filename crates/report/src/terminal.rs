//! A report for the terminal: compact, as wide as the terminal, coloured only where asked.

use super::document::{Audience, Block, Cell, Document, Section, Table, Tone};
use super::{braille, lanes, plain};

mod summary;

pub use summary::screen;

use analysis::findings::Severity;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets,
};

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to colour: a terminal whose user did not set NO_COLOR.
    pub colours: bool,
}

/// The section shown first: what a reader must not miss. A page leads there from its head.
const FIRST: &str = "findings";

/// Narrowest layout; a narrower terminal wraps lines itself.
const LEAST_WIDTH: usize = 60;

/// Width from which quantities are never wrapped.
const ROOMY: usize = 90;

/// Widest layout: wider lines are hard to read.
const MOST_WIDTH: usize = 160;

/// Marks of tones inside a table, of no width, so that the layout does not see them; replaced by
/// colours, or by nothing, once it is laid out.
const MARKS: &[(Tone, char, &str)] = &[
    (Tone::Good, '\u{2061}', "\u{1b}[32m"),
    (Tone::Warn, '\u{2062}', "\u{1b}[33m"),
    (Tone::Bad, '\u{2063}', "\u{1b}[31m"),
    (Tone::Muted, '\u{2064}', "\u{1b}[2m"),
];
const END_MARK: char = '\u{2060}';
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// Every command to the terminal that [`render`] writes.
pub fn commands() -> impl Iterator<Item = &'static str> {
    let colours = MARKS.iter().map(|(.., colour)| *colour);
    colours.chain([BOLD, RESET])
}

/// The text, ending in a newline. Whatever the document's texts hold, the only control characters
/// in it are ends of lines and, with colours, [`commands`].
pub fn render(document: &Document, look: Look) -> String {
    let document = &plain::document(document);
    let look = Look { width: look.width.clamp(LEAST_WIDTH, MOST_WIDTH), ..look };
    let mut lines = vec![bold(&document.title, look)];
    lines.extend(wrapped(&document.summary, look.width, ""));
    let is_first = |section: &&Section| section.id == FIRST;
    let (first, rest): (Vec<&Section>, Vec<&Section>) =
        document.sections.iter().partition(is_first);
    for section in first.into_iter().chain(rest) {
        lines.extend(of_section(section, look));
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn of_section(section: &Section, look: Look) -> Vec<String> {
    let mut lines = Vec::new();
    for (audience, block) in &section.blocks {
        if *audience != Audience::Page {
            lines.extend(of_block(block, look));
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let mut all = vec![String::new(), bold(&section.heading, look)];
    all.append(&mut lines);
    all
}

fn of_block(block: &Block, look: Look) -> Vec<String> {
    match block {
        Block::Paragraph(text) => wrapped(text, look.width, "  "),
        Block::Subheading(text) => vec![bold(text, look)],
        Block::KeyValues(pairs) => key_values(pairs, look),
        Block::Table(table) | Block::Figures(table, _) => of_table(table, look),
        Block::Plot(plot) => lanes::draw(plot, look.width.min(96) - 2)
            .or_else(|| braille::draw(plot, look.width.min(96) - 2))
            .map(|lines| lines.into_iter().map(drawn).collect())
            .unwrap_or_default(),
        Block::Notes(notes) => {
            notes.iter().flat_map(|(severity, text)| note(*severity, text, look)).collect()
        }
        // A matrix's figures stand in a table; what is folded elsewhere has no place here.
        Block::Keys(_) | Block::Grid(_) | Block::Manual(_) | Block::Folded { .. } => Vec::new(),
    }
}

/// A line of a picture; an empty cell of dots is as wide as a space, and three bytes long.
fn drawn(line: String) -> String {
    format!("  {}", line.replace('\u{2800}', " "))
}

fn key_values(pairs: &[(String, String)], look: Look) -> Vec<String> {
    const NAMES: usize = 20;
    pairs
        .iter()
        .flat_map(|(name, text)| {
            let mut lines = wrapped(text, look.width, &" ".repeat(NAMES));
            if let Some(first) = lines.first_mut() {
                *first = format!("  {name:<width$}{}", first.trim_start(), width = NAMES - 2);
            }
            lines
        })
        .collect()
}

fn note(severity: Severity, text: &str, look: Look) -> Vec<String> {
    let tone = Tone::of(severity);
    let name = severity.text();
    let mut lines = wrapped(text, look.width, "           ");
    if let Some(first) = lines.first_mut() {
        let label = paint(&marked(&format!("{name:<8}"), tone), look);
        *first = format!("  {label} {}", first.trim_start());
    }
    lines
}

fn of_table(table: &Table, look: Look) -> Vec<String> {
    let spare = table.rows.iter().filter(|row| row.is_spare).count();
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(look.width).unwrap_or(u16::MAX));
    grid.set_header(table.columns.iter().map(|column| column.heading.as_str()));
    for row in table.rows.iter().filter(|row| !row.is_spare) {
        grid.add_row(row.cells.iter().map(cell));
    }
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(drawn) = grid.column_mut(at) {
            drawn.set_padding((if at == 0 { 2 } else { 1 }, 1));
            if column.is_number {
                drawn.set_cell_alignment(CellAlignment::Right);
                // Quantities never wrap; words make room for them.
                if look.width >= ROOMY {
                    drawn.set_constraint(ColumnConstraint::ContentWidth);
                }
            } else {
                // Words are not broken: a table that is too wide all the same is the lesser evil.
                let words = table.rows.iter().filter_map(|row| row.cells.get(at));
                let longest = words
                    .flat_map(|cell| cell.text.split_whitespace())
                    .chain([column.heading.as_str()])
                    .map(|word| word.chars().count())
                    .max()
                    .unwrap_or(0);
                let padding = if at == 0 { 3 } else { 2 };
                let least = u16::try_from(longest + padding).unwrap_or(u16::MAX);
                drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
    }
    let mut lines = Vec::new();
    if !table.caption.is_empty() {
        lines.extend(wrapped(&table.caption, look.width, "  "));
    }
    for (at, line) in grid.lines().enumerate() {
        let line = paint(line.trim_end(), look);
        lines.push(if at == 0 { bold(&line, look) } else { line });
    }
    if spare > 0 {
        lines.push(format!("  ({spare} rows between; `--format json` has every row)"));
    }
    lines
}

fn cell(cell: &Cell) -> String {
    marked(&cell.text, cell.tone)
}

fn marked(text: &str, tone: Tone) -> String {
    match MARKS.iter().find(|(of, ..)| *of == tone) {
        Some((_, mark, _)) => format!("{mark}{text}{END_MARK}"),
        None => text.to_owned(),
    }
}

/// Marks become colours, each closed on its own line, or vanish.
fn paint(line: &str, look: Look) -> String {
    let mut painted = String::new();
    let mut is_open = false;
    for letter in line.chars() {
        let start = MARKS.iter().find(|(_, mark, _)| *mark == letter);
        match start {
            Some((.., colour)) if look.colours => {
                painted.push_str(colour);
                is_open = true;
            }
            Some(_) => {}
            None if letter == END_MARK => {
                if is_open {
                    painted.push_str(RESET);
                }
                is_open = false;
            }
            None => painted.push(letter),
        }
    }
    if is_open {
        painted.push_str(RESET);
    }
    painted
}

fn bold(text: &str, look: Look) -> String {
    if look.colours { format!("{BOLD}{text}{RESET}") } else { text.to_owned() }
}

/// Lines of at most `width` columns, broken at spaces; a longer word stands alone.
pub fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let length = indent.len() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > width {
            lines.push(format!("{indent}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(format!("{indent}{line}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Look, MARKS, RESET, marked, paint, wrapped};
    use crate::document::Tone;

    #[test]
    fn marks_become_colours_or_nothing() {
        let text = format!("a {} b", marked("bad", Tone::Bad));
        let look = |colours| Look { width: 80, colours };
        assert_eq!(paint(&text, look(false)), "a bad b");
        assert_eq!(paint(&text, look(true)), "a \u{1b}[31mbad\u{1b}[0m b");
        let torn = format!("{}good", MARKS[0].1);
        assert!(paint(&torn, look(true)).ends_with(RESET));
    }

    #[test]
    fn text_wraps_at_spaces() {
        assert_eq!(wrapped("one two three", 9, "  "), ["  one two", "  three"]);
    }
}
