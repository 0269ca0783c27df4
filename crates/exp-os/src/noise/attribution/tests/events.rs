//! What the kernel's events say of gaps, by hand.

use std::collections::BTreeMap;

use super::super::own::Named;
use super::super::spans::{Event, Kind, Timeline, What, spans};
use super::super::{Cause, Evidence, Held, Level, OfCpu, Throttling};
use super::{counters, evidence, gaps};
use Cause::{Interrupt, Softirq, Timer};
use host::kernel::Virtualisation;

const ME: u32 = 100;
const END: u64 = 1_000_000_000;

fn kind(cause: Cause) -> Kind {
    match cause {
        Softirq => Kind::Softirq,
        Timer => Kind::Vector,
        _ => Kind::Handler,
    }
}

fn enter(cause: Cause, who: &str) -> What {
    What::Enter(kind(cause), cause, who.into())
}

fn leave(cause: Cause) -> What {
    What::Leave(kind(cause))
}

fn switch(from: u32, is_runnable: bool, to: u32, name: &str) -> What {
    What::Switch { from, is_runnable, to, name: name.into() }
}

fn tick(start: u64, end: u64) -> [Event; 2] {
    [(start, enter(Timer, "local_timer")), (end, leave(Timer))]
}

/// Thread 7 is plumb's. The ring is full from `whole_until` on.
fn timeline(events: &[Event], whole_until: Option<u64>) -> Timeline {
    let named = Named { pid: 7, name: "plumb session".to_owned() };
    let spans = spans(events, ME, &[(7, named)].into(), whole_until.unwrap_or(END));
    Timeline { spans, whole_until, lost: Some(0) }
}

fn traced(timeline: Timeline) -> Evidence {
    let of_cpu =
        OfCpu { timeline: Some(timeline), ..counters(&[("LOC", 100), ("RES", 100)], 100, None) };
    evidence(Level::Tracepoints, of_cpu, None)
}

/// Asserts the cause that the evidence names for each gap (start, length, cause).
#[track_caller]
fn assert_causes(evidence: &Evidence, of: &[(u64, u64, &str)]) {
    let gaps = gaps(&of.iter().map(|(start, ns, _)| (*start, *ns)).collect::<Vec<_>>());
    let found = evidence.attribute(0, &gaps, &vec![true; of.len()], Held::ALL);
    let told: Vec<String> =
        found.iter().map(|one| format!("{} {}", one.cause.text(), one.who)).collect();
    assert_eq!(told, of.iter().map(|(_, _, who)| *who).collect::<Vec<_>>());
}

#[test]
fn nested_events_are_taken_out_of_what_they_interrupt() {
    // A soft interrupt of 9 us; a device's interrupt takes 5 of them.
    let nested = [
        (101_100, enter(Softirq, "RCU")),
        (103_100, enter(Interrupt, "eth0 (interrupt 9)")),
        (108_100, leave(Interrupt)),
        (110_100, leave(Softirq)),
    ];
    let events = [&tick(10_000, 12_000)[..], &tick(100_000, 101_000), &nested].concat();
    let timeline = timeline(&events, None);
    let net: Vec<(&str, u64)> =
        timeline.spans.iter().map(|span| (&*span.who, span.end - span.start)).collect();
    let expected = [
        ("local_timer", 2_000),
        ("local_timer", 1_000),
        ("RCU", 2_000),
        ("eth0 (interrupt 9)", 5_000),
        ("RCU", 2_000),
    ];
    assert_eq!(net, expected);
    assert_causes(
        &traced(timeline),
        &[
            (9_000, 4_000, "timer local_timer"),
            (99_000, 12_000, "interrupt eth0 (interrupt 9)"),
            (500_000, 3_000, "unattributed no kernel event overlaps it"),
        ],
    );
}

