//! What does it cost to hand over to another process or thread?
//!
//! ## Question
//!
//! One party has the CPU, hands a token to another that waits for it, and waits in its turn. What
//! does that take, how much of it are the system calls by which it is done, and how does it depend
//! on where the two run, on what they are, and on how much memory each touches?
//!
//! ## Method
//!
//! Parties stand in a circle: two of them, or a ring. The measuring party sends the token around;
//! `handover` is the time of a lap over the number of parties, so half of a round trip of two.
//! Every party is pinned, and its CPU is read back at both ends of the case.
//!
//! `one_party` is what the same operations cost without a switch: the measuring party writes its own
//! pipe and reads it (futex: wakes nobody and waits for what is there; yield: yields alone; a ring:
//! and sums its array, which stays hot). Both are timed in quartets of n against 2n, in turn in one
//! loop, which of them first changing each time, each after an operation that is not timed; `switch`
//! is the difference within a turn. Its interval comes from the rounds' medians, and it is not
//! clamped.
//!
//! The scheduler's own count decides whether hand-overs were measured: each takes one party off its
//! CPU once. It waits (voluntary), or it yields or is preempted by the one it woke (both count as
//! involuntary). Each party reads its rusage in its turn before and after the case; if the sum over
//! the parties is not within 1 % of the hand-overs, the case is void in this round; so batches are
//! long enough for 400 hand-overs in a case, though the clock asks for less. Fewer switches mean that a party on another CPU was so fast that the token was there
//! before the wait; more mean that others ran.
//!
//! In a pair, a party that is preempted by the one it woke finds the token there when it comes
//! back, and does not wait: one switch still. In a ring it would have to run once more only to wait,
//! which made up to three switches of ten hand-overs on the first machine tried. So the parties of
//! rings and yields are under SCHED_BATCH, where the woken one waits its turn. The
//! others are under the normal policy.
//!
//! - `pipe` moves 4 bytes by write and read, `eventfd` 8; `futex` sets a word, wakes, and waits on a
//!   word of its own; `yield` sets a word and yields until its own is set, on one CPU. Where the
//!   kernel comes back from a yield without a switch, the yields in vain are part of the figure.
//!   Between batches the party that yields is blocked.
//! - `ring` is lmbench's lat_ctx: processes on one CPU, each of which sums its private array when
//!   it gets the token and then writes to the next. Its `switch` holds, beside the switch, what it
//!   takes to get the array back into the caches.
//! - `first_run` is no hand-over to a party that waits, but to a child just forked, on the
//!   parent's CPU: from the moment before the parent waits for it to the child's first instruction.
//!   Each child is one event. What R2 prints as its process switch is this.
//!
//! ## Prediction
//!
//! R1's model: the calls' entries and exits and services, and between them a wake-up, the
//! scheduler's choice, the state saved and restored, and another address space with its misses in
//! the TLB. Between CPUs an interrupt and the exit from the idle state stand in their place; in a
//! virtual machine that is an exit to the hypervisor. The derived prediction takes the calls from
//! what os.syscall measured.
//!
//! ## Parameters
//!
//! - `via`: `pipe`, `futex`, `eventfd`, `yield`, `ring`, `first_run`.
//! - `parties`: `processes` or `threads`; not of a ring or a first run, which have processes. auto:
//!   both for pipes, threads for futexes and events, processes for yields; thorough: both for all.
//! - `pair`: where the two are; not of yields, rings and first runs, which are on one CPU. quick
//!   takes the same CPU, and one other for processes with pipes.
//! - `size`: processes in a ring.
//! - `working_set`: bytes that each process of a ring sums, in whole lines of 64 bytes.
//! - `row`: laps (of two parties: round trips) in a row in a short batch, at least; not of first
//!   runs. auto: as few as the clock and the scheduler's count ask for. A case takes longer with more.
//!
//! ## Reading the result
//!
//! `switch` of a pipe between processes on the same CPU is what is usually called a context switch.
//! `process_to_thread` is that over the one between threads: the cost of changing the address space.
//! `handover` across CPUs is a wake-up latency: nothing is switched away that would have to
//! come back, and `switch` is negative where the two ends of the calls overlap. It is that of hand-overs
//! in short bursts, between which a CPU is busy; programs that play for seconds without pause, as
//! `perf bench sched pipe` does, are compared with `row=512`, and as means. A `switch` of a ring
//! less that of the same ring without a working set is cache refill. On x86 a ring of more than six
//! processes (five, if others run) is a step: Linux keeps six address spaces apart in a CPU's TLB.
//!
//! ## Pitfalls
//!
//! Unpinned, results jump by 4 times with the scheduler's placement (wake affinity). An idle state
//! or a virtual machine's halt decides the figures across CPUs, and how long they have been playing
//! changes it: a hypervisor that polls before it halts a CPU, or a governor that chooses idle states,
//! adapts over tenths of a second while both CPUs are halted most of the time. On the first machine
//! tried 28 µs a hand-over became 38 µs with 512 laps in a row. lat_ctx drops results that are not
//! positive; here they stay. Physical pages of the arrays differ from round to round, and with them
//! their conflicts in the caches. Page-table isolation, IBPB for protected processes and
//! core scheduling raise single figures.
//!
//! ## Sources
//!
//! lmbench `lat_ctx.c`; Linux `tools/perf/bench/sched-pipe.c` (its operation is a round trip: twice
//! `handover`); reports R0, R1 and R2; the list of slips on R2's switch.

