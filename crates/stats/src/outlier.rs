//! Outliers are found and counted, never dropped.

use super::moments::mean;
use super::quantile::median;

/// Modified z above which a value counts as an outlier (Iglewicz and Hoaglin 1993, p. 12).
pub const LIMIT: f64 = 3.5;

/// The outliers among some values.
#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    /// How many lie below.
    pub low: usize,
    /// How many lie above.
    pub high: usize,
    /// Mean of the others, for comparison with reports that dropped theirs; `None` without
    /// values.
    pub mean_without: Option<f64>,
}

impl Outliers {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.low + self.high
    }
}

/// Finds the values with a modified z beyond [`LIMIT`].
pub fn outliers(values: &[f64]) -> Outliers {
    let scores = modified_z(values);
    let kept: Vec<f64> = values
        .iter()
        .zip(&scores)
        .filter(|(_, z)| z.abs() <= LIMIT)
        .map(|(&value, _)| value)
        .collect();
    Outliers {
        low: scores.iter().filter(|&&z| z < -LIMIT).count(),
        high: scores.iter().filter(|&&z| z > LIMIT).count(),
        mean_without: mean(&kept),
    }
}

/// Distance from the median in robust standard deviations, one per value:
/// (x - median) / (1.4826 MAD).
///
/// When more than half of the values are equal the MAD is zero; then the mean absolute deviation
/// takes its place, (x - median) / (1.2533 mean |x - median|), which is consistent for the
/// normal distribution too (sqrt(pi / 2)). Values that are all equal score zero.
pub fn modified_z(values: &[f64]) -> Vec<f64> {
    let Some(centre) = median(values) else { return vec![] };
    let deviations: Vec<f64> = values.iter().map(|x| (x - centre).abs()).collect();
    let mad = median(&deviations).unwrap_or(0.0);
    let scale = if mad > 0.0 {
        mad / 0.6745
    } else {
        std::f64::consts::FRAC_PI_2.sqrt() * mean(&deviations).unwrap_or(0.0)
    };
    values.iter().map(|x| if scale > 0.0 { (x - centre) / scale } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
