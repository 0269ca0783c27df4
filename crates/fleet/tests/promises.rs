//! A small part of what `scripts/fleet/simulate` shows: the promises of the model on drawn fleets.

#[path = "../examples/simulate/fleet.rs"]
mod fleet;
#[path = "../examples/simulate/trial.rs"]
mod trial;

use trial::{Question, trial, wilson};

/// How often a question is answered yes in so many sweeps.
fn count(question: Question, size: u32, trials: u64) -> usize {
    let noise = fleet::Noise::of(include_str!("../examples/simulate/first.tsv"));
    (1..=trials).filter(|seed| trial(question, &noise, size, *seed).happened).count()
}

#[test]
fn a_healthy_fleet_accuses_nobody() {
    assert_eq!(count(Question::Healthy, 10, 12) + count(Question::Healthy, 100, 1), 0);
}

#[test]
fn most_slow_nodes_are_found() {
    let found = count(Question::SlowNode, 10, 10);
    assert!(found >= 7, "{found} of 10");
}

#[test]
fn what_the_report_promises_to_see_is_found() {
    let found = count(Question::Promised, 10, 20);
    assert!(found >= 16, "{found} of 20");
}

#[test]
fn half_a_link_is_found() {
    let found = count(Question::HalfLink, 10, 10);
    assert!(found >= 8, "{found} of 10");
}

#[test]
fn a_bad_node_makes_no_two_healthy_ones_suspects() {
    assert_eq!(count(Question::BadNode, 10, 10), 0);
}

#[test]
fn wilson_by_hand() {
    // R: binom::binom.wilson(0, 381), binom.wilson(95, 100)
    let (low, high) = wilson(0, 381);
    assert!(low == 0.0 && (high - 0.009_98).abs() < 1e-4, "{high}");
    let (low, high) = wilson(95, 100);
    assert!((low - 0.8882).abs() < 1e-3 && (high - 0.9785).abs() < 1e-3, "{low} {high}");
}
