//! `perf bench` (linux-perf): the kernel's own small measurements.

use crate::crosscheck::{Conditions, Goal, Ours, Output, Pairing, Rival, Row, Statistic, Theirs};
use crate::experiment::Preset;
use record::key::CaseId;
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub(crate) static RIVAL: Rival = Rival {
    name: "perf",
    about: "perf bench: system calls, hand-overs by pipe, copies of memory",
    package: Some("linux-perf"),
    programs: &["perf"],
    version_args: &["--version"],
    version: |said| Some(said.stdout.trim().strip_prefix("perf version ")?.to_owned()),
    oldest: None,
    pairings,
    parse,
};

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    vec![syscall(conditions)]
}

/// `syscall basic` calls getppid.
fn syscall(conditions: &Conditions) -> Pairing {
    let cpus = vec![conditions.cpus[0]];
    let loops = (conditions.seconds * 5e6) as u64;
    Pairing {
        name: "syscall-basic".to_owned(),
        ours: Ours {
            experiment: "os.syscall",
            set: vec![("call", "getppid".to_owned())],
            cpus: cpus.clone(),
            dir: None,
            budget: Duration::from_secs(5),
            preset: Preset::Quick,
        },
        theirs: Theirs {
            program: "perf",
            args: ["bench", "syscall", "basic", "-l"]
                .map(str::to_owned)
                .into_iter()
                .chain([loops.to_string()])
                .collect(),
            cpus,
            limit: Duration::from_secs(60),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new().with("call", "getppid"),
            metric: "latency",
            statistic: Statistic::Value,
            times: 1.0,
            unit: Unit::Ns,
            what: "usecs/op".to_owned(),
            goal: Goal::Agree,
            difference: "perf calls through the C library in a counted loop and takes the mean of one run, \
                         interrupts included",
        }],
        skip: None,
        is_once: false,
    }
}

fn parse(said: &Output, _what: &str) -> Result<f64, String> {
    let line = said
        .stdout
        .lines()
        .find(|line| line.trim_end().ends_with("usecs/op"));
    let word = line.and_then(|line| line.split_whitespace().next());
    let us: f64 = word
        .and_then(|word| word.parse().ok())
        .ok_or("no line ends in usecs/op")?;
    Ok(us * 1e3)
}
