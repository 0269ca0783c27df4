//! The promises of the fleet's model on drawn fleets, as tables in Markdown.
//!
//! `simulate SEED NOISE SIZE=TRIALS[@QUESTION] …`: so many sweeps of each question (or of one) for
//! each size, the first with this seed. NOISE is a file of recorded rounds.
#![expect(clippy::print_stdout, reason = "it prints tables")]

mod fleet;
mod trial;

use self::fleet::Noise;
use std::time::Instant;
use trial::{Answer, Question, trial, wilson};

/// What is asked, in the order of the table.
const QUESTIONS: [Question; 6] = [
    Question::Healthy,
    Question::SlowNode,
    Question::SlowFound,
    Question::Promised,
    Question::HalfLink,
    Question::BadNode,
];

const HEAD: &str = "| nodes | question | sweeps | yes | share | 95 % interval | seen | found of these \
                    | suspects left open | figures again | pairs again | turns | s a sweep |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|---|";
/// Ends of the groups by what is promised, in percent more time.
const PROMISED: [f64; 6] = [8.0, 9.0, 10.0, 12.0, 20.0, f64::INFINITY];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seed: u64 = arguments.next().and_then(|seed| seed.parse().ok()).expect("a seed");
    let noise = arguments.next().expect("a file of noise");
    let noise = Noise::of(&std::fs::read_to_string(noise).expect("it can be read"));
    println!("{HEAD}");
    let (mut slow, mut promised): (Vec<Answer>, Vec<Answer>) = (Vec::new(), Vec::new());
    for argument in arguments {
        let (size, trials) = argument.split_once('=').expect("SIZE=TRIALS");
        let size: u32 = size.parse().expect("a number of nodes");
        let (trials, only) = trials.split_once('@').unwrap_or((trials, ""));
        let trials: u64 = trials.parse().expect("a number of sweeps");
        let is_asked = |of: &Question| only.is_empty() || format!("{of:?}") == only;
        for question in QUESTIONS.into_iter().filter(is_asked) {
            let began = Instant::now();
            let answers: Vec<Answer> =
                (0..trials).map(|at| trial(question, &noise, size, seed + at)).collect();
            line(size, question, &answers, began.elapsed().as_secs_f64());
            let of_figures = answers.iter().filter(|answer| answer.figure.is_some());
            match question {
                Question::Promised => promised.extend(of_figures),
                _ => slow.extend(of_figures),
            }
        }
    }
    figures(&noise, &slow);
    promises(&promised);
}

/// Where a node was as slow as the model promised to find: how often it was found.
fn promises(all: &[Answer]) {
    println!("\n| promised from | sweeps | found | share | 95 % interval |\n|---|---|---|---|---|");
    let mut from = 0.0;
    for to in PROMISED {
        let percent = |answer: &Answer| Some(100.0 * (answer.figure?.1? - 1.0));
        let is_in = |answer: &&Answer| percent(answer).is_some_and(|of| from < of && of <= to);
        let own: Vec<&Answer> = all.iter().filter(is_in).collect();
        let found = own.iter().filter(|answer| answer.happened).count();
        if !own.is_empty() {
            let (low, high) = wilson(found, own.len());
            let share = 100.0 * found as f64 / own.len() as f64;
            let interval = format!("{:.1} to {:.1} %", 100.0 * low, 100.0 * high);
            println!("| {from} to {to} % | {} | {found} | {share:.1} % | {interval} |", own.len());
        }
        from = to;
    }
}

fn line(size: u32, question: Question, answers: &[Answer], wall_s: f64) {
    let hits = answers.iter().filter(|answer| answer.happened).count();
    let (low, high) = wilson(hits, answers.len());
    let count = answers.len() as f64;
    let seen = answers.iter().filter(|answer| !answer.is_named);
    let found = seen.clone().filter(|answer| answer.happened).count();
    let seen = seen.count();
    let found = match question {
        Question::Healthy | Question::BadNode | Question::Promised => String::new(),
        _ => {
            let (low, high) = wilson(found, seen.max(1));
            let share = 100.0 * found as f64 / seen.max(1) as f64;
            format!("{share:.2} %, {:.2} to {:.2} %", 100.0 * low, 100.0 * high)
        }
    };
    let mean = |of: fn(&Answer) -> usize| answers.iter().map(of).sum::<usize>() as f64 / count;
    println!(
        "| {size} | {question:?} | {count} | {hits} | {:.2} % | {:.2} to {:.2} % | {seen} | {found} | {:.2} + {:.2} + {:.2} | {:.0} | {:.0} | {:.0} | {:.2} |",
        100.0 * hits as f64 / count,
        100.0 * low,
        100.0 * high,
        mean(|answer| answer.open[0]),
        mean(|answer| answer.open[1]),
        mean(|answer| answer.open[2]),
        mean(|answer| answer.repeated[0]),
        mean(|answer| answer.repeated[1]),
        mean(|answer| answer.repeated[2]),
        wall_s / count,
    );
}

/// Where a node was 10 % slower: how often it was found, figure by figure.
fn figures(noise: &[Noise], slow: &[Answer]) {
    println!("\n| figure | sweeps | found | the model promises to find |\n|---|---|---|---|");
    for (at, of) in noise.iter().enumerate() {
        let own = || slow.iter().filter(|answer| answer.figure.is_some_and(|of| of.0 == at));
        let found = own().filter(|answer| answer.happened).count();
        let mut factors: Vec<f64> = own().filter_map(|answer| answer.figure?.1).collect();
        factors.sort_by(f64::total_cmp);
        if let Some(factor) = factors.get(factors.len() / 2) {
            let percent = 100.0 * (1.0 - 1.0 / factor);
            println!(
                "| {} | {} | {found} | {percent:.0} % slower |",
                of.key.experiment,
                own().count()
            );
        }
    }
}
