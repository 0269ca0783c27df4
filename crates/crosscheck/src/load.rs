//! What else had the CPUs of a side while it ran: a disturbed turn is reported.

use host::counters::Snapshot;
use host::{Outside, Root};
use metal::process::rusage_children;
use record::crosscheck::Load;
use std::time::Instant;

/// Counters at the beginning of a side.
pub(super) struct Before {
    began: Instant,
    counters: Snapshot,
    own_ns: u64,
}

impl Before {
    pub fn now(cpus: &[usize]) -> Before {
        Before { counters: counters(cpus), own_ns: own_ns(), began: Instant::now() }
    }

    /// What has happened on these CPUs since, once all that the side started has been waited for.
    /// `is_alone`: it has no far end, whose time would be another's here.
    pub fn load(&self, cpus: &[usize], is_alone: bool) -> Load {
        let length_ns = self.began.elapsed().as_nanos() as u64;
        let had = counters(cpus).delta(&self.counters);
        let own_ns = own_ns().saturating_sub(self.own_ns);
        load_of(&had, length_ns, own_ns, is_alone)
    }
}

/// What other than a side had its CPUs: their busy time less what the hypervisor took and what the
/// side's processes had anywhere, so at least that.
fn load_of(had: &Snapshot, length_ns: u64, own_ns: u64, is_alone: bool) -> Load {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let has_any = !had.cpus.is_empty();
    let steal_ns = had.steal_ns().filter(|_| has_any);
    let busy_ns: Option<u64> = had.cpus.values().map(|cpu| cpu.busy_ns).sum();
    let busy_ns = busy_ns.filter(|_| has_any && is_alone);
    let others_ns = busy_ns.zip(steal_ns).map(|(busy, steal)| busy.saturating_sub(steal + own_ns));
    Load {
        cpu_s: seconds(length_ns) * had.cpus.len() as f64,
        steal_s: steal_ns.map(seconds),
        others_s: others_ns.map(seconds),
    }
}

fn counters(cpus: &[usize]) -> Snapshot {
    // They are all in files.
    Snapshot::read(&Root::live(Outside::default()), cpus)
}

/// CPU time of all that was started and has been waited for.
fn own_ns() -> u64 {
    let usage = rusage_children();
    usage.utime_ns + usage.stime_ns
}

#[cfg(test)]
mod tests {
    use super::{Before, load_of};
    use host::counters::{CpuCounters, Snapshot};

    fn counted(cpus: &[(usize, u64, u64)]) -> Snapshot {
        let cpu = |&(id, busy, steal): &(usize, u64, u64)| {
            let counters = CpuCounters {
                busy_ns: Some(busy),
                steal_ns: Some(steal),
                ..CpuCounters::default()
            };
            (id, counters)
        };
        Snapshot { cpus: cpus.iter().map(cpu).collect(), ..Snapshot::default() }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn others_had_what_neither_the_side_nor_the_hypervisor_had() {
        let one = load_of(&counted(&[(1, 3 * S, S / 2)]), 4 * S, 2 * S, true);
        assert_eq!((one.cpu_s, one.steal_s, one.others_s), (4.0, Some(0.5), Some(0.5)));
        // Its own time on other CPUs too.
        let elsewhere = load_of(&counted(&[(1, 3 * S, 0), (2, S, 0)]), 4 * S, 6 * S, true);
        assert_eq!((elsewhere.cpu_s, elsewhere.others_s), (8.0, Some(0.0)));
        let with_far_end = load_of(&counted(&[(1, 3 * S, S)]), 4 * S, S, false);
        assert_eq!((with_far_end.steal_s, with_far_end.others_s), (Some(1.0), None));
        let unknown = load_of(&Snapshot::default(), S, 0, true);
        assert_eq!((unknown.steal_s, unknown.others_s), (None, None));
        let hidden = Snapshot { cpus: [(1, CpuCounters::default())].into(), ..Snapshot::default() };
        assert_eq!(load_of(&hidden, S, 0, true).steal_s, None);
    }

    #[test]
    fn a_side_of_nothing_has_a_length() {
        let before = Before::now(&[0]);
        let load = before.load(&[0], true);
        assert!(load.cpu_s > 0.0);
    }
}
