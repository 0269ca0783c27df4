//! Counters that everyone may read, before and after a window.

use std::collections::BTreeMap;

use super::{OfCpu, RowCount, Throttling};
use host::Root;
use host::counters::Snapshot;
use host::interrupts::{Source, rows};
use host::text::number;

#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    interrupts: Lines,
    softirqs: Lines,
    general: Snapshot,
    /// The involuntary switches and the run delay in ns of the thread that traces on each CPU.
    threads: BTreeMap<usize, [Option<u64>; 2]>,
}

/// Counts by CPU, then by the line's name. A CPU exists if the file lists it.
type Lines = BTreeMap<usize, BTreeMap<String, RowCount>>;

impl Reading {
    /// Reads them all, of some CPUs and the thread that traces on each: some milliseconds, outside
    /// any window.
    pub(super) fn take(root: &Root, threads: &[(usize, u32)]) -> Reading {
        let cpus: Vec<usize> = threads.iter().map(|(cpu, _)| *cpu).collect();
        Reading {
            interrupts: lines(&root.read("proc/interrupts").unwrap_or_default(), &cpus),
            softirqs: lines(&root.read("proc/softirqs").unwrap_or_default(), &cpus),
            general: Snapshot::read(root, &cpus),
            threads: threads.iter().map(|(cpu, tid)| (*cpu, thread(root, *tid))).collect(),
        }
    }

    /// What was counted since, of each CPU and of the control groups.
    pub(super) fn since(&self, earlier: &Reading) -> (BTreeMap<usize, OfCpu>, Option<Throttling>) {
        let general = self.general.delta(&earlier.general);
        let throttled = general.throttled_periods.zip(general.throttled_ns);
        let of_cpu = |(&cpu, now): (&usize, &[Option<u64>; 2])| {
            let then = earlier.threads.get(&cpu).copied().unwrap_or_default();
            let since = |at: usize| now[at]?.checked_sub(then[at]?);
            let of_cpu = OfCpu {
                interrupts: moved(&self.interrupts, &earlier.interrupts, cpu),
                softirqs: moved(&self.softirqs, &earlier.softirqs, cpu),
                steal_ns: general.cpus.get(&cpu).and_then(|cpu| cpu.steal_ns),
                involuntary: since(0),
                run_delay_ns: since(1),
                timeline: None,
            };
            (cpu, of_cpu)
        };
        let throttling = throttled.map(|(periods, time_ns)| Throttling { periods, time_ns });
        (self.threads.iter().map(of_cpu).collect(), throttling)
    }
}

fn lines(text: &str, cpus: &[usize]) -> Lines {
    let (online, rows) = rows(text);
    let watched = online.into_iter().filter(|cpu| cpus.contains(cpu));
    let mut lines: Lines = watched.map(|cpu| (cpu, BTreeMap::new())).collect();
    for row in rows {
        for &(cpu, count) in &row.counts {
            if let Some(of_cpu) = lines.get_mut(&cpu) {
                let count =
                    RowCount { name: row.title(), is_timer: row.source == Source::Timer, count };
                of_cpu.insert(row.name.clone(), count);
            }
        }
    }
    lines
}

/// The lines that moved; `None` where one of the readings lacks the CPU.
fn moved(now: &Lines, then: &Lines, cpu: usize) -> Option<Vec<RowCount>> {
    let (now, then) = (now.get(&cpu)?, then.get(&cpu)?);
    let moved = now.iter().filter_map(|(line, row)| {
        let before = then.get(line).map_or(0, |row| row.count);
        let count = row.count.checked_sub(before).filter(|count| *count > 0)?;
        Some(RowCount { count, ..row.clone() })
    });
    Some(moved.collect())
}

/// What the scheduler counted of a thread by its directory: time on a CPU and time that it waited
/// for one, in ns, and times it was given one. A kernel without scheduler statistics prints zeros,
/// also for a thread that has run.
pub(super) fn schedstat(root: &Root, thread: &str) -> Option<[u64; 3]> {
    let text = root.line(&format!("{thread}/schedstat"))?;
    let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let [time_ns, delay_ns, runs] = [words.next()??, words.next()??, words.next()??];
    (time_ns > 0 || runs > 0).then_some([time_ns, delay_ns, runs])
}

fn thread(root: &Root, tid: u32) -> [Option<u64>; 2] {
    let status = root.read(&format!("proc/{tid}/status")).unwrap_or_default();
    let delay_ns = schedstat(root, &format!("proc/{tid}")).map(|[_, delay_ns, _]| delay_ns);
    [number(&status, "nonvoluntary_ctxt_switches:"), delay_ns]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "== proc/interrupts\n      CPU0 CPU2\n 36: 5 7 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n\
        LOC: 10 20 Local timer interrupts\nRES: 1 1 Rescheduling interrupts\n\
        == proc/softirqs\n      CPU0 CPU2\nTIMER: 3 4\n\
        == proc/stat\ncpu2 1 0 2 3 4 5 6 7 0 0\n\
        == proc/77/status\nName:\tplumb\nvoluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t3\n\
        == proc/77/schedstat\n500 40 2\n";

    #[test]
    fn what_moved_is_told_by_name_and_by_cpu() {
        let later = TREE
            .replace("5 7 PCI", "5 9 PCI")
            .replace("10 20", "10 25")
            .replace("3 4\n", "3 6\n")
            .replace("5 6 7 0 0", "5 6 8 0 0")
            .replace("nonvoluntary_ctxt_switches:\t3", "nonvoluntary_ctxt_switches:\t4")
            .replace("500 40 2", "600 90 3");
        // CPU 0 has no such thread, CPU 5 is offline.
        let read = |tree: &str| Reading::take(&Root::tree(tree), &[(0, 78), (2, 77), (5, 79)]);
        let (cpus, _) = read(&later).since(&read(TREE));
        let row = |name: &str, is_timer, count| RowCount { name: name.to_owned(), is_timer, count };
        let expected = OfCpu {
            interrupts: Some(vec![
                row("virtio1-req.0 (interrupt 36)", false, 2),
                row("LOC", true, 5),
            ]),
            softirqs: Some(vec![row("TIMER", false, 2)]),
            steal_ns: Some(10_000_000),
            involuntary: Some(1),
            run_delay_ns: Some(50),
            timeline: None,
        };
        assert_eq!(cpus[&2], expected);
        assert_eq!((&cpus[&0].interrupts, cpus[&0].involuntary), (&Some(Vec::new()), None));
        assert_eq!(cpus[&5], OfCpu::default());
    }

    #[test]
    fn files_that_may_not_be_read_are_named() {
        let nothing = Reading::take(&Root::tree(""), &[(0, 77)]);
        let (cpus, throttling) = nothing.since(&nothing);
        let expected = ["interrupts", "soft interrupts", "steal", "involuntary switches"];
        assert_eq!((cpus[&0].unreadable(), throttling), (expected.to_vec(), None));
    }
}
