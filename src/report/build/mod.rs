//! From a run to its document.

mod alike;
pub(crate) mod compare;
mod experiment;
mod groups;
mod machine;
mod matrix;
mod method;
mod overview;
pub(crate) mod plots;
mod reasons;
mod remarks;
mod spans;
pub(crate) mod trend;

pub(crate) use experiment::METHOD;

use super::document::Document;
use super::values::percent;
use crate::analysis::figure::Figure;
use crate::analysis::figures;
use crate::analysis::findings::{Finding, findings};
use crate::analysis::health::health;
use crate::analysis::score::score;
use record::event::{Ending, PredictionKind};
use record::quantity::digits;
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
        overview::all_figures(run, &figures),
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
    let prior = score(figures, PredictionKind::Prior).all;
    if run.header.is_published() {
        return published(count(Ending::Measured), count(Ending::Skipped), figures);
    }
    let mut parts = vec![format!(
        "{} figures measured, {} skipped, {} failed",
        count(Ending::Measured),
        count(Ending::Skipped),
        count(Ending::Failed)
    )];
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

/// Of a report's machine: most of its estimates are single numbers, which cannot hold, so it is told
/// how far off they are.
fn published(printed: usize, lacking: usize, figures: &[Figure]) -> String {
    let off = figures.iter().filter_map(|figure| {
        let likely = figure.prior.as_ref()?.prediction.range?.likely;
        let ratio = figure.value? / likely;
        Some(ratio.max(1.0 / ratio))
    });
    let mut off: Vec<f64> = off.collect();
    off.sort_by(f64::total_cmp);
    let mut parts = vec![format!("{printed} figures as their report prints them")];
    if lacking > 0 {
        parts.push(format!(
            "{lacking} plots or tables that its text file lacks"
        ));
    }
    if let Some(median) = off.get(off.len() / 2) {
        parts.push(format!(
            "its own {} estimates are off by a factor of {} in the median",
            off.len(),
            digits(*median)
        ));
    }
    format!("{}.", parts.join("; "))
}
