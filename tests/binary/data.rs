//! The lines of docs/DATA.md, run as they stand there, and what a redacted report leaves out.

use crate::plumb::prelude::*;

/// A directory with `figures.csv` of a run.
fn figures() -> Here {
    let here = Here::new();
    here.store(&recorded("selftest.echo --preset rehearsal"));
    let tidy = ["report", "last", "--format", "csv", "--tidy", "-o", "figures.csv"];
    here.ends(0, &tidy);
    here
}

pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(path).unwrap();
    let begin = format!("```{language}\n");
    let blocks = text.split(begin.as_str()).skip(1);
    blocks.map(|rest| rest.split_once("\n```").unwrap().0.to_owned()).collect()
}

/// The block of docs/DATA.md in a language.
fn block(language: &str) -> String {
    blocks("docs/DATA.md", language).swap_remove(0)
}

/// The Python with tools from PyPI, which scripts/test makes.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python/bin/python");

pub fn duckdb() -> Option<String> {
    python_with("duckdb", &[TOOLS, "python3"])
}

pub fn pandas() -> Option<String> {
    python_with("pandas", &["/usr/bin/python3", "python3", TOOLS])
}

/// What a program that must have succeeded printed, on both outputs.
pub fn succeeded(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{text:?}");
    text.concat()
}

fn python_with(module: &str, programs: &[&str]) -> Option<String> {
    // To import it takes seconds.
    let found =
        format!("import importlib.util, sys; sys.exit(not importlib.util.find_spec('{module}'))");
    let has = |program: &&&str| {
        let python = Command::new(program).args(["-c", &found]).output();
        python.is_ok_and(|output| output.status.success())
    };
    programs.iter().find(has).map(|program| (*program).to_owned())
}

#[test]
fn tidy_rows_have_the_columns_of_every_run() {
    let here = figures();
    let header = |name: &str| {
        let mut reader = csv::Reader::from_path(here.path(name)).unwrap();
        let header = reader.headers().unwrap().clone();
        let at = header.iter().position(|column| column == "messages");
        let other = header.iter().position(|column| column == "other").unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert!(rows.iter().all(|row| row[other].is_empty()), "{rows:?}");
        (header, at.map(|at| rows.iter().map(|row| row[at].to_owned()).collect::<Vec<_>>()))
    };
    let (columns, messages) = header("figures.csv");
    assert!(messages.unwrap().iter().any(|value| value.parse::<u64>().is_ok()));
    let published = "published/r0-i7-3770k";
    here.ends(0, &["report", published, "--format", "csv", "--tidy", "-o", "other.csv"]);
    let mut other = csv::Reader::from_path(here.path("other.csv")).unwrap();
    assert_eq!(*other.headers().unwrap(), columns);
    here.ends(2, &["report", "last", "--tidy"]);
}

#[test]
fn pandas_reads_it() {
    let Some(python) = pandas() else {
        return skips::test("data-tool");
    };
    let output = figures().other(&python).args(["-c", &block("python")]).output().unwrap();
    assert!(succeeded(&output).contains("selftest.echo"));
}

#[test]
fn duckdb_reads_it() {
    let Some(python) = duckdb() else {
        return skips::test("data-tool");
    };
    let script = format!("import duckdb; print(duckdb.sql({:?}))", block("sql"));
    let output = figures().other(&python).args(["-c", &script]).output().unwrap();
    assert!(succeeded(&output).contains("selftest.echo"));
}

/// A server of PostgreSQL in a directory of its own, without a port; stopped when dropped.
pub struct Server {
    programs: PathBuf,
    dir: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Option<Server> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut programs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
        let programs = programs.find(|dir| dir.join("initdb").exists())?;
        // The server refuses root; its user must reach the directory.
        let dir = tempfile::Builder::new().prefix("plumb-pg").tempdir_in("/tmp").unwrap();
        let server = Server { programs, dir };
        if server.user().is_some() {
            succeeded(
                &Command::new("chown").arg("postgres").arg(server.dir.path()).output().unwrap(),
            );
        }
        let data = server.data();
        let data = data.to_str().unwrap();
        let made =
            server.run("initdb", &["-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]);
        // initdb asks for the name of its user, and not every user has an entry.
        let said = String::from_utf8_lossy(&made.stderr);
        if said.contains("could not look up effective user ID") {
            return None;
        }
        succeeded(&made);
        let options =
            format!("-c listen_addresses= -c fsync=off -k {}", server.dir.path().display());
        let log = server.dir.path().join("log");
        let log = log.to_str().unwrap();
        succeeded(&server.run("pg_ctl", &["-D", data, "-l", log, "-o", &options, "-w", "start"]));
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The commands of a shell, which connect to it.
    pub fn bash(&self, here: &Here, script: &str) -> Output {
        let mut command = here.other("bash");
        command.args(["-euc", script]).env("PGHOST", self.dir.path());
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres").output().unwrap()
    }

    fn user(&self) -> Option<&'static str> {
        (metal::process::geteuid() == 0).then_some("postgres")
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        let program = self.programs.join(program);
        let mut command = match self.user() {
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(args).current_dir("/tmp").output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.data();
        self.run("pg_ctl", &["-D", data.to_str().unwrap(), "-m", "immediate", "stop"]);
    }
}

#[test]
fn postgresql_takes_it() {
    let Some(server) = Server::start() else {
        return skips::test("data-tool");
    };
    let here = figures();
    let bash = |script: &str| succeeded(&server.bash(&here, script));
    assert!(bash(&block("bash")).contains("COPY"));
    let rows = csv::Reader::from_path(here.path("figures.csv")).unwrap().into_records().count();
    let counted = bash("psql -Atc 'SELECT count(*) FROM figures'");
    assert_eq!(counted.trim().parse(), Ok(rows));
}

#[test]
fn a_redacted_report_names_neither_host_nor_paths() {
    let here = Here::new();
    here.make_dir("files of alice");
    here.measure(&["selftest.echo", "--preset", "rehearsal", "--dir", "files of alice"]);
    let record = fs::read_to_string(here.record()).unwrap();
    let header: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    let of = |pointer: &str| header.pointer(pointer).and_then(Value::as_str);
    let run = of("/run").unwrap();
    let secrets = [of("/identity"), of("/options/dir"), of("/environment/command_line"), Some(run)];
    for format in ["terminal", "html", "markdown", "csv", "json", "openmetrics"] {
        let open = here.ends(0, &["report", "last", "--full", "--format", format]).out;
        let closed =
            here.ends(0, &["report", "last", "--full", "--format", format, "--redact"]).out;
        assert!(open.contains(run) && !closed.is_empty(), "{format}");
        for secret in secrets.into_iter().flatten().filter(|secret| secret.len() > 3) {
            assert!(!closed.contains(secret), "{format}: {secret}");
        }
    }
}
