//! What a run changes on the system is written down before it is changed: undone at the run's end,
//! or by the next run if it was killed.
//!
//! An entry is a file in the store's `journal` directory whose lock its owner holds while it lives.
//! The kernel lets go of a lock exactly when its owner dies, also where process ids are reused or
//! not shared (containers): an entry that can be locked has no owner.

use super::Store;
use super::mounted::holder;
use anyhow::{Context, Error, Result, ensure};
use metal::process::Patience;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Names of work directories begin with this; nothing else is ever removed.
const PREFIX: &str = "plumb-";
/// A directory in which nothing was made or removed for so long hangs. A disk that must first spin
/// up takes half of it.
const SILENCE: Duration = Duration::from_secs(20);
/// One that hung before has had its time.
const SILENCE_AGAIN: Duration = Duration::from_secs(2);
/// Ending of entries that are whole …
const ENDING: &str = "json";
/// … and of those that are not. Whoever writes one has long locked it after this time.
const ENDING_PART: &str = "part";
const WRITING_TIME: Duration = Duration::from_secs(60);

/// A killed process leaves its control group in this time …
const LEAVING_TIME: Duration = Duration::from_secs(2);
/// … which is looked at so often.
const LEAVING_EVERY: Duration = Duration::from_millis(5);

/// What one run changed.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    undos: Vec<Undo>,
    /// The file system of the work directory, as [`holder`] finds it; `None` where it does not.
    holder: Option<String>,
    /// It hung when it was to be undone.
    hung: bool,
}

/// How one change is undone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Undo {
    /// Remove a work directory with all that is in it.
    RemoveDir(PathBuf),
    /// Remove a control group: a directory that only the kernel puts files into.
    RemoveGroup(PathBuf),
}

impl Undo {
    fn path(&self) -> &Path {
        match self {
            Undo::RemoveDir(path) | Undo::RemoveGroup(path) => path,
        }
    }
}

/// A run's own directory for files; it is removed with all that is in it when this is dropped, and
/// the control groups of the same name with it.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    changes: Entry,
    entry: PathBuf,
    /// Removed, or given up: nothing is tried again when it is dropped.
    is_done: bool,
    /// Held for as long as the directory is in use.
    _lock: File,
}

impl WorkDir {
    /// Makes `plumb-<run>-<pid>` below a directory, after its removal was written down, and that of
    /// the groups of this name that workers may make below `groups`. Errors: the store or the
    /// directory cannot be written, the directory hangs, or SIGINT or SIGTERM set `stop`.
    pub fn make(
        store: &Store,
        below: &Path,
        run: &str,
        groups: &[PathBuf],
        stop: &AtomicBool,
    ) -> Result<Self> {
        let name = format!("{PREFIX}{run}-{}", std::process::id());
        let path = std::path::absolute(below).context("the current directory is gone")?.join(&name);
        let journal = directory(store);
        let entry = journal.join(format!("{name}.{ENDING}"));
        let groups = groups.iter().map(|below| Undo::RemoveGroup(below.join(&name)));
        let undos: Vec<Undo> =
            std::iter::once(Undo::RemoveDir(path.clone())).chain(groups).collect();
        let changes = Entry { undos, holder: holder_of(&path), hung: false };
        let lock = write_entry(&entry, &changes).with_context(|| {
            format!(
                "cannot write the journal {}; name a writable store with PLUMB_STORE",
                journal.display()
            )
        })?;
        let work = WorkDir { path, changes, entry, is_done: false, _lock: lock };
        match metal::directory::make(&work.path, Patience::unless(SILENCE, stop)) {
            Ok(()) => Ok(work),
            Err(error) => {
                let may_come = hangs(&error) || error.kind() == io::ErrorKind::Interrupted;
                let told = told("make", &work.path, error);
                if may_come {
                    // It may be made later, when it answers again: its entry stays.
                    work.leave();
                }
                Err(told)
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, and reports a failure; it stays in the journal then. For one that is known to
    /// hang, that takes no long time. Errors: something in it cannot be removed, or it hangs.
    pub fn remove(mut self, is_hanging: bool) -> Result<()> {
        self.is_done = true;
        self.undo(is_hanging)
    }

    /// Leaves it to the journal.
    fn leave(mut self) {
        self.is_done = true;
    }

    fn undo(&mut self, is_hanging: bool) -> Result<()> {
        // What asked the run to end does not ask it to leave its files.
        let stop = AtomicBool::new(false);
        undo_entry(&self.entry, &mut self.changes, is_hanging, &stop).map(drop)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.is_done {
            // What cannot be removed stays in the journal: the next run tries again and reports it.
            let _ = self.undo(false);
        }
    }
}

/// Undoes what killed runs left, until SIGINT or SIGTERM sets `stop`; returns a line about each,
/// also about what cannot be undone.
pub fn recover(store: &Store, stop: &AtomicBool) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory(store)) else { return Vec::new() };
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let has_ending = |path: &Path, ending| path.extension().is_some_and(|it| it == ending);
    let (whole, parts): (Vec<PathBuf>, Vec<PathBuf>) = entries
        .filter(|path| has_ending(path, ENDING) || has_ending(path, ENDING_PART))
        .partition(|path| has_ending(path, ENDING));
    for part in parts {
        // It says of nothing that was done, and disturbs no one if it cannot be removed.
        let _ = remove_part(&part);
    }
    let told = whole.iter().filter_map(|path| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        match recover_one(path, stop) {
            Ok(told) => told,
            Err(_) if stop.load(Ordering::Relaxed) => None,
            Err(error) => Some(format!(
                "cannot clean up after an earlier run: {error:#}; each run tries again until you \
                 clean up by hand and remove {}",
                path.display()
            )),
        }
    });
    told.collect()
}

