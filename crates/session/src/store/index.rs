//! The index of stored figures: a cache of what the records say, in SQLite.
//!
//! The records stay the truth. A row is current while its record has the size and the time of
//! change, and plumb the analysis, that it was made with; whatever is missing, stale or damaged is
//! made again from the records, so an index that is deleted changes no answer. Each run has the
//! number of its rows and a digest of all that it has, which every answer is checked against.
//!
//! The file is plumb's own only if its application id says so: another one is neither changed nor
//! read. It is opened through no link, and nothing is asked before its schema is found to be word
//! for word what plumb makes: a view or trigger of somebody else never runs. In a store that others
//! may write no file is used at all.
//!
//! Several processes use one index at once: every writing is one short transaction, and an answer
//! is read in the same transaction that finds all rows current. SQLite keeps a rollback journal,
//! not a write-ahead log: a log needs memory that processes share, which file systems of other
//! machines lack, and two more files beside the records for as long as anyone reads. Where the
//! index cannot be written (a store that is read-only, a full disk, a newer plumb's index) it is
//! one in memory.

mod rows;
#[cfg(test)]
mod tests;

use super::{Age, Store, began};
use record::crosscheck::CROSSCHECK;
use record::event::End;
use record::key::Key;
use record::machine::MachineIdentity;
use record::metric::{Better, Kind};
use record::unit::Unit;
use rows::{Listed, Prepared};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, TransactionBehavior};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Version of the tables; an index with a lower one is made again.
const TABLES: i64 = 6;

/// Stands in the header of a plumb index: `plmb`.
const APPLICATION: i64 = 0x706c_6d62;

/// File of the index, in the store's directory.
pub(super) const FILE: &str = "index.sqlite";

/// How long one process waits for another's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often an index that others change is looked at again, before one in memory is made.
const LOOKS: u32 = 4;

/// What the index keeps of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The run.
    pub facts: Facts,
    /// Its figures that have a value.
    pub figures: Vec<Row>,
}

/// A run, as lists and trends show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Name in the header.
    pub run: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of every random order.
    pub seed: u64,
    /// `quick`, `standard` or `thorough`.
    pub preset: String,
    /// The machine.
    pub machine: MachineIdentity,
    /// `release` or `debug`.
    pub profile: String,
    /// How it ended; `None` if it was killed.
    pub end: Option<End>,
    /// Rounds, also void ones.
    pub rounds: usize,
    /// Figures measured, skipped and failed.
    pub figures: [usize; 3],
    /// What stands beside other tools, if anything does.
    pub beside: Option<Beside>,
    /// The environment by name, with what measured (`plumb`, `preset` …).
    pub environment: BTreeMap<String, String>,
}

impl Facts {
    /// In what the machines of two runs differ, or the profiles of plumb.
    pub fn difference(&self, other: &Facts) -> Option<String> {
        let profiles = format!("profile of plumb: {} and {}", self.profile, other.profile);
        let is_other = self.profile != other.profile;
        self.machine.difference(&other.machine).or_else(|| is_other.then_some(profiles))
    }

    /// Whether two runs are of one machine and by one profile of plumb.
    pub fn is_alike(&self, other: &Facts) -> bool {
        self.difference(other).is_none()
    }

    /// Whether it is a crosscheck's own record, which measured nothing.
    pub fn is_crosscheck(&self) -> bool {
        self.preset == CROSSCHECK
    }
}

/// What stands beside other tools, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Tools with which something was compared.
    pub tools: usize,
    /// Figures that were.
    pub compared: usize,
    /// Of these, those that missed their goal.
    pub missed: usize,
}

/// A figure, in the metric's unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Key.
    pub key: Key,
    /// Unit, direction and class of its metric.
    pub about: About,
    /// The estimate.
    pub value: f64,
    /// Its interval.
    pub ci: Option<(f64, f64)>,
    /// Its cycles, of a figure of the core.
    pub cycles: Option<f64>,
    /// The round values on which it rests.
    pub rounds: Vec<f64>,
}

/// What is to be known of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Unit of its values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Class.
    pub kind: Kind,
}

/// A record of the store as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Name in the store.
    pub name: String,
    /// Length of the record, in bytes.
    pub size_bytes: u64,
    /// What it is.
    pub state: State,
}

/// What a stored record is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It can be read, and no plumb is writing it.
    Readable(Box<Facts>),
    /// Another plumb is writing it; nothing of it is in the index.
    UnderWay,
    /// It cannot be read, and why.
    Unreadable(String),
}

