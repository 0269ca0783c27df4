//! `plumb fleet plan`.

use crate::cmd::Failure;

/// Show the phases of a sweep with their costs; measure nothing
#[derive(clap::Args)]
pub struct Args {}

/// PLACEHOLDER: its helper replaces this before anything lands.
#[expect(clippy::needless_pass_by_value, reason = "placeholder")]
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(anyhow::anyhow!("PLACEHOLDER").into())
}
