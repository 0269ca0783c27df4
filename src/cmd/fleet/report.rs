//! `plumb fleet report`: a sweep for people and programs.

use super::directory::{Directory, titles};
use crate::cmd::Failure;
use crate::cmd::rendered::Place;
use fleet::report::{View, build, json, ndjson};
use report::{html, markdown, terminal};

/// Reports a sweep: which nodes and links are slower, in what, and how sure that is
///
/// The answer comes first: the nodes and links that are worse than their peers, with the factor and its
/// interval, and what to do. Then the strata (nodes with the same hardware), the network, and what was
/// not measured and why. The whole report has every node beside its peers (a heat map on the page) and
/// the matrix of pairs.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    directory: Directory,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    #[command(flatten)]
    place: Place,
    /// Show every node too
    #[arg(long)]
    full: bool,
}

/// What a sweep can be rendered as.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Text for this terminal
    Terminal,
    /// One HTML page that opens offline
    Html,
    /// Markdown for a comment on a pull request; a line says what it leaves out
    Markdown,
    /// One object with the answer
    Json,
    /// One object per figure and line, for databases (docs/TEAM.md)
    Ndjson,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let fleet = args.directory.read()?;
    let view = View::new(&fleet, titles([&fleet]));
    let text = match args.format {
        Format::Terminal => terminal::render(&build(&view, args.full), args.place.look()),
        Format::Html => html::render(&build(&view, true), html::Print::Full),
        Format::Markdown => markdown::render(&build(&view, true)),
        Format::Json => json::render(&view),
        Format::Ndjson => ndjson::render(&view),
    };
    args.place.write(&text)
}
