use super::{IdleStates, Load, Policy, Slack, Sleep, chosen, latency, missed};
use crate::{Facts, Law, range};
use bench::experiment::Site;
use bench::experiment::fixtures::recorded;
use host::cpu::IdleState;
use record::event::Condition;

const PLAIN: Sleep = Sleep::plain(1_000_000);
const LEAST: Sleep = Sleep { slack: Some(Slack::Least), ..PLAIN };

fn likely_us(site: &Site, sleep: &Sleep) -> f64 {
    latency(Facts::prior(site), sleep).range.likely / 1e3
}

fn width(estimate: &Law) -> f64 {
    estimate.range.high / estimate.range.low
}

#[test]
fn the_slack_is_the_largest_part_of_a_plain_sleep_on_bare_hardware() {
    let epyc = recorded("epyc-7763-2s");
    let (plain, least) =
        (latency(Facts::prior(&epyc), &PLAIN), latency(Facts::prior(&epyc), &LEAST));
    let difference = plain.range.likely - least.range.likely;
    assert!((difference - 49_999.0).abs() < 1.0, "{difference}");
    assert!(width(&plain) < 1.6, "{:?}", plain.range);
    // Untold: it may be none.
    let mut silent = recorded("epyc-7763-2s");
    silent.host.kernel.timer_slack_ns = None;
    assert!(latency(Facts::prior(&silent), &PLAIN).range.low < 0.6 * plain.range.low);
    // Given by whoever started plumb.
    silent.host.kernel.timer_slack_ns = Some(5_000_000);
    assert!(likely_us(&silent, &PLAIN) > 5_000.0);
    let fifo = Sleep { policy: Policy::Fifo, ..PLAIN };
    assert!((likely_us(&silent, &fifo) - likely_us(&epyc, &LEAST)).abs() < 0.1);
}

#[test]
fn a_longer_gap_lets_the_processor_sleep_deeper() {
    // 1 ms: C8 (800 µs), 100 ms: C10 (2 ms). Milan's C2 pays after 1.6 ms.
    let hybrid = recorded("alder-lake-hybrid");
    let state = |gap_ns| {
        let states = &hybrid.host.cpu.idle_states;
        chosen(states, gap_ns).map(|(state, shallowest)| (state.name.clone(), shallowest))
    };
    assert_eq!(state(1e6), Some(("C8".to_owned(), 2)));
    assert_eq!(state(1e8), Some(("C10".to_owned(), 2)));
    assert_eq!(state(5e5), Some(("C1E".to_owned(), 2)));
    let far = |sleep: Sleep| Sleep { spacing: 100_000_000, ..sleep };
    let epyc = recorded("epyc-7763-2s");
    assert!(likely_us(&epyc, &LEAST) < 6.0);
    assert!(likely_us(&epyc, &far(LEAST)) > 300.0);
    // No idle state to exit if the states are held off or a process spins.
    for load in [Load::Same, Load::Idle] {
        let held = Sleep { idle_states: IdleStates::HeldOff, load, ..far(LEAST) };
        assert!(likely_us(&epyc, &held) < 6.0, "{load:?}");
    }
}

#[test]
fn states_that_are_off_or_poll_are_not_chosen() {
    let state = |name: &str, latency_us, disabled| IdleState {
        name: name.to_owned(),
        latency_us,
        residency_us: 2 * latency_us,
        disabled,
    };
    let states = [state("POLL", 0, false), state("C1", 2, false), state("C6", 100, true)];
    assert_eq!(chosen(&states, 1e9).map(|(state, _)| state.latency_us), Some(2));
    assert_eq!(chosen(&states[..1], 1e9), None);
    // One that never pays is taken where there is no other.
    assert_eq!(chosen(&states[1..2], 1.0).map(|(state, _)| state.latency_us), Some(2));
}

