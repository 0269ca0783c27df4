//! What the kernel's events say of gaps, by hand.

use std::collections::{BTreeMap, BTreeSet};

use metal::gaps::Gap;

use super::super::spans::{Event, Kind, Threads, Timeline, What};
use super::super::{Cause, Evidence, Held, Level, OfCpu, Throttling};
use super::{ME, causes, counters, evidence, gaps, told};
use host::kernel::Virtualisation;

fn at(at: u64, what: What) -> Event {
    Event { at, what }
}

fn enter(cause: Cause, who: &str) -> What {
    What::Enter(kind(cause), cause, who.into())
}

fn kind(cause: Cause) -> Kind {
    match cause {
        Cause::Softirq => Kind::Softirq,
        Cause::Timer => Kind::Vector,
        _ => Kind::Handler,
    }
}

fn leave(cause: Cause) -> What {
    What::Leave(kind(cause))
}

fn switch(from: u32, is_runnable: bool, to: u32, name: &str) -> What {
    What::Switch { from, is_runnable, to, name: name.into() }
}

const END: u64 = 1_000_000_000;

/// The loop is thread 100, thread 7 is plumb's.
fn timeline(events: &[Event]) -> Timeline {
    timeline_until(events, None)
}

fn timeline_until(events: &[Event], full: Option<u64>) -> Timeline {
    let threads = Threads {
        traced: BTreeSet::from([ME]),
        plumb: BTreeMap::from([(7, "plumb session".into())]),
    };
    let holes = full.map(|from| (from, END)).into_iter().collect();
    Timeline::of(events, &threads, END, holes, Some(0))
}

fn traced(timeline: Timeline) -> Evidence {
    let of_cpu =
        OfCpu { timeline: Some(timeline), ..counters(&[("LOC", 100), ("RES", 100)], 100, None) };
    evidence(Level::Tracepoints, of_cpu, None)
}

fn by_events(timeline: Timeline, of: &[(u64, u64)]) -> Vec<String> {
    let evidence = traced(timeline);
    told(&evidence.attribute(0, &gaps(of), &vec![true; of.len()], Held::ALL))
}

#[test]
fn nested_events_are_taken_out_of_what_they_interrupt() {
    use Cause::{Interrupt, Softirq, Timer};
    let timeline = timeline(&[
        at(10_000, enter(Timer, "local_timer")),
        at(12_000, leave(Timer)),
        // A soft interrupt of 9 us, of which a device takes 5.
        at(100_000, enter(Timer, "local_timer")),
        at(101_000, leave(Timer)),
        at(101_100, enter(Softirq, "RCU")),
        at(103_100, enter(Interrupt, "eth0 (interrupt 9)")),
        at(108_100, leave(Interrupt)),
        at(110_100, leave(Softirq)),
    ]);
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
    let found = by_events(timeline, &[(9_000, 4_000), (99_000, 12_000), (500_000, 3_000)]);
    let expected = [
        "timer local_timer",
        "interrupt eth0 (interrupt 9)",
        "unattributed no kernel event overlaps it",
    ];
    assert_eq!(found, expected);
}

#[test]
fn another_threads_stretch_beats_the_interrupts_inside_it() {
    use Cause::{Interrupt, Timer};
    let timeline = timeline(&[
        at(10_000, enter(Timer, "local_timer")),
        at(13_000, leave(Timer)),
        at(14_000, switch(ME, true, 55, "kworker/0:1")),
        at(15_000, enter(Interrupt, "eth0 (interrupt 9)")),
        at(24_000, leave(Interrupt)),
        at(25_000, switch(55, false, 7, "plumb")),
        at(26_000, switch(7, false, ME, "plumb")),
        at(90_000, switch(ME, true, 7, "plumb")),
        at(95_000, switch(7, false, ME, "plumb")),
    ]);
    let found = by_events(timeline, &[(9_000, 18_000), (89_000, 7_000)]);
    assert_eq!(found, ["thread kworker/0:1", "plumb plumb session"]);
}

