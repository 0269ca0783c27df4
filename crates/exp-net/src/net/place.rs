//! Where both ends run, which is a case and never an accident, and what one takes of its CPUs while
//! it sends and receives.

use bench::experiment::placement::far_cpu;
use bench::measure::{FarEnd, beside};
use bench::pair::Class;
use bench::prelude::*;
use laws::net::Ends;
use metal::clock::{Clock, syscall_clock_gettime};
use metal::place::{current_cpu, pin};
use metal::process;
use record::event::Samples;
use record::key::{FAR, LOOPBACK};
use record::order::Gather;
use serde::{Deserialize, Serialize};

/// Why a site does not allow the ends.
pub fn absent(site: &Site, ends: Ends) -> Option<Skip> {
    if ends.cpus(site).is_some() {
        return None;
    }
    let present: Vec<&str> = Ends::present(site).iter().map(|ends| ends.text()).collect();
    let skip = Skip::because(format!(
        "ends=`{}` is impossible with far=`{}`; possible: {}",
        ends.text(),
        site.far(),
        present.join(", ")
    ));
    Some(match ends {
        Ends::OtherCpu if site.peer.is_none() => {
            skip.needs("a second CPU, allowed and listed in --cpu")
        }
        Ends::TwoHosts => skip.needs("another host: --peer URL"),
        _ => skip,
    })
}

/// Writes both CPUs into what the cases' `ends` resolved to, for CPUs of one host with their
/// distance. Where the scheduler places the threads, the planner names the CPUs.
pub fn place_all<C: Fields>(site: &Site, mut series: Series, ends: fn(&C) -> Ends) -> Series {
    for case in series.cases.iter_mut().filter(|case| !is_free(case)) {
        let Some(ends) = C::from_id(&case.id).map(|case| ends(&case)) else {
            continue;
        };
        let Some([near, far]) = ends.cpus(site) else {
            continue;
        };
        case.at.put("near_cpu", near as u64);
        case.at.put("far_cpu", far as u64);
        if ends == Ends::OtherCpu {
            case.at.put("distance", Class::from(site.host.cpu.distance(near, far)).text());
        }
    }
    series
}

/// Whether the scheduler places the threads of both ends: they wait for an interface.
pub fn is_free(case: &Case) -> bool {
    case.id.text(FAR).is_some_and(|far| far != LOOPBACK)
}

/// The CPUs that the near end's calling thread is on: one, or where it is free all of the round.
pub fn near_cpus(bench: &Bench, case: &Case) -> Result<Vec<usize>> {
    if is_free(case) {
        return Ok(bench.order().cpus.clone());
    }
    let cpu = placed(case, "near_cpu")?;
    ensure!(
        bench.order().cpu() == cpu && current_cpu() == cpu,
        "the case needs CPU {cpu}, but the round has CPU {} and the thread runs on CPU {}",
        bench.order().cpu(),
        current_cpu()
    );
    Ok(vec![cpu])
}

/// Pins the calling thread, which serves a case, to the far end's CPU (on another host the first of
/// its own order), unless it is free; the CPUs that it is on then.
pub fn pin_far(far: &mut FarEnd, case: &Case, ends: Ends) -> Result<Vec<usize>> {
    let all = &far.order().cpus;
    let cpus = match (is_free(case), ends) {
        (true, _) => all.clone(),
        (false, Ends::TwoHosts) => vec![*all.first().context("the order has no CPU")?],
        (false, _) => vec![far_cpu(case).context("the case has no far_cpu")?],
    };
    if let [cpu] = *cpus {
        pin(cpu).with_context(|| format!("pinning the far end to CPU {cpu}"))?;
    }
    far.use_cpus(&cpus);
    Ok(cpus)
}

/// Where the threads of an end run: on its CPUs, or where the scheduler places them.
pub fn places(cpus: &[usize], is_free: bool) -> impl Iterator<Item = Option<usize>> {
    cpus.iter().map(move |cpu| (!is_free).then_some(*cpu))
}

/// Has every connection of an end worked at once, each in a thread, but the first in the calling
/// one, which is there already. Once all are prepared they begin.
pub fn at_once<T: Send, P, R: Send>(
    connections: impl IntoIterator<Item = T>,
    places: impl Iterator<Item = Option<usize>>,
    prepare: impl Fn(T) -> Result<P> + Sync,
    work: impl Fn(P) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut connections = connections.into_iter();
    let first = connections.next().context("no connection")?;
    let others = places.skip(1).zip(connections).collect();
    let (found, others) = beside(others, &prepare, &work, |gate| {
        let prepared = prepare(first);
        gate.open();
        work(prepared?)
    })?;
    std::iter::once(found).chain(others).collect()
}

