//! The network: round trips, bandwidth and connections, on loopback against a second worker and,
//! same cases, against the hosts of `--peer`.

pub mod ends;
mod limit;
pub mod place;
mod threads;
pub mod usage;

use anyhow::Result;
use bench::experiment::{Offer, Skip};
use bench::measure::{Bench, Values};
use record::case::Case;
use record::event::Samples;
use stats::histogram::Histogram as Distribution;

/// An offer that leaves something to measure.
fn unless_empty(mut offer: Offer) -> Result<Offer, Skip> {
    if !offer.series.is_empty() || offer.skipped.is_empty() {
        return Ok(offer);
    }
    Err(offer.skipped.remove(0).1)
}

/// Writes events down, and beside them those that never ended: values known only to be long.
fn record_with_lost<'bench>(
    bench: &'bench mut Bench,
    case: &Case,
    metric: &str,
    values: Vec<f64>,
    lost: u64,
) -> Result<&'bench mut Samples> {
    if lost == 0 {
        return bench.record(case, metric, values);
    }
    let mut all = Distribution::default();
    values.iter().for_each(|value| all.record(*value));
    all.record_censored(lost);
    bench.record(case, metric, Values::counted(values, &all))
}

/// Puts values beside a figure's samples.
fn put<'name>(samples: &mut Samples, values: impl IntoIterator<Item = (&'name str, f64)>) {
    let values = values.into_iter();
    samples.quantities.extend(values.map(|(name, value)| (name.to_owned(), value)));
}

bench::family!(
    "net",
    "the network, on loopback and between hosts",
    hidden: false,
    [rtt, ping, bandwidth, connect, loaded, request]
);
