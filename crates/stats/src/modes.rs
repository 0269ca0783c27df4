//! Two modes are reported as two modes.
//!
//! Whether there are two is decided by the dip test (Hartigan and Hartigan 1985) at the 5 % level:
//! it needs no bandwidth and no model of the modes, and keeps its level for every unimodal shape,
//! skewed ones included. A gap test was the alternative; it confuses the gap before a single
//! outlier with one between modes. The dip of two distant modes is half the smaller one's share, so
//! the test can see a third of 6 rounds, a fifth of 20, a tenth of 100 samples and, as what is
//! rarer counts as outliers, 5 % of 400 and more. Where the two part is the split with the least
//! sum of absolute deviations from both medians, which outliers hardly move.

use super::dip::{critical_dip, dip};
use super::quantile::{quantile_of_sorted, robust_deviation};

/// The least share that counts as a mode; what is rarer is an outlier.
const LEAST_SHARE: f64 = 0.05;

/// This many values, spread evenly over the ranks, show the modes as well as all values.
const MOST_VALUES: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Median of the values in the mode.
    pub centre: f64,
    /// Share of the values in the mode, 0..=1.
    pub share: f64,
    /// Least value in the mode.
    pub low: f64,
    /// Greatest value in the mode.
    pub high: f64,
}

/// The modes of the values, ascending: two where the dip test rejects a single one and both hold
/// at least 5 % of the values, else one; none without values. The values must be in ascending order.
///
/// `resolution` is the step in which the values come (0 where they are continuous). Equal values
/// are first spread evenly over one step, for a quantised unimodal sample would otherwise show
/// a mode at each step.
pub fn modes(sorted: &[f64], resolution: f64) -> Vec<Mode> {
    let whole = || mode(sorted, sorted.len()).into_iter().collect();
    let spread = thinned(&spread_ties(sorted, resolution));
    let two = critical_dip(spread.len()).is_some_and(|critical| dip(&spread) > critical);
    if !two {
        return whole();
    }
    let Some(at) = split(sorted) else { return whole() };
    let (low, high) = sorted.split_at(at);
    if !are_apart(low, high) {
        return whole();
    }
    [low, high].iter().filter_map(|part| mode(part, sorted.len())).collect()
}

/// The two groups that a few values fall into, where nothing lies between them: the least of the
/// upper is at least `factor` times the greatest of the lower, and either group is at most as wide
/// as the root of that gap; each holds at least two values. `None` where they do not. The values must be positive
/// and in ascending order.
///
/// Unlike [`modes`] it needs no tenth of the values in the smaller group, and so serves where it is
/// known that values may jump by a large factor: two of fifteen rounds are enough.
pub fn groups(sorted: &[f64], factor: f64) -> Option<[Mode; 2]> {
    let least = sorted.first().filter(|least| **least > 0.0)?;
    let gap = |at: &usize| sorted[*at] / sorted[*at - 1];
    let at = (2..=sorted.len().checked_sub(2)?).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (low, high) = sorted.split_at(at);
    let widest = (low.last()? / least).max(sorted.last()? / high.first()?);
    let is_gap = gap(&at) >= factor && gap(&at) > widest.powi(2);
    is_gap.then_some([mode(low, sorted.len())?, mode(high, sorted.len())?])
}

/// Ashman's D over 2: the distance of the medians is more than twice the root mean square of the
/// parts' spreads (Ashman, Bird and Zepf 1994, here with spreads from the median absolute
/// deviation). The dip of a tight peak with far tails is significant too, but its tail, being
/// wider than it is far, is no mode.
fn are_apart(low: &[f64], high: &[f64]) -> bool {
    const ASHMAN_D: f64 = 2.0;
    let centre_and_spread = |part: &[f64]| {
        let centre = quantile_of_sorted(part, 0.5)?;
        Some((centre, robust_deviation(part, centre)))
    };
    let (Some(low), Some(high)) = (centre_and_spread(low), centre_and_spread(high)) else {
        return false;
    };
    let spread = f64::midpoint(low.1 * low.1, high.1 * high.1).sqrt();
    high.0 - low.0 > ASHMAN_D * spread
}

