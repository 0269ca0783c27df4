//! A report in Markdown (GitHub's dialect): for a pull request's comment, or whole for a wiki.
//!
//! A comment has a hard limit, and a longer one is refused whole. What does not fit is left out in
//! order of weight, by section, and the text says so; nothing is cut within a table.

use super::document::{Audience, Block, Cell, Document, Marker, Plot, Section, Shape, Table, Tone};
use super::plain;

mod escape;
mod fit;
#[cfg(test)]
pub(super) mod tests;

use super::build::METHOD;
use analysis::names::around;
use escape::{escaped, html, manual, paragraph};
use fit::{Part, Shown, Weight};

/// Characters that a comment on GitHub may have. Bytes are counted here, which are never fewer.
pub const COMMENT_BYTES: usize = 65_536;

/// Room left in a comment for words of whoever posts it.
const FOR_THE_POSTER_BYTES: usize = 512;

/// Rows and pairs from which a list is folded outside the experiments' sections.
const MANY: usize = 12;

/// The text, short enough for a comment.
pub fn render(document: &Document) -> String {
    write(document, COMMENT_BYTES - FOR_THE_POSTER_BYTES)
}

/// The text with everything, however long.
pub fn whole(document: &Document) -> String {
    write(document, usize::MAX)
}

fn write(document: &Document, room_bytes: usize) -> String {
    let document = &plain::document(document);
    let head = format!("# {}\n\n{}\n", escaped(&document.title), paragraph(&document.summary));
    let sections: Vec<(String, Vec<Part>)> = document
        .sections
        .iter()
        .map(|section| {
            let heading = format!("\n## {}\n", escaped(&section.heading));
            (heading, parts(section))
        })
        .collect();
    fit::write(head, sections, room_bytes)
}

/// The section's blocks as text, with what they weigh and under which title they are folded.
fn parts(section: &Section) -> Vec<Part> {
    let is_experiment = section.id.contains('.');
    let is_aside = ["environment", "figures"].contains(&section.id.as_str());
    let mut parts = Vec::new();
    let mut title: Option<&str> = None;
    let is_short = |(audience, block): &(Audience, Block)| {
        *audience == Audience::Terminal && matches!(block, Block::Table(_))
    };
    let has_short = section.blocks.iter().any(is_short);
    for (audience, block) in &section.blocks {
        let shown = match (audience, block) {
            (Audience::Everyone, _) => Shown::Always,
            (Audience::Page, Block::Table(_)) if has_short => Shown::InFull,
            (Audience::Page, _) => Shown::Always,
            (Audience::Terminal, Block::Table(_)) => Shown::InShort,
            (Audience::Terminal | Audience::Console, _) => continue,
        };
        let text = of_block(block);
        let is_many = length(block) > MANY;
        let (weight, fold) = match block {
            Block::Subheading(text) => {
                // Stands with what it is the heading of.
                title = Some(text);
                continue;
            }
            // The same in every run, as the manual is.
            Block::Paragraph(text) if text.starts_with(METHOD) => (Weight::Manual, None),
            Block::Paragraph(_) => (Weight::Words, None),
            Block::Notes(_) if title.is_some_and(|title| title != "Discussion") => {
                (Weight::Reasons, Some(title.unwrap_or_default()))
            }
            Block::Notes(_) if is_experiment => (Weight::Remarks, None),
            Block::Notes(_) => (Weight::Findings, None),
            Block::Manual(_) => (Weight::Manual, Some("Manual")),
            Block::Folded { summary, .. } => (Weight::Reasons, Some(summary.as_str())),
            _ if is_aside => (Weight::Aside, Some(section.heading.as_str())),
            Block::Plot(_) | Block::Grid(_) => (Weight::Plots, Some("Tables and plots")),
            Block::Table(_) if is_experiment => (Weight::Tables, Some("Tables and plots")),
            Block::Table(table) | Block::Figures(table, _) => {
                (Weight::Facts, is_many.then_some(table.caption.as_str()))
            }
            Block::Keys(_) => (Weight::Facts, None),
            Block::KeyValues(_) => (Weight::Facts, is_many.then_some("More")),
        };
        let fold = fold.map(html);
        let text = match (title.take(), &fold) {
            (Some(heading), None) => format!("### {}\n\n{text}", escaped(heading)),
            _ => text,
        };
        if !text.is_empty() {
            parts.push(Part { weight, shown, fold, what: what(block), text });
        }
    }
    parts
}

