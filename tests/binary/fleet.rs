//! `plumb fleet report`, `suspects` and `compare`: formats, files, exit codes, bad input.

use crate::plumb::prelude::*;
use fleet::drawn::{Drawn, Fault, Noise, text};
use fleet::model::{judge, suspects};
use fleet::read::from_lines;

type Files = Vec<(String, Vec<fleet::file::Line>)>;

fn write(here: &Here, dir: &str, files: &Files) {
    here.make_dir(dir);
    for (place, (host, lines)) in files.iter().enumerate() {
        fs::write(here.path(&format!("{dir}/{host}.{place}.jsonl")), text(lines)).unwrap();
    }
}

/// A drawn sweep of 24 nodes, of which 7 has slow memory, with its steps of suspects.
fn planted(faults: Vec<Fault>, steps: usize) -> Files {
    let mut drawn = Drawn::new(&Noise::plain(), 24, Fault::None, 7);
    drawn.faults = faults;
    let mut files = drawn.sweep();
    for _ in 0..steps {
        let fleet = from_lines(files.clone());
        files.extend(drawn.again(&suspects(&fleet, &judge(&fleet))));
    }
    files
}

const SLOW: Fault = Fault::Figure(7, 0, 0.35);

/// A directory with a sweep and a later one, in which all nodes and one node changed.
fn sweeps() -> Here {
    let here = Here::new();
    write(&here, "base", &planted(vec![SLOW], 3));
    write(&here, "same", &planted(vec![SLOW], 0));
    let all = (0..24).map(|node| Fault::Figure(node, 3, 0.1));
    write(&here, "new", &planted(all.chain([SLOW, Fault::Figure(9, 0, 0.2)]).collect(), 0));
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
    let short = here.ends(0, &["fleet", "report", "base"]).out;
    assert!(short.lines().count() <= 60, "{}", short.lines().count());
    let whole = here.ends(0, &["fleet", "report", "base", "--full"]).out;
    assert!(whole.contains("beside their peers") && whole.contains("n016"), "{whole}");
}

#[test]
fn suspects_have_a_form_for_each_engine() {
    let here = sweeps();
    let slurm = here.ends(0, &["fleet", "suspects", "same", "--format", "slurm"]).out;
    let list = here.ends(0, &["fleet", "suspects", "same"]).out;
    let json = here.ends(0, &["fleet", "suspects", "same", "--format", "json"]).json();
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
    let compared = |code, new: &str, rules: &[&str]| {
        let rules = rules.iter().flat_map(|rule| ["--fail-on", rule]);
        let args: Vec<&str> = ["fleet", "compare", "same", new].into_iter().chain(rules).collect();
        here.ends(code, &args)
    };
    compared(1, "new", &[]);
    let flat = here.ends(1, &["fleet", "compare", "same", "new", "-f", "json"]).json();
    let figures = flat["figures"].as_array().unwrap();
    let slower: Vec<&Value> = figures.iter().filter(|one| one["finding"] == "worse").collect();
    assert_eq!(slower.len(), 1, "{slower:?}");
    compared(0, "base", &[]);
    compared(1, "new", &["slower:5%@os"]);
    compared(1, "new", &["faster", "apart:10%"]);
    compared(0, "new", &["slower@cpu"]);
    compared(0, "new", &["never"]);
    let undecided = compared(5, "base", &["slower:0.001%"]).err;
    assert!(undecided.contains("cannot show a change of that size"), "{undecided}");
    let void = compared(2, "base", &["slower@net.ping"]).err;
    assert!(void.contains("decides nothing"), "{void}");
    let unknown = compared(2, "base", &["slow"]).err;
    assert!(unknown.contains("did you mean `slower`"), "{unknown}");
    for format in ["html", "markdown", "json"] {
        let args = ["fleet", "compare", "same", "new", "-f", format];
        assert!(here.ends(1, &args).out.contains("n009"), "{format}");
    }
}

/// What is wrong with a file is one line, and the rest of the report stands (crates/fleet has them all).
#[test]
fn a_bad_file_is_one_line_beside_the_report() {
    let here = sweeps();
    fs::write(here.path("base/a.jsonl"), "hello\n").unwrap();
    let answer = here.ends(0, &["fleet", "report", "base"]);
    assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    assert!(answer.err.contains("a.jsonl: it is not a node's file"), "{answer:?}");
    assert!(answer.out.contains("1 node is slower than its peers"), "{answer:?}");
}

#[test]
fn a_plan_says_slots_and_time() {
    let here = Here::new();
    let plan = here.ends(0, &["fleet", "plan", "-N", "64", "--json"]).json();
    assert_eq!((&plan["nodes"], &plan["slots"]), (&json!(64), &json!(18)));
    let alone_s = plan["alone_s"].as_f64().unwrap();
    assert_eq!(
        plan["duration_s"].as_f64().unwrap(),
        alone_s + 18.0 * plan["slot_s"].as_f64().unwrap()
    );
    let small = here.ends(0, &["fleet", "plan", "-N", "5"]).out;
    assert!(small.contains("none can be accused"), "{small}");
}
