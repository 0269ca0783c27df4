//! How long does a load take while other CPUs load the memory?
//!
//! ## Question
//!
//! How does the latency of main memory rise with the bandwidth that other CPUs use, from an idle
//! memory to a saturated one?
//!
//! ## Method
//!
//! A latency thread (the chaser) on the first CPU walks a cycle of lines in uniformly drawn order,
//! each address the value of the previous load, over more than the last cache (see `memory.mlp`).
//! Load threads (the loaders) on the other CPUs of its memory node pass over their own arrays with
//! the vector kernels of `memory.bandwidth`. All are pinned, touch and verify their memory
//! themselves, start at a common tick, and count only while all are running; each round has new
//! processes and memory.
//!
//! Each round the loaders pass over their arrays once, then run without pause for half a window:
//! this is the maximum rate. A step of `load` percent is that share of the maximum, divided among
//! the loaders and spread evenly over time: each moves the bytes for 3 µs, then spins until the
//! next piece is due. A late loader catches up by at most one piece, so there are no bursts; at 100
//! no loader waits. At 0 the loaders wait all the time, so that only the traffic differs from the
//! other steps. The chaser must end at the slot that follows from the drawn order, otherwise the
//! case fails; the loaders' arrays must have the expected content, and all memory must be on its
//! node, otherwise all cases fail. Each loader uses the fastest vector loop, with or without
//! prefetch instructions, found by short trials.
//!
//! `latency` is that of the chaser's median step (about 20 µs). `bandwidth` counts the bytes that
//! memory moved in the same window: those of the loaders including the lines that regular stores
//! read first, and the chaser's own lines.
//!
//! The traffic is reads only, two reads per write (copy, regular), one to one (copy past the
//! caches; write, regular), or writes only. Loaders' arrays together are four times the last caches
//! under their CPUs, each 16 MiB to `most`. CPUs that share the chaser's core would slow the core,
//! not the memory: by default they have no loader.
//!
//! ## Prediction
//!
//! Idle latency as `memory.latency` measured it at the nearest footprint (otherwise its law), plus
//! a queue with fixed service times (M/D/1) and a mean wait of half a service time x u / (1 - u).
//! The utilisation of the memory at 100 % depends on the loaders' lines in flight relative to its
//! channels, so the interval widens with the load. Bandwidth: the step's share of the figure of
//! `memory.bandwidth` for the same kernel in main memory with the same number of CPUs, otherwise
//! with all CPUs, otherwise its law.
//!
//! ## Reading the result
//!
//! Plot `latency` over `bandwidth`: flat, then a knee, then a wall at the peak. At 0 `latency` is
//! that of `memory.latency`; `idle_ratio` is their ratio. One loader rarely saturates a memory:
//! then the curve ends before the knee. A curve that falls at small loads is power management:
//! memory and mesh clock up under load. `load` is relative to the maximum of these loaders with
//! this op, so compare steps of different ops by bandwidth.
//!
//! ## Pitfalls
//!
//! - Siblings: see `sibling`. A virtual machine may hide which CPUs share a core: then `latency`
//!   may contain a shared core's losses at every step except 0.
//! - Waiting loaders spin, so that sleeping cores do not change the clock from step to step.
//! - Granularity: a piece in 3 µs, at least 2 KiB of each array (one in 4 µs at 0.5 GB/s). Each
//!   clock read waits for the preceding loads, about one latency, which the pause absorbs up to 90
//!   %.
//! - If the last cache is larger than the arrays, a note says so, and the load is partly on the
//!   cache.
//! - Preempted loaders lower the bandwidth, which is counted, not assumed; the figures include the
//!   overlap of the threads.
//!
//! ## Sources
//!
//! [mlc] (loaded latency by injection delay); [multichase] (multiload); [x-mem]; [arm-loaded]
//! (common start and stop); [jain-art] (M/D/1). No report has it.

mod members;

