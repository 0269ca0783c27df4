//! Laws of reads and writes: what a device takes for one, what it gives when many are asked for at
//! a time, and what the kernel takes of the CPU.
//!
//! Intervals of writes and flushes are written from data sheets and usual figures (a drive's buffer
//! takes a write in tens of µs; drives whose buffers outlive a power cut answer a flush as fast,
//! others write it: 0.5 to 8 ms for flash, one to several turns for a disk that spins), as are the
//! rates at which classes of devices saturate (SATA: 32 commands; NVMe drives state 0.05 to 3
//! million reads per second).

mod work;

pub use super::Mode;
pub use work::{Engine, Files, Op, Request, Work};

use super::limit::{self, Limit};
use super::{BLOCK_BYTES, measured_stream, of_largest, work as kernel_work};
use crate::cpu::is_guest;
use crate::device::{
    self, FLASH, FLASH_NVME, Flushes, Reading, SPINNING, UNKNOWN_FLUSH_NS, UNKNOWN_WRITE_NS,
};
use crate::memory::measured::kernel_copy;
use crate::os::{entry, measured_read};
use crate::{Facts, Law, around, inverse, product, range, scaled, sum};
use bench::experiment::Site;
use host::block::Disk;
use record::event::{Condition, Range};

/// Bytes per ns of a copy between cache and user, where the data is in some cache or in memory.
const COPY: Range = range(3.0, 14.0, 80.0);

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

type Ends = (f64, f64, f64);

const fn writing(write_ns: Ends, flush_ns: Ends, rate: Ends, most: Ends) -> Writing {
    const fn from_ends((low, likely, high): Ends) -> Range {
        range(low, likely, high)
    }
    Writing {
        write_ns: from_ends(write_ns),
        flush_ns: from_ends(flush_ns),
        rate: from_ends(rate),
        most: from_ends(most),
    }
}

const NVME: Writing =
    writing((6e3, 2.5e4, 1e6), (3e3, 6e5, 8e6), (0.15, 0.6, 1.1), (4e4, 4e5, 3e6));
const SATA: Writing =
    writing((2e4, 6e4, 2e6), (1e5, 2e6, 2e7), (0.15, 0.9, 1.2), (1.5e4, 7.5e4, 1.1e5));
const SPUN: Writing =
    writing((4e4, 1e6, 3e7), (4e6, 1.7e7, 9e7), (0.6, 0.95, 1.2), (60.0, 220.0, 3e4));
/// Any of them, or the memory of a host; clouds limit rates as well. A hypervisor serves a disk with
/// one thread (QEMU until 9.0 at least: kvmonz.blogspot.com, 2024-06-12), to which a request is two
/// system calls and a copy, about 10 µs.
const ANY: Writing = Writing {
    write_ns: UNKNOWN_WRITE_NS,
    flush_ns: UNKNOWN_FLUSH_NS,
    rate: range(0.1, 0.7, 1.6),
    most: range(80.0, 1e5, 1.5e6),
};

/// A figure of a case: `latency`, `iops`, `bandwidth` or `cpu`; `None` where earlier figures add
/// nothing to its prior.
pub fn predict(facts: Facts, request: Request, metric: &str) -> Option<Law> {
    let law = law(facts, request, metric)?;
    // A figure of the run that changes nothing says nothing.
    let is_same = |prior: Law| prior.range == law.range;
    let prior = facts.known.and_then(|_| self::law(facts.as_prior(), request, metric));
    (!prior.is_some_and(is_same)).then_some(law)
}

/// A figure of a case; `None` where nothing is known of the run that it is made from.
fn law(facts: Facts, request: Request, metric: &str) -> Option<Law> {
    let basis = Basis::for_request(facts, request);
    if facts.known.is_some() && !basis.is_known(metric) {
        return None;
    }
    Some(match metric {
        "latency" => basis.latency(),
        "iops" => basis.rate(),
        "bandwidth" => basis.rate().times(request.work.bytes()).and("times the block size"),
        _ => basis.cpu(),
    })
}

/// What a plan states for one operation, in ns: more than most devices of the kind take.
pub fn stated_ns(site: &Site, request: Request) -> f64 {
    let work = request.work;
    if request.is_in_memory() {
        return 5e3 + work.bytes();
    }
    let (class, _) = device::device(request.disk(site), site);
    // A disk that spins has one head; others serve several at a time.
    let (single, flush, rate, at_a_time) = match class.name == SPINNING.name {
        true => (1.2e7, 3e7, 0.08, 2.0),
        false => (4e5, 3e6, 0.3, 8.0),
    };
    let synced = if work.waits_for_flush() { flush } else { 0.0 };
    single / f64::min(work.depth as f64, at_a_time) + synced + work.bytes() / rate
}

