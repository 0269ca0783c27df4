//! Where a series changes level: warm-up, and steps in a long run.
//!
//! The method is ED-PELT (Haynes, Fearnhead and Eckley 2017, "A computationally efficient
//! nonparametric approach for changepoint detection"): the cost of a segment is the likelihood of
//! its empirical distribution at a few quantiles of the whole, so neither a scale nor a shape is
//! assumed and single spikes are no change; the best division is found exactly by pruned dynamic
//! programming (PELT, Killick, Fearnhead and Eckley 2012).

use super::quantile::{median, sorted};

/// Longest series searched point by point; longer ones are thinned to medians of consecutive
/// points, and the change points are then exact to one bin.
const MOST_POINTS: usize = 500;

/// Penalty of one change point, in units of ln n: in simulation an unchanging series of 20 to 200
/// values, normal, log-normal or uniform, then changes in at most 3 % of cases (with 3, the usual
/// value, in 20 %).
const PENALTY: f64 = 5.0;

/// Differences that suffice to estimate a correlation from.
const LEAST_TO_TELL: usize = 40;

/// Greatest correlation taken from differences; above it a series is a random walk.
const MOST_CORRELATED: f64 = 0.95;

/// Relative difference of level below which reference timings count as settled.
const SETTLED: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// How many leading values to discard.
    pub discard: usize,
    /// Whether at least half of the series remains: else it had not settled yet.
    pub settled: bool,
}

/// How many leading reference timings belong to the warm-up: all before the first segment whose
/// median is within 1 % of the level of the series' second half, or within its scatter. A
/// disturbance after that is not a warm-up and discards nothing.
pub fn warm_up(timings: &[f64]) -> WarmUp {
    let n = timings.len();
    let tail = &timings[n / 2..];
    let Some(level) = median(tail) else { return WarmUp { discard: 0, settled: false } };
    let deviations: Vec<f64> = tail.iter().map(|x| (x - level).abs()).collect();
    let scatter = median(&deviations).unwrap_or(0.0) / 0.6745;
    let near = (SETTLED * level.abs()).max(scatter);
    let mut bounds = vec![0];
    // Plain divisions: a ramp is correlated, and what is split too often here is level all the
    // same.
    bounds.extend(divided(timings, 3, |_| 1.0));
    bounds.push(n);
    let discard = bounds
        .windows(2)
        .find(|pair| median(&timings[pair[0]..pair[1]]).is_some_and(|m| (m - level).abs() <= near))
        .map_or(n, |pair| pair[0]);
    WarmUp { discard, settled: discard <= n / 2 }
}

/// The indices at which a new segment begins, ascending; empty for a series that does not
/// change. No segment is shorter than `least` values (at least 2). The penalty grows with the
/// autocorrelation time inside the segments, for correlated values wander without changing.
pub fn change_points(values: &[f64], least: usize) -> Vec<usize> {
    divided(values, least, memory)
}

/// The division of the values, thinned where there are many; `scale` says by how much more than
/// [`PENALTY`] a change point of them costs.
fn divided(values: &[f64], least: usize, scale: impl Fn(&[f64]) -> f64) -> Vec<usize> {
    let bin = values.len().div_ceil(MOST_POINTS).max(1);
    let binned: Vec<f64> = values.chunks(bin).filter_map(median).collect();
    SegmentCost::new(&binned)
        .divide(least.div_ceil(bin).max(2), scale(&binned))
        .into_iter()
        .map(|at| at * bin)
        .collect()
}

/// Autocorrelation time of the values around their level, blind to steps of that level: with
/// first-order correlation r the squared differences at lags 2 and 1 are as 1 + r to 1, and a few
/// steps do not move the medians of the differences (Chakar, Lebarbier, Levy-Leduc and Robin 2017).
/// Negative correlation counts as none; 1 for series that are too short.
fn memory(values: &[f64]) -> f64 {
    let typical = |lag: usize| {
        let differences: Vec<f64> =
            values.iter().zip(values.get(lag..)?).map(|(a, b)| (b - a).abs()).collect();
        median(&differences).filter(|_| differences.len() >= LEAST_TO_TELL)
    };
    match typical(1).zip(typical(2)) {
        Some((one, two)) if one > 0.0 => {
            let correlation = ((two / one).powi(2) - 1.0).clamp(0.0, MOST_CORRELATED);
            (1.0 + correlation) / (1.0 - correlation)
        }
        _ => 1.0,
    }
}

/// Cost of any segment of one series from running counts below each of a few quantiles.
struct SegmentCost {
    /// For each quantile, twice the number of values below it among the first t (ties count
    /// one), t from 0 to n.
    below: Vec<Vec<u32>>,
    n: usize,
}

impl SegmentCost {
    fn new(values: &[f64]) -> Self {
        let n = values.len();
        let quantiles = ((4.0 * (n.max(2) as f64).ln()).ceil() as usize).min(n);
        let sorted = sorted(values);
        // More quantiles in the tails, as the paper's section 3.1 has it.
        let spread = -(2.0 * n as f64 - 1.0).ln();
        let below = (0..quantiles)
            .map(|i| {
                let z = -1.0 + (2.0 * i as f64 + 1.0) / quantiles as f64;
                let p = 1.0 / (1.0 + (spread * z).exp());
                let at = sorted[((n - 1) as f64 * p) as usize];
                running_counts(values, at)
            })
            .collect();
        Self { below, n }
    }

