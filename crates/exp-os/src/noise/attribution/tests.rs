use metal::gaps::Gap;

use super::spans::{Span, Timeline};
use super::{
    Attributed, By, Cause, Evidence, Held, Level, OfCpu, OfThread, RowCount, Throttling,
    unattributed,
};
use host::kernel::Virtualisation;

const ME: u32 = 100;

/// A tick of the clock is one ns. Gaps are (start, length).
fn gaps(of: &[(u64, u64)]) -> Vec<Gap> {
    of.iter().map(|&(start, ns)| Gap { start, end: start + ns }).collect()
}

fn row(name: &str, count: u64) -> RowCount {
    RowCount { name: name.to_owned(), is_timer: name == "LOC", count }
}

fn counters(rows: &[(&str, u64)], involuntary: u64, run_delay_ns: Option<u64>) -> OfCpu {
    OfCpu {
        interrupts: Some(rows.iter().map(|(name, count)| row(name, *count)).collect()),
        softirqs: Some(Vec::new()),
        steal_ns: Some(0),
        threads: vec![OfThread { tid: ME, involuntary: Some(involuntary), run_delay_ns }],
        timeline: None,
    }
}

fn evidence(level: Level, of_cpu: OfCpu, throttling: Option<Throttling>) -> Evidence {
    Evidence { level, throttling, ..Evidence::counted(0, of_cpu) }
}

fn told(found: &[Attributed]) -> Vec<String> {
    let told = |one: &Attributed| format!("{} {}", one.cause.text(), one.who);
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
        ..counters(&[("LOC", 2), ("virtio1-req.0 (interrupt 36)", 1)], 2, Some(50_200_000))
    };
    let throttling = Some(Throttling { periods: 1, time_ns: 50_000_000 });
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
    let expected =
        [Timer, Timer, Unattributed, Unattributed, Unattributed, Unattributed, Interrupt];
    assert_eq!(causes(&found), expected);
    assert_eq!(found[6].who, "virtio1-req.0 (interrupt 36)");
    assert_eq!(found[2].by, By::Outside);
}

