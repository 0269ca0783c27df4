//! `plumb runs export`: records, sheets and tables of what is stored, for other places.

use super::{TIME, names};
use crate::cmd::{Failure, output, stored, usage};
use crate::tables::{self, TABLES, Writer, sql};
use crate::{published, sheet};
use anyhow::Context as _;
use record::run::Run;
use report::counted;
use session::setup::{self, Usage};
use session::store::{self, Store};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The runs: `last`, or the start of their names; with --tables also the paths of records of runs
    /// and of sweeps [default: all stored runs]
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Directory to write to, or a file for one run
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Write a sheet instead of the record: the machine and its figures as JSON, without host name,
    /// addresses, machine identity, kernel command line and paths (docs/SHEETS.md)
    #[arg(long)]
    sheet: bool,
    /// Write tables for PostgreSQL and DuckDB instead of the records: CSV files, schema.sql, load.sql
    /// and duckdb.sql (docs/TEAM.md)
    #[arg(long, conflicts_with = "sheet")]
    tables: bool,
}

pub(super) fn export(store: &Store, args: &Args) -> Result<(), Failure> {
    match args.tables {
        true => export_tables(store, args),
        false => export_records(store, args),
    }
}

fn export_records(store: &Store, args: &Args) -> Result<(), Failure> {
    let names = match args.runs.is_empty() {
        true => store.names()?,
        false => names(store, &args.runs)?,
    };
    if names.is_empty() {
        return Err(Failure::usage("no run is stored yet; `plumb run` makes one"));
    }
    let ending = if args.sheet { "json" } else { "jsonl" };
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
        let written = match args.sheet {
            true => write_sheet(&from, &to),
            false => store::file::copy_whole(&from, &to),
        };
        match written {
            Err(error) if error.is::<Usage>() && args.sheet && args.runs.is_empty() => {
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

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// A file's name and what writes its text.
type Script = (&'static str, fn() -> String);

/// The scripts beside the CSV files.
const SCRIPTS: [Script; 3] =
    [("schema.sql", sql::schema), ("load.sql", sql::load), ("duckdb.sql", sql::duckdb)];

fn export_tables(store: &Store, args: &Args) -> Result<(), Failure> {
    let records = records(store, &args.runs)?;
    make_directory(&args.to)?;
    check_directory(&args.to)?;
    for (name, text) in SCRIPTS {
        let path = args.to.join(name);
        output::write(&path, &text())?;
        output::print(&format!("{}\n", path.display()))?;
    }
    let files: Vec<PathBuf> = TABLES.iter().map(|table| args.to.join(table.file())).collect();
    let mut rows = [0; TABLES.len()];
    store::file::make_all(&files, store::file::SHARED, |open| {
        let cannot = || format!("cannot write the tables in {}", args.to.display());
        let out = open.iter_mut().map(BufWriter::new).collect();
        let mut writer = Writer::begin(out).with_context(cannot)?;
        for record in &records {
            match content(record, args.runs.is_empty())? {
                Some(Content::Run(run, bytes)) => tables::run::push(&mut writer, &run, bytes),
                Some(Content::Sweep(sweep)) => tables::sweep::push(&mut writer, &sweep),
                None => Ok(()),
            }
            .with_context(cannot)?;
        }
        rows = writer.end().with_context(cannot)?;
        Ok(())
    })?;
    for (path, rows) in files.iter().zip(rows) {
        output::print(&format!("{}: {}\n", path.display(), counted(rows, "row")))?;
    }
    Ok(())
}

/// The records that were asked for, each once; all stored ones without any.
fn records(store: &Store, typed: &[String]) -> Result<Vec<PathBuf>, Failure> {
    if typed.is_empty() {
        return Ok(store.names()?.iter().map(|name| store.path(name)).collect());
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for run in typed {
        if published::run(run).is_some() {
            return Err(Failure::Usage(format!(
                "{run} is a published machine, which has no run of its own; \
                 `plumb report {run} --format csv` prints its figures"
            )));
        }
        let path = store.find(run).map_err(usage)?;
        if !found.contains(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Refuses a directory with files of these names that an export did not write.
fn check_directory(dir: &Path) -> Result<(), Failure> {
    let is_ours = |name: &str| {
        let file = File::open(dir.join(name)).ok();
        let line = file.and_then(|file| BufReader::new(file.take(200)).lines().next()?.ok());
        line.is_some_and(|line| line.starts_with(sql::MARK))
    };
    let is_there = |name: &str| dir.join(name).symlink_metadata().is_ok();
    let scripts = SCRIPTS.iter().map(|(name, _)| (*name).to_owned());
    let of_others = scripts.filter(|name| is_there(name) && !is_ours(name));
    let tables = TABLES.iter().map(|table| table.file());
    let unknown = tables.filter(|name| is_there(name) && !is_ours("schema.sql"));
    match of_others.chain(unknown).next() {
        None => Ok(()),
        Some(name) => Err(Failure::Usage(format!(
            "{} has a file {name} that no export of tables wrote; name another directory",
            dir.display()
        ))),
    }
}

/// What a record holds.
enum Content {
    Run(Box<Run>, u64),
    Sweep(Box<fleet::read::Sweep>),
}

/// The content of a record; none where it is passed over. Of all stored ones, what cannot be read is.
/// Errors: it was asked for by its name, and cannot be read or has no figures.
fn content(path: &Path, is_of_all: bool) -> Result<Option<Content>, Failure> {
    match read(path, is_of_all) {
        Err(failure) if is_of_all => {
            output::diagnose(&format!("plumb: {failure}; skipped"));
            Ok(None)
        }
        read => read,
    }
}

fn read(path: &Path, is_of_all: bool) -> Result<Option<Content>, Failure> {
    let name = path.display().to_string();
    if is_under_way(path, &name, is_of_all)? {
        return Ok(None);
    }
    if stored::is_sweep(path) {
        let file = store::file::reader(path).with_context(|| name.clone()).map_err(usage)?;
        let sweep = fleet::read::read(file).with_context(|| name.clone());
        return Ok(Some(Content::Sweep(Box::new(sweep.map_err(usage)?))));
    }
    let (run, bytes) = stored::read(path)?;
    // A crosscheck's own record has no figures of plumb alone.
    match (run.header.is_crosscheck(), is_of_all) {
        (false, _) => Ok(Some(Content::Run(Box::new(run), bytes))),
        (true, true) => Ok(None),
        (true, false) => Err(Failure::Usage(format!(
            "{name} is a crosscheck's own record, without figures for these tables; \
             `plumb report {name} --format csv` prints it"
        ))),
    }
}
