//! What does a thread cost?
//!
//! ## Question
//!
//! How long does creating a thread take: until the call returns, until the thread runs its first
//! instruction, until it is joined? How much of that time is the stack, and how much does the
//! thread's first CPU matter?
//!
//! ## Method
//!
//! Each thread is one event. The creator reads the clock, calls `pthread_create`, reads it again,
//! calls `pthread_join`, and reads it a third time; the thread's body first reads the clock, then
//! counts itself and returns. `return`, `first_instruction` and `create_join` are the three
//! distances from the first reading, the readings in them included. All threads are joined, and
//! every one must have counted itself.
//!
//! The creator is pinned. With `pair=same` the thread inherits its CPU, so it starts when the
//! creator waits in the join, or earlier if it preempts the creator (`first_before_return`). With
//! another `pair` the thread gets its CPU from `pthread_attr_setaffinity_np`: the library creates
//! it on the creator's CPU and moves it before its first instruction. Then `first_instruction`
//! compares the counters of two CPUs: plumb first bounds their offset by exchanges; if the bound is
//! above 1 % of that time, CLOCK_MONOTONIC times all three.
//!
//! Stacks are a parameter, because glibc keeps those of ended threads (up to 40 MiB), so a loop of
//! create and join always reuses the same one:
//!
//! - `cached`: that loop. What most tools measure.
//! - `fresh`: a stack of the same size is mapped (`mmap`, `mprotect` of all but a guard page)
//!   before each thread and unmapped after its join, all inside the windows; its first page is a
//!   page fault. This models a program whose threads live at the same time, with any library.
//! - `bare`: no library. clone(2) with the flags of a thread, on one permanent stack, without
//!   thread-local storage, signal mask or guard. It is a lower bound for any library.
//!
//! Page faults per thread (`faults_per_thread`) show whether stacks were reused.
//!
//! A `count` of threads in sequence is one window around all of them, as R0, R1 and R2 timed it.
//! With `alive` threads, all are created first; each waits at a futex until the last exists; then
//! all are released and joined. Both give the mean per thread; the samples also record the CPU time
//! of the process per thread (`cpu_time_per_thread_ns`), which excludes waiting.
//!
//! ## Prediction
//!
//! The sum of system calls, a stack and switches: a clone, two changes of the signal mask; a fresh
//! stack's mapping, faults and unmapping; the switch to the thread, its exit, a futex wake, the
//! switch back. The derived prediction has getpid, futex_wake, mmap_munmap and the switch as they
//! were measured; os.syscall and memory.fault correct the kernel's other work.
//!
//! ## Reading the result
//!
//! `create_join` less `bare`'s is the library; `fresh` less `cached` is the stack. `return` is the
//! delay of the creator. `first_instruction` less `return` is the wait for the CPU: on the
//! creator's CPU a switch, on another an interrupt and the end of its idle state. On another CPU
//! the thread's exit overlaps the join; on the creator's CPU it is part of this figure or of the
//! next thread's.
//!
//! A sequence is a mean and includes the kernel's deferred freeing, in bursts of up to milliseconds
//! (RCU); the median of single threads does not: compare the sequence with their mean. `alive=1`
//! adds the gate. With 1024 alive neither stacks nor the kernel's own stacks and descriptors come
//! from a cache.
//!
//! ## Pitfalls
//!
//! Creator and thread hand over the CPU by waiting, so another process can run in between without
//! an involuntary switch: a sequence on a busy CPU is longer but not marked as disturbed. Its wall
//! time then exceeds its CPU time, and a note says by how much.
//!
//! Tools differ by the stack's cache, by the number of threads alive together, and by what their
//! threads do: those of `stress-ng --pthread` make about 45 system calls each, sleep a millisecond
//! and make the kernel follow their robust list 2048 times at exit; `work=stress` reproduces them.
//! A limit on processes (`ulimit -u`, pids.max of the cgroup, kernel.threads-max) ends the round
//! with EAGAIN. Transparent huge pages may back a fresh stack on kernels before 6.7: its first
//! touch then clears 2 MiB. An idle CPU's sleep state dominates `first_instruction` across CPUs. A
//! thread that starts before the return has preempted its creator, which counts as an involuntary
//! switch: plumb expects one for each such thread, and with many threads one per slice of 0.75 ms
//! of CPU time.
//!
//! ## Sources
//!
//! [R0], [R1] and [R2]: "thread creation" (R0: the thread's first reading, R1 and R2: 100 000 in
//! sequence); [glibc] nptl/pthread_create.c and nptl/nptl-stack.c (cache of 40 MiB); [linux]
//! kernel/fork.c; [stress-ng] `stress-pthread.c`. Cycles of clone and exit have no source; they
//! were adjusted on one virtual machine.

