//! What `run` and `plan` share: from arguments to a plan.

use crate::cmd::{BUILD, Failure, output, usage};
use crate::published;
use bench::experiment::Preset;
use catalogue::FAMILIES;
use record::event::{Options, REPORTS};
use record::quantity::decimal_sizes;
use session::machine::Machine;
use session::params::Settings;
use session::plan::default_budget;
use session::select::Selection;
use session::setup::{BUDGET_MAX, Setup, Wanted};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to measure, and how long.
#[derive(clap::Args, Clone)]
pub struct Choice {
    /// What to measure: families (memory), experiments (os.syscall), globs ('fs.*'), some cases of
    /// one (memory.latency:footprint=32KiB..1MiB), all but one ('!net'), or the cases of a published
    /// report (published/r1) or of one of its tables (published/r1:XV) [default: all]
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// How much to measure
    #[arg(long, value_enum, default_value_t = PresetName::Standard)]
    pub preset: PresetName,
    /// Longest measuring time, for example 90s or 10m [default: 1m, 6m or 1h, by preset]
    #[arg(long, value_name = "DURATION", value_parser = budget)]
    pub budget: Option<Duration>,
    /// Stop measuring a figure when its interval is this narrow: half its width, in percent of the
    /// figure
    #[arg(long, value_name = "PCT", default_value = "2", value_parser = percent)]
    pub precision: f64,
    /// Seed of all random orders [default: from the clock]
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,
    /// Set a parameter of a selected experiment (ID.PARAM=V1,V2), or state a fact of the machine
    /// from its data sheet (host.cpu.max_hz=4.2GHz); may be repeated. LOW..HIGH is a range: numbers
    /// go up by one, sizes in bytes double, and LOW..HIGH/STEP goes up by a step. `plumb explain ID`
    /// lists the parameters of an experiment, what they take, and their defaults in each preset
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// CPUs to measure on, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Directory for the files that experiments write and remove; together they use at most 90 % of
    /// its free space [default: the current directory, with at most 2 GiB and 5 % of its free space]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Another host for the network experiments: ssh://[USER@]HOST[:PORT], tcp://HOST:PORT (a
    /// listening agent; needs --key-file), or exec:COMMAND (a command that starts `plumb agent`
    /// there); may be repeated, with a name for each
    #[arg(long, value_name = "[NAME=]URL")]
    pub peer: Vec<String>,
    /// Key file that this host shares with listening agents (`plumb agent --new-key FILE` makes one)
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Plan for a recorded machine (a directory with proc/ and sys/, or tree.txt) instead of this
    /// one
    #[arg(long, value_name = "DIR", hide = true)]
    pub host_tree: Option<PathBuf>,
}

/// The presets on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetName {
    /// One round of the least: proves the way, its figures mean nothing
    #[value(hide = true)]
    Rehearsal,
    /// About a minute
    Quick,
    /// About six minutes
    Standard,
    /// About 90 minutes: all cases, and narrower intervals
    Thorough,
    /// At most 30 minutes: the cases of the published reports, or the nearest; selectors add cases,
    /// or with `!` leave some out. The selector `published/r1` chooses the cases of one report, with
    /// this preset
    Reports,
}

/// Measuring time of the published reports' cases at most.
const REPORTS_BUDGET: Duration = Duration::from_secs(1800);

impl PresetName {
    fn budget(self) -> Duration {
        match self {
            PresetName::Reports => REPORTS_BUDGET,
            name => default_budget(name.into()),
        }
    }
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Self {
        match name {
            PresetName::Rehearsal => Preset::Rehearsal,
            PresetName::Quick => Preset::Quick,
            PresetName::Standard => Preset::Standard,
            PresetName::Thorough | PresetName::Reports => Preset::Thorough,
        }
    }
}

/// The narrowest goal, in percent, which no figure of a run reaches.
pub const PRECISION_MIN: f64 = 0.01;

pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if (PRECISION_MIN..=100.0).contains(&value) => Ok(value),
        _ => Err("type a percentage from 0.01 to 100, for example 2".to_owned()),
    }
}

