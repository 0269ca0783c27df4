//! From a run to its document.

mod alike;
mod bounds;
pub mod compare;
mod conclusions;
mod crosscheck;
mod estimates;
mod experiment;
mod first;
mod lab_table;
mod machine;
mod matrix;
mod method;
mod overview;
pub mod paired;
pub mod plots;
mod reasons;
mod remarks;
mod spans;
pub mod summary;
pub mod trend;

use super::document::{Document, Section};
use super::values::counted;
use analysis::among::{Machine, standings};
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Finding, findings};
use record::event::Ending;
use record::run::Run;

pub fn build(run: &Run) -> Document {
    build_among(run, &[])
}

pub fn build_among(run: &Run, others: &[Machine]) -> Document {
    let figures = figures(run);
    let findings = findings(run, &figures);
    if run.header.is_crosscheck() {
        return of_crosscheck(run, &findings);
    }
    let mut sections = vec![first::section(run, &figures), overview::findings(&findings)];
    sections.extend(estimates::section(run, &figures));
    sections.extend([machine::section(run), method::section(run)]);
    sections.extend(of_experiments(run, &figures));
    sections.extend(crosscheck::section(run));
    sections.extend([
        lab_table::section(&figures),
        overview::score_section(run, &figures),
        machine::environment(run),
    ]);
    let standings = standings(&figures, others);
    sections.extend(conclusions::section(&standings));
    sections.push(conclusions::sources(run, &standings, others));
    let summary = summary(run, &figures, &findings);
    bounds::bounded(Document::new(title(run), summary, sections))
}

pub fn experiments(run: &Run, figures: &[Figure]) -> Document {
    let sections = of_experiments(run, figures);
    bounds::bounded(Document::new(title(run), "", sections))
}

/// The machine is what a report is about.
fn title(run: &Run) -> String {
    format!("Lab report: {}", machine::in_a_line(run))
}

fn of_experiments(run: &Run, figures: &[Figure]) -> Vec<Section> {
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let sections = planned.map(|planned| {
        let own = figures.iter().filter(|figure| figure.experiment == planned.id);
        experiment::section(run, planned, &own.collect::<Vec<&Figure>>())
    });
    sections.collect()
}

/// The report of a record that holds a crosscheck and no run.
fn of_crosscheck(run: &Run, findings: &[Finding]) -> Document {
    let mut sections: Vec<Section> = crosscheck::section(run).into_iter().collect();
    sections.extend([
        overview::findings(findings),
        machine::section(run),
        machine::environment(run),
    ]);
    let told = crosscheck::summary(run);
    let told = told.unwrap_or_else(|| "no comparison with other tools".to_owned());
    let summary = format!("{told}; {}.", counted(findings.len(), "finding"));
    Document::new(format!("Crosscheck: {}", run.header.run), summary, sections)
}

fn summary(run: &Run, figures: &[Figure], findings: &[Finding]) -> String {
    let count = |ending: Ending| figures.iter().filter(|figure| figure.outcome == ending).count();
    if run.header.is_published() {
        let lacking = match count(Ending::Skipped) {
            0 => String::new(),
            some => format!("; {some} plots or tables are missing from its text file"),
        };
        return format!("{} figures as printed in the report{lacking}.", count(Ending::Measured));
    }
    let mut parts = vec![format!(
        "{} figures measured, {} skipped, {} failed",
        count(Ending::Measured),
        count(Ending::Skipped),
        count(Ending::Failed)
    )];
    parts.extend(crosscheck::summary(run));
    parts.push(counted(findings.len(), "finding"));
    format!("{}: {}.", run.header.run, parts.join("; "))
}
