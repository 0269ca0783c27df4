//! Where the level of a figure shifts from run to run.
//!
//! A run is one observation: what differs between runs of an unchanged machine is part of the
//! scatter, and nothing is assumed of its shape. A series is divided where the mean ranks of its
//! two sides differ most (the rank-sum statistic of Wilcoxon 1945, standardised, its maximum over
//! all divisions taken as Pettitt 1979 does), and that division is believed where chance, which
//! orders the same runs at random, reaches it in at most [`RATE`] of cases. So a series of runs
//! that may be exchanged, whatever their distribution, is divided with a probability of at most
//! [`RATE`]. Where it is divided is then where the means differ most, because ranks forget by how
//! much; no value counts for more than the third from its end, so that fewer runs than a side may
//! have decide nothing. Both sides are searched in the same way, at half the rate each.

use super::compare::ratio::Change;
use super::interval::Interval;
use super::quantile::{median, quantile_of_sorted, ranks, sorted};
use std::collections::BTreeMap;

/// Probability with which a series without any shift is divided.
pub const RATE: f64 = 0.05;

/// Fewest runs that are searched: with fewer, chance alone divides as well as anything.
pub const LEAST_RUNS: usize = 8;

/// Fewest runs on a side of a shift.
const LEAST_SIDE: usize = 3;

/// Random orders that make the distribution of chance, for the first division of a series; so the
/// least p value is 10^-5, which a shift of one figure in 2,000 needs …
const ORDERS: usize = 99_999;

/// … and for the further ones, which are held against [`RATE`] alone.
const ORDERS_INSIDE: usize = 1_999;

/// Resamples from which the interval of a shift's place is taken.
const RESAMPLES: usize = 199;

#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// Index of the first run at the new level.
    pub first: usize,
    /// First and last index where the new level may begin: 2.5 and 97.5 % of resamples.
    pub place: (usize, usize),
    /// Median of the runs between the shift before and this one.
    pub before: f64,
    /// Median of the runs from this shift to the next.
    pub after: f64,
    /// By how much: the median over all pairs of a run before and a run after (Hodges and Lehmann
    /// 1963), with the rank-sum interval of 95 %, `None` for too few runs. The place was chosen by
    /// the same runs, so it is a little too far from no change.
    pub size: Change,
    /// Share of random orders that divide the runs around it as well.
    pub p: f64,
}

/// The distributions of chance that were made already, by number of runs: they depend on nothing
/// else where no two runs are equal.
#[derive(Default)]
pub struct Chance(BTreeMap<(usize, usize), Vec<f64>>);

/// Probability that runs without any shift are divided as well as these; `None` for fewer than
/// [`LEAST_RUNS`], and where all are equal.
pub fn p_value(values: &[f64], chance: &mut Chance) -> Option<f64> {
    let ranks = ranks(values);
    Some(chance.p_value(&ranks, best(&ranks)?.1, ORDERS))
}

/// The shifts of a series whose first division is believed already ([`p_value`]), in order. Those
/// by less than a factor of `1 + least` are left out.
pub fn shifts(values: &[f64], least: f64, chance: &mut Chance) -> Vec<Shift> {
    let mut found = BTreeMap::new();
    divide(values, 0, true, chance, &mut found);
    // A shift that is too small to report joins its sides, and then other runs decide the others.
    loop {
        let places: Vec<usize> = found.keys().copied().collect();
        let sizes = sides(values, &places).into_iter().map(|(before, after)| size(before, after));
        let small = places
            .iter()
            .zip(sizes)
            .map(|(at, size)| (*at, logarithm(size)))
            .filter(|(_, size)| *size < least.ln_1p())
            .min_by(|one, other| one.1.total_cmp(&other.1));
        let Some((at, _)) = small else { break };
        found.remove(&at);
    }
    let places: Vec<usize> = found.keys().copied().collect();
    let around = sides(values, &places);
    places
        .iter()
        .zip(&around)
        .map(|(&at, &(before, after))| Shift {
            first: at,
            place: place(before, after, at),
            before: median(before).unwrap_or(f64::NAN),
            after: median(after).unwrap_or(f64::NAN),
            size: size(before, after),
            p: found[&at],
        })
        .collect()
}

