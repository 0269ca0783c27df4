//! Runs with less memory than was asked for.

use crate::plumb::group::Group;
use crate::plumb::prelude::*;

const MIB: u64 = 1 << 20;
/// The random ring on base pages, in the sizes that follow.
const RING: &str = "--set memory.latency.pattern=random --set memory.latency.load=pointer \
                    --set memory.latency.pages=base --set memory.latency.footprint=";

/// A run whose group shrinks to 64 MiB once its plan is written, and its events.
fn shrunk(args: &str) -> Option<(Group, Vec<Value>)> {
    let group = Group::memory(256 * MIB)?;
    let here = Here::new();
    let session = here.in_group(&group.0, args).spawn().unwrap();
    here.wait_for(|event| event["event"] == "plan");
    group.set_memory(64 * MIB).unwrap();
    ended_with(0, session);
    assert_eq!(group.killed(), 1);
    Some((group, here.complete()))
}

/// Outcome and reason of the case with this footprint.
fn outcome(events: &[Value], footprint: u64) -> (&str, &str) {
    let outcomes = events_of_kind(events, "outcome");
    let of_case = outcomes
        .iter()
        .rfind(|outcome| outcome["case"]["footprint"] == footprint)
        .unwrap_or_else(|| panic!("no outcome at {footprint}: {outcomes:?}"));
    let text = |name: &str| of_case[name].as_str().unwrap();
    (text("outcome"), text("reason"))
}

#[test]
fn what_a_control_group_does_not_hold_is_skipped_with_its_limit() {
    let Some(group) = Group::memory(256 * MIB) else { return skips::test("control-group") };
    let here = Here::new();
    let args = format!("run memory.latency --preset rehearsal {RING}64KiB,1GiB");
    ends(0, here.in_group(&group.0, &args));
    let events = here.complete();
    assert_eq!(outcome(&events, 64 << 10).0, "measured");
    let (skipped, reason) = outcome(&events, 1 << 30);
    assert_eq!(skipped, "skipped", "{reason}");
    for words in ["1 GiB", "control group's limit"] {
        assert!(reason.contains(words), "{words}: {reason}");
    }
    assert_eq!(group.killed(), 0);
}

#[test]
fn what_the_oom_killer_ends_fails_with_the_limit_and_the_rest_goes_on() {
    // The clocks are calibrated and clock.rate is measured before any memory is taken.
    let args = format!("run clock.rate memory.latency --preset quick {RING}64KiB,1MiB,128MiB");
    let Some((group, events)) = shrunk(&args) else {
        return skips::test("control-group");
    };
    let (failed, reason) = outcome(&events, 128 * MIB);
    assert_eq!(failed, "failed", "{reason}");
    let directory = group.0.to_str().unwrap();
    for words in ["killed by the OOM killer", directory, "limited to 64 MiB"] {
        assert!(reason.contains(words), "{words}: {reason}");
    }
    for footprint in [64 << 10, MIB] {
        assert_eq!(outcome(&events, footprint).0, "measured");
    }
    // One round was lost, and made up for.
    let (ok, void) = rounds(&events, "memory.latency/random-base");
    assert!(ok >= 6 && void == 1, "{ok} and {void}");
}

#[test]
fn a_small_array_is_not_blamed_for_the_memory_of_a_large_one() {
    let setting = |what: &str| format!("--set memory.bandwidth.{what}");
    let chosen = ["op=read", "level=L1,DRAM", "threads=1", "limit=128MiB"].map(setting);
    // The clocks are calibrated and clock.rate is measured before any array is made.
    let args = format!("run clock.rate memory.bandwidth --preset quick {}", chosen.join(" "));
    let Some((_, events)) = shrunk(&args) else { return skips::test("control-group") };
    let outcomes = events_of_kind(&events, "outcome");
    let of_level = |level: &str| {
        let of_case = outcomes.iter().rfind(|outcome| outcome["case"]["level"] == level);
        of_case.unwrap_or_else(|| panic!("no outcome at {level}: {outcomes:?}"))
    };
    let failed = of_level("DRAM");
    let reason = failed["reason"].as_str().unwrap();
    assert_eq!(failed["outcome"], "failed", "{reason}");
    for words in ["killed by the OOM killer", "limited to 64 MiB"] {
        assert!(reason.contains(words), "{words}: {reason}");
    }
    let small = of_level("L1");
    assert_eq!(small["outcome"], "measured", "{small}");
    // One round was lost, and made up for.
    let (ok, void) = rounds(&events, "memory.bandwidth/levels");
    assert!(ok >= 6 && void == 1, "{ok} and {void}");
}

#[test]
fn memory_that_the_kernel_does_not_promise_fails_its_case_alone() {
    let here = Here::new();
    // Nor may any be locked: nothing is.
    let line = format!(
        "ulimit -v 524288; ulimit -l 0; \
         exec {PLUMB} run memory.latency --preset rehearsal {RING}64KiB,1GiB"
    );
    here.shell(&line);
    let events = here.complete();
    assert_eq!(outcome(&events, 64 << 10).0, "measured");
    let (ended, reason) = outcome(&events, 1 << 30);
    // A machine with less than that skips it by itself.
    if ended != "skipped" {
        assert_eq!(ended, "failed", "{reason}");
        for words in ["mapping 1 GiB", "`ulimit -v`", "os error 12"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
    }
}
