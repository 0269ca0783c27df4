//! From a run to a sheet.

use super::{Datum, Estimate, FILES, Sheet};
use analysis::figure::{Condition, Figure};
use analysis::figures;
use anyhow::{Context as _, Result, ensure};
use bench::experiment::Preset;
use catalogue::FAMILIES;
use host::block::Mount;
use host::{Host, Identity};
use record::event::{Ending, Header, PredictionKind};
use record::key::{FAR, LOOPBACK};
use record::redact::Redaction;
use record::run::Run;
use std::path::Path;

/// File systems without a device or a server; a run takes them for its files only where they are
/// named.
const NOT_TAKEN: [&str; 2] = ["tmpfs", "ramfs"];

/// The text of a run's sheet, and whether the figures of the family `fs` had to be left out because
/// the record does not say where the files were. Errors: nothing was measured that means something.
pub fn text(run: &Run) -> Result<(String, bool)> {
    let header = &run.header;
    ensure!(
        header.options.preset != Preset::Rehearsal.name() && header.profile == "release",
        "the figures of a rehearsal, and of a debug build, mean nothing"
    );
    let host = Host::recorded(&header.host);
    let host = host.context("the record's description of the machine")?;
    let mount = mount(header, &host).cloned();
    let has_files = mount.is_some();
    let all = figures(run);
    let files_left_out = !has_files && all.iter().any(|of| of.family() == "fs");
    let taken = all.iter().filter(|of| has_files || of.family() != "fs");
    let date = header.started.get(.."2026-11-25".len()).unwrap_or_default();
    let taken: Vec<Datum> = taken.filter_map(|of| of_figure(run, of)).collect();
    // What is redacted is found in JSON, by the names of its members.
    let redaction = Redaction::from_header(&serde_json::to_string(header)?);
    let host = redaction.line(&described(host, mount).to_json()?.to_string());
    let taken = redaction.line(&serde_json::to_string(&taken)?);
    let sheet = Sheet {
        source: format!(
            "a {} run of plumb {} ({}) on {date}",
            header.options.preset, header.plumb, header.build
        ),
        cpus: header.cpus.clone(),
        host: Host::from_json(host.as_bytes())?,
        figures: serde_json::from_slice(taken.as_bytes())?,
        report: None,
    };
    let text = sheet.text()?;
    Sheet::read(&text).context("no sheet can be made of this run")?;
    Ok((text, files_left_out))
}

/// The file system that held the files: that of `--dir`, else the only one that there is.
fn mount<'host>(header: &Header, host: &'host Host) -> Option<&'host Mount> {
    let dir = header.options.dir.as_deref().filter(|dir| Path::new(dir).is_absolute());
    if let Some(dir) = dir {
        return host.block.mount_of(dir);
    }
    let mounts = host.block.mounts.iter();
    let mut taken = mounts.filter(|mount| !NOT_TAKEN.contains(&&*mount.fs));
    let first = taken.next().filter(|_| header.options.dir.is_none())?;
    taken.all(|other| other.number == first.number).then_some(first)
}

/// The machine without what no law reads or what names it. Paths that are left are redacted with
/// the text.
fn described(host: Host, mount: Option<Mount>) -> Host {
    let mut host = Host { identity: Identity::default(), ..host };
    host.kernel.command_line = None;
    host.kernel.version = None;
    host.block.mounts =
        mount.into_iter().map(|mount| Mount { target: FILES.to_owned(), ..mount }).collect();
    host
}

/// A measured figure of this machine alone.
fn of_figure(run: &Run, of: &Figure) -> Option<Datum> {
    let (key, metric) = (of.key()?, of.metric.as_ref()?);
    let is_hidden = FAMILIES.iter().any(|family| family.hidden && family.name == of.family());
    let is_here = key.case.text(FAR).is_none_or(|far| far == LOOPBACK);
    if is_hidden || !is_here || of.outcome != Ending::Measured {
        return None;
    }
    let printed = Estimate { value: of.value?, ci: of.ci };
    let found = match &of.as_found {
        Some(found) => Estimate { value: found.value?, ci: found.ci },
        None => printed,
    };
    let at = run.prediction(&key, PredictionKind::Prior).map(|event| event.at.clone());
    let figure = Datum {
        unit: metric.unit,
        value: found.value,
        ci: found.ci,
        alone: (of.condition == Some(Condition::Alone)).then_some(printed),
        cycles: of.cycles,
        at: at.unwrap_or_default(),
        table: String::new(),
        notes: Vec::new(),
        estimate: None,
        scored: false,
        experiment: key.experiment,
        // Laws know no placement.
        case: key.case.unplaced(),
        metric: key.metric,
    };
    // Differences may come out below zero where noise is larger than they are.
    figure.check().is_ok().then_some(figure)
}
