//! `plumb report`: a stored run as a lab report.

use crate::cmd::{Failure, output, stored, usage};
use crate::{published, sheet};
use analysis::figures;
use analysis::gather::distinct;
use bench::experiment::{FAR, Role};
use catalogue::FAMILIES;
use record::key::CaseId;
use record::run::Run;
use report::build::summary::screen as screen_of;
use report::build::{build, build_among, experiments};
use report::document::Document;
use report::notes::Notes;
use report::{csv, html, json, markdown, ndjson, openmetrics, terminal};
use session::resume;
use session::select::Selection;
use session::store::{self, Store};
use std::fs;
use std::path::{Path, PathBuf};

/// Shows a stored run: its summary, the whole report, or another format.
#[derive(clap::Args)]
pub struct Args {
    /// The run: `last`, the start of its name (`plumb runs` lists them), `last-crosscheck`,
    /// `published/NAME`, or the path of its record
    #[arg(default_value = "last")]
    run: String,
    /// Show only these experiments or cases, in full (selectors as in `plumb run`) [default: the
    /// summary]
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// Show the whole report instead of the summary
    #[arg(long)]
    full: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// With --format csv: one row per figure and one column per parameter, with the same columns for
    /// every run
    #[arg(long)]
    tidy: bool,
    /// Leave out the host name, addresses, machine identity, kernel command line and paths
    #[arg(long)]
    redact: bool,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --format markdown: directory to write, with report.md and each plot as an SVG file beside it
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    to: Option<PathBuf>,
    /// Your own words: title, authors, a text for each experiment and conclusions, in Markdown
    /// (docs/guide/lab-report.md); for formats terminal, html and markdown
    #[arg(long, value_name = "FILE.md")]
    notes: Option<PathBuf>,
    /// With --format html: how much of the page goes to paper (`short`: at most 20 sheets)
    #[arg(long, value_enum, default_value_t = Print::Full)]
    print: Print,
    /// Print the JSON Schema of --format json instead, or of the lines of --format ndjson
    #[arg(long, conflicts_with = "output")]
    schema: bool,
}

/// What a run can be rendered as.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for this terminal
    Terminal,
    /// One HTML page that opens offline
    Html,
    /// Markdown with every table of the page, and with --to DIR every plot
    Markdown,
    /// One row per figure, with all fields of the flat result (docs/FORMAT.md)
    Csv,
    /// The flat result: one object per figure (docs/FORMAT.md)
    Json,
    /// One object per figure and line, for databases (docs/TEAM.md)
    Ndjson,
    /// `OpenMetrics` text; `-o DIR/plumb.prom` suits node_exporter's
    /// --collector.textfile.directory=DIR
    Openmetrics,
}

/// How much of the page is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Print {
    /// Everything
    Full,
    /// The results, and the question and first plot of each experiment
    Short,
}

/// The document of a whole report, which draws conclusions from the published machines and sheets.
fn whole(run: &Run) -> Document {
    match run.header.is_published() {
        true => build(run),
        false => {
            let machines = published::machines().into_iter().chain(sheet::machines());
            build_among(run, &machines.collect::<Vec<_>>())
        }
    }
}

pub fn render(run: &Run, format: Format, look: terminal::Look) -> String {
    match format {
        Format::Terminal => terminal::render(&build(run), look),
        Format::Html => html::render(&whole(run), html::Print::Full),
        Format::Markdown => markdown::render(&whole(run)),
        Format::Csv => csv::render(run),
        Format::Json => json::render(run),
        Format::Ndjson => ndjson::render(run),
        Format::Openmetrics => openmetrics::render(run),
    }
}

/// A run on one screen; what no summary suits (a crosscheck's own record, a published machine) in
/// full. `name` is what the user calls the run; one that is still being written is not resumed.
pub fn screen(run: &Run, name: &str, is_being_written: bool, look: terminal::Look) -> String {
    if run.header.is_crosscheck() || run.header.is_published() {
        return render(run, Format::Terminal, look);
    }
    let is_resumable = !run.has_ended() && !is_being_written;
    let resume = is_resumable.then(|| resume::command(name, &run.header.options));
    let whole = format!("plumb report {} --full", report::shell(&[name.to_owned()]));
    let others = ["-f html -o r.html", "plumb compare A B", "plumb explain ID"];
    let next: Vec<&str> = resume.iter().chain([&whole]).map(String::as_str).chain(others).collect();
    terminal::screen(&screen_of(run), &next, look)
}

/// The run with the experiments and cases that selectors name, all without any.
fn selected(mut run: Run, selectors: &[String]) -> Result<Run, Failure> {
    if selectors.is_empty() {
        return Ok(run);
    }
    let selection = Selection::parse(selectors, FAMILIES).map_err(usage)?;
    let wants = |id: &str, case: Option<&CaseId>| selection.means(FAMILIES, id, case);
    let experiments = run.plan.as_mut().map(|plan| &mut plan.experiments);
    let Some(experiments) = experiments else {
        return Err(Failure::usage(
            "the run ended before it wrote its plan; nothing can be selected",
        ));
    };
    experiments.retain(|planned| wants(&planned.id, None));
    experiments.retain_mut(|planned| {
        let has_cases = |of: &record::plan::PlannedExperiment| {
            !of.derived.is_empty() || of.series.iter().any(|series| !series.cases.is_empty())
        };
        let had_none = !has_cases(planned);
        planned.derived.retain(|case| wants(&planned.id, Some(case)));
        for series in &mut planned.series {
            series.cases.retain(|case| wants(&planned.id, Some(case)));
        }
        had_none || has_cases(planned)
    });
    if experiments.is_empty() {
        return Err(Failure::Usage(format!(
            "the run has no figures of {}; `plumb report` shows what it has",
            selectors.join(" ")
        )));
    }
    run.retain_outcomes(|outcome| wants(&outcome.experiment, outcome.case.as_ref()));
    Ok(run)
}

