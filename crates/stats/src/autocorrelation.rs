//! How long a series remembers.

use super::moments::mean;
use super::quantile::ranks;

/// Longest series whose autocorrelation is computed value by value; longer ones are averaged in
/// equal bins first, which can only lengthen the result.
const MOST_VALUES: usize = 8_192;

/// Window of the sum in autocorrelation times (Sokal 1997, "Monte Carlo methods in statistical
/// mechanics", §3: the smallest window M with M >= 5 tau balances bias and noise).
const WINDOW: f64 = 5.0;

/// The integrated autocorrelation time 1 + 2 sum of rho(k), in samples: the mean of n samples is
/// as uncertain as that of n / tau independent ones. It is the greater of that of the values and
/// that of their ranks, for a few huge values hide the memory of all others. At least 1.
///
/// `None` if the series is too short (the window does not close within a twelfth of it), as with a
/// drift, or below 24 values.
pub fn time(values: &[f64]) -> Option<f64> {
    let bin = values.len().div_ceil(MOST_VALUES).max(1);
    let binned: Vec<f64> = values.chunks_exact(bin).filter_map(mean).collect();
    let time = windowed(&binned)?.max(windowed(&ranks(&binned))?);
    Some(time * bin as f64)
}

fn windowed(values: &[f64]) -> Option<f64> {
    let longest = values.len() / 12;
    if longest < 2 {
        return None;
    }
    let centre = mean(values)?;
    let apart: Vec<f64> = values.iter().map(|x| x - centre).collect();
    let product = |lag: usize| -> f64 { apart.iter().zip(&apart[lag..]).map(|(a, b)| a * b).sum() };
    let variance = product(0);
    if variance <= 0.0 {
        return Some(1.0);
    }
    let mut time = 1.0;
    for lag in 1..=longest {
        time += 2.0 * product(lag) / variance;
        // Anticorrelation would make it less than 1, and blocks shorter than is safe.
        if lag as f64 >= WINDOW * f64::max(time, 1.0) {
            return Some(f64::max(time, 1.0));
        }
    }
    // Uncorrelated values of a short series close the window at lag 5, which may not exist.
    (longest < WINDOW as usize && time <= 1.5).then_some(f64::max(time, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn known_times_are_found() {
        let mut draw = Draw::new(3);
        for (phi, n) in [(0.0, 2_000), (0.5, 5_000), (0.9, 20_000)] {
            let exact = (1.0 + phi) / (1.0 - phi);
            let found = time(&draw.autoregression(n, phi)).unwrap();
            assert!((0.75..1.4).contains(&(found / exact)), "{phi}: {found} {exact}");
        }
    }

    #[test]
    fn rare_spikes_do_not_hide_memory() {
        let mut draw = Draw::new(4);
        let mut values = draw.autoregression(5_000, 0.9);
        for i in (0..values.len()).step_by(500) {
            values[i] += 1e4;
        }
        assert!(time(&values).unwrap() > 10.0);
    }

    #[test]
    fn a_drift_has_no_time() {
        let drift: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(time(&drift), None);
        assert_eq!(time(&[1.0; 10]), None);
        assert_eq!(time(&[1.0; 100]), Some(1.0));
    }
}
