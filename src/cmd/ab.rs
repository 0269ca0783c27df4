//! `plumb ab`: two states of this machine, which commands make, compared round by round.

use crate::cmd::choice::{Choice, PresetName};
use crate::cmd::rendered::{Format, Shown};
use crate::cmd::run::{Bar, remove, stop_flag};
use crate::cmd::{Failure, choice, output};
use analysis::paired::{Paired, paired};
use anyhow::{Context, Result};
use record::run::Run;
use report::build::paired::{Comparison, build, csv, json};
use report::{html, markdown, terminal};
use session::machine::Machine;
use session::setup::{Setup, run_name};
use session::stepwise::Stepwise;
use session::store::journal::{self, WorkDir};
use session::store::{RecordFile, Store};
use session::{Finished, Progress};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pairs before precision may end a comparison.
const PAIRS_MIN: usize = 12;

/// Compares two states of this machine, which two commands make: a sysctl, a governor, a mount option. Rounds of A and B
/// alternate (A B, B A, …), each after its command, until the precision or the budget is reached
#[derive(clap::Args)]
pub struct Args {
    /// Command that makes state A; `sh -c` runs it before each round of A
    #[arg(value_name = "CMD_A")]
    a: String,
    /// Command that makes state B
    #[arg(value_name = "CMD_B")]
    b: String,
    /// What to measure, as in `plumb run`
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// How much to measure in a round
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    preset: PresetName,
    /// Longest time, for example 90s or 10m
    #[arg(long, value_name = "DURATION", value_parser = choice::budget, default_value = "5m")]
    budget: Duration,
    /// Stop when the interval of every ratio is this narrow: half its width, in percent
    #[arg(long, value_name = "PCT", default_value = "0.5", value_parser = choice::percent)]
    precision: f64,
    /// Set a parameter of a selected experiment (ID.PARAM=V1,V2); may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// CPUs to measure on [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Directory for the files that experiments write and remove
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Command that restores the machine at the end, also after a failure or a signal
    #[arg(long, value_name = "CMD")]
    after: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let text = alternate(&args, &stop);
    let restored = args.after.as_deref().map_or(Ok(()), |command| make("--after", command));
    // What failed first is the cause; a machine that is not restored is said in any case.
    if let (Err(_), Err(lost)) = (&text, &restored) {
        output::diagnose(&format!("plumb: {lost}"));
    }
    let text = text?;
    args.shown.place.write(&text)?;
    restored?;
    match stop.load(Ordering::Relaxed) {
        true => {
            Err(Failure::Interrupted("interrupted; the comparison has the pairs until then".into()))
        }
        false => Ok(()),
    }
}

/// Brings the machine into a state. Errors: the command's words and status.
fn make(name: &str, command: &str) -> Result<(), Failure> {
    let ended = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("cannot run the command of {name}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(if ended.stderr.is_empty() {
        &ended.stdout
    } else {
        &ended.stderr
    });
    let words = words.trim().lines().next_back().unwrap_or("it printed nothing").to_owned();
    Err(Failure::Failed(anyhow::anyhow!(
        "the command of {name}, `{command}`, failed ({}): {words}",
        ended.status
    )))
}

/// One of the two states: what makes it, and its run.
struct Side {
    name: &'static str,
    setup: Setup,
    file: RecordFile,
}

fn alternate(args: &Args, stop: &AtomicBool) -> Result<String, Failure> {
    let store = Store::here();
    for note in journal::recover(&store, stop) {
        output::diagnose(&format!("plumb: {note}"));
    }
    let commands = [args.a.as_str(), args.b.as_str()];
    let (mut a, mut work) = args.side(&store, "A", entered(), stop)?;
    let (mut b, more) = args.side(&store, "B", None, stop)?;
    work.extend(more);
    let runs = measure(args, [&mut a, &mut b], stop);
    remove(work, &[]);
    let [run_a, run_b] = runs?;
    let figures = paired(&run_a, &run_b);
    if figures.is_empty() {
        return Err(Failure::Failed(anyhow::anyhow!(
            "no pair of rounds was measured; `plumb report {}` says why",
            a.setup.name
        )));
    }
    let runs = [a.setup.name.as_str(), b.setup.name.as_str()];
    let comparison = Comparison { commands, runs, figures: &figures };
    Ok(match args.shown.format {
        Format::Terminal => terminal::render(&build(&comparison), args.shown.place.look()),
        Format::Html => html::render(&build(&comparison), html::Print::Full),
        Format::Markdown => markdown::render(&build(&comparison)),
        Format::Csv => csv(&comparison),
        Format::Json => json(&comparison),
    })
}

