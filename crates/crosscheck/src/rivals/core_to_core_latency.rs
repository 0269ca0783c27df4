//! nviennot/core-to-core-latency: a cache line handed over between CPUs by compare and swap. It is
//! in no distribution (`cargo install core-to-core-latency`), and only its options tell its
//! version.

use crate::{Conditions, Goal, Ours, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::Skip;
use record::key::{CaseId, Value};
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "core-to-core-latency",
    about: "a cache line handed over between CPUs by compare and swap",
    package: None,
    programs: &["core-to-core-latency"],
    version_args: &["--help"],
    // Its options tell: what plumb asks for came with 1.1.
    version: |said| {
        let is_help = said.stdout.contains("--csv");
        let version = match said.stdout.contains("--bench") {
            true => "1.1+",
            false => "1.0",
        };
        is_help.then(|| version.to_owned())
    },
    oldest: Some("1.1"),
    pairings,
    parse,
};

/// Round trips of a sample: the tool's own number.
const ROUND_TRIPS: u64 = 1000;
/// A round trip takes about so long: samples are chosen by that.
const ROUND_TRIP_S: f64 = 300e-9;

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    vec![hand_over(conditions)]
}

fn hand_over(conditions: &Conditions) -> Pairing {
    let cpus: Vec<usize> = conditions.cpus.iter().copied().take(2).collect();
    let [from, to] = [cpus[0], *cpus.last().unwrap_or(&0)];
    let samples = (conditions.seconds / (ROUND_TRIPS as f64 * ROUND_TRIP_S)).ceil() as u64;
    Pairing {
        name: "compare-and-swap".to_owned(),
        ours: Ours {
            experiment: "cpu.core_to_core",
            set: vec![("from", from.to_string()), ("to", to.to_string())],
            cpus: cpus.clone(),
            dir: None,
            budget: Duration::from_secs(5),
            preset: conditions.lengths(),
        },
        theirs: Theirs {
            program: "core-to-core-latency",
            args: vec![
                ROUND_TRIPS.to_string(),
                samples.to_string(),
                "--csv".to_owned(),
                "--bench".to_owned(),
                "1".to_owned(),
                "--cores".to_owned(),
                // Of a pair it takes the second as the one that measures.
                format!("{to},{from}"),
            ],
            cpus,
            limit: Duration::from_secs(60),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: CaseId::new()
                .with("from", Value::Int(from as u64))
                .with("to", Value::Int(to as u64)),
            metric: "transfer",
            statistic: Statistic::Value,
            times: 1.0,
            unit: Unit::Ns,
            what: "ns a transfer".to_owned(),
            goal: Goal::Agree,
            difference: "Both print half a round trip of compare and swap, tried without pause. core-to-core-latency \
                         has one flag on its main thread's stack, so all depends on the home of that one line, \
                         and prints a mean with all interruptions; plumb takes lines on eight pages a round, and \
                         a median, because one interruption in a difference of two batches moves a mean either way.",
        }],
        skip: (conditions.cpus.len() < 2).then(|| {
            Skip::because("there is one CPU: nobody to hand a line to")
                .needs("a second CPU, named by --cpu")
        }),
        is_once: false,
    }
}

/// The matrix on standard output: a line for each CPU, cells separated by commas, those on and
/// above the diagonal empty. Of two CPUs it has one value, the first of the second line.
fn parse(said: &Output, _what: &str) -> Result<f64, String> {
    let rows: Vec<Vec<&str>> = said.stdout.lines().map(|line| line.split(',').collect()).collect();
    let [first, second] = rows.as_slice() else {
        return Err(format!("a matrix of {} lines for two CPUs", rows.len()));
    };
    if *first != ["", ""] || second.len() != 2 || !second[1].is_empty() {
        return Err("a matrix that is not the lower half of two by two".to_owned());
    }
    let value: f64 = second[0].parse().map_err(|_| format!("`{}` is no number", second[0]))?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(format!("a transfer of {value} ns")),
    }
}

#[cfg(test)]
mod tests;
