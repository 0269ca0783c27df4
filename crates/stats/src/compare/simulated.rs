//! The promises of METHOD §3 on simulated runs, and the test against hand computation.

use super::between::{
    BetweenRuns, HARDWARE_DEVIATION, SYSTEM_DEVIATION, Scatter, alike, between_runs, scatter,
};
use super::*;
use crate::draw::{Draw, trials};
use crate::interval::Interval;

const SERIES: usize = 100;
const FIGURES: usize = 20;
const ROUNDS: usize = 6;

/// A machine to simulate: 2,000 figures in 100 series of 20, half of them hardware figures with
/// 1 % between rounds and half os figures with 2 %, either scattered by a factor of e^0.3.
#[derive(Clone, Copy)]
struct Machine {
    /// Runs that are stored before the two.
    stored: usize,
    /// Typical deviation from run to run, as a multiple of the default.
    typical: f64,
    /// How much figures differ in it: the deviation of its logarithm.
    apart: f64,
    /// What the new value of (series 0, figure 0) is multiplied by.
    factor: f64,
    os: bool,
}

impl Machine {
    /// One whose figures all move by the defaults, as is assumed.
    fn assumed(factor: f64, os: bool) -> Self {
        Self { stored: 0, typical: 1.0, apart: 0.0, factor, os }
    }

    /// Two runs, with the information from the stored ones.
    fn runs(self, draw: &mut Draw) -> Vec<Vec<Pair>> {
        let mut scatters: Vec<Vec<Scatter>> = vec![vec![]; 2];
        let mut figures = Vec::new();
        for s in 0..SERIES {
            let mut of_series = Vec::new();
            for f in 0..FIGURES {
                let family = usize::from((s % 2 == 0) == self.os);
                let (default, within) =
                    [(HARDWARE_DEVIATION, 0.01), (SYSTEM_DEVIATION, 0.02)][family];
                let between = default * self.typical * (self.apart * draw.normal()).exp();
                let within = within * (0.3 * draw.normal()).exp();
                let factor = if (s, f) == (0, 0) { self.factor } else { 1.0 };
                let mut rounds = |factor: f64| -> Vec<f64> {
                    let level = (between * draw.normal()).exp() * 100.0 * factor;
                    (0..ROUNDS).map(|_| level * (within * draw.normal()).exp()).collect()
                };
                let stored: Vec<Vec<f64>> = (0..self.stored).map(|_| rounds(1.0)).collect();
                let own = scatter(&[stored.iter().map(Vec::as_slice).collect()]);
                scatters[family].extend(own);
                let evidence = Evidence::Rounds { base: rounds(1.0), new: rounds(factor) };
                of_series.push((evidence, family, own, default));
            }
            figures.push(of_series);
        }
        let priors: Vec<_> = scatters.iter().map(|family| alike(family)).collect();
        let pair = |(evidence, family, own, default): (Evidence, usize, Option<Scatter>, f64)| {
            let between = match own {
                Some(own) => between_runs(own, priors[family], default),
                None => BetweenRuns::default_of(default),
            };
            Pair { evidence, family, between, band: between.reach().exp_m1() }
        };
        figures.into_iter().map(|series| series.into_iter().map(pair).collect()).collect()
    }

    /// How many of some comparisons have a finding though nothing changed.
    fn loud(self, seed: u64, trials: usize) -> usize {
        let mut draw = Draw::new(seed);
        let unchanged = Self { factor: 1.0, ..self };
        (0..trials).filter(|_| findings(&compare(&unchanged.runs(&mut draw))) > 0).count()
    }

    /// How many find the one figure that changed, up in one comparison and down in the next.
    fn found(self, seed: u64, trials: usize) -> usize {
        let mut draw = Draw::new(seed);
        (0..trials)
            .filter(|trial| {
                let factor = match trial % 2 {
                    0 => self.factor,
                    _ => 1.0 / self.factor,
                };
                let runs = Self { factor, ..self }.runs(&mut draw);
                compare(&runs)[0][0].is_some_and(|c| c.finding)
            })
            .count()
    }
}

fn findings(compared: &[Vec<Option<Comparison>>]) -> usize {
    compared.iter().flatten().flatten().filter(|c| c.finding).count()
}

