//! Drift as a slope that outliers do not move.

use super::quantile::{median_of_sorted, sorted};
use statrs::distribution::{ContinuousCDF, Normal};

/// Most points whose pairs are all compared; longer series are thinned to medians of
/// consecutive points first.
const MOST_POINTS: usize = 600;

/// A slope with its interval, in units of y per unit of x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slope {
    /// Median of the slopes of all pairs.
    pub(crate) slope: f64,
    /// Lower end of the 95 % interval.
    pub(crate) low: f64,
    /// Upper end of the 95 % interval.
    pub(crate) high: f64,
}

/// The Theil-Sen slope of `y` over `x` with Sen's interval from Kendall's statistic (Sen 1968),
/// nominally 95 %, for errors that are independent. Everything is in f64: no sum of integer
/// positions can wrap, however long the series. `None` below four points with different x.
pub(crate) fn theil_sen(x: &[f64], y: &[f64]) -> Option<Slope> {
    assert_eq!(x.len(), y.len(), "every point has x and y");
    let bin = x.len().div_ceil(MOST_POINTS).max(1);
    let (x, y) = (thinned(x, bin), thinned(y, bin));
    let n = x.len();
    if n < 4 {
        return None;
    }
    let mut slopes = vec![];
    for i in 0..n {
        for j in i + 1..n {
            if x[i] != x[j] {
                slopes.push((y[j] - y[i]) / (x[j] - x[i]));
            }
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let pairs = slopes.len() as f64;
    let n = n as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let reach = Normal::standard().inverse_cdf(0.975) * deviation;
    let low_rank = ((pairs - reach) / 2.0).floor().max(1.0) as usize;
    let high_rank = slopes.len() + 1 - low_rank.min(slopes.len());
    Some(Slope {
        slope: median_of_sorted(&slopes)?,
        low: slopes[low_rank.min(slopes.len()) - 1],
        high: slopes[high_rank - 1],
    })
}

fn thinned(values: &[f64], bin: usize) -> Vec<f64> {
    values
        .chunks(bin)
        .filter_map(|chunk| median_of_sorted(&sorted(chunk)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draw::Draw;

    #[test]
    fn a_line_with_outliers_keeps_its_slope() {
        let x: Vec<f64> = (0..50).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|x| 3.0 - 0.5 * x).collect();
        y[10] = 1e9;
        y[40] = -1e9;
        let found = theil_sen(&x, &y).unwrap();
        assert_eq!(found.slope, -0.5);
        assert!(found.low <= -0.5 && found.high >= -0.5);
    }

    #[test]
    fn a_long_fall_is_not_steady() {
        // fio's steady-state rule wraps above 1024 points and calls this one flat.
        for n in [1_025_u32, 100_000] {
            let x: Vec<f64> = (0..n).map(f64::from).collect();
            let y: Vec<f64> = x
                .iter()
                .map(|x| 80e3 * (1.0 - 0.5 * x / f64::from(n)))
                .collect();
            let found = theil_sen(&x, &y).unwrap();
            let exact = -40e3 / f64::from(n);
            assert!((found.slope / exact - 1.0).abs() < 1e-6, "{n}: {found:?}");
            assert!(found.high < 0.0);
        }
    }

    #[test]
    fn interval_covers_as_it_says() {
        let mut draw = Draw::new(5);
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let trials = 1000;
        let covered = (0..trials)
            .filter(|_| {
                let y: Vec<f64> = x.iter().map(|x| 0.3 * x + draw.normal()).collect();
                let found = theil_sen(&x, &y).unwrap();
                (found.low..=found.high).contains(&0.3)
            })
            .count();
        let share = covered as f64 / f64::from(trials);
        println!("Theil-Sen interval covers {share}");
        assert!((0.93..0.98).contains(&share), "{share}");
    }

    #[test]
    fn too_few_points_have_no_slope() {
        assert_eq!(theil_sen(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(theil_sen(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]), None);
    }
}
