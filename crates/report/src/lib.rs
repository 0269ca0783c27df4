//! The lab report: a [`document`] built from a run, and renderers of it; JSON, CSV and OpenMetrics
//! render the figures themselves. Only this room scales values.
#![forbid(unsafe_code)]

mod braille;
pub mod build;
pub mod compare_csv;
pub mod compare_json;
pub mod csv;
pub mod document;
pub mod html;
pub mod json;
mod lanes;
pub mod markdown;
pub mod openmetrics;
mod plain;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod trend;
mod values;
pub mod watch;

pub use values::{counted, shell};
