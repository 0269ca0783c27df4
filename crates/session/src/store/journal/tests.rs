//! Tests of `journal`.

use super::{Entry, Undo, WorkDir, holder_of, recover, write_entry};
use crate::store::Store;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

fn go_on() -> AtomicBool {
    AtomicBool::new(false)
}

fn changes(undos: Vec<Undo>, holder: Option<String>) -> Entry {
    Entry { undos, holder, hung: false }
}

fn store(dir: &Path) -> Store {
    Store { dir: dir.join("store") }
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
    let told = recover(&store, &go_on());
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("removed"), "{told:?}");
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
    let told = recover(&store, &go_on());
    assert!(told[0].contains("not a work directory"), "{told:?}");
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
    let told = recover(&store, &go_on());
    assert!(told[0].contains("srv:/export on /mnt"), "{told:?}");
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
fn an_entry_that_is_not_whole_goes_when_nobody_writes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let part = store.dir.join("journal/plumb-x-1.part");
    std::fs::create_dir_all(part.parent().expect("is in one")).expect("makes");
    let file = File::create(&part).expect("makes");
    recover(&store, &go_on());
    assert!(part.exists(), "it may just be written");
    let old = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(old).expect("is set");
    file.lock().expect("locks");
    recover(&store, &go_on());
    assert!(part.exists(), "it is being written");
    drop(file);
    recover(&store, &go_on());
    assert!(!part.exists());
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
