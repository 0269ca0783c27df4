//! `plumb crosscheck` beside a tool that does not behave: a script of its name that comes first in
//! PATH.

use crate::plumb::prelude::*;
use record::seal::resealed;

const PAIRING: &str = "perf:syscall-basic";
const GOOD: &str = "echo '      0.101234 usecs/op'";

/// A directory whose `perf` tells a version and then does as it is told.
fn with_perf(does: &str) -> Here {
    let here = Here::new();
    here.make_dir("bin");
    write_perf(&here, does);
    here
}

fn write_perf(here: &Here, does: &str) {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'perf version 6.1.0'; exit; fi\n{does}\n"
    );
    write_script(&here.path("bin/perf"), script);
}

/// The command, with that directory first in PATH and its own directory for what is temporary.
fn command(here: &Here, args: &[&str]) -> Command {
    let path = format!("{}:/usr/bin:/bin", here.path("bin").display());
    let mut command = here.command(&[&["crosscheck", "--preset", "rehearsal"], args].concat());
    command.env("PATH", path).env("TMPDIR", here.path(""));
    command
}

fn crosscheck(here: &Here, args: &[&str]) -> Answer {
    answer(command(here, args).output().unwrap())
}

/// The events of a kind in the last record.
fn kept(here: &Here, kind: &str) -> Vec<Value> {
    let mut all = events(&here.record());
    all.retain(|event| is(event, kind));
    all
}

/// The reason of the one pairing that failed.
fn reason(here: &Here, answer: &Answer) -> String {
    // Nothing else was compared.
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let ends = kept(here, "pairing_end");
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0]["outcome"], "failed", "{ends:?}");
    let reason = ends[0]["reason"].as_str().unwrap().to_owned();
    assert!(!reason.contains('\n'), "{reason}");
    // Who does not keep the record reads it too.
    assert!(answer.err.contains(&reason), "{answer:?}");
    nothing_is_left(here);
    reason
}

/// No directory of the crosscheck's, and no process that has one as its own.
fn nothing_is_left(here: &Here) {
    let left: Vec<String> =
        here.entries("").into_iter().filter(|name| name.starts_with("plumb-")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(here.entries("store/journal").is_empty());
    assert_eq!(marked(here), [""; 0], "processes are left");
}

/// The command lines of processes that a crosscheck here has started.
fn marked(here: &Here) -> Vec<String> {
    let mark = format!("PLUMB_CROSSCHECK={}", here.path("").display());
    let all = fs::read_dir("/proc").unwrap().flatten();
    let of_mark = all.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark)
    });
    of_mark.map(|it| fs::read_to_string(it.path().join("cmdline")).unwrap_or_default()).collect()
}

