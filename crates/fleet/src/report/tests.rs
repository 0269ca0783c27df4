use super::{View, build, json, ndjson};
use crate::drawn::{Drawn, Fault, Noise, text};
use crate::file::{Absent, Clock, Line};
use crate::model::{judge, suspects};
use crate::names::Titles;
use crate::read::{Fleet, from_lines, read};
use report::terminal::{Look, render};
use serde_json::Value;
use std::path::Path;

type Files = Vec<(String, Vec<Line>)>;

fn titles(fleet: &Fleet) -> Titles {
    Titles::from_keys(fleet.figures.iter().map(|about| &about.key), |_| None)
}

fn shown(fleet: &Fleet) -> String {
    let view = View::new(fleet, titles(fleet));
    render(&build(&view, true), Look { width: 200, colours: false })
}

/// A sweep of 24 nodes with a slow node and its steps of suspects.
fn planted() -> Files {
    let mut drawn = Drawn::new(&Noise::plain(), 24, Fault::Figure(5, 0, 0.3), 11);
    let mut files = drawn.sweep();
    for _ in 0..3 {
        let fleet = from_lines(files.clone());
        files.extend(drawn.again(&suspects(&fleet, &judge(&fleet))));
    }
    files
}

fn write(dir: &Path, files: &Files) {
    for (place, (host, lines)) in files.iter().enumerate() {
        let again = lines[0].node.as_ref().is_some_and(|node| node.again);
        let name = if again { format!("{host}.{place}.jsonl") } else { format!("{host}.jsonl") };
        std::fs::write(dir.join(name), text(lines)).unwrap();
    }
}

/// The line of the report that begins with a word.
fn line(text: &str, start: &str) -> String {
    let found = text.lines().find(|line| line.trim_start().starts_with(start));
    found.unwrap_or_else(|| panic!("no {start}: {text}")).to_owned()
}

#[test]
fn the_answer_names_the_node_and_what_was_not_seen() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &planted());
    let fleet = read(dir.path(), None).unwrap();
    assert_eq!((fleet.nodes.len(), fleet.steps.len(), fleet.notes.len()), (24, 3, 0));
    let text = shown(&fleet);
    assert!(line(&text, "VERDICT").contains("1 node is slower than its peers"), "{text}");
    let row = line(&text, "n005");
    assert!(
        row.contains("slower") && row.contains("memory.bandwidth") && row.contains("again 3×"),
        "{row}"
    );
    assert!(line(&text, "CANNOT SEE").contains("(hardware)"), "{text}");
    let view = View::new(&fleet, titles(&fleet));
    let flat: Value = serde_json::from_str(&json::render(&view)).unwrap();
    assert_eq!(flat["verdicts"][0]["node"], "n005");
    assert_eq!(flat["verdicts"][0]["state"], "accused");
    assert_eq!(flat["lost"], serde_json::json!([]));
    let lines = ndjson::render(&view);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let values: usize = fleet
        .nodes
        .iter()
        .chain(fleet.steps.iter().flatten())
        .map(|node| {
            node.values.len() + node.pairs.iter().map(|pair| pair.values.len()).sum::<usize>()
        })
        .sum();
    assert_eq!(lines.len(), values);
}

#[test]
fn hosts_without_a_file_or_an_end_are_lost_and_no_other() {
    let mut files = Drawn::new(&Noise::plain(), 12, Fault::None, 7).sweep();
    files.remove(9);
    files[6].1.pop();
    let absent =
        Absent::of_pair(3, "n009", "no partner in the first quarter of the slot".to_owned());
    files[2].1.insert(1, Line { absent: Some(absent), ..Line::default() });
    let text = shown(&from_lines(files));
    let lost = line(&text, "LOST");
    assert!(lost.contains("n009: no file") && lost.contains("n006: its file has no end"), "{lost}");
    assert!(line(&text, "VERDICT").contains("no node and no link is worse"), "{text}");
    assert!(text.contains("slot 3 with n009"), "{text}");
}

/// The slots of a host whose cable is cut are not its partners' fault.
#[test]
fn a_host_that_no_partner_reaches_is_named() {
    let mut files = Drawn::new(&Noise::plain(), 12, Fault::None, 7).sweep();
    files.remove(9);
    for (slot, host, partner) in
        [(3, 2, "n004"), (4, 5, "n004"), (5, 4, "n006, n007"), (6, 2, "n009"), (7, 2, "n005")]
    {
        let absent = Some(Absent::of_pair(slot, partner, "no partner".to_owned()));
        files[host].1.insert(1, Line { absent, ..Line::default() });
    }
    let text = shown(&from_lines(files));
    assert!(line(&text, "UNREACHED").contains("n004: no partner in 4 slots"), "{text}");
    assert!(!line(&text, "UNREACHED").contains("n002"), "{text}");
}

