//! The index against its records: made, kept, changed, damaged, shared.

use super::{About, Answer, Ask, Content, FILE, Facts, Row, State, Stored};
use crate::store::Store;
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::unit::Unit;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// What everything in an index comes to.
type Whole = (Vec<Stored>, Vec<Vec<Row>>);

struct Here {
    dir: TempDir,
    store: Store,
    /// Names of the records that were read, in order.
    read: RefCell<Vec<String>>,
}

impl Here {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store { dir: dir.path().to_owned() };
        Here { dir, store, read: RefCell::default() }
    }

    /// A store of so many runs, and what its index says.
    fn with(runs: u32) -> (Self, Whole) {
        let here = Here::new();
        for run in 0..runs {
            here.write(&format!("run-{run:02}"), &run.to_string());
        }
        let whole = here.ask("v1").value;
        (here, whole)
    }

    /// A record; in these tests its text is its one figure's value.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.store.path(name), text).expect("writes");
    }

    fn index(&self) -> std::path::PathBuf {
        self.dir.path().join(FILE)
    }

    fn ask(&self, analysis: &str) -> Answer<Whole> {
        let read = |path: &Path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            self.read.borrow_mut().push(name.into_owned());
            content(&fs::read_to_string(path).expect("reads"))
        };
        let ask = Ask { store: &self.store, analysis, read: &read };
        let whole = ask.answer(|index, stored| {
            let keys = index.keys()?;
            let by_key = index.of_keys(&keys)?;
            let mut rows = Vec::new();
            for run in stored {
                let of_run = index.of_run(&run.name)?;
                for (row, found) in of_run.iter().zip(&keys) {
                    let position = keys.iter().position(|key| key == found);
                    let same = position.and_then(|at| by_key[at].get(&run.name));
                    assert_eq!(same, Some(row), "by key and by run");
                }
                rows.push(of_run);
            }
            Ok((stored.to_vec(), rows))
        });
        whole.expect("it answers")
    }

    /// The names read since the last time.
    fn reads(&self) -> Vec<String> {
        self.read.take()
    }
}

/// The content of a text: a value, and when the run began, if not as all others.
fn content(text: &str) -> Result<Content, String> {
    let (value, started) = text.split_once(' ').unwrap_or((text, "2026-11-22T10:00:00Z"));
    let value: f64 = value.parse().map_err(|_| format!("`{text}` is no record"))?;
    let row = |metric: &str, value: f64| Row {
        key: Key::new("os.x", &CaseId::new().with("n", 1).with("a", "b"), metric),
        about: About { unit: Unit::Ns, better: Better::Lower, kind: Kind::Os },
        value,
        ci: (value > 1.0).then_some((value - 0.5, value + 0.5)),
        cycles: (value > 2.0).then_some(3.0 * value),
        rounds: vec![value, f64::MIN_POSITIVE, 0.1 + 0.2],
    };
    Ok(Content {
        facts: Facts {
            run: "run".to_owned(),
            started: started.to_owned(),
            seed: u64::MAX,
            preset: "quick".to_owned(),
            machine: record::machine::MachineIdentity {
                key: "abc".to_owned(),
                ..Default::default()
            },
            profile: "release".to_owned(),
            end: None,
            rounds: 3,
            figures: [2, 0, 0],
            beside: None,
            environment: BTreeMap::from([("kernel".to_owned(), "6.1 \"x\"".to_owned())]),
        },
        figures: vec![row("latency", value), row("rate", 2.0 * value)],
    })
}

#[test]
fn only_what_changed_is_read_again() {
    let here = Here::new();
    here.write("a", "1");
    here.write("b", "2");
    let first = here.ask("v1").value;
    assert_eq!(here.reads(), ["a", "b"]);
    assert_eq!(here.ask("v1").value, first);
    assert!(here.reads().is_empty());
    here.write("b", "2.5");
    here.write("c", "nonsense");
    let (stored, rows) = here.ask("v1").value;
    assert_eq!(here.reads(), ["b", "c"]);
    // What has no beginning is before all others.
    let names: Vec<&str> = stored.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    assert_eq!(rows[2][0].value, 2.5);
    assert_eq!(stored[0].state, State::Unreadable(content("nonsense").err().unwrap()));
    // What cannot be read is not tried again either, unless it or the analysis is another.
    here.ask("v1");
    assert!(here.reads().is_empty());
    here.ask("v2");
    assert_eq!(here.reads(), ["a", "b", "c"]);
    fs::remove_file(here.store.path("a")).expect("removes");
    let (stored, rows) = here.ask("v2").value;
    assert_eq!((stored.len(), rows.len()), (2, 2));
    assert!(here.reads().is_empty());
}