#[test]
fn an_idle_cpu_while_the_loop_could_run_is_a_quota() {
    let timeline = timeline(&[
        at(10_000, switch(ME, true, 0, "swapper/0")),
        at(50_010_000, switch(0, true, ME, "plumb")),
        at(70_000_000, switch(ME, true, 55, "kworker/0:1")),
        at(70_005_000, switch(55, false, 0, "swapper/0")),
        at(90_000_000, switch(0, true, ME, "plumb")),
        at(95_000_000, switch(ME, false, 0, "swapper/0")),
        at(96_000_000, switch(0, true, ME, "plumb")),
        // It sleeps, and idling follows another thread.
        at(97_000_000, switch(ME, false, 55, "kworker/0:1")),
        at(97_005_000, switch(55, false, 0, "swapper/0")),
        at(98_000_000, switch(0, true, ME, "plumb")),
    ]);
    let found = by_events(
        timeline,
        &[
            (9_000, 50_002_000),
            (69_999_000, 20_002_000),
            (94_999_000, 1_002_000),
            (96_999_000, 1_002_000),
        ],
    );
    let quota = "throttled idle while the loop could run";
    let slept = "unattributed the loop's own thread slept";
    assert_eq!(found, [quota, quota, slept, slept]);
}

#[test]
fn a_quota_is_named_though_another_thread_ran_meanwhile() {
    let stretch = |start, end| {
        [at(start, switch(ME, true, 55, "rustc")), at(end, switch(55, true, ME, "plumb"))]
    };
    let all = [stretch(1_000_000, 5_000_000), stretch(10_000_000, 90_000_000)].concat();
    let of_cpu = OfCpu { timeline: Some(timeline(&all)), ..counters(&[], 2, None) };
    let gaps = gaps(&[(999_000, 4_002_000), (9_999_000, 80_002_000)]);
    let with = |throttling| {
        let evidence = evidence(Level::Tracepoints, of_cpu.clone(), throttling);
        told(&evidence.attribute(0, &gaps, &[false; 2], Held::ALL))
    };
    assert_eq!(with(None), ["thread rustc", "thread rustc"]);
    let throttling = Throttling { periods: 1, time_ns: 80_000_000 };
    let quota = "throttled quota of the control group";
    assert_eq!(with(Some(throttling)), ["thread rustc", quota]);
}

#[test]
fn what_is_long_beside_its_events_is_not_explained_by_them() {
    let events = |start| {
        [at(start, enter(Cause::Timer, "local_timer")), at(start + 3_000, leave(Cause::Timer))]
    };
    let all: Vec<Event> = [events(10_000), events(5_000_000)].concat();
    // 19 us beside it are the way in and out; 2 ms are not.
    let found = by_events(timeline(&all), &[(9_000, 22_000), (4_999_000, 2_003_000)]);
    let expected = ["timer local_timer", "unattributed most of the gap outside timer"];
    assert_eq!(found, expected);
}

#[test]
fn lost_events_and_lost_ends_do_no_harm() {
    use Cause::{Softirq, Timer};
    // No beginning, no end, a thread that was there before, and a ring that is full from 50 us on.
    let events = [
        at(1_000, leave(Timer)),
        at(2_000, switch(55, false, ME, "plumb")),
        at(10_000, enter(Softirq, "RCU")),
        at(12_000, switch(ME, true, 56, "other")),
        at(20_000, switch(56, true, ME, "plumb")),
        at(40_000, enter(Timer, "local_timer")),
        at(42_000, leave(Timer)),
    ];
    let timeline = timeline_until(&events, Some(50_000));
    assert_eq!(timeline.spans[0].start, 1_000);
    let found =
        by_events(timeline, &[(900, 1_500), (11_000, 9_500), (30_000, 1_000), (60_000, 1_000)]);
    let expected =
        ["thread another thread", "thread other", "unattributed no kernel event overlaps it", LOST];
    assert_eq!(found, expected);
}

const LOST: &str = "unattributed events were lost from 0.00 s on: more than the ring holds";

