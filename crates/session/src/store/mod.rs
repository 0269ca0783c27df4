//! Runs on disk: append-only JSON Lines, one file a run.

mod elsewhere;
pub mod file;
pub mod journal;
mod mounted;
pub mod summary;
mod trust;

use crate::Sink;
use anyhow::{Context, Result, anyhow, bail, ensure};
use metal::path::{Flags, Location};
use record::codec::{self, EventText, Recording};
use record::crosscheck::CROSSCHECK;
use record::event::Event;
use record::lines::Lines;
use record::order::InOrder;
use record::seal::Sealer;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What names the run that began last, and the crosscheck.
const LAST: &str = "last";
const LAST_CROSSCHECK: &str = "last-crosscheck";

const ENDING: &str = ".jsonl";

/// How often a lock is tried for, and how long until the next time: others hold it for the moment
/// of a look ([`is_being_written`]), writers for as long as they measure.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// How a record is opened to be written; a pipe in its place is not waited for.
const APPEND: Flags = Flags::WRONLY.union(Flags::APPEND).union(Flags::NONBLOCK);

/// Longest header that is looked at for its time.
const HEADER_BYTES: u64 = 16 << 20;

/// The directory where runs are kept.
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// `$PLUMB_STORE`, else `$XDG_DATA_HOME/plumb`, else `.local/share/plumb` in the home directory;
    /// for a user without one `plumb-runs` in the current directory, where root, who would write
    /// into what another user laid there, uses `/var/lib/plumb`.
    pub fn here() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = set("HOME").map(PathBuf::from).or_else(|| {
            // The one of the user's entry in the list of users.
            std::env::home_dir().filter(|home| home.is_absolute())
        });
        Store { dir: location(set, home, metal::process::geteuid() == 0) }
    }

    pub fn in_directory(dir: PathBuf) -> Self {
        Store { dir }
    }

    /// Makes the directory if it does not exist. Errors: it cannot be made, or is not this user's
    /// alone.
    pub fn make(&self) -> Result<()> {
        trust::make(&self.dir)
    }

    /// Checks that this user alone can write in it; one that is not there yet will be. Errors:
    /// others can, with the way out; it is then read and never written.
    pub fn check_own(&self) -> Result<()> {
        trust::check(&self.dir)
    }

    /// The directory, whatever becomes the current one. Errors: the current directory is gone.
    pub fn dir(&self) -> Result<PathBuf> {
        std::path::absolute(&self.dir).context("the current directory is gone")
    }

    /// Where a new run of a name goes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{ENDING}"))
    }

    /// The names of the stored runs, in their order: that is no order of time, for which see
    /// [`Age`]. Errors: the directory exists and cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot list {}", self.dir.display()));
            }
        };
        // A pipe or a device of such a name is no record, and opening one may wait for ever.
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok().filter(|entry| entry.path().is_file()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(ENDING).map(str::to_owned))
            .collect();
        names.order();
        Ok(names)
    }

    /// Makes the file of a new run, under this name or, where another run took it, a numbered one:
    /// two may begin in the same second. Errors: the store is not this user's alone, or cannot be
    /// written.
    pub fn create(&self, name: &str) -> Result<(String, RecordFile)> {
        self.make()?;
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        for name in std::iter::once(name.to_owned()).chain(numbered) {
            match RecordFile::create(&self.path(&name)) {
                Err(error) if is_taken(&error) => {}
                made => return made.map(|file| (name, file)),
            }
        }
        bail!("every name that begins with {name} is taken in {}", self.dir.display())
    }

    /// Removes the record of a stored run, and gives its length in bytes. Errors: there is none, it
    /// cannot be removed, or another plumb is, or may be, writing it.
    pub fn remove(&self, name: &str) -> Result<u64> {
        self.check_own()?;
        let path = self.path(name);
        // Open for writing: the locks of a file system over a network may ask for that.
        let file = Location::find(&path)
            .and_then(|location| location.open(APPEND))
            .with_context(|| format!("cannot open {} to remove it", path.display()))?;
        // Held until it is gone, so that no other plumb resumes it meanwhile.
        let locked = lock(&file, &path)?;
        check_removable(locked, &path)?;
        let length = file.metadata().map_or(0, |facts| facts.len());
        Location::exact(&path)
            .and_then(|location| location.remove())
            .with_context(|| format!("cannot remove {}", path.display()))?;
        // What cannot be removed goes with the next list.
        let _ = std::fs::remove_file(self.figures_path(name));
        Ok(length)
    }

    /// The name of the stored run whose record a path is: a file next to the records is not a
    /// record.
    pub fn name_of(&self, path: &Path) -> Option<String> {
        let name = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
        let dir = match path.parent()? {
            here if here.as_os_str().is_empty() => Path::new("."),
            dir => dir,
        };
        let is_here = dir.canonicalize().ok()? == self.dir.canonicalize().ok()?;
        is_here.then(|| name.to_owned())
    }

    /// The file of a run: a path, a stored name or a unique prefix of one, `last`, the run that
    /// began last, or `last-crosscheck`: a crosscheck's own record measured nothing to go on with.
    /// Errors: no such run, or several.
    pub fn find(&self, run: &str) -> Result<PathBuf> {
        let path = Path::new(run);
        if run.contains('/') || run.ends_with(ENDING) {
            if path.is_file() {
                return Ok(path.to_owned());
            }
            let what = match path.metadata() {
                Ok(facts) if facts.is_dir() => format!("{run} is a directory, not a record"),
                Ok(_) => format!("{run} is not a regular file, as a record is"),
                Err(_) => format!("there is no file {run}"),
            };
            bail!("{what}; `plumb runs` lists the stored runs");
        }
        let names = self.names()?;
        let of_kind = match run {
            LAST => Some((false, "no run is", "plumb run")),
            LAST_CROSSCHECK => Some((true, "no crosscheck is", "plumb crosscheck")),
            _ => None,
        };
        if let Some((is_crosscheck, none, command)) = of_kind {
            let paths = names.iter().map(|name| (name, self.path(name)));
            let last = paths
                .map(|(name, path)| (begin(&path), name, path))
                .filter(|(begin, ..)| is_crosscheck == begin.is_crosscheck)
                .max_by_key(|(begin, name, _)| Age::new(begin.began.as_deref(), name));
            return last.map(|(.., path)| path).ok_or_else(|| {
                anyhow!("{none} stored in {} yet; `{command}` makes one", self.dir.display())
            });
        }
        let fits: Vec<&String> =
            names.iter().filter(|name| !run.is_empty() && name.starts_with(run)).collect();
        match fits.as_slice() {
            [one] => Ok(self.path(one)),
            [whole, ..] if *whole == run => Ok(self.path(whole)),
            [] if path.is_file() => Ok(path.to_owned()),
            [] => bail!(
                "no stored run has a name that begins with `{run}`; `plumb runs` lists \
                         them"
            ),
            [first, .., last] => bail!(
                "{} stored runs begin with `{run}`, from {first} to {last}; type more of the name",
                fits.len()
            ),
        }
    }
}

