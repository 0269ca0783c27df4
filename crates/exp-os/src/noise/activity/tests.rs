use super::round::{machine_of, steady};
use super::seen::{Look, Seen};
use super::{EXPERIMENT, Settings, Where, cpu_of, shares, ticking};
use crate::noise::attribution::{By, Evidence, Level, OfCpu, RowCount};
use crate::noise::trace::Traced;
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::recorded;
use bench::prelude::*;
use laws::noise::Cause;
use metal::gaps::Gap;
use session::fixtures::{offered, skipped, smoke};
use std::sync::Arc;

#[test]
fn a_cpu_by_number_must_be_there() {
    let site = recorded("vm-granite-rapids");
    let last = *site.cpus.last().unwrap();
    let asked = format!("quietest,{last},4000");
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &[("cpu", &asked)]);
    assert_eq!(offer.series[0].cases.len(), 2);
    assert_eq!(skipped(&offer), ["cpu=4000"]);
    assert_eq!(cpu_of(&site, Where::Number(last as u64)), Ok(last));
    let only = offered(&EXPERIMENT, &site, Preset::Quick, &[("cpu", "4000")]);
    assert!(only.series.is_empty());
}

#[test]
fn settings_are_what_was_asked_for() {
    let site = recorded("vm-granite-rapids");
    let set = [("attribution", "switches"), ("duration", "2s"), ("samples", "7")];
    let of =
        |preset, set: &[(&str, &str)]| offered(&EXPERIMENT, &site, preset, set).series.remove(0);
    let chosen = of(Preset::Quick, &set);
    let settings = Settings::from_series(&chosen, false);
    assert_eq!(settings.at_most, Level::Switches);
    assert_eq!((settings.duration_ns, settings.samples), (2e9, 7));
    let tiny = Settings::from_series(&chosen, true);
    assert!(tiny.duration_ns < 1e8);
    for (preset, level) in
        [(Preset::Quick, Level::Counters), (Preset::Standard, Level::Tracepoints)]
    {
        assert_eq!(Settings::from_series(&of(preset, &[]), false).at_most, level);
    }
}

/// A round costs what its level costs, not only its windows.
#[test]
fn the_cost_of_a_round_is_that_of_its_level() {
    let site = recorded("vm-granite-rapids");
    let cost = |preset: Preset, set: &[(&str, &str)]| {
        let offer = offered(&EXPERIMENT, &site, preset, set);
        EXPERIMENT.round_cost(&site, &offer.series[0]).as_secs_f64()
    };
    let [counters, switches, tracepoints] = ["counters", "switches", "tracepoints"]
        .map(|level| cost(Preset::Quick, &[("attribution", level), ("duration", "60ms")]));
    assert!(switches > counters + 0.06 && tracepoints > switches + 0.1);
}

#[test]
fn the_machine_is_told_by_what_the_case_resolved_to() {
    for (machine, is_guest, hypervisor) in [
        (Some("KVM"), Some(true), Some("KVM")),
        (Some("virtual"), Some(true), None),
        (Some("bare"), Some(false), None),
        (None, None, None),
    ] {
        let mut case = Case::new(CaseId::new().with("cpu", "quietest"));
        case.at.extend(machine.map(|machine| ("machine".to_owned(), machine.into())));
        let machine = machine_of(&case);
        assert_eq!((machine.is_guest, machine.hypervisor.as_deref()), (is_guest, hypervisor));
    }
}

#[test]
fn the_core_clock_of_another_cpu_must_stand_still() {
    assert_eq!(steady(Some(3.0e9), Some(3.02e9)), Some(3.01e9));
    assert_eq!(steady(Some(3.0e9), Some(3.1e9)), None);
    assert_eq!(steady(None, Some(3.1e9)), None);
}

/// A window of 200 ms with a tick every 4 ms for 2 µs, and another every 7 ms for 200 µs, of which
/// the scheduler counted each. A clock tick is a ns.
pub(super) fn seen() -> Seen {
    seen_every(4_000_000, 50)
}

