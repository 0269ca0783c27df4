//! Figures of a core alone, beside those as found.

use super::{Rounds, with_values};
use crate::figure::Figure;
use crate::index::RoundSamples;
use record::event::Samples;
use record::metric::{Metric, Over};
use record::note::{Note, Number};
use record::run::Run;
use stats::alone::{Alone, Basis, ProbedRound, alone, pooled};
use stats::quantile::median;
use stats::rounds::{Condition, LEAST_ROUNDS, Quantity};

/// The figure of a core alone, with what it rests on and the one from all samples, whose verdicts
/// hold where it has no interval.
pub(super) fn beside_found(mut alone: Figure, as_found: Figure, basis: Basis) -> Figure {
    if alone.ci.is_none() {
        alone.prior.clone_from(&as_found.prior);
        alone.derived.clone_from(&as_found.derived);
    }
    if basis.rounds < LEAST_ROUNDS || alone.ci.is_none() {
        let lack = match alone.ci {
            None => {
                "; no interval: five rounds are needed; raise --budget, or measure on a quieter machine"
            }
            Some(_) => "",
        };
        let form =
            format!("the core was alone for {{}} samples of {{}} rounds, in {{}} stretches{lack}");
        let counts = [basis.samples, basis.rounds, basis.stretches].map(Number::count);
        alone.notes.push(Note::formed(form, counts));
    }
    alone.alone = Some(basis);
    alone.as_found = Some(Box::new(as_found));
    alone
}

/// The rounds by the samples of a core that was alone, where they give a value.
pub(super) fn alone_rounds<'run>(
    run: &Run,
    metric: &Metric,
    rounds: &[RoundSamples<'run>],
) -> Option<Rounds<'run>> {
    if metric.over != Over::Undisturbed {
        return None;
    }
    let probed = |round: &RoundSamples<'run>| {
        let level = run.width_level(round.round.segment)?;
        let samples = ProbedRound::new(round.samples.iter().copied(), level, Samples::values);
        Some((round.under(Condition::Alone(level)), samples))
    };
    let (mut rounds, probed): (Vec<RoundSamples>, Vec<ProbedRound>) =
        rounds.iter().filter_map(probed).unzip();
    let way = alone(&probed)?;
    let mut values = probed.iter().map(|round| round.value(way.least_of_round()).is_some());
    rounds.retain(|_| values.next().unwrap_or(false));
    Some(with_values(rounds, Some(way)))
}

impl<'run> Rounds<'run> {
    fn probed<'own>(
        &self,
        rounds: impl Iterator<Item = &'own RoundSamples<'run>>,
        quantity: Quantity,
    ) -> Vec<ProbedRound>
    where
        'run: 'own,
    {
        let probed = |round: &RoundSamples| match round.condition {
            Condition::Alone(level) => {
                Some(ProbedRound::new(round.samples.iter().copied(), level, quantity))
            }
            Condition::AsFound => None,
        };
        rounds.filter_map(probed).collect()
    }

    /// What a value of the core alone rests on: all rounds where it is of all samples together.
    pub(super) fn basis(&self, with_disturbed: bool) -> Basis {
        let is_pooled = matches!(self.alone, Some(Alone::Pooled(..)));
        Basis::new(&self.probed(self.used(with_disturbed || is_pooled), Samples::values))
    }
}

/// Cycles are made like the value, of each sample's cycles; none where a round that the value rests on
/// has none, because both would then be of other samples.
pub(super) fn set_cycles(figure: &mut Figure, rounds: &Rounds, with_disturbed: bool) {
    let used = figure.rounds.iter();
    let used = used.filter(|round| with_disturbed || !round.disturbed);
    let cycles: Option<Vec<f64>> = used.map(|round| round.cycles).collect();
    figure.cycles = match rounds.alone {
        Some(Alone::Pooled(..)) => {
            cycles.and_then(|_| pooled(&rounds.probed(rounds.used(true), Samples::cycles)))
        }
        Some(Alone::Rounds) | None => cycles.and_then(|cycles| median(&cycles)),
    };
    if figure.cycles.is_none() {
        figure.no_cycles = Some("the core clock was unknown or moved in a valid round".to_owned());
    }
}
