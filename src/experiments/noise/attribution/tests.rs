use std::collections::{BTreeMap, BTreeSet};

use metal::gaps::{Gap, Tracer};

use super::spans::{Event, Kind, Span, Threads, Timeline, What, spans};
use super::{
    Attributed, By, Cause, Evidence, Held, Level, OfCpu, OfThread, RowCount, Throttling, Watch,
    ladder, unattributed,
};
use crate::host::kernel::Virtualisation;
use crate::measure::Clock;

const ME: u32 = 100;

/// A tick of the clock is one ns. Gaps are (start, length).
fn gaps(of: &[(u64, u64)]) -> Vec<Gap> {
    of.iter()
        .map(|&(start, ns)| Gap {
            start,
            end: start + ns,
        })
        .collect()
}

fn row(name: &str, count: u64) -> RowCount {
    RowCount {
        name: name.to_owned(),
        is_timer: name == "LOC",
        count,
    }
}

fn counters(rows: &[(&str, u64)], involuntary: u64, run_delay_ns: Option<u64>) -> OfCpu {
    OfCpu {
        interrupts: Some(rows.iter().map(|(name, count)| row(name, *count)).collect()),
        softirqs: Some(Vec::new()),
        steal_ns: Some(0),
        threads: vec![OfThread {
            tid: ME,
            involuntary: Some(involuntary),
            run_delay_ns,
        }],
        timeline: None,
    }
}

fn evidence(level: Level, of_cpu: OfCpu, throttling: Option<Throttling>) -> Evidence {
    Evidence {
        level,
        why_not_higher: None,
        tick_ns: 1.0,
        begin: 0,
        is_guest: None,
        cpus: BTreeMap::from([(0, of_cpu)]),
        throttling,
        plumb: Vec::new(),
    }
}

/// `cause who` of each.
fn told(found: &[Attributed]) -> Vec<String> {
    let told = |one: &Attributed| format!("{} {}", one.cause.name(), one.who);
    found.iter().map(told).collect()
}

fn causes(found: &[Attributed]) -> Vec<Cause> {
    found.iter().map(|one| one.cause).collect()
}

#[test]
fn counters_give_every_cause_that_they_count() {
    use Cause::{Interrupt, Steal, Thread, Throttled, Timer, Unattributed};
    let of_cpu = OfCpu {
        steal_ns: Some(10_000_000),
        ..counters(
            &[("LOC", 2), ("virtio1-req.0 (interrupt 36)", 1)],
            2,
            Some(50_200_000),
        )
    };
    let throttling = Some(Throttling {
        periods: 1,
        time_ns: 50_000_000,
    });
    let gaps = gaps(&[
        (0, 5_000),
        (4_000_000, 5_500),
        (5_000_000, 3_000),
        (8_000_000, 210_000),
        (10_000_000, 50_000_000),
        (70_000_000, 4_000_000),
        (80_000_000, 2_000),
    ]);
    let on_tick = [true, true, false, true, false, false, false];
    let found =
        evidence(Level::Counters, of_cpu, throttling).attribute(0, &gaps, &on_tick, Held::ALL);
    // The preemption began at a tick. The steal has room for the gaps of 4 ms and of 3 us too.
    let expected = [Timer, Timer, Steal, Thread, Throttled, Steal, Steal];
    assert_eq!(causes(&found), expected);
    assert!(found.iter().all(|one| one.by == By::Count));

    let of_cpu = counters(&[("LOC", 2), ("virtio1-req.0 (interrupt 36)", 1)], 0, None);
    let found = evidence(Level::Counters, of_cpu, None).attribute(0, &gaps, &on_tick, Held::ALL);
    let expected = [
        Timer,
        Timer,
        Unattributed,
        Unattributed,
        Unattributed,
        Unattributed,
        Interrupt,
    ];
    assert_eq!(causes(&found), expected);
    assert_eq!(found[6].who, "virtio1-req.0 (interrupt 36)");
    assert_eq!(found[2].by, By::Nothing);
}