/// The same with another tick on a kernel of 4 ms, and so many interrupts of the timer.
fn seen_every(tick_ns: u64, timer_interrupts: u64) -> Seen {
    let mut gaps: Vec<Gap> = Vec::new();
    let gap = |start: u64, ns: u64| Gap { start, end: start + ns };
    gaps.extend((0..(200_000_000 / tick_ns)).map(|at| gap(1_000_000 + at * tick_ns, 2_000)));
    gaps.extend((0..28).map(|at| gap(2_345_678 + at * 7_000_000, 200_000)));
    gaps.sort_by_key(|gap| gap.start);
    let mut traced = Traced {
        segments: vec![(0, 100_000_000), (100_000_001, 200_000_000)],
        count: gaps.len() as u64,
        lost_ticks: gaps.iter().map(|gap| gap.ticks()).sum(),
        traced_ticks: 200_000_000,
        longest_ticks: 200_000,
        gaps,
        ..Traced::default()
    };
    traced.gaps.iter().for_each(|gap| traced.lengths.record(gap.ticks() as f64));
    let of_cpu = OfCpu {
        interrupts: Some(vec![RowCount {
            name: "Local timer interrupts".to_owned(),
            is_timer: true,
            count: timer_interrupts,
        }]),
        softirqs: Some(Vec::new()),
        steal_ns: Some(0),
        involuntary: Some(28),
        run_delay_ns: Some(28 * 200_000),
        ..OfCpu::default()
    };
    let evidence = Evidence { counted_ns: 2e8, ..Evidence::counted(0, of_cpu) };
    let look =
        Look { clock: Clock::Counter { tick_ns: 1.0 }, cpu: 0, duration_ns: 2e8, coarse_ns: 4e6 };
    Seen::new(traced, evidence.into(), look).with_other()
}

#[test]
fn a_window_is_told_apart_into_tick_and_others() {
    let seen = seen();
    let tick = seen.tick.as_ref().expect("a tick");
    assert!((tick.period_ns - 4e6).abs() < 100.0, "{tick:?}");
    assert_eq!(seen.tick_gap_ns(), Some(2_000.0));
    let other = seen.other.as_ref().expect("another");
    assert!((other.period_ns - 7e6).abs() < 1e4, "{other:?}");
    assert_eq!(other.length_ns, 200_000.0);
    assert!(other.members.iter().all(|gap| seen.lengths_ns[*gap] == 200_000.0));
    let who = shares::commonest(&other.members, &seen);
    assert!(who.is_some_and(|who| who.ends_with("(by count)")));
}

#[test]
fn shares_by_cause_add_up_to_what_was_lost() {
    let seen = seen();
    assert!((seen.traced.lost() - (50.0 * 2e3 + 28.0 * 2e5) / 2e8).abs() < 1e-12);
    assert_eq!(seen.shares.beside, 0.0, "no event says what lies beside it");
    let sum: f64 = Cause::ALL.iter().map(|cause| seen.lost_to(*cause)).sum();
    assert!((sum - seen.traced.lost()).abs() < 1e-9, "{:?}", seen.shares);
    let rows = shares::rows(&seen);
    assert_eq!(rows.iter().map(|row| row.count).sum::<usize>(), 78);
    let timer = rows.iter().find(|row| row.cause == "timer").unwrap();
    assert_eq!((timer.count, timer.median_ns), (50, 2_000.0));
}

/// Interrupts are counted longer than the window lasts: on a busy host three times.
#[test]
fn timer_interrupts_are_those_of_the_time_in_which_they_were_counted() {
    let mut seen = seen();
    for (counted_ns, told_hz) in [(2e8, 250.0), (6e8, 50.0 / 0.6)] {
        Arc::get_mut(&mut seen.evidence).expect("one owner").counted_ns = counted_ns;
        let quantities = BTreeMap::from_iter(ticking::quantities(&seen));
        let hz = quantities["timer_interrupts_hz"].unwrap();
        assert!((hz - told_hz).abs() < 1e-6, "{quantities:?}");
    }
}

