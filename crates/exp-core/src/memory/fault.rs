//! What does the first touch of a page cost?
//!
//! ## Question
//!
//! How long does a load or store take whose page is not there: where the kernel only has to find or
//! clear memory (a minor fault), and where a device has to read it (a major one)?
//!
//! ## Method
//!
//! A touch is one load or store of a word, volatile, one per page, on one pinned thread. Pages are
//! made fresh outside of every window. A page faults once, so n touches of fresh pages stand
//! against 2n in ABBA quartets, and around every batch the kernel's count of the thread's faults
//! (getrusage) must rise by exactly as many as were touched: a quartet in which it does not is
//! void, and a case in which it never does has failed with both numbers.
//!
//! Minor faults:
//!
//! - `anonymous`: first store to a base page of private memory (huge pages refused): a page is
//!   taken, cleared and entered. Pages are dropped between batches (MADV_DONTNEED), so that they
//!   come from the CPU's own list of free pages, the last batch's first; tables of pages stay
//!   (kernels from 6.14 on free empty ones: then one in 512 faults makes one).
//! - `zero`: first load of one: the zero page is entered.
//! - `huge`: first store to a huge page (asked for, verified in smaps), all of which is cleared.
//! - `file`: first load of a file's page that is in the page cache (checked by mincore), and
//!   nothing else: each page is a mapping of its own with no neighbour in the file, so that the
//!   kernel has nothing around it to map: `pages_per_fault`, touches over faults, is 1.
//! - `file_around`: the same in a whole mapping, where a fault maps the cached pages around it as
//!   well. How many is counted first, by touching all pages of the file (`pages_per_fault`); then
//!   one page of so many is touched, each a fault.
//! - `shared`: first store to a page of shared memory of no file.
//! - `copy`: first store to a page that a waiting child shares since a fork: it is copied. The
//!   pages are 16 MiB, written long before: neither they nor their copies are in an inner cache.
//! - `protect`: a store to a page that is there and protected; the handler of SIGSEGV calls
//!   mprotect for that page and returns, and the store is made again. Deliveries are counted, not
//!   faults.
//!
//! - `stress` (only where it is asked for): a turn of stress-ng's fault stressor, which makes and
//!   maps a file of one page and times four touches one by one: new, dropped, paged out, and one of
//!   shared memory, the clock's reads included. Its figure is their mean. What the kernel frees of
//!   the turns it frees later (RCU), in part within touches: with the setting `steady` turns are
//!   made for so long before those that are recorded, and at least as long while they are.
//!
//! The file of `file` and `file_around` has no name, lies in the directory for files (where there
//! is none, among the temporary files, which may be memory) and has other random bytes in each
//! page.
//!
//! Major faults need a directory on a file system of a block device: the current one, or `--dir`.
//! The file is written once with unique random data and synced. Before each round what others wrote
//! goes to the device (syncfs) until less than 1 MiB of it is in memory, for at most a tenth of the
//! time that the round measures (`settle_ns`, `unwritten_bytes`), and all of the file must lie in
//! written extents of the device (FIEMAP). Before each case the file is evicted
//! (POSIX_FADV_DONTNEED), after which mincore must find none of it in memory, nor, right before
//! each touch and once the device has answered what was read ahead, its page. A touch counts if it
//! was one major fault and the device read at least a page for this thread (/proc/thread-self/io);
//! the device's own counter (/proc/diskstats) must have risen by as much, or where the kernel
//! counts no thread's reads by a page for every touch. Touches that do not add up are `cached`:
//! left out and told, and with more than a tenth of them the case has failed.
//!
//! - `page`: one page, then the next at a distance that readahead does not reach.
//! - `random`: one page anywhere in the file, as R0's program, which opens and maps anew each time
//!   (and so does this one: after a hundred misses the kernel stops reading around faults of an
//!   open file).
//! - `window`: 16 MiB in order, every page touched, as R1's text describes.
//!
//! `readahead=off` is MADV_RANDOM and POSIX_FADV_RANDOM.
//!
//! ## Prediction
//!
//! An exception's way in and out (half of a third to three times a system call's), the kernel's
//! work in cycles, and the bytes cleared or copied at the rate of memory. What memory.bandwidth
//! measured of one thread says it where it ran: for `anonymous` and `shared` what it wrote to the
//! second cache (or the nearest level that is known), for `huge` what it wrote to main memory, for
//! `copy` what it copied there; else what one CPU usually does. `protect`: os.signal's refused
//! store and a call.
//!
//! Major faults: what the device's class takes for a read, and the bytes that are read ahead at its
//! rate. A random page from flash over NVMe takes 11 to 300 µs, from other flash 40 to 600 µs, from
//! a disk that spins 2 to 30 ms. What a hypervisor shows may be any of them or the host's memory:
//! there the interval goes from 12 µs to 25 ms, and is of little use but to catch what cannot be.
//!
//! ## Reading the result
//!
//! `latency` is one minor fault, `major_latency` one that a device answered, with the bytes that it
//! read for it (`bytes_per_fault`). `zeroing` is the slope from the base page to the huge page:
//! what clearing a byte costs; `base_part` is what is left of `anonymous` without it. `file` times
//! `pages_per_fault` less `file_around` is what fault-around saves. `window` over its pages is
//! `per_page`: far below `page`, because the kernel reads ahead while the pages before are touched.
//! `bytes_per_fault` of `page` and `random` with readahead is large where the device's window is: a
//! read_ahead_kb of 8192 has one touch fetch 8 MiB, and its latency is that transfer's. With
//! `window` it counts what was read behind the end too. Major faults have no cycles: the core
//! sleeps.
//!
//! ## Pitfalls
//!
//! R0 prints 15,228 ns for a "major" fault of a disk that spins (a turn alone takes 8 ms), and 53
//! million cycles for it; R1 prints 876 µs for a window of 16 MiB, 18 GB/s from a disk of 480 MB/s:
//! both must have come from memory. Hosts of virtual machines cache their guests' disks: such a
//! read is no read of a medium, and only its time can tell. The major faults of this experiment are
//! planned and disturb no round. Free huge pages may be few: then the kernel gathers memory inside
//! the fault, or the case fails and says so. A guest's first use of memory may fault in the host
//! too. `ulimit -l`, mlockall and overcommit_memory=2 can have pages there before they are touched:
//! the counts show it. Memory of a full control group is reclaimed inside the fault.
//!
//! ## Sources
//!
//! R0 "servicing page faults", R1 table X, R2 5.3; lmbench `lat_pagefault` (whose pages stay in the
//! cache, and fault-around maps 16 at a time); stress-ng `stress-fault.c`; will-it-scale
//! `page_fault1`; getrusage(2), mincore(2), madvise(2), posix_fadvise(2); Linux mm/memory.c,
//! mm/filemap.c (filemap_map_pages, do_sync_mmap_readahead). The intervals' sources stand in
//! `predict/memory/fault.rs`.