#[test]
fn both_sides_are_in_the_record_and_take_turns() {
    let here = with_perf(GOOD);
    let answer = crosscheck(&here, &[PAIRING, "--pairs", "4"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let expected = "1 comparison, 4 turns, expected time about ";
    assert!(answer.err.contains(expected), "{answer:?}");
    let pairs = kept(&here, "pair");
    let first: Vec<bool> = pairs.iter().map(|pair| pair["ours_first"].as_bool().unwrap()).collect();
    assert_eq!(first, [true, false, true, false]);
    for pair in &pairs {
        assert!((pair["theirs"][0].as_f64().unwrap() - 101.234).abs() < 1e-9, "{pair}");
        for load in ["ours_load", "theirs_load"] {
            assert!(pair[load]["cpu_s"].as_f64().unwrap() > 0.0, "{pair}");
        }
        // A rehearsal's differences of tiny batches may be negative.
        assert!(pair["ours"][0].as_f64().unwrap() != 0.0, "{pair}");
    }
    let told = &kept(&here, "pairing")[0];
    assert_eq!(told["ours"][0], "plumb");
    assert!(told["theirs"].as_array().unwrap().iter().any(|word| word == "perf"), "{told}");
    nothing_is_left(&here);
}

#[test]
fn one_that_hangs_is_ended_with_all_that_it_started() {
    // One child in a session of its own, one that has lost its parent, one that minds no signal.
    let here = with_perf(
        "setsid sleep 1000 & (setsid sleep 1001 &) ; sh -c 'trap \"\" TERM INT HUP; sleep 1002' & sleep 1003",
    );
    let answer = crosscheck(&here, &[PAIRING, "--limit", "300ms"]);
    let reason = reason(&here, &answer);
    assert!(reason.contains("300ms"), "{reason}");
}

#[test]
fn one_that_is_ended_may_undo_what_it_changed() {
    let here = with_perf("trap 'echo undone > ../../undone; exit 1' INT; sleep 1000 & wait");
    let answer = crosscheck(&here, &[PAIRING, "--limit", "300ms"]);
    assert!(reason(&here, &answer).contains("did not end"));
    let undone = fs::read_to_string(here.path("undone"));
    assert_eq!(undone.unwrap().trim(), "undone");
}

#[test]
fn a_turn_that_chance_spoils_is_made_again() {
    let here = with_perf(&format!(
        "if [ -e ../../tried ]; then {GOOD}; else touch ../../tried; exit 1; fi"
    ));
    let answer = crosscheck(&here, &[PAIRING]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(kept(&here, "pair").len(), 1);
}

#[test]
fn what_a_killed_crosscheck_left_goes_with_the_next() {
    let here = with_perf("(setsid sleep 1000 &) ; sleep 1001");
    let mut child = command(&here, &[PAIRING]).spawn().unwrap();
    started(&here, "1000");
    child.kill().unwrap();
    child.wait().unwrap();
    started(&here, "1000");
    write_perf(&here, GOOD);
    let answer = crosscheck(&here, &[PAIRING]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    nothing_is_left(&here);
}

/// Waits for a process of a crosscheck whose arguments have a word.
fn started(here: &Here, word: &str) {
    wait_for("the tool to be started", || {
        let is_meant = |line: &String| line.split('\0').any(|one| one == word);
        marked(here).iter().any(is_meant).then_some(())
    });
}

#[test]
fn one_that_ends_and_leaves_others_behind_is_cleaned_up_after() {
    let here = with_perf(&format!("(setsid sleep 1000 &) ; sleep 1001 & {GOOD}"));
    let answer = crosscheck(&here, &[PAIRING]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(kept(&here, "pair").len(), 1);
    nothing_is_left(&here);
}

#[test]
fn a_tool_that_did_nothing_is_not_compared() {
    let here = with_perf("echo '0.000000 usecs/op'");
    let answer = crosscheck(&here, &[PAIRING, "--pairs", "2"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("perf reported 0"), "{answer:?}");
    assert!(answer.out.contains("perf reported 0"), "{answer:?}");
    assert_eq!(kept(&here, "pairing_end")[0]["outcome"], "measured");
    assert_eq!(kept(&here, "pair").len(), 2);
}

/// (What the parser refuses: the tests of each rival.)
#[test]
fn what_is_unknown_is_said_in_a_line() {
    for (does, said) in [
        ("printf '\\033[2Jx\\nusecs/op\\n'", "something unknown"),
        ("echo '-3 usecs/op'", "it reported -3000"),
        ("echo 'must be root' >&2; exit 1", "must be root"),
        ("exit 7", "exit status: 7"),
        ("kill -9 $$", "signal: 9"),
        (
            "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done | cat | cat; yes",
            "talked without end",
        ),
    ] {
        let here = with_perf(does);
        let answer = crosscheck(&here, &[PAIRING]);
        let reason = reason(&here, &answer);
        assert!(reason.contains(said), "{does}: {reason}");
        assert!(!answer.err.contains('\u{1b}') && !answer.out.contains('\u{1b}'), "{answer:?}");
    }
}

#[test]
fn a_signal_ends_both_sides() {
    let here = with_perf("(setsid sleep 1000 &) ; sleep 1001");
    let child = command(&here, &[PAIRING]).spawn().unwrap();
    started(&here, "1001");
    metal::process::kill(child.id(), 2).unwrap();
    let answer = ended_with(4, child);
    assert!(answer.err.contains("interrupted"), "{answer:?}");
    assert_eq!(kept(&here, "footer")[0]["end"], "interrupted");
    nothing_is_left(&here);
}

#[test]
fn what_is_not_here_is_told_with_the_way_out() {
    let here = with_perf(GOOD);
    let nothing = here.make_dir("nothing");
    let mut command = command(&here, &["fio", "perf"]);
    let answer = ends(2, command.env("PATH", nothing));
    assert!(answer.err.contains("apt-get install"), "{answer:?}");
    assert!(here.records().is_empty());
    let listed = crosscheck(&here, &["--list", "perf", "iozone"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("version 6.1.0"), "{listed:?}");
    assert!(listed.out.contains("iozone"), "{listed:?}");
    assert!(listed.out.contains("plumb run os.syscall"), "{listed:?}");
    assert!(!listed.out.contains("not compared with"), "{listed:?}");
    let listed = crosscheck(&here, &["--list", "lmbench"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let (_, absent) = listed.out.split_once("\nnot compared with lmbench:\n").unwrap();
    assert!(absent.contains("\n  hello: "), "{listed:?}");
    assert!(here.records().is_empty());
}

#[test]
fn names_that_are_none_are_refused() {
    let here = with_perf(GOOD);
    for args in [
        &["nope"][..],
        &["perf:nosuch"],
        &["perf", "--pairs", "0"],
        &["perf", "--into", "last"],
        &["perf", "--dir", "/nowhere"],
    ] {
        let answer = crosscheck(&here, args);
        assert_eq!(answer.code, Some(2), "{args:?}: {answer:?}");
        assert!(here.records().is_empty(), "{args:?}");
        nothing_is_left(&here);
    }
}

#[test]
fn a_runs_record_takes_a_crosscheck_once_it_has_an_end() {
    let here = with_perf(GOOD);
    let before = recorded("selftest.pulse --preset rehearsal");
    here.store(&before);
    let answer = crosscheck(&here, &[PAIRING, "--into", "last"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(here.records().len(), 1);
    let after = fs::read_to_string(here.record()).unwrap();
    assert!(after.starts_with(&before), "what the run found stays");
    // A second one replaces the first.
    let again = crosscheck(&here, &[PAIRING, "--into", "last", "--pairs", "2", "--json"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    // Of another machine, or without an end.
    let foreign = after.replacen("\"identity\":\"", "\"identity\":\"x", 1);
    let foreign = resealed(&foreign);
    let unfinished: String = before
        .lines()
        .filter(|line| !line.contains("\"footer\""))
        .map(|line| format!("{line}\n"))
        .collect();
    for (name, text, said) in
        [("foreign", foreign, "another machine"), ("open", unfinished, "is not complete")]
    {
        let path = here.path(&format!("{name}.jsonl"));
        fs::write(&path, &text).unwrap();
        let answer = crosscheck(&here, &[PAIRING, "--into", path.to_str().unwrap()]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains(said), "{answer:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    nothing_is_left(&here);
}

#[test]
fn a_program_that_is_not_here_is_told_before_anything_is_run() {
    let here = Here::new();
    let bin = here.make_dir("bin");
    // The rival is recognised by another of its programs.
    write_script(&here.path("bin/lat_syscall"), "#!/bin/sh\nexit 1\n");
    let mut command = here.command(&["crosscheck", "--preset", "quick", "lmbench:pipe"]);
    command.env("PATH", &bin).env("TMPDIR", here.path(""));
    let answer = answer(command.output().unwrap());
    let ends = kept(&here, "pairing_end");
    assert_eq!(ends.len(), 1, "{answer:?}");
    assert_eq!(ends[0]["outcome"], "skipped", "{ends:?}");
    assert!(ends[0]["reason"].as_str().is_some_and(|why| why.contains("lat_pipe")), "{ends:?}");
    nothing_is_left(&here);
}

/// An IOzone beside which plumb's side makes files, and its turn comes first.
const WITH_FILES: [&str; 2] = ["iozone", "--dir"];

/// A crosscheck beside it, once plumb's side has made its own directory for files; the process of
/// that side.
fn with_files(here: &Here) -> (Child, u32) {
    here.make_dir("bin");
    let files = here.make_dir("files");
    write_script(&here.path("bin/iozone"), "#!/bin/sh\necho '$Revision: 3.506 $'\n");
    let mut command = command(here, &[&WITH_FILES[..], &[&files]].concat());
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let own = wait_for("plumb's side to make its directory", || {
        let own = here.entries("files").pop()?;
        let made = here.entries(&format!("files/{own}/iozone"));
        let made = made.into_iter().find(|name| name.starts_with("plumb-"))?;
        made.rsplit('-').nth(1)?.parse().ok()
    });
    // Else what it makes elsewhere would stay where both are killed.
    let journal = here.entries("store/journal");
    let entry = format!("-{own}-");
    assert!(journal.iter().any(|name| name.contains(&entry)), "{journal:?}");
    (child, own)
}

/// Nothing below the directory for files.
fn no_file_is_left(here: &Here) {
    assert!(here.entries("files").is_empty(), "{:?}", here.entries("files"));
    nothing_is_left(here);
}

#[test]
fn files_of_plumb_s_side_go_with_a_signal() {
    let here = Here::new();
    let (child, _) = with_files(&here);
    metal::process::kill(child.id(), 2).unwrap();
    ended_with(4, child);
    no_file_is_left(&here);
}

#[test]
fn files_of_plumb_s_side_go_when_that_is_killed() {
    let here = Here::new();
    let (child, own) = with_files(&here);
    metal::process::kill(own, 9).unwrap();
    let answer = answer(child.wait_with_output().unwrap());
    // The turn is made again, and the tool's answer is none.
    assert_eq!(answer.code, Some(3), "{answer:?}");
    no_file_is_left(&here);
}

#[test]
fn files_of_plumb_s_side_go_with_the_next_where_both_were_killed() {
    let here = Here::new();
    let (mut child, own) = with_files(&here);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("plumb's side to die with it", || {
        (!Path::new(&format!("/proc/{own}")).exists()).then_some(())
    });
    // Any command that measures.
    let answer = crosscheck(&here, &["iozone", "--dir", &here.path("files").display().to_string()]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    no_file_is_left(&here);
}
