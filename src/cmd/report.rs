//! `plumb report`: a stored run as a lab report.

use crate::cmd::{Failure, output, stored, usage};
use record::run::Run;
use report::build::build;
use report::{csv, html, json, markdown, openmetrics, terminal};
use session::store;
use std::path::PathBuf;

/// Renders a stored run.
#[derive(clap::Args)]
pub struct Args {
    /// Run: a unique prefix of its name, `last`, `last-crosscheck`, or a path to its record
    #[arg(default_value = "last")]
    run: String,
    /// What to render it as
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the JSON Schema of the flat result instead
    #[arg(long, conflicts_with_all = ["format", "output"])]
    schema: bool,
}

/// What a run can be rendered as.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for this terminal
    Terminal,
    /// One self-contained page
    Html,
    /// Markdown short enough for a comment on a pull request (65,536 characters); says what it
    /// leaves out
    Markdown,
    /// Markdown with everything, for a wiki
    Wiki,
    /// A row per figure, with all columns of the flat result
    Csv,
    /// The flat result
    Json,
    /// `OpenMetrics` text; `-o DIR/plumb.prom` suits node_exporter's
    /// --collector.textfile.directory=DIR
    Openmetrics,
}

/// A run in a format.
pub fn render(run: &Run, format: Format, look: terminal::Look) -> String {
    match format {
        Format::Terminal => terminal::render(&build(run), look),
        Format::Html => html::render(&build(run)),
        Format::Markdown => markdown::render(&build(run)),
        Format::Wiki => markdown::whole(&build(run)),
        Format::Csv => csv::render(run),
        Format::Json => json::render(run),
        Format::Openmetrics => openmetrics::render(run),
    }
}

pub fn run(args: Args) -> Result<(), Failure> {
    if args.schema {
        return Ok(output::print(json::SCHEMA)?);
    }
    let run = stored::open(&args.run)?;
    let look = match args.output {
        None => output::look(),
        Some(_) => terminal::Look { width: 100, colours: false },
    };
    let text = render(&run, args.format, look);
    match &args.output {
        None => Ok(output::print(&text)?),
        Some(file) => store::write_whole(file, text.as_bytes()).map_err(usage),
    }
}
