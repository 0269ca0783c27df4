//! `plumb run`: measure.

use crate::cmd::report::{Format, render};
use crate::cmd::site::{self, Choice, host_name};
use crate::cmd::{Failure, output};
use anyhow::{Context, Result};
use host::Host;
use indicatif::{ProgressBar, ProgressStyle};
use record::FORMAT;
use record::event::{End, Ending, Event, Plan, PlannedSeries};
use record::run::Run;
use session::agent::url::{PeerUrl, Way};
use session::live::OVER_BUDGET;
use session::store::journal::{self, WorkDir};
use session::store::{self, RecordFile, Store};
use session::{self, Observer, Progress, Setup};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// Measures, and prints the report.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// File for the record [default: a new one in the store]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Continue an interrupted or killed run, with the options it was started with
    #[arg(long, value_name = "RUN", conflicts_with_all = ["selectors", "preset", "budget", "precision", "seed", "set", "cpu", "dir", "key_file", "out"])]
    resume: Option<String>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print the flat result as JSON instead of the report
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    if args.choice.host_tree.is_some() {
        return Err(Failure::Usage(
            "a recorded machine can be planned for, not measured: use `plumb plan`".to_owned(),
        ));
    }
    if let Some(page) = &args.report {
        store::check_writable(page)
            .map_err(|error| Failure::Usage(format!("--report: {error:#}")))?;
    }
    // From here on a signal ends the run cleanly.
    let stop = stop_flag()?;
    let store = Store::here();
    for told in journal::recover(&store, &stop) {
        output::diagnose(&format!("plumb: {told}"));
    }
    let continued = args.resume.is_some();
    let begun = match &args.resume {
        _ if is_set(&stop) => Err(nothing_yet(continued)),
        Some(run) => resume(&store, run, &args.choice.peer, &stop),
        None => start(&store, &args, &stop),
    };
    // What failed after a signal failed for it.
    let or_stopped = |failure| match is_set(&stop) {
        true => nothing_yet(continued),
        false => failure,
    };
    let (mut setup, file, resumed) = begun.map_err(or_stopped)?;
    let path = file.path().to_owned();
    if args.report.as_deref().is_some_and(|page| same(page, &path)) {
        return Err(Failure::Usage(format!(
            "--report {} is the record itself; name another file",
            path.display()
        )));
    }
    let work =
        work_dirs(&store, &mut setup, &stop).map_err(|error| or_stopped(Failure::from(error)))?;
    let mut sink = Sink { file, bar: progress_bar() };
    output::diagnose(&format!(
        "plumb: {} series, expected time {}; the record is {}",
        setup.planned.work.len(),
        told(Duration::from_secs_f64(setup.planned.plan.eta_s)),
        path.display()
    ));
    let finished = session::run(&setup, &mut sink, &stop, resumed);
    sink.bar.finish_and_clear();
    remove(work, finished.as_ref().map_or(&[], |finished| &finished.hanging));
    let run = match finished.map(|finished| finished.run) {
        Err(error) if session::is_interrupt(&error) => {
            return Err(Failure::Interrupted(interrupted_early(&path, continued)));
        }
        run => run?,
    };
    if let Some(page) = &args.report {
        store::write_whole(page, render(&run, Format::Html, output::look()).as_bytes())?;
    }
    let shown = if args.json { Format::Json } else { Format::Terminal };
    output::print(&render(&run, shown, output::look()))?;
    verdict(&run, &path)
}

/// A new run: its file is made before anything is measured.
fn start(
    store: &Store,
    args: &Args,
    stop: &AtomicBool,
) -> Result<(Setup, RecordFile, Option<Run>), Failure> {
    let name = store.free_name(&run_name());
    let setup = args.choice.setup(Some(name.clone()), &[], stop)?;
    nothing_left(&setup)?;
    let path = args.out.clone().unwrap_or_else(|| store.path(&name));
    let file = RecordFile::create(&path).map_err(|error| {
        let way_out = if path.is_file() {
            "name another file with --out, or continue it with --resume"
        } else {
            "name a writable file with --out"
        };
        Failure::Usage(format!("{error:#}; {way_out}"))
    })?;
    Ok((setup, file, None))
}

