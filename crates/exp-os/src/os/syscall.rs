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
//! ## Parameters
//!
//! - `call`: `getpid`, `getppid`; `clock_gettime_vdso`, `clock_gettime_raw`, `time_vdso`,
//!   `time_raw`; `open`, `close`, `stat` of /dev/null by path; `read_zero` (1 byte of /dev/zero),
//!   `write_null` (1 byte to /dev/null), `pread_cached` (4 KiB of plumb's own program file, which
//!   runs and so is in the page cache); `sched_yield` alone on its CPU; `mmap_munmap` (the pair,
//!   one untouched page); `futex_wake` and `epoll_wait` with nobody waiting and nothing ready;
//!   `ioctl` (FIONREAD of a pipe); `uring_nop`; `first_in_child`.
//! - `pool`: descriptors in the short pool.
//! - `depth`: operations to a call of `uring_nop`.
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
use apparatus::{Calls, Pools, Quartet};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, unknown,
};
use bench::measure::{Bench, Clock, Turns};
use host::{Arch, refused};
use laws::os::{self, Service};
use laws::{Estimate, around};
use metal::clock::monotonic_raw_ns;
use metal::kernel::ClockRead;
use metal::{process, raw};
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Syscall = Syscall;

/// `os.syscall`.
pub struct Syscall;

/// Descriptors in the short pool, and operations to a batch, unless set otherwise.
const POOL: u64 = 64;
const DEPTH: u64 = 32;
/// First kernel whose io_uring has empty operations.
const URING_SINCE: (u64, u64) = (5, 1);
/// Children of a round, at most and in a rehearsal.
const CHILDREN_MAX: usize = 10_000;
const REHEARSAL_CHILDREN: usize = 8;
/// Descriptors that the worker keeps beside the pools.
const OTHER_DESCRIPTORS: u64 = 64;

/// Every call, in the order of the catalogue.
const ALL: &str = "getpid,getppid,clock_gettime_vdso,clock_gettime_raw,time_vdso,time_raw,open,close,stat,read_zero,write_null,pread_cached,sched_yield,mmap_munmap,futex_wake,epoll_wait,ioctl,uring_nop,first_in_child";

/// The calls that clock.read times too: its name for each, and the body that both run.
const OF_CLOCKS: [(&str, &str, ClockRead); 3] = [
    (
        "clock_gettime_vdso",
        "clock_gettime_vdso",
        ClockRead::ClockGettimeVdso,
    ),
    (
        "clock_gettime_raw",
        "clock_gettime_syscall",
        ClockRead::ClockGettimeSyscall,
    ),
    ("time_vdso", "time", ClockRead::Time),
];

