//! Simulated rounds beside a neighbour that comes and goes (METHOD §2a): the values of the core
//! alone must stay where they are, and their intervals must cover.

use super::alone::{Alone, ProbedRound, alone};
use super::draw::Draw;
use super::rounds::Condition;
use super::width::{IN_VAIN, LEAST_ALONE, VISITS, VISITS_TIME, WAIT_NS};
use record::event::{Raw, Samples};
use record::key::CaseId;

/// The time that an operation takes on a core alone, in ns, and how much longer beside a neighbour.
const ALONE_NS: f64 = 160.0;
const SHARED_RATIO: f64 = 1.37;
/// Length of a quartet, in ms, and quartets of a visit.
const QUARTET_MS: f64 = 0.3;
const QUARTETS: usize = 40;
/// Additions per cycle of the core.
const LEVEL: f64 = 4.0;
/// Standard deviation between rounds (placement), and of a sample, relative.
const BETWEEN: f64 = 0.004;
const WITHIN: f64 = 0.01;

/// A neighbour that is there for exponential times of a mean, and away for others.
struct Neighbour {
    draw: Draw,
    here: bool,
    left_ms: f64,
    here_ms: f64,
    away_ms: f64,
}

impl Neighbour {
    /// There for `share` of the time, in stretches of `here_ms` in the mean.
    fn new(share: f64, here_ms: f64, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let away_ms = here_ms * (1.0 - share) / share;
        let here = draw.chance(share);
        let mut neighbour = Neighbour { draw, here, left_ms: 0.0, here_ms, away_ms };
        neighbour.left_ms = neighbour.stretch();
        neighbour
    }

    fn stretch(&mut self) -> f64 {
        let mean = if self.here { self.here_ms } else { self.away_ms };
        -mean * self.draw.uniform().ln()
    }

    /// Lets time pass. Returns the share during which the neighbour was there, and whether it was
    /// at the end.
    fn pass(&mut self, ms: f64) -> (f64, bool) {
        let (mut left, mut there) = (ms, 0.0);
        while self.left_ms <= left {
            left -= self.left_ms;
            there += if self.here { self.left_ms } else { 0.0 };
            self.here = !self.here;
            self.left_ms = self.stretch();
        }
        self.left_ms -= left;
        there += if self.here { left } else { 0.0 };
        (there / ms, self.here)
    }
}

/// One quartet at the true value: what it measured and what its slowest probe read.
fn quartet(neighbour: &mut Neighbour, true_ns: f64, was_here: &mut bool) -> (f64, f64) {
    let (mut slowed, mut seen) = (0.0, *was_here);
    // Batches of n, 2n, 2n, n, with a probe after each.
    for part in [1.0, 2.0, 2.0, 1.0] {
        let (share, here) = neighbour.pass(QUARTET_MS * part / 6.0);
        slowed += share * part / 6.0;
        seen |= here;
        *was_here = here;
    }
    let noise = 1.0 + WITHIN * neighbour.draw.normal();
    let value = true_ns * noise * (1.0 + (SHARED_RATIO - 1.0) * slowed);
    let width = match seen {
        true => LEVEL * (0.4 + 0.5 * neighbour.draw.uniform()),
        false => LEVEL * (1.0 - 0.001 * neighbour.draw.uniform()),
    };
    (value, width)
}

/// The quartets of a visit again: each begins when the neighbour is away, and the visit ends where
/// it stays.
fn again(neighbour: &mut Neighbour, true_ns: f64) -> Vec<(f64, f64)> {
    /// Between two looks whether it is away.
    const LOOK_MS: f64 = 0.02;
    let mut left_ms = VISITS_TIME / f64::from(VISITS) * QUARTET_MS * QUARTETS as f64;
    let mut quartets = Vec::new();
    let mut here = neighbour.here;
    while left_ms > 0.0 {
        let mut waited_ms = 0.0;
        while here && waited_ms < WAIT_NS / 1e6 {
            here = neighbour.pass(LOOK_MS).1;
            waited_ms += LOOK_MS;
        }
        if here {
            break;
        }
        quartets.push(quartet(neighbour, true_ns, &mut here));
        left_ms -= waited_ms + QUARTET_MS;
    }
    quartets
}

