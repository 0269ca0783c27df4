//! What kernels say together: the mean that R4 took, and a copy beside a read.

use super::cases::Point;
use super::{ID, LEVEL_NAMES};
use crate::experiment::{DerivedValue, Known, Site, unknown};
use crate::predict::cpu::measured_core_hz;
use crate::predict::memory::bandwidth::{self as law, OPS, STORES, Transfer};
use record::case::Series;
use record::event::Prediction;
use record::key::{CaseId, Value};

/// The kernels of STREAM.
fn four() -> &'static [&'static str] {
    &OPS[3..]
}

/// The case of figures that several kernels make, at a level by so many threads.
fn together(stores: &str, level: &str, threads: &Value) -> CaseId {
    CaseId::new()
        .with("stores", stores)
        .with("level", level)
        .with("threads", threads.clone())
}

/// The cases that these series may yield.
pub(super) fn cases(series: &[Series]) -> Vec<CaseId> {
    let cases = || series.iter().flat_map(|series| &series.cases);
    let has = |transfer: Transfer, point: &Point| {
        let id = transfer.case(point.level, &point.threads);
        cases().any(|case| case.id == id)
    };
    let mut found = Vec::new();
    for point in cases().filter_map(|case| Point::of(&case.id)) {
        let stores = point.transfer.stores;
        let mean = four()
            .iter()
            .all(|op| has(Transfer::widest(op, stores), &point));
        let ratio = stores == STORES[0]
            && point.level != "L1"
            && ["read", "copy"]
                .iter()
                .all(|op| has(Transfer::widest(op, stores), &point));
        let id = together(stores, point.level, &point.threads);
        if (mean || ratio) && !found.contains(&id) {
            found.push(id);
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
        let id = together(stores, point.level, &point.threads);
        let rates: Option<Vec<f64>> = four().iter().map(|op| of(op, "bandwidth")).collect();
        if let Some(rates) = rates {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            found.push(DerivedValue::new(id.clone(), "stream_mean", mean));
        }
        let bus = of("copy", "bus_bandwidth").zip(of("read", "bus_bandwidth"));
        if let Some((copy, read)) = bus.filter(|_| stores == STORES[0]) {
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
    let stores = symbol("stores", STORES)?;
    let level = symbol("level", LEVEL_NAMES)?;
    let threads = case.get("threads")?;
    let estimate = match metric {
        "stream_mean" => {
            if let Some(known) = known {
                measured_core_hz(known)?;
            }
            law::stream_mean(site, known, stores, level, threads)
        }
        "copy_over_read" if stores == STORES[0] && level != "L1" && known.is_none() => {
            Ok(law::copy_over_read(level))
        }
        _ => return None,
    };
    Some(match estimate {
        Ok(estimate) => estimate.prediction(),
        Err(why) => unknown(why),
    })
}