/// Removes an entry that is not whole, unless somebody is writing it.
fn remove_part(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    let age = file.metadata()?.modified()?.elapsed()?;
    if age > WRITING_TIME && file.try_lock().is_ok() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// There is no message if the owner is alive, or left only its entry.
fn recover_one(path: &Path, stop: &AtomicBool) -> Result<Option<String>> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).context("its owner may be alive"),
    }
    let mut changes: Entry = serde_json::from_reader(&file).context("its entry is damaged")?;
    ensure!(!changes.undos.is_empty(), "its entry is empty");
    let removed = undo_entry(path, &mut changes, false, stop)?;
    Ok((!removed.is_empty()).then(|| {
        let removed = removed.join(" and ");
        format!("removed {removed}, which an earlier run left")
    }))
}

/// Undoes all of an entry and removes it: what was there to be removed. What hangs is written down,
/// and has less time from then on.
fn undo_entry(
    path: &Path,
    changes: &mut Entry,
    is_hanging: bool,
    stop: &AtomicBool,
) -> Result<Vec<String>> {
    let silence = if is_hanging || changes.hung { SILENCE_AGAIN } else { SILENCE };
    let patience = Patience::unless(silence, stop);
    // What cannot be undone keeps nothing else from being undone; the first reason is reported.
    let undone = changes.undos.iter().rev();
    let undone: Vec<Result<Option<String>>> =
        undone.map(|change| undo(change, changes.holder.as_deref(), patience)).collect();
    let is_hang = |error: &Error| error.downcast_ref::<io::Error>().is_some_and(hangs);
    let hung = undone.iter().any(|outcome| outcome.as_ref().is_err_and(is_hang));
    if hung && !changes.hung {
        changes.hung = true;
        // An entry that stays as it was costs time, and nothing else.
        let _ = write_entry(path, changes);
    }
    let removed: Result<Vec<Option<String>>> = undone.into_iter().rev().collect();
    let removed = removed?.into_iter().flatten().collect();
    gone(std::fs::remove_file(path))
        .with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(removed)
}

/// Undoes one change: what was removed, if it was there.
fn undo(change: &Undo, held: Option<&str>, patience: Patience<'_>) -> Result<Option<String>> {
    let dir = change.path();
    let ours =
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    ensure!(ours, "{} is not a work directory of plumb", dir.display());
    let (removed, shown) = match change {
        Undo::RemoveDir(dir) => {
            (metal::directory::remove(dir, patience), dir.display().to_string())
        }
        Undo::RemoveGroup(group) => {
            (remove_group(group), format!("the control group {}", group.display()))
        }
    };
    match removed {
        Ok(()) => Ok(Some(shown)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Undo::RemoveDir(dir) = change {
                demand_holder(dir, held)?;
            }
            Ok(None)
        }
        Err(error) => Err(told("remove", dir, error)),
    }
}

/// A directory that is not there is gone only if its file system is there.
fn demand_holder(dir: &Path, held: Option<&str>) -> Result<()> {
    let Some(held) = held else { return Ok(()) };
    let now = holder_of(dir);
    ensure!(
        now.is_none() || now.as_deref() == Some(held),
        "{} is on {held}, which is not mounted here",
        dir.display()
    );
    Ok(())
}

/// The file system of a path, now; `None` if the kernel does not report it.
fn holder_of(path: &Path) -> Option<String> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    holder(&String::from_utf8_lossy(&mounts), path)
}

/// A group stays as long as a process is in it: one that was just killed leaves it soon.
fn remove_group(group: &Path) -> io::Result<()> {
    let deadline = Instant::now() + LEAVING_TIME;
    loop {
        match std::fs::remove_dir(group) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                std::thread::sleep(LEAVING_EVERY);
            }
            other => return other,
        }
    }
}

/// What could not be done with a directory.
fn told(what: &str, dir: &Path, error: io::Error) -> Error {
    let hangs = if hangs(&error) { ": its file system hangs" } else { "" };
    Error::new(error).context(format!("cannot {what} {}{hangs}", dir.display()))
}

fn hangs(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// What is gone already needs no removal.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn directory(store: &Store) -> PathBuf {
    store.dir.join("journal")
}

/// Writes an entry under another name first: one that can be seen is whole and locked.
fn write_entry(entry: &Path, changes: &Entry) -> Result<File> {
    if let Some(journal) = entry.parent() {
        std::fs::create_dir_all(journal)?;
    }
    let part = entry.with_extension(ENDING_PART);
    let mut file = File::create(&part)?;
    file.try_lock()?;
    file.write_all(&serde_json::to_vec(changes)?)?;
    file.sync_all()?;
    std::fs::rename(&part, entry)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