/// A key with its metric, in an answer.
pub type Found = (Key, About);

/// An index all of whose rows are current.
pub struct Index<'open> {
    connection: &'open Connection,
}

impl Index<'_> {
    /// Every distinct key, in order.
    ///
    /// # Errors
    /// The index is damaged: it is then made again, and the question asked once more.
    pub fn keys(&self) -> Result<Vec<Found>, Error> {
        rows::keys(self.connection)
    }

    /// The figures of each of some keys, by the name of the stored run.
    ///
    /// # Errors
    /// As [`Index::keys`].
    pub fn of_keys(&self, keys: &[Found]) -> Result<Vec<BTreeMap<String, Row>>, Error> {
        rows::of_keys(self.connection, keys)
    }

    /// The figures of a stored run.
    ///
    /// # Errors
    /// As [`Index::keys`].
    pub fn of_run(&self, name: &str) -> Result<Vec<Row>, Error> {
        rows::of_run(self.connection, name)
    }
}

/// What an index is asked with, and what a record comes to.
pub struct Ask<'ask> {
    /// The store.
    pub store: &'ask Store,
    /// What the analysis is made of: rows of another one are stale.
    pub analysis: &'ask str,
    /// Reads and analyses a record; the reason where it cannot be read.
    pub read: &'ask dyn Fn(&Path) -> Result<Content, String>,
}

/// An answer, with messages for the user about the index.
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// Lines for the user.
    pub notes: Vec<String>,
}

