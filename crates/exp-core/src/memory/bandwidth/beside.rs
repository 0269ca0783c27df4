//! Kernels beside each other: the mean that R4 took, and a copy beside the read of its kind, which
//! must both be possible at once.

use super::ID;
use bench::prelude::*;
use laws::memory::Level;
use laws::memory::bandwidth as law;
use laws::memory::transfer::{Op, STREAM, Stores, Threads, Transfer};

/// What the mean of kernels and a copy beside a read have of their cases.
const MEAN: [&str; 3] = ["stores", "level", "threads"];
const RATIO: [&str; 3] = ["op", "level", "threads"];

fn picked(of: &Transfer, names: [&str; 3]) -> CaseId {
    let id = of.id();
    let values = names.iter().filter_map(|name| Some((*name, id.get(name)?.clone())));
    values.fold(CaseId::new(), |case, (name, value)| case.with(name, value))
}

/// What copies that touch every byte in the widest vectors say together with other kernels, whose
/// figures are known by case and metric.
fn found<'case>(
    cases: impl Iterator<Item = &'case CaseId>,
    figure: impl Fn(&CaseId, &str) -> Option<f64>,
) -> Vec<DerivedValue> {
    let of_copy = |copy: Transfer| {
        let of = |op, metric| figure(&copy.with_op(op).id(), metric);
        let rates: Option<Vec<f64>> = STREAM.iter().map(|op| of(*op, "bandwidth")).collect();
        let mean = rates.map(|rates| rates.iter().sum::<f64>() / rates.len() as f64);
        let bus = of(Op::Copy, "bus_bandwidth").zip(of(Op::Read, "bandwidth"));
        let ratio = bus.filter(|_| copy.stores == Stores::Regular).map(|(bus, read)| bus / read);
        let mean = mean.map(|mean| DerivedValue::new(picked(&copy, MEAN), "stream_mean", mean));
        let over = |ratio| DerivedValue::new(picked(&copy, RATIO), "copy_over_read", ratio);
        mean.into_iter().chain(ratio.map(over))
    };
    cases
        .filter_map(Transfer::from_id)
        .filter(|of| *of == Transfer::widest(Op::Copy, of.stores, of.level, of.threads))
        .flat_map(of_copy)
        .collect()
}

pub(super) fn cases(series: &[Series]) -> Vec<CaseId> {
    let ids = || series.iter().flat_map(|series| &series.cases).map(|case| &case.id);
    let has = |wanted: &CaseId, metric: &str| {
        let has_bus = || Transfer::from_id(wanted).is_some_and(|of| of.level != Level::L1);
        let is_there = (metric == "bandwidth" || has_bus()) && ids().any(|id| id == wanted);
        is_there.then_some(1.0)
    };
    found(ids(), has).into_iter().map(|value| value.case).collect()
}

/// All that the figures say together.
pub(super) fn derive(values: &Known) -> Vec<DerivedValue> {
    let cases = values.figures(ID, "bandwidth").map(|(case, _)| case);
    found(cases, |case, metric| values.get(ID, case, metric))
}

/// What a derived figure should be; nothing for a metric that the case does not have.
pub(super) fn predict(facts: Facts, case: &CaseId, metric: &str) -> Option<Prediction> {
    let level = Level::from_value(case.get("level"))?;
    let law = match (metric, case.text("op")) {
        ("stream_mean", _) if law::says_something(facts, level) => {
            let (stores, threads) = (
                Stores::from_value(case.get("stores"))?,
                Threads::from_value(case.get("threads"))?,
            );
            law::stream_mean(facts, &Transfer::widest(Op::Copy, stores, level, threads))
        }
        ("copy_over_read", Some("copy")) if facts.known.is_none() => Ok(law::copy_over_read(level)),
        _ => return None,
    };
    Some(law.map_or_else(unknown, laws::Law::prediction))
}

/// The copy or read that a read or copy is checked against, alike but for the operation, where what
/// was measured of both cannot be at once.
pub(super) fn contradicted<'series>(
    series: &'series Series,
    of: &Transfer,
    rates: &BTreeMap<CaseId, f64>,
) -> Option<&'series Case> {
    let other = match (of.op, of.stores) {
        (Op::Read, Stores::Regular) => Op::Copy,
        (Op::Copy, Stores::Regular) => Op::Read,
        _ => return None,
    };
    let id = of.with_op(other).id();
    let rate = |op| rates.get(&of.with_op(op).id()).copied();
    let (copy, read) = (rate(Op::Copy)?, rate(Op::Read)?);
    let mut cases = series.cases.iter();
    cases.find(|case| case.id == id).filter(|_| contradicts(of.level, copy, read))
}

/// Whether a copy that moves so many bytes of the program per second moves more than anything
/// allows beside such a read of the same level: beyond the first cache by the bytes on the bus, in
/// it by the bytes that are loaded.
fn contradicts(level: Level, copy: f64, read: f64) -> bool {
    match level {
        Level::L1 => copy / 2.0 > read * law::LOADS_MOST,
        _ => 1.5 * copy > read * law::copy_over_read(level).range.high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_loads_what_no_read_does_is_a_contradiction() {
        // Program bytes; as measured here a copy moves 1.65 times a read's on the bus.
        for (level, copy, read, is_one) in [
            (Level::L2, 17.1, 15.5, false),
            (Level::L3, 6.0, 15.5, false),
            (Level::Memory, 25.0, 15.5, true),
            // In the first cache loads and stores have ports of their own: two loads' worth is all
            // there is.
            (Level::L1, 390.0, 200.0, false),
            (Level::L1, 450.0, 200.0, true),
        ] {
            assert_eq!(contradicts(level, copy, read), is_one, "{level:?} {copy} {read}");
        }
    }
}
