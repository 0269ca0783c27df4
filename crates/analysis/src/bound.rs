//! Bounds: limits that no correct figure passes, evaluated in every round (METHOD §5).

use super::index::RoundSamples;
use record::event::{Bound, Side};
use stats::quantile::median;

/// Undisturbed rounds beyond a bound that make a figure impossible.
pub const ROUNDS_BEYOND: usize = 2;

/// A bound's rule with what it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundCheck {
    /// The rule.
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

/// The rule's value in one round; `None` where an input was not measured in it.
pub fn evaluate(rule: &Bound, round: &RoundSamples) -> Option<f64> {
    let value = rule.inputs.iter().try_fold(rule.constant, |product, (name, exponent)| {
        Some(product * round.quantity(name)?.powi(*exponent))
    })?;
    value.is_finite().then_some(value)
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