#[test]
fn no_counter_is_used_more_often_than_it_counted() {
    let gaps: Vec<Gap> = (0..200)
        .map(|n| Gap {
            start: n * 1_000_000,
            end: n * 1_000_000 + 2_000 + 13_577 * (n % 17),
        })
        .collect();
    let lengths: u64 = gaps.iter().map(|gap| gap.ticks()).sum();
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..300 {
        let rows = [
            ("LOC", random.u64(..60)),
            ("RES", random.u64(..30)),
            ("CAL", random.u64(..9)),
        ];
        let involuntary = random.u64(..40);
        let delay = random.bool().then(|| random.u64(..lengths));
        let mut of_cpu = counters(&rows, involuntary, delay);
        of_cpu.steal_ns = Some(random.u64(..3) * 10_000_000);
        let steal_ns = of_cpu.steal_ns.unwrap_or(0);
        let throttling = Throttling {
            periods: random.u64(..20),
            time_ns: random.u64(..lengths),
        };
        let on_tick: Vec<bool> = gaps.iter().map(|_| random.bool()).collect();
        let found = evidence(Level::Counters, of_cpu, Some(throttling)).attribute(
            0,
            &gaps,
            &on_tick,
            Held::ALL,
        );
        let count = |which: &dyn Fn(&Attributed) -> bool| {
            found.iter().filter(|one| which(one)).count() as u64
        };
        for (name, counted) in rows {
            assert!(count(&|one| one.who == name) <= counted, "{name}");
        }
        let throttled = count(&|one| one.cause == Cause::Throttled);
        assert!(throttled <= throttling.periods);
        assert!(throttled + count(&|one| one.cause == Cause::Thread) <= involuntary.max(throttled));
        let stolen = found
            .iter()
            .zip(&gaps)
            .filter(|(one, _)| one.cause == Cause::Steal);
        assert!(stolen.map(|(_, gap)| gap.ticks()).sum::<u64>() <= steal_ns);
        assert!(count(&|one| one.by == By::Time) == 0);
    }
}

#[test]
fn run_delay_says_which_gaps_were_too_long_for_a_thread() {
    // One switch, and the thread waited 30 us: the gap of 4 ms is somebody else's.
    let gaps = gaps(&[(0, 4_000_000), (9_000_000, 40_000), (11_000_000, 1_000)]);
    let with = |delay| {
        let of_cpu = counters(&[], 1, delay);
        causes(&evidence(Level::Counters, of_cpu, None).attribute(0, &gaps, &[false; 3], Held::ALL))
    };
    use Cause::{Thread, Unattributed};
    assert_eq!(with(Some(30_000)), [Unattributed, Thread, Unattributed]);
    assert_eq!(with(None), [Thread, Unattributed, Unattributed]);
}

#[test]
fn without_permission_for_anything_nothing_is_said_but_why() {
    let evidence = evidence(Level::Counters, OfCpu::default(), None);
    let gaps = gaps(&[(0, 5_000), (4_000_000, 5_000)]);
    let found = evidence.attribute(0, &gaps, &[true, true], Held::ALL);
    let why = "unattributed counters not readable: interrupts, soft interrupts, steal, involuntary switches";
    assert_eq!(told(&found), [why, why]);
    let elsewhere = evidence.attribute(7, &gaps, &[true, true], Held::ALL);
    assert_eq!(told(&elsewhere)[0], "unattributed CPU 7 was not watched");
    assert_eq!(evidence.attribute(0, &[], &[], Held::ALL), []);
}

#[test]
fn own_switches_are_known_by_time_and_the_rest_by_count() {
    let span = |start, end| Span {
        start,
        end,
        cause: Thread,
        who: "another thread".into(),
    };
    let mut of_cpu = counters(&[("LOC", 1)], 9, Some(90_000_000));
    of_cpu.timeline = Some(Timeline {
        spans: vec![span(1_000_500, 1_030_000), span(5_000_500, 45_000_000)],
        holes: Vec::new(),
        lost: Some(0),
    });
    let gaps = gaps(&[
        (0, 5_000),
        (1_000_000, 31_000),
        (5_000_000, 40_001_000),
        (60_000_000, 900_000),
    ]);
    let on_tick = [true, false, false, false];
    let throttling = Some(Throttling {
        periods: 1,
        time_ns: 40_000_000,
    });
    let found = evidence(Level::Switches, of_cpu.clone(), throttling).attribute(
        0,
        &gaps,
        &on_tick,
        Held::ALL,
    );
    use Cause::{Thread, Throttled, Timer, Unattributed};
    // The counters have switches left, but none happened at the last gap.
    assert_eq!(causes(&found), [Timer, Thread, Throttled, Unattributed]);
    let by: Vec<By> = found.iter().map(|one| one.by).collect();
    assert_eq!(by, [By::Count, By::Time, By::Count, By::Nothing]);

    // Unless events may be missing there.
    let timeline = of_cpu.timeline.as_mut().expect("it has one");
    timeline.holes.push((50_000_000, 90_000_000));
    let found =
        evidence(Level::Switches, of_cpu, throttling).attribute(0, &gaps, &on_tick, Held::ALL);
    assert_eq!(causes(&found), [Timer, Thread, Throttled, Thread]);
}

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
    What::Switch {
        from,
        is_runnable,
        to,
        name: name.into(),
    }
}

