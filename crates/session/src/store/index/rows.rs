//! The tables of the index, and what goes into them and comes out.

use super::super::{Store, is_being_written};
use super::{
    APPLICATION, About, Content, Facts, Found, Index, Refused, Row, State, Stored, TABLES,
    is_damage,
};
use anyhow::Context;
use host::fnv1a;
use record::key::Key;
use record::order::InOrder;
use rusqlite::config::DbConfig;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, TransactionBehavior, params, params_from_iter};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A run is one row: every question but that of a single run is about all figures.
const CREATE: &str = r#"
CREATE TABLE runs (
    name TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    analysis TEXT NOT NULL,
    facts TEXT,
    error TEXT,
    -- A digest of its figures, and one of all of this.
    checked INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    -- The last column: a list of runs does not read it.
    figures TEXT NOT NULL
);
"#;

const DROP: &str = "DROP TABLE IF EXISTS figures; DROP TABLE IF EXISTS keys; \
                    DROP TABLE IF EXISTS runs;";

const REMOVE: &str = "DELETE FROM runs WHERE name = ?1";

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

/// Makes the tables of an older index, or of none, anew. Errors: it is not for this plumb; those of
/// SQLite; a schema that is not what plumb made is damage.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), Refused> {
    match pragma(connection, "application_id") {
        Ok(APPLICATION) => {}
        // There is nothing in it: SQLite makes a file before it writes in it.
        Ok(0) if is_empty(connection).unwrap_or(false) => {}
        Err(error) if !is_damage(&error) => return Err(error.into()),
        Ok(_) | Err(_) => return Err(Refused::Foreign("it is not plumb's, or damaged".to_owned())),
    }
    match pragma(connection, "user_version")? {
        ..TABLES => create(connection)?,
        TABLES => {}
        _ => return Err(Refused::Newer),
    }
    Ok(check_schema(connection, "main")?)
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

