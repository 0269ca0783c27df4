//! Who takes the CPU from a program that only runs?
//!
//! ## Question
//!
//! When is a program that never waits not running, for how long, how much of its time is lost, and to
//! whom: the timer's tick, interrupts, other threads, a quota, the hypervisor?
//!
//! ## Method
//!
//! One thread, pinned, at nice -20 where allowed, reads the counter without pause: one read and one
//! comparison a turn, no system call inside, all memory touched before. A turn that takes longer than a
//! threshold is a gap. The threshold is found from the distribution of the times from one read to the
//! next, and given with the figure.
//!
//! A round has two windows of `duration`. In the first nothing but the loop runs: it gives every length
//! and rate. Counters are read around it. In the second, where permissions allow, the kernel's events of
//! this CPU are recorded meanwhile: it gives the share of time by cause. Recording makes gaps longer; how
//! much is told (`tick_gap_ns`, `tick_gap_traced_ns` in the record: the median gap on the tick, without
//! and with it). Attribution climbs as far as it may and says how far it got and why no further: 0
//! counters (/proc/interrupts, /proc/softirqs, steal, involuntary switches, run delay, throttling),
//! matched to gaps by number; 1 switches (perf events of the thread itself), matched by time;
//! 2 tracepoints of interrupts, soft interrupts and the scheduler.
//!
//! The tick's period is found from the phase of the gaps' starts: for each usual period, refined to what
//! the gaps say, how many lie in one narrow arc of it, and how likely random gaps would. The longest
//! period that explains them is the tick: parts of it are not taken for it. R is the resultant of all
//! gaps' phases. The resolution of CLOCK_MONOTONIC_COARSE and the timer rows of /proc/interrupts must say
//! the same; where they do not, the reason is told. Gaps off the tick are searched for another period.
//!
//! ## Prediction
//!
//! The tick's rate is exact (clock_getres). Its cost is 0.8 to 5 µs on the machine itself, 1.5 to 20 µs in
//! a virtual machine. Others are few on a quiet machine.
//!
//! ## Parameters
//!
//! - `cpu`: where: `quietest` (the first of the CPUs to measure on) or a number.
//! - `duration`: length of each of the two windows.
//! - `samples`: active and inactive periods that table and picture show; the first, which began before
//!   the window, is left out.
//! - `attribution`: how far it may climb: `auto` (as far as permissions go) or at most one of its levels.
//!
//! ## Reading the result
//!
//! `lost` times a year is what the kernel costs a computation that never calls it. `active` near the tick's
//! period says that hardly anybody else came. `lost_unattributed` is what no evidence names: in a virtual
//! machine likely the hypervisor's, on the machine itself the firmware's (SMI). `other_period` exists only
//! where somebody comes regularly; its note says who. Traces hold all gaps (`gaps`; `gaps_traced` with names
//! from the second window), a timeline, the table and the causes.
//!
//! ## Pitfalls
//!
//! A gap shorter than the threshold is not seen. By number (level 0) a cause is a guess among gaps of one
//! window, never more than was counted. An idle kernel thread's wake-up counts as a thread, the soft
//! interrupt that a tick raises as what took most of the gap. A busy loop keeps the CPU from sleeping: an
//! idle machine's noise differs. A CPU in nohz_full has no tick while one task runs: then none is found,
//! and the counts say so. The rounds' own environment is this experiment's subject: switches of the window
//! do not disturb it.
//!
//! ## Sources
//!
//! R4 A1 (table and figure 1.5); sysjitter, oslat, `rtla osnoise` (Linux Documentation/trace/
//! osnoise-tracer.rst); Rayleigh's test after Mardia and Jupp, Directional Statistics, 2000, §6.3;
//! Chernoff 1952 (the bound on crowding); proc(5), perf_event_open(2).

mod seen;
mod shares;
mod ticking;
mod traces;

