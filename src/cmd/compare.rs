//! `plumb compare`: what differs between runs.

mod fail_on;

use crate::cmd::{Failure, output, stored, usage};
use analysis::compare::{Against, Comparison, Measured, compare};
use analysis::figure::Figure;
use analysis::figures;
use catalogue::FAMILIES;
use fail_on::FailOn;
use record::event::Header;
use record::run::Run;
use report::build::compare::build;
use report::{compare_csv, compare_json, counted, html, markdown, terminal};
use session::select::Selection;
use session::store;
use std::path::PathBuf;

/// Compares runs figure by figure: the verdict, what changed by more than chance, what could not be
/// seen, and what differs around the runs.
///
/// The first run is the base, A; the others are B, C and so on. `plumb compare last` compares the
/// last run with the one before it on the same machine. Findings are corrected for the number of figures, and lie outside the
/// band that two runs of an unchanged machine keep: learnt from three or more stored runs of the
/// machine under one condition; until then assumed (1.5 % from run to run for hardware figures, 4 %
/// for os and io figures), which a noisy machine does not keep. Runs of a published machine are set
/// side by side, without findings.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(
    after_help = "Exit codes: 0 no finding; 1 a finding (with --fail-on: one that it names); \
    2 usage, the runs share no figure, or a rule has no tested figure; 5 undecided: most figures of \
    a rule cannot show a change of its size."
)]
pub struct Args {
    /// Base run: a unique prefix of its name, `last`, `published/…`, or a path to its record
    #[arg(required_unless_present = "schema")]
    base: Option<String>,
    /// Runs that are compared with it [default: last]
    new: Vec<String>,
    /// Exit with 1 only on such findings: slower, faster, changed, missing or never, `slower:5%`
    /// for at least 5 % of the base value (and outside the figure's band), `slower:5%@memory` for
    /// these figures (a selector as of `plumb run`); may be repeated
    #[arg(long, value_name = "RULE")]
    fail_on: Vec<String>,
    /// Compare these figures alone (selectors as of `plumb run`); may be repeated
    #[arg(long, value_name = "SELECTOR")]
    only: Vec<String>,
    /// Also what stands behind the answer: every difference around the runs, bands, figures that came
    /// closest, and every figure side by side
    #[arg(long)]
    all: bool,
    /// What to render it as
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the JSON Schema of the comparison instead
    #[arg(long, exclusive = true)]
    schema: bool,
}

const EXAMPLES: &str =
    "Exit codes: 0 no finding; 1 a finding (with --fail-on: one that it names); \
2 usage, the runs share no figure, or a rule of --fail-on has no tested figure; 5 undecided: most
figures of a rule cannot show a change of its size.

Examples:
  plumb compare last                        the last run against the one before it on its machine
  plumb compare before.jsonl after.jsonl
  plumb compare published/r0-i7-3770k last --all
  plumb compare before.jsonl after.jsonl --format html -o comparison.html

In CI, with a record of the base kept beside the code:
  plumb run os memory --preset quick --out new.jsonl
  plumb compare base.jsonl new.jsonl --fail-on slower:5% --format markdown -o comparison.md

  --fail-on slower             any figure that is worse: slower, or more where less is better
  --fail-on slower:5%          worse by at least 5 % of its base value, and outside the figure's
                               band: ± 4.2 % (hardware) or ± 12 % (os, io) until runs are stored;
                               exit code 5 where most figures cannot show 5 %
  --fail-on slower:5%@memory --fail-on slower:20%@os.ipc
                               each figure by its own rule; one that is met is enough
  --fail-on changed:10%@memory.latency:pages=huge
                               in either direction; also figures that have no better side
  --fail-on faster             to keep a base record up to date
  --fail-on slower:5% --fail-on missing@memory
                               also where the new run lacks a figure that the base run has
  --fail-on never              tell, and exit with 0";

/// What a comparison can be rendered as.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Text for this terminal
    Terminal,
    /// One self-contained page
    Html,
    /// Markdown
    Markdown,
    /// A row per figure
    Csv,
    /// All of it
    Json,
}

pub fn run(args: Args) -> Result<(), Failure> {
    if args.schema {
        return Ok(output::print(compare_json::SCHEMA)?);
    }
    let rules = fail_on::parse(&args.fail_on).map_err(Failure::Usage)?;
    let only = Selection::parse(&args.only, FAMILIES).map_err(usage)?;
    let names = names(args.base.as_deref().unwrap_or("last"), &args.new)?;
    let runs = at_once(&names, |name| stored::open(name)).into_iter();
    let runs = runs.collect::<Result<Vec<Run>, _>>()?;
    if let Some((name, _)) = names.iter().zip(&runs).find(|(_, run)| run.header.is_crosscheck()) {
        return Err(Failure::Usage(format!(
            "{name} is a crosscheck, which has no figures of its own; `plumb report {name}` shows it"
        )));
    }
    let history = stored::history(&runs.iter().collect::<Vec<_>>());
    let figures = at_once(&runs, figures).into_iter();
    let measured: Vec<Measured> = figures
        .zip(&runs)
        .map(|(figures, run)| Measured { run, figures: selected(figures, &args.only, &only) })
        .collect();
    let Some(comparison) = compare(&measured, &history) else {
        return Err(Failure::Usage("name two runs to compare".to_owned()));
    };
    print(&args, &comparison)?;
    let is_apart = |against: &Against| against.figures.is_empty() && against.nearest.is_empty();
    if comparison.against.iter().all(is_apart) {
        return Err(Failure::Usage(
            "the runs have no figure in common; `plumb report RUN` shows what each has".to_owned(),
        ));
    }
    judge(&comparison, &rules)
}

