use super::{lost, read_to_read_ns, throttled, tick_cost, tick_period_ns};
use bench::experiment::fixtures::{bare_site, recorded};
use host::limits::CpuQuota;

/// R4: ticks of 0.9 to 1.9 µs every 4 ms, on Linux 3.13 of a machine of its own.
#[test]
fn the_reports_machine_is_inside() {
    let mut site = bare_site();
    site.host.kernel.hz = Some(250);
    site.host.kernel.virtualisation.is_guest = Some(false);
    let (cost, period) = (tick_cost(&site).range, tick_period_ns(&site, Some(0)).range);
    assert!(cost.holds(900.0) && cost.holds(1_900.0), "{cost:?}");
    assert!(period.holds(3.9998e6) && period.high < 1.01 * period.low, "{period:?}");
}

/// Under a fifth of a CPU four fifths of the time are lost.
#[test]
fn a_quota_is_foretold() {
    let mut site = recorded("vm-granite-rapids");
    site.host.limits.cpu_quota = None;
    assert_eq!(throttled(&site).range.high, 0.0);
    assert!(lost(&site).is_none());
    site.host.limits.cpu_quota = Some(CpuQuota { quota_us: 20_000, period_us: 100_000 });
    assert_eq!(throttled(&site).range.likely, 0.8);
    let all = lost(&site).expect("a quota decides").range;
    assert_eq!((all.likely, all.high), (0.8, 1.0));
    site.host.limits.cpu_quota = Some(CpuQuota { quota_us: 200_000, period_us: 100_000 });
    assert!(lost(&site).is_none());
}

#[test]
fn a_turn_of_the_loop_is_known_within_a_factor_of_four() {
    let range = read_to_read_ns(&recorded("alder-lake-hybrid")).range;
    assert!(range.high < 4.0 * range.low, "{range:?}");
}
