//! Ends that are read late, and what happened around either end.

use super::{collect, cpus, disturbances};
use crate::budget::CoreState;
use crate::node::Node;
use crate::quiet::Look;
use anyhow::Result;
use bench::link::{Done, FromWorker, ToWorker};
use record::case::Case;
use record::key::CaseId;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// An end that says the same again and again.
struct Talker {
    says: FromWorker,
    /// What it says after so many.
    last: Option<(u32, FromWorker)>,
    said: u32,
}

impl Node for Talker {
    fn order(&mut self, _: &ToWorker) -> Result<()> {
        Ok(())
    }

    fn next(&mut self, _: Instant, _: &AtomicBool) -> Result<FromWorker> {
        self.said += 1;
        match &self.last {
            Some((at, last)) if *at == self.said => Ok(last.clone()),
            _ => Ok(self.says.clone()),
        }
    }
}

#[test]
fn an_end_that_came_in_time_counts_when_it_is_read_late() {
    let mut talker = Talker {
        says: FromWorker::Alive(1.0),
        last: Some((3, FromWorker::Done(Done::default()))),
        said: 0,
    };
    let over = Instant::now();
    let (events, _) = collect(&mut talker, over, &AtomicBool::new(false)).expect("it ended");
    assert!(events.is_empty() && talker.said == 3);
}

/// A round of 100 ms on one CPU at either end, with these changes.
fn notes(changes: &[(&str, f64)]) -> Vec<String> {
    let mut ended = Done { window_ns: 1e8, cpus: vec![0], ..Done::default() };
    let usual = [
        ("far_window_ns", 1e8),
        ("far_cpus", 1.0),
        ("core_hz_before", 3e9),
        ("core_hz_after", 3e9),
        ("far_core_hz_before", 2e9),
        ("far_core_hz_after", 2e9),
    ];
    for (name, value) in usual.iter().chain(changes) {
        ended.environment.insert((*name).to_owned(), *value);
    }
    disturbances(&ended)
}

#[test]
fn what_happens_to_the_far_end_disturbs_as_well() {
    assert!(notes(&[]).is_empty());
    assert_eq!(notes(&[("throttled_ns", 1e7)]), ["throttled 10.0 %"]);
    assert_eq!(notes(&[("far_throttled_ns", 1e7)]), ["far end: throttled 10.0 %"]);
    // Steal is summed over its CPUs.
    let shared = [("far_throttled_ns", 1e7), ("far_cpus", 4.0)];
    assert_eq!(notes(&shared), ["far end: throttled 2.5 %"]);
    assert_eq!(notes(&[("far_throttled_ns", 5e6)]), ["far end: throttled 5.0 %"]);
    assert!(notes(&[("far_core_hz_after", 1.8e9)])[0].ends_with("-10.0 %"));
    let both = [("far_throttled_ns", 1e7), ("migrations", 2.0)];
    assert_eq!(notes(&both), ["migrations 2", "far end: throttled 10.0 %"]);
}

#[test]
fn what_a_far_end_does_by_itself_and_what_it_does_not_tell_disturbs_nothing() {
    let own =
        [("far_involuntary_switches", 1e4), ("far_migrations", 3.0), ("far_major_faults", 3.0)];
    assert!(notes(&own).is_empty());
    assert!(notes(&[("far_window_ns", 0.0), ("far_throttled_ns", 1e9)]).is_empty());
}

#[test]
fn a_round_moves_to_a_core_that_is_alone_unless_the_plan_placed_it() {
    let free = Case::new(CaseId::new().with("call", "getpid"));
    let mut placed = free.clone();
    placed.at.insert("loaders".to_owned(), "1-2".into());
    let look = |cpu| Some(Look { state: CoreState::Alone, cpu, waited: Duration::ZERO });
    let (here, there) = ([free.clone()], [free, placed]);
    for (cases, look, expected) in [
        (&here[..], look(2), [2, 0, 1]),
        (&here, look(0), [0, 1, 2]),
        (&here, None, [0, 1, 2]),
        (&here, look(7), [0, 1, 2]),
        (&there, look(2), [0, 1, 2]),
    ] {
        assert_eq!(cpus(&[0, 1, 2], cases, look), expected);
    }
}