/// What figures of a case are made from.
struct Basis<'law> {
    facts: Facts<'law>,
    request: Request<'law>,
    single: Law,
    /// Its part that is the kernel's and the copy's.
    in_memory: Law,
    writing: Writing,
    /// In bytes per nanosecond.
    rate: Range,
    /// fs.read measured this way to read.
    is_measured: bool,
    /// Nothing says what kind of device it is.
    is_any: bool,
    /// fs.read measured what the device gives in a row, and the block is longer than a page.
    is_rate_measured: bool,
}

impl<'law> Basis<'law> {
    fn for_request(facts: Facts<'law>, request: Request<'law>) -> Self {
        let (site, work) = (facts.site, request.work);
        let reading = device::reading(site, request.disk(site), request.span);
        let mut writing = match reading.class.name {
            name if name == FLASH_NVME.name => NVME,
            name if name == FLASH.name => SATA,
            name if name == SPINNING.name => SPUN,
            _ => ANY,
        };
        for ns in [&mut writing.write_ns, &mut writing.flush_ns] {
            *ns = scaled(*ns, reading.class.fitted(site));
        }
        let flushed = Flushes::on_disk(request.disk(site)).filter(|_| !reading.class.sure);
        if let Some(counted) = &flushed {
            writing.write_ns = counted.write(writing.write_ns);
            writing.flush_ns = counted.flush(writing.flush_ns);
        }
        let given = |name: &str| site.host.given.value(name);
        if let Some(ns) = given("disk.write_latency") {
            writing.write_ns = around(ns, 0.5);
        }
        if let Some(ns) = given("disk.flush_latency") {
            writing.flush_ns = around(ns, 0.5);
        }
        let most = if work.is_read() { "disk.read_iops" } else { "disk.write_iops" };
        if let Some(most) = given(most) {
            writing.most = around(most, 0.3);
        }
        let is_long = work.is_read() && work.bytes() > BLOCK_BYTES && !request.is_in_memory();
        let streamed = measured_stream(facts).filter(|_| is_long);
        let rate = match (streamed, work.op, given("disk.write")) {
            // Blocks at random get less of a device than a stream, and many at a time may get more.
            (Some(measured), ..) => range(0.3 * measured, measured, 3.0 * measured),
            (_, Op::Read, _) => reading.rate.range,
            (_, Op::Write, Some(rate)) => around(rate / 1e9, 0.4),
            (_, Op::Write, None) => product(reading.rate.range, writing.rate),
        };
        let in_memory = in_memory(facts, work);
        let measured = figure_of_read(facts, work, "latency");
        let mut single = match (measured, work.mode) {
            (Some(ns), Mode::Cached) if work.bytes() == BLOCK_BYTES => {
                Law::measured(ns, 0.5, format!("{ns:.0} ns for such a block (measured by fs.read)"))
            }
            _ if request.is_in_memory() => in_memory.clone(),
            _ => single(facts, request, &reading, &writing, rate, &in_memory),
        };
        if let Some(counted) = flushed.filter(|_| !work.is_read() && !request.is_in_memory()) {
            single = single.and(counted.because);
        }
        // What answered fs.read answers here too.
        let is_answered = measured.is_some() || streamed.is_some();
        let is_here = matches!(request.ground, "device" | "memory") || is_answered;
        let single = single.when(!is_here && !request.is_in_memory(), |single| {
            single.widened(3.0, 4.0, "the answer may not come from a device of this machine")
        });
        Basis {
            facts,
            request,
            single,
            in_memory,
            writing,
            rate,
            is_measured: measured.is_some(),
            is_any: reading.class.name == device::UNKNOWN.name,
            is_rate_measured: streamed.is_some(),
        }
    }

    fn is_known(&self, metric: &str) -> bool {
        let work = self.request.work;
        let entry = |known| measured_read(known, "clock_gettime_syscall").is_some();
        match self.request.is_in_memory() {
            true => self.is_measured || self.facts.known.is_some_and(entry),
            false if metric == "cpu" => measured_cpu(self.facts, work).is_some(),
            false => self.is_measured || self.is_rate_measured,
        }
    }

