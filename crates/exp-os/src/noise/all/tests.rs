//! The offer on every recorded host, one rehearsal, and the party on this machine.

use super::party::trace_all;
use super::{CARD, EXPERIMENT};
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Known, Preset, Site};
use bench::measure::Clock;
use record::case::Case;
use record::key::{CaseId, Key, Value};
use session::fixtures::{params, smoke};

fn of(cpu: impl Into<Value>) -> CaseId {
    CaseId::new().with("cpu", cpu)
}

#[test]
fn a_cpu_that_is_not_there_is_skipped_with_its_reason() {
    let mut site = recorded("vm-granite-rapids");
    let offer = |site: &Site, set: &str| {
        EXPERIMENT.series(site, &params(&CARD, Preset::Quick, &[("cpu", set)]))
    };
    let both = offer(&site, "1,77").unwrap();
    assert_eq!(both.series[0].cases.len(), 1);
    assert_eq!(both.skipped[0].0, of(77_u64));
    assert_eq!(both.skipped[0].1.reason, "there is no CPU 77");
    assert!(offer(&site, "77").unwrap().series.is_empty());
    site.host.cpu.cpus[1].allowed = false;
    site.cpus = vec![0, 2];
    let forbidden = offer(&site, "0,1").unwrap();
    assert_eq!(forbidden.skipped[0].1.reason, "this process may not use CPU 1");
    site.host.cpu.cpus[1].online = false;
    let offline = offer(&site, "0,1").unwrap();
    assert_eq!(offline.skipped[0].1.reason, "CPU 1 is offline");
}

#[test]
fn what_one_cpu_lost_alone_is_used() {
    let site = recorded("epyc-7763-2s");
    let case = Case::new(of("all"));
    let metric = |name: &str| CARD.metrics.iter().find(|metric| metric.name == name).unwrap();
    let mut known = Known::default();
    let told = |known: &Known, name| EXPERIMENT.predict(&site, Some(known), &case, metric(name));
    assert_eq!(told(&known, "lost"), None);
    let quietest = CaseId::new().with("cpu", "quietest");
    for (name, value) in [("lost", 0.002), ("gap", 2000.0), ("longest_gap", 9e4)] {
        known.insert(Key::new("noise.activity", &quietest, name), value);
        let derived = told(&known, name).unwrap();
        let range = derived.range.unwrap();
        assert!(range.low < value && value < range.high, "{derived:?}");
    }
    assert_eq!(told(&known, "gap_rate"), None);
}

#[test]
fn a_rehearsal_writes_every_case() {
    let samples = smoke(&EXPERIMENT);
    let lost: Vec<_> = samples.iter().filter(|one| one.metric == "lost").collect();
    assert!(lost.iter().any(|one| one.case == of("all")));
    for one in lost {
        assert!(!one.notes.is_empty());
        let causes =
            one.notes.iter().any(|note| note.starts_with("of the lost time") || note == "no gap");
        assert!(causes, "{:?}", one.notes);
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
    let refused = last.1.as_ref().unwrap_err();
    assert!(format!("{refused:#}").contains("CPU 8190"), "{refused:#}");
    let spans: Vec<(u64, u64)> = seen
        .iter()
        .map(|(_, seen)| {
            let segments = &seen.as_ref().unwrap().traced.segments;
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
    trace_all(&[], Clock::Counter { tick_ns: 0.5 }, 1e6, true).unwrap_err();
}
