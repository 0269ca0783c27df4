//! Runs and sweeps as tables for databases: CSV files, the schema and load script of PostgreSQL, and
//! views of DuckDB over the same files (docs/TEAM.md). Each table is one list of columns here; what
//! creates, fills and describes it is made from that list.

pub mod run;
pub mod sql;
pub mod sweep;
#[cfg(test)]
mod tests;

use record::order::Gather;
use record::plain::lines;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Version of the tables. Another version is refused by `schema.sql` and `load.sql`.
pub const VERSION: u32 = 1;

/// All tables, each after the one that it belongs to.
pub const TABLES: [&Table; 10] = [
    &run::RUN,
    &run::FIGURE,
    &run::ABSENT,
    &run::FINDING,
    &sweep::SWEEP,
    &sweep::NODE,
    &sweep::FIGURE,
    &sweep::PAIR,
    &sweep::ABSENT,
    &sweep::VERDICT,
];

/// A table.
pub struct Table {
    /// Its name in the schema `plumb`, and that of its CSV file.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// The columns, in the order of the file.
    pub columns: &'static [Column],
    /// The columns that identify a row.
    pub key: &'static [&'static str],
    /// The table that a row belongs to: `run` or `sweep`, whose `id` is in the column of that name;
    /// none for these two.
    pub root: Option<&'static str>,
    /// Columns by which teams look for rows.
    pub indexes: &'static [&'static [&'static str]],
}

/// A column.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub holds: Type,
    /// Whether every row has it.
    pub is_required: bool,
    /// What it means.
    pub about: &'static str,
    /// Where it stands in the object of a row, as a JSON pointer; empty stands for `/NAME`.
    at: &'static str,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A text.
    Text,
    /// A whole number of 64 bits with its sign.
    Integer,
    /// A number of double precision.
    Real,
    /// True or false.
    Flag,
    /// A time in UTC.
    Time,
    /// A JSON value.
    Json,
}

impl Table {
    /// Name of its CSV file.
    pub fn file(&self) -> String {
        format!("{}.csv", self.name)
    }
}

impl Column {
    /// The same, and every row has it.
    const fn required(self) -> Column {
        Column { is_required: true, ..self }
    }

    /// The same from another place in the object of a row.
    const fn at(self, at: &'static str) -> Column {
        Column { at, ..self }
    }

    /// The cell of a row's object. A value of another type counts as absent: one odd value must not
    /// keep a whole file from being loaded.
    fn cell(&self, row: &Value) -> String {
        let value = match self.at {
            "" => row.get(self.name),
            at => row.pointer(at),
        };
        let value = value.unwrap_or(&Value::Null);
        let cell = match self.holds {
            Type::Text => value.as_str().map(quoted),
            Type::Integer => value.as_i64().map(|whole| whole.to_string()),
            Type::Real => value.as_f64().map(|_| value.to_string()),
            Type::Flag => value.as_bool().map(|flag| flag.to_string()),
            Type::Time => value.as_str().and_then(time),
            Type::Json if value.is_null() => None,
            Type::Json => Some(quoted(&plain(value).to_string())),
        };
        match (cell, self.is_required, self.holds) {
            (Some(cell), _, _) => cell,
            (None, true, Type::Text) => quoted(""),
            (None, true, Type::Json) => quoted("{}"),
            (None, _, _) => String::new(),
        }
    }
}

/// Makes columns of each type.
macro_rules! columns {
    ($($make:ident $holds:ident),*) => {
        $(const fn $make(name: &'static str, about: &'static str) -> Column {
            Column { name, holds: Type::$holds, is_required: false, about, at: "" }
        })*
    };
}

columns! { text Text, integer Integer, real Real, flag Flag, time_of Time, json Json }

const EXPERIMENT: &str = "experiment, for example memory.latency";
const PARAMS: &str = "parameters of the case, as name=value joined by commas";
const PARAMS_JSON: &str = "the same as an object: params_json ->> 'level'";

/// A text in quotes, so that an empty one is no absent one. A backslash stands before a quote and
/// before a backslash: psql before version 18 takes a line of `\.` for the end of the file, even
/// within quotes.
fn quoted(text: &str) -> String {
    let text = lines(text).replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// A time as both databases read it; none if the text is no time.
fn time(text: &str) -> Option<String> {
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

/// The value with a space for each character in its texts that steers what shows it; PostgreSQL's
/// `jsonb` cannot hold the character 0.
fn plain(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(lines(text)),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (lines(name), plain(value)));
            Value::Object(fields.gather())
        }
        other => other.clone(),
    }
}

/// Sixteen hexadecimal digits that identify what these texts name.
fn digest(texts: &[&str]) -> String {
    let digest = Sha256::digest(texts.join("\n"));
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The files of all tables while they are written.
pub struct Writer<Out> {
    files: Vec<Out>,
    rows: [usize; TABLES.len()],
    ids: BTreeSet<String>,
}

impl<Out: Write> Writer<Out> {
    /// Begins the files of [`TABLES`], in that order. Errors: what writing reports.
    pub fn begin(mut files: Vec<Out>) -> io::Result<Writer<Out>> {
        for (file, table) in files.iter_mut().zip(TABLES) {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).gather();
            writeln!(file, "{}", names.join(","))?;
        }
        Ok(Writer { files, rows: [0; TABLES.len()], ids: BTreeSet::new() })
    }

    /// Whether no run and no sweep with this identity was written yet.
    fn is_new(&mut self, id: &Value) -> bool {
        self.ids.insert(id.to_string())
    }

    /// Writes one row of a table from its object. Errors: what writing reports.
    pub fn push(&mut self, table: &Table, row: &Value) -> io::Result<()> {
        let cells: Vec<String> = table.columns.iter().map(|column| column.cell(row)).collect();
        for (at, _) in TABLES.iter().enumerate().filter(|(_, of)| of.name == table.name) {
            writeln!(self.files[at], "{}", cells.join(","))?;
            self.rows[at] += 1;
        }
        Ok(())
    }

    /// Ends the files, and gives the number of rows of each. Errors: what writing reports.
    pub fn end(mut self) -> io::Result<[usize; TABLES.len()]> {
        self.files.iter_mut().try_for_each(Write::flush)?;
        Ok(self.rows)
    }
}