#[test]
fn beside_a_spinner_the_usual_wake_up_is_at_once_and_the_longest_after_a_slice() {
    let mut site = recorded("epyc-7763-2s");
    let same = Sleep { load: Load::Same, ..PLAIN };
    site.host.kernel.release = Some("6.8.0".to_owned());
    for (slack, most) in [(Slack::Default, 2.5), (Slack::Least, 12.0)] {
        let sleep = Sleep { slack: Some(slack), ..same };
        let late = latency(Facts::prior(&site), &sleep);
        assert!(width(&late) < most, "{late:?}");
        // A median, whatever single ones do.
        assert!(late.range.high < 1e5, "{late:?}");
    }
    // A slice of 3 ms on many CPUs: one tick of 4 ms, three or four of 1 ms.
    for (hz, ms) in [(250, 4.0), (1000, 4.0), (100, 10.0)] {
        site.host.kernel.hz = Some(hz);
        let late = latency(Facts::prior(&site), &same);
        let high = missed(&site, &late, &same).range.high;
        let points = high / (1.0 - high);
        assert!((points - ms).abs() < 1.1, "{hz} Hz: {points} points of 1 ms");
    }
    // A real-time policy takes the CPU at once.
    let fifo = Sleep { policy: Policy::Fifo, ..same };
    let late = latency(Facts::prior(&site), &fifo);
    assert!(missed(&site, &late, &fifo).range.high < 0.1);
    // Where wake-ups do not preempt, the median may be a blocked one.
    site.host.kernel.scheduler.features = vec!["NO_WAKEUP_PREEMPTION".to_owned()];
    assert!(latency(Facts::prior(&site), &same).range.high > 1e7);
}

#[test]
fn a_real_time_kernel_has_a_thread_on_the_way_of_ordinary_sleepers() {
    let mut site = recorded("epyc-7763-2s");
    let fifo = Sleep { policy: Policy::Fifo, ..PLAIN };
    let both = |site: &Site| [&LEAST, &fifo].map(|sleep| latency(Facts::prior(site), sleep));
    let [plain, first] = both(&site);
    site.host.kernel.preemption = Some("rt".to_owned());
    let [slower, same] = both(&site);
    assert!(slower.range.likely > plain.range.likely + 1_000.0);
    assert_eq!(same, first);
}

#[test]
fn a_virtual_machine_is_later_and_less_certain() {
    let bare = recorded("epyc-7763-2s");
    let mut guest = recorded("epyc-7763-2s");
    guest.host.kernel.virtualisation.is_guest = Some(true);
    let (on_bare, in_guest) =
        (latency(Facts::prior(&bare), &LEAST), latency(Facts::prior(&guest), &LEAST));
    assert!(in_guest.range.likely > 3.0 * on_bare.range.likely);
    assert!(width(&in_guest) > width(&on_bare));
    assert!(in_guest.clone().prediction().conditions.contains(&Condition::Hypervisor));
    // Intel's cores end a guest's run at its deadline by themselves.
    assert_eq!(guest.host.cpu.vendor.as_deref(), Some("AuthenticAMD"));
    guest.host.cpu.vendor = Some("GenuineIntel".to_owned());
    let by_itself = latency(Facts::prior(&guest), &LEAST);
    assert!(by_itself.range.likely < in_guest.range.likely - 3_000.0);
}

#[test]
fn points_are_missed_by_who_comes_later_than_the_next() {
    let site = recorded("epyc-7763-2s");
    let late = |low, likely, high| Law::software(range(low, likely, high), "");
    let share = |late: &Law| missed(&site, late, &PLAIN).range;
    let none = share(&late(5e4, 6e4, 9e4));
    assert_eq!((none.low, none.likely, none.high), (0.0, 0.0, 0.02));
    // One, two and four spacings late.
    let some = share(&late(1e6, 2.5e6, 4e6));
    assert_eq!((some.low, some.likely, some.high), (0.5, 2.0 / 3.0, 0.8));
}
