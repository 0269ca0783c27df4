//! Whether pairs of values differ in one direction.

use crate::quantile::sorted;

/// Two-sided p value of the hypothesis that differences scatter symmetrically around 0: the signed-rank test (Wilcoxon
/// 1945), exact, conditional on ties, which share their mean rank. Differences of 0 count for neither side. 1 without
/// others.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let counted = differences.iter().copied().filter(|one| one.is_finite() && *one != 0.0);
    let counted: Vec<f64> = counted.collect();
    let sizes = sorted(&counted.iter().map(|one| one.abs()).collect::<Vec<f64>>());
    // Doubled ranks are whole numbers also where ties share one.
    let doubled = |size: f64| {
        let below = sizes.partition_point(|one| *one < size);
        let until = sizes.partition_point(|one| *one <= size);
        below + until + 1
    };
    let ranks: Vec<usize> = counted.iter().map(|one| doubled(one.abs())).collect();
    let positive = counted.iter().zip(&ranks).filter(|(one, _)| **one > 0.0);
    let found: usize = positive.map(|(_, rank)| rank).sum();
    let all: usize = ranks.iter().sum();
    let extreme = found.min(all - found);
    // The chance of each sum of ranks, if each difference has either sign with the same chance.
    let mut chances = vec![0.0; all + 1];
    chances[0] = 1.0;
    for rank in ranks {
        for sum in (0..=all).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| chances[rest]);
            chances[sum] = 0.5 * (chances[sum] + with);
        }
    }
    (2.0 * chances[..=extreme].iter().sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::signed_rank;
    use crate::draw::{Draw, share_of, trials};

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    #[test]
    fn a_rank_sum_has_the_chance_that_counting_gives() {
        // All six of one sign: 2 of 64 patterns.
        assert!(is_near(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2.0 / 64.0));
        // The sum of the negative ranks is 1: {} and {1}, on both sides.
        assert!(is_near(signed_rank(&[-1.0, 2.0, 3.0, 4.0, 5.0]), 4.0 / 32.0));
        // Two ties share rank 1.5; sums up to 1.5: {}, {a}, {b}.
        assert!(is_near(signed_rank(&[-1.0, 1.0, 2.0]), 6.0 / 8.0));
        assert!(is_near(signed_rank(&[0.0, f64::NAN]), 1.0) && is_near(signed_rank(&[]), 1.0));
    }

    #[test]
    fn differences_without_direction_are_rarely_called_one() {
        let mut draw = Draw::new(7);
        let share = share_of(trials(2_000), || {
            let values = draw.values(15, |draw| draw.normal());
            signed_rank(&values) <= 0.05
        });
        assert!((0.03..0.06).contains(&share), "{share}");
    }
}
