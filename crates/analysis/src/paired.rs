//! Two states of one machine whose rounds alternated (`plumb ab`): what differs, pair by pair.
//!
//! The n-th rounds of both make a pair: they lie next to each other in time, so that what drifts cancels. The figure is the
//! median of the pairs' ratios with its exact order-statistic interval. It changed where the signed-rank test over the pairs
//! rejects, corrected for the number of figures (Benjamini and Hochberg), and the interval leaves 1 out.

use crate::figure::{Condition, Figure};
use crate::figures;
use record::key::Key;
use record::metric::Better;
use record::run::Run;
use record::unit::Unit;
use stats::compare::multiple::benjamini_hochberg;
use stats::compare::paired::signed_rank;
use stats::interval::{Interval, median_order};
use stats::quantile::median;

/// False discovery rate: of a hundred comparisons of a state with itself, one finds something.
pub const RATE: f64 = 0.01;
/// Pairs below which nothing is called changed: the test cannot reject a few of fifty figures.
pub const JUDGED_FROM: usize = 9;

#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    pub key: Key,
    /// The unit in which people read both values.
    pub unit: Unit,
    pub better: Better,
    /// Medians over the rounds of A and of B.
    pub values: [f64; 2],
    /// Value of B over that of A, for each pair of rounds.
    pub ratios: Vec<f64>,
    pub ratio: f64,
    /// Interval of that median; `None` below five pairs.
    pub interval: Option<Interval>,
    pub changed: bool,
}

impl Paired {
    /// Half the width of the interval, as a share of the ratio; infinite without one.
    pub fn precision(&self) -> f64 {
        self.interval.map_or(f64::INFINITY, |interval| interval.half_width() / self.ratio)
    }
}

/// What both runs measured, in the order of the plan.
pub fn paired(a: &Run, b: &Run) -> Vec<Paired> {
    let (of_a, of_b) = (figures(a), figures(b));
    let both = of_a.iter().filter_map(|one| {
        let other = of_b.iter().find(|other| is_same(one, other))?;
        compared(one, other)
    });
    let mut found: Vec<Paired> = both.collect();
    judge(&mut found);
    found
}

/// Says of each figure whether it changed.
fn judge(found: &mut [Paired]) {
    let logs = |one: &Paired| one.ratios.iter().map(|ratio| ratio.ln()).collect::<Vec<f64>>();
    let p_values: Vec<f64> = found.iter().map(|one| signed_rank(&logs(one))).collect();
    for (one, is_rejected) in found.iter_mut().zip(benjamini_hochberg(&p_values, RATE)) {
        let leaves_out = one.interval.is_some_and(|interval| !interval.contains(1.0));
        one.changed = is_rejected && leaves_out && one.ratios.len() >= JUDGED_FROM;
    }
}

fn is_same(one: &Figure, other: &Figure) -> bool {
    let name = |figure: &Figure| figure.metric.as_ref().map(|metric| metric.name.clone());
    one.experiment == other.experiment && one.case == other.case && name(one) == name(other)
}

/// The pairs of a figure; `None` without pairs, or where the values have no ratio.
fn compared(one: &Figure, other: &Figure) -> Option<Paired> {
    let metric = one.metric.as_ref()?;
    // The core alone is not compared with a core that others shared.
    let is_alone = |figure: &Figure| figure.condition == Some(Condition::Alone);
    let (one, other) = match is_alone(one) == is_alone(other) {
        true => (one, other),
        false => (as_found(one), as_found(other)),
    };
    let rounds = |figure: &Figure| figure.rounds.iter().map(|round| round.value).collect();
    let (of_one, of_other): (Vec<f64>, Vec<f64>) = (rounds(one), rounds(other));
    let ratios = of_one.iter().zip(&of_other).filter(|(a, b)| **a > 0.0 && **b > 0.0);
    let ratios: Vec<f64> = ratios.map(|(a, b)| b / a).collect();
    Some(Paired {
        key: Key::new(&one.experiment, &one.case, &metric.name),
        unit: metric.shown_unit(),
        better: metric.better,
        values: [median(&of_one)?, median(&of_other)?],
        ratio: median(&ratios)?,
        interval: median_order(&ratios),
        ratios,
        changed: false,
    })
}

fn as_found(figure: &Figure) -> &Figure {
    figure.as_found.as_deref().unwrap_or(figure)
}

#[cfg(test)]
mod tests {
    use super::{Paired, judge, paired};
    use crate::sample;
    use record::key::{CaseId, Key};
    use record::metric::Better;
    use record::unit::Unit;
    use stats::draw::{Draw, trials};
    use stats::interval::median_order;
    use stats::quantile::median;

    #[test]
    fn a_state_equals_itself() {
        let run = sample::run();
        let same = paired(&run, &run);
        assert!(!same.is_empty());
        assert!(same.iter().all(|one| one.ratio == 1.0 && !one.changed), "{same:?}");
    }

    /// Figures of `pairs` rounds with 3 % of scatter each way; the first is slower by a factor.
    fn drawn(draw: &mut Draw, pairs: usize, factor: f64) -> Vec<Paired> {
        let figure = |index: usize, draw: &mut Draw| {
            let factor = if index == 0 { factor } else { 1.0 };
            let ratios = draw.values(pairs, |draw| factor * (0.03 * draw.normal()).exp());
            Paired {
                key: Key::new("os.syscall", &CaseId::default(), &format!("figure_{index}")),
                unit: Unit::Ns,
                better: Better::Lower,
                values: [1.0, factor],
                ratio: median(&ratios).unwrap(),
                interval: median_order(&ratios),
                ratios,
                changed: false,
            }
        };
        let mut found: Vec<Paired> = (0..40).map(|index| figure(index, draw)).collect();
        judge(&mut found);
        found
    }

    #[test]
    fn two_percent_are_found_among_forty_figures_and_nothing_where_nothing_changed() {
        let (mut draw, count) = (Draw::new(51), trials(200));
        let found = (0..count).filter(|_| drawn(&mut draw, 60, 1.02)[0].changed).count();
        let wrong = |draw: &mut Draw| drawn(draw, 60, 1.0).iter().any(|one| one.changed);
        let wrong = (0..count).filter(|_| wrong(&mut draw)).count();
        assert!(found as f64 >= 0.8 * count as f64, "{found} of {count} found");
        assert!(wrong as f64 <= 0.03 * count as f64, "{wrong} of {count} found something");
    }
}
