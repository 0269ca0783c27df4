//! `plumb run`: measure.

mod progress;

use crate::cmd::choice::{Choice, PresetName};
use crate::cmd::report::{Format, render, screen};
use crate::cmd::{BUILD, Failure, output, predict, usage};
use crate::published;
use analysis::compare::{Measured, compare};
use analysis::figures;
use analysis::history::History;
use anyhow::{Context, Result};
use bench::experiment::Preset;
use catalogue::FAMILIES;
use clap::ValueEnum as _;
pub(super) use progress::Bar;
pub use progress::duration;
use progress::{Display, Expected};
use record::event::{End, Ending, Options, PlannedExperiment};
use record::quantity::render_bytes;
use record::run::Run;
use report::build::compare::build;
use report::terminal;
use session::machine::{Machine, UNSEEN};
use session::node::STOPPING;
use session::plan::default_budget;
use session::resume::{command, resume};
use session::setup::{Setup, run_name};
use session::store::journal::{self, WorkDir};
use session::store::{self, RecordFile, Store};
use signal_hook::consts::SIGHUP;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Measures this machine and prints the report
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// Record file [default: a new one in the store; `plumb runs` lists it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the run, in place of its time and host [default: for example 2026-11-30T08-15-00-vm].
    /// Further runs of the name get -2, -3 …; `compare`, `report` and `trend --name` take it
    #[arg(long, value_name = "NAME", value_parser = run_name_of, conflicts_with = "resume")]
    name: Option<String>,
    /// Measure so many times, each a run of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["resume", "out", "report"])]
    repeat: u32,
    /// Continue an interrupted or killed run, with the options it was started with. A record starts
    /// no program and no connection by itself: repeat --peer
    #[arg(long, value_name = "RUN", conflicts_with_all = ["selectors", "preset", "budget", "precision", "seed", "set", "cpu", "dir", "key_file", "out"])]
    resume: Option<String>,
    /// Your own estimates of the key figures, in the form that `plumb predict` writes; the record keeps
    /// them, and the report compares them with plumb's
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    predictions: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print the whole report instead of the summary
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    full: bool,
    /// Wait until no other plumb measures on this machine [default: measure at once; rounds beside
    /// another plumb count as disturbed]
    #[arg(long)]
    wait: bool,
    /// Start even if the run takes more than three times its preset's time
    #[arg(long, short)]
    yes: bool,
    /// Print the figures as JSON (the flat result) instead of the report: --format json
    #[arg(long, conflicts_with_all = ["quiet", "format"])]
    json: bool,
    /// Print the whole report in this format instead of the summary
    #[arg(short, long, value_enum, conflicts_with_all = ["quiet", "full"])]
    format: Option<Format>,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    if args.choice.host_tree.is_some() {
        return Err(Failure::usage(
            "a recorded machine cannot be measured; `plumb plan` plans for it",
        ));
    }
    if let Some(page) = &args.report {
        store::file::check_writable(page).context("--report").map_err(usage)?;
    }
    // From here on a signal ends the run cleanly.
    let stop = stop_flag()?;
    for nth in 1..=args.repeat {
        if args.repeat > 1 && !args.quiet {
            output::diagnose(&format!("plumb: run {nth} of {}", args.repeat));
        }
        measure(&args, &stop)?;
    }
    Ok(())
}

