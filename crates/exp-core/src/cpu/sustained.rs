//! Does the processor keep its peak rate for minutes?
//!
//! ## Question
//!
//! What arithmetic rate does the machine reach second by second under full load, does it fall as
//! the chip warms up or as other tenants take their share, and which counter explains it?
//!
//! ## Method
//!
//! The widest addition of i64 and, apart from it, the widest fused multiply-add of f64 (or
//! multiplication on processors without it), the kernels of cpu.peak, by one thread, four, and one
//! per CPU. `op=mix` is cpu.peak's loop of scalar additions and multiplications by four threads, as
//! in R3, whose programs have 22 integer or 77 floating-point operations a turn and four threads on
//! one CPU. Threads beyond the CPUs take turns. A block is a second: pinned threads warm up for a
//! tenth of a second, then count in a shared window. Each takes its core clock under the kernel
//! before and after. The counters of the CPUs (steal in /proc/stat; x86 shows throttling for heat
//! in thermal_throttle) and of the control
//! group (throttling) are read between blocks, and the time in which the threads had no CPU (taken
//! by other load). Load pauses for a few milliseconds a second.
//!
//! Levels are at least 3 s long. One that differs by 5 % (and three times the scatter from second to
//! second) is found however short it is; smaller ones by change point (ED-PELT, correlated values
//! penalised), if they last long enough. Each change of 1 % or more is reported with its second, its
//! levels, and the counter that changed with it by at least half as much; otherwise it is
//! unexplained. A falling clock with more throttling events is thermal throttling. The trace has
//! everything; an unknown column is 0, and a note says so.
//!
//! ## Prediction
//!
//! The peak (as cpu.peak measured it, or its law) less the share of a hypervisor and the effect of
//! heat and power limits.
//!
//! ## Reading the result
//!
//! The figure is the median second, with an interval over blocks. `changes` counts the reported
//! changes; `change_1` and so on describe the 20 largest. A first level above all later ones is boost that
//! heat ended. Steal and throttling are shares of the CPUs' time.
//!
//! ## Pitfalls
//!
//! The kernel reports steal in steps of 10 ms, 1 % of a second of one CPU. Guests see no throttling
//! events, and power limits cause none: then only the clock shows the change. A hypervisor that
//! reports no steal leaves a change unexplained. Cores whose firmware averages over seconds lower
//! their clock after the window and show it a second later. Twenty seconds do not warm a heat sink:
//! thorough's ten minutes do.
//!
//! ## Sources
//!
//! [R3] CPU 2 (600 samples, once a second); [haynes] (change points).

mod changes;

use super::peak::load;
use crate::add;
use bench::prelude::*;
use changes::{COLUMNS, Change, DESCRIBED, Second, unknown_columns};
use host::counters::Snapshot;
use host::{Outside, Root};
use laws::cpu::peak::{Arithmetic, Element, Op, Threads, Width, measured_peak, sustained_rate};
use record::event::{Isolation, Repeat};
use record::order::InOrder;
use std::time::Instant;

bench::experiment!(Sustained);

/// Warm-up (a tenth of the window) and the looks at the clock take their part of a block.
const WINDOW_SHARE: f64 = 0.9;
/// What a block takes beyond window and warm-up, in ns.
const AROUND_NS: f64 = 8e6;
/// A rehearsal's block, in ns, and how many.
const REHEARSAL: (u64, u64) = (2_000_000, 6);

case! {
    /// A load.
    pub struct Lasting {
        /// f64: the widest fused multiply-add; i64: the widest addition
        element as "type": Element = Domain::Symbols(&["f64", "i64"]),
        /// threads at work: a number, or all (one per CPU); more than the CPUs take turns
        threads: Threads = Domain::Either(&["all"], 1, 8192, Unit::Count),
        /// none: the instruction of the type; mix: scalar additions and multiplications in one loop
        op: Option<Op> = Domain::Symbols(&["mix"]),
    }
}

