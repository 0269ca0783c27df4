//! plumb measures what the operations of a machine cost, predicts every figure before it measures
//! it, and writes the result as a lab report.
#![forbid(unsafe_code)]

mod cmd;
mod packed;
mod published;
mod sheet;

pub use cmd::main;
