//! The trimmed mean, which a disturbed repetition or an odd node does not move, with the winsorised
//! variance (Tukey and McLaughlin 1963; Yuen 1974).

use stats::compare::variance::Variance;
use stats::quantile::sorted;

/// Share of the values that is left out at each end.
const TRIMMED: f64 = 0.2;

/// The mean, and its squared error by these values alone, which one value has not. `None` without any
/// values.
pub(crate) fn trimmed_mean(values: &[f64]) -> Option<(f64, Option<Variance>)> {
    let count = values.len();
    let cut = (TRIMMED * count as f64) as usize;
    let ascending = sorted(values);
    let kept = ascending.get(cut..count - cut).filter(|kept| !kept.is_empty())?;
    let left = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / left;
    let (low, high) = (kept[0], kept[kept.len() - 1]);
    let clamped = || ascending.iter().map(|x| x.clamp(low, high));
    let centre = clamped().sum::<f64>() / count as f64;
    let squares: f64 = clamped().map(|x| (x - centre).powi(2)).sum();
    let freedom = left - 1.0;
    let error = Variance { variance: squares / (left * freedom), freedom };
    Some((mean, (freedom > 0.0).then_some(error)))
}

#[cfg(test)]
mod tests {
    use super::trimmed_mean;

    #[test]
    fn a_trimmed_mean_and_its_error_by_hand() {
        // Of ten values two at each end go; R: mean(x, trim = 0.2), and Yuen's error.
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1000.0];
        let (mean, error) = trimmed_mean(&values).unwrap();
        // Winsorised: 3 3 3 4 5 6 7 8 8 8, squares 42.5 about 5.5, over 6 times 5.
        let error = error.unwrap();
        assert!((error.variance - 42.5 / 30.0).abs() < 1e-12 && error.freedom == 5.0);
        assert_eq!((mean, trimmed_mean(&[4.0]), trimmed_mean(&[])), (5.5, Some((4.0, None)), None));
    }
}