mod circle;
mod timing;
mod token;

use anyhow::{Context, Result, bail, ensure};
use bench::experiment::{
    Card, DerivedValue, Domain, Experiment, Known, Offer, Param, Params, Preset, Role, Site, Skip,
    ViewCard, shared_round_cost, unknown,
};
use bench::measure::{Bench, Clock};
use bench::pair::{self, Class};
use circle::{Circle, Kind as Parties, Plan};
use host::refused;
use laws::Facts;
use laws::Law;
use laws::os::switch::{self as law, Mechanism};
use metal::clock::monotonic_raw_ns;
use metal::handover::first_run;
use metal::memory::SharedWords;
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;
use token::Via;

/// The experiment.
pub static EXPERIMENT: Switch = Switch;

/// `os.switch`.
pub struct Switch;

/// Descriptors that the worker keeps beside the ring's.
const OTHER_DESCRIPTORS: u64 = 64;
/// Making and ending one process, for the cost that is stated.
const PROCESS: Duration = Duration::from_micros(400);
/// Laps in a row that may be asked for: two such batches must end before a party counts as lost.
const ROW_MAX: u64 = 1 << 14;
/// Turns of a case at least, and one hand-over on one CPU and to another, for the cost that is
/// stated.
const TURNS: u64 = 6;
const NEAR: Duration = Duration::from_micros(2);
const FAR: Duration = Duration::from_micros(40);
/// First runs in a round, at most and at least, and in a rehearsal.
const CHILDREN_MAX: usize = 5_000;
const CHILDREN_MIN: usize = 16;
const REHEARSAL_CHILDREN: usize = 4;