pub fn placed(case: &Case, name: &str) -> Result<usize> {
    let cpu = case.at.get(name).and_then(Value::int);
    let cpu = cpu.with_context(|| format!("{} has no {name}", case.id))?;
    Ok(usize::try_from(cpu)?)
}

pub fn only(cpus: &[usize]) -> Option<usize> {
    match cpus {
        [cpu] => Some(*cpu),
        _ => None,
    }
}

/// CPUs as a record names them: one by its number, several in a list.
pub fn listed(cpus: impl IntoIterator<Item = usize>) -> Option<Value> {
    let cpus: std::collections::BTreeSet<usize> = cpus.into_iter().gather();
    match cpus.len() {
        0 => None,
        1 => cpus.first().map(|cpu| Value::Int(*cpu as u64)),
        _ => {
            let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
            Some(Value::from(names.join(",")))
        }
    }
}

/// The time of the process is exact: the scheduler's own sum (CLOCK_PROCESS_CPUTIME_ID), user and
/// kernel together. What the kernel does for the network outside of it, in softirqs that meet an
/// idle CPU or another process, is reported per CPU only, in the kernel's steps of 10 ms and, if
/// interrupts are not timed, by samples of the tick: beside the process's time, never added to it.
pub struct Usage {
    cpus: Vec<usize>,
    before: Used,
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

impl Usage {
    /// Begins a window of this process, whose threads run on `cpus`. Not to be called in a timed
    /// loop: it reads files.
    pub fn begin(cpus: &[usize]) -> Usage {
        let before = Used::of_kernel(cpus);
        Usage { cpus: cpus.to_vec(), before: Used { process_ns: process_ns(), ..before } }
    }

    pub fn end(self) -> Used {
        let process_ns = process_ns().saturating_sub(self.before.process_ns);
        let after = Used::of_kernel(&self.cpus);
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
    /// What the kernel has counted for CPUs since it began.
    fn of_kernel(cpus: &[usize]) -> Used {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Used {
            process_ns: 0,
            softirq_ns: softirq_ns(&read("/proc/stat"), cpus),
            net_rx: net_rx(&read("/proc/softirqs")),
        }
    }

    /// CPU time of the process per item (message, byte), in ns.
    pub fn each_ns(&self, items: u64) -> f64 {
        self.process_ns as f64 / items.max(1) as f64
    }

    /// Puts what the kernel did outside of the process beside its figure, and the CPU on which it
    /// last handled a packet.
    pub(super) fn describe(&self, softirq_cpu: Option<usize>, samples: &mut Samples) {
        samples.set_quantities([("softirq_ns", self.softirq_ns as f64)]);
        samples.at.put_known("softirq_cpu", listed(softirq_cpu));
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
    let (_, rows) = host::interrupts::rows(softirqs);
    rows.into_iter().find(|row| row.name == "NET_RX").map_or_else(Vec::new, |row| row.counts)
}

#[cfg(test)]
mod tests {
    use super::{Usage, Used, listed, net_rx, place_all, softirq_ns};
    use bench::experiment::fixtures::recorded;
    use bench::prelude::*;
    use laws::net::Ends;
    use laws::net::connect::{Connections, Listener};
    use std::hint::black_box;

    #[test]
    fn a_placed_case_has_its_cpus_and_how_far_they_are() {
        let site = recorded("epyc-7763-2s");
        let (ends, listener) = (Ends::OtherCpu, Listener::Ready);
        let case = Connections { ends, listener, closer: None };
        let series = Series::new("net.none", Order::Fixed, vec![Case::new(case.id())]);
        let series = place_all(&site, series, |case: &Connections| case.ends);
        let case = &series.cases[0];
        let int = |name: &str| case.at.get(name).and_then(Value::int);
        assert_eq!(int("near_cpu"), Some(site.cpus[0] as u64));
        assert_eq!(int("far_cpu"), Some(site.cpus[1] as u64));
        assert!(case.at.contains_key("distance"));
    }

    #[test]
    fn every_cpu_that_packets_arrived_on_has_a_name() {
        assert_eq!(listed([]), None);
        assert_eq!(listed([3]), Some(Value::Int(3)));
        assert_eq!(listed([10, 3]), Some(Value::from("3,10")));
    }

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
