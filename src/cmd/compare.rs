//! `plumb compare`: what differs between runs.

mod fail_on;

use crate::cmd::fail_on::{Rule, parse};
use crate::cmd::rendered::{Format, Shown};
use crate::cmd::{Failure, output, stored, usage};
use crate::published::PREFIX;
use analysis::compare::{Against, Comparison, Measured, compare};
use analysis::figure::Figure;
use analysis::figures;
use catalogue::FAMILIES;

use record::event::Header;
use record::run::Run;
use report::build::compare::build;
use report::{compare_csv, compare_json, counted, html, markdown, terminal};
use session::select::Selection;

/// Compares runs: the verdict, the changes beyond chance, what the runs could not show, and what
/// differs around them.
///
/// The first run is the base, A; the others are B, C and so on. `plumb compare last` compares the
/// last run with the one before it on the same machine.
///
/// A finding is a difference that is significant after correction for the number of figures, and
/// larger than normal run-to-run variation. plumb learns that variation from three or more stored
/// runs of the machine under one condition; before that it assumes 1.5 % for hardware figures and
/// 4 % for os and io figures, which a noisy machine exceeds. Runs of a published machine are shown
/// side by side, without findings.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
pub struct Args {
    /// The base run: `last`, the start of its name (`plumb runs` lists them), `published/NAME`, or
    /// the path of its record
    #[arg(required_unless_present = "schema")]
    base: Option<String>,
    /// The runs to compare with it [default: last]
    new: Vec<String>,
    /// Exit with 1 only on findings that this rule names: slower, faster, changed, missing or never;
    /// `slower:5%` for changes of at least 5 % of the base value; `slower:5%@memory` for these
    /// figures alone (selectors as in `plumb run`); may be repeated
    #[arg(long, value_name = "RULE")]
    fail_on: Vec<String>,
    /// Compare only these figures (selectors as in `plumb run`); may be repeated
    #[arg(long, value_name = "SELECTOR")]
    only: Vec<String>,
    /// Show also what the answer rests on: all differences around the runs, the variation assumed or
    /// learnt, the figures closest to a finding, and all figures side by side
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    shown: Shown,
    /// Print the JSON Schema of --format json instead
    #[arg(long, exclusive = true)]
    schema: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 no finding; 1 finding (with --fail-on: one that a rule names); 2 usage error, no \
common figure, or a rule without a tested figure; 3 failure; 5 undecided: most figures of a rule \
cannot show a change of its size.";

const EXAMPLES: &str = "\
Examples:
  plumb compare last                        the last run against the one before it, same machine
  plumb compare before.jsonl after.jsonl
  plumb compare published/r0 last --all
  plumb compare published/r1:XV last        the figures of a report's table beside the last run
  plumb compare before.jsonl after.jsonl --format html -o comparison.html

In CI, with the record of the base kept beside the code:
  plumb run os memory --preset quick --out new.jsonl
  plumb compare base.jsonl new.jsonl --fail-on slower:5% --format markdown -o comparison.md

