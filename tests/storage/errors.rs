//! Devices that fail, fill or turn read-only while they are used.

use crate::faulty::{Faulty, How, On};
use crate::plumb::prelude::*;
use crate::runs::{are_measured, has_failed, is_left_clean, outcomes};
use fuser::Errno;

const NOTHING: [PathBuf; 0] = [];

#[test]
fn a_device_that_cannot_be_read_fails_its_cases_with_the_reason() {
    let Some(faulty) = Faulty::that(On::Read, 3, How::Error(Errno::EIO)) else { return };
    let here = Here::new();
    let args = ["run", "selftest.file", "selftest.echo", "--preset"];
    here.ends(3, &[&args[..], &["rehearsal", "--dir", &faulty.text()]].concat());
    let events = here.complete();
    has_failed(&events, "selftest.file", &["Input/output error"]);
    are_measured(&events, &["selftest.echo"]);
    // What was read before it failed is no figure.
    assert_eq!(rounds(&events, "selftest.file"), (0, 3));
    assert_eq!(faulty.paths(), NOTHING);
}

/// A file cannot be made, for this reason: its series ends without another attempt, what was
/// written of the file is gone while the run still goes on, and another experiment is measured.
fn a_file_cannot_be_made(faulty: &Faulty, reason: &str) {
    let here = Here::new();
    let line = format!(
        "run selftest.file selftest.echo selftest.pulse --preset rehearsal \
         --set selftest.file.size=1MiB --set selftest.pulse.duration=60s --dir {}",
        faulty.text()
    );
    let session = here.command(&line).spawn().unwrap();
    let pid = session.id();
    here.wait_for(|event| is(event, "round") && event["series"] == "selftest.file");
    here.wait_for(|event| is(event, "round") && event["series"] == "selftest.echo");
    let left = faulty.paths();
    assert_eq!(left.len(), 1, "only the run's own directory: {left:?}");
    signal("INT", pid);
    ended_with(4, session);
    no_worker_stays(pid);
    let events = events(&here.record());
    has_failed(&events, "selftest.file", &["cannot create its files", reason]);
    assert_eq!(rounds(&events, "selftest.file"), (0, 1));
    assert_eq!(outcomes(&events, "selftest.echo")[0].0, "measured");
    assert!(here.entries("store/journal").is_empty());
}

#[test]
fn a_device_that_cannot_be_written_ends_the_series_at_once() {
    let Some(faulty) = Faulty::that(On::Write, 20, How::Error(Errno::EIO)) else { return };
    a_file_cannot_be_made(&faulty, "Input/output error");
    faulty.mend();
    faulty.set(On::Sync, 0, How::Error(Errno::EIO));
    a_file_cannot_be_made(&faulty, "cannot sync the file: Input/output error");
    assert_eq!(faulty.paths(), NOTHING);
}

#[test]
fn a_device_without_room_ends_the_series_at_once() {
    let Some(faulty) = Faulty::mount() else { return };
    faulty.set_room(512 << 10);
    a_file_cannot_be_made(&faulty, "No space left on device");
    assert_eq!(faulty.paths(), NOTHING);
}

#[test]
fn a_device_that_turns_read_only_costs_what_it_held() {
    let Some(faulty) = Faulty::mount() else { return };
    let here = Here::new();
    let dir = faulty.text();
    let args = ["run", "selftest.file", "selftest.echo", "--preset", "rehearsal", "--dir", &dir];
    // It is written slowly, and refused in the middle.
    faulty.set(On::Write, 1, How::Slow(Duration::from_millis(20)));
    let set = ["--set", "selftest.file.size=1MiB"];
    let session = here.command(&[&args[..], &set].concat()).spawn().unwrap();
    wait_for("the middle of the file", || (faulty.asked(On::Write) > 10).then_some(()));
    faulty.set_read_only(true);
    let answer = ended_with(3, session);
    let events = here.complete();
    has_failed(&events, "selftest.file", &["Read-only file system"]);
    are_measured(&events, &["selftest.echo"]);
    // Nothing can be removed from it now: that is told, and made good when it can.
    for words in ["cannot remove", "Read-only file system", "tries again"] {
        assert!(answer.err.contains(words), "{words}: {answer:?}");
    }
    faulty.set_read_only(false);
    let next = here.plumb(&["run", "selftest.echo", "--preset", "rehearsal"]);
    assert!(next.err.contains("earlier run"), "{next:?}");
    assert_eq!(faulty.paths(), NOTHING);
}

/// A signal in the middle of the making of a file, and in the middle of a round that reads it.
#[test]
fn a_signal_leaves_nothing_and_a_kill_leaves_it_to_the_next_start() {
    for on in [On::Write, On::Read] {
        for name in ["INT", "TERM", "KILL"] {
            let Some(faulty) = Faulty::that(on, 1, How::Slow(Duration::from_millis(100))) else {
                return;
            };
            let here = Here::new();
            let size = "selftest.file.size=256KiB";
            let dir = faulty.text();
            let line = format!("run selftest.file --preset rehearsal --set {size} --dir {dir}");
            let mut session = here.command(&line).spawn().unwrap();
            let pid = session.id();
            wait_for("the middle", || (faulty.asked(on) > 2).then_some(()));
            signal(name, pid);
            if name == "KILL" {
                session.wait().unwrap();
                assert!(!faulty.paths().is_empty(), "{on:?}");
                let next = here.ends(0, &["run", "selftest.echo", "--preset", "rehearsal"]);
                assert!(next.err.contains("earlier run"), "{next:?}");
            } else {
                ended_with(4, session);
            }
            no_worker_stays(pid);
            is_left_clean(&here, &faulty.paths());
        }
    }
}