mod windows;

use super::events::{Events, Number};
use bench::experiment::shared_round_cost;
use bench::pair::{self, Class};
use bench::prelude::*;
use host::refused;
use laws::os::says_more;
use laws::os::thread::{self as law, Beside, Company, Made, Moment, Stack};
use metal::clock;
use metal::process;
use metal::thread::{Life, Maker, Stack as MakerStack, Watch};
use record::event::Samples;

bench::experiment!(Thread);

/// Size of a stack unless set otherwise: glibc's default, from the usual RLIMIT_STACK.
const STACK_BYTES: u64 = 8 << 20;
/// Threads whose life is timed one by one.
const EVENTS: Number = Number { rehearsal: 8, least: 16, most: 20_000 };
/// Threads before the first that is timed: caches of the library and the kernel fill.
const COLD: u64 = 16;
/// Threads that show how long a first instruction takes, before clocks of two CPUs are compared.
const TRIALS: usize = 9;

/// Planned for a thread in a sequence, in a crowd, and with the rival's calls, in ns.
const SEQUENCE_NS: u64 = 25_000;
const CROWD_NS: u64 = 60_000;
const STRESS_NS: u64 = 250_000;

static CARD: Card = Card {
    id: "os.thread",
    title: "Threads",
    metrics: metrics! {
        "return" => Ns Lower Os: "from the call that creates a thread to its return";
        "first_instruction" => Ns Lower Os:
            "from the call that creates a thread to the thread's first instruction";
        "create_join" => Ns Lower Os:
            "from the call that creates a thread until it is joined; per thread";
    },
    params: params![
        Made::PARAMS,
        settings! {
            "stack_bytes": Domain::bytes(64 << 10, 1 << 40), ["8MiB"; 3] =>
                "size of a stack, guard included";
        },
    ],
    after: &["os.syscall", "os.switch", "memory.fault"],
    views: &[ViewCard::bars("create_join")],
    keys: &[KeyFigure::new(
        "thread, create and join",
        "",
        "create_join",
        "pair=same,stack=cached,count=",
    )],
    ..Card::PLAIN
};

