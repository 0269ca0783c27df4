//! `plumb fleet node`.

use crate::cmd::Failure;

/// Take part in a sweep as one of its nodes
#[derive(clap::Args)]
pub struct Args {}

/// PLACEHOLDER: its helper replaces this before anything lands.
#[expect(clippy::needless_pass_by_value, reason = "placeholder")]
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(anyhow::anyhow!("PLACEHOLDER").into())
}