fn measure(args: &Args, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let store = Store::here();
    let say = |text: String| {
        if !args.quiet {
            output::diagnose(&format!("plumb: {text}"));
        }
    };
    for note in journal::recover(&store, stop) {
        say(note);
    }
    let continued = args.resume.is_some();
    let machine = machine(args, stop, say);
    let begun = match (&args.resume, machine) {
        _ if is_set(stop) => Err(nothing_yet(continued)),
        (Some(run), machine) => {
            resume(&store, run, &args.choice.peer, BUILD, FAMILIES, machine, stop)
                .map(|(setup, file, run)| (setup, file, Some(run)))
                .map_err(Failure::from)
        }
        (None, machine) => start(&store, args, machine, stop),
    };
    // What failed after a signal failed for it.
    let or_stopped = |failure| match is_set(stop) {
        true => nothing_yet(continued),
        false => failure,
    };
    let (mut setup, mut file, resumed) = begun.map_err(or_stopped)?;
    let path = file.path().to_owned();
    if args.report.as_deref().is_some_and(|page| same(page, &path)) {
        return Err(Failure::Usage(format!(
            "--report {} is the record itself; name another file",
            path.display()
        )));
    }
    let work = setup.make_dirs(&store, stop).map_err(|error| or_stopped(Failure::from(error)))?;
    let expected = Expected::new(&setup, resumed.as_ref());
    say(format!(
        "{} series, expected time {expected}; the record is {}",
        setup.planned.work.len(),
        path.display()
    ));
    let mut display = Display::new(args.quiet);
    let finished =
        session::run(&setup, &mut file, &mut |progress| display.show(progress), stop, resumed);
    display.end();
    for lost in setup.remotes.values().filter(|remote| remote.is_lost()) {
        output::diagnose(&format!("plumb: the connection to the far end {} is lost", lost.name()));
    }
    remove(work, finished.as_ref().map_or(&[], |finished| &finished.hanging));
    let (run, unreached) = match finished.map(|finished| (finished.run, finished.unreached)) {
        Err(error) if session::is_interrupt(&error) => {
            return Err(Failure::Interrupted(interrupted_early(&path, &setup.options, continued)));
        }
        Err(error) if has_no_room(&error) => {
            // A record that holds nothing yet is removed.
            drop(file);
            let is_kept = path.is_file();
            let way_on = command(&path.to_string_lossy(), &setup.options);
            return Err(Failure::Failed(match is_kept {
                true => anyhow::anyhow!("{error:#}; make room, then continue with: {way_on}"),
                false => error,
            }));
        }
        finished => finished?,
    };
    if let Some(page) = &args.report {
        store::file::write_whole(page, render(&run, Format::Html, output::look()).as_bytes())?;
    }
    // The store's newest is the last; a file of the user's has its path.
    let name = args.out.as_ref().map_or("last".into(), |path| path.to_string_lossy());
    let text = match () {
        () if args.quiet => String::new(),
        () if args.json => render(&run, Format::Json, output::look()),
        () if let Some(format) = args.format => render(&run, format, output::look()),
        () if args.full => render(&run, Format::Terminal, output::look()),
        () => screen(&run, &name, false, output::look()) + &beside(&run, &args.choice.selectors),
    };
    output::print(&text)?;
    if let Some(why) = expected.why_longer(&run) {
        say(why);
    }
    if unreached > 0 {
        say(format!(
            "the time budget ran out before {unreached} cases had a round; raise it with --budget"
        ));
    }
    verdict(&run, &path)
}

/// The report's tables that selectors name, each beside a run.
fn beside(run: &Run, selectors: &[String]) -> String {
    let runs = selectors.iter().filter_map(|typed| published::run(typed).ok().flatten());
    let texts = runs.map(|published| {
        let measured = [&published, run].map(|run| Measured { run, figures: figures(run) });
        let comparison = compare(&measured, &History::default());
        comparison.map_or_else(String::new, |comparison| {
            format!("\n{}", terminal::render(&build(&comparison, false), output::look()))
        })
    });
    texts.collect()
}

/// The place of a run among the plumbs of this machine, once there is none beside it if that is
/// wanted. A rehearsal has none, and one that cannot have any measures all the same.
fn machine(args: &Args, stop: &AtomicBool, say: impl Fn(String)) -> Option<Machine> {
    if args.resume.is_none() && args.choice.preset == PresetName::Rehearsal {
        return None;
    }
    let what = match &args.resume {
        Some(run) => format!("plumb run --resume {run}"),
        None => {
            let preset = args.choice.preset().to_possible_value();
            let preset = preset.map(|value| format!("--preset {}", value.get_name()));
            let words = ["plumb".to_owned(), "run".to_owned()].into_iter().chain(preset);
            words.chain(args.choice.selectors.clone()).collect::<Vec<_>>().join(" ")
        }
    };
    let entered = Machine::look(&what, None).and_then(|machine| {
        if args.wait {
            machine.wait(stop, |others| say(format!("waiting for {others}")))?;
        }
        machine.enter()?;
        Ok(machine)
    });
    match entered {
        Ok(machine) => {
            let others = machine.others();
            if !others.is_empty() {
                say(format!(
                    "another plumb measures on this machine: {}; rounds beside it count as \
                     disturbed (--wait waits for its end)",
                    others.join("; ")
                ));
            }
            Some(machine)
        }
        // The caller looks at the flag.
        Err(error) if session::is_interrupt(&error) => None,
        Err(error) => {
            say(format!("{UNSEEN}: {error:#}"));
            None
        }
    }
}

