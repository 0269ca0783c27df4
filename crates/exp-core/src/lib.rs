//! Experiments on clocks, the core and memory.
#![forbid(unsafe_code)]

use bench::experiment::{Card, Fields, Offer, Skip};
use record::case::{Case, Order, Series};

pub mod clock;
pub mod cpu;
pub mod memory;

/// Adds a case to the series of a name, which is returned; one that is absent to those skipped.
fn add<'offer>(
    offer: &'offer mut Offer,
    (card, name, order): (&Card, &str, Order),
    case: &impl Fields,
    absent: Option<Skip>,
) -> Option<&'offer mut Series> {
    if let Some(skip) = absent {
        offer.skipped.push((case.id(), skip));
        return None;
    }
    let series = offer.of(card, name, order);
    series.cases.push(Case::new(case.id()));
    Some(series)
}
