//! What `plan` and `run` share: from options to what a sweep does.

use crate::cmd::choice::PresetName;
use crate::cmd::{Failure, time, usage};
use bench::experiment::Preset;
use catalogue::FAMILIES;
use fleet::matchings::all_steps;
use fleet::schedule::Recipe;
use session::select::Selection;
use std::time::Duration;

/// What a pair measures between two hosts where nothing else is asked for: round trips, and the rate
/// of the path. (Datagrams are limited by the sender's CPU, which each node measures by itself.)
const PAIR_SELECTORS: [&str; 2] =
    ["net.rtt:far=peer", "net.bandwidth:far=peer,protocol=tcp,transfer=steady"];
/// Time for what a node measures by itself, in seconds: a preset's, and a third of it and half a minute
/// for machines that need longer than the one it was set on.
const ALONE_MORE: f64 = 1.34;
const ALONE_MORE_S: f64 = 30.0;

/// What a sweep measures, and how long it takes. All nodes must be given the same.
#[derive(clap::Args, Clone)]
pub struct SweepArgs {
    /// What each node measures alone: selectors as of `plumb run` [default: all]
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// How much each node measures alone
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    pub preset: PresetName,
    /// What pairs of nodes measure, each in a window of its own; may be repeated [default:
    /// net.rtt:far=peer and net.bandwidth:far=peer,protocol=tcp,transfer=steady]
    #[arg(long = "pair", value_name = "SELECTOR")]
    pairs: Vec<String>,
    /// Number of matchings of the pairs [default: 2 log2(N), rounded up]
    #[arg(long, value_name = "K")]
    steps: Option<u32>,
    /// Measure every pair of nodes: N - 1 matchings
    #[arg(long, conflicts_with = "steps")]
    all_pairs: bool,
    /// Slots that measure a matching of two random halves [default: 2, from four nodes on]
    #[arg(long, value_name = "K")]
    bisection: Option<u32>,
    /// Slots in which four nodes send to one, another one in each [default: 2, from four nodes on]
    #[arg(long, value_name = "K")]
    incast: Option<u32>,
    /// Slots in which one node sends to four, another one in each [default: 2, from four nodes on]
    #[arg(long, value_name = "K")]
    outcast: Option<u32>,
    /// Seed of the matchings
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time for what each node measures alone [default: the preset's, a third more, and 30s]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    alone: Option<Duration>,
    /// Length of a slot: in its first quarter the partners meet
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "16s")]
    slot: Duration,
}

impl SweepArgs {
    /// What a sweep does. Errors: a selector that matches nothing, a preset that a sweep does not
    /// offer, or a slot that is too short.
    pub fn recipe(&self) -> Result<Recipe, Failure> {
        if self.preset == PresetName::Reports {
            return Err(Failure::usage(
                "a sweep has no preset `reports`: type quick, standard or thorough",
            ));
        }
        if self.slot < Duration::from_secs(2) {
            return Err(Failure::usage("a slot has at least two seconds: correct --slot"));
        }
        let pair_selectors = match self.pairs.is_empty() {
            true => PAIR_SELECTORS.map(str::to_owned).to_vec(),
            false => self.pairs.clone(),
        };
        for selectors in [&self.selectors, &pair_selectors] {
            Selection::parse(selectors, FAMILIES).map_err(usage)?;
        }
        let preset = Preset::from(self.preset);
        let usual = session::plan::default_budget(preset).as_secs_f64();
        let alone_s =
            self.alone.map_or(ALONE_MORE * usual + ALONE_MORE_S, |alone| alone.as_secs_f64());
        Ok(Recipe {
            preset: preset.name().to_owned(),
            selectors: self.selectors.clone(),
            pair_selectors,
            seed: self.seed,
            steps: if self.all_pairs {
                Some(all_steps(fleet::place::SIZE_MAX))
            } else {
                self.steps
            },
            loads: [self.bisection, self.incast, self.outcast],
            alone_s: alone_s.round(),
            slot_s: self.slot.as_secs_f64(),
        })
    }
}
