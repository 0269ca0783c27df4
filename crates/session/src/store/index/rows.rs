//! The tables of the index, and what goes into them and comes out.

use super::super::{Store, is_being_written};
use super::{APPLICATION, About, Content, Facts, Found, Row, State, Stored, TABLES, is_damage};
use anyhow::Context;
use host::fnv1a;
use record::key::Key;
use record::order::{Gather, InOrder};
use rusqlite::config::DbConfig;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Row as Line, TransactionBehavior, params, params_from_iter};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap, HashSet};
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
    error TEXT,
    -- Its figures: how many, and the sum of their digests; and a digest of all of this.
    count INTEGER NOT NULL,
    figures INTEGER NOT NULL,
    digest INTEGER NOT NULL
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
    cycles REAL,
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
    match application(connection) {
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
    check_schema(connection, "main")?;
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

fn application(connection: &Connection) -> Result<i64, Error> {
    pragma(connection, "application_id")
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
    let mut query = connection.prepare(
        "SELECT name, size_bytes, modified_ns, analysis, facts, error, count, figures, digest FROM runs",
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
    let error = content.as_ref().err();
    let content = content.as_ref().ok();
    let facts = content.map(|content| text(&content.facts));
    // Of two figures of one key the last one stays.
    let rows = content.map_or(&[][..], |content| &content.figures);
    let figures: BTreeMap<_, _> = rows.iter().map(Figure::of).gather();
    let (count, sum) = figures.iter().fold((0, 0), |sum, (key, figure)| figure.counted(key, sum));
    let of = (record.size_bytes, record.modified_ns, analysis);
    let digest = digest(&(&record.name, of, &facts, error, (count, sum)));
    change.execute(
        "INSERT INTO runs (name, size_bytes, modified_ns, analysis, facts, error, count, figures, \
         digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![record.name, of.0, of.1, of.2, facts, error, count, sum, digest],
    )?;
    put_figures(&change, change.last_insert_rowid(), &figures)?;
    change.commit()
}

/// A key in the tables: experiment, case, metric, and what is to be known of it.
type KeyTexts = [String; 4];

fn texts(key: &Key, metric: &About) -> KeyTexts {
    [key.experiment.clone(), text(&key.case), key.metric.clone(), text(metric)]
}

fn found([experiment, case, metric, about]: &KeyTexts) -> Result<Found, Error> {
    let (experiment, metric) = (experiment.clone(), metric.clone());
    Ok((Key { experiment, case: parsed(1, case)?, metric }, parsed(3, about)?))
}

/// A figure as the tables have it.
struct Figure {
    value: f64,
    ci: Option<(f64, f64)>,
    cycles: Option<f64>,
    rounds: Vec<u8>,
}

impl Figure {
    fn of(row: &Row) -> (KeyTexts, Self) {
        let figure = Figure {
            value: row.value,
            // SQLite has no such number.
            ci: row.ci.filter(|(low, high)| !low.is_nan() && !high.is_nan()),
            cycles: row.cycles,
            rounds: row.rounds.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        (texts(&row.key, &row.about), figure)
    }

    fn read(line: &Line<'_>) -> Result<(KeyTexts, Self), Error> {
        let figure = Figure {
            value: line.get(4)?,
            ci: line.get::<_, Option<f64>>(5)?.zip(line.get(6)?),
            cycles: line.get(7)?,
            rounds: line.get(8)?,
        };
        Ok(([line.get(0)?, line.get(1)?, line.get(2)?, line.get(3)?], figure))
    }

    fn row(&self, key: &KeyTexts) -> Result<Row, Error> {
        let (values, rest) = self.rounds.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(damage("its length is not a multiple of eight"));
        }
        let (key, about) = found(key)?;
        let rounds = values.iter().map(|value| f64::from_le_bytes(*value)).collect();
        Ok(Row { key, about, value: self.value, ci: self.ci, cycles: self.cycles, rounds })
    }

    /// The count and the digests of figures, in any order, with this one.
    fn counted(&self, key: &KeyTexts, (count, sum): (i64, i64)) -> (i64, i64) {
        let ci = self.ci.unzip();
        let numbers = [Some(self.value), ci.0, ci.1, self.cycles];
        let mut bytes = key.join("\0").into_bytes();
        for number in numbers {
            // SQLite keeps no sign of a zero.
            bytes.extend(number.map_or([0xff; 8], |number| (number + 0.0).to_le_bytes()));
        }
        bytes.extend(&self.rounds);
        (count + 1, sum.wrapping_add(fnv1a(&bytes).cast_signed()))
    }
}

fn put_figures(
    connection: &Connection,
    run: i64,
    figures: &BTreeMap<KeyTexts, Figure>,
) -> Result<(), Error> {
    let mut add_key = connection.prepare(
        "INSERT OR IGNORE INTO keys (experiment, \"case\", metric, about) \
         VALUES (?1, ?2, ?3, ?4)",
    )?;
    let mut find_key = connection.prepare(
        "SELECT id FROM keys \
         WHERE experiment = ?1 AND \"case\" = ?2 AND metric = ?3 AND about = ?4",
    )?;
    let mut add = connection.prepare(
        "INSERT INTO figures (key, run, value, low, high, cycles, rounds) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (key, figure) in figures {
        add_key.execute(params_from_iter(key))?;
        let id: i64 = find_key.query_row(params_from_iter(key), |line| line.get(0))?;
        let (low, high) = figure.ci.unzip();
        add.execute(params![id, run, figure.value, low, high, figure.cycles, figure.rounds])?;
    }
    Ok(())
}

/// All figures, or those of a run, with the run's name; then checks for each run that they were
/// all it has, and as they were written.
fn each(
    connection: &Connection,
    run: Option<&str>,
    mut take: impl FnMut(&str, &KeyTexts, &Figure) -> Result<(), Error>,
) -> Result<(), Error> {
    // Not by the index of names, which may be damaged: as they are compared with the records.
    let of = run.map_or("", |_| "WHERE +name = ?1");
    let mut sums: HashMap<String, (i64, i64)> = HashMap::new();
    let mut query = connection.prepare(&format!(
        "SELECT experiment, \"case\", metric, about, value, low, high, cycles, rounds, name FROM figures \
         JOIN keys ON keys.id = figures.key JOIN runs ON runs.id = figures.run {of}"
    ))?;
    let mut lines = query.query(params_from_iter(run))?;
    while let Some(line) = lines.next()? {
        let (key, figure) = Figure::read(line)?;
        let name: String = line.get(9)?;
        take(&name, &key, &figure)?;
        let sum = sums.entry(name).or_default();
        *sum = figure.counted(&key, *sum);
    }
    let mut query = connection.prepare(&format!("SELECT name, count, figures FROM runs {of}"))?;
    let mut lines = query.query(params_from_iter(run))?;
    while let Some(line) = lines.next()? {
        let sum = sums.remove(&line.get::<_, String>(0)?).unwrap_or_default();
        if sum != (line.get(1)?, line.get(2)?) {
            return Err(damage("the figures of a run are not what was written"));
        }
    }
    Ok(())
}

/// Every distinct key with its metric, in order.
pub(super) fn keys(connection: &Connection) -> Result<Vec<Found>, Error> {
    let mut all: HashSet<KeyTexts> = HashSet::new();
    each(connection, None, |_, key, _| {
        if !all.contains(key) {
            all.insert(key.clone());
        }
        Ok(())
    })?;
    let mut keys: Vec<Found> = all.iter().map(found).collect::<Result<_, _>>()?;
    keys.order_by(|one, other| one.0.cmp(&other.0));
    Ok(keys)
}

/// The figures of each of some keys, by the name of the run.
pub(super) fn of_keys(
    connection: &Connection,
    keys: &[Found],
) -> Result<Vec<BTreeMap<String, Row>>, Error> {
    let places = keys.iter().enumerate().map(|(at, (key, metric))| (texts(key, metric), at));
    let places: HashMap<KeyTexts, usize> = places.collect();
    let mut of_keys = vec![BTreeMap::new(); keys.len()];
    each(connection, None, |run, key, figure| {
        if let Some(at) = places.get(key) {
            of_keys[*at].insert(run.to_owned(), figure.row(key)?);
        }
        Ok(())
    })?;
    Ok(of_keys)
}

/// The figures of a run, by key.
pub(super) fn of_run(connection: &Connection, name: &str) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    each(connection, Some(name), |_, key, figure| {
        rows.push(figure.row(key)?);
        Ok(())
    })?;
    rows.order_by(|one, other| one.key.cmp(&other.key));
    Ok(rows)
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
