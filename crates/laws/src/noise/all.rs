//! Laws of what every CPU loses while all of them run a program that never waits: what a quota
//! takes. The rest is measured ([`super::activity::MEASURED`]).

use crate::{Law, range};
use bench::experiment::Site;

/// Share of time lost, where a quota for fewer CPUs than work decides it; `None` without one.
pub fn lost(site: &Site) -> Option<Law> {
    let quota = site.host.limits.cpu_quota?;
    let cpus = site.cpus.len() as f64;
    let share = 1.0 - quota.cpus() / cpus;
    (share > 0.0).then(|| {
        let quota = quota.cpus();
        let why = format!("a CPU quota of {quota} CPUs for {cpus}, uneven over windows");
        Law::software(range(0.0, share, 1.0), why)
    })
}

#[cfg(test)]
mod tests {
    use super::lost;
    use bench::experiment::fixtures::recorded;
    use host::limits::CpuQuota;

    #[test]
    fn a_quota_for_fewer_cpus_than_work_decides_what_is_lost() {
        let mut site = recorded("vm-granite-rapids");
        site.host.limits.cpu_quota = None;
        assert!(lost(&site).is_none());
        let cpus = site.cpus.len() as u64;
        let mut of = |quota_us: u64| {
            site.host.limits.cpu_quota = Some(CpuQuota { quota_us, period_us: 100_000 });
            lost(&site).map(|law| law.range.likely)
        };
        assert_eq!((of(cpus * 100_000), of(cpus * 25_000)), (None, Some(0.75)));
    }
}
