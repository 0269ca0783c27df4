//! What a run changes on the system is written down before it is changed: undone at the run's end,
//! or by the next run if it was killed.
//!
//! An entry is a file in the store's `journal` directory whose lock its owner holds while it lives.
//! The kernel lets go of a lock exactly when its owner dies, also where process ids are reused or
//! not shared (containers): an entry that can be locked has no owner.

use super::Store;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names of work directories begin with this; nothing else is ever removed.
const PREFIX: &str = "plumb-";
/// Ending of entries that are whole.
const ENDING: &str = "json";

/// A killed process leaves its control group in this time …
const LEAVING_TIME: Duration = Duration::from_secs(2);
/// … which is looked at so often.
const LEAVING_EVERY: Duration = Duration::from_millis(5);

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

/// A run's own directory for files; it is removed with all that is in it when this is dropped, and the
/// control groups of the same name with it.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    undos: Vec<Undo>,
    entry: PathBuf,
    /// Held for as long as the directory is in use.
    _lock: File,
}

impl WorkDir {
    /// Makes `plumb-<run>-<pid>` below a directory, after its removal was written down, and that of the
    /// groups of this name that workers may make below `groups`.
    ///
    /// # Errors
    /// The store or the directory cannot be written.
    pub fn make(store: &Store, below: &Path, run: &str, groups: &[PathBuf]) -> Result<Self> {
        let name = format!("{PREFIX}{run}-{}", std::process::id());
        let path = std::path::absolute(below)
            .context("the current directory is gone")?
            .join(&name);
        let journal = directory(store);
        let entry = journal.join(format!("{name}.{ENDING}"));
        let groups = groups
            .iter()
            .map(|below| Undo::RemoveGroup(below.join(&name)));
        let undos: Vec<Undo> = std::iter::once(Undo::RemoveDir(path.clone()))
            .chain(groups)
            .collect();
        let lock = write_entry(&entry, &undos).with_context(|| {
            format!(
                "cannot write the journal {}; name a writable store with PLUMB_STORE",
                journal.display()
            )
        })?;
        let work = WorkDir {
            path,
            undos,
            entry,
            _lock: lock,
        };
        std::fs::create_dir(&work.path)
            .with_context(|| format!("cannot make {}", work.path.display()))?;
        Ok(work)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, and tells if that cannot be done; it stays in the journal then.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn remove(self) -> Result<()> {
        self.undo()
    }

    fn undo(&self) -> Result<()> {
        undo_all(&self.undos)?;
        gone(std::fs::remove_file(&self.entry))
            .with_context(|| format!("cannot remove {}", self.entry.display()))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // What cannot be removed stays in the journal: the next run tries again and tells.
        let _ = self.undo();
    }
}

/// Undoes what killed runs left; returns a line about each, also about what cannot be undone.
pub fn recover(store: &Store) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory(store)) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
        .filter_map(|path| match recover_one(&path) {
            Ok(told) => told,
            Err(error) => Some(format!(
                "what a killed run left cannot be undone: {error:#}; undo it by hand and remove {}",
                path.display()
            )),
        })
        .collect()
}

/// Nothing is told where the owner lives.
fn recover_one(path: &Path) -> Result<Option<String>> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).context("its owner may be alive"),
    }
    let undos: Vec<Undo> = serde_json::from_reader(&file).context("its entry is damaged")?;
    let first = undos.first().context("its entry is empty")?.path();
    let groups = undos.iter().filter_map(|change| match change {
        Undo::RemoveGroup(group) if group.exists() => Some(group),
        _ => None,
    });
    let groups = groups.map(|group| format!("the control group {}", group.display()));
    let removed: Vec<String> = std::iter::once(first.display().to_string())
        .chain(groups)
        .collect();
    undo_all(&undos)?;
    gone(std::fs::remove_file(path))?;
    Ok(Some(format!(
        "removed {}, which a killed run left",
        removed.join(" and ")
    )))
}

