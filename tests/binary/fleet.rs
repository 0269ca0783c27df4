//! `plumb fleet report`, `suspects`, `compare` and `plan`: formats, files, exit codes, bad input.

use crate::plumb::prelude::*;
use fleet::drawn::{Drawn, Fault, Files, Noise, text};
use fleet::file::{Header, Line};

fn write(here: &Here, dir: &str, files: &Files) {
    here.make_dir(dir);
    for (place, (host, lines)) in files.iter().enumerate() {
        fs::write(here.path(&format!("{dir}/{host}.{place}.jsonl")), text(lines)).unwrap();
    }
}

/// A directory with a sweep of 24 nodes, of which 7 has slow memory, with its steps of suspects; the same
/// sweep without them; and a later one, in which all nodes and one node changed.
fn sweeps() -> Here {
    let here = Here::new();
    let slow = Fault::Figure(7, 0, 0.35);
    let all = (0..24).map(|node| Fault::Figure(node, 3, 0.1));
    let new = all.chain([slow, Fault::Figure(9, 0, 0.2)]).collect();
    for (dir, faults, steps) in [("base", vec![slow], 3), ("same", vec![slow], 0), ("new", new, 0)]
    {
        write(&here, dir, &Drawn::new(&Noise::plain(), 24, faults, 7).job(steps).0);
    }
    here
}

#[test]
fn every_format_has_the_answer() {
    let here = sweeps();
    for (format, part) in [
        ("terminal", "1 node is slower than its peers"),
        ("html", "<td class=\"bad\">slower"),
        ("markdown", "**slower**"),
        ("json", "\"verdict\": \"slower\""),
        ("ndjson", "\"node\":\"n007\""),
    ] {
        let out = here.ends(0, &["fleet", "report", "base", "--format", format]).out;
        assert!(out.contains(part), "{format}: {out}");
        let written = ["fleet", "report", "base", "-f", format, "--out", "out"];
        assert_eq!(here.ends(0, &written).out, "");
        assert!(fs::read_to_string(here.path("out")).unwrap().contains(part), "{format}");
    }
    let short = here.ends(0, "fleet report base").out;
    assert!(short.lines().count() <= 60, "{}", short.lines().count());
    let whole = here.ends(0, "fleet report base --full").out;
    assert!(whole.contains("beside their peers") && whole.contains("n016"), "{whole}");
}

#[test]
fn suspects_have_a_form_for_each_engine() {
    let here = sweeps();
    let slurm = here.ends(0, "fleet suspects same --format slurm").out;
    let list = here.ends(0, "fleet suspects same").out;
    let json = here.ends(0, "fleet suspects same --format json").json();
    assert_eq!(json["suspects"], json!(["n007"]));
    assert_eq!(json["peers"].as_array().unwrap().len(), 3);
    assert!(slurm.starts_with("n[0") && slurm.contains("07"), "{slurm}");
    assert_eq!(list.lines().count(), 5, "{list}");
    assert!(list.ends_with("* memory.bandwidth\n"), "{list}");
    // Where all is accused or cleared, nothing is left.
    for format in ["slurm", "hosts"] {
        assert_eq!(here.ends(0, &["fleet", "suspects", "base", "--format", format]).out, "");
    }
}

#[test]
fn a_comparison_ends_with_what_it_found() {
    let here = sweeps();
    here.ends(0, "fleet compare same base");
    let text = here.ends(1, "fleet compare same new").out;
    assert!(
        text.contains("B is slower in 1 of") && text.contains("1 node went another way"),
        "{text}"
    );
    let flat = here.ends(1, "fleet compare same new -f json").json();
    let figures = flat["figures"].as_array().unwrap();
    let slower: Vec<&Value> = figures.iter().filter(|one| one["finding"] == "worse").collect();
    assert_eq!(slower.len(), 1, "{slower:?}");
    for format in ["html", "markdown", "json"] {
        let args = ["fleet", "compare", "same", "new", "-f", format];
        assert!(here.ends(1, &args).out.contains("n009"), "{format}");
    }
}

fn changed(files: &Files, change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut lines = files[4].1.clone();
    if let Line::Node(header) = &mut lines[0] {
        change(header);
    }
    text(&lines)
}

