//! Many machines: a sweep over a fleet, its record, and which node or link is slower than its peers.
#![forbid(unsafe_code)]

pub mod kubernetes;
pub mod sweep;
