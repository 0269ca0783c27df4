use super::{View, build, json, ndjson};
use crate::drawn::{Drawn, Fault, Noise};
use crate::file::{Clock, Line};
use crate::names::Titles;
use crate::read::{Fleet, from_lines};
use report::terminal::{Look, render};
use serde_json::Value;

fn view(fleet: &Fleet) -> View<'_> {
    View::new(fleet, Titles::from_keys(fleet.figures.iter().map(|about| &about.key), |_| None))
}

fn shown(fleet: &Fleet) -> String {
    render(&build(&view(fleet), true), Look { width: 200, colours: false })
}

fn drawn(size: usize, faults: Vec<Fault>) -> Drawn {
    Drawn::new(&Noise::plain(), size, faults, 11)
}

fn line(text: &str, start: &str) -> String {
    let found = text.lines().find(|line| line.trim_start().starts_with(start));
    found.unwrap_or_else(|| panic!("no {start}: {text}")).to_owned()
}

#[test]
fn the_answer_names_the_node_and_what_was_not_seen() {
    let (_, fleet) = drawn(24, vec![Fault::Figure(5, 0, 0.3)]).job(3);
    assert_eq!((fleet.nodes.len(), fleet.steps.len(), fleet.notes.len()), (24, 3, 0));
    let text = shown(&fleet);
    assert!(line(&text, "VERDICT").contains("1 node is slower than its peers"), "{text}");
    let row = line(&text, "n005");
    let parts = ["slower", "memory.bandwidth", "again 3×"];
    assert!(parts.iter().all(|part| row.contains(part)), "{row}");
    assert!(line(&text, "CANNOT SEE").contains("(hardware)"), "{text}");
    let flat: Value = serde_json::from_str(&json::render(&view(&fleet))).unwrap();
    let first = &flat["verdicts"][0];
    assert_eq!((&first["node"], &first["state"]), (&"n005".into(), &"accused".into()), "{flat}");
    let files = fleet.nodes.iter().chain(fleet.steps.iter().flatten());
    let pairs = |pairs: &[crate::read::PairValues]| -> usize {
        pairs.iter().map(|pair| pair.values.len()).sum()
    };
    let values: usize = files.map(|node| node.values.len() + pairs(&node.pairs)).sum();
    assert_eq!(ndjson::render(&view(&fleet)).lines().count(), values);
}

/// What is wrong with a sweep of twelve, in a line of the answer.
#[test]
fn what_is_missing_or_off_is_named() {
    let absent = |slot, partner: &str| Line::absent_pair(slot, partner, "no partner in time");
    let clock = Clock { offset_s: -3600.0, peers: vec!["n001".to_owned(); 3], is_corrected: true };
    let mut files = drawn(12, vec![]).sweep();
    files[3].1.insert(1, Line::Clock(clock));
    // The slots of a host whose cable is cut are not its partners' fault.
    for (slot, host, partner) in
        [(3, 2, "n004"), (4, 5, "n004"), (5, 4, "n007, n008"), (6, 2, "n009"), (7, 2, "n005")]
    {
        files[host].1.insert(1, absent(slot, partner));
    }
    // What partners found when they met.
    for (host, lines) in &mut files {
        for line in lines {
            if let Line::Pair(pair) = line {
                let ahead = |name: &str| f64::from(u8::from(name == "n010")) * 7.0;
                pair.offset_s = ahead(&pair.to) - ahead(host);
            }
        }
    }
    files[6].1.pop();
    files.remove(9);
    let text = shown(&from_lines(files));
    for (start, part) in [
        ("VERDICT", "no node and no link is worse than its peers; 2 hosts lost"),
        ("LOST", "n009: no file"),
        ("LOST", "n006: its file has no end"),
        ("UNREACHED", "n004: no partner in 4 slots"),
        ("CLOCK", "n003 is 1 h 0 min ahead of 3 peers; it measured by their clock"),
        ("CLOCK", "n010 is 7 s ahead of"),
        ("n002", "slot 6 with n009"),
    ] {
        let all: Vec<&str> =
            text.lines().filter(|line| line.trim_start().starts_with(start)).collect();
        assert!(all.concat().contains(part), "{start} {part}: {text}");
    }
    assert!(!line(&text, "UNREACHED").contains("n002"), "{text}");
}

#[test]
fn fewer_than_six_nodes_show_their_differences() {
    let fleet = from_lines(drawn(3, vec![Fault::Figure(1, 0, 0.3)]).sweep());
    let text = shown(&fleet);
    assert!(line(&text, "VERDICT").contains("none: no node has five peers"), "{text}");
    let row = text.lines().rfind(|line| line.contains("memory.bandwidth")).unwrap();
    assert!(row.contains("1.3"), "{row}");
    assert!(text.contains("fewer than six are alike, so none is accused"), "{text}");
}