/// Whoever was seen last has not the rest of the window; pairs after a hole are torn.
#[test]
fn what_is_open_when_the_ring_is_full_does_not_stay_open() {
    use Cause::Timer;
    let torn = [at(60_000, leave(Timer)), at(70_000, enter(Timer, "local_timer"))];
    let last = [at(49_000, enter(Timer, "local_timer")), at(49_000, switch(ME, true, 56, "other"))];
    for last in last {
        let events = [at(10_000, enter(Timer, "local_timer")), at(12_000, leave(Timer)), last];
        let events = [&events[..], &torn].concat();
        let timeline = timeline_until(&events, Some(50_000));
        assert!(timeline.spans.iter().all(|span| span.end <= 50_000));
        let of = [(9_000, 4_000), (48_500, 9_000), (65_000, 2_000), (300_000, 7_000)];
        let evidence = traced(timeline);
        let gaps = gaps(&of);
        let found = evidence.attribute(0, &gaps, &[true; 4], Held::ALL);
        assert_eq!(told(&found), ["timer local_timer", LOST, LOST, LOST]);
        // The gap before stands for all.
        assert_eq!(evidence.whole_until(0), Some(50_000));
        let shares = evidence.shares(0, &gaps, &found);
        assert_eq!(shares.by_cause, BTreeMap::from([(Timer, 1.0)]));
        assert_eq!((shares.gaps, shares.beside), (1, 0.5));
        assert!(evidence.reached().contains("from 0.00 s on"));
        // There is none: then nobody has them, and no hypervisor is named for it.
        let shares = evidence.shares(0, &gaps[1..], &found[1..]);
        assert_eq!(shares.by_cause, BTreeMap::from([(Cause::Unattributed, 1.0)]));
        assert_eq!(shares.outside, 0.0);
        let guest = Virtualisation { is_guest: Some(true), ..Virtualisation::default() };
        assert!(!shares.nobody(&guest).contains("hypervisor"));
        // A gap that no event touches is another matter.
        let untouched = [Gap { start: 30_000, end: 34_000 }];
        let found = evidence.attribute(0, &untouched, &[true], Held::ALL);
        let shares = evidence.shares(0, &untouched, &found);
        assert_eq!(shares.outside, 1.0);
        assert!(shares.nobody(&guest).contains("hypervisor"));
    }
}

#[test]
fn how_much_may_lie_beside_an_interrupt_is_a_matter_of_the_machine() {
    let timeline = timeline(&[
        at(10_000, enter(Cause::Timer, "local_timer")),
        at(13_000, leave(Cause::Timer)),
    ]);
    let mut evidence = traced(timeline);
    // 19 us beside a handler of 3: a hypervisor's in a guest, and firmware's on bare metal.
    let gaps = gaps(&[(9_000, 22_000)]);
    for (is_guest, cause) in
        [(Some(true), Cause::Timer), (None, Cause::Timer), (Some(false), Cause::Unattributed)]
    {
        evidence.is_guest = is_guest;
        let found = evidence.attribute(0, &gaps, &[true], Held::ALL);
        assert_eq!(causes(&found), [cause]);
        assert_eq!(found[0].beside_ns, Some(19_000.0));
        let shares = evidence.shares(0, &gaps, &found);
        let sum: f64 = shares.by_cause.values().sum();
        assert!((sum - 1.0).abs() < 1e-12, "{shares:?}");
        match cause {
            Cause::Timer => assert_eq!(shares.beside, 19.0 / 22.0),
            // What nobody has is not counted twice; the handler has its own time.
            _ => {
                assert_eq!(shares.beside, 0.0);
                assert_eq!(shares.by_cause[&Cause::Timer], 3.0 / 22.0);
            }
        }
    }
}

#[test]
fn the_time_inside_a_gap_is_split_by_its_events() {
    use Cause::{Softirq, Timer};
    // A tick of 4 us, a soft interrupt of 5, 13 us that no event has.
    let timeline = timeline(&[
        at(10_000, enter(Timer, "local_timer")),
        at(14_000, leave(Timer)),
        at(14_000, enter(Softirq, "SCHED")),
        at(19_000, leave(Softirq)),
    ]);
    let evidence = traced(timeline);
    let gaps = gaps(&[(5_000, 22_000)]);
    let found = evidence.attribute(0, &gaps, &[true], Held::ALL);
    assert_eq!(told(&found), ["softirq SCHED"]);
    let shares = evidence.shares(0, &gaps, &found);
    let expected = BTreeMap::from([(Timer, 4.0 / 22.0), (Softirq, 18.0 / 22.0)]);
    assert_eq!(shares.by_cause, expected);
    assert_eq!(shares.beside, 13.0 / 22.0);
}