static CARD: Card = Card {
    id: "os.syscall",
    title: "System calls",
    metrics: &[Metric::new(
        "latency",
        "one call (uring_nop: one operation; mmap_munmap: the pair)",
        Unit::Ns,
        Better::Lower,
        Kind::Os,
    )],
    params: &[
        Param {
            name: "call",
            doc: "the system call, or what the C library answers without one",
            domain: Domain::Symbols(&[
                "getpid",
                "getppid",
                "clock_gettime_vdso",
                "clock_gettime_raw",
                "time_vdso",
                "time_raw",
                "open",
                "close",
                "stat",
                "read_zero",
                "write_null",
                "pread_cached",
                "sched_yield",
                "mmap_munmap",
                "futex_wake",
                "epoll_wait",
                "ioctl",
                "uring_nop",
                "first_in_child",
            ]),
            defaults: [
                "getpid,clock_gettime_vdso,clock_gettime_raw,open,close,stat,read_zero,write_null,pread_cached,mmap_munmap,futex_wake,uring_nop,first_in_child",
                ALL,
                ALL,
            ],
            role: Role::Case,
        },
        Param {
            name: "pool",
            doc: "descriptors in the short pool of open and close",
            domain: Domain::Integer {
                low: 1,
                high: 100_000,
                unit: Unit::Count,
            },
            defaults: ["64"; 3],
            role: Role::Setting,
        },
        Param {
            name: "depth",
            doc: "operations that one call of uring_nop submits",
            domain: Domain::Integer {
                low: 1,
                high: 4096,
                unit: Unit::Count,
            },
            defaults: ["32"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate", "clock.read"],
    repeat: Repeat::Rounds,
    isolation: Isolation::Shared,
    needs: &[],
    views: &[ViewCard::bars("latency")],
};

impl Experiment for Syscall {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("syscall.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        let setting = |name: &str| params.ints(name).first().copied();
        for call in params.texts("call") {
            let id = CaseId::new().with("call", call);
            if let Some(skip) = absent(site, call, setting("pool").unwrap_or(POOL)) {
                offer.skipped.push((id, skip));
                continue;
            }
            let (name, setting_name) = apparatus_of(call);
            let at = offer.series.iter().position(|series| series.name == name);
            let at = at.unwrap_or_else(|| {
                let value = setting_name
                    .and_then(|name| Some((name.to_owned(), Value::Int(setting(name)?))));
                offer.series.push(Series {
                    experiment: CARD.id.to_owned(),
                    name: name.to_owned(),
                    order: Order::Shuffled,
                    cases: Vec::new(),
                    settings: value.into_iter().collect(),
                });
                offer.series.len() - 1
            });
            let mut case = Case::new(id);
            case.at.extend(offer.series[at].settings.clone());
            offer.series[at].cases.push(case);
        }
        Ok(offer)
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        bench::experiment::shared_round_cost(site, series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        let call = case.text("call").unwrap_or_default();
        match known {
            None => Some(estimate(site, None, case).map_or_else(
                || unknown(format!("unknown: no call `{call}`")),
                Estimate::prediction,
            )),
            Some(known) => {
                if let Some((clock, _)) = of_clock(call) {
                    let ns = os::measured_read(known, clock)?;
                    let because = format!(
                        "clock.read measured the same call: {ns:.1} ns; both shares are in it"
                    );
                    return Some(
                        Estimate {
                            range: around(ns, 0.15),
                            because,
                        }
                        .prediction(),
                    );
                }
                // Without the measured entry, earlier figures add nothing.
                os::measured_read(known, "clock_gettime_syscall")?;
                estimate(site, Some(known), case).map(Estimate::prediction)
            }
        }
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        match series.name.as_str() {
            "calls" => measure_calls(series, bench),
            "descriptors" => measure_descriptors(series, bench),
            "uring" => measure_uring(series, bench),
            "child" => measure_child(series, bench),
            other => bail!("os.syscall has no series `{other}`"),
        }
    }
}

/// clock.read's name of a call, and the body of both.
pub fn of_clock(call: &str) -> Option<(&'static str, ClockRead)> {
    let row = OF_CLOCKS.iter().find(|(name, ..)| *name == call)?;
    Some((row.1, row.2))
}

/// The series that a call belongs to, and the setting of its apparatus.
fn apparatus_of(call: &str) -> (&'static str, Option<&'static str>) {
    match call {
        "open" | "close" => ("descriptors", Some("pool")),
        "uring_nop" => ("uring", Some("depth")),
        "first_in_child" => ("child", None),
        _ => ("calls", None),
    }
}

/// Why a call cannot be made here.
fn absent(site: &Site, call: &str, pool: u64) -> Option<Skip> {
    let kernel = &site.host.kernel;
    match call {
        "time_raw" if site.host.cpu.arch == Arch::Aarch64 => {
            Some(Skip::because("aarch64 has no system call `time`"))
        }
        "uring_nop" if kernel.numbers()? < URING_SINCE => {
            Some(Skip::because("this kernel has no io_uring").needs("Linux 5.1"))
        }
        "uring_nop" if kernel.container.runtime.as_deref() == Some("gvisor") => {
            Some(Skip::because("gVisor offers no io_uring by default"))
        }
        "open" | "close" => {
            let limit = site.host.limits.open_files.and_then(|limit| limit.soft)?;
            let wanted = 2 * pool + OTHER_DESCRIPTORS;
            (limit < wanted).then(|| {
                Skip::because(format!(
                    "{limit} files may be open, the pools need {wanted}"
                ))
                .needs(format!(
                    "`ulimit -n {wanted}`, or a smaller os.syscall.pool"
                ))
            })
        }
        _ => None,
    }
}

/// What a call should take, in ns.
fn estimate(site: &Site, known: Option<&Known>, case: &Case) -> Option<Estimate> {
    let service = match case.text("call")? {
        "getpid" => Service::Nothing,
        "getppid" => Service::Parent,
        "clock_gettime_raw" => return Some(os::clock_by_call(site, known)),
        "clock_gettime_vdso" => return Some(os::clock_by_library(site, known)),
        "time_vdso" => return Some(os::seconds_by_library(site, known)),
        "uring_nop" => {
            return Some(os::ring_nop(
                site,
                known,
                case.int("depth").unwrap_or(DEPTH),
            ));
        }
        "first_in_child" => return Some(os::first_call_of_child(site, known)),
        "time_raw" => Service::Seconds,
        "open" => Service::Open,
        "close" => Service::Close,
        "stat" => Service::Stat,
        "read_zero" => Service::ReadZero,
        "write_null" => Service::WriteNull,
        "pread_cached" => Service::ReadPage,
        "sched_yield" => Service::Yield,
        "mmap_munmap" => Service::Map,
        "futex_wake" => Service::FutexWake,
        "epoll_wait" => Service::EpollWait,
        "ioctl" => Service::Ioctl,
        _ => return None,
    };
    Some(os::system_call(site, known, service))
}

fn measure_calls(series: &Series, bench: &mut Bench) -> Result<()> {
    let mut calls = Calls::new()?;
    ensure!(
        raw::getpid() == std::process::id(),
        "the kernel and the C library disagree about the process's number"
    );
    // A call that a sandbox forbids takes none of the others with it.
    bench.each(series, |bench, case| {
        let call = case.text("call").unwrap_or_default();
        calls
            .time(bench, case, call)
            .with_context(|| format!("system call {call}"))
    });
    Ok(())
}

fn measure_descriptors(series: &Series, bench: &mut Bench) -> Result<()> {
    let pool = usize::try_from(series.setting("pool").unwrap_or(POOL))?;
    let quartets = pool_quartets(pool, series.cases.len(), bench)?;
    for case in &series.cases {
        let of = match case.text("call") {
            Some("open") => |quartet: &Quartet| quartet.open,
            Some("close") => |quartet: &Quartet| quartet.close,
            other => bail!("{other:?} opens and closes nothing"),
        };
        bench.record_quartets(case, "latency", pool as u64, quartets.map(of))?;
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
    let depth = u32::try_from(series.setting("depth").unwrap_or(DEPTH))?;
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
    let least = if bench.order().rehearsal {
        REHEARSAL_CHILDREN
    } else {
        2 * REHEARSAL_CHILDREN
    };
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
