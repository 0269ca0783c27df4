//! The textfile of a watch: the last figures of every experiment, how old they are, what the watch
//! takes, and what has changed. The same families and labels as of a run's figures.

use super::{Families, MACHINE, add_values, label};
use analysis::watch::{Change, Effect};
use record::key::Key;
use record::unit::Unit;

/// What the textfile says.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Identity of the machine.
    pub machine: String,
    /// Version of plumb.
    pub version: String,
    /// Time of writing, in seconds since 1970.
    pub now_s: f64,
    /// CPU time that may be used per time, and that was used since the first start.
    pub share: f64,
    /// See `share`; `None` in the first instant.
    pub used_share: Option<f64>,
    /// CPU time used since the first start, in seconds.
    pub used_s: f64,
    /// Time that a rotation takes, in seconds.
    pub rotation_s: f64,
    /// Rotations that are complete.
    pub rotations: u64,
    /// The experiments.
    pub parts: Vec<PartState>,
    /// Their last figures.
    pub readings: Vec<Reading>,
    /// Changes that still hold.
    pub changes: Vec<Change>,
}

/// An experiment of the rotation.
#[derive(Clone, Debug, Default)]
pub struct PartState {
    /// Its id.
    pub experiment: String,
    /// When it was last measured, in seconds since 1970.
    pub measured_s: Option<f64>,
    /// CPU time that it takes, in seconds.
    pub cpu_s: Option<f64>,
    /// Measurements that failed since.
    pub failures: u64,
    /// Whether the share suffices for it.
    pub fits: bool,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What it is of.
    pub key: Key,
    /// Unit of its value.
    pub unit: Unit,
    /// What the metric is, for a reader.
    pub doc: String,
    /// Its value, in the unit.
    pub value: f64,
    /// Its interval.
    pub ci: Option<(f64, f64)>,
}

/// The text, ending in `# EOF`.
pub fn render(watched: &Watched) -> String {
    let mut families = Families::of(vec![label(MACHINE, &watched.machine)]);
    about_the_watch(&mut families, watched);
    for part in &watched.parts {
        about_a_part(&mut families, part, watched.now_s);
    }
    for Reading { key, unit, doc, value, ci } in &watched.readings {
        add_values(&mut families, key, *unit, doc, (Some(*value), *ci));
    }
    for change in watched.changes.iter().filter(|change| change.holds) {
        about_a_change(&mut families, change);
    }
    families.text()
}

fn about_the_watch(families: &mut Families, watched: &Watched) {
    let version = [label("version", &watched.version)];
    let what = "Version of plumb that watches: always 1, the version is a label";
    families.add("plumb_watch_info", "", what, &version, 1.0);
    let holding = watched.changes.iter().filter(|change| change.holds).count() as f64;
    for (stem, unit, help, value) in [
        (
            "plumb_watch_written_timestamp",
            "seconds",
            "When this file was written, in seconds since 1970",
            Some(watched.now_s),
        ),
        (
            "plumb_watch_share_limit",
            "ratio",
            "CPU time that the watch may use, per time; 1 is one CPU",
            Some(watched.share),
        ),
        (
            "plumb_watch_share_used",
            "ratio",
            "CPU time that the watch has used, its measurements included, per time since its first start",
            watched.used_share,
        ),
        (
            "plumb_watch_cpu",
            "seconds",
            "CPU time that the watch has used since its first start",
            Some(watched.used_s),
        ),
        (
            "plumb_watch_rotation",
            "seconds",
            "Time until every experiment has been measured once",
            Some(watched.rotation_s),
        ),
        ("plumb_watch_rotations", "", "Complete rotations", Some(watched.rotations as f64)),
        (
            "plumb_watch_changes",
            "",
            "Figures whose level has changed against their own history",
            Some(holding),
        ),
    ] {
        families.add(stem, unit, help, &[], value);
    }
}

