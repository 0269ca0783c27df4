//! What does a system call cost?
//!
//! ## Question
//!
//! What does the way into the kernel and back cost, and what do common services add to it?
//!
//! ## Method
//!
//! Every call is made by its instruction, without the C library, so that nothing is answered from a
//! cache: the reports' `getpid` of 12 cycles and `time` of 11 never entered the kernel. What the
//! library answers from the vDSO are cases of their own.
//!
//! Calls are made in a function that returns, as programs make them and as every system call in plumb is,
//! and repeated, n against 2n in ABBA quartets. `clock_gettime_vdso`, `clock_gettime_raw` and `time_vdso`
//! are those of clock.read: both experiments run the same code. Four are different:
//!
//! - `open` and `close` cannot be repeated alone. A pool of descriptors is opened and then closed,
//!   each in one go with the clock read around it, in pools of k, 2k, 2k and k with the
//!   width probe between them. Recorded are the sums of the short and of the long pools, as for every other quartet;
//!   their difference over 2k is the figure, so that the clock and the loop fall out.
//!   The first pool of a round, in which the descriptor table grows, is not timed.
//! - `uring_nop` submits `depth` empty operations with one call and waits for them; the figure is
//!   per operation.
//! - `first_in_child`: a child made by vfork, on the parent's CPU, times its first `getpid`; each
//!   child is one event, and includes the pair of clock reads (R1's method; it must not be
//!   repeated, for the second call of a child is no first one). The child's answer and exit are
//!   checked.
//!
//! ## Prediction
//!
//! Two shares: entry and exit by the processor and the mitigations that the kernel states, and the
//! service in cycles of kernel code. The derived prediction takes entry and exit from the
//! `clock_gettime` system call that clock.read measured, less the clock's own part.
//!
//! ## Reading the result
//!
//! `getpid` is the price of any call; the others less it are their services. A `clock_gettime_vdso`
//! near `clock_gettime_raw` means that the vDSO falls back. `first_in_child` over `getpid` is what
//! cold caches and predictors add. `mmap_munmap` is two calls.
//!
//! ## Pitfalls
//!
//! Mitigations change every figure here by factors; compare like with like. Sandboxes (seccomp,
//! gVisor) add to each call. `pread_cached` passes through the file system that holds the program
//! (overlayfs adds a layer). `sched_yield` switches if something else wants the CPU, which counts
//! as disturbance. Where the kernel guards its returns against speculation (AMD's SRSO: `Safe RET`),
//! each return of a program's function after a call is mispredicted: 45 of 168 ns on a Zen 4. It is in
//! the figures here, and in none of a loop that has the bare instruction.
//!
//! ## Sources
//!
//! R0, R1 and R2 "system call overhead"; lmbench `lat_syscall`; K. Garloff's measurements of KPTI,
//! IBRS and retpolines (SpecExLeak); Linux `tools/perf/bench/syscall.c`. The cycles of services and
//! mitigations are written from memory of such figures, not looked up one by one.

mod apparatus;

use anyhow::{Context, Result, bail, ensure};
use apparatus::{Calls, PAGE_BYTES, Pools, Quartet, clocks, read, serve};
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::{Card, Domain, Fields, Offer, Param, Params, Preset, Site, Skip, ViewCard};
use bench::measure::{Bench, Clock, Turns};
use bench::{case, params, rows};
use host::{Arch, refused};
use laws::os::{self, Service};
use laws::{Law, range};
use metal::clock::{monotonic_raw_ns, time_syscall};
use metal::kernel::ClockRead;
use metal::{process, raw};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::metric::{Kind, Metric};
use std::os::fd::AsFd;

/// The experiment.
pub static EXPERIMENT: Syscall = Syscall;

/// `os.syscall`.
pub struct Syscall;

/// First kernel whose io_uring has empty operations.
const URING_SINCE: (u64, u64) = (5, 1);
/// Children of a round, at most and in a rehearsal.
const CHILDREN_MAX: usize = 10_000;
const REHEARSAL_CHILDREN: usize = 8;
/// Descriptors that the worker keeps beside the pools.
const OTHER_DESCRIPTORS: u64 = 64;

/// All that is to be known of a call.
pub struct Row {
    /// The first preset that measures it.
    from: Preset,
    law: Work,
    time: Time,
}

