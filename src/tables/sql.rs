//! What the databases run: the schema and the load script of PostgreSQL, the views of DuckDB.

use super::{Column, TABLES, Table, Type, VERSION};

/// Views that both databases have, in the SQL that both read.
const VIEWS: &str = include_str!("views.sql");

/// What the views are, for PostgreSQL's comments.
const ABOUT_VIEWS: [(&str, &str); 2] = [
    ("history", "Every measured value of runs and of sweeps, with its node and time"),
    (
        "peer_ratio",
        "Values of nodes beside the median of their peers (same stratum): times_slower above 1 is slower",
    ),
];

/// The first line of each of these files: an export replaces files of an earlier one only.
pub const MARK: &str = "-- plumb: tables of runs and sweeps";

/// `schema.sql` of PostgreSQL: makes the tables, and refuses those of another version.
pub fn schema() -> String {
    let mut sql = format!(
        "{MARK}, version {VERSION}, for PostgreSQL 12 or later. Run it once:\n\
         --   psql -f schema.sql\n\
         -- A second time it changes nothing. docs/TEAM.md explains the tables.\n\
         \\set ON_ERROR_STOP on\n\\encoding UTF8\nBEGIN;\nSET LOCAL client_min_messages = warning;\n{}",
        guard(&format!(
            "    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('plumb')) THEN\n{}    \
             END IF;\n    RETURN;\n",
            raise(
                "'plumb: the schema plumb has tables of something else'",
                "Rename that schema, or use another database."
            )
        ))
    );
    sql.push_str(
        "CREATE SCHEMA IF NOT EXISTS plumb;\n\
         CREATE TABLE IF NOT EXISTS plumb.schema_version (\n  version integer PRIMARY KEY,\n  \
         installed timestamptz NOT NULL DEFAULT now()\n);\n",
    );
    sql.push_str(&format!(
        "INSERT INTO plumb.schema_version (version) VALUES ({VERSION}) ON CONFLICT DO NOTHING;\n\
         COMMENT ON TABLE plumb.schema_version IS 'Version of these tables';\n"
    ));
    for table in TABLES {
        sql.push_str(&create(table));
    }
    sql.push_str(&format!("\n{VIEWS}"));
    for (view, about) in ABOUT_VIEWS {
        sql.push_str(&format!("COMMENT ON VIEW plumb.{view} IS {};\n", literal(about)));
    }
    sql.push_str("COMMIT;\n");
    sql
}

/// `load.sql` of PostgreSQL: takes the CSV files of its directory into the tables. What is there
/// already stays; a later state of a run or sweep replaces the earlier one.
pub fn load() -> String {
    let mut sql = format!(
        "{MARK}, version {VERSION}. In the directory of the CSV files:\n\
         --   psql -f load.sql\n\
         -- A second time it changes nothing. A run or sweep whose record has grown since replaces its earlier state.\n\
         \\set ON_ERROR_STOP on\n\\encoding UTF8\nBEGIN;\nSET LOCAL client_min_messages = warning;\n{}\
         LOCK TABLE plumb.run, plumb.sweep IN SHARE ROW EXCLUSIVE MODE;\n",
        guard(&raise(
            "'plumb: this database has no tables of plumb'",
            "Run psql -f schema.sql first."
        ))
    );
    for table in TABLES {
        let name = table.name;
        sql.push_str(&format!(
            "\nCREATE TEMP TABLE new_{name} (LIKE plumb.{name}) ON COMMIT DROP;\n\
             \\copy new_{name} ({}) FROM '{}' WITH (FORMAT csv, HEADER, ESCAPE '\\')\n",
            names(table),
            table.file(),
        ));
        match table.root {
            None => sql.push_str(&format!(
                "DELETE FROM plumb.{name} AS known USING new_{name} AS fresh WHERE known.id = fresh.id AND known.bytes < fresh.bytes;\n\
                 DELETE FROM new_{name} AS fresh USING plumb.{name} AS known WHERE known.id = fresh.id;\n\
                 INSERT INTO plumb.{name} SELECT * FROM new_{name} ON CONFLICT DO NOTHING;\n"
            )),
            Some(root) => sql.push_str(&format!(
                "INSERT INTO plumb.{name} SELECT fresh.* FROM new_{name} AS fresh JOIN new_{root} AS root ON root.id = fresh.{root}\n  \
                 ON CONFLICT DO NOTHING;\n"
            )),
        }
    }
    sql.push_str("COMMIT;\n");
    sql
}