#[test]
fn no_counter_is_used_more_often_than_it_counted() {
    let gaps: Vec<Gap> = (0..200)
        .map(|n| Gap { start: n * 1_000_000, end: n * 1_000_000 + 2_000 + 13_577 * (n % 17) })
        .collect();
    let lengths: u64 = gaps.iter().map(|gap| gap.ticks()).sum();
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..300 {
        let rows = [("LOC", random.u64(..60)), ("RES", random.u64(..30)), ("CAL", random.u64(..9))];
        let involuntary = random.u64(..40);
        let delay = random.bool().then(|| random.u64(..lengths));
        let mut of_cpu = counters(&rows, involuntary, delay);
        of_cpu.steal_ns = Some(random.u64(..3) * 10_000_000);
        let steal_ns = of_cpu.steal_ns.unwrap_or(0);
        let throttling = Throttling { periods: random.u64(..20), time_ns: random.u64(..lengths) };
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
        let stolen = found.iter().zip(&gaps).filter(|(one, _)| one.cause == Cause::Steal);
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
    let elsewhere = evidence.attribute(7, &gaps, &[true, true], Held::ALL);
    for one in found.iter().chain(&elsewhere) {
        assert_eq!((one.cause, one.by), (Cause::Unattributed, By::Nothing));
    }
    assert_ne!(found[0].who, elsewhere[0].who);
    assert_eq!(evidence.attribute(0, &[], &[], Held::ALL), []);
}

#[test]
fn own_switches_are_known_by_time_and_the_rest_by_count() {
    let span = |start, end| Span { start, end, cause: Thread, who: "another thread".into() };
    let mut of_cpu = counters(&[("LOC", 1)], 9, Some(90_000_000));
    of_cpu.timeline = Some(Timeline {
        spans: vec![span(1_000_500, 1_030_000), span(5_000_500, 45_000_000)],
        holes: Vec::new(),
        lost: Some(0),
    });
    let gaps =
        gaps(&[(0, 5_000), (1_000_000, 31_000), (5_000_000, 40_001_000), (60_000_000, 900_000)]);
    let on_tick = [true, false, false, false];
    let throttling = Some(Throttling { periods: 1, time_ns: 40_000_000 });
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
    assert_eq!(by, [By::Count, By::Time, By::Count, By::Outside]);

    // Unless events may be missing there.
    let timeline = of_cpu.timeline.as_mut().expect("it has one");
    timeline.holes.push((50_000_000, 90_000_000));
    let found =
        evidence(Level::Switches, of_cpu, throttling).attribute(0, &gaps, &on_tick, Held::ALL);
    assert_eq!(causes(&found), [Timer, Thread, Throttled, Thread]);
}

/// 100 gaps are held of 1,000: what the kernel counted of all is not theirs alone.
#[test]
fn of_more_gaps_than_are_held_only_their_part_of_the_counts_is_theirs() {
    use Cause::{Thread, Timer};
    let of: Vec<(u64, u64)> = (0..100).map(|n| (n * 1_000_000, 5_000 + n)).collect();
    let gaps = gaps(&of);
    // One in ten is a tick's; the window is ten times as long.
    let on_tick: Vec<bool> = (0..100).map(|n| n % 10 == 0).collect();
    let of_cpu = OfCpu { steal_ns: Some(0), ..counters(&[("LOC", 100)], 850, None) };
    let evidence = evidence(Level::Counters, of_cpu, None);
    let count = |held| {
        let found = evidence.attribute(0, &gaps, &on_tick, held);
        let of = |cause| found.iter().filter(|one| one.cause == cause).count();
        (of(Timer), of(Thread))
    };
    assert_eq!(count(Held::ALL), (0, 100));
    let tenth = Held { gaps: 0.1, time: 0.1 };
    // Of the 85 longest gaps threads take some ticks too.
    let (timer, thread) = count(tenth);
    assert_eq!(thread, 85);
    assert!((1..=10).contains(&timer), "{timer}");
    // Ticks come with time, however many gaps there are.
    let early = Held { gaps: 0.1, time: 0.01 };
    assert_eq!(count(early), (1, 85));
}

#[test]
fn throttled_time_of_a_group_is_shared_by_the_cpus_that_trace() {
    let of_cpu = counters(&[], 0, None);
    let throttling = Throttling { periods: 2, time_ns: 100_000_000 };
    let mut evidence = evidence(Level::Counters, of_cpu.clone(), Some(throttling));
    let gaps = gaps(&[(0, 50_000_000), (100_000_000, 50_000_000)]);
    let count = |evidence: &Evidence| {
        let found = evidence.attribute(0, &gaps, &[false; 2], Held::ALL);
        let throttled = found.iter().filter(|one| one.cause == Cause::Throttled);
        throttled.count()
    };
    assert_eq!(count(&evidence), 2);
    evidence.cpus.insert(1, of_cpu);
    assert_eq!(count(&evidence), 1);
}

#[test]
fn what_cannot_be_told_is_unknown() {
    let tells = |evidence: &Evidence| -> Vec<&str> {
        let told = Cause::ALL.iter().copied();
        let told = told.filter(|cause| evidence.tells(0, *cause));
        told.map(Cause::text).collect()
    };
    let all: Vec<&str> = Cause::ALL.iter().map(|cause| cause.text()).collect();
    let seen = evidence(Level::Tracepoints, counters(&[], 0, None), None);
    assert_eq!(tells(&seen), all);
    let counted = evidence(Level::Counters, counters(&[], 0, None), None);
    let expected = ["timer", "interrupt", "thread", "throttled", "steal", "unattributed"];
    assert_eq!(tells(&counted), expected);
    let nothing = evidence(Level::Counters, OfCpu::default(), None);
    assert_eq!(tells(&nothing), ["throttled", "unattributed"]);
    let switches = evidence(Level::Switches, OfCpu::default(), None);
    assert_eq!(tells(&switches), ["thread", "throttled", "unattributed"]);
}

#[test]
fn lines_that_moved_are_listed() {
    let mut of_cpu = counters(&[("RES", 3), ("LOC", 25)], 0, None);
    of_cpu.softirqs = Some(vec![row("RCU", 4)]);
    let evidence = evidence(Level::Counters, of_cpu, None);
    let moved: Vec<(usize, &str, &str, u64)> =
        evidence.moved().iter().map(|one| (one.cpu, one.kind, one.row, one.count)).collect();
    let expected =
        [(0, "interrupt", "LOC", 25), (0, "interrupt", "RES", 3), (0, "softirq", "RCU", 4)];
    assert_eq!(moved, expected);
}

#[test]
fn what_nobody_claims_is_named_by_the_machine() {
    let guest = Virtualisation {
        is_guest: Some(true),
        hypervisor: Some("KVM".to_owned()),
        ..Virtualisation::default()
    };
    let bare = Virtualisation { is_guest: Some(false), ..Virtualisation::default() };
    assert!(unattributed(&guest).contains("KVM") && unattributed(&bare).contains("firmware"));
}

mod events;
mod live;
