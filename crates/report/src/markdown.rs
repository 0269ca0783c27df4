//! A report in Markdown (GitHub's dialect): every table of the page, with what is long folded, and
//! every plot as a file beside it.

use super::document::{Audience, Block, Cell, Document, Marker, Plot, Section, Shape, Table, Tone};
use super::svg::{Picture, Target};

mod escape;
#[cfg(test)]
pub(super) mod tests;

use analysis::names::around;
use escape::{escaped, html, manual, paragraph};

/// Rows and pairs from which a list is folded outside the experiments' sections.
const MANY: usize = 12;

/// Columns that a narrow terminal hides this early are left out.
const ASIDE: u8 = 8;

/// What Markdown has no room for.
const ELSEWHERE: &str = "`plumb explain ID` prints an experiment's manual. `plumb report RUN -f html` has the \
                         reasons of the predictions, further notes, and on what values of a core alone rest.";

pub struct Bundle {
    pub text: String,
    /// The name of each picture's file, and the SVG in it.
    pub pictures: Vec<(String, String)>,
}

/// The text alone: a plot is named where it would stand.
pub fn render(document: &Document) -> String {
    Writer { pictures: None }.document(document)
}

/// The text with its pictures, which lie beside it.
pub fn bundle(document: &Document) -> Bundle {
    let mut writer = Writer { pictures: Some(Vec::new()) };
    let text = writer.document(document);
    Bundle { text, pictures: writer.pictures.unwrap_or_default() }
}

/// What is written, and the pictures so far where they are wanted.
struct Writer {
    pictures: Option<Vec<(String, String)>>,
}

impl Writer {
    fn document(&mut self, document: &Document) -> String {
        let mut text =
            format!("# {}\n\n{}\n", escaped(&document.title), paragraph(&document.summary));
        if document.sections.iter().any(|section| section.id == "overview") {
            text.push_str(&format!("\n{ELSEWHERE}\n"));
        }
        for section in &document.sections {
            let mut own = String::new();
            self.put_section(&mut own, section);
            if !own.is_empty() {
                text.push_str(&format!("\n## {}\n{own}", escaped(&section.heading)));
            }
        }
        text
    }

    /// The section's blocks; neighbours that are folded under the same title are folded together.
    fn put_section(&mut self, text: &mut String, section: &Section) {
        let mut open: Option<String> = None;
        for (audience, block) in &section.blocks {
            if matches!(audience, Audience::Screen | Audience::Verbose) {
                continue;
            }
            let inside = self.block(block);
            let fold = fold(section, block).map(html);
            if inside.is_empty() {
                continue;
            }
            if fold != open {
                if open.is_some() {
                    text.push_str(CLOSING);
                }
                if let Some(title) = &fold {
                    text.push_str(&format!("\n<details><summary>{title}</summary>\n"));
                }
                open = fold;
            }
            text.push('\n');
            text.push_str(&inside);
        }
        if open.is_some() {
            text.push_str(CLOSING);
        }
    }

    fn block(&mut self, block: &Block) -> String {
        match block {
            Block::Paragraph(text) => format!("{}\n", paragraph(text)),
            Block::Subheading(text) => format!("### {}\n", escaped(text)),
            Block::KeyValues(pairs) => pairs
                .iter()
                .map(|(name, value)| format!("- **{}**: {}\n", escaped(name), escaped(value)))
                .collect(),
            Block::Table(table) => of_table(table),
            // Each figure stands in the tables of its experiment; here nothing searches and sorts them.
            Block::Figures(..) => String::new(),
            Block::Keys(keys) => {
                keys.iter().map(|one| of_table(&one.table)).collect::<Vec<_>>().join("\n")
            }
            Block::Plot(plot) => match &mut self.pictures {
                Some(pictures) => {
                    picture(pictures, &plot.title, Picture::of_plot(plot, Target::File))
                }
                None => format!("*{}. The HTML report draws it.*\n", escaped(&plot_text(plot))),
            },
            Block::Grid(grid) => match &mut self.pictures {
                Some(pictures) => {
                    picture(pictures, &grid.title, Picture::of_grid(grid, Target::File))
                }
                None => format!("*Matrix: {}. The HTML report draws it.*\n", escaped(&grid.title)),
            },
            Block::Notes(remarks) => of_table(&Table::of_remarks(remarks)),
            Block::Manual(text) | Block::Words(text) => manual(text),
            // Its summary is the fold's.
            Block::Folded { blocks, .. } => {
                let blocks: Vec<String> = blocks.iter().map(|block| self.block(block)).collect();
                blocks.join("\n")
            }
        }
    }
}

