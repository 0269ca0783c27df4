use super::{Wait, chosen, lateness};
use crate::{Facts, Law};
use bench::experiment::Site;
use bench::experiment::fixtures::recorded;
use host::cpu::IdleState;
use record::event::Condition;

const PLAIN: Wait = Wait { ns: 1_000_000, is_crowded: false, has_slack: true };
const LEAST: Wait = Wait { has_slack: false, ..PLAIN };

fn late(site: &Site, wait: Wait) -> Law {
    lateness(Facts::prior(site), wait)
}

fn likely_us(site: &Site, wait: Wait) -> f64 {
    late(site, wait).range.likely / 1e3
}

fn width(estimate: &Law) -> f64 {
    estimate.range.high / estimate.range.low
}

#[test]
fn the_slack_is_the_largest_part_of_a_plain_wait_on_bare_hardware() {
    let mut epyc = recorded("epyc-7763-2s");
    let (plain, least) = (late(&epyc, PLAIN), late(&epyc, LEAST));
    let difference = plain.range.likely - least.range.likely;
    assert!((difference - 49_999.0).abs() < 1.0, "{difference}");
    assert!(width(&plain) < 1.6, "{:?}", plain.range);
    // Unknown: it may be none.
    epyc.host.kernel.timer_slack_ns = None;
    assert!(late(&epyc, PLAIN).range.low < 0.6 * plain.range.low);
    // Given by whoever started plumb.
    epyc.host.kernel.timer_slack_ns = Some(5_000_000);
    assert!(likely_us(&epyc, PLAIN) > 5_000.0);
}

#[test]
fn a_longer_gap_lets_the_processor_sleep_deeper() {
    // 1 ms: C8 (800 µs), 100 ms: C10 (2 ms). Milan's C2 pays after 1.6 ms.
    let states = recorded("alder-lake-hybrid").host.cpu.idle_states;
    for (gap_ns, name) in [(1e6, "C8"), (1e8, "C10"), (5e5, "C1E")] {
        let found = chosen(&states, gap_ns).map(|(state, shallowest)| (&*state.name, shallowest));
        assert_eq!(found, Some((name, 2)));
    }
    let far = Wait { ns: 100_000_000, ..LEAST };
    let epyc = recorded("epyc-7763-2s");
    assert!(likely_us(&epyc, LEAST) < 6.0);
    assert!(likely_us(&epyc, far) > 300.0);
    // No idle state to exit if a process spins.
    assert!(likely_us(&epyc, Wait { is_crowded: true, ..far }) < 6.0);
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
fn beside_a_spinner_the_usual_wake_up_is_at_once() {
    let mut site = recorded("epyc-7763-2s");
    site.host.kernel.release = Some("6.8.0".to_owned());
    for (has_slack, most) in [(true, 2.5), (false, 12.0)] {
        let late = late(&site, Wait { has_slack, is_crowded: true, ..PLAIN });
        // A median, whatever single ones do.
        assert!(width(&late) < most && late.range.high < 1e5, "{late:?}");
    }
    // Where wake-ups do not preempt, the median may be a blocked one.
    site.host.kernel.scheduler.features = vec!["NO_WAKEUP_PREEMPTION".to_owned()];
    assert!(late(&site, Wait { is_crowded: true, ..PLAIN }).range.high > 3e6);
}

#[test]
fn a_real_time_kernel_has_a_thread_on_the_way() {
    let mut site = recorded("epyc-7763-2s");
    let plain = late(&site, LEAST).range.likely;
    site.host.kernel.preemption = Some("rt".to_owned());
    assert!(late(&site, LEAST).range.likely > plain + 1_000.0);
}

#[test]
fn a_virtual_machine_is_later_and_less_certain() {
    let bare = late(&recorded("epyc-7763-2s"), LEAST);
    let mut guest = recorded("epyc-7763-2s");
    guest.host.kernel.virtualisation.is_guest = Some(true);
    let in_guest = late(&guest, LEAST);
    assert!(in_guest.range.likely > 3.0 * bare.range.likely && width(&in_guest) > width(&bare));
    assert!(in_guest.clone().prediction().conditions.contains(&Condition::Hypervisor));
    // Intel's cores end a guest's run at its deadline by themselves.
    assert_eq!(guest.host.cpu.vendor.as_deref(), Some("AuthenticAMD"));
    guest.host.cpu.vendor = Some("GenuineIntel".to_owned());
    assert!(late(&guest, LEAST).range.likely < in_guest.range.likely - 3_000.0);
}
