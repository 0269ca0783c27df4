//! The promises of the fleet's model on drawn files, as a table in Markdown.
//!
//! `simulate SEED NOISE SIZE=TRIALS[@QUESTION] …`: so many sweeps of each question (or of one) for each
//! size, the first with this seed. NOISE is a file of recorded rounds. `simulate files DIR SIZE NOISE`
//! writes the files of one sweep instead, for scripts/fleet/scale.
#![expect(clippy::print_stdout, reason = "it prints tables")]

use fastrand::Rng;
use fleet::drawn::{Drawn, Fault, Noise, text};
use fleet::model::{Judgement, STEPS_MOST, State, Which, judge, suspects};
use fleet::read::{Fleet, from_lines};
use record::metric::Kind;
use std::collections::BTreeSet;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Is anyone accused in a healthy fleet?
    Healthy,
    /// Is a node found that is 10 % slower in a hardware figure, unless the figure is named?
    SlowNode,
    /// Is a path found that carries half, unless its figures are named?
    HalfLink,
    /// Does a bad node make two healthy ones suspects?
    BadNode,
}

const QUESTIONS: [Question; 4] =
    [Question::Healthy, Question::SlowNode, Question::HalfLink, Question::BadNode];

/// What came of a sweep: whether it happened, whether the figure was named as hidden, suspects that
/// stay open, and the share of hardware figures that hide a tenth.
struct Answer {
    happened: bool,
    is_named: bool,
    open: usize,
    hidden: (usize, usize),
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let noise = |file: &str| Noise::parse(&std::fs::read_to_string(file).expect("a file of noise"));
    if arguments[0] == "files" {
        let size = arguments[2].parse().expect("a number of nodes");
        let mut drawn = Drawn::new(&noise(&arguments[3]), size, Fault::Figure(size / 2, 0, 0.3), 1);
        for (host, lines) in drawn.sweep() {
            let path = std::path::Path::new(&arguments[1]).join(format!("{host}.jsonl"));
            std::fs::write(path, text(&lines)).expect("it can be written");
        }
        return;
    }
    let seed: u64 = arguments[0].parse().expect("a seed");
    let noise = noise(&arguments[1]);
    println!(
        "| nodes | question | sweeps | yes | of these named as hidden | not named: found | open suspects | hardware figures that hide 10 % | s a sweep |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for argument in &arguments[2..] {
        let (size, trials) = argument.split_once('=').expect("SIZE=TRIALS");
        let (trials, only) = trials.split_once('@').unwrap_or((trials, ""));
        let size: usize = size.parse().expect("a number of nodes");
        let trials: u64 = trials.parse().expect("a number of sweeps");
        for question in QUESTIONS {
            if only.is_empty() || format!("{question:?}") == only {
                row(question, &noise, size, trials, seed);
            }
        }
    }
}

fn row(question: Question, noise: &[Noise], size: usize, trials: u64, seed: u64) {
    let began = Instant::now();
    let answers: Vec<Answer> =
        (0..trials).map(|at| trial(question, noise, size, seed + at)).collect();
    let count = |is: &dyn Fn(&Answer) -> bool| answers.iter().filter(|answer| is(answer)).count();
    let unnamed = count(&|answer| !answer.is_named);
    let found = count(&|answer| answer.happened && !answer.is_named);
    let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
    println!(
        "| {size} | {question:?} | {trials} | {} | {} | {found} of {unnamed} ({:.1} %) | {} | {:.1} % | {:.2} |",
        count(&|answer| answer.happened),
        count(&|answer| answer.is_named),
        share(found, unnamed),
        answers.iter().map(|answer| answer.open).sum::<usize>(),
        share(
            answers.iter().map(|answer| answer.hidden.0).sum(),
            answers.iter().map(|answer| answer.hidden.1).sum()
        ),
        began.elapsed().as_secs_f64() / trials as f64,
    );
}

fn trial(question: Question, noise: &[Noise], size: usize, seed: u64) -> Answer {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let bad = rng.usize(..size);
    let hardware: Vec<usize> =
        (0..noise.len()).filter(|at| noise[*at].kind == Some(Kind::Hardware)).collect();
    let figure = hardware[rng.usize(..hardware.len())];
    let mut drawn = Drawn::new(noise, size, Fault::None, seed);
    let fault = match question {
        Question::Healthy => Fault::None,
        Question::SlowNode => Fault::Figure(bad, figure, -0.9_f64.ln()),
        Question::HalfLink => {
            let pairs: Vec<_> =
                drawn.recipe.slots(&drawn.list).into_iter().flat_map(|slot| slot.pairs).collect();
            let (from, to) = pairs[rng.usize(..pairs.len())];
            Fault::Link(from as usize, to as usize, 2.0_f64.ln())
        }
        Question::BadNode => Fault::Node(bad, 0.5),
    };
    drawn.faults = vec![fault];
    let mut files = drawn.sweep();
    let mut fleet = from_lines(files.clone());
    let mut judgement = judge(&fleet);
    for _ in 0..STEPS_MOST {
        let again = suspects(&fleet, &judgement);
        if again.hosts().is_empty() {
            break;
        }
        files.extend(drawn.again(&again));
        fleet = from_lines(files.clone());
        judgement = judge(&fleet);
    }
    answer(fault, noise, &fleet, &judgement)
}

fn answer(fault: Fault, noise: &[Noise], fleet: &Fleet, judgement: &Judgement) -> Answer {
    let accused: BTreeSet<Which> =
        judgement.in_state(State::Accused).map(|verdict| verdict.which).collect();
    let nodes = |state: State| -> BTreeSet<usize> {
        let ends = judgement.in_state(state).flat_map(|verdict| match verdict.which {
            Which::Node(node) => vec![node],
            Which::Link(..) => Vec::new(),
        });
        ends.collect()
    };
    let experiment = |figure: usize| fleet.figures[figure].key.experiment.as_str();
    let hides = |name: &str| {
        judgement.seen.iter().any(|seen| {
            seen.stratum.is_some() && seen.hides() && experiment(seen.subject.figure) == name
        })
    };
    let links = || judgement.seen.iter().filter(|seen| seen.stratum.is_none());
    let hardware = || {
        judgement.seen.iter().filter(|seen| seen.stratum.is_some() && seen.kind == Kind::Hardware)
    };
    let (happened, is_named) = match fault {
        Fault::None => (!accused.is_empty(), false),
        Fault::Figure(bad, figure, _) => {
            (accused.contains(&Which::Node(bad)), hides(&noise[figure].experiment))
        }
        Fault::Link(from, to, _) => {
            let is_found = [(from, to), (to, from)]
                .into_iter()
                .any(|(a, b)| accused.contains(&Which::Link(a, b)));
            (is_found, links().all(|seen| seen.hides()))
        }
        Fault::Node(bad, _) => {
            let mut others = nodes(State::Accused);
            others.extend(nodes(State::Suspect));
            others.remove(&bad);
            (others.len() > 1, false)
        }
    };
    let hidden = hardware().filter(|seen| seen.hides()).count();
    Answer {
        happened,
        is_named,
        open: judgement.in_state(State::Suspect).count(),
        hidden: (hidden, hardware().count()),
    }
}
