//! How many lines can a core load at the same time?
//!
//! ## Question
//!
//! By how much does the time per load fall with several parallel chains of dependent loads, at how
//! many chains does it stop falling, and so how many lines can a core have in flight?
//!
//! ## Method
//!
//! All slots of a footprint, one per line, form one cycle in a uniformly drawn order. k chains
//! start at evenly spaced places of the cycle and follow its pointers: an iteration in assembly is
//! k loads, each from the address that the same chain loaded in the previous iteration, so loads of
//! one chain wait for each other and those of different chains do not. Chains share no line:
//! together they visit each line once before any chain reaches another's start, so for the caches k
//! chains are one chain. (With k separate rings, a single chain would walk only a k-th of the
//! footprint.) Timed as n against 2n turns in ABBA quartets, and given per load.
//!
//! After each case every chain must be at the slot that follows from the drawn order, otherwise the
//! case fails. Memory is touched and verified on the measuring CPU's node, in huge pages if
//! available; otherwise in base pages, and a note says so. One full walk warms the caches.
//!
//! **Derived.** `parallelism`: time of one chain over time per load of k. `lines_in_flight`: the
//! median of the parallelisms that are within 5 % of the largest. By Little's law this is the
//! number of lines in flight if each takes as long as a single one; if each waits longer, there are
//! more.
//!
//! A cache's footprint is four times the previous cache, at most three eighths of its own size;
//! main memory's is four times the last cache as `memory.latency` measured it (otherwise as
//! described), at least 64 MiB; `most` limits it, and a note says if it is less than twice the last
//! cache.
//!
//! ## Prediction
//!
//! Latency (as `memory.latency` measured it at the nearest footprint, otherwise its law) over the
//! smaller of k and the miss buffers of the core's first cache (plumb's table by design: 10
//! line-fill buffers from Nehalem, 12 in Ice Lake, 16 in Golden Cove, 22 to 24 in Zen …), with a
//! knee between.
//!
//! ## Reading the result
//!
//! `load_time` falls as 1/k, bends, and stays constant: the bend is the number of buffers. Lines in
//! flight x line / latency is the bandwidth of one thread from that level without prefetchers. A
//! plateau well below the buffers in a virtual machine is table walks: each load there misses the
//! TLB if the hypervisor backs the memory by base pages. A rise after the plateau is queueing.
//!
//! ## Pitfalls
//!
//! - Registers: on x86-64 13 chains are in general registers, 16 in vector registers (about three
//!   more cycles a load) and the last three on the stack (a forwarded store, about five); on Arm 28
//!   and 4. That is little compared with main memory, and up to a third of an L2 hit.
//! - A footprint that is partly in the last cache (see `most`) gives a mixture of both.
//! - Prefetchers: a uniformly drawn order has no stride; a prefetcher of line pairs takes buffers
//!   of the second cache, not of the first.
//! - Other tenants share the memory, and a sibling on the same core shares the buffers.
//! - Out-of-order reach: 32 loads and their control are a fraction of any reorder buffer from 128
//!   entries; in-order cores stop at the first use and show one or two.
//!
//! ## Sources
//!
//! [little]; [multichase] (parallel chases, and mixing against collisions); [clamchowder] (mlp
//! mode); [lemire]; [intel-optimization] (fill buffers). Miss buffers of core designs were not
//! looked up row by row. No report has it.

use super::levels::{self, MOST, Sized};
use super::probe::MemoryProbe;
use super::unless_without_room;
use crate::add;
use bench::measure::placed::{place_near, verify_node};
use bench::measure::{Watch, abba};
use bench::prelude::*;
use laws::memory::{Level, measured, mlp};
use metal::chains::{Chains, MOST_CHAINS};
use std::cell::RefCell;

bench::experiment!(Mlp);

const ID: &str = "memory.mlp";
/// Loads before a case in main memory is timed: they bring back page tables.
const WARM_LOADS: u64 = 1 << 14;
/// Parallelisms so near the largest are on the plateau.
const PLATEAU: f64 = 0.95;
const SOME: [u64; 8] = [1, 2, 4, 8, 12, 16, 24, 32];
/// Warm-up and core clock around the window of a case, in ns, beside the walk that warms.
const AROUND_NS: f64 = 4e6;

bench::case! {
    /// Chains of loads beside each other.
    pub struct Chased {
        /// where the lines are
        level: Level = Domain::Symbols(&["L2", "L3", "DRAM"]),
        /// chains of loads beside each other
        chains: u64 = Domain::count(1, MOST_CHAINS as u64),
    }
}

