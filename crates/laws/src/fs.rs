//! Laws of files, a file per experiment; devices stand in `predict/device.rs`, what file systems do for
//! a change of names in `fs/journal.rs`.

pub mod cache_size;
pub mod contention;
pub mod io;
pub mod journal;
mod limit;
pub mod metadata;
pub mod read;
pub mod remote;
pub mod sync;

use bench::experiment::Known;
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
