//! Questions to the recorded machine and to the environment of rounds, as data.

use super::health::{part, window_ns};
use super::moved::moved;
use record::event::Round;
use record::run::Run;
use serde_json::Value;

/// A condition that a recorded run meets or not.
#[derive(Clone, Copy, Debug)]
pub enum Fact {
    /// A fact of the machine, by JSON pointer into the header's `host`.
    Host(&'static str, Test),
    /// A counter of the rounds, summed and divided by the windows, exceeds this share.
    Share(&'static str, f64),
    /// What the rounds counted of the first exceeds this share of what they counted of the second.
    Part(&'static str, &'static str, f64),
    /// A counter of the rounds, summed, exceeds this.
    Sum(&'static str, f64),
    /// The measuring thread could have run and others did for more than this share of the windows,
    /// in rounds that do not mind it already (those of [`Fact::Share`] of `minded_run_delay_ns`).
    RunDelay(f64),
    /// Core clock before and after the windows differ by more than this ratio in some round.
    ClockMoved(f64),
    /// The core clock lies above the counter's rate by more than this ratio, both measured.
    ClockAboveCounter(f64),
    /// The host moved the virtual CPUs ([`moved`]).
    MovedCpus,
}

pub const IS_GUEST: Fact = Fact::Host("/kernel/virtualisation/is_guest", Test::Is("true"));

/// What a value must be; an absent value meets nothing.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    /// This text (a boolean as `true` or `false`).
    Is(&'static str),
    /// Any text but these.
    IsNoneOf(&'static [&'static str]),
    MoreThan(f64),
    /// An object of texts (or one text) in which some text contains this.
    Contains(&'static str),
    Present,
}

impl Fact {
    /// Whether it was counted in rounds, and is not just true of the machine.
    pub fn is_of_rounds(self) -> bool {
        !matches!(self, Fact::Host(..) | Fact::ClockAboveCounter(_))
    }

    /// The share of the time or of the samples that the rounds counted; `None` of other facts.
    pub fn share(self, rounds: &[&Round]) -> Option<f64> {
        let over = |part: f64, windows: f64| (windows > 0.0).then(|| part / windows);
        match self {
            Fact::Share(counter, _) => {
                let windows = rounds.iter().map(|round| window_ns(round, counter)).sum();
                over(sum(rounds, counter), windows)
            }
            Fact::Part(of, whole, _) => part(rounds, of, whole),
            Fact::RunDelay(_) => {
                let unminded = rounds
                    .iter()
                    .filter(|round| !round.environment.contains_key("minded_run_delay_ns"));
                let unminded: Vec<&Round> = unminded.copied().collect();
                // It is the measuring thread's alone, however many CPUs the round used.
                let windows = unminded.iter().map(|round| round.window_ns).sum();
                over(sum(&unminded, "run_delay_ns"), windows)
            }
            _ => None,
        }
    }

    /// Whether the run, or the given rounds of it, meet the condition.
    pub fn holds(self, run: &Run, rounds: &[&Round]) -> bool {
        match self {
            Fact::Host(pointer, test) => {
                run.header.host.pointer(pointer).is_some_and(|value| test.holds(value))
            }
            Fact::Share(_, least) | Fact::Part(_, _, least) | Fact::RunDelay(least) => {
                self.share(rounds).is_some_and(|share| share > least)
            }
            Fact::MovedCpus => moved(run).is_some(),
            Fact::Sum(counter, least) => sum(rounds, counter) > least,
            Fact::ClockMoved(ratio) => rounds.iter().any(|round| {
                let clock = |name| round.environment.get(name).copied();
                clock("core_hz_before").zip(clock("core_hz_after")).is_some_and(
                    |(before, after)| (after - before).abs() > ratio * before.min(after),
                )
            }),
            Fact::ClockAboveCounter(ratio) => {
                let clocks = &run.header.calibration;
                clocks.source != "clock_gettime"
                    && !run.header.is_published()
                    && clocks.counter_hz > 0.0
                    && clocks.core_hz > clocks.counter_hz * (1.0 + ratio)
            }
        }
    }
}

/// Caches that hold data, as (name, bytes): what the machine states about its levels.
pub fn stated_levels(run: &Run) -> Vec<(String, f64)> {
    let levels = run.header.host.pointer("/cache/levels");
    let levels = levels.and_then(Value::as_array);
    let mut stated: Vec<(String, f64)> = levels
        .into_iter()
        .flatten()
        .filter(|cache| cache["kind"] != "instruction")
        .filter_map(|cache| {
            let bytes = cache["size_bytes"].as_f64()?;
            Some((format!("L{}", cache["level"].as_u64()?), bytes))
        })
        .collect();
    stated.dedup();
    stated
}

fn sum(rounds: &[&Round], counter: &str) -> f64 {
    rounds.iter().filter_map(|round| round.environment.get(counter)).sum()
}

impl Test {
    fn holds(self, value: &Value) -> bool {
        let text = || match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(is) => Some(is.to_string()),
            _ => None,
        };
        match self {
            Test::Is(wanted) => text().is_some_and(|text| text == wanted),
            Test::IsNoneOf(others) => text().is_some_and(|text| !others.contains(&text.as_str())),
            Test::MoreThan(least) => value.as_f64().is_some_and(|number| number > least),
            Test::Contains(part) => match value {
                Value::Object(entries) => entries
                    .values()
                    .any(|entry| entry.as_str().is_some_and(|text| text.contains(part))),
                _ => text().is_some_and(|text| text.contains(part)),
            },
            Test::Present => !value.is_null(),
        }
    }
}
