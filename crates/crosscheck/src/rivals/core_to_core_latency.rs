//! nviennot/core-to-core-latency: a cache line handed over between CPUs by compare and swap. It is
//! in no distribution (`cargo install core-to-core-latency`), and only its options identify its
//! version.

use crate::read::positive;
use crate::{Conditions, Output, Pairing, Rival};

pub static RIVAL: Rival =
    Rival::new("core-to-core-latency", &["core-to-core-latency"], pairings, parse)
        .about("a cache line handed over between CPUs by compare and swap")
        // Its options show it: what plumb asks for came with 1.1.
        .version(&["--help"], |said| {
            let is_help = said.stdout.contains("--csv");
            let version = match said.stdout.contains("--bench") {
                true => "1.1+",
                false => "1.0",
            };
            is_help.then(|| version.to_owned())
        })
        .oldest("1.1");

/// Round trips of a sample: the tool's own number.
const ROUND_TRIPS: u64 = 1000;
/// A round trip takes about so long: samples are chosen by that.
const ROUND_TRIP_S: f64 = 300e-9;

const DIFFERENCE: &str = "Both print half a round trip of compare and swap, retried without pause. \
    core-to-core-latency uses one flag on its main thread's stack, so its result depends on the \
    home of that one line, and it prints a mean that includes interruptions. plumb uses lines on \
    eight pages a round and takes a median, because one interruption in a difference of two \
    batches moves a mean either way.";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let cpus = conditions.pair();
    let samples = (conditions.seconds / (ROUND_TRIPS as f64 * ROUND_TRIP_S)).ceil();
    let [trips, samples] = [ROUND_TRIPS.to_string(), samples.to_string()];
    // Of a pair it takes the second as the one that measures.
    let cores = format!("{},{}", cpus[cpus.len() - 1], cpus[0]);
    let args = [&trips, &samples, "--csv", "--bench", "1", "--cores", &cores];
    let (ours, row) = conditions.hand_over(&cpus, "ns a transfer", DIFFERENCE);
    let theirs = conditions.theirs("core-to-core-latency", &args).on(&cpus);
    let pairing = Pairing::new("compare-and-swap", ours, theirs, [row]);
    vec![pairing.unless(conditions.nobody_to_hand_to())]
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
    positive(second[0])
}

#[cfg(test)]
mod tests;
