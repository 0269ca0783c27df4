//! What kernels say together: the mean that R4 took, and a copy beside a read.

use super::points::Point;
use super::{ID, LEVEL_NAMES};
use bench::experiment::{DerivedValue, Known, Site, unknown};
use laws::cpu::measured_core_hz;
use laws::memory::bandwidth::{self as law, OPS, STORES, Transfer};
use record::case::Series;
use record::event::Prediction;
use record::key::{CaseId, Value};

/// The kernels of STREAM.
fn four() -> &'static [&'static str] {
    &OPS[3..]
}

/// The case of the mean, at a level by so many threads.
fn mean_case(stores: &str, level: &str, threads: &Value) -> CaseId {
    CaseId::new().with("stores", stores).with("level", level).with("threads", threads.clone())
}

/// The case of a copy beside a read.
fn ratio_case(level: &str, threads: &Value) -> CaseId {
    CaseId::new().with("op", "copy").with("level", level).with("threads", threads.clone())
}

/// The cases that these series may yield.
pub(super) fn cases(series: &[Series]) -> Vec<CaseId> {
    let cases = || series.iter().flat_map(|series| &series.cases);
    let has = |op: &'static str, point: &Point| {
        let id = Transfer::widest(op, point.transfer.stores).case(point.level, &point.threads);
        cases().any(|case| case.id == id)
    };
    let mut found = Vec::new();
    for point in cases().filter_map(|case| Point::of(&case.id)) {
        let stores = point.transfer.stores;
        if point.transfer != Transfer::widest("copy", stores) {
            continue;
        }
        if four().iter().all(|op| has(op, &point)) {
            found.push(mean_case(stores, point.level, &point.threads));
        }
        if stores == STORES[0] && point.level != "L1" && has("read", &point) {
            found.push(ratio_case(point.level, &point.threads));
        }
    }
    found
}

/// All that the figures say together.
pub(super) fn derive(values: &Known) -> Vec<DerivedValue> {
    let mut found = Vec::new();
    let copies = values.of(ID, "bandwidth").filter_map(|(case, _)| {
        let point = Point::of(case)?;
        (point.transfer == Transfer::widest("copy", point.transfer.stores)).then_some(point)
    });
    for point in copies {
        let stores = point.transfer.stores;
        let of = |op: &'static str, metric| {
            let id = Transfer::widest(op, stores).case(point.level, &point.threads);
            values.get(ID, &id, metric)
        };
        let rates: Option<Vec<f64>> = four().iter().map(|op| of(op, "bandwidth")).collect();
        if let Some(rates) = rates {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let id = mean_case(stores, point.level, &point.threads);
            found.push(DerivedValue::new(id, "stream_mean", mean));
        }
        let bus = of("copy", "bus_bandwidth").zip(of("read", "bandwidth"));
        if let Some((copy, read)) = bus.filter(|_| stores == STORES[0]) {
            let id = ratio_case(point.level, &point.threads);
            found.push(DerivedValue::new(id, "copy_over_read", copy / read));
        }
    }
    found
}

/// What a derived figure should be; nothing for a metric that the case does not have.
pub(super) fn predict(
    site: &Site,
    known: Option<&Known>,
    case: &CaseId,
    metric: &str,
) -> Option<Prediction> {
    let symbol = |name: &str, of: &'static [&'static str]| {
        let text = case.text(name)?;
        of.iter().find(|symbol| **symbol == text).copied()
    };
    let level = symbol("level", LEVEL_NAMES)?;
    let threads = case.get("threads")?;
    let estimate = match metric {
        "stream_mean" => {
            let stores = symbol("stores", STORES)?;
            if let Some(known) = known {
                measured_core_hz(known)?;
            }
            law::stream_mean(site, known, stores, level, threads)
        }
        "copy_over_read" if case.text("op") == Some("copy") && known.is_none() => {
            Ok(law::copy_over_read(level))
        }
        _ => return None,
    };
    Some(match estimate {
        Ok(estimate) => estimate.prediction(),
        Err(why) => unknown(why),
    })
}
