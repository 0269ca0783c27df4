//! The lab report: a [`document`] built from a run, and renderers of it; JSON, CSV and OpenMetrics
//! render the figures themselves. Only this room scales values.

mod braille;
pub(crate) mod build;
pub(crate) mod compare_csv;
pub(crate) mod compare_json;
pub(crate) mod csv;
pub(crate) mod document;
pub(crate) mod html;
pub(crate) mod json;
mod lanes;
pub(crate) mod markdown;
pub(crate) mod openmetrics;
mod plain;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod trend;
mod values;

pub(crate) use values::{counted, shell};
