//! Many p values at once.

/// Simes' p value of the hypothesis that all of several hypotheses hold: the least of
/// m p(k) / k over the ascending p values (Simes 1986). Valid for independent and for positively
/// dependent figures, such as those of one series. 1 when there are none.
pub fn simes(p_values: &[f64]) -> f64 {
    let sorted = crate::quantile::sorted(p_values);
    let count = sorted.len() as f64;
    sorted.iter().zip(1_u32..).map(|(p, rank)| count * p / f64::from(rank)).fold(1.0, f64::min)
}

/// Which hypotheses are rejected with a false discovery rate of at most `rate` (Benjamini and
/// Hochberg 1995), in the order of the p values.
pub fn benjamini_hochberg(p_values: &[f64], rate: f64) -> Vec<bool> {
    let sorted = crate::quantile::sorted(p_values);
    let count = sorted.len() as f64;
    let limit = sorted
        .iter()
        .zip(1_u32..)
        .filter(|&(p, rank)| *p <= rate * f64::from(rank) / count)
        .map(|(p, _)| *p)
        .last();
    p_values.iter().map(|p| limit.is_some_and(|limit| *p <= limit)).collect()
}

/// Two steps: Benjamini-Hochberg over the series' Simes p values, then inside each rejected
/// series at `rate` times the share of series rejected, which keeps the rate on average over the
/// selected series (Benjamini and Bogomolov 2014). Input and output: for each series, for each of
/// its figures.
pub fn two_step(series: &[Vec<f64>], rate: f64) -> Vec<Vec<bool>> {
    // A series without a tested figure is no hypothesis.
    let tested: Vec<usize> = (0..series.len()).filter(|&s| !series[s].is_empty()).collect();
    let p_values: Vec<f64> = tested.iter().map(|&s| simes(&series[s])).collect();
    let rejected = benjamini_hochberg(&p_values, rate);
    let selected = rejected.iter().filter(|&&r| r).count() as f64;
    let inside = rate * selected / tested.len().max(1) as f64;
    let mut found: Vec<Vec<bool>> = series.iter().map(|s| vec![false; s.len()]).collect();
    for (&s, _) in tested.iter().zip(&rejected).filter(|(_, r)| **r) {
        found[s] = benjamini_hochberg(&series[s], inside);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simes_by_hand() {
        assert_eq!(simes(&[]), 1.0);
        assert_eq!(simes(&[0.03]), 0.03);
        // min(3 * .01, 3 / 2 * .04, .5)
        assert!((simes(&[0.5, 0.01, 0.04]) - 0.03).abs() < 1e-12);
    }

    #[test]
    fn benjamini_hochberg_steps_up() {
        // The third is below its own step .0375 though the second misses .025.
        let found = benjamini_hochberg(&[0.03, 0.9, 0.01, 0.035], 0.05);
        assert_eq!(found, [true, false, true, true]);
        assert!(benjamini_hochberg(&[], 0.05).is_empty());
    }

    #[test]
    fn inside_a_series_the_level_is_that_of_the_selection() {
        let quiet = vec![0.6, 0.8];
        let mut series = vec![quiet.clone(); 9];
        series.push(vec![1e-6, 0.02]);
        let found = two_step(&series, 0.05);
        // One of ten series selected: inside at .005, where .02 is not enough.
        assert_eq!(found[9], [true, false]);
        assert!(found[..9].iter().flatten().all(|f| !f));
        assert_eq!(two_step(&[vec![], vec![0.001]], 0.05), [vec![], vec![true]]);
    }
}