  --fail-on slower             any figure that got worse: slower, or more where less is better
  --fail-on slower:5%          worse by at least 5 % of its base value, and by more than run-to-run
                               variation: ± 4.2 % (hardware) or ± 12 % (os, io) until three runs
                               are stored; exit code 5 if most figures cannot show 5 %
  --fail-on slower:5%@memory --fail-on slower:20%@os.ipc
                               one rule per scope; one rule that is met is enough
  --fail-on changed:10%@memory.latency:pages=huge
                               in either direction; also figures without a better direction
  --fail-on faster             to keep a base record up to date
  --fail-on slower:5% --fail-on missing@memory
                               also if the new run lacks a figure that the base run has
  --fail-on never              print the comparison and exit with 0";

pub fn run(args: Args) -> Result<(), Failure> {
    if args.schema {
        return Ok(output::print(&compare_json::schema_text())?);
    }
    let rules = parse(&args.fail_on, &fail_on::WORDS).map_err(Failure::Usage)?;
    let only = Selection::parse(&args.only, FAMILIES).map_err(usage)?;
    let names = names(args.base.as_deref().unwrap_or("last"), &args.new)?;
    let runs = at_once(&names, |name| stored::open(name)).into_iter();
    let runs = runs.collect::<Result<Vec<Run>, _>>()?;
    if let Some((name, _)) = names.iter().zip(&runs).find(|(_, run)| run.header.is_crosscheck()) {
        return Err(Failure::Usage(format!(
            "{name} is a crosscheck without plumb's own figures; `plumb report {name}` shows it"
        )));
    }
    let history = stored::history(&runs.iter().collect::<Vec<_>>());
    let figures = at_once(&runs, figures).into_iter();
    let measured: Vec<Measured> = figures
        .zip(&runs)
        .map(|(figures, run)| Measured { run, figures: selected(figures, &args.only, &only) })
        .collect();
    let Some(comparison) = compare(&measured, &history) else {
        return Err(Failure::usage("name two runs to compare"));
    };
    print(&args, &comparison)?;
    let is_apart = |against: &Against| against.figures.is_empty() && against.nearest.is_empty();
    if comparison.against.iter().all(is_apart) {
        return Err(Failure::Usage(nothing_common(&names)));
    }
    judge(&comparison, &rules)
}

/// What to do where runs have no figure in common: a published machine's are those of a preset.
fn nothing_common(names: &[String]) -> String {
    let way_out = match names.iter().find(|name| name.starts_with(PREFIX)) {
        Some(published) => format!(
            "the preset `reports` measures those of {published}: `plumb run {published}`, then \
             compare again"
        ),
        None => "`plumb report RUN` shows what each has".to_owned(),
    };
    format!("the runs have no common figure; {way_out}")
}

/// The runs to compare, the base first. `last` alone: the last one against the one before it.
fn names(base: &str, new: &[String]) -> Result<Vec<String>, Failure> {
    match (base, new) {
        ("last", []) => Ok(stored::last_two()?.into()),
        (base, []) => Ok(vec![base.to_owned(), "last".to_owned()]),
        (base, new) => Ok(std::iter::once(base.to_owned()).chain(new.iter().cloned()).collect()),
    }
}

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
    let wanted = |figure: &Figure| only.means(FAMILIES, &figure.experiment, Some(&figure.case));
    figures.into_iter().filter(wanted).collect()
}

fn print(args: &Args, comparison: &Comparison) -> Result<(), Failure> {
    let Shown { format, place } = &args.shown;
    let document = || build(comparison, args.all || *format != Format::Terminal);
    let text = match format {
        Format::Terminal => terminal::render(&document(), place.look()),
        Format::Html => html::render(&document(), html::Print::Full),
        Format::Markdown => markdown::render(&document()),
        Format::Csv => compare_csv::render(comparison),
        Format::Json => compare_json::render(comparison),
    };
    place.write(&text)
}

/// Whether the comparison fails: by the rules, or by any finding where there are none.
fn judge(comparison: &Comparison, rules: &[Rule]) -> Result<(), Failure> {
    if let Some(run) = itself(comparison) {
        let text = format!("{run} is compared with itself; name the new run");
        match rules.is_empty() {
            true => output::diagnose(&format!("plumb: {text}")),
            false => return Err(Failure::Usage(text)),
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
        let found = fail_on::met(rule, &comparison.against);
        let of_rule = |text: &str| format!("--fail-on {}: {text}", rule.text());
        let diagnose = |text: &str| output::diagnose(&format!("plumb: {}", of_rule(text)));
        if found.met > 0 {
            failed = true;
            diagnose(&counted(found.met, "figure"));
        }
        if !rule.needs_tests() {
            continue;
        }
        if found.tested == 0 {
            void = Some(of_rule(&format!(
                "none of its {} common figures was tested, and {} are missing in the new run: the \
                 rule decides nothing",
                found.common, found.missing
            )));
            continue;
        }
        if found.missing > 0 {
            diagnose(&format!(
                "{} figures tested; {} of the base run are missing in the new one (`--fail-on \
                 missing` fails on these)",
                found.tested, found.missing
            ));
        }
        if rule.has_size() && found.blind > 0 {
            let text = format!(
                "{} of {} figures cannot show a change of that size",
                found.blind, found.tested
            );
            match found.met == 0 && 2 * found.blind > found.tested {
                true => undecided = Some(of_rule(&format!("undecided: {text}"))),
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

fn itself<'a>(comparison: &'a Comparison) -> Option<&'a str> {
    let base = &comparison.base.run.header;
    let of_base = |header: &&Header| (&header.run, header.seed) == (&base.run, base.seed);
    let mut others = comparison.against.iter().map(|one| &one.new.run.header);
    let found = others.find(of_base);
    // A published machine beside itself is only looked at.
    found.filter(|header| header.options.preset != "published").map(|header| header.run.as_str())
}
