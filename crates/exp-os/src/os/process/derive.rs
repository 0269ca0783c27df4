//! Slopes over the parent's resident memory, and the ratio of a process to a thread.

use super::CARD;
use bench::experiment::{DerivedValue, Known, Site};
use laws::os::process::{resident_pages, thread_ns};
use record::case::Series;
use record::key::CaseId;
use std::collections::{BTreeMap, BTreeSet};

/// Whose figures the ratio uses.
const THREAD: &str = "os.thread";
/// Slopes and what they are slopes of.
const SLOPES: [(&str, &str); 2] = [("return_per_page", "return"), ("reaped_per_page", "reaped")];

/// A slope for every call and kind of pages that has two sizes or more, and the ratio at the least
/// size of fork.
pub(super) fn derivable(series: &[Series]) -> Vec<CaseId> {
    let mut sizes: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
    for case in series.iter().flat_map(|series| &series.cases) {
        if let Some((call, pages, bytes)) = parts(&case.id) {
            sizes.entry((call, pages)).or_default().insert(bytes);
        }
    }
    let slopes = sizes
        .iter()
        .filter(|(_, sizes)| sizes.len() > 1)
        .map(|((call, pages), _)| slope_id(call, pages));
    let fork = sizes.get(&("fork".to_owned(), "base".to_owned()));
    let ratio = fork
        .and_then(BTreeSet::first)
        .filter(|_| CARD.after.contains(&THREAD))
        .map(|bytes| ratio_id(*bytes));
    slopes.chain(ratio).collect()
}

/// The values that the figures allow.
pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let mut derived = Vec::new();
    for (name, of) in SLOPES {
        let mut points: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for (id, ns) in values.of(CARD.id, of) {
            if let Some((call, pages, bytes)) = parts(id) {
                let count = resident_pages(site, bytes, pages == "huge") as f64;
                points.entry((call, pages)).or_default().push((count, ns));
            }
        }
        for ((call, pages), points) in &points {
            if let Some(slope) = relative_slope(points) {
                derived.push(DerivedValue::new(slope_id(call, pages), name, slope));
            }
        }
    }
    let least = values
        .of(CARD.id, "reaped")
        .filter_map(|(id, ns)| Some((parts(id)?, ns)))
        .filter(|((call, pages, _), _)| call == "fork" && pages == "base")
        .min_by_key(|((_, _, bytes), _)| *bytes);
    if let (Some(((_, _, bytes), process_ns)), Some(thread_ns)) = (least, thread_ns(known)) {
        let ratio = process_ns / thread_ns;
        derived.push(DerivedValue::new(
            ratio_id(bytes),
            "process_to_thread",
            ratio,
        ));
    }
    derived
}

/// Call, pages and resident bytes of a measured case.
fn parts(id: &CaseId) -> Option<(String, String, u64)> {
    Some((
        id.text("call")?.to_owned(),
        id.text("pages")?.to_owned(),
        id.int("resident")?,
    ))
}

fn slope_id(call: &str, pages: &str) -> CaseId {
    CaseId::new().with("call", call).with("pages", pages)
}

fn ratio_id(bytes: u64) -> CaseId {
    CaseId::new()
        .with("call", "fork")
        .with("resident", bytes)
        .with("pages", "base")
}

/// The slope of the line from which points of (x, y > 0) deviate least in relation to y. `None` for
/// fewer than two different x.
fn relative_slope(points: &[(f64, f64)]) -> Option<f64> {
    let weighted = |of: fn(&(f64, f64)) -> f64| -> f64 {
        points.iter().map(|point| of(point) / point.1.powi(2)).sum()
    };
    let weight = weighted(|_| 1.0);
    let (x, y) = (
        weighted(|point| point.0) / weight,
        weighted(|point| point.1) / weight,
    );
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
    use super::relative_slope;

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
