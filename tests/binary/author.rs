//! An author's own estimates and words, from the form to the report, and the report as Markdown with
//! its plots.

use crate::plumb::prelude::*;

const NOTES: &str = "# Calls here\nAuthors: A. Author\n\n## os.syscall\nAs we thought.\n";

#[test]
fn estimates_from_before_the_run_stand_in_its_report_with_the_authors_words() {
    let here = Here::new();
    here.ends(0, &["predict", "os.syscall", "cpu.call", "-o", "own.txt"]);
    let form = fs::read_to_string(here.path("own.txt")).unwrap();
    let (title, _) = form.lines().find_map(|line| line.split_once(" = ; ")).expect("a key figure");
    let filled = form.replacen(&format!("{title} = ; "), &format!("{title} = 0.2 us ; a guess"), 1);
    fs::write(here.path("own.txt"), filled).unwrap();
    let run = ["run", "os.syscall", "cpu.call", "--preset", "rehearsal", "--out", "r.jsonl"];
    here.ends(0, &[&run[..], &["--predictions", "own.txt"]].concat());
    let events = events(&here.path("r.jsonl"));
    let estimates = &events[0]["estimates"];
    assert_eq!(estimates.as_array().map(Vec::len), Some(1), "{estimates}");
    assert_eq!(
        (&estimates[0]["value"], &estimates[0]["reason"]),
        (&200.0.into(), &"a guess".into())
    );

    fs::write(here.path("notes.md"), NOTES).unwrap();
    let args = ["report", "r.jsonl", "-f", "markdown", "--to", "lab", "--notes", "notes.md"];
    here.ends(0, &args);
    let text = fs::read_to_string(here.path("lab/report.md")).unwrap();
    assert!(text.starts_with("# Calls here\n") && text.contains("As we thought."), "{text}");
    assert!(text.contains("own estimates") && text.contains("a guess"), "{text}");
    let pictures: Vec<&str> =
        text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(pictures.len() > 2, "{text}");
    for picture in pictures {
        let svg = fs::read_to_string(here.path("lab").join(picture)).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{picture}");
    }
}

#[test]
fn what_an_author_misspells_is_named_in_a_line_with_what_there_is() {
    let here = Here::new();
    let run = ["run", "os.syscall", "--preset", "rehearsal", "--predictions", "own.txt"];
    for (line, says) in [
        (
            "sistem call = 3 ns",
            "own.txt: line 1: no key figure is called `sistem call`; there are ",
        ),
        (
            "system call, null = 3",
            "own.txt: line 1: `3` is no estimate of system call, null with its unit; ",
        ),
    ] {
        fs::write(here.path("own.txt"), line).unwrap();
        let answer = here.ends(2, &run);
        assert!(answer.err.contains(says), "{answer:?}");
        assert_eq!(answer.err.trim().lines().count(), 1, "{answer:?}");
    }
    here.ends(0, &["run", "os.syscall", "--preset", "rehearsal", "--out", "r.jsonl"]);
    fs::write(here.path("notes.md"), "## os.sycall\n").unwrap();
    let answer = here.ends(2, &["report", "r.jsonl", "--notes", "notes.md", "-f", "html"]);
    let says = "notes.md: line 1: the run has no experiment `os.sycall`; a heading is `Conclusions` or one of os.syscall";
    assert!(answer.err.contains(says), "{answer:?}");
    for args in [
        ["report", "r.jsonl", "-f", "json", "--notes", "notes.md"],
        ["report", "r.jsonl", "-f", "html", "--to", "lab"],
    ] {
        here.ends(2, &args);
    }
}
