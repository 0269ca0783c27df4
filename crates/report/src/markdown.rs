//! A report in Markdown (GitHub's dialect): every table of the page, with what is long folded.

use super::document::{Block, Cell, Document, Marker, Plot, Section, Shape, Table, Tone};

mod escape;
#[cfg(test)]
pub(super) mod tests;

use analysis::names::around;
use escape::{escaped, html, manual, paragraph};

/// Rows and pairs from which a list is folded outside the experiments' sections.
const MANY: usize = 12;

/// The text.
pub fn render(document: &Document) -> String {
    let mut text = format!("# {}\n\n{}\n", escaped(&document.title), paragraph(&document.summary));
    for section in &document.sections {
        let mut own = String::new();
        put_section(&mut own, section);
        if !own.is_empty() {
            text.push_str(&format!("\n## {}\n{own}", escaped(&section.heading)));
        }
    }
    text
}

/// The section's blocks; neighbours that are folded under the same title are folded together.
fn put_section(text: &mut String, section: &Section) {
    let mut open: Option<String> = None;
    for (_, block) in &section.blocks {
        let inside = of_block(block);
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

const CLOSING: &str = "\n</details>\n";

/// The title under which a block is folded, if it is.
fn fold<'document>(section: &'document Section, block: &'document Block) -> Option<&'document str> {
    let is_experiment = section.id.contains('.');
    let is_many = length(block) > MANY;
    match block {
        Block::Paragraph(_) | Block::Subheading(_) | Block::Notes(_) | Block::Keys(_) => None,
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

fn of_block(block: &Block) -> String {
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
