//! Laws of reads and writes: what a device takes for one, what it gives when many are asked for at a
//! time, and what the kernel takes of the CPU.
//!
//! Intervals of writes and flushes are written from data sheets and usual figures (a drive's buffer takes
//! a write in tens of µs; drives whose buffers outlive a power cut answer a flush as fast, others write
//! it: 0.5 to 8 ms for flash, one to several turns for a disk that spins), as are the rates at which
//! classes of devices saturate (SATA: 32 commands; NVMe drives state 0.05 to 3 million reads per second).

mod measured;

use super::limit::{self, Limit};
use crate::cpu::{is_guest, time_of};
use crate::device::{self, FLASH, FLASH_NVME, SPINNING};
use crate::os::{entry, measured_read};
use crate::{Facts, Law, around, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site, unknown};
use host::block::Disk;
use measured::{measured, measured_cpu, streamed};
use record::event::{Prediction, Range};

/// What a case asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'case> {
    /// It reads; else it writes.
    pub is_read: bool,
    /// At random places.
    pub is_random: bool,
    /// Symbol of `fs.io`'s `mode`.
    pub mode: &'case str,
    /// Bytes.
    pub block: f64,
    /// By a ring.
    pub is_ring: bool,
    /// Operations in flight of a thread.
    pub depth: f64,
    /// Threads.
    pub threads: f64,
    /// Bytes of the file.
    pub span: f64,
    /// Name of the disk, where there is one.
    pub device: Option<&'case str>,
    /// Symbol of what lies below.
    pub ground: &'case str,
}

/// A block that a device's class is stated for.
const PAGE: f64 = 4096.0;
/// A page of the cache looked up, the first of an operation and each further, in cycles.
const LOOK_UP: Range = range(120.0, 400.0, 1600.0);
const NEXT_PAGE: Range = range(20.0, 120.0, 600.0);
/// A write into the page cache: what the file system does for the operation, and for each page.
const BEGIN: Range = range(150.0, 900.0, 8000.0);
const DIRTY: Range = range(50.0, 350.0, 3500.0);
/// Bytes per ns of a copy between cache and user, where the data is in some cache or in memory.
const COPY: Range = range(3.0, 14.0, 80.0);
/// An operation past the cache, by a call that sleeps, and by a ring, in cycles; and each page of it.
const BLOCKED: Range = range(5e3, 1.8e4, 1.2e5);
const RINGED: Range = range(2e3, 1e4, 9e4);
const PINNED: Range = range(15.0, 110.0, 900.0);
/// A flush: a request of its own, slept for, and perhaps the journal.
const SYNCED: Range = range(4e3, 2.5e4, 3e5);
/// What a cold page needs beyond a cached one.
const FETCHED: Range = range(1.5e3, 1e4, 9e4);

/// What a class of devices does beside reads.
struct Writing {
    /// 4 KiB that the device has, in ns.
    write_ns: Range,
    /// A flush of its cache, in ns.
    flush_ns: Range,
    /// Bytes per ns written, over those read.
    rate: Range,
    /// Operations per second when many are asked for.
    most: Range,
}

const NVME: Writing = Writing {
    write_ns: range(6e3, 2.5e4, 1e6),
    flush_ns: range(3e3, 6e5, 8e6),
    rate: range(0.15, 0.6, 1.1),
    most: range(4e4, 4e5, 3e6),
};
const SATA: Writing = Writing {
    write_ns: range(2e4, 6e4, 2e6),
    flush_ns: range(1e5, 2e6, 2e7),
    rate: range(0.15, 0.9, 1.2),
    most: range(1.5e4, 7.5e4, 1.1e5),
};
const SPUN: Writing = Writing {
    write_ns: range(4e4, 1e6, 3e7),
    flush_ns: range(4e6, 1.7e7, 9e7),
    rate: range(0.6, 0.95, 1.2),
    most: range(60.0, 220.0, 3e4),
};
/// Any of them, or the memory of a host; clouds limit rates as well.
const ANY: Writing = Writing {
    write_ns: range(8e3, 1.2e5, 2.5e7),
    flush_ns: range(4e3, 7e5, 6e7),
    rate: range(0.1, 0.7, 1.6),
    most: range(80.0, 3e4, 1.5e6),
};