#[test]
fn a_run_with_itself_is_quiet() {
    let mut pairs = Machine::assumed(1.0, false).runs(&mut Draw::new(1));
    for pair in pairs.iter_mut().flatten() {
        let Evidence::Rounds { base, new } = &mut pair.evidence else { panic!("these are rounds") };
        new.clone_from(base);
        pair.band = 0.0;
    }
    let compared = compare(&pairs);
    assert_eq!(findings(&compared), 0);
    assert!(compared.iter().flatten().flatten().all(|c| c.p == Some(1.0)));
}

#[test]
fn two_runs_of_an_unchanged_machine_are_quiet() {
    // Where the defaults hold, without a stored run. The rate is 5 % of comparisons: more than 6
    // of 40 has a probability of 0.3 %.
    let loud = Machine::assumed(1.0, false).loud(2, 40);
    println!("unchanged: {loud} of 40 not quiet");
    assert!(loud <= 6, "{loud} of 40");
}

#[test]
fn stored_runs_keep_it_quiet_whatever_figures_differ_by() {
    let few = 12;
    let trials = trials(few);
    for (stored, typical, apart) in [
        (3, 1.0, 0.4),
        (5, 1.0, 0.0),
        (5, 2.0, 0.7),
        (10, 1.0, 0.4),
        (3, 1.0, 0.0),
        (10, 1.0, 0.0),
        (5, 1.0, 0.7),
        (10, 2.0, 0.7),
    ] {
        let machine =
            |factor, os| Machine { stored, typical, apart, ..Machine::assumed(factor, os) };
        let loud = machine(1.0, false).loud(7, trials);
        println!("{stored} stored, x{typical}, e^{apart}: {loud} of {trials} not quiet");
        // Three deviations above 5 %.
        let most = 0.05 * trials as f64 + 3.0 * (0.0475 * trials as f64).sqrt();
        assert!(loud as f64 <= most.ceil(), "{stored} stored, x{typical}, e^{apart}: {loud}");
        if trials > few {
            let [hardware, os] = [(1.2, false), (1.4, true)]
                .map(|(factor, os)| machine(factor, os).found(13, trials));
            println!("  one figure found: hardware +20 % {hardware}, os +40 % {os} of {trials}");
        }
    }
}

#[test]
fn one_changed_figure_among_two_thousand_is_found() {
    // The 40 % are near the limit: two runs of an unchanged os figure already differ by 5.7 %
    // (one deviation), and one in 2,000 needs more than four deviations to stand out. Measured
    // with 240 simulations: 93 % found with 2 or 3 % between rounds; 87 % with 3 % and a scatter
    // of e^0.5.
    for (factor, os, trials) in [(1.2, false, 20), (1.4, true, 100)] {
        let found = Machine::assumed(factor, os).found(3, trials);
        println!("changed by a factor of {factor}: found in {found} of {trials}");
        assert!(found * 10 >= trials * 9, "{factor}: {found}");
    }
    // Stored runs of a machine that keeps the defaults take little of it.
    let stored = Machine { stored: 5, ..Machine::assumed(1.2, false) };
    let found = stored.found(3, 10);
    assert!(found >= 9, "{found} of 10");
}

#[test]
fn without_family_or_between_run_variance_it_is_student_s_test() {
    let evidence = rounds(&[1.0_f64, 2.0, 3.0].map(f64::exp), &[2.0_f64, 4.0, 6.0].map(f64::exp));
    let pair = pair(evidence, 0.0, 0.0);
    // t = 2 / sqrt(2.5 * 2 / 3) = 1.549, 4 degrees of freedom.
    let p = p_value(&pair, &[None]).unwrap();
    assert!((p - 0.196_2).abs() < 2e-4, "{p}");
}

#[test]
fn a_known_variance_alone_gives_the_normal_test() {
    let pair = pair(rounds(&[1.0; 6], &[(1.96 * 0.1 * 2.0_f64.sqrt()).exp(); 6]), 0.1, 0.0);
    let p = p_value(&pair, &[None]).unwrap();
    assert!((p - 0.05).abs() < 1e-4, "{p}");
}

