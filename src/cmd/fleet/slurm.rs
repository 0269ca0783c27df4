//! `plumb fleet slurm`.

use crate::cmd::Failure;

/// Print a job script for Slurm
#[derive(clap::Args)]
pub struct Args {}

/// PLACEHOLDER: its helper replaces this before anything lands.
#[expect(clippy::needless_pass_by_value, reason = "placeholder")]
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(anyhow::anyhow!("PLACEHOLDER").into())
}
