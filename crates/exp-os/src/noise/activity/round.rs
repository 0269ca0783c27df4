//! One round: the windows of each case, and what is written of them.

use super::super::attribution::Level;
use super::super::trace::{self, Threshold};
use super::REHEARSAL_NS;
use super::seen::{Look, Seen};
use super::{shares, ticking, traces};
use bench::measure::Windows as ClockWindows;
use bench::prelude::*;
use host::kernel::Virtualisation;
use host::{Outside, Root};
use laws::noise::Cause;
use metal::gaps::Tracer;
use metal::place;
use record::event::Samples;

/// Gaps from here on, in ns, are counted alike whatever the threshold.
const LONG_NS: f64 = 1_000.0;

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
    pub(super) fn from_series(series: &Series, rehearsal: bool) -> Settings {
        let duration_ns = series.setting("duration").unwrap_or(REHEARSAL_NS);
        let duration_ns = if rehearsal { duration_ns.min(REHEARSAL_NS) } else { duration_ns };
        Settings {
            duration_ns: duration_ns as f64,
            samples: series.setting("samples").unwrap_or(10) as usize,
            at_most: Level::from_value(series.settings.get("attribution"))
                .unwrap_or(Level::Tracepoints),
        }
    }
}

pub(super) fn measure(case: &Case, settings: Settings, bench: &mut Bench) -> Result<()> {
    let cpu = case.int("cpu").map_or(bench.order().cpu(), |cpu| cpu as usize);
    let (clock, rehearsal) = (bench.order().clock(), bench.order().rehearsal);
    let coarse_ns = metal::clock::getres_ns(metal::clock::Clock::MONOTONIC_COARSE);
    let look = Look { clock, cpu, duration_ns: settings.duration_ns, coarse_ns: coarse_ns as f64 };
    let ((threshold, plain, traced), apart) = on(cpu, bench, || {
        let threshold = trace::threshold(clock, rehearsal)?;
        let mut tracer = Tracer::with_room(trace::ROOM).context("room for gaps")?;
        let plain = look.observe(&mut tracer, &threshold, Level::Counters);
        let traced = (settings.at_most > Level::Counters)
            .then(|| look.observe(&mut tracer, &threshold, settings.at_most));
        Ok((threshold, plain, traced))
    })?;
    bench.declare(Declared::Cpus(&[cpu]));
    let involuntary = |seen: &Seen| seen.evidence.involuntary();
    bench.declare(Declared::Switches(involuntary(&plain) + traced.as_ref().map_or(0, involuntary)));
    let windows = Windows {
        // What was reached is said of the window that was to reach most, even if it did not.
        reached: traced.as_ref().unwrap_or(&plain).evidence.reached_without_figures(),
        traced: traced.filter(|traced| traced.evidence.level > Level::Counters),
        plain,
        threshold,
        nohz_full: ticking::nohz_full(&Root::live(Outside::default())),
        machine: machine_of(case),
    };
    Book { case, apart, bench, windows: &windows }.write(settings.samples)
}

/// The core clock of another CPU than the round's, in Hz, if it could be taken.
type Apart = Option<Option<f64>>;

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
            let windows = if rehearsal { ClockWindows::REHEARSAL } else { ClockWindows::FULL };
            let mut core = CoreClock::new(clock, windows);
            let before = core.estimate().hz;
            let done = work()?;
            let after = core.estimate().hz;
            Ok((done, Some(steady(before, after))))
        });
        there.join().map_err(|_| anyhow!("the thread on CPU {cpu} panicked"))?
    })
}

pub(super) fn steady(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = before.zip(after)?;
    let is_same = (after - before).abs() <= SAME_CLOCK * before.min(after);
    is_same.then(|| f64::midpoint(before, after))
}

/// The machine's facts at the case's resolution.
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

struct Windows {
    threshold: Threshold,
    plain: Seen,
    /// The window in which events were recorded too, where they could be.
    traced: Option<Seen>,
    /// The list of tickless CPUs.
    nohz_full: Option<String>,
    machine: Virtualisation,
    reached: String,
}

impl Windows {
    /// The window that says most of causes.
    fn best(&self) -> &Seen {
        self.traced.as_ref().unwrap_or(&self.plain)
    }

    /// What the sources of the tick say.
    fn ticking(&self, round: u32) -> Option<String> {
        ticking::verdict(&self.plain, self.nohz_full.as_deref(), round)
    }
}

/// Where a case's figures are written.
struct Book<'round> {
    case: &'round Case,
    /// The core clock of the CPU, where that is not the round's.
    apart: Apart,
    bench: &'round mut Bench,
    windows: &'round Windows,
}

