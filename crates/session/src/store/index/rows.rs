//! The table of the index, and what goes into it and comes out.

use super::super::{Store, is_being_written};
use super::{
    APPLICATION, About, Content, Facts, Found, Index, Row, State, Stored, TABLES, is_damage,
};
use anyhow::Context;
use host::fnv1a;
use record::key::Key;
use rusqlite::config::DbConfig;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, Error, OpenFlags, TransactionBehavior, params, params_from_iter};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A line per record: every answer is looked for in all figures, or in those of one run.
const CREATE: &str = "
CREATE TABLE runs (
    name TEXT NOT NULL UNIQUE,
    size_bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    analysis TEXT NOT NULL,
    facts TEXT,
    error TEXT,
    -- How many figures it has, and a digest of them; and one of all of this.
    count INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    figures TEXT NOT NULL
);
";

/// Tables of this and of earlier versions.
const DROP: &str = "DROP TABLE IF EXISTS figures; DROP TABLE IF EXISTS keys; \
                    DROP TABLE IF EXISTS runs;";

/// Writes a line in place of the one of its name.
const PUT: &str = "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const COLUMNS: usize = 10;

/// A record of the store, with the facts that show whether it changed.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    size_bytes: i64,
    modified_ns: i64,
    is_being_written: bool,
}

impl Listed {
    /// All records of a store.
    pub(super) fn all(store: &Store) -> anyhow::Result<Vec<Self>> {
        let mut listed = Vec::new();
        for name in store.names()? {
            let path = store.path(&name);
            let facts = match path.metadata() {
                Ok(facts) => facts,
                // Deleted since it was listed.
                Err(_) if !path.exists() => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", path.display()));
                }
            };
            let modified = facts.modified().ok();
            let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            listed.push(Listed {
                name,
                size_bytes: i64::try_from(facts.len()).unwrap_or(i64::MAX),
                // A file without a time is identified by its size alone.
                modified_ns: since
                    .map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
                is_being_written: is_being_written(&path),
            });
        }
        Ok(listed)
    }
}

/// A row that is not as its record.
pub(super) enum Stale<'listed> {
    /// The record is gone, or being written.
    Gone(String),
    /// It is new, or another than it was.
    Changed(&'listed Listed),
}

/// What an index is.
pub(super) enum Prepared {
    /// Its tables are as they should be.
    Current,
    /// A newer plumb made it.
    Newer,
    /// It is somebody else's.
    Foreign,
}

/// Makes the tables of an older index, or of none, anew. Errors: those of SQLite; a schema that is
/// not what plumb made is damage.
pub(super) fn prepare(connection: &mut Connection) -> Result<Prepared, Error> {
    match pragma(connection, "application_id") {
        Ok(APPLICATION) => {}
        // There is nothing in it: SQLite makes a file before it writes in it.
        Ok(0) if is_empty(connection).unwrap_or(false) => {}
        Err(error) if !is_damage(&error) => return Err(error),
        Ok(_) | Err(_) => return Ok(Prepared::Foreign),
    }
    let version = pragma(connection, "user_version")?;
    if version > TABLES {
        return Ok(Prepared::Newer);
    }
    if version < TABLES {
        create(connection)?;
    }
    check_schema(connection)?;
    Ok(Prepared::Current)
}

/// Trusts nothing that the schema of a file says.
pub(super) fn harden(connection: &Connection) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(())
}

fn pragma(connection: &Connection, name: &str) -> Result<i64, Error> {
    connection.query_row(&format!("PRAGMA {name}"), [], |line| line.get(0))
}

fn is_empty(connection: &Connection) -> Result<bool, Error> {
    let tables = "SELECT count(*) FROM sqlite_schema";
    let count: i64 = connection.query_row(tables, [], |line| line.get(0))?;
    Ok(count == 0 && pragma(connection, "user_version")? == 0)
}

/// Makes the tables, empty; what another process has made meanwhile stays.
pub(super) fn create(connection: &mut Connection) -> Result<(), Error> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if pragma(&change, "user_version")? != TABLES {
        change.execute_batch(DROP)?;
        change.execute_batch(CREATE)?;
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", TABLES)?;
    }
    change.commit()
}

