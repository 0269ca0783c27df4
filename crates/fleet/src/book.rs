//! The record of a sweep as a file that rank 0 writes line by line, and continues.

use crate::read::{Sweep, read};
use crate::sweep::{Absent, Event, Stage};
use anyhow::{Context, Result, bail, ensure};
use record::key::Key;
use record::order::Gather;
use record::seal::seal;
use session::store::file;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Reads a record, settled. Errors: the file cannot be read, is no record of a sweep, or is of a
/// later plumb.
pub fn open(path: &Path) -> Result<Sweep> {
    let shown = path.display();
    let facts = path.metadata().with_context(|| format!("cannot open {shown}"))?;
    ensure!(facts.is_file(), "{shown} is not a regular file; name the record of a sweep");
    let file = file::reader(path).with_context(|| format!("cannot open {shown}"))?;
    let mut sweep = read(file).with_context(|| format!("cannot read {shown}"))?;
    settle(&mut sweep);
    Ok(sweep)
}

/// Whether all figures of a node by itself are in the record: its own record is named after them.
pub fn has_measured(sweep: &Sweep, rank: u32) -> bool {
    sweep.nodes.get(&rank).is_some_and(|node| node.record.is_some())
}

/// Leaves the last word on each thing: of a figure that was recorded twice (rank 0 was killed in the
/// middle of its set) the later one, and of what was missing only what was not measured later.
pub fn settle(sweep: &mut Sweep) {
    let figures = std::mem::take(&mut sweep.figures);
    sweep.figures = last_of(figures, |of| (of.rank, of.again, 0, of.key.clone()));
    let pairs = std::mem::take(&mut sweep.pairs);
    sweep.pairs = last_of(pairs, |of| (of.from, of.to, of.step, of.key.clone()));
    let known: BTreeSet<(u32, u32, u32)> =
        sweep.pairs.iter().map(|pair| (pair.step, pair.from, pair.to)).gather();
    let again: BTreeSet<(u32, String)> =
        sweep.figures.iter().map(|figure| (figure.rank, figure.key.experiment.clone())).gather();
    let measured: BTreeSet<u32> =
        sweep.nodes.keys().copied().filter(|rank| has_measured(sweep, *rank)).gather();
    let is_missing = |absent: &Absent| match (absent.phase, absent.step.zip(absent.to)) {
        (_, Some((step, to))) => !known.contains(&(step, absent.rank, to)),
        (Stage::Meet, None) => !sweep.nodes.contains_key(&absent.rank),
        (Stage::Alone, None) => match &absent.experiment {
            Some(experiment) => !again.contains(&(absent.rank, experiment.clone())),
            None => !measured.contains(&absent.rank),
        },
        _ => true,
    };
    sweep.absents.retain(is_missing);
}

/// Of things with one key, the last one, in the place of the first.
fn last_of<T>(all: Vec<T>, key: impl Fn(&T) -> (u32, u32, u32, Key)) -> Vec<T> {
    let mut places = HashMap::with_capacity(all.len());
    let mut kept: Vec<T> = Vec::with_capacity(all.len());
    for one in all {
        match places.get(&key(&one)) {
            Some(at) => kept[*at] = one,
            None => {
                places.insert(key(&one), kept.len());
                kept.push(one);
            }
        }
    }
    kept
}

/// A record that is being written.
#[derive(Debug)]
pub struct Book {
    file: File,
    path: PathBuf,
    /// Length at which a torn last line is cut before the first event is appended.
    cut: Option<u64>,
    /// Whether each line also goes to the standard output.
    is_shown: bool,
}

impl Book {
    /// A record that goes to the standard output, line by line, and into a new file of a directory,
    /// for what is read from it. Errors: the file cannot be made.
    pub fn to_output(dir: &Path) -> Result<Book> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let name = format!("plumb-fleet-{:016x}.jsonl", fastrand::u64(..));
        Ok(Book { is_shown: true, ..Book::create(&dir.join(name))? })
    }

    /// Makes the file of a new sweep; it must not exist. Errors: it exists, or cannot be written.
    pub fn create(path: &Path) -> Result<Book> {
        let shown = path.display();
        let made = OpenOptions::new().append(true).create_new(true).mode(file::SHARED).open(path);
        let file = made.with_context(|| {
            format!("cannot write the record {shown}; name a new file in an existing directory")
        })?;
        lock(&file, path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        file::sync_directory(parent.unwrap_or(Path::new(".")))?;
        Ok(Book { file, path: path.to_owned(), cut: None, is_shown: false })
    }

    /// Opens the file of a sweep to continue it, and reads it. Nothing changes before the first
    /// event is appended. Errors: it cannot be read or written, it is damaged, or another plumb
    /// writes it.
    pub fn resume(path: &Path) -> Result<(Book, Sweep)> {
        let shown = path.display();
        let opened = OpenOptions::new().append(true).open(path);
        let file = opened.with_context(|| format!("cannot continue the record {shown}"))?;
        lock(&file, path)?;
        file::continuable(path, &file)?;
        let sweep = open(path)?;
        if let Some(damaged) = sweep.damaged.first() {
            bail!(
                "line {} of {shown} is damaged, and a damaged record is not continued; `plumb \
                 fleet report` shows what the other lines hold",
                damaged.line
            );
        }
        let cut = sweep.torn.then_some(sweep.whole_bytes);
        Ok((Book { file, path: path.to_owned(), cut, is_shown: false }, sweep))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one event. Errors: it cannot be written.
    pub fn append(&mut self, event: &Event) -> Result<()> {
        let mut line = serde_json::to_vec(event)?;
        seal(&mut line);
        line.push(b'\n');
        let cut = self.cut.take().map_or(Ok(()), |length| self.file.set_len(length));
        let shown = match self.is_shown {
            true => std::io::stdout().write_all(&line).and_then(|()| std::io::stdout().flush()),
            false => Ok(()),
        };
        cut.and(shown)
            .and_then(|()| self.file.write_all(&line))
            .with_context(|| format!("cannot write the record {}", self.path.display()))
    }

    /// Has all that was appended reach the disk. Errors: it does not.
    pub fn sync(&mut self) -> Result<()> {
        self.file
            .sync_data()
            .with_context(|| format!("cannot write the record {} to its disk", self.path.display()))
    }
}

/// Keeps a second writer away, where the file system has locks.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!("another plumb is writing {}; wait until it ends", path.display())
        }
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}