/// The loop is thread 100, thread 7 is plumb's.
fn timeline(events: &[Event]) -> Timeline {
    let threads = Threads {
        traced: BTreeSet::from([ME]),
        plumb: BTreeMap::from([(7, "plumb session".into())]),
    };
    Timeline {
        spans: spans(events, &threads, 1_000_000_000),
        ..Timeline::default()
    }
}

fn by_events(timeline: Timeline, of: &[(u64, u64)]) -> Vec<String> {
    let of_cpu = OfCpu {
        timeline: Some(timeline),
        ..counters(&[("LOC", 100), ("RES", 100)], 100, None)
    };
    let evidence = evidence(Level::Tracepoints, of_cpu, None);
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
    let net: Vec<(&str, u64)> = timeline
        .spans
        .iter()
        .map(|span| (&*span.who, span.end - span.start))
        .collect();
    let expected = [
        ("local_timer", 2_000),
        ("local_timer", 1_000),
        ("RCU", 2_000),
        ("eth0 (interrupt 9)", 5_000),
        ("RCU", 2_000),
    ];
    assert_eq!(net, expected);
    let found = by_events(
        timeline,
        &[(9_000, 4_000), (99_000, 12_000), (500_000, 3_000)],
    );
    let expected = [
        "timer local_timer",
        "interrupt eth0 (interrupt 9)",
        "unattributed no event of the kernel touches it",
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
    ]);
    let found = by_events(
        timeline,
        &[
            (9_000, 50_002_000),
            (69_999_000, 20_002_000),
            (94_999_000, 1_002_000),
        ],
    );
    let quota = "throttled idle while the loop could run";
    assert_eq!(
        found,
        [quota, quota, "unattributed the loop's own thread slept"]
    );
}

#[test]
fn a_quota_is_named_though_another_thread_ran_meanwhile() {
    let stretch = |start, end| {
        [
            at(start, switch(ME, true, 55, "rustc")),
            at(end, switch(55, true, ME, "plumb")),
        ]
    };
    let all = [
        stretch(1_000_000, 5_000_000),
        stretch(10_000_000, 90_000_000),
    ]
    .concat();
    let of_cpu = OfCpu {
        timeline: Some(timeline(&all)),
        ..counters(&[], 2, None)
    };
    let gaps = gaps(&[(999_000, 4_002_000), (9_999_000, 80_002_000)]);
    let with = |throttling| {
        let evidence = evidence(Level::Tracepoints, of_cpu.clone(), throttling);
        told(&evidence.attribute(0, &gaps, &[false; 2], Held::ALL))
    };
    assert_eq!(with(None), ["thread rustc", "thread rustc"]);
    let throttling = Throttling {
        periods: 1,
        time_ns: 80_000_000,
    };
    let quota = "throttled quota of the control group";
    assert_eq!(with(Some(throttling)), ["thread rustc", quota]);
}

#[test]
fn what_is_long_beside_its_events_is_not_explained_by_them() {
    let events = |start| {
        [
            at(start, enter(Cause::Timer, "local_timer")),
            at(start + 3_000, leave(Cause::Timer)),
        ]
    };
    let all: Vec<Event> = [events(10_000), events(5_000_000)].concat();
    // 19 us beside it are the way in and out; 2 ms are not.
    let found = by_events(timeline(&all), &[(9_000, 22_000), (4_999_000, 2_003_000)]);
    let expected = ["timer local_timer", "unattributed most of it beside timer"];
    assert_eq!(found, expected);
}