#[test]
fn another_threads_stretch_beats_the_interrupts_inside_it() {
    let away = [
        (14_000, switch(ME, true, 55, "kworker/0:1")),
        (15_000, enter(Interrupt, "eth0 (interrupt 9)")),
        (24_000, leave(Interrupt)),
        (25_000, switch(55, false, 7, "plumb")),
        (26_000, switch(7, false, ME, "plumb")),
        (90_000, switch(ME, true, 7, "plumb")),
        (95_000, switch(7, false, ME, "plumb")),
    ];
    let events = [&tick(10_000, 13_000)[..], &away].concat();
    assert_causes(
        &traced(timeline(&events, None)),
        &[(9_000, 18_000, "thread kworker/0:1"), (89_000, 7_000, "plumb plumb session")],
    );
}

#[test]
fn an_idle_cpu_while_the_loop_could_run_is_a_quota() {
    let (quota, slept) =
        ("throttled idle while the loop could run", "unattributed the loop's own thread slept");
    let timeline = timeline(
        &[
            (10_000, switch(ME, true, 0, "swapper/0")),
            (50_010_000, switch(0, true, ME, "plumb")),
            (70_000_000, switch(ME, true, 55, "kworker/0:1")),
            (70_005_000, switch(55, false, 0, "swapper/0")),
            (90_000_000, switch(0, true, ME, "plumb")),
            (95_000_000, switch(ME, false, 0, "swapper/0")),
            (96_000_000, switch(0, true, ME, "plumb")),
            // It sleeps, and idling follows another thread.
            (97_000_000, switch(ME, false, 55, "kworker/0:1")),
            (97_005_000, switch(55, false, 0, "swapper/0")),
            (98_000_000, switch(0, true, ME, "plumb")),
        ],
        None,
    );
    assert_causes(
        &traced(timeline),
        &[
            (9_000, 50_002_000, quota),
            (69_999_000, 20_002_000, quota),
            (94_999_000, 1_002_000, slept),
            (96_999_000, 1_002_000, slept),
        ],
    );
}

#[test]
fn a_quota_is_named_though_another_thread_ran_meanwhile() {
    let stretch =
        |start, end| [(start, switch(ME, true, 55, "rustc")), (end, switch(55, true, ME, "plumb"))];
    let all = [stretch(1_000_000, 5_000_000), stretch(10_000_000, 90_000_000)].concat();
    let throttling = Throttling { periods: 1, time_ns: 80_000_000 };
    for (throttling, last) in
        [(None, "thread rustc"), (Some(throttling), "throttled quota of the control group")]
    {
        let of_cpu = OfCpu { timeline: Some(timeline(&all, None)), ..counters(&[], 2, None) };
        let evidence = evidence(Level::Tracepoints, of_cpu, throttling);
        assert_causes(
            &evidence,
            &[(999_000, 4_002_000, "thread rustc"), (9_999_000, 80_002_000, last)],
        );
    }
}

#[test]
fn what_is_long_beside_its_events_is_not_explained_by_them() {
    // 19 us beside it are the way in and out; 2 ms are not.
    let events = [tick(10_000, 13_000), tick(5_000_000, 5_003_000)].concat();
    assert_causes(
        &traced(timeline(&events, None)),
        &[
            (9_000, 22_000, "timer local_timer"),
            (4_999_000, 2_003_000, "unattributed most of the gap outside timer"),
        ],
    );
}

#[test]
fn lost_events_and_lost_ends_do_no_harm() {
    // No beginning, no end, a thread that was there before, and a ring that is full from 50 us on.
    let events = [
        (1_000, leave(Timer)),
        (2_000, switch(55, false, ME, "plumb")),
        (10_000, enter(Softirq, "RCU")),
        (12_000, switch(ME, true, 56, "other")),
        (20_000, switch(56, true, ME, "plumb")),
        (40_000, enter(Timer, "local_timer")),
        (42_000, leave(Timer)),
    ];
    let timeline = timeline(&events, Some(50_000));
    assert_eq!(timeline.spans[0].start, 1_000);
    assert_causes(
        &traced(timeline),
        &[
            (900, 1_500, "thread another thread"),
            (11_000, 9_500, "thread other"),
            (30_000, 1_000, "unattributed no kernel event overlaps it"),
            (60_000, 1_000, LOST),
        ],
    );
}

const LOST: &str = "unattributed events were lost from 0.00 s on: more than the ring holds";

