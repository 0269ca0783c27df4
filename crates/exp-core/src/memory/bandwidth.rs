//! How many bytes per second move between the cores and each level of the memory hierarchy?
//!
//! ## Question
//! What do one thread and all threads read, write, modify, copy and combine per second, in each
//! cache and in main memory; how does that compare with the limits of instructions and channels;
//! and how much extra bus traffic does a store cause?
//!
//! ## Method
//! Kernels in assembly, one per instruction set, pass over each thread's own arrays; no compiler
//! can turn them into a call of the C library. A thread's memory is mapped, bound to its node and
//! first touched on its CPU, in huge pages if available (`huge_share`), when a case first needs it;
//! later cases of the round reuse it. For each case the arrays are rewritten past the caches, so
//! that no dirty lines remain, and they start at different offsets within a page.
//!
//! Threads start at a common tick and go on until all are past the end of the window (half the case
//! time); bytes count only while all of them run (`overlap`: that share of the window), and a step
//! (about 0.1 ms) across an edge counts in part. If threads had less than 93 % of their CPUs, the
//! window is repeated, up to three times. Then plumb compares every array with its expected
//! content, and reads with their sum (vectors: the last 16 registers), and looks again at the nodes
//! of the pages; a difference fails the case.
//!
//! On x86-64 vectors have two loops; one prefetches 512 bytes ahead of loads and of regular stores
//! (this requests the line with its content, so the processor cannot skip the read), 1 KiB without
//! stores or with stores that bypass the caches; never in the first cache. In main memory `vector`
//! also tries the loops of narrower vectors, because there the number of outstanding lines is the
//! limit (on Zen 4 the widest copy is a fifth slower than the narrowest). All threads try each loop
//! for an eighth of the window beforehand and use the fastest (`loop`, `prefetch`). Words, and
//! aarch64, have one loop.
//!
//! In a cache a thread's arrays fill three eighths of its share (seven eighths if the previous
//! cache is more than three sixteenths), and one pass warms them. In main memory the arrays of all
//! threads are four times their last caches, as `memory.latency` measured them (otherwise as
//! described), and each thread's are at least four times its private caches, limited by `limit` and
//! by the available memory; a note gives a smaller size in last caches. `4xLLC` is exactly four
//! times the last cache, the reports' choice, or skipped.
//!
//! `bandwidth` counts bytes as STREAM does: each line once per load and once per store. A word that
//! represents its line counts as the line (`word_rate`: the words' bytes; not in L1, where no line
//! moves). `bus_bandwidth` adds the line that a regular store reads first (write-allocate), unless
//! the program loads it anyway; it is reported only if it differs. Some processors skip that read
//! for whole lines and move less than this figure.
//!
//! **Derived.** `stream_mean`: the mean of copy, scale, add and triad (R4). `copy_over_read`: their
//! bus bandwidths' ratio. In each round a copy is checked against the read of its kind: beyond L1
//! it moves no more on the bus than the law's highest ratio says (two reads' worth), in L1 it loads
//! no more than 1.1 times the read. If it seems to, both are measured again: the wrong one counts
//! as failed in this round, or both if they still contradict each other.
//!
//! The reports' cases (`--preset reports`), with `threads=1`: R1 `op=read,write`, `access=first`,
//! `width=4`, `level=4xLLC`; R0 the same with `access=strided` and `level=DRAM`; R2 with
//! `access=every`, `width=8` and `level=DRAM`; R4 the four kernels with `level=4xLLC`.
//!
//! ## Prediction
//! First cache: memory instructions per cycle of the core design (plumb's table) x their bytes x
//! core clock. Second: bytes per cycle of the design. Beyond: lines in flight x 64 B / latency; of
//! a cache memory.latency's, once known; of main memory the usual one, because a stream waits
//! neither for walks of the page tables nor for closed rows. All cores in main memory: 60 to 95 %
//! of channels x MT/s x 8 B by DMI (modules are counted where slots name no channel) or `--set
//! host.memory.…`, otherwise of the usual sockets of the core's generation; threads have the
//! channels of their memory nodes. Many Arm cores store whole lines without reading them. Where the
//! channels are the limit, write-allocate makes a copy 2/3 of a read in program bytes, a triad 3/4,
//! non-temporal stores 1. One thread is limited by its lines in flight: reads before stores take
//! some of them, write-backs none, so its copy is 0.6 to 1.33 of its read. A virtual machine shares
//! its memory, so its range is wider. Bound: instructions x bytes x the round's core clocks; the
//! channels' rate only warns.
//!
//! ## Reading the result
//! One thread reaches the limit of its lines in flight, mostly half or less of the rate of all
//! threads; a ratio of `all` to one thread well below the number of CPUs shows the memory's limit.
//! `efficiency` is relative to memory instructions in a cache (so it falls from level to level) and
//! to the channels in main memory. Writing at half of reading is write-allocate; non-temporal
//! stores that are not faster, or a bus bandwidth of writes above that of reads, mean that the
//! processor skips that read itself or that one thread's write buffers are the limit. A rate is
//! measured between two readings of the width probe, about 0.1 ms apart, and added up over threads
//! that had their CPUs at the same time; otherwise, and in `window_rate`, it covers the whole
//! window. The rate of a cache is *alone* if no other tenant used the core. Other tools print their
//! best round; it is the maximum here.
//!
//! ## Pitfalls
//! A first touch by another thread puts memory on a wrong node; with different start times, threads
//! run partly without competition; a call of memcpy may use non-temporal stores or `rep movsb`; a
//! cache's size is per slice, per guest or per class of service; arrays 4 KiB apart make loads wait
//! for stores; wide stores lower the clock on some processors (the efficiency's denominator is
//! taken just before and after, by a chain of the same width in caches). Flat topologies of virtual
//! machines hide siblings. plumb cannot count what a neighbour takes of the memory's rate.
//!
//! ## Sources
//!
//! [stream]; [likwid]; [cloverleaf] (write-allocate evasion); reports [R0] (256 MB, stride), [R1]
//! (4 x last cache, first word of each line), [R2] (8-byte words), [R4] (mean of the four kernels).
//! Core designs, not looked up row by row: [intel-optimization], [amd-guides], [arm-guides],
//! [uops].

