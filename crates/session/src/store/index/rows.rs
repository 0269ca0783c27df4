//! The tables of the index, and what goes into them and comes out.

use super::super::{Store, is_being_written};
use super::{About, Content, Facts, Found, Row, State, Stored, TABLES};
use anyhow::Context;
use record::key::Key;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Row as Line, TransactionBehavior, params};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A key is written once; its figures by key, then run: a trend reads one stretch.
const CREATE: &str = r#"
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    size_bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    analysis TEXT NOT NULL,
    facts TEXT,
    error TEXT
);
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    "case" TEXT NOT NULL,
    metric TEXT NOT NULL,
    about TEXT NOT NULL,
    UNIQUE (experiment, "case", metric, about)
);
CREATE TABLE figures (
    key INTEGER NOT NULL,
    run INTEGER NOT NULL,
    value REAL NOT NULL,
    low REAL,
    high REAL,
    rounds BLOB NOT NULL,
    PRIMARY KEY (key, run)
) WITHOUT ROWID;
CREATE INDEX figures_of_run ON figures (run);
"#;

const DROP: &str = "DROP TABLE IF EXISTS figures; DROP TABLE IF EXISTS keys; \
                    DROP TABLE IF EXISTS runs;";

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

/// Makes the tables of an older index, or of none, anew; `false` for those of a newer plumb.
pub(super) fn prepare(connection: &mut Connection) -> Result<bool, Error> {
    match version(connection)? {
        TABLES => Ok(true),
        newer if newer > TABLES => Ok(false),
        _ => create(connection).map(|()| true),
    }
}

fn version(connection: &Connection) -> Result<i64, Error> {
    connection.query_row("PRAGMA user_version", [], |line| line.get(0))
}

/// Makes the tables, empty; what another process has made meanwhile stays.
pub(super) fn create(connection: &mut Connection) -> Result<(), Error> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&change)? != TABLES {
        change.execute_batch(DROP)?;
        change.execute_batch(CREATE)?;
        change.pragma_update(None, "user_version", TABLES)?;
    }
    change.commit()
}

