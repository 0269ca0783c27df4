//! Tests that need a quiet machine. They run one at a time under a lock of the machine, have three
//! attempts each, print every one, and assert what holds on any machine, not how fast this one is.
//! `scripts/test` runs them last; `cargo test` runs them only by name (`--test quiet`).
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod noise;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod schedule;

use plumb::prelude::*;

const ATTEMPTS: usize = 3;

/// The machine for one test at a time, of all checkouts and users that share its temporary
/// directory. The lock ends with the file.
fn machine() -> File {
    let path = std::env::temp_dir().join("plumb-quiet-tests.lock");
    // Another user's file may be opened for reading only; that is enough for a lock.
    let file = File::open(&path).or_else(|_| File::create(&path));
    let file = file.expect("the temporary directory can be written to");
    file.lock().expect("the file can be locked");
    file
}

/// The sets of values that a quick run wrote of some cases.
fn samples(cases: &str) -> Vec<Value> {
    samples_with(cases, "")
}

fn samples_with(cases: &str, settings: &str) -> Vec<Value> {
    let mut events = events_with(cases, settings);
    events.retain(|event| event["event"] == "samples");
    events
}

/// All that a quick run of some cases wrote down, with settings.
fn events_with(cases: &str, settings: &str) -> Vec<Value> {
    let here = Here::new();
    let answer = here.plumb(&format!("run {cases} --preset quick --json {settings}"));
    // Cases that others disturbed may have failed: that is for the test to judge.
    assert!(answer.code.is_some(), "{cases}: {answer:?}");
    events(&here.record())
}

/// Median of a metric's values over the rounds of a run.
fn figure(samples: &[Value], metric: &str) -> Option<f64> {
    median(samples_of(samples, metric).into_iter().flat_map(values).collect())
}

/// Greatest value of a metric over the rounds of a run.
fn best(samples: &[Value], metric: &str) -> Option<f64> {
    let of = samples.iter().filter(|one| one["metric"] == metric);
    of.flat_map(values).max_by(f64::total_cmp)
}

/// Median of a quantity beside a metric's values over the rounds of a run.
fn quantity(samples: &[Value], metric: &str, name: &str) -> Option<f64> {
    let of = samples_of(samples, metric).into_iter();
    median(of.filter_map(|one| one["quantities"][name].as_f64()).collect())
}

fn values(samples: &Value) -> Vec<f64> {
    let values = samples["values"].as_array().into_iter().flatten();
    values.filter_map(Value::as_f64).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Attempts, each printed, until one succeeds.
#[expect(clippy::print_stdout, reason = "each attempt is told")]
#[track_caller]
fn attempts(what: &str, mut attempt: impl FnMut() -> (String, bool)) {
    let _alone = machine();
    for number in 1..=ATTEMPTS {
        let (found, is_good) = attempt();
        println!("{what}, attempt {number} of {ATTEMPTS}: {found}");
        if is_good {
            return;
        }
    }
    panic!("{what}: none of {ATTEMPTS} attempts was good; is the machine quiet?");
}

/// One thread of the widest fused (else multiplied) f64 is as many times faster than the same by
/// scalars as its units do more in a cycle, less what the clock falls for it; and neither passes
/// its units. The first holds beside a neighbour on the core, who takes from both alike, as the
/// share of the units does not.
#[test]
fn the_widest_arithmetic_keeps_its_units_busy() {
    attempts("gain by width and efficiency of cpu.peak", || {
        let run = |op: &str| {
            let widths = "scalar,sse2,avx2,avx512,neon";
            let sets = ["type=f64", "threads=1", &format!("width={widths}"), &format!("op={op}")]
                .map(|set| format!("--set cpu.peak.{set}"));
            samples_with(&format!("cpu.peak:op={op}"), &sets.join(" "))
        };
        let mut found = run("fma");
        if found.is_empty() {
            found = run("mul");
        }
        let of_width = |width: &str| -> Vec<Value> {
            let is = |one: &&Value| one["case"]["width"] == width;
            found.iter().filter(is).cloned().collect()
        };
        let widest = ["avx512", "avx2", "sse2", "neon"]
            .into_iter()
            .map(|width| (width, of_width(width)))
            .find(|(_, found)| !found.is_empty());
        let (width, wide) = widest.expect("every processor has vectors of f64");
        let scalar = of_width("scalar");
        // By the table of units where it has this core, else by the lanes, of which some designs
        // serve 64 bytes by half as many units.
        let per_cycle = |of: &[Value]| of[0]["at"]["ops_per_cycle"].as_str()?.parse::<f64>().ok();
        let (times, least) = match (per_cycle(&wide), per_cycle(&scalar), width) {
            (Some(wide), Some(scalar), _) => (wide / scalar, 0.75),
            (_, _, "avx512") => (8.0, 0.4),
            (_, _, "avx2") => (4.0, 0.75),
            _ => (2.0, 0.75),
        };
        let rate = |of: &[Value]| figure(of, "flop_rate").expect("a rate is always measured");
        let gain = rate(&wide) / rate(&scalar) / times;
        let best = best(&found, "efficiency");
        let text = format!("{width}: {gain:.3} of {times} times, best round {best:?}");
        let is_in_bound = best.is_none_or(|share| share <= 1.02);
        (text, (least..=1.1).contains(&gain) && is_in_bound)
    });
}

/// By the scheduler's own count, each hand-over of a pipe on one CPU is one switch.
#[test]
fn a_handover_on_one_cpu_is_one_switch() {
    attempts("switches per hand-over of os.switch", || {
        let found = samples("os.switch:via=pipe,parties=processes,pair=same");
        match quantity(&found, "handover", "switches_per_handover") {
            Some(switches) => (format!("{switches:.5}"), (0.99..=1.01).contains(&switches)),
            None => ("no round was good".to_owned(), false),
        }
    });
}