/// Where the store is: the variables that are set, the home directory, whether the user is root.
fn location(
    set: impl Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
    is_root: bool,
) -> PathBuf {
    set("PLUMB_STORE")
        .map(PathBuf::from)
        .or_else(|| set("XDG_DATA_HOME").map(|home| Path::new(&home).join("plumb")))
        .or_else(|| home.map(|home| home.join(".local/share/plumb")))
        .unwrap_or_else(|| PathBuf::from(if is_root { "/var/lib/plumb" } else { "plumb-runs" }))
}

/// A run that began later than this from now was dated by a clock that was wrong.
const AHEAD_MOST: Duration = Duration::from_secs(300);

/// What orders runs by time, oldest first: when they began, and, of those that began in one second,
/// the numbers that [`Store::create`] gives. Those whose beginning cannot be read, or lies in the
/// future, are before all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    began: Option<SystemTime>,
    name_bytes: usize,
    name: String,
}

impl Age {
    /// Of the run of a name, which began then (RFC 3339, UTC).
    pub fn new(began: Option<&str>, name: &str) -> Self {
        let began = began.and_then(|began| humantime::parse_rfc3339_weak(began).ok());
        let began = began.filter(|began| *began <= SystemTime::now() + AHEAD_MOST);
        Age { began, name_bytes: name.len(), name: name.to_owned() }
    }
}

/// When the run of a record began, by its first line alone.
fn began(path: &Path) -> Option<String> {
    begin(path).began
}

/// What the first line of a record says.
#[derive(Default)]
struct Begin {
    began: Option<String>,
    is_crosscheck: bool,
}

/// The beginning of a record; one that cannot be read is that of a run.
fn begin(path: &Path) -> Begin {
    #[derive(Deserialize)]
    struct First {
        started: String,
        #[serde(default)]
        options: Options,
    }
    #[derive(Default, Deserialize)]
    struct Options {
        #[serde(default)]
        preset: String,
    }
    let read = || {
        let mut lines = Lines::new(file::reader(path).ok()?, HEADER_BYTES);
        let (_, line) = lines.whole().ok()??;
        serde_json::from_slice::<First>(line).ok()
    };
    read().map_or_else(Begin::default, |first| Begin {
        began: Some(first.started),
        is_crosscheck: first.options.preset == CROSSCHECK,
    })
}

/// A record that is being written. Its lock keeps a second writer away.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    path: PathBuf,
    unstarted: bool,
    /// Length at which a torn last line is cut before the first event is appended.
    cut: Option<u64>,
    /// What numbers and seals its lines.
    sealer: Sealer,
    /// Directories that do not have it on their disk yet.
    unsynced: Vec<PathBuf>,
}

/// Directories that may have been made for a record, with the one above: `~/.local/share/plumb`.
const MADE_MAX: usize = 4;

