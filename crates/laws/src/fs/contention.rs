//! Laws of readers that compete: what one reader takes alone, and how many reads the device serves at a
//! time.
//!
//! N readers that each have one read under way are a closed system. Its time for a read is never below
//! that of one reader alone, L, nor below N times what the device takes for each when it has all it can
//! work on, S (asymptotic bounds: Denning and Buzen, "The Operational Analysis of Queueing Network
//! Models", 1978). Flat, then linear; the two lines meet at L / S readers. Between the bounds and their
//! sum lies what a queue adds near that point.
//!
//! L is what data sheets of the class state, or what fs.read measured. S is one over the reads per second
//! with a deep queue, which fs.io measured or a data sheet says; else L over the reads that a device of the
//! class serves at a time (data sheets state 10,000 reads per second one by one and 100,000 at depth 32 of
//! SATA, 15,000 and up to a million of NVMe; a disk that spins gains little but order). Reads also take CPU
//! time, of which there is no more than the readers have CPUs.

use super::read::kernel;
use super::{IOPS, per_second};
use crate::cpu::is_guest;
use crate::device::{FLASH, FLASH_NVME, SPINNING, device, reading};
use crate::{Law, around, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use host::block::Disk;
use record::event::Range;

/// Bytes of a read.
pub const BLOCK_BYTES: f64 = 4096.0;
/// CPU time of a system call, the file system, the block layer and wake-up, in ns: other threads' interrupts
/// are not in it.
const CPU_NS: Range = range(1.5e3, 6e3, 2.5e4);
/// A guest's requests leave it: exits, and threads of the host.
const GUEST: f64 = 2.0;
/// On a disk that spins one reader in order has the disk's own readahead, and several take each other's place
/// from the head: what a read of each then takes, as a share of one at a random place (the buffer holds some
/// of each one's next blocks, or a turn is missed besides). The least is one reader's time with that of a
/// device that serves eight at a time.
const IN_TURNS: Range = range(0.0, 0.4, 1.5);
const FROM_BUFFER: f64 = 8.0;
/// Reads that a device serves at a time: one reader's time over what each of many takes. A disk that spins
/// gains little but order …
const AT_A_TIME_SPINNING_RANDOM: Range = range(0.8, 1.3, 4.0);
/// … SATA has 32 places in its queue, one link, and cheap controllers behind it that do one thing at a
/// time (with two readers each read of R1's, of 2011, took 0.5 ms); NVMe has many, and a die for each …
const AT_A_TIME_FLASH: Range = range(0.5, 6.0, 32.0);
const AT_A_TIME_NVME: Range = range(3.0, 20.0, 200.0);
/// … and a hypervisor may have one thread for a disk, or the host's memory.
const AT_A_TIME_UNKNOWN: Range = range(0.8, 6.0, 100.0);
/// Of two figures of one run: a reader alone against fs.read's, and readers against a deep queue.
const ALONE_SHARE: f64 = 0.3;
const DEEP_SHARE: f64 = 1.0;
/// A queue of fs.io that counts as deep.
const DEEP: u64 = 8;
/// Files' sizes so many times apart count as the same; from one of another size a device may answer out of
/// its own memory.
const NEAR_SIZE: f64 = 64.0;
const FAR: Range = range(0.3, 1.0, 2.0);

/// Readers and where they read.
#[derive(Clone, Copy, Debug)]
pub struct Readers<'a> {
    /// The disk below them, where it is told.
    pub disk: Option<&'a Disk>,
    /// How many there are, the measured one included.
    pub count: u64,
    /// `sequential` or `random`.
    pub pattern: &'a str,
    /// Bytes of each one's file.
    pub size: u64,
}

/// What the laws stand on.
struct Base {
    /// Time of one reader's read, alone, in ns.
    alone: Range,
    /// Reads that the device serves at a time.
    at_a_time: Range,
    /// Time that each read takes of a device that is busy, in ns.
    service: Range,
    /// CPU time of a read, in ns.
    cpu: Range,
    because: String,
}

/// A read of one of `readers.count` readers, in ns.
pub fn latency(site: &Site, known: Option<&Known>, readers: Readers<'_>) -> Law {
    let base = base(site, known, readers);
    let saturates = base.at_a_time;
    Law::of(
        at(&base, site, readers.count as f64),
        match readers.count {
            1 => base.because,
            count => format!(
                "{}; {count} readers: flat until the device has as many reads as it serves at a time ({:.0} to \
                 {:.0} readers), {count} times its own time for each from then on",
                base.because, saturates.low, saturates.high
            ),
        },
    )
}

/// Bytes per second of all readers together.
pub fn bandwidth(site: &Site, known: Option<&Known>, readers: Readers<'_>) -> Law {
    let one = latency(site, known, readers);
    Law::of(
        inverse(readers.count as f64 * BLOCK_BYTES * 1e9, one.range),
        format!("each reader has one block under way; {}", one.because()),
    )
}

