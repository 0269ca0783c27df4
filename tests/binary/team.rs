//! The lines of docs/TEAM.md with a real server of PostgreSQL, with DuckDB and pandas: what is exported is
//! loaded once, odd texts survive, and the queries give the values of the test data.

use crate::data::{Server, blocks, duckdb, pandas, succeeded};
use crate::plumb::prelude::*;
use fleet::file::{Absent, End, FLEET_FORMAT, Figure, Header, Line, Pair, Purpose};
use record::key::CaseId;
use record::metric::{Better, Kind};
use record::unit::Unit;

/// What a program that cares for nothing would take for ends of cells, lines, files and statements.
const ODD: &str = "a\"b,c'); DROP SCHEMA plumb; --\\\n\\.\n\\N\n\"\"\\\"e";

/// Nodes of a sweep: even ones are of one type, odd ones of another; the second half is in rack r2.
const NODES: u32 = 12;
const SLOW: u32 = 3;

fn is_far(rank: u32) -> bool {
    rank >= NODES / 2
}

fn host(rank: u32) -> String {
    if rank == 5 { ODD.to_owned() } else { format!("n{rank}") }
}

fn header(rank: u32, name: &str, started: &str) -> Line {
    let kind = if rank.is_multiple_of(2) { "t4" } else { "t8" };
    let rack = if is_far(rank) { "r2" } else { "r1" };
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let header = Header {
        format: FLEET_FORMAT,
        plumb: "0.1.0".to_owned(),
        sweep: name.to_owned(),
        rank,
        size: NODES + 1,
        host: host(rank),
        hosts: (0..=NODES).map(host).collect(),
        started: started.to_owned(),
        seed: u64::MAX,
        preset: "quick".to_owned(),
        starter: "options".to_owned(),
        stratum: [("cpu", kind), ("kernel", "6.12")].map(text).into(),
        labels: [("instance_type", kind), ("rack", rack), ("note", ODD)].map(text).into(),
        ..Header::default()
    };
    Line::Node(Box::new(header))
}

fn figure(
    experiment: &str,
    case: CaseId,
    metric: &str,
    unit: Unit,
    kind: Kind,
    value: f64,
) -> Figure {
    Figure {
        experiment: experiment.to_owned(),
        case,
        metric: metric.to_owned(),
        unit,
        better: if unit == Unit::BPerS { Better::Higher } else { Better::Lower },
        kind,
        value,
        ci: Some((0.99 * value, 1.01 * value)),
        rounds: vec![value; 6],
        predicted: None,
    }
}

/// The bandwidth of a node, half of its type's for the slow one, and the time of a system call, longer
/// in the second rack.
fn figures(rank: u32, call_ns: f64) -> [Line; 2] {
    let whole = if rank.is_multiple_of(2) { 10e9 } else { 20e9 };
    let bandwidth = if rank == SLOW { whole / 2.0 } else { whole };
    let call_ns = if is_far(rank) { 1.3 * call_ns } else { call_ns };
    let level = CaseId::new().with("level", "DRAM").with("threads", 1_u64);
    let call = CaseId::new().with("call", ODD);
    [
        figure("memory.bandwidth", level, "bandwidth", Unit::BPerS, Kind::Hardware, bandwidth),
        figure("os.syscall", call, "latency", Unit::Ns, Kind::Os, call_ns),
    ]
    .map(Line::Figure)
}

/// Rates between nodes: those across racks are half.
fn pair((slot, from, to): (u32, u32, u32)) -> Line {
    let value = if is_far(from) == is_far(to) { 2e9 } else { 1e9 };
    let rate = figure("net.bandwidth", CaseId::new(), "goodput", Unit::BPerS, Kind::Io, value);
    let (purpose, to) = (Purpose::Matching, host(to));
    let (begin_s, end_s, offset_s, figures) = (1.0, 2.0, 0.0, vec![rate]);
    Line::Pair(Pair { slot, purpose, to, begin_s, end_s, offset_s, figures })
}

const PAIRS: [(u32, u32, u32); 5] = [(1, 0, 1), (1, 2, 4), (2, 0, 6), (2, 4, 8), (2, 6, 7)];

