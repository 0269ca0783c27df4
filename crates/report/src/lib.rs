//! The lab report: a [`document`] built from a run, and renderers of it; JSON, CSV and OpenMetrics
//! render the figures themselves. Only this room scales values.
#![forbid(unsafe_code)]

pub mod build;
mod columns;
pub mod compare_csv;
pub mod compare_json;
pub mod csv;
pub mod document;
pub mod html;
pub mod json;
pub mod markdown;
pub mod ndjson;
pub mod notes;
pub mod openmetrics;
mod plain;
mod svg;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod trend;
mod values;

pub use values::{counted, percent, shell};

/// A text that a build script packed.
pub fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(packed);
    std::io::Read::read_to_string(&mut decoder, &mut text).expect("gzip of a text");
    text
}
