//! What does the first touch of a page cost?
//!
//! ## Question
//!
//! How long does a load or store to an unmapped page take: if the kernel only finds or clears
//! memory (a minor fault), and if a device reads it (a major fault)?
//!
//! ## Method
//!
//! A touch is one load or store of a word, volatile, one per page, on one pinned thread. Fresh
//! pages are prepared outside the windows. A page faults once, so n touches of fresh pages are
//! compared with 2n in ABBA quartets, and in every batch the kernel's count of the thread's faults
//! (getrusage) must rise by exactly the number of touches: otherwise the quartet is void, and a
//! case without valid quartets fails and reports both numbers.
//!
//! Minor faults:
//!
//! - `anonymous`: first store to a base page of private memory (huge pages refused): the kernel
//!   takes, clears and maps a page. Pages are dropped between batches (MADV_DONTNEED), so that they
//!   come from the CPU's own list of free pages, the last batch's first; page tables stay (kernels
//!   from 6.14 free empty ones: then one in 512 faults allocates one).
//! - `zero`: first load of such a page: the kernel maps the zero page.
//! - `huge`: first store to a huge page (requested, verified in smaps), which is cleared
//!   completely.
//! - `file`: first load of a file's page that is in the page cache (checked by mincore), mapped
//!   alone: each page is a separate mapping without a neighbour in the file, so that the kernel
//!   cannot map pages around it: `pages_per_fault`, touches over faults, is 1.
//! - `file_around`: the same in a whole mapping, where a fault also maps the cached pages around
//!   it. plumb first counts them by touching all pages of the file (`pages_per_fault`), then
//!   touches one page per group, so that each touch is a fault.
//! - `shared`: first store to a page of shared memory without a file.
//! - `copy`: first store to a page that is shared with a waiting child after a fork: the kernel
//!   copies it. The pages are 16 MiB, written long before: neither they nor their copies are in an
//!   inner cache.
//! - `protect`: a store to a mapped but protected page; the handler of SIGSEGV calls mprotect for
//!   that page and returns, and the store is repeated. Signals are counted, not faults.
//!
//! - `stress` (only on request): a turn of stress-ng's fault stressor, which creates and maps a
//!   file of one page and times four touches separately: new, dropped, paged out, and one of shared
//!   memory, including the clock reads. Its figure is their mean. The kernel frees memory of
//!   earlier turns later (RCU), partly during touches: the setting `steady` runs turns for that
//!   time before the recorded ones, and records at least as long.
//!
//! The file of `file` and `file_around` has no name, is in the directory for files (or, without
//! one, in the directory for temporary files, which may be in memory) and has different random
//! bytes in each page.
//!
//! Major faults need a directory on a file system of a block device: the current one, or `--dir`.
//! The file is written once with unique random data and synced. Before each round, dirty pages of
//! other programs are written to the device (syncfs) until less than 1 MiB remains in memory, for
//! at most a tenth of the round's measuring time (`settle_ns`, `unwritten_bytes`), and the whole
//! file must be in written extents of the device (FIEMAP). Before each case the file is evicted
//! (POSIX_FADV_DONTNEED), after which mincore must find no page in memory; right before each touch,
//! once the device has completed the readahead, the touched page must not be in memory either. A
//! touch counts if it was one major fault and the device read at least a page for this thread
//! (/proc/thread-self/io); the device's own counter (/proc/diskstats) must rise by the same amount,
//! or by a page per touch if the kernel does not count reads per thread. Other touches are
//! `cached`: left out and reported; with more than a tenth of them the case fails.
//!
//! - `page`: one page, then the next at a distance that readahead does not reach.
//! - `random`: one page anywhere in the file, as in R0's program, which reopens and remaps the file
//!   each time (plumb does too, because after a hundred misses the kernel stops reading around
//!   faults of an open file).
//! - `window`: 16 MiB in order, every page touched, as described in R1.
//!
//! `readahead=off` is MADV_RANDOM and POSIX_FADV_RANDOM.
//!
//! ## Prediction
//!
//! Entry and exit of an exception (half of a third to three times those of a system call), the
//! kernel's work in cycles, and the bytes cleared or copied at the rate of memory. The rate is that
//! of one thread in memory.bandwidth if it ran: for `anonymous` and `shared` writes to the second
//! cache (or the nearest known level), for `huge` writes to main memory, for `copy` copies there;
//! otherwise the usual rate of one CPU. `protect`: os.signal's protection fault and a call.
//!
//! Major faults: the read latency of the device's class, and the readahead's bytes at its rate. A
//! random page from flash over NVMe takes 11 to 300 µs, from other flash 40 to 600 µs, from a
//! rotating disk 2 to 30 ms. A virtual disk may be any of these or the host's memory: the range is as
//! wide as recorded machines with such disks show.
//!
//! ## Reading the result
//!
//! `latency` is one minor fault, `major_latency` one that a device served, with the bytes read for
//! it (`bytes_per_fault`). `zeroing` is the slope from the base page to the huge page: the cost of
//! clearing a byte; `base_part` is `anonymous` without it. `file` times `pages_per_fault` less
//! `file_around` is the saving of fault-around. `window` over its pages is `per_page`: far below
//! `page`, because the kernel reads ahead while earlier pages are touched. `bytes_per_fault` of
//! `page` and `random` with readahead is large if the device's readahead window is: with a
//! read_ahead_kb of 8192 one touch fetches 8 MiB, and its latency is that of the transfer. With
//! `window` it includes bytes read beyond the end. Major faults have no cycles: the core sleeps.
//!
//! ## Pitfalls
//!
//! R0 prints 15,228 ns for a "major" fault of a rotating disk (one rotation takes 8 ms), and 53
//! million cycles for it; R1 prints 876 µs for a window of 16 MiB, 18 GB/s from a disk of 480 MB/s:
//! both must have come from memory. Hosts of virtual machines cache their guests' disks: such a
//! read does not reach a medium, and only its time can show that. The major faults of this
//! experiment are expected and do not mark a round as disturbed. Free huge pages may be few: then
//! the kernel gathers memory inside the fault, or the case fails and says so. A guest's first use
//! of memory may fault in the host too. `ulimit -l`, mlockall and overcommit_memory=2 can map pages
//! before they are touched: the counts show it. In a full control group, memory is reclaimed inside
//! the fault.
//!
//! ## Sources
//!
//! [R0] "servicing page faults", [R1] table X, [R2] 5.3; [lmbench] `lat_pagefault` (whose pages
//! stay in the cache, and fault-around maps 16 at a time); [stress-ng] `stress-fault.c`;
//! [will-it-scale] `page_fault1`; [man] getrusage(2), mincore(2), madvise(2), posix_fadvise(2);
//! [linux] mm/memory.c, mm/filemap.c (filemap_map_pages, do_sync_mmap_readahead).

