//! Files of figures against their records: made, kept, changed, damaged, shared.

use super::{About, Content, FORMAT, Facts, Reader, Row, State, Stored};
use crate::store::Store;
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::unit::Unit;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

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

    fn with(runs: u32) -> (Self, Vec<Stored>) {
        let here = Here::new();
        for run in 0..runs {
            here.write(&format!("run-{run:02}"), &run.to_string());
        }
        let whole = here.list("v1");
        (here, whole)
    }

    /// A record; in these tests its text is its one figure's value.
    /// A record, which another lister sees whole or not at all.
    fn write(&self, name: &str, text: &str) {
        let written = self.dir.path().join(format!("{name}.new"));
        fs::write(&written, text).expect("writes");
        fs::rename(&written, self.store.path(name)).expect("renames");
    }

    /// The file of a run's figures.
    fn kept(&self, name: &str) -> PathBuf {
        self.store.figures_path(name)
    }

    fn list(&self, analysis: &str) -> Vec<Stored> {
        self.list_with(analysis, |_| true)
    }

    fn list_with(&self, analysis: &str, wants: impl Fn(&Facts) -> bool) -> Vec<Stored> {
        let read = |path: &Path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            self.read.borrow_mut().push(name.into_owned());
            content(&fs::read_to_string(path).expect("reads"))
        };
        Reader { store: &self.store, analysis, read: &read }.list(wants).expect("it is listed")
    }

    /// The names read since the last time.
    fn reads(&self) -> Vec<String> {
        self.read.take()
    }
}

fn figures(run: &Stored) -> &[Row] {
    match &run.state {
        State::Readable(content) => &content.figures,
        State::UnderWay | State::Unreadable(_) => &[],
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
    let first = here.list("v1");
    assert_eq!(here.reads(), ["a", "b"]);
    assert_eq!(here.list("v1"), first);
    assert!(here.reads().is_empty());
    here.write("b", "2.5");
    here.write("c", "nonsense");
    let stored = here.list("v1");
    assert_eq!(here.reads(), ["b", "c"]);
    // What has no beginning is before all others.
    let names: Vec<&str> = stored.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    let [latency, rate] = figures(&stored[2]) else { panic!("two figures") };
    assert_eq!((latency.value, latency.ci, rate.value), (2.5, Some((2.0, 3.0)), 5.0));
    assert_eq!(latency.rounds, [2.5, f64::MIN_POSITIVE, 0.1 + 0.2]);
    assert_eq!(stored[0].state, State::Unreadable(content("nonsense").err().unwrap()));
    // What cannot be read is not tried again either, unless it or the analysis is another.
    here.list("v1");
    assert!(here.reads().is_empty());
    here.list("v2");
    assert_eq!(here.reads(), ["a", "b", "c"]);
    fs::remove_file(here.store.path("a")).expect("removes");
    assert_eq!(here.list("v2").len(), 2);
    assert!(here.reads().is_empty());
    assert!(!here.kept("a").exists(), "it went with its record");
    here.store.remove("b").expect("is removed");
    assert!(!here.kept("b").exists());
}

#[test]
fn runs_are_in_the_order_of_time_not_of_names() {
    let here = Here::new();
    let (early, late) = ("2026-11-21T10:00:00Z", "2026-11-23T10:00:00Z");
    here.write("a-10", "1");
    here.write("a-9", "1");
    here.write("0", &format!("1 {late}"));
    here.write("z", &format!("1 {early}"));
    let stored = here.list("v1");
    let names: Vec<&str> = stored.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["z", "a-9", "a-10", "0"]);
}

/// Wherever bytes of it fall over, or it is cut, the answer is that of the record.
#[test]
fn no_damage_changes_an_answer_and_all_is_mended() {
    let (here, whole) = Here::with(2);
    here.reads();
    let path = here.kept("run-01");
    let good = fs::read(&path).expect("reads");
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = good.clone();
        match seed % 4 {
            0 => bytes.truncate(random.usize(..good.len())),
            _ => {
                let place = random.usize(..bytes.len());
                bytes[place] ^= random.u8(1..);
            }
        }
        fs::write(&path, &bytes).expect("writes");
        assert_eq!(here.list("v1"), whole, "seed {seed}");
        assert_eq!(here.reads(), ["run-01"], "seed {seed}");
        assert_eq!(fs::read(&path).expect("reads"), good, "seed {seed}");
    }
}

