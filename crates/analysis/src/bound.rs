//! Bounds: limits that no correct figure passes, evaluated in every round (METHOD §5).

use super::index::RoundSamples;
use record::event::{Bound, Samples, Side};
use stats::quantile::median;

/// Undisturbed rounds beyond a bound that make a figure impossible.
pub const ROUNDS_BEYOND: usize = 2;

#[derive(Clone, Debug, PartialEq)]
pub struct BoundCheck {
    pub rule: Bound,
    /// Median of the bound over the rounds in which its inputs were measured.
    pub value: Option<f64>,
    /// Undisturbed rounds in which it could be evaluated.
    pub evaluated: usize,
    /// Undisturbed rounds whose value lies beyond bound and uncertainty.
    pub beyond: usize,
}

impl BoundCheck {
    /// Whether the figure cannot be right.
    pub fn is_impossible(&self) -> bool {
        !self.rule.warns_only && self.beyond >= ROUNDS_BEYOND
    }

    /// Whether the figure passes a bound that rests on a guess, or passed a firm one only once.
    pub fn warns(&self) -> bool {
        self.beyond > 0 && !self.is_impossible()
    }

    /// The figure over its bound: how much of the possible was reached.
    pub fn efficiency(&self, value: f64) -> Option<f64> {
        let bound = self.value.filter(|bound| *bound > 0.0)?;
        match self.rule.side {
            Side::AtMost => Some(value / bound),
            Side::AtLeast if value > 0.0 => Some(bound / value),
            Side::AtLeast => None,
        }
    }
}

/// The rule's value in one round; `None` where an input was not measured in it. A round's value may
/// be that of any of its visits, between which the core clock may change: the widest limit counts.
pub fn evaluate(rule: &Bound, round: &RoundSamples) -> Option<f64> {
    let of_visit = |samples: &Samples| {
        let mut inputs = rule.inputs.iter();
        let value = inputs.try_fold(rule.constant, |product, (name, exponent)| {
            let clock = samples.core_hz.filter(|_| name == "core_hz");
            let own = samples.quantities.get(name).copied().or(clock);
            Some(product * own.or_else(|| round.quantity(name))?.powi(*exponent))
        })?;
        value.is_finite().then_some(value)
    };
    let limits = round.samples.iter().filter_map(|samples| of_visit(samples));
    limits.reduce(match rule.side {
        Side::AtMost => f64::max,
        Side::AtLeast => f64::min,
    })
}

/// Evaluates a rule over the rounds of a figure, each with its value.
pub fn check(rule: &Bound, rounds: &[(RoundSamples, f64)]) -> BoundCheck {
    let bounds: Vec<(f64, f64, bool)> = rounds
        .iter()
        .filter_map(|(round, value)| Some((evaluate(rule, round)?, *value, round.disturbed())))
        .collect();
    let margin = 1.0 + rule.uncertainty;
    let is_beyond = |bound: f64, value: f64| match rule.side {
        Side::AtMost => value > bound * margin,
        Side::AtLeast => value < bound / margin,
    };
    let values: Vec<f64> = bounds.iter().map(|(bound, ..)| *bound).collect();
    let undisturbed = || bounds.iter().filter(|(.., disturbed)| !disturbed);
    BoundCheck {
        rule: rule.clone(),
        value: median(&values),
        evaluated: undisturbed().count(),
        beyond: undisturbed().filter(|(bound, value, _)| is_beyond(*bound, *value)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;
    use crate::index::Index;
    use crate::sample;
    use record::event::{Bound, Side};

    #[test]
    fn a_visit_at_another_clock_widens_the_limit_of_its_round() {
        let run = sample::run();
        let rounds = Index::from_run(&run).rounds("os.syscall", &sample::call("read"), "latency");
        let mut round = rounds.into_iter().next().expect("it has rounds");
        let rule = |side, exponent| Bound {
            side,
            constant: 1.0,
            inputs: vec![("core_hz".into(), exponent)],
            uncertainty: 0.02,
            rule: String::new(),
            warns_only: false,
        };
        let rules = [rule(Side::AtMost, 1), rule(Side::AtLeast, -1)];
        let limits = |round: &_| rules.each_ref().map(|rule| evaluate(rule, round));
        let [most, least] = limits(&round).map(|limit| limit.expect("the clock was measured"));
        for factor in [1.5, 0.5] {
            let mut visit = (*round.samples[0]).clone();
            visit.core_hz = visit.core_hz.map(|hz| factor * hz);
            round.samples.push(Box::leak(Box::new(visit)));
            assert_eq!(limits(&round), [Some(1.5 * most), Some(least / 1.5)]);
        }
    }
}
