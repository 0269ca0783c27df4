//! Experiments on the network, and those that try the way through.
#![forbid(unsafe_code)]

pub mod net;
pub mod selftest;
