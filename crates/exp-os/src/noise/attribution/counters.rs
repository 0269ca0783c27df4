//! Counters that everyone may read, before and after a window.

use std::collections::BTreeMap;

use super::{OfCpu, OfThread, RowCount, Throttling};
use host::Root;
use host::counters::Snapshot;
use host::interrupts::{Source, rows};
use host::text::number;

#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    interrupts: Lines,
    softirqs: Lines,
    general: Snapshot,
    threads: BTreeMap<u32, OfThread>,
}

/// Counts by CPU, then by the line's name. A CPU exists if the file lists it.
type Lines = BTreeMap<usize, BTreeMap<String, RowCount>>;

impl Reading {
    /// Reads them all: some milliseconds, outside any window.
    pub(super) fn take(root: &Root, cpus: &[usize], threads: &[(usize, u32)]) -> Reading {
        Reading {
            interrupts: lines(&root.read("proc/interrupts").unwrap_or_default(), cpus),
            softirqs: lines(&root.read("proc/softirqs").unwrap_or_default(), cpus),
            general: Snapshot::read(root, cpus),
            threads: threads.iter().map(|(_, tid)| (*tid, thread(root, *tid))).collect(),
        }
    }

    pub(super) fn since(&self, earlier: &Reading, cpu: usize, threads: &[(usize, u32)]) -> OfCpu {
        let general = self.general.delta(&earlier.general);
        let mine = threads.iter().filter(|(on, _)| *on == cpu);
        OfCpu {
            interrupts: moved(&self.interrupts, &earlier.interrupts, cpu),
            softirqs: moved(&self.softirqs, &earlier.softirqs, cpu),
            steal_ns: general.cpus.get(&cpu).and_then(|cpu| cpu.steal_ns),
            threads: mine.map(|(_, tid)| self.thread_since(earlier, *tid)).collect(),
            ..OfCpu::default()
        }
    }

    pub(super) fn throttling_since(&self, earlier: &Reading) -> Option<Throttling> {
        let general = self.general.delta(&earlier.general);
        Some(Throttling { periods: general.throttled_periods?, time_ns: general.throttled_ns? })
    }

    fn thread_since(&self, earlier: &Reading, tid: u32) -> OfThread {
        let now = self.threads.get(&tid).copied().unwrap_or_default();
        let then = earlier.threads.get(&tid).copied().unwrap_or_default();
        let since = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        OfThread {
            tid,
            involuntary: since(now.involuntary, then.involuntary),
            run_delay_ns: since(now.run_delay_ns, then.run_delay_ns),
        }
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

fn thread(root: &Root, tid: u32) -> OfThread {
    let status = root.read(&format!("proc/{tid}/status")).unwrap_or_default();
    OfThread {
        tid,
        involuntary: number(&status, "nonvoluntary_ctxt_switches:"),
        run_delay_ns: schedstat(root, &format!("proc/{tid}")).map(|[_, delay_ns, _]| delay_ns),
    }
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
        let threads = [(2, 77)];
        let read = |tree: &str| Reading::take(&Root::tree(tree), &[0, 2, 5], &threads);
        let (before, after) = (read(TREE), read(&later));
        let of_cpu = after.since(&before, 2, &threads);
        let rows = of_cpu.interrupts.expect("the file tells");
        let told: Vec<(&str, bool, u64)> =
            rows.iter().map(|row| (&*row.name, row.is_timer, row.count)).collect();
        assert_eq!(told, [("virtio1-req.0 (interrupt 36)", false, 2), ("LOC", true, 5)]);
        assert_eq!(of_cpu.softirqs.expect("the file tells")[0].count, 2);
        assert_eq!(of_cpu.steal_ns, Some(10_000_000));
        let thread = of_cpu.threads[0];
        assert_eq!((thread.involuntary, thread.run_delay_ns), (Some(1), Some(50)));
        // Another CPU has no thread, and nothing of it moved; an offline one reports nothing.
        let other = after.since(&before, 0, &threads);
        assert_eq!((other.interrupts, other.threads.len()), (Some(Vec::new()), 0));
        assert_eq!(after.since(&before, 5, &threads).interrupts, None);
    }

    #[test]
    fn files_that_may_not_be_read_are_named() {
        let nothing = Reading::take(&Root::tree(""), &[0], &[(0, 77)]);
        let of_cpu = nothing.since(&nothing, 0, &[(0, 77)]);
        let expected = ["interrupts", "soft interrupts", "steal", "involuntary switches"];
        assert_eq!(of_cpu.unreadable(), expected);
        assert_eq!(nothing.throttling_since(&nothing), None);
    }
}
