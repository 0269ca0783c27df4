//! Runs on disk: append-only JSON Lines, one file a run.

pub mod index;
pub mod journal;
mod mounted;

use anyhow::{Context, Result, anyhow, bail};
use record::codec::{self, Recording};
use record::event::Event;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// The directory where runs are kept.
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// `$PLUMB_STORE`, else `$XDG_DATA_HOME/plumb`, else `~/.local/share/plumb`, else `plumb-runs`
    /// in the current directory.
    pub fn here() -> Self {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dir = var("PLUMB_STORE")
            .map(PathBuf::from)
            .or_else(|| var("XDG_DATA_HOME").map(|home| Path::new(&home).join("plumb")))
            .or_else(|| var("HOME").map(|home| Path::new(&home).join(".local/share/plumb")))
            .unwrap_or_else(|| PathBuf::from("plumb-runs"));
        Store { dir }
    }

    /// Where a new run of a name goes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.jsonl"))
    }

    /// The names of the stored runs, oldest first: names begin with the time.
    ///
    /// # Errors
    /// The directory exists and cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot list {}", self.dir.display()));
            }
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    /// A name for a new run that is not taken: two runs may begin in the same second.
    pub fn free_name(&self, name: &str) -> String {
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| !self.path(name).exists())
            .unwrap_or_else(|| name.to_owned())
    }

    /// Removes the record of a stored run, and gives its length in bytes.
    ///
    /// # Errors
    /// There is none, it cannot be removed, or another plumb is writing it.
    pub fn remove(&self, name: &str) -> Result<u64> {
        let path = self.path(name);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        // Held until it is gone, so that nobody resumes it meanwhile.
        lock(&file, &path)?;
        let length = file.metadata().map_or(0, |facts| facts.len());
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        Ok(length)
    }

    /// Whether a file lies in it.
    pub fn holds(&self, path: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().ok();
        let parent = whole(path).and_then(|path| path.parent().map(Path::to_owned));
        parent.is_some() && parent == whole(&self.dir)
    }

    /// The file of a run: a path, a stored name or a unique prefix of one, or `last`.
    ///
    /// # Errors
    /// No such run, or several.
    pub fn find(&self, run: &str) -> Result<PathBuf> {
        let path = Path::new(run);
        if run.contains('/') || run.ends_with(".jsonl") {
            if path.is_file() {
                return Ok(path.to_owned());
            }
            bail!("there is no file {run}; `plumb runs` lists the stored runs");
        }
        let names = self.names()?;
        if run == "last" {
            return names.last().map(|name| self.path(name)).ok_or_else(|| {
                anyhow!(
                    "no run is stored in {} yet; `plumb run` makes one",
                    self.dir.display()
                )
            });
        }
        let fits: Vec<&String> = names
            .iter()
            .filter(|name| !run.is_empty() && name.starts_with(run))
            .collect();
        match fits.as_slice() {
            [one] => Ok(self.path(one)),
            [whole, ..] if *whole == run => Ok(self.path(whole)),
            [] if path.is_file() => Ok(path.to_owned()),
            [] => bail!("no stored run begins with `{run}`; `plumb runs` lists them"),
            [first, .., last] => bail!(
                "{} stored runs begin with `{run}`, from {first} to {last}; type more of the name",
                fits.len()
            ),
        }
    }
}

/// A record that is being written. Its lock keeps a second writer away.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    path: PathBuf,
    unstarted: bool,
    /// Length at which a torn last line is cut before the first event is appended.
    cut: Option<u64>,
}

impl RecordFile {
    /// Makes the file of a new run; it must not exist.
    ///
    /// # Errors
    /// It exists, or cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make the directory {}", parent.display()))?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .with_context(|| format!("cannot write the record {}", path.display()))?;
        lock(&file, path)?;
        Ok(RecordFile {
            file,
            path: path.to_owned(),
            unstarted: true,
            cut: None,
        })
    }

    /// Opens the file of a run to continue it, and reads it. Nothing in it changes before the first
    /// event is appended.
    ///
    /// # Errors
    /// It cannot be read or written, or another plumb is writing it.
    pub fn resume(path: &Path) -> Result<(Self, Recording)> {
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .with_context(|| format!("cannot continue the record {}", path.display()))?;
        lock(&file, path)?;
        let recording = read(path)?;
        let record = RecordFile {
            file,
            path: path.to_owned(),
            unstarted: false,
            cut: recording.torn.then_some(recording.whole_bytes),
        };
        Ok((record, recording))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends and flushes one event.
    ///
    /// # Errors
    /// It cannot be written: disk full, device gone.
    pub fn append(&mut self, event: &Event) -> Result<()> {
        self.unstarted = false;
        let cut = self.cut.take();
        cut.map_or(Ok(()), |length| self.file.set_len(length))
            .and_then(|()| codec::write(&mut self.file, event))
            .with_context(|| format!("cannot write the record {}", self.path.display()))
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        // A run that never began leaves nothing behind.
        if self.unstarted {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!(
            "{} is being written by another plumb; wait for its end",
            path.display()
        ),
        // A file system without locks cannot tell; it must not forbid to measure.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Whether another plumb is writing a record. Where the file system has no locks nobody is seen.
pub fn is_being_written(path: &Path) -> bool {
    let locked = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    File::open(path).is_ok_and(locked)
}

/// Reads a record.
///
/// # Errors
/// It cannot be read, with what it is instead.
pub fn read(path: &Path) -> Result<Recording> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    codec::read(BufReader::new(file))
        .map_err(|error| anyhow!("{} is no readable record: {error}", path.display()))
}

/// Writes a whole file, or nothing: through a temporary file beside it. A device or pipe is written
/// as it is, a link stays a link.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    let cannot = |error: io::Error| anyhow!("cannot write {}: {error}", path.display());
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if is_special(&target) {
        return std::fs::write(&target, contents).map_err(cannot);
    }
    let beside = beside(&target)?;
    std::fs::write(&beside, contents)
        .and_then(|()| std::fs::rename(&beside, &target))
        .map_err(|error| {
            // The half-written one must not stay; that it may not exist is no further news.
            let _ = std::fs::remove_file(&beside);
            cannot(error)
        })
}

/// Checks, before anything is measured, that a file can be written later.
///
/// # Errors
/// It cannot.
pub fn check_writable(path: &Path) -> Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if target.is_dir() {
        bail!("{} is a directory; type a file name in it", path.display());
    }
    if is_special(&target) {
        return Ok(());
    }
    let beside = beside(&target)?;
    File::create(&beside)
        .and_then(|_| std::fs::remove_file(&beside))
        .map_err(|error| {
            anyhow!(
                "cannot write {}: {error}; name another file",
                path.display()
            )
        })
}

/// A device, a pipe or a socket: renaming over one would destroy it.
fn is_special(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
}

fn beside(path: &Path) -> Result<PathBuf> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .with_context(|| format!("{} names no file; type a file name", path.display()))?;
    Ok(path.with_file_name(format!(".{name}.{}.part", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::Store;

    #[test]
    fn a_name_that_is_taken_is_numbered() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store {
            dir: dir.path().to_owned(),
        };
        for name in ["run", "run-2", "run-3"] {
            assert_eq!(store.free_name("run"), name);
            std::fs::write(store.path(name), "").expect("writes");
        }
    }
}
