//! What either run recorded beside a figure that changed, where that differs. These are candidates
//! only: nothing here says what did it.

use super::{Compared, join};
use crate::analysis::figure::{Figure, Stats};
use crate::analysis::health;
use crate::stats::quantile::median;
use record::quantity::digits;
use record::run::Run;

/// Share by which core clocks differ before it is told.
const CLOCK: f64 = 0.01;

/// What `at` tells that is told here.
const MOST_RESOLVED: usize = 3;

/// The recorded differences beside a figure, in the order of their weight.
pub(super) fn of(base_run: &Run, new_run: &Run, one: &Compared) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(resolved(one.base, one.new));
    reasons.extend(clock(one));
    reasons.extend(disturbed(base_run, one.base, "base"));
    reasons.extend(disturbed(new_run, one.new, "new"));
    reasons.extend(modes(one));
    reasons
}

/// Symbols that resolved to something else.
fn resolved(base: &Figure, new: &Figure) -> Vec<String> {
    let differ = base.at.iter().filter_map(|(name, value)| {
        let other = new.at.get(name).filter(|other| *other != value)?;
        Some(format!("{name}: {value} → {other}"))
    });
    differ.take(MOST_RESOLVED).collect()
}

/// Core clocks that differ, and whether the figure is the same in cycles.
fn clock(one: &Compared) -> Option<String> {
    let of = |figure: &Figure| {
        let clocks: Vec<f64> = figure.rounds.iter().filter_map(|r| r.core_hz).collect();
        median(&clocks)
    };
    let (base, new) = (of(one.base)?, of(one.new)?);
    if (new / base - 1.0).abs() <= CLOCK {
        return None;
    }
    let cycles = one.base.cycles.zip(one.new.cycles);
    let same = cycles.is_some_and(|(base, new)| (new / base - 1.0).abs() <= one.band.share);
    let same = if same { ", the same in cycles" } else { "" };
    Some(format!(
        "core clock {} → {} GHz{same}",
        digits(base / 1e9),
        digits(new / 1e9)
    ))
}

/// Disturbed rounds in one of the runs, by what.
fn disturbed(run: &Run, figure: &Figure, name: &str) -> Option<String> {
    let stats: &Stats = figure.stats.as_ref()?;
    if !stats.used_disturbed || stats.disturbed == 0 {
        return None;
    }
    let label = join::label_of(run, figure)?;
    let rounds: Vec<_> = run
        .rounds_of(&label)
        .filter(|round| !round.disturbed.is_empty())
        .collect();
    let by: Vec<String> = health::reasons(&rounds)
        .into_iter()
        .take(2)
        .map(|(reason, _)| reason)
        .collect();
    let by = match by.is_empty() {
        true => String::new(),
        false => format!(" by {}", by.join(", ")),
    };
    Some(format!(
        "{} of {} rounds disturbed in {name}{by}",
        stats.disturbed, stats.rounds
    ))
}

/// Samples in another number of modes.
fn modes(one: &Compared) -> Option<String> {
    let of = |figure: &Figure| figure.stats.as_ref().map(|stats| stats.modes.len().max(1));
    let (base, new) = (of(one.base)?, of(one.new)?);
    (base != new).then(|| format!("modes: {base} → {new}"))
}