/// A run that takes so many times its preset's time asks first.
const LONG: f64 = 3.0;

/// A plan that takes so many times its preset's time, and that no option asks for, is of a machine
/// that was misread.
const IMPLAUSIBLE: f64 = 10.0;

fn is_implausible(eta_s: f64, usual_s: f64, choice: &Choice) -> bool {
    eta_s > IMPLAUSIBLE * usual_s && choice.budget.is_none() && choice.set.is_empty()
}

/// Errors: the plan is implausible.
pub fn check_plausible(setup: &Setup, choice: &Choice) -> Result<(), Failure> {
    let eta = setup.planned.plan.eta_s;
    let preset = Preset::from(choice.preset());
    let usual = default_budget(preset).as_secs_f64();
    if !is_implausible(eta, usual, choice) {
        return Ok(());
    }
    let cost = |of: &&PlannedExperiment| of.series.iter().map(|one| one.round_cost_s).sum::<f64>();
    let longest = setup.planned.plan.experiments.iter().max_by(|a, b| cost(a).total_cmp(&cost(b)));
    Err(Failure::Usage(format!(
        "the plan takes {}, but {} runs take {}: plumb seems to misread this machine ({} CPUs, {} of \
         memory; most of the time is for {}). `plumb plan --verbose` shows what it reads, `--set \
         host.FACT=VALUE` corrects it; if this is right, limit the time with --budget, or `plumb run \
         --yes`",
        duration(Duration::from_secs_f64(eta)),
        preset.name(),
        duration(Duration::from_secs_f64(usual)),
        setup.site.cpus.len(),
        render_bytes(setup.site.memory_bytes as f64),
        longest.map_or("", |one| &one.id),
    )))
}

/// A new run: its file is made before anything is measured.
fn start(
    store: &Store,
    args: &Args,
    machine: Option<Machine>,
    stop: &AtomicBool,
) -> Result<(Setup, RecordFile, Option<Run>), Failure> {
    if let Some(out) = &args.out {
        store::file::check_directory(out).context("--out").map_err(usage)?;
    }
    let name = args.name.clone().unwrap_or_else(run_name);
    let mut setup = args.choice.setup(Some(name.clone()), machine, stop)?;
    setup.measures_something()?;
    if let Some(file) = &args.predictions {
        setup.estimates = predict::read(file, &setup.planned.plan)?;
    }
    if !args.yes {
        check_plausible(&setup, &args.choice)?;
    }
    let (eta, preset) = (setup.planned.plan.eta_s, Preset::from(args.choice.preset()));
    let usual = default_budget(preset).as_secs_f64();
    if eta > LONG * usual && !args.yes && args.choice.budget.is_none() {
        return Err(Failure::Usage(format!(
            "the run would take {}; {} runs take {}. Start it with --yes, or limit it with --budget",
            duration(Duration::from_secs_f64(eta)),
            preset.name(),
            duration(Duration::from_secs_f64(usual))
        )));
    }
    let made = match &args.out {
        Some(out) => RecordFile::create(out).map(|file| (name, file)),
        None => store.create(&name),
    };
    let (name, file) = made.map_err(|error| {
        let way_out = if args.out.as_ref().is_some_and(|out| out.is_file()) {
            "name another file with --out, or continue it with --resume"
        } else {
            "name a writable file with --out"
        };
        Failure::Usage(format!("{error:#}; {way_out}"))
    })?;
    // A store that cannot be written has no `last` of this run either.
    let _ = store.remember(file.path());
    setup.name = name;
    Ok((setup, file, None))
}

const NAME_MOST: usize = 64;

/// A name for a run: a file's name, and none that means something else.
fn run_name_of(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let begins_well = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    let is_taken = ["last", "last-crosscheck"].contains(&text) || text.ends_with(".jsonl");
    match begins_well && text.chars().all(is_plain) && text.len() <= NAME_MOST && !is_taken {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "type at most {NAME_MOST} letters, digits, `-`, `_` and `.`, beginning with a letter or \
             digit; not `last`"
        )),
    }
}

/// Whether an error is a full disk, or the limit on the size of files.
fn has_no_room(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(StorageFull | QuotaExceeded | FileTooLarge))
}

/// Removes the work directories; those that hang in less time.
pub(super) fn remove(work: Vec<WorkDir>, hanging: &[PathBuf]) {
    for work in work {
        let is_hanging = hanging.iter().any(|dir| dir == work.path());
        if let Err(left) = work.remove(is_hanging) {
            output::diagnose(&format!("plumb: {left:#}; the next run tries again"));
        }
    }
}

