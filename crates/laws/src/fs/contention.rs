//! Laws of readers that compete: what one reader takes alone, and how many reads the device serves
//! at a time.
//!
//! N readers that each have one read under way are a closed system. Its time for a read is never
//! below that of one reader alone, L, nor below N times what the device takes for each when it has
//! all it can work on, S (asymptotic bounds: Denning and Buzen, "The Operational Analysis of
//! Queueing Network Models", 1978). Flat, then linear; the two lines meet at L / S readers. Between
//! the bounds and their sum lies what a queue adds near that point.
//!
//! L is what data sheets of the class state, or what fs.read measured. S is one over the reads per
//! second with a deep queue, which fs.io measured or a data sheet says; else L over the reads that
//! a device of the class serves at a time (data sheets state 10,000 reads per second one by one and
//! 100,000 at depth 32 of SATA, 15,000 and up to a million of NVMe; a disk that spins gains little
//! but order). Reads also take CPU time, limited by the number of CPUs.

use super::read::kernel;
use super::{BLOCK_BYTES, Mode, Pattern, disk, figures, read_figures};
use crate::cpu::is_guest;
use crate::device::{FLASH, FLASH_NVME, SPINNING, device, reading, term};
use crate::line::line;
use crate::{Facts, Law, around, end_by_end, inverse, product, range, scaled, sum};
use bench::experiment::Site;
use record::event::Range;
use record::key::CaseId;

/// CPU time of a system call, the file system, the block layer and wake-up, in ns: other threads'
/// interrupts are not in it.
const CPU_NS: Range = range(1.5e3, 6e3, 2.5e4);
/// A guest's requests leave it: exits, and threads of the host.
const GUEST: f64 = 2.0;
/// On a disk that spins one reader in order has the disk's own readahead, and several take each
/// other's place from the head: what a read of each then takes, as a share of one at a random place
/// (the buffer holds some of each one's next blocks, or a turn is missed besides). The least is one
/// reader's time with that of a device that serves eight at a time.
const IN_TURNS: Range = range(0.0, 0.4, 1.5);
const FROM_BUFFER: f64 = 8.0;
/// Flash off NVMe reads ahead in order too. Where it keeps what it read for each reader, several in
/// order share it like one (R2); where it does not, each read is one at a random place, and so many
/// bytes are read for nothing (R1: 0.5 ms a read from two readers on).
const LOST_BYTES: f64 = 131_072.0;
/// CPU time of a read beside other readers, over that of one alone: they share interrupts, and no
/// CPU sleeps in between.
const BESIDE: Range = range(0.12, 0.6, 1.6);
/// Of two figures of one run: a reader alone against fs.read's, and readers against a deep queue.
const ALONE_SHARE: f64 = 0.3;
const DEEP_SHARE: f64 = 1.0;
/// A queue of fs.io that counts as deep.
const DEEP: u64 = 8;
/// Files' sizes so many times apart count as the same; from one of another size a device may answer
/// out of its own memory.
const NEAR_SIZE: f64 = 64.0;
const FAR: Range = range(0.3, 1.0, 2.0);

/// Readers and where they read.
#[derive(Clone, Copy, Debug)]
pub struct Readers {
    /// How many there are, the measured one included.
    pub count: u64,
    /// How each goes through its file.
    pub pattern: Pattern,
    /// Bytes of each one's file.
    pub size: u64,
}

/// What the laws stand on.
struct Base {
    /// Time of one reader's read, alone, in ns.
    alone: Law,
    /// Time that each read takes of a device that is busy, in ns.
    service: Law,
    /// Reads that the device serves at a time.
    at_a_time: Range,
    /// CPU time of a read, in ns.
    cpu: Range,
}

/// A read of one of `readers.count` readers, in ns.
pub fn latency(facts: Facts, readers: Readers) -> Law {
    let base = base(facts, readers);
    let count = readers.count;
    let Range { low, high, .. } = base.at_a_time;
    let why = format!("latency is flat up to {low:.0} to {high:.0} readers, then linear");
    base.law(base.predicted_range(facts.site, count as f64)).when(count != 1, |law| law.and(why))
}

/// Bytes per second of all readers together.
pub fn bandwidth(facts: Facts, readers: Readers) -> Law {
    let bytes = readers.count as f64 * BLOCK_BYTES * 1e9;
    latency(facts, readers).inverse(bytes).and("each reader has one block in flight")
}

