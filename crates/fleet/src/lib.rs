//! Many machines: a sweep over a fleet, its record, and which node or link is slower than its peers.
#![forbid(unsafe_code)]

pub mod matchings;
pub mod model;
pub mod read;
pub mod sweep;
