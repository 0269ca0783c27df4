//! The promises of the fleet's model on drawn fleets, as a table in Markdown.
//!
//! `simulate SIZE=TRIALS …`: so many sweeps of each question for each size.
#![expect(clippy::print_stdout, reason = "it prints a table")]

mod fleet;
mod trial;

use std::time::Instant;
use trial::{Question, trial, wilson};

/// What is asked, in the order of the table.
const QUESTIONS: [Question; 5] = [
    Question::Healthy,
    Question::SlowNode,
    Question::SlowFound,
    Question::HalfLink,
    Question::BadNode,
];

fn main() {
    let noise = fleet::Noise::recorded();
    println!(
        "| nodes | question | sweeps | yes | share | 95 % interval | suspects left open | s a sweep |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for argument in std::env::args().skip(1) {
        let (size, trials) = argument.split_once('=').expect("SIZE=TRIALS");
        let size: u32 = size.parse().expect("a number of nodes");
        let trials: u32 = trials.parse().expect("a number of sweeps");
        for question in QUESTIONS {
            let began = Instant::now();
            let (mut hits, mut open) = (0, 0);
            for seed in 0..trials {
                let (happened, left) = trial(question, &noise, size, u64::from(seed) + 1);
                hits += usize::from(happened);
                open += left;
            }
            let (low, high) = wilson(hits, trials as usize);
            println!(
                "| {size} | {question:?} | {trials} | {hits} | {:.2} % | {:.2} to {:.2} % | {:.3} | {:.2} |",
                100.0 * hits as f64 / f64::from(trials),
                100.0 * low,
                100.0 * high,
                open as f64 / f64::from(trials),
                began.elapsed().as_secs_f64() / f64::from(trials),
            );
        }
    }
}