#[test]
fn values_that_are_not_positive_have_no_test() {
    let pair = pair(rounds(&[-1.0, 1.0, 2.0, 1.5, 0.5, 1.0], &[9.0; 6]), 0.015, 0.0);
    let compared = compare(&[vec![pair]])[0][0].unwrap();
    assert_eq!((compared.p, compared.finding), (None, false));
    assert!(matches!(compared.change, Change::Difference { value: 8.0, .. }), "{compared:?}");
}

#[test]
fn nothing_small_is_a_finding_and_nothing_missing_is_compared() {
    let evidence = rounds(
        &[100.0, 100.1, 99.9, 100.0, 100.05, 99.95],
        &[104.0, 104.1, 103.9, 104.0, 104.05, 103.95],
    );
    let mut pair = pair(evidence, 0.001, 0.05);
    assert!(!compare(&[vec![pair.clone()]])[0][0].unwrap().finding);
    pair.band = 0.03;
    assert!(compare(&[vec![pair.clone()]])[0][0].unwrap().finding);
    pair.evidence = rounds(&[100.0; 6], &[]);
    assert_eq!(compare(&[vec![pair]])[0][0], None);
}

#[test]
fn figures_without_rounds_are_tested_by_their_intervals() {
    let point = |value: f64, half: f64, confidence: f64| Point {
        value,
        interval: Some(Interval {
            low: value * (-half).exp(),
            high: value * half.exp(),
            confidence,
        }),
    };
    let pair = |base: Point, new: Point, deviation: f64, band: f64| {
        pair(Evidence::Intervals { base, new }, deviation, band)
    };
    // Two half widths of 1.96 errors of 1 %, and a distance of 1.96 * 0.01 * sqrt(2).
    let half = 1.959_964 * 0.01;
    let apart = 100.0 * (half * 2.0_f64.sqrt()).exp();
    let base = point(100.0, half, 0.95);
    let p = p_value(&pair(base, point(apart, half, 0.95), 0.0, 0.0), &[]).unwrap();
    assert!((p - 0.05).abs() < 1e-4, "{p}");
    // The between-run variance takes part: the squared error doubles.
    let p = p_value(&pair(base, point(apart, half, 0.95), 0.01, 0.0), &[]).unwrap();
    assert!((p - 0.165_8).abs() < 1e-3, "{p}");
    let finding = |new: Point, band: f64| {
        compare(&[vec![pair(base, new, 0.015, band)]])[0][0].is_some_and(|c| c.finding)
    };
    assert!(finding(point(120.0, half, 0.95), 0.05));
    assert!(finding(point(80.0, half, 0.95), 0.05));
    assert!(!finding(point(120.0, half, 0.95), 0.3), "inside its band");
    assert!(!finding(point(101.0, half, 0.95), 0.0));
    for confidence in [0.0, 1.0, 2.0, f64::NAN] {
        assert!(!finding(point(500.0, half, confidence), 0.0), "{confidence}");
    }
    let bare = Point { value: 500.0, interval: None };
    assert!(!finding(bare, 0.0), "without an interval");
}

#[test]
fn figures_without_rounds_count_among_the_hypotheses() {
    let interval = |value: f64| Point {
        value,
        interval: Some(Interval { low: value * 0.99, high: value * 1.01, confidence: 0.95 }),
    };
    let pair = |new: f64| {
        pair(Evidence::Intervals { base: interval(100.0), new: interval(new) }, 0.0, 0.0)
    };
    // p is 0.006 for this one: enough alone, too much among forty.
    assert!(compare(&[vec![pair(102.0)]])[0][0].unwrap().finding);
    let many: Vec<Vec<Pair>> =
        std::iter::once(102.0).chain([100.0; 39]).map(|new| vec![pair(new)]).collect();
    assert!(!compare(&many)[0][0].unwrap().finding);
}

/// A figure whose machine differs by so much from run to run, with its band.
fn pair(evidence: Evidence, deviation: f64, band: f64) -> Pair {
    Pair { evidence, family: 0, between: BetweenRuns::default_of(deviation), band }
}

fn rounds(base: &[f64], new: &[f64]) -> Evidence {
    Evidence::Rounds { base: base.to_vec(), new: new.to_vec() }
}
