//! What the cases of one kind of readers say together.

use super::ID;
use crate::fs::prelude::*;
use laws::line::line;

const POINTS_MIN: usize = 3;

/// What cases of one curve share: their id without the number of competitors.
fn curve_of(id: &CaseId) -> CaseId {
    let rest = id.0.iter().filter(|(name, _)| name != "competitors");
    CaseId(rest.cloned().collect())
}

/// Curves with so many numbers of competitors that something can be said of them.
pub(super) fn derivable(series: &[Series]) -> Vec<CaseId> {
    let mut curves: BTreeMap<CaseId, usize> = BTreeMap::new();
    for case in series.iter().flat_map(|series| &series.cases) {
        *curves.entry(curve_of(&case.id)).or_default() += 1;
    }
    curves.into_iter().filter(|(_, points)| *points >= POINTS_MIN).map(|(curve, _)| curve).collect()
}

pub(super) fn derive(values: &Known) -> Vec<DerivedValue> {
    let mut found = Vec::new();
    for (curve, points) in curves(values, "latency") {
        if let Some(line) = line(&points).filter(|_| points.len() >= POINTS_MIN) {
            found.push(DerivedValue::new(curve.clone(), "slope", line.slope));
            found.extend(line.linearity.map(|share| DerivedValue::new(curve, "linearity", share)));
        }
    }
    for (curve, mut points) in curves(values, "bandwidth") {
        points.iter_mut().for_each(|(competitors, _)| *competitors += 1.0);
        found.extend(knee(&points).map(|Knee { readers, last_rising, plateau_from }| {
            let mut value = DerivedValue::new(curve, "saturation", readers);
            value.at.put("plateau_from", plateau_from as u64);
            value.cell = Some((last_rising.min(readers), plateau_from.max(readers)));
            value
        }));
    }
    found
}

fn curves(values: &Known, metric: &str) -> BTreeMap<CaseId, Vec<(f64, f64)>> {
    let mut curves: BTreeMap<CaseId, Vec<(f64, f64)>> = BTreeMap::new();
    for (id, value) in values.figures(ID, metric) {
        if let Some(competitors) = id.int("competitors") {
            curves.entry(curve_of(id)).or_default().push((competitors as f64, value));
        }
    }
    curves.values_mut().for_each(|points| points.order_by(|a, b| a.0.total_cmp(&b.0)));
    curves
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Knee {
    /// Readers at which the line through the origin meets the plateau.
    readers: f64,
    /// Readers of the last point on that line, and of the first on the plateau.
    last_rising: f64,
    plateau_from: f64,
}

/// Fits `min(a readers, c)` by least squares of logarithms, at every way to part the points in two.
/// `None` with fewer than three points, or where a plateau of two points or more fits no better
/// than a line that rises to the end.
fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    if points.len() < POINTS_MIN || points.iter().any(|(x, y)| *x <= 0.0 || *y <= 0.0) {
        return None;
    }
    let ratio = |(readers, rate): &(f64, f64)| (rate / readers).ln();
    let rate = |(_, rate): &(f64, f64)| rate.ln();
    let knees = (1..points.len() - 1).map(|parted| {
        let (first, rest) = points.split_at(parted);
        let (slope, of_slope) = spread(first.iter().map(ratio));
        let (plateau, of_plateau) = spread(rest.iter().map(rate));
        let readers = (plateau - slope).exp();
        let (last_rising, plateau_from) = (first[parted - 1].0, rest[0].0);
        (of_slope + of_plateau, Knee { readers, last_rising, plateau_from })
    });
    let (error, knee) = knees.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (_, rising) = spread(points.iter().map(ratio));
    (error < rising).then_some(knee)
}

/// Mean of some numbers and the sum of their squared deviations.
fn spread(values: impl ExactSizeIterator<Item = f64> + Clone) -> (f64, f64) {
    let mean = values.clone().sum::<f64>() / values.len() as f64;
    (mean, values.map(|value| (value - mean).powi(2)).sum())
}

#[cfg(test)]
mod tests {
    use super::super::{As, Competing};
    use super::{derive, knee};
    use crate::fs::prelude::*;

    fn points(of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        [1.0, 2.0, 3.0, 5.0, 10.0, 16.0].map(|n| (n, of(n))).to_vec()
    }

    #[test]
    fn a_knee_is_found_where_it_is_and_also_between_points() {
        for at in [1.7, 2.0, 4.0, 7.5] {
            let found = knee(&points(|n| 5e7 * n.min(at))).expect("a knee");
            assert!((found.readers - at).abs() < 1e-9, "{at}: {found:?}");
            assert!(found.last_rising <= at && at <= found.plateau_from, "{found:?}");
        }
        // A device that serves one at a time is full with one.
        let found = knee(&points(|_| 4e7)).expect("a knee");
        assert!((found.readers - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn noise_moves_a_knee_little() {
        let noise = [1.02, 0.97, 1.03, 0.99, 0.98, 1.02];
        let mut noisy = points(|n| 5e7 * n.min(4.0));
        for (point, factor) in noisy.iter_mut().zip(noise) {
            point.1 *= factor;
        }
        let found = knee(&noisy).expect("a knee");
        assert!((found.readers - 4.0).abs() < 0.3, "{found:?}");
    }

    #[test]
    fn a_device_that_is_never_full_has_none() {
        assert_eq!(knee(&points(|n| 5e7 * n)), None);
        // Only the last point bends: nothing shows that it stays so.
        assert_eq!(knee(&points(|n| 5e7 * n.min(15.0))), None);
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.0)]), None, "two points");
    }

    #[test]
    fn a_curve_gives_slope_and_linearity_of_its_own_cases_alone() {
        let mut known = Known::default();
        let mut put = |readers: As, competitors: u64, metric: &str, value: f64| {
            let pattern = Pattern::Sequential;
            let case = Competing { readers, size: 4096, pattern, competitors }.id();
            known.insert(Key::new(super::ID, &case, metric), value);
        };
        for competitors in [0, 1, 2, 4] {
            put(As::Processes, competitors, "latency", 1e5 + 3e4 * competitors as f64);
            put(As::Processes, competitors, "bandwidth", 4e7);
        }
        put(As::Threads, 0, "latency", 9e9);
        put(As::Threads, 1, "latency", 1.0);
        let found = derive(&known);
        let told: Vec<(&str, f64)> =
            found.iter().map(|value| (value.metric, (value.value * 1e6).round() / 1e6)).collect();
        assert_eq!(told, [("slope", 3e4), ("linearity", 1.0), ("saturation", 1.0)]);
        assert!(found.iter().all(|value| value.case.text("readers") == Some("processes")));
    }
}