impl Book<'_> {
    fn write(mut self, samples: usize) -> Result<()> {
        let Windows { threshold, plain, traced, .. } = self.windows;
        let round = self.bench.order().round;
        self.one("read_to_read", threshold.read_to_read_ns)?;
        let found = self.one("threshold", threshold.ns)?;
        if round <= 1 {
            found.notes.push(format!("{} (round 1)", threshold.because));
        }
        found.set_quantities([("threshold_ns", threshold.ns)]);
        found.quantities.extend(traces::places(plain, traced.as_ref()));
        let core_hz = self.lengths(plain)?;
        self.rates(plain, threshold.ns)?;
        self.periods(round)?;
        self.lost(round)?;
        self.shares(round)?;
        traces::write(self.bench, self.case, plain, traced.as_ref(), samples, core_hz)
    }

    /// Values of the round, where they were measured, and the core clock if that was taken there.
    fn record(&mut self, metric: &str, values: Values<'_>) -> Result<&mut Samples> {
        let values = if self.apart.is_some() { values.apart() } else { values };
        let samples = self.bench.record(self.case, metric, values)?;
        let cpu = self.windows.plain.look.cpu;
        samples.at.put("cpu", cpu as u64);
        if let Some(core_hz) = self.apart {
            samples.core_hz = core_hz;
            // It says that no core clock was taken of a CPU that is not the round's.
            samples.notes.pop();
            let moved =
                || format!("no core clock: that of CPU {cpu} moved, or could not be measured");
            samples.notes.extend(core_hz.is_none().then(moved));
        }
        Ok(samples)
    }

    fn one(&mut self, metric: &str, value: f64) -> Result<&mut Samples> {
        self.record(metric, Values::block(value))
    }

    /// Gaps and what lies between them; the core clock over the window, in Hz.
    fn lengths(&mut self, seen: &Seen) -> Result<Option<f64>> {
        let mut core_hz = None;
        if !seen.lengths_ns.is_empty() {
            let lengths_ns = seen.lengths_ns.clone();
            let values = match seen.traced.dropped {
                0 => Values::events(lengths_ns),
                _ => Values::counted(lengths_ns, &seen.traced.lengths),
            };
            core_hz = self.record("gap", values)?.core_hz;
            self.one("longest_gap", seen.longest_ns())?;
        }
        let active: Vec<f64> = seen.periods().map(|(_, active_ns, _)| active_ns).collect();
        if !active.is_empty() {
            self.record("active", Values::events(active))?;
        }
        Ok(core_hz)
    }

    fn rates(&mut self, seen: &Seen, threshold_ns: f64) -> Result<()> {
        let samples = self.one("gap_rate", seen.rate_hz())?;
        samples.set_quantities([("threshold_ns", threshold_ns)]);
        if threshold_ns > LONG_NS {
            let note = "no rate of gaps of 1 us, because the threshold is higher";
            samples.notes.push(note.to_owned());
            return Ok(());
        }
        self.one("gap_rate_1us", seen.rate_of_hz(LONG_NS)).map(|_| ())
    }

    /// The tick, and another period, named by the window that knows more.
    fn periods(&mut self, round: u32) -> Result<()> {
        let Windows { plain, traced, .. } = self.windows;
        if let Some(tick) = &plain.tick {
            let told = self.windows.ticking(round);
            let samples = self.one("tick_period", tick.period_ns)?;
            samples.set_quantities(ticking::quantities(plain));
            samples.notes.extend(told);
        }
        if let Some(found) = &plain.other {
            self.one("other_gap", found.length_ns)?;
            let samples = self.one("other_period", found.period_ns)?;
            let count = found.members.len() as f64;
            samples.set_quantities([("members_count", count), ("by_chance_p", found.p)]);
            samples.notes.push(shares::told_of_other(found, plain, traced.as_ref()));
        }
        Ok(())
    }

    fn lost(&mut self, round: u32) -> Result<()> {
        let windows = self.windows;
        let (plain, best) = (&windows.plain, windows.best());
        let samples = self.one("lost", plain.traced.lost())?;
        samples.set_quantities(ticking::quantities(plain));
        samples.set_quantities(best.counted());
        samples.notes.push(windows.reached.clone());
        if plain.tick.is_none() {
            samples.notes.extend(windows.ticking(round));
        }
        samples.notes.extend(shares::causes(best, round));
        samples.notes.push(traces::legend(plain, windows.traced.as_ref()).to_owned());
        samples.notes.extend(warnings(plain, best));
        Ok(())
    }

    /// What was lost by cause, where the level can see it.
    fn shares(&mut self, round: u32) -> Result<()> {
        let Windows { plain, traced, machine, .. } = self.windows;
        let best = self.windows.best();
        let (cost, note) = shares::tracing(plain, traced.as_ref(), round);
        for (cause, lost) in best.by_cause() {
            let samples = self.one(&format!("lost_{}", cause.text()), lost)?;
            samples.set_quantities(cost.iter().copied());
            samples.notes.extend(note.clone());
            if cause != Cause::Unattributed {
                continue;
            }
            samples.notes.push(best.shares.nobody(machine));
            samples.notes.extend(shares::why_nobody(best, round));
            let beside = best.shares.beside * best.traced.lost();
            samples.set_quantities([("beside_ratio", (beside > 0.0).then_some(beside))]);
            if beside > 0.0 && round == 1 {
                samples.notes.push(format!(
                    "{:.2} % of the window is in gaps with a known cause but outside its events: \
                     kernel entry and exit, and time that a hypervisor took before it delivered an \
                     interrupt (round 1)",
                    100.0 * beside
                ));
            }
        }
        Ok(())
    }
}

/// What casts doubt on a window, without figures, which differ between rounds.
fn warnings(plain: &Seen, best: &Seen) -> impl Iterator<Item = String> {
    let dropped = plain.traced.dropped > 0;
    let first = dropped.then(|| {
        format!(
            "more gaps than fit in memory: the trace and the causes cover the first {}; lengths \
             and rates cover all",
            plain.lengths_ns.len()
        )
    });
    let torn = best.whole_until().map(|_| {
        "the kernel's events filled their ring (`events_whole_ns`): shares by cause cover the time \
         before that"
            .to_owned()
    });
    let backward = (plain.traced.backward + best.traced.backward > 0).then(|| {
        "the counter went backwards (`backward_count`): the figures are doubtful".to_owned()
    });
    [first, torn, backward].into_iter().flatten()
}
