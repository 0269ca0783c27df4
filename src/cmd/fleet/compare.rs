//! `plumb fleet compare`.

use crate::cmd::Failure;

/// Compare two sweeps over the same nodes
#[derive(clap::Args)]
pub struct Args {}

/// PLACEHOLDER: its helper replaces this before anything lands.
#[expect(clippy::needless_pass_by_value, reason = "placeholder")]
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(anyhow::anyhow!("PLACEHOLDER").into())
}
