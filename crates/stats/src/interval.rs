//! Distribution-free intervals from order statistics.
//!
//! The number of independent values below the true `q`-quantile is binomial(n, q), whatever the
//! distribution; so a pair of order statistics covers the quantile with a probability that is
//! known exactly (David and Nagaraja, *Order Statistics*, 2003, §7.1). With ties the confidence
//! is at least the one stated.

use super::quantile::{order_statistic, sorted};
use statrs::function::factorial::ln_binomial;

/// The least confidence of an interval over six or more values.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values that have an interval: from the least to the greatest, with a confidence of
/// 93.75 %.
pub const LEAST_VALUES: usize = 5;

/// A closed interval with the probability that it covers the true value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the values.
    pub low: f64,
    /// Upper end, in the unit of the values.
    pub high: f64,
    /// Real confidence, a share in 0..1 (0.96875 for six values).
    pub confidence: f64,
}

impl Interval {
    /// Half the distance between the ends.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The interval with both ends mapped by a function that keeps their order.
    #[must_use]
    pub fn map(self, of: fn(f64) -> f64) -> Interval {
        Interval { low: of(self.low), high: of(self.high), ..self }
    }

    /// Whether the value lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The half width as a share of the value. A value of zero has no relative precision: then only an
/// interval without width has one.
pub fn relative_half_width(interval: &Interval, value: f64) -> f64 {
    match interval.half_width() {
        0.0 => 0.0,
        half_width => half_width / value.abs(),
    }
}

/// The tightest symmetric pair of order statistics that covers the median with at least
/// [`CONFIDENCE`], or of [`LEAST_VALUES`] both ends; `None` below.
pub fn median_order(values: &[f64]) -> Option<Interval> {
    let count = values.len();
    let (rank, confidence) = median_ranks(count)?;
    let sorted = sorted(values);
    Some(Interval {
        low: order_statistic(&sorted, rank)?,
        high: order_statistic(&sorted, count + 1 - rank)?,
        confidence,
    })
}

/// For `count` values: the rank r (from 1) such that the r-th smallest and r-th largest value
/// form the interval of [`median_order`], and its confidence.
pub fn median_ranks(count: usize) -> Option<(usize, f64)> {
    let mut best = None;
    let mut tail = 0.0;
    for rank in 1..=count / 2 {
        tail += binomial(count, rank - 1, 0.5);
        let confidence = 1.0 - 2.0 * tail;
        let is_widest = rank == 1 && count >= LEAST_VALUES;
        if confidence < CONFIDENCE && !is_widest {
            break;
        }
        best = Some((rank, confidence));
    }
    best
}

/// Probability of `k` successes in `n` trials; in logarithms, for 2^-n underflows at n = 1075.
fn binomial(n: usize, k: usize, p: f64) -> f64 {
    let successes = k as f64 * p.ln();
    let failures = (n - k) as f64 * (-p).ln_1p();
    (ln_binomial(n as u64, k as u64) + successes + failures).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidences_are_the_exact_binomial_ones() {
        let exact = [
            (5, 1, 1.0 - 2.0 / 32.0),
            (6, 1, 1.0 - 2.0 / 64.0),
            (7, 1, 1.0 - 2.0 / 128.0),
            (9, 2, 1.0 - 20.0 / 512.0),
            (12, 3, 1.0 - 158.0 / 4096.0),
            (15, 4, 1.0 - 1152.0 / 32768.0),
            (17, 5, 1.0 - 6428.0 / 131_072.0),
            (20, 6, 1.0 - 43_400.0 / 1_048_576.0),
        ];
        for (count, rank, confidence) in exact {
            let (r, c) = median_ranks(count).unwrap();
            assert_eq!(r, rank, "{count} rounds");
            assert!((c - confidence).abs() < 1e-12, "{count}: {c} {confidence}");
        }
    }

    #[test]
    fn below_five_there_is_none() {
        for count in 0..5 {
            assert_eq!(median_ranks(count), None);
            assert_eq!(median_order(&vec![1.0; count]), None);
        }
    }

    #[test]
    fn ends_are_order_statistics() {
        let six = median_order(&[5.0, 1.0, 4.0, 2.0, 6.0, 3.0]).unwrap();
        assert_eq!((six.low, six.high), (1.0, 6.0));
        let twelve: Vec<f64> = (1..=12).map(f64::from).collect();
        let twelve = median_order(&twelve).unwrap();
        assert_eq!((twelve.low, twelve.high), (3.0, 10.0));
    }

    #[test]
    fn precision_is_relative_to_the_value() {
        let interval = |low, high| Interval { low, high, confidence: 0.96 };
        let width = relative_half_width(&interval(-102.0, -98.0), -100.0);
        assert!((width - 0.02).abs() < 1e-12, "{width}");
        assert_eq!(relative_half_width(&interval(-1.0, 1.0), 0.0), f64::INFINITY);
        assert_eq!(relative_half_width(&interval(0.0, 0.0), 0.0), 0.0);
    }

    #[test]
    fn many_values_do_not_underflow() {
        let (rank, confidence) = median_ranks(10_000).unwrap();
        // Normal approximation: 5000 - 1.96 * 50.
        assert!((4900..=4903).contains(&rank), "{rank}");
        assert!((0.95..0.953).contains(&confidence), "{confidence}");
    }
}
