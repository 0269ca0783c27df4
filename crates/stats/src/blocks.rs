//! Intervals inside one run, for experiments that run once.

use super::autocorrelation;
use super::interval::{Interval, median_order};
use super::quantile::median;

/// Fewest blocks that give an interval.
pub const LEAST_BLOCKS: usize = 6;

/// Most blocks formed: as many as the last look has rounds. More would only make each shorter.
pub const MOST_BLOCKS: usize = 20;

/// Least length of a block in autocorrelation times.
pub const LEAST_TIMES: f64 = 10.0;

/// A figure of one run with the interval that its blocks give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithinRun {
    pub value: f64,
    /// Exact interval of the block values' median.
    pub interval: Interval,
    pub blocks: usize,
}

/// Divides the samples, in the order taken, into [`LEAST_BLOCKS`] to [`MOST_BLOCKS`] equal blocks
/// each longer than [`LEAST_TIMES`] autocorrelation times, takes `statistic` of each block, and
/// gives the median of these block values with its interval. The samples left over after the
/// last whole block belong to none.
///
/// `None` where the samples do not suffice: too few, too correlated, or drifting.
pub fn within_run(samples: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<WithinRun> {
    let time = autocorrelation::time(samples)?;
    let least_len = (LEAST_TIMES * time).floor() as usize + 1;
    let blocks = (samples.len() / least_len).min(MOST_BLOCKS);
    if blocks < LEAST_BLOCKS {
        return None;
    }
    let block_len = samples.len() / blocks;
    let values: Option<Vec<f64>> =
        samples.chunks_exact(block_len).take(blocks).map(statistic).collect();
    let values = values?;
    Some(WithinRun { value: median(&values)?, interval: median_order(&values)?, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn blocks_are_long_enough() {
        let mut draw = Draw::new(1);
        let samples = draw.autoregression(2_000, 0.8);
        let found = within_run(&samples, median).unwrap();
        assert!((LEAST_BLOCKS..=MOST_BLOCKS).contains(&found.blocks));
        let time = autocorrelation::time(&samples).unwrap();
        assert!((2_000 / found.blocks) as f64 > LEAST_TIMES * time);
    }

    #[test]
    fn too_few_or_drifting_samples_have_no_interval() {
        let mut draw = Draw::new(2);
        assert_eq!(within_run(&draw.autoregression(50, 0.0), median), None);
        assert_eq!(within_run(&draw.autoregression(300, 0.9), median), None);
        let drift: Vec<f64> = (0..5_000).map(f64::from).collect();
        assert_eq!(within_run(&drift, median), None);
    }
}
