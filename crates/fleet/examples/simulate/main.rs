//! The promises of the fleet's model on drawn files, as a table in Markdown.
//!
//! `simulate SEED NOISE SIZE=TRIALS[@QUESTION] …`: so many sweeps of each question (or of one) for each
//! size, the first with this seed. NOISE is a file of recorded rounds. `simulate files DIR SIZE NOISE`
//! writes the files of one sweep instead, for scripts/fleet/scale.
#![expect(clippy::print_stdout, reason = "it prints tables")]

use fastrand::Rng;
use fleet::drawn::{Drawn, Fault, Noise, text};
use fleet::model::{Judgement, STEPS_MOST, Seen, State, Which, judge};
use fleet::read::Fleet;
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
/// stay open, and how many of the hardware figures hide a tenth.
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
        let fault = Fault::Figure(size / 2, 0, 0.3);
        for (host, lines) in Drawn::new(&noise(&arguments[3]), size, vec![fault], 1).sweep() {
            let path = std::path::Path::new(&arguments[1]).join(format!("{host}.jsonl"));
            std::fs::write(path, text(&lines)).expect("it can be written");
        }
        return;
    }
    let seed: u64 = arguments[0].parse().expect("a seed");
    let noise = noise(&arguments[1]);
    let columns = "nodes | question | sweeps | yes | of these named as hidden | not named: found | open suspects | hardware figures that hide 10 % | s a sweep";
    println!("| {columns} |\n|{}", "---|".repeat(columns.split('|').count()));
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
    let count = |is: fn(&Answer) -> bool| answers.iter().filter(|answer| is(answer)).count();
    let sum = |part: fn(&Answer) -> usize| answers.iter().map(part).sum::<usize>();
    let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
    let unnamed = count(|answer| !answer.is_named);
    let found = count(|answer| answer.happened && !answer.is_named);
    println!(
        "| {size} | {question:?} | {trials} | {} | {} | {found} of {unnamed} ({:.1} %) | {} | {:.1} % | {:.2} |",
        count(|answer| answer.happened),
        count(|answer| answer.is_named),
        share(found, unnamed),
        sum(|answer| answer.open),
        share(sum(|answer| answer.hidden.0), sum(|answer| answer.hidden.1)),
        began.elapsed().as_secs_f64() / trials as f64,
    );
}

fn trial(question: Question, noise: &[Noise], size: usize, seed: u64) -> Answer {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let bad = rng.usize(..size);
    let hardware: Vec<usize> =
        (0..noise.len()).filter(|at| noise[*at].kind == Some(Kind::Hardware)).collect();
    let figure = hardware[rng.usize(..hardware.len())];
    let mut drawn = Drawn::new(noise, size, vec![], seed);
    let fault = match question {
        Question::Healthy => None,
        Question::SlowNode => Some(Fault::Figure(bad, figure, -0.9_f64.ln())),
        Question::HalfLink => {
            let slots = drawn.recipe.slots(&drawn.list);
            let pairs: Vec<_> = slots.into_iter().flat_map(|slot| slot.pairs).collect();
            let (from, to) = pairs[rng.usize(..pairs.len())];
            Some(Fault::Link(from as usize, to as usize, 2.0_f64.ln()))
        }
        Question::BadNode => Some(Fault::Node(bad, 0.5)),
    };
    drawn.faults.extend(fault);
    let (_, fleet) = drawn.job(STEPS_MOST);
    answer(fault, noise, &fleet, &judge(&fleet))
}

fn answer(fault: Option<Fault>, noise: &[Noise], fleet: &Fleet, judgement: &Judgement) -> Answer {
    let found = |state: State| judgement.in_state(state).map(|verdict| verdict.which);
    let accused: BTreeSet<Which> = found(State::Accused).collect();
    let (links, nodes): (Vec<&Seen>, Vec<&Seen>) =
        judgement.seen.iter().partition(|seen| seen.is_link());
    let (happened, is_named) = match fault {
        None => (!accused.is_empty(), false),
        Some(Fault::Figure(bad, figure, _)) => {
            let key = |seen: &Seen| &fleet.figures[seen.subject.figure].key;
            let is_named = nodes.iter().any(|seen| seen.hides() && *key(seen) == noise[figure].key);
            (accused.contains(&Which::Node(bad)), is_named)
        }
        Some(Fault::Link(from, to, _)) => {
            let either = [Which::Link(from, to), Which::Link(to, from)];
            let is_found = either.iter().any(|link| accused.contains(link));
            (is_found, links.iter().all(|seen| seen.hides()))
        }
        Some(Fault::Node(bad, _)) => {
            let all = found(State::Accused).chain(found(State::Suspect));
            let is_other = |which: &Which| matches!(which, Which::Node(node) if *node != bad);
            (all.filter(is_other).collect::<BTreeSet<Which>>().len() > 1, false)
        }
    };
    let hardware = nodes.iter().filter(|seen| seen.is_sought());
    let hidden = hardware.clone().filter(|seen| seen.hides()).count();
    let open = judgement.in_state(State::Suspect).count();
    Answer { happened, is_named, open, hidden: (hidden, hardware.count()) }
}
