//! `plumb fleet`: many machines measured as one.

mod compare;
mod directory;
mod plan;
mod report;
mod run;
mod suspects;
mod sweep;

use crate::cmd::Failure;
use clap::Subcommand;

/// Measures many machines, and finds the nodes and links that are slower than their peers
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Plan(plan::Args),
    Run(Box<run::Args>),
    Report(report::Args),
    Suspects(suspects::Args),
    Compare(compare::Args),
}

pub fn run(args: Args) -> Result<(), Failure> {
    match args.action {
        Action::Plan(args) => plan::run(args),
        Action::Run(args) => run::run(*args),
        Action::Report(args) => report::run(args),
        Action::Suspects(args) => suspects::run(args),
        Action::Compare(args) => compare::run(args),
    }
}
