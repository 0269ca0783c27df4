//! How many lines can a core load at the same time?
//!
//! ## Question
//!
//! By how much does the time per load fall when several chains of dependent loads run beside each
//! other, from how many chains on does it not fall any more, and so how many lines has a core in
//! flight?
//!
//! ## Method
//!
//! All slots of a footprint, one to a line, stand in one cycle in an order drawn uniformly. k
//! chains enter the cycle at places that are evenly spaced along it and walk it by pointers: a
//! turn in assembly is k loads, each from the address that the same chain loaded in the turn before,
//! so loads of a chain wait for each other and those of different chains do not. Chains share no
//! line: together they come to each once before any of them reaches where another began, so for
//! the caches k chains are one chain. (With k rings of their own, a lone chain would walk a k-th of
//! the footprint only.) Timed as n against 2n turns in ABBA quartets, and given per load.
//!
//! After each case every chain must stand where so many loads lead by the order that was drawn, else
//! the case has failed. Memory is touched and verified on the measuring CPU's node, in huge pages
//! where they are to be had; else base pages, which a note says. Caches are warmed by a walk once
//! around.
//!
//! **Derived.** `parallelism`: time of one chain over time per load of k. `lines_in_flight`: the
//! median of the parallelisms that are within 5 % of the largest. By Little's law that is how many
//! lines are in flight if each takes as long as a lone one; where many wait longer each, more are.
//!
//! ## Prediction
//!
//! Latency (as `memory.latency` measured it at the nearest footprint, else its law) over the lesser
//! of k and the miss buffers of the core's first cache (plumb's table by design: 10 line-fill
//! buffers from Nehalem, 12 in Ice Lake, 16 in Golden Cove, 22 to 24 in Zen …), with a knee between.
//!
//! ## Parameters
//!
//! - `level`: where the lines are: `DRAM`; in thorough also `L2` and `L3`.
//! - `chains`: 1 to 32. `auto`: 1, 2, 4, 8, 12, 16, 24, 32 in standard; every count in thorough;
//!   none in quick, which has no time to make such a memory.
//! - `most` (setting): most bytes of the footprint. A cache's is four times the cache before it, at
//!   most three eighths of itself; main memory's is four times the last cache as `memory.latency` measured
//!   it (else as described), at least 64 MiB; `auto` cuts that at 128 MiB, in thorough at
//!   1 GiB, and a note says where that is less than twice the last cache.
//!
//! ## Reading the result
//!
//! `load_time` falls as 1/k, bends, and stays: the bend is the number of buffers. Lines in flight x
//! line / latency is what one thread can read from that level without prefetchers. A plateau well
//! below the buffers in a virtual machine is table walks: each load there misses the TLB if the
//! hypervisor backs the memory by base pages. A rise after the plateau is queueing.
//!
//! ## Pitfalls
//!
//! - Registers: on x86-64 13 chains stand in general registers, 16 in vector registers (about three
//!   cycles more a load) and the last three on the stack (a forwarded store, about five); on Arm 28
//!   and 4. That is little beside main memory, and up to a third beside an L2 hit.
//! - A footprint that the last cache holds in part (see `most`) gives a mixture of both.
//! - Prefetchers: a uniformly drawn order has no stride; a prefetcher of line pairs takes buffers of
//!   the second cache, not of the first.
//! - Other tenants at the memory, and a sibling on the same core, which shares the buffers.
//! - Out-of-order reach: 32 loads and their control are a fraction of any reorder buffer from 128
//!   entries; in-order cores stop at the first use and show one or two.
//!
//! ## Sources
//!
//! J. D. C. Little, "A Proof for the Queuing Formula L = λW" (1961); google/multichase (parallel
//! chases, and mixing against collisions); clamchowder's mlp mode; D. Lemire, "Measuring
//! memory-level parallelism" (2018); Intel 248966 (fill buffers). No report has it.

use super::levels::{self, Sized};
use super::probe::MemoryProbe;
use anyhow::{Context, Result, ensure};
use bench::experiment::{
    Card, DerivedValue, Domain, Experiment, Known, Offer, Param, Params, Preset, Role, Site, Skip,
    ViewCard, unknown,
};
use bench::measure::placed::{is_without_room, place_huge_or_base, verify_node};
use bench::measure::{Bench, Watch, WrongResult, abba};
use laws::memory::{MEMORY, measured, mlp};
use metal::chains::{Chains, MOST_CHAINS};
use metal::place::current_node;
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::quantity::render;
use record::unit::Unit;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Mlp = Mlp;

/// `memory.mlp`.
pub struct Mlp;

const ID: &str = "memory.mlp";
/// Loads before a case in main memory is timed: they bring back page tables.
const WARM_LOADS: u64 = 1 << 14;
/// Parallelisms so near the largest are on the plateau.
const PLATEAU: f64 = 0.95;
/// Counts of standard.
const SOME: [u64; 8] = [1, 2, 4, 8, 12, 16, 24, 32];
/// Warm-up and core clock around the window of a case, in ns, beside the walk that warms.
const AROUND_NS: f64 = 4e6;

