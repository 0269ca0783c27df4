//! What do readers of a device cost each other?
//!
//! ## Question
//!
//! One reader reads a file block by block, past the page cache. How much longer does a block take
//! when others read files of their own on the same device, how much do all get together, and does
//! each get its share?
//!
//! ## Method
//!
//! Every reader has a file of its own and one read of 4 KiB under way at a time (pread on a file
//! open with O_DIRECT, into one block of memory that is aligned and touched before). The files are
//! made once, before the first round: incompressible data, no two blocks alike, synced, in written
//! extents (FIEMAP). Before each case they are evicted and must be nowhere in the page cache
//! (cachestat or mincore); O_DIRECT is asked for by statx and tried.
//!
//! The measured reader is the measuring thread. Its competitors are processes, as R0's, or threads
//! of the same process, as R1's and R2's (R1's and R2's n threads are n - 1 competitors and the
//! measured reader). All read in `pattern`: `sequential` goes through the file from a block that
//! differs by reader and round, and begins anew at the end; `random` draws each block. (R0 has one
//! block read a thousand times and says no more of where; R1 and R2 read in order.)
//!
//! The measured reader has the round's CPU for itself, competitors are spread over the other
//! allowed CPUs one by one, and share these where they are more; with one CPU all share it. All are
//! pinned, of one priority.
//!
//! All read without pause from before the common start until all are past the common end; what lies
//! between counts, and what a reader had under way at an edge counts by its part inside. So no
//! window holds a straggler that has the device for itself. The window lasts `window`, but until
//! the measured reader has had 8 reads and each other one, for two seconds at most. A reader that
//! fails, or has no read that began in the window, fails the case. The last block that each reader
//! got is compared with what was written there.
//!
//! ## Prediction
//!
//! N readers with one read each are a closed system: the time for a read is flat at what one reader
//! takes alone until the device has as many reads as it serves at a time, and grows linearly from
//! there, by what the device takes for each read when it is busy (asymptotic bounds of operational
//! analysis). One reader's time is fs.read's of the same run in the same pattern, else what data
//! sheets of the device's class state (or `host.disk.read_latency`); a busy device's is one over
//! the most reads per second that fs.io had with a deep queue (or `host.disk.read_iops`), else one
//! reader's over as many reads as a device of the class serves at a time. A reader's CPU time
//! bounds as well: readers have no more CPUs than there are. R1 predicts a linear growth from the
//! first competitor on, and R2 a proportional one: that is the case of a device that serves one
//! read at a time.
//!
//! ## Parameters
//!
//! - `readers`: what competitors are: `processes` or `threads`.
//! - `size`: bytes of each reader's file. `auto`: 64 KiB for processes (R0), 64 MiB for threads
//!   (R1); in thorough both sizes for both. Competitors whose files would not fit into what may be
//!   written are skipped: without `--dir` five files of 64 MiB do.
//! - `pattern`: `sequential` or `random`.
//! - `competitors`: how many. `auto`: 0, 1, 4, 9 processes and 0, 1, 3, 4, 7, 15 threads in
//!   standard, 0 and 4 processes in quick, in thorough all from 0 to 9 processes and 0 to 15
//!   threads.
//! - `window` (setting): shared time of a case.
//! - `placement`: where the threads run that wait for the device: `free` (anywhere, its moves are
//!   planned), `interrupt` (on the CPU that takes the device's interrupts) or `other` (on another,
//!   which costs a wake-up across CPUs). Earlier figures without it read as `other`.
//!
//! ## Reading the result
//!
//! `latency` is one block of the measured reader, each an event, with a distribution: R0's figure
//! is its mean. `latency_all` is the mean over all blocks of all readers: R1's and R2's figure.
//! `bandwidth` is what all had together, `fairness` Jain's index of their shares: 1 where all had
//! the same, 1/N where one had all. `cpu` is CPU time per block of all readers. Where the CPUs that
//! competitors share are busy for nine tenths of the window, a note says so: then it is they that
//! saturate.
//!
//! `saturation` is the number of readers at which the device is full: where the line through the
//! origin that total bandwidth follows at first meets its plateau; it is missing where bandwidth
//! still rises up to the most readers (then the device has not been filled). `slope` is the
//! least-squares line of `latency` over competitors, in ns for each, `linearity` its share of the
//! variance: R1's claim of a linear growth holds where it is near 1, and reads one by one where
//! `slope` is what one reader takes alone.
//!
//! Device bytes: what the kernel counted for all readers (read_bytes of /proc) against what they
//! asked for, and what the device counted (/proc/diskstats). Where less came from the device than
//! was asked for, `cache_share` and a note say so.
//!
//! ## Pitfalls
//!
//! A file of 64 KiB that is read over and over comes from the memory of any disk that has some, and
//! of the host of a virtual one: its contention is that of the way there. R1's 1.03 ms for two
//! threads on a SATA solid-state disk (0.08 ms for one) cannot be seeks, of which it has none: 64
//! MiB files made by dd of zeros and threads on few CPUs are candidates; plumb's readers are pinned
//! and its data is not compressible. R2's readers begin and end by themselves, so that the last one
//! reads alone. Block layers answer a read on the CPU that asked: a CPU shared by many competitors
//! does the work of all of them. I/O schedulers and control groups with weights (io.weight, ionice)
//! favour by process: threads of one process and processes may differ. A reader that others are
//! preferred to shows in `reads_least`.
//!
//! ## Sources
//!
//! R0 "Contention", R1 table XIX and figure 4, R2 7.4; R. Jain, D. Chiu, W. Hawe 1984; P. Denning
//! and J. Buzen 1978 (bounds of closed systems); open(2) O_DIRECT, statx(2), proc(5) io and
//! diskstats. The intervals' sources stand in `predict/fs/contention.rs`.