mod beside;
mod kernels;
mod run;
mod sizes;

use super::arrays::Arena;
use crate::add;
use bench::prelude::*;
use beside::contradicted;
use laws::cpu::is_guest;
use laws::memory::Level;
use laws::memory::bandwidth as law;
use laws::memory::transfer::{Transfer, Width};
use record::order::InOrder;

const ID: &str = "memory.bandwidth";
/// What the round's cost is stated from, in ns: touching a byte first (in a guest the hypervisor
/// finds the memory then), writing and comparing a byte of the arrays, what a case takes around its
/// window, making a thread, and comparing the clock of a CPU with the first one's, once a round.
const TOUCH_NS: f64 = 0.4;
const TOUCH_GUEST_NS: f64 = 1.0;
const PREPARE_NS: f64 = 0.2;
const AROUND_NS: f64 = 3.5e6;
const THREAD_NS: f64 = 60e3;
const COMPARE_NS: f64 = 300e3;
const WORKER_NS: f64 = 30e6;
/// Warm-up and wait for the others, and trials of the two loops of a width, as shares of the
/// window.
const WINDOWS: f64 = 1.15;
const TRIALS: f64 = 0.25;
/// A window is this share of the case time: 200 steps and more.
const WINDOW_SHARE: f64 = 0.5;
/// Most bytes of a thread's arrays in a rehearsal, whose figures mean nothing.
const REHEARSAL_LIMIT: u64 = 8 << 20;
/// Why a case cannot be measured at the sizes that were found, as it has it.
const IMPOSSIBLE: &str = "impossible";

bench::experiment!(Bandwidth);

