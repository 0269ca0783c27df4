//! What a record starts that is resumed: nothing that whoever resumes it has not asked for, and
//! nothing against another far end than it had.

use crate::lab::{ECHO, Lab, rounds};
use crate::plumb::{self, prelude::*};

/// The events of a run against an agent that was started by a command, as if it had been killed
/// after its round.
fn killed(lab: &Lab) -> Vec<Value> {
    let peer = format!("exec:'{}' agent --data 127.0.0.1", PLUMB);
    let run = [&["run"], &ECHO[..], &["--preset", "rehearsal", "--peer", &peer]].concat();
    lab.ends(0, &run);
    let mut events = lab.events();
    let round = events.iter().position(|event| event["event"] == "plan");
    events.truncate(round.expect("it was planned") + 1);
    events
}

fn write(file: &Path, events: &[Value]) {
    fs::write(file, lines(events)).unwrap();
}

fn refused(answer: &Ended, words: &str) {
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.said.contains(words), "no `{words}`: {answer:?}");
}

#[test]
fn a_record_from_elsewhere_runs_no_commands() {
    let lab = Lab::new();
    let mut events = killed(&lab);
    let ran = lab.path("ran");
    let command = format!("exec:touch '{}'", ran.display());
    let file = lab.text("mailed.jsonl");
    let resume = |peers: &[&str]| {
        let args = ["run", "--resume", &file];
        lab.plumb(&[&args[..], peers].concat())
    };
    // Of another machine.
    let identity = events[0]["identity"].take();
    events[0]["identity"] = json!("0123456789abcdef");
    events[0]["options"]["peers"] = json!([command]);
    write(Path::new(&file), &events);
    refused(&resume(&[]), "another machine");
    refused(&resume(&["--peer", &command]), "another machine");
    // One that says that it is of this one; ssh starts a program elsewhere, the others connect.
    events[0]["identity"] = identity;
    for far in [&command, "ssh://localhost:1/tmp/plumb", "tcp://127.0.0.1:1"] {
        events[0]["options"]["peers"] = json!([far]);
        write(Path::new(&file), &events);
        refused(&resume(&[]), &format!("--resume {file} --peer "));
        refused(&resume(&["--peer", "exec:true"]), "keeps its far ends");
    }
    // Nor does the store make it another one.
    events[0]["options"]["peers"] = json!([command]);
    write(&lab.records().pop().unwrap(), &events);
    refused(&lab.plumb(&["run", "--resume", "last"]), "--resume last --peer ");
    assert!(!ran.exists());
    // It is what was asked for.
    write(Path::new(&file), &events);
    let answer = resume(&["--peer", &command]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(ran.exists());
}

#[test]
fn a_record_that_is_read_starts_nothing() {
    let lab = Lab::new();
    lab.plumb(&["run", "selftest.fault", "--preset", "rehearsal", "--quiet"]);
    let ran = lab.path("ran");
    let mut events = lab.events();
    events[0]["options"]["peers"] = json!([format!("exec:touch '{}'", ran.display())]);
    let record = lab.records().pop().unwrap();
    write(&record, &events);
    let file = record.to_str().unwrap();
    for (args, code) in [
        (&["report", file, "--full"][..], 0),
        (&["report", "last", "--format", "html"], 0),
        (&["compare", file, "last"], 0),
        (&["trend", "selftest.fault"], 0),
        (&["runs"], 0),
        (&["crosscheck", "stress-ng", "--into", "last", "--pairs", "1"], 0),
    ] {
        let answer = lab.plumb(args);
        // Its tool may not be installed.
        assert!(answer.code == Some(code) || args[0] == "crosscheck", "{args:?} {answer:?}");
        assert!(!ran.exists(), "{args:?}");
    }
}

#[test]
fn a_record_outside_of_the_store_goes_on_with_its_far_end_repeated() {
    let lab = Lab::new();
    let events = killed(&lab);
    let peer = events[0]["options"]["peers"][0].as_str().unwrap();
    let file = lab.path("own.jsonl");
    write(&file, &events);
    let file_text = lab.text("own.jsonl");
    lab.ends(0, &["run", "--resume", &file_text, "--peer", peer]);
    let events = plumb::events(&file);
    assert_eq!((end(&events), rounds(&events)), ("complete", (1, vec![])));
}

#[test]
fn a_run_goes_on_against_no_other_far_end() {
    let lab = Lab::new();
    let events = killed(&lab);
    let record = lab.records().pop().unwrap();
    let peer = events[0]["options"]["peers"][0].as_str().unwrap();
    let resume = |fact: &str, value: Value| {
        let mut events = events.clone();
        events[0]["peers"][0][fact] = value;
        write(&record, &events);
        let before = fs::read(&record).unwrap();
        let answer = lab.plumb(&["run", "--resume", "last", "--peer", peer]);
        (answer, fs::read(&record).unwrap() == before)
    };
    let (another, is_as_before) = resume("identity", json!("0123456789abcdef"));
    refused(&another, "the far end peer was another machine");
    assert!(is_as_before);
    // Its agent may use fewer CPUs now.
    let (fewer, is_as_before) = resume("cpus", json!([9999]));
    assert_eq!(fewer.code, Some(3), "{fewer:?}");
    assert!(fewer.said.contains("9999"), "{fewer:?}");
    assert!(is_as_before);
    let cpus = events[0]["peers"][0]["cpus"].clone();
    let (same, _) = resume("cpus", cpus.clone());
    assert_eq!(same.code, Some(0), "{same:?}");
    assert_eq!(events_of_kind(&lab.events(), "segment")[0]["peers"][0]["cpus"], cpus);
}
