//! A sweep for people and programs: the document that every renderer of the lab report shows, and
//! the figures themselves as CSV, JSON and OpenMetrics.

mod accused;
mod answer;
pub mod compared;
pub mod csv;
pub mod json;
mod missing;
pub mod names;
pub mod ndjson;
mod network;
mod nodes;
pub mod openmetrics;
mod strata;
#[cfg(test)]
mod tests;

use crate::model::{Judgement, judge};
use crate::read::Sweep;
use names::Titles;
use report::document::{Audience, Block, Document, Section};

/// A sweep with its verdicts.
pub struct View<'sweep> {
    /// The sweep.
    pub sweep: &'sweep Sweep,
    /// What follows from it.
    pub judgement: Judgement,
    /// What its figures are called.
    pub titles: Titles,
}

impl<'sweep> View<'sweep> {
    /// A sweep, judged.
    pub fn from_sweep(sweep: &'sweep Sweep, titles: Titles) -> Self {
        View { sweep, judgement: judge(sweep), titles }
    }

    /// Title of a subject by its index.
    fn subject(&self, at: usize) -> String {
        self.titles.subject(&self.judgement.subjects[at])
    }
}

/// The document: the answer, the strata, the network, and what is missing; the `whole` one has the
/// evidence, every node and the sweep's own course too.
pub fn build(view: &View, whole: bool) -> Document {
    let mut sections: Vec<Section> = vec![answer::section(view)];
    if whole {
        sections.extend(accused::section(view));
    }
    sections.push(strata::section(view));
    if whole {
        sections.extend(nodes::section(view));
    }
    sections.extend(network::section(view, whole));
    sections.extend(missing::section(view));
    if whole {
        sections.push(missing::course(view));
    }
    Document::new(answer::title(view), answer::summary(view), sections)
}

/// A sentence for what a report has no room for: `7 more nodes are left out; …`.
fn left_out(all: usize, shown: usize, what: &str, way_out: &str) -> Option<(Audience, Block)> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    Some(Block::text(format!("{more} more{what} are left out; {way_out}.")).for_all())
}
