//! Slopes over the parent's resident memory, and the ratio of a process to a thread.

use super::{CARD, Creation, Kept};
use bench::prelude::*;
use laws::os::process::{Call, resident_pages, thread_ns};
use record::order::InOrder;

const SLOPES: [(&str, &str); 2] = [("return_per_page", "return"), ("reaped_per_page", "reaped")];

case! {
    pub(super) struct Slope {
        /// what makes the process
        call: Call,
        /// pages of the parent's memory
        pages: Kept,
    }
}

impl Slope {
    fn from_case(case: &Creation) -> Slope {
        let Creation { call, pages, .. } = *case;
        Slope { call, pages }
    }
}

/// What cases of several sizes have, by what their slope is of, in order.
fn by_slope<T>(cases: impl Iterator<Item = (Creation, T)>) -> Vec<(Slope, Vec<T>)> {
    let mut all: Vec<(Slope, Vec<T>)> = Vec::new();
    for (case, of) in cases {
        let slope = Slope::from_case(&case);
        match all.iter_mut().find(|(is, _)| *is == slope) {
            Some((_, ofs)) => ofs.push(of),
            None => all.push((slope, vec![of])),
        }
    }
    all.order_by_key(|(slope, _)| (slope.call.text(), slope.pages.text()));
    all
}

/// A slope for every call and pages of two sizes or more, and the ratio.
pub(super) fn derivable(series: &[Series]) -> Vec<CaseId> {
    let cases = series.iter().flat_map(|series| &series.cases);
    let cases: Vec<Creation> = cases.filter_map(|case| Creation::from_id(&case.id)).collect();
    let slopes = by_slope(cases.iter().map(|case| (case.clone(), ()))).into_iter();
    let slopes = slopes.filter(|(_, sizes)| sizes.len() > 1).map(|(slope, _)| slope.id());
    let forks = cases.iter().filter(|case| is_plain_fork(case));
    let least = forks.min_by_key(|case| case.resident);
    slopes.chain(least.map(Creation::id)).collect()
}

fn is_plain_fork(case: &Creation) -> bool {
    case.call == Call::Fork && case.pages == Kept::Base
}

pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let figures = |metric| {
        let all = values.figures(CARD.id, metric);
        all.filter_map(|(id, ns)| Some((Creation::from_id(id)?, ns)))
    };
    let mut derived = Vec::new();
    for (name, of) in SLOPES {
        let points = figures(of).map(|(case, ns)| {
            let pages = resident_pages(site, case.resident, case.pages == Kept::Huge);
            (case, (pages as f64, ns))
        });
        let slopes = by_slope(points).into_iter().filter_map(|(slope, points)| {
            Some(DerivedValue::new(slope.id(), name, relative_slope(&points)?))
        });
        derived.extend(slopes);
    }
    let forks = figures("reaped").filter(|(case, _)| is_plain_fork(case));
    let least = forks.min_by_key(|(case, _)| case.resident);
    if let (Some((case, process_ns)), Some(thread_ns)) = (least, thread_ns(known)) {
        let ratio = process_ns / thread_ns;
        derived.push(DerivedValue::new(case.id(), "process_to_thread", ratio));
    }
    derived
}

/// The slope of the line from which points deviate least in relation to y > 0.
fn relative_slope(points: &[(f64, f64)]) -> Option<f64> {
    let weighted = |of: fn(&(f64, f64)) -> f64| -> f64 {
        points.iter().map(|point| of(point) / point.1.powi(2)).sum()
    };
    let weight = weighted(|_| 1.0);
    let (x, y) = (weighted(|point| point.0) / weight, weighted(|point| point.1) / weight);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (at, value) in points {
        let share = 1.0 / value.powi(2);
        xx += share * (at - x).powi(2);
        xy += share * (at - x) * (value - y);
    }
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_small_values_count_as_much_as_large_ones() {
        let line = |x: f64| (x, 60e3 + 28.0 * x);
        let exact: Vec<_> = [256.0, 4096.0, 65536.0].map(line).to_vec();
        let slope = relative_slope(&exact).expect("two points and more");
        assert!((slope - 28.0).abs() < 1e-6, "{slope}");
        // A tenth more at the largest moves the slope by no more than about a tenth.
        let mut uneven = exact.clone();
        uneven[2].1 *= 1.1;
        let moved = relative_slope(&uneven).expect("two points and more");
        assert!((28.0..28.0 * 1.11).contains(&moved), "{moved}");
        assert_eq!(relative_slope(&exact[..1]), None);
        assert_eq!(relative_slope(&[]), None);
    }
}
