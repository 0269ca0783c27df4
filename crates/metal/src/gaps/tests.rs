//! Known answers of the reading loop. Thresholds of 0 make every turn a gap, so that what the loop
//! keeps can be compared with what it did, at any speed of the machine.

use super::*;
use crate::process::Child;

/// No difference of two reads is as long.
const NEVER: u64 = u64::MAX;

fn tracer(room: usize) -> Tracer {
    let mut tracer = Tracer::with_room(room).expect("room");
    tracer.begin();
    tracer
}

/// Spins until the counter has moved by `ticks`.
fn pass(ticks: u64) {
    let from = clock::ticks_fenced();
    while clock::ticks_fenced() < from + ticks {}
}

#[test]
fn without_a_gap_turns_are_counted_and_nothing_is_stored() {
    let mut tracer = tracer(4);
    let before = clock::ticks_fenced();
    assert!(tracer.first() <= before && tracer.first() == tracer.last());
    assert!(tracer.run(NEVER, 1000));
    assert!(tracer.run(NEVER, 0));
    assert!(tracer.run(NEVER, 1));
    assert_eq!((tracer.turns(), tracer.gaps().len()), (1001, 0));
    assert!(before <= tracer.last() && tracer.last() <= clock::ticks_fenced());
}

#[test]
fn with_threshold_zero_every_turn_is_stored_and_one_begins_where_the_last_ended() {
    let mut tracer = tracer(1000);
    assert!(tracer.run(0, 400));
    assert!(tracer.run(0, 599));
    let gaps = tracer.gaps();
    assert_eq!((gaps.len(), tracer.turns()), (999, 999));
    assert_eq!(gaps[0].start, tracer.first());
    assert_eq!(gaps[998].end, tracer.last());
    for pair in gaps.windows(2) {
        assert!(pair[0].start <= pair[0].end);
        // Also over the seam of the two calls.
        assert_eq!(pair[0].end, pair[1].start);
    }
}

#[test]
fn gaps_are_those_of_the_threshold_or_more() {
    let mut every = tracer(50_000);
    assert!(every.run(0, 49_999));
    let mut lengths: Vec<u64> = every.gaps().iter().map(|gap| gap.ticks()).collect();
    lengths.sort_unstable();
    // Some are as long and some are not, however the machine is.
    let threshold = lengths[49_000].max(1);
    let mut tracer = tracer(200_000);
    assert!(tracer.run(threshold, 100_000));
    let mut last = tracer.first();
    for gap in tracer.gaps() {
        assert!(gap.ticks() >= threshold, "{gap:?}");
        assert!(last <= gap.start && gap.start < gap.end, "{gap:?}");
        last = gap.end;
    }
    assert!(last <= tracer.last());
    assert_eq!(tracer.turns(), 100_000);
}

#[test]
fn a_gap_between_two_calls_is_found() {
    let mut tracer = tracer(1_000_000);
    // Longer than anything a loop does of itself, and far longer than one call.
    let threshold = 100_000;
    assert!(tracer.run(threshold, 10));
    let before = tracer.last();
    pass(4 * threshold);
    assert!(tracer.run(threshold, 10));
    let seam: Vec<&Gap> = tracer.gaps().iter().filter(|gap| gap.start == before).collect();
    assert_eq!(seam.len(), 1, "{:?}", tracer.gaps());
    assert!(seam[0].ticks() >= 4 * threshold);
}

#[test]
fn a_full_room_stops_the_loop_and_loses_nothing() {
    let mut tracer = tracer(10);
    assert!(!tracer.run(0, 25), "25 gaps in room for 10");
    assert_eq!((tracer.gaps().len(), tracer.turns()), (10, 10));
    assert_eq!(tracer.gaps()[9].end, tracer.last());
    let last = tracer.last();
    assert!(!tracer.run(0, 5), "it is full");
    assert!(!tracer.until(NEVER, u64::MAX), "it stays full");
    assert_eq!((tracer.turns(), tracer.last()), (10, last));
    tracer.begin();
    assert!(tracer.first() >= last);
    assert!(tracer.run(0, 9), "it is empty again");
    assert!(!tracer.run(0, 1), "the last of ten");
    assert_eq!((tracer.gaps().len(), tracer.turns()), (10, 10));
    assert_eq!(tracer.gaps()[0].start, tracer.first());
}

#[test]
fn until_ends_after_its_tick_and_not_long_before() {
    let mut tracer = tracer(4);
    let end = tracer.first() + 300_000;
    assert!(tracer.until(NEVER, end));
    assert!(tracer.last() >= end);
    let turns = tracer.turns();
    assert!(tracer.until(NEVER, end));
    assert_eq!(tracer.turns(), turns, "it was over");
}

#[test]
fn a_parent_reads_what_its_child_traced() {
    let mut tracer = Tracer::with_room(500).expect("room");
    let before = clock::ticks_fenced();
    let child = Child::fork(|| {
        tracer.begin();
        i32::from(!tracer.run(0, 400))
    })
    .expect("forks");
    child.succeed().expect("the child traced");
    assert_eq!((tracer.gaps().len(), tracer.turns()), (400, 400));
    assert!(before <= tracer.first() && tracer.last() <= clock::ticks_fenced());
    assert_eq!(tracer.gaps()[0].start, tracer.first());
    assert_eq!(tracer.gaps()[399].end, tracer.last());
}

#[test]
fn no_room_is_an_error() {
    Tracer::with_room(0).expect_err("none");
    Tracer::with_room(usize::MAX).expect_err("too much");
}