/// Takes over an index that can be read but not written. On an error nothing is taken.
pub(super) fn copy(connection: &mut Connection, from: &Path) -> Result<(), Error> {
    let uri = format!("file:{}?mode=ro", percent(from));
    let copied = (|| {
        connection.execute("ATTACH ?1 AS kept", [&uri])?;
        let version: i64 =
            connection.query_row("PRAGMA kept.user_version", [], |line| line.get(0))?;
        if version != TABLES {
            return Ok(());
        }
        let change = connection.transaction()?;
        for table in ["runs", "keys", "figures"] {
            change
                .execute_batch(&format!("INSERT INTO main.{table} SELECT * FROM kept.{table}"))?;
        }
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
    let mut query = connection
        .prepare("SELECT name, size_bytes, modified_ns, analysis, facts, error FROM runs")?;
    let lines = query.query_map([], |line| {
        let name: String = line.get(0)?;
        let of: (i64, i64, String) = (line.get(1)?, line.get(2)?, line.get(3)?);
        let facts: Option<String> = line.get(4)?;
        let error: Option<String> = line.get(5)?;
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
        remove_rows(&change, name)?;
    }
    change.commit()
}

fn remove_rows(connection: &Connection, name: &str) -> Result<(), Error> {
    connection
        .execute("DELETE FROM figures WHERE run = (SELECT id FROM runs WHERE name = ?1)", [name])?;
    connection.execute("DELETE FROM runs WHERE name = ?1", [name])?;
    Ok(())
}

/// Writes what a record says in place of what it said.
pub(super) fn put(
    connection: &mut Connection,
    record: &Listed,
    analysis: &str,
    content: &Result<Content, String>,
) -> Result<(), Error> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    remove_rows(&change, &record.name)?;
    let facts = content.as_ref().ok();
    let facts = facts.map(|content| text(&content.facts));
    change.execute(
        "INSERT INTO runs (name, size_bytes, modified_ns, analysis, facts, error) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            record.name,
            record.size_bytes,
            record.modified_ns,
            analysis,
            facts,
            content.as_ref().err()
        ],
    )?;
    let run = change.last_insert_rowid();
    if let Ok(content) = content {
        put_figures(&change, run, &content.figures)?;
    }
    change.commit()
}

fn put_figures(connection: &Connection, run: i64, rows: &[Row]) -> Result<(), Error> {
    let mut add_key = connection.prepare(
        "INSERT OR IGNORE INTO keys (experiment, \"case\", metric, about) \
         VALUES (?1, ?2, ?3, ?4)",
    )?;
    let mut find_key = connection.prepare(
        "SELECT id FROM keys \
         WHERE experiment = ?1 AND \"case\" = ?2 AND metric = ?3 AND about = ?4",
    )?;
    let mut add = connection.prepare(
        "INSERT OR REPLACE INTO figures (key, run, value, low, high, rounds) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for row in rows {
        let (about, case) = (text(&row.about), text(&row.key.case));
        let key = params![row.key.experiment, case, row.key.metric, about];
        add_key.execute(key)?;
        let id: i64 = find_key.query_row(key, |line| line.get(0))?;
        let rounds = row.rounds.iter().flat_map(|value| value.to_le_bytes());
        let rounds: Vec<u8> = rounds.collect();
        let (low, high) = row.ci.unzip();
        add.execute(params![id, run, row.value, low, high, rounds])?;
    }
    Ok(())
}

/// Every distinct key with its metric, in order.
pub(super) fn keys(connection: &Connection) -> Result<Vec<Found>, Error> {
    let mut query = connection.prepare(
        "SELECT experiment, \"case\", metric, about FROM keys \
         WHERE EXISTS (SELECT 1 FROM figures WHERE figures.key = keys.id)",
    )?;
    let lines = query.query_map([], |line| Ok((key(line)?, about(line)?)))?;
    let mut keys: Vec<Found> = lines.collect::<Result<_, _>>()?;
    keys.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(keys)
}

/// The figures of each of some keys, by the name of the run.
pub(super) fn of_keys(
    connection: &Connection,
    keys: &[Found],
) -> Result<Vec<BTreeMap<String, Row>>, Error> {
    let mut query = connection.prepare(
        "SELECT experiment, \"case\", metric, about, value, low, high, rounds, name \
         FROM keys JOIN figures ON figures.key = keys.id JOIN runs ON runs.id = figures.run \
         WHERE experiment = ?1 AND \"case\" = ?2 AND metric = ?3 AND about = ?4",
    )?;
    let mut of_key = |(of, metric): &Found| {
        let wanted = params![of.experiment, text(&of.case), of.metric, text(metric)];
        query.query_map(wanted, |line| Ok((line.get(8)?, row(line)?)))?.collect()
    };
    keys.iter().map(&mut of_key).collect()
}

/// The figures of a run, by key.
pub(super) fn of_run(connection: &Connection, name: &str) -> Result<Vec<Row>, Error> {
    let mut query = connection.prepare(
        "SELECT experiment, \"case\", metric, about, value, low, high, rounds \
         FROM runs JOIN figures ON figures.run = runs.id JOIN keys ON keys.id = figures.key \
         WHERE name = ?1",
    )?;
    let mut rows: Vec<Row> = query.query_map([name], row)?.collect::<Result<_, _>>()?;
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(rows)
}

fn row(line: &Line<'_>) -> Result<Row, Error> {
    let ci = match (line.get(5)?, line.get(6)?) {
        (Some(low), Some(high)) => Some((low, high)),
        _ => None,
    };
    let bytes: Vec<u8> = line.get(7)?;
    let (values, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        let reason = "its length is not a multiple of eight".into();
        return Err(Error::FromSqlConversionFailure(7, Type::Blob, reason));
    }
    Ok(Row {
        key: key(line)?,
        about: about(line)?,
        value: line.get(4)?,
        ci,
        rounds: values.iter().map(|value| f64::from_le_bytes(*value)).collect(),
    })
}

fn key(line: &Line<'_>) -> Result<Key, Error> {
    Ok(Key {
        experiment: line.get(0)?,
        case: parsed(1, &line.get::<_, String>(1)?)?,
        metric: line.get(2)?,
    })
}

fn about(line: &Line<'_>) -> Result<About, Error> {
    parsed(3, &line.get::<_, String>(3)?)
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers under texts are always JSON")
}

fn parsed<T: DeserializeOwned>(column: usize, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}