/// CPU time of a read, in ns, as the readers' own clocks count it.
pub fn cpu(site: &Site, known: Option<&Known>, readers: Readers<'_>) -> Law {
    let Base { cpu, .. } = base(site, known, readers);
    match measured_cpu(known, readers) {
        Some(ns) => Law::of(
            match readers.count {
                1 => around(ns, 0.5),
                _ => range(0.12 * ns, 0.6 * ns, 1.6 * ns),
            },
            format!(
                "fs.read measured {ns:.0} ns of one reader; software: with several at work a request needs no \
                 notice of its own (the guest's way to its host most of all), while switches come to it"
            ),
        ),
        None => Law::of(
            cpu,
            format!(
                "software: system call, file system, block layer and a switch there and back: {:.1} to {:.0} µs{}",
                cpu.low / 1e3,
                cpu.high / 1e3,
                if is_guest(site) { ", a guest's requests among them" } else { "" }
            ),
        ),
    }
}

/// Jain's index of the readers' shares.
pub fn fairness(site: &Site, readers: Readers<'_>) -> Option<Law> {
    if readers.count < 2 {
        return None;
    }
    let (class, why) = device(readers.disk, site);
    let (low, likely) = match class.name {
        name if name == SPINNING.name => (0.45, 0.93),
        _ if !class.sure => (0.55, 0.985),
        _ => (0.75, 0.99),
    };
    let crowd = site.cpus.len() < readers.count as usize;
    let low = if crowd { 0.8 * low } else { low };
    Some(Law::new(
        low,
        likely,
        1.0,
        format!(
            "software: the block layer serves readers of one priority in turn; base hardware: {why}, which may \
             prefer what lies near{}",
            if crowd {
                "; there are fewer CPUs than readers, so that some wait for one too"
            } else {
                ""
            }
        ),
    ))
}

/// Readers at which the two lines meet.
pub fn saturation(site: &Site, known: Option<&Known>, readers: Readers<'_>) -> Law {
    let base = base(site, known, readers);
    Law::of(
        // As a knee: one reader is the least that can fill anything.
        range(
            base.at_a_time.low.max(1.0),
            base.at_a_time.likely.max(1.0),
            base.at_a_time.high.max(1.0),
        ),
        format!(
            "what one reader takes alone over what the device takes for each of many; {}",
            base.because
        ),
    )
}

/// Slope of the line through the latencies of 1 to `readers.count` readers, in ns per competitor.
pub fn slope(site: &Site, known: Option<&Known>, readers: Readers<'_>) -> Law {
    let base = base(site, known, readers);
    let counts: Vec<f64> = (1..=readers.count.max(2)).map(|count| count as f64).collect();
    let through = |end: fn(&Range) -> f64| {
        let points: Vec<(f64, f64)> =
            counts.iter().map(|count| (*count, end(&at(&base, site, *count)))).collect();
        line(&points).map_or(0.0, |line| line.slope)
    };
    // Below saturation the line is flat, up to what one figure differs from another.
    let flat = 0.05 * base.alone.likely;
    let likely = through(|range| range.likely);
    Law::of(
        range(
            through(|range| range.low).min(likely) - flat,
            likely,
            through(|range| range.high).max(likely) + flat,
        ),
        format!(
            "0 while the device has room, its time for a read once it has none; {}",
            base.because
        ),
    )
}

/// How much of the latencies' variance a line explains.
pub fn linearity() -> Law {
    Law::new(
        0.0,
        0.95,
        1.0,
        "flat, then linear: near 1 where the device saturates early, near 0 where it never does and only noise \
         is left",
    )
}

/// A least-squares line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Rise for each unit of x.
    pub slope: f64,
    /// Share of the variance that the line explains; none where there is no variance.
    pub linearity: Option<f64>,
}

/// The line through points; none through fewer than two places.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (at, value) in points {
        xx += (at - x) * (at - x);
        xy += (at - x) * (value - y);
        yy += (value - y) * (value - y);
    }
    (xx > 0.0).then(|| Line { slope: xy / xx, linearity: (yy > 0.0).then(|| xy * xy / (xx * yy)) })
}

/// The law: between the asymptotes and their sum.
fn at(base: &Base, site: &Site, readers: f64) -> Range {
    let service = busy(base, site, readers);
    let Range { low, likely, high } = scaled(service, readers);
    match readers > 1.0 {
        true => {
            range(base.alone.low.max(low), base.alone.likely.hypot(likely), base.alone.high + high)
        }
        false => base.alone,
    }
}

/// Time for each read where all work at capacity: the device, or the CPUs that the readers have.
fn busy(base: &Base, site: &Site, readers: f64) -> Range {
    let cpus = (site.cpus.len().max(1) as f64).min(readers);
    let of_cpus = scaled(base.cpu, 1.0 / cpus);
    range(
        base.service.low.max(of_cpus.low),
        base.service.likely.max(of_cpus.likely),
        base.service.high.max(of_cpus.high),
    )
}