/// A figure of a case; `None` where earlier figures add nothing to its prior.
pub fn predict(
    site: &Site,
    known: Option<&Known>,
    request: &Request,
    metric: &str,
) -> Option<Prediction> {
    if !["latency", "iops", "bandwidth", "cpu"].contains(&metric) {
        return Some(unknown("unknown: no law tells of it"));
    }
    let estimate = told_of(site, known, request, metric)?;
    // A figure of the run that changes nothing says nothing.
    let adds = |prior: Law| prior.range != estimate.range;
    if known.is_some() && !told_of(site, None, request, metric).is_none_or(adds) {
        return None;
    }
    Some(estimate.prediction())
}

/// A figure of a case; `None` where nothing is known of the run that it is made from.
fn told_of(site: &Site, known: Option<&Known>, request: &Request, metric: &str) -> Option<Law> {
    let basis = Basis::of(site, known, request);
    if known.is_some() && !basis.is_known(metric) {
        return None;
    }
    Some(match metric {
        "latency" => basis.latency(),
        "iops" => basis.rate(),
        "bandwidth" => {
            let rate = basis.rate();
            Law::of(
                scaled(rate.range, request.block),
                format!("{}; times the block", rate.because()),
            )
        }
        _ => basis.cpu(),
    })
}

/// What a plan states for one operation, in ns: more than most devices of the kind take.
pub fn stated_ns(site: &Site, request: &Request) -> f64 {
    let (class, _) = device::device(disk(site, request), site);
    let is_slow = class.name == SPINNING.name;
    let in_memory = request.mode == "cached" || request.mode == "buffered";
    let (single, flush, rate) = match is_slow {
        true => (1.2e7, 3e7, 0.08),
        false => (4e5, 3e6, 0.3),
    };
    if in_memory {
        return 5e3 + request.block;
    }
    let synced = if request.waits_for_flush() { flush } else { 0.0 };
    // A disk that spins has one head; others serve several at a time.
    let at_a_time = request.depth.min(if is_slow { 2.0 } else { 8.0 });
    single / at_a_time + synced + request.block / rate
}

impl Request<'_> {
    fn waits_for_flush(&self) -> bool {
        matches!(self.mode, "buffered_fdatasync" | "dsync")
    }

    fn is_in_memory(&self) -> bool {
        matches!(self.mode, "cached" | "buffered")
    }

    fn pages(&self) -> f64 {
        (self.block / PAGE).max(1.0)
    }

    fn in_flight(&self) -> f64 {
        self.depth * self.threads
    }
}

fn disk<'site>(site: &'site Site, request: &Request) -> Option<&'site Disk> {
    let disks = &site.host.block.disks;
    let name = request.device?;
    disks.iter().find(|disk| disk.name == name)
}

/// What figures of a case are made from.
struct Basis<'law> {
    site: &'law Site,
    known: Option<&'law Known>,
    request: &'law Request<'law>,
    /// One operation, alone.
    single: Law,
    /// Its part that is the kernel's and the copy's.
    in_memory: Law,
    writing: Writing,
    /// Bytes per ns.
    rate: Range,
    /// fs.read measured this way to read.
    is_measured: bool,
    /// fs.read measured what the device gives in a row, and the block is longer than a page.
    is_rate_measured: bool,
}