fn write_sweep(here: &Here, dir: &str, started: &str, call_ns: f64) {
    here.make_dir(dir);
    for rank in 0..NODES {
        let absent = Absent { why: ODD.to_owned(), ..Absent::default() };
        let pairs = PAIRS.iter().filter(|pair| pair.1 == rank).copied();
        let all = [header(rank, dir, started)]
            .into_iter()
            .chain(figures(rank, call_ns))
            .chain(pairs.map(pair))
            .chain([Line::Absent(absent), Line::End(End { wall_s: 60.0, interrupted: false })]);
        let text: Vec<u8> = all.flat_map(|line| line.sealed().unwrap()).collect();
        fs::write(here.path(&format!("{dir}/{rank}.jsonl")), text).unwrap();
    }
}

/// A run on each of eight days, slower by a fifth since the 15th; and two sweeps.
fn measured() -> Here {
    let here = Here::new();
    let one = recorded("selftest.echo --preset rehearsal");
    let one: Vec<Value> = one.lines().map(event).collect();
    for day in 11..=18 {
        let mut events = one.clone();
        let name = format!("2026-11-{day}T10-00-00-lab");
        events[0]["run"] = json!(name);
        events[0]["started"] = json!(format!("2026-11-{day}T10:00:00Z"));
        events[0]["environment"]["odd"] = json!(format!("{ODD}\u{0}\u{1b}"));
        let value = if day < 15 { 100.0 } else { 120.0 };
        for event in events.iter_mut().filter(|event| event["metric"] == "round_trip") {
            for sample in event["values"].as_array_mut().into_iter().flatten() {
                *sample = json!(value);
            }
        }
        here.store(&lines(&events));
    }
    write_sweep(&here, "before", "2026-11-10T08:00:00Z", 100.0);
    write_sweep(&here, "after", "2026-11-20T08:00:00Z", 110.0);
    here
}

/// Exports the runs and sweeps as the page says.
fn export(here: &Here) {
    here.ends(0, &["runs", "export", "--ndjson", "--to", "lines"]);
    for sweep in ["before", "after"] {
        let to = format!("lines/{sweep}.ndjson");
        here.ends(0, &["fleet", "report", sweep, "--format", "ndjson", "-o", &to]);
    }
}

type Rows = Vec<Vec<String>>;

fn parsed(text: &str) -> Rows {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let rows = reader.records().map(Result::unwrap);
    rows.map(|row| row.iter().map(str::to_owned).collect()).collect()
}

fn block(language: &str) -> String {
    blocks("docs/TEAM.md", language).swap_remove(0)
}

/// The rows of a query in each database that is here, with its name.
struct Databases {
    here: Here,
    server: Option<Server>,
    python: Option<String>,
}

impl Databases {
    /// Both with what was measured; none where neither is installed.
    fn loaded() -> Option<Databases> {
        let (server, python) = (Server::start(), duckdb());
        if server.is_none() || python.is_none() {
            skips::part("data-tool", "PostgreSQL or DuckDB");
        }
        (server.is_some() || python.is_some()).then(|| {
            let here = measured();
            export(&here);
            let databases = Databases { here, server, python };
            databases.load();
            databases
        })
    }

    fn load(&self) {
        fs::write(self.here.path("load.sql"), block("psql")).unwrap();
        fs::write(self.here.path("view.sql"), &blocks("docs/TEAM.md", "sql")[0]).unwrap();
        let load =
            "psql -X -v ON_ERROR_STOP=1 -f load.sql && psql -X -v ON_ERROR_STOP=1 -f view.sql";
        if let Some(server) = &self.server {
            succeeded(&server.bash(&self.here, load));
        }
    }

    fn postgresql(&self, query: &str) -> Option<Rows> {
        fs::write(self.here.path("query.sql"), query).unwrap();
        let server = self.server.as_ref()?;
        Some(parsed(&succeeded(&server.bash(&self.here, "psql -X --csv -t -f query.sql"))))
    }

    fn duckdb(&self, query: &str) -> Option<Rows> {
        let script = "import csv, duckdb, sys\n\
                      duckdb.sql(sys.argv[1])\n\
                      duckdb.sql(open('view.sql').read())\n\
                      csv.writer(sys.stdout).writerows(duckdb.sql(sys.argv[2]).fetchall())";
        let mut python = self.here.other(self.python.as_ref()?);
        let output = python.args(["-c", script, &block("duckdb"), query]).output().unwrap();
        Some(parsed(&succeeded(&output)))
    }