mod major;
mod predicted;
mod timed;

use bench::device;
use bench::device::is_virtual;
use bench::experiment::contract::Files;
use bench::prelude::*;
use laws::memory::fault::Touch;
use timed::minor;

bench::experiment!(Fault);

/// Name of the series of major faults, whose rounds read a file.
const MAJOR_SERIES: &str = "major";
/// Memory that minor faults touch, at most.
const MEMORY_BYTES: u64 = 64 << 20;
/// A huge page's fault must not take more than this share of the memory: two batches hold three
/// pages.
const HUGE_SHARE: u64 = 8;
const MIB: u64 = 1 << 20;
/// For stated costs: making the mappings of a case; a window with and without readahead, per byte;
/// a case of single major faults; start and end of a worker, in ns.
const APPARATUS_NS: u64 = 6_000_000;
const AHEAD_NS_PER_MIB: u64 = 6_000_000;
const ALONE_NS_PER_MIB: u64 = 40_000_000;
const SINGLES_NS: u64 = 20_000_000;
const WORKER_NS: u64 = 35_000_000;

static CARD: Card = Card {
    id: "memory.fault",
    title: "Page faults",
    metrics: metrics! {
        "latency" => Ns Lower Os: "one minor fault";
        "pages_per_fault" => Count None Os: "pages touched over faults counted";
        "major_latency" => Ns Lower Io: "one fault that is served by a device";
        "bytes_per_fault" => B None Io: "bytes that the device read for a major fault";
        "window" => Ns Lower Io: "touching every page of a window of a cold file, in order";
        "per_page" => Ns Lower Io: "that time over the window's pages";
        "bandwidth" => BPerS Higher Io: "the window's bytes over that time";
        "zeroing" => derived NsPerB Lower Os:
            "clearing a byte: from the base page's fault to the huge page's";
        "base_part" => derived Ns Lower Os: "an anonymous base page's fault less its clearing";
    },
    params: bench::params!(
        Faulted::PARAMS,
        settings! {
            "file": Domain::Either(&["auto"], 4 * MIB, 1 << 42, Unit::B), ["auto"; 3] =>
                "size of the file whose pages major faults read; auto: 64 MiB, 256 MiB or 1 GiB by \
                 preset, less if less may be written";
            "window": Domain::bytes(64 << 10, 1 << 36), ["16MiB"; 3] =>
                "size of a window of that file; at most half the file";
            "steady": Domain::ns(0, 60_000_000_000), ["0"; 3] =>
                "fault=stress: time of unrecorded turns before the recorded ones, and least time \
                 of the recorded ones; 0: none before, and the case's own time";
        },
    ),
    after: &["clock.rate", "os.syscall", "os.signal", "memory.bandwidth"],
    views: &[ViewCard::bars("latency")],
    keys: &[KeyFigure::new("page fault, zeroed", "", "latency", "fault=anonymous")],
    ..Card::PLAIN
};

