//! What happened to the worker around a round, read before and after it (METHOD §4).
//!
//! Counters that this kernel or container hides are absent, never zero.

use host::counters::Snapshot as Counters;
use host::{Outside, Root};
use metal::process::{self, Usage};
use record::order::Gather;
use std::collections::BTreeMap;

/// Counters at one moment: of the process (switches, faults and times, of its ended threads too),
/// of the calling thread (run delay and migrations), and of some CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    usage: Usage,
    counters: Counters,
}

impl Snapshot {
    /// Reads the counters. Costs some file reads: never inside a timed window.
    pub fn read(cpus: &[usize]) -> Self {
        // The counters are all in files.
        let root = Root::live(Outside::default());
        Snapshot { usage: process::rusage_self(), counters: Counters::read(&root, cpus) }
    }

    /// What changed since `earlier`, and the load now, by the names of
    /// [`record::event::Round::environment`]. Counters of several CPUs are summed: compare them
    /// with the window times the number of CPUs.
    pub fn since(&self, earlier: &Snapshot) -> BTreeMap<String, f64> {
        let (now, then) = (&self.usage, &earlier.usage);
        let counters = self.counters.delta(&earlier.counters);
        let per_cpu = !counters.cpus.is_empty();
        let ns = |us: Option<u64>| us.map(|us| us * 1000);
        [
            ("voluntary_switches", now.nvcsw.checked_sub(then.nvcsw)),
            ("involuntary_switches", now.nivcsw.checked_sub(then.nivcsw)),
            ("major_faults", now.majflt.checked_sub(then.majflt)),
            ("minor_faults", now.minflt.checked_sub(then.minflt)),
            ("user_ns", now.utime_ns.checked_sub(then.utime_ns)),
            ("system_ns", now.stime_ns.checked_sub(then.stime_ns)),
            ("run_delay_ns", counters.run_delay_ns),
            ("migrations", counters.migrations),
            ("counted_steal_ns", counters.steal_ns().filter(|_| per_cpu)),
            ("interrupts", counters.interrupts().filter(|_| per_cpu)),
            ("throttled_ns", counters.throttled_ns),
            ("thermal_events", counters.thermal_events()),
            ("psi_cpu_some_ns", ns(counters.cpu_pressure_us)),
            ("psi_memory_some_ns", ns(counters.memory_pressure_us)),
            ("psi_io_some_ns", ns(counters.io_pressure_us)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value? as f64)))
        .chain(counters.load.map(|load| ("load_1m", load)))
        .map(|(name, value)| (name.to_owned(), value))
        .gather()
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshot;
    use host::Root;
    use host::counters::Snapshot as Counters;
    use metal::process::{self, Usage};

    fn snapshot(tree: &str, usage: Usage) -> Snapshot {
        Snapshot { usage, counters: Counters::read(&Root::tree(tree), &[2]) }
    }

    #[test]
    fn changes_have_their_names_and_units_and_absent_counters_stay_absent() {
        let before = snapshot(
            "== proc/stat\ncpu2 1 0 2 3 4 5 6 7 0 0\n\
             == proc/pressure/cpu\nsome avg10=0 avg60=0 avg300=0 total=10\n",
            Usage { nivcsw: 3, utime_ns: 1000, ..Usage::default() },
        );
        let after = snapshot(
            "== proc/stat\ncpu2 1 0 2 3 4 5 6 9 0 0\n== proc/loadavg\n0.50 0.4 0.3 1/2 3\n\
             == proc/pressure/cpu\nsome avg10=0 avg60=0 avg300=0 total=14\n\
             == proc/thread-self/schedstat\n5 600 7\n",
            Usage { nivcsw: 5, utime_ns: 4000, ..Usage::default() },
        );
        let changes = after.since(&before);
        for (name, change) in [
            ("involuntary_switches", Some(2.0)),
            ("voluntary_switches", Some(0.0)),
            ("user_ns", Some(3000.0)),
            ("counted_steal_ns", Some(2e7)),
            ("psi_cpu_some_ns", Some(4000.0)),
            ("load_1m", Some(0.5)),
            // Read only after the round: no change can be seen.
            ("run_delay_ns", None),
            ("migrations", None),
            ("interrupts", None),
            ("throttled_ns", None),
            ("thermal_events", None),
        ] {
            assert_eq!(changes.get(name).copied(), change, "{name}");
        }
    }

    #[test]
    fn switches_of_threads_that_have_ended_count() {
        let cpu = metal::place::allowed().unwrap()[0];
        let before = Snapshot::read(&[]);
        // Both want one CPU until each has lost it to the other.
        let lost = || {
            metal::place::pin(cpu).unwrap();
            while process::rusage_thread().nivcsw == 0 {}
        };
        std::thread::scope(|scope| {
            let threads = [scope.spawn(lost), scope.spawn(lost)];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let changes = Snapshot::read(&[]).since(&before);
        assert!(changes["involuntary_switches"] >= 2.0, "{changes:?}");
    }

    #[test]
    fn faults_of_this_process_are_seen() {
        let before = Snapshot::read(&[]);
        // Fresh from the kernel: an allocator may give pages that were touched before.
        let mut fresh = metal::memory::Mapping::new(4 << 20, metal::memory::Pages::Base).unwrap();
        fresh.touch();
        let changes = Snapshot::read(&[]).since(&before);
        assert!(changes["minor_faults"] >= 1.0, "{changes:?}");
        assert!(!changes.contains_key("steal_ns"), "no CPU was asked for");
    }
}
