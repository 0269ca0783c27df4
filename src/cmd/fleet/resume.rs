//! `plumb fleet resume`: goes on with what a sweep has not measured.

use crate::cmd::fleet::node::{PlaceArgs, lead};
use crate::cmd::fleet::sweep::Waits;
use crate::cmd::run::stop_flag;
use crate::cmd::{Failure, usage};
use fleet::book::Book;
use fleet::recipe::Recipe;
use fleet::serve::Lead;
use std::path::PathBuf;

/// Goes on with a sweep that was interrupted, or that lost nodes
///
/// It measures what the record does not have, with the same seed and matchings. It takes the place
/// of rank 0; start the other nodes with `plumb fleet node` as before.
#[derive(clap::Args)]
pub struct Args {
    /// The record of the sweep
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    waits: Waits,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let (book, earlier) = Book::resume(&args.record).map_err(usage)?;
    let options = args.place.options(Some(earlier.header.size))?;
    if options.place.rank != 0 {
        return Err(Failure::usage(
            "rank 0 goes on with a sweep; start the other nodes with `plumb fleet node`",
        ));
    }
    let header = earlier.header.clone();
    if header.plumb != env!("CARGO_PKG_VERSION") {
        return Err(Failure::Usage(format!(
            "plumb {} began the sweep, this is {}: go on with the same version",
            header.plumb,
            env!("CARGO_PKG_VERSION")
        )));
    }
    if header.simulated != options.drawn.is_some() {
        return Err(Failure::usage(
            "figures of one sweep are all measured or all drawn (--figures)",
        ));
    }
    let limits = args.waits.limits(&header.preset);
    let recipe = Recipe { header, limits };
    lead(&options, Lead { recipe, book, earlier: Some(earlier) }, &stop)
}
