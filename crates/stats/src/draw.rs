//! Seeded random values of known distributions, for simulations in tests.

/// A seeded source of random values.
pub struct Draw(fastrand::Rng);

impl Draw {
    /// Draws that begin with a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Uniform in 0..1, never 0.
    pub fn uniform(&mut self) -> f64 {
        1.0 - self.0.f64()
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.0.f64() < p
    }

    /// `n` values, each drawn by itself.
    pub fn values(&mut self, n: usize, mut value: impl FnMut(&mut Draw) -> f64) -> Vec<f64> {
        (0..n).map(|_| value(self)).collect()
    }

    /// `n` values of a first-order autoregression with unit innovations, from its stationary
    /// distribution; its integrated autocorrelation time is (1 + phi) / (1 - phi).
    pub fn autoregression(&mut self, n: usize, phi: f64) -> Vec<f64> {
        let mut x = self.normal() / (1.0 - phi * phi).sqrt();
        (0..n)
            .map(|_| {
                x = phi * x + self.normal();
                x
            })
            .collect()
    }
}

/// A distribution of round values with true median 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rounds {
    Normal,
    LogNormal,
    /// Three of five rounds in the faster mode, six deviations apart.
    Bimodal,
    /// The round value is the mean of forty correlated samples.
    Autocorrelated,
}

impl Rounds {
    pub const ALL: [Rounds; 4] =
        [Rounds::Normal, Rounds::LogNormal, Rounds::Bimodal, Rounds::Autocorrelated];

    pub fn draw(self, draw: &mut Draw, deviation: f64) -> f64 {
        match self {
            Self::Normal => 1.0 + deviation * draw.normal(),
            Self::LogNormal => (deviation * draw.normal()).exp(),
            Self::Bimodal => {
                // The median of 3/5 N(0, 1) + 2/5 N(6, 1) is the 5/6 quantile of the first.
                let far = if draw.chance(0.4) { 6.0 } else { 0.0 };
                let scale = (1.0 + 0.24 * 36.0_f64).sqrt();
                1.0 + deviation / scale * (draw.normal() + far - BIMODAL_MEDIAN)
            }
            Self::Autocorrelated => {
                let samples = draw.autoregression(40, 0.7);
                // Sum over lags of (1 - k / 40) 0.7^k / (1 - 0.7^2), over 40.
                1.0 + deviation / 0.508_64 * samples.iter().sum::<f64>() / 40.0
            }
        }
    }
}
/// Solves 0.6 Phi(x) + 0.4 Phi(x - 6) = 0.5.
const BIMODAL_MEDIAN: f64 = 0.967_42;

/// Share of the simulations in which a condition holds.
pub fn share_of(trials: usize, mut is_true: impl FnMut() -> bool) -> f64 {
    (0..trials).filter(|_| is_true()).count() as f64 / trials as f64
}

/// Simulations of each kind: few, or as many as `PLUMB_TRIALS` says.
pub fn trials(few: usize) -> usize {
    let told = std::env::var("PLUMB_TRIALS").ok();
    told.and_then(|count| count.parse().ok()).unwrap_or(few)
}
