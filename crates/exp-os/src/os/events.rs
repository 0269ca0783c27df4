//! Events that are timed one by one, for the time of a case; and what several experiments lack
//! alike.

use bench::measure::Reading;
use bench::prelude::*;
use metal::clock::monotonic_raw_ns;

/// Descriptors that the worker keeps beside those of a case.
const OTHER_DESCRIPTORS: u64 = 64;

pub(super) struct Number {
    pub(super) rehearsal: usize,
    pub(super) least: usize,
    pub(super) most: usize,
}

/// The events that count, with the readings of the width probe.
pub(super) struct Events<T> {
    pub(super) kept: Vec<T>,
    readings: Vec<Reading>,
    /// How many were made, with those that do not count.
    pub(super) made: usize,
}

impl<T> Events<T> {
    /// Makes events for a case's time. `once` gives its event, if it counts, and its ns.
    pub(super) fn make(
        bench: &Bench,
        number: Number,
        mut once: impl FnMut() -> Result<(Option<T>, f64)>,
    ) -> Result<Events<T>> {
        let Number { rehearsal, least, most } = number;
        let (least, most) =
            if bench.order().rehearsal { (rehearsal, rehearsal) } else { (least, most) };
        let room = || (Vec::with_capacity(most), Vec::with_capacity(most));
        let ((mut kept, mut readings), mut made) = (room(), 0);
        let mut probes = bench.timer().watch();
        let until = monotonic_raw_ns() + bench.order().case_ns;
        while made < least || (made < most && monotonic_raw_ns() < until) {
            probes.begin();
            let (event, took_ns) = once()?;
            probes.batch(took_ns);
            made += 1;
            readings.extend(probes.end().filter(|_| event.is_some()));
            kept.extend(event);
        }
        Ok(Events { kept, readings, made })
    }

    /// Lengths of the events, in ns.
    pub(super) fn values(&self, ns: impl FnMut(&T) -> f64) -> Values<'static> {
        Values::events(self.kept.iter().map(ns).collect()).watched(self.readings.clone())
    }
}

/// The clock of children, which read the counter.
pub(super) fn counter(bench: &Bench) -> Result<Clock> {
    let clock = bench.order().clock();
    let is_counter = matches!(clock, Clock::Counter { .. });
    ensure!(is_counter, "a child process reads the counter, which is not reliable here");
    Ok(clock)
}

/// Why so many descriptors beside the worker's own cannot be open.
pub(super) fn too_few_files(site: &Site, own: u64, way: &str) -> Option<Skip> {
    let limit = site.host.limits.open_files.and_then(|limit| limit.soft)?;
    let needed = own + OTHER_DESCRIPTORS;
    (limit < needed).then(|| {
        Skip::because(format!("{limit} files may be open, {needed} are needed"))
            .needs(format!("`ulimit -n {needed}`, or {way}"))
    })
}