fn base(site: &Site, known: Option<&Known>, readers: Readers<'_>) -> Base {
    let guest = if is_guest(site) { GUEST } else { 1.0 };
    let cpu = range(CPU_NS.low, CPU_NS.likely * guest.sqrt(), CPU_NS.high * guest);
    let (class, _) = device(readers.disk, site);
    let mut because = Vec::new();
    let alone = match measured_alone(known, readers) {
        Some((ns, is_near)) => {
            because.push(format!(
                "fs.read measured {:.1} µs for a direct block of one reader{}",
                ns / 1e3,
                if is_near { "" } else { ", in a file of quite another size" }
            ));
            match is_near {
                true => around(ns, ALONE_SHARE),
                false => scaled(FAR, ns),
            }
        }
        None => {
            let reading = reading(site, readers.disk, readers.size as f64);
            let device_ns = match readers.pattern {
                "random" => reading.random_ns,
                _ => reading.next_ns,
            };
            let kernel_ns = kernel(site, known);
            because.push(format!(
                "base hardware: {}: {:.0} µs to {:.0} µs for a read; software: {:.0} to {:.0} µs of kernel",
                reading.because,
                device_ns.low / 1e3,
                device_ns.high / 1e3,
                kernel_ns.low / 1e3,
                kernel_ns.high / 1e3
            ));
            sum(device_ns, kernel_ns)
        }
    };
    let iops = measured_iops(known).map(|iops| (iops, "fs.io measured"));
    let given = site.host.given.value("disk.read_iops");
    let (at_a_time, service) = match iops.or(given.map(|iops| (iops, "host.disk.read_iops says"))) {
        Some((iops, from)) => {
            because.push(format!("base hardware: {from} {iops:.0} reads/s with a deep queue"));
            let service = around(1e9 / iops, DEEP_SHARE);
            (product(alone, inverse(1.0, service)), service)
        }
        None if class.name == SPINNING.name && readers.pattern != "random" => {
            let random_ns = reading(site, readers.disk, readers.size as f64).random_ns;
            let service = range(
                alone.low / FROM_BUFFER,
                IN_TURNS.likely * random_ns.likely,
                alone.high.max(IN_TURNS.high * random_ns.high),
            );
            because.push(format!(
                "base hardware: {}: several readers in order take each other's place from the head, {:.1} ms for \
                 a read",
                class.name,
                service.likely / 1e6
            ));
            (product(alone, inverse(1.0, service)), service)
        }
        None => {
            let at_a_time = of_class(class.name);
            because.push(format!(
                "base hardware: {} serves {:.2} to {:.0} reads at a time",
                class.name, at_a_time.low, at_a_time.high
            ));
            // A quick device is quick both ways: ends belong together.
            let service = range(
                alone.low / at_a_time.high,
                alone.likely / at_a_time.likely,
                alone.high / at_a_time.low,
            );
            (at_a_time, service)
        }
    };
    Base { alone, at_a_time, service, cpu, because: because.join("; ") }
}

/// Reads that a device of a class serves at a time.
fn of_class(class: &str) -> Range {
    match class {
        name if name == SPINNING.name => AT_A_TIME_SPINNING_RANDOM,
        name if name == FLASH_NVME.name => AT_A_TIME_NVME,
        name if name == FLASH.name => AT_A_TIME_FLASH,
        _ => AT_A_TIME_UNKNOWN,
    }
}

/// fs.read's direct block in the same pattern, at the nearest size of file, in ns, and whether that is near.
fn measured_alone(known: Option<&Known>, readers: Readers<'_>) -> Option<(f64, bool)> {
    nearest_read(known, readers, "latency")
}

/// Its CPU time, in ns.
fn measured_cpu(known: Option<&Known>, readers: Readers<'_>) -> Option<f64> {
    nearest_read(known, readers, "cpu").map(|(ns, _)| ns)
}

fn nearest_read(known: Option<&Known>, readers: Readers<'_>, metric: &str) -> Option<(f64, bool)> {
    let distance = |size: u64| (size as f64 / readers.size as f64).ln().abs();
    known?
        .of("fs.read", metric)
        .filter(|(case, value)| {
            case.text("mode") == Some("direct")
                && case.text("pattern") == Some(readers.pattern)
                && *value > 0.0
        })
        .filter_map(|(case, value)| Some((distance(case.int("size")?), value)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(distance, value)| (value, distance <= NEAR_SIZE.ln()))
}

/// The most direct reads of a block per second that fs.io had with a deep queue.
fn measured_iops(known: Option<&Known>) -> Option<f64> {
    per_second(known?, "fs.io", IOPS)
        .filter(|(case, value)| {
            case.text("op") == Some("read")
                && case.text("mode").is_none_or(|mode| mode == "direct")
                && case.int("block") == Some(BLOCK_BYTES as u64)
                && case.int("depth").is_some_and(|depth| depth >= DEEP)
                && *value > 0.0
        })
        .map(|(_, value)| value)
        .max_by(f64::total_cmp)
}

/// Whether earlier figures of the run narrow what is said.
pub fn is_known(known: &Known, readers: Readers<'_>) -> bool {
    measured_alone(Some(known), readers).is_some()
}

/// Whether they narrow the CPU time.
pub fn is_cpu_known(known: &Known, readers: Readers<'_>) -> bool {
    measured_cpu(Some(known), readers).is_some()
}

#[cfg(test)]
mod tests;