/// What keeps a usual period that is not the kernel's own is no tick: it gives no gap to the timer.
/// A hypervisor's tick may have the kernel's period: without as many interrupts a CPU has none.
#[test]
fn the_tick_of_another_is_not_this_kernels() {
    for (tick_ns, timer_interrupts, within_ns) in [(10_000_000, 50, 1e3), (4_000_000, 2, 100.0)] {
        let seen = seen_every(tick_ns, timer_interrupts);
        assert_eq!(seen.tick, None);
        assert!(seen.on_tick.iter().all(|on_tick| !on_tick));
        let foreign = seen.foreign.as_ref().expect("another's tick");
        assert!((foreign.period_ns - tick_ns as f64).abs() < within_ns, "{foreign:?}");
    }
    assert!(seen_every(4_000_000, 50).foreign.is_none());
}

/// What is matched by number says so wherever it is named.
#[test]
fn causes_by_number_are_marked() {
    let seen = seen();
    for attributed in &seen.attributed {
        let by_number = attributed.by == By::Count;
        assert!(by_number, "{attributed:?}");
        assert!(shares::name(attributed).ends_with("(by count)"));
        assert!(shares::state(attributed).ends_with("(by count)"));
    }
    let mut by_time = seen.attributed[0].clone();
    by_time.by = By::Time;
    assert_eq!(shares::state(&by_time), "timer");
    assert!(!shares::name(&by_time).contains("count"));
}

/// Whatever the threshold: 28 gaps of 200 us and, from 2 us on, 50 more in 200 ms.
#[test]
fn gaps_are_counted_from_a_length_on() {
    let seen = seen();
    let near = |found: f64, right: f64| assert!((found - right).abs() < 1e-6, "{found}");
    near(seen.traced.rate_hz(seen.look.clock), 78.0 / 0.2);
    near(seen.rate_of_hz(1_000.0), 78.0 / 0.2);
    near(seen.rate_of_hz(3_000.0), 28.0 / 0.2);
    near(seen.rate_of_hz(1e6), 0.0);
}

/// The reasons that explain most come first, whatever their letters.
#[test]
fn reasons_are_told_by_how_many_gaps_they_have() {
    let mut seen = seen();
    for (gap, attributed) in seen.attributed.iter_mut().enumerate() {
        attributed.cause = Cause::Unattributed;
        attributed.who = match gap {
            0..20 => format!("a{gap}"),
            _ => "zeta".to_owned(),
        };
    }
    let reasons = shares::reasons(&seen);
    assert_eq!(reasons[..2], [("zeta", 58), ("a0", 1)]);
    assert_eq!(reasons.len(), 21);
    assert_eq!(shares::why_nobody(&seen, 2), None);
}

#[test]
fn what_lies_between_segments_is_no_active_period() {
    let seen = seen();
    // 78 gaps have 77 spaces, one of which holds the seam.
    assert_eq!(seen.periods().count(), 76);
    for (begin_ns, active_ns, gap) in seen.periods() {
        assert!((begin_ns + active_ns - seen.starts_ns[gap]).abs() < 1e-6);
    }
}

#[test]
fn a_rehearsal_yields_all_that_is_always_there() {
    let samples = smoke(&EXPERIMENT);
    let value = |metric: &str| {
        let of = samples.iter().find(|one| one.metric == metric)?;
        of.raw.samples().first().copied()
    };
    let lost = value("lost").unwrap();
    assert!((0.0..1.0).contains(&lost), "{lost}");
    let parts: f64 = samples
        .iter()
        .filter(|one| one.metric.starts_with("lost_"))
        .flat_map(|one| one.raw.samples())
        .sum();
    assert!((0.0..1.0).contains(&parts), "{parts}");
    assert!(value("threshold") > value("read_to_read"));
}
