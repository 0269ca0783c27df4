//! Experiments on the network, and those that try the way through.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md.
#![forbid(unsafe_code)]

pub mod net;
pub mod selftest;
