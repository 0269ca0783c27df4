//! `plumb fleet run`: starts the nodes of a sweep, follows it, and reports.

use crate::cmd::Failure;
use crate::cmd::fleet::slurm::{JobArgs, Submission};
use crate::cmd::run::stop_flag;
use std::path::PathBuf;

/// Start a sweep on many machines, follow it, and report
#[derive(clap::Args)]
pub struct Args {
    /// Submit a job to Slurm
    #[arg(long, conflicts_with = "hosts")]
    slurm: bool,
    /// Start the nodes over ssh: a file with a host a line, then its labels (rack=r1)
    #[arg(long, value_name = "FILE", required_unless_present = "slurm")]
    hosts: Option<PathBuf>,
    #[command(flatten)]
    job: JobArgs,
    /// With --slurm: follow a job that was submitted before
    #[arg(long, value_name = "ID", requires = "slurm")]
    job_id: Option<String>,
    /// With --slurm: Ctrl-C cancels the job [default: it goes on]
    #[arg(long, requires = "slurm")]
    cancel: bool,
    /// The record of the sweep
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Options of the sweep, as `plumb fleet node` takes them
    #[arg(last = true)]
    sweep: Vec<String>,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let submission = Submission {
        job: &args.job,
        submitted: args.job_id.as_deref(),
        out: args.out.as_deref(),
        sweep: args.sweep,
        cancel: args.cancel,
    };
    submission.follow(&stop)?;
    Ok(())
}
