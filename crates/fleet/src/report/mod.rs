//! A sweep for people and programs: the document that every renderer of the lab report shows, and the
//! figures as JSON.

mod answer;
pub mod compared;
pub mod json;
mod missing;
pub mod ndjson;
mod network;
mod nodes;
#[cfg(test)]
mod tests;

use crate::model::{Judgement, Subject, judge};
use crate::names::Titles;
use crate::read::{About, Fleet};
use record::shown::shown;
use report::document::{Audience, Block, Cell, Document};

/// Rows of any table, and of those that are shown where room is short.
const ROWS: usize = 5_000;
const SHOWN: usize = 20;

pub struct View<'fleet> {
    pub fleet: &'fleet Fleet,
    pub judgement: Judgement,
    pub titles: Titles,
}

impl<'fleet> View<'fleet> {
    pub fn new(fleet: &'fleet Fleet, titles: Titles) -> Self {
        View { fleet, judgement: judge(fleet), titles }
    }

    fn subject(&self, subject: Subject) -> String {
        self.titles.subject(self.fleet, subject)
    }

    fn about(&self, figure: usize) -> &About {
        &self.fleet.figures[figure]
    }

    /// Place of a figure in a table: key figures come first.
    fn place(&self, figure: usize) -> (usize, usize) {
        (self.titles.place(&self.about(figure).key), figure)
    }
}

/// The document: the answer, the nodes, the network, and what is missing; the `whole` one has every
/// node too.
pub fn build(view: &View, whole: bool) -> Document {
    let mut sections = vec![answer::section(view), nodes::strata(view)];
    if whole {
        sections.extend(nodes::section(view));
    }
    sections.extend(network::section(view, whole));
    sections.extend(missing::section(view));
    Document::new(answer::title(view), answer::summary(view), sections)
}

/// A sentence for rows that a table has no room for: `7 more nodes are left out; …`.
fn left_out(all: usize, rows: usize, what: &str) -> Option<(Audience, Block)> {
    let more = all.checked_sub(rows).filter(|more| *more > 0)?;
    Some(Block::text(format!("{more} more{what} are left out; the ndjson file has all.")).for_all())
}

fn pair(name: &str, text: String) -> (String, String) {
    (name.to_owned(), text)
}

/// A value in the figure's unit.
fn value(about: &About, value: f64) -> Cell {
    Cell::plain(shown(value, None, about.unit).value)
}
