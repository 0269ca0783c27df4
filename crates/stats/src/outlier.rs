//! Outliers are found and counted, never dropped.

use super::moments::mean;
use super::quantile::quantile_of_sorted;

/// Modified z above which a value counts as an outlier (Iglewicz and Hoaglin 1993, p. 12).
pub const LIMIT: f64 = 3.5;

#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    pub low: usize,
    /// How many lie above.
    pub high: usize,
    /// Mean of the others, for comparison with reports that dropped theirs; `None` without
    /// values.
    pub mean_without: Option<f64>,
}

impl Outliers {
    pub fn count(&self) -> usize {
        self.low + self.high
    }
}

/// Finds the values with a modified z beyond [`LIMIT`]: their distance from the median in robust
/// standard deviations, (x - median) / (1.4826 MAD). `sorted` are the same values in ascending
/// order.
///
/// When more than half of the values are equal the MAD is zero; then the mean absolute deviation
/// takes its place, (x - median) / (1.2533 mean |x - median|), which is consistent for the
/// normal distribution too (sqrt(pi / 2)). Values that are all equal score zero.
pub fn outliers(values: &[f64], sorted: &[f64]) -> Outliers {
    let Some(centre) = quantile_of_sorted(sorted, 0.5) else {
        return Outliers { low: 0, high: 0, mean_without: None };
    };
    let mad = quantile_of_sorted(&deviations(sorted, centre), 0.5).unwrap_or(0.0);
    let scale = if mad > 0.0 {
        mad / 0.6745
    } else {
        let away: Vec<f64> = values.iter().map(|x| (x - centre).abs()).collect();
        std::f64::consts::FRAC_PI_2.sqrt() * mean(&away).unwrap_or(0.0)
    };
    let z = |x: f64| if scale > 0.0 { (x - centre) / scale } else { 0.0 };
    let kept: Vec<f64> = values.iter().copied().filter(|x| z(*x).abs() <= LIMIT).collect();
    Outliers {
        low: sorted.iter().take_while(|x| z(**x) < -LIMIT).count(),
        high: sorted.iter().rev().take_while(|x| z(**x) > LIMIT).count(),
        mean_without: mean(&kept),
    }
}

/// The distances from a centre in ascending order, of values in ascending order.
fn deviations(sorted: &[f64], centre: f64) -> Vec<f64> {
    let (below, above) = sorted.split_at(sorted.partition_point(|x| *x < centre));
    let mut below = below.iter().rev().map(|x| centre - x).peekable();
    let mut above = above.iter().map(|x| x - centre).peekable();
    let next = || match (below.peek(), above.peek()) {
        (Some(one), Some(other)) if one < other => below.next(),
        (_, Some(_)) => above.next(),
        (_, None) => below.next(),
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::{Outliers, deviations};
    use crate::quantile::sorted;

    fn outliers(values: &[f64]) -> Outliers {
        super::outliers(values, &sorted(values))
    }

    #[test]
    fn one_far_value_is_counted_and_kept_apart() {
        let found = outliers(&[10.0, 10.1, 9.9, 10.2, 9.8, 50.0, -20.0]);
        assert_eq!((found.low, found.high, found.count()), (1, 1, 2));
        assert!((found.mean_without.unwrap() - 10.0).abs() < 1e-12);
    }

    #[test]
    fn majority_of_equal_values_still_has_a_scale() {
        // The MAD is 0: a rule that divides by it calls every other value an outlier, or none.
        let found = outliers(&[7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 9.0]);
        assert_eq!((found.low, found.high), (0, 1));
        // Quantised values around the median are not outliers.
        let mut quantised = vec![7.0; 60];
        quantised.extend([6.0; 20]);
        quantised.extend([8.0; 20]);
        assert_eq!(outliers(&quantised).count(), 0);
    }

    #[test]
    fn equal_values_and_none_have_no_outliers() {
        assert_eq!(outliers(&[3.0; 9]).count(), 0);
        assert_eq!(outliers(&[]).mean_without, None);
    }

    #[test]
    fn deviations_ascend() {
        assert_eq!(deviations(&[1.0, 2.0, 4.0, 4.5, 9.0], 4.0), [0.0, 0.5, 2.0, 3.0, 5.0]);
        assert!(deviations(&[], 1.0).is_empty());
    }
}