bench::symbols! {
    /// Whether the kernel may read ahead.
    pub enum Readahead { On = "on", Off = "off" }
}
bench::case! {
    pub struct Faulted {
        /// what is touched for the first time: minor faults, and (page, random, window) major ones,
        /// of a file on a device
        fault: Touch,
        /// whether the kernel may read ahead of a major fault
        readahead: Option<Readahead>,
    }
}

impl Experiment for Fault {
    type Case = Faulted;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("fault.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;
    const HAZARDS: fn(&RoundOrder) -> Hazards = |order| {
        let files = if is_major(&order.series) { Hazards::FILES } else { Hazards::NONE };
        Hazards { memory: Claim::OfCase, ..files }
    };
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| Ok(vec![major::write(series, dir)?]),
        cost: |site, series| match is_major(series) {
            true => device::write_cost(site, series.setting("file").unwrap_or(0)),
            false => Duration::ZERO,
        },
        has: is_major,
    });

    fn cases(_: &Site, preset: Preset) -> Vec<Faulted> {
        let of = |fault: Touch, readahead| Faulted { fault, readahead };
        if preset <= Preset::Quick {
            let minor = [Touch::Anonymous, Touch::Huge, Touch::File, Touch::Copy];
            let mut cases = minor.map(|fault| of(fault, None)).to_vec();
            cases.push(of(Touch::Page, Some(Readahead::On)));
            return cases;
        }
        let all = Touch::ALL.iter().copied().filter(|fault| *fault != Touch::Stress);
        all.flat_map(|fault| match fault.is_major() {
            true => Readahead::ALL.iter().map(|ahead| of(fault, Some(*ahead))).collect(),
            false => vec![of(fault, None)],
        })
        .collect()
    }

    fn complete(case: Faulted) -> Option<Faulted> {
        match (case.fault.is_major(), case.readahead) {
            (true, None) => None,
            (true, _) => Some(case),
            (false, _) => Some(Faulted { readahead: None, ..case }),
        }
    }

    fn absent(site: &Site, case: &Faulted, params: &Params) -> Option<Skip> {
        if !case.fault.is_major() {
            return absent(site, case.fault);
        }
        let below = device::below(site);
        let file = file_bytes(site, params);
        below.and_then(|_| device::affords(site, CARD.id, file, "file=SIZE")).err()
    }

    fn series(site: &Site, cases: Vec<Faulted>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        let setting = |name| params.ints(name).first().copied();
        for of in cases {
            if let Some(skip) = Self::absent(site, &of, params) {
                offer.skipped.push((of.id(), skip));
                continue;
            }
            let mut case = Case::new(of.id());
            if !of.fault.is_major() {
                let steady_ns = setting("steady").filter(|ns| of.fault == Touch::Stress && *ns > 0);
                let steady_ns = steady_ns.map(|ns| ("steady".to_owned(), Value::from(ns)));
                case.at.extend(steady_ns);
                offer.series_named(&CARD, "", Self::ORDER).cases.push(case);
                continue;
            }
            let series = offer.series_named(&CARD, MAJOR_SERIES, Self::ORDER);
            series.cases.push(case);
            let window = setting("window").unwrap_or(MIB);
            let bytes = [("file", file_bytes(site, params)), ("window", window)];
            let bytes = bytes.map(|(name, bytes)| (name.to_owned(), Value::from(bytes)));
            series.settings.extend(bytes);
        }
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        if !is_major(&series) {
            return Ok(series);
        }
        let below = device::below(site)?;
        let window = series.setting("window").unwrap_or(MIB);
        for case in &mut series.cases {
            let at = &mut case.at;
            at.put("device", below.disk.name.as_str());
            at.put("device_number", below.number.as_str());
            at.put("file_system", below.mount.fs.as_str());
            at.put("window_bytes", window);
            at.put_known("device_kind", is_virtual(below.disk, site).then_some("virtual"));
            at.put_known("readahead_bytes", below.disk.read_ahead_bytes);
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Faulted, at: &Case, metric: &Metric) -> Option<Prediction> {
        predicted::predict(facts, of, at, &metric.name)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        if is_major(series) {
            let cold = major::Cold::new(series, bench)?;
            bench.each_of::<Faulted>(series, |bench, case, of| cold.time(case, &of, bench));
        } else {
            bench.each_of::<Faulted>(series, |bench, case, of| minor::time(case, of.fault, bench));
        }
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let has = |fault: Touch| {
            let mut cases = series.iter().flat_map(|series| &series.cases);
            cases.any(|case| case.text("fault") == Some(fault.text()))
        };
        if has(Touch::Anonymous) && has(Touch::Huge) { vec![CaseId::new()] } else { Vec::new() }
    }

    fn derived_law(facts: Facts, _: &CaseId, metric: &Metric) -> Option<Prediction> {
        predicted::of_derived(facts, &metric.name)
    }

    fn derive(site: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let of = |fault| values.get(CARD.id, &Faulted { fault, readahead: None }.id(), "latency");
        let Some((base, huge)) = of(Touch::Anonymous).zip(of(Touch::Huge)) else {
            return Vec::new();
        };
        let memory = &site.host.memory;
        let Some((page, large)) = memory.page_bytes.zip(memory.thp.page_bytes) else {
            return Vec::new();
        };
        let zeroing = (huge - base) / (large as f64 - page as f64);
        let rest = base - zeroing * page as f64;
        let mut zeroing = DerivedValue::new(CaseId::new(), "zeroing", zeroing);
        zeroing.at.put("huge_page", large);
        vec![zeroing, DerivedValue::new(CaseId::new(), "base_part", rest)]
    }
}

