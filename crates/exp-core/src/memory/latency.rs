//! How long a load takes if its address is the value of the previous load, over footprints from a
//! handful of lines to a gibibyte.
//!
//! ## Question
//! What is the latency of each level of the memory hierarchy, how large is the level, how long is a
//! line, how much do the prefetchers hide, and what do the TLBs cover and cost?
//!
//! ## Method
//! Slots of one line each are linked into one cycle over a footprint, and the measuring thread
//! walks it: every address is the value of the previous load, so n loads take n latencies. A slot
//! holds the address of the next slot and its index; `load` selects which one the walk uses. With
//! `load=stored` each index goes through a word of the stack, as in code compiled without
//! optimisation (R0's): a step then takes a store and its load more. Each walk continues where the
//! previous one stopped; walks are timed as n against 2n loads in ABBA quartets. An iteration has
//! 256 separate load instructions: Zen 4 learns per instruction which lines of a page follow, and
//! with only 32 of them it prefetches many lines of a page in random order.
//!
//! - `random`: a cycle drawn uniformly, grown slot by slot by Sattolo's method inside out, which
//!   leaves one whole cycle after every insertion. A round allocates its memory once, touches all
//!   pages on the measuring CPU, and grows the ring from case to case; in even rounds it undoes the
//!   insertions from case to case, so that footprints shrink.
//! - `page-random`: base pages in random order, all slots of a page in random order before the
//!   next.
//! - `forward`, `backward`: in the order of addresses, `stride` bytes apart.
//! - `four-quarter`: R0's walk, the same line of each quarter of the footprint in turn.
//!
//! Huge pages are requested by madvise and verified in smaps: if less than 95 % of the largest
//! footprint are in huge pages, the round skips every larger case with that reason and walks the
//! others; figures of `pages=huge` never come from base pages. If huge pages are disabled, base
//! pages replace them under their own name. A round with any huge page is void if base pages were
//! requested. On machines with several memory nodes, the memory is bound to the measuring CPU's
//! node before it is touched, and a round is void if any sampled page is elsewhere. The huge series
//! keeps small footprints in the same huge mapping.
//!
//! Up to twice the last cache a footprint is warmed by one load of every line in the order of
//! addresses (a whole walk of the ring would take 0.2 s and more for each of the largest); larger
//! ones are not, because they would not stay cached. Then the ring is walked for up to 65,536
//! loads, because the sweep evicts the page tables from the caches, which would slow the first
//! random loads (a quarter more at 1 GiB in a virtual machine). Once a round, for every footprint
//! up to 1 MiB and the largest up to 64 MiB, plumb counts the slots of the ring: it must visit all
//! linked slots and return to the start. For larger footprints it relies on the insertion rule,
//! which has tests.
//!
//! Beyond a core's private caches, 24 loads of other lines of the same memory, in random order,
//! precede each quartet if the memory has 64 MiB or more: their time (`memory_probe_ns`) shows the
//! state of main memory, which other tenants share. It filters nothing; a note gives its
//! correlation with the figure.
//!
//! The session gives six or more such rounds, each with a new process and mapping, so that the
//! placement of pages is part of the interval.
//!
//! **Derived.** *Levels* are the plateaus of the random ladder on huge pages (on base pages without
//! huge ones): change points of its logarithm by optimal partitioning, with segments of at least
//! half an octave, and neighbours less than a factor 1.5 apart merged. A level's latency is the
//! median of its rungs up to three eighths of its size; its size is the footprint at which one load
//! in ten goes to the next level. It takes the name of the cache that sysfs or CPUID describes with
//! half to 2.8 times this size: a neighbour on the core's other thread takes its part of a cache. A
//! plateau beyond all caches but the last that ends below the last cache's size is the program's
//! part of that cache. Any other plateau is a note with its neighbour. *Line size*: slots of a page
//! at random, 16 to 512 bytes apart, in 128 KiB, a footprint between the first and the second cache
//! (otherwise this step is skipped); the time grows with the distance until every load reaches a
//! new line. Forward strides cannot show it: prefetchers fetch pairs of lines, so their time keeps
//! growing beyond a line. *Prefetch gain*: random over forward by 64 bytes, at the largest
//! footprint with both. *TLB reach and miss*: the extra time of base pages over huge pages, fitted
//! by `cost x (1 - reach / footprint)`, the misses of a table of that reach under random loads,
//! away from the edges of the caches and up to 32 times the second cache; beyond that, the page
//! tables themselves miss that cache. *Huge gain*: random on base pages over random on huge ones,
//! at 1, 16 and 256 MiB: inside the reach of the second TLB, near its end and far beyond it, on
//! most cores since 2013.
//!
//! Footprints are whole lines of 64 bytes. In `quick` the random pointer ladder has one per octave
//! up to four times the last cache, at most 256 MiB. In `standard` it has four per octave up to 1
//! GiB, on base pages two per octave up to 256 MiB; walks that differ in one of pattern, load and
//! pages have one per two octaves up to 64 MiB. `thorough` has all combinations (`load=stored` at
//! random and in four quarters only): random ladders with four per octave up to 1 GiB, other walks
//! up to 64 MiB and then 1 GiB, with fewer footprints the more they differ from the reports.
//!
//! ## Prediction
//! Load-to-use cycles of the core design (plumb's table) over the core clock; sizes from sysfs or
//! CPUID; main memory by its generation behind the last cache. Between two levels, the hit rates
//! blend them. A virtual machine may get only a part of the last cache, and shares the memory. Base
//! pages add TLB misses according to the TLBs' entries, which gives the gain of huge pages: none
//! within the reach, then `1 + cost x (1 - reach / footprint) / latency` for each TLB. Walks in
//! order show a share of the random time; prefetchers hide the rest. Once `clock.rate` has measured
//! the core clock, it converts cycles to ns. `load=stored` adds the core's forwarding of a store to
//! a load, which some cores rename away. Bound: no x86-64 core completes a dependent load in under
//! 3 cycles.
//!
//! ## Reading the result
//! Flat parts are levels; the step between two is where the inner one is full. The random pointer
//! ladder on huge pages is *the* latency; `forward` is the latency of a scan. A step inside a level
//! on huge pages, near 4 KiB times the entries of the TLB, means that a hypervisor backs the guest
//! with base pages: then base pages cost no more than huge ones, no TLB is derived, and the ladder
//! includes the TLB's cost. A last level much smaller than described is the guest's part. A random
//! ladder cannot fall: if it does, by more than both half widths and 3 %, something other than the
//! footprint changed.
//!
//! ## Pitfalls
//! - Prefetchers: a uniformly drawn cycle has no stride. The prefetcher of line pairs brings a
//!   neighbour that is as likely the next slot as any other: it costs bandwidth, not latency. With
//!   `slot=128` it can bring nothing of the ring; on a core of 2024 that changes no rung beyond the
//!   variation of the rounds, except at the edges, which move out because the walk has half as many
//!   lines.
//! - Page placement: base pages of a cache indexed physically collide by chance, so edges are soft
//!   and differ from round to round; huge pages make them sharp.
//! - 4 KiB aliasing does not arise: there are no stores in the timed walk, and with `load=stored`
//!   they go to one word, which only one line in 64 resembles.
//! - Zero page, merging, swap: every word gets a different value before the slots are linked; the
//!   mapping is not mergeable; major faults mark a round as disturbed.
//! - First touch on the measuring CPU; pinned before.
//! - Core clock: taken around each case; cycles are never counter ticks.
//! - Last cache per slice, per guest, per class of service: the ladder finds the effective size.
//! - Memory limits: footprints beyond the available memory are skipped with the limit's size. If a
//!   limit is lower than stated, or falls during the run, the footprints that exceed it fail with
//!   that reason and the others continue.
//!
//! ## Sources
//!
//! [lmbench] `lat_mem_rd`; [sattolo] (the permutation); [saavedra] (strides and TLB); [jackson]
//! (levels as parts of the ladder); reports [R0] (strides 64, 256, 512; four quarters), [R1] (array
//! index), [R2]. Cycles of core designs: [intel-optimization], [amd-guides], [arm-guides], [fog],
//! not looked up row by row.