/// A bad file is one line, and the rest of the report stands.
#[test]
fn a_bad_file_is_one_line_beside_the_report() {
    let files = Drawn::new(&Noise::plain(), 12, vec![], 7).sweep();
    let whole = |node: usize| text(&files[node].1);
    let flipped = String::from_utf8(whole(3)).unwrap().replacen("\"value\":", "\"value\": ", 1);
    let newer = fleet::file::FLEET_FORMAT + 1;
    for (name, bytes, part) in [
        ("n001.1", whole(1)[..whole(1).len() - 20].to_vec(), "n001.1.jsonl: it is cut after line"),
        ("n002.2", whole(2)[..40].to_vec(), "n002.2.jsonl: its first line is cut; left out"),
        ("n003.3", flipped.into_bytes(), "n003.3.jsonl: 1 of its lines are damaged and left out"),
        (
            "newer",
            changed(&files, |header| header.format = newer),
            "its format is 3, this plumb reads fleet formats up to 2: use a newer plumb; left out",
        ),
        (
            "older",
            b"{\"event\":\"header\",\"format\":1,\"size\":3}\n".to_vec(),
            "its format is 1, of a development version of plumb: measure again; left out",
        ),
        (
            "sweep",
            changed(&files, |header| (header.sweep, header.size) = ("other".to_owned(), 16)),
            "sweep.jsonl: it is of another sweep (size 16, the others 12); left out",
        ),
        (
            "twice",
            changed(&files, |_| ()),
            "twice.jsonl: n004 has another file, n004.4.jsonl; left out",
        ),
        (
            "stranger",
            changed(&files, |header| header.host = "stranger".to_owned()),
            "stranger.jsonl: stranger is not in the list of hosts; left out",
        ),
        ("empty", Vec::new(), "empty.jsonl: it is empty: the node ended before it wrote a line"),
        ("text", b"hello\n".to_vec(), "text.jsonl: it is not a node's file: expected"),
        ("run", b"{\"format\":6,\"run\":\"r\"}\n".to_vec(), "run.jsonl: it is the record of a run"),
    ] {
        let here = Here::new();
        write(&here, "sweep", &files);
        fs::write(here.path(&format!("sweep/{name}.jsonl")), bytes).unwrap();
        let answer = here.ends(0, "fleet report sweep");
        assert!(answer.err.contains(part) && answer.err.lines().count() == 1, "{part}: {answer:?}");
        let is_lost = part.contains("is cut");
        assert_eq!(answer.out.contains("1 host lost"), is_lost, "{part}: {answer:?}");
        assert!(answer.out.contains("no node and no link is worse"), "{part}: {answer:?}");
    }
}

/// What cannot be meant is one line, before anything is measured.
#[test]
fn what_cannot_be_meant_is_one_line() {
    let here = Here::new();
    here.ends(0, "agent --new-key key");
    here.make_dir("out");
    for (list, text) in [
        ("one", "127.0.0.1:0\n"),
        ("two", "127.0.0.1:1\n127.0.0.1:2\n"),
        ("twice", "n1\nn2\nn1\n"),
        ("none", "# no host\n"),
    ] {
        fs::write(here.path(list), text).unwrap();
    }
    let run = "fleet run --rank 0 --key-file key";
    let past = "--start-at 2001-09-09T01:46:40Z --out out/%r.jsonl";
    for (args, part) in [
        (format!("{run} --hosts twice --out -"), "n1 is listed twice"),
        (format!("{run} --hosts none --out -"), "the list has no host"),
        (format!("{run} --hosts two --size 3 --out -"), "the list has 2 hosts, but 3 nodes"),
        (
            format!("{run} --hosts two --out absent/%h.jsonl"),
            "cannot write absent/127.0.0.1_1.jsonl",
        ),
        (format!("{run} --hosts two --out /proc/%h.jsonl"), "cannot write /proc/127.0.0.1_1.jsonl"),
        (format!("{run} --hosts two --into absent"), "cannot write absent"),
        (format!("{run} --hosts absent --out -"), "cannot read the list of hosts absent"),
        (format!("{run} --hosts one {past}"), "in the past: give a later --start-at"),
        (format!("{run} --hosts two --start-at soon --out -"), "type a time in UTC such as"),
        (format!("{run} --out -"), "--hosts FILE"),
        ("fleet run --hosts two --rank 0 --out -".to_owned(), "a sweep needs a secret"),
        ("fleet report absent".to_owned(), "cannot read absent"),
        ("fleet report .".to_owned(), "has no file of a sweep"),
        ("fleet plan -N 9 --slot 1s".to_owned(), "a slot has at least two seconds"),
    ] {
        let refused = here.ends(2, &args);
        assert!(refused.err.contains(part), "{args}: {refused:?}");
        // clap adds how to get help; and one node is told beforehand that it can accuse none.
        let said = refused.err.lines().filter(|line| !line.contains("fewer than six nodes"));
        assert!(said.count() == 1 || args.contains("soon"), "{args}: {refused:?}");
    }
    // A start in the past is in the node's file too.
    let text = here.ends(0, "fleet report out").out;
    assert!(text.contains("its file has no end") && text.contains("in the past"), "{text}");
}

#[test]
fn a_plan_says_slots_and_time() {
    let here = Here::new();
    let plan = here.ends(0, "fleet plan -N 64 --json").json();
    assert_eq!((&plan["nodes"], &plan["slots"]), (&json!(64), &json!(18)));
    let seconds = |name: &str| plan[name].as_f64().unwrap();
    assert_eq!(seconds("duration_s"), seconds("alone_s") + 18.0 * seconds("slot_s"));
    let small = here.ends(0, "fleet plan -N 5").out;
    assert!(small.contains("none can be accused"), "{small}");
}