/// Divides a part of a series that begins at `from`, and then its sides.
fn divide(
    values: &[f64],
    from: usize,
    is_whole: bool,
    chance: &mut Chance,
    found: &mut BTreeMap<usize, f64>,
) {
    let ranks = ranks(values);
    let Some(((_, height), at)) = best(&ranks).zip(best_place(values)) else { return };
    let orders = if is_whole { ORDERS } else { ORDERS_INSIDE };
    let p = chance.p_value(&ranks, height, orders);
    // Whether the whole is divided has been decided, over all figures.
    if p > RATE / 2.0 && !is_whole {
        return;
    }
    found.insert(from + at, p);
    let (before, after) = values.split_at(at);
    divide(before, from, false, chance, found);
    divide(after, from + at, false, chance, found);
}

/// The runs on both sides of each place, up to the places beside it.
fn sides<'v>(values: &'v [f64], places: &[usize]) -> Vec<(&'v [f64], &'v [f64])> {
    let end = |index: usize| places.get(index).copied().unwrap_or(values.len());
    let start = |index: usize| index.checked_sub(1).map_or(0, |before| places[before]);
    (0..places.len())
        .map(|k| (&values[start(k)..places[k]], &values[places[k]..end(k + 1)]))
        .collect()
}

/// Where two sides differ most, and by how much; `None` for too few runs and for equal ones.
fn best(ranks: &[f64]) -> Option<(usize, f64)> {
    if ranks.len() < LEAST_RUNS {
        return None;
    }
    divisions(ranks)
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .filter(|(_, height)| *height > 0.0)
}

/// Where the means of the two sides differ most, in logarithms where all values are positive.
fn best_place(values: &[f64]) -> Option<usize> {
    let is_positive = values.iter().all(|value| *value > 0.0);
    let of = |value: &f64| if is_positive { value.ln() } else { *value };
    let values: Vec<f64> = values.iter().map(of).collect();
    let sorted = sorted(&values);
    let low = *sorted.get(LEAST_SIDE - 1)?;
    let high = *sorted.get(sorted.len().checked_sub(LEAST_SIDE)?)?;
    let clipped: Vec<f64> = values.iter().map(|value| value.min(high).max(low)).collect();
    divisions(&clipped).max_by(|one, other| one.1.total_cmp(&other.1)).map(|(at, _)| at)
}

/// For every division the distance of the first side's mean from that of all, in a unit that is the
/// same for all divisions of a series.
fn divisions(values: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    let count = values.len();
    let middle = values.iter().sum::<f64>() / count as f64;
    let mut sum = 0.0;
    values
        .iter()
        .enumerate()
        .map(move |(index, value)| {
            sum += value - middle;
            let first = (index + 1) as f64;
            (index + 1, sum.abs() / (first * (count as f64 - first)).sqrt())
        })
        .filter(move |(at, _)| (LEAST_SIDE..=count.saturating_sub(LEAST_SIDE)).contains(at))
}

impl Chance {
    /// Share of random orders that divide as well, the one at hand among them.
    fn p_value(&mut self, ranks: &[f64], height: f64, orders: usize) -> f64 {
        let count = ranks.len();
        let mut distinct = sorted(ranks);
        distinct.dedup();
        let heights = if distinct.len() == count {
            self.0.entry((count, orders)).or_insert_with(|| heights(ranks, orders))
        } else {
            // Which runs are equal is another matter in every series: few orders first, and all of
            // them only where chance reaches it seldom.
            let few = share(&heights(ranks, ORDERS_INSIDE), height);
            if few > RATE / 2.0 || orders <= ORDERS_INSIDE {
                return few;
            }
            &mut heights(ranks, orders)
        };
        share(heights, height)
    }
}

/// Share of orders that reach a height, the one at hand among them.
fn share(heights: &[f64], height: f64) -> f64 {
    // Sums of the same ranks in another order: equal but for rounding.
    let reached = heights.partition_point(|other| *other < height * (1.0 - 1e-9));
    (heights.len() - reached + 1) as f64 / (heights.len() + 1) as f64
}

