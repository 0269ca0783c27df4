//! The figures of a round, with what a reader must know of each.

use super::super::trace::Threshold;
use super::round::Apart;
use super::seen::Seen;
use super::shares;
use super::ticking::Ticking;
use super::traces;
use anyhow::Result;
use bench::measure::{Bench, Values};
use host::kernel::Virtualisation;
use laws::noise::Cause;
use record::case::Case;
use record::event::Samples;
use record::key::Value;

/// Gaps from here on, in ns, are counted alike whatever the threshold.
const LONG_NS: f64 = 1_000.0;

/// What a round saw.
pub(super) struct Windows {
    pub(super) threshold: Threshold,
    /// In which nothing but the loop ran.
    pub(super) plain: Seen,
    /// In which events were recorded too, where they could be.
    pub(super) traced: Option<Seen>,
    pub(super) ticking: Ticking,
    pub(super) machine: Virtualisation,
    /// How far attribution went, and why no further.
    pub(super) reached: String,
}

impl Windows {
    /// The window that says most of causes.
    fn best(&self) -> &Seen {
        self.traced.as_ref().unwrap_or(&self.plain)
    }
}

/// Where a case's figures are written.
pub(super) struct Book<'round> {
    pub(super) case: &'round Case,
    pub(super) cpu: usize,
    /// The core clock of `cpu`, where that is not the round's.
    pub(super) apart: Apart,
    pub(super) bench: &'round mut Bench,
}

