//! The fs family on storage that fails.

use crate::disk::Disk;
use crate::faulty::{Faulty, How, On};
use crate::plumb::prelude::*;
use crate::runs::{are_measured, is_left_clean, outcomes};
use fuser::Errno;

const MIB: u64 = 1 << 20;
const NOTHING: [PathBuf; 0] = [];

fn run<'text>(what: &[&'text str], preset: &'text str, dir: &'text str) -> Vec<&'text str> {
    [&["run"], what, &["--preset", preset, "--dir", dir]].concat()
}

/// How the cases of an experiment with this text in them ended, and why.
fn cases<'run>(events: &'run [Value], experiment: &str, text: &str) -> Vec<(&'run str, &'run str)> {
    let all = events_of_kind(events, "outcome").into_iter();
    let found = all.filter(|outcome| {
        outcome["experiment"] == experiment && outcome["case"].to_string().contains(text)
    });
    let as_text = |value: &'run Value| value.as_str().unwrap_or_default();
    let found = found.map(|outcome| (as_text(&outcome["outcome"]), as_text(&outcome["reason"])));
    let found: Vec<(&str, &str)> = found.collect();
    assert!(!found.is_empty(), "{experiment}: no case with {text}");
    found
}

#[test]
fn what_has_no_room_is_refused_before_anything_is_written() {
    let Some(disk) = Disk::new("ext4", 48 * MIB) else { return };
    let here = Here::new();
    let dir = disk.text();
    let answer = here.ends(3, &run(&["fs.read"], "quick", &dir));
    for words in ["may be written here", "--dir DIR with more free space", "fs.read.size"] {
        assert!(answer.err.contains(words), "{words}: {answer:?}");
    }
    assert_eq!(disk.left(), NOTHING);
    assert!(here.records().is_empty());
}

#[test]
fn a_disk_that_others_fill_meanwhile_fails_what_needs_the_room() {
    let Some(disk) = Disk::new("ext4", 1024 * MIB) else { return };
    let here = Here::new();
    let dir = disk.text();
    let what = ["fs.read", "selftest.file", "selftest.echo"];
    let size = ["--set", "selftest.file.size=512MiB"];
    let args = [&run(&what, "quick", &dir)[..], &size].concat();
    let session = here.command(&args).spawn().unwrap();
    // It is being written.
    wait_for("the file", || {
        let file = disk.left().pop()?.join("selftest-file");
        (file.metadata().ok()?.len() > MIB).then_some(())
    });
    let filled = disk.fill();
    let answer = ended(session);
    assert!(matches!(answer.code, Some(0 | 3)), "{answer:?}");
    let events = here.complete();
    let [("failed", reason)] = outcomes(&events, "selftest.file")[..] else { panic!("{events:?}") };
    assert!(reason.contains("No space left"), "{reason}");
    // What came before was measured, what came after says why it was not.
    for (how, reason) in outcomes(&events, "fs.read") {
        let is_space = reason.contains("No space left") || reason.contains("plumb leaves a tenth");
        assert!(how == "measured" || is_space, "{how}: {reason}");
    }
    are_measured(&events, &["selftest.echo"]);
    assert!(filled.exists());
    is_left_clean(&here, &disk.left());
}

/// Direct reads wait for their answer whatever signal comes: the first that hangs is the last, of
/// this experiment and of the others with files there.
#[test]
fn a_directory_that_hangs_for_good_fails_all_that_is_left_there_at_once() {
    let Some(faulty) = Faulty::mount() else { return };
    let here = Here::new();
    let dir = faulty.text();
    let what = ["fs.read", "fs.io", "selftest.echo"];
    let sizes = ["--set", "fs.read.size=1MiB", "--set", "fs.read.mode=direct"];
    let args = [&run(&what, "quick", &dir)[..], &sizes].concat();
    let session = here.command(&args).spawn().unwrap();
    // One round is measured.
    here.wait_for(|event| is(event, "round") && event["series"].to_string().contains("fs.read"));
    faulty.set(On::Read, 0, How::Hang);
    let answer = ended(session);
    let events = here.complete();
    let hung = |event: &&Value| event["reason"].to_string().contains("cannot be killed");
    let voids = events_of_kind(&events, "round").into_iter().filter(hung);
    assert!(voids.count() >= 1, "{answer:?}");
    for id in ["fs.read", "fs.io"] {
        for (_, reason) in outcomes(&events, id) {
            assert!(reason.contains("hangs") && reason.contains(&dir), "{id}: {reason}");
        }
    }
    are_measured(&events, &["selftest.echo"]);
}

#[test]
fn a_device_that_fails_in_a_case_costs_that_case() {
    let Some(faulty) = Faulty::mount() else { return };
    let here = Here::new();
    let dir = faulty.text();
    let sizes = ["--set", "fs.read.size=1MiB", "--set", "fs.read.mode=direct,cold"];
    let args = [&run(&["fs.read", "selftest.echo"], "quick", &dir)[..], &sizes].concat();
    let session = here.command(&args).spawn().unwrap();
    here.wait_for(|event| is(event, "round") && event["series"].to_string().contains("fs.read"));
    faulty.set(On::Read, 5, How::Error(Errno::EIO));
    ended_with(0, session);
    let events = here.complete();
    let told = cases(&events, "fs.read", "direct");
    assert!(told.iter().any(|(_, reason)| reason.contains("Input/output error")), "{told:?}");
    assert_eq!(faulty.paths(), NOTHING);
}

/// A file system of a device that cannot read past the page cache says so, and so does plumb.
#[test]
fn direct_reads_are_refused_where_they_are_not_direct() {
    let Some(disk) = Disk::with("ext4", 512 * MIB, "loop,data=journal") else { return };
    let here = Here::new();
    let dir = disk.text();
    here.ends(0, &run(&["fs.read"], "rehearsal", &dir));
    let found = events(&here.record());
    for (how, reason) in cases(&found, "fs.read", "\"direct\"") {
        assert_eq!(how, "failed");
        assert!(reason.contains("O_DIRECT"), "{reason}");
    }
    for (how, reason) in cases(&found, "fs.read", "\"cold\"") {
        assert_eq!(how, "measured", "{reason}");
    }
    assert_eq!(disk.left(), NOTHING);
    // Files in memory are no device's.
    for kind in ["tmpfs", "ramfs"] {
        let Some(memory) = Disk::in_memory(kind) else { return };
        let answer = here.ends(3, &run(&["fs.read"], "rehearsal", &memory.text()));
        assert!(answer.err.contains("--dir DIR"), "{kind}: {answer:?}");
        assert_eq!(memory.left(), NOTHING);
    }
}

/// The mount table of a container does not show the layers of its overlay.
#[test]
fn an_overlay_is_no_device_s_if_its_files_are_in_memory() {
    let here = Here::new();
    let below = [(Disk::in_memory("tmpfs"), true), (Disk::new("ext4", 96 * MIB), false)];
    for (below, is_memory) in below {
        let Some(overlay) = below.as_ref().and_then(Disk::over) else { return };
        let plan = here.ends(0, &["plan", "fs", "--preset", "rehearsal", "--dir", &overlay.text()]);
        let said = plan.out.contains("overlay, which keeps its files in memory");
        assert_eq!(said, is_memory, "{plan:?}");
        assert_eq!(overlay.left(), NOTHING);
    }
}
