//! A report for the terminal: compact, as wide as the terminal, coloured only where asked.

use super::document::{Audience, Block, Cell, Document, Section, Table, Tone};

mod summary;

pub use summary::screen;

use analysis::findings::Severity;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets,
};
use record::order::InOrder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub width: usize,
    /// Whether to colour: a terminal whose user did not set NO_COLOR.
    pub colours: bool,
}

/// Narrowest layout; a narrower terminal wraps lines itself.
const LEAST_WIDTH: usize = 60;

/// Width from which quantities are never wrapped.
const ROOMY: usize = 80;

/// Widest text: wider lines are hard to read. Tables may be wider.
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
    let look = Look { width: look.width.max(LEAST_WIDTH), ..look };
    let title = wrapped(&document.title, look.width, "");
    let mut lines: Vec<String> = title.iter().map(|line| bold(line, look)).collect();
    lines.extend(wrapped(&document.summary, look.width, ""));
    for section in &document.sections {
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
        if matches!(audience, Audience::Everyone | Audience::Verbose) {
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
        Block::Words(text) => {
            text.trim().lines().flat_map(|line| wrapped(line, look.width, "  ")).collect()
        }
        Block::Subheading(text) => vec![bold(text, look)],
        Block::KeyValues(pairs) => key_values(pairs, look),
        Block::Table(table) | Block::Figures(table, _) => of_table(table, look, INDENT),
        Block::Notes(notes) => {
            notes.iter().flat_map(|one| note(one.severity, &one.sentence(), look)).collect()
        }
        // Along one axis they are the same again.
        Block::Keys(all) => {
            let tables = all.iter().filter(|keys| !keys.is_ladder);
            tables.flat_map(|keys| of_table(&keys.table, look, INDENT)).collect()
        }
        // The page draws them, and folds what is long.
        Block::Plot(_) | Block::Grid(_) | Block::Manual(_) | Block::Folded { .. } => Vec::new(),
    }
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
    let tone = Tone::from_severity(severity);
    let name = severity.text();
    let mut lines = wrapped(text, look.width, "           ");
    if let Some(first) = lines.first_mut() {
        let label = paint(&marked(&format!("{name:<8}"), tone), look);
        *first = format!("  {label} {}", first.trim_start());
    }
    lines
}

/// Letters that a column of words gets before others are hidden, and one that may be hidden itself.
const WORDS: usize = 28;
const WORDS_OF_HIDDEN: usize = 12;

/// Letters of a cell from which on it is a sentence, which reads well in a narrow column of so many.
const SENTENCE: usize = 40;
const SENTENCE_WIDTH: usize = 20;

/// Spaces before a table of a section.
const INDENT: u16 = 2;

/// Spaces around a column's cells, by its place.
fn padding(at: usize, indent: u16) -> (u16, u16) {
    (if at == 0 { indent } else { 1 }, 1)
}

/// The longest cell of a column, and its longest word, in letters.
fn lengths(table: &Table, at: usize) -> (usize, usize) {
    let cells = table.rows.iter().filter_map(|row| row.cells.get(at));
    let texts = || cells.clone().map(|cell| cell.text.as_str());
    let words = |text: &str| text.split_whitespace().map(letters).max().unwrap_or(0);
    let heading = words(&table.columns[at].heading);
    (texts().map(letters).fold(heading, usize::max), texts().map(words).fold(heading, usize::max))
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

/// The width that a column needs, with its padding: words wrap, quantities do not.
fn needs(table: &Table, at: usize, indent: u16) -> usize {
    let column = &table.columns[at];
    let (cell, word) = lengths(table, at);
    let (left, right) = padding(at, indent);
    let words = if column.hidden_from > 0 { WORDS_OF_HIDDEN } else { WORDS };
    let text = match (column.is_number, cell) {
        (true, _) => cell,
        (false, ..SENTENCE) => word.max(cell.min(words)),
        (false, _) => word.max(SENTENCE_WIDTH),
    };
    text + usize::from(left + right)
}

/// The places of the columns that a terminal has room for: those hidden last first, and always those
/// that are never hidden.
fn fitting(table: &Table, width: usize, indent: u16) -> Vec<usize> {
    let mut places: Vec<usize> = (0..table.columns.len()).collect();
    places.order_by_key(|at| table.columns[*at].hidden_from);
    // The last column's padding is cut off.
    let mut left = width + 1;
    places.retain(|at| {
        let needed = needs(table, *at, indent);
        let is_shown = table.columns[*at].hidden_from == 0 || needed <= left;
        left = left.saturating_sub(if is_shown { needed } else { 0 });
        is_shown
    });
    places.sort_unstable();
    places
}

fn grid(table: &Table, shown: &[usize], look: Look, indent: u16) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(look.width + 1).unwrap_or(u16::MAX));
    grid.set_header(shown.iter().map(|at| table.columns[*at].heading.as_str()));
    for row in table.rows.iter().filter(|row| !row.is_spare) {
        grid.add_row(shown.iter().filter_map(|at| row.cells.get(*at)).map(cell));
    }
    let all: usize = shown.iter().map(|at| needs(table, *at, indent)).sum();
    for (at, of_table) in shown.iter().enumerate() {
        let Some(drawn) = grid.column_mut(at) else {
            continue;
        };
        let (left, right) = padding(at, indent);
        drawn.set_padding((left, right));
        if table.columns[*of_table].is_number {
            drawn.set_cell_alignment(CellAlignment::Right);
            // Quantities never wrap; words make room for them.
            if look.width >= ROOMY {
                drawn.set_constraint(ColumnConstraint::ContentWidth);
            }
        } else {
            // Words are not broken: a table that is too wide all the same is the lesser evil.
            let least = match all <= look.width + 1 {
                true => needs(table, *of_table, indent),
                false => lengths(table, *of_table).1 + usize::from(left + right),
            };
            let least = u16::try_from(least).unwrap_or(u16::MAX);
            drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    grid
}

fn of_table(table: &Table, look: Look, indent: u16) -> Vec<String> {
    let shown = fitting(table, look.width, indent);
    let mut lines = wrapped(&table.caption, look.width, "  ");
    for (at, line) in grid(table, &shown, look, indent).lines().enumerate() {
        let line = paint(line.trim_end(), look);
        lines.push(if at == 0 { bold(&line, look) } else { line });
    }
    let spare = table.rows.iter().filter(|row| row.is_spare).count();
    if spare > 0 {
        lines.push(format!("  ({spare} rows between; `--format json` has every row)"));
    }
    let hidden = table.columns.iter().enumerate().filter(|(at, _)| !shown.contains(at));
    let hidden: Vec<&str> = hidden.map(|(_, column)| column.heading.as_str()).collect();
    if !hidden.is_empty() {
        let text = format!("(a wider terminal also shows {})", hidden.join(", "));
        lines.extend(wrapped(&text, look.width, "  "));
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

/// Lines of at most `width` columns, and of [`MOST_WIDTH`], broken at spaces; a longer word stands
/// alone.
pub fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let width = width.min(MOST_WIDTH);
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