/// Checks that the table of a database is plumb's, and that there is nothing else in it.
fn check_schema(connection: &Connection) -> Result<(), Error> {
    let schema = |connection: &Connection| -> Result<Vec<[Option<String>; 3]>, Error> {
        let all = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name";
        let mut query = connection.prepare(all)?;
        let lines = query.query_map([], |line| Ok([line.get(0)?, line.get(1)?, line.get(2)?]))?;
        lines.collect()
    };
    let own = Connection::open_in_memory()?;
    own.execute_batch(CREATE)?;
    match schema(connection)? == schema(&own)? {
        true => Ok(()),
        false => Err(damage("its tables are not plumb's")),
    }
}

/// What is in the index is not what was written there.
fn damage(what: &'static str) -> Error {
    Error::FromSqlConversionFailure(0, Type::Null, what.into())
}

/// Takes over an index that can be read but not written. On an error nothing is taken.
pub(super) fn copy(connection: &mut Connection, from: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let kept = Connection::open_with_flags(from, flags)?;
    harden(&kept)?;
    let of = (pragma(&kept, "application_id")?, pragma(&kept, "user_version")?);
    if of != (APPLICATION, TABLES) {
        return Ok(());
    }
    check_schema(&kept)?;
    let mut query = kept.prepare("SELECT * FROM runs")?;
    let mut lines = query.query([])?;
    let change = connection.transaction()?;
    while let Some(line) = lines.next()? {
        let values = (0..COLUMNS).map(|at| line.get(at)).collect::<Result<Vec<Value>, _>>()?;
        change.execute(PUT, params_from_iter(values))?;
    }
    change.commit()
}

/// The records with what the index says of them, and what in it is not as they are.
pub(super) fn compare<'listed>(
    connection: &Connection,
    listed: &'listed [Listed],
    analysis: &str,
) -> Result<(Vec<Stored>, Vec<Stale<'listed>>), Error> {
    let mut query = connection.prepare(
        "SELECT name, size_bytes, modified_ns, analysis, facts, error, count, sum, digest FROM runs",
    )?;
    let lines = query.query_map([], |line| {
        let name: String = line.get(0)?;
        let of: (i64, i64, String) = (line.get(1)?, line.get(2)?, line.get(3)?);
        let facts: Option<String> = line.get(4)?;
        let error: Option<String> = line.get(5)?;
        let figures: (i64, i64) = (line.get(6)?, line.get(7)?);
        if line.get::<_, i64>(8)? != digest(&(&name, &of, &facts, &error, figures)) {
            return Err(damage("a run is not what was written"));
        }
        let state = match (facts, error) {
            (Some(facts), _) => State::Readable(Box::new(parsed::<Facts>(4, &facts)?)),
            (None, Some(error)) => State::Unreadable(error),
            (None, None) => return Err(Error::QueryReturnedNoRows),
        };
        Ok((name, (of, state)))
    })?;
    let mut kept = lines.collect::<Result<HashMap<_, _>, Error>>()?;
    let (mut stored, mut stale) = (Vec::new(), Vec::new());
    for record in listed.iter() {
        let size_bytes = u64::try_from(record.size_bytes).unwrap_or(0);
        let mut is = |state| {
            stored.push(Stored { name: record.name.clone(), size_bytes, state });
        };
        if record.is_being_written {
            // A row of it, from before it was resumed, is no longer wanted.
            is(State::UnderWay);
            continue;
        }
        match kept.remove(&record.name) {
            Some(((size, modified, by), state))
                if (size, modified, by.as_str())
                    == (record.size_bytes, record.modified_ns, analysis) =>
            {
                is(state);
            }
            _ => stale.push(Stale::Changed(record)),
        }
    }
    stale.extend(kept.into_keys().map(Stale::Gone));
    Ok((stored, stale))
}

/// Removes a run.
pub(super) fn remove(connection: &mut Connection, name: &str, store: &Store) -> Result<(), Error> {
    let path = store.path(name);
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // One that came since the records were listed stays.
    if !path.exists() || is_being_written(&path) {
        change.execute("DELETE FROM runs WHERE name = ?1", [name])?;
    }
    change.commit()
}