/// CPU time of a read, in ns, as the readers' own clocks count it.
pub fn cpu(facts: Facts, readers: Readers) -> Law {
    let Some((ns, _)) = nearest_read(facts, readers, "cpu") else {
        let what = "system call, file system, block layer and two context switches";
        return Law::software(base(facts, readers).cpu, what).when(readers.count != 1, |alone| {
            alone.by(BESIDE).and("several readers share completion interrupts")
        });
    };
    let of = if readers.count == 1 { around(ns, 0.5) } else { scaled(BESIDE, ns) };
    Law::software(of, format!("{ns:.0} ns for one reader (measured by fs.read)"))
        .and("several readers share completion interrupts, and add context switches")
}

/// Jain's index of the readers' shares.
pub fn fairness(site: &Site, readers: Readers) -> Option<Law> {
    if readers.count < 2 {
        return None;
    }
    let (class, _) = device(disk(site), site);
    let (low, likely) = match class.name {
        name if name == SPINNING.name => (0.45, 0.93),
        _ if !class.sure => (0.55, 0.985),
        _ => (0.75, 0.99),
    };
    let is_crowd = site.cpus.len() < readers.count as usize;
    let low = if is_crowd { 0.8 * low } else { low };
    let law = term(site, disk(site), range(low, likely, 1.0));
    let law = law.and("serves near blocks first, and readers of equal priority in turn");
    Some(law.when(is_crowd, |law| law.and("fewer CPUs than readers, so some wait for a CPU")))
}

/// Readers at which the two lines meet.
pub fn saturation(facts: Facts, readers: Readers) -> Law {
    let base = base(facts, readers);
    // As a knee: one reader is the least that can fill anything.
    let Range { low, likely, high } = base.at_a_time;
    base.law(range(low.max(1.0), likely.max(1.0), high.max(1.0)))
        .and("latency of one reader over the device's time per read under load")
}

/// Slope of the line through the latencies of 1 to `readers.count` readers, in ns per competitor.
pub fn slope(facts: Facts, readers: Readers) -> Law {
    let base = base(facts, readers);
    let counts: Vec<f64> = (1..=readers.count.max(2)).map(|count| count as f64).collect();
    let through = |end: fn(&Range) -> f64| {
        let point = |count: &f64| (*count, end(&base.predicted_range(facts.site, *count)));
        let points: Vec<(f64, f64)> = counts.iter().map(point).collect();
        line(&points).map_or(0.0, |line| line.slope)
    };
    // Below saturation the line is flat, up to what one figure differs from another.
    let flat = 0.05 * base.alone.range.likely;
    let likely = through(|range| range.likely);
    let low = through(|range| range.low).min(likely) - flat;
    let high = through(|range| range.high).max(likely) + flat;
    base.law(range(low, likely, high))
        .and("0 while the device has spare capacity, then the device's time per read")
}

/// How much of the latencies' variance a line explains.
pub fn linearity() -> Law {
    Law::new(0.0, 0.95, 1.0, "near 1 if the device saturates early")
}

impl Base {
    /// An interval that follows from both.
    fn law(&self, of: Range) -> Law {
        let both = self.alone.clone().with(&self.service);
        // Whose share is whose is known of one reader alone.
        match of == self.alone.range {
            true => both,
            false => Law::from_range(of, "").with(&both),
        }
    }

    /// The law: between the asymptotes and their sum.
    fn predicted_range(&self, site: &Site, readers: f64) -> Range {
        let alone = self.alone.range;
        let Range { low, likely, high } = scaled(self.busy(site, readers), readers);
        match readers > 1.0 {
            true => range(alone.low.max(low), alone.likely.hypot(likely), alone.high + high),
            false => alone,
        }
    }

    /// Time for each read where all work at capacity: the device, or the CPUs that the readers
    /// have.
    fn busy(&self, site: &Site, readers: f64) -> Range {
        let cpus = (site.cpus.len().max(1) as f64).min(readers);
        end_by_end(self.service.range, scaled(self.cpu, 1.0 / cpus), f64::max)
    }
}

