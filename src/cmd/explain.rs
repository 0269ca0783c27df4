//! `plumb explain`: an experiment's manual.

use crate::cmd::{Failure, output};
use bench::experiment::{Experiment, Role};
use catalogue::{FAMILIES, find};
use session::select::{domain_text, near};

/// Prints the manual of an experiment (or of a family's): question, method, prediction, parameters, pitfalls, sources.
#[derive(clap::Args)]
pub struct Args {
    /// Experiment or family, for example memory.latency
    id: String,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let family = FAMILIES.iter().find(|family| family.name == args.id);
    let pages: Vec<String> = match (find(&args.id), family) {
        (Some(experiment), _) => vec![page(experiment)],
        (None, Some(family)) => family.experiments.iter().map(|e| page(*e)).collect(),
        (None, None) => {
            return Err(Failure::Usage(format!(
                "no experiment or family is called `{}`{} `plumb list` names them all",
                args.id,
                near(&args.id, FAMILIES)
            )));
        }
    };
    Ok(output::print(&pages.join("\n"))?)
}

/// The manual of an experiment with what its card says.
fn page(experiment: &dyn Experiment) -> String {
    let card = experiment.card();
    let mut text = format!(
        "# {}: {}\n\n{}\n## Values\n\n",
        card.id,
        card.title,
        experiment.manual()
    );
    if card.params.is_empty() {
        text.push_str("It takes no parameters.\n");
    }
    for param in card.params {
        let [quick, standard, thorough] = param.defaults;
        let role = match param.role {
            Role::Setting => "a setting",
            Role::Case => "names cases",
        };
        let defaults = if quick == standard && standard == thorough {
            format!("default {quick}")
        } else {
            format!("default {quick} in quick, {standard} in standard, {thorough} in thorough")
        };
        text.push_str(&format!(
            "- `{}` ({role}): {}. It takes {}; {defaults}.\n",
            param.name,
            param.doc.trim_end_matches('.'),
            domain_text(&param.domain),
        ));
    }
    text.push_str("\n## Metrics\n\n");
    for metric in card.metrics {
        let derived = if metric.derived { ", derived" } else { "" };
        let lacking = match experiment.may_lack(metric) {
            true => ", where there is one",
            false => "",
        };
        text.push_str(&format!(
            "- `{}` ({}{derived}{lacking}): {}.\n",
            metric.name,
            metric.unit,
            metric.doc.trim_end_matches('.')
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::page;
    use catalogue::FAMILIES;
    use std::path::Path;

    /// docs/EXPERIMENTS.md is the manuals of all experiments; `UPDATE_DOCS=1` rewrites it.
    #[test]
    fn manual_page_is_current() {
        let mut text =
            "<!-- Made from the sources: UPDATE_DOCS=1 cargo test --bin plumb manual_page -->\n\n"
                .to_owned();
        for family in FAMILIES.iter().filter(|family| !family.hidden) {
            for experiment in family.experiments {
                text.push_str(&page(*experiment));
                text.push('\n');
            }
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/EXPERIMENTS.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == text,
            "docs/EXPERIMENTS.md is stale: UPDATE_DOCS=1 cargo test --bin plumb manual_page"
        );
    }
}
