//! `plumb fleet compare`: two sweeps over the same nodes.

mod fail_on;

use super::directory::{open, titles};
use crate::cmd::fail_on::{Rule, parse};
use crate::cmd::rendered::Place;
use crate::cmd::{Failure, output};
use fleet::compare::{Comparison, compare};
use fleet::report::compared::build;
use report::{counted, html, markdown, terminal};
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
#[command(
    after_help = "Exit codes: 0 no finding; 1 finding (with --fail-on: one that a rule names); 2 \
    usage error, or a rule without a tested figure; 3 failure; 5 undecided: most figures of a rule \
    cannot show a change of its size.

Examples:
  plumb fleet compare before after
  plumb fleet compare before after --all --format html -o comparison.html
  plumb fleet compare before after --fail-on slower:5%@memory --fail-on apart"
)]
pub struct Args {
    /// Directory of the base sweep's files, A
    base: PathBuf,
    /// Directory of the new sweep's files, B
    new: PathBuf,
    /// Exit with 1 only on findings that this rule names: slower, faster, changed (on all nodes), apart
    /// (a node went another way), missing (a figure or a node) or never; `slower:5%` for changes of at
    /// least 5 % of the base value; `slower:5%@memory` for these figures alone (selectors as in `plumb
    /// run`); may be repeated
    #[arg(long, value_name = "RULE")]
    fail_on: Vec<String>,
    /// Show all figures and all differences around them too
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
    let rules = parse(&args.fail_on, &fail_on::WORDS).map_err(Failure::Usage)?;
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
    match rules.is_empty() {
        true if comparison.has_finding() => Err(Failure::Finding),
        true => Ok(()),
        false => judge(&rules, &comparison),
    }
}

/// The exit code of rules and what each met: a finding before a void rule before an undecided one.
fn judge(rules: &[Rule], comparison: &Comparison) -> Result<(), Failure> {
    let (mut failed, mut void, mut undecided) = (false, None, None);
    for rule in rules {
        let met = fail_on::met(rule, comparison);
        let said = |text: &str| format!("--fail-on {}: {text}", rule.text());
        if met.met > 0 {
            failed = true;
            output::diagnose(&format!("plumb: {}", said(&counted(met.met, fail_on::noun(rule)))));
        }
        if !rule.needs_tests() {
            continue;
        }
        if met.tested == 0 {
            void = Some(said("no figure in its scope was tested: the rule decides nothing"));
        } else if rule.has_size() && met.met == 0 && 2 * met.blind > met.tested {
            undecided = Some(said(&format!(
                "undecided: {} of {} figures cannot show a change of that size",
                met.blind, met.tested
            )));
        }
    }
    match (failed, void, undecided) {
        (true, ..) => Err(Failure::Finding),
        (false, Some(void), _) => Err(Failure::Usage(void)),
        (false, None, Some(undecided)) => Err(Failure::Undecided(undecided)),
        (false, None, None) => Ok(()),
    }
}
