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
//! Calls are made in a function that returns, as programs make them and as every system call in
//! plumb is, and repeated, n against 2n in ABBA quartets. `clock_gettime_vdso`, `clock_gettime_raw`
//! and `time_vdso` are those of clock.read: both experiments run the same code. Four are different:
//!
//! - `open` and `close` cannot be repeated alone. A pool of descriptors is opened and then closed,
//!   each in one go with the clock read around it, in pools of k, 2k, 2k and k with the width probe
//!   between them. Recorded are the sums of the short and of the long pools, as for every other
//!   quartet; their difference over 2k is the figure, so that the clock and the loop fall out. The
//!   first pool of a round, in which the descriptor table grows, is not timed.
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
//! as disturbance. Where the kernel guards its returns against speculation (AMD's SRSO: `Safe
//! RET`), each return of a program's function after a call is mispredicted: 45 of 168 ns on a Zen
//! 4. It is in the figures here, and in none of a loop that has the bare instruction.
//!
//! ## Sources
//!
//! R0, R1 and R2 "system call overhead"; lmbench `lat_syscall`; K. Garloff's measurements of KPTI,
//! IBRS and retpolines (SpecExLeak); Linux `tools/perf/bench/syscall.c`. The cycles of services and
//! mitigations are written from memory of such figures, not looked up one by one.

mod apparatus;

use super::events::{Events, Number, too_few_files};
use anyhow::{Context, Result, bail, ensure};
use apparatus::{Calls, PAGE_BYTES, Pools, read, serve};
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::{Card, Domain, Fields, Offer, Param, Params, Preset, Site, Skip, ViewCard};
use bench::measure::{Bench, Clock, Values};
use bench::{case, params, rows};
use host::{Arch, refused};
use laws::os::{self, Service};
use laws::{Law, range};
use metal::clock::time_syscall;
use metal::kernel::{ClockRead, clock_read};
use metal::{process, raw};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key_figure::KeyFigure;
use record::metric::{Kind, Metric};
use std::hint::black_box;
use std::os::fd::AsFd;

/// The experiment.
pub static EXPERIMENT: Syscall = Syscall;

/// `os.syscall`.
pub struct Syscall;

/// First kernel whose io_uring has empty operations.
const URING_SINCE: (u64, u64) = (5, 1);
/// Children of a round.
const CHILDREN: Number = Number { rehearsal: 8, least: 16, most: 10_000 };

/// All that is to be known of a call.
pub struct Row {
    /// The first preset that measures it.
    from: Preset,
    law: Work,
    time: Time,
}

/// What a call should take.
enum Work {
    /// A way into the kernel and back, and a service.
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
    /// In pools of descriptors: opening is the first side, closing the second.
    Pools(usize),
    /// In batches of a ring.
    Ring,
    /// Once in each of many children.
    Child,
}

/// A row, from a preset on.
const fn row(from: Preset, law: Work, time: Time) -> Row {
    Row { from, law, time }
}

/// One way into the kernel, cycles of the service beyond it, and what it does.
const fn service(low: f64, likely: f64, high: f64, what: &'static str) -> Work {
    Work::Service(Service::new(1.0, range(low, likely, high), what))
}

/// A call that cannot fail, in a loop of its own.
macro_rules! reads {
    ($calls:ident, $once:expr) => {
        Time::Repeat(|$calls, bench, case| read(bench, case, $once))
    };
}

/// A call that returns a number each time, in a loop of its own.
macro_rules! serves {
    ($calls:ident, $returns:expr, $once:expr) => {
        Time::Repeat(|$calls, bench, case| serve(bench, case, $returns, || $once))
    };
}

use Preset::{Quick, Standard};
use Work::Service as Served;

