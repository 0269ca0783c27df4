//! Tests of `journal`.

use super::{Entry, Undo, WorkDir, holder_of, left_elsewhere, recover, write_entry};
use crate::store::{Store, trust};
use host::place::Place;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn go_on() -> AtomicBool {
    AtomicBool::new(false)
}

fn changes(undos: Vec<Undo>, holder: Option<String>) -> Entry {
    Entry { place: Place::here(), undos, holder, hung: false, made: None }
}

fn store(dir: &Path) -> Store {
    let store = Store { dir: dir.join("store") };
    trust::make(&store.dir.join("journal")).expect("is made");
    store
}

/// An entry of a dead owner, and the directory with a file that it may have made.
fn left(dir: &Path, store: &Store, change: impl FnOnce(&mut Entry)) -> [std::path::PathBuf; 2] {
    let work = dir.join("plumb-x-1");
    std::fs::create_dir(&work).expect("makes");
    std::fs::write(work.join("file"), "x").expect("writes");
    let facts = work.metadata().expect("is there");
    let mut entry = changes(vec![Undo::RemoveDir(work.clone())], holder_of(&work));
    entry.made = Some((facts.dev(), facts.ino()));
    change(&mut entry);
    let path = store.dir.join("journal/plumb-x-1.json");
    drop(write_entry(&path, &entry).expect("writes"));
    [work, path]
}

#[test]
fn only_what_was_made_is_emptied() {
    /// What an entry says otherwise, and whether its directory goes.
    type Case = (fn(&mut Entry), bool);
    let cases: [Case; 5] = [
        (|_| (), true),
        (|entry| entry.made = entry.made.map(|(device, _)| (device, 1)), false),
        // It was killed before it wrote down what it made: only what is empty goes.
        (|entry| entry.made = None, false),
        // On a server that was mounted again.
        (|entry| entry.made = entry.made.map(|(_, inode)| (1, inode)), true),
        (
            |entry| {
                entry.made = entry.made.map(|(_, inode)| (1, inode));
                entry.holder = None;
            },
            false,
        ),
    ];
    for (number, (change, goes)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        let [work, entry] = left(dir.path(), &store, change);
        let message = recover(&store, &go_on());
        assert_eq!(message.len(), 1, "{number}: {message:?}");
        assert_eq!(work.join("file").exists(), !goes, "{number}: {message:?}");
        assert_eq!(entry.exists(), !goes, "{number}: {message:?}");
    }
}

#[test]
fn a_link_in_the_place_of_what_was_made_is_not_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let [work, _] = left(dir.path(), &store, |_| ());
    let precious = dir.path().join("precious");
    std::fs::rename(&work, &precious).expect("moves");
    symlink(&precious, &work).expect("links");
    recover(&store, &go_on());
    assert!(precious.join("file").exists());
}

#[test]
fn what_another_place_left_is_listed_and_left_alone() {
    type Change = fn(&mut Entry);
    let elsewhere: [(Change, &str); 2] = [
        (|entry| entry.place.machine = "another".to_owned(), "on another machine"),
        (|entry| entry.place.processes = "1".to_owned(), "in a container of this machine"),
    ];
    for (change, place) in elsewhere {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        let [work, entry] = left(dir.path(), &store, change);
        assert_eq!(recover(&store, &go_on()), [""; 0]);
        // Nor is what is not there from here.
        std::fs::rename(&work, dir.path().join("moved")).expect("moves");
        assert_eq!(recover(&store, &go_on()), [""; 0]);
        assert!(entry.exists());
        let left = left_elsewhere(&store);
        assert_eq!((&left[0].entry, &left[0].paths, left[0].place), (&entry, &vec![work], place));
    }
}

#[test]
fn a_journal_that_others_may_write_is_neither_read_nor_written() {
    for shared in ["store", "store/journal"] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path());
        let [work, entry] = left(dir.path(), &store, |_| ());
        let mode = |mode| {
            let path = dir.path().join(shared);
            std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("is set");
        };
        mode(0o777);
        assert_eq!(recover(&store, &go_on()), [""; 0]);
        assert!(left_elsewhere(&store).is_empty());
        let refused = WorkDir::make(&store, dir.path(), "run", &[], &go_on());
        let message = format!("{:#}", refused.expect_err("is refused"));
        assert!(message.contains("chmod go-w") && message.contains("PLUMB_STORE"), "{message}");
        assert!(work.exists() && entry.exists());
        mode(0o755);
        assert_eq!(recover(&store, &go_on()).len(), 1);
        assert!(!work.exists() && !entry.exists());
    }
}

#[test]
fn a_path_that_is_no_text_is_written_down() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let below = dir.path().join(std::ffi::OsStr::from_bytes(b"not \xff text"));
    std::fs::create_dir(&below).expect("makes");
    let work = WorkDir::make(&store, &below, "run", &[], &go_on()).expect("is made");
    work._lock.unlock().expect("unlocks");
    std::mem::forget(work);
    assert_eq!(recover(&store, &go_on()).len(), 1);
    assert_eq!(below.read_dir().expect("lists").count(), 0);
}

