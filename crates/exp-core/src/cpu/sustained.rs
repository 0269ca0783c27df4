//! Does the processor keep its peak rate for minutes?
//!
//! ## Question
//!
//! What rate of arithmetic does the machine reach second by second under full load, does it fall as
//! the chip warms or as others take their share, and which counter says why?
//!
//! ## Method
//!
//! The widest addition of i64 and, apart from it, the widest fused multiply-add of f64 (multiplication
//! where there is none), the kernels of cpu.peak, by one thread, four, and one per CPU. A block is a
//! second: pinned threads warm up for a tenth of it, then count in a shared window. Each takes its
//! core clock under the kernel before and after. The counters of the CPUs (steal in /proc/stat; x86
//! shows throttling for heat in thermal_throttle) and of the control group (throttling) are read between blocks, and how much of their time the threads
//! were on no CPU (taken by other load). Load pauses for a few milliseconds a
//! second.
//!
//! Levels are found by change point (ED-PELT, at least 3 s long, correlated values penalised). Each
//! change of 1 % or more is named with its second, its levels, and the counter that moved with it by
//! at least half as much; else it is unexplained. A clock that falls while more throttling events are
//! counted is thermal throttling. Everything is in the trace; a column that is not known is 0, and a
//! note says so.
//!
//! ## Prediction
//!
//! The peak (that cpu.peak measured, else its law) less what a hypervisor takes and what heat and
//! power limits take.
//!
//! ## Parameters
//!
//! - `type`: `f64`, `i64`: which of the two kernels.
//! - `threads`: a number or `all` (one per CPU).
//! - `duration`: of the cases with `all`. Quick has none and measures nothing, unless it is given.
//! - `duration_part`: of the others.
//! - `block`: length of one block; it takes that much time in all.
//!
//! ## Reading the result
//!
//! The figure is the median second, its interval that of blocks. `changes` counts the named ones;
//! `change_1` and so on tell them. A first level above all later ones is boost that heat ended. Steal
//! and throttling are shares of the CPUs' time.
//!
//! ## Pitfalls
//!
//! Steal is told in steps of 10 ms, 1 % of a second of one CPU. Guests see no throttling events, and
//! power limits cause none: there a lower clock is the clock alone. A hypervisor that tells no steal
//! leaves a change unexplained. Cores that lower their clock after the window only (firmware averages
//! over seconds) show it a second later. Twenty seconds do not warm a heat sink: thorough's ten
//! minutes do.
//!
//! ## Sources
//!
//! R3 CPU 2 (600 samples, once a second); Haynes, Fearnhead and Eckley 2017 (change points).

mod changes;

use super::peak::load;
use anyhow::{Context, Result};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Preset, Role, Site, Skip, ViewCard,
    unknown,
};
use bench::measure::Bench;
use changes::{COLUMNS, Second, untold};
use host::counters::Snapshot;
use host::{Outside, Root, parse_cpus};
use laws::cpu::peak::{Arithmetic, sustained_rate};
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The experiment.
pub static EXPERIMENT: Sustained = Sustained;

/// `cpu.sustained`.
pub struct Sustained;

/// Of a block, warm-up (a tenth of the window) and the looks at the clock take their part.
const WINDOW_SHARE: f64 = 0.9;
/// What a block takes beyond window and warm-up, in ns.
const AROUND_NS: f64 = 8e6;
/// A rehearsal's block, in ns, and how many.
const REHEARSAL: (u64, u64) = (2_000_000, 6);

