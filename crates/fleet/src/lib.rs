//! Many machines: a sweep over a fleet, its record, and which node or link is slower than its peers.
#![forbid(unsafe_code)]

pub mod compare;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod matchings;
pub mod model;
pub mod read;
pub mod report;
pub mod sweep;
mod values;
