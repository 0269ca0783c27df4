//! From a run to its document.

mod alike;
mod experiment;
mod groups;
mod machine;
mod matrix;
mod method;
mod overview;
mod phrases;
mod plots;
mod reasons;
mod remarks;
mod spans;

use super::document::Document;
use super::values::percent;
use crate::analysis::figure::Figure;
use crate::analysis::figures;
use crate::analysis::findings::{Finding, findings};
use crate::analysis::health::health;
use crate::analysis::score::score;
use record::event::{Ending, PredictionKind};
use record::run::Run;

/// The whole report of a run.
pub(crate) fn build(run: &Run) -> Document {
    let figures = figures(run);
    let findings = findings(run, &figures);
    let mut sections = vec![machine::section(run), method::section(run)];
    for planned in run.plan.iter().flat_map(|plan| &plan.experiments) {
        let own: Vec<&Figure> = figures
            .iter()
            .filter(|figure| figure.experiment == planned.id)
            .collect();
        sections.push(experiment::section(run, planned, &own));
    }
    sections.extend([
        overview::all_figures(&figures),
        overview::score_section(run, &figures),
        overview::findings(&findings),
        machine::environment(run),
    ]);
    Document {
        title: format!("Lab report: {}", run.header.run),
        summary: summary(run, &figures, &findings),
        sections,
    }
}

fn summary(run: &Run, figures: &[Figure], findings: &[Finding]) -> String {
    let count = |ending: Ending| {
        figures
            .iter()
            .filter(|figure| figure.outcome == ending)
            .count()
    };
    let mut parts = vec![format!(
        "{} figures measured, {} skipped, {} failed",
        count(Ending::Measured),
        count(Ending::Skipped),
        count(Ending::Failed)
    )];
    let prior = score(figures, PredictionKind::Prior).all;
    if let Some(inside) = prior.inside_share() {
        parts.push(format!(
            "{} of {} predictions made from the hardware description alone hold",
            percent(inside),
            prior.figures
        ));
    }
    let health = health(run);
    if let Some(share) = health.disturbed_share() {
        parts.push(format!(
            "{} of {} rounds were disturbed",
            percent(share),
            health.rounds
        ));
    }
    parts.push(format!("{} findings", findings.len()));
    format!("{}.", parts.join("; "))
}
