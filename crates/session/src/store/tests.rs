//! The store: its names, their order in time, and who may write, remove and copy a record.

use super::file::{self, copy_whole};
use super::{Locked, RecordFile, Store, TRIES, check_removable, location, lock_between, read};
use record::codec;
use record::event::{End, Event, Footer};
use record::seal::Sealer;
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store { dir: dir.path().to_owned() };
    (dir, store)
}

fn footer() -> Footer {
    Footer {
        finished: String::new(),
        elapsed_s: 1.0,
        end: End::Interrupted,
        counter_drift: None,
        eta_after_first_pass_s: None,
        session_cpu_s: 1.0,
        session_peak_bytes: 1,
        synced: Default::default(),
        programs: Vec::new(),
    }
}

/// A record of which only the beginning is known.
fn begin(store: &Store, name: &str, started: &str) {
    let line = format!("{{\"event\":\"header\",\"started\":\"{started}\"}}\n");
    fs::write(store.path(name), line + "{}\n").expect("writes");
}

#[test]
fn names_of_runs_never_collide() {
    let (_dir, store) = store();
    let mut names: Vec<String> = std::thread::scope(|scope| {
        let make = || {
            let (name, mut file) = store.create("run").expect("makes");
            file.unstarted = false;
            name
        };
        let makers: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        makers.into_iter().map(|maker| maker.join().expect("ends")).collect()
    });
    names.sort();
    assert_eq!(names, ["run", "run-2", "run-3", "run-4"]);
}

#[test]
fn the_store_is_where_its_user_says() {
    let at = |vars: &[(&str, &str)], home: Option<&str>, is_root| {
        let set = |name: &str| {
            let var = vars.iter().find(|(var, _)| *var == name);
            var.map(|(_, value)| OsString::from(value))
        };
        location(set, home.map(PathBuf::from), is_root).display().to_string()
    };
    let all = [("PLUMB_STORE", "/s"), ("XDG_DATA_HOME", "/x")];
    for (vars, home, is_root, is) in [
        (&all[..], Some("/h"), true, "/s"),
        (&all[1..], Some("/h"), false, "/x/plumb"),
        (&[], Some("/h"), true, "/h/.local/share/plumb"),
        // What is in the current directory may be anybody's.
        (&[], None, true, "/var/lib/plumb"),
        (&[], None, false, "plumb-runs"),
    ] {
        assert_eq!(at(vars, home, is_root), is);
    }
}

#[test]
fn a_store_that_others_may_write_is_read_only() {
    let (dir, store) = store();
    begin(&store, "a", "2026-11-22T10:00:00Z");
    let refused = || [store.create("b").map(drop), store.remove("a").map(drop)];
    let is_refused = |way_out: &str| {
        for refused in refused() {
            let message = format!("{:#}", refused.expect_err("is refused"));
            assert!(message.contains(way_out) && message.contains("PLUMB_STORE"), "{message}");
        }
        assert_eq!(store.find("last").ok(), Some(store.path("a")));
    };
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o775)).expect("is set");
    is_refused("chmod go-w");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("is set");
    // Only root can give a directory away.
    if chown(dir.path(), Some(65_534), None).is_ok() {
        is_refused("uid 65534");
        chown(dir.path(), Some(0), None).expect("is taken back");
    }
    assert!(refused().iter().all(Result::is_ok));
}

#[test]
fn a_record_that_is_gone_takes_no_event() {
    let (dir, store) = store();
    let (_, mut file) = store.create("a").expect("makes");
    let segment = Event::Footer(footer());
    file.append(&segment).expect("writes");
    fs::remove_dir_all(dir.path()).expect("removes");
    let message = format!("{:#}", file.append(&segment).expect_err("it is gone"));
    assert!(message.contains("was removed"), "{message}");
}

