//! Documents without control characters, whatever the record has in its texts.

use super::build::summary::Summary;
use super::document::{Block, Document, Plot, Table};
use record::plain::{line, lines, steers};

/// Puts spaces for what steers a terminal, a browser or the direction of a line. Every text is of one
/// line, but for manuals.
pub fn document(document: &mut Document) {
    text(&mut document.title);
    text(&mut document.summary);
    for section in &mut document.sections {
        text(&mut section.id);
        text(&mut section.heading);
        for (_, block) in &mut section.blocks {
            of_block(block);
        }
    }
}

/// The same of a run's summary, whose document is one already.
pub fn summary(summary: &mut Summary) {
    text(&mut summary.title);
    of_table(&mut summary.keys);
    texts(summary.quality.iter_mut().chain(&mut summary.look_at).map(|cell| &mut cell.text));
    texts(summary.score.iter_mut().chain(&mut summary.shared).chain(&mut summary.notes));
}

fn text(text: &mut String) {
    if text.contains(steers) {
        *text = line(text);
    }
}

fn texts<'text>(all: impl IntoIterator<Item = &'text mut String>) {
    all.into_iter().for_each(text);
}

fn of_block(block: &mut Block) {
    match block {
        Block::Paragraph(words) | Block::Subheading(words) => text(words),
        Block::KeyValues(pairs) => {
            for (name, value) in pairs {
                texts([name, value]);
            }
        }
        Block::Table(table) => of_table(table),
        Block::Keys(keys) => {
            for one in keys {
                text(&mut one.title);
                of_table(&mut one.table);
            }
        }
        Block::Figures(table, spreads) => {
            of_table(table);
            for spread in spreads.iter_mut().flatten() {
                text(&mut spread.text);
                texts(spread.modes.iter_mut().map(|(_, mode)| mode));
            }
        }
        Block::Plot(plot) => of_plot(plot),
        Block::Grid(grid) => {
            texts([&mut grid.title, &mut grid.label, &mut grid.rows.0, &mut grid.columns.0]);
            texts(grid.rows.1.iter_mut().chain(&mut grid.columns.1));
        }
        Block::Notes(notes) => {
            texts(notes.iter_mut().flat_map(|note| [&mut note.about, &mut note.text]));
        }
        Block::Manual(words) | Block::Words(words) => *words = lines(words),
        Block::Folded { summary, blocks } => {
            text(summary);
            blocks.iter_mut().for_each(of_block);
        }
    }
}

fn of_table(table: &mut Table) {
    text(&mut table.caption);
    texts(table.columns.iter_mut().map(|column| &mut column.heading));
    let cells = table.rows.iter_mut().flat_map(|row| &mut row.cells);
    texts(cells.map(|cell| &mut cell.text));
}

fn of_plot(plot: &mut Plot) {
    text(&mut plot.title);
    for axis in [&mut plot.x, &mut plot.y] {
        text(&mut axis.label);
        texts(&mut axis.names);
    }
    for series in &mut plot.series {
        text(&mut series.name);
        texts(series.points.iter_mut().map(|point| &mut point.hover));
    }
    texts(plot.markers.iter_mut().map(|marker| &mut marker.label));
}
