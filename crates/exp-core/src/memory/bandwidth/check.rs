//! A copy against the read of its kind: what both say must be possible at once.

use super::points::Point;
use laws::memory::bandwidth as law;
use record::case::{Case, Series};
use record::key::CaseId;
use std::collections::BTreeMap;

/// The copy or read that a read or copy is checked against: alike but for the operation.
pub(super) fn counterpart<'series>(series: &'series Series, case: &Case) -> Option<&'series Case> {
    let mut wanted = Point::of(&case.id)?;
    wanted.transfer.op = match (wanted.transfer.op, wanted.transfer.stores) {
        ("read", "regular") => "copy",
        ("copy", "regular") => "read",
        _ => return None,
    };
    let id = wanted.id();
    series.cases.iter().find(|case| case.id == id)
}

/// Whether what was measured of a case and its counterpart cannot both be.
pub(super) fn contradicted(series: &Series, case: &Case, rates: &BTreeMap<CaseId, f64>) -> bool {
    let both = || {
        let other = rates.get(&counterpart(series, case)?.id)?;
        let one = rates.get(&case.id)?;
        let level = case.text("level")?;
        Some(match case.text("op") {
            Some("copy") => contradicts(level, *one, *other),
            _ => contradicts(level, *other, *one),
        })
    };
    both().unwrap_or(false)
}

/// Whether a copy that moves so many bytes of the program per second moves more than anything allows
/// beside such a read of the same level: beyond the first cache by the bytes on the bus, in it by the
/// bytes that are loaded.
pub(super) fn contradicts(level: &str, copy: f64, read: f64) -> bool {
    match level {
        "L1" => copy / 2.0 > read * law::LOADS_MOST,
        _ => {
            let bus = copy * law::Transfer::widest("copy", "regular").bus_ratio();
            bus > read * law::copy_over_read(level).range.high
        }
    }
}