const METRICS: &[Metric] = metrics! {
    "bandwidth" => BPerS Higher Hardware:
        "bytes that the program loads and stores, all threads in their shared window";
    "bus_bandwidth" => BPerS Higher Hardware:
        "the same, plus the lines that stores read first (write-allocate)";
    "efficiency" => Ratio Higher Hardware:
        "caches: bandwidth over memory instructions x bytes x measured core clock; main memory: \
         bus bandwidth over channels x rate x 8 B";
    "stream_mean" => derived BPerS Higher Hardware: "mean bandwidth of copy, scale, add and triad";
    "copy_over_read" => derived Ratio None Hardware: "bus bandwidth of a copy over that of a read";
};

static CARD: Card = Card {
    id: ID,
    title: "Memory bandwidth",
    metrics: METRICS,
    params: bench::params!(
        Transfer::PARAMS,
        settings! {
            "limit": Domain::bytes(1 << 20, 1 << 42), ["128MiB", "256MiB", "512MiB"] =>
                "Most bytes of one thread's arrays in main memory";
        },
    ),
    after: &["clock.rate", "memory.latency"],
    views: &[
        ViewCard::line("threads", "bandwidth")
            .positioned("thread_count", Unit::Count)
            .only(&[("level", &["DRAM"]), ("access", &["every"]), ("width", &["vector"])])
            .each(&["stores"]),
        ViewCard::line("level", "bandwidth")
            .positioned("footprint_total", Unit::B)
            .only(&[("stores", &["regular"]), ("access", &["every"]), ("width", &["vector"])])
            .each(&["threads"])
            .log(),
        ViewCard::bars("bandwidth").only(&[("level", &["DRAM"])]).each(&["threads"]),
    ],
    keys: &[
        KeyFigure::new(
            "DRAM read,",
            "1 CPU",
            "bandwidth",
            "op=read,access=every,width=vector,level=DRAM,threads=1",
        ),
        KeyFigure::new(
            "DRAM read,",
            "all",
            "bandwidth",
            "op=read,access=every,width=vector,level=DRAM,threads=all",
        ),
        KeyFigure::new("DRAM triad, all", "", "bandwidth", "op=triad,stores=regular,threads=all"),
    ],
    ..Card::PLAIN
};

