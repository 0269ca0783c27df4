//! Memory: latency, bandwidth, nodes, faults.

mod arrays;
mod levels;
mod probe;
mod reports;

use bench::measure::placed::is_without_room;
use bench::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

bench::family!(
    "memory",
    "main memory and its caches: load latency, bandwidth, both under load and between nodes, page faults",
    hidden: false,
    [
        latency,
        bandwidth,
        loaded,
        mlp,
        numa,
        fault,
    ]
);

/// What a thread holds that panicked is as good as before, or not used again: its team has failed
/// with it.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what [`locked`] does, for a value without other owners.
fn unlocked<T>(of: Mutex<T>) -> T {
    of.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What was made; nothing where there is no room for it, and the series is given up for that
/// reason.
fn unless_without_room<T>(
    made: Result<T>,
    series: &Series,
    bench: &mut Bench,
) -> Result<Option<T>> {
    match made {
        Err(error) if is_without_room(&error) => {
            bench.give_up(series, &error);
            Ok(None)
        }
        made => made.map(Some),
    }
}

#[cfg(test)]
fn rehearsal(series: Series) -> RoundOrder {
    use bench::experiment::fixtures::{calibrated, rehearsal};
    let cpus = metal::place::allowed().expect("CPUs");
    let calibration = calibrated(cpus[0]);
    rehearsal(series, cpus, calibration)
}
