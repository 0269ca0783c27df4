//! Continuous watch of one machine: which part of a selection is measured next, and whether its CPU
//! time has been saved. Pure: the caller has the clocks and the processes.
//!
//! The share of CPU time is a budget that grows with the time that passes. A part is started only if
//! its whole cost has been saved, and is stopped if it costs more than what has been saved; so the
//! CPU time used never exceeds the share of the time since the first start by more than one look at
//! the running part.

use crate::select::{glob, parted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of what a watch keeps; one of a higher version is not read.
pub const FORMAT: u32 = 1;

/// What a part took last time, times this, is expected to suffice.
const MARGIN: f64 = 1.25;
/// What remains of an earlier, larger cost each time that the part costs less.
const DECAY: f64 = 0.9;
/// A part whose cost takes longer to save does not fit, in seconds.
pub const SAVING_MAX_S: f64 = 24.0 * 3600.0;
/// CPU time that a run uses for itself, before the first measurement has shown how much, in
/// seconds: its plan, its calibration and its workers' starts.
const OWN_S: f64 = 0.6;

/// An experiment of the rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its id.
    pub id: String,
    /// Selectors that select it and nothing else.
    pub selectors: Vec<String>,
    /// CPU time that its plan states, in seconds.
    pub stated_s: f64,
}

impl Part {
    /// A part whose measuring takes so much CPU time.
    pub fn new(id: &str, selectors: &[String], measuring_s: f64) -> Part {
        let selectors = selectors_of(id, selectors);
        Part { id: id.to_owned(), selectors, stated_s: OWN_S + measuring_s }
    }
}

/// What a watch knows of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// CPU time that it takes, in seconds; absent before it was measured.
    pub cpu_s: Option<f64>,
    /// When its last complete measurement ended, in seconds since 1970.
    pub measured_s: Option<f64>,
    /// Name of that record in the watch's store.
    pub record: Option<String>,
    /// Measurements that failed since the last complete one.
    pub failures: u64,
}

/// What a watch keeps between its ticks and between its starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// When it first started, in seconds since 1970.
    pub began_s: f64,
    /// CPU time used since then, in seconds.
    pub used_s: f64,
    /// CPU time that has been saved; below zero, what was used too early.
    pub saved_s: f64,
    /// Time up to which CPU time has been saved, in seconds since 1970.
    pub at_s: f64,
    /// The part whose turn it is.
    pub next: Option<String>,
    /// Rotations that are complete.
    pub rotations: u64,
    /// The parts by id.
    pub parts: BTreeMap<String, Known>,
}

/// How a measurement of a part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is complete.
    Complete,
    /// It failed, or had nothing to measure.
    Failed,
    /// It was stopped because it used up what had been saved.
    Stopped,
    /// The watch ends: the part stays the next one.
    Interrupted,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn<'parts> {
    /// The part is measured.
    Measure(&'parts Part),
    /// CPU time is saved for the part; so many seconds of CPU time are missing.
    Save(&'parts Part, f64),
    /// No part fits.
    Nothing,
}

/// The parts in the order in which they are measured, and the share of CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// Parts, in the order of the catalogue.
    pub parts: Vec<Part>,
    /// CPU time per time: 1 is one CPU.
    pub share: f64,
    /// Time from one tick to the next, in seconds.
    pub every_s: f64,
}

impl Kept {
    /// Of a watch that starts for the first time now, in seconds since 1970.
    pub fn new(now_s: f64) -> Kept {
        Kept {
            format: FORMAT,
            began_s: now_s,
            used_s: 0.0,
            saved_s: 0.0,
            at_s: now_s,
            next: None,
            rotations: 0,
            parts: BTreeMap::new(),
        }
    }

    /// CPU time was used, in seconds.
    pub fn charge(&mut self, cpu_s: f64) {
        self.used_s += cpu_s;
        self.saved_s -= cpu_s;
    }

    /// CPU time used over the time since the first start; `None` in its first instant.
    pub fn share(&self, now_s: f64) -> Option<f64> {
        let watched = now_s - self.began_s;
        (watched > 0.0).then(|| self.used_s / watched)
    }

    fn known(&self, part: &Part) -> Known {
        self.parts.get(&part.id).cloned().unwrap_or_default()
    }
}

impl Rotation {
    /// CPU time that a part is expected to take, in seconds.
    pub fn cost_s(&self, kept: &Kept, part: &Part) -> f64 {
        kept.known(part).cpu_s.map_or(part.stated_s, |cpu| cpu * MARGIN)
    }

    /// Whether a part's CPU time can be saved at all.
    pub fn fits(&self, kept: &Kept, part: &Part) -> bool {
        self.cost_s(kept, part) <= self.share * SAVING_MAX_S
    }