use super::attribution::{Cause, Level};
use super::trace;
use crate::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, unknown,
};
use crate::host::kernel::Virtualisation;
use crate::host::{Outside, Root};
use crate::measure::Bench;
use crate::predict::noise::activity as law;
use anyhow::{Context, Result, anyhow};
use metal::gaps::Tracer;
use metal::place;
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use seen::{Look, Seen};
use std::time::Duration;
use ticking::Ticking;

/// The experiment.
pub(crate) static EXPERIMENT: Activity = Activity;

/// `noise.activity`.
pub(crate) struct Activity;

/// A rehearsal's window, in ns.
const REHEARSAL_NS: u64 = 30_000_000;
/// What a case takes beyond its windows: the threshold, the room for gaps, the counters' files.
const AROUND: Duration = Duration::from_millis(25);

const fn share(name: &'static str, doc: &'static str) -> Metric {
    Metric::new(name, doc, Unit::Ratio, Better::Lower, Kind::Os)
}

const fn time(name: &'static str, doc: &'static str, better: Better) -> Metric {
    Metric::new(name, doc, Unit::Ns, better, Kind::Os)
}

static CARD: Card = Card {
    id: "noise.activity",
    title: "Interruptions of a program that only runs",
    metrics: &[
        Metric::new(
            "read_to_read",
            "median time from one read of the counter to the next: the loop's resolution",
            Unit::Ns,
            Better::Lower,
            Kind::Hardware,
        ),
        time(
            "threshold",
            "shortest time that counts as a gap",
            Better::None,
        ),
        time("gap", "one gap: the loop did not run", Better::Lower),
        time(
            "active",
            "from the end of a gap to the next",
            Better::Higher,
        ),
        Metric::new(
            "gap_rate",
            "gaps a second",
            Unit::Hz,
            Better::Lower,
            Kind::Os,
        ),
        time("longest_gap", "longest gap of the window", Better::Lower),
        share("lost", "share of time that gaps took"),
        share("lost_timer", "share taken by the timer's interrupt"),
        share("lost_interrupt", "share taken by other interrupts"),
        share("lost_softirq", "share taken by soft interrupts"),
        share("lost_thread", "share taken by other threads"),
        share("lost_plumb", "share taken by plumb's own threads"),
        share("lost_throttled", "share that a quota of CPU time took"),
        share("lost_steal", "share that the hypervisor says it took"),
        share("lost_unattributed", "share that no evidence names"),
        time(
            "tick_period",
            "period of the tick, from the phase of the gaps",
            Better::None,
        ),
        time(
            "other_period",
            "another period among gaps off the tick, where there is one",
            Better::None,
        ),
        time("other_gap", "median gap of that period", Better::Lower),
    ],
    params: &[
        Param {
            name: "cpu",
            doc: "where: quietest (the first of the CPUs to measure on) or a number",
            domain: Domain::Either(&["quietest"], 0, 8191, Unit::Count),
            defaults: ["quietest"; 3],
            role: Role::Case,
        },
        Param {
            name: "duration",
            doc: "length of each of a round's two windows",
            domain: Domain::Integer {
                low: 1_000_000,
                high: 86_400_000_000_000,
                unit: Unit::Ns,
            },
            defaults: ["60ms", "450ms", "9s"],
            role: Role::Setting,
        },
        Param {
            name: "samples",
            doc: "active and inactive periods in table and picture",
            domain: Domain::Integer {
                low: 1,
                high: 10_000,
                unit: Unit::Count,
            },
            defaults: ["10", "30", "30"],
            role: Role::Setting,
        },
        Param {
            name: "attribution",
            doc: "how far causes are looked for: auto (as far as permissions go) or at most so far",
            domain: Domain::Symbols(&["auto", "counters", "switches", "tracepoints"]),
            defaults: ["auto"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate"],
    repeat: Repeat::Rounds,
    isolation: Isolation::Shared,
    needs: &[],
    view: ViewCard::Spans {
        timeline: "timeline",
        table: "periods",
    },
};

impl Experiment for Activity {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("activity.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        let mut cases = Vec::new();
        for cpu in params.get("cpu") {
            let id = CaseId::new().with("cpu", cpu.clone());
            match cpu_of(site, cpu) {
                Ok(_) => cases.push(Case::new(id)),
                Err(skip) => offer.skipped.push((id, skip)),
            }
        }
        if cases.is_empty() {
            return Err(offer
                .skipped
                .pop()
                .map_or_else(|| Skip::because("no CPU was asked for"), |(_, skip)| skip));
        }
        let setting = |name: &str| {
            let value = params.get(name).first()?;
            Some((name.to_owned(), value.clone()))
        };
        offer.series.push(Series {
            experiment: CARD.id.to_owned(),
            name: String::new(),
            order: Order::Shuffled,
            cases,
            settings: ["duration", "samples", "attribution"]
                .into_iter()
                .filter_map(setting)
                .collect(),
        });
        Ok(offer)
    }

    fn round_cost(&self, _site: &Site, series: &Series) -> Duration {
        let cases = u32::try_from(series.cases.len()).unwrap_or(u32::MAX);
        let windows = Duration::from_nanos(series.setting("duration").unwrap_or(0)) * 2;
        (windows + AROUND).saturating_mul(cases)
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let cpu = case
                .id
                .get("cpu")
                .cloned()
                .unwrap_or(Value::from("quietest"));
            let cpu = cpu_of(site, &cpu)?;
            case.at.insert("cpu".to_owned(), Value::Int(cpu as u64));
            let virtualisation = &site.host.kernel.virtualisation;
            let machine = match (virtualisation.is_guest, &virtualisation.hypervisor) {
                (Some(true), Some(hypervisor)) => hypervisor.as_str(),
                (Some(true), None) => "virtual",
                (Some(false), _) => "bare",
                (None, _) => continue,
            };
            case.at.insert("machine".to_owned(), Value::from(machine));
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some() {
            // No earlier figure says what an interrupt costs, or who comes.
            return None;
        }
        let cpu = case.id.get("cpu").and_then(|cpu| cpu_of(site, cpu).ok());
        let estimate = match metric.name.as_ref() {
            "read_to_read" => law::read_to_read_ns(site),
            "threshold" => law::threshold_ns(site),
            "gap" => law::gap_ns(site, cpu),
            "active" => law::active_ns(site, cpu),
            "gap_rate" => law::gap_rate_hz(site, cpu),
            "longest_gap" => law::longest_gap_ns(site),
            "lost" => law::lost(site, cpu),
            "lost_timer" => law::lost_timer(site, cpu),
            "tick_period" => law::tick_period_ns(site, cpu),
            "other_period" | "other_gap" => {
                return Some(unknown(
                    "unknown: nothing in a machine's description says who wakes there regularly",
                ));
            }
            other => law::lost_other(site, other.strip_prefix("lost_").unwrap_or(other)),
        };
        Some(estimate.prediction())
    }

    fn may_lack(&self, metric: &Metric) -> bool {
        // No gap at all, no tick, nobody else who comes regularly: that is a finding, no failure.
        let found = [
            "gap",
            "active",
            "longest_gap",
            "tick_period",
            "other_period",
            "other_gap",
        ];
        found.contains(&metric.name.as_ref())
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let settings = Settings::of(series, bench.order().rehearsal);
        bench.each(series, |bench, case| measure(case, settings, bench));
        Ok(())
    }
}

/// The CPU that a value of the parameter stands for.
fn cpu_of(site: &Site, value: &Value) -> Result<usize, Skip> {
    let first = site.cpus.first().copied();
    let Some(asked) = value.int() else {
        return first.ok_or_else(|| Skip::because("there is no CPU to measure on"));
    };
    site.cpus
        .iter()
        .copied()
        .find(|cpu| *cpu as u64 == asked)
        .ok_or_else(|| {
            Skip::because(format!(
                "CPU {asked} is not among those to measure on: {}",
                crate::host::format_cpus(&site.cpus)
            ))
            .needs(format!("--cpu {asked}, if this process may use it"))
        })
}

/// What a series' cases share.
#[derive(Clone, Copy)]
struct Settings {
    duration_ns: f64,
    samples: usize,
    at_most: Level,
}

impl Settings {
    fn of(series: &Series, rehearsal: bool) -> Settings {
        let duration_ns = series.setting("duration").unwrap_or(REHEARSAL_NS);
        let duration_ns = match rehearsal {
            true => duration_ns.min(REHEARSAL_NS),
            false => duration_ns,
        };
        let symbol = series.settings.get("attribution").and_then(Value::text);
        let asked = |level: &Level| Some(level.name()) == symbol;
        Settings {
            duration_ns: duration_ns as f64,
            samples: series.setting("samples").unwrap_or(10) as usize,
            at_most: Level::ALL
                .into_iter()
                .find(asked)
                .unwrap_or(Level::Tracepoints),
        }
    }
}

/// One round of one case.
fn measure(case: &Case, settings: Settings, bench: &mut Bench) -> Result<()> {
    let asked = case.at.get("cpu").and_then(Value::int);
    let cpu = asked.map_or(bench.cpu(), |cpu| cpu as usize);
    let root = Root::live(Outside::default());
    let clock = bench.clock();
    let rehearsal = bench.order().rehearsal;
    let coarse_ns = metal::clock::getres_ns(metal::clock::Clock::MONOTONIC_COARSE);
    let look = Look {
        clock,
        cpu,
        duration_ns: settings.duration_ns,
        candidates_ns: ticking::candidates_ns(coarse_ns),
        coarse_ns: coarse_ns as f64,
    };
    let (threshold, plain, traced) = on(cpu, bench.cpu(), || {
        let threshold = trace::threshold(clock, rehearsal)?;
        let mut tracer = Tracer::with_room(trace::ROOM).context("room for gaps")?;
        let plain = look.at(&mut tracer, &threshold, Level::Counters);
        let traced = (settings.at_most > Level::Counters)
            .then(|| look.at(&mut tracer, &threshold, settings.at_most));
        Ok((threshold, plain, traced))
    })?;
    bench.use_cpus(&[cpu]);
    bench.planned_switches(plain.involuntary() + traced.as_ref().map_or(0, Seen::involuntary));
    // What was reached is said of the window that was to reach most, even if it did not.
    let reached = traced.as_ref().unwrap_or(&plain).evidence.reached();
    let traced = traced.filter(|traced| traced.evidence.level > Level::Counters);
    let ticking = Ticking::of(&plain, cpu, coarse_ns, &root);
    let round = bench.order().round;
    let mut book = Book { case, cpu, bench };
    book.one("read_to_read", threshold.read_to_read_ns)?;
    let samples = book.one("threshold", threshold.ns)?;
    samples.notes.push(threshold.because.clone());
    samples
        .quantities
        .insert("threshold_ns".to_owned(), threshold.ns);
    samples
        .quantities
        .extend(traces::places(&plain, traced.as_ref()));
    let core_hz = book.lengths(&plain)?;
    book.tick(&plain, &ticking, round)?;
    book.other(&plain, traced.as_ref())?;
    book.shares(
        &plain,
        traced.as_ref(),
        &ticking,
        &machine_of(case),
        reached,
    )?;
    traces::write(
        book.bench,
        case,
        &plain,
        traced.as_ref(),
        settings.samples,
        core_hz,
    )
}

/// Runs `work` on a CPU: on this thread if it is there, else on one of its own, whose priority is this
/// one's.
fn on<T: Send>(cpu: usize, here: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if cpu == here {
        return work();
    }
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            place::pin(cpu).with_context(|| format!("pinning to CPU {cpu}"))?;
            work()
        });
        there
            .join()
            .map_err(|_| anyhow!("the thread on CPU {cpu} panicked"))?
    })
}

