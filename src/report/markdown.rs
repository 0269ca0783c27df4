//! A report in Markdown (GitHub's tables).

use super::document::{Audience, Block, Cell, Document, Plot, Shape, Table, Tone};

/// The text. Plots become a line that says what the page shows; their figures are in the tables.
pub(crate) fn render(document: &Document) -> String {
    let mut text = format!(
        "# {}\n\n{}\n",
        escaped(&document.title),
        escaped(&document.summary)
    );
    for section in &document.sections {
        let blocks: Vec<String> = section
            .blocks
            .iter()
            .filter(|(audience, _)| *audience != Audience::Terminal)
            .map(|(_, block)| of_block(block))
            .filter(|block| !block.is_empty())
            .collect();
        text.push_str(&format!("\n## {}\n", escaped(&section.heading)));
        for block in blocks {
            text.push('\n');
            text.push_str(&block);
        }
    }
    text
}

fn of_block(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("{}\n", escaped(text)),
        Block::Subheading(text) => format!("### {}\n", escaped(text)),
        Block::KeyValues(pairs) => pairs
            .iter()
            .map(|(name, value)| format!("- **{}**: {}\n", escaped(name), escaped(value)))
            .collect(),
        Block::Table(table) => of_table(table),
        Block::Plot(plot) => of_plot(plot),
        Block::Grid(grid) => format!(
            "*Matrix: {}. The HTML report draws it.*\n",
            escaped(&grid.title)
        ),
        Block::Notes(notes) => notes
            .iter()
            .map(|(severity, text)| format!("- **{}** {}\n", severity.text(), escaped(text)))
            .collect(),
        Block::Manual(text) => manual(text),
        Block::Folded { summary, blocks } => {
            let blocks: Vec<String> = blocks.iter().map(of_block).collect();
            let summary = escaped(summary);
            format!(
                "<details><summary>{summary}</summary>\n\n{}\n</details>\n",
                blocks.join("\n")
            )
        }
    }
}

fn of_table(table: &Table) -> String {
    let mut text = String::new();
    if !table.caption.is_empty() {
        text.push_str(&format!("*{}*\n\n", escaped(&table.caption)));
    }
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text.push_str(&row(table
        .columns
        .iter()
        .map(|column| escaped(&column.heading))
        .collect()));
    let rule = |is_number: bool| if is_number { "---:" } else { "---" }.to_owned();
    text.push_str(&row(table
        .columns
        .iter()
        .map(|column| rule(column.is_number))
        .collect()));
    for one in &table.rows {
        text.push_str(&row(one.cells.iter().map(cell).collect()));
    }
    text
}

fn cell(cell: &Cell) -> String {
    let text = escaped(&cell.text);
    match cell.tone {
        Tone::Warn | Tone::Bad => format!("**{text}**"),
        Tone::Plain | Tone::Good | Tone::Muted => text,
    }
}

fn of_plot(plot: &Plot) -> String {
    let drawn = plot
        .series
        .iter()
        .filter(|series| !matches!(series.shape, Shape::Band | Shape::Ranges))
        .map(|series| series.points.len())
        .sum::<usize>();
    let markers = match plot.markers.is_empty() {
        true => String::new(),
        false => {
            let labels: Vec<String> = plot
                .markers
                .iter()
                .map(|marker| {
                    let source = if marker.is_measured {
                        "detected"
                    } else {
                        "stated"
                    };
                    format!("{} ({source})", marker.label)
                })
                .collect();
            format!("; marked: {}", labels.join(", "))
        }
    };
    format!(
        "*Plot: {}, {drawn} points{markers}. The HTML report draws it.*\n",
        escaped(&plot.title)
    )
}

/// A manual's own headings go below the section's.
fn manual(text: &str) -> String {
    let lines = text.lines().map(|line| match line.starts_with('#') {
        true => format!("#### {}\n", line.trim_start_matches('#').trim()),
        false => format!("{line}\n"),
    });
    format!("### Manual\n\n{}", lines.collect::<String>())
}

/// Text that Markdown must not read as markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '|' | '*' | '_' | '<' | '>' | '`' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(if letter == '\n' { ' ' } else { letter });
    }
    escaped
}