pub fn run(args: Args) -> Result<(), Failure> {
    match args.format {
        Format::Ndjson if args.schema => return Ok(output::print(ndjson::SCHEMA)?),
        _ if args.schema => return Ok(output::print(&json::schema_text())?),
        _ => {}
    }
    if args.tidy && args.format != Format::Csv {
        return Err(Failure::usage("--tidy works only with --format csv: type both"));
    }
    if args.print == Print::Short && args.format != Format::Html {
        return Err(Failure::usage("--print short works only with --format html: type both"));
    }
    if args.to.is_some() && args.format != Format::Markdown {
        return Err(Failure::usage("--to works only with --format markdown: type both"));
    }
    let has_words = [Format::Terminal, Format::Html, Format::Markdown].contains(&args.format);
    if args.notes.is_some() && !has_words {
        return Err(Failure::usage("--notes works only with --format terminal, html or markdown"));
    }
    let path = Store::here().find(&args.run);
    let is_being_written = path.is_ok_and(|path| store::is_being_written(&path));
    if is_being_written {
        output::diagnose(&format!(
            "plumb: {} is still being measured; this is what its record holds so far",
            args.run
        ));
    }
    let run = if args.redact { stored::redacted(&args.run)? } else { stored::open(&args.run)? };
    let run = selected(run, &args.selectors)?;
    let notes = args.notes.as_deref().map(|file| notes(file, &run)).transpose()?;
    let with_notes = |document: Document| match &notes {
        Some(notes) => notes.clone().apply(document),
        None => document,
    };
    if let Some(directory) = &args.to {
        return bundle(&with_notes(whole(&run)), directory);
    }
    let look = match args.output {
        None => output::look(),
        Some(_) => terminal::Look { width: 100, colours: false },
    };
    let text = match args.format {
        Format::Terminal if !args.selectors.is_empty() => {
            terminal::render(&with_notes(experiments(&run, &figures(&run))), look)
        }
        Format::Terminal if args.full || notes.is_some() => {
            terminal::render(&with_notes(build(&run)), look)
        }
        Format::Terminal => screen(&run, &args.run, is_being_written, look),
        Format::Html => {
            let print = match args.print {
                Print::Full => html::Print::Full,
                Print::Short => html::Print::Short,
            };
            html::render(&with_notes(whole(&run)), print)
        }
        Format::Markdown => markdown::render(&with_notes(whole(&run))),
        Format::Csv if args.tidy => csv::tidy(&run, &parameters()),
        format => render(&run, format, look),
    };
    match &args.output {
        None => Ok(output::page(&text)?),
        Some(file) => output::write(file, &text),
    }
}

/// Writes the report as Markdown and its plots into a directory, which is made if it is not there.
fn bundle(document: &Document, directory: &Path) -> Result<(), Failure> {
    let bundle = markdown::bundle(document);
    if let Err(error) = fs::create_dir_all(directory) {
        return Err(Failure::Usage(format!("cannot make {}: {error}", directory.display())));
    }
    for (name, picture) in &bundle.pictures {
        output::write(&directory.join(name), picture)?;
    }
    let file = directory.join("report.md");
    output::write(&file, &bundle.text)?;
    let plots = report::counted(bundle.pictures.len(), "plot");
    output::diagnose(&format!("{} with {plots} beside it", file.display()));
    Ok(())
}

/// The author's words from a file. Errors: usage, with what the run has.
fn notes(file: &Path, run: &Run) -> Result<Notes, Failure> {
    let named = |error: String| Failure::Usage(format!("{}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let ids: Vec<&str> = planned.map(|planned| planned.id.as_str()).collect();
    Notes::parse(&text, &ids).map_err(named)
}

/// The names of all parameters of cases, each once, in the order of the catalogue.
pub fn parameters() -> Vec<&'static str> {
    let experiments = FAMILIES.iter().flat_map(|family| family.experiments);
    let params = experiments.flat_map(|experiment| experiment.card().params);
    let of_cases = params.filter(|param| param.role == Role::Case).map(|param| param.name);
    distinct([FAR].into_iter().chain(of_cases))
}

#[cfg(test)]
mod tests {
    use super::screen;
    use analysis::sample;
    use report::terminal::Look;

    #[test]
    fn only_a_run_that_nobody_writes_is_to_be_resumed() {
        let mut run = sample::run();
        run.footer = None;
        let look = Look { width: 100, colours: false };
        for (is_being_written, is_offered) in [(false, true), (true, false)] {
            let text = screen(&run, "last", is_being_written, look);
            assert_eq!(text.contains("--resume last"), is_offered, "{text}");
            assert!(text.contains("report last --full"));
        }
    }
}
