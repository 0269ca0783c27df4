//! plumb measures what the operations of a machine cost, predicts every figure before it measures
//! it, and writes the result as a lab report.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md. METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

mod cmd;
mod imported;
mod packed;
mod published;
mod sheet;

pub use cmd::main;