#[test]
fn runs_are_in_the_order_of_time_not_of_names() {
    let here = Here::new();
    let (early, late) = ("2026-11-21T10:00:00Z", "2026-11-23T10:00:00Z");
    here.write("a-10", "1");
    here.write("a-9", "1");
    here.write("0", &format!("1 {late}"));
    here.write("z", &format!("1 {early}"));
    let (stored, _) = here.ask("v1").value;
    let names: Vec<&str> = stored.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["z", "a-9", "a-10", "0"]);
}

#[test]
fn one_that_is_made_again_says_the_same() {
    let here = Here::new();
    for (name, text) in [("a", "1"), ("b", "x"), ("c", "3")] {
        here.write(name, text);
        here.ask("v1");
    }
    here.write("c", "4.25");
    fs::remove_file(here.store.path("a")).expect("removes");
    let kept = here.ask("v1").value;
    fs::remove_file(here.index()).expect("removes");
    let again = here.ask("v1");
    assert_eq!(again.value, kept);
    assert!(again.notes.is_empty());
}

#[test]
fn a_damaged_index_is_made_again_with_one_line() {
    let (here, whole) = Here::with(20);
    let good = fs::read(here.index()).expect("reads");
    let mut noise = good.clone();
    noise[4096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    let mut blob = good.clone();
    let facts = |at: &usize| good[*at..].starts_with(b"\"started\"");
    let places: Vec<usize> = (0..good.len()).filter(facts).collect();
    assert!(!places.is_empty(), "facts are text");
    for at in places {
        blob[at..at + 4].copy_from_slice(b"}{}{");
    }
    for (number, bytes) in [noise, blob].into_iter().enumerate() {
        fs::write(here.index(), &bytes).expect("writes");
        let answer = here.ask("v1");
        assert_eq!(answer.value, whole, "damage {number}");
        assert_eq!(answer.notes.len(), 1, "damage {number}: {:?}", answer.notes);
        here.reads();
        assert!(here.ask("v1").notes.is_empty(), "damage {number} is mended");
        assert!(here.reads().is_empty(), "damage {number} is mended for good");
    }
}

/// Wherever a bit of it falls over, the answer is that of the records.
#[test]
fn no_damage_changes_an_answer() {
    let (here, whole) = Here::with(12);
    let good = fs::read(here.index()).expect("reads");
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = good.clone();
        for _ in 0..random.choice([1, 4, 40]).expect("one of them") {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        fs::write(here.index(), &bytes).expect("writes");
        assert_eq!(here.ask("v1").value, whole, "seed {seed}");
    }
}

/// Changes the index as somebody else would, by SQL.
fn change(here: &Here, sql: &str) {
    let connection = rusqlite::Connection::open(here.index()).expect("opens");
    connection.execute_batch(sql).expect("changes");
}

#[test]
fn a_schema_that_is_not_plumb_s_is_never_asked() {
    let (here, whole) = Here::with(1);
    for sql in [
        // A view that has no end.
        "ALTER TABLE runs RENAME TO x; CREATE VIEW runs AS WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL \
         SELECT a + 1 FROM r) SELECT x.* FROM x, r;",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM figures; END;",
        "CREATE TABLE other (a);",
        "DROP TABLE keys;",
    ] {
        change(&here, sql);
        let answer = here.ask("v1");
        assert_eq!((answer.value, answer.notes.len()), (whole.clone(), 1), "{sql}");
        assert!(here.ask("v1").notes.is_empty(), "{sql}: it was made again");
    }
}

#[test]
fn what_is_not_plumb_s_is_left_as_it_is() {
    let (here, whole) = Here::with(1);
    let precious = here.dir.path().join("precious");
    let good = fs::read(here.index()).expect("reads");
    fs::write(&precious, &good).expect("writes");
    let index = here.index();
    let lay: [&dyn Fn(); 6] = [
        // Of half a file SQLite reads not even the id.
        &|| fs::write(&index, &good[..good.len() / 2]).expect("writes"),
        &|| fs::write(&index, "no database at all, but a text").expect("writes"),
        &|| change(&here, "CREATE TABLE accounts (a); PRAGMA user_version = 1"),
        &|| change(&here, "PRAGMA application_id = 5; PRAGMA user_version = 0"),
        &|| std::os::unix::fs::symlink(&precious, &index).expect("links"),
        &|| {
            let made = std::process::Command::new("mkfifo").arg(&index).status();
            assert!(made.expect("starts").success());
        },
    ];
    for (number, lay) in lay.iter().enumerate() {
        fs::remove_file(&index).expect("is there");
        lay();
        let before = index.is_file().then(|| fs::read(&index).expect("reads"));
        let answer = here.ask("v1");
        assert_eq!(answer.value, whole, "{number}");
        assert_eq!(answer.notes.len(), 1, "{number}: {:?}", answer.notes);
        assert!(answer.notes[0].contains("remove it"), "{number}: {:?}", answer.notes);
        let after = index.is_file().then(|| fs::read(&index).expect("reads"));
        assert_eq!(after, before, "{number}");
    }
    assert_eq!(fs::read(&precious).expect("reads"), good);
}

/// In a store that others may write plumb reads records and writes nothing.
#[test]
fn a_shared_store_has_no_index() {
    use std::os::unix::fs::PermissionsExt;
    let (here, whole) = Here::with(1);
    fs::remove_file(here.index()).expect("is there");
    fs::set_permissions(here.dir.path(), fs::Permissions::from_mode(0o777)).expect("is set");
    let answer = here.ask("v1");
    assert_eq!((answer.value, answer.notes.len()), (whole, 0));
    assert!(!here.index().exists());
}

#[test]
fn another_version_is_made_anew_if_older_and_left_if_newer() {
    let (here, whole) = Here::with(1);
    here.reads();
    let stamp = |version: i64| {
        let connection = rusqlite::Connection::open(here.index()).expect("opens");
        connection.pragma_update(None, "user_version", version).expect("writes");
    };
    stamp(super::TABLES - 1);
    assert_eq!(here.ask("v1").value, whole);
    assert_eq!(here.reads(), ["run-00"]);
    stamp(super::TABLES + 1);
    let before = fs::read(here.index()).expect("reads");
    let answer = here.ask("v1");
    assert_eq!(answer.value, whole);
    assert_eq!(answer.notes.len(), 1);
    assert_eq!(fs::read(here.index()).expect("reads"), before);
}

#[test]
fn where_none_can_be_kept_the_answer_is_the_same() {
    let here = Here::new();
    here.write("a", "1");
    fs::create_dir(here.index()).expect("makes");
    let answer = here.ask("v1");
    assert_eq!(answer.value.1[0][0].value, 1.0);
    assert!(here.index().is_dir());
    // A store that is not there yet is empty, and is not made.
    let gone = Here::new();
    fs::remove_dir(gone.dir.path()).expect("removes");
    assert!(gone.ask("v1").value.0.is_empty());
    assert!(!gone.dir.path().exists());
}

#[test]
fn a_run_under_way_is_listed_and_nothing_else() {
    let (here, _) = Here::with(1);
    here.reads();
    // As a run that is resumed.
    let writer = fs::File::open(here.store.path("run-00")).expect("opens");
    writer.lock().expect("locks");
    let (stored, rows) = here.ask("v1").value;
    assert_eq!(stored[0].state, State::UnderWay);
    assert!(rows[0].is_empty() && here.reads().is_empty());
    assert!(here.store.remove("run-00").is_err() && here.store.path("run-00").exists());
    drop(writer);
    assert!(matches!(here.ask("v1").value.0[0].state, State::Readable(_)));
}

#[test]
fn several_ask_at_once_while_it_is_damaged_and_runs_come() {
    let here = Here::new();
    for run in 0..10 {
        here.write(&format!("run-{run}"), &run.to_string());
    }
    let dir = here.dir.path().to_owned();
    std::thread::scope(|scope| {
        for asker in 0..4 {
            let dir = dir.clone();
            scope.spawn(move || {
                let here = Here {
                    dir: tempfile::tempdir().expect("a directory"),
                    store: Store { dir: dir.clone() },
                    read: RefCell::default(),
                };
                for turn in 0..6 {
                    let new = format!("run-{asker}-{turn}");
                    here.write(&new, "7");
                    let (stored, rows) = here.ask("v1").value;
                    let at = stored.iter().position(|run| run.name == new);
                    assert_eq!(rows[at.expect("it is listed")].len(), 2);
                    assert!(rows.iter().all(|rows| rows.len() == 2), "never half of it");
                }
            });
        }
    });
    assert_eq!(here.ask("v1").value.0.len(), 34);
}
