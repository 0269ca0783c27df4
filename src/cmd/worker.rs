//! `plumb worker`: the child that measures; the session starts it.

use crate::cmd::{BUILD, Failure};
use session::worker;

/// Measures one order from standard input; started by a session, not by hand.
#[derive(clap::Args)]
pub struct Args {
    /// Process id of the session
    parent: u32,
}

pub fn run(args: Args) -> Result<(), Failure> {
    Ok(worker::serve(catalogue::FAMILIES, BUILD, args.parent)?)
}