#[test]
fn a_clock_that_is_off_is_named() {
    let mut files = Drawn::new(&Noise::plain(), 12, Fault::None, 7).sweep();
    let clock = Clock { offset_s: -3600.0, peers: vec!["n001".to_owned(); 3], is_corrected: true };
    files[3].1.insert(1, Line { clock: Some(clock), ..Line::default() });
    let text = shown(&from_lines(files));
    assert!(line(&text, "CLOCK").contains("n003 is 1 h 0 min ahead of 3 peers"), "{text}");
}

/// Each is one line of notes, and the rest of the report stands.
#[test]
fn files_that_do_not_belong_are_one_line_each() {
    let dir = tempfile::tempdir().unwrap();
    let files = Drawn::new(&Noise::plain(), 12, Fault::None, 7).sweep();
    write(dir.path(), &files);
    let path = |name: &str| dir.path().join(name);
    let header = |change: &dyn Fn(&mut crate::file::Header)| {
        let mut lines = files[4].1.clone();
        change(lines[0].node.as_mut().unwrap());
        text(&lines)
    };
    let whole = std::fs::read(path("n001.jsonl")).unwrap();
    std::fs::write(path("n001.jsonl"), &whole[..whole.len() - 20]).unwrap();
    std::fs::write(path("n002.jsonl"), &whole[..40]).unwrap();
    let flipped = String::from_utf8(std::fs::read(path("n003.jsonl")).unwrap()).unwrap();
    std::fs::write(path("n003.jsonl"), flipped.replacen("\"value\":", "\"value\": ", 1)).unwrap();
    for (name, bytes) in [
        ("a-newer.jsonl", header(&|header| header.format += 1)),
        ("b-older.jsonl", b"{\"event\":\"header\",\"format\":1,\"size\":3}\n".to_vec()),
        ("c-sweep.jsonl", header(&|header| (header.sweep, header.size) = ("other".to_owned(), 16))),
        ("d-twice.jsonl", header(&|_| ())),
        ("e-stranger.jsonl", header(&|header| header.host = "stranger".to_owned())),
        ("f-empty.jsonl", Vec::new()),
        ("g-text.jsonl", b"hello\n".to_vec()),
    ] {
        std::fs::write(path(name), bytes).unwrap();
    }
    let fleet = read(dir.path(), None).unwrap();
    for part in [
        "a-newer.jsonl: its format is 3, this plumb reads fleet formats up to 2: use a newer plumb",
        "b-older.jsonl: its format is 1, of a development version of plumb",
        "c-sweep.jsonl: it is of another sweep (size 16, the others 12)",
        "n004 has another file",
        "e-stranger.jsonl: stranger is not in the list of hosts",
        "f-empty.jsonl: it is empty",
        "g-text.jsonl: it is not a node's file",
        "n001.jsonl: it is cut after line",
        "n002.jsonl: its first line is cut",
        "n003.jsonl: 1 of its lines are damaged",
    ] {
        let count = fleet.notes.iter().filter(|note| note.contains(part)).count();
        assert_eq!(count, 1, "{part}: {:?}", fleet.notes);
    }
    assert_eq!((fleet.notes.len(), fleet.nodes.len()), (10, 11));
    assert!(fleet.notes.iter().all(|note| note.lines().count() == 1));
    assert!(line(&shown(&fleet), "VERDICT").contains("no node and no link is worse"));
    let empty = tempfile::tempdir().unwrap();
    assert!(read(empty.path(), None).unwrap_err().to_string().contains("no file of a sweep"));
}

#[test]
fn fewer_than_six_nodes_show_their_differences() {
    let fleet = from_lines(Drawn::new(&Noise::plain(), 3, Fault::Figure(1, 0, 0.3), 7).sweep());
    let text = shown(&fleet);
    assert!(line(&text, "VERDICT").contains("none: no node has five peers"), "{text}");
    let row = text.lines().rfind(|line| line.contains("memory.bandwidth")).unwrap();
    assert!(row.contains("1.3"), "{row}");
    assert!(text.contains("fewer than six are alike, so none is accused"), "{text}");
}
