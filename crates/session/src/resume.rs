//! A run that goes on, and a record that is added to.

use crate::agent::ssh::word;
use crate::header::Build;
use crate::machine::Machine;
use crate::setup::{Setup, Usage, Wanted, root, usage};
use crate::store::{RecordFile, Store};
use anyhow::{Result, bail};
use bench::experiment::Catalogue;
use host::Host;
use record::FORMAT;
use record::event::{End, Options, Plan, PlannedSeries};
use record::machine::MachineIdentity;
use record::run::Run;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A run that goes on: the session's setup, its file, and what it holds. No other host is
/// contacted, and no command of the record is started, before it is clear that the record is this
/// machine's and that the user means its far ends: `repeated` is each `--peer` of the command line. Errors: [`Usage`]: there is no such run, it has its end, or it was made by another
/// machine, plumb or plan.
pub fn resume(
    store: &Store,
    name: &str,
    repeated: &[String],
    build: Build,
    catalogue: Catalogue,
    machine: Option<Machine>,
    stop: &AtomicBool,
) -> Result<(Setup, RecordFile, Run)> {
    let path = store.find(name).map_err(usage)?;
    let (file, recording) = RecordFile::resume(&path).map_err(usage)?;
    let (run, header) = (&recording.run, &recording.run.header);
    let shown = path.display();
    if run.has_ended() {
        bail!(Usage(format!(
            "{shown} is complete; `plumb report {name}` shows it, `plumb run` measures again"
        )));
    }
    let here = Host::read(&root(None)?).machine();
    if let Some(why) = header.machine().difference(&here) {
        bail!(Usage(format!(
            "{shown} was measured on another machine ({why} here); resume it there, or `plumb run` here"
        )));
    }
    if header.is_crosscheck() {
        bail!(Usage(format!(
            "{shown} is a crosscheck, which has no rounds to resume; start a new `plumb crosscheck`"
        )));
    }
    if header.format != FORMAT {
        bail!(Usage(format!(
            "{shown} was started by an earlier plumb (record format {}, here {FORMAT}); start a new \
             `plumb run`",
            header.format
        )));
    }
    check_meant(name, &header.options, repeated)?;
    let wanted = Wanted {
        build,
        catalogue,
        options: header.options.clone(),
        dir: header.options.dir.as_deref().map(Path::new),
        seed: Some(header.seed),
        name: Some(header.run.clone()),
        then: &header.peers,
        host_tree: None,
        machine,
    };
    let mut setup = Setup::new(wanted, stop)?;
    // One that was killed while its clocks were calibrated has no plan yet.
    let then = run.plan.as_ref();
    if let Some(difference) = then.and_then(|then| difference(then, &setup.planned.plan)) {
        bail!(Usage(format!(
            "the plan of {shown} differs from what this plumb would plan here ({difference}); \
             start a new `plumb run`"
        )));
    }
    // The quietest CPU of today may be another one: a run stays where it began.
    let usable = setup.site.host.cpu.usable();
    if let Some(gone) = header.cpus.iter().find(|cpu| !usable.contains(cpu)) {
        bail!(Usage(format!(
            "{shown} was measured on CPU {gone}, which this process may no longer use; allow it, \
             or start a new `plumb run`"
        )));
    }
    setup.site.cpus.clone_from(&header.cpus);
    Ok((setup, file, recording.run))
}

/// The command that continues a run, with the far ends that the user must repeat: each is a command or
/// a connection.
pub fn command(run: &str, options: &Options) -> String {
    let far = options.peers.iter().map(|peer| format!(" --peer {}", word(peer, "=")));
    format!("plumb run --resume {}{}", word(run, "="), far.collect::<String>())
}

/// Checks that the user means the far ends of a record, wherever it lies: a record can come from
/// anywhere, and starts no program and no connection that the command line does not name as well.
fn check_meant(name: &str, then: &Options, repeated: &[String]) -> Result<()> {
    if then.peers == repeated {
        return Ok(());
    }
    bail!(Usage(format!(
        "a resumed run keeps its far ends, and plumb starts or contacts none of them unless you repeat it: {}",
        command(name, then)
    )))
}

/// Where two plans differ in what they measure and how often, stated costs aside.
fn difference(then: &Plan, now: &Plan) -> Option<String> {
    if then.looks != now.looks {
        return Some(format!("looks after {:?} rounds then, {:?} now", then.looks, now.looks));
    }
    let series = |plan: &Plan| -> Vec<(String, PlannedSeries)> {
        let all = plan.experiments.iter().flat_map(|planned| {
            planned.series.iter().map(|series| {
                let alike = PlannedSeries { round_cost_s: 0.0, ..series.clone() };
                (format!("{}/{}", planned.id, series.name), alike)
            })
        });
        all.collect()
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
            format!("{label}: {then} cases then, {now} now, or different ones")
        }
    })
}

/// The record of a run of this machine that has its end, to which a crosscheck is
/// added. Errors: [`Usage`]: there is no such record, or nothing may be added to it.
pub fn add_to(store: &Store, name: &str, here: &MachineIdentity) -> Result<(RecordFile, Run)> {
    let path = store.find(name).map_err(usage)?;
    let (file, recording) = RecordFile::resume(&path).map_err(usage)?;
    let run = recording.run;
    let shown = path.display();
    if run.header.is_crosscheck() {
        bail!(Usage(format!("{shown} is a crosscheck, not a run: omit --into")));
    }
    if let Some(why) = run.header.machine().difference(here) {
        bail!(Usage(format!(
            "{shown} was measured on another machine ({why} here): omit --into, or run the crosscheck \
             there"
        )));
    }
    if !run.footer.as_ref().is_some_and(|footer| footer.end != End::Interrupted) {
        bail!(Usage(format!("{shown} is not complete: run `plumb run --resume {name}` first")));
    }
    Ok((file, run))
}
