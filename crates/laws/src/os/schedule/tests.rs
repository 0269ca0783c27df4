use super::{allowed, fairness, lost, slice, slice_ticks, tick_cost, ticks};
use crate::range;
use bench::experiment::Site;
use bench::experiment::fixtures::{bare_site, recorded};
use host::limits::CpuQuota;
use host::{Host, Root};
use record::event::Range;

/// A machine with a number of CPUs, a tick in ns and a release, and what else its files report.
fn machine(cpus: usize, coarse_ns: u64, release: &str, files: &str) -> Site {
    let last = cpus - 1;
    let tree = format!(
        "== sys/devices/system/cpu/online\n0-{last}\n== sys/devices/system/cpu/present\n0-{last}\n\
         == proc/sys/kernel/osrelease\n{release}\n{files}== facts.txt\narch=x86_64\n\
         allowed=0-{last}\ncoarse_clock_ns={coarse_ns}\n"
    );
    Site { host: Host::read(&Root::tree(&tree)), ..bare_site() }
}

/// Whole ticks of the slices of so many processes: least, likely, most.
fn whole(site: &Site, processes: u64) -> [f64; 3] {
    let Range { low, likely, high } = slice_ticks(site, processes).range;
    [low.ceil(), likely.ceil(), high.floor()]
}

#[test]
fn a_slice_ends_at_the_first_tick_after_what_is_allowed() {
    let exactly = |ns: f64, tick: f64| ticks(range(ns, ns, ns), tick);
    assert_eq!(exactly(1.4e6, 4e6), [1.0, 1.0, 1.0]);
    assert_eq!(exactly(2.8e6, 1e6), [3.0, 3.0, 3.0]);
    assert_eq!(exactly(6e6, 4e6), [2.0, 2.0, 2.0]);
    // On the edge: a late tick, or the one after.
    assert_eq!(exactly(3e6, 1e6), [3.0, 4.0, 4.0]);
    assert_eq!(exactly(4e6, 4e6), [1.0, 2.0, 2.0]);
    assert_eq!(exactly(0.0, 4e6), [1.0, 1.0, 1.0]);
}

#[test]
fn eevdf_is_told_by_the_process_else_by_debugfs_else_by_the_cpus() {
    let own = "== proc/self/sched\nse.slice : 1400000\n";
    let base = "== sys/kernel/debug/sched/base_slice_ns\n2800000\n";
    for (site, ms) in [
        (machine(2, 4_000_000, "6.18.1", own), 1.4),
        (machine(2, 4_000_000, "6.18.1", base), 2.8),
        (machine(2, 4_000_000, "6.18.1", ""), 1.4),
        (machine(1, 4_000_000, "6.15.0", ""), 0.7),
        (machine(7, 1_000_000, "6.8.0", ""), 2.25),
        (machine(64, 1_000_000, "6.8.0", ""), 3.0),
    ] {
        let of = allowed(&site, 2);
        assert!((of.ns.likely / 1e6 - ms).abs() < 1e-9, "{}", of.because);
    }
    // The commit that made the slice shorter names its reason: a fourth tick of 1 ms.
    let [old, new] = ["6.14.0", "6.15.0"].map(|of| machine(16, 1_000_000, of, ""));
    assert_eq!(whole(&old, 2), [3.0, 4.0, 4.0]);
    assert_eq!(whole(&new, 2), [3.0, 3.0, 3.0]);
    // At 100 Hz it hardly matters.
    assert_eq!(whole(&machine(16, 10_000_000, "6.8.0", ""), 5), [1.0; 3]);
}

#[test]
fn what_else_decides_is_named() {
    let timed = machine(16, 4_000_000, "6.18.1", "== sys/kernel/debug/sched/features\nHRTICK\n");
    let of = slice(&timed, 2);
    assert!(of.range.likely < 3e6, "a timer of its own ends it, no tick: {of:?}");
    let loaded = machine(
        16,
        4_000_000,
        "6.18.1",
        "== sys/kernel/sched_ext/state\nenabled\n== sys/kernel/sched_ext/root/ops\nscx_rusty\n",
    );
    assert!(slice(&loaded, 2).because().contains("scx_rusty"));
    let before = machine(2, 4_000_000, "2.6.18", "");
    assert!(slice(&before, 2).range.likely > 9e7);
}

/// R4's machine, with mainline's tunables and with those that explain more.
#[test]
fn the_reports_slices_of_4_8_and_12_ms_are_explained() {
    let told = |latency_ms: u64| {
        let files = format!("== proc/sys/kernel/sched_latency_ns\n{latency_ms}000000\n");
        machine(2, 4_000_000, "3.13.0-77-generic", &files)
    };
    let likely = |site: &Site| [2, 3, 5].map(|processes| whole(site, processes)[1]);
    // Two processes had three ticks, which a latency for two CPUs cannot give.
    assert_eq!(likely(&told(12)), [2.0, 2.0, 1.0]);
    assert_eq!(likely(&told(18)), [3.0, 2.0, 1.0]);
    // One process of three had slices of one tick: 12 ms / 3 is one, or the next.
    assert_eq!(whole(&told(12), 3), [1.0, 2.0, 2.0]);
    assert_eq!(whole(&told(18), 3), [2.0; 3]);
    // Unreported: both are inside.
    let untold = machine(2, 4_000_000, "3.13.0-77-generic", "");
    for (processes, ms) in [(2, 11.99), (3, 5.78), (5, 3.909)] {
        let Range { low, high, .. } = slice(&untold, processes).range;
        assert!((low..=high).contains(&(ms * 1e6)), "{processes}: {low} {high}");
    }
    // Five processes: nothing but one tick.
    assert_eq!(whole(&untold, 5), [1.0; 3]);
}

