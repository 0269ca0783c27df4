//! Seeded random values of known distributions, for simulations in tests.

/// A seeded source of random values.
pub(crate) struct Draw(fastrand::Rng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Uniform in 0..1, never 0.
    pub(crate) fn uniform(&mut self) -> f64 {
        1.0 - self.0.f64()
    }

    /// Standard normal (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.0.f64() < p
    }

    /// `n` values of a first-order autoregression with unit innovations, from its stationary
    /// distribution; its integrated autocorrelation time is (1 + phi) / (1 - phi).
    pub(crate) fn autoregression(&mut self, n: usize, phi: f64) -> Vec<f64> {
        let mut x = self.normal() / (1.0 - phi * phi).sqrt();
        (0..n)
            .map(|_| {
                x = phi * x + self.normal();
                x
            })
            .collect()
    }
}
