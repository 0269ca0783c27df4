//! plumb.
#![forbid(unsafe_code)]
mod host;
mod stats;

fn main() {}