rows! {
    /// the system call, or what the C library answers without one
    pub enum Call: Row {
        Getpid = "getpid" => row(Quick, service(0.0, 0.0, 0.0, "no service"),
            reads!(_calls, raw::getpid)),
        Getppid = "getppid" => row(Standard, service(0.0, 8.0, 40.0, "a pointer followed under RCU"),
            reads!(_calls, raw::getppid)),
        ClockGettimeVdso = "clock_gettime_vdso" => row(Quick,
            Work::Clock("clock_gettime_vdso", os::clock_by_library), Time::Clock(ClockRead::ClockGettimeVdso)),
        ClockGettimeRaw = "clock_gettime_raw" => row(Quick,
            Work::Clock("clock_gettime_syscall", os::clock_by_call), Time::Clock(ClockRead::ClockGettimeSyscall)),
        TimeVdso = "time_vdso" => row(Standard, Work::Clock("time", os::seconds_by_library),
            Time::Clock(ClockRead::Time)),
        TimeRaw = "time_raw" => row(Standard, service(0.0, 10.0, 60.0, "a word read"),
            reads!(_calls, time_syscall)),
        Open = "open" => row(Quick, service(800.0, 1450.0, 2700.0,
            "a path of two components walked, a file made, a descriptor taken"), Time::Pools(0)),
        Close = "close" => row(Quick, service(140.0, 310.0, 620.0,
            "a descriptor given back and the file put off to the exit"), Time::Pools(1)),
        Stat = "stat" => row(Quick, service(350.0, 650.0, 1200.0,
            "a path of two components walked, attributes copied out"),
            serves!(_calls, 0, raw::newfstatat(None, c"/dev/null").map(|_| 0))),
        ReadZero = "read_zero" => row(Quick, service(50.0, 115.0, 300.0, "a read dispatched, a byte cleared"),
            serves!(calls, 1, raw::read(calls.zero.as_fd(), &mut calls.page[..1]))),
        WriteNull = "write_null" => row(Quick, service(25.0, 70.0, 190.0, "a write dispatched"),
            serves!(calls, 1, raw::write(calls.null.as_fd(), &calls.page[..1]))),
        PreadCached = "pread_cached" => row(Quick, Served(Service::READ_PAGE),
            serves!(calls, PAGE_BYTES, raw::pread64(calls.program.as_fd(), &mut calls.page, 0))),
        SchedYield = "sched_yield" => row(Standard, Served(Service::YIELD),
            serves!(_calls, 0, raw::sched_yield().map(|()| 0))),
        MmapMunmap = "mmap_munmap" => row(Quick, Served(Service::MAP),
            serves!(_calls, 0, raw::munmap(raw::mmap(PAGE_BYTES)?).map(|()| 0))),
        FutexWake = "futex_wake" => row(Quick, Served(Service::FUTEX_WAKE),
            serves!(calls, 0, raw::futex_wake(&calls.word, 1, raw::Scope::Process))),
        EpollWait = "epoll_wait" => row(Standard, service(5.0, 40.0, 160.0, "an empty list looked at"),
            serves!(calls, 0, raw::epoll_wait(calls.epoll.as_fd(), 0))),
        Ioctl = "ioctl" => row(Standard, service(50.0, 125.0, 300.0,
            "dispatch, a pipe locked, a number copied out"),
            serves!(calls, 0, raw::ioctl_fionread(calls.reader.as_fd()))),
        FcntlGetfl = "fcntl_getfl" => row(Standard, service(10.0, 45.0, 160.0,
            "a descriptor looked up, a command told apart"),
            reads!(calls, || raw::fcntl_getfl(calls.null.as_fd()))),
        UringNop = "uring_nop" => row(Quick, Work::Other(os::ring_nop), Time::Ring),
        FirstInChild = "first_in_child" => row(Quick,
            Work::Other(|facts, _| os::first_call_of_child(facts)), Time::Child),
    }
}

impl Call {
    /// The series of its apparatus, and the setting of that.
    fn series(self) -> (&'static str, Option<&'static str>) {
        match self.row().time {
            Time::Repeat(_) | Time::Clock(_) => ("calls", None),
            Time::Pools(_) => ("descriptors", Some("pool")),
            Time::Ring => ("uring", Some("depth")),
            Time::Child => ("child", None),
        }
    }

    /// What it runs of clock.read's bodies.
    pub fn clock(self) -> Option<ClockRead> {
        match self.row().time {
            Time::Clock(clock) => Some(clock),
            _ => None,
        }
    }
}

case! {
    /// A call.
    pub struct Called {
        /// the system call, or what the C library answers without one: `stat` of /dev/null by path;
        /// `read_zero`, `write_null` a byte; `pread_cached` 4 KiB of plumb's own program file,
        /// which is in the page cache; `sched_yield` alone on its CPU; `mmap_munmap` the pair, one
        /// untouched page; `futex_wake`, `epoll_wait` with nobody waiting and nothing ready;
        /// `ioctl` FIONREAD of a pipe; `fcntl_getfl` F_GETFL of /dev/null
        call: Call,
    }
}

const LATENCY: &str = "one call (uring_nop: one operation; mmap_munmap: the pair)";
const POOL: &str = "descriptors in the short pool of open and close";
const DEPTH: &str = "operations that one call of uring_nop submits";

static CARD: Card = Card {
    id: "os.syscall",
    title: "System calls",
    metrics: &[Metric::time("latency", LATENCY, Kind::Os)],
    params: params![
        Called::PARAMS,
        &[
            Param::setting("pool", POOL, Domain::count(1, 100_000), ["64"; 3]),
            Param::setting("depth", DEPTH, Domain::count(1, 4096), ["32"; 3]),
        ],
    ],
    after: &["clock.rate", "clock.read"],
    views: &[ViewCard::bars("latency")],
    keys: &[
        KeyFigure::new("system call,", "null", "latency", "call=getpid"),
        KeyFigure::new("system call,", "open", "latency", "call=open"),
    ],
    ..Card::PLAIN
};

impl Experiment for Syscall {
    type Case = Called;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("syscall.rs");