static CARD: Card = Card {
    id: "cpu.sustained",
    title: "Arithmetic rate over minutes",
    metrics: metrics! {
        "flop_rate" => FlopPerS Higher Hardware:
            "floating-point operations of all threads in a second, a fused one counted twice";
        "rate" => OpPerS Higher Hardware: "integer operations of all threads in a second";
    },
    params: params![
        Lasting::PARAMS,
        settings! {
            "duration": Domain::ns(1_000_000, 86_400_000_000_000), ["auto", "20s", "600s"] =>
                "duration of the widest instruction with all CPUs, and of the mix; auto: quick does \
                 not measure them";
            "duration_part": Domain::ns(1_000_000, 86_400_000_000_000), ["20s", "20s", "60s"] =>
                "duration with another number of threads";
            "block": Domain::ns(1_000_000, 60_000_000_000), ["1s"; 3] =>
                "length of one block; each block gives one value";
        }
    ],
    after: &["clock.rate", "cpu.peak"],
    repeat: Repeat::Once { duration_s: 20.0 },
    isolation: Isolation::Alone,
    views: &[ViewCard::timeline("series").beside(&["core_hz", "taken_share", "steal_share"])],
    ..Card::PLAIN
};

impl Experiment for Sustained {
    type Case = Lasting;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("sustained.rs");
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, series| {
        let (block_ns, blocks) = blocks(series, false);
        Duration::from_nanos(block_ns.saturating_mul(blocks)) + Duration::from_millis(100)
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Lasting> {
        let four = match site.cpus.len() {
            4 => Threads::All,
            _ => Threads::Number(4),
        };
        let (one, all) = ((Threads::Number(1), None), (Threads::All, None));
        let loads = match preset {
            Preset::Thorough if four == Threads::All => vec![one, all, (four, Some(Op::Mix))],
            Preset::Thorough => vec![one, (four, None), all, (four, Some(Op::Mix))],
            _ => vec![all],
        };
        let of = |element| loads.iter().map(move |&(threads, op)| Lasting { element, threads, op });
        [Element::F64, Element::I64].into_iter().flat_map(of).collect()
    }

    /// One thread for each of several CPUs is `all`.
    fn absent(site: &Site, case: &Lasting, _: &Params) -> Option<Skip> {
        let Threads::Number(count) = case.threads else { return None };
        let cpus = site.cpus.len() as u64;
        (count == cpus && cpus > 1).then(|| {
            Skip::because(format!(
                "{count} threads are all of the {cpus} CPUs to measure on: use threads=all"
            ))
        })
    }

    fn series(site: &Site, cases: Vec<Lasting>, params: &Params) -> Result<Offer, Skip> {
        if params.preset == Preset::Quick && params.chosen("duration").is_none() {
            return Err(Skip::because("a sustained load takes longer than the quick preset")
                .needs("--preset standard, or --set cpu.sustained.duration=20s"));
        }
        let setting = |name: &str| Some(Value::Int(*params.ints(name).first()?));
        let mut offer = Offer::default();
        for case in cases {
            let threads = match case.threads {
                Threads::Number(count) => count.to_string(),
                _ => "all".to_owned(),
            };
            let duration = match (case.threads, case.op) {
                (Threads::All, _) | (_, Some(_)) => "duration",
                _ => "duration_part",
            };
            let mix = case.op.map_or("", |_| "mix-");
            let name = format!("{mix}{}-{threads}", case.element.text());
            let absent = Self::absent(site, &case, params);
            if let Some(series) = add(&mut offer, (&CARD, &name, Self::ORDER), &case, absent) {
                let settings = [("duration", setting(duration)), ("block", setting("block"))];
                let given = settings.into_iter().filter_map(|(name, value)| Some((name, value?)));
                series.settings.extend(given.map(|(name, value)| (name.to_owned(), value)));
            }
        }
        if offer.series.is_empty() {
            return Err(Skip::because(
                "none of the requested thread counts fits the CPUs to measure \
                                      on",
            ));
        }
        Ok(offer)
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let Some(lasting) = Lasting::from_id(&case.id) else { continue };
            let arithmetic = arithmetic(site, &lasting)
                .ok_or_else(|| Skip::because("this processor has no such arithmetic"))?;
            load::place(case, site, arithmetic, lasting.threads);
            case.at.put("op", arithmetic.op.text());
            case.at.put("width", arithmetic.width.text());
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Lasting, _: &Case, metric: &Metric) -> Option<Prediction> {
        let arithmetic = arithmetic(facts.site, case)?;
        let is_prior = facts.known.is_none();
        if metric.name != arithmetic.metric() {
            return is_prior.then(|| unknown("unknown: f64 has a flop_rate, i64 has a rate"));
        }
        if !is_prior {
            measured_peak(facts, arithmetic, case.threads)?;
        }
        Some(sustained_rate(facts, arithmetic, case.threads).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let case = series.cases.first().context("a series has one case")?;
        let arithmetic = resolved(case).context("the case was not resolved")?;
        let (block_ns, blocks) = blocks(series, bench.order().rehearsal);
        let cpus = load::cpus_of(case);
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
            bench.declare(Declared::Alive);
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
    let (column, unit) = match arithmetic.is_floating() {
        true => ("rate_flop_per_s", Unit::FlopPerS),
        false => ("rate_op_per_s", Unit::OpPerS),
    };
    let mut columns = vec!["time_s", column];
    columns.extend(COLUMNS.map(|(name, ..)| name));
    let rows = seconds.iter().map(Second::row).collect();
    bench.trace(case, "series", &columns, rows)?;
    let rates = seconds.iter().map(|second| second.rate).collect();
    let found = changes::find(seconds);
    let samples = bench.record(case, arithmetic.metric(), Values::blocks(rates))?;
    let mut named: Vec<&Change> = found.iter().filter(|change| change.is_named()).collect();
    samples.at.put("changes", named.len() as u64);
    let unnamed = found.len() - named.len();
    named.order_by(|a, b| b.size().total_cmp(&a.size()));
    let smaller = named.split_off(named.len().min(DESCRIBED)).len();
    named.order_by(|a, b| a.at_s.total_cmp(&b.at_s));
    for (number, change) in named.into_iter().enumerate() {
        let text = change.text(unit);
        samples.at.insert(format!("change_{}", number + 1), Value::Text(text.clone()));
        samples.notes.push(text);
    }
    for (count, are) in [(smaller, "smaller"), (unnamed, "below 1 %")] {
        if count > 0 {
            samples.notes.push(format!("{count} further changes of level are {are}"));
        }
    }
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for note in notes {
        *counted.entry(note).or_default() += 1;
    }
    let told = counted
        .into_iter()
        .map(|(note, times)| format!("in {times} of {} blocks: {note}", seconds.len()));
    samples.notes.extend(told);
    samples.notes.extend(unknown_columns(seconds));
    Ok(())
}

/// The arithmetic that a load is made of on this machine.
fn arithmetic(site: &Site, load: &Lasting) -> Option<Arithmetic> {
    match (load.op, load.element) {
        (Some(op), element) => Arithmetic::widest(site, op, element),
        (None, Element::F64) => Arithmetic::chief(site),
        (None, _) => Arithmetic::widest(site, Op::Add, Element::I64),
    }
}

fn resolved(case: &Case) -> Option<Arithmetic> {
    Some(Arithmetic {
        op: Op::from_value(case.at.get("op"))?,
        element: Lasting::from_id(&case.id)?.element,
        width: Width::from_value(case.at.get("width"))?,
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

fn window_ns(block_ns: u64) -> f64 {
    let block_ns = block_ns as f64;
    (WINDOW_SHARE * (block_ns - AROUND_NS)).max(0.4 * block_ns)
}

fn counters(cpus: &[usize]) -> Snapshot {
    Snapshot::read(&Root::live(Outside::default()), cpus)
}

#[cfg(test)]
mod tests;