#[test]
fn what_is_no_file_of_a_record_is_called_what_it_is() {
    let (dir, store) = store();
    let path = |text: &str| dir.path().join(text).display().to_string();
    for (run, part) in [
        ("/dev/null".to_owned(), "is not a regular file"),
        (path("."), "is a directory"),
        (path("absent"), "there is no file"),
    ] {
        let refused = store.find(&run).expect_err("is refused").to_string();
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn the_last_run_is_the_one_that_began_last() {
    let (_dir, store) = store();
    let last = || store.find("last").ok();
    assert_eq!(last(), None);
    fs::write(store.path("z"), "no record").expect("writes");
    assert_eq!(last(), Some(store.path("z")));
    for (name, started) in [
        ("b", "2026-11-21T10:00:00Z"),
        ("a", "2026-11-22T10:00:00Z"),
        // Of one second: numbers, not letters.
        ("a-2", "2026-11-22T10:00:00Z"),
        ("a-10", "2026-11-22T10:00:00Z"),
        ("a-9", "2026-11-22T10:00:00Z"),
    ] {
        begin(&store, name, started);
    }
    assert_eq!(last(), Some(store.path("a-10")));
    begin(&store, "0", "2026-11-22T10:00:01Z");
    assert_eq!(last(), Some(store.path("0")));
    // What a wrong clock dated, or nothing did, displaces none.
    begin(&store, "future", "2999-01-01T00:00:00Z");
    begin(&store, "undated", "zzzz");
    assert_eq!(last(), Some(store.path("0")));
}

#[test]
fn a_newer_record_outside_of_the_store_is_remembered() {
    let ((_dir, store), (_other, outside)) = (store(), store());
    begin(&store, "old", "2026-11-21T10:00:00Z");
    let last = store.path("old");
    assert_eq!(store.newer_elsewhere(&last), None);
    begin(&outside, "new", "2026-11-21T10:00:01Z");
    store.remember(&outside.path("new")).expect("writes");
    assert_eq!(store.newer_elsewhere(&last), Some(outside.path("new")));
    begin(&store, "newest", "2026-11-21T10:00:02Z");
    assert_eq!(store.newer_elsewhere(&store.path("newest")), None);
    // A record of the store itself is not one.
    store.remember(&last).expect("leaves it");
    assert_eq!(store.newer_elsewhere(&last), Some(outside.path("new")));
    fs::remove_file(outside.path("new")).expect("removes");
    assert_eq!(store.newer_elsewhere(&last), None);
}

#[test]
fn a_record_that_travelled_is_read_or_its_form_is_named() {
    let (_dir, store) = store();
    let path = store.path("a");
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/records/format-6.jsonl.gz");
    let packed = fs::read(packed).expect("a record");
    fs::write(&path, &packed).expect("writes");
    let (mut whole, run) = (Vec::new(), read(&path).expect("reads").run);
    file::reader(&path).and_then(|mut file| file.read_to_end(&mut whole)).expect("unpacks");
    assert!(RecordFile::resume(&path).expect_err("is packed").to_string().contains("gunzip"));
    let returned = String::from_utf8_lossy(&whole).replace('\n', "\r\n");
    for same in [returned.as_bytes(), &whole[..whole.len() - 1]] {
        fs::write(&path, same).expect("writes");
        let found = read(&path).expect("reads").run;
        assert_eq!((found.rounds, found.damaged), (run.rounds.clone(), vec![]));
    }
    // The newline that is lost is there again before more is written.
    let (mut file, _) = RecordFile::resume(&path).expect("resumes");
    file.append(&Event::Footer(footer())).expect("writes");
    assert!(read(&path).is_ok_and(|read| read.run.footer.is_some() && read.run.damaged.is_empty()));
    for (other, word) in
        [(b"PK\x03\x04".to_vec(), "not a plumb record"), (packed[..20].to_vec(), "stream")]
    {
        fs::write(&path, other).expect("writes");
        let refused = format!("{:#}", read(&path).expect_err("is none"));
        assert!(refused.contains(word), "{refused}");
    }
}

#[test]
fn only_a_record_of_the_store_has_a_name_there() {
    let (dir, store) = store();
    let elsewhere = tempfile::tempdir().expect("a directory");
    begin(&store, "a", "");
    for (path, name) in [
        (dir.path().join("a.jsonl"), Some("a")),
        (dir.path().join("./b.jsonl"), Some("b")),
        (dir.path().join("a.md"), None),
        (dir.path().join("a.figures.json"), None),
        (dir.path().join("a"), None),
        (elsewhere.path().join("a.jsonl"), None),
    ] {
        assert_eq!(store.name_of(&path).as_deref(), name, "{}", path.display());
    }
    // A link from elsewhere is not the record.
    let link = elsewhere.path().join("a.jsonl");
    std::os::unix::fs::symlink(store.path("a"), &link).expect("links");
    assert_eq!(store.name_of(&link), None);
}

#[test]
fn a_look_at_a_record_keeps_nobody_away_and_a_writer_does() {
    let (_dir, store) = store();
    let path = store.path("a");
    begin(&store, "a", "");
    let open = || File::open(&path).expect("opens");
    let other = open();
    other.lock_shared().expect("locks");
    let mut looks = 3;
    let locked = lock_between(&open(), &path, || {
        looks -= 1;
        if looks == 0 {
            other.unlock().expect("unlocks");
        }
    });
    assert_eq!(locked.expect("free at last"), Locked::Held);
    other.lock().expect("locks");
    let mut waits = 0;
    let refused = lock_between(&open(), &path, || waits += 1);
    let message = refused.expect_err("a writer stays").to_string();
    assert!(message.contains("is writing"), "{message}");
    assert_eq!(waits, TRIES - 1);
}

#[test]
fn a_record_that_another_removed_is_not_written() {
    let (_dir, store) = store();
    let path = store.path("a");
    begin(&store, "a", "");
    let file = File::open(&path).expect("opens");
    store.remove("a").expect("removes");
    let refused = lock_between(&file, &path, || {});
    let message = refused.expect_err("it is gone").to_string();
    assert!(message.contains("was removed"), "{message}");
}

#[test]
fn a_run_that_never_began_leaves_nothing() {
    let (_dir, store) = store();
    let path = store.path("a");
    drop(RecordFile::create(&path).expect("makes"));
    assert!(!path.exists());
}

#[test]
fn without_locks_only_a_run_that_has_ended_may_go() {
    let (_dir, store) = store();
    let path = store.path("a");
    let header = json!({
        "event": "header", "format": record::FORMAT, "plumb": "", "rustc": "", "profile": "", "target": "",
        "target_features": "", "run": "", "started": "", "seed": 1, "cpus": [], "identity": "", "host": null,
        "options": {"selectors": [], "preset": "", "budget_s": 1.0, "precision": 1.0, "set": [], "cpus": null,
            "dir": null},
        "environment": {},
        "calibration": {"source": "", "counter_hz": 1.0, "counter_error": 0.0, "windows_hz": [],
            "resolution_ns": 1.0, "pair_cost_ns": 1.0, "vdso_falls_back": false, "core_hz": 1.0,
            "core_source": "", "multiply_cycles": null, "cpu": 0, "notes": []},
    });
    let mut sealer = Sealer::new(record::FORMAT);
    let mut record = header.to_string().into_bytes();
    sealer.seal(&mut record);
    record.push(b'\n');
    fs::write(&path, &record).expect("writes");
    assert!(read(&path).is_ok_and(|read| read.run.footer.is_none()));
    assert!(check_removable(Locked::Held, &path).is_ok());
    let message = check_removable(Locked::Unknown, &path).expect_err("it may be under way");
    assert!(message.to_string().contains("is incomplete"), "{message}");
    codec::write(&mut record, &mut sealer, &Event::Footer(footer())).expect("writes");
    fs::write(&path, &record).expect("writes");
    assert!(check_removable(Locked::Unknown, &path).is_ok());
}

#[test]
fn a_copy_takes_the_place_of_nothing() {
    let (dir, store) = store();
    begin(&store, "a", "now");
    let from = store.path("a");
    let whole = fs::read(&from).expect("reads");
    let to = |name: &str| dir.path().join(name);
    let copy = |to: &Path| copy_whole(&from, to).map_err(|error| error.to_string());
    for _ in 0..2 {
        assert_eq!(copy(&to("copy")), Ok(()));
        assert_eq!(fs::read(to("copy")).expect("reads"), whole);
    }
    assert_eq!(copy(&from), Ok(()));
    // As long, longer, shorter, a directory, and a link to nothing.
    let mut other = whole.clone();
    other[3] ^= 1;
    for (name, bytes) in [
        ("same", other),
        ("longer", [whole.clone(), vec![0]].concat()),
        ("shorter", whole[1..].to_vec()),
    ] {
        fs::write(to(name), &bytes).expect("writes");
        let message = copy(&to(name)).expect_err(name);
        assert!(message.contains("is a different file"), "{message}");
        assert_eq!(fs::read(to(name)).expect("reads"), bytes, "{name} stays");
    }
    fs::create_dir(to("dir")).expect("makes");
    assert!(copy(&to("dir")).is_err());
    std::os::unix::fs::symlink(to("nothing"), to("link")).expect("links");
    assert!(copy(&to("link")).is_err() && to("link").is_symlink());
    let left = fs::read_dir(dir.path()).expect("lists");
    let parts = left.filter(|entry| {
        let name = entry.as_ref().expect("its entries too").file_name();
        name.to_string_lossy().ends_with(".part")
    });
    assert_eq!(parts.count(), 0);
}