/// A picture by its file, whose name has the picture's number and the first word of its title: the
/// experiment.
fn picture(pictures: &mut Vec<(String, String)>, title: &str, picture: Picture) -> String {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
    let word = title.split(|letter| !is_of_name(letter)).next().unwrap_or_default();
    let name = format!("{:03}-{}.svg", pictures.len() + 1, word.to_lowercase());
    let text = format!("![{}]({name})\n", escaped(title));
    pictures.push((name, picture.file(title)));
    text
}

const CLOSING: &str = "\n</details>\n";

/// The title under which a block is folded, if it is.
fn fold<'document>(section: &'document Section, block: &'document Block) -> Option<&'document str> {
    let is_experiment = section.id.contains('.');
    let is_many = length(block) > MANY;
    match block {
        Block::Paragraph(_)
        | Block::Subheading(_)
        | Block::Notes(_)
        | Block::Keys(_)
        | Block::Words(_) => None,
        Block::Manual(_) => Some("Manual"),
        Block::Folded { summary, .. } => Some(summary),
        Block::Figures(..) => None,
        _ if section.id == "environment" => Some(&section.heading),
        Block::Plot(_) | Block::Grid(_) => Some("Tables and plots"),
        Block::Table(_) if is_experiment => Some("Tables and plots"),
        Block::Table(table) => is_many.then_some(table.caption.as_str()),
        Block::KeyValues(_) => is_many.then_some("More"),
    }
}

fn length(block: &Block) -> usize {
    match block {
        Block::Table(table) => table.rows.len(),
        Block::KeyValues(pairs) => pairs.len(),
        Block::Notes(notes) => notes.len(),
        _ => 1,
    }
}

/// Tables are most of the text. So they have no spaces around cells, an empty cell for what has no
/// value, and no column of one value: that stands in the caption.
fn of_table(table: &Table) -> String {
    if table.columns.is_empty() {
        return String::new();
    }
    let columns = table.columns.iter().enumerate();
    let (fixed, shown): (Vec<_>, Vec<_>) = columns
        .filter(|(_, column)| column.hidden_from < ASIDE)
        .partition(|(at, _)| is_fixed(table, *at));
    let fixed = fixed.iter().filter_map(|(at, column)| {
        let text = &table.rows.first()?.cells.get(*at)?.text;
        (*text != Cell::absent().text).then(|| format!("{}: {text}", column.heading))
    });
    let caption = Some(table.caption.clone()).filter(|caption| !caption.is_empty());
    let said: Vec<String> = caption.into_iter().chain(fixed).collect();
    let mut text = String::new();
    if !said.is_empty() {
        text.push_str(&format!("*{}*\n\n", escaped(&said.join("; "))));
    }
    let row = |cells: Vec<String>| format!("|{}|\n", cells.join("|"));
    text.push_str(&row(shown.iter().map(|(_, column)| escaped(&column.heading)).collect()));
    let rule = |is_number: bool| if is_number { "---:" } else { "---" }.to_owned();
    text.push_str(&row(shown.iter().map(|(_, column)| rule(column.is_number)).collect()));
    for one in &table.rows {
        let cells = shown.iter().filter_map(|(at, _)| Some(cell(one.cells.get(*at)?)));
        text.push_str(&row(cells.collect()));
    }
    text
}

/// Whether a column beside the first one has the same text in three rows and more.
fn is_fixed(table: &Table, column: usize) -> bool {
    let mut texts = table.rows.iter().map(|row| row.cells.get(column).map(|cell| &cell.text));
    let first = texts.next();
    column > 0 && table.rows.len() > 2 && texts.all(|text| Some(text) == first)
}

fn cell(cell: &Cell) -> String {
    if *cell == Cell::absent() {
        return String::new();
    }
    let text = cell.text.trim_end().replace(" – ", "–");
    // Brackets around numbers are no link.
    let is_interval = text.starts_with('[')
        && text.chars().all(|letter| letter.is_ascii_digit() || "[]., -+e†".contains(letter));
    let text = if is_interval { text } else { escaped(&text) };
    match cell.tone {
        Tone::Warn | Tone::Bad if !text.is_empty() => format!("**{text}**"),
        _ => text,
    }
}

fn plot_text(plot: &Plot) -> String {
    let measured = plot.series.iter();
    let measured = measured.filter(|series| !matches!(series.shape, Shape::Band | Shape::Ranges));
    let points: usize = measured.map(|series| series.points.len()).sum();
    let label = |marker: &Marker| {
        let source = if marker.is_measured { "detected" } else { "stated" };
        format!("{} ({source})", marker.label)
    };
    let markers: Vec<String> = plot.markers.iter().map(label).collect();
    let markers = around("; marked: ", &markers.join(", "), "");
    format!("Plot: {}, {points} points{markers}", plot.title)
}
