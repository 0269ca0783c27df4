//! What goes where: results on standard output, the rest on standard error, colours and progress on
//! terminals only.

use crate::plumb::prelude::*;

const REHEARSAL: [&str; 4] = ["run", "selftest.fault", "--preset", "rehearsal"];

fn on_a_terminal(here: &Here, args: &[&str], no_color: Option<&str>) -> Answer {
    let line = format!("{} {}", PLUMB, args.join(" "));
    let mut script = here.other("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color");
    if let Some(value) = no_color {
        script.env("NO_COLOR", value);
    }
    answer(script.output().unwrap())
}

#[test]
fn progress_is_for_terminals() {
    let here = Here::new();
    let seen = on_a_terminal(&here, &REHEARSAL, None);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.out.contains("selftest.fault/none"), "{seen:?}");
    let piped = here.ends(0, &REHEARSAL);
    assert!(!piped.err.contains("round 1 of 1"), "{piped:?}");
    assert!(!piped.err.contains('\u{1b}') && !piped.out.contains('\u{1b}'), "{piped:?}");
    assert!(piped.err.contains("the record is"), "{piped:?}");
    assert!(!piped.out.contains("the record is"), "{piped:?}");
}

#[test]
fn json_is_all_that_stands_on_standard_output() {
    let here = Here::new();
    let answer = here.ends(0, &[&REHEARSAL[..], &["--json", "--report", "page.html"]].concat());
    let result = answer.json();
    let figures = result["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 1);
    assert_eq!(figures[0]["experiment"], "selftest.fault");
    assert_eq!(figures[0]["value"], 42.0);
    assert!(answer.err.contains("the record is"), "{answer:?}");
    let page = fs::read_to_string(here.path("page.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"), "the page is whole");
    let mut left = here.entries(".");
    left.sort();
    assert_eq!(left, ["page.html", "store"]);
    // The stored record gives the same result again.
    let again = here.plumb(&["report", "--format", "json"]);
    assert_eq!(again.json(), result);
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let here = Here::new();
    let coloured = |answer: &Answer| answer.out.contains("\u{1b}[");
    let args = ["run", "--preset", "fast"];
    assert!(coloured(&on_a_terminal(&here, &args, None)));
    assert!(!coloured(&on_a_terminal(&here, &args, Some("1"))));
    assert!(!here.plumb(&args).err.contains('\u{1b}'));
}

#[test]
fn a_long_output_goes_through_the_pager_on_terminals() {
    let here = Here::new();
    let shown = |pager: &str| {
        let line = format!("stty rows 10 cols 80; {} list", PLUMB);
        let mut script = here.other("script");
        script.args(["-qec", &line, "/dev/null"]).env("PLUMB_PAGER", pager);
        answer(script.output().unwrap())
    };
    let paged = shown("sed s/^/paged:/");
    assert!(paged.out.lines().count() > 10, "{paged:?}");
    assert!(paged.out.lines().all(|line| line.starts_with("paged:")), "{paged:?}");
    for none in ["cat", ""] {
        assert!(!shown(none).out.contains("paged:") && shown(none).out.contains("os.syscall"));
    }
    // A missing pager is no error, and an output that is no terminal gets no pager.
    assert!(shown("no-such-pager").out.contains("os.syscall"));
    let mut piped = here.command(&["list"]);
    assert!(
        !answer(piped.env("PLUMB_PAGER", "sed s/^/paged:/").output().unwrap())
            .out
            .contains("paged:")
    );
}

#[test]
fn a_run_prints_a_screen_or_all_of_it_or_nothing() {
    let here = Here::new();
    let screen = here.plumb(&REHEARSAL);
    assert!(screen.out.starts_with("plumb rehearsal · "), "{screen:?}");
    assert!(screen.out.lines().last().is_some_and(|line| line.starts_with("NEXT")), "{screen:?}");
    let full = here.plumb(&[&REHEARSAL[..], &["--full"]].concat());
    assert!(full.out.starts_with("Lab report: "), "{full:?}");
    assert!(full.out.contains("\nMachine\n") && !screen.out.contains("\nMachine\n"));
    let quiet = here.plumb(&[&REHEARSAL[..], &["-q"]].concat());
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(0), "", ""));
    let refused = here.plumb(&["run", "-q", "none.such"]);
    assert!(refused.code == Some(2) && !refused.err.is_empty(), "{refused:?}");
    // A stored run is shown alike.
    let again = here.plumb(&["report"]);
    assert!(again.out.starts_with("plumb rehearsal · "), "{again:?}");
    assert!(here.plumb(&["report", "last", "--full"]).out.starts_with("Lab report: "));
}

#[test]
fn a_report_shows_what_a_selector_names() {
    let here = Here::new();
    let run = ["run", "selftest.fault", "selftest.echo", "--preset", "rehearsal", "-q"];
    assert_eq!(here.plumb(&run).code, Some(0));
    let one = here.plumb(&["report", "last", "selftest.fault"]);
    assert!(one.out.contains("\nselftest.fault: ") && !one.out.contains("\nselftest.echo: "));
    let json = here.plumb(&["report", "last", "selftest.fault", "-f", "json"]).json();
    let ids: Vec<&Value> =
        json["figures"].as_array().unwrap().iter().map(|figure| &figure["experiment"]).collect();
    assert!(!ids.is_empty() && ids.iter().all(|id| *id == "selftest.fault"), "{ids:?}");
    for selector in ["memory.latency", "none.such"] {
        assert_eq!(here.plumb(&["report", "last", selector]).code, Some(2), "{selector}");
    }
}

#[test]
fn every_body_of_this_machine_is_right() {
    let all = Here::new().ends(0, &["self-check", "--all"]);
    assert!(all.out.lines().filter(|line| line.starts_with("right  ")).count() > 200, "{all:?}");
}

#[test]
fn every_command_has_its_page() {
    let here = Here::new();
    let one = here.ends(0, &["man", "run"]);
    assert!(one.out.contains(".TH plumb-run 1"), "{one:?}");
    let export = here.ends(0, &["man", "runs", "export"]);
    let guide = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/troubleshooting.md"),
    );
    for page in [&one.out, &export.out, &here.ends(0, &["man"]).out] {
        let (_, sections) = page.split_once(".SH \"EXIT STATUS\"").expect("a section");
        let (codes, variables) = sections.split_once(".SH ENVIRONMENT").expect("a section");
        for code in 0..=5 {
            assert!(codes.contains(&format!("\\fB{code}\\fR")), "{code}: {codes}");
            assert!(guide.as_ref().unwrap().contains(&format!("\n| {code} | ")), "{code}");
        }
        for name in ["NO_COLOR", "PLUMB_PAGER", "PLUMB_STORE"] {
            assert!(variables.contains(name), "{name}: {variables}");
        }
    }
    assert!(here.ends(0, &["--help"]).out.contains("NO_COLOR"));
    here.ends(2, &["man", "worker"]);
    here.ends(2, &["man", "runs", "none"]);
    fs::create_dir(here.path("pages")).unwrap();
    here.ends(0, &["man", "--to", "pages"]);
    let pages = fs::read_dir(here.path("pages")).unwrap();
    let names: Vec<_> =
        pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["plumb.1", "plumb-run.1", "plumb-self-check.1"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("worker")), "{names:?}");
    let absent = here.ends(2, &["man", "--to", "absent"]);
    assert!(absent.err.contains("no directory absent"), "{absent:?}");
}