fn mode(part: &[f64], of: usize) -> Option<Mode> {
    Some(Mode {
        centre: quantile_of_sorted(part, 0.5)?,
        share: part.len() as f64 / of as f64,
        low: *part.first()?,
        high: *part.last()?,
    })
}

/// Values within a tie moved evenly over one step around it. Order is kept.
fn spread_ties(sorted: &[f64], resolution: f64) -> Vec<f64> {
    if resolution <= 0.0 {
        return sorted.to_vec();
    }
    sorted
        .chunk_by(|a, b| (b - a).abs() < resolution / 2.0)
        .flat_map(|tie| {
            let count = tie.len() as f64;
            tie.iter()
                .enumerate()
                .map(move |(i, value)| value + resolution * ((i as f64 + 0.5) / count - 0.5))
        })
        .collect()
}

/// At most [`MOST_VALUES`] of the values, evenly by rank.
fn thinned(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= MOST_VALUES {
        return sorted.to_vec();
    }
    (0..MOST_VALUES).map(|i| sorted[(2 * i + 1) * sorted.len() / (2 * MOST_VALUES)]).collect()
}

/// How many values belong to the lower part when the sum of absolute deviations from the two
/// medians is least; both parts hold at least [`LEAST_SHARE`] and differ in value.
fn split(sorted: &[f64]) -> Option<usize> {
    let n = sorted.len();
    let mut sums = vec![0.0; n + 1];
    for (i, value) in sorted.iter().enumerate() {
        // Relative to the least value, so that a large offset does not cost digits.
        sums[i + 1] = sums[i] + (value - sorted[0]);
    }
    let deviation = |from: usize, to: usize| {
        let half = (to - from) / 2;
        (sums[to] - sums[to - half]) - (sums[from + half] - sums[from])
    };
    let least = ((LEAST_SHARE * n as f64).ceil() as usize).max(1);
    (least..=n.checked_sub(least)?)
        .filter(|&at| sorted[at - 1] < sorted[at])
        .map(|at| (at, deviation(0, at) + deviation(at, n)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, share_of};
    use crate::quantile::sorted;

    fn fired(seed: u64, n: usize, trials: usize, value: impl Fn(&mut Draw) -> f64) -> f64 {
        let mut draw = Draw::new(seed);
        share_of(trials, || modes(&sorted(&draw.values(n, &value)), 0.0).len() == 2)
    }

    #[test]
    fn one_mode_is_rarely_called_two() {
        for n in [6, 9, 20, 100, 1000] {
            let trials = if n > 500 { 200 } else { 1000 };
            let normal = fired(1, n, trials, Draw::normal);
            let log_normal = fired(2, n, trials, |d| d.normal().exp());
            let uniform = fired(3, n, trials, Draw::uniform);
            println!("n {n}: normal {normal} log-normal {log_normal} uniform {uniform}");
            assert!(normal < 0.05, "normal {n}: {normal}");
            assert!(log_normal < 0.05, "log-normal {n}: {log_normal}");
            assert!(uniform < 0.08, "uniform {n}: {uniform}");
        }
    }

    #[test]
    fn two_clear_modes_are_found_with_their_shares() {
        for n in [20, 100, 1000] {
            let found = fired(4, n, 200, |d| d.normal() + if d.chance(0.4) { 12.0 } else { 0.0 });
            println!("n {n}: {found} of clear mixtures found");
            // Twenty draws often leave the smaller mode with too few values to be seen.
            let least = if n == 20 { 0.8 } else { 0.99 };
            assert!(found > least, "{n}: {found}");
        }
        let mut draw = Draw::new(5);
        let values: Vec<f64> = (0..1000)
            .map(|i| 100.0 + draw.normal() + if i % 10 < 3 { 20.0 } else { 0.0 })
            .collect();
        let found = modes(&sorted(&values), 0.0);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].share, found[1].share), (0.7, 0.3));
        assert!((found[0].centre - 100.0).abs() < 0.3, "{found:?}");
        assert!((found[1].centre - 120.0).abs() < 0.3, "{found:?}");
        assert!(found[0].high < 110.0 && found[1].low > 110.0);
    }

    #[test]
    fn six_rounds_show_two_equal_modes() {
        assert_eq!(modes(&[1.0, 1.01, 1.02, 2.0, 2.01, 2.02], 0.0).len(), 2);
        assert_eq!(modes(&[1.0, 1.1, 1.2, 1.3, 1.4, 9.0], 0.0).len(), 1);
    }

    #[test]
    fn two_of_fifteen_rounds_that_jump_are_a_group_and_noise_is_none() {
        let mut draw = Draw::new(8);
        let mut share = |n: usize, value: &dyn Fn(&mut Draw, usize) -> f64| {
            share_of(2000, || {
                let values: Vec<f64> = (0..n).map(|at| value(&mut draw, at)).collect();
                groups(&sorted(&values), 2.0).is_some()
            })
        };
        for n in [4, 9, 15, 40] {
            // Cores that share a cache or do not, each with 8 % of deviation.
            let jump = |draw: &mut Draw, at| {
                (if at < 2 { 122.0 } else { 26.0 }) * (0.08 * draw.normal()).exp()
            };
            let noise = |draw: &mut Draw, _| (0.25 * draw.normal()).exp();
            // A value in ten is greater by a factor that differs: chance alone may make two alike.
            let spikes = |draw: &mut Draw, _| {
                let spike = if draw.chance(0.1) { 1.0 + 5.0 * draw.uniform() } else { 1.0 };
                spike * (0.08 * draw.normal()).exp()
            };
            let [jump, noise, spikes] = [share(n, &jump), share(n, &noise), share(n, &spikes)];
            println!("{n}: jumps {jump}, noise {noise}, spikes {spikes}");
            assert!(jump > 0.999 && noise < 0.01 && spikes < 0.2, "{jump} {noise} {spikes}");
        }
        // One round of nine, a way in between, too little, and nothing at all.
        for values in [
            &[43.0, 43.5, 44.0, 46.0, 49.0, 49.5, 50.0, 53.0, 245.0][..],
            &[25.0, 26.0, 60.0, 70.0, 118.0, 122.0],
            &[25.0, 26.0, 40.0, 41.0],
            &[0.0, 0.0, 9.0, 9.0],
            &[1.0, 2.0],
            &[],
        ] {
            assert_eq!(groups(values, 2.0), None, "{values:?}");
        }
        let [near, far] = groups(&[25.0, 26.0, 27.0, 121.0, 122.0], 2.0).expect("two groups");
        assert_eq!((near.centre, near.share, far.centre, far.share), (26.0, 0.6, 121.5, 0.4));
    }

    #[test]
    fn steps_of_the_clock_are_no_modes() {
        let mut draw = Draw::new(6);
        let ticks = draw.values(1000, |draw| (50.0 + 2.0 * draw.normal()).round() * 10.0);
        assert_eq!(modes(&sorted(&ticks), 10.0).len(), 1);
        // Two levels one step apart are quantisation; far apart they are modes.
        let levels = |far: f64| -> Vec<f64> {
            (0..100).map(|i| if i % 2 == 0 { 20.0 } else { 20.0 + far }).collect()
        };
        assert_eq!(modes(&sorted(&levels(10.0)), 10.0).len(), 1);
        assert_eq!(modes(&sorted(&levels(80.0)), 10.0).len(), 2);
    }

    #[test]
    fn one_far_outlier_is_no_mode() {
        let mut draw = Draw::new(7);
        let mut values = draw.values(200, Draw::normal);
        values.push(1e6);
        assert_eq!(modes(&sorted(&values), 0.0).len(), 1);
        assert_eq!(modes(&[], 0.0), []);
    }
}
