//! The network: round trips, bandwidth and connections, on loopback against a second worker and, same
//! cases, against the hosts of `--peer`.

pub mod ends;
pub mod place;
mod threads;
pub mod usage;

use bench::experiment::{Offer, Skip};
use record::event::Samples;

/// An offer that leaves something to measure.
fn unless_empty(mut offer: Offer) -> Result<Offer, Skip> {
    if !offer.series.is_empty() || offer.skipped.is_empty() {
        return Ok(offer);
    }
    Err(offer.skipped.remove(0).1)
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
