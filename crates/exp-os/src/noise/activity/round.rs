//! One round: the windows of each case, and what is written of them.

use super::super::attribution::Level;
use super::super::trace;
use super::REHEARSAL_NS;
use super::book::{Book, Windows};
use super::seen::{Look, Seen};
use super::ticking::Ticking;
use anyhow::{Context, Result, anyhow};
use bench::experiment::Field as _;
use bench::measure::{Bench, Clock, CoreClock, Declared, Windows as ClockWindows};
use host::kernel::Virtualisation;
use host::{Outside, Root};
use metal::gaps::Tracer;
use metal::place;
use record::case::{Case, Series};
use record::key::Value;

/// The core clocks before and after the windows are the same within this share.
const SAME_CLOCK: f64 = 0.01;

/// What a series' cases share.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) duration_ns: f64,
    pub(super) samples: usize,
    pub(super) at_most: Level,
}

impl Settings {
    pub(super) fn of(series: &Series, rehearsal: bool) -> Settings {
        let duration_ns = series.setting("duration").unwrap_or(REHEARSAL_NS);
        let duration_ns = match rehearsal {
            true => duration_ns.min(REHEARSAL_NS),
            false => duration_ns,
        };
        Settings {
            duration_ns: duration_ns as f64,
            samples: series.setting("samples").unwrap_or(10) as usize,
            at_most: Level::of(series.settings.get("attribution")).unwrap_or(Level::Tracepoints),
        }
    }
}

/// One round of one case.
pub(super) fn measure(case: &Case, settings: Settings, bench: &mut Bench) -> Result<()> {
    let asked = case.at.get("cpu").and_then(Value::int);
    let cpu = asked.map_or(bench.order().cpu(), |cpu| cpu as usize);
    let root = Root::live(Outside::default());
    let clock = bench.order().clock();
    let rehearsal = bench.order().rehearsal;
    let coarse_ns = metal::clock::getres_ns(metal::clock::Clock::MONOTONIC_COARSE);
    let look = Look { clock, cpu, duration_ns: settings.duration_ns, coarse_ns: coarse_ns as f64 };
    let ((threshold, plain, traced), apart) = on(cpu, bench, || {
        let threshold = trace::threshold(clock, rehearsal)?;
        let mut tracer = Tracer::with_room(trace::ROOM).context("room for gaps")?;
        let plain = look.at(&mut tracer, &threshold, Level::Counters);
        let traced = (settings.at_most > Level::Counters)
            .then(|| look.at(&mut tracer, &threshold, settings.at_most));
        Ok((threshold, plain, traced))
    })?;
    bench.declare(Declared::Cpus(&[cpu]));
    let involuntary = |seen: &Seen| seen.evidence.involuntary();
    bench.declare(Declared::Switches(involuntary(&plain) + traced.as_ref().map_or(0, involuntary)));
    let ticking = Ticking::of(&plain, cpu, coarse_ns, &root);
    let windows = Windows {
        // What was reached is said of the window that was to reach most, even if it did not.
        reached: traced.as_ref().unwrap_or(&plain).evidence.reached_without_figures(),
        traced: traced.filter(|traced| traced.evidence.level > Level::Counters),
        plain,
        threshold,
        ticking,
        machine: machine_of(case),
    };
    let book = Book { case, cpu, apart, bench };
    book.write(&windows, settings.samples)
}

/// The core clock of another CPU than the round's, in Hz, if it could be taken.
pub(super) type Apart = Option<Option<f64>>;

/// Runs `work` on a CPU: on this thread if it is there, else on one of its own, whose priority is
/// this one's and whose core clock is taken before and after.
fn on<T: Send>(
    cpu: usize,
    bench: &Bench,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<(T, Apart)> {
    if cpu == bench.order().cpu() {
        return Ok((work()?, None));
    }
    let (clock, rehearsal) = (bench.order().clock(), bench.order().rehearsal);
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            place::pin(cpu).with_context(|| format!("pinning to CPU {cpu}"))?;
            let mut core = core_clock(clock, rehearsal);
            let before = core.estimate().hz;
            let done = work()?;
            let after = core.estimate().hz;
            Ok((done, Some(steady(before, after))))
        });
        there.join().map_err(|_| anyhow!("the thread on CPU {cpu} panicked"))?
    })
}

fn core_clock(clock: Clock, rehearsal: bool) -> CoreClock {
    let windows = match rehearsal {
        true => ClockWindows::REHEARSAL,
        false => ClockWindows::FULL,
    };
    CoreClock::new(clock, windows)
}

/// The mean of two clocks that are the same.
pub(super) fn steady(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = before.zip(after)?;
    let is_same = (after - before).abs() <= SAME_CLOCK * before.min(after);
    is_same.then(|| f64::midpoint(before, after))
}

/// What the case was told of the machine when it was resolved.
pub(super) fn machine_of(case: &Case) -> Virtualisation {
    let machine = case.at.get("machine").and_then(Value::text);
    Virtualisation {
        is_guest: machine.map(|machine| machine != "bare"),
        hypervisor: machine
            .filter(|machine| !["bare", "virtual"].contains(machine))
            .map(str::to_owned),
        ..Virtualisation::default()
    }
}