/// Checks that the tables of a database are plumb's, and that there is nothing else in it.
fn check_schema(connection: &Connection, name: &str) -> Result<(), Error> {
    let schema = |connection: &Connection, name: &str| -> Result<Vec<[Option<String>; 3]>, Error> {
        let mut query = connection.prepare(&format!(
            "SELECT type, name, sql FROM {name}.sqlite_schema ORDER BY type, name"
        ))?;
        let lines = query.query_map([], |line| Ok([line.get(0)?, line.get(1)?, line.get(2)?]))?;
        lines.collect()
    };
    let own = Connection::open_in_memory()?;
    own.execute_batch(CREATE)?;
    match schema(connection, name)? == schema(&own, "main")? {
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
    let uri = format!("file:{}?mode=ro", percent(from));
    let copied = (|| {
        connection.execute("ATTACH ?1 AS kept", [&uri])?;
        let of_plumb = [("application_id", APPLICATION), ("user_version", TABLES)];
        for (name, value) in of_plumb {
            if pragma(connection, &format!("kept.{name}"))? != value {
                return Ok(());
            }
        }
        check_schema(connection, "kept")?;
        let change = connection.transaction()?;
        change.execute_batch("INSERT INTO main.runs SELECT * FROM kept.runs")?;
        change.commit()
    })();
    // Where it was never attached there is nothing to let go of.
    let _ = connection.execute_batch("DETACH kept");
    copied
}

/// A path in a URI of SQLite.
fn percent(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let letters = path.as_os_str().as_bytes().iter().map(|&byte| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    letters.collect()
}

/// The records with what the index says of them, and what in it is not as they are.
pub(super) fn compare<'listed>(
    connection: &Connection,
    listed: &'listed [Listed],
    analysis: &str,
) -> Result<(Vec<Stored>, Vec<Stale<'listed>>), Error> {
    let mut query = connection.prepare(
        "SELECT name, size_bytes, modified_ns, analysis, facts, error, checked, digest FROM runs",
    )?;
    let lines = query.query_map([], |line| {
        let name: String = line.get(0)?;
        let of: (i64, i64, String) = (line.get(1)?, line.get(2)?, line.get(3)?);
        let facts: Option<String> = line.get(4)?;
        let error: Option<String> = line.get(5)?;
        let checked: i64 = line.get(6)?;
        if line.get::<_, i64>(7)? != digest(&(&name, &of, &facts, &error, checked)) {
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
        change.execute(REMOVE, [name])?;
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
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    change.execute(REMOVE, [&record.name])?;
    let error = content.as_ref().err();
    let content = content.as_ref().ok();
    let facts = content.map(|content| text(&content.facts));
    let figures = text(&content.map_or_else(Vec::new, |content| kept(&content.figures)));
    let checked = fnv1a(figures.as_bytes()).cast_signed();
    let of = (record.size_bytes, record.modified_ns, analysis);
    let digest = digest(&(&record.name, of, &facts, error, checked));
    change.execute(
        "INSERT INTO runs (name, size_bytes, modified_ns, analysis, facts, error, checked, \
         digest, figures) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![record.name, of.0, of.1, of.2, facts, error, checked, digest, figures],
    )?;
    change.commit()
}

/// A figure as the tables have it: numbers are their bits, since JSON has not all of them.
type Kept = (Key, About, u64, Option<(u64, u64)>, Vec<u64>);

/// Of two figures of one key the last one stays.
fn kept(rows: &[Row]) -> Vec<Kept> {
    let mut seen = HashSet::new();
    let last = rows.iter().rev().filter(|row| seen.insert((&row.key, row.about)));
    last.map(|row| {
        let ci = row.ci.filter(|(low, high)| !low.is_nan() && !high.is_nan());
        let ci = ci.map(|(low, high)| (low.to_bits(), high.to_bits()));
        let rounds = row.rounds.iter().map(|value| value.to_bits()).collect();
        (row.key.clone(), row.about, row.value.to_bits(), ci, rounds)
    })
    .collect()
}

fn row((key, about, value, ci, rounds): Kept) -> Row {
    Row {
        key,
        about,
        value: f64::from_bits(value),
        ci: ci.map(|(low, high)| (f64::from_bits(low), f64::from_bits(high))),
        rounds: rounds.into_iter().map(f64::from_bits).collect(),
    }
}

/// All figures, or those of a run, with the run's name. Errors: also figures that are not as they
/// were written.
fn each(
    connection: &Connection,
    run: Option<&str>,
    mut take: impl FnMut(&str, Row),
) -> Result<(), Error> {
    let of = run.map_or("", |_| "WHERE name = ?1");
    let mut query = connection.prepare(&format!("SELECT name, checked, figures FROM runs {of}"))?;
    let mut lines = query.query(params_from_iter(run))?;
    while let Some(line) = lines.next()? {
        let (name, figures): (String, String) = (line.get(0)?, line.get(2)?);
        if line.get::<_, i64>(1)? != fnv1a(figures.as_bytes()).cast_signed() {
            return Err(damage("the figures of a run are not what was written"));
        }
        for figure in parsed::<Vec<Kept>>(2, &figures)? {
            take(&name, row(figure));
        }
    }
    Ok(())
}

/// All errors say that the index is damaged: it is then made again, and the question asked once
/// more.
impl Index<'_> {
    /// Every distinct key, in order.
    pub fn keys(&self) -> Result<Vec<Found>, Error> {
        let mut all: HashSet<Found> = HashSet::new();
        each(self.connection, None, |_, row| {
            all.insert((row.key, row.about));
        })?;
        let mut keys: Vec<Found> = all.into_iter().collect();
        keys.order_by(|one, other| one.0.cmp(&other.0));
        Ok(keys)
    }

    /// The figures of each of some keys, by the name of the stored run.
    pub fn of_keys(&self, keys: &[Found]) -> Result<Vec<BTreeMap<String, Row>>, Error> {
        let places: HashMap<&Found, usize> = keys.iter().zip(0..).collect();
        let mut of_keys = vec![BTreeMap::new(); keys.len()];
        each(self.connection, None, |run, row| {
            if let Some(at) = places.get(&(row.key.clone(), row.about)) {
                of_keys[*at].insert(run.to_owned(), row);
            }
        })?;
        Ok(of_keys)
    }

    /// The figures of a stored run, by key.
    pub fn of_run(&self, name: &str) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        each(self.connection, Some(name), |_, row| rows.push(row))?;
        rows.order_by(|one, other| one.key.cmp(&other.key));
        Ok(rows)
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
