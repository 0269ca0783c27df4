//! `plumb fleet resume`.

use crate::cmd::Failure;

/// Measure what a sweep has not measured yet
#[derive(clap::Args)]
pub struct Args {}

/// PLACEHOLDER: its helper replaces this before anything lands.
#[expect(clippy::needless_pass_by_value, reason = "placeholder")]
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(anyhow::anyhow!("PLACEHOLDER").into())
}