static CARD: Card = Card {
    id: "cpu.sustained",
    title: "Arithmetic rate over minutes",
    metrics: &[
        Metric::new(
            "flop_rate",
            "floating-point operations of all threads in a second, a fused one counted twice",
            Unit::FlopPerS,
            Better::Higher,
            Kind::Hardware,
        ),
        Metric::new(
            "rate",
            "integer operations of all threads in a second",
            Unit::OpPerS,
            Better::Higher,
            Kind::Hardware,
        ),
    ],
    params: &[
        Param {
            name: "type",
            doc: "f64: the widest fused multiply-add; i64: the widest addition",
            domain: Domain::Symbols(&["f64", "i64"]),
            defaults: ["f64,i64"; 3],
            role: Role::Case,
        },
        Param {
            name: "threads",
            doc: "threads at work: a number, or all (one per CPU)",
            domain: Domain::Either(&["all"], 1, 8192, Unit::Count),
            defaults: ["all", "all", "1,4,all"],
            role: Role::Case,
        },
        Param {
            name: "duration",
            doc: "how long the load lasts where all CPUs work; auto: quick measures nothing",
            domain: Domain::Integer { low: 1_000_000, high: 86_400_000_000_000, unit: Unit::Ns },
            defaults: ["auto", "20s", "600s"],
            role: Role::Setting,
        },
        Param {
            name: "duration_part",
            doc: "how long it lasts with fewer threads",
            domain: Domain::Integer { low: 1_000_000, high: 86_400_000_000_000, unit: Unit::Ns },
            defaults: ["20s", "20s", "60s"],
            role: Role::Setting,
        },
        Param {
            name: "block",
            doc: "length of one block, of which each gives a value",
            domain: Domain::Integer { low: 1_000_000, high: 60_000_000_000, unit: Unit::Ns },
            defaults: ["1s"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate", "cpu.peak"],
    repeat: Repeat::Once { duration_s: 20.0 },
    isolation: Isolation::Alone,
    views: &[ViewCard::timeline("series").beside(&["core_hz", "taken_share", "steal_share"])],
    ..Card::PLAIN
};

impl Experiment for Sustained {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("sustained.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        if params.preset == Preset::Quick && params.chosen("duration").is_none() {
            return Err(Skip::because("a load that is sustained outlasts the quick preset")
                .needs("--preset standard, or --set cpu.sustained.duration=20s"));
        }
        let setting = |name: &str| params.ints(name).first().copied();
        let (whole_ns, part_ns) = (setting("duration"), setting("duration_part"));
        let mut offer = Offer::default();
        for kind in params.texts("type") {
            for threads in params.get("threads") {
                let id = CaseId::new().with("type", kind).with("threads", threads.clone());
                if let Some(skip) = too_many(site, threads) {
                    offer.skipped.push((id, skip));
                    continue;
                }
                let duration = if threads.text().is_some() { whole_ns } else { part_ns };
                let settings = [("duration", duration), ("block", setting("block"))];
                offer.series.push(Series {
                    experiment: CARD.id.to_owned(),
                    name: format!("{kind}-{threads}"),
                    order: Order::Fixed,
                    cases: vec![Case::new(id)],
                    settings: settings
                        .into_iter()
                        .filter_map(|(name, value)| Some((name.to_owned(), Value::Int(value?))))
                        .collect(),
                });
            }
        }
        if offer.series.is_empty() {
            return Err(Skip::because("no thread count asked for fits the CPUs to measure on"));
        }
        Ok(offer)
    }

    fn round_cost(&self, _site: &Site, series: &Series) -> Duration {
        let (block_ns, blocks) = blocks(series, false);
        Duration::from_nanos(block_ns.saturating_mul(blocks)) + Duration::from_millis(100)
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let arithmetic = arithmetic(site, case)
                .ok_or_else(|| Skip::because("this processor has no such arithmetic"))?;
            let threads = case.id.get("threads").cloned().unwrap_or(Value::Int(1));
            load::place(case, site, arithmetic, &threads);
            for (name, symbol) in [("op", arithmetic.op), ("width", arithmetic.width)] {
                case.at.insert(name.to_owned(), Value::from(symbol));
            }
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
        let arithmetic = arithmetic(site, case)?;
        if metric.name != arithmetic.metric() {
            return known
                .is_none()
                .then(|| unknown("unknown: f64 has a flop_rate, i64 has a rate"));
        }
        let threads = case.id.get("threads")?;
        if let Some(known) = known {
            laws::cpu::peak::measured_peak(known, arithmetic, threads)?;
        }
        Some(sustained_rate(site, known, arithmetic, threads).prediction())
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let case = series.cases.first().context("a series has one case")?;
        let text = |name: &str| case.at.get(name).and_then(Value::text).unwrap_or("");
        let id = CaseId::new()
            .with("op", text("op"))
            .with("type", case.text("type").unwrap_or(""))
            .with("width", text("width"));
        let arithmetic = Arithmetic::of(&id).context("the case was not resolved")?;
        let (block_ns, blocks) = blocks(series, bench.order().rehearsal);
        let cpus = parse_cpus(text("cpus"));
        let begin = Instant::now();
        let mut seconds = Vec::with_capacity(blocks as usize);
        let mut notes = Vec::new();
        let mut before = counters(&cpus);
        for _ in 0..blocks {
            let from_s = begin.elapsed().as_secs_f64();
            let load = load::run(bench, case, arithmetic, window_ns(block_ns), false)?;
            let (after, to_s) = (counters(&cpus), begin.elapsed().as_secs_f64());
            let moved = after.delta(&before);
            seconds.push(Second::new(from_s, to_s, &load, &moved, cpus.len()));
            notes.extend(load.notes);
            before = after;
            bench.alive(to_s);
        }
        write(bench, case, arithmetic, &seconds, notes)
    }
}

/// Trace, samples, and what changed in them.
fn write(
    bench: &mut Bench,
    case: &Case,
    arithmetic: Arithmetic,
    seconds: &[Second],
    notes: Vec<String>,
) -> Result<()> {
    let column = match arithmetic.is_floating() {
        true => "rate_flop_per_s",
        false => "rate_op_per_s",
    };
    let mut columns = vec!["time_s", column];
    columns.extend(COLUMNS.map(|(name, ..)| name));
    let rows = seconds.iter().map(Second::row).collect();
    bench.trace(case, "series", &columns, rows)?;
    let rates = seconds.iter().map(|second| second.rate).collect();
    let found = changes::find(seconds);
    let samples = bench.record_batches(case, arithmetic.metric(), 0, rates)?;
    let named = found.iter().filter(|change| change.is_named()).count();
    samples.at.insert("changes".to_owned(), Value::Int(named as u64));
    let large = found.iter().filter(|change| change.is_named());
    for (number, change) in large.enumerate() {
        let text = change.text(samples_unit(arithmetic));
        samples.at.insert(format!("change_{}", number + 1), Value::Text(text.clone()));
        samples.notes.push(text);
    }
    if named < found.len() {
        samples
            .notes
            .push(format!("{} further changes of level are below 1 %", found.len() - named));
    }
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for note in notes {
        *counted.entry(note).or_default() += 1;
    }
    let told = counted
        .into_iter()
        .map(|(note, times)| format!("in {times} of {} blocks: {note}", seconds.len()));
    samples.notes.extend(told);
    samples.notes.extend(untold(seconds));
    Ok(())
}

fn samples_unit(arithmetic: Arithmetic) -> Unit {
    match arithmetic.is_floating() {
        true => Unit::FlopPerS,
        false => Unit::OpPerS,
    }
}

/// The kernel that a case stands for on this machine.
fn arithmetic(site: &Site, case: &Case) -> Option<Arithmetic> {
    match case.text("type")? {
        "f64" => Arithmetic::chief(site),
        _ => Arithmetic::widest(site, "add", "i64"),
    }
}

/// A number of threads that is no fewer than all is `all`.
fn too_many(site: &Site, threads: &Value) -> Option<Skip> {
    let (count, cpus) = (threads.int()?, site.cpus.len() as u64);
    (count >= cpus.max(2)).then(|| {
        Skip::because(format!(
            "{count} threads are not fewer than the {cpus} CPUs to measure on: that is threads=all"
        ))
    })
}

/// Length of a block in ns, and how many.
fn blocks(series: &Series, rehearsal: bool) -> (u64, u64) {
    if rehearsal {
        return REHEARSAL;
    }
    let block_ns = series.setting("block").unwrap_or(1_000_000_000).max(1);
    let duration_ns = series.setting("duration").unwrap_or(block_ns);
    (block_ns, duration_ns.div_ceil(block_ns).max(1))
}

/// The window that a block leaves.
fn window_ns(block_ns: u64) -> f64 {
    let block_ns = block_ns as f64;
    (WINDOW_SHARE * (block_ns - AROUND_NS)).max(0.4 * block_ns)
}

/// The counters of the CPUs now.
fn counters(cpus: &[usize]) -> Snapshot {
    Snapshot::read(&Root::live(Outside::default()), cpus)
}

#[cfg(test)]
mod tests;
