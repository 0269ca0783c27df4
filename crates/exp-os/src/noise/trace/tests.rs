//! The loop on the machine as it is: what must hold however disturbed it is.

use super::*;

fn clock() -> Clock {
    // Any rate: lengths are compared in ticks.
    Clock::Counter { tick_ns: 0.5 }
}

fn threshold_of(ticks: u64) -> Threshold {
    Threshold { ticks, ns: clock().ns(ticks), read_to_read_ns: 10.0, because: String::new() }
}

#[test]
fn a_window_is_one_segment_and_its_gaps_lie_inside() {
    let mut tracer = Tracer::with_room(ROOM).unwrap();
    let threshold = threshold_of(1000);
    let before = metal::clock::ticks_fenced();
    let traced = window(&mut tracer, &threshold, clock(), 2e6);
    assert_eq!(traced.segments.len(), 1, "few gaps fit");
    let (first, last) = traced.segments[0];
    assert!(before <= first && first < last);
    assert!(last - before >= 4_000_000, "2 ms of two ticks a ns");
    assert_eq!(traced.traced_ticks, last - first);
    assert!(traced.turns > 0 && traced.backward == 0);
    let mut before = first;
    for gap in &traced.gaps {
        assert!(before <= gap.start && gap.ticks() >= 1000 && gap.end <= last);
        before = gap.end;
    }
    assert_eq!(traced.count, traced.gaps.len() as u64);
    assert_eq!(traced.lengths.count(), traced.count);
    let sum: u64 = traced.gaps.iter().map(|gap| gap.ticks()).sum();
    assert_eq!(traced.lost_ticks, sum);
    let longest = traced.gaps.iter().map(|gap| gap.ticks()).max();
    assert_eq!(traced.longest_ticks, longest.unwrap_or(0));
}

/// With a threshold of 0 every turn is a gap, and gaps that follow each other are one.
#[test]
fn a_flood_of_gaps_is_counted_whole_in_bounded_memory() {
    let mut tracer = Tracer::with_room(8).unwrap();
    // Others may have the CPU for a whole window: one in which the loop ran is looked at.
    let traced = (0..100)
        .map(|_| {
            tracer.begin();
            let end = tracer.first() + 2_000_000;
            let kept = Kept { from_tick: tracer.first(), gaps: 20, segments: 5 };
            trace(&mut tracer, &threshold_of(0), clock(), end, kept)
        })
        .find(|traced| traced.count > 100)
        .expect("the loop runs in some window");
    assert_eq!((traced.gaps.len(), traced.segments.len()), (20, 5));
    assert!(traced.count > 100 && traced.dropped == traced.count - 20);
    assert_eq!(traced.lengths.count(), traced.count);
    // Every turn is in a gap, so all that was traced was lost, and none of the time between.
    assert_eq!((traced.turns, traced.traced_ticks), (8 * traced.count, traced.lost_ticks));
    for pair in traced.segments.windows(2) {
        assert!(pair[0].0 < pair[0].1 && pair[0].1 <= pair[1].0);
    }
    let whole = tracer.last() - traced.segments[0].0;
    assert!(traced.traced_ticks < whole, "emptying takes time");
}

/// Gaps of (start, end) of a stretch that begins at 100, of which two are kept one by one.
fn taken(gaps: &[(u64, u64)]) -> Traced {
    let gaps: Vec<Gap> = gaps.iter().map(|&(start, end)| Gap { start, end }).collect();
    let mut traced = Traced::default();
    let kept = Kept { gaps: 2, ..Kept::from(100) };
    traced.segments = vec![(100, 1_100)];
    traced.traced_ticks = 1_000;
    traced.take_gaps(&gaps, 100, clock(), kept);
    traced
}

#[test]
fn a_gap_right_after_a_gap_is_the_same() {
    let gap = |start, end| Gap { start, end };
    // The first began before the stretch. The last two are one, though only in the distribution.
    let traced =
        taken(&[(90, 140), (140, 150), (300, 310), (310, 320), (320, 330), (500, 540), (540, 560)]);
    assert_eq!(traced.gaps, [gap(100, 150), gap(300, 330)]);
    assert_eq!((traced.count, traced.dropped), (3, 1));
    assert_eq!((traced.lost_ticks, traced.longest_ticks), (140, 60));
    assert_eq!(traced.lengths.count(), 3);
    // One turn between two is enough to tell them apart.
    assert_eq!(taken(&[(200, 210), (211, 220)]).count, 2);
}

#[test]
fn what_is_held_of_a_window_is_told() {
    assert_eq!(taken(&[(200, 210), (400, 410)]).held(), Held::ALL);
    let held = taken(&[(200, 210), (290, 300), (500, 510), (600, 610), (700, 710)]).held();
    // The second gap ended after a fifth of the time.
    assert_eq!((held.gaps, held.time), (0.4, 0.2));
}

#[test]
fn what_lies_before_a_shared_window_is_cut_off() {
    let mut tracer = Tracer::with_room(ROOM).unwrap();
    tracer.begin();
    let start = tracer.first() + 500_000;
    // Away from before the start until after it, as a thread that was kept from its CPU.
    while metal::clock::ticks_fenced() < start + 300_000 {}
    let traced = window_between(
        &mut tracer,
        &threshold_of(100_000),
        clock(),
        (start, start + 900_000),
        GAPS_MAX,
    );
    let (first, last) = traced.segments[0];
    assert_eq!(first, start);
    assert!(last >= start + 900_000);
    assert_eq!(traced.traced_ticks, last - start);
    assert_eq!(traced.gaps[0].start, start);
    assert!(traced.gaps[0].ticks() >= 300_000);
    assert!(traced.longest_ticks <= traced.lost_ticks && traced.lost_ticks <= traced.traced_ticks);

    // A window that was over before it began is all lost, not nothing.
    tracer.begin();
    let start = tracer.first() + 1000;
    while metal::clock::ticks_fenced() < start + 10_000 {}
    let late =
        window_between(&mut tracer, &threshold_of(5000), clock(), (start, start + 5000), GAPS_MAX);
    // Others may come in the turns of the last call.
    assert_eq!(late.gaps[0].start, start);
    assert!(late.gaps[0].ticks() > 9000 && late.count < 100);
}

#[test]
fn the_threshold_lies_above_the_loops_own_times() {
    let found = threshold(clock(), true).unwrap();
    assert!(found.ticks as f64 * 0.5 == found.ns);
    assert!(found.read_to_read_ns > 0.0 && found.ns > 2.0 * found.read_to_read_ns);
    assert!(!found.because.is_empty());
}

#[test]
fn without_the_counter_there_is_no_loop() {
    threshold(Clock::Monotonic, true).unwrap_err();
}
