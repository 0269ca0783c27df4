//! `plumb fleet`: many machines measured as one.

mod compare;
mod follow;
mod kubernetes;
mod node;
mod plan;
mod records;
mod report;
mod resume;
mod run;
mod slurm;
mod ssh;
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
    Run(run::Args),
    Node(node::Args),
    Resume(resume::Args),
    Report(report::Args),
    Compare(compare::Args),
    Slurm(slurm::Args),
    Kubernetes(Box<kubernetes::Args>),
}

/// Runs the action.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.action {
        Action::Plan(args) => plan::run(args),
        Action::Run(args) => run::run(args),
        Action::Node(args) => node::run(args),
        Action::Resume(args) => resume::run(args),
        Action::Report(args) => report::run(args),
        Action::Compare(args) => compare::run(args),
        Action::Slurm(args) => slurm::run(args),
        Action::Kubernetes(args) => kubernetes::run(*args),
    }
}