const BUDGETS: &str = "type a duration above 0s and up to 30days, for example 90s or 10m";

pub fn budget(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(budget) if budget > Duration::ZERO && budget <= BUDGET_MAX => Ok(budget),
        Ok(_) => Err(BUDGETS.to_owned()),
        Err(error) => Err(format!("{error}: {BUDGETS}")),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "type a whole number from 0 to 18446744073709551615".to_owned())
}

impl Choice {
    /// Of selectors and a preset, with nothing else chosen.
    pub fn from_selectors(selectors: Vec<String>, preset: PresetName) -> Choice {
        Choice {
            selectors,
            preset,
            budget: None,
            precision: 2.0,
            seed: None,
            set: Vec::new(),
            cpu: None,
            dir: None,
            peer: Vec::new(),
            key_file: None,
            host_tree: None,
        }
    }

    fn names_published(&self) -> bool {
        self.selectors.iter().any(|text| text.starts_with(published::PREFIX))
    }

    /// The chosen preset. Where cases of the published reports are selected by name, the default is
    /// the preset `reports`.
    pub fn preset(&self) -> PresetName {
        match self.preset {
            PresetName::Standard if self.names_published() => PresetName::Reports,
            chosen => chosen,
        }
    }

    /// As it stands in the record.
    /// Errors: a published machine or table that is unknown.
    fn options(&self) -> Result<Options, Failure> {
        let (mut selectors, mut set) = (Vec::new(), Vec::new());
        if self.preset == PresetName::Reports && !self.names_published() {
            let all = published::preset();
            (selectors, set) = (all.selectors, all.settings);
        }
        for text in &self.selectors {
            if !text.starts_with(published::PREFIX) {
                selectors.push(text.clone());
                continue;
            }
            let cases = published::named(text).map_err(Failure::Usage)?;
            selectors.extend(cases.selectors);
            if self.preset() == PresetName::Reports {
                set.extend(cases.settings);
            }
        }
        set.extend_from_slice(&self.set);
        let preset = self.preset();
        Ok(Options {
            selectors,
            preset: match preset {
                PresetName::Reports => REPORTS.to_owned(),
                name => Preset::from(name).name().to_owned(),
            },
            budget_s: self.budget.unwrap_or(preset.budget()).as_secs_f64(),
            precision: self.precision / 100.0,
            set,
            cpus: self.cpu.clone(),
            peers: self.peer.clone(),
            key_file: self.key_file.as_deref().map(absolute),
            dir: self.dir.as_deref().map(absolute),
        })
    }

    /// Resolves the choice against the machine and the far ends, until `stop` is set. `name` is
    /// that of a run that is to be made, `machine` its place among the plumbs here.
    pub fn setup(
        &self,
        name: Option<String>,
        machine: Option<Machine>,
        stop: &AtomicBool,
    ) -> Result<Setup, Failure> {
        for text in self.set.iter().chain(&self.selectors) {
            for (size, bytes, binary) in decimal_sizes(text) {
                output::diagnose(&format!(
                    "plumb: {size} is decimal: {bytes} bytes; type {binary} for the binary size"
                ));
            }
        }
        let options = self.options()?;
        // Only what was typed: those of a preset, and of a record that goes on, may reach further.
        let typed = Settings::parse(&self.set, FAMILIES).map_err(usage)?;
        let selection = Selection::parse(&options.selectors, FAMILIES).map_err(usage)?;
        typed.reach(&selection, FAMILIES).map_err(usage)?;
        let wanted = Wanted {
            build: BUILD,
            catalogue: FAMILIES,
            options,
            dir: self.dir.as_deref(),
            seed: self.seed,
            name,
            then: &[],
            host_tree: self.host_tree.as_deref(),
            machine,
        };
        Ok(Setup::new(wanted, stop)?)
    }
}

/// As it stands in the record: absolute, so that a resume from another directory finds it.
fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.display().to_string()
}
