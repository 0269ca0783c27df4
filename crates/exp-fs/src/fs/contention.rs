//! How much do concurrent readers of a device slow each other down?
//!
//! ## Question
//!
//! One reader reads a file block by block, past the page cache. How much longer does a block take
//! when others read separate files on the same device, how much bandwidth do all get together, and
//! does each get its share?
//!
//! ## Method
//!
//! Every reader has a separate file and one 4 KiB read in flight at a time (pread on a file opened
//! with O_DIRECT, into one aligned block of memory that was touched before). The files are made
//! once, before the first round: incompressible data, no two blocks alike, synced, in written
//! extents (FIEMAP). Before each case they are evicted, and no page may be left in the page cache
//! (cachestat or mincore). plumb queries O_DIRECT with statx and tries it.
//!
//! The measured reader is the measuring thread. Its competitors are processes, as in R0, or threads
//! of the same process, as in R1 and R2 (their n threads are n - 1 competitors and the measured
//! reader). All read in `pattern`: `sequential` goes through the file from a block that differs by
//! reader and round, and wraps around at the end; `random` takes all blocks in random order, over
//! and over. (R0 reads one block a thousand times and does not state which; R1 and R2 read
//! sequentially.)
//!
//! The measured reader has the round's CPU to itself. Competitors are spread over the other allowed
//! CPUs, one per CPU, and share these if there are more competitors than CPUs; with one CPU all
//! share it. All are pinned and have equal priority.
//!
//! All readers begin at a common tick and read without a pause until the measured reader has ended, so
//! it never has the device to itself. The window is its own, from when all have had two reads on. It
//! lasts `window`, extended until the measured reader has completed 8 reads and each other reader one,
//! but at most two seconds. Of other readers the reads that cross an edge of the window count by the part
//! inside. A reader that fails fails the case. The last block of each reader is compared with what was
//! written there.
//!
//! ## Prediction
//!
//! N readers with one read each form a closed system. The time per read equals the time of a single
//! reader until there are as many readers as the device serves at a time. From there it grows
//! linearly, by the time that a busy device takes per read (asymptotic bounds of operational
//! analysis). The time of a single reader is fs.read's of the same run and pattern, else from data
//! sheets of the device's class (or `host.disk.read_latency`). The time per read of a busy device
//! is the inverse of fs.io's highest read rate with a deep queue (or of `host.disk.read_iops`),
//! else the time of a single reader divided by the number of reads that a device of the class
//! serves at a time. CPU time is a bound as well, because the readers can use no more than all
//! CPUs. R1 predicts linear growth from the first competitor on, and R2 proportional growth: both
//! describe a device that serves one read at a time.
//!
//! ## Parameters
//!
//! - `readers`: kind of competitors: `processes` or `threads`.
//! - `size`: bytes of each reader's file. `auto`: 64 KiB for processes (R0), 64 MiB for threads
//!   (R1); in thorough both sizes for both. Competitors whose files would exceed what may be
//!   written are skipped: without `--dir` five files of 64 MiB fit.
//! - `pattern`: `sequential` or `random`.
//! - `competitors`: number of competitors. `auto`: 0, 1, 4, 9 processes and 0, 1, 3, 4, 7, 15
//!   threads in standard, 0 and 4 processes in quick, in thorough all from 0 to 15 of both.
//! - `window` (setting): shared time of a case.
//! - The scheduler places the threads that wait for the device on the CPUs of the run, which a
//!   case's `cpus` names; migrations are expected.
//!
//! ## Reading the result
//!
//! `latency` is one block of the measured reader, with a distribution over single reads; R0's
//! figure is its mean. `latency_all` is the mean over all blocks of all readers: R1's and R2's
//! figure. `bandwidth` is the total of all readers. `fairness` is Jain's index of their shares: 1
//! if all shares are equal, 1/N if one reader got everything. `cpu` is the CPU time per block over
//! all readers. If the CPUs that competitors share are busy for nine tenths of the window, a note
//! says so: the CPUs are then saturated, not the device.
//!
//! `saturation` is the number of readers that saturates the device: the point where the initial
//! line of total bandwidth through the origin meets its plateau. It is missing if bandwidth still
//! rises at the highest number of readers, because the device was then not saturated. `slope` is
//! the least-squares line of `latency` over competitors, in ns per competitor, and `linearity` is
//! the share of the variance that the line explains. R1's claim of linear growth holds if
//! `linearity` is near 1. The device serves reads one by one if `slope` equals the time of a single
//! reader.
//!
//! Device bytes: the bytes that the kernel counted for all readers (read_bytes in /proc) and that
//! the device counted (/proc/diskstats) are compared with the requested bytes. If less came from
//! the device than was requested, `cache_share` and a note say so.
//!
//! ## Pitfalls
//!
//! A 64 KiB file that is read over and over comes from the memory of any disk that has some, and
//! from the host's memory on a virtual disk. Its contention is that of the path to that memory.
//! R1's 1.03 ms for two threads on a SATA solid-state disk (0.08 ms for one) cannot be seeks,
//! because such a disk has no head. Candidates are 64 MiB files of zeros made by dd, and threads on
//! few CPUs; plumb pins its readers and writes incompressible data. R2's readers start and end
//! independently, so the last one reads alone. Block layers complete a read on the CPU that
//! submitted it: a CPU shared by many competitors does the work of all of them. I/O schedulers and
//! control groups with weights (io.weight, ionice) allocate by process, so threads of one process
//! and processes may differ. If others are preferred to a reader, `reads_least` shows it.
//!
//! ## Sources
//!
//! [R0] "Contention", [R1] table XIX and figure 4, [R2] 7.4; [jain-fairness]; [denning] (bounds of
//! closed systems); [man] open(2) O_DIRECT, statx(2), proc(5) io and diskstats.