impl Experiment for Thread {
    type Case = Made;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("thread.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |_| Hazards { memory: Claim::OfRound, ..Hazards::NONE };
    /// Windows over many threads are as long as their threads, at least one each.
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let made = series.cases.iter().filter_map(|case| Made::from_id(&case.id));
        // A crowd once more, before those that are timed.
        let threads_ns = made.map(|made| match made.company() {
            Company::Alone => 0,
            Company::Sequence => made.count.unwrap_or(0).saturating_mul(SEQUENCE_NS),
            Company::Crowd(count) => count.saturating_mul(2 * CROWD_NS),
            Company::Stress(count) => count.saturating_mul(2 * STRESS_NS),
        });
        let threads_ns = threads_ns.fold(0, u64::saturating_add);
        shared_round_cost(site, series).max(Duration::from_nanos(threads_ns))
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Made> {
        let mut cases = Vec::new();
        for pair in pair::classes(site) {
            let stacks: &[Stack] = match (preset, pair) {
                (Preset::Rehearsal | Preset::Quick, Class::Same) => &[Stack::Cached, Stack::Fresh],
                (Preset::Rehearsal | Preset::Quick, _) => &[],
                (_, Class::Same) => Stack::ALL,
                (Preset::Standard, _) => &[Stack::Cached],
                (Preset::Thorough, _) => &[Stack::Cached, Stack::Fresh],
            };
            cases.extend(stacks.iter().map(|stack| Made::alone(pair, *stack)));
        }
        cases.push(Made::sequence(1000));
        if preset >= Preset::Standard {
            cases.push(Made::crowd(1024, None));
        }
        if preset == Preset::Thorough {
            cases.push(Made::sequence(100_000));
            cases.push(Made::crowd(1, None));
            cases.push(Made::crowd(1024, Some(Beside::Stress)));
        }
        cases
    }

    /// Sequences and crowds have one place and one kind of stack.
    fn complete(made: Made) -> Option<Made> {
        match (made.count, made.alive) {
            (Some(count), _) => Some(Made::sequence(count)),
            // Alone, a thread that sleeps a millisecond leaves its CPU idle.
            (_, Some(alive)) => {
                (alive > 1 || made.work.is_none()).then(|| Made::crowd(alive, made.work))
            }
            _ => Some(made),
        }
    }

    fn absent(site: &Site, made: &Made, _: &Params) -> Option<Skip> {
        if made.stack == Some(Stack::Bare) && made.pair != Class::Same {
            return Some(Skip::because(
                "a bare thread starts on its creator's CPU: only the library moves a thread before \
                 its first instruction",
            ));
        }
        pair::in_class(site, made.pair).err()
    }

    fn series(site: &Site, cases: Vec<Made>, params: &Params) -> Result<Offer, Skip> {
        let settings = params.settings(&CARD);
        Ok(Offer::sorted::<Self>(site, cases, params, |made, _| {
            let name = match made.company() {
                Company::Alone => "single",
                Company::Sequence => "sequence",
                Company::Crowd(_) | Company::Stress(_) => "crowd",
            };
            (name.to_owned(), settings.clone())
        }))
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        pair::resolve(site, series)
    }

    fn law(facts: Facts, made: &Made, _: &Case, metric: &Metric) -> Option<Prediction> {
        let known = facts.known;
        let named = |moment: &&Moment| moment.text() == metric.name;
        let moment = *Moment::ALL.iter().find(named)?;
        if made.company() != Company::Alone && moment != Moment::Joined {
            return known.is_none().then(|| {
                unknown(
                    "not measured: one window covers many threads, so single ones are not \
                         timed",
                )
            });
        }
        if !says_more(facts) {
            return None;
        }
        Some(law::time(facts, made, moment).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let bytes = usize::try_from(series.setting("stack_bytes").unwrap_or(STACK_BYTES))?;
        bench.each_of::<Made>(series, |bench, case, made| {
            let measured = match made.company() {
                Company::Alone => measure_events(case, made, bytes, bench),
                _ => windows::measure_batches(case, made, bytes, bench),
            };
            measured.map_err(|error| advised(error, bytes))
        });
        Ok(())
    }
}

/// Adds what would help where a limit is reached.
fn advised(error: anyhow::Error, bytes: usize) -> anyhow::Error {
    if !refused::is_limit(&error) {
        return error;
    }
    refused::explained(error).context(format!(
        "threads with stacks of {bytes} bytes; lower os.thread.alive or os.thread.stack_bytes"
    ))
}

fn watch(clock: Clock) -> Watch {
    match clock {
        Clock::Counter { .. } => Watch { start: clock::ticks_start, end: clock::ticks_end },
        Clock::Monotonic => Watch { start: clock::monotonic_ns, end: clock::monotonic_ns },
    }
}

/// A maker for a case, tried: its threads begin where they should; cold ones are over.
fn maker(case: &Case, made: &Made, bytes: usize, bench: &mut Bench) -> Result<(Maker, [usize; 2])> {
    let here = bench.order().cpu();
    let cpus = pair::cpus(case).unwrap_or([here, here]);
    ensure!(cpus[0] == here, "the creator is on CPU {here}, not on {}", cpus[0]);
    bench.declare(Declared::Cpus(&cpus));
    let stack = match made.stack {
        Some(Stack::Fresh) => MakerStack::Fresh,
        Some(Stack::Bare) => MakerStack::Bare,
        Some(Stack::Cached) | None => MakerStack::Cached,
    };
    let there = (cpus[1] != cpus[0]).then_some(cpus[1]);
    let mut maker = Maker::new(stack, bytes, there)?;
    let begun = maker.cpu_of_one()?;
    ensure!(begun == cpus[1], "a thread for CPU {} began on CPU {begun}", cpus[1]);
    maker.in_sequence(COLD)?;
    Ok((maker, cpus))
}

/// Whether the thread began before the call that made it returned: it preempted its maker.
fn began_early(life: &Life) -> bool {
    life.first < life.returned
}

/// The clock of a case: the round's, unless two CPUs' counters are too far apart for the windows
/// that a trial shows; and the offset's bound in ns.
fn clock_of(
    maker: &mut Maker,
    cpus: [usize; 2],
    bench: &mut Bench,
) -> Result<(Clock, Option<f64>)> {
    if cpus[0] == cpus[1] {
        return Ok((bench.order().clock(), None));
    }
    let mut lengths = Vec::with_capacity(TRIALS);
    for _ in 0..TRIALS {
        let life = maker.one(watch(Clock::Monotonic))?;
        lengths.push(life.first.saturating_sub(life.call));
    }
    lengths.sort_unstable();
    let offset = bench.offset(cpus[0], cpus[1])?;
    let clock = match offset.allows(lengths[TRIALS / 2] as f64) {
        true => bench.order().clock(),
        false => Clock::Monotonic,
    };
    Ok((clock, Some(offset.bound_ns())))
}

type End = fn(&Life) -> u64;

/// The metrics of one thread's life.
const MOMENTS: [(&str, End); 3] = [
    ("return", |life| life.returned),
    ("first_instruction", |life| life.first),
    ("create_join", |life| life.joined),
];

fn measure_events(case: &Case, made: Made, bytes: usize, bench: &mut Bench) -> Result<()> {
    let (mut maker, cpus) = maker(case, &made, bytes, bench)?;
    let (clock, bound_ns) = clock_of(&mut maker, cpus, bench)?;
    let faults = process::rusage_self().minflt;
    let lives = Events::make(bench, EVENTS, || {
        let life = maker.one(watch(clock))?;
        Ok((Some(life), clock.between_ns(life.call, life.joined)))
    })?;
    let faults = Faults::since(faults, lives.made as u64);
    let early = lives.kept.iter().filter(|life| began_early(life)).count();
    if cpus[0] == cpus[1] {
        bench.declare(Declared::Switches(early as u64));
    }
    for (metric, moment) in MOMENTS {
        let values = lives.values(|life| clock.between_ns(life.call, moment(life)));
        let samples = bench.record(case, metric, values)?;
        samples.set_quantities([("first_before_return", early as f64 / lives.made as f64)]);
        faults.tell(&made, samples);
        if let Some(bound_ns) = bound_ns {
            samples.set_quantities([("clock_offset_bound_ns", bound_ns)]);
            let note = "timed by CLOCK_MONOTONIC: the two CPUs' counters may be too far apart";
            samples.notes.extend((clock == Clock::Monotonic).then(|| note.to_owned()));
        }
    }
    Ok(())
}

/// Page faults of a thread, which show whether its stack was reused.
struct Faults(f64);

impl Faults {
    /// The page faults of each of so many threads since the process had `before`.
    fn since(before: u64, threads: u64) -> Self {
        Faults(process::rusage_self().minflt.saturating_sub(before) as f64 / threads as f64)
    }

    /// Writes them down, and whether they contradict the case.
    fn tell(&self, made: &Made, samples: &mut Samples) {
        let Faults(each) = *self;
        samples.set_quantities([("faults_per_thread", each)]);
        let why = match made.stack {
            Some(Stack::Cached) if each >= 1.0 => "this C library does not reuse stacks",
            Some(Stack::Fresh) if each < 1.0 => "the stacks were not fresh",
            _ => return,
        };
        samples.notes.push(format!("{each:.1} page faults per thread: {why}"));
    }
}

#[cfg(test)]
mod tests;