impl<'law> Basis<'law> {
    fn of(site: &'law Site, known: Option<&'law Known>, request: &'law Request<'law>) -> Self {
        let disk = disk(site, request);
        let reading = device::reading(site, disk, request.span);
        let (class, _) = device::device(disk, site);
        let mut writing = match class.name {
            name if name == FLASH_NVME.name => NVME,
            name if name == FLASH.name => SATA,
            name if name == SPINNING.name => SPUN,
            _ => ANY,
        };
        let given = |name: &str| site.host.given.value(name);
        if let Some(ns) = given("disk.write_latency") {
            writing.write_ns = around(ns, 0.5);
        }
        if let Some(ns) = given("disk.flush_latency") {
            writing.flush_ns = around(ns, 0.5);
        }
        let most = if request.is_read { "disk.read_iops" } else { "disk.write_iops" };
        if let Some(most) = given(most) {
            writing.most = around(most, 0.3);
        }
        let mut rate = reading.rate;
        if !request.is_read {
            rate = match given("disk.write") {
                Some(rate) => around(rate / 1e9, 0.4),
                None => product(rate, writing.rate),
            };
        }
        let streamed = known
            .filter(|_| request.is_read && request.block > PAGE && !request.is_in_memory())
            .and_then(streamed);
        if let Some(measured) = streamed {
            // Blocks at random get less of a device than a stream, and many at a time may get more.
            rate = range(0.3 * measured, measured, 3.0 * measured);
        }
        let in_memory = in_memory(site, known, request);
        let measured = known.and_then(|known| measured(known, request));
        let parts = Parts { reading: &reading, writing: &writing, rate, disk };
        let mut single = match request.is_in_memory() {
            true => in_memory.clone(),
            false => parts.single(request, &in_memory, measured),
        };
        if let (Some(ns), true) = (measured, request.mode == "cached" && request.block == PAGE) {
            single = Law::of(
                around(ns, 0.5),
                format!("{ns:.0} ns for such a block (measured by fs.read)"),
            );
        }
        if !matches!(request.ground, "device" | "memory") && !request.is_in_memory() {
            single = single.widened(3.0, 4.0, "what answers is no device of this machine's");
        }
        Basis {
            site,
            known,
            request,
            single,
            in_memory,
            writing,
            rate,
            is_measured: measured.is_some(),
            is_rate_measured: streamed.is_some(),
        }
    }

    fn is_known(&self, metric: &str) -> bool {
        let entry = |known: &Known| measured_read(known, "clock_gettime_syscall").is_some();
        match self.request.is_in_memory() {
            true => self.is_measured || self.known.is_some_and(entry),
            false if metric == "cpu" => {
                let known = self.known;
                known.is_some_and(|known| measured_cpu(known, self.request).is_some())
            }
            false => self.is_measured || self.is_rate_measured,
        }
    }

    /// Operations per second of all threads.
    fn rate(&self) -> Law {
        let free = self.free_rate();
        match self.limit() {
            Some(limit) => limit.rate(free),
            None => free,
        }
    }

    /// The same without a limit.
    fn free_rate(&self) -> Law {
        let request = self.request;
        let alone = inverse(1e9, self.single.range);
        let cpus = self.site.cpus.len().max(1) as f64;
        if request.is_in_memory() {
            let at_a_time = request.threads.min(cpus);
            return Law::of(
                range(
                    0.3 * alone.low,
                    0.85 * at_a_time * alone.likely,
                    1.1 * at_a_time * alone.high,
                ),
                format!(
                    "{}; {at_a_time:.0} at a time, which may be in each other's way",
                    self.single.because()
                ),
            );
        }
        let count = request.in_flight();
        let Range { low, likely, high } = self.most();
        // A mean, where latencies are told by their median: a few slow ones lower it.
        // Many at a time are no fewer than one after another, where one was measured.
        let is_measured = self.is_measured && count > 1.0 && request.block <= PAGE;
        let least = match is_measured {
            true => 0.8 * alone.likely,
            false => 0.4 * alone.low,
        };
        let reached = range(
            (0.4 * count * alone.low).min(low).max(least),
            (0.9 * count * alone.likely).min(likely).max(0.5 * alone.likely).max(least),
            (1.2 * count * alone.high).min(high).max(1.2 * alone.high),
        );
        let because = match count > 1.0 {
            true => format!(
                "{}; {count:.0} in flight over that (Little's law), until the device is saturated at {:.3} \
                 to {:.0} thousand per second",
                self.single.because(),
                low / 1e3,
                high / 1e3
            ),
            false => self.single.because().clone(),
        };
        Law::of(reached, because)
    }

