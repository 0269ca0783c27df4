//! What a document shows at most of a run, with a sentence in place of the rest.

use crate::document::{Block, Document, Table};

/// Rows of a table: pages and terminals become slow with more. A standard run
/// has some 1,700 figures.
const ROWS_MAX: usize = 5_000;

/// The document with tables of readable length.
pub(super) fn bounded(mut document: Document) -> Document {
    for section in &mut document.sections {
        let blocks = std::mem::take(&mut section.blocks).into_iter();
        section.blocks = blocks
            .flat_map(|(audience, block)| of_block(block).map(move |block| (audience, block)))
            .collect();
    }
    document
}

fn of_block(mut block: Block) -> impl Iterator<Item = Block> {
    let left_out = match &mut block {
        Block::Table(table) => cut(table),
        Block::Figures(table, spreads) => {
            spreads.truncate(ROWS_MAX);
            cut(table)
        }
        Block::Folded { blocks, .. } => {
            *blocks = std::mem::take(blocks)
                .into_iter()
                .flat_map(|block| of_block(block).collect::<Vec<_>>())
                .collect();
            0
        }
        _ => 0,
    };
    let sentence = (left_out > 0).then(|| {
        Block::text(format!(
            "{left_out} more rows are left out; `plumb report RUN --format csv` has every figure."
        ))
    });
    std::iter::once(block).chain(sentence)
}

fn cut(table: &mut Table) -> usize {
    let left_out = table.rows.len().saturating_sub(ROWS_MAX);
    table.rows.truncate(ROWS_MAX);
    left_out
}
