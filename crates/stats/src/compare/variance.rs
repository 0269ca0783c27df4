//! Variances of few rounds, steadied by those of the family.

use statrs::function::gamma::digamma;

/// What the variances of a family say about any one of them: a scaled inverse chi-square
/// distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Typical variance, s0 squared.
    pub variance: f64,
    /// Its weight in degrees of freedom, d0; infinite where the family's variances differ no
    /// more than chance makes them.
    pub freedom: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    pub variance: f64,
    /// Its degrees of freedom, greater than zero.
    pub freedom: f64,
}

/// Fits the prior to a family's variances by the moments of their logarithms (Smyth 2004,
/// "Linear models and empirical Bayes methods …", §6.2; limma's `fitFDist`). A variance of zero
/// (equal rounds) counts as 1e-5 of the median one, as there. `None` below three variances or
/// where most are zero.
pub fn prior(family: &[Variance]) -> Option<Prior> {
    fitted(family, 0.0)
}

/// The same, with the variances one standard error less alike than they seem: few figures may by
/// chance seem alike, and a tail far out rests on that. Never with more degrees of freedom than
/// the variances have together.
pub fn cautious_prior(family: &[Variance]) -> Option<Prior> {
    let most: f64 = family.iter().map(|v| v.freedom).sum();
    fitted(family, 1.0).map(|prior| Prior { freedom: prior.freedom.min(most), ..prior })
}

/// The fit, with `errors` standard errors added to the variance of the logarithms.
fn fitted(family: &[Variance], errors: f64) -> Option<Prior> {
    let all: Vec<f64> = family.iter().map(|v| v.variance).collect();
    let typical = crate::quantile::median(&all).filter(|m| *m > 0.0)?;
    if family.len() < 3 {
        return None;
    }
    let logs: Vec<f64> = family
        .iter()
        .map(|v| {
            let half = v.freedom / 2.0;
            v.variance.max(1e-5 * typical).ln() - digamma(half) + half.ln()
        })
        .collect();
    let moments = crate::moments::Moments::from_values(&logs);
    let chance = family.iter().map(|v| trigamma(v.freedom / 2.0)).sum::<f64>() / logs.len() as f64;
    let (mean, spread) = (moments.mean()?, moments.variance()?);
    let count = logs.len() as f64;
    let fourth = logs.iter().map(|log| (log - mean).powi(4)).sum::<f64>() / count;
    let error = ((fourth - spread * spread).max(0.0) / count).sqrt();
    let beyond_chance = spread - chance + errors * error;
    if beyond_chance <= 0.0 {
        return Some(Prior { variance: mean.exp(), freedom: f64::INFINITY });
    }
    let half = inverse_trigamma(beyond_chance);
    Some(Prior { variance: (mean + digamma(half) - half.ln()).exp(), freedom: 2.0 * half })
}

/// The posterior variance: own and prior, weighted by degrees of freedom.
pub fn shrunk(own: Variance, prior: Option<Prior>) -> Variance {
    match prior {
        None => own,
        Some(prior) if prior.freedom.is_infinite() => {
            Variance { variance: prior.variance, freedom: f64::INFINITY }
        }
        Some(prior) => {
            let freedom = own.freedom + prior.freedom;
            let sum = own.freedom * own.variance + prior.freedom * prior.variance;
            Variance { variance: sum / freedom, freedom }
        }
    }
}

/// The second derivative of ln gamma for x > 0: recurrence up to 10, then the asymptotic series
/// (Abramowitz and Stegun 6.4.6, 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// The x > 0 with trigamma(x) = y, by bisection of ln x: the function falls everywhere.
fn inverse_trigamma(y: f64) -> f64 {
    let (mut low, mut high) = (-20.0_f64, 20.0_f64);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if trigamma(middle.exp()) > y {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::moments::Moments;
    use std::f64::consts::PI;

    #[test]
    fn trigamma_has_its_known_values() {
        assert!((trigamma(1.0) - PI * PI / 6.0).abs() < 1e-12);
        assert!((trigamma(0.5) - PI * PI / 2.0).abs() < 1e-11);
        for x in [0.01, 0.7, 3.0, 400.0] {
            assert!((inverse_trigamma(trigamma(x)) / x - 1.0).abs() < 1e-9);
        }
    }

    fn family(seed: u64, count: usize, scale: impl Fn(&mut Draw) -> f64) -> Vec<Variance> {
        let mut draw = Draw::new(seed);
        (0..count)
            .map(|_| {
                let deviation = scale(&mut draw);
                let values = draw.values(6, |draw| deviation * draw.normal());
                let variance = Moments::from_values(&values).variance().unwrap();
                Variance { variance, freedom: 5.0 }
            })
            .collect()
    }

    #[test]
    fn equal_figures_share_one_variance() {
        let prior = prior(&family(1, 2_000, |_| 0.02)).unwrap();
        assert!((prior.variance / 0.0004 - 1.0).abs() < 0.06, "{prior:?}");
        assert!(prior.freedom > 50.0, "{prior:?}");
    }

    #[test]
    fn a_known_prior_is_recovered() {
        // Variances 0.0004 * d0 / chi2(d0) with d0 = 8.
        let drawn = family(2, 5_000, |draw| {
            let chi2: f64 = (0..8).map(|_| draw.normal().powi(2)).sum();
            0.02 * (8.0 / chi2).sqrt()
        });
        let prior = prior(&drawn).unwrap();
        assert!((prior.variance / 0.0004 - 1.0).abs() < 0.06, "{prior:?}");
        assert!((prior.freedom / 8.0 - 1.0).abs() < 0.2, "{prior:?}");
    }

    #[test]
    fn shrinking_weighs_by_freedom() {
        let own = Variance { variance: 4.0, freedom: 10.0 };
        let found = shrunk(own, Some(Prior { variance: 1.0, freedom: 5.0 }));
        assert_eq!(found, Variance { variance: 3.0, freedom: 15.0 });
        assert_eq!(shrunk(own, None), own);
        assert_eq!(prior(&[own, own]), None);
        assert_eq!(prior(&[Variance { variance: 0.0, freedom: 5.0 }; 9]), None);
    }
}
