use metal::gaps::Gap;

use super::spans::{Span, Timeline};
use super::{
    Attributed, By, Cause, Evidence, Held, Level, OfCpu, RowCount, Throttling, unattributed,
};
use host::kernel::Virtualisation;

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
        involuntary: Some(involuntary),
        run_delay_ns,
        timeline: None,
    }
}

fn evidence(level: Level, of_cpu: OfCpu, throttling: Option<Throttling>) -> Evidence {
    Evidence { level, throttling, ..Evidence::counted(0, of_cpu) }
}

fn counted(of_cpu: OfCpu, throttling: Option<Throttling>) -> Evidence {
    evidence(Level::Counters, of_cpu, throttling)
}

/// The cause of each gap, if only the first `ticks` are on the grid.
fn causes(evidence: &Evidence, of: &[(u64, u64)], ticks: usize) -> Vec<(Cause, By)> {
    let on_tick: Vec<bool> = (0..of.len()).map(|gap| gap < ticks).collect();
    let found = evidence.attribute(0, &gaps(of), &on_tick, Held::ALL);
    found.into_iter().map(|one| (one.cause, one.by)).collect()
}

#[test]
fn counters_give_every_cause_that_they_count() {
    use Cause::{Interrupt, Steal, Thread, Throttled, Timer, Unattributed};
    // The preemption began at a tick.
    let gaps = [
        (0, 5_000),
        (4_000_000, 5_500),
        (8_000_000, 210_000),
        (5_000_000, 3_000),
        (10_000_000, 50_000_000),
        (70_000_000, 4_000_000),
        (80_000_000, 2_000),
    ];
    let with = |involuntary, delay| {
        counters(&[("LOC", 2), ("virtio1-req.0 (interrupt 36)", 1)], involuntary, delay)
    };
    let of_cpu = OfCpu { steal_ns: Some(10_000_000), ..with(2, Some(50_200_000)) };
    let throttling = Some(Throttling { periods: 1, time_ns: 50_000_000 });
    // The steal has room for the gaps of 4 ms and of 3 us too.
    let expected = [Timer, Timer, Thread, Steal, Throttled, Steal, Steal];
    let found = causes(&counted(of_cpu, throttling), &gaps, 3);
    assert_eq!(found, expected.map(|cause| (cause, By::Count)));

    let (count, outside) = (|cause| (cause, By::Count), (Unattributed, By::Outside));
    let [timer, interrupt] = [count(Timer), count(Interrupt)];
    let found = causes(&counted(with(0, None), None), &gaps, 3);
    assert_eq!(found, [timer, timer, outside, outside, outside, outside, interrupt]);
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
        let steal_ns = random.u64(..3) * 10_000_000;
        let of_cpu = OfCpu { steal_ns: Some(steal_ns), ..counters(&rows, involuntary, delay) };
        let throttling = Throttling { periods: random.u64(..20), time_ns: random.u64(..lengths) };
        let on_tick: Vec<bool> = gaps.iter().map(|_| random.bool()).collect();
        let evidence = counted(of_cpu, Some(throttling));
        let found = evidence.attribute(0, &gaps, &on_tick, Held::ALL);
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
    let gaps = [(0, 4_000_000), (9_000_000, 40_000), (11_000_000, 1_000)];
    let (thread, nobody) = ((Cause::Thread, By::Count), (Cause::Unattributed, By::Outside));
    for (delay, expected) in
        [(Some(30_000), [nobody, thread, nobody]), (None, [thread, nobody, nobody])]
    {
        assert_eq!(causes(&counted(counters(&[], 1, delay), None), &gaps, 0), expected);
    }
}

