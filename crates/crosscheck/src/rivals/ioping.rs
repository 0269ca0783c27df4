//! ioping: the latency of one request after another.

use crate::{Conditions, Goal, Ours, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::Preset;
use record::key::CaseId;
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "ioping",
    about: "how long a read of 4 KiB takes",
    package: Some("ioping"),
    programs: &["ioping"],
    version_args: &["-v"],
    version: |said| Some(said.stdout.trim().strip_prefix("ioping ")?.to_owned()),
    // The first whose raw statistics have ten numbers.
    oldest: Some("1.0"),
    pairings,
    parse,
};

/// Both read blocks of 4 KiB anywhere in so much: as much as plumb brings into the page cache.
const BYTES: u64 = 16 << 20;
/// Length of each of plumb's six rounds; of ioping's one as much as of all of them.
const ROUND_MS: u64 = 225;
const REHEARSED_MS: u64 = 50;
/// Numbers of its raw statistics, and which of them is the mean, in ns.
const NUMBERS: usize = 10;
const MEAN: usize = 5;

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let cached = conditions.is_whole().then(|| pairing(conditions, "cached"));
    [Some(pairing(conditions, "direct")), cached].into_iter().flatten().collect()
}

fn pairing(conditions: &Conditions, mode: &'static str) -> Pairing {
    let cpus = vec![conditions.cpus[0]];
    let (preset, round_ms, rounds) = match conditions.preset {
        Preset::Rehearsal => (Preset::Rehearsal, REHEARSED_MS, 1),
        _ => (Preset::Quick, ROUND_MS, 6),
    };
    let option = if mode == "direct" { "-D" } else { "-C" };
    let seconds = format!("{}", (rounds * round_ms) as f64 / 1e3);
    let bytes = BYTES.to_string();
    // Of a directory it makes a file of its own in it, writes it whole and syncs it.
    let files = conditions.files.clone().unwrap_or_default().display().to_string();
    let words = ["-q", "-B", "-i", "0", "-w", &seconds, "-s", "4k", "-S", &bytes, option, &files];
    let set = [
        ("op", "read"),
        ("pattern", "random"),
        ("mode", mode),
        ("block", "4096"),
        ("engine", "psync"),
        ("depth", "1"),
        ("threads", "1"),
    ];
    let case =
        set.into_iter().take(3).fold(CaseId::new(), |case, (name, value)| case.with(name, value));
    let own = [("size", bytes.clone()), ("window", format!("{round_ms}ms"))];
    Pairing {
        name: format!("{mode}-read-4k"),
        ours: Ours {
            experiment: "fs.io",
            set: set.map(|(name, value)| (name, value.to_owned())).into_iter().chain(own).collect(),
            cpus: cpus.clone(),
            dir: conditions.files.clone(),
            budget: Duration::from_secs(30),
            preset,
        },
        theirs: Theirs {
            program: "ioping",
            args: words.map(str::to_owned).into(),
            cpus,
            limit: Duration::from_secs(60),
            ..Theirs::default()
        },
        rows: vec![Row {
            name: String::new(),
            case: case.with("block", 4096_u64).with("engine", "psync").with("depth", 1_u64),
            metric: "latency",
            statistic: Statistic::MeanOfAll,
            times: 1.0,
            unit: Unit::Ns,
            what: "mean".to_owned(),
            goal: Goal::AtMost,
            difference: "ioping times one window where plumb has six, leaves its first request out, and reads \
                         the kernel's clock where plumb reads the counter; between its requests it draws the \
                         next place and keeps its statistics, so that the device waits longer for each",
        }],
        skip: conditions.no_files(),
        is_once: false,
    }
}

/// Raw statistics (`-B`): one line of ten numbers.
fn parse(said: &Output, _what: &str) -> Result<f64, String> {
    let line = said.stdout.trim();
    let numbers: Vec<u64> = line
        .split_whitespace()
        .map(|word| word.parse().map_err(|_| format!("no number: {word}")))
        .collect::<Result<_, _>>()?;
    match numbers.as_slice() {
        all if all.len() != NUMBERS || line.contains('\n') => {
            Err(format!("{} numbers in place of one line of {NUMBERS}", all.len()))
        }
        [0, ..] => Err("no request was answered".to_owned()),
        all => Ok(all[MEAN] as f64),
    }
}

#[cfg(test)]
mod tests;