/// The runs to compare, the base first. `last` alone: the last one against the one before it.
fn names(base: &str, new: &[String]) -> Result<Vec<String>, Failure> {
    match (base, new) {
        ("last", []) => Ok(stored::last_two()?.into()),
        (base, []) => Ok(vec![base.to_owned(), "last".to_owned()]),
        (base, new) => Ok(std::iter::once(base.to_owned()).chain(new.iter().cloned()).collect()),
    }
}

/// Does one thing to all of some, at once.
fn at_once<T: Sync, R: Send>(all: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let started: Vec<_> = all.iter().map(|of| scope.spawn(|| one(of))).collect();
        let ended = started.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended
            .map(|result| result.unwrap_or_else(|fault| std::panic::resume_unwind(fault)))
            .collect()
    })
}

fn selected(figures: Vec<Figure>, texts: &[String], only: &Selection) -> Vec<Figure> {
    if texts.is_empty() {
        return figures;
    }
    let wanted = |figure: &Figure| fail_on::is_meant(only, &figure.experiment, &figure.case);
    figures.into_iter().filter(wanted).collect()
}

fn print(args: &Args, comparison: &Comparison) -> Result<(), Failure> {
    let look = match args.output {
        None => output::look(),
        Some(_) => terminal::Look { width: 100, colours: false },
    };
    let document = || build(comparison, args.all || args.format != Format::Terminal);
    let text = match args.format {
        Format::Terminal => terminal::render(&document(), look),
        Format::Html => html::render(&document(), html::Print::Full),
        Format::Markdown => markdown::render(&document()),
        Format::Csv => compare_csv::render(comparison),
        Format::Json => compare_json::render(comparison),
    };
    match &args.output {
        None => Ok(output::print(&text)?),
        Some(file) => store::write_whole(file, text.as_bytes()).map_err(usage),
    }
}

/// Whether the comparison fails: by the rules, or by any finding where there are none.
fn judge(comparison: &Comparison, rules: &[FailOn]) -> Result<(), Failure> {
    if let Some(run) = itself(comparison) {
        let told = format!("{run} is compared with itself: name the run that is new");
        match rules.is_empty() {
            true => output::diagnose(&format!("plumb: {told}")),
            false => return Err(Failure::Usage(told)),
        }
    }
    if rules.is_empty() {
        return match comparison.has_finding() {
            true => Err(Failure::Finding),
            false => Ok(()),
        };
    }
    let (mut failed, mut void, mut undecided) = (false, None, None);
    for rule in rules {
        let found = rule.of(&comparison.against);
        let told = |text: &str| format!("--fail-on {}: {text}", rule.text());
        let diagnose = |text: &str| output::diagnose(&format!("plumb: {}", told(text)));
        if found.met > 0 {
            failed = true;
            diagnose(&counted(found.met, "figure"));
        }
        if !rule.needs_tests() {
            continue;
        }
        if found.tested == 0 {
            void = Some(told(&format!(
                "none of the {} figures that both runs have there was tested, and {} are not in the \
                 new run: the rule cannot be met",
                found.common, found.missing
            )));
            continue;
        }
        if found.missing > 0 {
            diagnose(&format!(
                "{} figures tested, {} of the base run are not in the new one (`missing` fails on \
                 these)",
                found.tested, found.missing
            ));
        }
        if rule.has_size() && found.blind > 0 {
            let text = format!(
                "{} of {} figures cannot show a change of that size",
                found.blind, found.tested
            );
            match found.met == 0 && 2 * found.blind > found.tested {
                true => undecided = Some(told(&format!("undecided: {text}"))),
                false => diagnose(&text),
            }
        }
    }
    match (failed, void, undecided) {
        (true, void, undecided) => {
            for text in void.iter().chain(&undecided) {
                output::diagnose(&format!("plumb: {text}"));
            }
            Err(Failure::Finding)
        }
        (false, Some(void), _) => Err(Failure::Usage(void)),
        (false, None, Some(undecided)) => Err(Failure::Undecided(undecided)),
        (false, None, None) => Ok(()),
    }
}

/// The name of a run that is compared with itself.
fn itself<'a>(comparison: &'a Comparison) -> Option<&'a str> {
    let base = &comparison.base.run.header;
    let of_base = |header: &&Header| (&header.run, header.seed) == (&base.run, base.seed);
    let mut others = comparison.against.iter().map(|one| &one.new.run.header);
    let found = others.find(of_base);
    // A published machine beside itself is only looked at.
    found.filter(|header| header.options.preset != "published").map(|header| header.run.as_str())
}
