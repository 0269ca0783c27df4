use super::{
    Cause, active_ns, gap_ns, gap_rate_1us_hz, gap_rate_hz, longest_gap_ns, lost, lost_other,
    lost_timer, read_to_read_ns, threshold_ns, tick_period_ns,
};
use bench::experiment::Site;
use bench::experiment::fixtures::{bare_site, recorded};
use host::limits::CpuQuota;
use record::event::Range;

/// R4: ticks of 0.9 to 1.9 µs every 4 ms, about 0.1 % lost, on Linux 3.13 of a machine of its own.
#[test]
fn the_reports_machine_is_inside() {
    let mut site = bare_site();
    site.host.kernel.hz = Some(250);
    site.host.kernel.virtualisation.is_guest = Some(false);
    let inside = |range: Range, value| {
        assert!((range.low..=range.high).contains(&value), "{range:?}");
    };
    for gap in [900.0, 1_900.0] {
        inside(gap_ns(&site, Some(0)).range, gap);
    }
    inside(lost(&site, Some(0)).range, 0.001);
    inside(tick_period_ns(&site, Some(0)).range, 3.9998e6);
}

#[test]
fn a_tickless_cpu_has_its_own_laws() {
    let site = recorded("epyc-7763-2s");
    let cpu = site.host.kernel.nohz_full[0];
    let tickless = lost_timer(&site, Some(cpu));
    let other = lost_timer(&site, Some(0));
    assert!(tickless.range.likely < other.range.likely);
    assert!(tickless.range.low == 0.0 && other.range.low > 0.0);
}

/// Under a fifth of a CPU, in periods of 100 ms, four fifths of the time are lost in gaps of 80 ms.
#[test]
fn a_quota_moves_what_is_lost_and_the_longest_gap() {
    let mut site = recorded("vm-granite-rapids");
    site.host.limits.cpu_quota = None;
    let free = (lost(&site, Some(0)).range, longest_gap_ns(&site).range);
    assert!(free.0.high < 0.2 && free.1.high < 80e6, "{free:?}");
    site.host.limits.cpu_quota = Some(CpuQuota { quota_us: 20_000, period_us: 100_000 });
    let inside = |range: Range, value: f64| {
        assert!(range.low <= value && value <= range.high, "{range:?}: {value}");
        assert!(range.low <= range.likely && range.likely <= range.high, "{range:?}");
    };
    inside(lost(&site, Some(0)).range, 0.8);
    assert!(lost(&site, Some(0)).range.likely >= 0.8);
    inside(longest_gap_ns(&site).range, 80e6);
    inside(gap_ns(&site, Some(0)).range, 80e6);
    // A fifth of the ticks, and ten ends of slices.
    inside(gap_rate_hz(&site, Some(0)).range, 0.2 * 250.0 + 10.0);
    inside(active_ns(&site, Some(0)).range, 4e6);
    let enough = CpuQuota { quota_us: 200_000, period_us: 100_000 };
    site.host.limits.cpu_quota = Some(enough);
    assert_eq!(lost(&site, Some(0)).range, free.0);
    assert_eq!(longest_gap_ns(&site).range, free.1);
}

/// The goal for figures of the operating system on machines of their own: a median ratio of high to
/// low of at most 4. Shares that may be nothing have no ratio.
#[test]
fn priors_of_a_machine_of_its_own_are_no_wider_than_the_goal() {
    let laws = |site: &Site| {
        let cpu = site.cpus.first().copied();
        let of_machine = [read_to_read_ns, threshold_ns, longest_gap_ns].map(|law| law(site));
        let all =
            [gap_ns, active_ns, gap_rate_hz, gap_rate_1us_hz, lost, lost_timer, tick_period_ns];
        of_machine.into_iter().chain(all.map(|law| law(site, cpu)))
    };
    let mut site = recorded("alder-lake-hybrid");
    for hz in [100, 250, 1000] {
        site.host.kernel.hz = Some(hz);
        assert_eq!(site.host.kernel.virtualisation.is_guest, Some(false));
        let mut ratios: Vec<f64> = laws(&site).map(|law| law.range.high / law.range.low).collect();
        ratios.sort_by(f64::total_cmp);
        let median = f64::midpoint(ratios[4], ratios[5]);
        assert!(median <= 4.0, "{hz} Hz: {ratios:?}");
    }
}

#[test]
fn a_quota_is_foretold() {
    let mut site = bare_site();
    assert_eq!(lost_other(&site, Cause::Throttled).range.high, 0.0);
    site.host.limits.cpu_quota = Some(CpuQuota { quota_us: 25_000, period_us: 100_000 });
    let half = lost_other(&site, Cause::Throttled).range;
    assert_eq!(half.likely, 0.75);
    assert!(half.high <= 1.0);
}
