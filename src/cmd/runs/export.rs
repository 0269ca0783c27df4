//! `plumb runs export`: records, sheets and figures of what is stored, for other places.

use super::{TIME, names};
use crate::cmd::{Failure, output, usage};
use crate::sheet;
use anyhow::Context as _;
use report::{counted, ndjson};
use session::setup::{self, Usage};
use session::store::{self, Store};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The runs: `last`, or the start of their names [default: all stored runs]
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Directory to write to, or a file for one run
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Write a sheet instead of the record: the machine and its figures as text, without host name,
    /// addresses, machine identity, kernel command line and paths (docs/SHEETS.md)
    #[arg(long)]
    sheet: bool,
    /// Write the figures instead of the records, as `plumb report --format ndjson` does, for PostgreSQL,
    /// DuckDB and pandas (docs/TEAM.md)
    #[arg(long, conflicts_with = "sheet")]
    ndjson: bool,
}

pub(super) fn export(store: &Store, args: &Args) -> Result<(), Failure> {
    let names = match args.runs.is_empty() {
        true => store.names()?,
        false => names(store, &args.runs)?,
    };
    if names.is_empty() {
        return Err(Failure::usage("no run is stored yet; `plumb run` makes one"));
    }
    let ending = match (args.sheet, args.ndjson) {
        (true, _) => "sheet",
        (false, true) => "ndjson",
        (false, false) => "jsonl",
    };
    let is_file = args.runs.len() == 1 && !args.to.is_dir() && !ends_in_slash(&args.to);
    if !is_file && !args.to.is_dir() && args.to.extension().is_some_and(|end| end == ending) {
        return Err(Failure::Usage(format!(
            "{} is a file name, but there are {} to copy; name a directory, or one run",
            args.to.display(),
            counted(names.len(), "run")
        )));
    }
    if !is_file {
        make_directory(&args.to)?;
    }
    for name in names {
        let from = store.path(&name);
        if is_under_way(&from, &name, args.runs.is_empty())? {
            continue;
        }
        // The rest of a run's name is the host's.
        let stem = if args.sheet { name.get(..TIME).unwrap_or(&name) } else { &name };
        let to = match is_file {
            true => args.to.clone(),
            false => args.to.join(format!("{stem}.{ending}")),
        };
        store::file::check_writable(&to).map_err(usage)?;
        let written = match (args.sheet, args.ndjson) {
            (true, _) => write_sheet(&from, &to),
            (false, true) => write_figures(&from, &to),
            (false, false) => store::file::copy_whole(&from, &to),
        };
        match written {
            Err(error) if error.is::<Usage>() && ending != "jsonl" && args.runs.is_empty() => {
                output::diagnose(&format!("plumb: {error:#}; skipped"));
                continue;
            }
            written => written?,
        }
        output::print(&format!("{}\n", to.display()))?;
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)
        .map_err(|error| Failure::Usage(format!("cannot make {}: {error}", path.display())))
}

/// Whether a record is still being written, and is passed over for that. Errors: it was asked for by
/// its name.
fn is_under_way(record: &Path, name: &str, is_of_all: bool) -> Result<bool, Failure> {
    if !store::is_being_written(record) {
        return Ok(false);
    }
    if !is_of_all {
        return Err(Failure::Usage(format!(
            "another plumb is still writing {name}; wait until it ends"
        )));
    }
    output::diagnose(&format!("plumb: {name} is still being written; skipped"));
    Ok(true)
}

fn write_sheet(record: &Path, to: &Path) -> anyhow::Result<()> {
    let (text, lacks_files) = store::read(record)
        .and_then(|recording| sheet::export::text(&recording.run))
        .with_context(|| record.display().to_string())
        .map_err(setup::usage)?;
    if lacks_files {
        output::diagnose(&format!(
            "plumb: {} has no figures of files: the run had no --dir with an absolute path, and this \
             machine has several file systems",
            to.display()
        ));
    }
    // A device may have no end.
    let is_other = to.is_file() && std::fs::read(to).is_ok_and(|there| there != text.as_bytes());
    anyhow::ensure!(
        !is_other,
        Usage(format!(
            "{} exists and is another file; remove it or name another one",
            to.display()
        ))
    );
    store::file::write_whole(to, text.as_bytes())
}

/// Writes the figures of a record in place of an earlier export. Errors: [`Usage`]: it cannot be read,
/// or has no figures.
fn write_figures(record: &Path, to: &Path) -> anyhow::Result<()> {
    let shown = || record.display().to_string();
    let run = store::read(record).map_err(setup::usage)?.run;
    anyhow::ensure!(
        !run.header.is_crosscheck(),
        Usage(format!(
            "{} is a crosscheck's own record, without figures of plumb alone; `plumb report {} \
             --format csv` prints it",
            shown(),
            shown()
        ))
    );
    store::file::write_whole(to, ndjson::render(&run).as_bytes())
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}