    /// What control groups allow of what surely goes to the disk at once: version 1 does not see writes of
    /// the page cache.
    fn limit(&self) -> Option<Limit> {
        let request = self.request;
        let is_direct = request.mode == "direct";
        let disk = disk(self.site, request).filter(|_| is_direct || request.mode == "cold");
        limit::of(self.site, disk, request.is_read, request.block, is_direct)
    }

    /// Operations per second at which the device or the CPUs are saturated.
    fn most(&self) -> Range {
        let by_rate = scaled(self.rate, 1e9 / self.request.block.max(PAGE));
        let most = self.writing.most;
        // A microsecond of CPU time is the least that anybody reports for an operation.
        let by_cpu = 1e6 * self.request.threads.min(self.site.cpus.len().max(1) as f64);
        range(
            most.low.min(by_rate.low),
            most.likely.min(by_rate.likely),
            most.high.min(by_rate.high).min(by_cpu),
        )
    }

    fn latency(&self) -> Law {
        let request = self.request;
        let count = request.in_flight();
        let single = self.single.range;
        if count <= 1.0 {
            return self.median(self.single.clone());
        }
        if request.is_in_memory() {
            let high = 3.0 * request.threads * single.high;
            return Law::of(
                range(single.low, single.likely, high),
                format!("{}; others in its way", self.single.because()),
            );
        }
        let rate = self.free_rate();
        let by_rate = inverse(1e9 * count, rate.range);
        // Little's law holds of each: not less than the operations in flight over the highest rate.
        let low = (0.7 * by_rate.low).max(0.8 * single.low);
        self.median(Law::of(
            range(low, by_rate.likely.max(single.likely), (1.3 * by_rate.high).max(single.high)),
            format!("{}; each then takes {count:.0} over that rate", rate.because()),
        ))
    }

    fn median(&self, free: Law) -> Law {
        match self.limit() {
            Some(limit) => limit.median(free, self.request.in_flight()),
            None => free,
        }
    }

    fn cpu(&self) -> Law {
        let request = self.request;
        let memory = self.in_memory.range;
        if request.is_in_memory() {
            let high = if request.threads > 1.0 { 3.0 } else { 1.6 };
            return Law::of(
                range(0.8 * memory.low, memory.likely, high * memory.high),
                format!("{}; nothing sleeps", self.in_memory.because()),
            );
        }
        if let Some(ns) = self.known.and_then(|known| measured_cpu(known, request)) {
            let more = scaled(range(0.0, 0.02, 0.15), request.block.max(PAGE) - PAGE);
            let each = match request.is_ring {
                // No sleep of its own where others complete as well.
                true => range(0.25 * ns, 0.7 * ns, 1.6 * ns),
                false => range(0.5 * ns, ns, 2.0 * ns),
            };
            return Law::of(
                sum(each, more),
                format!("{ns:.0} ns of CPU for 4 KiB (measured by fs.read)"),
            );
        }
        let each = if request.is_ring { RINGED } else { BLOCKED };
        let mut cycles = sum(each, scaled(PINNED, request.pages()));
        let mut what = if request.is_ring {
            "a request made and completed by a ring"
        } else {
            "a request made, a sleep, a wake-up"
        };
        if request.waits_for_flush() {
            cycles = sum(cycles, SYNCED);
            what = "a request and a flush, each slept for";
        }
        let cost = time_of(
            Facts { site: self.site, known: self.known },
            cycles,
            &format!("software: {what}, {:.0} to {:.0} cycles", cycles.low, cycles.high),
        );
        let mut estimate = match request.mode {
            "direct" => cost,
            "cold" => Law::of(
                range(
                    // What was read ahead is only copied.
                    0.8 * memory.low,
                    memory.likely + if request.is_random { cost.range.likely } else { 0.0 },
                    memory.high + request.pages() * cost.range.high,
                ),
                format!("{}; {}", self.in_memory.because(), cost.because()),
            ),
            _ => Law::of(
                sum(memory, cost.range),
                format!("{}; {}", self.in_memory.because(), cost.because()),
            ),
        };
        if is_guest(self.site) {
            estimate = estimate.widened(1.0, 2.0, "a guest leaves to its host for each request");
        }
        estimate
    }
}