fn length(block: &Block) -> usize {
    match block {
        Block::Table(table) | Block::Figures(table, _) => table.rows.len(),
        Block::KeyValues(pairs) => pairs.len(),
        Block::Notes(notes) => notes.len(),
        _ => 1,
    }
}

/// What a block is called where it is left out.
fn what(block: &Block) -> &'static str {
    match block {
        Block::Paragraph(text) if text.starts_with(METHOD) => "the manual",
        Block::Paragraph(_) | Block::Subheading(_) => "text",
        Block::KeyValues(_) => "facts",
        Block::Table(_) | Block::Figures(..) | Block::Keys(_) => "tables",
        Block::Plot(_) | Block::Grid(_) => "plots",
        Block::Notes(_) => "remarks",
        Block::Manual(_) => "the manual",
        Block::Folded { .. } => "reasons",
    }
}

fn of_block(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("{}\n", paragraph(text)),
        Block::Subheading(text) => format!("### {}\n", escaped(text)),
        Block::KeyValues(pairs) => pairs
            .iter()
            .map(|(name, value)| format!("- **{}**: {}\n", escaped(name), escaped(value)))
            .collect(),
        Block::Table(table) | Block::Figures(table, _) => of_table(table),
        Block::Keys(keys) => {
            keys.iter().map(|one| of_table(&one.table)).collect::<Vec<_>>().join("\n")
        }
        Block::Plot(plot) => of_plot(plot),
        Block::Grid(grid) => {
            format!("*Matrix: {}. The HTML report draws it.*\n", escaped(&grid.title))
        }
        Block::Notes(notes) => notes
            .iter()
            .map(|(severity, text)| format!("- **{}** {}\n", severity.text(), escaped(text)))
            .collect(),
        Block::Manual(text) => manual(text),
        // Its summary is the fold's.
        Block::Folded { blocks, .. } => {
            let blocks: Vec<String> = blocks.iter().map(of_block).collect();
            blocks.join("\n")
        }
    }
}

fn of_table(table: &Table) -> String {
    if table.columns.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    if !table.caption.is_empty() {
        text.push_str(&format!("*{}*\n\n", escaped(&table.caption)));
    }
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text.push_str(&row(table.columns.iter().map(|column| escaped(&column.heading)).collect()));
    let rule = |is_number: bool| if is_number { "---:" } else { "---" }.to_owned();
    text.push_str(&row(table.columns.iter().map(|column| rule(column.is_number)).collect()));
    for one in &table.rows {
        text.push_str(&row(one.cells.iter().map(cell).collect()));
    }
    text
}

fn cell(cell: &Cell) -> String {
    let text = escaped(&cell.text);
    match cell.tone {
        Tone::Warn | Tone::Bad if !text.is_empty() => format!("**{text}**"),
        _ => text,
    }
}

fn of_plot(plot: &Plot) -> String {
    let drawn = plot
        .series
        .iter()
        .filter(|series| !matches!(series.shape, Shape::Band | Shape::Ranges))
        .map(|series| series.points.len())
        .sum::<usize>();
    let label = |marker: &Marker| {
        let source = if marker.is_measured { "detected" } else { "stated" };
        format!("{} ({source})", marker.label)
    };
    let markers: Vec<String> = plot.markers.iter().map(label).collect();
    let markers = around("; marked: ", &markers.join(", "), "");
    format!(
        "*Plot: {}, {drawn} points{}. The HTML report draws it.*\n",
        escaped(&plot.title),
        escaped(&markers)
    )
}