#[test]
fn more_than_eight_share_by_the_shortest_slice() {
    let site = machine(8, 1_000_000, "5.10.0", "");
    // 24 ms / 8, then 3 ms each, up to 3.75 where it was tuned.
    assert_eq!(whole(&site, 8)[0], 3.0);
    let (sixteen, forty) = (allowed(&site, 16), allowed(&site, 40));
    assert_eq!(sixteen.ns, forty.ns);
    assert_eq!(sixteen.ns.likely, 3e6);
    let told = machine(
        8,
        1_000_000,
        "5.10.0",
        "== proc/sys/kernel/sched_latency_ns\n24000000\n\
         == proc/sys/kernel/sched_min_granularity_ns\n10000000\n",
    );
    assert_eq!(allowed(&told, 5).ns.likely, 1e7);
}

#[test]
fn an_unknown_tick_or_kernel_widens() {
    let told = machine(2, 4_000_000, "6.18.1", "");
    let untold = machine(2, 0, "6.18.1", "");
    let width = |site: &Site| {
        let of = slice(site, 3).range;
        of.high / of.low
    };
    assert!(width(&told) < 1.1, "{}", width(&told));
    assert!(width(&untold) > 4.0 && width(&bare_site()) > width(&untold));
}

#[test]
fn a_quota_is_foretold() {
    let mut site = recorded("vm-granite-rapids");
    site.host.limits.cpu_quota = None;
    let free = lost(&site, 2);
    site.host.limits.cpu_quota = Some(CpuQuota { quota_us: 40_000, period_us: 100_000 });
    let held = lost(&site, 2);
    assert!(free.range.high < held.range.likely, "{free:?} {held:?}");
    assert!((held.range.likely - 0.6).abs() < 1e-9 && held.range.high < 1.0);
}

#[test]
fn slices_that_a_quota_stops_are_foretold() {
    let mut site = recorded("vm-granite-rapids");
    let with = |site: &mut Site, quota_us| {
        site.host.limits.cpu_quota = Some(CpuQuota { quota_us, period_us: 100_000 });
    };
    site.host.limits.cpu_quota = None;
    let free = (slice(&site, 2), fairness(&site));
    // Five slices between two stops, and one.
    with(&mut site, 20_000);
    assert_eq!(slice(&site, 2), free.0);
    assert!(fairness(&site).range.low < 0.6 && free.1.range.low > 0.9);
    with(&mut site, 5_000);
    let stopped = slice(&site, 2);
    assert!(stopped.range.high > 1e8 && stopped.range.low < 1e6, "{stopped:?}");
    // A quota above the one CPU that the processes want does not stop them.
    with(&mut site, 200_000);
    assert_eq!((slice(&site, 2), fairness(&site)), free);
}

#[test]
fn whole_ticks_that_the_scheduler_tells_narrow_a_latency() {
    let untold = || machine(2, 4_000_000, "6.1.0", "");
    let machine = |told_ms: u64| {
        let mut site = untold();
        site.host.kernel.scheduler.told_slice_ns = Some(told_ms * 1_000_000);
        site
    };
    let latency = |site: &Site| {
        let Range { low, likely, high } = allowed(site, 2).ns;
        [low, likely, high].map(|ns| 2.0 * ns / 1e6)
    };
    let untold = latency(&untold());
    assert_eq!(untold, [12.0, 12.0, 18.0]);
    let near = |told_ms: u64, ms: [f64; 3]| {
        let found = latency(&machine(told_ms));
        let is_near = found.iter().zip(ms).all(|(a, b)| (a - b).abs() < 0.01);
        assert!(is_near, "{told_ms}: {found:?}");
    };
    near(12, [12.0, 12.0, 16.0]);
    near(16, [16.0, 18.0, 18.0]);
    near(24, [24.0, 26.0, 28.0]);
    // 11,999,999 ns are two whole ticks.
    near(8, [12.0, 12.0, 12.0]);
    // Others wanted the CPU when it was read.
    assert_eq!(latency(&machine(4)), untold);
    assert_eq!(whole(&machine(16), 2), [2.0, 3.0, 3.0]);
}

#[test]
fn the_oldest_kernels_of_a_kind_had_other_tunables() {
    let old = allowed(&machine(4, 1_000_000, "2.6.32", ""), 2).ns;
    let since = allowed(&machine(4, 1_000_000, "2.6.36", ""), 2).ns;
    assert!(old.low <= 7.5e6 && old.high >= 30e6, "{old:?}");
    assert!(since.low >= 9e6 && since.high <= 12e6, "{since:?}");
}

#[test]
fn the_reports_ticks_of_0_9_to_1_9_us_are_inside() {
    let mut site = bare_site();
    site.host.kernel.virtualisation.is_guest = Some(false);
    let cost = tick_cost(&site).range;
    assert!(cost.holds(900.0) && cost.holds(1_900.0), "{cost:?}");
}