fn base(facts: Facts, readers: Readers) -> Base {
    let site = facts.site;
    let guest = if is_guest(site) { GUEST } else { 1.0 };
    let cpu = range(CPU_NS.low, CPU_NS.likely * guest.sqrt(), CPU_NS.high * guest);
    let reading = reading(site, disk(site), readers.size as f64);
    let alone = match nearest_read(facts, readers, "latency") {
        Some((ns, is_near)) => {
            let (of, which) = match is_near {
                true => (around(ns, ALONE_SHARE), "a file of this size"),
                false => (scaled(FAR, ns), "a file of another size"),
            };
            let us = ns / 1e3;
            Law::from_range(
                of,
                format!("{us:.1} µs for a direct block of {which} (measured by fs.read)"),
            )
        }
        None => reading.block(readers.pattern).clone() + kernel(facts),
    };
    let given = site.host.given.value("disk.read_iops");
    let iops = measured_iops(facts).map(|iops| (iops, "fs.io measured"));
    let class = reading.class.name;
    let (service, why, at_a_time) = match iops
        .or(given.map(|iops| (iops, "host.disk.read_iops says")))
    {
        Some((iops, from)) => {
            let why = format!("{from} {iops:.0} reads/s with a deep queue");
            (around(1e9 / iops, DEEP_SHARE), why, None)
        }
        None if class == SPINNING.name && readers.pattern == Pattern::Sequential => {
            let (alone, random) = (alone.range, reading.random.range);
            let service = range(
                alone.low / FROM_BUFFER,
                IN_TURNS.likely * random.likely,
                alone.high.max(IN_TURNS.high * random.high),
            );
            let why = "several sequential readers move the head away from each other".to_owned();
            (service, why, None)
        }
        None => {
            let at_a_time = of_class(class);
            // A quick device is quick both ways: ends belong together.
            let mut service = range(
                alone.range.low / at_a_time.high,
                alone.range.likely / at_a_time.likely,
                alone.range.high / at_a_time.low,
            );
            let Range { low, high, .. } = at_a_time;
            let mut why = format!("{class} serves {low:.2} to {high:.0} reads at a time");
            if class == FLASH.name && readers.pattern == Pattern::Sequential {
                let lost = sum(reading.random.range, inverse(LOST_BYTES, reading.rate.range));
                service.likely = (service.likely * lost.likely).sqrt();
                service.high = service.high.max(lost.high);
                why += ", or loses what it read ahead for each";
            }
            (service, why, Some(at_a_time))
        }
    };
    let at_a_time = at_a_time.unwrap_or_else(|| product(alone.range, inverse(1.0, service)));
    Base { alone, service: Law::hardware(service, why), at_a_time, cpu }
}

/// Reads that a device of a class serves at a time: one reader's time over what each of many takes.
fn of_class(class: &str) -> Range {
    match class {
        // It gains little but order.
        name if name == SPINNING.name => range(0.8, 1.3, 4.0),
        // Many places in its queue, and a die for each.
        name if name == FLASH_NVME.name => range(3.0, 20.0, 200.0),
        // SATA has 32 places in its queue, one link, and cheap controllers behind it that do one
        // thing at a time (with two readers each read of R1's, of 2011, took 0.5 ms).
        name if name == FLASH.name => range(0.5, 6.0, 32.0),
        // A hypervisor may have one thread for a disk, or the host's memory.
        _ => range(0.8, 6.0, 100.0),
    }
}

/// fs.read's direct block in the same pattern, at the nearest size of file, and whether that is
/// near.
fn nearest_read(facts: Facts, readers: Readers, metric: &'static str) -> Option<(f64, bool)> {
    let distance = |size: u64| (size as f64 / readers.size as f64).ln().abs();
    read_figures(facts, Some(readers.pattern), Mode::Direct.text(), metric)
        .filter(|(size, _)| *size > 0)
        .map(|(size, value)| (distance(size), value))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(distance, value)| (value, distance <= NEAR_SIZE.ln()))
}

/// The most direct reads of a block per second that fs.io had with a deep queue.
fn measured_iops(facts: Facts) -> Option<f64> {
    let is_it = |case: &CaseId| {
        case.text("op") == Some("read")
            && case.text("mode").is_none_or(|mode| mode == "direct")
            && case.int("block") == Some(BLOCK_BYTES as u64)
            && case.int("depth").is_some_and(|depth| depth >= DEEP)
    };
    let of = figures(facts, "fs.io", "iops").filter(|(case, _)| is_it(case));
    of.map(|(_, value)| value).max_by(f64::total_cmp)
}

/// Whether earlier figures of the run narrow what is said of a metric.
pub fn is_known(facts: Facts, readers: Readers, metric: &str) -> bool {
    match metric {
        "fairness" | "linearity" => false,
        "cpu" => nearest_read(facts, readers, "cpu").is_some(),
        _ => nearest_read(facts, readers, "latency").is_some(),
    }
}

#[cfg(test)]
mod tests;