/// The greatest distances that random orders reach, ascending.
fn heights(ranks: &[f64], orders: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(ranks.len() as u64);
    let mut order = ranks.to_vec();
    let mut heights: Vec<f64> = (0..orders)
        .map(|_| {
            random.shuffle(&mut order);
            divisions(&order).map(|(_, height)| height).fold(0.0, f64::max)
        })
        .collect();
    heights.sort_unstable_by(f64::total_cmp);
    heights
}

/// First and last place of the best division when either side is drawn again from itself.
fn place(before: &[f64], after: &[f64], at: usize) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(at as u64);
    let start = at - before.len();
    let mut places: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let mut drawn = Vec::with_capacity(before.len() + after.len());
            for side in [before, after] {
                drawn.extend((0..side.len()).map(|_| side[random.usize(..side.len())]));
            }
            best_place(&drawn).map(|at| (start + at) as f64)
        })
        .collect();
    places.sort_unstable_by(f64::total_cmp);
    let end = |q| quantile_of_sorted(&places, q);
    match end(0.025).zip(end(0.975)) {
        // The place found is among them, however few of the resamples agree.
        Some((low, high)) => ((low.floor() as usize).min(at), (high.ceil() as usize).max(at)),
        None => (at, at),
    }
}

/// A ratio where all values are positive.
fn size(before: &[f64], after: &[f64]) -> Change {
    let is_positive = before.iter().chain(after).all(|value| *value > 0.0);
    let of = |value: &f64| if is_positive { value.ln() } else { *value };
    let pairs = before.iter().flat_map(|old| after.iter().map(move |new| of(new) - of(old)));
    let pairs = sorted(&pairs.collect::<Vec<_>>());
    let value = quantile_of_sorted(&pairs, 0.5).unwrap_or(f64::NAN);
    let interval = rank_sum_interval(&pairs, before.len(), after.len());
    if is_positive {
        let interval = interval.map(|ends| ends.map(f64::exp));
        Change::Ratio { value: value.exp(), interval }
    } else {
        Change::Difference { value, interval }
    }
}

/// The logarithm of a ratio without its sign; a difference has no size that a ratio could be held
/// against.
fn logarithm(size: Change) -> f64 {
    size.ratio().map_or(f64::INFINITY, |ratio| ratio.ln().abs())
}

/// The interval of 95 % of a shift from its sorted differences, by the normal approximation of the
/// rank-sum statistic (Lehmann 1975, §2.4); `None` where no pair of differences has it.
fn rank_sum_interval(pairs: &[f64], before: usize, after: usize) -> Option<Interval> {
    let (m, n) = (before as f64, after as f64);
    let spread = (m * n * (m + n + 1.0) / 12.0).sqrt();
    let rank = (m * n / 2.0 - 1.96 * spread).floor();
    if rank < 1.0 {
        return None;
    }
    let rank = rank as usize;
    Some(Interval {
        low: *pairs.get(rank - 1)?,
        high: *pairs.get(pairs.len() - rank)?,
        confidence: 0.95,
    })
}

#[cfg(test)]
mod tests {
    use super::{Chance, Change, RATE, Shift, p_value, shifts};
    use crate::draw::{Draw, share_of};

    /// Looks for shifts as a trend does for one figure.
    fn found(values: &[f64], least: f64, chance: &mut Chance) -> Vec<Shift> {
        match p_value(values, chance) {
            Some(p) if p <= RATE => shifts(values, least, chance),
            _ => Vec::new(),
        }
    }

    /// Values of an unchanged machine: 1.5 or 4 % between runs.
    fn constant(draw: &mut Draw, runs: usize, deviation: f64) -> Vec<f64> {
        draw.values(runs, |draw| 90.0 * (deviation * draw.normal()).exp())
    }

    #[test]
    fn constant_series_are_left_whole_in_95_of_100_whatever_their_distribution() {
        let mut draw = Draw::new(1);
        let mut chance = Chance::default();
        for runs in [8, 30] {
            let mut share = |value: &mut dyn FnMut(&mut Draw) -> f64| {
                share_of(400, || {
                    !found(&draw.values(runs, &mut *value), 0.0, &mut chance).is_empty()
                })
            };
            let normal = share(&mut |draw| (0.04 * draw.normal()).exp());
            // A run in ten is slower by half.
            let spiky = share(&mut |draw| {
                let spike = if draw.chance(0.1) { 1.5 } else { 1.0 };
                spike * (0.01 * draw.normal()).exp()
            });
            println!("{runs} runs: divided {normal} {spiky}");
            // 5 % of 400 and two standard deviations.
            for share in [normal, spiky] {
                assert!(share <= 0.072, "{runs} runs: {share}");
            }
        }
    }

