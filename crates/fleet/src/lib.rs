//! Many machines: a sweep over a fleet, its record, and which node or link is slower than its peers.
#![forbid(unsafe_code)]

pub mod engine;
pub mod hosts;
pub mod nodelist;
pub mod place;
pub mod sweep;
