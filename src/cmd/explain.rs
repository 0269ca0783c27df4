//! `plumb explain`: an experiment's manual.

use crate::cmd::{Failure, output};
use crate::experiment::Role;
use crate::experiments::{FAMILIES, find};
use crate::session::select::{domain_text, near};

/// Prints the manual of an experiment: question, method, prediction, parameters, pitfalls, sources.
#[derive(clap::Args)]
pub struct Args {
    /// Experiment, for example memory.latency
    id: String,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let experiment = find(&args.id).ok_or_else(|| {
        Failure::Usage(format!(
            "no experiment is called `{}`{} `plumb list` names them all",
            args.id,
            near(&args.id, FAMILIES)
        ))
    })?;
    let card = experiment.card();
    let mut text = format!(
        "# {}: {}\n\n{}\n## Values of the parameters\n\n",
        card.id,
        card.title,
        experiment.manual()
    );
    for param in card.params {
        let [quick, standard, thorough] = param.defaults;
        let role = if param.role == Role::Setting {
            "setting"
        } else {
            "case"
        };
        text.push_str(&format!(
            "- `{}` ({role}): {}; takes {}; quick {quick}, standard {standard}, thorough {thorough}\n",
            param.name,
            param.doc,
            domain_text(&param.domain),
        ));
    }
    text.push_str("\n## Metrics\n\n");
    for metric in card.metrics {
        let derived = if metric.derived { ", derived" } else { "" };
        text.push_str(&format!(
            "- `{}` ({}{derived}): {}\n",
            metric.name, metric.unit, metric.doc
        ));
    }
    Ok(output::print(&text)?)
}