    fn cpus(&self) -> f64 {
        self.facts.site.cpus.len().max(1) as f64
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
        let work = self.request.work;
        let law = self.single.clone().inverse(1e9);
        let alone = law.range;
        if self.request.is_in_memory() {
            let many = self.cpus().min(work.threads as f64);
            let how = format!("{many:.0} at a time, which may contend");
            return law.ends(0.3, 0.85 * many, 1.1 * many).and(how);
        }
        let count = work.in_flight();
        let Range { low, likely, high } = self.most();
        // A mean, while latencies are reported as medians: a few slow ones lower it. Many at a time
        // are no fewer than one after another, where one was measured.
        let is_measured = self.is_measured && count > 1.0 && work.bytes() <= BLOCK_BYTES;
        let least = if is_measured { 0.8 * alone.likely } else { 0.4 * alone.low };
        // How many an unknown device serves at a time lies between one and all.
        let middle = match is_measured && self.is_any {
            true => (alone.likely * count.sqrt()).min(high),
            false => (0.9 * count * alone.likely).min(likely).max(0.5 * alone.likely),
        };
        let law = law.with_range(range(
            (0.4 * count * alone.low).min(low).max(least),
            middle.max(least),
            (1.2 * count * alone.high).min(high).max(1.2 * alone.high),
        ));
        let (low, high) = (low / 1e3, high / 1e3);
        let how = format!(
            "{count:.0} in flight divided by that (Little's law), until the device saturates at \
             {low:.3} to {high:.0} thousand per second"
        );
        law.when(count > 1.0, |law| law.and(how))
    }

    /// What control groups allow of what surely goes to the disk at once: version 1 does not see
    /// writes of the page cache.
    fn limit(&self) -> Option<Limit> {
        let (site, work) = (self.facts.site, self.request.work);
        let is_seen = work.is_direct() || work.mode == Mode::Cold;
        let disk = self.request.disk(site).filter(|_| is_seen);
        limit::operation_limit(site, disk, work.is_read(), work.bytes(), work.is_direct())
    }

    /// Operations per second at which the device or the CPUs are saturated.
    fn most(&self) -> Range {
        let work = self.request.work;
        let by_rate = scaled(self.rate, 1e9 / work.bytes().max(BLOCK_BYTES));
        let most = self.writing.most;
        // A microsecond of CPU time is the least that anybody reports for an operation.
        let by_cpu = 1e6 * self.cpus().min(work.threads as f64);
        range(
            most.low.min(by_rate.low),
            most.likely.min(by_rate.likely),
            most.high.min(by_rate.high).min(by_cpu),
        )
    }

    fn latency(&self) -> Law {
        let work = self.request.work;
        let (count, single) = (work.in_flight(), self.single.range);
        let law = self.single.clone();
        if self.is_found_in_memory() {
            let likely = self.in_memory.range.likely.min(single.likely);
            let law = law.reshaped(|of| Range { likely, ..of });
            return self.median(law.and("the window holds several, so the median waits for none"));
        }
        if count <= 1.0 {
            return self.median(law);
        }
        if self.request.is_in_memory() {
            return law.ends(1.0, 1.0, 3.0 * work.threads as f64).and("contention with the others");
        }
        let rate = self.free_rate();
        let by_rate = inverse(1e9 * count, rate.range);
        // Little's law holds of each: not less than the operations in flight over the highest rate.
        let of = range(
            (0.7 * by_rate.low).max(0.8 * single.low),
            by_rate.likely.max(single.likely),
            (1.3 * by_rate.high).max(single.high),
        );
        let how = format!("latency is {count:.0} divided by that rate (Little's law)");
        self.median(rate.with_range(of).and(how))
    }

    /// Whether most reads find what a window of readahead has brought.
    fn is_found_in_memory(&self) -> bool {
        let work = self.request.work;
        let disk = self.request.disk(self.facts.site);
        let ahead = disk.and_then(|disk| disk.read_ahead_bytes).map_or(0.0, |bytes| bytes as f64);
        work.mode == Mode::Cold && !work.is_random() && ahead >= 2.0 * work.bytes()
    }

    fn median(&self, free: Law) -> Law {
        match self.limit() {
            Some(limit) => limit.median(free, self.request.work.in_flight()),
            None => free,
        }
    }

