//! What does a system call cost?
//!
//! ## Question
//!
//! What does entering and leaving the kernel cost, and what do common services add?
//!
//! ## Method
//!
//! Every call executes the system call instruction in a small function, without the C library: the
//! reports' `getpid` of 12 cycles never entered the kernel. Calls are repeated, n against 2n in
//! ABBA quartets; clock calls run the code of clock.read. Four are different:
//!
//! - `open` and `close` cannot be repeated alone. A pool of descriptors is opened and then closed,
//!   each in one go with the clock read around it, in pools of k, 2k, 2k and k with the width probe
//!   between them; the sums of the short and of the long pools are a quartet. The first pool of a
//!   round, in which the descriptor table grows, is not timed.
//! - `uring_nop` submits `depth` empty operations with one call; the figure is per operation.
//! - `first_in_child`: a child made by vfork, on the parent's CPU, times its first `getpid`; each
//!   child is one event, and includes the pair of clock reads (R1's method).
//!
//! ## Prediction
//!
//! Entry and exit by the processor and the mitigations that the kernel states, and the service in
//! cycles of kernel code. The derived prediction takes entry and exit from the `clock_gettime`
//! system call that clock.read measured, less the clock's own part.
//!
//! ## Reading the result
//!
//! `getpid` is the base cost of any call; the others less `getpid` are their services. A
//! `clock_gettime_vdso` near `clock_gettime_raw` means that the vDSO falls back. `first_in_child`
//! less `getpid` is the effect of cold caches and predictors.
//!
//! ## Pitfalls
//!
//! Mitigations change every figure here by factors. Sandboxes (seccomp, gVisor) add to each call;
//! the file system of the program adds to `pread_cached`. `sched_yield` switches if something else
//! wants the CPU, which counts as disturbance. Where the kernel guards its returns against
//! speculation (AMD's SRSO: `Safe RET`), each return of a program's function after a call is
//! mispredicted: 45 of 168 ns on a Zen 4.
//!
//! ## Sources
//!
//! [R0], [R1] and [R2]: "system call overhead"; [lmbench] `lat_syscall`; [ren]; [specexleak]; [perf]
//! syscall.c. Cycles were not looked up one by one.

use super::events::{Events, Number, counter, too_few_files};
use bench::measure::{Outcome, Watch};
use bench::prelude::*;
use host::{Arch, refused};
use laws::{Law, os};
use metal::clock::{monotonic_raw_ns, time_syscall};
use metal::kernel::{ClockRead, clock_read};
use metal::{process, raw};
use std::fs::File;
use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;

bench::experiment!(Syscall);

const PAGE_BYTES: usize = 4096;
/// clock.read's name of the call from which the way into the kernel is derived.
const ENTRY: &str = "clock_gettime_syscall";
const CHILDREN: Number = Number { rehearsal: 8, least: 16, most: 10_000 };

/// All that is to be known of a call: the first preset that measures it, its law, how it is timed.
pub struct Row(Preset, Work, Time);