/// Writes what a record says in place of what it said.
pub(super) fn put(
    connection: &mut Connection,
    record: &Listed,
    analysis: &str,
    content: &Result<Content, String>,
) -> Result<(), Error> {
    let error = content.as_ref().err();
    let content = content.as_ref().ok();
    let facts = content.map(|content| text(&content.facts));
    // Of two figures of one key the last one stays.
    let rows = content.map_or(&[][..], |content| &content.figures);
    let rows: BTreeMap<&Key, &Row> = rows.iter().map(|row| (&row.key, row)).collect();
    let rows: Vec<Kept> = rows.into_values().map(kept).collect();
    let figures = text(&rows);
    let (count, sum) = counted(rows.len(), &figures);
    let of = (record.size_bytes, record.modified_ns, analysis);
    let digest = digest(&(&record.name, of, &facts, error, (count, sum)));
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let line = params![record.name, of.0, of.1, of.2, facts, error, count, sum, digest, figures];
    change.execute(PUT, line)?;
    change.commit()
}

/// A figure as the table has it: its numbers by their bits, which JSON keeps, whatever they are.
type Kept = (Key, About, u64, Option<[u64; 2]>, Vec<u64>);

fn kept(row: &Row) -> Kept {
    let ci = row.ci.map(|(low, high)| [low, high].map(f64::to_bits));
    let rounds = row.rounds.iter().map(|value| value.to_bits()).collect();
    (row.key.clone(), row.about, row.value.to_bits(), ci, rounds)
}

/// The figures of a run, by key.
fn rows_of(figures: &str) -> Result<Vec<Row>, Error> {
    let kept: Vec<Kept> = parsed(0, figures)?;
    let row = |(key, about, value, ci, rounds): Kept| Row {
        key,
        about,
        value: f64::from_bits(value),
        ci: ci.map(|ci| ci.map(f64::from_bits).into()),
        rounds: rounds.into_iter().map(f64::from_bits).collect(),
    };
    Ok(kept.into_iter().map(row).collect())
}

/// How many figures a text has, and its digest.
fn counted(count: usize, figures: &str) -> (i64, i64) {
    (i64::try_from(count).unwrap_or(i64::MAX), fnv1a(figures.as_bytes()).cast_signed())
}

impl Index<'_> {
    /// Every distinct key with its metric, in order. Errors: the index is damaged: it is then made
    /// again, and the question asked once more.
    pub fn keys(&self) -> Result<Vec<Found>, Error> {
        let mut all = HashSet::new();
        self.each(None, |_, rows| all.extend(rows.into_iter().map(|row| (row.key, row.about))))?;
        let mut keys: Vec<Found> = all.into_iter().collect();
        keys.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(keys)
    }

    /// The figures of each of some keys, by the name of the stored run. Errors: as
    /// [`Index::keys`].
    pub fn of_keys(&self, keys: &[Found]) -> Result<Vec<BTreeMap<String, Row>>, Error> {
        let places = keys.iter().enumerate().map(|(at, (key, about))| ((key, *about), at));
        let places: HashMap<(&Key, About), usize> = places.collect();
        let mut of_keys = vec![BTreeMap::new(); keys.len()];
        self.each(None, |run, rows| {
            for row in rows {
                if let Some(at) = places.get(&(&row.key, row.about)) {
                    of_keys[*at].insert(run.clone(), row);
                }
            }
        })?;
        Ok(of_keys)
    }

    /// The figures of a stored run, by key. Errors: as [`Index::keys`].
    pub fn of_run(&self, name: &str) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        self.each(Some(name), |_, of_run| rows = of_run)?;
        Ok(rows)
    }

    /// The figures of each run, or those of one, with the run's name, once they are found to be as
    /// they were written.
    fn each(&self, run: Option<&str>, mut take: impl FnMut(String, Vec<Row>)) -> Result<(), Error> {
        // Not by the index of names, which may be damaged: as they are compared with the records.
        let of = run.map_or("", |_| "WHERE +name = ?1");
        let all = format!("SELECT name, figures, count, sum FROM runs {of}");
        let mut query = self.connection.prepare(&all)?;
        let mut lines = query.query(params_from_iter(run))?;
        while let Some(line) = lines.next()? {
            let figures: String = line.get(1)?;
            let rows = rows_of(&figures)?;
            if counted(rows.len(), &figures) != (line.get(2)?, line.get(3)?) {
                return Err(damage("the figures of a run are not what was written"));
            }
            take(line.get(0)?, rows);
        }
        Ok(())
    }
}

/// A digest of what JSON has.
fn digest(value: &impl serde::Serialize) -> i64 {
    fnv1a(text(value).as_bytes()).cast_signed()
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers under texts are always JSON")
}

fn parsed<T: DeserializeOwned>(column: usize, text: &str) -> Result<T, Error> {
    serde_json::from_slice(text.as_bytes())
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}