/// The size of the file of major faults: as chosen, or the preset's as far as it may be written.
fn file_bytes(site: &Site, params: &Params) -> u64 {
    let [least, middle, most] = [64 * MIB, 256 * MIB, 1024 * MIB];
    let wanted = match params.preset {
        Preset::Rehearsal | Preset::Quick => least,
        Preset::Standard => middle,
        Preset::Thorough => most,
    };
    let allowed = device::coarse(device::allowance(site, CARD.id));
    let chosen = params.chosen("file").and_then(|values| values.first()?.int());
    chosen.unwrap_or_else(|| wanted.min(allowed.max(least)))
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let window = series.setting("window").unwrap_or(MIB) / MIB + 1;
    let of = |case: &Case| match Faulted::from_id(&case.id) {
        Some(Faulted { fault: Touch::Window, readahead: Some(Readahead::Off) }) => {
            window * ALONE_NS_PER_MIB
        }
        Some(Faulted { fault: Touch::Window, .. }) => site.case_ns + window * AHEAD_NS_PER_MIB,
        Some(Faulted { readahead: Some(_), .. }) => site.case_ns + SINGLES_NS,
        _ => {
            let steady_ns = case.int("steady").unwrap_or(0);
            steady_ns + site.case_ns.max(steady_ns) + APPARATUS_NS
        }
    };
    Duration::from_nanos(WORKER_NS + series.cases.iter().map(of).sum::<u64>())
}

/// Whether a series is the one of major faults, wherever it is placed.
fn is_major(series: &Series) -> bool {
    series.name.starts_with(MAJOR_SERIES)
}

/// Why a minor fault is not available here.
fn absent(site: &Site, fault: Touch) -> Option<Skip> {
    let memory = site.memory_bytes;
    if memory < MEMORY_BYTES {
        return Some(Skip::because(format!(
            "{} MiB of memory may be used here, {} MiB are needed",
            memory / MIB,
            MEMORY_BYTES / MIB
        )));
    }
    if fault == Touch::Stress && site.dir.is_none() {
        return Some(
            Skip::because(
                "no directory for its files: the current one is not writable, or is in memory",
            )
            .needs("--dir DIR"),
        );
    }
    if fault != Touch::Huge {
        return None;
    }
    let thp = &site.host.memory.thp;
    if thp.enabled.as_deref() == Some("never") {
        return Some(
            Skip::because("transparent huge pages are off: every fault is on a base page")
                .needs("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        );
    }
    let large = thp.page_bytes.filter(|large| large * HUGE_SHARE > memory)?;
    Some(Skip::because(format!(
        "a huge page has {} MiB here, too much for the {} MiB that may be used",
        large / MIB,
        memory / MIB
    )))
}

#[cfg(test)]
mod tests;
