//! The arguments of a watch, and those of its runs.

use crate::cmd::choice::{Choice, PresetName};
use clap::ValueEnum as _;
use session::watch::Part;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Watches this machine: measures one experiment after the other within a share of CPU time, writes
/// the figures for node_exporter, and reports when a figure changes against its own history
#[derive(clap::Args)]
#[command(after_help = "\
Each experiment is measured as `plumb run EXPERIMENT` measures it, in turn, and only when its CPU time \
has been saved: the share is CPU time per time, and 100 % is one CPU. An experiment that takes more than \
was saved is stopped, and more is saved for the next time. The turn, the saved time and the records are \
in the directory `watch` of the store, so that a new start goes on.

A change is reported on standard output and in the system's log, once, when two searches in a row have \
found it: from eight values of a figure on, after each rotation.

  plumb watch                                  half a percent of a CPU, every 10 minutes
  plumb watch os memory --share 2%             two families, in a quarter of the time
  plumb watch --textfile /var/lib/node_exporter/plumb.prom
  plumb watch --once                           one tick, for a timer (plumb-watch.timer) or cron
  PLUMB_STORE=~/.local/share/plumb/watch plumb trend os.syscall

docs/guide/watching.md has the metrics, rules for alerts, and the systemd timer.")]
pub struct Args {
    /// What to measure in turn, as for `plumb run` [default: everything but fs, which writes to a disk]
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// CPU time to use at most, as a share of one CPU, for example 0.5% or 2%
    #[arg(long, value_name = "PCT", default_value = "0.5%", value_parser = share)]
    pub(super) share: f64,
    /// Time from one tick to the next; a tick measures what the saved CPU time suffices for
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = interval)]
    pub(super) every: Duration,
    /// Write the figures as OpenMetrics to this file, whole at each tick, for the textfile collector of
    /// node_exporter; its name ends in .prom
    #[arg(long, value_name = "FILE.prom", value_parser = prom)]
    pub(super) textfile: Option<PathBuf>,
    /// Records to keep of each experiment: its history
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(8..=10_000))]
    pub(super) keep: u32,
    /// Do one tick and end
    #[arg(long)]
    pub(super) once: bool,
    /// How much to measure of each experiment: its cases
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    pub(super) preset: PresetName,
    /// Set a parameter or state a fact of the machine, as for `plumb run`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// CPUs to measure on, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Directory for the files that experiments write and remove [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print only changes and errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Experiments that are watched where no selector is typed.
const DEFAULT: &str = "!fs";
/// With this precision, in percent, every run ends at its first look: all have the same rounds, and
/// their scatter from run to run is what changes are tested against.
const ONE_LOOK: f64 = 100.0;
/// Shortest time between two ticks, and the longest.
const EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 3600)];

fn share(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("type a percentage of one CPU from 0.01% to 100%, for example 0.5%".to_owned()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(every) if (EVERY[0]..=EVERY[1]).contains(&every) => Ok(every),
        Ok(_) => Err("type a duration from 1s to 1day, for example 10m".to_owned()),
        Err(error) => Err(format!("{error}: type a duration, for example 10m")),
    }
}

fn prom(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|ending| ending == "prom") {
        true => Ok(path),
        false => Err("node_exporter reads files whose names end in .prom: type for example \
                      /var/lib/node_exporter/plumb.prom"
            .to_owned()),
    }
}

/// Whether a setting is a fact of the machine, or of an experiment.
fn is_of(set: &str, id: &str) -> bool {
    let path = set.split_once('=').map_or(set, |(path, _)| path);
    path.starts_with("host.") || path.rsplit_once('.').is_some_and(|(of, _)| of == id)
}

impl Args {
    /// What is watched.
    pub(super) fn selectors(&self) -> Vec<String> {
        match self.selectors.is_empty() {
            true => vec![DEFAULT.to_owned()],
            false => self.selectors.clone(),
        }
    }

    /// The choice of which all runs are parts.
    pub(super) fn choice(&self) -> Choice {
        Choice {
            precision: ONE_LOOK,
            set: self.set.clone(),
            cpu: self.cpu.clone(),
            dir: self.dir.clone(),
            ..Choice::of(self.selectors(), self.preset)
        }
    }

    /// The arguments of a part's run.
    pub(super) fn of_run(&self, part: &Part, out: &Path) -> Vec<OsString> {
        let preset = self.preset.to_possible_value();
        let preset = preset.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut all: Vec<OsString> = vec!["run".into()];
        all.extend(part.selectors.iter().map(Into::into));
        all.extend(["--preset".into(), preset.into()]);
        all.extend(["--precision".into(), ONE_LOOK.to_string().into()]);
        all.extend(["--quiet".into(), "--yes".into(), "--out".into(), out.into()]);
        // A run refuses settings of experiments that it leaves out.
        let own = self.set.iter().filter(|set| is_of(set, &part.id));
        all.extend(own.flat_map(|set| ["--set".into(), set.into()]));
        all.extend(self.cpu.iter().flat_map(|cpu| ["--cpu".into(), cpu.into()]));
        all.extend(self.dir.iter().flat_map(|dir| ["--dir".into(), dir.into()]));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, interval, prom, share};
    use clap::{Args as _, FromArgMatches as _};
    use session::watch::Part;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn a_run_has_the_settings_of_its_experiment_and_the_facts() {
        let [fact, own] = ["host.cpu.max_hz=4GHz", "os.timer.delay=1ms"];
        let typed = ["watch", "--set", fact, "--set", own, "--set", "fs.read.size=1MiB"];
        let command = Args::augment_args(clap::Command::new("watch"));
        let args = Args::from_arg_matches(&command.get_matches_from(typed)).expect("good");
        let of_run = args.of_run(&Part::new("os.timer", &[], 1.0), Path::new("a.jsonl"));
        let set = of_run.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1].clone());
        assert_eq!(set.collect::<Vec<_>>(), [fact, own]);
    }

    #[test]
    fn shares_times_and_files_are_checked() {
        for (text, value) in [("0.5%", 0.005), ("2", 0.02), ("100 %", 1.0)] {
            assert_eq!(share(text), Ok(value), "{text}");
        }
        for bad in ["", "0", "101%", "half", "-1%", "NaN"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        assert_eq!(interval("10m"), Ok(Duration::from_secs(600)));
        for bad in ["0s", "2days", "10", ""] {
            assert!(interval(bad).is_err(), "{bad}");
        }
        assert!(prom("/a/b.prom").is_ok() && prom("/a/").is_err() && prom("/a/b.txt").is_err());
    }
}