/// What a device takes.
struct Parts<'law> {
    reading: &'law device::Reading,
    writing: &'law Writing,
    rate: Range,
    disk: Option<&'law Disk>,
}

impl Parts<'_> {
    /// One operation that a device answers, or may answer; `measured` by fs.read, for a page.
    fn single(&self, request: &Request, in_memory: &Law, measured: Option<f64>) -> Law {
        let transfer =
            product(range(request.block, request.block, request.block), inverse(1.0, self.rate));
        let more = match request.block > PAGE {
            true => scaled(transfer, 1.0 - PAGE / request.block),
            false => range(0.0, 0.0, 0.0),
        };
        let (page, from) = match (measured, request.is_read) {
            (Some(ns), _) => {
                (around(ns, 0.6), format!("{:.1} µs for 4 KiB (measured by fs.read)", ns / 1e3))
            }
            (None, true) => {
                let page = match request.is_random {
                    true => self.reading.random_ns,
                    false => self.reading.next_ns,
                };
                (page, told(&self.reading.because, "a read", page))
            }
            (None, false) => {
                let page = self.writing.write_ns;
                (page, told(&self.reading.because, "a write", page))
            }
        };
        let device = sum(page, more);
        let mut because = format!("base hardware: {from}");
        if request.block > PAGE {
            because = format!(
                "{because}, the rest of {:.0} bytes at {:.2} to {:.1} GB/s",
                request.block, self.rate.low, self.rate.high
            );
        }
        let memory = in_memory.range;
        let range = match request.mode {
            "cold" if !request.is_random => {
                because.push_str("; software: read ahead, so that most are found in memory");
                range(
                    0.8 * memory.low,
                    memory.likely.max(transfer.likely),
                    memory.high + device.high,
                )
            }
            "cold" | "direct" => sum(device, range(0.5 * memory.low, memory.likely, memory.high)),
            _ => {
                let flush = self.flush();
                because = format!(
                    "{because}; a flush of {:.0} µs to {:.0} ms",
                    flush.low / 1e3,
                    flush.high / 1e6
                );
                sum(sum(device, flush), memory)
            }
        };
        Law::of(range, because)
    }

    /// A flush: nothing to do where the device keeps nothing back.
    fn flush(&self) -> Range {
        let cache = self.disk.and_then(|disk| disk.write_cache.as_deref());
        let Range { low, likely, high } = self.writing.flush_ns;
        if cache == Some("write through") {
            return range(0.0, 0.1 * likely, 0.3 * high);
        }
        range(low, likely, 1.3 * high)
    }
}

fn told(class: &str, what: &str, ns: Range) -> String {
    let [low, high] = [ns.low / 1e3, ns.high / 1e3];
    format!("{class}: {low:.0} to {high:.0} µs for {what} of 4 KiB")
}

/// The kernel's part of an operation through the page cache, and the copy.
fn in_memory(site: &Site, known: Option<&Known>, request: &Request) -> Law {
    let way = entry(Facts { site, known });
    let more = request.pages() - 1.0;
    let (cycles, what) = match request.is_read {
        true => (sum(LOOK_UP, scaled(NEXT_PAGE, more)), "pages looked up"),
        false => (sum(BEGIN, scaled(DIRTY, request.pages())), "pages found and made dirty"),
    };
    let cycles = match request.mode {
        "cold" => sum(cycles, scaled(FETCHED, 0.5)),
        _ => cycles,
    };
    let work = time_of(Facts { site, known }, cycles, "");
    let copy = product(range(request.block, request.block, request.block), inverse(1.0, COPY));
    Law::of(
        sum(sum(way.range, work.range), copy),
        format!(
            "{}; software: {what}, {:.0} to {:.0} cycles{}; {:.0} bytes copied at {} to {} GB/s",
            way.because(),
            cycles.low,
            cycles.high,
            work.because(),
            request.block,
            COPY.low,
            COPY.high
        ),
    )
}