mod curve;
mod round;

use super::file;
use super::job::As;
use super::offered::{Offered, standard_first};
use crate::fs::prelude::*;
use laws::fs::{BLOCK_BYTES, contention as law};
use laws::range;

bench::experiment!(Contention);

const ID: &str = "fs.contention";
/// R0's files and R1's, in bytes.
const SMALL: u64 = 64 << 10;
const LARGE: u64 = 64 << 20;
/// Competitors in standard; with little room four threads' files or five have it.
const STEPS_PROCESSES: [u64; 4] = [0, 1, 4, 9];
const STEPS_THREADS: [u64; 6] = [0, 1, 3, 4, 7, 15];
const STEPS_QUICK: [u64; 2] = [0, 4];
/// The most competitors of thorough: R1's.
const MOST: u64 = 15;

impl As {
    fn steps(self) -> &'static [u64] {
        match self {
            As::Processes => &STEPS_PROCESSES,
            As::Threads => &STEPS_THREADS,
        }
    }

    /// The most competitors of a kind in standard.
    fn most(self) -> u64 {
        self.steps()[self.steps().len() - 1]
    }
}

case! {
    /// Readers beside each other.
    pub struct Competing {
        /// kind of competing readers
        readers: As,
        /// size of each reader's file
        size: u64 = Domain::bytes(16 << 10, 1 << 40),
        /// order in which each reader reads its file
        pattern: Pattern,
        /// number of readers in addition to the measured one
        competitors: u64 = Domain::count(0, 63),
    }
}

case! {
    /// What cases say together that differ in their competitors alone.
    struct Curve {
        /// kind of competing readers
        readers: As,
        /// size of each reader's file
        size: u64,
        /// order in which each reader reads its file
        pattern: Pattern,
    }
}

impl Competing {
    fn readers(&self) -> law::Readers {
        law::Readers { count: self.competitors + 1, pattern: self.pattern, size: self.size }
    }
}

static CARD: Card = Card {
    id: ID,
    title: "Competing readers",
    metrics: metrics! {
        "latency" => Ns Lower Io: "one direct 4 KiB read by the measured reader";
        "latency_all" => Ns Lower Io: "mean latency over the reads of all readers";
        "bandwidth" => BPerS Higher Io: "bandwidth of all readers together";
        "fairness" => Ratio Higher Io: "Jain's index of the readers' shares";
        "cpu" => NsPerOp Lower Io: "CPU time per read, over all readers";
        "saturation" => derived Count Higher Io: "number of readers at the knee of total bandwidth";
        "slope" => derived Ns Lower Io:
            "latency that each further competitor adds for the measured reader";
        "linearity" => derived Ratio None Io:
            "share of the latency's variance that a line over competitors explains";
    },
    params: params![
        Competing::PARAMS,
        settings! {
            "window": Domain::ns(1_000_000, 10_000_000_000), ["30ms", "50ms", "70ms"] =>
                "time for which all readers of a case read together";
        },
    ],
    after: &["fs.read", "fs.io"],
    needs: &[Need::Directory],
    views: &[ViewCard::line("competitors", "latency").beside(&[
        "latency_all",
        "bandwidth",
        "fairness",
    ])],
    ..Card::PLAIN
};

