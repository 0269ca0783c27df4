//! What does a switch to another process or thread cost?
//!
//! ## Question
//!
//! One process or thread (a party) passes a token to another that waits for it, and then waits
//! itself. How long does that take, how much of the time are the system calls, and how does it
//! depend on the CPUs, on the kind of party, and on the memory that each touches?
//!
//! ## Method
//!
//! The parties form a circle of two or a ring of more. The measuring party sends the token around.
//! `handover` is the time of a lap divided by the number of parties: for two, half a round trip.
//! Every party is pinned, and its CPU is read back at both ends of the case.
//!
//! `one_party` is the cost of the same operations without a switch: the measuring party writes its
//! own pipe and reads it (futex: wakes no thread, and its wait returns at once; yield: yields
//! alone; a ring: also sums its array, which stays in the caches). Both are timed in quartets of n
//! against 2n, alternating in one loop with changing order, each after an untimed operation;
//! `switch` is the difference within a turn, not clamped.
//!
//! The scheduler's own count decides whether hand-overs were measured: each takes one party off its
//! CPU once, voluntarily where it waits, involuntarily where it yields or is preempted by the one
//! it woke. If the sum over the parties is not within 1 % of the hand-overs, the case is void in
//! this round; so a case has at least 400 hand-overs. Fewer switches mean that a party on another
//! CPU was so fast that the token arrived before the wait; more mean that other programs ran.
//!
//! In a ring, a party that is preempted by the one it woke would have to run again only to wait. So
//! the parties of rings and yields are under SCHED_BATCH, where the woken one waits its turn; the
//! others are under the normal policy.
//!
//! - `pipe` moves 4 bytes by write and read, `eventfd` 8; `futex` sets a word, wakes, and waits on
//!   a word of its own; `yield` sets a word and yields until its own is set, on one CPU. Yields
//!   without effect are part of the figure. Between batches the yielding party is blocked.
//! - `ring` is lmbench's lat_ctx: processes on one CPU; each sums its private array when it gets
//!   the token and then writes to the next. Its `switch` includes reloading the array into the
//!   caches.
//! - `first_run` is the hand-over to a newly forked child on the parent's CPU: from just before the
//!   parent waits for it to the child's first instruction. Each child is one event. R2 prints this
//!   as its process switch.
//!
//! ## Prediction
//!
//! R1's model: the calls and their services, and between them a wake-up, the scheduler, the state
//! saved and restored, and another address space with its misses in the TLB. Between CPUs an
//! interrupt and the exit from the idle state take their place, in a virtual machine an exit to the
//! hypervisor. os.syscall's figures replace the calls and correct the rest.
//!
//! ## Reading the result
//!
//! `switch` of a pipe between processes on the same CPU is usually called a context switch.
//! `process_to_thread` is its ratio to the switch between threads: the cost of changing the address
//! space. `handover` across CPUs is a wake-up latency: no party loses its CPU, and `switch` is
//! negative if the calls of the two sides overlap. The figures are for short bursts; compare
//! programs that run for seconds without pause, such as `perf bench sched pipe`, with `row=512`,
//! and as means. A `switch` of a ring less that of the same ring without a working set is cache
//! refill. On x86 a ring of more than six processes (five, if others run) is a step: Linux keeps
//! six address spaces apart in a CPU's TLB.
//!
//! ## Pitfalls
//!
//! Unpinned, results jump by 4 times with the scheduler's placement (wake affinity). An idle state
//! or a virtual machine's halt decides the figures across CPUs, and a hypervisor or a governor
//! adapts over tenths of a second: on one machine 28 µs a hand-over became 38 µs with 512 laps in a
//! row. lat_ctx drops results that are not positive; plumb keeps them. Physical pages of the arrays
//! differ from round to round, and with them their conflicts in the caches. Page-table isolation,
//! IBPB for protected processes and core scheduling raise single figures.
//!
//! ## Sources
//!
//! [lmbench] `lat_ctx.c`; [perf] sched-pipe.c (its operation is a round trip: twice `handover`);
//! reports [R0], [R1] and [R2]; the list of slips on R2's switch.