mod curve;
mod files;
mod readers;
mod round;

use super::file;
use super::offered::{Offered, found, less, more, plain, standard_first};
use anyhow::Result;
use bench::device;
use bench::experiment::contract::{Experiment, Facts, Files};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, DerivedValue, Domain, Fields, Hazards, Known, Need, Offer, Param, Params, Preset, Site,
    Skip, ViewCard, unknown,
};
use bench::link::RoundOrder;
use bench::measure::Bench;
use bench::{case, params, symbols};
use laws::Law;
use laws::fs::contention as law;
use laws::fs::{BLOCK_BYTES, Pattern};
use record::case::{Case, Series};
use record::event::Prediction;
use record::key::CaseId;
use record::metric::Metric;
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Contention = Contention;

/// `fs.contention`.
pub struct Contention;

const ID: &str = "fs.contention";
/// R0's files and R1's, in bytes.
const SMALL: u64 = 64 << 10;
const LARGE: u64 = 64 << 20;
/// Competitors in standard; with little room four threads' files or five have it.
const STEPS_PROCESSES: [u64; 4] = [0, 1, 4, 9];
const STEPS_THREADS: [u64; 6] = [0, 1, 3, 4, 7, 15];
const STEPS_QUICK: [u64; 2] = [0, 4];

symbols! {
    enum As { Processes = "processes", Threads = "threads" }
}

impl As {
    fn steps(self) -> &'static [u64] {
        match self {
            As::Processes => &STEPS_PROCESSES,
            As::Threads => &STEPS_THREADS,
        }
    }

    /// The most competitors that the reports have of a kind.
    fn most(self) -> u64 {
        self.steps()[self.steps().len() - 1]
    }
}

case! {
    /// Readers beside each other.
    pub struct Competing {
        /// what the competing readers are
        readers: As,
        /// size of each reader's file
        size: u64 = Domain::bytes(16 << 10, 1 << 40),
        /// how each reader goes through its file
        pattern: Pattern,
        /// readers beside the measured one
        competitors: u64 = Domain::count(0, 63),
    }
}

case! {
    /// What cases say together that differ in their competitors alone.
    struct Curve {
        /// what the competing readers are
        readers: As,
        /// size of each reader's file
        size: u64,
        /// how each reader goes through its file
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
    metrics: &[
        less("latency", "one direct block of 4 KiB of the measured reader", Unit::Ns),
        less("latency_all", "the mean over all readers' blocks", Unit::Ns),
        more("bandwidth", "what all readers had together", Unit::BPerS),
        more("fairness", "Jain's index of the readers' shares", Unit::Ratio),
        less("cpu", "CPU time of a block, of all readers", Unit::NsPerOp),
        found(more("saturation", "readers at which total bandwidth has its knee", Unit::Count)),
        found(less(
            "slope",
            "what a further competitor adds to a block of the measured reader",
            Unit::Ns,
        )),
        found(plain(
            "linearity",
            "share of the latencies' variance that a line over competitors explains",
            Unit::Ratio,
        )),
    ],
    params: params![
        Competing::PARAMS,
        &[
            Param::setting(
                "window",
                "time that all readers of a case read together",
                Domain::ns(1_000_000, 10_000_000_000),
                ["30ms", "50ms", "70ms"],
            ),
            PLACEMENT_PARAM,
        ],
    ],
    after: &["fs.read", "fs.io"],
    needs: &[Need::Directory],
    views: &[ViewCard::line("competitors", "latency").beside(&["bandwidth", "fairness"])],
    ..Card::PLAIN
};

impl Experiment for Contention {
    type Case = Competing;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("contention.rs");
    // With a CPU of its own, the measured reader does not wait for others. The scheduler may put
    // free readers on one CPU.
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |order| Hazards { run_delay: order.cpus.len() > 1 && !order.is_free(), ..Hazards::FILES };
    const ROUND_COST: fn(&Site, &Series) -> Duration = round::round_cost;
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| files::write(series, dir),
        cost: |site, series| device::write_cost(site, files::bytes(&files::sizes(&series.cases))),
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
                (_, Preset::Thorough) => (SMALL, (0..=readers.most()).collect()),
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
                format!("the files would be in memory ({fs}), which no direct read goes past");
            let needed = "--dir DIR on a file system of a device, or of another machine";
            return Err(Skip::because(why).needs(needed));
        }
        // Those with the smallest files are the first to have room.
        cases.sort_by_key(|case| (case.size, case.competitors));
        standard_first::<Self>(site, &mut cases);
        let mut offered = Offered::default();
        for case in cases {
            offered.cases.push(Case::new(case.id()));
            let wanted = files::bytes(&files::sizes(&offered.cases));
            if let Err(skip) = device::affords(site, ID, wanted, "competitors=NUMBER") {
                offered.cases.pop();
                let files = case.competitors + 1;
                let reason = format!("{files} files, each a reader's own: {}", skip.reason);
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
            "latency_all" => law::latency(facts, readers).and("all readers are alike"),
            "bandwidth" => law::bandwidth(facts, readers),
            "cpu" => law::cpu(facts, readers),
            _ => {
                let alone = || unknown("one reader shares with nobody: no figure");
                let law = law::fairness(facts.site, readers);
                return Some(law.map_or_else(alone, Law::prediction));
            }
        };
        Some(law.prediction())
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        let Curve { readers, size, pattern } = Curve::of(id)?;
        // It goes to the most that the reports have.
        let readers = law::Readers { count: readers.most() + 1, pattern, size };
        let name = metric.name.as_ref();
        if facts.known.is_some() && !law::is_known(facts, readers, name) {
            return None;
        }
        let law = match name {
            "saturation" => law::saturation(facts, readers),
            "slope" => law::slope(facts, readers),
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