use super::levels::{self, MOST};
use super::unless_without_room;
use bench::prelude::*;
use host::cpu::Distance;
use host::{format_cpus, parse_cpus};
use laws::Law;
use laws::cpu::peak::distinct_cores;
use laws::memory::loaded::{self as law, Background};
use laws::memory::transfer::{Op, Stores, Threads, Transfer};
use laws::memory::{Level, measured};
use members::Party;
use metal::stream::Kernel;

bench::experiment!(Loaded);

const ID: &str = "memory.loaded";
/// Least bytes of a loader's arrays: more than the caches of its core.
const LEAST_LOADER: u64 = 16 << 20;
/// Writing a byte of the arrays, passing over it and comparing it, in ns.
const ARRAY_NS: f64 = 0.5;
/// Making a thread, its warm-up and looks at the core clock, in ns a window.
const AROUND_NS: f64 = 6e6;

bench::case! {
    /// A load of the memory.
    pub struct Load {
        /// what the loaders do
        op: Op = Domain::Symbols(&["read", "copy", "write"]),
        /// how copies and writes store
        stores: Stores,
        /// percent of the most that the loaders reach
        load: u64 = Domain::count(0, 100),
    }
}

impl Load {
    fn kernel(&self) -> Kernel {
        Transfer::widest(self.op, self.stores, Level::Memory, Threads::All).kernel()
    }
}

static CARD: Card = Card {
    id: ID,
    title: "Memory latency under load",
    metrics: metrics! {
        "latency" => Ns Lower Hardware: "time of one load of the latency thread, in its median \
                                         step";
        "bandwidth" => BPerS Higher Hardware:
            "bytes that memory moved in the shared window: those of the load threads with \
             write-allocate, and the lines of the latency thread";
        "idle_ratio" => derived Ratio None Hardware:
            "latency with waiting load threads over that of memory.latency at the nearest \
             footprint";
    },
    params: bench::params!(
        Load::PARAMS,
        settings! {
            "sibling": Domain::Symbols(&["out", "in"]), ["out"; 3] =>
                "whether SMT siblings of the latency thread load too";
        },
        &[MOST],
    ),
    after: &["clock.rate", "memory.latency", "memory.bandwidth"],
    views: &[ViewCard::curve("load", "bandwidth", "latency")],
    ..Card::PLAIN
};

