//! Coverage of intervals on simulated rounds: the promises of METHOD §3.

use super::blocks::within_run;
use super::draw::Draw;
use super::interval::{median_order, median_ranks};
use super::moments::mean;
use super::quantile::median;
use super::resample;
use super::stop::{GOAL, LOOKS, next_look, reached};
use std::collections::BTreeMap;

/// A distribution of round values with true median 1.
#[derive(Debug, Clone, Copy)]
enum Rounds {
    Normal,
    LogNormal,
    /// Three of five rounds in the faster mode, six deviations apart.
    Bimodal,
    /// The round value is the mean of forty correlated samples.
    Autocorrelated,
}

const ALL: [Rounds; 4] = [
    Rounds::Normal,
    Rounds::LogNormal,
    Rounds::Bimodal,
    Rounds::Autocorrelated,
];

impl Rounds {
    fn draw(self, draw: &mut Draw, deviation: f64) -> f64 {
        match self {
            Self::Normal => 1.0 + deviation * draw.normal(),
            Self::LogNormal => (deviation * draw.normal()).exp(),
            Self::Bimodal => {
                // The median of 3/5 N(0, 1) + 2/5 N(6, 1) is the 5/6 quantile of the first.
                let far = if draw.chance(0.4) { 6.0 } else { 0.0 };
                let scale = (1.0 + 0.24 * 36.0_f64).sqrt();
                1.0 + deviation / scale * (draw.normal() + far - BIMODAL_MEDIAN)
            }
            Self::Autocorrelated => {
                let samples = draw.autoregression(40, 0.7);
                // Sum over lags of (1 - k / 40) 0.7^k / (1 - 0.7^2), over 40.
                1.0 + deviation / 0.508_64 * mean(&samples).unwrap()
            }
        }
    }
}
/// Solves 0.6 Phi(x) + 0.4 Phi(x - 6) = 0.5.
const BIMODAL_MEDIAN: f64 = 0.967_42;

#[test]
fn at_fixed_n_coverage_is_the_exact_one() {
    let mut draw = Draw::new(1);
    for kind in ALL {
        let trials = if matches!(kind, Rounds::Autocorrelated) {
            2_500
        } else {
            8_000
        };
        for n in LOOKS {
            let exact = median_ranks(n).unwrap().1;
            let covered = (0..trials)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| kind.draw(&mut draw, 0.05)).collect();
                    median_order(&values).unwrap().contains(1.0)
                })
                .count();
            let found = covered as f64 / f64::from(trials);
            println!("fixed n {n:2} {kind:?}: {found:.4} (exact {exact:.4})");
            assert!(
                (found - exact).abs() < 0.01,
                "{kind:?} {n}: {found} {exact}"
            );
        }
    }
}

/// Shares over simulated cases under the stop rule.
struct Stopping {
    covered: f64,
    stopped: f64,
    covered_of_stopped: f64,
    rounds: f64,
}

fn stopping(
    draw: &mut Draw,
    kind: Rounds,
    deviation: f64,
    max_look: usize,
    trials: u32,
) -> Stopping {
    let (mut covered, mut stopped, mut both, mut rounds) = (0, 0, 0, 0);
    for _ in 0..trials {
        let mut values: Vec<f64> = vec![];
        let mut within = false;
        while let Some(look) = next_look(values.len(), max_look).filter(|_| !within) {
            values.resize_with(look, || kind.draw(draw, deviation));
            let interval = median_order(&values).unwrap();
            within = reached(&interval, median(&values).unwrap(), GOAL);
        }
        let covers = median_order(&values).unwrap().contains(1.0);
        covered += u32::from(covers);
        stopped += u32::from(within);
        both += u32::from(covers && within);
        rounds += values.len();
    }
    Stopping {
        covered: f64::from(covered) / f64::from(trials),
        stopped: f64::from(stopped) / f64::from(trials),
        covered_of_stopped: f64::from(both) / f64::from(stopped),
        rounds: rounds as f64 / f64::from(trials),
    }
}

/// Greatest deviation, in units of the goal, up to which the intervals of those cases that
/// stopped cover at least 90 %. METHOD §3 asks for 1.25, and 20 or 12 looks keep that for rounds
/// of one mode. Nine rounds at most stop too often by luck; and where six rounds all came from
/// one of two modes, nothing in them says so.
fn honest_when_stopped(kind: Rounds, max_look: usize) -> f64 {
    match (kind, max_look) {
        (Rounds::Bimodal, 9) => 0.75,
        (Rounds::Bimodal, _) | (_, 9) => 1.0,
        _ => 1.25,
    }
}

#[test]
fn under_the_stop_rule_intervals_stay_honest() {
    let mut draw = Draw::new(2);
    for kind in ALL {
        let trials = match kind {
            Rounds::Autocorrelated => 600,
            _ => 2_000,
        };
        for max_look in [9, 12, 20] {
            for percent in [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0] {
                let s = stopping(&mut draw, kind, percent / 100.0, max_look, trials);
                println!(
                    "stop rule to {max_look} {kind:?} sd {percent} %: covers {:.3}, stopped {:.3}, \
                     of them covers {:.3}, rounds {:.1}",
                    s.covered, s.stopped, s.covered_of_stopped, s.rounds
                );
                assert!(s.covered >= 0.92, "{kind:?} {percent} %: {}", s.covered);
                if percent / 100.0 <= honest_when_stopped(kind, max_look) * GOAL {
                    assert!(s.covered_of_stopped >= 0.90, "{kind:?} {percent} %");
                }
            }
        }
    }
}

#[test]
fn blocks_of_correlated_samples_cover() {
    let mut draw = Draw::new(3);
    for (phi, n) in [(0.0, 400), (0.6, 600), (0.9, 2_500)] {
        let trials = 300;
        let (mut given, mut covered) = (0, 0);
        for _ in 0..trials {
            if let Some(found) = within_run(&draw.autoregression(n, phi), median) {
                given += 1;
                covered += u32::from(found.interval.contains(0.0));
            }
        }
        let share = f64::from(covered) / f64::from(given);
        println!("blocks, phi {phi}: {given} of {trials} given, cover {share:.3}");
        assert!(given > trials / 2, "{phi}: {given}");
        assert!(share > 0.92, "{phi}: {share}");
    }
}

#[test]
fn resampled_ratio_covers() {
    let mut draw = Draw::new(4);
    for n in [6, 9, 12, 20] {
        let trials = 150;
        let covered = (0..trials)
            .filter(|&seed| {
                let mut figure = |level: f64| -> resample::Series {
                    vec![
                        (0..n)
                            .map(|_| Some(level * (1.0 + 0.02 * draw.normal())))
                            .collect(),
                    ]
                };
                let series = [figure(2.0), figure(1.0)];
                let ratio = resample::derived(&series, seed, |m| {
                    BTreeMap::from([((), m[0][0].unwrap() / m[1][0].unwrap())])
                });
                ratio[&()].interval.unwrap().contains(2.0)
            })
            .count();
        let share = covered as f64 / 150.0;
        println!("resampled ratio, {n} rounds: covers {share:.3} (nominal 0.95)");
        assert!(share > 0.87, "{n}: {share}");
    }
}
