//! `plumb predict`: a form in which an author states estimates of the key figures before a run, and
//! what `plumb run --predictions` reads in it.

use crate::cmd::choice::Choice;
use crate::cmd::{Failure, output};
use analysis::keys::{Planned, planned};
use record::estimate::Estimate;
use record::plan::Plan;
use record::quantity::{in_unit, steps};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Writes a form of the key figures that `run` would measure here, for estimates of your own. Fill
/// it in before the run; `plumb run --predictions FILE` keeps it in the record, and the report
/// compares your estimates with plumb's
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let setup = args.choice.setup(None, None, &AtomicBool::new(false))?;
    let text = form(&setup.planned.plan);
    match &args.output {
        None => Ok(output::print(&text)?),
        Some(file) => output::write(file, &text),
    }
}

const HEAD: &str = "\
# Your estimates of the key figures, before the run: plumb run --predictions FILE
# A line is `figure = estimate unit ; reason`, for example `null call = 200 ns ; 600 cycles at 3 GHz`.
# Leave empty what you do not estimate. Lines that begin with # are not read.
";

fn form(plan: &Plan) -> String {
    let mut text = HEAD.to_owned();
    let figures = planned(plan);
    for own in figures.chunk_by(|one, next| one.experiment == next.experiment) {
        text.push_str(&format!("\n# {}, in {}\n", own[0].experiment, units(&own[0])));
        for figure in own {
            text.push_str(&format!("{} = ; \n", figure.title));
        }
    }
    text
}

fn units(figure: &Planned) -> String {
    let names = steps(figure.unit).iter().map(|(_, name)| *name).filter(|name| !name.is_empty());
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "plain numbers".to_owned() } else { names.join(", ") }
}

/// Reads the file of a form that was filled in. Errors: usage, with the file's name.
pub fn read(file: &Path, plan: &Plan) -> Result<Vec<Estimate>, Failure> {
    let named = |error: String| Failure::Usage(format!("{}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    estimates(&text, plan).map_err(named)
}

/// Reads a form that was filled in. Errors: the line that names another figure or has no unit, with
/// what there is.
fn estimates(text: &str, plan: &Plan) -> Result<Vec<Estimate>, String> {
    let figures = planned(plan);
    let mut estimates = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        // A title may have the sign itself: `linear system, n = 1000`.
        let (estimate, reason) = line.split_once(';').unwrap_or((line, ""));
        let Some((title, value)) = estimate.rsplit_once('=') else {
            return Err(format!(
                "line {number}: `{line}` has no `=`: type `figure = estimate unit ; reason`"
            ));
        };
        let title = title.trim();
        let Some(figure) = figures.iter().find(|figure| figure.title == title) else {
            let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
            return Err(format!(
                "line {number}: no key figure is called `{title}`; there are {}",
                titles.join("; ")
            ));
        };
        if value.trim().is_empty() {
            continue;
        }
        let value = in_unit(value, figure.unit).filter(|value| *value > 0.0).ok_or_else(|| {
            format!(
                "line {number}: `{}` is no estimate of {title} with its unit; it has {}",
                value.trim(),
                units(figure)
            )
        })?;
        estimates.push(Estimate {
            figure: title.to_owned(),
            value,
            unit: figure.unit,
            reason: reason.trim().to_owned(),
        });
    }
    Ok(estimates)
}

#[cfg(test)]
mod tests {
    use super::{estimates, form};
    use analysis::sample;
    use record::unit::Unit;

    #[test]
    fn a_form_that_is_filled_in_becomes_estimates() {
        let plan = sample::run().plan.expect("the sample has a plan");
        let form = form(&plan);
        assert_eq!(estimates(&form, &plan), Ok(Vec::new()), "an empty form");
        let title = "system call, null";
        assert!(form.contains(&format!("\n{title} = ; \n")), "{form}");
        let read = |value: &str| estimates(&format!("# own\n{title} = {value}\n"), &plan);
        let own = read("0.5 us ; 600 cycles at 3 GHz").expect("right");
        assert_eq!((own[0].value, own[0].unit), (500.0, Unit::Ns));
        assert_eq!(
            (own[0].figure.as_str(), own[0].reason.as_str()),
            (title, "600 cycles at 3 GHz")
        );
        for (value, says) in [
            ("200", "line 2: `200` is no estimate of"),
            ("200 MB", "line 2: `200 MB` is no estimate of"),
            ("-3 ns", "line 2: `-3 ns` is no estimate of"),
        ] {
            let error = read(value).expect_err(value);
            assert!(error.starts_with(says) && error.ends_with("s, ms, µs, ns"), "{error}");
        }
        let error = estimates("nul call = 3 ns", &plan).expect_err("a misspelt one");
        assert!(error.contains("`nul call`") && error.contains(title), "{error}");
        assert!(!error.contains('\n'));
    }
}
