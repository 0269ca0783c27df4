//! Experiments on clocks, the core and memory.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md. METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

use bench::prelude::*;

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
    let series = offer.series_named(card, name, order);
    series.cases.push(Case::new(case.id()));
    Some(series)
}

/// Why this amount of memory is not available here, if so; `less` names what would take less.
fn too_much(site: &Site, needed: u64, less: &str) -> Option<Skip> {
    (needed > site.memory_bytes).then(|| {
        let [needed, most] = [needed, site.memory_bytes].map(|bytes| render(bytes as f64, Unit::B));
        Skip::because(format!(
            "needs {needed} of memory; {most} may be used (of the available memory and the control \
             group's limit)"
        ))
        .needs(format!("more free memory, a higher limit, or {less}"))
    })
}