/// What the case was told of the machine when it was resolved.
fn machine_of(case: &Case) -> Virtualisation {
    let machine = case.at.get("machine").and_then(Value::text);
    Virtualisation {
        is_guest: machine.map(|machine| machine != "bare"),
        hypervisor: machine
            .filter(|machine| !["bare", "virtual"].contains(machine))
            .map(str::to_owned),
        ..Virtualisation::default()
    }
}

/// Where a case's figures are written.
struct Book<'round> {
    case: &'round Case,
    cpu: usize,
    bench: &'round mut Bench,
}

impl Book<'_> {
    /// One value of the round.
    fn one(&mut self, metric: &str, value: f64) -> Result<&mut record::event::Samples> {
        let cpu = Value::Int(self.cpu as u64);
        let samples = self
            .bench
            .record_batches(self.case, metric, 0, vec![value])?;
        samples.at.insert("cpu".to_owned(), cpu);
        Ok(samples)
    }

    /// Gaps and what lies between them; the core clock over the window, in Hz.
    fn lengths(&mut self, seen: &Seen) -> Result<Option<f64>> {
        let cpu = Value::Int(self.cpu as u64);
        let mut core_hz = None;
        if !seen.lengths_ns.is_empty() {
            let gaps = seen.lengths_ns.clone();
            let samples = match seen.traced.dropped {
                0 => self.bench.record(self.case, "gap", gaps)?,
                _ => {
                    let all = &seen.traced.lengths;
                    self.bench.record_counted(self.case, "gap", gaps, all)?
                }
            };
            core_hz = samples.core_hz;
            samples.at.insert("cpu".to_owned(), cpu);
            let longest_ns = seen.clock.ns(seen.traced.longest_ticks);
            self.one("longest_gap", longest_ns)?;
        }
        let active = seen.active_ns();
        if !active.is_empty() {
            self.bench.record(self.case, "active", active)?;
        }
        self.one("gap_rate", seen.traced.count as f64 / seen.seconds())?;
        Ok(core_hz)
    }

    /// The tick, where there is one, and what was found out about it.
    fn tick(&mut self, seen: &Seen, ticking: &Ticking, round: u32) -> Result<()> {
        let Some(tick) = &seen.tick else {
            return Ok(());
        };
        let told = ticking.told(round);
        let samples = self.one("tick_period", tick.period_ns)?;
        samples.quantities.extend(ticking.quantities());
        samples.notes.extend(told);
        Ok(())
    }

    /// Another period, named by the window that knows more.
    fn other(&mut self, plain: &Seen, traced: Option<&Seen>) -> Result<()> {
        let Some(found) = plain.other.as_ref() else {
            return Ok(());
        };
        let note = shares::told_of_other(found, plain, traced);
        self.one("other_gap", found.length_ns)?;
        let samples = self.one("other_period", found.period_ns)?;
        let count = found.members.len() as f64;
        samples.quantities.insert("members_count".to_owned(), count);
        samples.quantities.insert("by_chance_p".to_owned(), found.p);
        samples.notes.push(note);
        Ok(())
    }

    /// What was lost, in all and by cause.
    fn shares(
        &mut self,
        plain: &Seen,
        traced: Option<&Seen>,
        ticking: &Ticking,
        machine: &Virtualisation,
        reached: String,
    ) -> Result<()> {
        let best = traced.unwrap_or(plain);
        let round = self.bench.order().round;
        let mut notes = vec![reached];
        if plain.tick.is_none() {
            notes.extend(ticking.told(round));
        }
        notes.extend(shares::told(best, round));
        if plain.traced.dropped > 0 {
            notes.push(format!(
                "more gaps than the record holds: by cause, and in time, the first {}; all are in lengths \
                 and rates",
                plain.lengths_ns.len()
            ));
        }
        let samples = self.one("lost", plain.lost())?;
        samples.quantities.extend(ticking.quantities());
        samples.quantities.extend(best.counted());
        samples.notes.extend(notes);
        let cost = shares::tracing(plain, traced);
        let by_cause = best.lost_by_cause();
        for cause in Cause::ALL {
            let lost = by_cause.get(&cause).copied().unwrap_or(0.0);
            let samples = self.one(&format!("lost_{}", cause.name()), lost)?;
            samples.quantities.extend(cost.quantities.clone());
            samples.notes.extend(cost.note(round));
            if cause == Cause::Unattributed {
                let name = super::attribution::unattributed(machine);
                samples.notes.push(name);
                samples.notes.extend(shares::why_nobody(best, round));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
