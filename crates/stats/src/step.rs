//! One change of level along a ladder of sizes: what fits, and what no longer does.

use super::ladder::Rung;
use super::quantile::median;
use record::order::InOrder;

/// A smaller rise is no step: what no longer fits comes from something that is slower by far.
const RISE: f64 = 1.5;
/// Share of the way from the lower level to the upper one, in logarithms, up to which a value
/// belongs to the lower.
const LOWER_SHARE: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The largest size below it.
    pub low: f64,
    /// The smallest size above it.
    pub high: f64,
    /// Median of the values below.
    pub below: f64,
    /// Median of the values above.
    pub above: f64,
}

/// The step of a ladder, whose rungs may be in any order; `None` without two sizes, and where the
/// values above are not at least one and a half times those below.
///
/// The change point is that of the division into two constant segments with the least sum of
/// squares of the logarithms (one change, so the search is exact). Sizes just above a cliff may lie
/// anywhere between the levels; such a rung is then given to the nearer one, so that the step is
/// where values leave the lower level, not where they have reached the upper.
pub fn step(rungs: &[Rung]) -> Option<Step> {
    let mut rungs: Vec<Rung> =
        rungs.iter().copied().filter(|rung| rung.size > 0.0 && rung.value > 0.0).collect();
    rungs.order_by(|a, b| a.size.total_cmp(&b.size));
    let logs: Vec<f64> = rungs.iter().map(|rung| rung.value.ln()).collect();
    let cost = |at: usize| squares(&logs[..at]) + squares(&logs[at..]);
    let at = (1..rungs.len()).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    let (below, above) = (median(&logs[..at])?, median(&logs[at..])?);
    if above - below < RISE.ln() {
        return None;
    }
    let limit = below + LOWER_SHARE * (above - below);
    // The change point may lie among values on the way up.
    let low = logs[..at].iter().rposition(|log| *log <= limit)?;
    Some(Step {
        low: rungs[low].size,
        high: rungs[low + 1].size,
        below: below.exp(),
        above: above.exp(),
    })
}

/// Sum of squares around the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::{Rung, step};
    use crate::draw::Draw;

    fn rungs(points: &[(f64, f64)]) -> Vec<Rung> {
        let rung = |&(size, value): &(f64, f64)| Rung { size, value };
        points.iter().map(rung).collect()
    }

    #[test]
    fn a_cliff_lies_between_the_sizes_on_its_sides_in_whatever_order() {
        let found = step(&rungs(&[
            (16.0, 0.4),
            (80.0, 8.1),
            (32.0, 0.41),
            (64.0, 8.0),
            (62.0, 0.4),
            (48.0, 0.39),
        ]))
        .expect("a cliff");
        assert_eq!((found.low, found.high), (62.0, 64.0));
        assert!((found.below - 0.4).abs() < 0.01 && (found.above - 8.05).abs() < 0.06);
    }

    #[test]
    fn a_value_on_the_way_up_is_above_once_it_is_nearer_to_the_upper_level() {
        let of = |middle: f64| {
            let points = [(1.0, 0.4), (2.0, 0.4), (3.0, middle), (4.0, 8.0), (5.0, 8.0)];
            let found = step(&rungs(&points)).expect("a step");
            (found.low, found.high)
        };
        assert_eq!(of(0.5), (3.0, 4.0));
        assert_eq!(of(4.0), (2.0, 3.0));
    }

    #[test]
    fn a_slope_that_is_noise_is_no_step() {
        let mut draw = Draw::new(1);
        for _ in 0..200 {
            let points: Vec<(f64, f64)> =
                (1..=11).map(|size| (f64::from(size), (0.1 * draw.normal()).exp())).collect();
            assert_eq!(step(&rungs(&points)), None);
        }
        assert_eq!(step(&rungs(&[(1.0, 1.0)])), None);
        assert_eq!(step(&[]), None);
        // Neither is one downwards.
        assert_eq!(step(&rungs(&[(1.0, 8.0), (2.0, 0.4)])), None);
    }

    #[test]
    fn noisy_cliffs_are_found_where_they_are() {
        let mut draw = Draw::new(2);
        for cliff in 2..=10 {
            let points: Vec<(f64, f64)> = (1..=11)
                .map(|size| {
                    let level = if size < cliff { 0.4 } else { 4.0 };
                    (f64::from(size), level * (0.2 * draw.normal()).exp())
                })
                .collect();
            let found = step(&rungs(&points)).expect("a cliff");
            assert_eq!(found.high, f64::from(cliff), "{points:?}");
        }
    }
}