#[test]
fn without_permission_for_anything_nothing_is_said_but_why() {
    let evidence = counted(OfCpu::default(), None);
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
    use Cause::{Thread, Throttled, Timer, Unattributed};
    let span = |start, end| Span { start, end, cause: Thread, who: "another thread".into() };
    let spans = vec![span(1_000_500, 1_030_000), span(5_000_500, 45_000_000)];
    let gaps = [(0, 5_000), (1_000_000, 31_000), (5_000_000, 40_001_000), (60_000_000, 900_000)];
    let throttling = Some(Throttling { periods: 1, time_ns: 40_000_000 });
    // The counters have switches left, but none happened at the last gap, unless events may be
    // missing there.
    for (whole_until, last) in
        [(None, (Unattributed, By::Outside)), (Some(50_000_000), (Thread, By::Count))]
    {
        let timeline = Timeline { spans: spans.clone(), whole_until, lost: Some(0) };
        let of_cpu = counters(&[("LOC", 1)], 9, Some(90_000_000));
        let of_cpu = OfCpu { timeline: Some(timeline), ..of_cpu };
        let found = causes(&evidence(Level::Switches, of_cpu, throttling), &gaps, 1);
        let expected = [(Timer, By::Count), (Thread, By::Time), (Throttled, By::Count), last];
        assert_eq!(found, expected);
    }
}

/// 100 gaps are held of 1,000: what the kernel counted of all is not theirs alone.
#[test]
fn of_more_gaps_than_are_held_only_their_part_of_the_counts_is_theirs() {
    let of: Vec<(u64, u64)> = (0..100).map(|n| (n * 1_000_000, 5_000 + n)).collect();
    // One in ten is a tick's; the window is ten times as long.
    let on_tick: Vec<bool> = (0..100).map(|n| n % 10 == 0).collect();
    let evidence = counted(counters(&[("LOC", 100)], 850, None), None);
    let count = |gaps_part, time| {
        let found = evidence.attribute(0, &gaps(&of), &on_tick, Held { gaps: gaps_part, time });
        let of = |cause| found.iter().filter(|one| one.cause == cause).count();
        (of(Cause::Timer), of(Cause::Thread))
    };
    assert_eq!(count(1.0, 1.0), (0, 100));
    // Of the 85 longest gaps threads take some ticks too.
    let (timer, thread) = count(0.1, 0.1);
    assert_eq!(thread, 85);
    assert!((1..=10).contains(&timer), "{timer}");
    // Ticks come with time, however many gaps there are.
    assert_eq!(count(0.1, 0.01), (1, 85));
}

#[test]
fn throttled_time_of_a_group_is_shared_by_the_cpus_that_trace() {
    let of_cpu = counters(&[], 0, None);
    let throttling = Throttling { periods: 2, time_ns: 100_000_000 };
    let mut evidence = counted(of_cpu.clone(), Some(throttling));
    let count = |evidence: &Evidence| {
        let found = causes(evidence, &[(0, 50_000_000), (100_000_000, 50_000_000)], 0);
        found.iter().filter(|(cause, _)| *cause == Cause::Throttled).count()
    };
    assert_eq!(count(&evidence), 2);
    evidence.cpus.insert(1, of_cpu);
    assert_eq!(count(&evidence), 1);
}

#[test]
fn what_cannot_be_told_is_unknown() {
    use Cause::{Interrupt, Steal, Thread, Throttled, Timer, Unattributed};
    let all = || counters(&[], 0, None);
    for (level, of_cpu, expected) in [
        (Level::Tracepoints, all(), Cause::ALL),
        (Level::Counters, all(), &[Timer, Interrupt, Thread, Throttled, Steal, Unattributed]),
        (Level::Counters, OfCpu::default(), &[Throttled, Unattributed]),
        (Level::Switches, OfCpu::default(), &[Thread, Throttled, Unattributed]),
    ] {
        let evidence = evidence(level, of_cpu, None);
        let told: Vec<Cause> =
            Cause::ALL.iter().copied().filter(|cause| evidence.tells(0, *cause)).collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn lines_that_moved_are_listed() {
    let softirqs = Some(vec![row("RCU", 4)]);
    let of_cpu = OfCpu { softirqs, ..counters(&[("RES", 3), ("LOC", 25)], 0, None) };
    let expected = [
        (0, "interrupt", &row("LOC", 25)),
        (0, "interrupt", &row("RES", 3)),
        (0, "softirq", &row("RCU", 4)),
    ];
    assert_eq!(counted(of_cpu, None).moved(), expected);
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