/// A place among the plumbs of this machine, which both sides share; a machine that cannot be seen is measured all the same.
fn entered() -> Option<Machine> {
    let machine = Machine::look("plumb ab", None).ok()?;
    machine.enter().ok().map(|()| machine)
}

impl Args {
    fn command(&self, name: &str) -> &str {
        if name == "A" { &self.a } else { &self.b }
    }

    /// Makes a state, plans in it, and begins its record and its directories.
    fn side(
        &self,
        store: &Store,
        name: &'static str,
        machine: Option<Machine>,
        stop: &AtomicBool,
    ) -> Result<(Side, Vec<WorkDir>), Failure> {
        make(name, self.command(name))?;
        let choice = Choice {
            budget: Some(self.budget),
            precision: choice::PRECISION_MIN,
            set: self.set.clone(),
            cpu: self.cpu.clone(),
            dir: self.dir.clone(),
            ..Choice::from_selectors(self.selectors.clone(), self.preset)
        };
        let wanted = format!("{}-{}", run_name(), name.to_lowercase());
        let mut setup = choice.setup(Some(wanted.clone()), machine, stop)?;
        setup.measures_something()?;
        let (record, file) = store.create(&wanted)?;
        setup.name = record;
        let work = setup.make_dirs(store, stop)?;
        Ok((Side { name, setup, file }, work))
    }

    /// Whether no further pair is wanted.
    fn is_enough(&self, runs: [&Run; 2], pairs: usize) -> bool {
        pairs >= PAIRS_MIN
            && paired(runs[0], runs[1])
                .iter()
                .all(|one: &Paired| one.precision() <= self.precision / 100.0)
    }
}

/// Alternates rounds of both sides until enough is known, and gives both runs.
fn measure(args: &Args, sides: [&mut Side; 2], stop: &AtomicBool) -> Result<[Run; 2], Failure> {
    let bar = Bar::new(true);
    let [a, b] = sides;
    let names = [a.name, b.name];
    let (mut quiet_a, mut quiet_b) = (|_: &Progress| {}, |_: &Progress| {});
    let mut turns = [
        Stepwise::begin(&a.setup, &mut a.file, &mut quiet_a, stop)?,
        Stepwise::begin(&b.setup, &mut b.file, &mut quiet_b, stop)?,
    ];
    let ended = loop_pairs(args, names, &mut turns, &bar, stop);
    bar.clear();
    let is_interrupted = !matches!(ended, Ok(true));
    let finished: Vec<Finished> =
        turns.into_iter().map(|turn| turn.end(is_interrupted)).collect::<Result<_>>()?;
    ended?;
    let mut runs = finished.into_iter().map(|finished| finished.run);
    Ok([runs.next(), runs.next()].map(|run| run.expect("two sides have two runs")))
}

/// Pairs until enough is known; false if a signal ended it. Errors: a command failed, or an event cannot be stored.
fn loop_pairs(
    args: &Args,
    names: [&str; 2],
    turns: &mut [Stepwise<'_>; 2],
    bar: &Bar,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    for pair in 1.. {
        let pair_began = Instant::now();
        // A B, B A: what drifts steadily cancels.
        let order = if pair % 2 == 1 { [0, 1] } else { [1, 0] };
        for side in order {
            let done = began.elapsed().as_secs_f64() / args.budget.as_secs_f64();
            bar.draw(done, &format!("pair {pair}, {}", names[side]));
            let made = make(names[side], args.command(names[side]));
            // A signal reaches the command as well, and what it says then is not the cause.
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            made?;
            if !turns[side].step()? {
                return Ok(false);
            }
        }
        longest = longest.max(pair_began.elapsed());
        let is_late = began.elapsed() + longest > args.budget;
        if is_late || args.is_enough([turns[0].so_far(), turns[1].so_far()], pair) {
            return Ok(true);
        }
    }
    Ok(true)
}
