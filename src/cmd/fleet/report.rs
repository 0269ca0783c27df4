//! `plumb fleet report`: a sweep for people and programs.

use super::records;
use crate::cmd::rendered::Place;
use crate::cmd::{Failure, output};
use fleet::report::{View, build, csv, json, ndjson, openmetrics};
use report::{html, markdown, terminal};
use std::path::PathBuf;

/// Reports a sweep: which nodes and links are slower, in what, and how sure that is
///
/// The answer comes first: the nodes and links that are worse than their peers, confirmed by a second
/// measurement or not, with the factor and its interval, and what to do. Then the strata (nodes with
/// the same hardware), the network, and what was not measured and why. The whole report has the
/// evidence, every node beside its peers (a heat map on the page) and the matrix of pairs.
#[derive(clap::Args)]
pub struct Args {
    /// The record of the sweep
    #[arg(required_unless_present = "schema")]
    record: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    #[command(flatten)]
    place: Place,
    /// Show the evidence and every node too
    #[arg(long)]
    full: bool,
    /// Print the JSON Schema of --format json instead
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// What a sweep can be rendered as.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Text for this terminal
    Terminal,
    /// One HTML page that opens offline
    Html,
    /// Markdown that fits a comment on a pull request, and lists what it omits
    Markdown,
    /// One row per figure; the node, its labels and each parameter are columns
    Csv,
    /// One object with everything
    Json,
    /// One object per figure and line, for databases (docs/TEAM.md)
    Ndjson,
    /// `OpenMetrics` text with a label for the node
    Openmetrics,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let Some(record) = args.record else {
        return Ok(output::print(json::SCHEMA)?);
    };
    let sweep = records::open(&record)?;
    let titles = records::titles([&sweep]);
    let view = View::from_sweep(&sweep, titles);
    let text = match args.format {
        Format::Terminal => terminal::render(&build(&view, args.full), args.place.look()),
        Format::Html => html::render(&build(&view, true), html::Print::Full),
        Format::Markdown => markdown::render(&build(&view, true)),
        Format::Csv => csv::render(&view, &crate::cmd::report::parameters()),
        Format::Json => json::render(&view),
        Format::Ndjson => ndjson::render(&view),
        Format::Openmetrics => openmetrics::render(&view),
    };
    args.place.write(&text)
}