static CARD: Card = Card {
    id: ID,
    title: "Loads in flight",
    metrics: &[
        Metric::time("load_time", "time per load of all chains together", Kind::Hardware),
        Metric::derived(
            "parallelism",
            "time of one chain's load over the time per load of so many chains",
            Unit::Ratio,
            Better::Higher,
            Kind::Hardware,
        ),
        Metric::derived(
            "lines_in_flight",
            "plateau of the parallelism: lines in flight, each counted as long as a lone one takes",
            Unit::Count,
            Better::Higher,
            Kind::Hardware,
        ),
    ],
    params: &[
        Param {
            name: "level",
            doc: "where the lines are",
            domain: Domain::Symbols(&["L2", "L3", "DRAM"]),
            defaults: ["DRAM", "DRAM", "L2,L3,DRAM"],
            role: Role::Case,
        },
        Param {
            name: "chains",
            doc: "chains of loads beside each other; auto: some, in thorough every count",
            domain: Domain::Either(&["auto"], 1, MOST_CHAINS as u64, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "most",
            doc: "most bytes walked over; auto: 128 MiB, in thorough 1 GiB",
            domain: Domain::Either(&["auto"], 1 << 16, 1 << 38, Unit::B),
            defaults: ["auto"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate", "memory.latency"],
    views: &[ViewCard::line("chains", "load_time").beside(&["parallelism"]).log()],
    ..Card::PLAIN
};

impl Experiment for Mlp {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("mlp.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        levels::beyond_quick(params, "chains", "memory.mlp.chains=1,8,32")?;
        let chosen = params.chosen("chains").map(|_| params.ints("chains"));
        let mut counts = chosen.unwrap_or_else(|| match params.preset {
            Preset::Rehearsal => vec![1, 16, 32],
            Preset::Quick | Preset::Standard => SOME.to_vec(),
            Preset::Thorough => (1..=MOST_CHAINS as u64).collect(),
        });
        counts.sort_unstable();
        counts.dedup();
        let most = levels::most(params);
        let mut offer = Offer::default();
        for level in params.texts("level") {
            let cases = counts.iter().map(|chains| case(level, *chains));
            match levels::footprint(site, None, level, most) {
                Ok(_) => offer.series.push(Series {
                    experiment: ID.to_owned(),
                    name: level.to_owned(),
                    order: Order::Shuffled,
                    cases: cases.map(Case::new).collect(),
                    settings: BTreeMap::from([("most".to_owned(), Value::from(most))]),
                }),
                Err(skip) => offer.skipped.extend(cases.map(|id| (id, skip.clone()))),
            }
        }
        if offer.series.is_empty() {
            let first = offer.skipped.into_iter().next().map(|(_, skip)| skip);
            return Err(first.unwrap_or_else(|| Skip::because("no level was asked for")));
        }
        Ok(offer)
    }

    fn derivable(&self, _site: &Site, series: &[Series]) -> Vec<CaseId> {
        let mut found = Vec::new();
        for series in series {
            let counts: Vec<u64> = series.cases.iter().filter_map(chains_of).collect();
            if !counts.contains(&1) || counts.len() < 2 {
                continue;
            }
            let more = counts.iter().filter(|count| **count > 1);
            found.extend(more.map(|count| case(&series.name, *count)));
            found.push(CaseId::new().with("level", series.name.as_str()));
        }
        found
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let most = series.setting("most").unwrap_or(0);
        let Ok(sized) = levels::footprint(site, None, &series.name, most) else {
            return Duration::from_millis(30);
        };
        let is_memory = series.name == MEMORY;
        let loads = match is_memory {
            true => WARM_LOADS,
            false => sized.bytes / sized.slot,
        } as f64;
        let load_ns = if is_memory { 130.0 } else { 25.0 };
        let cases: f64 = series
            .cases
            .iter()
            .filter_map(chains_of)
            .map(|chains| site.case_ns as f64 + AROUND_NS + loads * load_ns / chains.min(8) as f64)
            .sum();
        Duration::from_nanos((cases + sized.making_ns(site)) as u64) + Duration::from_millis(30)
    }

    fn resolve(&self, site: &Site, known: &Known, mut series: Series) -> Result<Series, Skip> {
        let most = series.setting("most").unwrap_or(u64::MAX);
        let sized = levels::footprint(site, Some(known), &series.name, most)?;
        for case in &mut series.cases {
            sized.write(case);
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let level = case.text("level")?;
        let chains = case.id.int("chains");
        match (metric.name.as_ref(), chains) {
            ("load_time", Some(chains)) => {
                let footprint = match case.int("footprint") {
                    Some(bytes) => bytes,
                    None => match levels::footprint(site, known, level, levels::USUAL_MOST) {
                        Ok(sized) => sized.bytes,
                        Err(skip) => return Some(unknown(format!("unknown: {}", skip.reason))),
                    },
                } as f64;
                if known.is_some_and(|known| measured::walk_ns(known, footprint).is_none()) {
                    return None;
                }
                Some(mlp::load_time(site, known, level, footprint, chains).prediction())
            }
            // Miss buffers are the design's: nothing that was measured before adds to them.
            ("parallelism", Some(chains)) if known.is_none() => {
                Some(mlp::parallelism(site, level, chains).prediction())
            }
            ("lines_in_flight", None) if known.is_none() => {
                Some(mlp::lines_in_flight(site, level).prediction())
            }
            _ => None,
        }
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let sized = series.cases.first().and_then(Sized::of);
        let sized = sized.context("the series was not resolved")?;
        let node = current_node();
        bench.takes_memory_for(&series.cases);
        let mut placed = match place_huge_or_base(sized.bytes, node) {
            Ok(placed) => placed,
            Err(error) if is_without_room(&error) => {
                bench.fail_all(series, &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (footprint, slot) = (usize::try_from(sized.bytes)?, usize::try_from(sized.slot)?);
        let mut chains = Chains::new(placed.mapping, footprint, slot, bench.order().seed)?;
        placed.notes.extend(sized.note);
        let share = render(placed.huge_share, Unit::Ratio);
        bench.each(series, |bench, case| time(&mut chains, case, bench, &placed.notes, &share));
        // What the kernel would not tell, it would not when the memory was placed: noted then.
        if let Err(error) = verify_node(chains.mapping(), node, &mut Vec::new()) {
            bench.fail_all(series, &error.context("after the run"));
        }
        Ok(())
    }

    fn derive(&self, _site: &Site, _known: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut by_level: BTreeMap<&str, Vec<(u64, f64)>> = BTreeMap::new();
        for (id, ns) in values.of(ID, "load_time") {
            if let (Some(level), Some(chains)) = (id.text("level"), id.int("chains")) {
                by_level.entry(level).or_default().push((chains, ns));
            }
        }
        let mut found = Vec::new();
        for (level, times) in by_level {
            let one = times.iter().find(|(chains, ns)| *chains == 1 && *ns > 0.0);
            let Some((_, one)) = one else { continue };
            let more = times.iter().filter(|(chains, ns)| *chains > 1 && *ns > 0.0);
            let gains: Vec<(u64, f64)> = more.map(|(chains, ns)| (*chains, one / ns)).collect();
            for (chains, gain) in &gains {
                found.push(DerivedValue::new(case(level, *chains), "parallelism", *gain));
            }
            found.extend(lines(level, &gains));
        }
        found
    }
}

/// The plateau of the gains: the median of those near the largest, and the least count among them.
fn lines(level: &str, gains: &[(u64, f64)]) -> Option<DerivedValue> {
    let largest = gains.iter().map(|(_, gain)| *gain).reduce(f64::max)?;
    let on: Vec<(u64, f64)> =
        gains.iter().copied().filter(|(_, gain)| *gain >= PLATEAU * largest).collect();
    let values: Vec<f64> = on.iter().map(|(_, gain)| *gain).collect();
    let id = CaseId::new().with("level", level);
    let mut derived = DerivedValue::new(id, "lines_in_flight", stats::quantile::median(&values)?);
    let from = on.iter().map(|(chains, _)| *chains).min()?;
    derived.at.insert("from_chains".to_owned(), Value::from(from));
    if gains.iter().map(|(chains, _)| *chains).max() == Some(from) {
        derived.notes.push(format!(
            "still rising at {from} chains, the most that were measured: a lower bound"
        ));
    }
    Some(derived)
}

fn case(level: &str, chains: u64) -> CaseId {
    CaseId::new().with("level", level).with("chains", chains)
}

fn chains_of(case: &Case) -> Option<u64> {
    case.id.int("chains")
}

/// One case: so many chains over the cycle.
fn time(
    chains: &mut Chains,
    case: &Case,
    bench: &mut Bench,
    notes: &[String],
    huge_share: &str,
) -> Result<()> {
    let count = usize::try_from(chains_of(case).context("a case has chains")?)?;
    chains.enter(count)?;
    let is_memory = case.text("level") == Some(MEMORY);
    let warm = match is_memory {
        true => WARM_LOADS.min(chains.slots() as u64),
        false => chains.slots() as u64,
    };
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
        WrongResult(format!("a chain of {} is not where its loads lead", case.id))
    );
    let loads = batch.operations * count as u64;
    let samples = bench.record_quartets(case, "load_time", loads, quartets)?;
    let told = batch.note().into_iter().chain(notes.iter().cloned());
    samples.notes.extend(told);
    probe.write(samples);
    samples.at.insert("huge_share".to_owned(), Value::from(huge_share));
    Ok(())
}

#[cfg(test)]
mod tests;