static CARD: Card = Card {
    id: "os.switch",
    title: "Hand-overs and switches",
    metrics: &[
        Metric::time(
            "handover",
            "one hand-over: half a round trip of two, a lap of a ring over its processes; first_run: \
             from the parent's wait to the child's first instruction",
            Kind::Os,
        ),
        Metric::time(
            "one_party",
            "the operations of one hand-over by one party alone: the same calls, no switch",
            Kind::Os,
        ),
        Metric::time(
            "switch",
            "hand-over less one party, turn by turn in the same round",
            Kind::Os,
        ),
        Metric::derived(
            "process_to_thread",
            "switch between processes over switch between threads",
            Unit::Ratio,
            Better::None,
            Kind::Os,
        ),
    ],
    params: &[
        Param {
            name: "via",
            doc: "by what the token is handed over",
            domain: Domain::Symbols(&["pipe", "futex", "eventfd", "yield", "ring", "first_run"]),
            defaults: [
                "pipe,futex,yield,ring",
                "pipe,futex,eventfd,yield,ring,first_run",
                "pipe,futex,eventfd,yield,ring,first_run",
            ],
            role: Role::Case,
        },
        Param {
            name: "parties",
            doc: "what they are; auto: both for pipes, threads for futex and eventfd, processes for \
                  yield; thorough: both for all",
            domain: Domain::Symbols(&["auto", "processes", "threads"]),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        pair::PARAM,
        Param {
            name: "size",
            doc: "processes in a ring",
            domain: Domain::Integer { low: 2, high: 1024, unit: Unit::Count },
            defaults: ["8", "2,8,16", "2,4,8,16,24,32,64,96"],
            role: Role::Case,
        },
        Param {
            name: "working_set",
            doc: "bytes that each process of a ring sums",
            domain: Domain::Integer { low: 0, high: 64 << 20, unit: Unit::B },
            defaults: ["0", "0,16KiB,64KiB", "0,4KiB,8KiB,16KiB,32KiB,64KiB"],
            role: Role::Case,
        },
        Param {
            name: "row",
            doc: "laps (of two: round trips) in a row in a short batch at least; auto: as few as the \
                  clock asks for",
            domain: Domain::Either(&["auto"], 1, ROW_MAX, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate", "os.syscall"],
    views: &[
        ViewCard::bars("switch")
            .only(&[("via", &["pipe", "futex", "eventfd", "yield", "first_run"])]),
        ViewCard::line("size", "switch").only(&[("via", &["ring"])]).log_x(),
    ],
    ..Card::PLAIN
};

impl Experiment for Switch {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("switch.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for via in params.texts("via") {
            match via {
                "ring" => offer_rings(site, params, &mut offer),
                "first_run" => {
                    let id = CaseId::new().with("via", via);
                    put(&mut offer, via, Ok(Case::new(id)));
                }
                _ => offer_pairs(site, params, via, &mut offer),
            }
        }
        if let Some(row) = params.ints("row").first() {
            for series in offer.series.iter_mut().filter(|series| series.name != "first_run") {
                series.settings.insert("row".to_owned(), (*row).into());
                for case in &mut series.cases {
                    case.at.insert("row".to_owned(), (*row).into());
                }
            }
        }
        match offer.series.is_empty() {
            true => Err(offer
                .skipped
                .into_iter()
                .next()
                .map_or_else(|| Skip::because("no hand-over is asked for"), |(_, skip)| skip)),
            false => Ok(offer),
        }
    }

    fn derivable(&self, _site: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases: Vec<&CaseId> =
            series.iter().flat_map(|series| &series.cases).map(|case| &case.id).collect();
        let both = ["processes", "threads"].map(same_cpu);
        match both.iter().all(|id| cases.contains(&id)) {
            true => vec![ratio_of()],
            false => Vec::new(),
        }
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let parties: u64 = series.cases.iter().map(|case| case.int("size").unwrap_or(2)).sum();
        let processes = PROCESS * u32::try_from(parties).unwrap_or(u32::MAX);
        let rows: Duration = series.cases.iter().map(|case| in_rows(series, case)).sum();
        shared_round_cost(site, series) + processes + rows
    }

    fn resolve(&self, site: &Site, _known: &Known, series: Series) -> Result<Series, Skip> {
        pair::resolve(site, series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some_and(|known| !law::tells(known)) {
            return None;
        }
        if metric.derived {
            // The calls drop out of a ratio of switches: earlier figures add nothing.
            return match (case.id == ratio_of(), known) {
                (true, None) => Some(law::process_to_thread(site).prediction()),
                _ => None,
            };
        }
        let via = case.text("via").unwrap_or_default();
        if via == "first_run" {
            return Some(match metric.name.as_ref() {
                "handover" => law::first_run(Facts { site, known }).prediction(),
                _ if known.is_some() => return None,
                _ => unknown("a child's first run is one event; no party does the same alone"),
            });
        }
        let Some(mechanism) = mechanism(case) else {
            return known.is_none().then(|| unknown(format!("unknown: no hand-over via `{via}`")));
        };
        let estimate: Law = match metric.name.as_ref() {
            "one_party" => law::one_party(Facts { site, known }, &mechanism),
            "switch" => law::switch(Facts { site, known }, &mechanism),
            _ => law::handover(Facts { site, known }, &mechanism),
        };
        Some(estimate.prediction())
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        // The limits on processes, or others on the CPU, concern a case alone.
        bench.each(series, |bench, case| match case.text("via") {
            Some("first_run") => measure_first_run(case, bench),
            _ => measure_circle(case, row(series), bench),
        });
        Ok(())
    }

    fn derive(&self, _site: &Site, _known: &Known, values: &Known) -> Vec<DerivedValue> {
        let of = |parties| values.get(CARD.id, &same_cpu(parties), "switch");
        let ratio = of("processes")
            .zip(of("threads"))
            .filter(|(_, threads)| *threads > 0.0)
            .map(|(processes, threads)| processes / threads);
        ratio
            .map(|ratio| DerivedValue::new(ratio_of(), "process_to_thread", ratio))
            .into_iter()
            .collect()
    }
}

/// The case of a pipe on one CPU.
fn same_cpu(parties: &str) -> CaseId {
    CaseId::new().with("via", "pipe").with("parties", parties).with("pair", "same")
}

/// The case of the ratio.
fn ratio_of() -> CaseId {
    CaseId::new().with("via", "pipe").with("pair", "same")
}

/// Adds a case to its series, or to those that are skipped.
fn put(offer: &mut Offer, via: &str, case: Result<Case, (CaseId, Skip)>) {
    let case = match case {
        Ok(case) => case,
        Err(skipped) => return offer.skipped.push(skipped),
    };
    let name = match via {
        "ring" => "rings",
        "first_run" => "first_run",
        _ => "pairs",
    };
    match offer.series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.cases.push(case),
        None => offer.series.push(Series {
            experiment: CARD.id.to_owned(),
            name: name.to_owned(),
            order: Order::Shuffled,
            cases: vec![case],
            settings: Default::default(),
        }),
    }
}

fn offer_pairs(site: &Site, params: &Params, via: &str, offer: &mut Offer) {
    for parties in parties_of(params, via) {
        let id = CaseId::new().with("via", via).with("parties", parties);
        if via == "yield" {
            put(offer, via, Ok(Case::new(id)));
            continue;
        }
        for pair in pairs_of(site, params, via, parties) {
            let id = id.clone().with("pair", pair);
            let case = match pair::named(site, pair) {
                Ok(_) => Ok(Case::new(id)),
                Err(skip) => Err((id, skip)),
            };
            put(offer, via, case);
        }
    }
}

/// What the parties of a mechanism are.
fn parties_of<'params>(params: &'params Params, via: &str) -> Vec<&'params str> {
    if params.chosen("parties").is_some() {
        return params.texts("parties");
    }
    match (via, params.preset) {
        ("pipe", _) | (_, Preset::Thorough) => vec!["processes", "threads"],
        ("yield", _) => vec!["processes"],
        _ => vec!["threads"],
    }
}

/// Where the two parties of a mechanism are.
fn pairs_of<'params>(
    site: &Site,
    params: &'params Params,
    via: &str,
    parties: &str,
) -> Vec<&'params str> {
    if params.chosen("pair").is_some() {
        return params.texts("pair");
    }
    let mut symbols: Vec<&str> = pair::classes(site).into_iter().map(Class::text).collect();
    // What a second CPU would add is told, once.
    if symbols == ["same"] && (via, parties) == ("pipe", "processes") {
        symbols.push("llc");
    }
    if matches!(params.preset, Preset::Quick | Preset::Rehearsal) {
        let other = ["llc", "socket", "other", "remote", "smt"]
            .into_iter()
            .find(|symbol| symbols.contains(symbol))
            .filter(|_| (via, parties) == ("pipe", "processes"));
        symbols.retain(|symbol| *symbol == "same" || Some(*symbol) == other);
    }
    symbols
}

