//! Laws of files, a file per experiment; devices stand in `predict/device.rs`, what file systems do for
//! a change of names in `fs/journal.rs`.

pub(crate) mod cache_size;
pub(crate) mod contention;
pub(crate) mod io;
pub(crate) mod journal;
mod limit;
pub(crate) mod metadata;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod sync;

use crate::experiment::Known;
use record::key::CaseId;

/// Figures per second of an experiment whose cases tell rates (`iops`, `bandwidth`) or, of a window that is too
/// short for that name, bursts.
fn per_second<'known>(
    known: &'known Known,
    experiment: &'known str,
    [rate, burst]: [&'known str; 2],
) -> impl Iterator<Item = (&'known CaseId, f64)> {
    let bursts = known.of(experiment, burst);
    known.of(experiment, rate).chain(bursts)
}

/// The names of operations in a second and of their bytes.
const IOPS: [&str; 2] = ["iops", "burst_iops"];
const BANDWIDTH: [&str; 2] = ["bandwidth", "burst"];