mod cost;
mod derive;
mod round;
mod walks;

use crate::add;
use bench::experiment::Role;
use bench::measure::placed::{Placed, TooFewHuge, is_without_room, place};
use bench::prelude::*;
use laws::cpu::knows_clock;
use laws::memory::{self, On, Pattern, Point};
use metal::memory::Pages;
use record::order::InOrder;
use round::Round;
use walks::{GRAIN_BYTES, PRIVATE, has_stride, not_here, settings};

const ID: &str = "memory.latency";
const MIB: u64 = 1 << 20;
/// Rings up to this are walked with a count every time …
const ALWAYS_VERIFIED: u64 = MIB;
/// … and the largest case up to this once a round.
const VERIFIED_MOST: u64 = 64 * MIB;
/// Loads of the walk itself before it is timed, at most: they bring back the page tables, which a
/// sweep of data drives out of the caches.
const WARM_LOADS: u64 = 1 << 16;

bench::experiment!(Latency);

const METRICS: &[Metric] = metrics! {
    "latency" => Ns Lower Hardware: "Time of one load whose address is the result of the previous \
                                     load";
    "level_latency" => derived Ns Lower Hardware:
        "Latency of a level: its plateau on the random ladder";
    "level_latency_cycles" => derived Cycle Lower Hardware:
        "Latency of a level in core cycles, by clock.rate's core clock";
    "level_size" => derived B None Hardware: "Footprint at which one load in ten misses a level";
    "line_size" => derived B None Hardware: "Smallest distance at which every load reaches a new \
                                             line";
    "prefetch_gain" => derived Ratio Higher Hardware:
        "Random over forward latency at one line a step";
    "tlb_reach" => derived B None Hardware: "Bytes of base pages that a TLB covers";
    "tlb_miss" => derived Ns Lower Hardware: "Extra time of a load that misses a TLB";
    "huge_gain" => derived Ratio None Hardware:
        "Random latency on base pages over that on huge ones";
};