/// What cannot be undone keeps nothing else from being undone; the first reason is told.
fn undo_all(undos: &[Undo]) -> Result<()> {
    let outcomes: Vec<Result<()>> = undos.iter().rev().map(undo).collect();
    outcomes.into_iter().collect()
}

fn undo(change: &Undo) -> Result<()> {
    let dir = change.path();
    let ours = dir
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(PREFIX));
    ensure!(ours, "{} is no work directory of plumb", dir.display());
    let removed = match change {
        Undo::RemoveDir(dir) => std::fs::remove_dir_all(dir),
        Undo::RemoveGroup(group) => remove_group(group),
    };
    gone(removed).with_context(|| format!("cannot remove {}", dir.display()))
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
fn write_entry(entry: &Path, undos: &[Undo]) -> Result<File> {
    if let Some(journal) = entry.parent() {
        std::fs::create_dir_all(journal)?;
    }
    let part = entry.with_extension("part");
    let mut file = File::create(&part)?;
    file.try_lock()?;
    file.write_all(&serde_json::to_vec(undos)?)?;
    file.sync_all()?;
    std::fs::rename(&part, entry)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{Undo, WorkDir, recover, write_entry};
    use crate::store::Store;
    use std::path::Path;

    fn store(dir: &Path) -> Store {
        Store {
            dir: dir.join("store"),
        }
    }

    #[test]
    fn a_live_owner_keeps_its_directory_and_takes_it_along() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        let work = WorkDir::make(&store, dir.path(), "run", &[]).expect("is made");
        std::fs::write(work.path().join("file"), "x").expect("writes");
        let path = work.path().to_owned();
        assert!(recover(&store).is_empty(), "its owner lives");
        assert!(path.join("file").exists());
        work.remove().expect("is removed");
        assert!(!path.exists());
        let left = std::fs::read_dir(store.dir.join("journal")).expect("is there");
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn what_a_dead_owner_left_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        let work = WorkDir::make(&store, dir.path(), "run", &[]).expect("is made");
        std::fs::write(work.path().join("file"), "x").expect("writes");
        let path = work.path().to_owned();
        // A killed process runs no destructors, and its files are closed.
        work._lock.unlock().expect("unlocks");
        std::mem::forget(work);
        let told = recover(&store);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("removed"), "{told:?}");
        assert!(!path.exists());
        assert!(recover(&store).is_empty(), "once is enough");
    }

    #[test]
    fn a_group_that_a_dead_owner_left_is_removed_and_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        // An empty directory is to the journal what a group without processes is.
        let groups = dir.path().join("groups");
        std::fs::create_dir(&groups).expect("makes");
        let work = WorkDir::make(&store, dir.path(), "run", std::slice::from_ref(&groups))
            .expect("is made");
        let group = groups.join(work.path().file_name().expect("has a name"));
        assert!(!group.exists(), "the worker makes it, not the journal");
        std::fs::create_dir(&group).expect("makes");
        work._lock.unlock().expect("unlocks");
        std::mem::forget(work);
        let told = recover(&store);
        assert!(told[0].contains("and the control group"), "{told:?}");
        assert!(!group.exists() && groups.exists());
        // What holds something is no group of ours, and is kept.
        let work = WorkDir::make(&store, dir.path(), "run", std::slice::from_ref(&groups))
            .expect("is made");
        std::fs::create_dir_all(group.join("child")).expect("makes");
        assert!(work.remove().is_err());
        assert!(group.exists());
    }

    #[test]
    fn nothing_but_a_work_directory_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        let precious = dir.path().join("precious");
        std::fs::create_dir(&precious).expect("makes");
        let entry = store.dir.join("journal/entry.json");
        drop(write_entry(&entry, &[Undo::RemoveDir(precious.clone())]).expect("writes"));
        let told = recover(&store);
        assert!(told[0].contains("no work directory"), "{told:?}");
        assert!(precious.exists());
        std::fs::write(&entry, "{").expect("damages it");
        assert!(recover(&store)[0].contains("damaged"));
        assert!(entry.exists(), "what is not understood is kept");
    }
}