impl Experiment for Contention {
    type Case = Competing;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("contention.rs");
    const SHARES: &'static [&'static str] = &["fairness", "linearity"];
    // With a CPU of its own, the measured reader does not wait for others. The scheduler may put
    // free readers on one CPU.
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |order| Hazards { run_delay: order.cpus.len() > 1 && !order.is_free(), ..Hazards::FILES };
    const ROUND_COST: fn(&Site, &Series) -> Duration = round::round_cost;
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| round::write(series, dir),
        cost: |site, series| device::write_cost(site, round::bytes(&round::sizes(&series.cases))),
        has: |_| true,
    });

    fn cases(_: &Site, preset: Preset) -> Vec<Competing> {
        let is_thorough = preset == Preset::Thorough;
        let mut cases = Vec::new();
        for &readers in As::ALL {
            let (own, steps): (_, Vec<u64>) = match (readers, preset) {
                (As::Threads, Preset::Rehearsal | Preset::Quick) => continue,
                (_, Preset::Rehearsal | Preset::Quick) => (SMALL, STEPS_QUICK.to_vec()),
                (As::Processes, Preset::Standard) => (SMALL, readers.steps().to_vec()),
                (As::Threads, Preset::Standard) => (LARGE, readers.steps().to_vec()),
                (_, Preset::Thorough) => (SMALL, (0..=MOST).collect()),
            };
            for size in if is_thorough { vec![SMALL, LARGE] } else { vec![own] } {
                for &pattern in &Pattern::ALL[..if is_thorough { 2 } else { 1 }] {
                    let of = |&competitors| Competing { readers, size, pattern, competitors };
                    cases.extend(steps.iter().map(of));
                }
            }
        }
        cases
    }

    /// Whole blocks: what a direct read takes.
    fn complete(case: Competing) -> Option<Competing> {
        let block = BLOCK_BYTES as u64;
        Some(Competing { size: case.size / block * block, ..case })
    }

    fn series(site: &Site, mut cases: Vec<Competing>, params: &Params) -> Result<Offer, Skip> {
        let fs = laws::fs::file_system(site);
        if ["tmpfs", "ramfs"].contains(&fs) {
            let why =
                format!("the files would be in memory ({fs}), so direct reads are impossible");
            let needed = "--dir DIR on a block device or a remote file system";
            return Err(Skip::because(why).needs(needed));
        }
        // Those with the smallest files are the first to have room.
        cases.order_by_key(|case| (case.size, case.competitors));
        standard_first::<Self>(site, &mut cases);
        let mut offered = Offered::default();
        for case in cases {
            offered.cases.push(Case::new(case.id()));
            let wanted = round::bytes(&round::sizes(&offered.cases));
            if let Err(skip) = device::affords(site, ID, wanted, "competitors=NUMBER") {
                offered.cases.pop();
                let files = case.competitors + 1;
                let reason = format!("{files} files, one per reader: {}", skip.reason);
                offered.skipped.push((case.id(), Skip { reason, ..skip }));
            }
        }
        offered.series(&CARD, "", params.settings(&CARD))
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        Ok(round::placed(site, file::ground_facts(site, series)))
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        curve::derivable(series)
    }

    fn law(facts: Facts, case: &Competing, _: &Case, metric: &Metric) -> Option<Prediction> {
        let (name, readers) = (metric.name.as_ref(), case.readers());
        if facts.known.is_some() && !law::is_known(facts, readers, name) {
            return None;
        }
        let law = match name {
            "latency" => law::latency(facts, readers),
            "latency_all" => law::latency(facts, readers).and("all readers are equal"),
            "bandwidth" => law::bandwidth(facts, readers),
            "cpu" => law::cpu(facts, readers),
            _ => {
                let alone = || unknown("unknown: fairness needs at least two readers");
                let law = law::fairness(facts.site, readers);
                return Some(law.map_or_else(alone, Law::prediction));
            }
        };
        Some(law.prediction())
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        let Curve { readers: kind, size, pattern } = Curve::from_id(id)?;
        let most = |competitors: u64| law::Readers { count: competitors + 1, pattern, size };
        let readers = most(kind.most());
        let name = metric.name.as_ref();
        if facts.known.is_some() && !law::is_known(facts, readers, name) {
            return None;
        }
        let law = match name {
            "saturation" => law::saturation(facts, readers),
            "slope" => {
                // The line goes to the most of standard, or to that of thorough.
                let (short, long) = (law::slope(facts, readers), law::slope(facts, most(MOST)));
                let (of, to) = (short.range, long.range);
                short.with_range(range(of.low.min(to.low), of.likely, of.high.max(to.high)))
            }
            _ => law::linearity(),
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        round::measure(series, bench)
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        curve::derive(values)
    }
}

#[cfg(test)]
mod tests;