fn samples(visit: u32, quartets: Vec<(f64, f64)>) -> Samples {
    let (values, width) = quartets.into_iter().unzip();
    let raw = Raw::Batch { k: 1, values };
    Samples { visit, width, ..Samples::new("s", 1, CaseId::new(), "m", raw) }
}

/// What a round gives: its probed samples, and its value as found.
fn round(neighbour: &mut Neighbour, true_ns: f64) -> (ProbedRound, f64) {
    let mut visits = Vec::new();
    let (mut alone, mut in_vain) = (0, 0);
    for visit in 0..=VISITS {
        // Other cases are measured in between.
        let (_, mut here) = neighbour.pass(60.0);
        let quartets: Vec<(f64, f64)> = match visit {
            0 => (0..QUARTETS).map(|_| quartet(neighbour, true_ns, &mut here)).collect(),
            _ => again(neighbour, true_ns),
        };
        let is_alone = |one: &&(f64, f64)| super::width::is_alone(one.1, LEVEL);
        let won = quartets.iter().filter(is_alone).count();
        visits.push(samples(visit, quartets));
        alone += won;
        in_vain = if won > 0 || visit == 0 { 0 } else { in_vain + 1 };
        if alone >= LEAST_ALONE || in_vain == IN_VAIN {
            break;
        }
    }
    let all: Vec<&Samples> = visits.iter().collect();
    let found = Condition::AsFound.round_value(&all, &[]);
    (ProbedRound::new(&visits, LEVEL), found.expect("every visit has samples"))
}

#[test]
fn intervals_of_the_core_alone_cover_beside_a_neighbour_that_comes_and_goes() {
    println!("share there  stretch/ms  rounds  valued  by rounds  interval  covered  bias  abs");
    for rounds in [6, 12] {
        for here_ms in [0.1, 10.0, 1_000.0, 20_000.0] {
            for share in [0.1, 0.5, 0.72, 0.9] {
                let (mut valued, mut by_rounds, mut intervals, mut covered) = (0, 0, 0, 0);
                let mut errors = Vec::new();
                const FIGURES: u64 = 300;
                for seed in 0..FIGURES {
                    let mut neighbour = Neighbour::new(share, here_ms, seed * 7919 + 1);
                    let got: Vec<ProbedRound> = (0..rounds)
                        .map(|_| {
                            let between = 1.0 + BETWEEN * neighbour.draw.normal();
                            let r = round(&mut neighbour, ALONE_NS * between).0;
                            neighbour.pass(5_000.0);
                            r
                        })
                        .collect();
                    let (value, interval) = match alone(&got) {
                        None => continue,
                        Some(Alone::Pooled(v, i)) => (v, i),
                        Some(Alone::Rounds) => {
                            by_rounds += 1;
                            let v: Vec<f64> = got.iter().filter_map(|s| s.value(3)).collect();
                            (
                                super::quantile::median(&v).unwrap(),
                                super::interval::median_order(&v),
                            )
                        }
                    };
                    valued += 1;
                    errors.push(value / ALONE_NS - 1.0);
                    if let Some(i) = interval {
                        intervals += 1;
                        covered += usize::from(i.contains(ALONE_NS));
                    }
                }
                let abs: Vec<f64> = errors.iter().map(|e: &f64| e.abs()).collect();
                let m = |v: &[f64]| super::quantile::median(v).unwrap_or(f64::NAN);
                println!(
                    "{share:>11} {here_ms:>11} {rounds:>7} {:>7.2} {:>9.2} {:>9.2} {:>8.3} {:>9.5} {:>9.5}",
                    f64::from(valued) / 300.0,
                    f64::from(by_rounds) / 300.0,
                    intervals as f64 / 300.0,
                    covered as f64 / intervals.max(1) as f64,
                    m(&errors),
                    m(&abs)
                );
            }
        }
    }
}