static CARD: Card = Card {
    id: ID,
    title: "Loads in flight",
    metrics: metrics! {
        "load_time" => Ns Lower Hardware: "time per load of all chains together";
        "parallelism" => derived Ratio Higher Hardware:
            "time of a load in one chain over the time per load with several chains";
        "lines_in_flight" => derived Count Higher Hardware:
            "plateau of the parallelism: lines in flight, in units of a single load's time";
    },
    params: bench::params!(Chased::PARAMS, &[MOST]),
    after: &["clock.rate", "memory.latency"],
    views: &[ViewCard::line("chains", "load_time").beside(&["parallelism"]).log()],
    ..Card::PLAIN
};

impl Experiment for Mlp {
    type Case = Chased;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("mlp.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |_| Hazards { memory: Claim::OfRound, ..Hazards::NONE };

    fn cases(_: &Site, preset: Preset) -> Vec<Chased> {
        let (levels, counts) = match preset {
            Preset::Rehearsal => (&[Level::Memory][..], vec![1, 16, 32]),
            Preset::Quick | Preset::Standard => (&[Level::Memory][..], SOME.to_vec()),
            Preset::Thorough => {
                (&[Level::L2, Level::L3, Level::Memory][..], (1..=MOST_CHAINS as u64).collect())
            }
        };
        let of = |&level| counts.iter().map(move |&chains| Chased { level, chains });
        levels.iter().flat_map(of).collect()
    }

    fn series(site: &Site, cases: Vec<Chased>, params: &Params) -> Result<Offer, Skip> {
        levels::beyond_quick(params, "chains", "memory.mlp.chains=1,8,32")?;
        let most = levels::most(params);
        let mut offer = Offer::default();
        for case in cases {
            let absent = levels::footprint(Facts::prior(site), case.level, most).err();
            let of = (&CARD, case.level.text(), Self::ORDER);
            if let Some(series) = add(&mut offer, of, &case, absent) {
                series.settings.put("most", most);
            }
        }
        offer.or_reason()
    }

    fn resolve(site: &Site, known: &Known, mut series: Series) -> Result<Series, Skip> {
        let sized = footprint(Facts { site, known: Some(known) }, &series)?;
        for case in &mut series.cases {
            sized.write(case);
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Chased, at: &Case, _: &Metric) -> Option<Prediction> {
        let footprint = match at.int("footprint") {
            Some(bytes) => bytes,
            None => match levels::footprint(facts, of.level, levels::USUAL_MOST) {
                Ok(sized) => sized.bytes,
                Err(skip) => return Some(unknown(format!("unknown: {}", skip.reason))),
            },
        } as f64;
        if facts.known.is_some_and(|known| measured::walk_ns(known, footprint).is_none()) {
            return None;
        }
        Some(mlp::load_time(facts, of.level, footprint, of.chains).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let sized = series.cases.first().and_then(Sized::from_case);
        let sized = sized.context("the series was not resolved")?;
        let placed = place_near(sized.bytes);
        let Some(mut placed) = unless_without_room(placed, series, bench)? else { return Ok(()) };
        let node = placed.node;
        let (footprint, slot) = (usize::try_from(sized.bytes)?, usize::try_from(sized.slot)?);
        let mut chains = Chains::new(placed.mapping, footprint, slot, bench.order().seed)?;
        placed.notes.extend(sized.note);
        let share = render(placed.huge_share, Unit::Ratio);
        bench.each_of::<Chased>(series, |bench, case, of| {
            time(&mut chains, case, &of, bench, &placed.notes, &share)
        });
        // If the kernel does not report it now, it did not when the memory was placed: noted then.
        if let Err(error) = verify_node(chains.mapping(), node, &mut Vec::new()) {
            bench.give_up(series, &error.context("after the run"));
        }
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let mut found = Vec::new();
        for series in series {
            let cases: Vec<Chased> =
                series.cases.iter().filter_map(|case| Chased::from_id(&case.id)).collect();
            let (one, more): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.chains == 1);
            if one.is_empty() || more.is_empty() {
                continue;
            }
            found.extend(more.into_iter().map(Chased::id));
            found.push(CaseId::new().with("level", series.name.as_str()));
        }
        found
    }

    /// Miss buffers are the design's: nothing that was measured before adds to them.
    fn derived_law(facts: Facts, case: &CaseId, metric: &Metric) -> Option<Prediction> {
        let level = Level::from_value(case.get("level")).filter(|_| facts.known.is_none())?;
        let law = match (&*metric.name, case.int("chains")) {
            ("parallelism", Some(chains)) => mlp::parallelism(facts.site, level, chains),
            ("lines_in_flight", None) => mlp::lines_in_flight(facts.site, level),
            _ => return None,
        };
        Some(law.prediction())
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut by_level: BTreeMap<Level, Vec<(u64, f64)>> = BTreeMap::new();
        for (id, ns) in values.figures(ID, "load_time").filter(|(_, ns)| *ns > 0.0) {
            if let Some(Chased { level, chains }) = Chased::from_id(id) {
                by_level.entry(level).or_default().push((chains, ns));
            }
        }
        let mut found = Vec::new();
        for (level, times) in by_level {
            let Some((_, one)) = times.iter().find(|(chains, _)| *chains == 1) else { continue };
            let more = times.iter().filter(|(chains, _)| *chains > 1);
            let gains: Vec<(u64, f64)> = more.map(|(chains, ns)| (*chains, one / ns)).collect();
            found.extend(gains.iter().map(|&(chains, gain)| {
                DerivedValue::new(Chased { level, chains }.id(), "parallelism", gain)
            }));
            found.extend(lines(level, &gains));
        }
        found
    }
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let worker = Duration::from_millis(30);
    let Ok(sized) = footprint(Facts::prior(site), series) else { return worker };
    let is_memory = series.name == Level::Memory.text();
    let (loads, load_ns) =
        if is_memory { (WARM_LOADS, 130.0) } else { (sized.bytes / sized.slot, 25.0) };
    let cases = series.cases.iter().filter_map(|case| Chased::from_id(&case.id));
    let cases = cases.map(|of| {
        site.case_ns as f64 + AROUND_NS + loads as f64 * load_ns / of.chains.min(8) as f64
    });
    Duration::from_nanos((cases.sum::<f64>() + sized.making_ns(site)) as u64) + worker
}

/// The footprint that all cases of a series share.
fn footprint(facts: Facts, series: &Series) -> Result<Sized, Skip> {
    let most = series.setting("most").unwrap_or(u64::MAX);
    let level = Level::from_value(Some(&Value::from(series.name.as_str())));
    let nothing = || Skip::because(format!("unknown level {}", series.name));
    levels::footprint(facts, level.ok_or_else(nothing)?, most)
}

/// The plateau of the gains: the median of those near the largest, and the least count among them.
fn lines(level: Level, gains: &[(u64, f64)]) -> Option<DerivedValue> {
    let largest = gains.iter().map(|(_, gain)| *gain).reduce(f64::max)?;
    let on: Vec<(u64, f64)> =
        gains.iter().copied().filter(|(_, gain)| *gain >= PLATEAU * largest).collect();
    let values: Vec<f64> = on.iter().map(|(_, gain)| *gain).collect();
    let id = CaseId::new().with("level", level.text());
    let mut derived = DerivedValue::new(id, "lines_in_flight", stats::quantile::median(&values)?);
    let from = on.iter().map(|(chains, _)| *chains).min()?;
    derived.at.put("from_chains", from);
    if gains.iter().map(|(chains, _)| *chains).max() == Some(from) {
        derived.notes.push(format!(
            "still rising at {from} chains, the largest measured number: a lower bound"
        ));
    }
    Some(derived)
}

/// One case: so many chains over the cycle.
fn time(
    chains: &mut Chains,
    case: &Case,
    of: &Chased,
    bench: &mut Bench,
    notes: &[String],
    huge_share: &str,
) -> Result<()> {
    let count = usize::try_from(of.chains)?;
    chains.enter(count)?;
    let is_memory = of.level == Level::Memory;
    let warm =
        if is_memory { WARM_LOADS.min(chains.slots() as u64) } else { chains.slots() as u64 };
    chains.chase(warm / count as u64);
    let timer = bench.timer();
    let chains = RefCell::new(chains);
    let mut timed = |turns| {
        timer.timed(turns, &mut |turns| {
            chains.borrow_mut().chase(turns);
            Ok(())
        })
    };
    let batch = timer.search(&mut timed)?;
    let mut probe = MemoryProbe::new(timer.clock, bench.order().seed ^ count as u64);
    let mut turn = |watch: &mut Watch| {
        if is_memory {
            probe.read(chains.borrow().mapping());
        }
        abba(batch.operations, watch, &mut timed).map(Some)
    };
    let quartets = timer.repeat(&mut turn)?;
    let chains = chains.borrow();
    ensure!(
        chains.is_right(),
        WrongResult(format!("a chain of {} is not at the expected slot", case.id))
    );
    let loads = batch.operations * count as u64;
    let samples = bench.record(case, "load_time", Values::quartets(loads, quartets))?;
    let told = batch.note().into_iter().chain(notes.iter().cloned());
    samples.notes.extend(told);
    probe.write(samples);
    samples.at.put("huge_share", huge_share);
    Ok(())
}

#[cfg(test)]
mod tests;