    fn each(&self, query: &str) -> Vec<(&'static str, Rows)> {
        let both = [("PostgreSQL", self.postgresql(query)), ("DuckDB", self.duckdb(query))];
        both.into_iter().filter_map(|(name, rows)| Some((name, rows?))).collect()
    }
}

/// Rows are these, numbers within rounding.
#[track_caller]
fn are(database: &str, rows: &[Vec<String>], expected: &[&[&str]]) {
    assert_eq!(rows.len(), expected.len(), "{database}: {rows:#?}");
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row.len(), expected.len(), "{database}: {row:?}");
        for (have, want) in row.iter().zip(*expected) {
            let is_near = match (have.parse::<f64>(), want.parse::<f64>()) {
                (Ok(have), Ok(want)) => (have - want).abs() <= 1e-3 * want.abs(),
                _ => have == want,
            };
            assert!(is_near, "{database}: {have} in {row:?}, not {want}");
        }
    }
}

#[test]
fn what_is_exported_is_loaded_once_and_answers_the_queries_of_the_page() {
    let Some(databases) = Databases::loaded() else { return };
    the_queries_of_the_page_answer_what_was_measured(&databases);
    odd_texts_survive(&databases);
    what_is_loaded_again_is_there_once_and_a_later_state_replaces_the_earlier_one(&databases);
}

fn the_queries_of_the_page_answer_what_was_measured(databases: &Databases) {
    let queries = blocks("docs/TEAM.md", "sql");
    let [_, slowest, drift, change, racks, links, types] = queries.as_slice() else {
        panic!("{} queries", queries.len())
    };
    let odd = plain(ODD);
    let call = format!("call={odd}");
    for (name, rows) in databases.each(slowest) {
        are(name, &rows[..1], &[&["n3", "r1", "t8", "2", "1.43478", "2"]]);
        assert_eq!(rows.len(), NODES as usize, "{name}");
    }
    for (name, rows) in databases.each(drift) {
        let case = ["lab", "rehearsal", "selftest.echo", "far=loopback,messages=50", "round_trip"];
        are(name, &rows, &[&[&case[..], &["100", "120", "1.2"]].concat()]);
    }
    for (name, rows) in databases.each(change) {
        are(
            name,
            &rows,
            &[
                &["os.syscall", &call, "latency", "12", "1.1", "1.1", "1.1"],
                &["memory.bandwidth", "level=DRAM,threads=1", "bandwidth", "12", "1", "1", "1"],
            ],
        );
    }
    for (name, rows) in databases.each(racks) {
        let level = ["memory.bandwidth", "level=DRAM,threads=1", "bandwidth", "6", "1"];
        let call = ["os.syscall", &call, "latency", "6"];
        are(
            name,
            &rows,
            &[
                &[&["r2"], &call[..], &["1.13043", "1.13043"]].concat(),
                &[&["r1"], &level[..], &["2"]].concat(),
                &[&["r2"], &level[..], &["1"]].concat(),
                &[&["r1"], &call[..], &["0.869565", "0.869565"]].concat(),
            ],
        );
    }
    for (name, rows) in databases.each(links) {
        let key = ["net.bandwidth", "", "goodput", "B/s"];
        are(
            name,
            &rows,
            &[
                &[&["r1", "r1"], &key[..], &["2", "2e9", "2e9", "2e9"]].concat(),
                &[&["r1", "r2"], &key[..], &["2", "1e9", "1e9", "1e9"]].concat(),
                &[&["r2", "r2"], &key[..], &["1", "2e9", "2e9", "2e9"]].concat(),
            ],
        );
    }
    for (name, rows) in databases.each(types) {
        // The product of the machine that runs this test may be a type as well.
        let rows: Rows = rows.into_iter().filter(|row| row[0] != "selftest.echo").collect();
        let level = ["memory.bandwidth", "level=DRAM,threads=1", "bandwidth", "B/s"];
        are(
            name,
            &rows[..2],
            &[
                &[&level[..], &["t4", "6", "10e9", "10e9", "10e9"]].concat(),
                &[&level[..], &["t8", "6", "20e9", "11e9", "20e9"]].concat(),
            ],
        );
        assert_eq!(rows.len(), 4, "{name}: {rows:?}");
    }
}

