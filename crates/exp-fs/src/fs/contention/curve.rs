//! What the cases of one kind of readers say together.

use super::ID;
use bench::experiment::{DerivedValue, Known};
use laws::line::line;
use record::case::Series;
use record::key::{CaseId, Value};
use record::order::InOrder;
use std::collections::BTreeMap;

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
    for (curve, points) in curves(values, "bandwidth") {
        let readers: Vec<(f64, f64)> =
            points.iter().map(|(competitors, rate)| (competitors + 1.0, *rate)).collect();
        if let Some(knee) = knee(&readers) {
            let mut value = DerivedValue::new(curve, "saturation", knee.readers);
            let most = Value::from(knee.plateau_from as u64);
            value.at.insert("plateau_from".to_owned(), most);
            let cell = (knee.last_rising, knee.plateau_from);
            value.cell = Some((cell.0.min(knee.readers), cell.1.max(knee.readers)));
            found.push(value);
        }
    }
    found
}

fn curves(values: &Known, metric: &str) -> BTreeMap<CaseId, Vec<(f64, f64)>> {
    let mut curves: BTreeMap<CaseId, Vec<(f64, f64)>> = BTreeMap::new();
    for (id, value) in values.of(ID, metric) {
        if let Some(competitors) = id.int("competitors") {
            let points = curves.entry(curve_of(id)).or_default();
            points.push((competitors as f64, value));
        }
    }
    for points in curves.values_mut() {
        points.order_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knee {
    /// Readers at which the line through the origin meets the plateau.
    pub(super) readers: f64,
    /// Readers of the last point on that line, and of the first on the plateau.
    pub(super) last_rising: f64,
    pub(super) plateau_from: f64,
}

/// Fits `min(a readers, c)` by least squares of logarithms, at every way to part the points in two.
/// `None` with fewer than three points, or where a plateau of two points or more fits no better
/// than a line that rises to the end.
pub(super) fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    if points.len() < POINTS_MIN || points.iter().any(|(x, y)| *x <= 0.0 || *y <= 0.0) {
        return None;
    }
    let ratio = |(readers, rate): &(f64, f64)| (rate / readers).ln();
    let rate = |(_, rate): &(f64, f64)| rate.ln();
    let rising = spread(points.iter().map(ratio))?;
    let mut best: Option<(f64, Knee)> = None;
    for parted in 1..points.len() - 1 {
        let (first, rest) = points.split_at(parted);
        let (slope, plateau) = (spread(first.iter().map(ratio))?, spread(rest.iter().map(rate))?);
        let knee = Knee {
            readers: (plateau.mean - slope.mean).exp(),
            last_rising: first[parted - 1].0,
            plateau_from: rest[0].0,
        };
        let error = slope.squares + plateau.squares;
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, knee));
        }
    }
    best.filter(|(error, _)| *error < rising.squares).map(|(_, knee)| knee)
}

struct Spread {
    mean: f64,
    squares: f64,
}

/// Mean of some numbers and the sum of their squared deviations.
fn spread(values: impl Iterator<Item = f64> + Clone) -> Option<Spread> {
    let count = values.clone().count();
    let mean = values.clone().sum::<f64>() / count as f64;
    (count > 0).then(|| Spread { mean, squares: values.map(|value| (value - mean).powi(2)).sum() })
}

#[cfg(test)]
mod tests {
    use super::super::{As, Competing};
    use super::{derive, knee};
    use bench::experiment::{Fields, Known};
    use laws::fs::Pattern;
    use record::key::Key;

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