#[test]
fn a_live_owner_keeps_its_directory_and_takes_it_along() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let work = WorkDir::make(&store, dir.path(), "run", &[], &go_on()).expect("is made");
    std::fs::write(work.path().join("file"), "x").expect("writes");
    let path = work.path().to_owned();
    assert!(recover(&store, &go_on()).is_empty(), "its owner lives");
    assert!(path.join("file").exists());
    work.remove(false).expect("is removed");
    assert!(!path.exists());
    let left = std::fs::read_dir(store.dir.join("journal")).expect("is there");
    assert_eq!(left.count(), 0);
}

#[test]
fn what_a_dead_owner_left_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let work = WorkDir::make(&store, dir.path(), "run", &[], &go_on()).expect("is made");
    std::fs::write(work.path().join("file"), "x").expect("writes");
    let path = work.path().to_owned();
    // A killed process runs no destructors, and its files are closed.
    work._lock.unlock().expect("unlocks");
    std::mem::forget(work);
    let message = recover(&store, &go_on());
    assert_eq!(message.len(), 1);
    assert!(message[0].contains("removed"), "{message:?}");
    assert!(!path.exists());
    assert!(recover(&store, &go_on()).is_empty(), "once is enough");
}

#[test]
fn a_group_that_a_dead_owner_left_is_removed_and_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    // An empty directory is to the journal what a group without processes is.
    let groups = dir.path().join("groups");
    std::fs::create_dir(&groups).expect("makes");
    let work = WorkDir::make(&store, dir.path(), "run", std::slice::from_ref(&groups), &go_on())
        .expect("is made");
    let group = groups.join(work.path().file_name().expect("has a name"));
    assert!(!group.exists(), "the worker makes it, not the journal");
    std::fs::create_dir(&group).expect("makes");
    work._lock.unlock().expect("unlocks");
    std::mem::forget(work);
    assert!(!recover(&store, &go_on()).is_empty());
    assert!(!group.exists() && groups.exists());
    // What holds something is no group of ours, and is kept.
    let work = WorkDir::make(&store, dir.path(), "run", std::slice::from_ref(&groups), &go_on())
        .expect("is made");
    let group = groups.join(work.path().file_name().expect("has a name"));
    std::fs::create_dir_all(group.join("child")).expect("makes");
    assert!(work.remove(false).is_err());
    assert!(group.exists());
}

#[test]
fn nothing_but_a_work_directory_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let precious = dir.path().join("precious");
    std::fs::create_dir(&precious).expect("makes");
    let entry = store.dir.join("journal/entry.json");
    let undos = vec![Undo::RemoveDir(precious.clone())];
    drop(write_entry(&entry, &changes(undos, None)).expect("writes"));
    let message = recover(&store, &go_on());
    assert!(message[0].contains("not a work directory"), "{message:?}");
    assert!(precious.exists());
    std::fs::write(&entry, "{").expect("damages it");
    assert!(recover(&store, &go_on())[0].contains("damaged"));
    assert!(entry.exists(), "what is not understood is kept");
}

#[test]
fn a_directory_that_is_not_mounted_is_not_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let work = dir.path().join("plumb-x-1");
    let entry = store.dir.join("journal/plumb-x-1.json");
    let write = |holder| {
        let undos = vec![Undo::RemoveDir(work.clone())];
        drop(write_entry(&entry, &changes(undos, holder)).expect("writes"));
    };
    let here = holder_of(&work);
    assert!(here.is_some(), "Linux tells it");
    write(Some("nfs4 srv:/export on /mnt".to_owned()));
    let message = recover(&store, &go_on());
    assert!(message[0].contains("srv:/export on /mnt"), "{message:?}");
    assert!(entry.exists(), "it may be mounted again");
    // It is there, wherever: it is ours.
    std::fs::create_dir(&work).expect("makes");
    assert!(recover(&store, &go_on())[0].starts_with("removed"));
    assert!(!work.exists() && !entry.exists());
    // A run that was killed before it made one left nothing to tell of.
    write(here);
    assert!(recover(&store, &go_on()).is_empty());
    assert!(!entry.exists());
}

#[test]
fn an_interruption_leaves_the_rest_to_the_next_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let work = dir.path().join("plumb-x-1");
    std::fs::create_dir(&work).expect("makes");
    let entry = store.dir.join("journal/plumb-x-1.json");
    let undos = vec![Undo::RemoveDir(work.clone())];
    drop(write_entry(&entry, &changes(undos, None)).expect("writes"));
    let stop = AtomicBool::new(true);
    assert!(recover(&store, &stop).is_empty());
    assert!(WorkDir::make(&store, dir.path(), "run", &[], &stop).is_err());
    assert!(entry.exists() && work.exists());
}