    fn cases(_: &Site, preset: Preset) -> Vec<Called> {
        let all = Call::ALL.iter().copied();
        let of_preset = all.filter(|call| call.row().from <= preset.max(Quick));
        of_preset.map(|call| Called { call }).collect()
    }

    fn absent(site: &Site, case: &Called, params: &Params) -> Option<Skip> {
        let kernel = &site.host.kernel;
        match case.call {
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
                let pools = 2 * params.ints("pool").first()?;
                too_few_files(site, pools, "a smaller os.syscall.pool")
            }
            _ => None,
        }
    }

    fn series(site: &Site, cases: Vec<Called>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for called in cases {
            if let Some(skip) = Self::absent(site, &called, params) {
                offer.skipped.push((called.id(), skip));
                continue;
            }
            let (name, setting) = called.call.series();
            let series = offer.of(&CARD, name, Order::Shuffled);
            let value = |name: &str| (name.to_owned(), params.get(name)[0].clone());
            series.settings.extend(setting.map(value));
            let mut case = Case::new(called.id());
            case.at.extend(series.settings.clone());
            series.cases.push(case);
        }
        Ok(offer)
    }

    fn law(facts: Facts, case: &Called, at: &Case, _: &Metric) -> Option<Prediction> {
        let measured = |clock| facts.known.and_then(|known| os::measured_read(known, clock));
        let law = match &case.call.row().law {
            Work::Clock(_, law) if facts.known.is_none() => law(facts),
            Work::Clock(clock, _) => {
                let ns = measured(clock)?;
                Law::measured(ns, 0.15, format!("{ns:.1} ns (measured by clock.read)"))
            }
            // Without the measured entry, earlier figures add nothing.
            _ if facts.known.is_some() && measured("clock_gettime_syscall").is_none() => {
                return None;
            }
            Work::Service(service) => os::system_call(facts, *service),
            Work::Other(law) => law(facts, at.int("depth").unwrap_or(1)),
        };
        Some(law.prediction())
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

fn measure_calls(series: &Series, bench: &mut Bench) -> Result<()> {
    let mut calls = Calls::new()?;
    ensure!(
        raw::getpid() == std::process::id(),
        "the kernel and the C library disagree about the process's number"
    );
    // A call that a sandbox forbids takes none of the others with it.
    bench.each_of::<Called>(series, |bench, case, Called { call }| {
        match call.row().time {
            Time::Clock(clock) => bench
                .time(case, "latency", |n| {
                    black_box(clock_read(clock, n));
                })
                .map(|_| ()),
            Time::Repeat(time) => time(&mut calls, bench, case),
            _ => bail!("it is not repeated"),
        }
        .with_context(|| format!("system call {}", call.text()))
    });
    Ok(())
}

fn measure_descriptors(series: &Series, bench: &mut Bench) -> Result<()> {
    let pool = series.setting("pool").context("a pool")?;
    let mut pools = Pools::new(usize::try_from(pool)?)?;
    let mut timer = bench.timer();
    // Both figures come from the same pools, which share the time of their cases.
    timer.goal.case_ns *= series.cases.len() as f64;
    let quartets = timer.repeat(&mut |watch| pools.quartet(watch).map(Some))?;
    for case in &series.cases {
        let Time::Pools(side) = Called::decode(case)?.call.row().time else {
            bail!("{} opens and closes nothing", case.id);
        };
        let side = quartets.map(|sides| sides[side]);
        bench.record(case, "latency", Values::quartets(pool, side))?;
    }
    Ok(())
}

fn measure_uring(series: &Series, bench: &mut Bench) -> Result<()> {
    let depth = u32::try_from(series.setting("depth").context("a depth")?)?;
    let mut ring = raw::UringNop::new(depth).context(
        "io_uring is not available: kernel.io_uring_disabled, seccomp or a container forbids it",
    )?;
    bench.each(series, |bench, case| {
        bench.time(case, "latency", |n| {
            let done = ring.submit_nops(n)?;
            ensure!(done == n, "{done} of {n} empty operations were done");
            Ok(())
        })?;
        Ok(())
    });
    Ok(())
}

/// The parent's waits are voluntary switches, and the children's are not its own: none of the
/// involuntary ones is planned.
fn measure_child(series: &Series, bench: &mut Bench) -> Result<()> {
    let case = series.cases.first().context("one case")?;
    ensure!(
        matches!(bench.order().clock(), Clock::Counter { .. }),
        "a child reads the counter, which cannot be trusted here"
    );
    let child = || {
        let ticks = process::first_syscall_in_vfork_child().map_err(refused::told);
        ticks.context("a child of vfork").map(|ticks| bench.order().clock().ns(ticks))
    };
    // Not timed: the first child pays for what all share.
    child()?;
    let events = Events::of(bench, CHILDREN, || child().map(|ns| (Some(ns), ns)))?;
    bench.record(case, "latency", events.values(|ns| *ns))?;
    Ok(())
}

#[cfg(test)]
mod tests;
