//! When requests are due: drawn before the first is sent, so that nothing that happens can move it.

use anyhow::{Result, ensure};
use laws::net::request::Schedule;

/// More requests are not held.
const MOST: f64 = 4e6;
/// Fewer say nothing of a rate.
pub(super) const LEAST: usize = 8;

/// Due times in ns from the first: so many as fit into `window_ns` at `rate` a second, at least
/// [`LEAST`].
pub(super) fn due(
    schedule: Schedule,
    rate: f64,
    window_ns: f64,
    longest_ns: f64,
    seed: u64,
) -> Result<Vec<f64>> {
    let period_ns = 1e9 / rate;
    let count = (window_ns / period_ns).round().max(LEAST as f64);
    ensure!(
        rate > 0.0 && count * period_ns <= longest_ns.max(window_ns * 1.01),
        "at {rate:.1} requests per second, {LEAST} requests take longer than {:.1} s; allow more \
         with --set net.request.time=…",
        longest_ns / 1e9
    );
    ensure!(count <= MOST, "{count:.0} requests are too many; the limit is {MOST:.0}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at_ns = 0.0;
    let mut next = || {
        let now_ns = at_ns;
        at_ns += match schedule {
            Schedule::Fixed => period_ns,
            // 1 - u is above 0, so the logarithm is finite.
            Schedule::Poisson => -(1.0 - random.f64()).ln() * period_ns,
        };
        now_ns
    };
    Ok((0..count as usize).map(|_| next()).collect())
}

#[cfg(test)]
mod tests {
    use super::due;
    use laws::net::request::Schedule;

    #[test]
    fn fixed_ones_are_a_period_apart() {
        let all = due(Schedule::Fixed, 1e4, 1e7, 1e9, 1).unwrap();
        assert_eq!((all.len(), all[0], all[99]), (100, 0.0, 9_900_000.0));
        // At least eight, however slow, as long as there is time.
        assert_eq!(due(Schedule::Fixed, 10.0, 1e7, 1e9, 1).unwrap().len(), 8);
        let error = due(Schedule::Fixed, 1.0, 1e7, 1e9, 1).unwrap_err();
        assert!(error.to_string().contains("time="), "{error}");
        assert!(due(Schedule::Fixed, 1e9, 1e11, 1e12, 1).is_err());
    }

    #[test]
    fn random_ones_have_the_rate_and_the_spread_of_poisson() {
        let all = due(Schedule::Poisson, 1e5, 1e9, 1e9, 7).unwrap();
        assert_eq!(all.len(), 100_000);
        let gaps: Vec<f64> = all.windows(2).map(|two| two[1] - two[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let deviation = (square / gaps.len() as f64).sqrt();
        assert!((mean / 1e4 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation}");
        // Another seed is another schedule, the same one the same.
        assert_eq!(due(Schedule::Poisson, 1e5, 1e9, 1e9, 7).unwrap(), all);
        assert_ne!(due(Schedule::Poisson, 1e5, 1e9, 1e9, 8).unwrap(), all);
    }
}
