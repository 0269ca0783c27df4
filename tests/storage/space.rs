//! Real file systems that are full, turn read-only, or lose the run's directory.

use crate::disk::Disk;
use crate::plumb::prelude::*;
use crate::runs::{are_measured, has_failed, has_round, hold_when, is_left_clean, outcomes};

const MIB: u64 = 1 << 20;

/// A run of one file of a size, and of something without files.
fn args<'text>(dir: &'text str, preset: &'text str, size: &'text str) -> Vec<&'text str> {
    let what = ["run", "selftest.file", "selftest.echo", "--preset", preset];
    [&what[..], &["--dir", dir, "--set", size]].concat()
}

#[test]
fn a_file_system_that_fills_fails_its_series_with_the_reason() {
    for (kind, bytes) in [("ext4", 24 * MIB), ("xfs", 320 * MIB)] {
        let Some(disk) = Disk::new(kind, bytes) else { return };
        let here = Here::new();
        let dir = disk.text();
        here.ends(3, &args(&dir, "rehearsal", "selftest.file.size=512MiB"));
        let events = here.complete();
        let words = ["cannot create its files", "No space left on device"];
        has_failed(&events, "selftest.file", &words);
        assert_eq!(rounds(&events, "selftest.file"), (0, 1));
        are_measured(&events, &["selftest.echo"]);
        is_left_clean(&here, &disk.left());
    }
}

#[test]
fn a_file_system_that_is_full_is_refused() {
    let Some(disk) = Disk::new("ext4", 24 * MIB) else { return };
    let filled = disk.fill();
    let here = Here::new();
    let dir = disk.text();
    let answer = here.plumb(&args(&dir, "rehearsal", "selftest.file.size=4KiB"));
    // A run that may write nothing, or a directory that cannot be written.
    assert!(matches!(answer.code, Some(2 | 3)), "{answer:?}");
    let said = format!("{}{}", answer.out, answer.err);
    assert!(said.contains("No space left"), "{answer:?}");
    is_left_clean(&here, &disk.left());
    assert!(filled.exists(), "others' files are not touched");
}

#[test]
fn a_disk_that_turns_read_only_costs_no_figure_and_is_cleaned_later() {
    let Some(disk) = Disk::new("ext4", 24 * MIB) else { return };
    let here = Here::new();
    let dir = disk.text();
    let session = here.command(&args(&dir, "quick", "selftest.file.size=8MiB"));
    let session = { session }.spawn().unwrap();
    let pid = session.id();
    hold_when(pid, || has_round(here.records().pop(), "selftest.file"));
    wait_for("nobody to write", || disk.remount("ro").ok());
    signal("CONT", pid);
    let answer = ended(session);
    // Rounds only read the file that was made before.
    assert_eq!(answer.code, Some(0), "{answer:?}");
    are_measured(&events(&here.record()), &["selftest.file", "selftest.echo"]);
    for words in ["cannot remove", "Read-only file system", "tries again"] {
        assert!(answer.err.contains(words), "{words}: {answer:?}");
    }
    assert_eq!(disk.left().len(), 1);
    let next = ["run", "selftest.echo", "--preset", "rehearsal"];
    let answer = here.ends(0, &next);
    assert!(answer.err.contains("cannot clean up"), "{answer:?}");
    disk.remount("rw").unwrap();
    let answer = here.plumb(&next);
    assert!(answer.err.contains("earlier run"), "{answer:?}");
    is_left_clean(&here, &disk.left());
}

#[test]
fn a_directory_that_somebody_removes_ends_its_series_and_not_the_run() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let args = args(&dir, "quick", "selftest.file.size=32MiB");
    let session = here.command(&args).spawn().unwrap();
    let pid = session.id();
    hold_when(pid, || has_round(here.records().pop(), "selftest.file"));
    for name in here.entries("files") {
        fs::remove_dir_all(here.path("files").join(name)).unwrap();
    }
    signal("CONT", pid);
    ended_with(0, session);
    let events = here.complete();
    // It was measured until then.
    let (how, reason) = outcomes(&events, "selftest.file")[0];
    assert_eq!(how, "measured", "{reason}");
    for words in ["given up after", "the prepared file is gone"] {
        assert!(reason.contains(words), "{words}: {reason}");
    }
    are_measured(&events, &["selftest.echo"]);
    here.is_clean("files");
}

#[test]
fn a_directory_that_is_gone_before_its_files_are_made_is_told() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let args = args(&dir, "standard", "selftest.file.size=4KiB");
    let session = here.command(&args).spawn().unwrap();
    // The clocks are calibrated first, for half a second.
    let pid = session.id();
    hold_when(pid, || !here.entries("files").is_empty());
    let name = here.entries("files").pop().unwrap();
    fs::remove_dir(here.path("files").join(name)).unwrap();
    signal("CONT", pid);
    ended_with(3, session);
    let events = here.complete();
    let words = ["cannot create its files", "No such file or directory"];
    has_failed(&events, "selftest.file", &words);
    are_measured(&events, &["selftest.echo"]);
    assert!(here.entries("store/journal").is_empty());
}

#[test]
fn a_directory_whose_file_system_is_not_mounted_stays_in_the_journal() {
    let Some(disk) = Disk::new("ext4", 24 * MIB) else { return };
    let here = Here::new();
    let dir = disk.text();
    let mut session =
        here.command(&args(&dir, "quick", "selftest.file.size=4KiB")).spawn().unwrap();
    let pid = session.id();
    wait_for("the run's directory", || disk.left().pop());
    signal("KILL", pid);
    session.wait().unwrap();
    no_worker_stays(pid);
    let device = wait_for("nobody to use it", || disk.unmount().ok());
    let next = ["run", "selftest.echo", "--preset", "rehearsal"];
    let answer = here.ends(0, &next);
    let words = format!(" on {dir}, which is not mounted here");
    assert!(answer.err.contains(&words), "{words}: {answer:?}");
    assert_eq!(here.entries("store/journal").len(), 1);
    disk.mount_again(device).unwrap();
    assert_eq!(disk.left().len(), 1);
    let answer = here.plumb(&next);
    assert!(answer.err.contains("earlier run"), "{answer:?}");
    is_left_clean(&here, &disk.left());
}