fn about_a_part(families: &mut Families, part: &PartState, now_s: f64) {
    let labels = [label("experiment", &part.experiment)];
    let age = part.measured_s.map(|measured| (now_s - measured).max(0.0));
    for (stem, unit, help, value) in [
        (
            "plumb_watch_measured_timestamp",
            "seconds",
            "When the figures of an experiment were measured, in seconds since 1970",
            part.measured_s,
        ),
        (
            "plumb_watch_age",
            "seconds",
            "Age of the figures of an experiment when this file was written",
            age,
        ),
        (
            "plumb_watch_experiment_cpu",
            "seconds",
            "CPU time that one measurement of an experiment takes",
            part.cpu_s,
        ),
        (
            "plumb_watch_failures",
            "",
            "Measurements of an experiment that failed since its last complete one",
            Some(part.failures as f64),
        ),
        (
            "plumb_watch_fits",
            "",
            "1 if the share of CPU time suffices for an experiment, 0 if it is not measured",
            Some(f64::from(u8::from(part.fits))),
        ),
    ] {
        families.add(stem, unit, help, &labels, value);
    }
}

fn about_a_change(families: &mut Families, change: &Change) {
    let effect = match change.effect() {
        Effect::Worse => "worse",
        Effect::Better => "better",
        Effect::Neither => "changed",
    };
    let labels = [
        label("experiment", &change.key.experiment),
        label("case", &change.key.case.to_string()),
        label("metric", &change.key.metric),
        label("effect", effect),
    ];
    let help = "New level of a figure over its old one";
    families.add("plumb_watch_change", "ratio", help, &labels, change.ratio());
    let help = "When the new level of a figure began, in seconds since 1970";
    let since = super::seconds_since_1970(&change.since);
    families.add("plumb_watch_change_timestamp", "seconds", help, &labels, since);
}

#[cfg(test)]
mod tests {
    use super::super::strict::read;
    use super::{PartState, Reading, Watched, render};
    use crate::watch::tests::change;
    use record::unit::Unit;

    fn watched() -> Watched {
        let part = |experiment: &str, measured_s| PartState {
            experiment: experiment.to_owned(),
            measured_s,
            fits: true,
            ..PartState::default()
        };
        Watched {
            machine: "abc".to_owned(),
            now_s: 5000.0,
            parts: vec![part("os.syscall", Some(1400.0)), part("clock.read", None)],
            readings: vec![Reading {
                key: change("getpid", true).key,
                unit: Unit::Ns,
                doc: "Time of a \"call\"".to_owned(),
                value: 81.0,
                ci: Some((80.0, f64::NAN)),
            }],
            changes: vec![change("getpid", true), change("read", false)],
            ..Watched::default()
        }
    }

    #[test]
    fn every_figure_is_there_with_its_age_and_what_changed() {
        let families = read(&render(&watched())).expect("both formats");
        let only = |name: &str| {
            let samples = &families[name].samples;
            assert_eq!(samples.len(), 1, "{name}");
            samples[0].clone()
        };
        assert!((only("plumb_os_syscall_latency_seconds").1 - 81e-9).abs() < 1e-15);
        assert!(!families.contains_key("plumb_os_syscall_latency_high_seconds"));
        let (labels, age) = only("plumb_watch_age_seconds");
        assert_eq!((labels["experiment"].as_str(), age), ("os.syscall", 3600.0));
        assert_eq!(only("plumb_watch_measured_timestamp_seconds").1, 1400.0);
        assert_eq!(families["plumb_watch_fits"].samples.len(), 2);
        let (labels, ratio) = only("plumb_watch_change_ratio");
        assert_eq!((labels["effect"].as_str(), ratio), ("worse", 1.25));
        assert_eq!(only("plumb_watch_changes").1, 1.0);
        assert_eq!(only("plumb_watch_change_timestamp_seconds").1, 1_795_579_200.0);
    }

    #[test]
    fn a_watch_that_has_measured_nothing_has_a_file_too() {
        let families = read(&render(&Watched::default())).expect("both formats");
        assert!(families.contains_key("plumb_watch_written_timestamp_seconds"));
        assert!(!families.contains_key("plumb_watch_share_used_ratio"));
    }
}