    #[test]
    fn series_of_few_distinct_values_are_left_whole_as_well() {
        let mut draw = Draw::new(5);
        let mut chance = Chance::default();
        let divided = share_of(40, || {
            let values = draw.values(12, |draw| (4.0 * draw.uniform()).floor());
            p_value(&values, &mut chance).is_some_and(|p| p <= RATE)
        });
        assert!(divided <= 0.125, "{divided}");
    }

    #[test]
    fn a_step_of_10_percent_among_30_runs_is_found_where_it_is() {
        let mut draw = Draw::new(2);
        let mut chance = Chance::default();
        for (deviation, at, needed) in [(0.015, 20, 90), (0.015, 6, 90), (0.04, 15, 55)] {
            let (mut exact, mut covered, mut sized) = (0, 0, 0);
            for _ in 0..100 {
                let mut values = constant(&mut draw, 30, deviation);
                values[at..].iter_mut().for_each(|value| *value *= 1.1);
                let shifts = found(&values, deviation, &mut chance);
                let [only] = shifts.as_slice() else { continue };
                exact += u32::from(only.first == at);
                covered += u32::from((only.place.0..=only.place.1).contains(&at));
                if let Change::Ratio { interval: Some(interval), .. } = only.size {
                    sized += u32::from(interval.contains(1.1));
                }
            }
            println!("{deviation} at {at}: exact {exact}, place {covered}, size {sized} of 100");
            assert!(exact >= needed, "{deviation} at {at}: {exact}");
            assert!(covered >= 80 && sized >= 80, "{covered} {sized}");
        }
    }

    #[test]
    fn two_steps_are_two_and_one_that_is_too_small_is_none() {
        let mut draw = Draw::new(3);
        let mut chance = Chance::default();
        let mut values = constant(&mut draw, 45, 0.01);
        values[15..].iter_mut().for_each(|value| *value *= 1.2);
        values[30..].iter_mut().for_each(|value| *value /= 1.3);
        let places: Vec<usize> =
            found(&values, 0.015, &mut chance).iter().map(|shift| shift.first).collect();
        assert_eq!(places, [15, 30]);
        let mut values = constant(&mut draw, 60, 0.001);
        values[30..].iter_mut().for_each(|value| *value *= 1.01);
        assert_eq!(found(&values, 0.015, &mut chance), []);
        assert_eq!(found(&values, 0.005, &mut chance).len(), 1);
    }

    #[test]
    fn differences_that_cross_zero_shift_by_a_difference() {
        let mut draw = Draw::new(4);
        let values: Vec<f64> =
            (0..30).map(|run| draw.normal() + if run < 15 { -1.0 } else { 9.0 }).collect();
        let shifts = found(&values, 0.04, &mut Chance::default());
        let [only] = shifts.as_slice() else { panic!("{shifts:?}") };
        let Change::Difference { value, interval: Some(interval) } = only.size else {
            panic!("{only:?}")
        };
        assert!((9.0..11.0).contains(&value) && interval.contains(10.0), "{only:?}");
    }

    #[test]
    fn few_or_equal_runs_say_nothing() {
        let mut chance = Chance::default();
        for values in [&[][..], &[1.0], &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0], &[5.0; 40]] {
            assert_eq!(p_value(values, &mut chance), None);
        }
        let eight = [1.0, 1.1, 1.2, 1.3, 2.0, 2.1, 2.2, 2.3];
        let p = p_value(&eight, &mut chance).expect("eight runs");
        // Two of the seventy ways to choose four of eight.
        assert!((p - 2.0 / 70.0).abs() < 0.003, "{p}");
        assert_eq!(found(&eight, 0.04, &mut chance)[0].first, 4);
    }
}