impl Ask<'_> {
    /// Brings the index up to date with the records, reading those that are new or have changed,
    /// and asks it. The stored records are listed in the order of their [`Age`]: oldest first.
    ///
    /// # Errors
    /// The store cannot be listed, or not even an index in memory answers.
    pub fn answer<T>(
        &self,
        question: impl Fn(&Index<'_>, &[Stored]) -> Result<T, Error>,
    ) -> anyhow::Result<Answer<T>> {
        let mut notes = Vec::new();
        // SQLite follows no link at all.
        let dir = self.store.dir.canonicalize().ok().filter(|_| self.store.check_own().is_ok());
        let path = dir.map(|dir| dir.join(FILE));
        if let Some(path) = &path {
            match self.on_disk(path, &question, &mut notes)? {
                Ok(value) => return Ok(Answer { value, notes }),
                Err(refused) => notes.extend(refused.note(path)),
            }
        }
        // Where nothing can be taken over, every record is read.
        for kept in [path.as_deref(), None] {
            let mut connection = Connection::open_in_memory()?;
            rows::create(&mut connection)?;
            if let Some(path) = kept.filter(|path| whose(path).is_ok()) {
                let _ = rows::copy(&mut connection, path);
            }
            match self.current(&mut connection, &question, u32::MAX)? {
                Ok(value) => return Ok(Answer { value, notes }),
                Err(error) if kept.is_some() && is_damage(&error) => {}
                Err(error) => anyhow::bail!("the index of figures: {error}"),
            }
        }
        unreachable!("what has no file ends it")
    }

    /// Asks the index on disk; one that is damaged is made again, once.
    fn on_disk<T>(
        &self,
        path: &Path,
        question: &impl Fn(&Index<'_>, &[Stored]) -> Result<T, Error>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Result<T, Refused>> {
        let mut opened = open(path);
        for is_last in [false, true] {
            let mut connection = match opened {
                Ok(connection) => connection,
                Err(refused) => return Ok(Err(refused)),
            };
            match rows::prepare(&mut connection) {
                Ok(Prepared::Current) => {}
                Ok(Prepared::Newer) => return Ok(Err(Refused::Newer)),
                Ok(Prepared::Foreign) => {
                    return Ok(Err(Refused::foreign("it is not plumb's, or damaged")));
                }
                Err(error) if is_damage(&error) && !is_last => {
                    notes.push(damaged(path, &error));
                    opened = reset(connection);
                    continue;
                }
                Err(error) => return Ok(Err(Refused::Failed(error))),
            }
            match self.current(&mut connection, question, LOOKS)? {
                Ok(value) => return Ok(Ok(value)),
                Err(error) if is_damage(&error) && !is_last => {
                    notes.push(damaged(path, &error));
                    opened = reset(connection);
                }
                Err(error) => return Ok(Err(Refused::Failed(error))),
            }
        }
        unreachable!("the last turn returns")
    }

    /// Makes all rows current, then asks, both in one view of the index.
    fn current<T>(
        &self,
        connection: &mut Connection,
        question: &impl Fn(&Index<'_>, &[Stored]) -> Result<T, Error>,
        looks: u32,
    ) -> anyhow::Result<Result<T, Error>> {
        for _ in 0..looks {
            let listed = Listed::all(self.store)?;
            match self.look(connection, &listed, question) {
                Ok(Some(value)) => return Ok(Ok(value)),
                Ok(None) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        // Others keep changing it: as if they held it.
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        Ok(Err(Error::SqliteFailure(busy, None)))
    }

    /// The answer if all rows are current; else makes them so.
    fn look<T>(
        &self,
        connection: &mut Connection,
        listed: &[Listed],
        question: &impl Fn(&Index<'_>, &[Stored]) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let view = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let (mut stored, stale) = rows::compare(&view, listed, self.analysis)?;
        if stale.is_empty() {
            stored.sort_by_cached_key(|run| {
                let began = match &run.state {
                    State::Readable(facts) => Some(facts.started.clone()),
                    State::UnderWay | State::Unreadable(_) => began(&self.store.path(&run.name)),
                };
                Age::of(began.as_deref(), &run.name)
            });
            let index = Index { connection: &view };
            return question(&index, &stored).map(Some);
        }
        drop(view);
        for change in stale {
            match change {
                rows::Stale::Gone(name) => rows::remove(connection, &name, self.store)?,
                rows::Stale::Changed(record) => {
                    let content = (self.read)(&self.store.path(&record.name));
                    rows::put(connection, record, self.analysis, &content)?;
                }
            }
        }
        Ok(None)
    }
}

/// Why the index on disk is of no use.
enum Refused {
    /// It is not known to be plumb's, and why: it is left as it is.
    Foreign(String),
    /// A newer plumb made it.
    Newer,
    /// It cannot be opened or written.
    Failed(Error),
}

impl Refused {
    fn foreign(why: &str) -> Self {
        Refused::Foreign(format!("{why}; remove it, and plumb makes one"))
    }

    fn note(&self, path: &Path) -> Option<String> {
        let why = match self {
            Refused::Foreign(why) => why.clone(),
            Refused::Newer => "a newer plumb made it".to_owned(),
            // A store that may not be written is a choice, and the answer the same.
            Refused::Failed(error) if is_read_only(error) => return None,
            Refused::Failed(error) => error.to_string(),
        };
        Some(format!(
            "the index {} is not used ({why}); plumb read the records instead",
            path.display()
        ))
    }
}

/// Checks that a file, where there is one, may be an index of this user's. Errors: it is none.
fn whose(path: &Path) -> Result<(), Refused> {
    let Ok(facts) = path.symlink_metadata() else { return Ok(()) };
    match facts.is_file() {
        false => Err(Refused::foreign("it is not a file")),
        true => super::trust::others(&facts)
            .map_or(Ok(()), |why| Err(Refused::foreign(&format!("it {why}")))),
    }
}

fn open(path: &Path) -> Result<Connection, Refused> {
    whose(path)?;
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let opened = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        rows::harden(&connection)?;
        Ok(connection)
    };
    opened().map_err(Refused::Failed)
}

/// Empties an index, damaged or not, under SQLite's own locks: a file that was removed or renamed
/// while another process has it open would leave that one's journal to be taken for the new file's.
fn reset(connection: Connection) -> Result<Connection, Refused> {
    let all = |connection: &Connection| {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
        let emptied = connection.execute_batch("VACUUM");
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
        emptied
    };
    all(&connection).map_err(Refused::Failed)?;
    Ok(connection)
}

fn damaged(path: &Path, error: &Error) -> String {
    format!(
        "the index {} was damaged ({error}); plumb rebuilds it from the records",
        path.display()
    )
}

fn is_read_only(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    )
}

/// Whether an error says that what is in the index is not what was written there. All other
/// failures are those of the disk or of waiting, which making it again does not mend.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(failure, _) => matches!(
            failure.code,
            ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::ConstraintViolation
                // A table or column that is missing.
                | ErrorCode::Unknown
        ),
        Error::SqlInputError { .. }
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..)
        | Error::InvalidColumnType(..)
        | Error::InvalidColumnIndex(_)
        | Error::QueryReturnedNoRows => true,
        _ => false,
    }
}
