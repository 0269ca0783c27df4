//! `plumb crosscheck`: other tools beside plumb.

mod shown;

use crate::cmd::choice::PresetName;
use crate::cmd::report::{self, Format};
use crate::cmd::run::stop_flag;
use crate::cmd::{Failure, output, time, usage};
use analysis::crosscheck::{JUDGED_FROM, Verdict, rows};
use anyhow::{Context, Result};
use bench::experiment::Preset;
use crosscheck::Conditions;
use crosscheck::chosen::chosen;
use crosscheck::turns::{self, Made, Observer, Setting};
use record::crosscheck::{Began, CROSSCHECK};
use record::event::{End, Event, Options};
use record::run::Run;
use session::header::{footer, header, now};
use session::machine::Machine;
use session::resume::add_to;
use session::round::calibrate;
use session::setup::{Setup, run_name, site_here};
use session::store::journal::{self, WorkDir};
use session::store::{self, RecordFile, Store};
use shown::{Listing, Sink};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Runs other tools (fio, iperf3, lmbench …) and plumb in turns, and compares their figures.
///
/// Each installed tool alternates with the plumb run that measures the same, on the same CPUs, at
/// the same priority. The ratio of a turn is plumb's value divided by the tool's. The report has the
/// median ratio of all turns with its interval and, where the two disagree, what their methods do
/// differently.
///
/// A goal says what the ratio should be: at least 1.00 for rates that plumb should reach, at most
/// 1.00 for times, within 5 % where both measure the same. Where they measure different things there
/// is no goal, and the report explains why.
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Tools, or some of their comparisons: NAME, NAME:GLOB, !NAME (all but it) [default: all that
    /// are installed; --list shows them]
    #[arg(value_name = "TOOL")]
    rivals: Vec<String>,
    /// How much: `quick` (the main comparisons, nine turns: 15 minutes with all tools that Debian
    /// packages), `standard` (all comparisons, nine turns: about an hour) or `thorough` (fifteen
    /// longer turns)
    #[arg(long, value_enum, default_value_t = PresetName::Standard, hide_possible_values = true)]
    preset: PresetName,
    /// Turns per comparison; an interval needs six, a verdict nine [default: the preset's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: Option<u32>,
    /// Stop a tool that takes longer than this in one turn, for example 30s [default: the tool's
    /// own limit]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    limit: Option<Duration>,
    /// CPUs to measure on, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Directory on the file system to measure [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// File for the record [default: a new one in the store]
    #[arg(long, value_name = "FILE", conflicts_with = "into")]
    out: Option<PathBuf>,
    /// Add the comparison to the record of this run, whose report then has it as a section: `last`,
    /// the start of a name, or a path; the run must be of this machine
    #[arg(long, value_name = "RUN")]
    into: Option<String>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print the figures as JSON (the flat result) instead of the report
    #[arg(long)]
    json: bool,
    /// List the tools, which of them are installed, and both commands of each comparison; run
    /// nothing
    #[arg(long, conflicts_with_all = ["out", "into", "report", "json"])]
    list: bool,
}

const AFTER: &str =
    "Exit codes: 0 no goal missed; 1 a goal missed; 2 usage error, or none of the tools is \
installed; 3 failure, or nothing could be compared; 4 interrupted: the record has the comparisons until \
then.

Examples:
  plumb crosscheck --list
  plumb crosscheck fio iozone --dir /data
  plumb crosscheck 'stress-ng:*fork'
  plumb crosscheck --into last --report lab-report.html
  PATH=/opt/lmbench/bin:$PATH plumb crosscheck lmbench";

/// Turns of a preset, and how long a rival runs in one turn, in seconds.
fn pace(preset: Preset) -> (u32, f64) {
    match preset {
        Preset::Rehearsal => (1, 0.2),
        Preset::Quick | Preset::Standard => (9, 1.0),
        Preset::Thorough => (15, 2.0),
    }
}

