//! Mean, deviation and extremes in one stable pass.

/// Count, mean, spread and extremes of the values pushed so far, by Welford's recurrence: no sum
/// of squares that could overflow or cancel, however long the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    pub fn from_values(values: &[f64]) -> Self {
        let mut moments = Self::default();
        for &value in values {
            moments.push(value);
        }
        moments
    }

    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The unbiased sample variance (divisor n - 1); `None` below two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// The square root of [`Moments::variance`].
    pub fn stddev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The smallest value; `None` without values.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value; `None` without values.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

/// The arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    Moments::from_values(values).mean()
}

/// How far one value follows the other over pairs, from -1 to 1 (Pearson); `None` where one of both
/// stays the same.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (first, second) = (Moments::from_values(&first), Moments::from_values(&second));
    let (left, right) = (first.mean()?, second.mean()?);
    let products = pairs.iter().map(|(a, b)| (a - left) * (b - right));
    let spread = (first.variance()? * second.variance()?).sqrt() * (first.count() - 1) as f64;
    (spread > 0.0).then(|| products.sum::<f64>() / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_large_offset() {
        // The textbook sum of squares loses every digit of this variance of 30.
        let moments = Moments::from_values(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert_eq!(moments.mean(), Some(1e9 + 10.0));
        assert_eq!(moments.variance(), Some(30.0));
    }

    #[test]
    fn too_few_values_have_no_deviation() {
        assert_eq!(mean(&[]), None);
        assert_eq!(Moments::from_values(&[1.0]).stddev(), None);
        assert_eq!(Moments::default().max(), None);
    }

    #[test]
    fn a_correlation_is_one_for_what_follows_and_none_for_what_stays() {
        let pairs = |of: fn(f64) -> f64| -> Vec<(f64, f64)> {
            (0..8).map(|at| (f64::from(at), of(f64::from(at)))).collect()
        };
        let close = |found: Option<f64>, wanted: f64| {
            assert!((found.expect("a value") - wanted).abs() < 1e-12, "{found:?}");
        };
        close(correlation(&pairs(|x| 3.0 * x + 1.0)), 1.0);
        close(correlation(&pairs(|x| -x)), -1.0);
        close(correlation(&pairs(|x| x * (7.0 - x))), 0.0);
        assert_eq!(correlation(&pairs(|_| 2.0)), None);
        assert_eq!(correlation(&[]), None);
        assert_eq!(correlation(&[(1.0, 2.0)]), None);
    }
}