enum Work {
    /// A row of the laws by its name.
    Served,
    Clock(&'static str, fn(Facts) -> Law),
    /// A row that says little of other calls.
    Rare,
}

enum Time {
    Repeat(fn(&mut Calls, &mut Bench, &Case) -> Result<()>),
    Clock(ClockRead),
    Pools,
    Ring,
    Child,
}

fn latency<R: Outcome>(bench: &mut Bench, case: &Case, body: impl FnMut(u64) -> R) -> Result<()> {
    bench.time(case, "latency", body).map(drop)
}

/// A loop of its own: of a call that cannot fail, or of one that must return a number each time.
macro_rules! calls {
    ($calls:tt, $once:expr) => {
        Time::Repeat(|$calls, bench, case| {
            latency(bench, case, |n| (0..n).for_each(|_| _ = black_box($once)))
        })
    };
    ($calls:tt, $expected:expr, $once:expr) => {
        Time::Repeat(|$calls, bench, case| {
            latency(bench, case, |n| {
                for _ in 0..n {
                    let returned = $once?;
                    ensure!(returned == $expected, "it returned {returned}, not {}", $expected);
                }
                Ok(())
            })
        })
    };
}

use Preset::{Quick, Standard};

rows! {
    /// the system call, or what the C library answers without one
    pub enum Call: Row {
        Getpid = "getpid" => Row(Quick, Work::Served, calls!(_, raw::getpid())),
        Getppid = "getppid" => Row(Standard, Work::Served,
            calls!(_, raw::getppid())),
        ClockGettimeVdso = "clock_gettime_vdso" => Row(Quick, Work::Clock("clock_gettime_vdso",
            os::clock_by_library), Time::Clock(ClockRead::ClockGettimeVdso)),
        ClockGettimeRaw = "clock_gettime_raw" => Row(Quick, Work::Clock(ENTRY, os::clock_by_call),
            Time::Clock(ClockRead::ClockGettimeSyscall)),
        TimeVdso = "time_vdso" => Row(Standard, Work::Clock("time", os::seconds_by_library),
            Time::Clock(ClockRead::Time)),
        TimeRaw = "time_raw" => Row(Standard, Work::Served,
            calls!(_, time_syscall())),
        Open = "open" => Row(Quick, Work::Served, Time::Pools),
        Close = "close" => Row(Quick, Work::Served, Time::Pools),
        Stat = "stat" => Row(Quick, Work::Served,
            calls!(_, 0, raw::newfstatat(None, c"/dev/null").map(|_| 0))),
        ReadZero = "read_zero" => Row(Quick, Work::Served,
            calls!(of, 1, raw::read(of.zero.as_fd(), &mut of.page[..1]))),
        WriteNull = "write_null" => Row(Quick, Work::Served,
            calls!(of, 1, raw::write(of.null.as_fd(), &of.page[..1]))),
        PreadCached = "pread_cached" => Row(Quick, Work::Served,
            calls!(of, PAGE_BYTES, raw::pread64(of.program.as_fd(), &mut of.page, 0))),
        SchedYield = "sched_yield" => Row(Standard, Work::Served,
            calls!(_, 0, raw::sched_yield().map(|()| 0))),
        MmapMunmap = "mmap_munmap" => Row(Quick, Work::Served,
            calls!(_, 0, raw::munmap(raw::mmap(PAGE_BYTES)?).map(|()| 0))),
        FutexWake = "futex_wake" => Row(Quick, Work::Served,
            calls!(of, 0, raw::futex_wake(&of.word, 1, raw::Scope::Process))),
        EpollWait = "epoll_wait" => Row(Standard, Work::Served,
            calls!(of, 0, raw::epoll_wait(of.epoll.as_fd(), 0))),
        Ioctl = "ioctl" => Row(Standard, Work::Served,
            calls!(of, 0, raw::ioctl_fionread(of.pipe.0.as_fd()))),
        FcntlGetfl = "fcntl_getfl" => Row(Standard, Work::Served,
            calls!(of, raw::fcntl_getfl(of.null.as_fd()))),
        UringNop = "uring_nop" => Row(Quick, Work::Rare, Time::Ring),
        FirstInChild = "first_in_child" => Row(Quick, Work::Rare, Time::Child),
    }
}

impl Call {
    /// What it runs of clock.read's bodies.
    pub fn clock(self) -> Option<ClockRead> {
        if let Row(_, _, Time::Clock(clock)) = self.row() { Some(*clock) } else { None }
    }
}

case! {
    /// A call.
    pub struct Called {
        /// the system call, or what the C library answers without one: `stat` of /dev/null by path;
        /// `read_zero`, `write_null` a byte; `pread_cached` 4 KiB of plumb's program file, cached;
        /// `sched_yield` alone on its CPU; `mmap_munmap` of one untouched page; `futex_wake`,
        /// `epoll_wait` with nothing ready; `ioctl` FIONREAD of a pipe; `fcntl_getfl` of /dev/null
        call: Call,
    }
}

struct Calls {
    zero: File,
    null: File,
    program: File,
    page: Vec<u8>,
    word: AtomicU32,
    epoll: OwnedFd,
    /// Both ends: a pipe without a writer is ready for reading.
    pipe: (std::io::PipeReader, std::io::PipeWriter),
}

const LATENCY: &str = "one call (uring_nop: one operation; mmap_munmap: the pair)";
const POOL: &str = "descriptors in the short pool of open and close";
const DEPTH: &str = "operations that one call of uring_nop submits";

static CARD: Card = Card {
    id: "os.syscall",
    title: "System calls",
    metrics: metrics! {
        "latency" => Ns Lower Os: LATENCY;
    },
    params: params![
        Called::PARAMS,
        settings! {
            "pool": Domain::count(1, 100_000), ["64"; 3] => POOL;
            "depth": Domain::count(1, 4096), ["32"; 3] => DEPTH;
        },
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
        all.filter(|call| call.row().0 <= preset.max(Quick)).map(|call| Called { call }).collect()
    }

    fn absent(site: &Site, case: &Called, params: &Params) -> Option<Skip> {
        match case.call {
            Call::TimeRaw if site.host.cpu.arch == Arch::Aarch64 => {
                Some(Skip::because("aarch64 has no system call `time`"))
            }
            Call::UringNop => site.lacks_rings(),
            Call::Open | Call::Close => {
                too_few_files(site, 2 * params.ints("pool").first()?, "a smaller os.syscall.pool")
            }
            _ => None,
        }
    }

    fn series(site: &Site, cases: Vec<Called>, params: &Params) -> Result<Offer, Skip> {
        Ok(Offer::sorted::<Self>(site, cases, params, |called, case| {
            let (series, setting) = match called.call.row().2 {
                Time::Repeat(_) | Time::Clock(_) => ("calls", None),
                Time::Pools => ("descriptors", Some("pool")),
                Time::Ring => ("uring", Some("depth")),
                Time::Child => ("child", None),
            };
            case.at.extend(setting.map(|name| (name.to_owned(), params.get(name)[0].clone())));
            (series.to_owned(), case.at.clone())
        }))
    }

    fn law(facts: Facts, case: &Called, at: &Case, _: &Metric) -> Option<Prediction> {
        let call = case.call.text();
        let law = match (&case.call.row().1, facts.known) {
            (Work::Clock(_, law), None) => law(facts),
            (Work::Clock(clock, _), Some(known)) => {
                let ns = os::measured_read(known, clock)?;
                Law::measured(ns, 0.15, format!("{ns:.1} ns (measured by clock.read)"))
            }
            // Without the measured entry, earlier figures add nothing.
            (_, Some(known)) if os::measured_read(known, ENTRY).is_none() => return None,
            (Work::Served, _) => os::system_call(facts, call),
            (Work::Rare, _) => os::rare_call(facts, call, at.int("depth").unwrap_or(1)),
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        match series.name.as_str() {
            "calls" => measure_calls(series, bench),
            "descriptors" => measure_descriptors(series, bench),
            "uring" => measure_uring(series, bench),
            _ => measure_child(series, bench),
        }
    }
}

fn measure_calls(series: &Series, bench: &mut Bench) -> Result<()> {
    let pipe = std::io::pipe().context("a pipe")?;
    let epoll = raw::epoll_create().context("an epoll set")?;
    raw::epoll_add(epoll.as_fd(), pipe.0.as_fd()).context("a pipe in an epoll set")?;
    let null = File::options().write(true).open("/dev/null").context("/dev/null")?;
    let zero = File::open("/dev/zero").context("/dev/zero")?;
    let program = File::open("/proc/self/exe").context("plumb's own program file")?;
    let (page, word) = (vec![1; PAGE_BYTES], AtomicU32::new(0));
    let mut calls = Calls { zero, null, program, page, word, epoll, pipe };
    ensure!(raw::getpid() == std::process::id(), "the C library gives another process number");
    // A call that a sandbox forbids takes none of the others with it.
    bench.each_of::<Called>(series, |bench, case, Called { call }| {
        match call.row().2 {
            Time::Clock(clock) => latency(bench, case, |n| _ = black_box(clock_read(clock, n))),
            Time::Repeat(time) => time(&mut calls, bench, case),
            _ => bail!("it is not repeated"),
        }
        .with_context(|| format!("system call {}", call.text()))
    });
    Ok(())
}

fn measure_descriptors(series: &Series, bench: &mut Bench) -> Result<()> {
    let pool = series.setting("pool").context("a pool")?;
    let mut open = Vec::with_capacity(2 * usize::try_from(pool)?);
    // Not timed: the descriptor table grows.
    open_and_close(&mut open, 2 * pool, &mut Watch::new(None))?;
    let mut timer = bench.timer();
    // Both figures come from the same pools, which share the time of their cases.
    timer.goal.case_ns *= series.cases.len() as f64;
    let quartets = timer.repeat(&mut |watch| {
        let mut once = |count| open_and_close(&mut open, count, watch);
        let [a, b, c, d] = [once(pool)?, once(2 * pool)?, once(2 * pool)?, once(pool)?];
        Ok(Some([0, 1].map(|side| (a[side] + d[side], b[side] + c[side]))))
    })?;
    for case in &series.cases {
        let at = usize::from(Called::decode(case)?.call == Call::Close);
        bench.record(case, "latency", Values::quartets(pool, quartets.map(|of| of[at])))?;
    }
    Ok(())
}

fn open_and_close(open: &mut Vec<OwnedFd>, count: u64, watch: &mut Watch) -> Result<[f64; 2]> {
    let start = monotonic_raw_ns();
    for _ in 0..count {
        open.push(raw::openat(None, c"/dev/null", 0).context("open of /dev/null")?);
    }
    let opened = monotonic_raw_ns();
    for fd in open.drain(..) {
        raw::close(fd).context("close of /dev/null")?;
    }
    let took = [(opened - start) as f64, (monotonic_raw_ns() - opened) as f64];
    watch.batch(took[0] + took[1]);
    Ok(took)
}

fn measure_uring(series: &Series, bench: &mut Bench) -> Result<()> {
    let depth = u32::try_from(series.setting("depth").context("a depth")?)?;
    let mut ring = raw::UringNop::new(depth).context("a ring of io_uring")?;
    bench.each(series, |bench, case| {
        latency(bench, case, |n| {
            let done = ring.submit_nops(n)?;
            ensure!(done == n, "{done} of {n} empty operations were done");
            Ok(())
        })
    });
    Ok(())
}

/// The parent's waits are voluntary: no involuntary switch is planned.
fn measure_child(series: &Series, bench: &mut Bench) -> Result<()> {
    let case = series.cases.first().context("one case")?;
    let clock = counter(bench)?;
    let first = process::first_syscall_in_vfork_child;
    let child = || anyhow::Ok(clock.ns(first().map_err(refused::explained).context("a child")?));
    // Not timed: the first child pays for what all share.
    child()?;
    let events = Events::make(bench, CHILDREN, || child().map(|ns| (Some(ns), ns)))?;
    bench.record(case, "latency", events.values(|ns| *ns))?;
    Ok(())
}

#[cfg(test)]
mod tests;