pub fn run(args: Args) -> Result<(), Failure> {
    if args.preset == PresetName::Reports {
        let text = "`--preset reports` is for `plumb run` and `plumb plan`: other tools have no such cases";
        return Err(Failure::Usage(text.to_owned()));
    }
    let rivals = chosen(&args.rivals).map_err(usage)?;
    if let Some(page) = &args.report {
        store::file::check_writable(page).context("--report").map_err(usage)?;
    }
    let stop = stop_flag()?;
    let store = Store::here();
    for note in journal::recover(&store, &stop) {
        output::diagnose(&format!("plumb: {note}"));
    }
    let mut setup = setup(&args, &stop)?;
    let machine = if args.list { None } else { machine(args.preset) };
    let work = Work::make(&store, &setup, &stop)?;
    let setting = Setting {
        conditions: work.conditions(&setup, args.preset.into()),
        site: setup.site.clone(),
        store: store.dir()?,
        token: machine.as_ref().map(|machine| machine.token().to_owned()).unwrap_or_default(),
        rivals,
        pairs: args.pairs.unwrap_or(pace(args.preset.into()).0),
        limit: args.limit,
    };
    let outcome = if args.list {
        list(&setting, &stop)
    } else {
        measure(&args, &store, &mut setup, &setting, &stop)
    };
    drop(machine);
    work.remove();
    // What plumb's side was killed over is left in the journal.
    for note in journal::recover(&store, &AtomicBool::new(false)) {
        output::diagnose(&format!("plumb: {note}"));
    }
    outcome
}

/// The place of a crosscheck among the plumbs of this machine, which its runs share; none for a
/// rehearsal, or where its runs will say that they can have none.
fn machine(preset: PresetName) -> Option<Machine> {
    let machine = Machine::look("plumb crosscheck", None).ok()?;
    (preset != PresetName::Rehearsal && machine.enter().is_ok()).then_some(machine)
}

fn measure(
    args: &Args,
    store: &Store,
    setup: &mut Setup,
    setting: &Setting,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let (file, run) = record(args, store, setup, stop)?;
    let path = file.path().to_owned();
    output::diagnose(&format!("plumb: the record is {}", path.display()));
    let mut sink = Sink::new(file, run);
    sink.event(&Event::Crosscheck(Began {
        started: now(),
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        preset: Preset::from(args.preset).name().to_owned(),
        pairs: setting.pairs,
        environment: host::environment::tags(&setup.site.host),
    }))?;
    let ended = turns::run(setting, &mut sink, stop);
    sink.finish();
    let (end, made) = match ended {
        Ok(made) => (End::Complete, made),
        Err(error) if session::is_interrupt(&error) => (End::Interrupted, Made::default()),
        Err(error) => return Err(error.into()),
    };
    // A run that it was added to has its own end.
    if args.into.is_none() {
        sink.event(&Event::Footer(footer(begun, end)))?;
    }
    let run = sink.run;
    if end == End::Complete && made.pairings == 0 {
        if args.into.is_none() {
            let _ = std::fs::remove_file(&path);
        }
        return Err(Failure::Usage(nothing(setting, &run)));
    }
    if let Some(page) = &args.report {
        let text = report::render(&run, Format::Html, output::look());
        store::file::write_whole(page, text.as_bytes())?;
    }
    let shown = if args.json { Format::Json } else { Format::Terminal };
    output::print(&report::render(&run, shown, output::look()))?;
    if end == End::Interrupted {
        return Err(Failure::Interrupted(format!(
            "interrupted; the comparisons until then are in {}",
            path.display()
        )));
    }
    verdict(setting, &run, &made)
}

/// The exit code: of what this crosscheck made, whatever else the record holds.
fn verdict(setting: &Setting, run: &Run, made: &Made) -> Result<(), Failure> {
    let is_own = |rival: &str, pairing: &str| {
        let mut own = setting.rivals.iter();
        own.any(|(known, is_wanted)| known.name == rival && is_wanted(pairing))
    };
    let found = rows(run);
    let own = found.iter().filter(|row| is_own(&row.pairing.rival, &row.pairing.name));
    if made.measured + made.failed > 0 && own.clone().all(|row| row.verdict == Verdict::Absent) {
        return Err(Failure::Failed(anyhow::anyhow!(
            "nothing could be compared; the report says why"
        )));
    }
    let (mut judged, mut missed) = (0, 0);
    for row in own {
        let is_judged = matches!(row.verdict, Verdict::Met | Verdict::Missed | Verdict::Undecided);
        judged += usize::from(is_judged);
        missed += usize::from(row.verdict == Verdict::Missed);
    }
    if judged == 0 {
        output::diagnose(&format!(
            "plumb: no goal was judged: a verdict needs {JUDGED_FROM} turns (--pairs {JUDGED_FROM})"
        ));
    }
    match missed {
        0 => Ok(()),
        _ => Err(Failure::Finding),
    }
}

