//! `plumb list`: the catalogue.

use crate::cmd::{Failure, output, usage};
use bench::experiment::Card;
use catalogue::FAMILIES;
use serde_json::{Value, json};
use session::select::Selection;

/// Lists the experiments by family.
#[derive(clap::Args)]
pub struct Args {
    /// What to list: families, ids or globs [default: all]
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// Include the experiments that only test plumb itself
    #[arg(long)]
    all: bool,
    /// Print a JSON array instead, one object per experiment
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let selection = Selection::parse(&args.selectors, FAMILIES).map_err(usage)?;
    let (mut text, mut objects) = (String::new(), Vec::new());
    let is_shown = |hidden: bool| args.all || !args.selectors.is_empty() || !hidden;
    for family in FAMILIES.iter().filter(|family| is_shown(family.hidden)) {
        let cards = family.experiments.iter().map(|experiment| experiment.card());
        let cards: Vec<&Card> = cards.filter(|card| selection.wants(family, card)).collect();
        if cards.is_empty() {
            continue;
        }
        text.push_str(&format!("{}  {}\n", family.name, family.about));
        for card in cards {
            text.push_str(&format!("  {:<18} {}\n", card.id, card.title));
            objects.push(object(family.name, card));
        }
    }
    text.push_str(
        "\n`plumb explain ID` prints the manual of an experiment, `plumb plan` what would run here.\n",
    );
    match args.json {
        true => output::print(&format!("{:#}\n", Value::Array(objects)))?,
        false => output::page(&text)?,
    }
    Ok(())
}

fn object(family: &str, card: &Card) -> Value {
    let params = card.params.iter().map(|param| json!({"name": param.name, "doc": param.doc}));
    json!({
        "family": family,
        "id": card.id,
        "title": card.title,
        "params": params.collect::<Vec<_>>(),
        "metrics": card.metrics,
    })
}