fn offer_rings(site: &Site, params: &Params, offer: &mut Offer) {
    let limit = site.host.limits.open_files.and_then(|limit| limit.soft);
    for size in params.ints("size") {
        for working_set in params.ints("working_set") {
            let id = CaseId::new()
                .with("via", "ring")
                .with("size", size)
                .with("working_set", working_set);
            let files = 2 * size + OTHER_DESCRIPTORS;
            let memory = size.saturating_mul(working_set);
            let case = match limit.filter(|limit| *limit < files) {
                Some(limit) => Err((
                    id,
                    Skip::because(format!("{limit} files may be open, the pipes need {files}"))
                        .needs(format!("`ulimit -n {files}`, or a smaller os.switch.size")),
                )),
                None if memory > site.memory_bytes => Err((
                    id,
                    Skip::because(format!(
                        "the working sets are {memory} B, {} B may be touched",
                        site.memory_bytes
                    )),
                )),
                None => Ok(Case::new(id)),
            };
            put(offer, "ring", case);
        }
    }
}

/// A case in the words of the law.
fn mechanism(case: &Case) -> Option<Mechanism> {
    let via = match case.text("via")? {
        "pipe" => law::Via::Pipe,
        "futex" => law::Via::Futex,
        "eventfd" => law::Via::Eventfd,
        "yield" => law::Via::Yield,
        "ring" => law::Via::Pipe,
        _ => return None,
    };
    Some(Mechanism {
        via,
        processes: case.text("parties") != Some("threads"),
        pair: pair::class(&case.id).unwrap_or(Class::Same),
        size: case.int("size").unwrap_or(2),
        working_set: case.int("working_set").unwrap_or(0),
    })
}