/// A list of facts leaves the figures out.
#[test]
fn figures_are_read_where_they_are_asked_for() {
    let (here, whole) = Here::with(3);
    here.reads();
    let facts = here.list_with("v1", |facts| facts.rounds == 0);
    let without = |run: &Stored| match &run.state {
        State::Readable(content) => content.figures.is_empty(),
        _ => false,
    };
    assert!(facts.iter().all(without) && whole.iter().all(|run| !without(run)));
    assert!(here.reads().is_empty());
}

#[test]
fn links_pipes_and_directories_in_its_place_are_not_followed() {
    let (here, whole) = Here::with(1);
    let precious = here.dir.path().join("precious");
    let path = here.kept("run-00");
    let good = fs::read(&path).expect("reads");
    fs::write(&precious, "precious").expect("writes");
    let lay: [&dyn Fn(); 3] = [
        &|| std::os::unix::fs::symlink(&precious, &path).expect("links"),
        &|| {
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.expect("starts").success());
        },
        &|| fs::create_dir(&path).expect("makes"),
    ];
    for (number, lay) in lay.iter().enumerate() {
        fs::remove_file(&path).expect("is there");
        lay();
        assert_eq!(here.list("v1"), whole, "{number}");
        // Nothing is renamed over a directory.
        assert_eq!(fs::read(&path).ok(), (!path.is_dir()).then(|| good.clone()), "{number}");
    }
    assert_eq!(fs::read_to_string(&precious).expect("reads"), "precious");
}

/// In a store that others may write plumb reads records and writes nothing.
#[test]
fn in_a_shared_store_nothing_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let (here, whole) = Here::with(1);
    here.reads();
    let forged = fs::read_to_string(here.kept("run-00")).expect("reads").replace("os.x", "os.y");
    let forged = forged.lines().map(|line| record::seal::resealed(line) + "\n");
    fs::write(here.kept("run-00"), forged.collect::<String>()).expect("writes");
    assert_ne!(here.list("v1"), whole, "it was believed");
    fs::set_permissions(here.dir.path(), fs::Permissions::from_mode(0o777)).expect("is set");
    assert_eq!(here.list("v1"), whole);
    fs::remove_file(here.kept("run-00")).expect("is there");
    assert_eq!(here.list("v1"), whole);
    assert!(!here.kept("run-00").exists());
    assert_eq!(here.reads(), ["run-00", "run-00"]);
}

#[test]
fn a_file_of_another_version_is_made_again() {
    let (here, whole) = Here::with(1);
    here.reads();
    let text = fs::read_to_string(here.kept("run-00")).expect("reads");
    let other = text.replace(&format!("\"format\":{FORMAT}"), "\"format\":99");
    assert_ne!(other, text);
    let other: String = other.lines().map(|line| record::seal::resealed(line) + "\n").collect();
    fs::write(here.kept("run-00"), other).expect("writes");
    assert_eq!(here.list("v1"), whole);
    assert_eq!(here.reads(), ["run-00"]);
    assert_eq!(fs::read_to_string(here.kept("run-00")).expect("reads"), text);
}

#[test]
fn a_store_that_is_not_there_is_empty_and_not_made() {
    let gone = Here::new();
    fs::remove_dir(gone.dir.path()).expect("removes");
    assert!(gone.list("v1").is_empty());
    assert!(!gone.dir.path().exists());
}

#[test]
fn a_run_under_way_is_listed_and_nothing_else() {
    let (here, _) = Here::with(1);
    here.reads();
    // As a run that is resumed.
    let writer = fs::File::open(here.store.path("run-00")).expect("opens");
    writer.lock().expect("locks");
    assert_eq!(here.list("v1")[0].state, State::UnderWay);
    assert!(here.reads().is_empty());
    assert!(here.store.remove("run-00").is_err() && here.store.path("run-00").exists());
    drop(writer);
    assert!(matches!(here.list("v1")[0].state, State::Readable(_)));
}

#[test]
fn several_list_at_once_while_runs_come() {
    let (here, _) = Here::with(10);
    let dir = here.dir.path();
    std::thread::scope(|scope| {
        for lister in 0..4 {
            scope.spawn(move || {
                let mut here = Here::new();
                here.store = Store { dir: dir.to_owned() };
                for turn in 0..6 {
                    let new = format!("run-{lister}-{turn}");
                    here.write(&new, "7");
                    let stored = here.list("v1");
                    assert!(stored.iter().any(|run| run.name == new));
                    assert!(stored.iter().all(|run| figures(run).len() == 2), "never half of it");
                }
            });
        }
    });
    assert_eq!(here.list("v1").len(), 34);
}
