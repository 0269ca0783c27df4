//! The offer on every recorded host, one rehearsal, and the party on this machine.

use super::EXPERIMENT;
use super::party::trace_all;
use bench::experiment::fixtures::recorded;
use bench::prelude::*;
use session::fixtures::{offered, skipped, smoke};

fn case_of(cpu: impl Into<Value>) -> CaseId {
    CaseId::new().with("cpu", cpu)
}

#[test]
fn a_cpu_that_is_not_there_is_skipped_with_its_reason() {
    let mut site = recorded("vm-granite-rapids");
    let offer = |site: &Site, set: &str| offered(&EXPERIMENT, site, Preset::Quick, &[("cpu", set)]);
    let both = offer(&site, "1,77");
    assert_eq!((both.series[0].cases.len(), skipped(&both)), (1, vec!["cpu=77".to_owned()]));
    assert!(offer(&site, "77").series.is_empty());
    let reason = |site: &Site| offer(site, "0,1").skipped[0].1.reason.clone();
    let mut reasons = vec![both.skipped[0].1.reason.clone()];
    site.cpus = vec![0, 2];
    reasons.push(reason(&site));
    site.host.cpu.cpus[1].allowed = false;
    reasons.push(reason(&site));
    site.host.cpu.cpus[1].online = false;
    reasons.push(reason(&site));
    let all = reasons.len();
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons.len(), all, "each has a reason of its own: {reasons:?}");
}

#[test]
fn a_rehearsal_writes_every_case() {
    let samples = smoke(&EXPERIMENT);
    let lost: Vec<_> = samples.iter().filter(|one| one.metric == "lost").collect();
    assert!(lost.iter().any(|one| one.case == case_of("all")));
    for one in lost {
        assert!(!one.notes.is_empty());
    }
}

/// The counter with its rate to a few percent: enough to find a moment that is near.
fn calibrated() -> Clock {
    let read = || (metal::clock::ticks_fenced(), metal::clock::monotonic_ns());
    let (ticks, ns) = read();
    while metal::clock::monotonic_ns() < ns + 2_000_000 {}
    let (later, later_ns) = read();
    Clock::Counter { tick_ns: (later_ns - ns) as f64 / (later - ticks) as f64 }
}

/// The windows overlap: every one begins before any ends.
#[test]
fn all_trace_at_the_same_time_and_one_that_cannot_does_not_stop_them() {
    let mut cpus = metal::place::allowed().unwrap();
    cpus.truncate(2);
    // No machine has it.
    cpus.push(8190);
    let clock = calibrated();
    let party = std::thread::scope(|scope| {
        // A thread of its own, because the first CPU's is the caller.
        let party = scope.spawn(|| trace_all(&cpus, clock, 2e6, true).unwrap());
        party.join().unwrap()
    });
    let (last, seen) = party.members.split_last().unwrap();
    let refused = last.1.as_ref().err().unwrap();
    assert!(format!("{refused:#}").contains("CPU 8190"), "{refused:#}");
    let spans: Vec<(u64, u64)> = seen
        .iter()
        .map(|(_, seen)| {
            let segments = &seen.as_ref().unwrap().seen.traced.segments;
            (segments[0].0, segments.last().unwrap().1)
        })
        .collect();
    let last_begin = spans.iter().map(|(begin, _)| begin).max();
    let first_end = spans.iter().map(|(_, end)| end).min();
    assert!(last_begin < first_end, "{spans:?}");
    assert_eq!(party.evidence.cpus.len(), seen.len());
}

#[test]
fn no_cpu_is_an_error() {
    assert!(trace_all(&[], Clock::Counter { tick_ns: 0.5 }, 1e6, true).is_err());
}
