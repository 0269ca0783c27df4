//! `plumb doctor`: what would disturb a measurement here, and what to do about it.

use crate::cmd::{Failure, output};

/// Shows what would disturb a measurement here, and what to do about each.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args) -> Result<(), Failure> {
    Ok(output::print("")?)
}
