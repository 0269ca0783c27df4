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

use crate::model::{Judgement, Role, Subject, judge};
use crate::names::Titles;
use crate::read::Fleet;
use report::document::{Audience, Block, Document};

/// A sweep with its verdicts.
pub struct View<'fleet> {
    pub fleet: &'fleet Fleet,
    pub judgement: Judgement,
    /// What its figures are called.
    pub titles: Titles,
}

impl<'fleet> View<'fleet> {
    pub fn new(fleet: &'fleet Fleet, titles: Titles) -> Self {
        View { fleet, judgement: judge(fleet), titles }
    }

    fn subject(&self, subject: Subject) -> String {
        self.titles.subject(self.fleet, subject)
    }

    /// The place of a node alone in a figure.
    fn alone(figure: usize) -> Subject {
        Subject { figure, role: Role::Alone }
    }
}

/// The document: the answer, the nodes, the network, and what is missing; the `whole` one has every
/// node too.
pub fn build(view: &View, whole: bool) -> Document {
    let mut sections = vec![answer::section(view)];
    sections.push(nodes::strata(view));
    if whole {
        sections.extend(nodes::section(view));
    }
    sections.extend(network::section(view, whole));
    sections.extend(missing::section(view));
    Document::new(answer::title(view), answer::summary(view), sections)
}

/// A sentence for what a report has no room for: `7 more nodes are left out; …`.
fn left_out(all: usize, shown: usize, what: &str) -> Option<(Audience, Block)> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    Some(Block::text(format!("{more} more{what} are left out; the ndjson file has all.")).for_all())
}
