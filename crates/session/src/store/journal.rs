//! What a run changes on the system is written down before it is changed: undone at the run's end,
//! or by the next run if it was killed.
//!
//! An entry is a file in the store's `journal` directory whose lock its owner holds while it lives.
//! The kernel lets go of a lock exactly when its owner dies, also where process ids are reused or
//! not shared (containers): an entry that can be locked has no owner. It is undone only in the
//! place that it was written in ([`Place`]), and a directory is emptied only if it is the one that
//! was made: by device and number, through descriptors, and no link is followed.

use super::file::{self, There};
use super::mounted::holder;
use super::{Store, trust};
use anyhow::{Context, Error, Result, anyhow, ensure};
use host::place::Place;
use metal::directory::Identity;
use metal::process::Patience;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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
/// Ending of an entry's file.
const ENDING: &str = "json";

/// A killed process leaves its control group in this time …
const LEAVING_TIME: Duration = Duration::from_secs(2);
/// … which is looked at so often.
const LEAVING_EVERY: Duration = Duration::from_millis(5);

/// open(2)'s flags, of Linux on x86-64 and aarch64: a pipe is not waited for.
const O_NONBLOCK: i32 = 0o4000;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    place: Place,
    undos: Vec<Undo>,
    /// The file system of the work directory, as [`holder`] finds it; `None` where it does not.
    holder: Option<String>,
    hung: bool,
    /// Device and number of the work directory, once it was made: a line of its own, which is
    /// appended. One that is torn was not written.
    #[serde(skip)]
    made: Option<(u64, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Undo {
    /// Remove a work directory with all that is in it.
    RemoveDir(#[serde(with = "bench::link::path")] PathBuf),
    /// Remove a control group: a directory that only the kernel puts files into.
    RemoveGroup(#[serde(with = "bench::link::path")] PathBuf),
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
    /// Makes `plumb-<run>-<pid>-<random>` below a directory, after its removal was written down, and
    /// that of the groups of this name that workers may make below `groups`. Errors: the store or
    /// the directory cannot be written, other users may write in it, the directory hangs, or SIGINT
    /// or SIGTERM set `stop`.
    pub fn make(
        store: &Store,
        below: &Path,
        run: &str,
        groups: &[PathBuf],
        stop: &AtomicBool,
    ) -> Result<Self> {
        let patience = Patience::unless(SILENCE, stop);
        let name = format!("{PREFIX}{run}-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let path = metal::directory::real(below, patience)
            .map_err(|error| cannot("make", &below.join(&name), error))?
            .join(&name);
        trust::make(&store.dir)?;
        let journal = directory(store)?;
        trust::make(&journal)?;
        let entry = journal.join(format!("{name}.{ENDING}"));
        let groups = groups.iter().map(|below| Undo::RemoveGroup(below.join(&name)));
        let undos: Vec<Undo> =
            std::iter::once(Undo::RemoveDir(path.clone())).chain(groups).collect();
        let holder = holder_of(&path);
        let changes = Entry { place: Place::here(), undos, holder, hung: false, made: None };
        let unwritable = || {
            let shown = journal.display();
            format!("cannot write the journal {shown}; name a writable store with PLUMB_STORE")
        };
        let lock = write_entry(&entry, &changes).with_context(unwritable)?;
        let mut work = WorkDir { path, changes, entry, is_done: false, _lock: lock };
        match metal::directory::make(&work.path, patience) {
            Ok(Identity { device, inode }) => {
                work.changes.made = Some((device, inode));
                let entry = &mut work._lock;
                write_made(entry, work.changes.made)
                    .and_then(|()| entry.sync_data())
                    .with_context(unwritable)?;
                Ok(work)
            }
            Err(error) => {
                let may_come = hangs(&error) || error.kind() == io::ErrorKind::Interrupted;
                let failure = cannot("make", &work.path, error);
                if may_come {
                    // It may be made later, when it answers again: its entry stays.
                    work.leave();
                }
                Err(failure)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, and reports a failure; it stays in the journal then. For one that is known to
    /// hang, that takes no long time. Errors: something in it cannot be removed, or it hangs.
    pub fn remove(mut self, is_hanging: bool) -> Result<()> {
        self.is_done = true;
        self.undo(is_hanging)
    }

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
    let entries = entries(store);
    let messages = entries.iter().filter_map(|path| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        match recover_one(path, stop) {
            Ok(message) => message,
            Err(_) if stop.load(Ordering::Relaxed) => None,
            Err(error) => Some(format!(
                "cannot clean up after an earlier run: {error:#}; each run tries again until you \
                 clean up by hand and remove {}",
                path.display()
            )),
        }
    });
    messages.collect()
}

/// What a run that was killed in another place left: it is undone there.
#[derive(Clone, Debug)]
pub struct Left {
    pub entry: PathBuf,
    /// Directories and control groups.
    pub paths: Vec<PathBuf>,
    /// Where the run was, as seen from here.
    pub place: &'static str,
}

/// What killed runs left in other places: other machines, and containers of this one.
pub fn left_elsewhere(store: &Store) -> Vec<Left> {
    let here = Place::here();
    let left = entries(store).into_iter().filter_map(|path| {
        let entry = without_owner(&path).ok()??;
        (!entry.place.is_judged_from(&here)).then(|| Left {
            paths: entry.undos.iter().map(|undo| undo.path().to_owned()).collect(),
            place: entry.place.seen_from(&here),
            entry: path,
        })
    });
    left.collect()
}

/// The entries; none in a journal that others may write, or that is another user's.
fn entries(store: &Store) -> Vec<PathBuf> {
    let listed = directory(store).and_then(|journal| Ok(std::fs::read_dir(journal)?));
    let paths = listed.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|it| it == ENDING)).collect()
}

/// An entry whose owner is dead; `None` if it lives, or has just removed or replaced it.
fn without_owner(path: &Path) -> Result<Option<Entry>> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).context("its owner may be alive"),
    }
    let facts = file.metadata()?;
    if facts.nlink() == 0 {
        return Ok(None);
    }
    if let Some(why) = trust::others(&facts).or((!facts.is_file()).then(|| "is no file".to_owned()))
    {
        return Err(anyhow!("its entry {why}"));
    }
    let text = io::read_to_string(&file)?;
    let mut lines = text.split_inclusive('\n');
    let mut entry: Entry = serde_json::from_str(lines.next().unwrap_or_default())
        .context("its entry is damaged, or of an older plumb")?;
    let made = lines.next().filter(|line| line.ends_with('\n'));
    entry.made = made.and_then(|line| serde_json::from_str(line).ok());
    ensure!(!entry.undos.is_empty(), "its entry is empty");
    Ok(Some(entry))
}

/// There is no message if the owner is alive, left only its entry, or was in another place.
fn recover_one(path: &Path, stop: &AtomicBool) -> Result<Option<String>> {
    let Some(mut changes) = without_owner(path)? else { return Ok(None) };
    if !changes.place.is_judged_from(&Place::here()) {
        return Ok(None);
    }
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
        undone.map(|change| undo(change, changes, patience)).collect();
    let is_hang = |error: &Error| error.downcast_ref::<io::Error>().is_some_and(hangs);
    let hung = undone.iter().any(|outcome| outcome.as_ref().is_err_and(is_hang));
    if hung && !changes.hung {
        changes.hung = true;
        // An entry that stays as it was costs time, and nothing else.
        let _ = write_entry(path, changes);
    }
    let removed: Result<Vec<Option<String>>> = undone.into_iter().rev().collect();
    let removed = removed?.into_iter().flatten().collect();
    metal::directory::gone(std::fs::remove_file(path))
        .with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(removed)
}

fn undo(change: &Undo, of: &Entry, patience: Patience<'_>) -> Result<Option<String>> {
    let dir = change.path();
    let ours =
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    ensure!(ours, "{} is not a work directory of plumb", dir.display());
    let (removed, shown) = match change {
        Undo::RemoveDir(dir) => {
            // Servers and FUSE get another number of their device whenever they are mounted.
            let is_held = of.holder.is_some() && of.holder == holder_of(dir);
            let is = of.made.map(|(device, inode)| {
                move |is: Identity| is.inode == inode && (is_held || is.device == device)
            });
            (metal::directory::remove(dir, is, patience), dir.display().to_string())
        }
        Undo::RemoveGroup(group) => {
            (remove_group(group), format!("the control group {}", group.display()))
        }
    };
    match removed {
        Ok(()) => Ok(Some(shown)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Undo::RemoveDir(dir) = change {
                demand_holder(dir, of.holder.as_deref())?;
            }
            Ok(None)
        }
        Err(error) => Err(cannot("remove", dir, error)),
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
fn cannot(what: &str, dir: &Path, error: io::Error) -> Error {
    let hangs = if hangs(&error) { ": its file system hangs" } else { "" };
    Error::new(error).context(format!("cannot {what} {}{hangs}", dir.display()))
}

fn hangs(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// The journal of a store. Errors: it or the store is not this user's alone.
fn directory(store: &Store) -> Result<PathBuf> {
    store.check_own()?;
    let journal = store.dir.join("journal");
    trust::check(&journal)?;
    Ok(journal)
}

/// Writes an entry; one that can be seen is whole and locked.
fn write_entry(entry: &Path, changes: &Entry) -> Result<File> {
    let text = serde_json::to_string(changes)?;
    Ok(file::make(entry, file::SECRET, There::Replaced, |file| {
        file.try_lock()?;
        writeln!(file, "{text}")?;
        write_made(file, changes.made)
    })?)
}

fn write_made(file: &mut File, made: Option<(u64, u64)>) -> io::Result<()> {
    made.map_or(Ok(()), |(device, inode)| writeln!(file, "[{device},{inode}]"))
}

#[cfg(test)]
mod tests;