/// What a call should take.
enum Work {
    /// Ways into the kernel and back, and a service.
    Service(Service),
    /// What clock.read calls the same.
    Clock(&'static str, fn(Facts) -> Law),
    /// Another, by the setting of its series.
    Other(fn(Facts, u64) -> Law),
}

/// How a call is timed.
enum Time {
    /// Repeated, in a loop of its own.
    Repeat(fn(&mut Calls, &mut Bench, &Case) -> Result<()>),
    /// Repeated, by the body that clock.read times too.
    Clock(ClockRead),
    /// In pools of descriptors, of which it is one side.
    Pools(fn(Quartet) -> (f64, f64)),
    /// In batches of a ring.
    Ring,
    /// Once in each of many children.
    Child,
}

/// Ways into the kernel, cycles of the service, and what it does.
const fn service(ways: f64, cycles: [f64; 3], what: &'static str) -> Work {
    let [low, likely, high] = cycles;
    Work::Service(Service::new(ways, range(low, likely, high), what))
}

/// A call that every preset measures.
const fn quick(law: Work, time: Time) -> Row {
    let from = Preset::Quick;
    Row { from, law, time }
}

/// One that standard measures first.
const fn standard(law: Work, time: Time) -> Row {
    let from = Preset::Standard;
    Row { from, law, time }
}

rows! {
    /// the system call, or what the C library answers without one
    pub enum Call: Row {
        Getpid = "getpid" => quick( service(1.0, [0.0; 3], "no service"),
            Time::Repeat(|_, bench, case| read(bench, case, raw::getpid))),
        Getppid = "getppid" => standard(
            service(1.0, [0.0, 8.0, 40.0], "a pointer followed under RCU"),
            Time::Repeat(|_, bench, case| read(bench, case, raw::getppid))),
        ClockGettimeVdso = "clock_gettime_vdso" => quick(
            Work::Clock("clock_gettime_vdso", os::clock_by_library),
            Time::Clock(ClockRead::ClockGettimeVdso)),
        ClockGettimeRaw = "clock_gettime_raw" => quick(
            Work::Clock("clock_gettime_syscall", os::clock_by_call),
            Time::Clock(ClockRead::ClockGettimeSyscall)),
        TimeVdso = "time_vdso" => standard( Work::Clock("time", os::seconds_by_library),
            Time::Clock(ClockRead::Time)),
        TimeRaw = "time_raw" => standard( service(1.0, [0.0, 10.0, 60.0], "a word read"),
            Time::Repeat(|_, bench, case| read(bench, case, time_syscall))),
        Open = "open" => quick(
            service(1.0, [800.0, 1450.0, 2700.0],
                "a path of two components walked, a file made, a descriptor taken"),
            Time::Pools(|quartet| quartet.open)),
        Close = "close" => quick(
            service(1.0, [140.0, 310.0, 620.0],
                "a descriptor given back and the file put off to the exit"),
            Time::Pools(|quartet| quartet.close)),
        Stat = "stat" => quick(
            service(1.0, [350.0, 650.0, 1200.0],
                "a path of two components walked, attributes copied out"),
            Time::Repeat(|_, bench, case| serve(bench, case, 0, || {
                raw::newfstatat(None, c"/dev/null").map(|_| 0)
            }))),
        ReadZero = "read_zero" => quick(
            service(1.0, [50.0, 115.0, 300.0], "a read dispatched, a byte cleared"),
            Time::Repeat(|calls, bench, case| serve(bench, case, 1, || {
                raw::read(calls.zero.as_fd(), &mut calls.page[..1])
            }))),
        WriteNull = "write_null" => quick(
            service(1.0, [25.0, 70.0, 190.0], "a write dispatched"),
            Time::Repeat(|calls, bench, case| serve(bench, case, 1, || {
                raw::write(calls.null.as_fd(), &calls.page[..1])
            }))),
        PreadCached = "pread_cached" => quick( Work::Service(Service::READ_PAGE),
            Time::Repeat(|calls, bench, case| serve(bench, case, PAGE_BYTES, || {
                raw::pread64(calls.program.as_fd(), &mut calls.page, 0)
            }))),
        SchedYield = "sched_yield" => standard( Work::Service(Service::YIELD),
            Time::Repeat(|_, bench, case| serve(bench, case, 0, || raw::sched_yield().map(|()| 0)))),
        MmapMunmap = "mmap_munmap" => quick( Work::Service(Service::MAP),
            Time::Repeat(|_, bench, case| serve(bench, case, 0, || {
                raw::munmap(raw::mmap(PAGE_BYTES)?).map(|()| 0)
            }))),
        FutexWake = "futex_wake" => quick( Work::Service(Service::FUTEX_WAKE),
            Time::Repeat(|calls, bench, case| serve(bench, case, 0, || {
                raw::futex_wake(&calls.word, 1, raw::Scope::Process)
            }))),
        EpollWait = "epoll_wait" => standard(
            service(1.0, [5.0, 40.0, 160.0], "an empty list looked at"),
            Time::Repeat(|calls, bench, case| serve(bench, case, 0, || {
                raw::epoll_wait(calls.epoll.as_fd(), 0)
            }))),
        Ioctl = "ioctl" => standard(
            service(1.0, [50.0, 125.0, 300.0],
                "dispatch, a pipe locked, a number copied out"),
            Time::Repeat(|calls, bench, case| serve(bench, case, 0, || {
                raw::ioctl_fionread(calls.reader.as_fd())
            }))),
        FcntlGetfl = "fcntl_getfl" => standard(
            service(1.0, [10.0, 45.0, 160.0], "a descriptor looked up, a command told"),
            Time::Repeat(|calls, bench, case| read(bench, case, || raw::fcntl_getfl(calls.null.as_fd()))),
        ),
        UringNop = "uring_nop" => quick( Work::Other(os::ring_nop), Time::Ring),
        FirstInChild = "first_in_child" => quick(
            Work::Other(|facts, _| os::first_call_of_child(facts)), Time::Child),
    }
}

impl Time {
    /// The series of its apparatus, and the setting of that.
    fn series(&self) -> (&'static str, Option<&'static str>) {
        match self {
            Time::Repeat(_) | Time::Clock(_) => ("calls", None),
            Time::Pools(_) => ("descriptors", Some("pool")),
            Time::Ring => ("uring", Some("depth")),
            Time::Child => ("child", None),
        }
    }
}

case! {
    /// A call.
    pub struct Called {
        /// the system call, or what the C library answers without one: `stat` of /dev/null by path;
        /// `read_zero`, `write_null` a byte; `pread_cached` 4 KiB of plumb's own program file, which is
        /// in the page cache; `sched_yield` alone on its CPU; `mmap_munmap` the pair, one untouched page;
        /// `futex_wake`, `epoll_wait` with nobody waiting and nothing ready; `ioctl` FIONREAD of a pipe; `fcntl_getfl` F_GETFL of /dev/null
        call: Call,
    }
}

static CARD: Card = Card {
    id: "os.syscall",
    title: "System calls",
    metrics: &[Metric::time(
        "latency",
        "one call (uring_nop: one operation; mmap_munmap: the pair)",
        Kind::Os,
    )],
    params: params![
        Called::PARAMS,
        &[
            Param::setting(
                "pool",
                "descriptors in the short pool of open and close",
                Domain::count(1, 100_000),
                ["64"; 3],
            ),
            Param::setting(
                "depth",
                "operations that one call of uring_nop submits",
                Domain::count(1, 4096),
                ["32"; 3],
            ),
        ],
    ],
    after: &["clock.rate", "clock.read"],
    views: &[ViewCard::bars("latency")],
    ..Card::PLAIN
};

impl Experiment for Syscall {
    type Case = Called;
    const CARD: &'static Card = &CARD;
    const SOURCE: &'static str = include_str!("syscall.rs");