mod timed;
mod timing;

use super::events::{Events, Number, counter, too_few_files};
use bench::experiment::{Role, shared_round_cost};
use bench::pair::{self, Class};
use bench::prelude::*;
use circle::{Circle, Plan};
use host::refused;
use laws::os::says_more;
use laws::os::switch::{self as law, Handover, Parties, Via};
use metal::handover::first_run;
use metal::memory::SharedWords;
use timed::circle;

bench::experiment!(Switch);

/// Making and ending one process, for the cost that is stated.
const PROCESS: Duration = Duration::from_micros(400);
/// Laps in a row that may be asked for: two such batches must end before a party counts as lost.
const ROW_MAX: u64 = 1 << 14;
/// For stated costs: turns at least, and a hand-over on one CPU and to another.
const TURNS: u64 = 6;
const NEAR: Duration = Duration::from_micros(2);
const FAR: Duration = Duration::from_micros(40);
/// First runs in a round.
const CHILDREN: Number = Number { rehearsal: 4, least: 16, most: 5_000 };
const KIB: u64 = 1 << 10;

static CARD: Card = Card {
    id: "os.switch",
    title: "Hand-overs and switches",
    metrics: metrics! {
        "handover" => Ns Lower Os:
            "one hand-over: half a round trip of two, or a lap of a ring divided by its processes; \
             first_run: from the parent's wait to the child's first instruction";
        "one_party" => Ns Lower Os:
            "the operations of one hand-over in a single process or thread: the same calls without \
             a switch";
        "switch" => Ns Lower Os:
            "hand-over less the same operations without a switch, alternating in the same round";
        "process_to_thread" => derived Ratio None Os:
            "switch between processes over switch between threads";
    },
    params: params![
        Handover::PARAMS,
        &[Param {
            name: "row",
            doc: "least number of laps (of two: round trips) in a row in a short batch, not for \
                  first runs; auto: as few as the clock and the scheduler's counter allow. More \
                  laps make a case take longer",
            domain: Domain::Either(&["auto"], 1, ROW_MAX, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Setting,
        }],
    ],
    after: &["clock.rate", "os.syscall"],
    views: &[
        ViewCard::bars("switch")
            .only(&[("via", &["pipe", "futex", "eventfd", "yield", "first_run"])]),
        ViewCard::line("size", "switch").only(&[("via", &["ring"])]).log_x(),
    ],
    keys: &[
        KeyFigure::new("switch,", "process", "switch", "via=pipe,parties=processes,pair=same"),
        KeyFigure::new("switch,", "thread", "switch", "via=pipe,parties=threads,pair=same"),
    ],
    ..Card::PLAIN
};

impl Experiment for Switch {
    type Case = Handover;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("switch.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let handovers = series.cases.iter().filter_map(|case| Handover::from_id(&case.id));
        let own = |of: Handover| {
            let processes = u32::try_from(of.size()).unwrap_or(u32::MAX);
            PROCESS * processes + in_rows(&of, row(series))
        };
        shared_round_cost(site, series) + handovers.map(own).sum::<Duration>()
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Handover> {
        let (sizes, working_sets): (&[u64], &[u64]) = match preset {
            Preset::Rehearsal | Preset::Quick => (&[8], &[0]),
            Preset::Standard => (&[2, 8, 16], &[0, 16 * KIB, 64 * KIB]),
            Preset::Thorough => (
                &[2, 4, 8, 16, 24, 32, 64, 96],
                &[0, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB],
            ),
        };
        let mut cases = Vec::new();
        for via in [Via::Pipe, Via::Futex, Via::Eventfd, Via::Yield] {
            let parties = match (via, preset) {
                (Via::Eventfd, Preset::Rehearsal | Preset::Quick) => continue,
                (Via::Pipe, _) | (_, Preset::Thorough) => Parties::ALL,
                (Via::Yield, _) => &[Parties::Processes],
                _ => &[Parties::Threads],
            };
            for &parties in parties {
                let parties = Some(parties);
                let pairs = match via {
                    Via::Yield => vec![None],
                    _ => {
                        pairs(site, preset, via == Via::Pipe && parties == Some(Parties::Processes))
                    }
                };
                let of_pair = |pair| Handover { parties, pair, ..Handover::plain(via) };
                cases.extend(pairs.into_iter().map(of_pair));
            }
        }
        for &size in sizes {
            let ring = |&bytes: &u64| Handover {
                size: Some(size),
                working_set: Some(bytes),
                ..Handover::plain(Via::Ring)
            };
            cases.extend(working_sets.iter().map(ring));
        }
        if preset >= Preset::Standard {
            cases.push(Handover::plain(Via::FirstRun));
        }
        cases
    }

    fn complete(of: Handover) -> Option<Handover> {
        let plain = Handover::plain(of.via);
        Some(match of.via {
            Via::FirstRun => plain,
            Via::Ring => {
                Handover { size: Some(of.size?), working_set: Some(of.working_set?), ..plain }
            }
            Via::Yield => Handover { parties: Some(of.parties?), ..plain },
            _ => Handover { parties: Some(of.parties?), pair: Some(of.pair?), ..plain },
        })
    }

    fn absent(site: &Site, of: &Handover, _: &Params) -> Option<Skip> {
        if let Some(pair) = of.pair {
            return pair::in_class(site, pair).err();
        }
        let (size, working_set) = (of.size?, of.working_set?);
        let memory = size.saturating_mul(working_set);
        let too_much = || {
            Skip::because(format!(
                "the working sets are {memory} B, {} B may be touched",
                site.memory_bytes
            ))
        };
        too_few_files(site, 2 * size, "a smaller os.switch.size")
            .or_else(|| (memory > site.memory_bytes).then(too_much))
    }

    fn series(site: &Site, cases: Vec<Handover>, params: &Params) -> Result<Offer, Skip> {
        let row = params.ints("row").first().map(|row| ("row".to_owned(), (*row).into()));
        Ok(Offer::sorted::<Self>(site, cases, params, |of, case| {
            let name = match of.via {
                Via::Ring => "rings",
                Via::FirstRun => return ("first_run".to_owned(), BTreeMap::new()),
                _ => "pairs",
            };
            case.at.extend(row.clone());
            (name.to_owned(), case.at.clone())
        }))
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        pair::resolve(site, series)
    }

    fn law(facts: Facts, of: &Handover, _: &Case, metric: &Metric) -> Option<Prediction> {
        if !says_more(facts) {
            return None;
        }
        let law = match (of.via, &*metric.name) {
            (Via::FirstRun, "handover") => law::first_run(facts),
            (Via::FirstRun, _) => {
                let why = "not measured: a child's first run has no equivalent without a switch";
                return facts.known.is_none().then(|| unknown(why));
            }
            (_, "one_party") => law::one_party(facts, of),
            (_, "switch") => law::switch(facts, of),
            _ => law::handover(facts, of),
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        // The limits on processes, or others on the CPU, concern a case alone.
        bench.each_of::<Handover>(&series.cases, |bench, case, of| match of.via {
            Via::FirstRun => measure_first_run(case, bench),
            _ => measure_circle(case, &of, row(series), bench),
        });
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let has = |id: &CaseId| series.iter().flat_map(|of| &of.cases).any(|case| case.id == *id);
        let both = Parties::ALL.iter().all(|parties| has(&same_cpu(*parties)));
        if both { vec![ratio_of()] } else { Vec::new() }
    }

    /// The calls drop out of a ratio of switches: earlier figures add nothing.
    fn derived_law(facts: Facts, case: &CaseId, _: &Metric) -> Option<Prediction> {
        let is_told = facts.known.is_none() && *case == ratio_of();
        is_told.then(|| law::process_to_thread(facts.site).prediction())
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let of = |parties| values.get(CARD.id, &same_cpu(parties), "switch");
        let both = of(Parties::Processes).zip(of(Parties::Threads));
        let ratio = both.filter(|(_, threads)| *threads > 0.0).map(|(one, other)| one / other);
        let named = |ratio| DerivedValue::new(ratio_of(), "process_to_thread", ratio);
        ratio.map(named).into_iter().collect()
    }
}

/// What batches of so many laps in a row take, at least; nothing unless they are asked for.
fn in_rows(of: &Handover, row: u64) -> Duration {
    let one = if of.pair() == Class::Same { NEAR } else { FAR };
    let handovers = match row {
        1 => 0,
        row => row * of.size() * timing::QUARTET_BATCHES * TURNS,
    };
    one.saturating_mul(u32::try_from(handovers).unwrap_or(u32::MAX))
}

/// Where the two are: below standard on one CPU, the chief ones on one other too.
fn pairs(site: &Site, preset: Preset, is_chief: bool) -> Vec<Option<Class>> {
    let mut classes = pair::classes(site);
    // What a second CPU would add is said, once.
    if classes == [Class::Same] && is_chief {
        classes.push(Class::Llc);
    }
    if preset <= Preset::Quick {
        let others = [Class::Llc, Class::Socket, Class::Other, Class::Remote, Class::Smt];
        let other = others.into_iter().find(|class| is_chief && classes.contains(class));
        classes.retain(|class| *class == Class::Same || Some(*class) == other);
    }
    classes.into_iter().map(Some).collect()
}

fn same_cpu(parties: Parties) -> CaseId {
    let (parties, pair) = (Some(parties), Some(Class::Same));
    Handover { parties, pair, ..Handover::plain(Via::Pipe) }.id()
}

fn ratio_of() -> CaseId {
    Handover { pair: Some(Class::Same), ..Handover::plain(Via::Pipe) }.id()
}

fn row(series: &Series) -> u64 {
    series.setting("row").unwrap_or(1)
}

fn measure_circle(case: &Case, of: &Handover, row: u64, bench: &mut Bench) -> Result<()> {
    let [first, second] = pair::enter(case, bench)?;
    let mut cpus = vec![second; usize::try_from(of.size())?];
    cpus[0] = first;
    let plan = Plan {
        via: of.via,
        kind: of.parties(),
        cpus,
        // Among more than two that run, or wait for a yield, the woken one would take the CPU from
        // its waker before that one waits: two switches for one hand-over.
        patient: matches!(of.via, Via::Ring | Via::Yield),
        working_set: of.working_set(),
    };
    timing::measure(case, Circle::form(&plan)?, row, bench)
}

fn measure_first_run(case: &Case, bench: &mut Bench) -> Result<()> {
    let clock = counter(bench)?;
    let words = SharedWords::new(1)?;
    first_run(&words)
        .map_err(refused::explained)
        .context("the first child, which is not counted")?;
    let events = Events::make(bench, CHILDREN, || {
        let run = first_run(&words).map_err(refused::explained)?;
        let handover = run.child_begins.checked_sub(run.parent_waits);
        Ok((handover, clock.ns(handover.unwrap_or(0))))
    })?;
    let (made, early) = (events.made, events.made - events.kept.len());
    // A child that runs first takes the CPU from its parent.
    bench.declare(Declared::Switches(early as u64));
    ensure!(
        early < made,
        "each of {made} children ran before its parent waited, so there is no hand-over to \
         measure"
    );
    let handovers = events.values(|ticks| clock.ns(*ticks));
    let samples = bench.record(case, "handover", handovers)?;
    if early > 0 {
        samples.notes.push(format!(
            "{early} of {made} children ran before their parent waited and are not counted"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
