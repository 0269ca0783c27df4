//! What fs.read measured of the same run, as fs.io's laws use it.

use super::Request;
use crate::fs::{BANDWIDTH, per_second};
use bench::experiment::Known;
use record::key::CaseId;

/// Bytes per ns that fs.read had of its largest file in a row, read ahead: the device's stream.
pub(super) fn streamed(known: &Known) -> Option<f64> {
    let is_it = |case: &CaseId| {
        case.text("pattern") == Some("sequential") && case.text("mode") == Some("cold")
    };
    let of = per_second(known, "fs.read", BANDWIDTH);
    let like = of.filter(|(case, rate)| is_it(case) && *rate > 0.0);
    let (_, rate) = like.max_by_key(|(case, _)| case.int("size"))?;
    Some(rate / 1e9)
}

/// CPU time of such a block read past the cache by fs.read, in ns.
pub(super) fn measured_cpu(known: &Known, request: &Request) -> Option<f64> {
    (request.mode == "direct").then(|| figure_of(known, request, "cpu")).flatten()
}

/// What fs.read measured of a page read this way, of its largest file, in ns.
pub(super) fn measured(known: &Known, request: &Request) -> Option<f64> {
    figure_of(known, request, "latency")
}

fn figure_of(known: &Known, request: &Request, metric: &str) -> Option<f64> {
    if !request.is_read {
        return None;
    }
    let pattern = if request.is_random { "random" } else { "sequential" };
    let is_it = |case: &CaseId| {
        case.text("pattern") == Some(pattern) && case.text("mode") == Some(request.mode)
    };
    let of = known.of("fs.read", metric);
    let like = of.filter(|(case, ns)| is_it(case) && *ns > 0.0);
    let (_, ns) = like.max_by_key(|(case, _)| case.int("size"))?;
    Some(ns)
}