impl RecordFile {
    /// Makes the file of a new run; it must not exist. Errors: it exists, or cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let unsynced = parent.ancestors().take(MADE_MAX).map(Path::to_owned).collect();
        let file = Location::make(path)
            .and_then(|location| location.create(APPEND, file::SECRET))
            .with_context(|| format!("cannot write the record {}", path.display()))?;
        // Made before it is locked, so that it is removed where it cannot be.
        let path = path.to_owned();
        let sealer = Sealer::new(record::FORMAT);
        let record = RecordFile { file, path, unstarted: true, cut: None, sealer, unsynced };
        lock(&record.file, &record.path)?;
        Ok(record)
    }

    /// Opens the file of a run to continue it, and reads it. Before the first event is appended only
    /// a lost last newline is added. Errors: it cannot be read or written, or another plumb is writing it.
    pub fn resume(path: &Path) -> Result<(Self, Recording)> {
        let file = Location::find(path)
            .and_then(|location| location.open(APPEND))
            .with_context(|| format!("cannot continue the record {}", path.display()))?;
        lock(&file, path)?;
        file::continuable(path, &file)?;
        let recording = read(path)?;
        if let Some(damaged) = recording.run.damaged.first() {
            bail!(
                "line {} of {} is damaged, and a damaged record is not continued; `plumb report` \
                 shows what the other lines hold",
                damaged.line,
                path.display()
            );
        }
        let record = RecordFile {
            file,
            path: path.to_owned(),
            unstarted: false,
            cut: recording.torn.then_some(recording.whole_bytes),
            sealer: recording.sealer,
            unsynced: Vec::new(),
        };
        Ok((record, recording))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one event. Errors: it cannot be written (disk full, device gone, limit on the size of
    /// files) or kept (the file was removed); the record stays as it was then.
    pub fn append(&mut self, event: &Event) -> Result<()> {
        self.take(event, &EventText::new(event)?)
    }

    fn appended(&mut self, text: &EventText) -> Result<()> {
        let facts = self.file.metadata()?;
        ensure!(facts.nlink() > 0, "it was removed while it was written");
        if let Some(length) = self.cut.take() {
            self.file.set_len(length)?;
        }
        codec::write_text(&mut self.file, &mut self.sealer, text).inspect_err(|_| {
            // A disk or a limit may have taken a part of the line.
            let _ = self.file.set_len(facts.len());
        })?;
        Ok(())
    }
}

impl Sink for RecordFile {
    fn take(&mut self, event: &Event, text: &EventText) -> Result<()> {
        // What ends before it has measured leaves nothing behind.
        self.unstarted &= matches!(event, Event::Header(_));
        self.appended(text)
            .with_context(|| format!("cannot write the record {}", self.path.display()))
    }

    /// Also the directory with the record's name.
    fn sync(&mut self) -> Result<()> {
        let synced = self.file.sync_data();
        let synced = synced
            .and_then(|()| self.unsynced.drain(..).try_for_each(|dir| file::sync_directory(&dir)));
        synced
            .with_context(|| format!("cannot write the record {} to its disk", self.path.display()))
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

/// Whether a new record was not made because there is a file of its name.
fn is_taken(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::AlreadyExists)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locked {
    /// No other plumb writes it until it is closed.
    Held,
    /// A file system without locks cannot show that; it must not forbid to measure.
    Unknown,
}

/// Keeps others from writing a record for as long as it is open. Errors: another plumb is writing
/// it, or has removed it.
fn lock(file: &File, path: &Path) -> Result<Locked> {
    lock_between(file, path, || std::thread::sleep(BETWEEN_TRIES))
}

fn lock_between(file: &File, path: &Path, mut wait: impl FnMut()) -> Result<Locked> {
    for attempt in 1..=TRIES {
        match file.try_lock() {
            Ok(()) => {
                // Whoever removed it had the lock before.
                let links = file.metadata().map_or(1, |facts| facts.nlink());
                if links == 0 {
                    bail!("{} was removed by another plumb", path.display());
                }
                return Ok(Locked::Held);
            }
            Err(TryLockError::Error(_)) => return Ok(Locked::Unknown),
            Err(TryLockError::WouldBlock) if attempt < TRIES => wait(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    bail!("another plumb is writing {}; wait until it ends", path.display())
}

/// If plumb cannot see whether a record is being written, it removes only one that has ended.
fn check_removable(locked: Locked, path: &Path) -> Result<()> {
    if locked == Locked::Held || read(path).is_ok_and(|read| read.run.footer.is_some()) {
        return Ok(());
    }
    bail!(
        "{} is incomplete, and its file system has no locks, so plumb cannot see whether another \
         plumb is still writing it; if not, remove the file yourself",
        path.display()
    )
}

/// Whether another plumb is writing a record. On a file system without locks no writer is seen.
pub fn is_being_written(path: &Path) -> bool {
    let locked = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    File::open(path).is_ok_and(locked)
}

/// Reads a record, packed by gzip or not. Errors: it cannot be read, with what it is instead.
pub fn read(path: &Path) -> Result<Recording> {
    let file = file::reader(path).with_context(|| format!("cannot open {}", path.display()))?;
    codec::read(file)
        .map_err(|error| anyhow!("cannot read {} as a record: {error}", path.display()))
}

#[cfg(test)]
mod tests;
