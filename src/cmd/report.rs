//! `plumb report`: a stored run as a lab report.

use crate::cmd::{Failure, output, stored, usage};
use crate::published;
use analysis::figures;
use analysis::gather::distinct;
use bench::experiment::{FAR, Role};
use catalogue::FAMILIES;
use record::key::{CaseId, PLACEMENT};
use record::run::Run;
use report::build::summary::screen as screen_of;
use report::build::{build, build_among, experiments};
use report::document::Document;
use report::{csv, html, json, markdown, openmetrics, terminal};
use session::select::Selection;
use session::store;
use std::path::PathBuf;

/// Renders a stored run.
#[derive(clap::Args)]
pub struct Args {
    /// Run: a unique prefix of its name, `last`, `last-crosscheck`, or a path to its record
    #[arg(default_value = "last")]
    run: String,
    /// What of it to show in full: family, id, id:param=v1,v2|lo..hi, glob, !negation [default: the
    /// summary]
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// Show everything, not the summary alone
    #[arg(long)]
    full: bool,
    /// What to render it as
    #[arg(short, long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// With --format csv: one row a figure, one column a parameter, the same columns for all runs
    #[arg(long)]
    tidy: bool,
    /// Leave out host name, addresses, identity, kernel command line and paths
    #[arg(long)]
    redact: bool,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What of the page is for paper: `short` is at most 20 sheets
    #[arg(long, value_enum, default_value_t = Print::Full)]
    print: Print,
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

/// How much of the page is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Print {
    /// Everything
    Full,
    /// Results, and of each experiment its discussion and first plot
    Short,
}

/// The document of a whole report, which draws conclusions from the published machines.
fn whole(run: &Run) -> Document {
    match run.header.is_published() {
        true => build(run),
        false => build_among(run, &published::runs()),
    }
}

/// The page of a run.
fn page(run: &Run, print: Print) -> String {
    let print = match print {
        Print::Full => html::Print::Full,
        Print::Short => html::Print::Short,
    };
    html::render(&whole(run), print)
}

/// A run in a format.
pub fn render(run: &Run, format: Format, look: terminal::Look) -> String {
    match format {
        Format::Terminal => terminal::render(&build(run), look),
        Format::Html => page(run, Print::Full),
        Format::Markdown => markdown::render(&whole(run)),
        Format::Wiki => markdown::whole(&whole(run)),
        Format::Csv => csv::render(run),
        Format::Json => json::render(run),
        Format::Openmetrics => openmetrics::render(run),
    }
}

/// A run on one screen; what no summary suits (a crosscheck's own record, a published machine) in
/// full. `name` is what the user calls the run.
pub fn screen(run: &Run, name: &str, look: terminal::Look) -> String {
    if run.header.is_crosscheck() || run.header.is_published() {
        return render(run, Format::Terminal, look);
    }
    let name = report::shell(&[name.to_owned()]);
    let next = [
        &format!("plumb report {name} --full"),
        "-f html -o r.html",
        "plumb compare A B",
        "plumb explain ID",
    ];
    terminal::screen(&screen_of(run), &next, look)
}

/// The run with the experiments and cases that selectors name, all without any.
fn selected(mut run: Run, selectors: &[String]) -> Result<Run, Failure> {
    if selectors.is_empty() {
        return Ok(run);
    }
    let selection = Selection::parse(selectors, FAMILIES).map_err(usage)?;
    let wants = |id: &str, case: Option<&CaseId>| {
        let family = FAMILIES.iter().find(|family| id.split('.').next() == Some(family.name));
        family.zip(catalogue::find(id)).is_some_and(|(family, experiment)| {
            let card = experiment.card();
            selection.wants(family, card)
                && case.is_none_or(|case| selection.wants_case(family, card, case))
        })
    };
    let experiments = run.plan.as_mut().map(|plan| &mut plan.experiments);
    let Some(experiments) = experiments else {
        return Err(Failure::Usage("the run ended before its plan was written".to_owned()));
    };
    experiments.retain(|planned| wants(&planned.id, None));
    for planned in experiments.iter_mut() {
        planned.derived.retain(|case| wants(&planned.id, Some(case)));
        for series in &mut planned.series {
            series.cases.retain(|case| wants(&planned.id, Some(case)));
        }
    }
    if experiments.is_empty() {
        return Err(Failure::Usage(format!(
            "the run has nothing of {}: `plumb report` shows what it has",
            selectors.join(" ")
        )));
    }
    run.retain_outcomes(|outcome| wants(&outcome.experiment, outcome.case.as_ref()));
    Ok(run)
}

pub fn run(args: Args) -> Result<(), Failure> {
    if args.schema {
        return Ok(output::print(json::SCHEMA)?);
    }
    if args.tidy && args.format != Format::Csv {
        return Err(Failure::Usage("--tidy is a form of --format csv: type both".to_owned()));
    }
    let run = if args.redact { stored::redacted(&args.run)? } else { stored::open(&args.run)? };
    let run = selected(run, &args.selectors)?;
    let look = match args.output {
        None => output::look(),
        Some(_) => terminal::Look { width: 100, colours: false },
    };
    let text = match args.format {
        Format::Terminal if !args.selectors.is_empty() => {
            terminal::render(&experiments(&run, &figures(&run)), look)
        }
        Format::Terminal if !args.full => screen(&run, &args.run, look),
        Format::Html => page(&run, args.print),
        Format::Csv if args.tidy => csv::tidy(&run, &parameters()),
        format => render(&run, format, look),
    };
    match &args.output {
        None => Ok(output::print(&text)?),
        Some(file) => store::write_whole(file, text.as_bytes()).map_err(usage),
    }
}

/// The names of all parameters of cases, each once, in the order of the catalogue.
fn parameters() -> Vec<&'static str> {
    let experiments = FAMILIES.iter().flat_map(|family| family.experiments);
    let params = experiments.flat_map(|experiment| experiment.card().params);
    let of_cases = params.filter(|param| param.role == Role::Case).map(|param| param.name);
    distinct([FAR, PLACEMENT].into_iter().chain(of_cases))
}
