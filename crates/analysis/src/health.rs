//! How quiet the machine was while it was measured.

use super::gather::ends;
use super::moved::moved;
use record::event::{Round, RoundStatus};
use record::order::{Gather, InOrder};
use record::run::Run;
use stats::width::Seen;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    pub rounds: usize,
    /// Rounds that do not.
    pub void: usize,
    /// Rounds that count and were disturbed.
    pub disturbed: usize,
    /// Disturbed rounds by reason, the most frequent first; a round may have several.
    pub reasons: Vec<(String, usize)>,
    /// Time given away by the hypervisor over the windows, as a share.
    pub steal: Option<f64>,
    /// Time in which the measuring threads waited for their CPU over the windows, as a share.
    pub run_delay: Option<f64>,
    /// Share of the classified samples in which others used the core.
    pub shared: Option<f64>,
    /// Time throttled over the windows, as a share.
    pub throttled: Option<f64>,
    /// Share of a pair's rounds in the rarer of two places between which the host moved the CPUs.
    pub moved: Option<f64>,
    /// Least and greatest core clock seen around rounds, in Hz.
    pub core_hz: Option<(f64, f64)>,
}

impl Health {
    /// Disturbed rounds over rounds that count.
    pub fn disturbed_share(&self) -> Option<f64> {
        (self.rounds > 0).then(|| self.disturbed as f64 / self.rounds as f64)
    }
}

pub fn health(run: &Run) -> Health {
    let counting: Vec<&Round> =
        run.rounds.iter().filter(|round| round.status == RoundStatus::Ok).collect();
    Health {
        rounds: counting.len(),
        void: run.rounds.len() - counting.len(),
        disturbed: counting.iter().filter(|round| !round.disturbed.is_empty()).count(),
        reasons: reasons(&counting),
        steal: share(&counting, "steal_ns"),
        run_delay: share(&counting, "run_delay_ns"),
        shared: seen(run).share(|seen| seen.shared),
        throttled: share(&counting, "throttled_ns"),
        moved: moved(run).map(|moved| moved.share()),
        core_hz: core_hz(&counting),
    }
}

/// What the width probe read in the samples of first visits, by what it knows in the end.
pub(super) fn seen(run: &Run) -> Seen {
    let last = run.segments.last().map_or(0, |segment| segment.n);
    let waited = run.rounds.iter().filter(|round| round.waited_s.is_some());
    let waited: BTreeSet<(&str, u32)> =
        waited.map(|round| (round.series.as_str(), round.n)).gather();
    let first = run.samples.iter().filter(|samples| {
        samples.visit == 0 && !waited.contains(&(samples.series.as_str(), samples.round))
    });
    let readings = first.flat_map(|samples| samples.width.iter().copied());
    run.width_level(last).map_or_else(Seen::default, |level| Seen::from_readings(readings, level))
}

pub fn reasons(rounds: &[&Round]) -> Vec<(String, usize)> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for reason in rounds.iter().flat_map(|round| &round.disturbed) {
        *reasons.entry(kind(reason)).or_default() += 1;
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.order_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    reasons
}

/// A reason without its size: the first words that are no number and lead to none.
pub(super) fn kind(reason: &str) -> String {
    let is_number = |word: &&str| {
        let word = word.trim_start_matches(['-', '+', '(']);
        word.starts_with(|letter: char| letter.is_ascii_digit()) || word == "%"
    };
    let leads_on = |word: &str| matches!(word, "by" | "per" | "of" | "for" | "above");
    let words: Vec<&str> = reason
        .split_whitespace()
        .skip_while(is_number)
        .take_while(|word| !is_number(word) && !leads_on(word))
        .map(|word| word.trim_end_matches([':', ',']))
        .collect();
    match words.is_empty() {
        true => reason.to_owned(),
        false => words.join(" "),
    }
}

/// A counter's nanoseconds over the windows of some rounds, per CPU; `None` where none has it. A difference of
/// clocks that are read one after another may be less than nothing: that is nothing.
pub fn share(rounds: &[&Round], counter: &str) -> Option<f64> {
    let (mut part, mut whole) = (0.0, 0.0);
    for round in rounds {
        if let Some(value) = round.environment.get(counter) {
            part += value;
            whole += window_ns(round, counter);
        }
    }
    (whole > 0.0).then(|| (part / whole).max(0.0))
}

/// The time over which a round counted something, in ns: steal is accounted for where the measuring
/// thread does not sleep; others are summed over the CPUs that measured.
pub(super) fn window_ns(round: &Round, counter: &str) -> f64 {
    let own = round.environment.get("steal_window_ns");
    match own.filter(|_| counter == "steal_ns") {
        Some(own) => *own,
        None => round.window_ns * round.cpus.len().max(1) as f64,
    }
}

/// What rounds counted of a part, over what they counted of the whole.
pub(super) fn part(rounds: &[&Round], part: &str, whole: &str) -> Option<f64> {
    let sum = |name: &str| -> f64 {
        let counts = rounds.iter().filter_map(|round| round.environment.get(name));
        counts.sum()
    };
    let whole = sum(whole);
    (whole > 0.0).then(|| sum(part) / whole)
}

/// Readings of the core clock around a round.
const CORE: [&str; 2] = ["core_hz_before", "core_hz_after"];

fn core_hz(rounds: &[&Round]) -> Option<(f64, f64)> {
    let of_round = |round: &&Round| CORE.map(|name| round.environment.get(name).copied());
    let (low, high) = ends(rounds.iter().flat_map(of_round).flatten());
    (low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn reasons_lose_their_size() {
        for (reason, expected) in [
            ("steal 1.8 % of the window", "steal"),
            ("2.7 involuntary switches per 10 ms", "involuntary switches"),
            ("core clock changed by -2.3 %", "core clock changed"),
            ("3 major faults", "major faults"),
            ("7", "7"),
        ] {
            assert_eq!(kind(reason), expected);
        }
    }
}