/// Whoever was seen last has not the rest of the window; pairs after a hole are torn.
#[test]
fn what_is_open_when_the_ring_is_full_does_not_stay_open() {
    let torn = [(60_000, leave(Timer)), (70_000, enter(Timer, "local_timer"))];
    for last in [enter(Timer, "local_timer"), switch(ME, true, 56, "other")] {
        let events = [&tick(10_000, 12_000)[..], &[(49_000, last)], &torn].concat();
        let timeline = timeline(&events, Some(50_000));
        assert!(timeline.spans.iter().all(|span| span.end <= 50_000));
        let evidence = traced(timeline);
        let of = [(9_000, 4_000), (48_500, 9_000), (65_000, 2_000), (300_000, 7_000)];
        let whose = ["timer local_timer", LOST, LOST, LOST];
        let named: Vec<_> =
            of.iter().zip(whose).map(|((start, ns), who)| (*start, *ns, who)).collect();
        assert_causes(&evidence, &named);
        assert_eq!(evidence.whole_until(0), Some(50_000));
        assert!(evidence.reached().contains("from 0.00 s on"));
        let shares = |of: &[(u64, u64)]| {
            let gaps = gaps(of);
            let found = evidence.attribute(0, &gaps, &vec![true; of.len()], Held::ALL);
            evidence.shares(0, &gaps, &found)
        };
        // The gap before stands for all.
        let before = shares(&of);
        assert_eq!(before.by_cause, BTreeMap::from([(Timer, 1.0)]));
        assert_eq!((before.gaps, before.beside), (1, 0.5));
        // Without such a gap their cause is unknown, and no hypervisor is blamed. A gap that no
        // event touches is the hypervisor's.
        for (of, outside) in [(&of[1..], 0.0), (&[(30_000, 4_000)], 1.0)] {
            let shares = shares(of);
            assert_eq!(shares.by_cause, BTreeMap::from([(Cause::Unattributed, 1.0)]));
            assert_eq!(shares.outside, outside);
            let guest = Virtualisation { is_guest: Some(true), ..Virtualisation::default() };
            assert_eq!(shares.nobody(&guest).contains("hypervisor"), outside == 1.0);
        }
    }
}

#[test]
fn how_much_may_lie_beside_an_interrupt_is_a_matter_of_the_machine() {
    let mut evidence = traced(timeline(&tick(10_000, 13_000), None));
    // 19 us beside a handler of 3: a hypervisor's in a guest, and firmware's on bare metal.
    let gaps = gaps(&[(9_000, 22_000)]);
    for (is_guest, cause) in
        [(Some(true), Timer), (None, Timer), (Some(false), Cause::Unattributed)]
    {
        evidence.is_guest = is_guest;
        let found = evidence.attribute(0, &gaps, &[true], Held::ALL);
        assert_eq!((found[0].cause, found[0].beside_ns), (cause, Some(19_000.0)));
        let shares = evidence.shares(0, &gaps, &found);
        let sum: f64 = shares.by_cause.values().sum();
        assert!((sum - 1.0).abs() < 1e-12, "{shares:?}");
        // Time without a cause is not counted twice; the handler has its own time.
        let (beside, timer) = if cause == Timer { (19.0 / 22.0, 1.0) } else { (0.0, 3.0 / 22.0) };
        assert_eq!((shares.beside, shares.by_cause[&Timer]), (beside, timer));
    }
}

#[test]
fn the_time_inside_a_gap_is_split_by_its_events() {
    // A tick of 4 us, a soft interrupt of 5, 13 us that no event has.
    let softirq = [(14_000, enter(Softirq, "SCHED")), (19_000, leave(Softirq))];
    let evidence = traced(timeline(&[tick(10_000, 14_000), softirq].concat(), None));
    assert_causes(&evidence, &[(5_000, 22_000, "softirq SCHED")]);
    let gaps = gaps(&[(5_000, 22_000)]);
    let shares = evidence.shares(0, &gaps, &evidence.attribute(0, &gaps, &[true], Held::ALL));
    let expected = BTreeMap::from([(Timer, 4.0 / 22.0), (Softirq, 18.0 / 22.0)]);
    assert_eq!((shares.by_cause, shares.beside), (expected, 13.0 / 22.0));
}