    fn cases(_: &Site, preset: Preset) -> Vec<Called> {
        let all = Call::ALL.iter().copied();
        let of_preset = all.filter(|call| call.row().from <= preset.max(Preset::Quick));
        of_preset.map(|call| Called { call }).collect()
    }

    fn series(site: &Site, cases: Vec<Called>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for called in cases {
            if let Some(skip) = absent(site, called.call, params) {
                offer.skipped.push((called.id(), skip));
                continue;
            }
            let (name, setting) = called.call.row().time.series();
            let series = offer.of(&CARD, name, Order::Shuffled);
            if let Some(setting) = setting {
                let value = params.get(setting)[0].clone();
                series.settings.insert(setting.to_owned(), value);
            }
            let mut case = Case::new(called.id());
            case.at.extend(series.settings.clone());
            series.cases.push(case);
        }
        Ok(offer)
    }

    fn law(facts: Facts, case: &Called, at: &Case, _: &Metric) -> Option<Prediction> {
        let law = &case.call.row().law;
        let estimate = match (law, facts.known) {
            (Work::Clock(clock, _), Some(known)) => {
                let ns = os::measured_read(known, clock)?;
                Law::measured(ns, 0.15, format!("{ns:.1} ns (measured by clock.read)"))
            }
            (Work::Clock(_, law), None) => law(facts),
            // Without the measured entry, earlier figures add nothing.
            (_, Some(known)) if os::measured_read(known, "clock_gettime_syscall").is_none() => {
                return None;
            }
            (Work::Service(service), _) => os::system_call(facts, *service),
            (Work::Other(law), _) => law(facts, at.int("depth").unwrap_or(1)),
        };
        Some(estimate.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        match series.name.as_str() {
            "calls" => measure_calls(series, bench),
            "descriptors" => measure_descriptors(series, bench),
            "uring" => measure_uring(series, bench),
            "child" => measure_child(series, bench),
            other => bail!("os.syscall has no series `{other}`"),
        }
    }
}

impl Call {
    /// What it runs of clock.read's bodies.
    pub fn clock(self) -> Option<ClockRead> {
        match self.row().time {
            Time::Clock(clock) => Some(clock),
            _ => None,
        }
    }
}

/// Why a call cannot be made here.
fn absent(site: &Site, call: Call, params: &Params) -> Option<Skip> {
    let kernel = &site.host.kernel;
    match call {
        Call::TimeRaw if site.host.cpu.arch == Arch::Aarch64 => {
            Some(Skip::because("aarch64 has no system call `time`"))
        }
        Call::UringNop if kernel.numbers()? < URING_SINCE => {
            Some(Skip::because("this kernel has no io_uring").needs("Linux 5.1"))
        }
        Call::UringNop if kernel.container.runtime.as_deref() == Some("gvisor") => {
            Some(Skip::because("gVisor offers no io_uring by default"))
        }
        Call::Open | Call::Close => {
            let limit = site.host.limits.open_files.and_then(|limit| limit.soft)?;
            let wanted = 2 * params.ints("pool").first()? + OTHER_DESCRIPTORS;
            (limit < wanted).then(|| {
                Skip::because(format!("{limit} files may be open, the pools need {wanted}"))
                    .needs(format!("`ulimit -n {wanted}`, or a smaller os.syscall.pool"))
            })
        }
        _ => None,
    }
}

fn measure_calls(series: &Series, bench: &mut Bench) -> Result<()> {
    let mut calls = Calls::new()?;
    ensure!(
        raw::getpid() == std::process::id(),
        "the kernel and the C library disagree about the process's number"
    );
    // A call that a sandbox forbids takes none of the others with it.
    bench.each_of::<Called>(series, |bench, case, Called { call }| {
        match call.row().time {
            Time::Clock(clock) => clocks(bench, case, clock),
            Time::Repeat(time) => time(&mut calls, bench, case),
            _ => bail!("it is not repeated"),
        }
        .with_context(|| format!("system call {}", call.text()))
    });
    Ok(())
}

fn measure_descriptors(series: &Series, bench: &mut Bench) -> Result<()> {
    let pool = usize::try_from(series.setting("pool").context("a pool")?)?;
    let quartets = pool_quartets(pool, series.cases.len(), bench)?;
    for case in &series.cases {
        let Time::Pools(of) = Called::decode(case)?.call.row().time else {
            bail!("{} opens and closes nothing", case.id);
        };
        bench.record_quartets(case, "latency", pool as u64, quartets.map(|one| of(*one)))?;
    }
    Ok(())
}

/// Quartets of pools for the time of `cases` cases, which share it, because both figures come from
/// the same pools.
fn pool_quartets(pool: usize, cases: usize, bench: &Bench) -> Result<Turns<Quartet>> {
    let mut timer = bench.timer();
    timer.goal.case_ns *= cases as f64;
    let mut pools = Pools::new(pool)?;
    timer.repeat(&mut |watch| pools.quartet(watch).map(Some))
}

fn measure_uring(series: &Series, bench: &mut Bench) -> Result<()> {
    let depth = u32::try_from(series.setting("depth").context("a depth")?)?;
    let mut ring = raw::UringNop::new(depth).context(
        "io_uring is not available: kernel.io_uring_disabled, seccomp or a container forbids it",
    )?;
    bench.each(series, |bench, case| {
        bench.try_time(case, "latency", |n| {
            let done = ring.submit_nops(n)?;
            ensure!(done == n, "{done} of {n} empty operations were done");
            Ok(())
        })?;
        Ok(())
    });
    Ok(())
}

fn measure_child(series: &Series, bench: &mut Bench) -> Result<()> {
    let case = series.cases.first().context("one case")?;
    ensure!(
        matches!(bench.clock(), Clock::Counter { .. }),
        "a child reads the counter, which cannot be trusted here"
    );
    let until = monotonic_raw_ns() + bench.order().case_ns;
    let least = if bench.order().rehearsal { REHEARSAL_CHILDREN } else { 2 * REHEARSAL_CHILDREN };
    let child = || {
        let ticks = process::first_syscall_in_vfork_child().map_err(refused::told);
        ticks.context("a child of vfork")
    };
    let (mut ticks, mut width) = (Vec::new(), Vec::new());
    let mut probes = bench.watch();
    // Not timed: the first child pays for what all share.
    child()?;
    while ticks.len() < least
        || (monotonic_raw_ns() < until && ticks.len() < CHILDREN_MAX && !bench.order().rehearsal)
    {
        probes.begin();
        let took = child()?;
        probes.batch(bench.ns(took));
        width.extend(probes.end().map(|(additions, _)| additions));
        ticks.push(took);
    }
    // The parent's waits are voluntary switches, and the children's are not its own: none of the
    // involuntary ones is planned.
    let values = ticks.iter().map(|ticks| bench.ns(*ticks)).collect();
    bench.record_watched(case, "latency", values, &width)?;
    Ok(())
}

#[cfg(test)]
mod tests;