mod major;
mod minor;
mod predicted;

use super::levels::any_of;
use anyhow::Result;
use bench::device;
use bench::device::is_virtual;
use bench::experiment::contract::{Experiment, Facts, Files};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, Claim, DerivedValue, Domain, Fields as _, Hazards, Known, Offer, Params, Preset, Site,
    Skip, ViewCard,
};
use bench::link::RoundOrder;
use bench::measure::Bench;
use bench::{metrics, settings};
use laws::memory::fault::Touch;
use record::case::{Case, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::key_figure::KeyFigure;
use record::metric::Metric;
use record::unit::Unit;
use std::time::Duration;

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
        "major_latency" => Ns Lower Io: "one fault that a device answered";
        "bytes_per_fault" => B None Io: "bytes that the device read for a major fault";
        "window" => Ns Lower Io: "every page of a window of a cold file touched in order";
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
                 preset, less where less may be written";
            "window": Domain::bytes(64 << 10, 1 << 36), ["16MiB"; 3] =>
                "size of a window of that file; at most half the file";
            "steady": Domain::ns(0, 60_000_000_000), ["0"; 3] =>
                "of stress, time for which turns are made before those that are recorded, and \
                 while they are at least; 0: none before, and the case's own";
        },
        &[PLACEMENT_PARAM],
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
    /// A fault.
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
                offer.of(&CARD, "", Self::ORDER).cases.push(case);
                continue;
            }
            let series = offer.of(&CARD, MAJOR_SERIES, Self::ORDER);
            series.cases.push(case);
            let window = setting("window").unwrap_or(MIB);
            let bytes = [("file", file_bytes(site, params)), ("window", window)];
            let bytes = bytes.map(|(name, bytes)| (name.to_owned(), Value::from(bytes)));
            series.settings.extend(bytes);
        }
        any_of(offer)
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        if !is_major(&series) {
            return Ok(series);
        }
        let below = device::below(site)?;
        let window = series.setting("window").unwrap_or(MIB);
        for case in &mut series.cases {
            let at = &mut case.at;
            let mut put = |name: &str, value: Value| at.insert(name.to_owned(), value);
            put("device", Value::from(below.disk.name.as_str()));
            put("device_number", Value::from(below.number.as_str()));
            put("file_system", Value::from(below.mount.fs.as_str()));
            put("window_bytes", Value::from(window));
            if is_virtual(below.disk, site) {
                put("device_kind", Value::from("virtual"));
            }
            if let Some(bytes) = below.disk.read_ahead_bytes {
                put("readahead_bytes", Value::from(bytes));
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Faulted, at: &Case, metric: &Metric) -> Option<Prediction> {
        predicted::of(facts, of, at, &metric.name)
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
        zeroing.at.insert("huge_page".to_owned(), Value::from(large));
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
    let of = |case: &Case| match Faulted::of(&case.id) {
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

/// Why a minor fault is not to be had here.
fn absent(site: &Site, fault: Touch) -> Option<Skip> {
    let memory = site.memory_bytes;
    if memory < MEMORY_BYTES {
        return Some(Skip::because(format!(
            "{} MiB of memory may be touched here, of {} MiB",
            memory / MIB,
            MEMORY_BYTES / MIB
        )));
    }
    if fault == Touch::Stress && site.dir.is_none() {
        return Some(
            Skip::because(
                "no directory for its files: the current one cannot be written, or lies in memory",
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
            Skip::because("transparent huge pages are off: every fault is one of a base page")
                .needs("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        );
    }
    let large = thp.page_bytes.filter(|large| large * HUGE_SHARE > memory)?;
    Some(Skip::because(format!(
        "a huge page has {} MiB here, too much of the {} MiB that may be touched",
        large / MIB,
        memory / MIB
    )))
}

#[cfg(test)]
mod tests;