/// Whether two paths, the second of a file that exists, name one file.
fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Set by the first signal that asks plumb to end; a second one ends it at once.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // nohup leaves SIGHUP ignored. A shell's background ignores SIGINT too; plumb still ends at one.
    let is_asked = |signal: &i32| *signal != SIGHUP || !metal::signal::is_ignored(*signal);
    let asked: Vec<i32> = STOPPING.into_iter().filter(is_asked).collect();
    metal::signal::stop_at(&asked, &stop, 4).context("cannot handle signals")?;
    Ok(stop)
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// A signal came before there was a record, or before it was continued.
fn nothing_yet(continued: bool) -> Failure {
    let way_on = if continued { "; the run can still be continued" } else { "" };
    Failure::Interrupted(format!("interrupted before anything was measured{way_on}"))
}

/// What to say when a signal came before the first event.
fn interrupted_early(path: &Path, options: &Options, continued: bool) -> String {
    if continued {
        format!(
            "interrupted before the next round. Continue with: {}",
            command(&path.to_string_lossy(), options)
        )
    } else {
        "interrupted before anything was measured; nothing is left behind".to_owned()
    }
}

/// The exit code of a run, with a hint where one helps.
fn verdict(run: &Run, path: &Path) -> Result<(), Failure> {
    if run.footer.as_ref().is_some_and(|footer| footer.end == End::Interrupted) {
        return Err(Failure::Interrupted(format!(
            "interrupted; the record has what was measured. Continue with: {}",
            command(&path.to_string_lossy(), &run.header.options)
        )));
    }
    let is_nothing = run.outcomes.iter().all(|of| of.outcome == Ending::Skipped);
    let why = run.outcomes.iter().rev().find_map(|of| of.reason.as_deref());
    if let Some(why) = why.filter(|_| is_nothing) {
        return Err(Failure::Failed(anyhow::anyhow!("{why}; nothing was measured")));
    }
    let has_failed = |planned: &&PlannedExperiment| {
        let own = run.outcomes.iter().filter(|outcome| outcome.experiment == planned.id);
        let mut tried = own.filter(|outcome| outcome.outcome != Ending::Skipped).peekable();
        tried.peek().is_some() && tried.all(|outcome| outcome.outcome == Ending::Failed)
    };
    let experiments = run.plan.iter().flat_map(|plan| &plan.experiments);
    let failed: Vec<&str> =
        experiments.filter(has_failed).map(|planned| planned.id.as_str()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(anyhow::anyhow!(
            "every case of {} that was tried failed; the report says why",
            failed.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{has_no_room, is_implausible, run_name_of};
    use crate::cmd::choice::{Choice, PresetName};
    use anyhow::Context as _;
    use std::io;
    use std::time::Duration;

    #[test]
    fn what_nobody_asked_for_takes_no_ten_times_the_preset_s_time() {
        let plain = Choice::from_selectors(Vec::new(), PresetName::Quick);
        assert!(is_implausible(601.0, 60.0, &plain) && !is_implausible(600.0, 60.0, &plain));
        let set = Choice { set: vec!["host.cpu=x".to_owned()], ..plain };
        assert!(!is_implausible(601.0, 60.0, &set));
        let limited = Choice { budget: Some(Duration::from_secs(1)), set: Vec::new(), ..set };
        assert!(!is_implausible(601.0, 60.0, &limited));
    }

    #[test]
    fn a_full_disk_is_seen_behind_what_failed_for_it() {
        let failed = |kind: io::ErrorKind| {
            let result: Result<(), io::Error> = Err(kind.into());
            result.context("cannot write the record").expect_err("failed")
        };
        assert!(has_no_room(&failed(io::ErrorKind::StorageFull)));
        assert!(has_no_room(&failed(io::ErrorKind::FileTooLarge)));
        assert!(!has_no_room(&failed(io::ErrorKind::PermissionDenied)));
    }

    #[test]
    fn a_run_has_the_name_of_a_file() {
        for name in ["before", "2.6-rc1_b", "a"] {
            assert_eq!(run_name_of(name).as_deref(), Ok(name));
        }
        let long = "a".repeat(65);
        for name in ["", "last", "a/b", "-x", ".x", "x.jsonl", "a b", &long] {
            assert!(run_name_of(name).is_err(), "{name}");
        }
    }
}