/// `duckdb.sql`: views over the CSV files of the current directory.
pub fn duckdb() -> String {
    let mut sql = format!(
        "{MARK}, version {VERSION}, for DuckDB 1.0 or later. In the directory of the CSV files:\n\
         --   duckdb -init duckdb.sql\n\
         -- It reads the files whenever a query does.\n\
         CREATE SCHEMA IF NOT EXISTS plumb;\n"
    );
    for table in TABLES {
        let columns = table
            .columns
            .iter()
            .map(|column| format!("    '{}': '{}'", column.name, duckdb_type(column.holds)));
        sql.push_str(&format!(
            "\n-- {}.\nCREATE OR REPLACE VIEW plumb.{} AS SELECT * FROM read_csv('{}', header = true, delim = ',', quote = '\"',\n  \
             escape = '\\', nullstr = '', allow_quoted_nulls = false, auto_detect = false, columns = {{\n{}\n  }});\n",
            table.about,
            table.name,
            table.file(),
            columns.collect::<Vec<_>>().join(",\n")
        ));
    }
    sql.push_str(&format!("\n{VIEWS}"));
    sql
}

/// The tables and views with their columns, as Markdown for docs/TEAM.md.
#[cfg(test)]
pub fn described() -> String {
    let mut text = String::new();
    for table in TABLES {
        text.push_str(&format!(
            "\n### {}\n\n{}. Key: {}.\n\n",
            table.name,
            table.about,
            table.key.join(", ")
        ));
        text.push_str("| column | type | meaning |\n|---|---|---|\n");
        for column in table.columns {
            let of = postgresql_type(column.holds);
            text.push_str(&format!("| `{}` | {of} | {} |\n", column.name, column.about));
        }
    }
    text
}

fn create(table: &Table) -> String {
    let name = table.name;
    let width = table.columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
    let columns = table.columns.iter().map(|Column { name, holds, is_required, .. }| {
        let required = if *is_required { " NOT NULL" } else { "" };
        format!("  {name:<width$} {}{required},\n", postgresql_type(*holds))
    });
    let mut sql =
        format!("\nCREATE TABLE IF NOT EXISTS plumb.{name} (\n{}", columns.collect::<String>());
    if let Some(root) = table.root {
        sql.push_str(&format!(
            "  FOREIGN KEY ({root}) REFERENCES plumb.{root} (id) ON DELETE CASCADE,\n"
        ));
    }
    sql.push_str(&format!("  PRIMARY KEY ({})\n);\n", table.key.join(", ")));
    for columns in table.indexes {
        let index = format!("{name}_{}", columns.join("_"));
        let columns = columns.join(", ");
        sql.push_str(&format!("CREATE INDEX IF NOT EXISTS {index} ON plumb.{name} ({columns});\n"));
    }
    sql.push_str(&format!("COMMENT ON TABLE plumb.{name} IS {};\n", literal(table.about)));
    for column in table.columns {
        let about = literal(column.about);
        sql.push_str(&format!("COMMENT ON COLUMN plumb.{name}.{} IS {about};\n", column.name));
    }
    sql
}

/// Stops a script at tables of another version; `absent` is what it does without tables.
fn guard(absent: &str) -> String {
    let older = raise(
        &format!(
            "format('plumb: the tables have version %s, this export has version {VERSION}', coalesce(found::text, 'unknown'))"
        ),
        &format!(
            "Tables of an older version are not changed. Keep them under another name: ALTER SCHEMA plumb RENAME TO plumb_old; \
             then run schema.sql and load an export of all runs, which their records still have. Tables of a version above {VERSION} \
             need an export by a newer plumb."
        ),
    );
    format!(
        "DO $$\nDECLARE found integer;\nBEGIN\n  IF to_regclass('plumb.schema_version') IS NULL THEN\n{absent}  END IF;\n  \
         EXECUTE 'SELECT max(version) FROM plumb.schema_version' INTO found;\n  \
         IF found IS DISTINCT FROM {VERSION} THEN\n{older}  END IF;\nEND $$;\n"
    )
}

/// An error, its message as an expression, with the way out.
fn raise(message: &str, hint: &str) -> String {
    format!("    RAISE EXCEPTION USING MESSAGE = {message}, HINT = {};\n", literal(hint))
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

const fn postgresql_type(holds: Type) -> &'static str {
    match holds {
        Type::Text => "text",
        Type::Integer => "bigint",
        Type::Real => "double precision",
        Type::Flag => "boolean",
        Type::Time => "timestamptz",
        Type::Json => "jsonb",
    }
}

const fn duckdb_type(holds: Type) -> &'static str {
    match holds {
        Type::Text => "VARCHAR",
        Type::Integer => "BIGINT",
        Type::Real => "DOUBLE",
        Type::Flag => "BOOLEAN",
        Type::Time => "TIMESTAMP",
        Type::Json => "JSON",
    }
}