/// Why nothing was compared, and what would help: of this crosscheck's rivals.
fn nothing(setting: &Setting, run: &Run) -> String {
    let rivals = run.crosscheck.rivals.iter();
    let own =
        rivals.filter(|rival| setting.rivals.iter().any(|(known, _)| known.name == rival.name));
    let reasons: Vec<String> = own
        .filter_map(|rival| {
            let absent = rival.absent.as_ref()?;
            let needed = absent.needed.as_ref().map(|needed| format!(" ({needed})"));
            let needed = needed.unwrap_or_default();
            Some(format!("{}: {}{needed}", rival.name, absent.reason))
        })
        .take(3)
        .collect();
    match reasons.is_empty() {
        true => "none of the named comparisons can run here; `plumb crosscheck --list` shows all"
            .to_owned(),
        false => format!(
            "none of these tools is installed: {}; `plumb crosscheck --list` shows all",
            reasons.join("; ")
        ),
    }
}

/// The machine and the options, as of a run that measures nothing itself.
fn setup(args: &Args, stop: &AtomicBool) -> Result<Setup, Failure> {
    let preset = Preset::from(args.preset);
    let options = Options {
        selectors: args.rivals.clone(),
        preset: CROSSCHECK.to_owned(),
        cpus: args.cpu.clone(),
        dir: args.dir.as_ref().map(|dir| dir.display().to_string()),
        ..Options::default()
    };
    let site = site_here(args.cpu.as_deref(), args.dir.as_deref(), preset, stop)?;
    let name = format!("{}-{CROSSCHECK}", run_name());
    Ok(Setup::alone(super::BUILD, site, options, preset, name))
}

/// The file that events go to, and the run so far.
fn record(
    args: &Args,
    store: &Store,
    setup: &mut Setup,
    stop: &AtomicBool,
) -> Result<(RecordFile, Run), Failure> {
    if let Some(name) = &args.into {
        return Ok(add_to(store, name, &setup.site.host.machine())?);
    }
    let made = match &args.out {
        Some(out) => RecordFile::create(out).map(|file| (setup.name.clone(), file)),
        None => store.create(&setup.name),
    };
    let (name, mut file) = made.map_err(usage)?;
    setup.name = name;
    let mut run = Run::new(header(setup)?);
    file.append(&Event::Header(Box::new(run.header.clone())))?;
    let calibration = calibrate(setup, stop).context("the clocks cannot be calibrated")?;
    let calibration = Event::Calibration(Box::new(calibration));
    file.append(&calibration)?;
    run.push(calibration);
    Ok((file, run))
}

struct Work {
    scratch: WorkDir,
    files: Option<WorkDir>,
    in_memory: Option<WorkDir>,
}

impl Work {
    fn make(store: &Store, setup: &Setup, stop: &AtomicBool) -> Result<Work> {
        let make = |below: &Path, what: &str| {
            // Short: tools make sockets below.
            WorkDir::make(store, below, &format!("{CROSSCHECK}-{what}"), &[], stop)
        };
        let files = setup.site.dir.as_ref();
        Ok(Work {
            scratch: make(&std::env::temp_dir(), "scratch")
                .context("no directory for the output of the tools")?,
            files: files.map(|dir| make(&dir.path, "files")).transpose()?,
            in_memory: make(Path::new("/dev/shm"), "memory").ok(),
        })
    }

    fn conditions(&self, setup: &Setup, preset: Preset) -> Conditions {
        Conditions {
            host: setup.site.host.clone(),
            cpus: setup.site.cpus.clone(),
            memory_bytes: setup.site.memory_bytes,
            scratch: self.scratch.path().to_owned(),
            files: self.files.as_ref().map(|work| work.path().to_owned()),
            in_memory: self.in_memory.as_ref().map(|work| work.path().to_owned()),
            version: String::new(),
            preset,
            seconds: pace(preset).1,
            ports: [0; 4],
            is_root: metal::process::geteuid() == 0,
        }
    }

    fn remove(self) {
        for work in [Some(self.scratch), self.files, self.in_memory].into_iter().flatten() {
            if let Err(left) = work.remove(false) {
                output::diagnose(&format!("plumb: {left:#}; the next run tries again"));
            }
        }
    }
}

fn list(setting: &Setting, stop: &AtomicBool) -> Result<(), Failure> {
    let mut listing = Listing::default();
    turns::commands(setting, &mut listing, stop)?;
    for (rival, _) in &setting.rivals {
        listing.absent(rival);
    }
    Ok(output::print(&listing.text)?)
}