/// Laps of the short batch at least.
fn row(series: &Series) -> u64 {
    series.setting("row").unwrap_or(1)
}

/// What batches of so many laps in a row take, at least; nothing unless they are asked for.
fn in_rows(series: &Series, case: &Case) -> Duration {
    let one = match case.text("pair") {
        None | Some("same") => NEAR,
        Some(_) => FAR,
    };
    let handovers = match row(series) {
        1 => 0,
        row => row * case.int("size").unwrap_or(2) * timing::QUARTET_BATCHES * TURNS,
    };
    one.saturating_mul(u32::try_from(handovers).unwrap_or(u32::MAX))
}

fn measure_circle(case: &Case, row: u64, bench: &mut Bench) -> Result<()> {
    let [first, second] = pair::cpus(case).context("the case has not been placed")?;
    ensure!(
        first == bench.cpu(),
        "the case was placed on CPU {first}, the round is on {}",
        bench.cpu()
    );
    let via = case.text("via").unwrap_or_default();
    let mut cpus = vec![second; usize::try_from(case.int("size").unwrap_or(2))?];
    cpus[0] = first;
    let plan = Plan {
        via: Via::of(via)?,
        kind: match case.text("parties") {
            Some("threads") => Parties::Threads,
            _ => Parties::Processes,
        },
        cpus,
        // Among more than two that run, or wait for a yield, the woken one would take the CPU from
        // its waker before that one waits: two switches for one hand-over.
        patient: matches!(via, "ring" | "yield"),
        working_set: case.int("working_set").unwrap_or(0),
    };
    bench.use_cpus(&[first, second]);
    let mut circle = Circle::form(&plan)?;
    let (timed, counted) = timing::time(&mut circle, row, bench)?;
    circle.end()?;
    timing::write(case, bench, timed, &counted)
}

fn measure_first_run(case: &Case, bench: &mut Bench) -> Result<()> {
    if !matches!(bench.clock(), Clock::Counter { .. }) {
        bail!("a child reads the counter, which cannot be trusted here");
    }
    let words = SharedWords::new(1)?;
    let rehearsal = bench.order().rehearsal;
    let least = [CHILDREN_MIN, REHEARSAL_CHILDREN][usize::from(rehearsal)];
    let until = monotonic_raw_ns() + bench.order().case_ns;
    let (mut values, mut width, mut early, mut made) = (Vec::new(), Vec::new(), 0_u64, 0);
    let mut probes = bench.watch();
    first_run(&words).map_err(refused::told).context("the first child, which is not counted")?;
    while made < least || (!rehearsal && made < CHILDREN_MAX && monotonic_raw_ns() < until) {
        probes.begin();
        let run = first_run(&words).map_err(refused::told)?;
        made += 1;
        let handover = run.child_begins.checked_sub(run.parent_waits);
        let handover_ns = probes.batch(bench.ns(handover.unwrap_or(0)));
        let seen = probes.end().filter(|_| handover.is_some());
        width.extend(seen.map(|(additions, _)| additions));
        values.extend(handover.map(|_| handover_ns));
        early += u64::from(handover.is_none());
    }
    bench.planned_switches(early); // A child that runs first takes the CPU from its parent.
    ensure!(
        !values.is_empty(),
        "each of {made} children ran before its parent waited: there is no hand-over to measure"
    );
    let samples = bench.record_watched(case, "handover", values, &width)?;
    if early > 0 {
        samples.notes.push(format!(
            "{early} of {made} children ran before their parent waited and are not counted"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
