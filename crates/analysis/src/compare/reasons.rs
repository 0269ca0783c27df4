//! What either run recorded beside a figure that changed, where that differs. These are candidates
//! only: nothing here says what did it.

use super::{CLOCK, Compared, join};
use crate::figure::{Figure, Stats};
use crate::names::around;
use crate::{causes, health, moved};
use record::key::Value;
use record::quantity::digits;
use record::run::Run;
use stats::quantile::median;

/// The parts of `at` that are reported here.
const MOST_RESOLVED: usize = 3;

/// The recorded differences beside a figure, in the order of their weight.
pub(super) fn reasons(base_run: &Run, new_run: &Run, one: &Compared) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(resolved(one.base, one.new));
    reasons.extend(clock(one));
    reasons.extend(run_delay(base_run, new_run, one));
    reasons.extend(disturbed(base_run, one.base, "base"));
    reasons.extend(disturbed(new_run, one.new, "new"));
    reasons.extend(moved(base_run, new_run, one));
    reasons.extend(modes(one));
    reasons
}

/// Ratio of sizes from which figures are of different things.
const OTHER_SIZE: f64 = 1.05;

/// Whether the symbols of a case resolved to another size or another number of threads: what was
/// measured is another thing then, whatever its figure.
pub(super) fn has_other_size(base: &Figure, new: &Figure) -> bool {
    let is_size = |name: &str| name.ends_with("bytes") || matches!(name, "threads" | "files");
    base.at.iter().filter(|(name, _)| is_size(name)).any(|at| {
        let (Value::Int(from), Some(Value::Int(to))) = (at.1, new.at.get(at.0)) else {
            return false;
        };
        let ratio = *from as f64 / *to as f64;
        !(1.0 / OTHER_SIZE..=OTHER_SIZE).contains(&ratio)
    })
}

/// Smallest reported difference in waiting for a CPU, as a share of the windows.
const RUN_DELAY: f64 = 0.02;

/// Time in which the measuring threads were ready to run and another had their CPU, as a share of
/// the windows of the figure's rounds.
fn run_delay(base_run: &Run, new_run: &Run, one: &Compared) -> Option<String> {
    let of = |run: &Run, figure: &Figure| {
        let label = join::label_of(run, figure)?;
        let rounds: Vec<_> = run.rounds_of(&label).collect();
        health::share(&rounds, "run_delay_ns")
    };
    let (base, new) = (of(base_run, one.base)?, of(new_run, one.new)?);
    ((new - base).abs() >= RUN_DELAY).then(|| {
        format!(
            "other programs used its CPU (run delay) for {} → {} % of the time",
            digits(base * 100.0),
            digits(new * 100.0)
        )
    })
}

/// Runs in which the host moved the virtual CPUs, of a figure that depends on where they are.
fn moved(base_run: &Run, new_run: &Run, one: &Compared) -> Option<String> {
    let shares = [base_run, new_run].map(|run| moved::moved(run).map(|moved| moved.share()));
    if shares == [None; 2] || !causes::is_moved(one.new) {
        return None;
    }
    let [base, new] = shares.map(|share| digits(100.0 * share.unwrap_or(0.0)));
    Some(format!("the host moved the virtual CPUs in {base} → {new} % of the rounds"))
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
    let note = match (one.in_cycles, same) {
        (true, _) => ", compared in cycles",
        (false, true) => ", the same in cycles",
        (false, false) => "",
    };
    Some(format!("core clock {} → {} GHz{note}", digits(base / 1e9), digits(new / 1e9)))
}

fn disturbed(run: &Run, figure: &Figure, name: &str) -> Option<String> {
    let stats: &Stats = figure.stats.as_ref()?;
    if !stats.used_disturbed || stats.disturbed == 0 {
        return None;
    }
    let label = join::label_of(run, figure)?;
    let rounds: Vec<_> =
        run.rounds_of(&label).filter(|round| !round.disturbed.is_empty()).collect();
    let by: Vec<String> =
        health::reasons(&rounds).into_iter().take(2).map(|(reason, _)| reason).collect();
    let by = around(" by ", &by.join(", "), "");
    Some(format!("{} of {} rounds disturbed in {name}{by}", stats.disturbed, stats.rounds))
}

/// Samples in another number of modes.
fn modes(one: &Compared) -> Option<String> {
    let of = |figure: &Figure| figure.stats.as_ref().map(|stats| stats.modes.len().max(1));
    let (base, new) = (of(one.base)?, of(one.new)?);
    (base != new).then(|| format!("modes: {base} → {new}"))
}
