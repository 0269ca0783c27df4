//! `plumb fleet compare`: two sweeps over the same nodes.

use super::directory::{open, titles};
use crate::cmd::rendered::Place;
use crate::cmd::{Failure, output};
use fleet::compare::compare;
use fleet::report::compared::build;
use report::{html, markdown, terminal};
use std::path::PathBuf;

/// Compares two sweeps over the same nodes, before and after a change
///
/// Each node is compared with itself, by its name; what all nodes of a stratum have in common is the
/// change, and a node that went another way is named. This shows far smaller changes than two sets of
/// nodes do, because nodes differ from each other more than one differs from itself.
///
/// A change on all nodes is a finding if it is significant after correction for the number of figures
/// and larger than 1.5 % (hardware) or 4 % (os, io).
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 no finding; 1 finding; 2 usage error; 3 failure.

Examples:
  plumb fleet compare before after
  plumb fleet compare before after --all --format html -o comparison.html")]
pub struct Args {
    /// Directory of the base sweep's files, A
    base: PathBuf,
    /// Directory of the new sweep's files, B
    new: PathBuf,
    /// Show all figures, and not only those that changed
    #[arg(long)]
    all: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

/// What a comparison of sweeps can be rendered as.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Text for this terminal
    Terminal,
    /// One HTML page that opens offline
    Html,
    /// Markdown for a comment on a pull request; a line says what it leaves out
    Markdown,
    /// One object with everything
    Json,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let (base, new) = (open(&args.base, None)?, open(&args.new, None)?);
    if base.header() == new.header() {
        output::diagnose("plumb: the sweep is compared with itself; name the new one");
    }
    let comparison = compare(&base, &new);
    let titles = titles([&base, &new]);
    let document = |whole| build(&comparison, (&base, &new), &titles, whole);
    let text = match args.format {
        Format::Terminal => terminal::render(&document(args.all), args.place.look()),
        Format::Html => html::render(&document(true), html::Print::Full),
        Format::Markdown => markdown::render(&document(true)),
        Format::Json => {
            format!("{:#}\n", serde_json::to_value(&comparison).map_err(anyhow::Error::from)?)
        }
    };
    args.place.write(&text)?;
    if comparison.nodes.is_empty() {
        return Err(Failure::usage(
            "the sweeps have no node in common: nodes are paired by their names",
        ));
    }
    if comparison.has_finding() { Err(Failure::Finding) } else { Ok(()) }
}