/// A parameter that only derived cases have.
const fn derived(name: &'static str, doc: &'static str, symbols: &'static [&'static str]) -> Param {
    Param { name, doc, domain: Domain::Symbols(symbols), defaults: ["auto"; 3], role: Role::Case }
}

static CARD: Card = Card {
    id: ID,
    title: "Load latency over footprints",
    metrics: METRICS,
    params: bench::params!(
        Point::PARAMS,
        &[
            derived(
                "level",
                "Of derived figures: the level of the hierarchy; nothing to set",
                &["auto", "L1", "L2", "L3", "L4", "DRAM"],
            ),
            derived(
                "tlb",
                "Of derived figures: the level of the data TLB; nothing to set",
                &["auto", "L1", "L2"],
            ),
            Param::setting(
                "slot",
                "Distance of slots of the random ring; auto: a line of the first cache",
                Domain::Either(&["auto"], 16, 4096, Unit::B),
                ["auto"; 3],
            ),
            Param::setting(
                "warm",
                "Largest footprint that is loaded once before it is timed; auto: twice the last \
                 cache, 64 MiB if none is described",
                Domain::Either(&["auto"], 0, 1 << 42, Unit::B),
                ["auto"; 3],
            ),
        ],
    ),
    after: &["clock.rate"],
    views: &[
        ViewCard::line("footprint", "latency")
            .only(&[("pattern", &["random"]), ("load", &["pointer"])])
            .marks(&["level_size"])
            .log(),
        ViewCard::line("footprint", "latency")
            .only(&[("stride", &["64"]), ("load", &["pointer"]), ("pages", &["huge"])])
            .log(),
        ViewCard::line("footprint", "latency")
            .only(&[("pattern", &["forward", "backward"]), ("load", &["pointer"])])
            .each(&["pattern", "pages"])
            .log(),
        ViewCard::line("footprint", "latency")
            .only(&[("pattern", &["random"]), ("pages", &["huge"])])
            .log(),
    ],
    keys: &[
        KeyFigure::new("load", "L1", "level_latency", "level=L1"),
        KeyFigure::new("load", "L2", "level_latency", "level=L2"),
        KeyFigure::new("load", "L3", "level_latency", "level=L3"),
        KeyFigure::new("load", "DRAM", "level_latency", "level=DRAM"),
    ],
    ..Card::PLAIN
};

