//! What one end takes of its CPUs while it sends and receives.
//!
//! The time of the process is exact: the scheduler's own sum (CLOCK_PROCESS_CPUTIME_ID), user and
//! kernel together. What the kernel does for the network outside of it, in softirqs that meet an
//! idle CPU or another process, is reported per CPU only, in the kernel's steps of 10 ms and, if
//! interrupts are not timed, by samples of the tick: beside the process's time, never added to it.

use super::place::listed;
use metal::clock::{Clock, syscall_clock_gettime};
use metal::process;
use record::event::Samples;
use serde::{Deserialize, Serialize};

pub struct Usage {
    cpus: Vec<usize>,
    process_ns: u64,
    before: Counts,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// CPU time of the process: all threads, user and kernel, in ns.
    pub process_ns: u64,
    /// Softirq time of the CPUs used, in steps of 10 ms, in ns; not part of the above if the kernel
    /// times interrupts, and mostly part if it does not.
    pub softirq_ns: u64,
    /// Softirqs of received packets, by CPU: those where there were some.
    pub net_rx: Vec<(usize, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    softirq_ns: u64,
    net_rx: Vec<(usize, u64)>,
}

impl Usage {
    /// Begins a window of this process, whose threads run on `cpus`. Not to be called in a timed
    /// loop: it reads files.
    pub fn begin(cpus: &[usize]) -> Usage {
        let before = Counts::read(cpus);
        Usage { cpus: cpus.to_vec(), before, process_ns: process_ns() }
    }

    pub fn end(self) -> Used {
        let process_ns = process_ns().saturating_sub(self.process_ns);
        let after = Counts::read(&self.cpus);
        let earlier = |cpu: usize| {
            let mut all = self.before.net_rx.iter();
            all.find(|(of, _)| *of == cpu).map_or(0, |(_, count)| *count)
        };
        let net_rx =
            after.net_rx.iter().map(|&(cpu, count)| (cpu, count.saturating_sub(earlier(cpu))));
        Used {
            process_ns,
            softirq_ns: after.softirq_ns.saturating_sub(self.before.softirq_ns),
            net_rx: net_rx.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl Used {
    /// CPU time of the process per item (message, byte), in ns.
    pub fn each_ns(&self, items: u64) -> f64 {
        self.process_ns as f64 / items.max(1) as f64
    }

    /// Puts what the kernel did outside of the process beside its figure, and the CPU on which it
    /// last handled a packet.
    pub(super) fn describe(&self, softirq_cpu: Option<usize>, samples: &mut Samples) {
        samples.set_quantities([("softirq_ns", self.softirq_ns as f64)]);
        samples.at.extend(listed(softirq_cpu).map(|cpu| ("softirq_cpu".to_owned(), cpu)));
    }

    /// Softirqs of received packets on all CPUs: other traffic's too.
    pub fn received(&self) -> u64 {
        self.net_rx.iter().map(|(_, count)| count).sum()
    }
}

fn process_ns() -> u64 {
    syscall_clock_gettime(Clock::PROCESS_CPU)
}

/// CPU time of the calling thread, in ns.
pub fn thread_cpu_ns() -> u64 {
    syscall_clock_gettime(Clock::THREAD_CPU)
}

/// Turns that threads of this process take on a CPU that they share: the scheduler's doing while a
/// case makes them contend on purpose, and no disturbance.
pub(super) struct Turns(u64);

impl Turns {
    pub(super) fn begin() -> Turns {
        Turns(process::rusage_self().nivcsw)
    }

    /// Switches against a thread's will so far.
    pub(super) fn taken(&self) -> u64 {
        process::rusage_self().nivcsw.saturating_sub(self.0)
    }
}

impl Counts {
    fn read(cpus: &[usize]) -> Counts {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Counts {
            softirq_ns: softirq_ns(&read("/proc/stat"), cpus),
            net_rx: net_rx(&read("/proc/softirqs")),
        }
    }
}

/// Softirq time of CPUs in a text as /proc/stat is, in ns.
fn softirq_ns(stat: &str, cpus: &[usize]) -> u64 {
    /// Of `cpuN user nice system idle iowait irq softirq …`, in 1/100 s.
    const SOFTIRQ: usize = 7;
    const STEP_NS: u64 = 10_000_000;
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let cpu: usize = words.first()?.strip_prefix("cpu")?.parse().ok()?;
        let steps: u64 = words.get(SOFTIRQ)?.parse().ok()?;
        cpus.contains(&cpu).then_some(steps * STEP_NS)
    };
    stat.lines().filter_map(of_line).sum()
}

/// Softirqs of received packets by CPU, in a text as /proc/softirqs is.
fn net_rx(softirqs: &str) -> Vec<(usize, u64)> {
    let mut lines = softirqs.lines();
    let cpus = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus = cpus.filter_map(|name| name.strip_prefix("CPU")?.parse().ok());
    let mut rows = lines.map(str::split_ascii_whitespace);
    let row = rows.find_map(|mut words| (words.next() == Some("NET_RX:")).then_some(words));
    let counts = row.into_iter().flatten().filter_map(|count| count.parse().ok());
    cpus.zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::{Usage, Used, net_rx, softirq_ns};
    use std::hint::black_box;

    #[test]
    fn softirqs_are_read_by_cpu() {
        let stat = "cpu  9 9 9 9 9 9 9 0\ncpu0 1 2 3 4 5 6 70 0\ncpu2 1 2 3 4 5 6 8 0\nintr 5\n";
        assert_eq!(softirq_ns(stat, &[2]), 80_000_000);
        assert_eq!(softirq_ns(stat, &[0, 2]), 780_000_000);
        assert_eq!(softirq_ns(stat, &[1]), 0);
        let softirqs = "        CPU0  CPU2\n  HI: 1 2\nNET_TX: 3 4\nNET_RX: 50 60\n";
        assert_eq!(net_rx(softirqs), [(0, 50), (2, 60)]);
        assert_eq!(net_rx(""), []);
    }

    #[test]
    fn what_a_process_works_is_counted() {
        let usage = Usage::begin(&[0]);
        let mut sum = 0u64;
        for number in 0..3_000_000u64 {
            sum = black_box(sum.wrapping_add(number));
        }
        let used = usage.end();
        assert!(used.process_ns > 100_000, "{used:?}");
        let used = Used { process_ns: 1000, softirq_ns: 0, net_rx: vec![(0, 3), (1, 9)] };
        assert_eq!(used.each_ns(4), 250.0);
        assert_eq!(used.received(), 12);
    }
}
