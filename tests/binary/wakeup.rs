//! Limits of late wake-ups: one CPU, a quota, no permission. What cannot be had is left out and
//! says why and what to do; the rest is measured.

use crate::plumb::group::Group;
use crate::plumb::prelude::*;

/// All loads, and both policies.
const RUN: &str = "run noise.wakeup --preset rehearsal --set noise.wakeup.load=idle,same,others \
     --set noise.wakeup.policy=other,fifo";

/// What came of each case: its load and policy, the outcome and the words of it.
fn outcomes(here: &Here, answer: &Answer) -> Vec<(String, String, String, String)> {
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = here.complete();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = of(&events, "outcome").into_iter().map(|outcome| {
        let case = &outcome["case"];
        let (load, policy) = (text(&case["load"]), text(&case["policy"]));
        (load, policy, text(&outcome["outcome"]), outcome.to_string())
    });
    let all: Vec<_> = all.collect();
    let is_measured = |one: &&(String, String, String, String)| {
        one.0 == "idle" && one.1 == "other" && one.2 == "measured"
    };
    assert!(all.iter().any(|one| is_measured(&one)), "{all:?}");
    all
}

/// The command in a shell that does something first.
fn after(here: &Here, first: &str) -> Answer {
    here.shell(&format!("{first} $PLUMB {RUN}"))
}

#[test]
fn on_one_cpu_no_other_is_loaded() {
    let here = Here::new();
    let cpu = *metal::place::allowed().unwrap().last().unwrap();
    let found = outcomes(&here, &after(&here, &format!("exec taskset -c {cpu}")));
    // A real-time policy that is not allowed is a reason of its own.
    let others = found.iter().filter(|one| one.0 == "others" && one.1 == "other");
    let others: Vec<_> = others.collect();
    assert!(!others.is_empty(), "{found:?}");
    for (.., outcome, text) in others {
        assert_eq!(outcome, "skipped", "{text}");
        assert!(text.contains("a second CPU"), "{text}");
    }
}

#[test]
fn under_a_quota_nobody_spins() {
    let Some(group) = Group::percent(20, 100_000) else { return skips::test("control-group") };
    let here = Here::new();
    let procs = group.0.join("cgroup.procs");
    let found = outcomes(&here, &after(&here, &format!("echo $$ > {}; exec", procs.display())));
    for (load, .., outcome, text) in found.iter().filter(|one| one.0 != "idle") {
        assert_eq!(outcome, "skipped", "{load}: {text}");
        assert!(text.contains("quota") || text.contains("a second CPU"), "{text}");
    }
}

#[test]
fn without_the_right_to_a_real_time_policy_its_cases_say_what_they_need() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    let here = Here::new();
    let answer = user.plumb(&here, 200, RUN);
    let found = outcomes(&here, &answer);
    let fifo: Vec<_> = found.iter().filter(|one| one.1 == "fifo").collect();
    assert!(!fifo.is_empty(), "{found:?}");
    for (.., outcome, text) in fifo {
        assert_eq!(outcome, "skipped", "{text}");
        assert!(text.contains("CAP_SYS_NICE") && text.contains("ulimit -r"), "{text}");
    }
    user.has_gone();
}