impl Experiment for Latency {
    type Case = Point;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("latency.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = cost::of_round;

    fn cases(site: &Site, preset: Preset) -> Vec<Point> {
        walks::cases(site, preset)
    }

    /// A walk in order of addresses has its slots a line apart where nothing else was chosen.
    fn complete(mut case: Point) -> Option<Point> {
        case.stride = has_stride(case.pattern).then(|| case.stride.unwrap_or(GRAIN_BYTES));
        Some(case)
    }

    fn series(site: &Site, mut cases: Vec<Point>, params: &Params) -> Result<Offer, Skip> {
        let settings = settings(site, params)?;
        let mut offer = Offer::default();
        let is_chosen = Point::PARAMS.iter().any(|param| params.chosen(param.name).is_some());
        if !is_chosen {
            offer.skipped = walks::without_line(site, params.preset, &cases);
        }
        if let Some(chosen) = params.chosen("stride") {
            // Not the one that `complete` gave a walk of a preset that had none.
            cases.retain(|of| of.stride.is_none_or(|stride| chosen.contains(&stride.into())));
        }
        // A ladder ascends.
        cases.order_by_key(|of| (of.pages, of.footprint, of.load, of.pattern, of.stride));
        for is_random in [true, false] {
            let of_kind = |of: &&Point| (of.pattern == Pattern::Random) == is_random;
            for point in cases.iter().filter(of_kind) {
                let (group, order) =
                    if is_random { ("random", Order::Ladder) } else { ("walks", Order::Shuffled) };
                let name = format!("{group}-{}", point.pages.text());
                let absent = not_here(site, point);
                if let Some(series) = add(&mut offer, (&CARD, &name, order), point, absent) {
                    series.settings = settings.clone();
                }
            }
        }
        offer.or_reason()
    }

    fn law(facts: Facts, of: &Point, _: &Case, _: &Metric) -> Option<Prediction> {
        let law = || memory::load_latency(facts, of);
        knows_clock(facts).then(|| law().bounded(memory::least_load(facts.site)).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let cases = series.cases.iter();
        let walks: Vec<(&Case, Point)> =
            cases.map(|case| Ok((case, Point::decode(case)?))).collect::<Result<_>>()?;
        let on = walks.first().map_or(On::Huge, |(_, point)| point.pages);
        ensure!(walks.iter().all(|(_, of)| of.pages == on), "a series has one kind of pages");
        let pages = match on {
            On::Base => Pages::Base,
            On::Huge => Pages::Huge,
        };
        let place = |bytes| place(bytes, pages);
        let Some((placed, walks)) = memory_of(walks, bench, place)? else { return Ok(()) };
        let mapping = placed.mapping;
        let round = Round {
            huge_share: placed.huge_share,
            node: placed.node,
            notes: placed.notes,
            slot: usize::try_from(series.setting("slot").unwrap_or(64))?,
            warm: series.setting("warm").unwrap_or(0),
            private: series.setting(PRIVATE).unwrap_or(u64::MAX),
            verified: walks
                .iter()
                .map(|(_, point)| point.footprint)
                .filter(|footprint| *footprint <= VERIFIED_MOST)
                .max(),
        };
        if walks[0].1.pattern == Pattern::Random {
            round.ladder(mapping, &walks, bench)
        } else {
            round.walks(mapping, &walks, bench)
        }
    }

    fn derivable(site: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        let points: Vec<Point> = cases.filter_map(|case| Point::from_id(&case.id)).collect();
        derive::cases(site, &points)
    }

    fn derived_law(facts: Facts, case: &CaseId, metric: &Metric) -> Option<Prediction> {
        derive::predict(facts, case, &metric.name)
    }

    fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        derive::derive(site, known, values)
    }
}

/// Memory, and the walks that fit in it.
type Memory<'case> = (Placed, Vec<(&'case Case, Point)>);

/// The memory of a round by `place`, for the largest of the walks. Where the kernel has less of it,
/// or less in pages of this kind, the walks that do not fit are given up for this round with that
/// reason; `None` where nothing is left. Nothing is walked on other pages than its key names.
/// Errors: memory that is unavailable for another reason, or is not of the requested kind.
fn memory_of<'case>(
    mut walks: Vec<(&'case Case, Point)>,
    bench: &mut Bench,
    mut place: impl FnMut(u64) -> Result<Placed>,
) -> Result<Option<Memory<'case>>> {
    while let Some(largest) = walks.iter().map(|(_, point)| point.footprint).max() {
        let of_largest = walks.iter().filter(|walk| walk.1.footprint == largest);
        let of_largest: Vec<&Case> = of_largest.map(|walk| walk.0).collect();
        bench.declare(Declared::Memory(&of_largest));
        let error = match place(largest) {
            Ok(placed) => return Ok(Some((placed, walks))),
            Err(error) => error,
        };
        let least = match error.downcast_ref::<TooFewHuge>() {
            Some(few) => largest.min(few.huge_bytes + 1),
            None if is_without_room(&error) => largest,
            None => return Err(error),
        };
        let gone = |walk: &mut (&Case, Point)| walk.1.footprint >= least;
        let gone = walks.extract_if(.., gone).map(|(case, _)| case);
        bench.give_up(gone, &error);
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