impl Experiment for Loaded {
    type Case = Load;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("loaded.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |_| Hazards { memory: Claim::OfRound, ..Hazards::NONE };

    fn cases(_: &Site, preset: Preset) -> Vec<Load> {
        let of = |op, stores, loads: &[u64]| -> Vec<Load> {
            loads.iter().map(|&load| Load { op, stores, load }).collect()
        };
        let reads = |loads| of(Op::Read, Stores::Regular, loads);
        let tens: Vec<u64> = (0..=10).map(|step| 10 * step).collect();
        match preset {
            Preset::Rehearsal => reads(&[0, 50, 100]),
            Preset::Quick | Preset::Standard => reads(&[&tens[..9], &[100]].concat()),
            Preset::Thorough => {
                // With the loaders waiting all is one, whatever they do.
                let mut cases = reads(&tens);
                for op in [Op::Copy, Op::Write] {
                    let kinds = Stores::ALL.iter();
                    cases.extend(kinds.flat_map(|stores| of(op, *stores, &[20, 40, 60, 80, 100])));
                }
                cases
            }
        }
    }

    fn complete(case: Load) -> Option<Load> {
        match case.op {
            Op::Read => Some(Load { stores: Stores::Regular, ..case }),
            _ => Some(case),
        }
    }

    fn series(site: &Site, cases: Vec<Load>, params: &Params) -> Result<Offer, Skip> {
        levels::beyond_quick(params, "load", "memory.loaded.load=0,50,100")?;
        let most = levels::most(params);
        levels::footprint(Facts::prior(site), Level::Memory, most)?;
        let mut offer = Offer::default();
        let series = offer.series_named(&CARD, Level::Memory.text(), Self::ORDER);
        series.settings = params.settings(&CARD);
        series.settings.put("most", most);
        let cpus = Value::Text(format_cpus(&loaders(site, with_sibling(series))?));
        for load in cases {
            let mut case = Case::new(load.id());
            case.at.put("loaders", cpus.clone());
            series.cases.push(case);
        }
        Ok(offer)
    }

    fn resolve(site: &Site, known: &Known, mut series: Series) -> Result<Series, Skip> {
        let facts = Facts { site, known: Some(known) };
        let cpus = loaders(site, with_sibling(&series))?;
        let most = series.setting("most").unwrap_or(u64::MAX);
        let sized = levels::footprint(facts, Level::Memory, most)?;
        let bytes = loader_bytes(facts, &cpus, most);
        for case in &mut series.cases {
            sized.write(case);
            let at = &mut case.at;
            at.put("chaser", site.cpus[0] as u64);
            at.put("loaders", format_cpus(&cpus));
            at.put("loader_bytes", bytes);
        }
        Ok(series)
    }

    fn law(facts: Facts, of: &Load, at: &Case, metric: &Metric) -> Option<Prediction> {
        let load = background(facts.site, of, at)?;
        if facts.known.is_some_and(|known| !law::is_known(known, load)) {
            return None;
        }
        let law = match &*metric.name {
            "latency" => Ok(law::loaded_latency(facts, load)),
            _ => law::loaded_bandwidth(facts, load),
        };
        Some(law.map_or_else(unknown, Law::prediction))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let first = series.cases.first().context("a series without cases")?;
        let told = first.at.get("loaders").and_then(Value::text);
        let cpus = parse_cpus(told.context("the series was not resolved")?);
        let kernel = Load::decode(first)?.kernel();
        let party = Party::new(first, &cpus, kernel, bench);
        let Some(mut party) = unless_without_room(party, series, bench)? else { return Ok(()) };
        let case_ns = bench.order().case_ns as f64;
        bench.each_of::<Load>(series, |bench, case, of| {
            let share = of.load as f64 / 100.0;
            let window = party.window(bench, of.kernel(), share, case_ns)?;
            let samples = bench.record(case, "latency", Values::block(window.latency_ns))?;
            samples.quantities.extend(window.quantities());
            samples.notes.extend(window.notes);
            let samples = bench.record(case, "bandwidth", Values::block(window.bytes_per_s))?;
            samples.quantities.put("program_bytes_per_s", window.program_bytes_per_s);
            Ok(())
        });
        if let Err(error) = party.verify() {
            bench.give_up(series, &error.context("after the run"));
        }
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        let idle = cases.filter(|case| case.id.int("load") == Some(0));
        idle.map(|case| case.id.clone()).collect()
    }

    fn derived_law(facts: Facts, case: &CaseId, _: &Metric) -> Option<Prediction> {
        let is_idle = case.int("load") == Some(0);
        (is_idle && facts.known.is_none()).then(|| law::idle_agreement(facts.site).prediction())
    }

    fn derive(_: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        let idle =
            values.figures(ID, "latency").filter(|(id, ns)| id.int("load") == Some(0) && *ns > 0.0);
        // The footprint is not in the key: the ladder's nearest to its end stands for main memory.
        let reference = measured::level_ns(known, Level::Memory)
            .or_else(|| measured::walk_ns(known, levels::USUAL_MOST as f64).filter(|ns| *ns > 0.0));
        let over = |reference| {
            idle.map(|(id, ns)| DerivedValue::new(id.clone(), "idle_ratio", ns / reference))
                .collect()
        };
        reference.map(over).unwrap_or_default()
    }
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let facts = Facts::prior(site);
    let cpus = loaders(site, with_sibling(series)).unwrap_or_default();
    let count = cpus.len();
    let most = series.setting("most").unwrap_or(0);
    let Ok(sized) = levels::footprint(facts, Level::Memory, most) else {
        return Duration::from_millis(30);
    };
    let cases = series.cases.iter().filter_map(|case| Load::from_id(&case.id));
    let mut kernels: Vec<Kernel> = Vec::new();
    for kernel in cases.map(|load| load.kernel()) {
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    let windows = series.cases.len() as f64 + 0.5 * kernels.len() as f64;
    let window_ns = 1.1 * site.case_ns as f64 + AROUND_NS + 60e3 * count as f64;
    // Loaders make and check their arrays beside each other; a change of the kernel does both anew.
    let changes = if kernels.len() > 1 { series.cases.len() } else { 1 };
    let bytes = loader_bytes(facts, &cpus, most) as f64;
    let array_ns = bytes * (levels::touch_ns(site) + ARRAY_NS * changes as f64);
    let ns = windows * window_ns + sized.making_ns(site) + array_ns + 300e3 * count as f64;
    Duration::from_nanos(ns as u64) + Duration::from_millis(30)
}

/// Whether CPUs of the chaser's core load too.
fn with_sibling(series: &Series) -> bool {
    series.settings.get("sibling") == Some(&Value::from("in"))
}

/// The CPUs that load: those of the chaser's node and socket, without its siblings, nearest first;
/// where it has none there, those of other sockets. Errors: there is no such CPU.
fn loaders(site: &Site, with_sibling: bool) -> Result<Vec<usize>, Skip> {
    let Some((&chaser, others)) = site.cpus.split_first() else {
        return Err(Skip::because("no CPU to measure on"));
    };
    if others.is_empty() {
        return Err(Skip::because("only one CPU: the load needs a second one")
            .needs("a second CPU, allowed and named by --cpu"));
    }
    let cpu = &site.host.cpu;
    let node = |id: usize| cpu.cpu(id).and_then(|cpu| cpu.node);
    let class = |other: usize| match cpu.distance(chaser, other) {
        Some(Distance::Same | Distance::SmtSibling) => 0,
        Some(Distance::SharedLlc) => 1,
        Some(Distance::SameSocket) | None => 2,
        Some(Distance::OtherSocket) => 3,
    };
    let mut cpus: Vec<usize> =
        others.iter().copied().filter(|other| with_sibling || class(*other) > 0).collect();
    let is_near = |other: &usize| node(*other) == node(chaser) && class(*other) < 3;
    if cpus.iter().any(is_near) {
        cpus.retain(is_near);
    }
    cpus.sort_by_key(|other| class(*other));
    if cpus.is_empty() {
        return Err(Skip::because(
            "all other CPUs share the core of the latency thread and would take its time",
        )
        .needs(format!("--set {ID}.sibling=in, or CPUs of another core by --cpu")));
    }
    Ok(cpus)
}

/// Bytes of each loader's arrays: together four times the last caches under the loaders, each at
/// least 16 MiB, at most `most` (a quarter of the memory that may be touched, if that is less).
fn loader_bytes(facts: Facts, loaders: &[usize], most: u64) -> u64 {
    let count = loaders.len().max(1) as u64;
    let caches = levels::last_bytes(facts).0 * levels::instances(facts.site, loaders) as u64;
    let share = (levels::TIMES_LAST * caches / count).max(LEAST_LOADER);
    let allowed = facts.site.memory_bytes / 4 / count;
    (share.min(most).min(allowed) / 4096 * 4096).max(1 << 16)
}

fn background(site: &Site, of: &Load, at: &Case) -> Option<Background> {
    let footprint = at.int("footprint").unwrap_or_else(|| {
        let sized = levels::footprint(Facts::prior(site), Level::Memory, levels::USUAL_MOST);
        sized.map_or(levels::USUAL_MOST, |sized| sized.bytes)
    });
    let cpus = parse_cpus(at.at.get("loaders").and_then(Value::text)?);
    Some(Background {
        op: of.op,
        stores: of.stores,
        share: of.load as f64 / 100.0,
        loaders: distinct_cores(site, &cpus),
        footprint: footprint as f64,
    })
}

#[cfg(test)]
mod tests;
