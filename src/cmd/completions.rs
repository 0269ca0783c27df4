//! `plumb completions` and `plumb man`: made from the same definition as the parser.

use crate::cmd::{Cli, Failure, output};
use clap::CommandFactory;

/// Prints a completion script for a shell, for example `source <(plumb completions bash)`.
#[derive(clap::Args)]
pub struct Args {
    /// Shell
    shell: clap_complete::Shell,
}

/// Prints the manual page, for example `plumb man | man -l -`.
#[derive(clap::Args)]
pub struct ManArgs {}

pub fn run(args: Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "plumb", &mut script);
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}

pub fn man(_: ManArgs) -> Result<(), Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| anyhow::anyhow!("the manual page cannot be made: {error}"))?;
    Ok(output::print(&String::from_utf8_lossy(&page))?)
}