impl Experiment for Bandwidth {
    type Case = Transfer;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("bandwidth.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;

    fn cases(site: &Site, preset: Preset) -> Vec<Transfer> {
        kernels::cases(site, preset)
    }

    fn complete(case: Transfer) -> Option<Transfer> {
        let exists = !matches!(case.width, Width::Word(bytes) if bytes != 4 && bytes != 8);
        exists.then_some(case)
    }

    /// The reports' arrays may be too large where others are cut: a series of its own.
    fn series(site: &Site, cases: Vec<Transfer>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        let most = if params.preset == Preset::Rehearsal { REHEARSAL_LIMIT } else { u64::MAX };
        let limit = params.ints("limit").first().map_or(most, |limit| most.min(*limit));
        for case in cases {
            let is_reports = case.level == Level::FourTimes;
            let name = if is_reports { Level::FourTimes.text() } else { "levels" };
            let absent = kernels::absent(site, &case, limit);
            if let Some(series) = add(&mut offer, (&CARD, name, Self::ORDER), &case, absent) {
                series.settings.put("limit", limit);
            }
        }
        offer.series.order_by_key(|series| series.name == Level::FourTimes.text());
        offer.or_reason()
    }

    fn resolve(site: &Site, known: &Known, mut series: Series) -> Result<Series, Skip> {
        let facts = Facts { site, known: Some(known) };
        let limit = series.setting("limit").unwrap_or(u64::MAX);
        for case in &mut series.cases {
            let Some(of) = Transfer::from_id(&case.id) else { continue };
            match sizes::size_of_case(facts, &of, limit) {
                Ok(sized) => sized.write(case, site, &of),
                // All have one size, but for how it is divided.
                Err(skip) if of.level == Level::FourTimes => return Err(skip),
                Err(skip) => case.at.put(IMPOSSIBLE, skip.reason),
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Transfer, _: &Case, metric: &Metric) -> Option<Prediction> {
        law::says_something(facts, of.level).then_some(())?;
        let site = facts.site;
        let (law, bound) = match &*metric.name {
            "bandwidth" => (law::bandwidth(facts, of), law::instructions_bound(site, of)),
            "bus_bandwidth" => {
                let bound = law::nominal_bound(site).filter(|_| of.level.is_memory());
                (law::bus_bandwidth(facts, of), bound)
            }
            // The clock is in it already.
            _ if facts.known.is_some() => return None,
            _ => (law::efficiency(site, of), None),
        };
        match law {
            Ok(law) => Some(law.bounded(bound).prediction()),
            Err(why) => facts.known.is_none().then(|| unknown(why)),
        }
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let limits = series.cases.iter().filter_map(|case| case.int(sizes::MEMORY_LIMIT));
        let mut arena = Arena::new(limits.min().unwrap_or(u64::MAX));
        let mut rates: BTreeMap<CaseId, f64> = BTreeMap::new();
        bench.each_of::<Transfer>(series, |bench, case, of| {
            if let Some(reason) = case.at.get(IMPOSSIBLE) {
                anyhow::bail!("{reason}");
            }
            let window_ns = WINDOW_SHARE * bench.order().case_ns as f64;
            let mut run = |bench: &mut Bench, rates: &mut BTreeMap<_, _>, case: &Case| {
                let moved = run::run(bench, &mut arena, series, case, window_ns)
                    .with_context(|| format!("measuring {}", case.id))?;
                rates.insert(case.id.clone(), moved.rate());
                anyhow::Ok(moved)
            };
            let mut moved = run(bench, &mut rates, case)?;
            // Windows as short as a rehearsal's say nothing of rates.
            if !bench.order().rehearsal && contradicted(series, &of, &rates).is_some() {
                // One of the two is wrong: this one, or the one before.
                moved = run(bench, &mut rates, case)?;
                if let Some(other) = contradicted(series, &of, &rates) {
                    let again = run(bench, &mut rates, other)?;
                    ensure!(
                        contradicted(series, &of, &rates).is_none(),
                        "{} moves {} and {} {}: a copy cannot load faster than a read, so one of \
                         the two is wrong",
                        case.id,
                        render(moved.rate(), Unit::BPerS),
                        other.id,
                        render(again.rate(), Unit::BPerS)
                    );
                    // The one before was wrong, and this round has a better one.
                    bench.declare(Declared::Better(other));
                    again.write(bench, other)?;
                }
            }
            moved.write(bench, case)
        });
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        beside::cases(series)
    }

    fn derived_law(facts: Facts, case: &CaseId, metric: &Metric) -> Option<Prediction> {
        beside::predict(facts, case, &metric.name)
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        beside::derive(values)
    }
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let window_ns = WINDOW_SHARE * site.case_ns as f64;
    let touch_ns = if is_guest(site) { TOUCH_GUEST_NS } else { TOUCH_NS };
    let limit = series.setting("limit").unwrap_or(u64::MAX);
    let (mut ns, mut largest, mut most_threads) = (WORKER_NS, 0, 1);
    for of in series.cases.iter().filter_map(|case| Transfer::from_id(&case.id)) {
        let Ok(sized) = sizes::size_of_case(Facts::prior(site), &of, limit) else { continue };
        let threads = sized.cpus.len();
        // Threads that write at the same time share the memory.
        let prepared = sized.footprint as f64 * PREPARE_NS * (1.0 + threads as f64 / 16.0);
        // Vector widths whose loops are tried, from 16 bytes on.
        let vectors = of.bytes(site) / 16.0;
        let widths = match of.level {
            Level::L1 => 0.0,
            _ if vectors < 1.0 => 0.0,
            level if level.is_memory() && of.width == Width::Vector => 1.0 + vectors.log2(),
            _ => 1.0,
        };
        ns += (WINDOWS + TRIALS * widths) * window_ns
            + AROUND_NS
            + prepared
            + threads as f64 * THREAD_NS;
        largest = largest.max(sized.footprint);
        most_threads = most_threads.max(threads);
    }
    ns += largest as f64 * touch_ns + (most_threads - 1) as f64 * COMPARE_NS;
    Duration::from_nanos(ns as u64)
}

#[cfg(test)]
mod tests;
