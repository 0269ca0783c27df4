//! `plumb fleet run`: starts the nodes of a sweep, follows it, and reports.

use crate::cmd::fleet::slurm::{JobArgs, drain, swept};
use crate::cmd::fleet::sweep::SweepArgs;
use crate::cmd::fleet::{report, ssh};
use crate::cmd::run::stop_flag;
use crate::cmd::{Failure, usage};
use anyhow::Context;
use clap::Parser;
use fleet::engine::MEET_PORT;
use session::setup::run_name;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Starts a sweep on many machines, follows it, and reports
#[derive(clap::Args)]
#[command(after_help = "\
The list of --hosts has a host a line, as ssh takes its name, then its labels; n[1-16] stands for n1 to n16. \
`address=` is where the other nodes reach a host, if that is not where ssh does:
  n[1-16]        rack=r1 instance_type=c7
  me@10.0.0.17   rack=r2 address=192.168.0.17
The first host that answers gathers the results. ssh must log in without a question. Hosts that refuse, do not \
answer, or have another plumb get a line; the sweep goes on without them.")]
pub struct Args {
    /// Submit a job to Slurm
    #[arg(long, conflicts_with = "hosts")]
    slurm: bool,
    /// Start the nodes over ssh, on the hosts of this list
    #[arg(long, value_name = "FILE", required_unless_present = "slurm")]
    hosts: Option<PathBuf>,
    #[command(flatten)]
    pub(super) job: JobArgs,
    /// With --slurm: follow a job that was submitted before
    #[arg(long, value_name = "ID", requires = "slurm")]
    pub(super) job_id: Option<String>,
    /// With --slurm: Ctrl-C cancels the job [default: it goes on]
    #[arg(long, requires = "slurm")]
    pub(super) cancel: bool,
    /// With --hosts: send this binary to hosts that have no plumb or another version; the copy is
    /// removed at the end
    #[arg(long, requires = "hosts")]
    pub(super) copy: bool,
    /// With --hosts: port at which the nodes meet
    #[arg(long, value_name = "PORT", default_value_t = MEET_PORT)]
    pub(super) port: u16,
    /// The record of the sweep [default: a new file in this directory]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// With --hosts: keep each node's own record there, in this directory of its host [default: not
    /// kept]
    #[arg(long, value_name = "DIR", requires = "hosts")]
    pub(super) records: Option<String>,
    /// With --slurm: after the report, take the nodes that are confirmed to be slower or unstable out
    /// of service. Shows what it does, and asks first
    #[arg(long, requires = "slurm")]
    drain: bool,
    /// With --drain: do not ask
    #[arg(long, requires = "drain")]
    yes: bool,
    #[command(flatten)]
    pub(super) sweep: SweepArgs,
}

/// `plumb fleet report`, as a user types it.
#[derive(Parser)]
struct Report {
    #[command(flatten)]
    args: report::Args,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let record = match &args.hosts {
        Some(list) => over_ssh(&args, list, &stop)?,
        None => swept(&args, &stop)?,
    };
    let reported = report::run(Report::parse_from([Path::new("report"), &record]).args);
    if args.drain {
        drain(&record, args.yes)?;
    }
    reported
}

fn over_ssh(args: &Args, list: &Path, stop: &AtomicBool) -> Result<PathBuf, Failure> {
    let shown = list.display();
    let text = std::fs::read_to_string(list).with_context(|| format!("cannot read {shown}"));
    let hosts =
        text.and_then(|text| fleet::hosts::hosts(&text).with_context(|| format!("{shown}")));
    let hosts = hosts.map_err(usage)?;
    let out =
        args.out.clone().unwrap_or_else(|| format!("plumb-fleet-{}.jsonl", run_name()).into());
    let plumb = args.job.plumb.as_ref().map_or("plumb".into(), |plumb| plumb.to_string_lossy());
    args.sweep.recipe(hosts.len() as u32, "ssh", false)?;
    let mut words = args.sweep.arguments();
    words.extend(args.job.node.iter().cloned());
    let sweep = ssh::Sweep { hosts: &hosts, args, plumb: &plumb, out: &out, options: &words };
    sweep.run(stop)
}