    /// The least share with which a part fits.
    pub fn share_for(&self, kept: &Kept, part: &Part) -> f64 {
        self.cost_s(kept, part) / SAVING_MAX_S
    }

    /// Time that a whole rotation takes, in seconds; parts that do not fit are not in it.
    pub fn length_s(&self, kept: &Kept) -> f64 {
        let fitting = self.parts.iter().filter(|part| self.fits(kept, part));
        let cpu: f64 = fitting.map(|part| self.cost_s(kept, part) / MARGIN).sum();
        cpu / self.share
    }

    /// Time has passed: CPU time is saved, but no more than one interval has or the next part
    /// needs, so that a machine that was off does not catch up. A clock that was set back saves
    /// nothing.
    pub fn save(&self, kept: &mut Kept, now_s: f64) {
        let passed = (now_s - kept.at_s).max(0.0);
        kept.at_s = now_s;
        // A clock that was set back behind the first start starts anew.
        kept.began_s = kept.began_s.min(now_s);
        let needed = self.due(kept).map_or(0.0, |part| self.cost_s(kept, part));
        let most = needed.max(self.share * self.every_s);
        kept.saved_s = (kept.saved_s + self.share * passed).min(most.max(kept.saved_s));
    }

    /// The part whose turn it is, among those that fit.
    fn due(&self, kept: &Kept) -> Option<&Part> {
        let first = self.place(kept);
        let (before, from) = self.parts.split_at(first);
        from.iter().chain(before).find(|part| self.fits(kept, part))
    }

    fn place(&self, kept: &Kept) -> usize {
        let is_next = |part: &Part| kept.next.as_ref() == Some(&part.id);
        self.parts.iter().position(is_next).unwrap_or(0)
    }

    /// What happens next.
    pub fn turn(&self, kept: &Kept) -> Turn<'_> {
        let Some(part) = self.due(kept) else { return Turn::Nothing };
        let missing = self.cost_s(kept, part) - kept.saved_s;
        match missing <= 0.0 {
            true => Turn::Measure(part),
            false => Turn::Save(part, missing),
        }
    }

    /// A part was measured, used so much CPU time (which is charged), and its record has this name.
    pub fn measured(
        &self,
        kept: &mut Kept,
        part: &Part,
        ended: Ended,
        cpu_s: f64,
        (record, now_s): (&str, f64),
    ) {
        kept.charge(cpu_s);
        if ended == Ended::Interrupted {
            return;
        }
        let mut known = kept.known(part);
        let before = known.cpu_s.unwrap_or(0.0);
        match ended {
            Ended::Complete => {
                known.cpu_s = Some(cpu_s.max(before * DECAY));
                known.measured_s = Some(now_s);
                known.record = Some(record.to_owned());
                known.failures = 0;
            }
            // How much it takes is not known, only that it is more.
            Ended::Stopped => {
                known.cpu_s = Some(2.0 * cpu_s.max(before));
                known.failures += 1;
            }
            Ended::Failed | Ended::Interrupted => known.failures += 1,
        }
        kept.parts.insert(part.id.clone(), known);
        self.advance(kept, part);
    }

    /// The turn goes to the part after this one.
    fn advance(&self, kept: &mut Kept, part: &Part) {
        let at = self.parts.iter().position(|other| other.id == part.id).unwrap_or(0);
        let after = |from: usize| {
            let mut rest = self.parts.iter().skip(from);
            rest.find(|part| self.fits(kept, part)).map(|part| part.id.clone())
        };
        let next = after(at + 1);
        let is_last = next.is_none();
        kept.next = next.or_else(|| after(0));
        kept.rotations += u64::from(is_last);
    }
}

/// Those of a user's selectors that select an experiment's cases, or its id where they select all.
fn selectors_of(id: &str, selectors: &[String]) -> Vec<String> {
    let is_of = |text: &&String| {
        let (pattern, filter) = parted(text.trim_start_matches('!'), ':');
        let family = id.split('.').next();
        (glob(pattern, id) || family == Some(pattern), filter.is_some())
    };
    let own: Vec<&String> = selectors.iter().filter(|text| is_of(text).0).collect();
    let (negated, wanted): (Vec<&String>, Vec<&String>) =
        own.into_iter().partition(|text| text.starts_with('!'));
    let is_whole = wanted.is_empty() || wanted.iter().any(|text| !is_of(text).1);
    let wanted = match is_whole {
        true => vec![id.to_owned()],
        false => wanted.into_iter().cloned().collect(),
    };
    let refused = negated.into_iter().filter(|text| is_of(text).1).cloned();
    wanted.into_iter().chain(refused).collect()
}

#[cfg(test)]
mod tests;
