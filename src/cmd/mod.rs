//! The command line: a file per subcommand, its arguments and its `run`.

mod ab;
mod agent;
mod choice;
mod compare;
mod completions;
mod crosscheck;
mod doctor;
mod explain;
mod fail_on;
mod fleet;
mod list;
mod manual;
mod output;
mod plan;
mod predict;
mod rendered;
mod report;
mod run;
mod runs;
mod self_check;
mod stored;
mod trend;
mod worker;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use session::header::Build;
use session::setup::Usage;
use std::any::TypeId;
use std::panic;
use std::process::ExitCode;
use std::time::Duration;
use thiserror::Error;

const FIRST_STEPS: &str = "First steps:
  plumb run --preset quick         measure for one minute and print the summary
  plumb report last --full         show the whole report
  plumb explain os.syscall         explain what an experiment measures, and how
  plumb man run | man -l -         read the manual of a command";

/// Measures what the operations of this machine cost, predicts every figure first, and writes the
/// result as a lab report
#[derive(Parser)]
#[command(name = "plumb", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = format!("{FIRST_STEPS}\n\n{}", manual::help()))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Predict(predict::Args),
    List(list::Args),
    Explain(explain::Args),
    Report(report::Args),
    Compare(compare::Args),
    Ab(ab::Args),
    Runs(runs::Args),
    Trend(trend::Args),
    Crosscheck(crosscheck::Args),
    Agent(agent::Args),
    Fleet(fleet::Args),
    Doctor(doctor::Args),
    SelfCheck(self_check::Args),
    Completions(completions::Args),
    Man(manual::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}

/// What built this binary, as `build.rs` reports it.
const BUILD: Build = Build {
    rustc: env!("PLUMB_RUSTC"),
    profile: env!("PLUMB_PROFILE"),
    target: env!("PLUMB_TARGET"),
    target_features: env!("PLUMB_TARGET_FEATURES"),
    measuring: env!("PLUMB_MEASURING"),
};

/// Why a command did not end well; each has its exit code.
#[derive(Debug, Error)]
pub enum Failure {
    /// What was typed makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It made sense and did not work.
    #[error("{}", host::refused::text(.0))]
    Failed(anyhow::Error),
    /// It worked, and found something.
    #[error("")]
    Finding,
    /// It worked, and cannot decide what was asked.
    #[error("{0}")]
    Undecided(String),
    /// A signal ended it; the hint says how to go on.
    #[error("{0}")]
    Interrupted(String),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast::<Usage>() {
            Ok(Usage(text)) => return Failure::Usage(text),
            Err(error) => error,
        };
        error.downcast::<Failure>().unwrap_or_else(Failure::Failed)
    }
}

pub fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::Usage(format!("{:#}", error.into()))
}

/// A time as an option takes it. Errors: what to type.
fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}: type a duration, for example 90s, 10m or 7d"))
}

impl Failure {
    /// What was typed makes no sense, in these words.
    fn usage(text: &str) -> Failure {
        Failure::Usage(text.to_owned())
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Finding => 1,
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 3,
            Failure::Interrupted(_) => 4,
            Failure::Undecided(_) => 5,
        }
    }
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    // Where a limit on the size of files ends a write, that says so: EFBIG.
    let _ = metal::signal::ignore(signal_hook::consts::SIGXFSZ);
    panic::set_hook(Box::new(|fault| output::diagnose(&internal_error(fault))));
    let typed = negative_numbers(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&typed).unwrap_or_else(|error| error.exit());
    // The hook has reported what unwinds; it has cleaned up on its way here.
    let result = panic::catch_unwind(|| dispatch(cli.command));
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            let text = failure.to_string();
            if !text.is_empty() {
                output::diagnose(&format!("plumb: {text}"));
            }
            ExitCode::from(failure.code())
        }
        Err(_) => ExitCode::from(INTERNAL),
    }
}

/// Options that take a number also take `-1` or `-5s`, and lists of CPUs `-1`, so that the option's
/// own message says what is allowed. Without this the parser takes the value for an option.
fn negative_numbers(command: clap::Command) -> clap::Command {
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<f64>(),
        TypeId::of::<Duration>(),
    ];
    let signed = move |arg: clap::Arg| {
        let kind = arg.get_value_parser().type_id();
        let is_number = numbers.iter().any(|number| kind == *number);
        let is_cpus = arg.get_long() == Some("cpu");
        arg.allow_hyphen_values(is_number).allow_negative_numbers(is_cpus)
    };
    command.mut_args(signed).mut_subcommands(negative_numbers)
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Predict(args) => predict::run(args),
        Command::List(args) => list::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Report(args) => report::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Ab(args) => ab::run(args),
        Command::Runs(args) => runs::run(args),
        Command::Trend(args) => trend::run(args),
        Command::Crosscheck(args) => crosscheck::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Fleet(args) => fleet::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::SelfCheck(args) => self_check::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => manual::run(args),
        Command::Worker(args) => worker::run(args),
    }
}

/// Exit code of a fault of plumb itself: the run failed.
const INTERNAL: u8 = 3;

/// A fault of plumb itself, in words that help to report it. A worker's are kept by its session as
/// the reason of the void round.
fn internal_error(fault: &panic::PanicHookInfo<'_>) -> String {
    let said = fault.payload_as_str().unwrap_or("no reason given");
    match fault.location() {
        Some(at) => format!("plumb: internal error at {}:{}: {said}", at.file(), at.line()),
        None => format!("plumb: internal error: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, negative_numbers};
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    /// How the parser takes a command line.
    fn parsed(line: &str) -> Result<clap::ArgMatches, clap::Error> {
        negative_numbers(Cli::command()).try_get_matches_from(line.split(' '))
    }

    #[test]
    fn every_command_says_in_the_third_person_what_it_does() {
        fn check(command: &clap::Command) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                let verb = about.split(' ').next().unwrap_or_default();
                assert!(verb.ends_with('s'), "{}: {about}", sub.get_name());
                check(sub);
            }
        }
        check(&Cli::command());
    }

    #[test]
    fn a_time_that_is_none_is_answered_by_one_that_is() {
        for line in [
            "plumb runs prune --older-than 5",
            "plumb crosscheck --limit -1s",
            "plumb doctor --watch x",
            "plumb fleet plan -N 2 --slot 5y5",
        ] {
            let refused = parsed(line).expect_err("is no time");
            assert!(refused.to_string().contains("for example 90s"), "{line}: {refused}");
        }
    }

    #[test]
    fn a_negative_number_reaches_the_option_that_refuses_it() {
        let run = parsed("plumb run --cpu -1").expect("the machine decides which CPUs there are");
        let (_, run) = run.subcommand().expect("run");
        assert_eq!(run.get_one::<String>("cpu").map(String::as_str), Some("-1"));
        // An option that lacks its value takes no other option for it.
        assert!(parsed("plumb run --cpu --json").is_err());
        for line in ["plumb fleet plan -N -1", "plumb crosscheck --pairs -1"] {
            let refused = parsed(line).expect_err("is out of range");
            assert_eq!(refused.kind(), ErrorKind::ValueValidation, "{line}: {refused}");
        }
    }
}