impl Book<'_> {
    /// All of it.
    pub(super) fn write(mut self, windows: &Windows, samples: usize) -> Result<()> {
        let (plain, traced) = (&windows.plain, windows.traced.as_ref());
        self.loop_itself(windows)?;
        let core_hz = self.lengths(plain)?;
        self.rates(windows)?;
        self.tick(windows)?;
        self.other(windows)?;
        self.lost(windows)?;
        self.shares(windows)?;
        traces::write(self.bench, self.case, plain, traced, samples, core_hz)
    }

    fn round(&self) -> u32 {
        self.bench.order().round
    }

    /// Values of the round, and where they were measured.
    fn record(&mut self, metric: &str, values: Values<'_>) -> Result<&mut Samples> {
        let values = match self.apart {
            None => values,
            Some(_) => values.apart(),
        };
        let samples = self.bench.record(self.case, metric, values)?;
        there(samples, self.cpu, self.apart);
        Ok(samples)
    }

    /// One value of the round.
    fn one(&mut self, metric: &str, value: f64) -> Result<&mut Samples> {
        self.record(metric, Values::block(value))
    }

    /// The loop's resolution and the threshold.
    fn loop_itself(&mut self, windows: &Windows) -> Result<()> {
        let threshold = &windows.threshold;
        let round = self.round();
        self.one("read_to_read", threshold.read_to_read_ns)?;
        let samples = self.one("threshold", threshold.ns)?;
        if round <= 1 {
            samples.notes.push(format!("{} (round 1)", threshold.because));
        }
        let places = traces::places(&windows.plain, windows.traced.as_ref());
        let quantities = &mut samples.quantities;
        quantities.insert("threshold_ns".to_owned(), threshold.ns);
        quantities.extend(places);
        Ok(())
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
            let longest_ns = seen.clock.ns(seen.traced.longest_ticks);
            self.one("longest_gap", longest_ns)?;
        }
        let active = seen.active_ns();
        if !active.is_empty() {
            self.record("active", Values::events(active))?;
        }
        Ok(core_hz)
    }

    /// How often there is a gap.
    fn rates(&mut self, windows: &Windows) -> Result<()> {
        let (seen, threshold_ns) = (&windows.plain, windows.threshold.ns);
        let are_all_seen = threshold_ns <= LONG_NS;
        let samples = self.one("gap_rate", seen.traced.rate_hz(seen.clock))?;
        samples.quantities.insert("threshold_ns".to_owned(), threshold_ns);
        if !are_all_seen {
            let note = "no rate of gaps of 1 us where the threshold is above that";
            samples.notes.push(note.to_owned());
            return Ok(());
        }
        self.one("gap_rate_1us", seen.rate_of_hz(LONG_NS))?;
        Ok(())
    }

    /// The tick, where there is one, and what was found out about it.
    fn tick(&mut self, windows: &Windows) -> Result<()> {
        let Some(tick) = &windows.plain.tick else {
            return Ok(());
        };
        let told = windows.ticking.told(self.round());
        let samples = self.one("tick_period", tick.period_ns)?;
        samples.quantities.extend(windows.ticking.quantities());
        samples.notes.extend(told);
        Ok(())
    }

    /// Another period, named by the window that knows more.
    fn other(&mut self, windows: &Windows) -> Result<()> {
        let Some(found) = windows.plain.other.as_ref() else {
            return Ok(());
        };
        let note = shares::told_of_other(found, &windows.plain, windows.traced.as_ref());
        self.one("other_gap", found.length_ns)?;
        let samples = self.one("other_period", found.period_ns)?;
        let count = found.members.len() as f64;
        samples.quantities.insert("members_count".to_owned(), count);
        samples.quantities.insert("by_chance_p".to_owned(), found.p);
        samples.notes.push(note);
        Ok(())
    }

    /// What was lost in all.
    fn lost(&mut self, windows: &Windows) -> Result<()> {
        let (plain, best) = (&windows.plain, windows.best());
        let round = self.round();
        let mut notes = vec![windows.reached.clone()];
        if plain.tick.is_none() {
            notes.extend(windows.ticking.told(round));
        }
        notes.extend(shares::told(best, round));
        let shown = traces::told(plain, windows.traced.as_ref());
        notes.push(shown.to_owned());
        notes.extend(warnings(plain, best));
        let samples = self.one("lost", plain.traced.lost())?;
        samples.quantities.extend(windows.ticking.quantities());
        samples.quantities.extend(best.counted());
        samples.notes.extend(notes);
        Ok(())
    }

    /// What was lost by cause, where the level can see it.
    fn shares(&mut self, windows: &Windows) -> Result<()> {
        let (plain, best) = (&windows.plain, windows.best());
        let round = self.round();
        let cost = shares::tracing(plain, windows.traced.as_ref());
        let (by_cause, beside) = best.lost_by_cause();
        for &cause in Cause::ALL {
            if !best.evidence.tells(self.cpu, cause) {
                continue;
            }
            let lost = by_cause.get(&cause).copied().unwrap_or(0.0);
            let samples = self.one(&format!("lost_{}", cause.text()), lost)?;
            samples.quantities.extend(cost.quantities.clone());
            samples.notes.extend(cost.note(round));
            if cause == Cause::Unattributed {
                samples.notes.push(best.nobody(&windows.machine));
                samples.notes.extend(shares::why_nobody(best, round));
                if beside > 0.0 {
                    let quantities = &mut samples.quantities;
                    quantities.insert("beside_ratio".to_owned(), beside);
                    if round == 1 {
                        samples.notes.push(format!(
                            "of gaps with a name, {:.2} % of the window lies in no event: the way \
                             into the kernel and out of it, and what a hypervisor took before it \
                             delivered an interrupt (round 1)",
                            100.0 * beside
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Says where a figure was measured, and its core clock if that was taken there.
fn there(samples: &mut Samples, cpu: usize, apart: Apart) {
    samples.at.insert("cpu".to_owned(), Value::Int(cpu as u64));
    if let Some(core_hz) = apart {
        samples.core_hz = core_hz;
        // It says that no core clock was taken of a CPU that is not the round's.
        samples.notes.pop();
        if core_hz.is_none() {
            let note = format!("no core clock: that of CPU {cpu} moved, or was not found");
            samples.notes.push(note);
        }
    }
}

/// What casts doubt on a window, without figures, which differ between rounds.
fn warnings(plain: &Seen, best: &Seen) -> Vec<String> {
    let mut warnings = Vec::new();
    if plain.traced.dropped > 0 {
        warnings.push(format!(
            "more gaps than are held: by cause, and in time, the first {}; all are in lengths and rates",
            plain.lengths_ns.len()
        ));
    }
    if best.evidence.whole_until(best.cpu).is_some() {
        warnings.push(
            "the kernel's events filled their ring (`events_whole_ns`): shares by cause are those of the \
             time before that"
                .to_owned(),
        );
    }
    if plain.traced.backward + best.traced.backward > 0 {
        warnings
            .push("the counter went back (`backward_count`): the figures are in doubt".to_owned());
    }
    warnings
}
