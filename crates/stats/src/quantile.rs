//! Quantiles and order statistics.

/// The values in ascending order. Finite values assumed; a NaN would sort last.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    // The stable sort joins runs, such as rounds that are in order each.
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The rank of every value from 0; equal ones share their mean rank.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let sorted = sorted(values);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other < value);
        let up_to = sorted.partition_point(|other| other <= value);
        ((below + up_to) as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// The `q`-quantile (`q` in 0..=1) by linear interpolation between order statistics, type 7 of
/// Hyndman and Fan (1996), the default of R and NumPy. `None` when there are no values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let (below, above, share) = place(values.len(), q)?;
    let mut values = values.to_vec();
    let (_, low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let next = rest.iter().copied().min_by(f64::total_cmp).filter(|_| above > below);
    Some(between(low, next.unwrap_or(low), share))
}

/// The same as [`quantile`], for values already in ascending order.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let (below, above, share) = place(sorted.len(), q)?;
    Some(between(sorted[below], sorted[above], share))
}

/// Where among so many values in ascending order a quantile lies: the places on both sides of it,
/// and its distance from the lower one.
fn place(count: usize, q: f64) -> Option<(usize, usize, f64)> {
    assert!((0.0..=1.0).contains(&q), "quantile {q} is not in 0..=1");
    let position = q * count.checked_sub(1)? as f64;
    let below = position.floor() as usize;
    Some((below, position.ceil() as usize, position - below as f64))
}

/// Written so that equal neighbours give their value exactly.
fn between(low: f64, high: f64, share: f64) -> f64 {
    low + share * (high - low)
}

/// The median. `None` when there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// A consistent standard deviation from the median absolute deviation of a normal distribution.
const FROM_MAD: f64 = 1.4826;

/// The standard deviation around a centre by the median absolute deviation; 0 without values.
pub fn robust_deviation(values: &[f64], centre: f64) -> f64 {
    let away: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    FROM_MAD * median(&away).unwrap_or(0.0)
}

/// Rank of the `q`-quantile among `total` values: the nearest, at least the first.
pub fn rank(q: f64, total: u64) -> u64 {
    ((q * total as f64).ceil() as u64).max(1)
}

/// The `q`-quantile by nearest rank of values with their counts, in ascending order, that are the
/// least of `total`. `None` where it lies above them all.
pub fn quantile_of_counted<V>(
    counted: impl IntoIterator<Item = (V, u64)>,
    q: f64,
    total: u64,
) -> Option<V> {
    let rank = rank(q, total);
    let mut below = 0;
    let mut counted = counted.into_iter();
    let reaches = counted.find(|(_, count)| {
        below += count;
        below >= rank
    });
    reaches.map(|(value, _)| value)
}

/// The `rank`-th smallest value, counted from 1. `None` when there is no such rank.
pub fn order_statistic(sorted: &[f64], rank: usize) -> Option<f64> {
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_r_type_7() {
        // R: quantile(c(3, 1, 4, 1, 5, 9, 2, 6), c(0, .1, .25, .5, .9, 1))
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let expected = [1.0, 1.0, 1.75, 3.5, 6.9, 9.0];
        for (q, expected) in [0.0, 0.1, 0.25, 0.5, 0.9, 1.0].into_iter().zip(expected) {
            let found = quantile(&values, q).unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn order_statistics_count_from_one() {
        let sorted = sorted(&[2.0, 9.0, 5.0]);
        assert_eq!(order_statistic(&sorted, 0), None);
        assert_eq!(order_statistic(&sorted, 1), Some(2.0));
        assert_eq!(order_statistic(&sorted, 3), Some(9.0));
        assert_eq!(order_statistic(&sorted, 4), None);
    }

    #[test]
    fn counted_values_have_the_nearest_rank() {
        let counted = [(1.0, 1), (2.0, 2), (5.0, 1)];
        for (q, total, value) in [
            (0.0, 4, Some(1.0)),
            (0.25, 4, Some(1.0)),
            (0.26, 4, Some(2.0)),
            (0.75, 4, Some(2.0)),
            (0.76, 4, Some(5.0)),
            (1.0, 4, Some(5.0)),
            // Four of ten have a value.
            (0.1, 10, Some(1.0)),
            (0.4, 10, Some(5.0)),
            (0.41, 10, None),
        ] {
            assert_eq!(quantile_of_counted(counted, q, total), value, "{q} of {total}");
        }
        assert_eq!(quantile_of_counted::<f64>([], 0.5, 3), None);
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    }
}
