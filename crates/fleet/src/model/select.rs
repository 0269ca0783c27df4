//! Many tests at once: Benjamini-Hochberg in two steps, over nodes (or links) and over their figures.

use stats::compare::multiple::simes;
use stats::quantile::sorted;
use std::collections::BTreeMap;

/// False discovery rate of what is measured again: one of ten may be in vain.
pub(super) const SUSPECT_RATE: f64 = 0.1;

/// For each test the rate at which two steps find it: first over groups by Simes' p of their tests,
/// then inside the groups found at `rate`, with the rate times the share of groups found (Benjamini
/// and Bogomolov 2014). At most `rate` where it is found, in the order of the tests.
pub(super) fn q_values<G: Ord + Copy>(tests: &[(G, f64)], rate: f64) -> Vec<f64> {
    let mut groups: BTreeMap<G, Vec<usize>> = BTreeMap::new();
    for (at, (group, _)) in tests.iter().enumerate() {
        groups.entry(*group).or_default().push(at);
    }
    let inside: Vec<Vec<f64>> =
        groups.values().map(|members| members.iter().map(|at| tests[*at].1).collect()).collect();
    let outer = adjusted(&inside.iter().map(|p| simes(p)).collect::<Vec<f64>>());
    let found = outer.iter().filter(|q| **q <= rate).count().max(1) as f64;
    let share = outer.len() as f64 / found;
    let mut q_values = vec![1.0; tests.len()];
    for ((members, inside), outer) in groups.values().zip(&inside).zip(outer) {
        for (at, q) in members.iter().zip(adjusted(inside)) {
            q_values[*at] = outer.max(q * share).min(1.0);
        }
    }
    q_values
}

/// The least rate at which Benjamini and Hochberg (1995) reject each hypothesis, in the order of the
/// p values.
fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let ascending = sorted(p_values);
    let count = ascending.len() as f64;
    let mut least = vec![1.0_f64; ascending.len() + 1];
    for (at, p) in ascending.iter().enumerate().rev() {
        least[at] = least[at + 1].min(p * count / (at + 1) as f64);
    }
    let place = |p: &f64| ascending.partition_point(|other| other < p);
    p_values.iter().map(|p| least[place(p)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::compare::multiple::two_step;

    #[test]
    fn adjusted_values_are_those_of_r() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.5), "BH")
        let found = adjusted(&[0.01, 0.04, 0.03, 0.5]);
        let wanted = [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5];
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
        }
        assert!(adjusted(&[]).is_empty());
    }

    #[test]
    fn what_two_steps_find_has_a_q_below_the_rate() {
        let nodes = [vec![0.6, 0.8], vec![1e-6, 0.02], vec![0.001, 0.0005, 0.9], vec![0.2; 4]];
        for rate in [0.001, 0.01, 0.05, 0.2] {
            let found: Vec<bool> = two_step(&nodes, rate).concat();
            let tests: Vec<(usize, f64)> = nodes
                .iter()
                .enumerate()
                .flat_map(|(node, p)| p.iter().map(move |p| (node, *p)))
                .collect();
            let q = q_values(&tests, rate);
            assert_eq!(q.iter().map(|q| *q <= rate).collect::<Vec<_>>(), found, "{rate} {q:?}");
        }
    }
}
