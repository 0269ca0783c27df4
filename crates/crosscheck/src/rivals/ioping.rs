//! ioping: the latency of one request after another.

use crate::sides::case_of;
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic};
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("ioping", &["ioping"], pairings, parse)
    .about("how long a read of 4 KiB takes")
    .package("ioping")
    .version(&["-v"], |said| Some(said.stdout.trim().strip_prefix("ioping ")?.to_owned()))
    // The first whose raw statistics have ten numbers.
    .oldest("1.0");

/// Both read blocks of 4 KiB anywhere in so much: as much as plumb brings into the page cache.
const BYTES: u64 = 16 << 20;
/// Length of each of plumb's six rounds; of ioping's one as much as of all of them.
const ROUND_MS: u64 = 225;
const REHEARSED_MS: u64 = 50;
/// Numbers of its raw statistics, and which of them is the mean, in ns.
const NUMBERS: usize = 10;
const MEAN: usize = 5;

const DIFFERENCE: &str = "ioping times one window, plumb six; ioping omits its first request and \
    reads the kernel's clock, plumb reads the counter. Between requests ioping picks the next \
    offset and updates its statistics, so the device idles longer before each";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let modes: &[_] = if conditions.is_whole() { &["direct", "cached"] } else { &["direct"] };
    modes.iter().map(|mode| pairing(conditions, mode)).collect()
}

fn pairing(conditions: &Conditions, mode: &str) -> Pairing {
    let (round_ms, rounds) = conditions.rehearsed((REHEARSED_MS, 1), (ROUND_MS, 6));
    let option = if mode == "direct" { "-D" } else { "-C" };
    let seconds = format!("{}", (rounds * round_ms) as f64 / 1e3);
    let [bytes, window] = [BYTES.to_string(), format!("{round_ms}ms")];
    // Of a directory it makes a file of its own in it, writes it whole and syncs it.
    let files = conditions.files.clone().unwrap_or_default().display().to_string();
    let words = ["-q", "-B", "-i", "0", "-w", &seconds, "-s", "4k", "-S", &bytes, option, &files];
    let set = format!(
        "op=read pattern=random mode={mode} block=4096 engine=psync depth=1 threads=1 size={bytes} window={window}"
    );
    let row = Row {
        case: case_of(&set, 6),
        statistic: Statistic::MeanOfAll,
        goal: Goal::AtMost,
        ..Row::new("latency", Unit::Ns, "mean", DIFFERENCE)
    };
    let ours = conditions.ours_in_files("fs.io", &set).within(30);
    let theirs = conditions.theirs("ioping", &words);
    Pairing::new(format!("{mode}-read-4k"), ours, theirs, [row]).unless(conditions.no_files())
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
