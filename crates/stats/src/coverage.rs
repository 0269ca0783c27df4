//! Coverage of intervals on simulated rounds: the promises of METHOD §3.
//! `session/budget/coverage.rs` has those of the looks.

use super::blocks::within_run;
use super::draw::{Draw, Rounds, share_of};
use super::interval::{median_order, median_ranks};
use super::quantile::median;
use super::resample;
use std::collections::BTreeMap;

#[test]
fn at_fixed_n_coverage_is_the_exact_one() {
    let mut draw = Draw::new(1);
    for kind in Rounds::ALL {
        let trials = if matches!(kind, Rounds::Autocorrelated) { 2_500 } else { 8_000 };
        for n in [5, 6, 9, 12, 15, 17, 20] {
            let exact = median_ranks(n).unwrap().1;
            let found = share_of(trials, || {
                let values = draw.values(n, |draw| kind.draw(draw, 0.05));
                median_order(&values).unwrap().contains(1.0)
            });
            println!("fixed n {n:2} {kind:?}: {found:.4} (exact {exact:.4})");
            assert!((found - exact).abs() < 0.01, "{kind:?} {n}: {found} {exact}");
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
        let mut seeds = 0..;
        let share = share_of(150, || {
            let mut figure = |level: f64| -> resample::Series {
                vec![(0..n).map(|_| Some(level * (1.0 + 0.02 * draw.normal()))).collect()]
            };
            let series = [figure(2.0), figure(1.0)];
            let seed = seeds.next().expect("endless");
            let ratio = resample::derived(&series, seed, |m| {
                BTreeMap::from([((), m[0][0].unwrap() / m[1][0].unwrap())])
            });
            ratio[&()].interval.unwrap().contains(2.0)
        });
        println!("resampled ratio, {n} rounds: covers {share:.3} (nominal 0.95)");
        assert!(share > 0.87, "{n}: {share}");
    }
}