    fn cpu(&self) -> Law {
        let (facts, work) = (self.facts, self.request.work);
        let (law, memory) = (self.in_memory.clone(), self.in_memory.range);
        if self.request.is_in_memory() {
            let high = if work.threads > 1 { 3.0 } else { 1.6 };
            return law.ends(0.8, 1.0, high).and("the thread never sleeps");
        }
        if let Some(ns) = measured_cpu(facts, work) {
            let more = scaled(range(0.0, 0.02, 0.15), work.bytes().max(BLOCK_BYTES) - BLOCK_BYTES);
            let each = match work.engine {
                // No sleep of its own where others complete as well: the more, the fewer. Set after a
                // look at the figures of a Zen 3 and a Zen 5 guest, so these are no evidence for it.
                Engine::Uring => {
                    let own = (0.1 + 0.6 / (work.depth as f64).sqrt()) * ns;
                    range(0.35 * own, own, 2.3 * own)
                }
                Engine::Psync => range(0.5 * ns, ns, 2.0 * ns),
            };
            let told = format!("{ns:.0} ns of CPU for 4 KiB (measured by fs.read)");
            return Law::software(sum(each, more), told);
        }
        let request = match work.engine {
            Engine::Uring => "uring",
            Engine::Psync => "psync",
        };
        let sums = [request, "SYNCED"];
        let sums = if work.waits_for_flush() { &sums[..] } else { &sums[..1] };
        let cost = kernel_work(facts, sums, work.pages());
        let law = match work.mode {
            Mode::Direct => cost,
            Mode::Cold => {
                let asked = if work.is_random() { cost.range.likely } else { 0.0 };
                let high = memory.high + work.pages() * cost.range.high;
                // What was read ahead is only copied.
                (law + cost).with_range(range(0.8 * memory.low, memory.likely + asked, high))
            }
            _ => law + cost,
        };
        law.when(is_guest(facts.site), |law| law.widened(1.0, 2.0, "an exit to the hypervisor"))
    }
}

/// One operation that a device answers, or may answer.
fn single(
    facts: Facts,
    request: Request,
    reading: &Reading,
    writing: &Writing,
    rate: Range,
    in_memory: &Law,
) -> Law {
    let work = request.work;
    let transfer = inverse(work.bytes(), rate);
    let page = match (figure_of_read(facts, work, "latency"), work.op) {
        (Some(ns), _) => {
            let told = format!("{:.1} µs for 4 KiB (measured by fs.read)", ns / 1e3);
            Law::measured(ns, 0.6, told)
        }
        (None, Op::Read) => reading.block(work.pattern).clone(),
        (None, Op::Write) => reading.random.clone().with_range(writing.write_ns),
    };
    let mut device = page;
    if work.bytes() > BLOCK_BYTES {
        let more = scaled(transfer, 1.0 - BLOCK_BYTES / work.bytes());
        let Range { low, high, .. } = rate;
        let what = format!("the rest of {} bytes at {low:.2} to {high:.1} GB/s", work.block);
        device = device + Law::hardware(more, what);
    }
    let (memory, law) = (in_memory.range, in_memory.clone());
    match work.mode {
        Mode::Cold if !work.is_random() => {
            let likely = memory.likely.max(transfer.likely);
            let of = range(0.8 * memory.low, likely, likely.max(memory.high + device.range.high));
            (device + law).with_range(of).and("readahead, so most blocks are in memory")
        }
        Mode::Cold | Mode::Direct => device + law.ends(0.5, 1.0, 1.0),
        _ => {
            let flush = Law::hardware(flush(request.disk(facts.site), writing), "a flush");
            device + flush.counting(Condition::Journal) + law
        }
    }
}

/// A flush: nothing to do where the device keeps nothing back.
fn flush(disk: Option<&Disk>, writing: &Writing) -> Range {
    let cache = disk.and_then(|disk| disk.write_cache.as_deref());
    let Range { low, likely, high } = writing.flush_ns;
    let is_through = cache == Some("write through");
    if is_through { range(0.0, 0.1 * likely, 0.3 * high) } else { range(low, likely, 1.3 * high) }
}

/// The kernel's part of an operation through the page cache, and the copy.
fn in_memory(facts: Facts, work: &Work) -> Law {
    let found = if work.is_read() { "read" } else { "write" };
    let sums = [found, "fetched"];
    let sums = if work.mode == Mode::Cold { &sums[..] } else { &sums[..1] };
    let usual = || {
        let what = format!("{} bytes copied at {} to {} GB/s", work.block, COPY.low, COPY.high);
        Law::hardware(inverse(work.bytes(), COPY), what)
    };
    // One buffer, and pages that were read or written a while ago.
    let copy = kernel_copy(facts, work.bytes(), f64::INFINITY).unwrap_or_else(usual);
    entry(facts) + kernel_work(facts, sums, work.pages()) + copy
}

/// CPU time of such a block read past the cache by fs.read, in ns.
fn measured_cpu(facts: Facts, work: &Work) -> Option<f64> {
    figure_of_read(facts, work, "cpu").filter(|_| work.is_direct())
}

/// What fs.read measured of a page read this way, of its largest file, in ns.
fn figure_of_read(facts: Facts, work: &Work, metric: &'static str) -> Option<f64> {
    let is_it = work.is_read();
    is_it.then(|| of_largest(facts, work.pattern, work.mode.text(), metric)).flatten()
}
