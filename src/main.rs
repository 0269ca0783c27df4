//! plumb measures what the operations of a machine cost.
#![forbid(unsafe_code)]
#![expect(dead_code, reason = "rooms are being joined")]

mod analysis;
mod cmd;
mod experiment;
mod experiments;
mod host;
mod link;
mod measure;
mod predict;
mod report;
mod session;
mod stats;
mod store;

fn main() {}
