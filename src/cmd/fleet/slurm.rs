//! `plumb fleet slurm`: a job script, and what a sweep does through Slurm's own commands.

mod drain;
mod job;
mod script;

use crate::cmd::fleet::follow::{Follower, say};
use crate::cmd::fleet::sweep::SweepArgs;
use crate::cmd::{Failure, output, time};
use anyhow::{Context, Result};
pub use drain::drain;
use job::Job;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Name of the record where none is given; Slurm's number of the job stands for `%j`.
const RECORD: &str = "plumb-fleet-%j.jsonl";
/// How often the record is looked at, and how often Slurm is asked.
const LOOK: Duration = Duration::from_millis(250);
const ASK: Duration = Duration::from_secs(2);

/// Prints a job script for Slurm
///
/// The script runs one `plumb fleet node` on each node of the job and ends with the report.
#[derive(clap::Args)]
#[command(after_help = "\
  plumb fleet slurm -N 64 --preset quick > plumb.sbatch
  sbatch plumb.sbatch
`plumb fleet run --slurm -N 64 --preset quick` does both, follows the sweep, and prints its report.")]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    sweep: SweepArgs,
    /// Instead of printing a script: take the nodes that this sweep confirmed to be slower or unstable
    /// out of service, with the figure as the reason. Shows what it does, and asks first
    #[arg(long, value_name = "RECORD")]
    drain: Option<PathBuf>,
    /// With --drain: do not ask
    #[arg(long, requires = "drain")]
    yes: bool,
}

/// What a job is made from.
#[derive(clap::Args)]
pub struct JobArgs {
    /// Number of nodes; each gives itself whole to the job
    #[arg(short = 'N', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Longest time of the sweep; a node that takes longer is ended
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "1h")]
    time: Duration,
    /// The plumb binary where nodes start: with Slurm it is copied to each node [default: this one, over ssh: `plumb`]
    #[arg(long, value_name = "FILE")]
    pub plumb: Option<PathBuf>,
    /// Directory that every node has for itself, for the copy
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    scratch: String,
    /// Option for sbatch, for example --sbatch=--partition=main; may be repeated
    #[arg(long, value_name = "OPTION", value_parser = one_option)]
    sbatch: Vec<String>,
    /// Option for `plumb fleet node`, for example --node=--dir=/scratch; may be repeated
    #[arg(long, value_name = "OPTION", value_parser = one_option)]
    pub node: Vec<String>,
}

/// An option that stays on its line.
fn one_option(text: &str) -> Result<String, String> {
    let is_one = text.starts_with('-') && !text.chars().any(char::is_control);
    let way_out =
        "type an option of sbatch with two hyphens, for example --sbatch=--partition=main";
    is_one.then(|| text.to_owned()).ok_or_else(|| way_out.to_owned())
}

impl JobArgs {
    /// The script of a job with these options for its nodes.
    fn script(&self, out: &str, sweep: &SweepArgs) -> Result<String, Failure> {
        let nodes = self.nodes.ok_or_else(|| {
            Failure::Usage("type the number of nodes, for example -N 64".to_owned())
        })?;
        // What is wrong with the sweep is reported here, not on the nodes.
        sweep.recipe(nodes, "slurm", false)?;
        let own =
            || std::env::current_exe().context("cannot find this binary; name it with --plumb");
        let plumb = self.plumb.clone().map_or_else(own, Ok)?;
        let options = sweep.arguments().into_iter().chain(self.node.iter().cloned());
        Ok(script::script(self, nodes, &plumb.to_string_lossy(), out, options))
    }
}

pub fn run(args: Args) -> Result<(), Failure> {
    match &args.drain {
        Some(record) => drain(record, args.yes),
        None => Ok(output::print(&args.job.script(RECORD, &args.sweep)?)?),
    }
}

/// Submits the job of a sweep if it was not, and follows it to its end. Returns the record. Errors:
/// Slurm refuses it, the job ends without a record, or a signal came.
pub fn swept(args: &super::run::Args, stop: &AtomicBool) -> Result<PathBuf, Failure> {
    let out = args.out.as_deref().map_or(RECORD.into(), Path::to_string_lossy);
    let job = match &args.job_id {
        Some(id) => Job { id: id.clone() },
        None => Job::submit(&args.job.script(&out, &args.sweep)?)?,
    };
    let (id, state) = (&job.id, job.state()?);
    let state = state.with_context(|| format!("Slurm knows no job {id}"))?;
    let record = Path::new(&state.dir).join(out.replace("%j", id));
    say(&format!("job {id} has the record {}; `scancel {id}` ends it", record.display()));
    let followed = follow(&job, &record, stop)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(interrupted(&job, &record, args.cancel)?));
    }
    if !record.exists() {
        let log = Path::new(&state.dir).join(format!("plumb-fleet-{id}.log"));
        return Err(anyhow::anyhow!(
            "job {id} ended ({followed}) without a record; {} has what it printed. The record must \
             be on a file system that this host and the job's first node share",
            log.display()
        )
        .into());
    }
    Ok(record)
}

/// Prints what happens until the job has ended or a signal comes; how the job ended.
fn follow(job: &Job, record: &Path, stop: &AtomicBool) -> Result<String> {
    let mut follower = Follower::new(record);
    let mut ask = Instant::now();
    loop {
        let is_time = Instant::now() >= ask;
        // The state first: after its end the job writes nothing more into the record.
        let state = if is_time { Some(job.state()?) } else { None };
        follower.take_news()?;
        match state {
            Some(Some(state)) if state.name == "PENDING" => {
                follower.is_at(format!("job {} waits: {}", job.id, state.reason));
            }
            Some(Some(state)) if !state.is_over() => follower.is_at(follower.progress.line()),
            Some(Some(state)) => return Ok(format!("{}, {}", state.name, state.reason)),
            Some(None) => return Ok("Slurm does not know it any more".to_owned()),
            None => {}
        }
        if is_time {
            ask = Instant::now() + ASK;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok("interrupted".to_owned());
        }
        sleep(LOOK);
    }
}

/// What to say after a signal.
fn interrupted(job: &Job, record: &Path, cancel: bool) -> Result<String> {
    if cancel {
        job.cancel()?;
        return Ok(format!(
            "job {} is cancelled; {} has what was measured",
            job.id,
            record.display()
        ));
    }
    Ok(format!(
        "job {id} goes on. End it with `scancel {id}`, or follow it again with `plumb fleet run \
         --slurm --job {id} --out {}`",
        record.display(),
        id = job.id
    ))
}
