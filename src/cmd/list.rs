//! `plumb list`: the catalogue.

use crate::cmd::{Failure, output};
use catalogue::FAMILIES;

/// Lists the experiments, by family.
#[derive(clap::Args)]
pub struct Args {
    /// Also those that exist to try plumb itself
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let mut text = String::new();
    for family in FAMILIES.iter().filter(|family| args.all || !family.hidden) {
        text.push_str(&format!("{}  {}\n", family.name, family.about));
        for experiment in family.experiments {
            let card = experiment.card();
            text.push_str(&format!("  {:<18} {}\n", card.id, card.title));
        }
    }
    text.push_str(
        "\n`plumb explain ID` prints an experiment's manual, `plumb plan` what would run here.\n",
    );
    Ok(output::print(&text)?)
}