#[test]
fn lost_events_and_lost_ends_do_no_harm() {
    use Cause::{Softirq, Timer};
    // No beginning, no end, a thread that was there before, and nothing after 50 us.
    let mut timeline = timeline(&[
        at(1_000, leave(Timer)),
        at(2_000, switch(55, false, ME, "plumb")),
        at(10_000, enter(Softirq, "RCU")),
        at(12_000, switch(ME, true, 56, "other")),
        at(20_000, switch(56, true, ME, "plumb")),
        at(40_000, enter(Timer, "local_timer")),
        at(42_000, leave(Timer)),
    ]);
    assert_eq!(timeline.spans[0].start, 1_000);
    timeline.holes.push((50_000, 1_000_000));
    let found = by_events(
        timeline,
        &[
            (900, 1_500),
            (11_000, 9_500),
            (30_000, 1_000),
            (60_000, 1_000),
        ],
    );
    let expected = [
        "thread another thread",
        "thread other",
        "unattributed no event of the kernel touches it",
        "unattributed events were lost: more than the ring holds",
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_nobody_claims_is_named_by_the_machine() {
    let guest = Virtualisation {
        is_guest: Some(true),
        hypervisor: Some("KVM".to_owned()),
        ..Virtualisation::default()
    };
    assert_eq!(
        unattributed(&guest),
        "unattributed (virtual machine: likely the hypervisor, KVM)"
    );
    let bare = Virtualisation {
        is_guest: Some(false),
        ..Virtualisation::default()
    };
    assert!(unattributed(&bare).contains("firmware"));
}

#[test]
fn no_one_is_on_the_ladder_twice_and_names_differ() {
    assert!(Level::ALL.is_sorted_by(|a, b| a < b));
    let names: BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
}

/// The counter's rate in ticks per ns against the kernel's clock, roughly.
fn clock() -> Clock {
    let tie = || {
        (
            metal::clock::ticks_start(),
            metal::clock::monotonic_raw_ns(),
        )
    };
    let (ticks, ns) = tie();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let (later, later_ns) = tie();
    Clock::Counter {
        tick_ns: (later_ns - ns) as f64 / (later - ticks) as f64,
    }
}

#[test]
fn every_level_is_reached_or_says_why_not() {
    let rungs = ladder();
    assert_eq!(rungs.len(), Level::ALL.len());
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    for rung in rungs {
        let watch = Watch::begin(rung.level, &[cpu], clock());
        let evidence = watch.end();
        println!(
            "{:?}: {:?}; {}",
            rung.level,
            rung.why_not,
            evidence.reached()
        );
        if rung.why_not.is_none() {
            assert_eq!(evidence.level, rung.level);
        } else if rung.level > Level::Counters {
            assert!(evidence.level < rung.level);
            assert!(evidence.why_not_higher.is_some());
        }
        assert_eq!(evidence.cpus.len(), 1);
    }
}

/// What the kernel says is what the loop sees: every interrupt of the timer while the loop had the CPU
/// lies in a gap, and the gap is not nobody's for want of an event.
#[test]
fn every_tick_that_the_kernel_saw_lies_in_a_gap() {
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    let clock = clock();
    let mut tracer = Tracer::with_room(50_000).expect("memory is there");
    let watch = Watch::begin(Level::Tracepoints, &[cpu], clock);
    tracer.begin();
    tracer.until(clock.ticks(1_000.0), tracer.first() + clock.ticks(60e6));
    let evidence = watch.end();
    if evidence.level != Level::Tracepoints {
        return println!("skipped: {}", evidence.reached());
    }
    let gaps = tracer.gaps();
    let found = evidence.attribute(cpu, gaps, &vec![false; gaps.len()], Held::ALL);
    let timeline = evidence.cpus[&cpu]
        .timeline
        .as_ref()
        .expect("it was traced");
    let edge = clock.ticks(super::spans::EDGE_NS);
    let is_inside =
        |span: &Span| span.start > tracer.first() + edge && span.end + edge < tracer.last();
    let ticks = timeline
        .spans
        .iter()
        .filter(|span| span.cause == Cause::Timer);
    let ticks: Vec<_> = ticks.filter(|span| is_inside(span)).collect();
    println!(
        "{} ticks, {} gaps; {}",
        ticks.len(),
        gaps.len(),
        evidence.reached()
    );
    for tick in ticks {
        let around = |gap: &Gap| gap.start <= tick.start + edge && gap.end + edge >= tick.end;
        let Some(at) = gaps.iter().position(around) else {
            panic!("no gap around {tick:?}");
        };
        let distance_ns = clock.between_ns(gaps[at].start, tick.start);
        println!("{distance_ns:.0} ns before {tick:?}: {:?}", found[at]);
        assert!(found[at].beside_ns.is_some(), "{:?}", found[at]);
    }
}

#[test]
fn a_sleep_of_the_loop_is_found_at_its_time() {
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    let clock = clock();
    for level in [Level::Switches, Level::Tracepoints] {
        let mut tracer = Tracer::with_room(10_000).expect("memory is there");
        let watch = Watch::begin(level, &[cpu], clock);
        tracer.begin();
        tracer.run(clock.ticks(2_000.0), 1_000);
        std::thread::sleep(std::time::Duration::from_millis(3));
        tracer.run(clock.ticks(2_000.0), 1_000);
        let evidence = watch.end();
        if evidence.level != level {
            println!("skipped {}: {}", level.name(), evidence.reached());
            continue;
        }
        let gaps = tracer.gaps();
        let longest = (0..gaps.len())
            .max_by_key(|gap| gaps[*gap].ticks())
            .expect("it slept");
        let found = evidence.attribute(cpu, gaps, &vec![false; gaps.len()], Held::ALL);
        println!("{}: {:?}", evidence.reached(), found[longest]);
        let is_told = match level {
            Level::Switches => found[longest].by == By::Time,
            // Idle, or another thread that ran meanwhile: either is known by an event.
            _ => !found[longest].who.starts_with("no event"),
        };
        assert!(is_told, "{found:?}");
    }
}