    fn segment_cost(&self, from: usize, to: usize) -> f64 {
        let length = (to - from) as f64;
        let sum: f64 = self
            .below
            .iter()
            .map(|counts| f64::from(counts[to] - counts[from]) / (2.0 * length))
            .filter(|&share| share > 0.0 && share < 1.0)
            .map(|share| share * share.ln() + (1.0 - share) * (1.0 - share).ln())
            .sum();
        let weight = -(2.0 * self.n as f64 - 1.0).ln() / self.below.len() as f64;
        2.0 * weight * length * sum
    }

    /// The division of least cost where each change costs `PENALTY * scale * ln n`.
    fn divide(&self, least: usize, scale: f64) -> Vec<usize> {
        let n = self.n;
        if n < 2 * least {
            return vec![];
        }
        let penalty = PENALTY * scale * (n as f64).ln();
        // best[t]: least cost of the first t values; last[t]: where its last segment begins.
        let mut best = vec![f64::INFINITY; n + 1];
        let mut last = vec![0; n + 1];
        best[0] = -penalty;
        let mut starts = vec![0];
        for end in least..=n {
            let costs: Vec<f64> =
                starts.iter().map(|&start| best[start] + self.segment_cost(start, end)).collect();
            let (chosen, cost) = costs
                .iter()
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(b.1))
                .expect("start 0 or a later one that beats it is always kept");
            best[end] = cost + penalty;
            last[end] = starts[chosen];
            // A start that is beaten by the penalty now is beaten for every later end.
            let limit = best[end];
            let mut costs = costs.iter();
            starts.retain(|_| costs.next().is_some_and(|&cost| cost < limit));
            starts.push(end + 1 - least);
        }
        let mut changes = vec![];
        let mut at = last[n];
        while at > 0 {
            changes.push(at);
            at = last[at];
        }
        changes.reverse();
        changes
    }
}

fn running_counts(values: &[f64], limit: f64) -> Vec<u32> {
    let mut total = 0;
    let mut counts = vec![0];
    counts.extend(values.iter().map(|&value| {
        total += if value < limit { 2 } else { u32::from(value == limit) };
        total
    }));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, share_of};

    fn changing(seed: u64, n: usize, trials: usize, value: impl Fn(&mut Draw) -> f64) -> f64 {
        let mut draw = Draw::new(seed);
        share_of(trials, || !change_points(&draw.values(n, &value), 5).is_empty())
    }

    #[test]
    fn unchanging_series_rarely_change() {
        for n in [20, 60, 200] {
            let trials = if n < 100 { 300 } else { 100 };
            let normal = changing(1, n, trials, Draw::normal);
            let log_normal = changing(2, n, trials, |d| d.normal().exp());
            let uniform = changing(3, n, trials, Draw::uniform);
            println!("n {n}: false changes {normal} {log_normal} {uniform}");
            assert!(normal.max(log_normal).max(uniform) < 0.05, "{n}");
        }
    }

    #[test]
    fn correlated_series_rarely_change() {
        let mut draw = Draw::new(4);
        let found = share_of(60, || !change_points(&draw.autoregression(200, 0.5), 5).is_empty());
        println!("autocorrelated: false changes {found}");
        assert!(found <= 0.15, "{found}");
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut draw = Draw::new(5);
        let values: Vec<f64> = (0..300).map(|i| draw.normal() + [0.0, 8.0, 3.0][i / 100]).collect();
        let found = change_points(&values, 5);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].abs_diff(100) <= 2 && found[1].abs_diff(200) <= 2, "{found:?}");
    }

    #[test]
    fn spikes_are_no_change_and_length_is_no_limit() {
        let mut draw = Draw::new(6);
        let mut values = draw.values(200, Draw::normal);
        values[50] = 1e6;
        values[120] = -1e6;
        assert!(change_points(&values, 5).is_empty());
        let long: Vec<f64> =
            (0..50_000).map(|i| draw.normal() + if i < 30_000 { 0.0 } else { 3.0 }).collect();
        let found = change_points(&long, 5);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].abs_diff(30_000) <= 100, "{found:?}");
    }

    #[test]
    fn too_short_or_equal_series_do_not_change() {
        for values in [&[][..], &[1.0], &[1.0, 9.0], &[5.0; 40]] {
            assert!(change_points(values, 2).is_empty(), "{values:?}");
        }
    }

    #[test]
    fn warm_up_ends_at_the_change() {
        let mut draw = Draw::new(7);
        let mut timings = |slow: usize, n: usize| -> Vec<f64> {
            (0..n).map(|i| if i < slow { 150.0 } else { 100.0 } + 0.2 * draw.normal()).collect()
        };
        for slow in [5, 12, 20] {
            let found = warm_up(&timings(slow, 60));
            assert!(found.discard.abs_diff(slow) <= 1 && found.settled, "{slow}: {found:?}");
        }
        assert_eq!(warm_up(&timings(0, 60)), WarmUp { discard: 0, settled: true });
        assert!(!warm_up(&timings(40, 60)).settled);
        assert_eq!(warm_up(&[]), WarmUp { discard: 0, settled: false });
    }

    #[test]
    fn a_clock_that_ramps_is_discarded_until_it_is_level() {
        let ramp: Vec<f64> =
            (0..120).map(|i| 100.0 * (1.0 + 0.8 * (-f64::from(i) / 8.0).exp())).collect();
        let found = warm_up(&ramp);
        // Within 1 % from value 35 on; a segment's median may be level a few values sooner.
        assert!((24..=45).contains(&found.discard) && found.settled, "{found:?}");
    }

    #[test]
    fn a_late_disturbance_discards_nothing() {
        let mut draw = Draw::new(8);
        let mut timings = draw.values(80, |draw| 100.0 + 0.2 * draw.normal());
        for late in &mut timings[50..62] {
            *late += 40.0;
        }
        assert_eq!(warm_up(&timings).discard, 0);
    }
}