/// The text with spaces for its ends of lines.
fn plain(text: &str) -> String {
    text.replace('\n', " ")
}

fn odd_texts_survive(databases: &Databases) {
    let odd = plain(ODD);
    for (query, count) in [
        ("SELECT DISTINCT node FROM line WHERE rank = 5", 1),
        ("SELECT DISTINCT labels ->> 'note' FROM line WHERE source = 'sweep'", 1),
        ("SELECT \"case\" ->> 'call' FROM line WHERE experiment = 'os.syscall'", 24),
    ] {
        for (name, rows) in databases.each(query) {
            assert_eq!(rows, vec![vec![odd.clone()]; count], "{name}: {query}");
        }
    }
}

/// Runs, sweeps and lines.
const COUNTS: &str = "SELECT source, count(DISTINCT id), count(*) FROM line \
                      GROUP BY source ORDER BY source";

fn what_is_loaded_again_is_there_once_and_a_later_state_replaces_the_earlier_one(
    databases: &Databases,
) {
    let here = &databases.here;
    let before = databases.each(COUNTS);
    for (name, rows) in &before {
        are(name, rows, &[&["run", "8", &rows[0][2]], &["sweep", "2", "58"]]);
    }
    databases.load();
    assert_eq!(databases.each(COUNTS), before);
    let name = "2026-11-18T10-00-00-lab";
    let query = format!(
        "SELECT value FROM line WHERE name = '{name}' AND metric = 'round_trip' AND value IS NOT NULL"
    );
    let text = fs::read_to_string(here.stored(name)).unwrap();
    let mut events: Vec<Value> = text.lines().map(event).collect();
    for event in events.iter_mut().filter(|event| event["metric"] == "round_trip") {
        for sample in event["values"].as_array_mut().into_iter().flatten() {
            *sample = json!(130.0);
        }
    }
    here.store(&lines(&events));
    export(here);
    databases.load();
    for (name, rows) in databases.each(&query) {
        are(name, &rows, &[&["130"]]);
    }
    for ((name, rows), (_, before)) in databases.each(COUNTS).iter().zip(&before) {
        assert_eq!(rows, before, "{name}: nothing is there twice");
    }
}

#[test]
fn pandas_reads_the_lines() {
    let Some(python) = pandas() else { return skips::test("data-tool") };
    let here = measured();
    export(&here);
    let output = here.other(&python).args(["-c", &block("python")]).output().unwrap();
    let said = succeeded(&output);
    assert!(said.contains("selftest.echo") && said.contains("net.bandwidth"), "{said}");
}

/// The lines of a run and of a sweep have the members of the one schema that the command prints.
#[test]
fn lines_of_runs_and_sweeps_meet_the_schema() {
    let here = measured();
    export(&here);
    let schema = here.ends(0, &["report", "--format", "ndjson", "--schema"]).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let members = schema["properties"].as_object().unwrap().len();
    for (file, count) in [("2026-11-11T10-00-00-lab", 2), ("after", 29)] {
        let text = fs::read_to_string(here.path(&format!("lines/{file}.ndjson"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        assert!(lines.len() >= count, "{file}: {}", lines.len());
        for line in lines {
            assert_eq!(line.as_object().unwrap().len(), members, "{line:#}");
            assert!(validator.is_valid(&line), "{line:#}");
        }
    }
}

#[test]
fn what_has_no_figures_is_refused_with_the_way_out() {
    let here = Here::new();
    here.store(&recorded("selftest.echo --preset rehearsal"));
    let export = ["runs", "export", "--ndjson", "--to", "t"];
    let refused = here.ends(2, &[&export[..], &["--sheet"]].concat());
    assert!(refused.err.contains("--sheet"), "{refused:?}");
    // Of all stored runs, those that cannot be read are passed over.
    fs::write(here.stored("2026-11-01T10-00-00-bad"), "{}\n").unwrap();
    let all = here.ends(0, &export);
    assert!(all.err.contains("skipped") && all.out.lines().count() == 1, "{all:?}");
    let bad = here.ends(2, &[&export[..], &["2026-11-01"]].concat());
    assert!(bad.err.contains("as a record"), "{bad:?}");
}
