//! What `plan`, `node` and `resume` share: from options to what a sweep does.

use crate::cmd::choice::PresetName;
use crate::cmd::{Failure, time, usage};
use bench::experiment::Preset;
use catalogue::FAMILIES;
use fleet::recipe::{Limits, Recipe, loads, steps};
use fleet::sweep::{FLEET_FORMAT, Header};
use session::header::now;
use session::plan::default_budget;
use session::select::Selection;
use session::setup::run_name;
use std::time::Duration;

/// What a pair measures between two hosts where nothing else is asked for: round trips, and the rate
/// of the path. (Datagrams are limited by the sender's CPU, which each node measures by itself.)
pub const PAIR_SELECTORS: [&str; 2] =
    ["net.rtt:far=peer", "net.bandwidth:far=peer,protocol=tcp,transfer=steady"];
/// A node by itself is given up after so many times its preset's time, and this much more.
const ALONE_TIMES: f64 = 3.0;
const ALONE_MORE_S: f64 = 60.0;

/// What a sweep measures, and how long it waits.
#[derive(clap::Args, Clone)]
pub struct SweepArgs {
    /// What each node measures by itself: selectors as of `plumb run` [default: all]
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// How much each node measures by itself
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    pub preset: PresetName,
    /// What pairs of nodes measure; may be repeated [default: net.rtt:far=peer and
    /// net.bandwidth:far=peer,protocol=tcp,transfer=steady]
    #[arg(long = "pair", value_name = "SELECTOR")]
    pairs: Vec<String>,
    /// Number of matchings of the pairs [default: 2 log2(N), rounded up]
    #[arg(long, value_name = "K")]
    steps: Option<u32>,
    /// Measure every pair of nodes: N - 1 steps
    #[arg(long, conflicts_with = "steps")]
    all_pairs: bool,
    /// Steps that measure a matching across a cut of the fleet: between racks (or the labels switch or
    /// zone), or two random halves [default: 2, from four nodes on]
    #[arg(long, value_name = "K")]
    bisection: Option<u32>,
    /// Steps in which four nodes send to one, another one in each [default: 2, from four nodes on]
    #[arg(long, value_name = "K")]
    incast: Option<u32>,
    /// Steps in which one node sends to four, another one in each [default: 2, from four nodes on]
    #[arg(long, value_name = "K")]
    outcast: Option<u32>,
    /// Seed of the matchings [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    pub waits: Waits,
}

/// How long a sweep waits.
#[derive(clap::Args, Clone)]
pub struct Waits {
    /// Nodes join in this time; the sweep goes on without those that do not
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "2m")]
    join_within: Duration,
    /// A node whose connection ends is lost if it does not come back in this time
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "20s")]
    back_within: Duration,
    /// A node measures itself in this time [default: three times the preset's, and a minute]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    alone_within: Option<Duration>,
    /// A pair is measured in this time
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "1m")]
    pair_within: Duration,
    /// A node answers in this time, beyond the other times
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "30s")]
    answer_within: Duration,
}

impl Waits {
    /// The limits of a sweep of a preset.
    pub fn limits(&self, preset: &str) -> Limits {
        let all = [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];
        let preset = all.into_iter().find(|one| one.name() == preset);
        let usual = default_budget(preset.unwrap_or(Preset::Thorough)).as_secs_f64();
        let alone_s = ALONE_TIMES * usual + ALONE_MORE_S;
        Limits {
            meet_s: self.join_within.as_secs_f64(),
            grace_s: self.back_within.as_secs_f64(),
            alone_s: self.alone_within.map_or(alone_s, |within| within.as_secs_f64()),
            pair_s: self.pair_within.as_secs_f64(),
            gather_s: self.answer_within.as_secs_f64(),
        }
    }
}

impl SweepArgs {
    /// What a sweep of so many nodes does. Errors: a selector that matches nothing, or a preset that
    /// a sweep does not offer.
    pub fn recipe(&self, size: u32, starter: &str, simulated: bool) -> Result<Recipe, Failure> {
        if self.preset == PresetName::Reports {
            return Err(Failure::usage(
                "a sweep has no preset `reports`: type quick, standard or thorough",
            ));
        }
        let pair_selectors = match self.pairs.is_empty() {
            true => PAIR_SELECTORS.map(str::to_owned).to_vec(),
            false => self.pairs.clone(),
        };
        for selectors in [&self.selectors, &pair_selectors] {
            Selection::parse(selectors, FAMILIES).map_err(usage)?;
        }
        let preset = Preset::from(self.preset).name().to_owned();
        let limits = self.waits.limits(&preset);
        let steps = steps(size, self.all_pairs, self.steps);
        let header = Header {
            format: FLEET_FORMAT,
            id: format!("sweep-{}", run_name()),
            started: now(),
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            size,
            preset,
            selectors: self.selectors.clone(),
            pair_selectors,
            steps,
            loads: loads(size, steps, [self.bisection, self.incast, self.outcast]),
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            starter: starter.to_owned(),
            simulated,
        };
        Ok(Recipe { header, limits })
    }

    /// The same options, for a node that is started elsewhere.
    pub fn arguments(&self) -> Vec<String> {
        let waits = &self.waits;
        let preset = Preset::from(self.preset).name().to_owned();
        let time = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        let options = [
            ("--preset", Some(preset)),
            ("--steps", self.steps.map(|steps| steps.to_string())),
            ("--bisection", self.bisection.map(|steps| steps.to_string())),
            ("--incast", self.incast.map(|steps| steps.to_string())),
            ("--outcast", self.outcast.map(|steps| steps.to_string())),
            ("--seed", self.seed.map(|seed| seed.to_string())),
            ("--join-within", Some(time(waits.join_within))),
            ("--back-within", Some(time(waits.back_within))),
            ("--alone-within", waits.alone_within.map(time)),
            ("--pair-within", Some(time(waits.pair_within))),
            ("--answer-within", Some(time(waits.answer_within))),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let pairs = self.pairs.iter().map(|pair| ("--pair", pair.clone()));
        let mut words: Vec<String> =
            options.chain(pairs).flat_map(|(name, value)| [name.to_owned(), value]).collect();
        words.extend(self.all_pairs.then(|| "--all-pairs".to_owned()));
        words.extend(self.selectors.iter().cloned());
        words
    }
}
