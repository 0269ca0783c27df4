//! `plumb ab`: the order of its rounds, what it finds, and what becomes of its commands.

use crate::plumb::prelude::*;

/// Twelve pairs, of a body that a file makes longer.
fn compare(here: &Here, a: &str, b: &str, more: &[&str]) -> Answer {
    fs::write(here.path("planted"), "0").unwrap();
    let args = [&["ab", a, b, "selftest.planted", "--precision", "100", "--format", "json"], more]
        .concat();
    let mut command = here.command(&args);
    command.env("PLUMB_PLANTED", here.path("planted"));
    answer(command.output().unwrap())
}

fn order(here: &Here) -> String {
    fs::read_to_string(here.path("order")).unwrap_or_default().replace('\n', "")
}

#[test]
fn a_planted_change_is_found_and_both_records_are_runs() {
    let here = Here::new();
    let answer = compare(
        &here,
        "echo 0 > planted; echo A >> order",
        "echo 100 > planted; echo B >> order",
        &["--after", "echo 7 > planted; echo C >> order"],
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let found = answer.json();
    let figures = found["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 1, "{found}");
    let (figure, ratio) = (&figures[0], figures[0]["ratio"].as_f64().unwrap());
    assert_eq!((&figure["changed"], figure["pairs"].as_u64()), (&true.into(), Some(12)), "{found}");
    assert!((1.5..2.7).contains(&ratio), "{found}");
    // Each state once for its description, then A B, B A, …, and the last command.
    let expected = format!("AB{}C", "ABBA".repeat(6));
    assert_eq!(order(&here), expected);
    assert_eq!(fs::read_to_string(here.path("planted")).unwrap(), "7\n");
    for run in ["run_a", "run_b"] {
        let events = events(&here.stored(found[run].as_str().unwrap()));
        assert_eq!(end(&events), "complete");
    }
}

#[test]
fn a_state_that_equals_itself_has_no_change() {
    let here = Here::new();
    let answer = compare(&here, "true", "true", &[]);
    assert_eq!(answer.json()["figures"][0]["changed"], false, "{answer:?}");
}

#[test]
fn a_command_that_fails_ends_it_with_its_words_and_the_machine_is_restored() {
    let here = Here::new();
    let after = ["--after", "echo C >> order"];
    let answer = compare(&here, "true", "echo no such knob >&2; exit 7", &after);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(
        answer.err.contains("no such knob") && answer.err.contains("exit status: 7"),
        "{answer:?}"
    );
    assert_eq!(order(&here), "C");
    // One that fails later leaves the pairs until then, and nothing on the machine.
    let once =
        "test ! -e twice || exit 9; [ -e first ] && touch twice; touch first; echo B >> order";
    let answer = compare(&here, "true", once, &after);
    assert!(answer.err.contains("exit status: 9"), "{answer:?}");
    assert_eq!(order(&here), "CBBC");
    let answer = compare(&here, "true", "true", &["--after", "exit 5"]);
    assert!(answer.err.contains("--after") && answer.err.contains("exit status: 5"), "{answer:?}");
    assert_eq!(answer.code, Some(3), "{answer:?}");
}