/// A selection of which this machine allows nothing is no run; the reasons say what would help.
fn nothing_left(setup: &Setup) -> Result<(), Failure> {
    if !setup.planned.work.is_empty() {
        return Ok(());
    }
    let mut reasons: Vec<String> = Vec::new();
    for (card, _, skip) in &setup.planned.skipped {
        let needed = skip.needed.as_ref().map(|needed| format!("; {needed}"));
        let reason = format!("{}: {}{}", card.id, skip.reason, needed.unwrap_or_default());
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.truncate(3);
    Err(Failure::Usage(format!(
        "nothing that was selected can be measured here: {}",
        reasons.join("; ")
    )))
}

/// A run that goes on. Nobody elsewhere is reached, and nothing that the record names is started, before it is
/// clear that the record is this machine's and that whoever resumes it means its far ends; `peers` are those
/// on the command line.
fn resume(
    store: &Store,
    name: &str,
    peers: &[String],
    stop: &AtomicBool,
) -> Result<(Setup, RecordFile, Option<Run>), Failure> {
    let usage = |error: anyhow::Error| Failure::Usage(format!("{error:#}"));
    let path = store.find(name).map_err(usage)?;
    let (file, recording) = RecordFile::resume(&path).map_err(usage)?;
    let run = &recording.run;
    if matches!(run.footer.as_ref().map(|footer| footer.end), Some(End::Complete | End::Budget)) {
        return Err(Failure::Usage(format!(
            "{} is complete; `plumb report {name}` shows it, `plumb run` measures anew",
            path.display()
        )));
    }
    let identity = Host::read(&site::root(None)?).identity.hash;
    if identity != run.header.identity {
        return Err(Failure::Usage(format!(
            "{} was measured on another machine (identity {}, here {identity}); resume it there, or `plumb run` here",
            path.display(),
            run.header.identity
        )));
    }
    if run.header.is_crosscheck() {
        return Err(Failure::Usage(format!(
            "{} is a crosscheck, which has no rounds to resume; start a new `plumb crosscheck`",
            path.display()
        )));
    }
    if run.header.format != FORMAT {
        return Err(Failure::Usage(format!(
            "{} was begun by an earlier plumb, whose figures are estimated in another way (format {}, here \
             {FORMAT}); start a new `plumb run`",
            path.display(),
            run.header.format
        )));
    }
    let Some(plan) = &run.plan else {
        return Err(Failure::Usage(format!(
            "{} was killed before its plan was written: nothing was measured; start a new `plumb run`",
            path.display()
        )));
    };
    meant(store, &path, &run.header.options.peers, peers)?;
    let choice = Choice::of(&run.header.options, run.header.seed)?;
    let mut setup = choice.setup(Some(run.header.run.clone()), &run.header.peers, stop)?;
    if let Some(difference) = difference(plan, &setup.planned.plan) {
        return Err(Failure::Usage(format!(
            "{} has another plan than this plumb makes here ({difference}); start a new `plumb run`",
            path.display()
        )));
    }
    // The quietest CPU of today may be another one: a run stays where it began.
    let usable = setup.site.host.cpu.usable();
    if let Some(gone) = run.header.cpus.iter().find(|cpu| !usable.contains(cpu)) {
        return Err(Failure::Usage(format!(
            "{} was measured on CPU {gone}, which this process may not use now; allow it, or start a new `plumb run`",
            path.display()
        )));
    }
    setup.site.cpus.clone_from(&run.header.cpus);
    Ok((setup, file, Some(recording.run)))
}

/// Checks that the far ends of a record are meant. A record can come from anywhere, and a far end that is
/// started is a command: what lies outside of the store starts none that is not on the command line as well.
fn meant(store: &Store, path: &Path, then: &[String], now: &[String]) -> Result<(), Failure> {
    if !now.is_empty() && now != then {
        return Err(Failure::Usage(format!(
            "a resumed run keeps its far ends ({}): leave --peer out, or start a new `plumb run`",
            then.join(", ")
        )));
    }
    if !now.is_empty() || store.holds(path) {
        return Ok(());
    }
    let peers = PeerUrl::parse_all(then).map_err(|error| Failure::Usage(error.to_string()))?;
    if peers.iter().all(|peer| matches!(peer.way, Way::Tcp { .. })) {
        return Ok(());
    }
    let repeated: Vec<String> =
        then.iter().map(|peer| format!("--peer '{}'", peer.replace('\'', r"'\''"))).collect();
    Err(Failure::Usage(format!(
        "{} is no file of the store, and would start far ends by its own words; if you mean them, repeat them: \
         plumb run --resume {} {}",
        path.display(),
        quoted(path),
        repeated.join(" ")
    )))
}

/// The run's own directory below the one of `--dir`, and those that series have elsewhere;
/// experiments write nowhere else.
fn work_dirs(store: &Store, setup: &mut Setup, stop: &AtomicBool) -> Result<Vec<WorkDir>> {
    let mut made = Vec::new();
    let works = setup.planned.work.iter();
    let groups: BTreeSet<PathBuf> =
        works.filter_map(|work| work.experiment.group_below(&setup.site, &work.series)).collect();
    let groups: Vec<PathBuf> = groups.into_iter().collect();
    if let Some(dir) = &mut setup.site.dir {
        let work = WorkDir::make(store, &dir.path, &setup.name, &groups, stop)?;
        dir.path = work.path().to_owned();
        made.push(work);
    }
    for work in &setup.planned.work {
        let Some(below) = work.experiment.files_below(&work.series) else {
            continue;
        };
        if setup.elsewhere.contains_key(&below) {
            continue;
        }
        let name = format!("{}-{}", setup.name, setup.elsewhere.len() + 1);
        let dir = WorkDir::make(store, &below, &name, &[], stop).map(|work| {
            let path = work.path().to_owned();
            made.push(work);
            path
        });
        let told = dir.map_err(|error| format!("{error:#}"));
        setup.elsewhere.insert(below, told);
    }
    Ok(made)
}

/// Removes the work directories; those that hang in less time.
fn remove(work: Vec<WorkDir>, hanging: &[PathBuf]) {
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

/// Where two plans differ in what they measure and how often, stated costs aside.
fn difference(then: &Plan, now: &Plan) -> Option<String> {
    if then.looks != now.looks {
        return Some(format!("looks after {:?} rounds then, {:?} now", then.looks, now.looks));
    }
    let series = |plan: &Plan| -> Vec<(String, PlannedSeries)> {
        plan.experiments
            .iter()
            .flat_map(|planned| {
                planned.series.iter().map(|series| {
                    let alike = PlannedSeries { round_cost_s: 0.0, ..series.clone() };
                    (format!("{}/{}", planned.id, series.name), alike)
                })
            })
            .collect()
    };
    let (then, now) = (series(then), series(now));
    if then.len() != now.len() {
        return Some(format!("{} series then, {} now", then.len(), now.len()));
    }
    then.iter().zip(&now).find(|(then, now)| then != now).map(|((label, then), (fresh, now))| {
        if label != fresh {
            format!("{label} then, {fresh} now")
        } else if then.settings != now.settings {
            format!("{label} has other settings")
        } else {
            let (then, now) = (then.cases.len(), now.cases.len());
            format!("{label}: {then} cases then, {now} now, or others")
        }
    })
}

/// Time and host: names sort by time.
pub(super) fn run_name() -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time = time.trim_end_matches('Z').replace(':', "-");
    let host: String = host_name()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    format!("{time}-{}", if host.is_empty() { "host" } else { &host })
}

/// Set by the first SIGINT or SIGTERM; a second one ends plumb at once.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Order matters: the shutdown looks at the flag before this signal has set it.
        signal_hook::flag::register_conditional_shutdown(signal, 4, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// A signal came before there was a record, or before it was continued.
fn nothing_yet(continued: bool) -> Failure {
    let way_on = if continued { "; it can be continued" } else { "" };
    Failure::Interrupted(format!("interrupted before anything was measured{way_on}"))
}

/// What to say when a signal came before the first event.
fn interrupted_early(path: &Path, continued: bool) -> String {
    if continued {
        format!(
            "interrupted before anything more was measured. Continue with: plumb run --resume {}",
            quoted(path)
        )
    } else {
        "interrupted before anything was measured; nothing is left behind".to_owned()
    }
}

/// A path as a shell takes it back.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:,@%".contains(letter);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The exit code of a run, with a hint where one helps.
fn verdict(run: &Run, path: &Path) -> Result<(), Failure> {
    if run.footer.as_ref().is_some_and(|footer| footer.end == End::Interrupted) {
        return Err(Failure::Interrupted(format!(
            "interrupted; what was measured is in the record. Continue with: plumb run --resume {}",
            quoted(path)
        )));
    }
    let unreached = run
        .outcomes
        .iter()
        .filter(|outcome| {
            let reason = outcome.reason.as_deref().unwrap_or_default();
            outcome.outcome == Ending::Skipped && reason.starts_with(OVER_BUDGET)
        })
        .count();
    if unreached > 0 {
        output::diagnose(&format!(
            "plumb: the budget ended before {unreached} cases had a round; give more with --budget"
        ));
    }
    let experiments = run.plan.iter().flat_map(|plan| &plan.experiments);
    let failed: Vec<&str> = experiments
        .filter(|planned| {
            let mut outcomes = run
                .outcomes
                .iter()
                .filter(|outcome| {
                    outcome.experiment == planned.id && outcome.outcome != Ending::Skipped
                })
                .peekable();
            outcomes.peek().is_some() && outcomes.all(|outcome| outcome.outcome == Ending::Failed)
        })
        .map(|planned| planned.id.as_str())
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Failed(anyhow::anyhow!(
            "every case of {} failed; the report says why",
            failed.join(", ")
        )))
    }
}

/// Stores events and shows progress.
struct Sink {
    file: RecordFile,
    bar: ProgressBar,
}

impl Observer for Sink {
    fn event(&mut self, event: &Event) -> Result<()> {
        self.file.append(event)
    }

    fn progress(&mut self, progress: &Progress) {
        let whole = progress.elapsed + progress.left;
        self.bar.set_length(whole.as_secs().max(1));
        self.bar.set_position(progress.elapsed.as_secs());
        self.bar.set_message(format!(
            "{} ({}), round {} of {}, {} left",
            progress.series,
            progress.cases,
            progress.round,
            progress.look,
            told(progress.left)
        ));
        // Drawn here and never by a timer: no thread wakes while a round is timed.
        self.bar.tick();
    }
}

/// On a terminal only; indicatif hides it elsewhere.
pub(super) fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3}% {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(1).with_style(style)
}

pub(super) fn told(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs_f64().ceil() as u64))
        .to_string()
}
